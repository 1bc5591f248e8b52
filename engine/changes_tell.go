package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// changes are those of a commit, as the log names them.
type changes struct {
	lsn   uint64
	time  int64
	steps []step
	// ranges are where among the steps the deaths of a death range belong.
	ranges []placedRange
}

// placedRange is a death range, and how many steps come before it.
type placedRange struct {
	at     layout.Change
	before int
}

// step is a change whose values are still to be read.
type step struct {
	op     wal.Op
	owner  uint32 // 0: it is to be looked for
	seq    uint64
	number uint32        // of the change within the commit, as versions have it
	before layout.Change // the version that it took the place of
	reason layout.Reason
	access layout.LoggedAccess
	tell   part.Telling // of a part
	shifts bool         // it, and what follows, may have had another number before
}

// decodeChanges reads a log record.
func (db *DB) decodeChanges(p loggedCommit) (*changes, error) {
	r, err := layout.ReadLog(p.lsn, p.record)
	if err != nil {
		return nil, err
	}
	c := &changes{lsn: p.lsn, time: r.Time}
	for n := range r.Changes {
		op := r.Op()
		ch, own, err := r.Own(op)
		switch {
		case err != nil:
			return nil, err
		case own:
			c.own(n, &ch)
			continue
		}
		teller := db.tellerOf(part.Op(op))
		if teller == nil {
			return nil, r.Damaged(fmt.Sprintf("its operation %d is not known to this memdb", op), nil)
		}
		tell := teller.Tell(part.Op(op), r.Body())
		if tell != nil {
			c.steps = append(c.steps, step{tell: tell})
		} else if r.Body().Len() == 0 {
			break // of a clean-up of sessions, whose bodies have no end of their own
		}
	}
	return c, r.End()
}

// tellerOf is the part that has logged an operation, nil for none.
func (db *DB) tellerOf(op part.Op) part.Teller {
	for _, p := range db.parts {
		if t, ok := p.(part.Teller); ok && slices.Contains(p.Ops(), op) {
			return t
		}
	}
	return nil
}

// evictions are what readers call the reasons of an eviction.
var evictions = map[layout.Reason]wal.Op{layout.ReasonExpired: wal.OpExpire, layout.ReasonMerged: wal.OpMerge}

// own adds the steps of the change of a number of the memories.
func (c *changes) own(number uint32, ch *layout.LoggedChange) {
	one := step{owner: ch.Owner, seq: ch.Seq, number: ch.Change, before: ch.Before, reason: ch.Reason}
	switch ch.Op {
	case layout.LogAdd:
		one.op = wal.OpAdd
	case layout.LogUpdate:
		one.op = wal.OpUpdate
	case layout.LogPast:
		one.op = wal.OpPast
	case layout.LogDelete:
		one.op, one.number = wal.OpDelete, number
	case layout.LogReset:
		one.op = wal.OpReset
	case layout.LogSpace:
		one.op = wal.OpSpace
	case layout.LogErase:
		one.op = wal.OpErase
	case layout.LogErased:
		one.op = wal.OpErased
	case layout.LogRange:
		c.ranges = append(c.ranges, placedRange{layout.Change{Born: c.lsn, Number: ch.Change}, len(c.steps)})
		return
	case layout.LogEvict:
		one.op = cmp.Or(evictions[ch.Reason], wal.OpEvict)
		for _, one.seq = range ch.Seqs {
			c.steps = append(c.steps, one)
		}
		return
	case layout.LogTouch, layout.LogFold:
		for _, a := range ch.Accesses {
			c.steps = append(c.steps, step{op: wal.OpAccess, owner: a.Owner, seq: a.Seq, access: a})
		}
		return
	default: // a move changes nothing that a reader sees
		return
	}
	c.steps = append(c.steps, one)
}

