package spaces

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
)

// Lexical holds the vectors of the built-in embedder. They are derived from the
// text alone, so they are a cache by doc ID: made when a query first needs them,
// kept in RAM as int8, in no file.
type Lexical struct {
	Model *embed.Lexical
	mu    sync.Mutex // held to add
	Index *hnsw.Index
	Slots doctable.Paged[atomic.Uint32] // doc → slot + 1
	None  uint32                        // the slot + 1 that marks a doc without features
}

// NewLexical has no vectors yet.
func NewLexical() (*Lexical, error) {
	model := embed.NewLexical()
	index, err := hnsw.New(hnsw.Config{Dim: model.Dim(), Metric: hnsw.Cosine, Quantized: true})
	if err != nil {
		return nil, err
	}
	return &Lexical{Model: model, Index: index, None: 1<<32 - 1}, nil
}

// Fill makes the missing vectors of docs. text gives a doc's text.
func (l *Lexical) Fill(ctx context.Context, docs []uint32, text func(doc uint32) (string, error)) error {
	for i, doc := range docs {
		if p := l.Slots.At(uint64(doc)); p != nil && p.Load() != 0 {
			continue
		}
		if i%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s, err := text(doc)
		if err != nil {
			return err
		}
		vecs, err := l.Model.Embed(ctx, []string{s})
		if err != nil {
			return err
		}
		if err := l.add(doc, vecs[0]); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lexical) add(doc uint32, vec []float32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.Slots.Grow(uint64(doc))
	if p.Load() != 0 {
		return nil
	}
	if hnsw.CheckVector(vec, l.Index.Config().Dim, hnsw.Cosine) != nil {
		p.Store(l.None) // a text without a single feature, such as "!"
		return nil
	}
	slot, err := l.Index.Add(vec)
	if err != nil {
		return err
	}
	p.Store(slot + 1)
	return nil
}

// Forget frees the vector of a doc that nobody can see any more.
func (l *Lexical) Forget(doc uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.Slots.At(uint64(doc))
	if p == nil {
		return
	}
	if n := p.Load(); n != 0 && n != l.None {
		l.Index.Remove(n - 1)
	}
	p.Store(0)
}

// Release drops what is kept of the docs of a chunk, which were forgotten.
func (l *Lexical) Release(first, end uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Slots.Release(first, end)
}
