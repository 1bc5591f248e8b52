package ageing_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// TestVerdicts: the program's word stands before that of the rules, both ways; what it says
// is told; a dry run says the same and changes nothing; pinned and expired memories, and
// kinds that are never taken, are not asked about.
func TestVerdicts(t *testing.T) {
	clk := testdb.NewClock()
	var asked []string
	verdicts := map[string]policy.Verdict{
		"old kept": {Act: policy.Keep, Why: "a birthday"}, "old decays": {Act: policy.Decay}, "new goes": {Act: policy.Evict, Why: "a password"}, "new decays": {Act: policy.Decay},
	}
	db := testdb.New(t, engine.Options{Clock: clk.Now, Hooks: engine.Hooks{Verdict: func(_ context.Context, j engine.Judged) policy.Verdict {
		asked = append(asked, fmt.Sprint(j.Memory.ID, ": ", j.Rule))
		return verdicts[j.Memory.ID]
	}}})
	p := policy.Default()
	old := clk.Now().Add(-time.Duration(p.MaxAge) - time.Hour)
	for _, id := range []string{"old kept", "old decays", "old goes", "new goes", "new decays", "new stays"} {
		m := memory.Memory{ID: id, Scope: memory.Scope{Agent: "a"}, Text: id, CreatedAt: clk.Now(), Importance: new(.1), Confidence: new(1.0)}
		if strings.HasPrefix(id, "old") {
			m.CreatedAt, m.Confidence = old, new(0.0)
			if id == "old decays" {
				m.Confidence = new(.01)
			}
		}
		testdb.Store(t, db.Memories(), m)
	}
	for id, change := range map[string]func(*memory.Memory){
		"pinned": func(m *memory.Memory) { m.Pinned = true }, "a note": func(m *memory.Memory) { m.Kind = memory.KindNote }, "over": func(m *memory.Memory) { m.ExpiresAt = clk.Now().Add(-time.Hour) },
	} {
		m := memory.Memory{ID: id, Scope: memory.Scope{Agent: "a"}, Text: id, CreatedAt: old, Confidence: new(0.0)}
		change(&m)
		testdb.Store(t, db.Memories(), m)
	}
	dry, planned := mustEvict(t, db, engine.EvictOptions{DryRun: true})
	was := slices.Clone(asked)
	report, got := mustEvict(t, db, engine.EvictOptions{})
	if !maps.Equal(got, planned) || dry.Evicted != report.Evicted || dry.Decayed != 0 {
		t.Errorf("the dry run said %v, the run %v", planned, got)
	}
	if !slices.Equal(asked[len(was):], was) || len(was) != 6 {
		t.Errorf("asked %q, then %q", was, asked[len(was):])
	}
	want := map[string]policy.Reason{"new goes": policy.Caller}
	for _, id := range []string{"old goes", "over"} {
		if want[id] = got[id]; want[id] == "" || want[id] == policy.Caller {
			t.Errorf("%s: reason %q", id, got[id])
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("evicted %v, want %v", got, want)
	}
	if report.Unjudged != 0 || report.Decayed != 1 { // the policy's floor holds for the other
		t.Errorf("%+v", report)
	}
	if m, err := db.Memories().Get(t.Context(), memory.Scope{}, "new decays"); err != nil || *m.Confidence >= 1 {
		t.Errorf("decayed to %v, %v", m.Confidence, err)
	}
	events, err := db.Memories().History(t.Context(), memory.Scope{}, "new goes")
	if err != nil || events[len(events)-1].Reason != memory.ReasonCaller {
		t.Errorf("history %+v, %v", events, err)
	}
	testdb.Check(t, db, 6)
}

// TestVerdictsThatFail: a verdict that panics, ends its goroutine, is no verdict or hangs
// keeps the memory, and nothing else is hurt; one that hangs is not called again until it is
// back.
func TestVerdictsThatFail(t *testing.T) {
	release := make(chan struct{})
	var calls atomic.Int32 // atomic: nothing waits for a call that hangs
	var mode atomic.Value
	mode.Store("")
	o := engine.Options{Hooks: engine.Hooks{Wait: 20 * time.Millisecond, Verdict: func(context.Context, engine.Judged) policy.Verdict {
		calls.Add(1)
		switch mode.Load() {
		case "panics":
			panic("no")
		case "ends":
			runtime.Goexit()
		case "hangs":
			<-release
		case "none":
			return policy.Verdict{Act: 99}
		}
		return policy.Verdict{}
	}}}
	db := testdb.New(t, o)
	for i := range 5 {
		testdb.Store(t, db.Memories(), memory.Memory{Scope: memory.Scope{Agent: "a"}, Text: fmt.Sprint("text ", i), Confidence: new(0.0), CreatedAt: time.Now().Add(-90 * 24 * time.Hour), Importance: new(0.0)})
	}
	for _, m := range []string{"panics", "ends", "none", "hangs"} {
		mode.Store(m)
		calls.Store(0)
		r, err := db.Evict(t.Context(), nil)
		if err != nil || r.Evicted != 0 || r.Unjudged != 5 {
			t.Errorf("%s: %+v, %v", m, r, err)
		}
	}
	testdb.Soon(t, "that one call hangs", func() bool { return calls.Load() == 1 }) // it may begin later than it is waited for
	if r, err := db.Evict(t.Context(), nil); err != nil || r.Unjudged != 5 || calls.Load() != 1 {
		t.Errorf("while it hangs: %+v after %d calls, %v", r, calls.Load(), err)
	}
	close(release)
	mode.Store("")
	testdb.Soon(t, "verdicts again", func() bool {
		r, err := db.Evict(t.Context(), &engine.EvictOptions{DryRun: true})
		return err == nil && r.Unjudged == 0 && r.Evicted == 5
	})
	testdb.Check(t, db, 5)
}

// TestHooksBadInput: a wait below 0 is refused.
func TestHooksBadInput(t *testing.T) {
	_, err := engine.Open(fsys.On(vfs.NewMem(), "db"), &engine.Options{Hooks: engine.Hooks{Wait: -1}})
	testdb.WantError(t, "a negative wait", err, fault.ErrInvalid)
	v := policy.Verdict{Act: policy.Keep, Why: strings.Repeat("ä", policy.MaxWhy)}
	if err := v.Check(); err != nil || len(v.Why) > policy.MaxWhy {
		t.Errorf("%d bytes, %v", len(v.Why), err)
	}
}

// TestEvictBesideWriters: what was changed between the choice and the commit stays.
func TestEvictBesideWriters(t *testing.T) {
	var db *engine.DB
	db = testdb.New(t, engine.Options{Hooks: engine.Hooks{Wait: time.Minute, Verdict: func(ctx context.Context, j engine.Judged) policy.Verdict {
		if j.Memory.ID == "b" { // a was chosen
			if _, err := db.Memories().Update(context.WithoutCancel(ctx), memory.Scope{}, "a", memory.Patch{Pinned: new(true)}); err != nil {
				t.Error(err)
			}
		}
		return policy.Verdict{}
	}}})
	for _, id := range []string{"a", "b"} {
		testdb.Store(t, db.Memories(), memory.Memory{ID: id, Text: id, Scope: memory.Scope{Agent: "a"}, Confidence: new(.0)})
	}
	testdb.NoError(t, db.View(t.Context(), func(tx *engine.Tx) error {
		r, err := db.Evict(context.Background(), nil)
		if err != nil || r.Evicted != 1 {
			return fmt.Errorf("%d are evicted: %w", r.Evicted, err)
		}
		if page, err := tx.Memories().List(t.Context(), memory.ListQuery{AllScopes: true}); err != nil || len(page.Memories) != 2 {
			return fmt.Errorf("the View sees %d: %w", len(page.Memories), err)
		}
		return nil
	}))
	if left := testdb.List(t, db.Memories(), memory.Scope{Agent: "a"}); len(left) != 1 || left[0].ID != "a" {
		t.Errorf("left %+v", left)
	}
}

func TestEvictRefuses(t *testing.T) {
	db := testdb.New(t, engine.Options{})
	for name, o := range map[string]engine.EvictOptions{
		"a negative age": {MaxAge: new(-time.Hour)},
		"no number":      {MinImportance: new(math.NaN())},
		"too important":  {MinImportance: new(1.5)},
		"no cap":         {Cap: new(int64(0))},
		"a run":          {Scope: memory.Scope{User: "u", Run: "r"}},
	} {
		if _, err := db.Evict(t.Context(), &o); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]engine.ConsolidateOptions{
		"a rate above 1": {Rate: new(1.01)},
		"no number":      {Rate: new(math.NaN())},
		"a run":          {Scope: memory.Scope{Run: "r"}},
	} {
		if _, err := db.Consolidate(t.Context(), &o); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("consolidate: %s: %v", name, err)
		}
	}
}

