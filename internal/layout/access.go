package layout

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// statsMergerName is in the store's options for ever: it opens no database that
// was written under another.
const statsMergerName = "memdb.stats.v1"

// statsVersion is the first byte of an operand.
const statsVersion = 1

// Access is how often and when a memory was last recalled: the operand and the
// value of the stats merger.
type Access struct {
	Count uint64
	Last  int64 // milliseconds
}

// Fold is commutative and associative, so that the store may merge operands in
// any grouping, and a view never depends on which compactions have run.
func (a Access) Fold(b Access) Access {
	return Access{a.Count + b.Count, max(a.Last, b.Last)}
}

func (a Access) Encode() []byte {
	b := binary.AppendUvarint([]byte{statsVersion}, a.Count)
	return binary.AppendVarint(b, a.Last)
}

func DecodeAccess(b []byte) (Access, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	a := Access{r.Uvarint(), r.Varint()}
	if r.Err() != nil || v != statsVersion {
		return Access{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read access statistics", Cause: r.Err()}
	}
	return a, nil
}

// statsMerger folds operands and never drops a key: a merger that deletes makes
// the store's background compactions fail.
var StatsMerger = &pebble.Merger{
	Name: statsMergerName,
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		a, err := DecodeAccess(value)
		if err != nil {
			// Kept as it is: damage is reported by whoever reads the value.
			return &accessFold{raw: slices.Clone(value)}, nil
		}
		return &accessFold{sum: a}, nil
	},
}

type accessFold struct {
	sum Access
	raw []byte // an operand that is damaged or of an unknown version
}

func (f *accessFold) add(value []byte) error {
	a, err := DecodeAccess(value)
	if err != nil {
		f.raw = slices.Clone(value)
		return nil
	}
	f.sum = f.sum.Fold(a)
	return nil
}

func (f *accessFold) MergeNewer(value []byte) error { return f.add(value) }
func (f *accessFold) MergeOlder(value []byte) error { return f.add(value) }

func (f *accessFold) Finish(bool) ([]byte, io.Closer, error) {
	if f.raw != nil {
		return f.raw, nil, nil
	}
	return f.sum.Encode(), nil, nil
}
