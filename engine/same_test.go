package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// TestMergesOnlyWhatSaysTheSame: by default neither a vector nor likeness merges, nor does a text
// beside which something else differs.
func TestMergesOnlyWhatSaysTheSame(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{Clock: newTestClock().now})
	a := memory.Scope{Agent: "a", Run: "r"}
	base := memory.Memory{Scope: a, Text: "I like tea", Embedding: []float32{1, 0}}
	n := 0
	store := func(change func(m *memory.Memory)) {
		m := base
		m.ID = fmt.Sprint("m", n)
		n++
		change(&m)
		mustStore(t, db.Memories(), m)
	}
	store(func(*memory.Memory) {})
	for _, change := range []func(m *memory.Memory){
		func(m *memory.Memory) { m.Text = "I like teas" },
		func(m *memory.Memory) { m.Text = "I do not like tea" },
		func(m *memory.Memory) { m.Text = "I like Tea" },
		func(m *memory.Memory) { m.Text = "I, like tea" },
		func(m *memory.Memory) { m.Role = memory.RoleAssistant },
		func(m *memory.Memory) { m.Kind = memory.KindFact },
		func(m *memory.Memory) { m.Source = memory.SourceWebSearch },
		func(m *memory.Memory) { m.Run = "s" },
		func(m *memory.Memory) { m.User = "u" },
		func(m *memory.Memory) { m.Metadata = map[string]any{"n": 1} },
		func(m *memory.Memory) { m.EventTime = time.UnixMilli(5000) },
		func(m *memory.Memory) { m.ExpiresAt = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) },
		func(m *memory.Memory) { m.Name = "tea" },
		func(m *memory.Memory) { m.Text = "..." },
		func(m *memory.Memory) { m.Text = "!" },
	} {
		store(change)
	}
	if r, merges := mustConsolidate(t, db, ConsolidateOptions{}); r.Merged != 0 {
		t.Fatalf("%+v", merges)
	}
	store(func(m *memory.Memory) { m.Text, m.Embedding = "i like tea.", []float32{0, 1} })
	r, merges := mustConsolidate(t, db, ConsolidateOptions{})
	want := []Merge{{ID: "m0", Text: "I like tea", Into: fmt.Sprint("m", n-1), IntoText: "i like tea.", By: "edit", Score: 1}}
	if !slices.Equal(merges, want) || r.Merged != 1 || len(r.Merges) != 1 || r.Merges[0] != r.LSN {
		t.Errorf("%+v, %+v, want %+v", r, merges, want)
	}
	mustCheck(t, db, n-1)
}

