package invindex

import (
	"bytes"
	"fmt"
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
	chunks atomic.Pointer[[]chunk] // ascending by number; copied when it changes
	mark   atomic.Uint32           // one past the last document
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

// Snapshot is the set of documents below a mark.
type Snapshot struct {
	// Docs is one past the last document.
	Docs uint32
	// Reader reads the pages of sealed chunks: a snapshot of the store that the
	// chunks of this Snapshot are in. It may be nil as long as none is sealed.
	Reader Reader

	chunks *[]chunk // nil is the index's newest
}

// Snapshot pins the documents that were added so far, and the chunks they are in.
func (x *Index) Snapshot() Snapshot {
	mark := x.mark.Load() // first: the chunks of its documents are in the list
	return Snapshot{Docs: mark, chunks: x.chunks.Load()}
}

// Add adds a document, of a number above every earlier one. One goroutine may
// call it at a time; readers may run beside it. An error is ErrOrder or
// ErrInvalid, and then nothing has changed.
func (x *Index) Add(doc uint32, d *Doc) error {
	if mark := x.mark.Load(); doc < mark || doc > MaxDoc {
		return fmt.Errorf("%w: %d after %d documents", ErrOrder, doc, mark)
	}
	if err := d.check(); err != nil {
		return err
	}
	c, err := x.growing(uint16(doc >> 16))
	if err != nil {
		return err
	}
	c.add(uint16(doc), d)
	x.mark.Store(doc + 1)
	return nil
}

// growing returns the last chunk, which is a new one if the number is.
func (x *Index) growing(number uint16) (*hotChunk, error) {
	chunks := x.list()
	if n := len(chunks); n > 0 && chunks[n-1].id() == number {
		c, ok := chunks[n-1].(*hotChunk)
		if !ok {
			return nil, fmt.Errorf("%w: chunk %d is sealed", ErrOrder, number)
		}
		return c, nil
	}
	c := newHotChunk(number, &x.memory)
	chunks = append(slices.Clip(chunks), c)
	x.chunks.Store(&chunks)
	return c, nil
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

// limit returns how many slots of a chunk lie below the snapshot's mark.
func (s *Snapshot) limit(chunk uint16) uint32 {
	base := uint32(chunk) << 16
	if s.Docs <= base {
		return 0
	}
	return min(s.Docs-base, chunkDocs)
}
