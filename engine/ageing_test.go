package engine

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// alike reports whether two confidences are the same to the digits that are shown.
func alike(a, b float64) bool { return math.Abs(a-b) < 3e-9 }

// fading is the model of a memory whose confidence decays: what each consolidation does is
// done to it at once.
type fading struct {
	scope      memory.Scope
	confidence float64
	last       int64
}

// ageingRun is one random history.
type ageingRun struct {
	t     *testing.T
	rng   *rand.Rand
	fs    vfs.FS
	clock *testClock
	db    *DB
	model map[string]*fading
	n     int
}

// TestConfidenceEqualsReplay: over random histories the confidence of every memory is what
// one gets by taking each consolidation from each memory at its time, whatever the store has
// flushed, compacted or folded, and also after a reopening, and an export and import.
func TestConfidenceEqualsReplay(t *testing.T) {
	race.Sequential(t)
	for range 6 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := &ageingRun{t: t, rng: rand.New(rand.NewPCG(seed, 1)), fs: vfs.NewMem(), clock: newTestClock(), model: map[string]*fading{}}
			r.open()
			for range 250 {
				r.step()
				r.clock.advance(time.Duration(r.rng.IntN(48)) * time.Hour)
			}
			r.compare()
			mustCheck(t, r.db, len(r.model))
			if r.db.tables.Ageing.Runs().Count() == 0 {
				t.Error("there was no consolidation")
			}
			closeTest(t, r.db)
		})
	}
}