// TestConfidenceStopsAtFloor: decay alone never takes a confidence below 0.1, so it evicts
// nothing unless the floor of the policy is lower.
func TestConfidenceStopsAtFloor(t *testing.T) {
	clk := testdb.NewClock()
	db := testdb.New(t, engine.Options{Clock: clk.Now})
	testdb.Store(t, db.Memories(), memory.Memory{ID: "m", Text: "m", Scope: memory.Scope{Agent: "a"}, Importance: new(.9)})
	decay := func() {
		clk.Advance(8 * 24 * time.Hour)
		for range 60 {
			if _, err := db.Consolidate(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	decay()
	m, err := db.Memories().Get(t.Context(), memory.Scope{}, "m")
	if err != nil || *m.Confidence != .1 || *m.StoredConfidence != 1 {
		t.Fatalf("%v, %v, %v", err, m.Confidence, m.StoredConfidence)
	}
	if r, err := db.Consolidate(t.Context(), nil); err != nil || r.Decayed != 0 || r.Processed != 1 {
		t.Errorf("at the floor: %+v, %v", r, err)
	}
	if r, _ := mustEvict(t, db, engine.EvictOptions{}); r.Evicted != 0 {
		t.Errorf("evicted %+v", r)
	}
	p := policy.Default()
	p.Floor = 0
	if _, err := db.Policies().Set(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	decay()
	if r, _ := mustEvict(t, db, engine.EvictOptions{}); r.Reasons[policy.LowConfidence] != 1 || r.Policy != 1 {
		t.Errorf("evicted %+v", r)
	}
	if h := history(t, db, memory.Scope{}, "m"); h[1].Policy != 1 || h[1].Reason != memory.ReasonConfidence {
		t.Errorf("history %+v", h[1])
	}
}

// mustEvict evicts and returns the report and the reasons by ID.
func mustEvict(t *testing.T, db *engine.DB, o engine.EvictOptions) (engine.Evicted, map[string]policy.Reason) {
	t.Helper()
	got := map[string]policy.Reason{}
	o.Visit = func(v engine.Victim) error {
		got[v.ID] = v.Reason
		return nil
	}
	r, err := db.Evict(t.Context(), &o)
	testdb.NoError(t, err)
	if r.Evicted != len(got) || r.DryRun != o.DryRun {
		t.Fatalf("the report %+v is not that of %v", r, got)
	}
	return r, got
}

func history(t *testing.T, db *engine.DB, s memory.Scope, id string) []memory.HistoryEntry {
	t.Helper()
	h, err := db.Memories().History(t.Context(), s, id)
	testdb.NoError(t, err)
	return h
}

func recall(t *testing.T, db *engine.DB, q memory.Query) []memory.Hit {
	t.Helper()
	r, err := db.Memories().Recall(t.Context(), q)
	testdb.NoError(t, err)
	return r.Hits
}
