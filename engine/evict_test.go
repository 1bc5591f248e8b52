package engine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// TestEvictEqualsRules: over random databases Evict takes what the rules say of each memory,
// evaluated one by one; a dry run says the same and changes nothing; and all is as before
// after a reopening.
func TestEvictEqualsRules(t *testing.T) {
	race.Sequential(t)
	for range 5 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) { evictRun(t, rand.New(rand.NewPCG(seed, 2))) })
	}
}

func evictRun(t *testing.T, rng *rand.Rand) {
	fs, clk := vfs.NewMem(), newTestClock()
	open := func() *DB {
		db, err := openOn(fs, "db", setup{Options: Options{Clock: clk.now, MemoryBudget: testBudget}})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	kinds := []memory.Kind{memory.KindMessage, memory.KindMessage, memory.KindFact, memory.KindNote, memory.KindArchive}
	for i := range 300 {
		m := memory.Memory{
			ID: fmt.Sprint("m", i), Scope: memory.Scope{Agent: fmt.Sprint("a", rng.IntN(3)), Run: []string{"", "r"}[rng.IntN(2)]},
			Kind: kinds[rng.IntN(len(kinds))], Text: fmt.Sprint("text ", i), Name: fmt.Sprint("n", i),
			Importance: new(float64(rng.IntN(10)) / 10), Confidence: new(float64(rng.IntN(20)) / 20), Pinned: rng.IntN(6) == 0,
			CreatedAt: clk.now().Add(-time.Duration(rng.IntN(60*24)) * time.Hour),
		}
		if rng.IntN(8) == 0 {
			m.ExpiresAt = clk.now().Add(time.Duration(rng.IntN(48)-24) * time.Hour)
		}
		if rng.IntN(2) == 0 {
			m.AccessCount, m.LastAccessed = 1, clk.now().Add(-time.Duration(rng.IntN(10*24))*time.Hour)
		}
		mustStore(t, db.Memories(), m)
	}
	if _, err := db.Consolidate(t.Context(), &ConsolidateOptions{Rate: new(.5), Merge: new(false)}); err != nil {
		t.Fatal(err)
	}
	age, least, most := time.Duration(rng.IntN(50))*24*time.Hour, rng.Float64(), int64(10+rng.IntN(40))
	o := EvictOptions{MaxAge: &age, MinImportance: &least, Cap: &most}
	if rng.IntN(3) == 0 {
		o.Scope.Agent = "a1"
	}
	want, hidden := ruled(t, db, &o, clk)
	live := db.tables.Docs.Live.Load()
	dry := o
	dry.DryRun = true
	planned, would := mustEvict(t, db, dry)
	if db.tables.Docs.Live.Load() != live || planned.LSN != db.LSN() {
		t.Fatal("the dry run changed something")
	}
	done, did := mustEvict(t, db, o)
	for id, why := range did {
		if why == policy.Expired && hidden[id] {
			delete(did, id)
			delete(would, id)
		}
	}
	if !maps.Equal(did, want) || !maps.Equal(would, want) {
		t.Fatalf("evicted %v\nplanned %v\nwant %v", did, would, want)
	}
	if len(want) == 0 {
		t.Fatal("nothing was evicted")
	}
	if _, again := mustEvict(t, db, o); len(again) != 0 {
		t.Fatalf("evicted again: %v", again)
	}
	after := func() {
		t.Helper()
		mustCheck(t, db, int(live)-done.Evicted)
		for id, why := range want {
			if _, err := db.Memories().Get(t.Context(), memory.Scope{}, id); !errors.Is(err, fault.ErrNotFound) {
				t.Fatalf("%s, evicted for %s: %v", id, why, err)
			}
			h := mustHistory(t, db.Memories(), memory.Scope{}, id)
			last := h[len(h)-1]
			if reason := memory.Reason("evicted:" + string(why)); last.Event != memory.EventDelete || last.LSN != done.LSN || last.Reason != reason {
				t.Fatalf("%s, evicted for %s: %+v", id, why, last)
			}
		}
	}
	after()
	closeTest(t, db)
	db = open()
	after()
	waitFor(t, func() bool { db.janitor.wake(); return !db.janitor.pending() })
	after()
	closeTest(t, db)
}

// ruled applies the rules to every memory that is read, and tells which have expired.
func ruled(t *testing.T, db *DB, o *EvictOptions, clk *testClock) (want map[string]policy.Reason, hidden map[string]bool) {
	t.Helper()
	want, hidden = map[string]policy.Reason{}, map[string]bool{}
	for i := range 300 {
		hidden[fmt.Sprint("m", i)] = true
	}
	left := map[string][]memory.Memory{}
	counts := map[string]int64{}
	for m, err := range db.Memories().All(t.Context(), memory.ListQuery{AllScopes: true, Limit: 100}) {
		if err != nil {
			t.Fatal(err)
		}
		delete(hidden, m.ID)
		if m.Kind == memory.KindNote || m.Kind == memory.KindArchive || o.Scope.Agent != "" && m.Agent != o.Scope.Agent {
			continue
		}
		switch {
		case m.Pinned:
			counts[m.Agent]++
		case clk.now().Sub(m.CreatedAt) > *o.MaxAge && clk.now().Sub(m.LastAccessed) > *o.MaxAge && *m.Importance < *o.MinImportance:
			want[m.ID] = policy.Age
		case *m.Confidence < .1:
			want[m.ID] = policy.LowConfidence
		default:
			counts[m.Agent]++
			left[m.Agent] = append(left[m.Agent], m)
		}
	}
	last := func(m memory.Memory) int64 { return max(clock.ToMillis(m.LastAccessed), clock.ToMillis(m.CreatedAt)) }
	for agent, list := range left {
		slices.SortFunc(list, func(a, b memory.Memory) int {
			return policy.Place{Importance: *a.Importance, Last: last(a), Seq: a.Seq}.Compare(policy.Place{Importance: *b.Importance, Last: last(b), Seq: b.Seq})
		})
		for i := range min(int64(len(list)), max(0, counts[agent]-*o.Cap)) {
			want[list[i].ID] = policy.Cap
		}
	}
	return want, hidden
}

// TestEvictDefaults: 30 days, 0.2, 0.1 and 10,000, and not the memory that is at a bound.
func TestEvictDefaults(t *testing.T) {
	clk := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clk.now})
	month := clk.now().Add(-30 * 24 * time.Hour)
	for id, m := range map[string]memory.Memory{
		"old":       {CreatedAt: month.Add(-time.Millisecond), Importance: new(.19)},
		"at30days":  {CreatedAt: month, Importance: new(.19)},
		"important": {CreatedAt: month.Add(-time.Hour), Importance: new(.2)},
		"unsure":    {Confidence: new(.09)},
		"atfloor":   {Confidence: new(.1)},
		"pinned":    {CreatedAt: month.Add(-time.Hour), Importance: new(.0), Confidence: new(.0), Pinned: true},
	} {
		m.ID, m.Text, m.Scope = id, id, memory.Scope{Agent: "a"}
		mustStore(t, db.Memories(), m)
	}
	_, got := mustEvict(t, db, EvictOptions{})
	if want := map[string]policy.Reason{"old": policy.Age, "unsure": policy.LowConfidence}; !maps.Equal(got, want) {
		t.Errorf("evicted %v, want %v", got, want)
	}
	if p := policy.Default(); p.Cap != 10_000 {
		t.Errorf("the cap is %d", p.Cap)
	}
}

