package layout

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// statsMergerName never changes: the store writes the name of its merger into its
// options, and refuses to open a database that has another name there.
const statsMergerName = "memdb.stats.v1"

// statsVersion is the first byte of an encoded Access.
const statsVersion = 1

// Access is how often a memory was recalled, and when it was last recalled. Both the
// operands and the values of StatsMerger are encoded Accesses.
type Access struct {
	Count uint64
	Last  int64 // Unix milliseconds
}

// Fold returns the sum of the counts and the later of the times. Fold is commutative and
// associative: the store merges operands in any grouping, and what a reader sees must not
// depend on which compactions have run.
func (a Access) Fold(b Access) Access {
	return Access{a.Count + b.Count, max(a.Last, b.Last)}
}

// Encode returns the value that is stored under Keys.Stats.
func (a Access) Encode() []byte {
	b := binary.AppendUvarint([]byte{statsVersion}, a.Count)
	return binary.AppendVarint(b, a.Last)
}

// DecodeAccess reads what Encode wrote. It returns ErrCorrupt for damaged bytes and for an
// unknown version.
func DecodeAccess(b []byte) (Access, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	a := Access{r.Uvarint(), r.Varint()}
	if r.Err() != nil || v != statsVersion {
		return Access{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read access statistics", Cause: r.Err()}
	}
	return a, nil
}

// StatsMerger folds the Accesses of a memory inside the store, so that a recall writes an
// operand and reads nothing. StatsMerger never drops a key: a merger that deletes makes the
// store's background compactions fail.
var StatsMerger = &pebble.Merger{
	Name: statsMergerName,
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		a, err := DecodeAccess(value)
		if err != nil {
			// The operand is kept as it is: an error here would fail a compaction, and the
			// next reader of the value reports the damage.
			return &accessFold{raw: slices.Clone(value)}, nil
		}
		return &accessFold{sum: a}, nil
	},
}

// accessFold is the merge of one key. A single damaged operand makes the result that
// operand, so that the damage stays visible.
type accessFold struct {
	sum Access
	raw []byte // the last operand that is damaged or has an unknown version; nil if there is none
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
