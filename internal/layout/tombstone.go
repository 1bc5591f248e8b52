package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// A tombstone is 8 bytes, the LSN of a document's death, or 9 bytes once the document is
// cleared: the vectors of its version are removed. Only a document in a sealed chunk keeps
// its tombstone then.
const (
	tombstoneSize    = 8
	tombstoneCleared = 1
)

// EncodeTombstone returns the value of KindTombstone. lsn is the LSN of the death; cleared
// says that the vectors of the document's version are removed.
func EncodeTombstone(lsn uint64, cleared bool) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, tombstoneSize+1), lsn)
	if cleared {
		b = append(b, tombstoneCleared)
	}
	return b
}

// DecodeTombstone reads what EncodeTombstone wrote. It returns ErrCorrupt for bytes of
// another form.
func DecodeTombstone(b []byte) (lsn uint64, cleared bool, err error) {
	cleared = len(b) == tombstoneSize+1 && b[tombstoneSize] == tombstoneCleared
	if len(b) != tombstoneSize && !cleared {
		return 0, false, &fault.Error{Kind: fault.ErrCorrupt, What: "read a tombstone", Why: "it is malformed", Do: "run check"}
	}
	return binary.BigEndian.Uint64(b), cleared, nil
}