// TestEvictReadsTexts verifies that the preset default keeps what an assistant or a tool said that matters, and lets
// small talk go; that agentos goes by the stored importance alone; and that a caller who asks for more gets it.
func TestEvictReadsTexts(t *testing.T) {
	clk := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clk.now})
	ada := memory.Scope{User: "ada"}
	for _, m := range []memory.Memory{
		{ID: "seat", Role: memory.RoleAssistant, Text: "I have booked seat 14C"},
		{ID: "order", Role: memory.RoleTool, Text: "order A-1192 shipped"},
		{ID: "fact", Role: memory.RoleAssistant, Kind: memory.KindFact, Text: "Ada likes oak"},
		{ID: "low", Role: memory.RoleAssistant, Text: "Your seat is 9A", Importance: new(.1)},
		{ID: "thanks", Role: memory.RoleAssistant, Text: "You're welcome!"},
		{ID: "done", Role: memory.RoleTool, Text: "done"},
	} {
		m.Scope = ada
		mustStore(t, db.Memories(), m)
	}
	clk.advance(40 * 24 * time.Hour)
	victims := func(o EvictOptions) string {
		o.DryRun = true
		_, got := mustEvict(t, db, o)
		return fmt.Sprint(slices.Sorted(maps.Keys(got)))
	}
	for range 2 { // the second one does not read the texts again
		if got := victims(EvictOptions{}); got != "[done low thanks]" {
			t.Errorf("the default takes %s", got)
		}
	}
	if got := victims(EvictOptions{MinImportance: new(.9)}); got != "[done fact low order seat thanks]" {
		t.Errorf("below .9: %s", got)
	}
	setPolicy(t, db, func(p *policy.Policy) { p.Preset = policy.PresetAgentOS })
	if got := victims(EvictOptions{}); got != "[done fact low order seat thanks]" {
		t.Errorf("agentos takes %s", got)
	}
}
