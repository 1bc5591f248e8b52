package changefeed

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// The log names a death range, and not what died of it. As long as the range is to be cleaned up,
// the rows say so; they stay while a View holds a state that has the range, since their documents
// move, and their numbers are free, only afterwards. Then the histories do. After an opening amid a
// clean-up, each says a part.

// cancelEvery is how many keys are read between two looks at the context.
const cancelEvery = 1 << 12

// home is a memory, and its owner.
type home struct {
	seq   uint64
	owner uint32
}

// findDeaths gives the commits of a page the memories that their death ranges killed.
func (f *feed) findDeaths(ctx context.Context, commits []*commit) error {
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
	err := f.host.View(ctx, func(r Reader) (err error) {
		if forgotten, _, err = policy.Came(r.Part(), policy.JobForget); err != nil {
			return err
		}
		return rangeDeaths(ctx, r.State(), f.host.Opened(), wanted)
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

// rangeDeaths fills in the memories that death ranges have killed, in the order of Seqs.
func rangeDeaths(ctx context.Context, s *state.State, opened uint64, wanted map[layout.Change][]home) error {
	cleaned := false
	for at := range wanted {
		homes, there, err := rangeRows(ctx, s, at)
		if err != nil {
			return err
		}
		wanted[at] = homes
		cleaned = cleaned || !there || at.Born <= opened
	}
	if cleaned {
		if err := rangeHistories(ctx, s, wanted); err != nil {
			return err
		}
	}
	for at, homes := range wanted {
		slices.SortFunc(homes, func(a, b home) int { return cmp.Compare(a.seq, b.seq) })
		wanted[at] = slices.Compact(homes)
	}
	return nil
}

// rangeRows are the memories that a death range has killed by the rows, and whether it is still to
// be cleaned up.
func rangeRows(ctx context.Context, s *state.State, at layout.Change) (homes []home, there bool, err error) {
	key := s.Keys.DeathRange(&layout.DeathRange{LSN: at.Born, Change: at.Number})
	b, closer, err := s.Reader.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	d, err := layout.DecodeRange(s.Keys, key, slices.Clone(b))
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, true, err
	}
	docs := &s.Docs
	if d.Listed {
		for it := d.Docs.Iterator(); it.HasNext(); {
			if r := docs.Row(it.Next()); r != nil && r.Died.Load() == d.LSN {
				homes = append(homes, home{r.Seq, r.Owner})
			}
		}
		return homes, true, nil
	}
	n := 0
	docs.Rows.Each(uint64(docs.Mark.Load()), func(doc uint64, r *doctable.Row) bool {
		if n++; n%cancelEvery == 0 && ctx.Err() != nil {
			err = ctx.Err()
			return false
		}
		if r.Died.Load() != d.LSN || !d.Before(r.Version) {
			return true
		}
		var killed bool
		if killed, err = killedBy(s, &d, uint32(doc), r); killed {
			homes = append(homes, home{r.Seq, r.Owner})
		}
		return err == nil
	})
	return homes, true, err
}

// killedBy reports whether a version that died in the commit of a death range did so by that, and
// not by another change of it.
func killedBy(s *state.State, d *layout.DeathRange, doc uint32, r *doctable.Row) (bool, error) {
	rec, err := s.Record(r.Version)
	if err != nil || !d.Covers(doc, r.Version, rec.Scope) {
		return false, err
	}
	prefix := s.Keys.Histories(r.Owner, r.Seq)
	killed := true
	err = kv.Scan(s.Reader, prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
		lsn, number, ok := layout.ParseHistoryKey(key)
		if !ok {
			return layout.BadKey("history", key)
		}
		killed = killed && (lsn != d.LSN || number == d.Change)
		return nil
	})
	return killed, err
}

// rangeHistories adds the memories whose histories say that they died of death ranges. It reads all
// keys of deaths.
func rangeHistories(ctx context.Context, s *state.State, wanted map[layout.Change][]home) error {
	lower, upper := s.Keys.Span(layout.KindHistory)
	n := 0
	return kv.Scan(s.Reader, lower, upper, func(key, _ []byte) error {
		if n++; n%cancelEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		lsn, number, ok := layout.ParseHistoryKey(key)
		if !ok {
			return layout.BadKey("history", key)
		}
		at := layout.Change{Born: lsn, Number: number}
		if homes, is := wanted[at]; is {
			owner, seq := layout.HistoryOf(key)
			wanted[at] = append(homes, home{seq, owner})
		}
		return nil
	})
}
