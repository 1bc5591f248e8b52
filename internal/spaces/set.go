// Package spaces holds the vectors of a database: a space of them for each model, its index in RAM
// with the way to documents and back, its loading, linking, snapshots and rebuild.
package spaces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Limits are the sizes at which the handling of vectors changes.
type Limits struct {
	// Exhaustive is the size of a scope up to which every memory is scored by
	// every signal.
	Exhaustive int
	// Crossover is the number of vectors from which on a graph is built.
	Crossover int
	// Up to UnlinkedSoft vectors wait for a pause between writes to be linked: a
	// search that scores them one by one takes a millisecond or less for it. While
	// nobody searches, up to UnlinkedIdle do: a search then takes up to a hundred
	// milliseconds until they are linked. At UnlinkedMost writers wait.
	UnlinkedSoft, UnlinkedIdle, UnlinkedMost int
	// SaveTail is the least number of vectors that have come, gone or been linked
	// before a snapshot is written; where a share of all vectors is more (saveShare,
	// addedShare), that.
	// CloseTail is the least for Close. What is not in a snapshot is read from the
	// store by the next Open, and linked again.
	SaveTail, CloseTail uint64
	// Codes are the bytes of codes of a space that are kept in memory, Blocks those of the
	// blocks by which walks over its graph go, Rows those of float32 vectors; 0: their share
	// of the budget; below 0: none.
	Codes, Blocks, Rows int64
	// BlocksFrom is the number of vectors from which on there are blocks: of fewer a search
	// looks at all.
	BlocksFrom int
	// Sketched is the number of vectors from which on those in memory have sketches: the
	// codes of fewer stay in a processor's caches.
	Sketched int
	// FillLeast is how many vectors searches must have read from the store before all
	// are read.
	FillLeast int64
}

// DefaultLimits are those of every database but of tests.
func DefaultLimits() Limits {
	return Limits{
		Exhaustive: 20_000, Crossover: hnsw.Crossover,
		UnlinkedSoft: 1 << 15, UnlinkedIdle: 1 << 20, UnlinkedMost: 5 << 18,
		SaveTail: 1 << 16, CloseTail: 1 << 10, Sketched: 1 << 13, FillLeast: 1 << 8, BlocksFrom: 100_000,
	}
}

// A snapshot may lack the links of one vector in saveShare, which is a hundred times the
// work of reading it, and one in addedShare altogether: while many come and none is
// linked, a snapshot is written when they have doubled, not for each eighth.
const (
	saveShare  = 8
	addedShare = 2
)

// Host is what spaces need of the database that they are in.
type Host struct {
	Store    *store.Store
	Tables   *state.Tables
	Dir      string
	Logger   *slog.Logger
	ReadOnly bool
	Limits   Limits
	// Codes, Blocks and Rows are the bytes of memory for the codes of each space's vectors,
	// for the blocks of each, and for float32 vectors that searches have read.
	Codes, Blocks, Rows int64

	ID func() [16]byte // the database's
	// View calls fn with the newest state that readers see.
	View func(ctx context.Context, fn func(*state.State) error) error
	// Lock takes the writer lock for work behind the calls.
	Lock   func(context.Context) error
	Unlock func()
	// Applied is the LSN of the newest commit, Durable waits for one to be on disk.
	Applied func() uint64
	Durable func(lsn uint64) error
	// Used reports whether a chunk may have documents. The lock is held.
	Used func(chunk uint16) bool
	// Lost is told of what Open could not read.
	Lost func(what string, err error)
	// Replaced is told that the index of a space was replaced by another.
	Replaced func()
}

// Set are the spaces of a database; the writer adds, readers look up.
type Set struct {
	Host
	Linker  *Linker
	Lexical *Lexical // set before the first search
	rows    *hnsw.RowBudget
	loading *loader

	mu     sync.RWMutex
	byName map[string]*Space
	byNum  map[uint16]*Space
}

