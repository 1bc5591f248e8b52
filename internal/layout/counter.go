package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Counter is the key of what a part counts for an owner under one of its kinds.
func (ks *Keys) Counter(kind byte, owner uint32) []byte {
	return binary.BigEndian.AppendUint32(append(ks.Header(KindCounter, 5), kind), owner)
}

// ParseCounterKey reads a key of a counter.
func ParseCounterKey(k []byte) (kind byte, owner uint32, ok bool) {
	if len(k) != KeyHeader+5 {
		return 0, 0, false
	}
	return k[KeyHeader], binary.BigEndian.Uint32(k[KeyHeader+1:]), true
}

// counterVersion is the first byte of a counter.
const counterVersion = 1

// EncodeCounter returns the value of a counter.
func EncodeCounter(n int64) []byte { return binary.AppendVarint([]byte{counterVersion}, n) }

// DecodeCounter reads what EncodeCounter wrote.
func DecodeCounter(b []byte) (int64, error) {
	r := codec.NewReader(b)
	v, n := r.Byte(), r.Varint()
	if r.Err() != nil || r.Len() > 0 || v != counterVersion {
		return 0, &fault.Error{Kind: fault.ErrCorrupt, What: "read a counter", Cause: r.Err(), Do: "run check"}
	}
	return n, nil
}
