package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// heard keeps what an observer hears.
type heard struct {
	mu  sync.Mutex
	all []Eviction
}

func (h *heard) hear(_ context.Context, e Eviction) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
}

func (h *heard) list() []Eviction {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// comes waits until ok, for two minutes at most.
func comes(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("two minutes went by, and not: " + what)
		}
	}
}

// TestVerdicts: the program's word stands before that of the rules, both ways; what it says
// is told; a dry run says the same and changes nothing; pinned and expired memories, and
// kinds that are never taken, are not asked about.
func TestVerdicts(t *testing.T) {
	clk := newTestClock()
	var asked []string
	verdicts := map[string]policy.Verdict{
		"old kept": {Act: policy.Keep, Why: "a birthday"}, "old decays": {Act: policy.Decay}, "new goes": {Act: policy.Evict, Why: "a password"}, "new decays": {Act: policy.Decay},
	}
	db := openTest(t, vfs.NewMem(), setup{Options: Options{Clock: clk.now, Hooks: Hooks{Verdict: func(_ context.Context, j Judged) policy.Verdict {
		asked = append(asked, fmt.Sprint(j.Memory.ID, ": ", j.Rule))
		return verdicts[j.Memory.ID]
	}}}})
	p := policy.Default()
	old := clk.now().Add(-time.Duration(p.MaxAge) - time.Hour)
	for _, id := range []string{"old kept", "old decays", "old goes", "new goes", "new decays", "new stays"} {
		m := memory.Memory{ID: id, Scope: memory.Scope{Agent: "a"}, Text: id, CreatedAt: clk.now(), Importance: new(.1), Confidence: new(1.0)}
		if strings.HasPrefix(id, "old") {
			m.CreatedAt, m.Confidence = old, new(0.0)
			if id == "old decays" {
				m.Confidence = new(.01)
			}
		}
		mustStore(t, db.Memories(), m)
	}
	for id, change := range map[string]func(*memory.Memory){
		"pinned": func(m *memory.Memory) { m.Pinned = true }, "a note": func(m *memory.Memory) { m.Kind = memory.KindNote }, "over": func(m *memory.Memory) { m.ExpiresAt = clk.now().Add(-time.Hour) },
	} {
		m := memory.Memory{ID: id, Scope: memory.Scope{Agent: "a"}, Text: id, CreatedAt: old, Confidence: new(0.0)}
		change(&m)
		mustStore(t, db.Memories(), m)
	}
	dry, planned := mustEvict(t, db, EvictOptions{DryRun: true})
	was := slices.Clone(asked)
	report, got := mustEvict(t, db, EvictOptions{})
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
	mustCheck(t, db, 6)
}

// TestVerdictsThatFail: a verdict that panics, ends its goroutine, is no verdict or hangs
// keeps the memory, and nothing else is hurt; one that hangs is not called again until it is
// back.
func TestVerdictsThatFail(t *testing.T) {
	release := make(chan struct{})
	var calls atomic.Int32 // atomic: nothing waits for a call that hangs
	var mode atomic.Value
	mode.Store("")
	o := setup{Options: Options{Hooks: Hooks{Wait: 20 * time.Millisecond, Verdict: func(context.Context, Judged) policy.Verdict {
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
	}}}}
	db := openTest(t, vfs.NewMem(), o)
	for i := range 5 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{Agent: "a"}, Text: fmt.Sprint("text ", i), Confidence: new(0.0), CreatedAt: time.Now().Add(-90 * 24 * time.Hour), Importance: new(0.0)})
	}
	for _, m := range []string{"panics", "ends", "none", "hangs"} {
		mode.Store(m)
		calls.Store(0)
		r, err := db.Evict(t.Context(), nil)
		if err != nil || r.Evicted != 0 || r.Unjudged != 5 {
			t.Errorf("%s: %+v, %v", m, r, err)
		}
	}
	comes(t, "that one call hangs", func() bool { return calls.Load() == 1 }) // it may begin later than it is waited for
	if r, err := db.Evict(t.Context(), nil); err != nil || r.Unjudged != 5 || calls.Load() != 1 {
		t.Errorf("while it hangs: %+v after %d calls, %v", r, calls.Load(), err)
	}
	close(release)
	mode.Store("")
	comes(t, "verdicts again", func() bool {
		r, err := db.Evict(t.Context(), &EvictOptions{DryRun: true})
		return err == nil && r.Unjudged == 0 && r.Evicted == 5
	})
	mustCheck(t, db, 5)
}

