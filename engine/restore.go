package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// A Life is a memory with what happened to it, as an export holds it.
type Life struct {
	// Memory is what it is now, nil where it is gone.
	Memory *Memory
	// History is what happened to it, oldest first: an add, updates, and the delete
	// of one that is gone. The last entry is that of the memory's present text. A delete
	// that an update follows was undone.
	// Empty for a memory that was only added. The database gives the entries IDs,
	// Seqs and LSNs of its own, and takes an old text from the entry before.
	History []HistoryEntry
}

// RestoreOptions changes what Restore does. nil is the default.
type RestoreOptions struct {
	StoreOptions
	// Known is the LSN up to which a life that is gone can have come and be there
	// already: that of the state before an import, since two lives within one may
	// be the same to the millisecond.
	Known uint64
}

const doingRestore = "restore a memory"

// Restore stores memories with their histories, for imports: it is
// [Memories.StoreBatch] where a life has no history. One that has is written
// whole, under one Seq, with its old texts, times and runs; of its old versions
// nothing else is known. A life whose memory is there already is left to what
// StoreBatch does with the memory, without its history; one that is gone is left
// out where the same events, with the same texts and times, were in the history of
// that ID already (see RestoreOptions).
func (m Memories) Restore(ctx context.Context, lives []Life, o *RestoreOptions) ([]Stored, error) {
	if o == nil {
		o = &RestoreOptions{}
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
		return tx.storeEach(results, o.SkipInvalid, func(i int) (Stored, error) {
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

func (tx *Tx) storeLife(l *Life, p *prepared, o *RestoreOptions) (Stored, error) {
	if added := len(l.History) == 0 || len(l.History) == 1 && l.History[0].Event == EventAdd; added && p != nil {
		return tx.store(p, &o.StoreOptions)
	}
	if err := tx.registered(doingRestore, l.owner()); err != nil {
		return Stored{}, err
	}
	return tx.restore(l, p, o)
}

// owner is whose life it is.
func (l *Life) owner() Owner { return l.History[0].Scope.Owner() }

// check refuses a history that no memory can have had.
func (l *Life) check(doing string) error {
	first := &l.History[0]
	for i := range l.History {
		e := &l.History[i]
		entry := fmt.Sprintf("%s: entry %d of the history of %q", doing, i+1, valid.Short(first.MemoryID))
		if err := e.check(entry); err != nil {
			return err
		}
		why := ""
		switch {
		case e.MemoryID != first.MemoryID || e.Scope.User != first.Scope.User || e.Scope.Agent != first.Scope.Agent:
			why = "it is of another memory than the first"
		case e.Event == EventAdd && i > 0:
			why = "it is an add after another event"
		case e.Event == EventDelete && (i == 0 || l.History[i-1].Event == EventDelete):
			why = "a delete comes after an add or an update"
		case e.Event == EventDelete && i+1 == len(l.History) && l.Memory != nil:
			why = "a delete comes last, and the memory is there"
		}
		if why != "" {
			return fault.Invalid(entry, why, "give one memory's events, oldest first")
		}
	}
	if l.Memory == nil {
		return nil
	}
	last, at := &l.History[len(l.History)-1], l.Memory.UpdatedAt
	if last.Event == EventAdd {
		at = l.Memory.CreatedAt
	}
	if l.Memory.ID != first.MemoryID || l.Memory.Scope != last.Scope ||
		*last.NewText != l.Memory.Text || clock.ToMillis(at) != clock.ToMillis(last.Time) {
		return fault.Invalid(fmt.Sprintf("%s %q", doing, valid.Short(l.Memory.ID)),
			"its history does not end with its ID, scope, text and time", "leave the history out, or mend it")
	}
	return nil
}

// check checks an entry by itself.
func (e *HistoryEntry) check(doing string) error {
	if err := scope.Check(doing, e.Scope); err != nil {
		return err
	}
	if err := valid.Word(doing, "memory ID", e.MemoryID); err != nil {
		return err
	}
	why := ""
	switch {
	case e.MemoryID == "":
		why = "it names no memory"
	case e.Event != EventAdd && e.Event != EventUpdate && e.Event != EventDelete:
		why = fmt.Sprintf("its event is %q", valid.Short(string(e.Event)))
	case e.Event != EventDelete && e.NewText == nil:
		why = "it has no new text"
	case clock.ToMillis(e.Time) == 0:
		why = "it has no time"
	case e.Reason != "" && !slices.Contains(knownReasons, e.Reason):
		why = fmt.Sprintf("its reason is %q", valid.Short(string(e.Reason)))
	case e.Kind != "" && !slices.Contains(knownKinds, e.Kind):
		why = fmt.Sprintf("its kind is %q", valid.Short(string(e.Kind)))
	case e.Event != EventDelete && (e.Reason != "" || e.Into != "" || e.Policy != 0):
		why = "it has a reason and is no delete"
	}
	if why != "" {
		return fault.Invalid(doing, why, "give ADD, UPDATE or DELETE with a memory, a time and, but for DELETE, a text")
	}
	if err := (&Memory{CreatedAt: e.Time}).checkTimes(doing); err != nil || e.NewText == nil {
		return err
	}
	return checkText(doing, *e.NewText)
}

// prepareLife does all that needs no lock; nil for a life that is gone.
func (m Memories) prepareLife(ctx context.Context, l *Life, now int64) (*prepared, error) {
	if len(l.History) > 0 {
		if err := l.check(doingRestore); err != nil {
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
func (tx *Tx) restore(l *Life, p *prepared, o *RestoreOptions) (Stored, error) {
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
		return Stored{}, err
	}
	first := &l.History[0]
	owner, run, err := tx.scopeNumbers(l.History[len(l.History)-1].Scope)
	if err != nil {
		return Stored{}, err
	}
	there, known, err := tx.known(l, p, owner, o.Known)
	if err != nil {
		return Stored{}, err
	}
	switch {
	case known && p != nil && !there.expired(tx.now):
		return tx.store(p, &o.StoreOptions)
	case known && p != nil:
		if done, stored, err := tx.storeKnown(p, &o.StoreOptions); err != nil || done {
			return stored, err
		} // otherwise its ID is free now
	case known:
		return Stored{ID: first.MemoryID, Seq: there.Seq}, nil
	}
	if p != nil {
		if err := tx.fits(doingRestore, p.vectors); err != nil {
			return Stored{}, err
		}
	}
	tx.next.Seq++
	seq := tx.next.Seq
	before, err := tx.bury(owner, seq, past)
	if err != nil {
		return Stored{}, err
	}
	if p == nil {
		err = tx.setListed(tx.keys.ID(first.MemoryID, owner, seq))
		return Stored{ID: first.MemoryID, Seq: seq, Stored: err == nil}, err
	}
	if l.History[len(l.History)-1].Event == EventUpdate {
		p.rec.Flags |= layout.FlagUpdate
	}
	p.rec.Before = before
	err = tx.add(p, owner, run, seq)
	return Stored{ID: first.MemoryID, Seq: seq, Stored: err == nil, Pending: p.pending, PendingWhy: p.why}, err
}

// known tells whether the memory is there, or else a life with the same events.
func (tx *Tx) known(l *Life, p *prepared, owner uint32, upTo uint64) (there live, known bool, err error) {
	id := l.History[0].MemoryID
	if p != nil {
		return tx.findID(owner, id)
	}
	err = tx.lives(owner, id, func(of uint64) error {
		have, err := tx.lifeOf(owner, of, id, Scope{})
		if err != nil || !sameEvents(have, l.History) || have[0].LSN > upTo {
			return err
		}
		there.Seq, known = of, true
		return kv.ErrStop
	})
	return there, known, err
}

func sameEvents(a, b []HistoryEntry) bool {
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
func (tx *Tx) bury(owner uint32, seq uint64, past []HistoryEntry) (before layout.Change, err error) {
	var last layout.Version
	for i := range past {
		e, v := &past[i], layout.Version{Owner: owner, Seq: seq, Born: tx.lsn, Change: tx.change()}
		if e.Event == EventDelete {
			d := layout.Death{At: clock.ToMillis(e.Time), Born: last.Born, Change: last.Change, Kept: true}
			d.Reason, d.Policy = layout.Reason(max(0, slices.Index(reasons[:], e.Reason))), e.Policy
			d.IntoID = e.Into // it may come later, as it was stored later
			if err := tx.set(tx.keys.History(owner, seq, tx.lsn, v.Change), d.Encode()); err != nil {
				return before, err
			}
			tx.logVersioned(layout.LogDelete, last, &last)
			continue
		}
		rec := layout.Record{ID: e.MemoryID, Scope: e.Scope, Kind: byte(max(slices.Index(kindNames[:], e.Kind), 0)), Text: *e.NewText, Created: clock.ToMillis(e.Time), Updated: clock.ToMillis(e.Time), Confidence: 1, Flags: layout.FlagPast, Before: before}
		if e.Event == EventUpdate {
			rec.Flags |= layout.FlagUpdate
		}
		if err := tx.set(tx.keys.Record(v), rec.Append(nil)); err != nil {
			return before, err
		}
		tx.logVersioned(layout.LogPast, v, nil)
		last, before = v, layout.Change{Born: v.Born, Number: v.Change}
	}
	return before, nil
}
