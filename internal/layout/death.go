package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// historyVersion is the first byte of a history entry.
const historyVersion = 1

// Death is the entry of a delete.
type Death struct {
	At     int64
	Born   uint64 // with change: the version that died
	Change uint32
}

func (d Death) Encode() []byte {
	b := []byte{historyVersion}
	b = binary.AppendVarint(b, d.At)
	b = binary.AppendUvarint(b, d.Born)
	return binary.AppendUvarint(b, uint64(d.Change))
}

func DecodeDeath(b []byte) (Death, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	d := Death{r.Varint(), r.Uvarint(), r.Uint32()}
	if r.Err() != nil || v != historyVersion {
		return Death{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read a history entry", Cause: r.Err()}
	}
	return d, nil
}
