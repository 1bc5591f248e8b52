package usage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// TestUsageLines: what is exported and imported is the same; an import again changes nothing, and
// another budget or manifest is refused, or takes the place of that which is there.
func TestUsageLines(t *testing.T) {
	clk := testdb.NewClock()
	db, copied, ctx := testdb.New(t, engine.Options{Clock: clk.Now}), testdb.New(t, engine.Options{Clock: clk.Now}), t.Context()
	u, o := db.Usage(), memory.Owner{User: "ada", Agent: "a1"}
	for _, a := range []usage.Agent{{ID: "a1", Name: "researcher", Metadata: []byte(`{"x":1}`)}, {ID: "a2"}} {
		_, err := u.AddAgent(ctx, a)
		testdb.NoError(t, err)
	}
	testdb.NoError(t, u.SetBudget(ctx, usage.Budget{Owner: o, Per: usage.PerDay, Limit: usd(t, "2")}))
	for _, cost := range []string{"0.5", "0.25"} {
		clk.Advance(time.Second)
		_, err := u.Add(ctx, usage.Record{Owner: o, Model: "small", PromptTokens: 3, Cost: usd(t, cost), Time: clk.Now()}, nil)
		testdb.NoError(t, err)
	}
	lines := testdb.Lines(t, db, memory.Scope{})
	testdb.Equal(t, "lines", lines, []string{
		`{"type":"agent","id":"a1","name":"researcher","created_at":"2026-03-01T12:00:00.000Z","metadata":{"x":1}}`,
		`{"type":"agent","id":"a2","name":"","created_at":"2026-03-01T12:00:00.000Z"}`,
		`{"type":"budget","user":"ada","agent":"a1","per":"day","limit_usd":2}`,
		`{"type":"usage","user":"ada","agent":"a1","number":1,"model":"small","prompt_tokens":3,"completion_tokens":0,"total_tokens":3,"cost_usd":0.5,"timestamp":"2026-03-01T12:00:01.000Z"}`,
		`{"type":"usage","user":"ada","agent":"a1","number":2,"model":"small","prompt_tokens":3,"completion_tokens":0,"total_tokens":3,"cost_usd":0.25,"timestamp":"2026-03-01T12:00:02.000Z"}`,
	})
	agents, err := u.Agents(ctx)
	if err != nil || len(agents) != 2 || agents[0].Name != "researcher" {
		t.Errorf("%+v, %v", agents, err)
	}

	for _, c := range []struct {
		what            string
		lines           []string
		upsert          bool
		change          func(engine.Line)
		stored, updated int
		kind            error
	}{
		{"import", lines, false, nil, 5, 0, nil},
		{"again", lines, false, nil, 0, 0, nil},
		{"another limit", []string{strings.Replace(lines[2], "2}", "3}", 1)}, false, nil, 0, 0, memory.ErrExists},
		{"another manifest", []string{strings.Replace(lines[0], "researcher", "writer", 1)}, false, nil, 0, 0, memory.ErrExists},
		{"another limit, with upsert", []string{strings.Replace(lines[2], "2}", "3}", 1)}, true, nil, 0, 1, nil},
		{"another manifest, with upsert", []string{strings.Replace(lines[0], "researcher", "writer", 1)}, true, nil, 0, 1, nil},
		{"a record with a number that another has", []string{strings.Replace(lines[3], "0.5", "0.75", 1)}, false, nil, 1, 0, nil},
		{"to another owner", lines, false, func(l engine.Line) { l.SetOwner(memory.Owner{Agent: "a3"}) }, 4, 0, nil}, // one manifest
		{"a record without a time", []string{`{"type":"usage","user":"ada","agent":"a1","model":"m"}`}, false, nil, 0, 0, nil},
		{"a budget without a limit", []string{`{"type":"budget","user":"ada","agent":"a1"}`}, false, nil, 0, 0, nil},
		{"a manifest of nobody", []string{`{"type":"agent","id":""}`}, false, nil, 0, 0, nil},
		{"a budget of nobody", []string{`{"type":"budget","user":"","agent":"","limit_usd":1}`}, false, nil, 0, 0, memory.ErrScope},
		{"a budget of a century", []string{`{"type":"budget","user":"ada","agent":"","per":"century","limit_usd":1}`}, false, nil, 0, 0, memory.ErrInvalid},
	} {
		stored, updated, err := testdb.Import(t, copied, c.lines, c.upsert, c.change)
		if stored != c.stored || updated != c.updated {
			t.Errorf("%s: %d stored, %d updated, want %d and %d", c.what, stored, updated, c.stored, c.updated)
		}
		switch refused := c.stored+c.updated == 0 && c.what != "again"; {
		case c.kind != nil:
			testdb.WantError(t, c.what, err, c.kind)
		case (err != nil) != refused:
			t.Errorf("%s: %v", c.what, err)
		}
		if c.what == "again" {
			testdb.Equal(t, "copied", testdb.Lines(t, copied, memory.Scope{}), lines)
		}
	}
	s, err := copied.Usage().Total(ctx, usage.Query{Owner: o})
	if err != nil || s.Cost.String() != "1.5" || s.Records != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	testdb.Check(t, copied, 0)
}

// TestUsageCheck: each kind of damage is found.
func TestUsageCheck(t *testing.T) {
	for _, damage := range usage.Damages {
		db, ctx, o := testdb.New(t, engine.Options{}), t.Context(), memory.Owner{Agent: "a1"}
		_, err := db.Usage().AddAgent(ctx, usage.Agent{ID: "a1"})
		testdb.NoError(t, err)
		_, err = db.Usage().Add(ctx, usage.Record{Owner: o, Model: "small", Cost: usd(t, "1")}, nil)
		testdb.NoError(t, err)
		testdb.NoError(t, db.Usage().SetBudget(ctx, usage.Budget{Owner: o, Limit: usd(t, "2")}))
		testdb.Check(t, db, 0)
		testdb.NoError(t, damage.Do(ctx, db.Usage(), o))
		r, err := db.Check(ctx)
		var said strings.Builder
		for _, p := range r.Problems {
			said.WriteString(p.What + "\n")
		}
		if err != nil || r.OK || !strings.Contains(said.String(), damage.Says) {
			t.Errorf("%s: %s, %v", damage.Says, said.String(), err)
		}
	}
}
