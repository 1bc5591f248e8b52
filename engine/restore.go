package engine

import (
	"context"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const doingRestore = "restore a memory"

// Restore stores memories with their histories, for imports: it is
// [Memories.StoreBatch] where a life has no history. One that has is written
// whole, under one Seq, with its old texts, times and runs; of its old versions
// nothing else is known. A life whose memory is there already is left to what
// StoreBatch does with the memory, without its history; one that is gone is left
// out where the same events, with the same texts and times, were in the history of
// that ID already (see RestoreOptions).
func (m Memories) Restore(ctx context.Context, lives []memory.Life, o *memory.RestoreOptions) ([]memory.Stored, error) {
	if o == nil {
		o = &memory.RestoreOptions{}
	}
	now, err := m.beginStore()
	if err != nil {
		return nil, err
	}
	ps, results, err := m.prepareEach(ctx, len(lives), o.SkipInvalid, func(i int) (*prepared, error) {
		return m.prepareLife(ctx, &lives[i], now)
	})
	if err != nil {
		return nil, err
	}
	err = m.update(ctx, doingStore, func(tx *Tx) error {
		return tx.storeEach(results, o.SkipInvalid, func(i int) (memory.Stored, error) {
			if results[i].Err != nil {
				return results[i], nil
			}
			return tx.storeLife(&lives[i], ps[i], o)
		})
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (tx *Tx) storeLife(l *memory.Life, p *prepared, o *memory.RestoreOptions) (memory.Stored, error) {
	if added := len(l.History) == 0 || len(l.History) == 1 && l.History[0].Event == memory.EventAdd; added && p != nil {
		return tx.store(p, &o.StoreOptions)
	}
	if err := tx.registered(doingRestore, l.Owner()); err != nil {
		return memory.Stored{}, err
	}
	return tx.restore(l, p, o)
}

// prepareLife does all that needs no lock; nil for a life that is gone.
func (m Memories) prepareLife(ctx context.Context, l *memory.Life, now int64) (*prepared, error) {
	if len(l.History) > 0 {
		if err := l.Check(doingRestore); err != nil {
			return nil, err
		}
	} else if l.Memory == nil {
		return nil, fault.Invalid(doingRestore, "it has neither a memory nor a history", "give at least one of them")
	}
	if l.Memory == nil {
		return nil, nil
	}
	return m.prepare(ctx, l.Memory, now)
}

// restore writes a life that has a history. p is nil where it is gone.
func (tx *Tx) restore(l *memory.Life, p *prepared, o *memory.RestoreOptions) (memory.Stored, error) {
	size, past := 0, l.History
	for i := range past {
		size += 512 + 2*valid.MaxID
		if past[i].NewText != nil {
			size += len(*past[i].NewText)
		}
	}
	if p != nil {
		size += p.size()
		past = past[:len(past)-1] // the memory itself is the last version
	}
	if err := tx.needFor(doingRestore, len(l.History), size); err != nil {
		return memory.Stored{}, err
	}
	first := &l.History[0]
	owner, run, err := tx.scopeNumbers(l.History[len(l.History)-1].Scope)
	if err != nil {
		return memory.Stored{}, err
	}
	there, known, err := tx.known(l, p, owner, o.Known)
	if err != nil {
		return memory.Stored{}, err
	}
	switch {
	case known && p != nil && !there.expired(tx.state.Now):
		return tx.store(p, &o.StoreOptions)
	case known && p != nil:
		if done, stored, err := tx.storeKnown(p, &o.StoreOptions); err != nil || done {
			return stored, err
		} // otherwise its ID is free now
	case known:
		return memory.Stored{ID: first.MemoryID, Seq: there.Seq}, nil
	}
	if p != nil {
		if err := tx.fits(doingRestore, p.vectors); err != nil {
			return memory.Stored{}, err
		}
	}
	tx.next.Seq++
	seq := tx.next.Seq
	before, err := tx.bury(owner, seq, past)
	if err != nil {
		return memory.Stored{}, err
	}
	if p == nil {
		err = tx.setListed(tx.state.Keys.ID(first.MemoryID, owner, seq))
		return memory.Stored{ID: first.MemoryID, Seq: seq, Stored: err == nil}, err
	}
	if l.History[len(l.History)-1].Event == memory.EventUpdate {
		p.rec.Flags |= layout.FlagUpdate
	}
	p.rec.Before = before
	err = tx.add(p, owner, run, seq)
	return memory.Stored{ID: first.MemoryID, Seq: seq, Stored: err == nil, Pending: p.pending, PendingWhy: p.why}, err
}

// known reports whether the memory is there, or else a life with the same events.
func (tx *Tx) known(l *memory.Life, p *prepared, owner uint32, upTo uint64) (there live, known bool, err error) {
	id := l.History[0].MemoryID
	if p != nil {
		return tx.findID(owner, id)
	}
	err = tx.lives(owner, id, func(of uint64) error {
		have, err := tx.lifeOf(owner, of, id, memory.Scope{})
		if err != nil || !sameEvents(have, l.History) || have[0].LSN > upTo {
			return err
		}
		there.Seq, known = of, true
		return kv.ErrStop
	})
	return there, known, err
}

func sameEvents(a, b []memory.HistoryEntry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Event != y.Event || x.Scope != y.Scope || clock.ToMillis(x.Time) != clock.ToMillis(y.Time) ||
			(x.NewText == nil) != (y.NewText == nil) || x.NewText != nil && *x.NewText != *y.NewText {
			return false
		}
	}
	return true
}

// bury writes versions that were superseded before they came here, and the death
// of the last. They have no documents, so that nothing but a history sees them. It returns
// the last version.
func (tx *Tx) bury(owner uint32, seq uint64, past []memory.HistoryEntry) (before layout.Change, err error) {
	var last layout.Version
	for i := range past {
		e, v := &past[i], layout.Version{Owner: owner, Seq: seq, Born: tx.state.LSN, Change: tx.change()}
		if e.Event == memory.EventDelete {
			d := layout.Death{At: clock.ToMillis(e.Time), Born: last.Born, Change: last.Change, Kept: true}
			d.Reason, d.Policy = layout.Reason(max(0, slices.Index(state.Reasons[:], e.Reason))), e.Policy
			d.IntoID = e.Into // it may come later, as it was stored later
			if err := tx.set(tx.state.Keys.History(owner, seq, tx.state.LSN, v.Change), d.Encode()); err != nil {
				return before, err
			}
			tx.logVersioned(layout.LogDelete, last, &last)
			continue
		}
		rec := layout.Record{ID: e.MemoryID, Scope: e.Scope, Kind: byte(max(slices.Index(state.Kinds[:], e.Kind), 0)), Text: *e.NewText, Created: clock.ToMillis(e.Time), Updated: clock.ToMillis(e.Time), Confidence: 1, Flags: layout.FlagPast, Before: before}
		if e.Event == memory.EventUpdate {
			rec.Flags |= layout.FlagUpdate
		}
		if err := tx.set(tx.state.Keys.Record(v), rec.Append(nil)); err != nil {
			return before, err
		}
		tx.logVersioned(layout.LogPast, v, nil)
		last, before = v, layout.Change{Born: v.Born, Number: v.Change}
	}
	return before, nil
}
