package engine

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
)

// statsMergerName is in the store's options for ever: it opens no database that
// was written under another.
const statsMergerName = "memdb.stats.v1"

// statsVersion is the first byte of an operand.
const statsVersion = 1

// access is how often and when a memory was last recalled: the operand and the
// value of the stats merger.
type access struct {
	count uint64
	last  int64 // milliseconds
}

// fold is commutative and associative, so that the store may merge operands in
// any grouping, and a view never depends on which compactions have run.
func (a access) fold(b access) access {
	return access{a.count + b.count, max(a.last, b.last)}
}

func (a access) encode() []byte {
	b := binary.AppendUvarint([]byte{statsVersion}, a.count)
	return binary.AppendVarint(b, a.last)
}

func decodeAccess(b []byte) (access, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	a := access{r.Uvarint(), r.Varint()}
	if r.Err() != nil || v != statsVersion {
		return access{}, &Error{Kind: ErrCorrupt, What: "read access statistics", Cause: r.Err()}
	}
	return a, nil
}

// statsMerger folds operands and never drops a key: a merger that deletes makes
// the store's background compactions fail.
var statsMerger = &pebble.Merger{
	Name: statsMergerName,
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		a, err := decodeAccess(value)
		if err != nil {
			// Kept as it is: damage is reported by whoever reads the value.
			return &accessFold{raw: slices.Clone(value)}, nil
		}
		return &accessFold{sum: a}, nil
	},
}

type accessFold struct {
	sum access
	raw []byte // an operand that is damaged or of an unknown version
}

func (f *accessFold) add(value []byte) error {
	a, err := decodeAccess(value)
	if err != nil {
		f.raw = slices.Clone(value)
		return nil
	}
	f.sum = f.sum.fold(a)
	return nil
}

func (f *accessFold) MergeNewer(value []byte) error { return f.add(value) }
func (f *accessFold) MergeOlder(value []byte) error { return f.add(value) }

func (f *accessFold) Finish(bool) ([]byte, io.Closer, error) {
	if f.raw != nil {
		return f.raw, nil, nil
	}
	return f.sum.encode(), nil, nil
}
