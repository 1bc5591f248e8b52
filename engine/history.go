package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
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
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The adds and updates of a memory are its versions, which stay; only a death
// needs an entry of its own.

// History lists what happened to the memories that have or had this ID, oldest
// first; it stays readable after a delete. An empty scope finds the ID in any
// owner; ErrNotFound where there never was one, ErrAmbiguous where there are
// several owners.
func (m Memories) History(ctx context.Context, s memory.Scope, id string) (entries []memory.HistoryEntry, err error) {
	doing := fmt.Sprintf("read the history of memory %q", valid.Short(id))
	if s != (memory.Scope{}) {
		if err := scope.Check(doing, s); err != nil {
			return nil, err
		}
	}
	err = m.view(ctx, doing, func(tx *Tx) error {
		entries, err = tx.history(doing, s, m.lack, id)
		return err
	})
	return entries, err
}

func (tx *Tx) history(doing string, s memory.Scope, lack memory.Lack, id string) ([]memory.HistoryEntry, error) {
	var entries []memory.HistoryEntry
	owners := map[uint32]bool{}
	err := tx.holders(anyOwner, id, func(c claim) error {
		of, err := tx.lifeOf(c.owner, c.seq, id, s)
		if len(of) > 0 && lack.In(of[0].Scope) {
			owners[c.owner] = true
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
		return nil, ambiguous(doing, len(owners))
	}
	return entries, nil
}

// lifeOf lists the events of one memory, its versions, then its death, as far as
// they are within a scope. An empty ID is any.
func (tx *Tx) lifeOf(owner uint32, seq uint64, id string, s memory.Scope) ([]memory.HistoryEntry, error) {
	dead, err := tx.deaths(owner, seq)
	if err != nil {
		return nil, err
	}
	var entries []memory.HistoryEntry
	var last *layout.Record
	bury := func(before layout.Change) error { // of the deaths that came before a version
		for len(dead) > 0 && (before == layout.Change{} || dead[0].at.Before(before)) {
			if last != nil {
				e, err := tx.deathEntry(last, owner, seq, &dead[0])
				if err != nil {
					return err
				}
				entries = append(entries, e)
			}
			dead = dead[1:]
		}
		return nil
	}
	prefix := tx.state.Keys.Records(owner, seq)
	err = tx.scan(prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
		v, ok := layout.ParseRecordKey(key)
		if !ok {
			return layout.BadKey("record", key)
		}
		if v.Born > tx.state.LSN { // a past state is read
			return nil
		}
		if err := bury(layout.Change{Born: v.Born, Number: v.Change}); err != nil {
			return err
		}
		rec, err := layout.DecodeRecord(value)
		if err != nil || id != "" && rec.ID != id || !scope.Contains(s, rec.Scope) || rec.Flags&layout.FlagEmbedded != 0 {
			return err
		}
		e := tx.entry(rec, v.Seq, v.Born, v.Change, memory.EventAdd, rec.Updated)
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
func (tx *Tx) deathEntry(last *layout.Record, owner uint32, seq uint64, d *died) (e memory.HistoryEntry, err error) {
	e = tx.entry(last, seq, d.at.Born, d.at.Number, memory.EventDelete, d.At)
	e.OldText, e.IsDeleted = &last.Text, true
	e.Reason, e.Policy, e.Into = state.Reasons[d.Reason], d.Policy, d.IntoID
	if d.Into != 0 {
		e.Into, err = tx.state.LastID(owner, d.Into)
	}
	return e, err
}

// died is a death of a memory, and where it came among the changes.
type died struct {
	layout.Death
	at layout.Change
}

// deaths are the deaths of a memory, the oldest first: of one that was brought back there are
// several. One that a death range brought has an entry only once it was cleaned up; until then
// the range tells.
func (tx *Tx) deaths(owner uint32, seq uint64) (all []died, err error) {
	prefix := tx.state.Keys.Histories(owner, seq)
	err = tx.scan(prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
		lsn, number, ok := layout.ParseHistoryKey(key)
		if !ok {
			return layout.BadKey("history", key)
		}
		if lsn > tx.state.LSN {
			return nil
		}
		d, err := layout.DecodeDeath(value)
		all = append(all, died{d, layout.Change{Born: lsn, Number: number}})
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, lives := tx.at(seq); lives {
		return all, nil
	}
	if n := len(all); n > 0 && all[n-1].at.Born >= tx.lastDeath(seq) {
		return all, nil
	}
	d, lsn, number, err := tx.state.RangeDeath(seq)
	if d != nil && lsn <= tx.state.LSN {
		all = append(all, died{*d, layout.Change{Born: lsn, Number: number}})
	}
	return all, err
}

// lastDeath is the LSN at which the newest document of a memory died, 0 where none is known.
func (tx *Tx) lastDeath(seq uint64) uint64 {
	s := tx.db.tables.Docs.Seq(seq)
	if s == nil {
		return 0
	}
	row := tx.db.tables.Docs.Of(s.Doc.Load()-1, seq) // 0 - 1 is None
	if row == nil {
		return 0
	}
	lsn := row.Died.Load()
	if lsn == doctable.Alive { // a later state has it back
		return 0
	}
	return lsn
}

// deathOf is the last death of a memory, nil where it never died.
func (tx *Tx) deathOf(owner uint32, seq uint64) (*died, error) {
	all, err := tx.deaths(owner, seq)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[len(all)-1], nil
}

func (tx *Tx) entry(r *layout.Record, seq, lsn uint64, change uint32, e memory.Event, at int64) memory.HistoryEntry {
	return memory.HistoryEntry{
		ID: tx.db.entryID(seq, lsn, change), MemoryID: r.ID, Seq: seq, Scope: r.Scope, Kind: state.Kinds[r.Kind],
		Event: e, Time: clock.FromMillis(at), LSN: lsn,
	}
}

// entryID is an entry's UUID: made of what the entry is, so that it is the same
// at every reading and needs no room.
func (db *DB) entryID(seq, lsn uint64, change uint32) string {
	b := append([]byte(nil), db.id[:]...)
	b = binary.BigEndian.AppendUint64(b, seq)
	b = binary.BigEndian.AppendUint64(b, lsn)
	b = binary.BigEndian.AppendUint32(b, change)
	u := uuid.UUID(xxh3.Hash128(b).Bytes())
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8, the RFC's variant
	return u.String()
}

func ambiguous(doing string, owners int) error {
	return &fault.Error{
		Kind: fault.ErrAmbiguous, What: doing, Why: fmt.Sprintf("%d owners have a memory with this ID", owners),
		Do: "give the user and the agent",
	}
}

const doingHistories = "read histories"

// Histories iterates over what happened to each memory that was updated, has
// expired or is gone: the entries of one memory at a time, in the order of Seq. A
// memory that was only added is left out, since it tells its own add. It holds one
// state for as long as it runs, and 16 bytes of memory for each such memory.
func (m Memories) Histories(ctx context.Context, q memory.HistoryQuery) iter.Seq2[[]memory.HistoryEntry, error] {
	return func(yield func([]memory.HistoryEntry, error) bool) {
		var err error
		if err = memory.CheckScope(doingHistories, q.Scope, q.AllScopes); err == nil {
			err = m.view(ctx, doingHistories, func(tx *Tx) error { return tx.histories(ctx, &q, yield) })
		}
		if err != nil && !errors.Is(err, kv.ErrStop) {
			yield(nil, err)
		}
	}
}

func (tx *Tx) histories(ctx context.Context, q *memory.HistoryQuery, yield func([]memory.HistoryEntry, error) bool) error {
	if q.Lost != nil {
		of := *tx
		of.state.Lose = q.Lost
		tx = &of
	}
	changed, err := tx.changed(ctx)
	if err != nil {
		return store.Error(doingHistories, err)
	}
	for _, of := range changed {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := tx.lifeOf(of.owner, of.seq, "", q.Scope)
		if err = store.Error(doingHistories, err); q.Lost != nil && store.Unreadable(err) {
			q.Lost(err)
			continue
		}
		if err != nil {
			return err
		}
		if len(entries) == 0 || len(entries) == 1 && entries[0].Event == memory.EventAdd && tx.listed(of.seq) {
			continue
		}
		if !yield(entries, nil) {
			return kv.ErrStop
		}
	}
	return nil
}

// listed reports whether a memory is there for all to see.
func (tx *Tx) listed(seq uint64) bool {
	l, lives := tx.at(seq)
	return lives && !l.expired(tx.state.Now)
}

// home is where the versions of a memory lie.
type home struct {
	seq   uint64
	owner uint32
}

// changed lists the memories of which more is to be told than an add, in the order
// of Seq. In an old database versions lie by owner, so they are gathered first.
func (tx *Tx) changed(ctx context.Context) ([]home, error) {
	var out []home
	var at home
	versions, updated, n := 0, false, 0
	next := func(p home) {
		if versions > 1 || updated || versions == 1 && !tx.listed(at.seq) {
			out = append(out, at)
		}
		at, versions, updated = p, 0, false
	}
	lower, upper := tx.state.Keys.Span(layout.KindRecord)
	err := tx.scan(lower, upper, func(key, value []byte) error {
		v, ok := layout.ParseRecordKey(key)
		if !ok {
			return layout.BadKey("record", key)
		}
		if n++; n%scanCheck == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if p := (home{v.Seq, v.Owner}); p != at {
			next(p)
		}
		versions++
		updated = updated || recordFlags(value)&layout.FlagUpdate != 0
		return nil
	})
	next(home{})
	slices.SortFunc(out, func(a, b home) int { return cmp.Compare(a.seq, b.seq) })
	return out, err
}

// scanCheck is how many keys are read between two looks at the context.
const scanCheck = 1 << 12

// recordFlags reads the flags of an encoded record alone.
func recordFlags(b []byte) uint64 {
	c := codec.NewReader(b)
	c.Byte() // version, role, kind
	c.Byte()
	c.Byte()
	return c.Uvarint()
}

// lives calls fn with the Seq of each memory of an owner that has or had this ID,
// or one of the same hash, until it returns an error; kv.ErrStop is none.
func (tx *Tx) lives(owner uint32, id string, fn func(seq uint64) error) error {
	err := tx.holders(owner, id, func(c claim) error { return fn(c.seq) })
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return store.Error(doingHistories, err)
}
