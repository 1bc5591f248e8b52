package facts

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
)

// maxRounds is how often an Add is decided anew where others change what it was compared
// with. In the last round, new neighbours are let be, and what is about a fact that has
// changed is left out.
const maxRounds = 4

// errStale: facts changed while an Add was decided on. The transaction is given up.
var errStale = errors.New("facts have changed meanwhile")

// graphError is a failure of the graph within a commit, which is then made without it.
type graphError struct{ error }

func (e graphError) Unwrap() error { return e.error }

// commit makes one commit of everything that was decided.
func (a *adding) commit(ctx context.Context) error {
	for round := 1; ; round++ {
		c := &committing{adding: a, last: round == maxRounds}
		err := a.lend(ctx, func(db *engine.DB) error {
			return db.Update(ctx, func(tx *engine.Tx) error {
				*c = committing{adding: a, last: c.last}
				return c.run(ctx, tx)
			})
		})
		var failed graphError
		switch {
		case err == nil:
			a.committed = true
			a.results, a.relations = c.results, c.relations
			for _, w := range a.works {
				a.degraded = append(a.degraded, w.lost...)
			}
			a.degraded = append(a.degraded, c.lost...)
			a.finishGraph(ctx, c.waiting)
			return nil
		case errors.Is(err, errStale):
			if err := a.decideAgain(ctx, c.stale); err != nil {
				return err
			}
		case errors.As(err, &failed) && ctx.Err() == nil:
			a.degrade(StepGraph, "", failed.Error(), failed.error)
			a.graph = nil
			round--
		default:
			return err
		}
	}
}

// decideAgain decides about works that were compared with what is no longer so, and those
// about what such a one makes. The others stay as they are decided.
func (a *adding) decideAgain(ctx context.Context, stale []*work) error {
	o, gone := &overlay{changed: map[any]*change{}}, map[*change]bool{}
	for _, w := range a.works {
		again := slices.Contains(stale, w) || slices.ContainsFunc(w.changes, func(c *change) bool { return gone[c.target.made] })
		if again {
			for _, c := range w.changes {
				gone[c] = true
			}
		} else {
			o.apply(w)
			continue
		}
		if err := a.decide(ctx, o, []*work{w}); err != nil {
			return err
		}
	}
	return nil
}

// committing is one try of a commit.
type committing struct {
	*adding
	last      bool // there is no further round
	stale     []*work
	results   []Result
	relations []Relation
	lost      []Degradation
	linked    []told
	gone      []graphs.Fact
	waiting   string // key of what is to be done in another graph store, empty for nothing
}

// told is a fact of this Add, and its text before and after.
type told struct {
	memory   memory.Memory
	old, new string
}

func (c *committing) run(ctx context.Context, tx *engine.Tx) error {
	if !c.last {
		if err := c.findStale(ctx, tx); err != nil {
			return err
		}
		if len(c.stale) > 0 {
			return errStale
		}
	}
	for _, w := range c.works {
		for _, ch := range w.changes {
			ch.id = "" // of a try before
			if err := c.execute(ctx, tx, w, ch); err != nil {
				return err
			}
		}
	}
	if len(c.stale) > 0 {
		return errStale
	}
	if err := c.writeGraph(ctx, tx); err != nil {
		if c.graph == nil {
			return err
		}
		return graphError{err}
	}
	return nil
}

// findStale finds the works whose nearest facts are not those that the model was shown.
func (c *committing) findStale(ctx context.Context, tx *engine.Tx) error {
	for _, w := range c.works {
		if w.asIs || tx.LSN() == w.lsn+1 {
			continue // the state is still the one that it was compared with
		}
		now, err := c.nearest(ctx, tx.Memories(), w)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(now, func(n candidate) bool {
			text, seen := w.seen[n.id]
			return !seen || text != n.text
		}) {
			c.stale = append(c.stale, w)
		}
	}
	return nil
}

// execute makes a change. One whose target has changed makes the work stale.
func (c *committing) execute(ctx context.Context, tx *engine.Tx, w *work, ch *change) error {
	switch ch.event {
	case Add:
		return c.add(ctx, tx, w, ch)
	case None:
		if ch.target.made != nil {
			ch.target.id = ch.target.made.id
		}
		r := Result{Event: None, ID: ch.target.id, Memory: ch.target.text}
		if r.ID == "" {
			r.Memory = w.fact
		} else if m, err := tx.Memories().Get(ctx, ch.target.scope, r.ID); err == nil {
			c.linked = append(c.linked, told{m, "", m.Text})
		}
		c.results = append(c.results, r)
		return nil
	}
	id := ch.target.id
	if ch.target.made != nil {
		id = ch.target.made.id
	}
	m, err := tx.Memories().Get(ctx, ch.target.scope, id)
	if errors.Is(err, memory.ErrNotFound) || err == nil && (m.Text != ch.target.text || m.Kind != memory.KindFact) {
		if c.last || ch.target.made != nil {
			c.lost = append(c.lost, Degradation{StepCommit, shorten(w.fact), "memory " + id + " was changed meanwhile, so it was left as it is", nil})
			return nil
		}
		if !slices.Contains(c.stale, w) {
			c.stale = append(c.stale, w)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if ch.event == Delete {
		return c.remove(ctx, tx, m)
	}
	return c.update(ctx, tx, m, ch)
}

func (c *committing) add(ctx context.Context, tx *engine.Tx, w *work, ch *change) error {
	m := c.memory(ch.text, ch.vec, w.role)
	s, err := tx.Memories().Store(ctx, m, nil)
	if err != nil {
		return err
	}
	m.ID, ch.id = s.ID, s.ID
	c.linked = append(c.linked, told{m, "", ch.text})
	if s.Deduplicated {
		c.results = append(c.results, Result{Event: None, ID: s.ID, Memory: ch.text})
		return nil
	}
	c.results = append(c.results, Result{Event: Add, ID: s.ID, Memory: ch.text, NewMemory: &ch.text, Metadata: c.o.Metadata})
	return nil
}

func (c *committing) update(ctx context.Context, tx *engine.Tx, m memory.Memory, ch *change) error {
	if m.Text == ch.text {
		c.results = append(c.results, Result{Event: None, ID: m.ID, Memory: m.Text})
		c.linked = append(c.linked, told{m, "", m.Text})
		return nil
	}
	changed, err := tx.Memories().Update(ctx, m.Scope, m.ID, memory.Patch{Text: &ch.text, Embedding: ch.vec})
	if err != nil {
		return err
	}
	c.linked = append(c.linked, told{changed, m.Text, ch.text})
	c.results = append(c.results, Result{
		Event: Update, ID: m.ID, Memory: ch.text, OldMemory: &m.Text, NewMemory: &ch.text, Metadata: m.Metadata,
	})
	return nil
}

func (c *committing) remove(ctx context.Context, tx *engine.Tx, m memory.Memory) error {
	c.gone = append(c.gone, graphs.Fact{ID: m.ID, Scope: m.Scope})
	if err := removeFact(ctx, tx, m); err != nil {
		return err
	}
	c.results = append(c.results, Result{Event: Delete, ID: m.ID, Memory: m.Text, OldMemory: &m.Text, Metadata: m.Metadata})
	return nil
}