// TestObserver: what was evicted, pruned, merged away or has expired is told once, after its
// commit, in order, with the policy and the LSN.
func TestObserver(t *testing.T) {
	clk, h := newTestClock(), &heard{}
	var db *DB
	seen := func(ctx context.Context, e Eviction) {
		if _, err := db.Memories().Get(ctx, memory.Scope{}, e.ID); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("%s is told of, and there: %v", e.ID, err)
		}
		h.hear(ctx, e)
	}
	db = openTest(t, vfs.NewMem(), setup{Options: Options{Clock: clk.now, Hooks: Hooks{Evicted: seen, Wait: time.Minute}}, tuning: tuning{keepsExpired: true}})
	store := func(id, text string, change func(*memory.Memory)) {
		m := memory.Memory{ID: id, Scope: memory.Scope{Agent: "a"}, Text: text, CreatedAt: clk.now().Add(-24 * time.Hour), Importance: new(.5)}
		change(&m)
		mustStore(t, db.Memories(), m)
	}
	store("goes", "one thing", func(m *memory.Memory) { m.CreatedAt, m.Confidence = clk.now().Add(-90*24*time.Hour), new(0.0) })
	store("over", "another", func(m *memory.Memory) { m.ExpiresAt = clk.now().Add(time.Hour) })
	store("first", "The harbour master writes tables of the tides in blue ink every morning before six.", func(*memory.Memory) {})
	store("second", "The harbour master writes tables of the tides in blue ink every morning before six", func(*memory.Memory) {})
	if _, err := db.Evict(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	clk.advance(2 * time.Hour)
	if err := db.expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := db.Consolidate(t.Context(), &ConsolidateOptions{Merge: new(true)}); err != nil || r.Merged != 1 {
		t.Fatal(r, err)
	}
	comes(t, "three are told of", func() bool { return len(h.list()) == 3 })
	closeTest(t, db)
	lsn := uint64(0)
	for i, want := range []struct {
		id     string
		reason policy.Reason
		into   string
	}{{"goes", "", ""}, {"over", policy.Expired, ""}, {"first", policy.Merged, "second"}} {
		e := h.list()[i]
		if e.ID != want.id || want.reason != "" && e.Reason != want.reason || e.Into != want.into || e.LSN <= lsn || e.Agent != "a" || e.Time.IsZero() || e.Missed != 0 {
			t.Errorf("%d: %+v", i, e)
		}
		lsn = e.LSN
	}
}

// TestObserversThatFail: an observer that panics or hangs holds nothing up; Close does not
// wait for it for long, and what it could not hear is counted.
func TestObserversThatFail(t *testing.T) {
	release, h := make(chan struct{}), &heard{}
	first := true
	db := openTest(t, vfs.NewMem(), setup{Options: Options{Hooks: Hooks{Wait: 20 * time.Millisecond, Evicted: func(ctx context.Context, e Eviction) {
		if first {
			first = false
			<-release
			panic("and then it panics")
		}
		h.hear(ctx, e)
	}}}})
	evict := func(id string) {
		t.Helper()
		mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: memory.Scope{Agent: "a"}, Text: id, Confidence: new(0.0), CreatedAt: time.Now().Add(-90 * 24 * time.Hour), Importance: new(0.0)})
		if r, err := db.Evict(t.Context(), nil); err != nil || r.Evicted != 1 {
			t.Fatal(r, err)
		}
	}
	evict("hangs")
	evict("missed")
	comes(t, "it is given up", func() bool {
		db.program.observing.mu.Lock()
		defer db.program.observing.mu.Unlock()
		return db.program.observing.mu.missed == 2
	})
	close(release)
	n := 0
	comes(t, "it hears again, and of what it has missed", func() bool {
		n++
		evict(fmt.Sprint("later ", n))
		all := h.list()
		return len(all) > 0 && slices.ContainsFunc(all, func(e Eviction) bool { return e.Missed > 0 })
	})
	closeTest(t, db)
}

// TestHooksBadInput: a wait below 0 is refused.
func TestHooksBadInput(t *testing.T) {
	_, err := openOn(vfs.NewMem(), "db", setup{Options: Options{Hooks: Hooks{Wait: -1}}})
	wantError(t, "a negative wait", err, fault.ErrInvalid)
	v := policy.Verdict{Act: policy.Keep, Why: strings.Repeat("ä", policy.MaxWhy)}
	if err := v.Check(); err != nil || len(v.Why) > policy.MaxWhy {
		t.Errorf("%d bytes, %v", len(v.Why), err)
	}
}
