package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// ErasureKey is the key of the erasure that has begun and has not ended.
var ErasureKey = metaKey("erasure")

// PurgeKey is the key that a replica has once it has followed an erasure to its end, until its own files
// have nothing of what was erased.
var PurgeKey = metaKey("purge")

const erasureVersion = 1

// Erasure says what is being erased, in numbers alone: a database that was killed in the midst of
// it goes on by them.
type Erasure struct {
	LSN    uint64 // of the commit that began it
	At     int64  // of that commit, Unix milliseconds
	Owners []uint32
	// Seqs are the memories that are erased, nil for all that the owners have.
	Seqs []uint64
	// Rewriting: what is to go is deleted, and the files are still to be rewritten.
	Rewriting bool
	// Counts are how much it was, in the order that package engine has.
	Counts []int64
	// Fields is how many of the names of metadata fields that were indexed stay.
	Fields uint32
}

// Encode returns the value that is stored under ErasureKey.
func (e *Erasure) Encode() []byte {
	b := binary.AppendUvarint([]byte{erasureVersion}, e.LSN)
	b = binary.AppendVarint(b, e.At)
	rewriting := byte(0)
	if e.Rewriting {
		rewriting = 1
	}
	b = append(b, rewriting)
	b = binary.AppendUvarint(b, uint64(e.Fields))
	b = binary.AppendUvarint(b, uint64(len(e.Owners)))
	for _, o := range e.Owners {
		b = binary.AppendUvarint(b, uint64(o))
	}
	b = binary.AppendUvarint(b, uint64(len(e.Seqs)))
	for _, s := range e.Seqs {
		b = binary.AppendUvarint(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(e.Counts)))
	for _, n := range e.Counts {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// DecodeErasure reads what Encode wrote. It returns ErrCorrupt for damaged bytes and for an unknown
// version.
func DecodeErasure(b []byte) (*Erasure, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	e := &Erasure{LSN: r.Uvarint(), At: r.Varint(), Rewriting: r.Byte() == 1, Fields: r.Uint32()}
	for range r.Count() {
		e.Owners = append(e.Owners, r.Uint32())
	}
	for range r.Count() {
		e.Seqs = append(e.Seqs, r.Uvarint())
	}
	for range r.Count() {
		e.Counts = append(e.Counts, r.Varint())
	}
	if r.Err() != nil || r.Len() > 0 || v != erasureVersion {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read which erasure has begun", Cause: r.Err(), Do: "run check"}
	}
	return e, nil
}
