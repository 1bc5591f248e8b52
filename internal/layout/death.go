package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// historyVersion is the first byte of an encoded Death.
const historyVersion = 1

// Death is the history entry of a delete. Adds and updates need no entry: their records
// are the history.
type Death struct {
	At     int64  // Unix milliseconds
	Born   uint64 // Born and Change name the version that died, see Version
	Change uint32
}

// Encode returns the value that is stored under Keys.History.
func (d Death) Encode() []byte {
	b := []byte{historyVersion}
	b = binary.AppendVarint(b, d.At)
	b = binary.AppendUvarint(b, d.Born)
	return binary.AppendUvarint(b, uint64(d.Change))
}

// DecodeDeath reads what Encode wrote. It returns ErrCorrupt for damaged bytes and for an
// unknown version.
func DecodeDeath(b []byte) (Death, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	d := Death{r.Varint(), r.Uvarint(), r.Uint32()}
	if r.Err() != nil || v != historyVersion {
		return Death{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read a history entry", Cause: r.Err()}
	}
	return d, nil
}
