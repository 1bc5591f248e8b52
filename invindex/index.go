package invindex

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
)

// Config holds the parameters of an index. The zero Config works.
type Config struct {
	K1 float64 // BM25: how slowly repetitions saturate; 0 is 1.2
	B  float64 // BM25: how much length counts, at most 1; 0 is 0.75

	// Prefix begins the key of each page of a sealed chunk.
	Prefix []byte
	// ScopeFields are fields of whose values each sealed chunk keeps a summary in
	// memory, 10 bits for each, so that Find skips most chunks that lack a value.
	ScopeFields []uint16
	// CacheBytes bounds the pages of sealed chunks that are kept in memory; 0 is
	// 64 MiB.
	CacheBytes int64
}

// What Config's zeros stand for.
const (
	DefaultK1         = 1.2
	DefaultB          = 0.75
	DefaultCacheBytes = 64 << 20
)

// Index is an inverted index. See the package documentation for who may call
// what beside whom.
type Index struct {
	k1, b  float64
	prefix []byte
	scopes []uint16
	cache  pageCache
	memory memory
	chunks atomic.Pointer[[]chunk]  // ascending by number; copied when it changes
	last   atomic.Pointer[hotChunk] // that takes documents, nil where none does
	mark   atomic.Uint64            // of the newest document: see mark
}

// New returns an empty index.
func New(cfg Config) *Index {
	x := &Index{k1: cfg.K1, b: cfg.B, prefix: bytes.Clone(cfg.Prefix), scopes: slices.Clone(cfg.ScopeFields)}
	if x.k1 == 0 {
		x.k1 = DefaultK1
	}
	if x.b == 0 {
		x.b = DefaultB
	}
	if x.cache.budget = cfg.CacheBytes; x.cache.budget <= 0 {
		x.cache.budget = DefaultCacheBytes
	}
	x.chunks.Store(new([]chunk))
	return x
}

// Chunks come in any order of their numbers: a number that was dropped may be given again,
// when there are chunks above it. So which documents were there at a time is told by the
// chunk that was the newest then, and how far it was filled: of earlier chunks all were, of
// later ones, which are told by the order in which they came, none.

// newMark is the mark of a document, the last one of the chunk that came as the order-th.
func newMark(order, doc uint32) uint64 { return uint64(order)<<32 | uint64(doc+1) }

// Snapshot is the set of documents that were there when it was made.
type Snapshot struct {
	// Docs is one past the newest document. Of its chunk those before it are seen.
	Docs uint32
	// Reader reads the pages of sealed chunks: a snapshot of the store that the
	// chunks of this Snapshot are in. It may be nil as long as none is sealed.
	Reader Reader

	chunks *[]chunk // nil is the index's newest, of an index whose chunks came in order
	order  uint32   // of the newest chunk
}

// Snapshot pins the documents that were added so far, and the chunks they are in.
func (x *Index) Snapshot() Snapshot {
	mark := x.mark.Load() // first: the chunks of its documents are in the list
	return Snapshot{Docs: uint32(mark), order: uint32(mark >> 32), chunks: x.chunks.Load()}
}

// Add adds a document: in the chunk of the one before it, of a number above it, or the
// first of a chunk that the index does not have. One goroutine may call it at a time;
// readers may run beside it. An error is ErrOrder or ErrInvalid, and then nothing has
// changed.
func (x *Index) Add(doc uint32, d *Doc) error {
	last := x.last.Load()
	if mark := uint32(x.mark.Load()); doc > MaxDoc || last != nil && last.number == uint16(doc>>16) && doc < mark {
		return fmt.Errorf("%w: document %d after document %d", ErrOrder, doc, mark-1)
	}
	if err := d.check(); err != nil {
		return err
	}
	c, err := x.growing(uint16(doc >> 16))
	if err != nil {
		return err
	}
	c.add(uint16(doc), d)
	x.mark.Store(newMark(c.order, doc))
	return nil
}

// growing returns the chunk that takes documents, which is a new one if the number is.
func (x *Index) growing(number uint16) (*hotChunk, error) {
	last := x.last.Load()
	if last != nil && last.number == number {
		return last, nil
	}
	c := newHotChunk(number, &x.memory)
	c.order = uint32(x.mark.Load()>>32) + 1
	chunks, err := with(x.list(), c)
	if err != nil {
		return nil, err
	}
	x.last.Store(c) // first: a chunk in the list that is not the last one can be sealed
	x.chunks.Store(&chunks)
	return c, nil
}

// with are chunks with one more, in its place.
func with(chunks []chunk, c chunk) ([]chunk, error) {
	at, taken := placeOf(chunks, c.id())
	if taken {
		return nil, fmt.Errorf("%w: there is a chunk %d", ErrOrder, c.id())
	}
	return slices.Insert(slices.Clip(slices.Clone(chunks)), at, c), nil
}

// placeOf is where a chunk is among others, or belongs.
func placeOf(chunks []chunk, number uint16) (at int, found bool) {
	return slices.BinarySearchFunc(chunks, number, func(c chunk, n uint16) int { return int(c.id()) - int(n) })
}

func (x *Index) list() []chunk { return *x.chunks.Load() }

// list returns the chunks of a snapshot.
func (s *Snapshot) list(x *Index) []chunk {
	if s.chunks == nil {
		return x.list()
	}
	return *s.chunks
}

// Terms returns the number of distinct terms, each counted in every chunk that
// it occurs in.
func (x *Index) Terms() int {
	n := 0
	for _, c := range x.list() {
		n += c.countTerms()
	}
	return n
}

// Bytes estimates the memory that the index holds.
func (x *Index) Bytes() int64 {
	n := x.cache.bytes()
	for _, c := range x.list() {
		if hot, ok := c.(*hotChunk); ok {
			n += hot.bytes.Load()
		}
	}
	return n
}

// limit returns how many slots of a chunk the snapshot sees.
func (s *Snapshot) limit(c chunk) uint32 {
	if s.Docs > 0 && uint16((s.Docs-1)>>16) == c.id() {
		return s.Docs - uint32(c.id())<<16
	}
	if s.chunks == nil && uint32(c.id())<<16 >= s.Docs {
		return 0
	}
	if hot, ok := c.(*hotChunk); ok && s.chunks != nil && hot.order > s.order {
		return 0
	}
	return chunkDocs
}

// Extents yields the chunks of a snapshot, in ascending order, and how many of the slots
// of each it sees.
func (x *Index) Extents(s Snapshot) iter.Seq2[uint16, uint32] {
	return func(yield func(uint16, uint32) bool) {
		for _, c := range s.list(x) {
			if n := s.limit(c); n > 0 && !yield(c.id(), n) {
				return
			}
		}
	}
}
