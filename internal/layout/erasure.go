package layout

import (
	"bytes"
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// ErasureKey is the key of the erasure that has begun and has not ended.
var ErasureKey = metaKey("erasure")

// PurgeKey is the key that a replica has once it has followed an erasure to its end, until its own files
// have nothing of what was erased.
var PurgeKey = metaKey("purge")

// ErasedKey has the reports of erasures that ended while nobody waited for them.
var ErasedKey = metaKey("erased")

// The versions of a stored erasure. The first one has nothing behind Counts.
const (
	erasureVersionBare = 1
	erasureVersion     = 2
)

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
	// Asked is a fingerprint of what was asked for: two bytes of a hash, which many names share.
	Asked uint32
	// Commits are the LSNs of the commits that wrote or deleted the memories of Seqs, Archives those of
	// Seqs that are summaries with other content, which are written again without the erased. Traces are
	// what the log has of them in other structures, once the log was read. They are empty once Rewriting.
	Commits  []uint64
	Archives []uint64
	Traces   []byte
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
	b = appendUvarints(b, e.Seqs)
	b = binary.AppendUvarint(b, uint64(len(e.Counts)))
	for _, n := range e.Counts {
		b = binary.AppendVarint(b, n)
	}
	b = binary.AppendUvarint(b, uint64(e.Asked))
	b = appendUvarints(appendUvarints(b, e.Commits), e.Archives)
	return codec.AppendBytes(b, e.Traces)
}

func appendUvarints(b []byte, all []uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, n := range all {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func readUvarints(r *codec.Reader) (all []uint64) {
	for range r.Count() {
		all = append(all, r.Uvarint())
	}
	return all
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
	e.Seqs = readUvarints(r)
	for range r.Count() {
		e.Counts = append(e.Counts, r.Varint())
	}
	if v != erasureVersionBare {
		e.Asked, e.Commits, e.Archives, e.Traces = r.Uint32(), readUvarints(r), readUvarints(r), bytes.Clone(r.Bytes())
	}
	if r.Err() != nil || r.Len() > 0 || v != erasureVersion && v != erasureVersionBare {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read which erasure has begun", Cause: r.Err(), Do: "run check"}
	}
	return e, nil
}
