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

// The first byte of an encoded Access says its version: one without a debt, or one with.
const (
	statsVersion     = 1
	statsVersionDebt = 2
)

// Access is how often a memory was recalled, when it was last recalled, and what
// consolidations had taken of its confidence by then. Both the operands and the values of
// StatsMerger are encoded Accesses.
type Access struct {
	Count uint64
	Last  int64 // Unix milliseconds
	// Debt is in the steps of package policy; an operand may take back an earlier one's.
	// Folded is the LSN up to which consolidations are in it.
	Debt   int64
	Folded uint64
}

// Fold returns the sums of the counts and of the debts, and the later of the times and of
// the LSNs. Fold is commutative and associative: the store merges operands in any
// grouping, and what a reader sees must not depend on which compactions have run.
func (a Access) Fold(b Access) Access {
	return Access{a.Count + b.Count, max(a.Last, b.Last), a.Debt + b.Debt, max(a.Folded, b.Folded)}
}

// Encode returns the value that is stored under Keys.Stats: of version 1 where there is no
// debt.
func (a Access) Encode() []byte {
	version := byte(statsVersion)
	if a.Debt != 0 || a.Folded != 0 {
		version = statsVersionDebt
	}
	b := binary.AppendUvarint([]byte{version}, a.Count)
	b = binary.AppendVarint(b, a.Last)
	if version == statsVersion {
		return b
	}
	b = binary.AppendVarint(b, a.Debt)
	return binary.AppendUvarint(b, a.Folded)
}

// DecodeAccess reads what Encode wrote. It returns ErrCorrupt for damaged bytes and for an
// unknown version.
func DecodeAccess(b []byte) (Access, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	a := Access{Count: r.Uvarint(), Last: r.Varint()}
	if v == statsVersionDebt {
		a.Debt, a.Folded = r.Varint(), r.Uvarint()
	}
	if r.Err() != nil || v != statsVersion && v != statsVersionDebt {
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