func (r *ageingRun) open() {
	db, err := openOn(r.fs, "db", setup{Options: Options{Clock: r.clock.now, MemoryBudget: testBudget}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.db = db
}

func (r *ageingRun) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// pick is a random memory, "" where there is none.
func (r *ageingRun) pick() string {
	if len(r.model) == 0 {
		return ""
	}
	id := ""
	for ok := false; !ok; _, ok = r.model[id] {
		id = fmt.Sprint("m", r.rng.IntN(r.n))
	}
	return id
}

func (r *ageingRun) step() {
	ctx, mm, id := r.t.Context(), r.db.Memories(), r.pick()
	switch n := r.rng.IntN(20); {
	case n < 6 || id == "":
		r.store()
	case n < 9:
		r.consolidate()
	case n < 11:
		_, err := mm.Recall(ctx, memory.Query{Scope: r.model[id].scope, Text: id, Profile: memory.ProfileText, Limit: 1})
		r.must(err)
		r.model[id].last = max(r.model[id].last, r.clock.now().UnixMilli())
	case n == 11:
		_, err := mm.Update(ctx, memory.Scope{}, id, memory.Patch{Text: new(id + " again " + fmt.Sprint(r.rng.Uint64()))})
		r.must(err)
	case n == 12:
		c := r.rng.Float64()
		_, err := mm.Update(ctx, memory.Scope{}, id, memory.Patch{Confidence: &c})
		r.must(err)
		r.model[id].confidence = c
	case n == 13:
		failed := errors.New("not now")
		err := r.db.Update(ctx, func(tx *Tx) error {
			_, err := tx.Memories().Update(ctx, memory.Scope{}, id, memory.Patch{Confidence: new(.5)})
			return errors.Join(err, failed)
		})
		if !errors.Is(err, failed) {
			r.t.Fatal(err)
		}
	case n == 14:
		r.must(mm.Delete(ctx, memory.Scope{}, id))
		delete(r.model, id)
	case n == 15:
		p, err := r.db.Policies().Show(ctx)
		r.must(err)
		p.Idle = policy.Span(time.Duration(r.rng.IntN(10)*24) * time.Hour)
		p.Floor = []float64{0, .1, .4}[r.rng.IntN(3)]
		_, err = r.db.Policies().Set(ctx, p)
		r.must(err)
	case n == 16:
		r.must(r.db.FlushTouches(ctx))
	case n == 17:
		r.must(r.db.store.Flush())
		r.must(r.db.store.Compact(ctx, []byte{0}, []byte{math.MaxUint8}, false))
	case n == 18:
		closeTest(r.t, r.db)
		r.open()
	default:
		r.compare()
	}
}

var ageingScopes = []memory.Scope{{User: "ada"}, {Agent: "a1"}, {User: "ada", Agent: "a1", Run: "r"}, {User: "bob", Agent: "a1"}}

func (r *ageingRun) store() {
	id := fmt.Sprint("m", r.n)
	r.n++
	m := memory.Memory{ID: id, Scope: ageingScopes[r.rng.IntN(len(ageingScopes))], Text: id + " has a text"}
	f := &fading{scope: m.Scope, confidence: 1, last: r.clock.now().UnixMilli()}
	if r.rng.IntN(2) == 0 {
		m.CreatedAt = r.clock.now().Add(-time.Duration(r.rng.IntN(400)) * time.Hour)
		f.last = m.CreatedAt.UnixMilli()
	}
	if r.rng.IntN(2) == 0 {
		f.confidence = r.rng.Float64()
		m.Confidence = new(f.confidence)
	}
	if r.rng.IntN(4) == 0 {
		m.AccessCount, m.LastAccessed = 2, r.clock.now().Add(-time.Duration(r.rng.IntN(400))*time.Hour)
		f.last = max(f.last, m.LastAccessed.UnixMilli())
	}
	mustStore(r.t, r.db.Memories(), m)
	r.model[id] = f
}

// consolidate counts by the model what the database reports.
func (r *ageingRun) consolidate() {
	rate := []float64{0, .05, .3, 1}[r.rng.IntN(4)]
	o := ConsolidateOptions{Rate: &rate, Merge: new(false), Scope: []memory.Scope{{}, {User: "ada"}, {Agent: "a1"}}[r.rng.IntN(3)]}
	p, err := r.db.Policies().Show(r.t.Context())
	r.must(err)
	dry := o
	dry.DryRun = true
	planned, err := r.db.Consolidate(r.t.Context(), &dry)
	r.must(err)
	done, err := r.db.Consolidate(r.t.Context(), &o)
	r.must(err)
	now, decayed, processed := r.clock.now().UnixMilli(), 0, 0
	for _, f := range r.model {
		if !scope.Contains(o.Scope, f.scope) {
			continue
		}
		processed++
		if now-p.Idle.Millis() < f.last || rate == 0 {
			continue
		}
		if lower := max(f.confidence*(1-rate), min(f.confidence, p.Floor)); lower < f.confidence-1e-9 {
			f.confidence = lower
			decayed++
		}
	}
	if done.Decayed != decayed || done.Processed != processed || planned.Decayed != decayed {
		r.t.Fatalf("a consolidation of %v at %v: %+v, planned %+v, want %d decayed of %d", o.Scope, rate, done, planned, decayed, processed)
	}
}

// compare compares what is read, filtered, listed and exported with the model.
func (r *ageingRun) compare() {
	r.t.Helper()
	ctx := r.t.Context()
	low := 0
	for id, f := range r.model {
		m, err := r.db.Memories().Get(ctx, memory.Scope{}, id)
		r.must(err)
		if !alike(*m.Confidence, f.confidence) {
			r.t.Fatalf("%s has the confidence %v, want %v", id, *m.Confidence, f.confidence)
		}
		if f.confidence < .5-1e-8 {
			low++
		}
		if math.Abs(f.confidence-.5) < 1e-8 {
			low = math.MinInt
		}
	}
	page, err := r.db.Memories().List(ctx, memory.ListQuery{AllScopes: true, Filter: filter.Lt("confidence", .5), OrderBy: "confidence", Limit: 10_000})
	r.must(err)
	if low >= 0 && len(page.Memories) != low {
		r.t.Fatalf("%d memories have a confidence below 0.5, want %d", len(page.Memories), low)
	}
	before := 0.0
	for _, m := range page.Memories {
		if *m.Confidence < before {
			r.t.Fatalf("a confidence of %v is listed after %v", *m.Confidence, before)
		}
		before = *m.Confidence
	}
}

// TestClocksThatJump: what a consolidation takes by a clock that is a year ahead is given back once
// it is set right; after it nothing is evicted for an age that it does not have, no confidence
// rises, and nothing is lost.
func TestClocksThatJump(t *testing.T) {
	clk := newTestClock()
	fs := vfs.NewMem()
	o := Options{Clock: clk.now}
	db := openTest(t, fs, o)
	s, ctx := memory.Scope{Agent: "a"}, t.Context()
	confidence := func(id string) float64 {
		t.Helper()
		m, err := db.Memories().Get(ctx, s, id)
		if err != nil {
			t.Fatal(err)
		}
		return *m.Confidence
	}
	consolidate := func() {
		t.Helper()
		if _, err := db.Consolidate(ctx, &ConsolidateOptions{Rate: new(.05)}); err != nil {
			t.Fatal(err)
		}
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "old", Scope: s, Text: "it is old", Importance: new(.9)})
	clk.advance(365 * 24 * time.Hour)
	consolidate()
	if got := confidence("old"); math.Abs(got-.95) > 1e-9 {
		t.Errorf("a year ahead: %v", got)
	}
	clk.advance(-365 * 24 * time.Hour)
	if got := confidence("old"); got != 1 {
		t.Errorf("set right: %v", got)
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "new", Scope: s, Text: "this is new", Importance: new(0.0)})
	clk.advance(-24 * time.Hour) // and a day too far
	if r, err := db.Evict(ctx, nil); err != nil || r.Evicted != 0 {
		t.Errorf("evicted: %+v, %v", r, err)
	}
	was := confidence("old")
	for range 3 {
		consolidate()
		clk.advance(-time.Hour)
		if now := confidence("old"); now > was {
			t.Errorf("confidence rises from %v to %v", was, now)
		} else {
			was = now
		}
	}
	closeTest(t, db)
	db = openTest(t, fs, o)
	if now := confidence("old"); now != was {
		t.Errorf("%v, and %v after it was opened", was, now)
	}
	mustCheck(t, db, 2)
}

