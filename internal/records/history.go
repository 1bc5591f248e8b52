package records

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// DoingHistories says in errors what is done.
const DoingHistories = "read histories"

// History lists what happened to the memories that have or had an ID, oldest first.
func (view View) History(doing string, s memory.Scope, lack memory.Lack, id string) ([]memory.HistoryEntry, error) {
	var entries []memory.HistoryEntry
	owners := map[uint32]bool{}
	err := view.Holders(AnyOwner, id, func(c Claim) error {
		of, err := view.LifeOf(c.Owner, c.Seq, id, s)
		if len(of) > 0 && lack.In(of[0].Scope) {
			owners[c.Owner] = true
			entries = append(entries, of...)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, store.Error(doing, err)
	case len(owners) == 0:
		return nil, &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "there was never one in this scope", Do: "check the ID and the scope"}
	case len(owners) > 1:
		return nil, Ambiguous(doing, len(owners))
	}
	return entries, nil
}

// LifeOf lists the events of one memory, its versions, then its death, as far as
// they are within a scope. An empty ID is any.
func (view View) LifeOf(owner uint32, seq uint64, id string, s memory.Scope) ([]memory.HistoryEntry, error) {
	dead, err := view.Deaths(owner, seq)
	if err != nil {
		return nil, err
	}
	var entries []memory.HistoryEntry
	var last *layout.Record
	bury := func(before layout.Change) error { // of the deaths that came before a version
		for len(dead) > 0 && (before == layout.Change{} || dead[0].Where.Before(before)) {
			if last != nil {
				e, err := view.deathEntry(last, owner, seq, &dead[0])
				if err != nil {
					return err
				}
				entries = append(entries, e)
			}
			dead = dead[1:]
		}
		return nil
	}
	prefix := view.Keys.Records(owner, seq)
	err = view.Scan(prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
		v, ok := layout.ParseRecordKey(key)
		if !ok {
			return layout.BadKey("record", key)
		}
		if v.Born > view.LSN { // a past state is read
			return nil
		}
		if err := bury(layout.Change{Born: v.Born, Number: v.Change}); err != nil {
			return err
		}
		rec, err := layout.DecodeRecord(value)
		if err != nil || id != "" && rec.ID != id || !scope.Contains(s, rec.Scope) || rec.Flags&layout.FlagEmbedded != 0 {
			return err
		}
		e := view.entry(rec, v.Seq, v.Born, v.Change, memory.EventAdd, rec.Updated)
		if rec.Flags&layout.FlagUpdate != 0 {
			e.Event = memory.EventUpdate
		} else {
			e.Time = clock.FromMillis(rec.Created)
		}
		if last != nil {
			e.OldText = &last.Text
		}
		e.NewText = &rec.Text
		entries, last = append(entries, e), rec
		return nil
	})
	if err != nil || last == nil {
		return nil, err
	}
	return entries, bury(layout.Change{})
}

// deathEntry is the entry of a death of a memory whose last record is given.
func (view View) deathEntry(last *layout.Record, owner uint32, seq uint64, d *Died) (e memory.HistoryEntry, err error) {
	e = view.entry(last, seq, d.Where.Born, d.Where.Number, memory.EventDelete, d.At)
	e.OldText, e.IsDeleted = &last.Text, true
	e.Reason, e.Policy, e.Into = state.Reasons[d.Reason], d.Policy, d.IntoID
	if d.Into != 0 {
		e.Into, err = view.LastID(owner, d.Into)
	}
	return e, err
}

// Died is a death of a memory, and where it came among the changes.
type Died struct {
	layout.Death
	Where layout.Change
}