// NewSet has no space yet.
func NewSet(h Host) *Set {
	ss := &Set{Host: h, rows: hnsw.NewRowBudget(h.Rows), byName: map[string]*Space{}, byNum: map[uint16]*Space{}}
	ss.Linker = newLinker(ss)
	return ss
}

// RowBytes is the memory of the float32 vectors that searches have read.
func (ss *Set) RowBytes() int64 { return ss.rows.Bytes() }

func (ss *Set) keys() *layout.Keys { return ss.Tables.NewestKeys.Load() }

// Named is the space of a name, nil if there is none.
func (ss *Set) Named(name string) *Space {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	return ss.byName[name]
}

// Numbered is the space of a number, nil if there is none.
func (ss *Set) Numbered(num uint16) *Space {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	return ss.byNum[num]
}

// All are the spaces by their numbers.
func (ss *Set) All() []*Space {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	all := make([]*Space, 0, len(ss.byNum))
	for _, s := range ss.byNum {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Space) int { return int(a.Num) - int(b.Num) })
	return all
}

// Add has readers see a space, which may take the place of one with its number.
func (ss *Set) Add(s *Space) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.byName[s.Name], ss.byNum[s.Num] = s, s
}

// Remove takes a space back.
func (ss *Set) Remove(s *Space) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.byName, s.Name)
	delete(ss.byNum, s.Num)
}

// At is the space of a name as of an LSN, nil if there is none.
func (ss *Set) At(name string, lsn uint64) *Space {
	if s := ss.Named(name); s != nil && s.Born <= lsn {
		return s
	}
	return nil
}

// Known refuses the name of a space that nothing was ever stored in, but for the
// default one, in which the first vector may still come.
func (ss *Set) Known(name string) error {
	if name == memory.DefaultSpace || ss.Named(name) != nil {
		return nil
	}
	names := []string{memory.DefaultSpace}
	for _, s := range ss.All() {
		if s.Name != memory.DefaultSpace {
			names = append(names, s.Name)
		}
	}
	return fault.Invalid("recall", fmt.Sprintf("there is no vector space %q", valid.Short(name)), "name one that there is: "+strings.Join(names, ", "))
}

// New is a space without vectors, which [Set.Add] shows.
func (ss *Set) New(num uint16, name string, dim int, metric hnsw.Metric, model string) (*Space, error) {
	s := &Space{Num: num, Name: name, Dim: dim, Metric: metric, Model: model, File: ss.newCodesFile(num), set: ss}
	index, err := hnsw.New(ss.IndexConfig(s))
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrInvalid, What: "open the vector space " + name, Cause: err}
	}
	s.Index = index
	return s, nil
}

// IndexConfig is that of a space's index, new or read from a snapshot.
func (ss *Set) IndexConfig(s *Space) hnsw.Config {
	return hnsw.Config{
		Dim: s.Dim, Metric: s.Metric, Seed: uint64(s.Num), Crossover: ss.Limits.Crossover,
		File: s.File, CodeMemory: ss.Codes, BlockMemory: ss.Blocks, BlocksFrom: ss.Limits.BlocksFrom, Sketched: ss.Limits.Sketched, Truth: noTruth, Rows: ss.rows,
	}
}

// noTruth stands for the truth of each search, which reads what its state
// sees: see [Space.Truth].
func noTruth(uint32, []float32) ([]float32, error) {
	return nil, errors.New("a search of vectors without a transaction")
}

// Decode reads a space as [Space.Encode] has written it.
func (ss *Set) Decode(num uint32, name string, b []byte) (*Space, error) {
	r := codec.NewReader(b)
	model := r.String()
	metric := hnsw.Metric(r.Byte())
	dim := int(r.Byte()) | int(r.Byte())<<8
	base := ""
	if r.Len() > 0 {
		base = r.String()
	}
	if r.Err() != nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read the vector space " + name, Cause: r.Err()}
	}
	s, err := ss.New(uint16(num), name, dim, metric, model)
	if err != nil { // what is stored was once valid
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read the vector space " + name, Why: err.Error(), Do: store.Rescue}
	}
	s.Base = base
	return s, nil
}
