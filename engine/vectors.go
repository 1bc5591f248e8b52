package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
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
	if s := tx.reader().Space(c.Name); s != nil {
		return c.same(s)
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
func (c *SpaceConfig) same(s *spaces.Space) error {
	is := fmt.Sprintf("%d dimensions compared by %s, of the model %q", s.Dim, s.Metric, s.Model)
	asked := fmt.Sprintf("%d dimensions compared by %s, of the model %q", c.Dim, c.Metric, c.Model)
	if is == asked {
		return nil
	}
	return &fault.Error{
		Kind: fault.ErrMismatch, What: doingSpace + " " + s.Name,
		Why: fmt.Sprintf("it exists with %s, not %s", is, asked), Do: "use another name",
	}
}

// newSpace makes a space that the commit gives a number.
func (tx *Tx) newSpace(c *SpaceConfig, metric hnsw.Metric) (*spaces.Space, error) {
	s, err := tx.db.spaces.New(uint16(tx.next.Names[layout.NameSpace]+1), c.Name, c.Dim, metric, c.Model)
	if err != nil {
		return nil, err
	}
	s.Base = c.Base
	if _, err := tx.rec.NewNumber(layout.Name{Class: layout.NameSpace, Text: c.Name}, s.Encode()); err != nil {
		return nil, err
	}
	s.Born = tx.state.LSN
	tx.versions.Spaces[c.Name] = s
	return s, nil
}

// showVectors adds a version's vectors to the indexes, and lets it keep those of
// the version before.
func (db *DB) showVectors(p *records.Pending) error {
	for name, vec := range p.Vectors {
		s := db.spaces.Named(name)
		if err := s.Add(p.Doc, p.BroughtBy(s.Num), vec); err != nil {
			return fault.Within("index a vector of the space "+name, err)
		}
		db.spaces.Linker.Stored(s)
	}
	for _, num := range p.Keeps {
		s := db.spaces.Numbered(num)
		if slot, ok := s.Slot(p.Inherits); ok {
			s.SetSlot(p.Doc, slot)
		}
	}
	return nil
}

// newSpaces are the spaces of the database, none yet. limits are nil but for tests.
func (db *DB) newSpaces(limits *spaces.Limits) *spaces.Set {
	h := spaces.Host{
		Store: db.store, Tables: &db.tables, Dir: db.dir, Logger: db.logger, ReadOnly: db.readOnly && db.follows == nil, Limits: measuredLimits(),
		ID: func() [16]byte { return db.id },
		View: func(ctx context.Context, fn func(*state.State) error) error {
			return db.view(ctx, nil, func(tx *Tx) error { return fn(&tx.state) })
		},
		Lock: db.lockBehind, Unlock: db.unlock,
		Applied:  func() uint64 { return db.writer.applied },
		Durable:  func(lsn uint64) error { return db.syncer.Wait(lsn) },
		Used:     func(chunk uint16) bool { return db.chunks.used[chunk] || db.grows(chunk) },
		Lost:     db.opening.losses.Lost,
		Replaced: db.scopes.Forget,
	}
	if limits != nil {
		h.Limits = *limits
	}
	// What the codes of a space's vectors are beyond their share of the memory budget lies in a
	// file. A small database shall do without one.
	h.Codes, h.Blocks, h.Rows = max(db.budget/4, minCodes), max(db.budget/16, 1), db.budget/8
	if h.Limits.Codes != 0 {
		h.Codes = h.Limits.Codes
	}
	if h.Limits.Blocks != 0 {
		h.Blocks = h.Limits.Blocks
	}
	if h.Limits.Rows != 0 {
		h.Rows = max(h.Limits.Rows, 0)
	}
	return spaces.NewSet(h)
}

const minCodes = 64 << 20

func spaceInfo(s *spaces.Space) SpaceInfo {
	st, used := s.Index.Stats(), s.Used.Load()
	linked := min(int64(st.Linked-st.Removed), used)
	return SpaceInfo{
		Name: s.Name, Dim: s.Dim, Metric: s.Metric.String(), Model: s.Model, Base: s.Base,
		Vectors: used, Linked: linked, Unlinked: used - linked, Bytes: s.Bytes(), BlockBytes: st.BlockBytes, CellBytes: st.CellBytes, FileBytes: st.FileBytes,
	}
}

// WaitIndexed returns when every vector that was stored before the call is linked,
// so that no search scores it for want of a link. Small spaces have no graph and
// nothing to wait for. Searches find vectors without this, more slowly; while it
// waits, linking takes all processors that the program may use. It is for the end
// of a bulk import, before Close or the first queries, and for measuring.
func (db *DB) WaitIndexed(ctx context.Context) error {
	const doing = "wait for vectors to be linked"
	if err := db.usable(doing); err != nil { // Close does not wait for this call
		return err
	}
	broken, err := db.spaces.WaitLinked(ctx)
	switch {
	case errors.Is(err, spaces.ErrEnded):
		return closedError(doing)
	case err != nil:
		return fault.Within(doing, err)
	case broken != nil:
		return &fault.Error{Kind: fault.ErrBusy, What: doing, Why: "linking failed in the space " + broken.Name + "; the log says why", Do: "reopen the database"}
	}
	return nil
}

// waitForLinking makes a writer wait while too many vectors are unlinked.
func (db *DB) waitForLinking(ctx context.Context) error {
	if !db.spaces.Linker.Behind() { // as nearly always: a limited context costs a timer
		return nil
	}
	wait, cancel := db.lockLimit(ctx)
	defer cancel()
	if db.spaces.Linker.Admit(wait) != nil {
		return db.lockError(ctx, "write", "the vector index has too much to link")
	}
	return nil
}

// measuredLimits are the default ones, on this processor.
func measuredLimits() spaces.Limits {
	l := spaces.DefaultLimits()
	l.BitRows = bitRows()
	return l
}

// bitRows is measured once, so that all databases of a process plan alike.
var bitRows = sync.OnceValue(func() int {
	return hnsw.MeasureBits(func(f func()) time.Duration {
		began := clock.System()
		f()
		return clock.System().Sub(began)
	})
})
