package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
)

const (
	defaultSpace = "default"
	lexicalSpace = "lexical"
	// pendingSpace stands for the default space in the keys of what is still to
	// be embedded: that space may not exist yet.
	pendingSpace = 0
)

// space is a set of vectors that can be compared: one dimension, one metric, one
// model.
type space struct {
	num    uint16
	name   string
	dim    int
	metric hnsw.Metric
	model  string
	born   uint64 // LSN of the commit that made it; 0: it was there at Open

	index *hnsw.Index
	slots paged[atomic.Uint32] // doc → slot + 1, 0: the doc has no vector here
	used  atomic.Int64         // vectors that are not freed
}

func newSpace(num uint16, name string, dim int, metric hnsw.Metric, model string) (*space, error) {
	index, err := hnsw.New(hnsw.Config{Dim: dim, Metric: metric})
	if err != nil {
		return nil, &Error{Kind: ErrInvalid, What: "open the vector space " + name, Cause: err}
	}
	return &space{num: num, name: name, dim: dim, metric: metric, model: model, index: index}, nil
}

// slot is where a doc's vector is.
func (s *space) slot(doc uint32) (uint32, bool) {
	p := s.slots.at(uint64(doc))
	if p == nil {
		return 0, false
	}
	n := p.Load()
	return n - 1, n != 0
}

func (s *space) setSlot(doc, slot uint32) { s.slots.grow(uint64(doc)).Store(slot + 1) }

func (s *space) encode() []byte {
	b := codec.AppendBytes(nil, s.model)
	b = append(b, byte(s.metric))
	return append(b, byte(s.dim), byte(s.dim>>8))
}

func decodeSpace(num uint32, name string, b []byte) (*space, error) {
	r := codec.NewReader(b)
	model := r.String()
	metric := hnsw.Metric(r.Byte())
	dim := int(r.Byte()) | int(r.Byte())<<8
	if r.Err() != nil {
		return nil, &Error{Kind: ErrCorrupt, What: "read the vector space " + name, Cause: r.Err()}
	}
	return newSpace(uint16(num), name, dim, metric, model)
}

// spaces are those of a database; the writer adds, readers look up.
type spaces struct {
	mu     sync.RWMutex
	byName map[string]*space
	byNum  map[uint16]*space
}

func newSpaces() *spaces {
	return &spaces{byName: map[string]*space{}, byNum: map[uint16]*space{}}
}

func (ss *spaces) named(name string) *space {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	return ss.byName[name]
}

func (ss *spaces) numbered(num uint16) *space {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	return ss.byNum[num]
}

func (ss *spaces) all() []*space {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	all := make([]*space, 0, len(ss.byNum))
	for _, s := range ss.byNum {
		all = append(all, s)
	}
	return all
}

func (ss *spaces) add(s *space) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.byName[s.name], ss.byNum[s.num] = s, s
}

func (ss *spaces) remove(s *space) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.byName, s.name)
	delete(ss.byNum, s.num)
}

// checkVector checks a vector by itself and against its space, if that exists as
// of lsn.
func (db *DB) checkVector(doing, name string, vec []float32, lsn uint64) error {
	dim, metric := 0, hnsw.Cosine
	if s := db.spaces.named(name); s != nil && s.born <= lsn {
		dim, metric = s.dim, s.metric
	}
	err := hnsw.CheckVector(vec, dim, metric)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, hnsw.ErrDimension) && dim != 0:
		return dimensionError(doing, name, dim, len(vec))
	}
	return &Error{Kind: ErrInvalid, What: doing, Why: fmt.Sprintf("its vector in the space %s cannot be used", name), Cause: err, Do: "check what made it"}
}

func dimensionError(doing, name string, want, got int) error {
	return invalid(doing, fmt.Sprintf("its vector has %d dimensions, those of the space %s have %d", got, name, want),
		"use the model that made the others, or another space")
}

// lexical holds the vectors of the built-in embedder. They are derived from the
// text alone, so they are a cache by doc ID: made when a query first needs them,
// kept in RAM as int8, in no file.
type lexical struct {
	model *embed.Lexical
	mu    sync.Mutex // held to add
	index *hnsw.Index
	slots paged[atomic.Uint32] // doc → slot + 1
	none  uint32               // the slot + 1 that marks a doc without features
}

func newLexical() (*lexical, error) {
	model := embed.NewLexical()
	index, err := hnsw.New(hnsw.Config{Dim: model.Dim(), Metric: hnsw.Cosine, Quantized: true})
	if err != nil {
		return nil, err
	}
	return &lexical{model: model, index: index, none: 1<<32 - 1}, nil
}

// fill makes the missing vectors of docs. text gives a doc's text.
func (l *lexical) fill(ctx context.Context, docs []uint32, text func(doc uint32) (string, error)) error {
	for i, doc := range docs {
		if p := l.slots.at(uint64(doc)); p != nil && p.Load() != 0 {
			continue
		}
		if i%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s, err := text(doc)
		if err != nil {
			return err
		}
		if err := l.add(doc, l.model.Document(s)); err != nil {
			return err
		}
	}
	return nil
}

func (l *lexical) add(doc uint32, vec []float32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.slots.grow(uint64(doc))
	if p.Load() != 0 {
		return nil
	}
	if hnsw.CheckVector(vec, l.index.Config().Dim, hnsw.Cosine) != nil {
		p.Store(l.none) // a text without a single feature, such as "!"
		return nil
	}
	slot, err := l.index.Add(vec)
	if err != nil {
		return err
	}
	p.Store(slot + 1)
	return nil
}

// slot is where a doc's vector is, false where it has none or none was made.
func (l *lexical) slot(doc uint32) (uint32, bool) {
	p := l.slots.at(uint64(doc))
	if p == nil {
		return 0, false
	}
	n := p.Load()
	return n - 1, n != 0 && n != l.none
}

// forget frees the vector of a doc that nobody can see any more.
func (l *lexical) forget(doc uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.slots.at(uint64(doc))
	if p == nil {
		return
	}
	if n := p.Load(); n != 0 && n != l.none {
		l.index.Remove(n - 1)
	}
	p.Store(0)
}
