package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// A Tombstone says that a document is dead. It is 8 bytes, the LSN of the death; 9 bytes
// once the document is cleared: the vectors of its version are removed; or 32 bytes where
// the row of the document went with its chunk before that: the version stands in it then.
type Tombstone struct {
	LSN     uint64  // of the death
	Cleared bool    // only a document in a sealed chunk keeps its tombstone then
	Of      Version // zero where a row or a forward record tells it
}

const (
	tombstoneSize    = 8
	tombstoneCleared = 1
)

// Encode returns the value of KindTombstone.
func (t *Tombstone) Encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, tombstoneSize+versionSize), t.LSN)
	switch {
	case t.Cleared:
		return append(b, tombstoneCleared)
	case t.Of != Version{}:
		b = binary.BigEndian.AppendUint64(b, t.Of.Seq)
		b = binary.BigEndian.AppendUint32(b, t.Of.Owner)
		b = binary.BigEndian.AppendUint64(b, t.Of.Born)
		b = binary.BigEndian.AppendUint32(b, t.Of.Change)
	}
	return b
}

// DecodeTombstone reads what Encode wrote. It returns ErrCorrupt for bytes of another form.
func DecodeTombstone(b []byte) (t Tombstone, err error) {
	switch {
	case len(b) == tombstoneSize:
	case len(b) == tombstoneSize+1 && b[tombstoneSize] == tombstoneCleared:
		t.Cleared = true
	case len(b) == tombstoneSize+versionSize && binary.BigEndian.Uint64(b[tombstoneSize:]) != 0:
		of := b[tombstoneSize:]
		t.Of = Version{
			Seq: binary.BigEndian.Uint64(of), Owner: binary.BigEndian.Uint32(of[8:]),
			Born: binary.BigEndian.Uint64(of[12:]), Change: binary.BigEndian.Uint32(of[20:]),
		}
	default:
		return t, &fault.Error{Kind: fault.ErrCorrupt, What: "read a tombstone", Why: "it is malformed", Do: "run check"}
	}
	t.LSN = binary.BigEndian.Uint64(b)
	return t, nil
}
