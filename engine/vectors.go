package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// vectorLimits are the sizes at which the handling of vectors changes.
type vectorLimits struct {
	// exhaustive is the size of a scope up to which every memory is scored by
	// every signal.
	exhaustive int
	// crossover is the number of vectors from which on a graph is built.
	crossover int
	// Up to unlinkedSoft vectors wait for a pause between writes to be linked: a
	// search that scores them one by one takes a millisecond or less for it. While
	// nobody searches, up to unlinkedIdle do: a search then takes up to a hundred
	// milliseconds until they are linked. At unlinkedMost writers wait.
	unlinkedSoft, unlinkedIdle, unlinkedMost int
	// saveTail is the least number of vectors that have come, gone or been linked
	// before a snapshot is written; where a share of all vectors is more (saveShare,
	// addedShare), that.
	// closeTail is the least for Close. What is not in a snapshot is read from the
	// store by the next Open, and linked again.
	saveTail, closeTail uint64
	// codes are the bytes of codes of a space that are kept in memory, rows those of
	// float32 vectors; 0: their share of the budget; below 0: none.
	codes, rows int64
	// sketched is the number of vectors from which on those in memory have sketches: the
	// codes of fewer stay in a processor's caches.
	sketched int
	// fillLeast is how many vectors searches must have read from the store before all
	// are read.
	fillLeast int64
}

func defaultVectorLimits() vectorLimits {
	return vectorLimits{
		exhaustive: 20_000, crossover: hnsw.Crossover,
		unlinkedSoft: 1 << 15, unlinkedIdle: 1 << 20, unlinkedMost: 5 << 18,
		saveTail: 1 << 16, closeTail: 1 << 10, sketched: 1 << 13, fillLeast: 1 << 8,
	}
}

// A snapshot may lack the links of one vector in saveShare, which is a hundred times the
// work of reading it, and one in addedShare altogether: while many come and none is
// linked, a snapshot is written when they have doubled, not for each eighth.
const (
	saveShare  = 8
	addedShare = 2
)

// Metric says how the vectors of a space are compared.
type Metric string

// The metrics. Scores are higher for what is closer under each of them.
const (
	MetricCosine Metric = "cosine" // cosine of the angle
	MetricDot    Metric = "dot"    // dot product
	MetricL2     Metric = "l2"     // Euclidean distance, negated
)

// SpaceConfig describes a vector space.
type SpaceConfig struct {
	Name   string // empty is "default"
	Dim    int    // components of its vectors, 1 to MaxDim
	Metric Metric // empty is MetricCosine
	Model  string // what makes its vectors; free text, may be empty
	Base   string // the address of the server that Model is asked at; empty: its provider's own
}

const doingSpace = "create a vector space"

// CreateSpace makes a vector space. Nobody has to: the first vector of a space
// makes one of its dimension, compared by cosine. Where the space exists already,
// it does nothing if that is the same, and is ErrMismatch if not.
func (db *DB) CreateSpace(ctx context.Context, c SpaceConfig) error {
	return db.Update(ctx, func(tx *Tx) error { return tx.CreateSpace(c) })
}

// CreateSpace is [DB.CreateSpace] as a part of the transaction.
func (tx *Tx) CreateSpace(c SpaceConfig) error {
	if err := tx.check(doingSpace, true); err != nil {
		return err
	}
	if c.Name == "" {
		c.Name = memory.DefaultSpace
	}
	if c.Metric == "" {
		c.Metric = MetricCosine
	}
	metric, err := c.check()
	if err != nil {
		return err
	}
	if s := tx.space(c.Name); s != nil {
		return s.same(&c)
	}
	if err := tx.maySpace(doingSpace); err != nil {
		return err
	}
	if tx.next.Names[layout.NameSpace] >= MaxSpaces {
		return fault.Invalid(doingSpace, fmt.Sprintf("there are %d, which is the limit", MaxSpaces), "use one that exists")
	}
	if err := tx.need(doingSpace, 4*valid.MaxID); err != nil {
		return err
	}
	tx.change()
	if _, err := tx.newSpace(&c, metric); err != nil {
		return tx.breaks(err)
	}
	tx.log = append(tx.log, byte(layout.LogSpace))
	return nil
}

func (c *SpaceConfig) check() (hnsw.Metric, error) {
	if err := valid.Word(doingSpace, "name", c.Name); err != nil {
		return 0, err
	}
	if c.Name == memory.LexicalSpace {
		return 0, fault.Invalid(doingSpace, "the name lexical is that of the built-in embedder's space", "choose another name")
	}
	if c.Model != "" {
		if err := valid.Word(doingSpace, "model", c.Model); err != nil {
			return 0, err
		}
	}
	if c.Base != "" {
		if err := valid.Word(doingSpace, "base", c.Base); err != nil {
			return 0, err
		}
	}
	if c.Dim < 1 || c.Dim > memory.MaxDim {
		return 0, fault.Invalid(doingSpace, fmt.Sprintf("%d dimensions", c.Dim), fmt.Sprintf("give 1 to %d", memory.MaxDim))
	}
	if !slices.Contains([]Metric{MetricCosine, MetricDot, MetricL2}, c.Metric) {
		return 0, fault.Invalid(doingSpace, fmt.Sprintf("there is no metric %q", valid.Short(string(c.Metric))), "use cosine, dot or l2")
	}
	return hnsw.ParseMetric(string(c.Metric))
}

// same returns an error where the space is not the one that is asked for.
func (s *space) same(c *SpaceConfig) error {
	is := fmt.Sprintf("%d dimensions compared by %s, of the model %q", s.dim, s.metric, s.model)
	asked := fmt.Sprintf("%d dimensions compared by %s, of the model %q", c.Dim, c.Metric, c.Model)
	if is == asked {
		return nil
	}
	return &fault.Error{
		Kind: fault.ErrMismatch, What: doingSpace + " " + s.name,
		Why: fmt.Sprintf("it exists with %s, not %s", is, asked), Do: "use another name",
	}
}

// newSpace makes a space that the commit gives a number.
func (tx *Tx) newSpace(c *SpaceConfig, metric hnsw.Metric) (*space, error) {
	s, err := tx.db.newSpace(uint16(tx.next.Names[layout.NameSpace]+1), c.Name, c.Dim, metric, c.Model)
	if err != nil {
		return nil, err
	}
	s.base = c.Base
	if _, err := tx.newNumber(layout.Name{Class: layout.NameSpace, Text: c.Name}, s.encode()); err != nil {
		return nil, err
	}
	s.born = tx.state.LSN
	tx.spaces[c.Name] = s
	return s, nil
}

// showVectors adds a version's vectors to the indexes, and lets it keep those of
// the version before.
func (db *DB) showVectors(p *pendingVersion) error {
	for name, vec := range p.vectors {
		s := db.spaces.named(name)
		if err := s.add(p.doc, p.broughtBy(s.num), vec); err != nil {
			return fault.Within("index a vector of the space "+name, err)
		}
		db.linker.stored(s)
	}
	for _, num := range p.keeps {
		s := db.spaces.numbered(num)
		if slot, ok := s.slot(p.inherits); ok {
			s.setSlot(p.doc, slot)
		}
	}
	return nil
}

// broughtBy is the version under which the version's vector in a space is stored.
func (p *pendingVersion) broughtBy(space uint16) layout.Version {
	for _, ref := range p.rec.Vectors {
		if ref.Space == space {
			return ref.Of(p.Version)
		}
	}
	return p.Version
}
