package usage

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// AddOptions changes what Add does. nil is the default.
type AddOptions struct {
	// WithinBudget refuses a record that the owner's budgets have no room for, with
	// ErrBudget. Without it a call that was made is recorded, whatever it cost.
	WithinBudget bool
	// Reservation is given back, as the record takes its place.
	Reservation *Reservation
}

const doingAdd = "record the usage of a call"

// Add records a call, and returns the record as it is stored. It takes the same time
// however many records there are.
func (u Usage) Add(ctx context.Context, r Record, o *AddOptions) (Record, error) {
	if o == nil {
		o = &AddOptions{}
	}
	if err := r.check(doingAdd); err != nil {
		return Record{}, err
	}
	var added Record
	err := u.run.Append(ctx, doingAdd, needed(&r), func(t part.Tx) error {
		if err := t.Need(doingAdd, needed(&r)); err != nil {
			return err
		}
		if o.WithinBudget {
			a, err := allowance(t, r.Owner, &r.Cost, o.Reservation)
			if err != nil {
				return err
			}
			if err := a.refused(doingAdd); err != nil {
				return err
			}
		}
		added = r
		if err := put(t, &added); err != nil || o.Reservation == nil {
			return err
		}
		return giveBack(t, o.Reservation)
	})
	if err != nil {
		return Record{}, err
	}
	return added, nil
}

// needed is about what an add writes, in bytes: the record, its log record, the sums of
// each level for the model and for all models, the model and the owner.
func needed(r *Record) int {
	const sum = keyHeader + ownerSize + 1 + modelSize + 8 + 40
	return 2*int(forever+1)*sum + 3*len(r.Model) + 7*valid.MaxID
}

// put stores a record. It gives a number to one that has none, and the present to one that
// has no time.
func put(t part.Tx, r *Record) error {
	owner, err := t.GiveOwner(r.Owner)
	if err != nil {
		return err
	}
	h, known, err := homeOf(t, owner)
	if err != nil {
		return err
	}
	if !known {
		h = home{owner: r.Owner}
	}
	if r.Number == 0 {
		r.Number = h.last + 1
	}
	h.last = max(h.last, r.Number)
	if r.Time.IsZero() {
		r.Time = clock.FromMillis(max(t.Now(), 1))
	}
	ms := uint64(clock.ToMillis(r.Time))
	r.Time = clock.FromMillis(int64(ms)) // as it will be read
	if err := t.Set(homeKey(t, owner), h.encode()); err != nil {
		return err
	}
	m := modelOf(r.Model)
	if err := t.Set(modelKey(t, owner, m), []byte(r.Model)); err != nil {
		return err
	}
	value := r.encode()
	key := recordKey(t, owner, ms, r.Number)
	if err := t.Set(key, value); err != nil {
		return err
	}
	for l := narrowest(ms, h.floor); l <= forever; l++ {
		for _, of := range []model{m, {}} {
			// A merge operand would spare this read, and make each later one fold all operands
			// that no flush has folded yet.
			s, err := sumAt(t, owner, l, of, l.bucket(ms))
			if err != nil {
				return err
			}
			s.add(r.totals())
			if err := t.Set(sumKey(t, owner, l, of, l.bucket(ms)), s.encode()); err != nil {
				return err
			}
		}
	}
	t.Log(opAdd, logged(owner, key[keyHeader+ownerSize:], value))
	return nil
}

// narrowest is the first level that has sums of a time: days where it was rolled up.
func narrowest(ms, floor uint64) level {
	if ms < floor {
		return days
	}
	return seconds
}
