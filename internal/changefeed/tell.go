package changefeed

import (
	"bytes"
	"errors"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// tell reads the values of a step.
func (f *feed) tell(r Reader, c *commit, s *step) ([]wal.Change, error) {
	if s.tell != nil {
		return f.tellPart(r, c, s)
	}
	ch := wal.Change{Op: s.op, Seq: s.seq, Reason: string(state.Reasons[s.reason])}
	if s.seq == 0 {
		ch.Unresolved = s.op == wal.OpDelete
		return []wal.Change{ch}, nil
	}
	if s.owner == 0 {
		owner, known, err := ownerOfSeq(r.State(), s.seq)
		if err != nil || !known {
			ch.Unresolved = true
			return []wal.Change{ch}, err
		}
		s.owner = owner
	}
	var err error
	switch s.op {
	case wal.OpAdd, wal.OpUpdate, wal.OpPast:
		err = f.tellBorn(r, c, s, &ch)
	case wal.OpAccess:
		var rec *layout.Record
		if rec, err = r.State().LastRecord(s.owner, s.seq); err == nil {
			err = f.name(r, s, rec, &ch)
		}
		ch.After = accessOf(&s.access)
	default:
		err = f.tellDied(r, c, s, &ch)
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
func (f *feed) name(r Reader, s *step, rec *layout.Record, ch *wal.Change) error {
	if rec != nil {
		ch.ID, ch.Scope = rec.ID, rec.Scope
		f.owners[s.owner] = rec.Scope.Owner()
		return nil
	}
	ch.Unresolved = true
	o, err := f.owner(r, s.owner)
	ch.Scope = o.Scope()
	return err
}

// tellBorn tells of a version that was born. One that had nothing new but vectors goes when the next
// one takes its place: what it said is what the one before it says.
func (f *feed) tellBorn(r Reader, c *commit, s *step, ch *wal.Change) error {
	at := layout.Change{Born: c.lsn, Number: s.number}
	v := layout.Version{Owner: s.owner, Seq: s.seq, Born: at.Born, Change: at.Number}
	rec, err := r.State().ReadRecord(v)
	if errors.Is(err, kv.ErrNotFound) {
		rec, v, err = versionBefore(r.State(), s.owner, s.seq, at)
		if rec == nil && err == nil {
			if rec, err = r.State().LastRecord(s.owner, s.seq); err == nil {
				ch.Unresolved = true
				err = f.name(r, s, rec, ch)
			}
			return err
		}
		ch.Reason = wal.ReasonEmbedded
	}
	if err == nil {
		err = f.name(r, s, rec, ch)
	}
	if err == nil {
		ch.After, err = f.shape(r, rec, v, ch)
	}
	if err != nil || s.op != wal.OpUpdate {
		return err
	}
	if rec.Flags&layout.FlagEmbedded != 0 {
		ch.Reason = wal.ReasonEmbedded
	}
	if rec.Flags&layout.FlagApart != 0 {
		if back, err := diedBetween(r.State(), s.owner, s.seq, s.before, at); err != nil || back {
			ch.Op = wal.OpRestore // before it there was none
			return err
		}
	}
	ch.Before, err = f.formerly(r, s, at, ch)
	return err
}

// tellDied tells of a death.
func (f *feed) tellDied(r Reader, c *commit, s *step, ch *wal.Change) error {
	at := layout.Change{Born: c.lsn, Number: s.number}
	d, err := deathAt(r.State(), s.owner, s.seq, c.lsn, s.op == wal.OpMerge)
	if err != nil {
		return err
	}
	if d != nil {
		ch.Reason = string(state.Reasons[d.Reason])
		ch.Into = d.IntoID
		if d.Into != 0 {
			if ch.Into, err = r.State().LastID(s.owner, d.Into); err != nil {
				return err
			}
		}
		if s.op == wal.OpDelete && d.Reason == layout.ReasonExpired {
			ch.Op = wal.OpExpire
		}
	}
	if ch.Before, err = f.formerly(r, s, at, ch); err != nil {
		return err
	}
	if ch.Before != nil {
		m := ch.Before.(*memory.Memory)
		ch.ID, ch.Scope = m.ID, m.Scope
		if s.before.Born == c.lsn && s.op == wal.OpDelete {
			past, err := isPast(r.State(), layout.Version{Owner: s.owner, Seq: s.seq, Born: s.before.Born, Change: s.before.Number})
			if past {
				ch.Op = wal.OpPast
			}
			return err
		}
		return nil
	}
	rec, err := r.State().LastRecord(s.owner, s.seq)
	if err == nil {
		err = f.name(r, s, rec, ch)
	}
	return err
}

// formerly is the memory as it was before a change, nil where that is not kept.
func (f *feed) formerly(r Reader, s *step, at layout.Change, ch *wal.Change) (any, error) {
	v := layout.Version{Owner: s.owner, Seq: s.seq, Born: s.before.Born, Change: s.before.Number}
	var rec *layout.Record
	err := kv.ErrNotFound
	if v.Born != 0 {
		rec, err = r.State().ReadRecord(v)
	}
	if errors.Is(err, kv.ErrNotFound) {
		rec, v, err = versionBefore(r.State(), s.owner, s.seq, at)
	}
	if rec == nil || err != nil {
		ch.Unresolved = true
		return nil, err
	}
	return f.shape(r, rec, v, ch)
}

// shape is a version as an export has it, with the confidence that was stored with it.
func (f *feed) shape(r Reader, rec *layout.Record, v layout.Version, ch *wal.Change) (any, error) {
	m, lost, err := r.Memory(rec, v, f.WithVectors)
	if err != nil {
		return nil, err
	}
	ch.Unresolved = ch.Unresolved || lost
	return &m, nil
}

// tellPart has a part tell of a change, and names whose it is.
func (f *feed) tellPart(r Reader, c *commit, s *step) ([]wal.Change, error) {
	told, err := s.tell(r.Part(), part.Commit{LSN: c.lsn, Time: c.time})
	if err != nil {
		return nil, err
	}
	out := make([]wal.Change, len(told))
	for i, t := range told {
		o, err := f.owner(r, t.Owner)
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
func (f *feed) owner(r Reader, number uint32) (o scope.Owner, err error) {
	o, known := f.owners[number]
	if known || number == 0 {
		return o, nil
	}
	if len(f.owners) >= feedOwners {
		clear(f.owners)
	}
	prefix := append(r.State().Keys.Header(layout.KindName, 1), byte(layout.NameOwner))
	err = kv.Scan(r.State().Reader, prefix, layout.PrefixEnd(prefix), func(key, stored []byte) error {
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
func ownerOfSeq(s *state.State, seq uint64) (owner uint32, known bool, err error) {
	if m := s.Docs.Seq(seq); m != nil {
		if row := s.Docs.Of(m.Doc.Load()-1, seq); row != nil {
			return row.Owner, true, nil
		}
	}
	if !s.Keys.RecordsBySeq() {
		return 0, false, nil
	}
	prefix := s.Keys.Records(0, seq)
	prefix = prefix[:len(prefix)-4] // the owner comes last
	err = kv.Scan(s.Reader, prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
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
func versionBefore(s *state.State, owner uint32, seq uint64, at layout.Change) (rec *layout.Record, v layout.Version, err error) {
	lower := s.Keys.Records(owner, seq)
	upper := s.Keys.Record(layout.Version{Owner: owner, Seq: seq, Born: at.Born, Change: at.Number})
	it, err := s.Reader.Iter(lower, upper)
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
func deathAt(s *state.State, owner uint32, seq, at uint64, ranged bool) (d *layout.Death, err error) {
	prefix := s.Keys.Histories(owner, seq)
	err = kv.Scan(s.Reader, prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
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
	d, lsn, _, err := s.RangeDeath(seq)
	if lsn != at {
		d = nil
	}
	return d, err
}

// diedBetween reports whether a memory has died after one change and before another.
func diedBetween(s *state.State, owner uint32, seq uint64, from, to layout.Change) (died bool, err error) {
	prefix := s.Keys.Histories(owner, seq)
	err = kv.Scan(s.Reader, prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
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
func isPast(s *state.State, v layout.Version) (bool, error) {
	rec, err := s.ReadRecord(v)
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Flags&layout.FlagPast != 0, err
}
