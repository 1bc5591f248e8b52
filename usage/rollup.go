package usage

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// rollUpBatch bounds the records that one commit of a roll-up writes.
const rollUpBatch = 1000

const doingRollUp = "roll up old records of usage"

// RollUp replaces an owner's records of the days before a time, in UTC, by one record for
// each day and model. All totals of whole days stay the same; a range that begins or ends
// within such a day is refused from then on, with ErrNotRetained. The commits are of bounded
// size, and a call that was broken off can be made again.
func (u Usage) RollUp(ctx context.Context, o scope.Owner, before time.Time) error {
	if err := scope.Check(doingRollUp, o.Scope()); err != nil {
		return err
	}
	if err := checkTime(doingRollUp, before); err != nil {
		return err
	}
	for done := false; !done; {
		err := u.run.Update(ctx, doingRollUp, func(t part.Tx) (err error) {
			ms := uint64(max(min(before.UnixMilli(), t.Now()), 0))
			done, err = rollUp(t, o, ms/day*day)
			return err
		})
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// rollUp does one commit's work, and reports whether it was the last.
func rollUp(t part.Tx, o scope.Owner, target uint64) (done bool, err error) {
	owner, known, err := t.Owner(o)
	if err != nil || !known {
		return true, err
	}
	h, known, err := homeOf(t, owner)
	if err != nil || !known || h.floor >= target {
		return true, err
	}
	r := &ranged{v: t, owner: owner, home: h, since: h.floor, until: target}
	if r.since, err = r.first(); err != nil {
		return true, err
	}
	names := map[model]string{}
	err = r.eachModel(func(m model, name string) error {
		names[m] = name
		return nil
	})
	if err != nil {
		return true, err
	}
	r.until = min(target, r.since+day*uint64(max(1, rollUpBatch/max(len(names), 1))))
	if err := t.NeedToFree(doingRollUp, (rollUpBatch+len(names))*(128+2*valid.MaxID)); err != nil {
		return true, err
	}
	if r.since < r.until {
		if err := r.replace(t, names, &h); err != nil {
			return true, err
		}
	}
	h.floor = r.until
	t.Log(opRollUp, logged(owner, binary.AppendUvarint(nil, r.since), binary.AppendUvarint(nil, r.until-1)))
	return r.until == target, t.Set(homeKey(t, owner), h.encode())
}

// first is the beginning of the first day of the range that has records, its end if none has.
func (r *ranged) first() (ms uint64, err error) {
	ms = r.until
	err = r.v.Scan(recordKey(r.v, r.owner, r.since, 0), recordKey(r.v, r.owner, r.until, 0), func(key, _ []byte) error {
		_, at, _, _ := parseRecordKey(key)
		ms = at / day * day
		return kv.ErrStop
	})
	return ms, err
}

// replace puts one record for each day and model in the place of those of the range, and
// deletes the sums of parts of these days.
func (r *ranged) replace(t part.Tx, names map[model]string, h *home) error {
	if err := t.DeleteRange(recordKey(t, r.owner, r.since, 0), recordKey(t, r.owner, r.until, 0)); err != nil {
		return err
	}
	for l := range days {
		for m := range names {
			if err := t.DeleteRange(sumKey(t, r.owner, l, m, l.bucket(r.since)), sumKey(t, r.owner, l, m, l.bucket(r.until))); err != nil {
				return err
			}
		}
		if err := t.DeleteRange(sumKey(t, r.owner, l, model{}, l.bucket(r.since)), sumKey(t, r.owner, l, model{}, l.bucket(r.until))); err != nil {
			return err
		}
	}
	for d := r.since / day; d < r.until/day; d++ {
		whole, err := sumAt(t, r.owner, days, model{}, d)
		if err != nil || whole.Records == 0 {
			if err != nil {
				return err
			}
			continue
		}
		if err := r.replaceDay(t, names, h, d); err != nil {
			return err
		}
	}
	return nil
}

func (r *ranged) replaceDay(t part.Tx, names map[model]string, h *home, d uint64) error {
	return r.eachModel(func(m model, _ string) error {
		s, err := sumAt(t, r.owner, days, m, d)
		if err != nil || s.Records == 0 {
			return err
		}
		name, known := names[m]
		if !known {
			return damaged(fmt.Sprintf("the model %x", m[:4]), nil)
		}
		h.last++
		rec := Record{
			Model: name, PromptTokens: s.PromptTokens, CompletionTokens: s.CompletionTokens, TotalTokens: s.TotalTokens,
			Cost: s.Cost, Calls: s.Records,
		}
		return t.Set(recordKey(t, r.owner, max(d*day, 1), h.last), rec.encode())
	})
}