// Deaths are the deaths of a memory, the oldest first: of one that was brought back there are
// several. One that a death range brought has an entry only once it was cleaned up; until then
// the range tells.
func (view View) Deaths(owner uint32, seq uint64) (all []Died, err error) {
	prefix := view.Keys.Histories(owner, seq)
	err = view.Scan(prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
		lsn, number, ok := layout.ParseHistoryKey(key)
		if !ok {
			return layout.BadKey("history", key)
		}
		if lsn > view.LSN {
			return nil
		}
		d, err := layout.DecodeDeath(value)
		all = append(all, Died{d, layout.Change{Born: lsn, Number: number}})
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, lives := view.At(seq); lives {
		return all, nil
	}
	if n := len(all); n > 0 && all[n-1].Where.Born >= view.lastDeath(seq) {
		return all, nil
	}
	d, lsn, number, err := view.RangeDeath(seq)
	if d != nil && lsn <= view.LSN {
		all = append(all, Died{*d, layout.Change{Born: lsn, Number: number}})
	}
	return all, err
}

// lastDeath is the LSN at which the newest document of a memory died, 0 where none is known.
func (view View) lastDeath(seq uint64) uint64 {
	s := view.Docs.Seq(seq)
	if s == nil {
		return 0
	}
	row := view.Docs.Of(s.Doc.Load()-1, seq) // 0 - 1 is None
	if row == nil {
		return 0
	}
	lsn := row.Died.Load()
	if lsn == doctable.Alive { // a later state has it back
		return 0
	}
	return lsn
}

// DeathOf is the last death of a memory, nil where it never died.
func (view View) DeathOf(owner uint32, seq uint64) (*Died, error) {
	all, err := view.Deaths(owner, seq)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[len(all)-1], nil
}

func (view View) entry(r *layout.Record, seq, lsn uint64, change uint32, e memory.Event, at int64) memory.HistoryEntry {
	return memory.HistoryEntry{
		ID: view.entryID(seq, lsn, change), MemoryID: r.ID, Seq: seq, Scope: r.Scope, Kind: state.Kinds[r.Kind],
		Event: e, Time: clock.FromMillis(at), LSN: lsn,
	}
}

// entryID is an entry's UUID: made of what the entry is, so that it is the same
// at every reading and needs no room.
func (view View) entryID(seq, lsn uint64, change uint32) string {
	b := append([]byte(nil), view.Database[:]...)
	b = binary.BigEndian.AppendUint64(b, seq)
	b = binary.BigEndian.AppendUint64(b, lsn)
	b = binary.BigEndian.AppendUint32(b, change)
	u := uuid.UUID(xxh3.Hash128(b).Bytes())
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8, the RFC's variant
	return u.String()
}

// Histories is what Memories.Histories of package engine tells: the entries of one memory at a time.
func (view View) Histories(ctx context.Context, q *memory.HistoryQuery, yield func([]memory.HistoryEntry, error) bool) error {
	if q.Lost != nil {
		of := *view.State
		of.Lose = q.Lost
		view.State = &of
	}
	changed, err := view.changed(ctx)
	if err != nil {
		return store.Error(DoingHistories, err)
	}
	for _, of := range changed {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := view.LifeOf(of.Owner, of.Seq, "", q.Scope)
		if err = store.Error(DoingHistories, err); q.Lost != nil && store.Unreadable(err) {
			q.Lost(err)
			continue
		}
		if err != nil {
			return err
		}
		if len(entries) == 0 || len(entries) == 1 && entries[0].Event == memory.EventAdd && view.Listed(of.Seq) {
			continue
		}
		if !yield(entries, nil) {
			return kv.ErrStop
		}
	}
	return nil
}

// Listed reports whether a memory is there for all to see.
func (view View) Listed(seq uint64) bool {
	l, lives := view.At(seq)
	return lives && !l.Expired(view.Now)
}

// Home is where the versions of a memory lie.
type Home struct {
	Seq   uint64
	Owner uint32
}

// changed lists the memories of which more is to be told than an add, in the order
// of Seq. In an old database versions lie by owner, so they are gathered first.
func (view View) changed(ctx context.Context) ([]Home, error) {
	var out []Home
	var at Home
	versions, updated, n := 0, false, 0
	next := func(p Home) {
		if versions > 1 || updated || versions == 1 && !view.Listed(at.Seq) {
			out = append(out, at)
		}
		at, versions, updated = p, 0, false
	}
	lower, upper := view.Keys.Span(layout.KindRecord)
	err := view.Scan(lower, upper, func(key, value []byte) error {
		v, ok := layout.ParseRecordKey(key)
		if !ok {
			return layout.BadKey("record", key)
		}
		if n++; n%state.CancelEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if p := (Home{v.Seq, v.Owner}); p != at {
			next(p)
		}
		versions++
		updated = updated || RecordFlags(value)&layout.FlagUpdate != 0
		return nil
	})
	next(Home{})
	slices.SortFunc(out, func(a, b Home) int { return cmp.Compare(a.Seq, b.Seq) })
	return out, err
}

// RecordFlags reads the flags of an encoded record alone.
func RecordFlags(b []byte) uint64 {
	c := codec.NewReader(b)
	c.Byte() // version, role, kind
	c.Byte()
	c.Byte()
	return c.Uvarint()
}

// lives calls fn with the Seq of each memory of an owner that has or had this ID,
// or one of the same hash, until it returns an error; kv.ErrStop is none.
func (view View) lives(owner uint32, id string, fn func(seq uint64) error) error {
	err := view.Holders(owner, id, func(c Claim) error { return fn(c.Seq) })
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return store.Error(DoingHistories, err)
}

// mergedInto is the ID of the memory that one with an ID was merged into, or what took that
// one in since; empty where there is none in the scope.
func (view View) mergedInto(s memory.Scope, id string) (into string, err error) {
	err = view.Holders(AnyOwner, id, func(c Claim) error {
		entries, err := view.LifeOf(c.Owner, c.Seq, id, s)
		if err != nil || len(entries) == 0 || entries[len(entries)-1].Into == "" {
			return err
		}
		if _, into, _, err = view.Survivor(c.Owner, c.Seq); err != nil {
			return err
		}
		return kv.ErrStop
	})
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return into, err
}

// Survivor is the last of the memories that one which is gone was merged into, the next one in
// the place of the one before, and whether it lives. Of one that is not known here only the ID is.
func (view View) Survivor(owner uint32, seq uint64) (into uint64, id string, lives bool, err error) {
	const most = 100 // a chain of merges
	for range most {
		d, err := view.DeathOf(owner, seq)
		if err != nil || d == nil || d.Into == 0 && d.IntoID == "" {
			return into, id, false, err
		}
		if into, id = d.Into, d.IntoID; into == 0 {
			if into, err = view.hadID(owner, id); err != nil || into == 0 {
				return 0, id, false, err
			}
		}
		if id, err = view.LastID(owner, into); err != nil {
			return into, id, false, err
		}
		if l, lives := view.At(into); lives {
			return into, id, !l.Expired(view.Now), nil
		}
		seq = into
	}
	return into, id, false, nil
}

// hadID is the memory of an owner that has an ID or had it last, 0 for none.
func (view View) hadID(owner uint32, id string) (seq uint64, err error) {
	l, lives, err := view.FindID(owner, id)
	if err != nil || lives {
		return l.Seq, err
	}
	err = view.lives(owner, id, func(of uint64) error {
		last, err := view.LastID(owner, of)
		if err == nil && last == id {
			seq = max(seq, of)
		}
		return err
	})
	return seq, err
}
