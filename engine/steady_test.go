package engine

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// jumpy is a database whose clock can go ahead of the time that passes.
type jumpy struct {
	*DB
	t      *testing.T
	clk    *testClock
	passed time.Duration
}

func newJumpy(t *testing.T) *jumpy {
	j := &jumpy{t: t, clk: newTestClock()}
	j.DB = openTest(t, vfs.NewMem(), setup{
		Options: Options{Clock: j.clk.now, MemoryBudget: testBudget},
		tuning:  tuning{passed: func() time.Duration { return j.passed }},
	})
	return j
}

// pass lets time pass, by which the clock goes as well.
func (j *jumpy) pass(d time.Duration) {
	j.passed += d
	j.clk.advance(d)
}

// TestJumpsAgeNothing: while the clock has jumped a year ahead nothing is taken, by a call, by the
// schedule or behind the calls. Set right, all is as it was. What time takes that passes is taken.
func TestJumpsAgeNothing(t *testing.T) {
	const year = 365 * 24 * time.Hour
	j := newJumpy(t)
	ctx, s := t.Context(), memory.Scope{Agent: "a"}
	setPolicy(t, j.DB, func(p *policy.Policy) { p.History, p.Log = policy.Span(time.Hour), policy.Span(time.Hour) })
	mustStore(t, j.Memories(), memory.Memory{ID: "small", Scope: s, Text: "small", Importance: new(0.0)})
	mustStore(t, j.Memories(), memory.Memory{ID: "ends", Scope: s, Text: "ends", ExpiresAt: j.clk.now().Add(time.Hour)})
	mustStore(t, j.Memories(), memory.Memory{ID: "trashed", Scope: s, Text: "trashed", Confidence: new(.01)})
	noError(t, j.ageing.KeepSchedule(ctx, policy.Schedule{})) // begins to count
	evicted, err := j.Evict(ctx, nil)
	if err != nil || evicted.Evicted != 1 || evicted.Skipped != "" {
		t.Fatalf("%+v, %v", evicted, err)
	}
	lsn := j.LSN()

	j.pass(time.Minute)
	j.clk.advance(year)
	if r, err := j.Consolidate(ctx, nil); err != nil || r.Skipped == "" || r.Decayed != 0 {
		t.Errorf("a consolidation: %+v, %v", r, err)
	}
	if r, err := j.Evict(ctx, nil); err != nil || r.Skipped == "" || r.Evicted != 0 {
		t.Errorf("an eviction: %+v, %v", r, err)
	}
	noError(t, j.ageing.KeepSchedule(ctx, policy.Schedule{}))
	noError(t, j.ageing.Expire(ctx))
	if _, err := j.ageing.Sweep(ctx, 0); err != nil {
		t.Error(err)
	}
	noError(t, j.emptyTrash(ctx))
	forgetNow(t, j.DB)
	if j.LSN() != lsn || j.tables.Ageing.Runs().Count() != 0 {
		t.Errorf("LSN %d after %d, %d consolidations", j.LSN(), lsn, j.tables.Ageing.Runs().Count())
	}

	j.clk.advance(-year)
	for _, id := range []string{"small", "ends"} {
		if m, err := j.Memories().Get(ctx, s, id); err != nil || *m.Confidence != 1 {
			t.Errorf("%s after the clock was set right: %+v, %v", id, m, err)
		}
	}
	if r, err := j.Undo(ctx, evicted.LSN); err != nil || r.Restored != 1 {
		t.Errorf("the trash: %+v, %v", r, err)
	}
	j.pass(31 * 24 * time.Hour)
	if r, err := j.Evict(ctx, nil); err != nil || r.Skipped != "" || r.Evicted != 3 {
		t.Errorf("a month later: %+v, %v", r, err)
	}
	mustCheck(t, j.DB, 0)
}