// TestRepeatedTextIsYoung: a text that is said again ages from then on, and was not recalled.
func TestRepeatedTextIsYoung(t *testing.T) {
	clk, fs := newTestClock(), vfs.NewMem()
	db := openTest(t, fs, Options{Clock: clk.now})
	say := func(m ...sessions.Message) sessions.Appended {
		t.Helper()
		said, err := db.Sessions().Append(t.Context(), supportAgent, "s", m, nil)
		noError(t, err)
		return said[0]
	}
	yes := sessions.Message{Role: "user", Text: "Yes."}
	const day = 24 * time.Hour
	first := say(yes)
	began := clk.now()
	clk.advance(29 * day)
	say(yes)
	idle := func() time.Duration {
		t.Helper()
		var d time.Duration
		noError(t, db.View(t.Context(), func(tx *Tx) error {
			m, err := tx.Memories().Get(t.Context(), supportAgent.Scope(), first.MemoryID)
			noError(t, err)
			if m.AccessCount != 0 || !m.CreatedAt.Equal(began.Truncate(time.Millisecond)) {
				t.Errorf("%d accesses, created at %v", m.AccessCount, m.CreatedAt)
			}
			l, _ := tx.reader().At(m.Seq)
			f, _ := tx.ages().Facts(tx.db.tables.Docs.Row(l.Doc))
			d = f.Idle
			return nil
		}))
		return d
	}
	clk.advance(2 * day)
	if d := idle(); d != 2*day {
		t.Errorf("idle for %v, want two days", d)
	}
	closeTest(t, db)
	db = openTest(t, fs, Options{Clock: clk.now})
	if d := idle(); d != 2*day {
		t.Errorf("after a reopen idle for %v, want two days", d)
	}
	// What was said before makes nothing older, and an import is as old as it says.
	say(sessions.Message{Text: "Yes.", At: began.Add(-day)}, sessions.Message{Text: "Yes.", At: began.Add(day)})
	if d := idle(); d != 2*day {
		t.Errorf("after older ones idle for %v, want two days", d)
	}
	if _, err := db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{Agent: "support", Run: "s"}, Text: "Yes."}, nil); err != nil {
		t.Fatal(err)
	}
	if d := idle(); d != 0 {
		t.Errorf("stored again, idle for %v", d)
	}
}