// findDeaths gives the commits of a page the memories that their death ranges killed.
func (f *feed) findDeaths(ctx context.Context, commits []*changes) error {
	wanted := map[layout.Change][]home{}
	for _, c := range commits {
		for _, r := range c.ranges {
			wanted[r.at] = nil
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	forgotten := int64(0)
	err := f.db.view(ctx, nil, func(tx *Tx) (err error) {
		if forgotten, _, err = policy.Came((*partTx)(tx), policy.JobForget); err != nil {
			return err
		}
		return tx.rangeDeaths(ctx, wanted)
	})
	if err != nil {
		return err
	}
	for _, c := range commits {
		for _, r := range slices.Backward(c.ranges) { // those before it stay where they are
			var dead []step
			partial := forgotten >= c.time
			for _, h := range wanted[r.at] {
				dead = append(dead, step{op: wal.OpDelete, owner: h.owner, seq: h.seq, number: r.at.Number, reason: layout.ReasonScope, shifts: partial})
			}
			if partial { // there were more, of which nothing is kept
				dead = append(dead, step{op: wal.OpDelete, reason: layout.ReasonScope, shifts: true})
			}
			c.steps = slices.Insert(c.steps, r.before, dead...)
		}
	}
	return nil
}

// tell reads the values of a step.
func (f *feed) tell(tx *Tx, c *changes, s *step) ([]wal.Change, error) {
	if s.tell != nil {
		return f.tellPart(tx, c, s)
	}
	ch := wal.Change{Op: s.op, Seq: s.seq, Reason: string(reasons[s.reason])}
	if s.seq == 0 {
		ch.Unresolved = s.op == wal.OpDelete
		return []wal.Change{ch}, nil
	}
	if s.owner == 0 {
		owner, known, err := tx.ownerOfSeq(s.seq)
		if err != nil || !known {
			ch.Unresolved = true
			return []wal.Change{ch}, err
		}
		s.owner = owner
	}
	var err error
	switch s.op {
	case wal.OpAdd, wal.OpUpdate, wal.OpPast:
		err = f.tellBorn(tx, c, s, &ch)
	case wal.OpAccess:
		var rec *layout.Record
		if rec, err = tx.lastRecord(s.owner, s.seq); err == nil {
			err = f.name(tx, s, rec, &ch)
		}
		ch.After = accessOf(&s.access)
	default:
		err = f.tellDied(tx, c, s, &ch)
	}
	return []wal.Change{ch}, err
}

func accessOf(a *layout.LoggedAccess) wal.Access {
	out := wal.Access{Accesses: int64(a.Count)}
	if a.Last != 0 {
		out.LastAccessed = new(clock.FromMillis(a.Last))
	}
	return out
}

// name gives a change the ID and the scope of a memory, of which a record is known or, if rec is
// nil, nothing but the owner.
func (f *feed) name(tx *Tx, s *step, rec *layout.Record, ch *wal.Change) error {
	if rec != nil {
		ch.ID, ch.Scope = rec.ID, rec.Scope
		f.owners[s.owner] = rec.Scope.Owner()
		return nil
	}
	ch.Unresolved = true
	o, err := f.owner(tx, s.owner)
	ch.Scope = o.Scope()
	return err
}

// tellBorn tells of a version that was born. One that had nothing new but vectors goes when the next
// one takes its place: what it said is what the one before it says.
func (f *feed) tellBorn(tx *Tx, c *changes, s *step, ch *wal.Change) error {
	at := layout.Change{Born: c.lsn, Number: s.number}
	v := layout.Version{Owner: s.owner, Seq: s.seq, Born: at.Born, Change: at.Number}
	rec, err := tx.state.ReadRecord(v)
	if errors.Is(err, kv.ErrNotFound) {
		rec, v, err = tx.versionBefore(s.owner, s.seq, at)
		if rec == nil && err == nil {
			if rec, err = tx.lastRecord(s.owner, s.seq); err == nil {
				ch.Unresolved = true
				err = f.name(tx, s, rec, ch)
			}
			return err
		}
		ch.Reason = wal.ReasonEmbedded
	}
	if err == nil {
		err = f.name(tx, s, rec, ch)
	}
	if err == nil {
		ch.After, err = f.shape(tx, rec, v, ch)
	}
	if err != nil || s.op != wal.OpUpdate {
		return err
	}
	if rec.Flags&layout.FlagEmbedded != 0 {
		ch.Reason = wal.ReasonEmbedded
	}
	if rec.Flags&layout.FlagApart != 0 {
		if back, err := tx.diedBetween(s.owner, s.seq, s.before, at); err != nil || back {
			ch.Op = wal.OpRestore // before it there was none
			return err
		}
	}
	ch.Before, err = f.formerly(tx, s, at, ch)
	return err
}

// tellDied tells of a death.
func (f *feed) tellDied(tx *Tx, c *changes, s *step, ch *wal.Change) error {
	at := layout.Change{Born: c.lsn, Number: s.number}
	d, err := tx.deathAt(s.owner, s.seq, c.lsn, s.op == wal.OpMerge)
	if err != nil {
		return err
	}
	if d != nil {
		ch.Reason = string(reasons[d.Reason])
		ch.Into = d.IntoID
		if d.Into != 0 {
			if ch.Into, err = tx.lastID(s.owner, d.Into); err != nil {
				return err
			}
		}
		if s.op == wal.OpDelete && d.Reason == layout.ReasonExpired {
			ch.Op = wal.OpExpire
		}
	}
	if ch.Before, err = f.formerly(tx, s, at, ch); err != nil {
		return err
	}
	if ch.Before != nil {
		m := ch.Before.(*memory.Memory)
		ch.ID, ch.Scope = m.ID, m.Scope
		if s.before.Born == c.lsn && s.op == wal.OpDelete {
			past, err := tx.isPast(layout.Version{Owner: s.owner, Seq: s.seq, Born: s.before.Born, Change: s.before.Number})
			if past {
				ch.Op = wal.OpPast
			}
			return err
		}
		return nil
	}
	rec, err := tx.lastRecord(s.owner, s.seq)
	if err == nil {
		err = f.name(tx, s, rec, ch)
	}
	return err
}

// formerly is the memory as it was before a change, nil where that is not kept.
func (f *feed) formerly(tx *Tx, s *step, at layout.Change, ch *wal.Change) (any, error) {
	v := layout.Version{Owner: s.owner, Seq: s.seq, Born: s.before.Born, Change: s.before.Number}
	var rec *layout.Record
	err := kv.ErrNotFound
	if v.Born != 0 {
		rec, err = tx.state.ReadRecord(v)
	}
	if errors.Is(err, kv.ErrNotFound) {
		rec, v, err = tx.versionBefore(s.owner, s.seq, at)
	}
	if rec == nil || err != nil {
		ch.Unresolved = true
		return nil, err
	}
	return f.shape(tx, rec, v, ch)
}

// shape is a version as an export has it, with the confidence that was stored with it.
func (f *feed) shape(tx *Tx, rec *layout.Record, v layout.Version, ch *wal.Change) (any, error) {
	m, err := memoryOf(rec, v.Seq)
	if err != nil {
		return nil, err
	}
	if state.IsNote(rec) {
		if m.NoteID, err = notes.Number((*partTx)(tx), v.Owner, v.Seq); err != nil {
			return nil, err
		}
	}
	if !f.WithVectors {
		return &m, nil
	}
	vectors := map[string][]float32{}
	for _, ref := range rec.Vectors {
		s := tx.spaceByNum(ref.Space)
		vec, err := tx.vector(v, ref)
		switch {
		case s == nil || errors.Is(err, fault.ErrCorrupt): // which it is, too, where it was removed
			ch.Unresolved = true
		case err != nil:
			return nil, err
		default:
			vectors[s.Name] = vec
		}
	}
	setVectors(&m, vectors)
	return &m, nil
}

// tellPart has a part tell of a change, and names whose it is.
func (f *feed) tellPart(tx *Tx, c *changes, s *step) ([]wal.Change, error) {
	told, err := s.tell((*partTx)(tx), part.Commit{LSN: c.lsn, Time: c.time})
	if err != nil {
		return nil, err
	}
	out := make([]wal.Change, len(told))
	for i, t := range told {
		o, err := f.owner(tx, t.Owner)
		if err != nil {
			return nil, err
		}
		out[i] = wal.Change{
			Op: wal.Op(t.Op), Scope: scope.Scope{User: o.User, Agent: o.Agent, Run: t.Run}, ID: t.ID, Seq: t.Seq, Reason: t.Reason, Into: t.Into,
			Before: t.Before, After: t.After, Unresolved: t.Unresolved,
		}
	}
	return out, nil
}

// feedOwners bounds the owners that a reader remembers.
const feedOwners = 1 << 16

// owner is the owner of a number, that of nobody for 0.
func (f *feed) owner(tx *Tx, number uint32) (o scope.Owner, err error) {
	o, known := f.owners[number]
	if known || number == 0 {
		return o, nil
	}
	if len(f.owners) >= feedOwners {
		clear(f.owners)
	}
	prefix := append(tx.state.Keys.Header(layout.KindName, 1), byte(layout.NameOwner))
	err = tx.scan(prefix, layout.PrefixEnd(prefix), func(key, stored []byte) error {
		num, text, _, err := layout.DecodeName(key, stored)
		if err != nil || num != number && len(f.owners) >= feedOwners {
			return err
		}
		if of, ok := scope.ParseKey(text); ok {
			f.owners[num] = of
		}
		return nil
	})
	return f.owners[number], err
}

// ownerOfSeq is the number of the owner of a memory, false where nothing is kept of it.
func (tx *Tx) ownerOfSeq(seq uint64) (owner uint32, known bool, err error) {
	if s := tx.db.tables.Docs.Seq(seq); s != nil {
		if row := tx.db.tables.Docs.Of(s.Doc.Load()-1, seq); row != nil {
			return row.Owner, true, nil
		}
	}
	if !tx.state.Keys.RecordsBySeq() {
		return 0, false, nil
	}
	prefix := tx.state.Keys.Records(0, seq)
	prefix = prefix[:len(prefix)-4] // the owner comes last
	err = kv.Scan(tx.state.Reader, prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
		v, ok := layout.ParseRecordKey(key)
		if !ok {
			return layout.BadKey("record", key)
		}
		owner, known = v.Owner, true
		return kv.ErrStop
	})
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return owner, known, err
}

// versionBefore is the newest version of a memory that was born before a change, nil where none is
// kept.
func (tx *Tx) versionBefore(owner uint32, seq uint64, at layout.Change) (rec *layout.Record, v layout.Version, err error) {
	lower := tx.state.Keys.Records(owner, seq)
	upper := tx.state.Keys.Record(layout.Version{Owner: owner, Seq: seq, Born: at.Born, Change: at.Number})
	it, err := tx.state.Reader.Iter(lower, upper)
	if err != nil {
		return nil, v, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.Last() {
		return nil, v, it.Error()
	}
	v, ok := layout.ParseRecordKey(it.Key())
	if !ok {
		return nil, v, layout.BadKey("record", it.Key())
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return nil, v, err
	}
	rec, err = layout.DecodeRecord(bytes.Clone(value))
	return rec, v, err
}

// deathAt is the death of a memory at an LSN, nil where no history tells of it. ranged also looks
// at the death ranges, of which none is cleaned up yet.
func (tx *Tx) deathAt(owner uint32, seq, at uint64, ranged bool) (d *layout.Death, err error) {
	prefix := tx.state.Keys.Histories(owner, seq)
	err = tx.scan(prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
		lsn, _, ok := layout.ParseHistoryKey(key)
		if !ok {
			return layout.BadKey("history", key)
		}
		if lsn != at {
			return nil
		}
		of, err := layout.DecodeDeath(value)
		d = &of
		return err
	})
	if err != nil || d != nil || !ranged {
		return d, err
	}
	d, lsn, _, err := tx.rangeDeath(seq)
	if lsn != at {
		d = nil
	}
	return d, err
}

// diedBetween reports whether a memory has died after one change and before another.
func (tx *Tx) diedBetween(owner uint32, seq uint64, from, to layout.Change) (died bool, err error) {
	prefix := tx.state.Keys.Histories(owner, seq)
	err = tx.scan(prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
		lsn, number, ok := layout.ParseHistoryKey(key)
		if !ok {
			return layout.BadKey("history", key)
		}
		at := layout.Change{Born: lsn, Number: number}
		died = died || from.Before(at) && at.Before(to)
		return nil
	})
	return died, err
}

// isPast reports whether an import brought a version that was superseded already.
func (tx *Tx) isPast(v layout.Version) (bool, error) {
	rec, err := tx.state.ReadRecord(v)
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Flags&layout.FlagPast != 0, err
}
