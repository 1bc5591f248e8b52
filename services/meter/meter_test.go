package meter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/usage"
)

func open(t *testing.T) usage.Usage {
	t.Helper()
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db.Usage()
}

func usd(t *testing.T, s string) usage.USD {
	t.Helper()
	u, err := usage.ParseUSD(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

var house = scope.Owner{Agent: "house"}

// TestLater waits for the database, and no longer than the context.
func TestLater(t *testing.T) {
	called := 0
	call := func() (Tokens, error) { called++; return Tokens{Prompt: 5}, nil }
	synctest.Test(t, func(t *testing.T) {
		m := Later(house)
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		if err := m.Count(ctx, scope.Owner{}, "m", Tokens{}, call); !errors.Is(err, context.DeadlineExceeded) || called != 0 {
			t.Errorf("%v after %d calls", err, called)
		}
	})
	m := Later(house)
	m.Open(open(t))
	if err := m.Count(t.Context(), scope.Owner{}, "m", Tokens{}, call); err != nil || called != 1 {
		t.Errorf("%v after %d calls", err, called)
	}
	if total, err := m.Usage.Total(t.Context(), usage.Query{Owner: house}); err != nil || total.Records != 1 || total.PromptTokens != 5 {
		t.Errorf("%+v, error %v", total, err)
	}
}

// TestCount records what a call took in its owner, gives back what a failed one reserved, and
// makes no call that a budget has no room for.
func TestCount(t *testing.T) {
	ctx, u, ada := t.Context(), open(t), scope.Owner{User: "ada"}
	m := &Meter{Usage: u, Owner: house, Price: Price{Prompt: usd(t, "1"), Completion: usd(t, "2")}}
	if err := u.SetBudget(ctx, usage.Budget{Owner: ada, Limit: usd(t, "5")}); err != nil {
		t.Fatal(err)
	}
	million := Tokens{Prompt: 1_000_000, Completion: 1_000_000} // 3 dollars
	boom := errors.New("boom")
	for range 3 {
		if err := m.Count(ctx, ada, "m", million, func() (Tokens, error) { return Tokens{}, boom }); !errors.Is(err, boom) {
			t.Fatal(err)
		}
	}
	if err := m.Count(ctx, ada, "m", million, func() (Tokens, error) { return Tokens{Prompt: 1, Completion: 1_000_000}, nil }); err != nil {
		t.Error(err)
	}
	if total, err := u.Total(ctx, usage.Query{Owner: ada}); err != nil || total.Records != 1 || total.Cost.String() != "2.000001" {
		t.Errorf("%+v, error %v", total, err)
	}
	called := false
	if err := m.Count(ctx, ada, "m", million, func() (Tokens, error) { called = true; return Tokens{}, nil }); !errors.Is(err, usage.ErrBudget) || called {
		t.Errorf("over the budget: %v, called %v", err, called)
	}
	if err := m.Count(ctx, house, "m", million, func() (Tokens, error) { return million, nil }); err != nil {
		t.Errorf("another owner: %v", err)
	}
}

// TestCancelled records a call whose context ends while it runs: it was paid for.
func TestCancelled(t *testing.T) {
	u := open(t)
	ctx, stop := context.WithCancel(t.Context())
	err := (&Meter{Usage: u, Owner: house}).Count(ctx, scope.Owner{}, "m", Tokens{}, func() (Tokens, error) {
		stop()
		return Tokens{Completion: 3}, nil
	})
	total, failed := u.Total(t.Context(), usage.Query{Owner: house})
	if err != nil || failed != nil || total.CompletionTokens != 3 {
		t.Errorf("%+v, error %v %v", total, err, failed)
	}
}

// TestFree holds a call without a price back where nothing is left.
func TestFree(t *testing.T) {
	u := open(t)
	m := &Meter{Usage: u, Owner: house}
	if err := u.SetBudget(t.Context(), usage.Budget{Owner: house, Limit: usd(t, "1")}); err != nil {
		t.Fatal(err)
	}
	call := func() (Tokens, error) { return Tokens{}, nil }
	if err := m.Count(t.Context(), house, "m", Tokens{}, call); err != nil {
		t.Error(err)
	}
	if _, err := u.Add(t.Context(), usage.Record{Owner: house, Model: "m", Cost: usd(t, "1")}, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Count(t.Context(), house, "m", Tokens{}, call); !errors.Is(err, usage.ErrBudget) {
		t.Errorf("nothing is left: %v", err)
	}
}
