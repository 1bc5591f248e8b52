package usage_test

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// TestBudgetsHoldAmongMany: callers beside each other never take more than the budget.
func TestBudgetsHoldAmongMany(t *testing.T) {
	clock := testdb.NewClock()
	db, ctx := testdb.Open(t, vfs.NewMem(), engine.Options{Clock: clock.Now}), t.Context()
	u, o, price := db.Usage(), memory.Owner{Agent: "a1"}, usd(t, "0.1")
	if a, err := u.Check(ctx, o, nil); err != nil || !a.Allowed || a.Limit != nil {
		t.Errorf("without a budget: %+v, %v", a, err)
	}
	for _, b := range []usage.Budget{{Owner: o, Per: usage.PerDay, Limit: usd(t, "1")}, {Owner: o, Limit: usd(t, "1.5")}} {
		if err := u.SetBudget(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	many := func(try func() error) (done int64) {
		var wg sync.WaitGroup
		var n atomic.Int64
		for range 40 {
			wg.Go(func() {
				err := try()
				if err == nil {
					n.Add(1)
				} else if !errors.Is(err, usage.ErrBudget) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return n.Load()
	}
	record := usage.Record{Owner: o, Model: "m", Cost: price}
	n := many(func() error {
		r, err := u.Reserve(ctx, o, price, time.Minute)
		if err != nil {
			return err
		}
		_, err = u.Add(ctx, record, &usage.AddOptions{Reservation: r, WithinBudget: true})
		return err
	})
	if n != 10 {
		t.Errorf("%d calls of 0.1 in a day, want 10", n)
	}
	if a, err := u.Check(ctx, o, &price); err != nil || a.Allowed || a.Spent.String() != "1" || a.Per != usage.PerDay || a.Reserved.Cmp(usage.USD{}) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	clock.Advance(24 * time.Hour) // another day, and half a dollar is left for ever
	if n := many(func() error { _, err := u.Reserve(ctx, o, price, time.Minute); return err }); n != 5 {
		t.Errorf("%d reservations, want 5", n)
	}
	if n := many(func() error { _, err := u.Add(ctx, record, &usage.AddOptions{WithinBudget: true}); return err }); n != 0 {
		t.Errorf("%d calls beside reservations", n)
	}
	clock.Advance(2 * time.Minute) // they have ended by themselves
	r, err := u.Reserve(ctx, o, usd(t, "0.5"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmp.Or(u.Release(ctx, r), u.Release(ctx, r)); err != nil {
		t.Error(err)
	}
	if n := many(func() error { _, err := u.Add(ctx, record, &usage.AddOptions{WithinBudget: true}); return err }); n != 5 {
		t.Errorf("%d calls, want 5", n)
	}
	if _, err := u.Add(ctx, record, nil); err != nil { // one that was made is recorded
		t.Error(err)
	}
	if err := cmp.Or(u.RemoveBudget(ctx, o, usage.PerDay), u.RemoveBudget(ctx, o, usage.Ever)); err != nil {
		t.Error(err)
	}
	testdb.WantError(t, "a budget that is gone", u.RemoveBudget(ctx, o, usage.PerDay), fault.ErrNotFound)
	testdb.Check(t, db, 0)
}
