package records

import (
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// DoingRestore says in errors what is done.
const DoingRestore = "restore a memory"

// StoreLife writes a memory with its history; p is nil where it is gone.
func (w *Writer) StoreLife(l *memory.Life, p *Prepared, o *memory.RestoreOptions) (memory.Stored, error) {
	if added := len(l.History) == 0 || len(l.History) == 1 && l.History[0].Event == memory.EventAdd; added && p != nil {
		return w.Store(p, &o.StoreOptions)
	}
	if err := w.Registered(DoingRestore, l.Owner()); err != nil {
		return memory.Stored{}, err
	}
	return w.restore(l, p, o)
}

// restore writes a life that has a history. p is nil where it is gone.
func (w *Writer) restore(l *memory.Life, p *Prepared, o *memory.RestoreOptions) (memory.Stored, error) {
	size, past := 0, l.History
	for i := range past {
		size += 512 + 2*valid.MaxID
		if past[i].NewText != nil {
			size += len(*past[i].NewText)
		}
	}
	if p != nil {
		size += p.Size()
		past = past[:len(past)-1] // the memory itself is the last version
	}
	if err := w.Room(DoingRestore, len(l.History), size); err != nil {
		return memory.Stored{}, err
	}
	first := &l.History[0]
	owner, run, err := w.ScopeNumbers(l.History[len(l.History)-1].Scope)
	if err != nil {
		return memory.Stored{}, err
	}
	there, known, err := w.known(l, p, owner, o.Known)
	if err != nil {
		return memory.Stored{}, err
	}
	switch {
	case known && p != nil && !there.Expired(w.Now):
		return w.Store(p, &o.StoreOptions)
	case known && p != nil:
		if done, stored, err := w.storeKnown(p, &o.StoreOptions); err != nil || done {
			return stored, err
		} // otherwise its ID is free now
	case known:
		return memory.Stored{ID: first.MemoryID, Seq: there.Seq}, nil
	}
	if p != nil {
		if err := w.Fits(DoingRestore, p.Vectors); err != nil {
			return memory.Stored{}, err
		}
	}
	w.Own.Given.Seq++
	seq := w.Own.Given.Seq
	before, err := w.bury(owner, seq, past)
	if err != nil {
		return memory.Stored{}, err
	}
	if p == nil {
		err = w.setListed(w.Keys.ID(first.MemoryID, owner, seq))
		return memory.Stored{ID: first.MemoryID, Seq: seq, Stored: err == nil}, err
	}
	if l.History[len(l.History)-1].Event == memory.EventUpdate {
		p.Rec.Flags |= layout.FlagUpdate
	}
	p.Rec.Before = before
	err = w.add(p, owner, run, seq)
	return memory.Stored{ID: first.MemoryID, Seq: seq, Stored: err == nil, Pending: p.Pending, PendingWhy: p.Why}, err
}

// known reports whether the memory is there, or else a life with the same events.
func (w *Writer) known(l *memory.Life, p *Prepared, owner uint32, upTo uint64) (there Live, known bool, err error) {
	id := l.History[0].MemoryID
	if p != nil {
		return w.FindID(owner, id)
	}
	err = w.lives(owner, id, func(of uint64) error {
		have, err := w.LifeOf(owner, of, id, memory.Scope{})
		if err != nil || !SameEvents(have, l.History) || have[0].LSN > upTo {
			return err
		}
		there.Seq, known = of, true
		return kv.ErrStop
	})
	return there, known, err
}

// SameEvents reports whether two histories tell the same, whatever the IDs and the LSNs of their entries.
func SameEvents(a, b []memory.HistoryEntry) bool {
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
func (w *Writer) bury(owner uint32, seq uint64, past []memory.HistoryEntry) (before layout.Change, err error) {
	var last layout.Version
	for i := range past {
		e, v := &past[i], layout.Version{Owner: owner, Seq: seq, Born: w.LSN, Change: w.Change()}
		if e.Event == memory.EventDelete {
			d := layout.Death{At: clock.ToMillis(e.Time), Born: last.Born, Change: last.Change, Kept: true}
			d.Reason, d.Policy = layout.Reason(max(0, slices.Index(state.Reasons[:], e.Reason))), e.Policy
			d.IntoID = e.Into // it may come later, as it was stored later
			if err := w.Set(w.Keys.History(owner, seq, w.LSN, v.Change), d.Encode()); err != nil {
				return before, err
			}
			w.LogVersioned(layout.LogDelete, last, &last)
			continue
		}
		rec := layout.Record{ID: e.MemoryID, Scope: e.Scope, Kind: byte(max(slices.Index(state.Kinds[:], e.Kind), 0)), Text: *e.NewText, Created: clock.ToMillis(e.Time), Updated: clock.ToMillis(e.Time), Confidence: 1, Flags: layout.FlagPast, Before: before}
		if e.Event == memory.EventUpdate {
			rec.Flags |= layout.FlagUpdate
		}
		if err := w.Set(w.Keys.Record(v), rec.Append(nil)); err != nil {
			return before, err
		}
		w.LogVersioned(layout.LogPast, v, nil)
		last, before = v, layout.Change{Born: v.Born, Number: v.Change}
	}
	return before, nil
}
