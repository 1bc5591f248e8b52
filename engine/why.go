package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/recall"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Why says why a recall of a query finds the memory with an ID, or does not: it ranks all
// that the recall would score, and touches nothing. The memory is looked for in the scope of
// the query alone, whose other memories are all that is told of: ErrNotFound where no memory there
// has, or had, the ID, ErrAmbiguous where several owners have one.
func (m Memories) Why(ctx context.Context, q memory.Query, id string) (w memory.Why, err error) {
	doing := fmt.Sprintf("explain the recall of memory %q", valid.Short(id))
	q.Explain = true
	if err := valid.Word(doing, "ID", id); err != nil {
		return w, err
	}
	a, err := m.ask(ctx, &q)
	if err != nil {
		return w, err
	}
	err = m.view(ctx, doing, func(tx *Tx) error {
		why := func(tx *Tx) (err error) {
			w, err = tx.why(ctx, doing, a, id)
			return err
		}
		if q.AsOf == 0 {
			return why(tx)
		}
		return tx.asOf(q.AsOf, why)
	})
	return w, err
}

func (tx *Tx) why(ctx context.Context, doing string, q *asked, id string) (memory.Why, error) {
	tx, err := tx.recaller(q)
	if err != nil {
		return memory.Why{}, err
	}
	y := &whying{tx: tx, q: q.Query, w: memory.Why{ID: id, Limit: q.Limit, MinScore: q.MinScore, Terms: []memory.WhyTerm{}, Languages: []string{}, Parts: []memory.WhyPart{}, Before: []memory.WhyHit{}}}
	if err := y.find(doing); err != nil {
		return memory.Why{}, err
	}
	if y.w.Reason == "" {
		if y.w, err = recall.Explain(ctx, (*recallHost)(tx), &tx.state, q.Query, q.unembedded, y.doc, y.rec, y.w); err != nil {
			return memory.Why{}, err
		}
	}
	y.w.Found = y.w.Reason == memory.WhyFound
	return y.w, nil
}

// whying looks for the memory that is asked about.
type whying struct {
	tx  *Tx
	q   *memory.Query
	w   memory.Why
	doc uint32
	rec *layout.Record
}

// find looks the memory up in the scope of the query, and says what became of one that is gone.
func (y *whying) find(doing string) error {
	owners := 0
	scopes := y.q.Scopes
	if len(scopes) == 0 {
		scopes = []memory.Scope{y.q.Scope} // an empty one, with AllScopes, is every one
	}
	err := y.tx.reader().Living(records.AnyOwner, y.w.ID, func(_ records.Claim, l records.Live, rec *layout.Record) error {
		if rec.ID != y.w.ID || !slices.ContainsFunc(scopes, func(s memory.Scope) bool { return scope.Contains(s, rec.Scope) }) {
			return nil
		}
		y.doc, y.rec = l.Doc, rec
		owners++
		return nil
	})
	switch {
	case err != nil:
		return store.Error(doing, err)
	case owners > 1:
		return records.Ambiguous(doing, owners)
	case owners == 0:
		return y.gone(doing, scopes)
	}
	y.w.Memory = memory.WhyMemory{Scope: y.rec.Scope, Kind: state.Kinds[y.rec.Kind], CreatedAt: clock.FromMillis(y.rec.Created)}
	if y.rec.Expires != 0 {
		y.w.Memory.ExpiresAt = new(clock.FromMillis(y.rec.Expires))
		if y.rec.Expires <= y.tx.state.Now {
			y.w.Reason = memory.WhyExpired
		}
	}
	return nil
}

// gone says when and why a memory was deleted.
func (y *whying) gone(doing string, scopes []memory.Scope) error {
	var last *memory.HistoryEntry
	for _, s := range scopes {
		entries, err := y.tx.reader().History(doing, s, memory.Lack{}, y.w.ID)
		switch {
		case errors.Is(err, fault.ErrNotFound):
			continue
		case err != nil:
			return err
		}
		if e := entries[len(entries)-1]; last == nil || e.LSN > last.LSN {
			last = &e
		}
	}
	if last == nil || !last.IsDeleted {
		return &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "there is none in this scope", Do: "check the ID and the scope"}
	}
	y.w.Memory = memory.WhyMemory{Scope: last.Scope, Kind: last.Kind, DeletedAt: &last.Time, DeletedFor: last.Reason, Into: last.Into}
	y.w.Reason = memory.WhyDeleted
	if last.Reason == memory.ReasonExpired {
		y.w.Reason = memory.WhyExpired
	}
	return nil
}