// mergedWorld is two memories that say the same, with all that a memory can have and what refers
// to it.
func mergedWorld(t *testing.T, db *DB) (own memory.Owner, old, fresh memory.Memory) {
	t.Helper()
	own = memory.Owner{User: "u", Agent: "a"}
	s := memory.Scope{User: "u", Agent: "a", Run: "chat"}
	old = memory.Memory{ID: "old", Scope: s, Text: "I like tea", Importance: new(.8), Confidence: new(.9), Pinned: true, AccessCount: 3, LastAccessed: time.UnixMilli(1772300000000).UTC(), Embedding: []float32{1, 0}}
	fresh = memory.Memory{ID: "fresh", Scope: s, Text: "I like tea.", Importance: new(.3), Confidence: new(.5), AccessCount: 4, LastAccessed: time.UnixMilli(1772200000000).UTC(), Embedding: []float32{0, 1}}
	mustStore(t, db.Memories(), old)
	mustStore(t, db.Memories(), fresh)
	g := db.Graph()
	for _, id := range []string{"ada", "tea"} {
		if _, err := g.Put(t.Context(), own, graph.Entity{ID: id, Name: id, Type: "concept"}, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Link(t.Context(), own, id, "old"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Link(t.Context(), own, "tea", "fresh"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"old", "fresh"} {
		msg := sessions.Message{ID: "said-" + id, Role: "user", MemoryIDs: []string{id}}
		if _, err := db.Sessions().Append(t.Context(), own, "chat", []sessions.Message{msg}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return own, old, fresh
}

// referring is what refers to the memories of mergedWorld.
type referring struct {
	Messages []string // text of a message, and the memory that it refers to
	Links    map[string][]string
}

func readReferring(t *testing.T, db *DB, own memory.Owner) (r referring) {
	t.Helper()
	said, err := db.Sessions().Load(t.Context(), own, "chat", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range said.Messages {
		r.Messages = append(r.Messages, fmt.Sprint(m.ID, " ", m.Text, " ", m.MemoryID(), " ", m.Orphan))
	}
	r.Links = map[string][]string{}
	for _, id := range []string{"ada", "tea"} {
		if r.Links[id], err = db.Graph().Memories(t.Context(), own, id); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestMergeLosesNothing: the newer text survives, with the better of all else, and what referred to
// the older one refers to it, also after the clean-up and a reopening. An undo brings all back, and
// the next consolidation leaves it so.
func TestMergeLosesNothing(t *testing.T) {
	fs, clk := vfs.NewMem(), newTestClock()
	db := openTest(t, fs, Options{Clock: clk.now})
	own, old, fresh := mergedWorld(t, db)
	before := readReferring(t, db, own)
	r, _ := mustConsolidate(t, db, ConsolidateOptions{})
	if r.Merged != 1 {
		t.Fatalf("%+v", r)
	}
	check := func() {
		t.Helper()
		m, err := db.Memories().Get(t.Context(), memory.Scope{}, "fresh")
		if err != nil || m.Text != fresh.Text || *m.Importance != .8 || *m.Confidence != .9 || !m.Pinned || m.AccessCount != 7 || !m.LastAccessed.Equal(old.LastAccessed) {
			t.Errorf("the survivor is %+v, %v", m, err)
		}
		want := referring{
			[]string{"said-old I like tea fresh false", "said-fresh I like tea. fresh false"},
			map[string][]string{"ada": {"fresh"}, "tea": {"fresh"}},
		}
		if got := readReferring(t, db, own); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		mustCheck(t, db, 1)
	}
	check()
	waitFor(t, func() bool { db.janitor.wake(); return !db.janitor.pending() })
	check()
	closeTest(t, db)
	db = openTest(t, fs, Options{Clock: clk.now})
	check()
	if undone, err := db.Undo(t.Context(), r.LSN); err != nil || undone.Restored != 1 {
		t.Fatalf("%+v, %v", undone, err)
	}
	if again, _ := mustConsolidate(t, db, ConsolidateOptions{}); again.Merged != 0 {
		t.Errorf("merged again: %+v", again)
	}
	for _, want := range []memory.Memory{old, fresh} {
		m, err := db.Memories().GetWithVectors(t.Context(), memory.Scope{}, want.ID)
		if err != nil || m.Text != want.Text || *m.Importance != *want.Importance || *m.Confidence != *want.Confidence ||
			m.Pinned != want.Pinned || m.AccessCount != want.AccessCount || !slices.Equal(m.Embedding, want.Embedding) {
			t.Errorf("%s came back as %+v, %v", want.ID, m, err)
		}
	}
	if got := readReferring(t, db, own); !reflect.DeepEqual(got, before) {
		t.Errorf("%+v, want %+v", got, before)
	}
	h := mustHistory(t, db.Memories(), memory.Scope{}, "old")
	if len(h) != 3 || h[1].Event != memory.EventDelete || h[1].Reason != memory.ReasonMerged || h[1].Into != "fresh" || h[2].Event != memory.EventUpdate {
		t.Errorf("the history is %+v", h)
	}
	// Another text may be merged again.
	if _, err := db.Memories().Update(t.Context(), memory.Scope{}, "old", memory.Patch{Text: new("I like green tea")}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Memories().Update(t.Context(), memory.Scope{}, "fresh", memory.Patch{Text: new("I like green tea.")}); err != nil {
		t.Fatal(err)
	}
	if again, _ := mustConsolidate(t, db, ConsolidateOptions{}); again.Merged != 1 {
		t.Errorf("new texts: %+v", again)
	}
	mustCheck(t, db, 1)
}

// TestUndoRun: the LSN that a consolidation returns brings back all that it has merged and pruned, in
// however many commits.
func TestUndoRun(t *testing.T) {
	const n = 1000 + 1000/5
	clk := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clk.now})
	all := make([]memory.Memory, 0, n+2)
	for i := range n + 1 {
		all = append(all, memory.Memory{ID: fmt.Sprint("m", i), Scope: memory.Scope{Agent: "a"}, Text: "I like tea" + []string{"", ".", "\n"}[i%3], Importance: new(float64(i%7) / 10)})
	}
	all = append(all, memory.Memory{ID: "faded", Scope: memory.Scope{Agent: "a"}, Text: "long ago", Importance: new(.2), CreatedAt: clk.now().Add(-90 * 24 * time.Hour)})
	if _, err := db.Memories().StoreBatch(t.Context(), all, &memory.StoreOptions{NoDedup: true}); err != nil {
		t.Fatal(err)
	}
	r, _ := mustConsolidate(t, db, ConsolidateOptions{PruneBelow: new(.05)})
	if r.Merged < n-n/7-1 || r.Deleted == 0 || r.Merged+r.Deleted != n+1 || len(r.Merges) < 2 || r.LSN != r.Merges[len(r.Merges)-1] {
		t.Fatalf("merged %d, deleted %d in %v, LSN %d", r.Merged, r.Deleted, r.Merges, r.LSN)
	}
	undone, err := db.Undo(t.Context(), r.LSN)
	if err != nil || undone.Restored != n+1 {
		t.Fatalf("%+v, %v", undone, err)
	}
	if _, err := db.Undo(t.Context(), r.LSN); !errors.Is(err, fault.ErrNotRetained) {
		t.Errorf("twice: %v", err)
	}
	if again, _ := mustConsolidate(t, db, ConsolidateOptions{}); again.Merged != 0 {
		t.Errorf("merged again: %+v", again)
	}
	mustCheck(t, db, n+2)
}

// TestUndoneStays: what was evicted and is back is not evicted the next night.
func TestUndoneStays(t *testing.T) {
	clk := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clk.now})
	mustStore(t, db.Memories(), memory.Memory{ID: "m", Scope: memory.Scope{Agent: "a"}, Text: "ok", CreatedAt: clk.now().Add(-31 * 24 * time.Hour)})
	r, victims := mustEvict(t, db, EvictOptions{})
	if len(victims) != 1 {
		t.Fatalf("%+v", r)
	}
	if _, err := db.Undo(t.Context(), r.LSN); err != nil {
		t.Fatal(err)
	}
	h := mustHistory(t, db.Memories(), memory.Scope{}, "m")
	if len(h) != 3 || h[1].Reason != memory.ReasonAge || h[1].Event != memory.EventDelete {
		t.Errorf("the history is %+v", h)
	}
	clk.advance(24 * time.Hour)
	if r, _ := mustEvict(t, db, EvictOptions{}); r.Evicted != 0 {
		t.Errorf("evicted again: %+v", r)
	}
	clk.advance(30 * 24 * time.Hour)
	if r, _ := mustEvict(t, db, EvictOptions{}); r.Evicted != 1 {
		t.Errorf("a month later: %+v", r)
	}
	h = mustHistory(t, db.Memories(), memory.Scope{}, "m")
	if len(h) != 4 || h[3].Reason != memory.ReasonAge {
		t.Errorf("the history is %+v", h)
	}
}

// TestConsolidationUnderAWrongClock: once a clock that was ahead is set right, later consolidations
// take nothing of what was accessed lately, also after a reopening.
func TestConsolidationUnderAWrongClock(t *testing.T) {
	fs, clk := vfs.NewMem(), newTestClock()
	db := openTest(t, fs, Options{Clock: clk.now})
	mustStore(t, db.Memories(), memory.Memory{ID: "old", Scope: memory.Scope{Agent: "a"}, Text: "an old thing"})
	clk.advance(8 * 24 * time.Hour)
	for _, jump := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour} {
		clk.advance(jump)
		mustConsolidate(t, db, ConsolidateOptions{})
		clk.advance(-jump)
		id := fmt.Sprint("fresh", jump)
		mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: memory.Scope{Agent: "a"}, Text: "a fresh thing of " + id})
		for range 4 {
			clk.advance(6 * time.Hour)
			mustConsolidate(t, db, ConsolidateOptions{})
		}
		closeTest(t, db)
		db = openTest(t, fs, Options{Clock: clk.now})
		if m, err := db.Memories().Get(t.Context(), memory.Scope{}, id); err != nil || *m.Confidence != 1 {
			t.Errorf("%s has the confidence %v, %v", id, *m.Confidence, err)
		}
	}
	old, err := db.Memories().Get(t.Context(), memory.Scope{}, "old")
	if err != nil || *old.Confidence >= .7 || *old.Confidence <= .5 { // nine runs: all but that of the clock that was behind
		t.Errorf("the old one has %v, %v", *old.Confidence, err)
	}
	mustCheck(t, db, 3)
}

// TestNewCapAtOnce: stores that come right after a policy with a lower cap keep to it.
func TestNewCapAtOnce(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{Options: Options{KeepCaps: true}})
	setPolicy(t, db, func(p *policy.Policy) { p.Cap = 50 })
	for i := range 300 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{Agent: "a"}, Text: fmt.Sprint("text ", i)})
		if n := db.tables.Docs.Live.Load(); n > 50+2*5+1 {
			t.Fatalf("%d after %d stores", n, i+1)
		}
	}
}

