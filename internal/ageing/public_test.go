package ageing_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// publicDB is a database as a program sees it, on a clock of its own.
type publicDB struct {
	*engine.DB
	t    *testing.T
	clk  *testdb.Clock
	opts engine.Options
	fs   vfs.FS
}

func (d *publicDB) now() time.Time           { return d.clk.Now() }
func (d *publicDB) advance(by time.Duration) { d.clk.Advance(by) }

func newPublicDB(t *testing.T, o engine.Options) *publicDB {
	t.Helper()
	d := &publicDB{t: t, clk: testdb.NewClock(), opts: o, fs: vfs.NewMem()}
	d.opts.Clock = d.now
	d.open()
	return d
}

func (d *publicDB) open() {
	d.t.Helper()
	d.DB = testdb.Open(d.t, d.fs, d.opts)
}

// add stores a memory, a second after what was before, and returns its ID.
func (d *publicDB) add(m memory.Memory) string {
	d.t.Helper()
	d.advance(time.Second)
	st, err := d.Memories().Store(d.t.Context(), m, nil)
	if err != nil || !st.Stored {
		d.t.Fatalf("store %q: %+v, %v", m.Text, st, err)
	}
	return st.ID
}

func (d *publicDB) get(id string) memory.Memory {
	d.t.Helper()
	m, err := d.Memories().GetWithVectors(d.t.Context(), memory.Scope{}, id)
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

// What a program sees of evictions and consolidations: each case is named by what it shows.

const day = 24 * time.Hour

// ago is a memory of an agent, created some time ago.
func (d *publicDB) ago(id string, age time.Duration, importance, confidence float64) memory.Memory {
	return memory.Memory{
		ID: id, Scope: memory.Scope{Agent: "a1"}, Text: "about " + id, CreatedAt: d.now().Add(-age),
		Importance: &importance, Confidence: &confidence,
	}
}

func (d *publicDB) evict(o engine.EvictOptions) engine.Evicted {
	d.t.Helper()
	r, err := d.Evict(d.t.Context(), &o)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

func (d *publicDB) consolidate(o engine.ConsolidateOptions) engine.Consolidated {
	d.t.Helper()
	r, err := d.Consolidate(d.t.Context(), &o)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// there reports whether a memory is there.
func (d *publicDB) there(id string) bool {
	d.t.Helper()
	_, err := d.Memories().Get(d.t.Context(), memory.Scope{}, id)
	if err != nil && !errors.Is(err, memory.ErrNotFound) {
		d.t.Fatal(err)
	}
	return err == nil
}

func (d *publicDB) confidence(id string) float64 {
	d.t.Helper()
	return *d.get(id).Confidence
}

// only fails unless of these memories exactly some are there.
func (d *publicDB) only(want map[string]bool) {
	d.t.Helper()
	for id, there := range want {
		if d.there(id) != there {
			d.t.Errorf("%s is there: %v, want %v", id, !there, there)
		}
	}
}

func TestEvictions(t *testing.T) {
	run := func(name string, fn func(d *publicDB)) {
		t.Run(name, func(t *testing.T) { fn(newPublicDB(t, engine.Options{})) })
	}
	run("evicts across all agents", func(d *publicDB) {
		for _, agent := range []string{"a1", "a2"} {
			m := d.ago(agent, 0, .5, .05)
			m.Agent = agent
			d.add(m)
		}
		if r := d.evict(engine.EvictOptions{}); r.Evicted != 2 {
			t.Errorf("%+v", r)
		}
	})
	run("maximum age is 30 days by default", func(d *publicDB) {
		d.add(d.ago("old", 30*day+time.Hour, .1, 1))
		d.add(d.ago("young", 30*day-time.Hour, .1, 1))
		d.evict(engine.EvictOptions{})
		d.only(map[string]bool{"old": false, "young": true})
	})
	run("age alone, under agentos", func(d *publicDB) {
		recalled := d.ago("recalled", 40*day, .1, 1)
		recalled.AccessCount, recalled.LastAccessed = 1, d.now().Add(-day)
		d.add(recalled)
		if r := d.evict(engine.EvictOptions{}); r.Evicted != 0 {
			t.Errorf("the default evicts what was recalled yesterday: %+v", r)
		}
		p, err := policy.Preset(policy.PresetAgentOS)
		if err == nil {
			_, err = d.Policies().Set(t.Context(), p)
		}
		if err != nil {
			t.Fatal(err)
		}
		d.evict(engine.EvictOptions{})
		d.only(map[string]bool{"recalled": false})
	})
	run("the cap is per agent, under agentos over all its users", func(d *publicDB) {
		for i := range 6 {
			m := d.ago(fmt.Sprint("m", i), 0, .9-float64(i)/10, 1)
			m.User = fmt.Sprint("u", i%3)
			d.add(m)
		}
		if r := d.evict(engine.EvictOptions{Cap: new(int64(4))}); r.Evicted != 0 {
			t.Errorf("the default evicts %+v", r)
		}
		p, err := policy.Preset(policy.PresetAgentOS)
		if err == nil {
			_, err = d.Policies().Set(t.Context(), p)
		}
		if err != nil {
			t.Fatal(err)
		}
		d.evict(engine.EvictOptions{Cap: new(int64(4))})
		d.only(map[string]bool{"m0": true, "m3": true, "m4": false, "m5": false})
	})
	run("age above maxAge and importance below minImportance", func(d *publicDB) {
		d.add(d.ago("both", 16*day, .29, 1))
		d.add(d.ago("old only", 16*day, .3, 1))
		d.add(d.ago("unimportant only", 14*day, .1, 1))
		d.evict(engine.EvictOptions{MaxAge: new(15 * day), MinImportance: new(.3), Cap: new(int64(5000))})
		d.only(map[string]bool{"both": false, "old only": true, "unimportant only": true})
	})
	run("confidence below 0.1", func(d *publicDB) {
		d.add(d.ago("below", 0, 1, .099))
		d.add(d.ago("at", 0, 1, .1))
		d.evict(engine.EvictOptions{})
		d.only(map[string]bool{"below": false, "at": true})
	})
	run("memory count exceeds cap, evicts lowest importance", func(d *publicDB) {
		for i := range 5 {
			d.add(d.ago(fmt.Sprint("m", i), 0, .9-float64(i)/10, 1))
		}
		other := d.ago("other", 0, .1, 1)
		other.Agent = "a2"
		d.add(other)
		if r := d.evict(engine.EvictOptions{Cap: new(int64(3))}); r.Evicted != 2 || r.Reasons[policy.Cap] != 2 {
			t.Errorf("%+v", r)
		}
		d.only(map[string]bool{"m0": true, "m1": true, "m2": true, "m3": false, "m4": false, "other": true})
	})
	run("returns the total number of memories evicted", func(d *publicDB) {
		d.add(d.ago("old", 40*day, .1, 1))
		d.add(d.ago("unsure", 0, 1, 0))
		d.add(d.ago("kept", 0, 1, 1))
		if r := d.evict(engine.EvictOptions{}); r.Evicted != 2 || d.evict(engine.EvictOptions{}).Evicted != 0 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("automatically daily at 3 AM", func(t *testing.T) {
		if p := policy.Default(); p.EvictCron != "0 3 * * *" {
			t.Error(p.EvictCron)
		}
	})
}

func TestConsolidations(t *testing.T) {
	run := func(name string, fn func(d *publicDB)) {
		t.Run(name, func(t *testing.T) { fn(newPublicDB(t, engine.Options{})) })
	}
	run("decays confidence on unaccessed memories", func(d *publicDB) {
		d.add(d.ago("m", 8*day, .5, 1))
		if r := d.consolidate(engine.ConsolidateOptions{Rate: new(.05)}); r.Decayed != 1 || d.confidence("m") != .95 {
			t.Errorf("%+v, confidence %v", r, d.confidence("m"))
		}
	})
	run("applies to memories not accessed in 7 days or more", func(d *publicDB) {
		d.add(d.ago("7 days", 7*day, .5, 1))
		d.add(d.ago("6 days", 6*day, .5, 1))
		accessed := d.ago("accessed", 30*day, .5, 1)
		accessed.AccessCount, accessed.LastAccessed = 1, d.now().Add(-day)
		d.add(accessed)
		d.consolidate(engine.ConsolidateOptions{Rate: new(.5), Merge: new(false)})
		if a, b, c := d.confidence("7 days"), d.confidence("6 days"), d.confidence("accessed"); a > .51 || b != 1 || c != 1 {
			t.Error(a, b, c)
		}
	})
	run("new confidence is confidence times 1 minus the rate, minimum 0.1", func(d *publicDB) {
		d.add(d.ago("m", 8*day, .5, .8))
		for _, want := range []float64{.4, .2, .1, .1} {
			d.consolidate(engine.ConsolidateOptions{Rate: new(.5)})
			if got := d.confidence("m"); math.Abs(got-want) > 1e-9 {
				t.Errorf("%v, want %v", got, want)
			}
		}
	})
	run("skips memories already at minimum confidence", func(d *publicDB) {
		d.add(d.ago("at", 8*day, .5, .1))
		d.add(d.ago("below", 8*day, .5, .04))
		if r := d.consolidate(engine.ConsolidateOptions{}); r.Decayed != 0 || d.confidence("at") != .1 || d.confidence("below") != .04 {
			t.Errorf("%+v", r)
		}
	})
	run("a recall prevents confidence decay", func(d *publicDB) {
		d.add(d.ago("m", 8*day, .5, 1))
		d.consolidate(engine.ConsolidateOptions{Rate: new(.1)})
		if _, err := d.Memories().Recall(t.Context(), memory.Query{Scope: memory.Scope{Agent: "a1"}, Text: "about m"}); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			d.advance(day)
			d.consolidate(engine.ConsolidateOptions{Rate: new(.1)})
		}
		if got := d.confidence("m"); got != .9 {
			t.Error(got)
		}
	})
	run("memories merged is 0 under agentos", func(d *publicDB) {
		p, err := policy.Preset(policy.PresetAgentOS)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Policies().Set(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"x", "y"} {
			m := d.ago(id, 0, .5, 1)
			m.Embedding = []float32{1, 0}
			d.add(m)
		}
		if r := d.consolidate(engine.ConsolidateOptions{}); r.Merged != 0 || r.Processed != 2 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("automatically every 6 hours", func(t *testing.T) {
		if p := policy.Default(); p.ConsolidateCron != "0 */6 * * *" || p.Rate != .05 {
			t.Error(p.ConsolidateCron, p.Rate)
		}
	})
	t.Run("configured via environment variables", func(t *testing.T) {
		s, err := policy.FromEnv(func(name string) (string, bool) {
			v, ok := map[string]string{"MEMDB_CONSOLIDATE_CRON": "0 */2 * * *"}[name]
			return v, ok
		})
		if err != nil || s.Consolidate != "0 */2 * * *" || s.Evict != "" {
			t.Error(s, err)
		}
	})
}

func TestDecayOfTheIdle(t *testing.T) {
	run := func(name string, fn func(d *publicDB)) {
		t.Run(name, func(t *testing.T) { fn(newPublicDB(t, engine.Options{})) })
	}
	run("importance times the rate to the power of days since access", func(d *publicDB) {
		d.add(d.ago("m", 14*day+time.Hour, .8, 1))
		m, err := d.Memories().Get(t.Context(), memory.Scope{}, "m")
		if err != nil || math.Abs(*m.DecayedImportance-.8*math.Pow(.95, 14)) > 1e-12 || *m.Importance != .8 {
			t.Errorf("%v: %v of %v", err, *m.DecayedImportance, *m.Importance)
		}
	})
	run("half is left after about 14 days", func(d *publicDB) {
		if got := policy.Retention(14 * day); got < .47 || got > .5 {
			t.Error(got)
		}
	})
	run("deletes memories below a threshold for one agent", func(d *publicDB) {
		d.add(d.ago("low", 20*day, .5, 1))
		d.add(d.ago("high", 0, .5, 1))
		other := d.ago("other", 20*day, .5, 1)
		other.Agent = "a2"
		d.add(other)
		if r := d.consolidate(engine.ConsolidateOptions{Scope: memory.Scope{Agent: "a1"}, PruneBelow: new(.3)}); r.Deleted != 1 || r.Processed != 2 {
			t.Errorf("%+v", r)
		}
		d.only(map[string]bool{"low": false, "high": true, "other": true})
	})
	run("fragments of an importance below 0.1 are deleted under substrate", func(d *publicDB) {
		p, err := policy.Preset(policy.PresetSubstrate)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Policies().Set(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		fragment := d.ago("fragment", 0, .09, 1)
		fragment.Kind = memory.KindFragment
		d.add(fragment)
		d.add(memory.Memory{ID: "new", Scope: memory.Scope{Agent: "a1"}, Text: "ok"})
		d.consolidate(engine.ConsolidateOptions{})
		d.only(map[string]bool{"fragment": false, "new": true})
		if m, err := d.Memories().Get(t.Context(), memory.Scope{}, "new"); err != nil || *m.Importance != 1 {
			t.Errorf("a new memory has the importance %v, %v", *m.Importance, err)
		}
	})
	merged := func(name string, change func(a, b *memory.Memory), want bool) {
		run(name, func(d *publicDB) {
			p, err := policy.Preset(policy.PresetSubstrate)
			if err == nil {
				_, err = d.Policies().Set(t.Context(), p)
			}
			if err != nil {
				t.Fatal(err)
			}
			a, b := d.ago("first", 0, .7, 1), d.ago("second", 0, .3, 1)
			a.Source, b.Source, a.AccessCount, b.AccessCount = memory.SourceUserMessage, memory.SourceUserMessage, 2, 3
			change(&a, &b)
			d.add(a)
			d.add(b)
			if r := d.consolidate(engine.ConsolidateOptions{}); (r.Merged == 1) != want {
				t.Errorf("%+v", r)
			}
			if d.there("first") == want {
				t.Errorf("the first is there: %v", !want)
			}
			if !want {
				return
			}
			if m, err := d.Memories().Get(t.Context(), memory.Scope{}, "second"); err != nil || *m.Importance != .7 || m.AccessCount != 5 {
				t.Errorf("the second has the importance %v and %d accesses, %v", *m.Importance, m.AccessCount, err)
			}
		})
	}
	vectors := func(x float32) func(a, b *memory.Memory) {
		return func(a, b *memory.Memory) { a.Embedding, b.Embedding = []float32{1, 0}, []float32{1, x} }
	}
	texts := func(x, y string) func(a, b *memory.Memory) {
		return func(a, b *memory.Memory) { a.Text, b.Text = x, y }
	}
	merged("merges at a cosine above 0.9, with the higher importance and all accesses", vectors(.4), true)
	merged("keeps both at a cosine below 0.9", vectors(.6), false)
	const long = "the harbour office opens at nine on weekdays"
	merged("merges at an edit distance below 10%", texts(long, long+"!"), true)
	merged("keeps both at an edit distance above 10%", texts(long, "the harbour office opens at noon on Sundays"), false)
	merged("keeps those of another source", func(a, b *memory.Memory) { vectors(0)(a, b); b.Source = memory.SourceWebSearch }, false)
	merged("keeps those of another agent", func(a, b *memory.Memory) { vectors(0)(a, b); b.Agent = "a2" }, false)
}
