package invindex

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
)

// Config holds the parameters of BM25.
type Config struct {
	K1 float64 // how slowly repetitions saturate; 0 is 1.2
	B  float64 // how much length counts, at most 1; 0 is 0.75
}

// The parameters that Config's zero stands for.
const (
	DefaultK1 = 1.2
	DefaultB  = 0.75
)

// Index is an inverted index. See the package documentation for who may call
// what beside whom.
type Index struct {
	k1, b  float64
	chunks atomic.Pointer[[]*hotChunk] // ascending by number
	mark   atomic.Uint32               // one past the last document
	terms  atomic.Int64
	bytes  atomic.Int64
}

// New returns an empty index.
func New(cfg Config) *Index {
	x := &Index{k1: cfg.K1, b: cfg.B}
	if x.k1 == 0 {
		x.k1 = DefaultK1
	}
	if x.b == 0 {
		x.b = DefaultB
	}
	x.chunks.Store(new([]*hotChunk))
	return x
}

// Snapshot is the set of documents below a mark.
type Snapshot struct {
	Docs uint32 // one past the last document
}

// Snapshot pins the documents that were added so far.
func (x *Index) Snapshot() Snapshot {
	return Snapshot{Docs: x.mark.Load()}
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
	c := x.chunkFor(uint16(doc >> 16))
	before := c.terms.n
	grown := c.add(uint16(doc), d)
	x.terms.Add(int64(c.terms.n - before))
	x.bytes.Add(int64(grown))
	x.mark.Store(doc + 1)
	return nil
}

// chunkFor returns the last chunk, which is a new one if the number is.
func (x *Index) chunkFor(number uint16) *hotChunk {
	chunks := *x.chunks.Load()
	if n := len(chunks); n > 0 && chunks[n-1].number == number {
		return chunks[n-1]
	}
	c := newHotChunk(number)
	chunks = append(slices.Clip(chunks), c)
	x.chunks.Store(&chunks)
	return c
}

// Terms returns the number of distinct terms, each counted in every chunk that
// it occurs in.
func (x *Index) Terms() int { return int(x.terms.Load()) }

// Bytes estimates the memory that the index holds.
func (x *Index) Bytes() int64 { return x.bytes.Load() }

// limit returns how many slots of a chunk lie below the snapshot's mark.
func (s Snapshot) limit(chunk uint16) uint32 {
	base := uint32(chunk) << 16
	if s.Docs <= base {
		return 0
	}
	return min(s.Docs-base, chunkDocs)
}

func validWeight(w float64) bool {
	return w > 0 && !math.IsInf(w, 1)
}