// TestAgentCaps: a cap for agents counts all users of one, also as memories come.
func TestAgentCaps(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	setPolicy(t, db, func(p *policy.Policy) { p.Cap, p.CapPer = 10, policy.PerAgent })
	for i := range 60 {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: memory.Scope{User: fmt.Sprint("u", i%20), Agent: []string{"a", "", "b"}[i%3]}, Text: fmt.Sprint("text ", i)})
	}
	if err := db.ageing.KeepAgentCaps(t.Context(), db.tables.Ageing.At(state.MaxLSN)); err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for of, count := range sizes(t, db) {
		n[of.Agent] += count
	}
	if want := map[string]int{"a": 10, "b": 10, "": 20}; !reflect.DeepEqual(n, want) {
		t.Errorf("left %v, want %v", n, want)
	}
}

// TestRestoreKeepsInto: a history that an import brings names what a memory was merged into, which
// comes later, or never; a look for the ID says so, and an undone eviction is in the history.
func TestRestoreKeepsInto(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	merged := pastOf("ADD:a", "UPDATE:b", "DELETE")
	merged[2].Reason, merged[2].Into, merged[2].Policy = memory.ReasonMerged, "later", 2
	lost := pastOf("ADD:a", "DELETE")
	for i := range lost {
		lost[i].MemoryID = "other"
	}
	lost[1].Reason, lost[1].Into = memory.ReasonMerged, "gone"
	back := pastOf("ADD:a", "DELETE", "UPDATE:c")
	for i := range back {
		back[i].MemoryID = "back"
	}
	back[1].Reason = memory.ReasonAge
	u := memory.Scope{User: "ada"}
	lives := []memory.Life{
		{History: merged},
		{History: lost},
		{Memory: &memory.Memory{ID: "back", Scope: u, Text: "c", UpdatedAt: back[2].Time}, History: back},
		{Memory: &memory.Memory{ID: "later", Scope: u, Text: "b."}},
	}
	if _, err := db.Memories().Restore(t.Context(), lives, nil); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"m": "later", "other": "gone"} {
		h := mustHistory(t, db.Memories(), memory.Scope{}, id)
		if last := h[len(h)-1]; last.Into != want || last.Reason != memory.ReasonMerged {
			t.Errorf("%s: %+v", id, last)
		}
		if _, err := db.Memories().Get(t.Context(), u, id); !errors.Is(err, fault.ErrNotFound) || !strings.Contains(err.Error(), fmt.Sprintf("merged into %q", want)) {
			t.Errorf("%s: %v", id, err)
		}
	}
	h := mustHistory(t, db.Memories(), memory.Scope{}, "back")
	if len(h) != 3 || h[1].Reason != memory.ReasonAge || h[1].Event != memory.EventDelete || h[2].Event != memory.EventUpdate {
		t.Errorf("%+v", h)
	}
	mustCheck(t, db, 2)
}
