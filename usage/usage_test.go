package usage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/usage"
)

func usd(t testing.TB, s string) usage.USD {
	t.Helper()
	u, err := usage.ParseUSD(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// spent sums records one by one.
func spent(all []usage.Record, q usage.Query) (s usage.Totals) {
	for _, r := range all {
		if !scope.Contains(q.Scope(), r.Scope()) || q.Model != "" && q.Model != r.Model ||
			!q.Since.IsZero() && r.Time.Before(q.Since) || !q.Until.IsZero() && !r.Time.Before(q.Until) {
			continue
		}
		s.Records++
		s.PromptTokens += r.PromptTokens
		s.CompletionTokens += r.CompletionTokens
		s.TotalTokens += r.TotalTokens
		s.Cost = s.Cost.Add(r.Cost)
	}
	return s
}

func sameTotals(a, b usage.Totals) bool {
	same := a.Cost.Cmp(b.Cost) == 0
	a.Cost, b.Cost = usage.USD{}, usage.USD{}
	return same && a == b
}

// TestUsageTotals compares totals of random ranges, owners and models with those of a sum
// over all records, also after a roll-up and after opening again.
func TestUsageTotals(t *testing.T) {
	race.Sequential(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng, ctx, fs := rand.New(rand.NewPCG(seed, 1)), t.Context(), vfs.NewMem()
	db := testdb.Open(t, fs, engine.Options{})
	owners := []memory.Owner{{Agent: "a1"}, {Agent: "a2"}, {User: "ada", Agent: "a1"}, {User: "bob"}}
	models := []string{"small", "large", "other"}
	from := time.Date(2022, 11, 20, 0, 0, 0, 0, time.UTC)
	at := func() time.Time { // over four years, and close together
		switch rng.IntN(3) {
		case 0:
			return from.Add(time.Duration(rng.Int64N(int64(4 * 365 * 24 * time.Hour)))).Truncate(time.Millisecond)
		case 1:
			return from.Add(time.Duration(rng.IntN(4000)) * time.Millisecond)
		}
		return from.Add(time.Duration(rng.IntN(100)) * time.Hour)
	}
	var all []usage.Record
	for len(all) < 600 {
		err := db.Update(ctx, func(tx *engine.Tx) error { // some of them see sums of the same transaction
			for range 20 {
				r, err := tx.Usage().Add(ctx, usage.Record{
					Owner: owners[rng.IntN(len(owners))], Model: models[rng.IntN(len(models))], Time: at(),
					PromptTokens: rng.Int64N(5000), CompletionTokens: rng.Int64N(500), Cost: usd(t, fmt.Sprintf("%d.%018d", rng.IntN(3), rng.Int64N(1e18))),
				}, nil)
				if err != nil {
					return err
				}
				all = append(all, r)
			}
			got, err := tx.Usage().Total(ctx, usage.Query{})
			if want := spent(all, usage.Query{}); err != nil || !sameTotals(got, want) {
				t.Errorf("within a transaction: %+v, want %+v, %v", got, want, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	compare := func(n int, times func() time.Time) {
		t.Helper()
		for range n {
			q := usage.Query{Owner: owners[rng.IntN(len(owners))]}
			if rng.IntN(3) == 0 {
				q.Owner = memory.Owner{}
			}
			if rng.IntN(2) == 0 {
				q.Model = models[rng.IntN(len(models))]
			}
			if q.Since, q.Until = times(), times(); q.Until.Before(q.Since) {
				q.Since, q.Until = q.Until, q.Since
			}
			if rng.IntN(4) == 0 {
				q.Until = time.Time{}
			}
			got, err := db.Usage().Total(ctx, q)
			if want := spent(all, q); err != nil || !sameTotals(got, want) {
				t.Errorf("%+v: %+v, want %+v, %v", q, got, want, err)
			}
			for _, by := range []usage.By{usage.ByAgent, usage.ByModel, usage.ByDay} {
				groups, err := db.Usage().By(ctx, by, q)
				sum := usage.Totals{}
				for _, g := range groups {
					sum.Records, sum.Cost = sum.Records+g.Records, sum.Cost.Add(g.Cost)
				}
				if err != nil || sum.Records != got.Records || sum.Cost.Cmp(got.Cost) != 0 {
					t.Errorf("by %s %+v: %+v, want %+v, %v", by, q, sum, got, err)
				}
			}
		}
	}
	compare(150, at)
	testdb.Check(t, db, 0)
	old := from.Add(50*time.Hour + time.Minute)
	for _, o := range owners {
		if err := db.Usage().RollUp(ctx, o, old); err != nil {
			t.Fatal(err)
		}
	}
	// A call of a day that was rolled up is told late.
	late, err := db.Usage().Add(ctx, usage.Record{Owner: owners[0], Model: "small", PromptTokens: 1, Cost: usd(t, "0.5"), Time: from.Add(time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, late)
	testdb.Check(t, db, 0)
	testdb.Close(t, db)
	db = testdb.Open(t, fs, engine.Options{})
	testdb.Check(t, db, 0)
	compare(150, func() time.Time { // whole days where there are totals alone
		when := at()
		if when.Before(old) {
			when = when.Truncate(24 * time.Hour)
		}
		return when
	})
	_, err = db.Usage().Total(ctx, usage.Query{Owner: owners[0], Since: from.Add(time.Hour)})
	testdb.WantError(t, "a part of a day that was rolled up", err, fault.ErrNotRetained)
	if s, err := db.Stats(ctx); err != nil || s.Parts["usage"] != int64(len(all)) {
		t.Error(s.Parts, err)
	}
	if _, err := db.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Usage().Total(ctx, usage.Query{}); err != nil || got.Records != 0 {
		t.Errorf("after a reset: %+v, %v", got, err)
	}
}

// TestUsageRank shows what an agent has cost and taken, and agents ranked by cost.
func TestUsageRank(t *testing.T) {
	db, ctx := testdb.Open(t, vfs.NewMem(), engine.Options{}), t.Context()
	u := db.Usage()
	if _, err := u.AddAgent(ctx, usage.Agent{ID: "a1", Name: "researcher"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		agent, cost        string
		prompt, completion int64
	}{{"a2", "8.21", 300_000, 20_000}, {"a1", "12.00", 400_000, 40_000}, {"a1", "0.34", 9_000, 1_000}} {
		if _, err := u.Add(ctx, usage.Record{Owner: memory.Owner{Agent: c.agent}, Model: "m", PromptTokens: c.prompt, CompletionTokens: c.completion, Cost: usd(t, c.cost)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s, err := u.Total(ctx, usage.Query{Owner: memory.Owner{Agent: "a1"}})
	if err != nil || s.Cost.String() != "12.34" || s.TotalTokens != 450_000 {
		t.Errorf("%+v, %v", s, err)
	}
	ranking, err := u.Rank(ctx, usage.Query{})
	if got := fmt.Sprint(ranking); err != nil || got != "[{a1 researcher 12.34 450000} {a2 a2 8.21 320000}]" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestUsageBadInput: what cannot be stored is refused with what to do, and changes nothing.
func TestUsageBadInput(t *testing.T) {
	db, ctx := testdb.Open(t, vfs.NewMem(), engine.Options{}), t.Context()
	u, o := db.Usage(), memory.Owner{Agent: "a"}
	long := strings.Repeat("x", 1<<20)
	add := func(change func(*usage.Record)) error {
		r := usage.Record{Owner: o, Model: "m"}
		change(&r)
		_, err := u.Add(ctx, r, nil)
		return err
	}
	total := func(q usage.Query) error { _, err := u.Total(ctx, q); return err }
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct{ err, want error }{
		"no owner":          {add(func(r *usage.Record) { r.Owner = memory.Owner{} }), memory.ErrScope},
		"no model":          {add(func(r *usage.Record) { r.Model = "" }), memory.ErrInvalid},
		"a long model":      {add(func(r *usage.Record) { r.Model = long }), memory.ErrInvalid},
		"a long agent":      {add(func(r *usage.Record) { r.Agent = long }), memory.ErrInvalid},
		"negative tokens":   {add(func(r *usage.Record) { r.PromptTokens = -1 }), memory.ErrInvalid},
		"many tokens":       {add(func(r *usage.Record) { r.CompletionTokens = usage.MaxTokens + 1 }), memory.ErrInvalid},
		"a small total":     {add(func(r *usage.Record) { r.PromptTokens, r.TotalTokens = 5, 4 }), memory.ErrInvalid},
		"before 1970":       {add(func(r *usage.Record) { r.Time = time.UnixMilli(-1) }), memory.ErrInvalid},
		"swapped times":     {total(usage.Query{Since: day, Until: day.Add(-1e9)}), memory.ErrInvalid},
		"a group":           {second(u.By(ctx, "week", usage.Query{})), memory.ErrInvalid},
		"a period":          {u.SetBudget(ctx, usage.Budget{Owner: o, Per: "week"}), memory.ErrInvalid},
		"a long hold":       {second(u.Reserve(ctx, o, usage.USD{}, 48*time.Hour)), memory.ErrInvalid},
		"an agent's ID":     {second(u.AddAgent(ctx, usage.Agent{})), memory.ErrInvalid},
		"a long agent ID":   {second(u.AddAgent(ctx, usage.Agent{ID: long})), memory.ErrInvalid},
		"an agent's object": {second(u.AddAgent(ctx, usage.Agent{ID: "a", Metadata: []byte("[1]")})), memory.ErrInvalid},
		"delete no agent":   {second(db.DeleteAgent(ctx, "")), memory.ErrInvalid},
	} {
		testdb.WantError(t, name, test.err, test.want)
	}
	if db.LSN() != 0 {
		t.Errorf("what was refused was committed: LSN %d", db.LSN())
	}
	if err := total(usage.Query{Owner: memory.Owner{Agent: "nobody"}, Model: "no such model"}); err != nil {
		t.Error(err) // nothing was spent
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := u.Add(cancelled, usage.Record{Owner: o, Model: "m"}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestUsageLine: a record has the agent, the model, prompt, completion and total tokens,
// the cost and the time of a call, as an export tells them.
func TestUsageLine(t *testing.T) {
	db, ctx := testdb.Open(t, vfs.NewMem(), engine.Options{}), t.Context()
	at := time.Date(2026, 3, 6, 10, 0, 0, 0, time.UTC)
	added, err := db.Usage().Add(ctx, usage.Record{
		Owner: memory.Owner{Agent: "a1"}, Model: "claude-haiku", PromptTokens: 1200, CompletionTokens: 300, Cost: usd(t, "0.0123"), Time: at,
	}, nil)
	if err != nil || added.TotalTokens != 1500 || added.Number != 1 {
		t.Errorf("%+v, %v", added, err)
	}
	var lines []string
	err = db.View(ctx, func(tx *engine.Tx) error {
		return tx.Lines(memory.Scope{Agent: "a1"}, nil, func(l engine.Line) error {
			b, err := json.Marshal(l)
			lines = append(lines, string(b))
			return err
		})
	})
	want := `{"type":"usage","user":"","agent":"a1","number":1,"model":"claude-haiku","prompt_tokens":1200,"completion_tokens":300,"total_tokens":1500,"cost_usd":0.0123,"timestamp":"2026-03-06T10:00:00.000Z"}`
	if err != nil || len(lines) != 1 || lines[0] != want {
		t.Errorf("%s, %v, want %s", lines, err, want)
	}
}
