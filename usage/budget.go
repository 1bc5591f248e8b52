package usage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// ErrBudget: a budget has no room for the call. Nothing was changed.
var ErrBudget = errors.New("over the budget")

// Period is the time that a budget is for.
type Period string

// The periods of a budget, in UTC.
const (
	Ever     Period = ""
	PerDay   Period = "day"
	PerMonth Period = "month"
)

// period is a Period in a key.
type period byte

var periods = []Period{Ever, PerDay, PerMonth}

func (p Period) number(doing string) (period, error) {
	for i, known := range periods {
		if p == known {
			return period(i), nil
		}
	}
	return 0, fault.Invalid(doing, fmt.Sprintf("there is no period %q", valid.Short(string(p))), "give day or month, or none for ever")
}

// begin is when the period began that a time lies in, in Unix milliseconds.
func (p period) begin(now int64) uint64 {
	t := time.UnixMilli(max(now, 0)).UTC()
	switch periods[p] {
	case PerDay:
		return uint64(t.Truncate(24 * time.Hour).UnixMilli())
	case PerMonth:
		return uint64(time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	case Ever:
	}
	return 0
}

// Budget bounds what an owner spends in a period. An owner may have one for each period.
type Budget struct {
	scope.Owner
	// Per is the period, Limit what may be spent in each.
	Per   Period
	Limit USD
}

// SetBudget sets a budget of an owner, in place of the one of that period.
func (u Usage) SetBudget(ctx context.Context, b Budget) error {
	const doing = "set a budget"
	if err := scope.Check(doing, b.Scope()); err != nil {
		return err
	}
	per, err := b.Per.number(doing)
	if err != nil {
		return err
	}
	return u.run.Update(ctx, doing, func(t part.Tx) error { return setBudget(t, doing, per, &b) })
}

func setBudget(t part.Tx, doing string, per period, b *Budget) error {
	if err := t.Need(doing, 4*valid.MaxID); err != nil {
		return err
	}
	owner, err := settle(t, b.Owner)
	if err != nil {
		return err
	}
	value := append([]byte{budgetVersion}, b.Limit.bytes()...)
	t.Log(opBudget, logged(owner, []byte{byte(per)}, value))
	if err := t.Set(budgetKey(t, owner, per), value); err != nil {
		return err
	}
	return recountBudgets(t, owner, b.Owner)
}

func recountBudgets(t part.Tx, owner uint32, o scope.Owner) error {
	all, err := budgetsOf(t, owner, o)
	if err != nil {
		return err
	}
	return recount(t, kindHome, owner, int64(len(all)))
}

// settle makes an owner known here.
func settle(t part.Tx, o scope.Owner) (uint32, error) {
	owner, err := t.GiveOwner(o)
	if err != nil {
		return 0, err
	}
	_, known, err := homeOf(t, owner)
	if err != nil || known {
		return owner, err
	}
	h := home{owner: o}
	return owner, t.Set(homeKey(t, owner), h.encode())
}

// RemoveBudget removes a budget, ErrNotFound where there is none.
func (u Usage) RemoveBudget(ctx context.Context, o scope.Owner, p Period) error {
	const doing = "remove a budget"
	if err := scope.Check(doing, o.Scope()); err != nil {
		return err
	}
	per, err := p.number(doing)
	if err != nil {
		return err
	}
	return u.run.Update(ctx, doing, func(t part.Tx) error {
		owner, known, err := t.Owner(o)
		if err != nil {
			return err
		}
		if known {
			_, known, err = t.Get(budgetKey(t, owner, per))
		}
		if err == nil && !known {
			err = &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "its owner has none of this period", Do: "check the owner and the period"}
		}
		if err == nil {
			err = t.NeedToFree(doing, 64)
		}
		if err != nil {
			return err
		}
		t.Log(opBudget, logged(owner, []byte{byte(per)}, nil))
		if err := t.Delete(budgetKey(t, owner, per)); err != nil {
			return err
		}
		return recountBudgets(t, owner, o)
	})
}

// Budgets lists the budgets of an owner.
func (u Usage) Budgets(ctx context.Context, o scope.Owner) (all []Budget, err error) {
	const doing = "list the budgets of an owner"
	if err := scope.Check(doing, o.Scope()); err != nil {
		return nil, err
	}
	err = u.view(ctx, doing, func(v part.View) error {
		if err := current(v, doing); err != nil {
			return err
		}
		owner, known, err := v.Owner(o)
		if err == nil && known {
			all, err = budgetsOf(v, owner, o)
		}
		return err
	})
	return all, err
}

