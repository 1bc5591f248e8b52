package layout

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// StatsMergerName never changes: the store writes the name of its merger into its
// options, and refuses to open a database that has another name there.
const StatsMergerName = "memdb.stats.v1"

// The first byte of an encoded Access is its version: without a debt, with one, and with a lease
// as well.
const (
	statsVersion      = 1
	statsVersionDebt  = 2
	statsVersionLease = 3
)

// Access is how often a memory was recalled, when it was last recalled, and what
// consolidations had taken of its confidence by then. Both what an [AccessFold] takes and what
// comes out are encoded Accesses.
type Access struct {
	Count uint64
	Last  int64 // Unix milliseconds
	// Debt is in the steps of package policy; an operand may take back an earlier one's.
	// Folded is the LSN up to which consolidations are in it.
	Debt   int64
	Folded uint64
	Lease  Lease
}

// A Lease moves the expiry of a version to a later time, because it was read. It ends with the
// version: the next one has an expiry of its own.
type Lease struct {
	Of    uint64 // the LSN at which the version was born, 0: no lease
	Until int64  // Unix milliseconds
}

// later returns the lease of the newer version, or of one version the longer lease.
func (l Lease) later(m Lease) Lease {
	if m.Of > l.Of || m.Of == l.Of && m.Until > l.Until {
		return m
	}
	return l
}

// Fold returns the sums of the counts and of the debts, and the later of the times, of the LSNs
// and of the leases. Fold is commutative and associative: the store merges operands in any
// grouping, and what a reader sees must not depend on which compactions have run.
func (a Access) Fold(b Access) Access {
	return Access{a.Count + b.Count, max(a.Last, b.Last), a.Debt + b.Debt, max(a.Folded, b.Folded), a.Lease.later(b.Lease)}
}

// Encode returns the value that is stored under Keys.Stats, of the lowest version that holds it.
func (a Access) Encode() []byte {
	version := byte(statsVersion)
	switch {
	case a.Lease != Lease{}:
		version = statsVersionLease
	case a.Debt != 0 || a.Folded != 0:
		version = statsVersionDebt
	}
	b := binary.AppendUvarint([]byte{version}, a.Count)
	b = binary.AppendVarint(b, a.Last)
	if version == statsVersion {
		return b
	}
	b = binary.AppendVarint(b, a.Debt)
	b = binary.AppendUvarint(b, a.Folded)
	if version == statsVersionDebt {
		return b
	}
	b = binary.AppendUvarint(b, a.Lease.Of)
	return binary.AppendVarint(b, a.Lease.Until)
}

// DecodeAccess reads what Encode wrote. It returns ErrCorrupt for damaged bytes and for an
// unknown version.
func DecodeAccess(b []byte) (Access, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	a := Access{Count: r.Uvarint(), Last: r.Varint()}
	if v >= statsVersionDebt {
		a.Debt, a.Folded = r.Varint(), r.Uvarint()
	}
	if v == statsVersionLease {
		a.Lease = Lease{r.Uvarint(), r.Varint()}
	}
	if r.Err() != nil || v < statsVersion || v > statsVersionLease {
		return Access{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read access statistics", Cause: r.Err()}
	}
	return a, nil
}

// AccessFold folds the Accesses of a memory inside the store, so that a recall writes an
// operand and reads nothing. It never drops a key: a merger that deletes makes the store's
// background compactions fail. Nor does it return an error, which would fail a compaction: a
// damaged operand makes the result that operand, and the next reader of the value reports it.
type AccessFold struct {
	sum Access
	raw []byte // the last operand that is damaged or has an unknown version; nil if there is none
}

// NewAccessFold begins with one operand.
func NewAccessFold(value []byte) *AccessFold {
	a, err := DecodeAccess(value)
	if err != nil {
		return &AccessFold{raw: slices.Clone(value)}
	}
	return &AccessFold{sum: a}
}

func (f *AccessFold) add(value []byte) {
	if a, err := DecodeAccess(value); err != nil {
		f.raw = slices.Clone(value)
	} else {
		f.sum = f.sum.Fold(a)
	}
}

// MergeNewer adds an operand that is newer than those before.
func (f *AccessFold) MergeNewer(value []byte) error { f.add(value); return nil }

// MergeOlder adds an operand that is older: which of them comes first does not matter.
func (f *AccessFold) MergeOlder(value []byte) error { f.add(value); return nil }

// Finish returns what came of the operands.
func (f *AccessFold) Finish(bool) ([]byte, io.Closer, error) {
	if f.raw != nil {
		return f.raw, nil, nil
	}
	return f.sum.Encode(), nil, nil
}