// TestSteady: a clock that stands ahead is believed after a while, as that of a machine that was
// asleep; each further jump is doubted anew; one that is slowly wrong, or set back, is not doubted.
func TestSteady(t *testing.T) {
	j := newJumpy(t)
	look := func(what string, want bool) {
		t.Helper()
		if got := j.steady.jumped(); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	look("at once", false)
	j.pass(1000 * time.Hour)
	look("after a long time", false)
	j.clk.advance(jumpLeast - time.Millisecond)
	look("a small jump", false)
	j.clk.advance(jumpLeast)
	look("a jump", true)
	j.pass(jumpHolds - time.Millisecond)
	look("shortly after", true)
	j.clk.advance(24 * time.Hour)
	look("another one", true)
	j.pass(jumpHolds - time.Millisecond)
	look("shortly after the other one", true)
	j.pass(time.Millisecond)
	look("once it has stood", false)
	j.clk.advance(-48 * time.Hour)
	look("set back", false)
	j.clk.advance(jumpLeast)
	look("ahead again", true)
	j.clk.advance(-jumpLeast)
	look("set right", false)
}

// TestSteadyByTheMachine: a clock that tells nothing of the time that passes is believed, and one
// that does, as the machine's, is compared with it.
func TestSteadyByTheMachine(t *testing.T) {
	now := clock.System()
	set := now
	s := newSteady(func() time.Time { return set }, nil, slog.New(slog.DiscardHandler))
	for _, tc := range []struct {
		what string
		at   time.Time
		want bool
	}{
		{"time that passes", now.Add(1000 * time.Hour), false},
		{"a reading of another clock", now.Add(9000 * time.Hour).Round(0), false},
	} {
		if set = tc.at; s.jumped() != tc.want {
			t.Errorf("%s: %v", tc.what, !tc.want)
		}
	}
}

// TestRunsOfAClockAhead: what a consolidation took of confidences by a clock that was ahead while
// nobody could know is given back when the clock is set right. It is taken when that day has come, of what was not
// recalled for long then.
func TestRunsOfAClockAhead(t *testing.T) {
	const day = 24 * time.Hour
	clk, fs := newTestClock(), vfs.NewMem()
	o := Options{Clock: clk.now, MemoryBudget: testBudget}
	db := openTest(t, fs, o)
	ctx, s := t.Context(), memory.Scope{Agent: "a"}
	confidence := func(when, id string, want float64) {
		t.Helper()
		if m, err := db.Memories().Get(ctx, s, id); err != nil || math.Abs(*m.Confidence-want) > 1e-9 {
			t.Errorf("%s: %s has %v, want %v; %v", when, id, m.Confidence, want, err)
		}
	}
	consolidate := func(decayed int) {
		t.Helper()
		if r, err := db.Consolidate(ctx, &ConsolidateOptions{Merge: new(false)}); err != nil || r.Decayed != decayed {
			t.Errorf("%+v, %v, want %d decayed", r, err, decayed)
		}
	}
	recall := func(text string) {
		t.Helper()
		if r, err := db.Memories().Recall(ctx, memory.Query{Scope: s, Text: text, Profile: memory.ProfileText}); err != nil || len(r.Hits) != 1 {
			t.Fatalf("%v, %v", r.Hits, err)
		}
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "old", Scope: s, Text: "lisbon"})
	clk.advance(8 * day)
	consolidate(1)
	mustStore(t, db.Memories(), memory.Memory{ID: "young", Scope: s, Text: "porto"})
	mustStore(t, db.Memories(), memory.Memory{ID: "recalled", Scope: s, Text: "ghent"})
	closeTest(t, db)

	clk.advance(365 * day)
	db = openTest(t, fs, o)
	consolidate(3)
	confidence("ahead", "old", .95*.95)
	confidence("ahead", "young", .95)
	closeTest(t, db)

	clk.advance(-365 * day)
	db = openTest(t, fs, o)
	for _, when := range []string{"set right", "after a recall"} {
		confidence(when, "old", .95)
		confidence(when, "young", 1)
		confidence(when, "recalled", 1)
		recall("ghent")
		noError(t, db.FlushTouches(ctx))
	}
	clk.advance(time.Hour)
	consolidate(1)
	confidence("after a consolidation", "old", .95*.95)
	confidence("after a consolidation", "recalled", 1)
	clk.advance(366 * day)
	confidence("when that day has come", "young", .95)
	confidence("when that day has come", "recalled", .95)
	closeTest(t, db)
	db = openTest(t, fs, o)
	confidence("reopened", "old", .95*.95*.95)
	confidence("reopened", "recalled", .95)
	mustCheck(t, db, 3)
}

// TestSteadyReadsOnce: a clock of a test's that is set while somebody looks has not jumped.
func TestSteadyReadsOnce(t *testing.T) {
	at := clock.System().Round(0)
	readings := 0
	s := newSteady(func() time.Time {
		if readings++; readings <= 2 { // as it began, and the first look
			return at
		}
		return at.Add(200 * time.Hour)
	}, nil, slog.New(slog.DiscardHandler))
	for range 3 {
		if s.jumped() {
			t.Errorf("has jumped after %d readings", readings)
		}
	}
}