func budgetsOf(v part.View, owner uint32, o scope.Owner) (all []Budget, err error) {
	for per, p := range periods {
		b, found, err := v.Get(budgetKey(v, owner, period(per)))
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		if len(b) == 0 || b[0] != budgetVersion {
			return nil, damaged("a budget", nil)
		}
		all = append(all, Budget{o, p, usdFrom(b[1:])})
	}
	return all, nil
}

// Allowance is what a check of budgets says: of the budget that has the least left.
type Allowance struct {
	// Allowed reports that all budgets have room for the cost that was asked for; without
	// a cost, that all have something left.
	Allowed bool `json:"allowed"`
	Spent   USD  `json:"spent_usd"`
	// Limit is nil for an owner without a budget.
	Limit *USD `json:"limit_usd"`
	// Reserved is what calls that run have reserved; it counts as spent.
	Reserved USD    `json:"reserved_usd"`
	Per      Period `json:"per,omitempty"`
}

// refused is ErrBudget where the budget has no room.
func (a *Allowance) refused(doing string) error {
	if a.Allowed {
		return nil
	}
	per := "in all"
	if a.Per != Ever {
		per = "for this " + string(a.Per)
	}
	return &fault.Error{
		Kind: ErrBudget, What: doing,
		Why: fmt.Sprintf("the budget is %s dollars %s, %s are spent and %s reserved", a.Limit, per, a.Spent, a.Reserved),
		Do:  "wait for the next period, or set a larger budget",
	}
}

// Check reports whether the budgets of an owner have room for a cost; nil: for anything.
// Between a Check and an Add others may spend: [Usage.Reserve] does both at once.
func (u Usage) Check(ctx context.Context, o scope.Owner, cost *USD) (a Allowance, err error) {
	const doing = "check the budget"
	if err := scope.Check(doing, o.Scope()); err != nil {
		return Allowance{}, err
	}
	err = u.view(ctx, doing, func(v part.View) error {
		if err := current(v, doing); err != nil {
			return err
		}
		a, err = allowance(v, o, cost, nil)
		return err
	})
	return a, err
}

// allowance checks the budgets of an owner. What a caller has reserved itself is not
// counted against it.
func allowance(v part.View, o scope.Owner, cost *USD, own *Reservation) (a Allowance, err error) {
	a.Allowed = true
	owner, known, err := v.Owner(o)
	if err != nil || !known {
		return a, err
	}
	if a.Reserved, err = reserved(v, owner, own); err != nil {
		return a, err
	}
	budgets, err := budgetsOf(v, owner, o)
	if err != nil {
		return a, err
	}
	if len(budgets) == 0 {
		s, err := sumAt(v, owner, forever, model{}, 0)
		a.Spent = s.Cost
		return a, err
	}
	asked := USD{}
	if cost != nil {
		asked = *cost
	}
	var least Allowance
	for _, b := range budgets {
		per, _ := b.Per.number("")
		r := ranged{v, owner, home{}, per.begin(v.Now()), end}
		s, err := r.sum(model{})
		if err != nil {
			return a, err
		}
		now := Allowance{Spent: s.Cost, Limit: &b.Limit, Reserved: a.Reserved, Per: b.Per}
		order := s.Cost.Add(a.Reserved).Add(asked).Cmp(b.Limit)
		now.Allowed = order < 0 || order == 0 && cost != nil
		if least.Limit == nil || least.Allowed && !now.Allowed || least.Allowed == now.Allowed && now.less(&least) {
			least = now
		}
	}
	return least, nil
}

// less reports whether a budget has less left than another one.
func (a *Allowance) less(o *Allowance) bool {
	return a.Limit.Add(o.Spent).Cmp(o.Limit.Add(a.Spent)) < 0
}

// Reservation is a part of an owner's budgets that a call under way may take.
type Reservation struct {
	scope.Owner
	// Cost is what is held.
	Cost    USD
	Expires time.Time // from then on it counts no more
	number  uint64
}

const (
	// DefaultReservation is how long a reservation holds that says nothing else.
	DefaultReservation = 10 * time.Minute
	// maxReservation bounds how long one holds, so that a caller that died is forgotten.
	maxReservation = 24 * time.Hour
	// maxReservations bounds those of an owner: a check of the budget reads all of them.
	maxReservations = 10_000
)

