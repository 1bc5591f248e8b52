package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// The log names a death range, and not what died of it. As long as the range is to be cleaned up,
// the rows say so; they stay while a View holds a state that has the range, since their documents
// move, and their numbers are free, only afterwards. Then the histories do. After an opening amid a
// clean-up, each says a part.

// rangeDeaths fills in the memories that death ranges have killed, in the order of Seqs.
func (tx *Tx) rangeDeaths(ctx context.Context, wanted map[layout.Change][]home) error {
	cleaned := false
	for at := range wanted {
		homes, there, err := tx.rangeRows(ctx, at)
		if err != nil {
			return err
		}
		wanted[at] = homes
		cleaned = cleaned || !there || at.Born <= tx.db.opening.lsn
	}
	if cleaned {
		if err := tx.rangeHistories(ctx, wanted); err != nil {
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
func (tx *Tx) rangeRows(ctx context.Context, at layout.Change) (homes []home, there bool, err error) {
	key := tx.state.Keys.DeathRange(&layout.DeathRange{LSN: at.Born, Change: at.Number})
	b, closer, err := tx.state.Reader.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	d, err := layout.DecodeRange(tx.state.Keys, key, slices.Clone(b))
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, true, err
	}
	docs := &tx.db.tables.Docs
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
		if n++; n%scanCheck == 0 && ctx.Err() != nil {
			err = ctx.Err()
			return false
		}
		if r.Died.Load() != d.LSN || !d.Before(r.Version) {
			return true
		}
		var killed bool
		if killed, err = tx.killedBy(&d, uint32(doc), r); killed {
			homes = append(homes, home{r.Seq, r.Owner})
		}
		return err == nil
	})
	return homes, true, err
}

// killedBy reports whether a version that died in the commit of a death range did so by that, and
// not by another change of it.
func (tx *Tx) killedBy(d *layout.DeathRange, doc uint32, r *doctable.Row) (bool, error) {
	rec, err := tx.state.Record(r.Version)
	if err != nil || !d.Covers(doc, r.Version, rec.Scope) {
		return false, err
	}
	prefix := tx.state.Keys.Histories(r.Owner, r.Seq)
	killed := true
	err = tx.scan(prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
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
func (tx *Tx) rangeHistories(ctx context.Context, wanted map[layout.Change][]home) error {
	lower, upper := tx.state.Keys.Span(layout.KindHistory)
	n := 0
	return tx.scan(lower, upper, func(key, _ []byte) error {
		if n++; n%scanCheck == 0 && ctx.Err() != nil {
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