// Reserve takes a cost from the budgets of an owner for a call that is about to be made,
// ErrBudget where one of them has no room. Give the reservation to Add after the call, or to
// Release if there was none; it ends by itself after hold, 0 for DefaultReservation.
func (u Usage) Reserve(ctx context.Context, o scope.Owner, cost USD, hold time.Duration) (*Reservation, error) {
	const doing = "reserve a part of the budget"
	if hold == 0 {
		hold = DefaultReservation
	}
	if err := scope.Check(doing, o.Scope()); err != nil {
		return nil, err
	}
	if hold < 0 || hold > maxReservation {
		return nil, fault.Invalid(doing, fmt.Sprintf("it would hold for %s", hold), "give a time up to 24h")
	}
	var r Reservation
	err := u.run.Append(ctx, doing, 4*valid.MaxID, func(t part.Tx) error {
		if err := t.Need(doing, 4*valid.MaxID); err != nil {
			return err
		}
		a, err := allowance(t, o, &cost, nil)
		if err == nil {
			err = a.refused(doing)
		}
		if err != nil {
			return err
		}
		r = Reservation{Owner: o, Cost: cost, Expires: clock.FromMillis(t.Now() + max(hold.Milliseconds(), 1))}
		return reserve(t, doing, &r)
	})
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// reserve stores a reservation in place of those that have expired. It gives it the number
// that no other one of that expiry has.
func reserve(t part.Tx, doing string, r *Reservation) error {
	owner, err := settle(t, r.Owner)
	if err != nil {
		return err
	}
	if err := t.DeleteRange(reservationKey(t, owner, 0, 0), reservationKey(t, owner, uint64(t.Now())+1, 0)); err != nil {
		return err
	}
	n, at := 0, uint64(clock.ToMillis(r.Expires))
	err = eachReservation(t, owner, func(expires, number uint64, _ USD) {
		if n++; expires == at {
			r.number = number + 1
		}
	})
	if err != nil {
		return err
	}
	if n >= maxReservations {
		return fault.Invalid(doing, fmt.Sprintf("its owner has %d reservations", n), "release those that are not needed")
	}
	key := reservationKey(t, owner, at, r.number)
	value := append([]byte{reservationVersion}, r.Cost.bytes()...)
	t.Log(opReserve, logged(owner, key[keyHeader+ownerSize:], value))
	return t.Set(key, value)
}

// Release gives a reservation back. One that has ended is no error.
func (u Usage) Release(ctx context.Context, r *Reservation) error {
	const doing = "release a reservation"
	if err := scope.Check(doing, r.Scope()); err != nil {
		return err
	}
	return u.run.Append(ctx, doing, 64, func(t part.Tx) error {
		if err := t.NeedToFree(doing, 64); err != nil {
			return err
		}
		return giveBack(t, r)
	})
}

func giveBack(t part.Tx, r *Reservation) error {
	owner, known, err := t.Owner(r.Owner)
	if err != nil || !known {
		return err
	}
	key := reservationKey(t, owner, uint64(clock.ToMillis(r.Expires)), r.number)
	_, found, err := t.Get(key)
	if err != nil || !found {
		return err
	}
	t.Log(opReserve, logged(owner, key[keyHeader+ownerSize:], nil))
	return t.Delete(key)
}

// reserved is what is reserved now, but for one reservation.
func reserved(v part.View, owner uint32, own *Reservation) (sum USD, err error) {
	err = eachReservation(v, owner, func(expires, number uint64, cost USD) {
		mine := own != nil && number == own.number && expires == uint64(clock.ToMillis(own.Expires))
		if expires > uint64(v.Now()) && !mine {
			sum = sum.Add(cost)
		}
	})
	return sum, err
}

func eachReservation(v part.View, owner uint32, visit func(expires, number uint64, cost USD)) error {
	prefix := append(ownerKey(v, kindHome, owner, 1), homeReservation)
	return v.Scan(prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
		r := codec.NewReader(value)
		if rest := key[len(prefix):]; len(rest) == 16 && r.Byte() == reservationVersion {
			visit(binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:]), usdFrom(r.Rest()))
			return nil
		}
		return damaged("a reservation", r.Err())
	})
}
