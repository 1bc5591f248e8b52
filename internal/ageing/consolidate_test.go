package ageing_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

func mustConsolidate(t *testing.T, db *engine.DB, o engine.ConsolidateOptions) (engine.Consolidated, []engine.Merge) {
	t.Helper()
	var merges []engine.Merge
	o.Visit = func(m engine.Merge) error {
		merges = append(merges, m)
		return nil
	}
	r, err := db.Consolidate(t.Context(), &o)
	if err != nil {
		t.Fatal(err)
	}
	return r, merges
}

// alikeDB is a database that merges what is nearly the same.
func alikeDB(t *testing.T, fs vfs.FS, o engine.Options) *engine.DB {
	t.Helper()
	db := testdb.Open(t, fs, o)
	p, err := policy.Preset(policy.PresetSubstrate)
	p.PruneBelow = 0
	if err == nil {
		_, err = db.Policies().Set(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestMergeEqualsAllPairs: over random memories the merges of the preset substrate are those of
// the rule, applied to all pairs, the newest first; each merged memory is gone, and names its
// survivor.
func TestMergeEqualsAllPairs(t *testing.T) {
	race.Sequential(t)
	for range 4 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) { mergeRun(t, rand.New(rand.NewPCG(seed, 3))) })
	}
}

func mergeRun(t *testing.T, rng *rand.Rand) {
	fs, clk := vfs.NewMem(), testdb.NewClock()
	db := alikeDB(t, fs, engine.Options{Clock: clk.Now})
	words := strings.Fields("tea coffee river house garden train book music winter summer blue green quiet loud old new")
	var bases []string
	for range 40 {
		var text []string
		for range 12 {
			text = append(text, words[rng.IntN(len(words))])
		}
		bases = append(bases, strings.Join(text, " "))
	}
	var all []memory.Memory
	for i := range 240 {
		m := memory.Memory{
			ID: fmt.Sprint("m", i), Scope: memory.Scope{Agent: []string{"a", "b"}[rng.IntN(2)], Run: []string{"", "r"}[rng.IntN(2)]},
			Source: []memory.Source{"", memory.SourceWebSearch}[rng.IntN(2)], Importance: new(rng.Float64()), AccessCount: uint64(rng.IntN(5)),
			Pinned: rng.IntN(8) == 0, Kind: []memory.Kind{memory.KindMessage, memory.KindMessage, memory.KindMessage, memory.KindNote}[rng.IntN(4)],
		}
		if m.Kind == memory.KindNote {
			m.Name = fmt.Sprint("n", i)
		}
		base := rng.IntN(len(bases))
		if rng.IntN(2) == 0 { // a vector near one of a few
			m.Embedding = make([]float32, 16)
			for j := range m.Embedding {
				m.Embedding[j] = float32(rng.NormFloat64() * .1)
			}
			m.Embedding[base%16]++
			m.Text = fmt.Sprint("vector ", i)
		} else {
			m.Text = fmt.Sprint(bases[base], " ", i)
		}
		st := testdb.Store(t, db.Memories(), m)
		m.Seq = st.Seq
		all = append(all, m)
	}
	into := map[string]string{} // what goes into what
	survivors := map[string]memory.Memory{}
	p := policy.Default()
	for _, m := range slices.Backward(all) {
		if m.Kind == memory.KindNote {
			continue
		}
		for _, later := range slices.Backward(all) {
			if later.Seq <= m.Seq {
				break
			}
			if _, gone := into[later.ID]; gone || m.Pinned || later.Kind != m.Kind || later.Scope != m.Scope || later.Source != m.Source || (later.Embedding == nil) != (m.Embedding == nil) {
				continue
			}
			same := m.Embedding != nil && cosine(m.Embedding, later.Embedding) > p.MergeCosine
			if m.Embedding == nil {
				_, same = policy.SameText(m.Text, later.Text, p.MergeEdit)
			}
			if same {
				into[m.ID] = later.ID
				s, known := survivors[later.ID]
				if !known {
					s = later
				}
				s.AccessCount += m.AccessCount
				s.Importance = new(max(*s.Importance, *m.Importance))
				survivors[later.ID] = s
				break
			}
		}
	}
	_, planned := mustConsolidate(t, db, engine.ConsolidateOptions{DryRun: true})
	if testdb.Stats(t, db).Memories != int64(len(all)) {
		t.Fatal("the dry run changed something")
	}
	done, merges := mustConsolidate(t, db, engine.ConsolidateOptions{})
	if len(into) == 0 || done.Merged != len(into) || !slices.Equal(planned, merges) {
		t.Fatalf("%+v, want %d merged; planned %d", done, len(into), len(planned))
	}
	for _, m := range merges {
		if into[m.ID] != m.Into {
			t.Errorf("%+v, want it merged into %q", m, into[m.ID])
		}
	}
	if again, _ := mustConsolidate(t, db, engine.ConsolidateOptions{Scope: memory.Scope{Agent: "a"}}); again.Merged != 0 {
		t.Errorf("merged again: %+v", again)
	}
	check := func() {
		t.Helper()
		testdb.Check(t, db, len(all)-len(into))
		for id, to := range into {
			_, err := db.Memories().Get(t.Context(), memory.Scope{}, id)
			if !errors.Is(err, fault.ErrNotFound) || !strings.Contains(err.Error(), fmt.Sprintf("merged into %q", to)) {
				t.Fatalf("%s, merged into %s: %v", id, to, err)
			}
			h, err := db.Memories().History(t.Context(), memory.Scope{}, id)
			testdb.NoError(t, err)
			if last := h[len(h)-1]; last.Reason != memory.ReasonMerged || last.Into != to {
				t.Fatalf("%s, merged into %s: %+v", id, to, last)
			}
		}
		for id, want := range survivors {
			m, err := db.Memories().Get(t.Context(), memory.Scope{}, id)
			if err != nil || m.AccessCount != want.AccessCount || *m.Importance != *want.Importance {
				t.Fatalf("%s: %v, %d accesses, importance %v; want %d, %v", id, err, m.AccessCount, *m.Importance, want.AccessCount, *want.Importance)
			}
		}
	}
	check()
	testdb.Close(t, db)
	db = testdb.Open(t, fs, engine.Options{Clock: clk.Now})
	check()
}

// TestMergeIsIncremental: what was compared is not compared again until the policy changes.
func TestMergeIsIncremental(t *testing.T) {
	db := alikeDB(t, vfs.NewMem(), engine.Options{})
	store := func(id string, x float64) {
		t.Helper()
		testdb.Store(t, db.Memories(), memory.Memory{ID: id, Text: id, Scope: memory.Scope{Agent: "a"}, Embedding: []float32{float32(math.Cos(x)), float32(math.Sin(x))}})
	}
	store("a", 0)
	store("b", .5) // a cosine of 0.88
	if r, _ := mustConsolidate(t, db, engine.ConsolidateOptions{}); r.Merged != 0 {
		t.Fatalf("%+v", r)
	}
	store("c", .51)
	if r, merges := mustConsolidate(t, db, engine.ConsolidateOptions{}); r.Merged != 1 || merges[0].ID != "b" || merges[0].Into != "c" {
		t.Fatalf("%+v, %+v", r, merges)
	}
	testdb.SetPolicy(t, db, func(p *policy.Policy) { p.MergeCosine = .8 })
	if r, merges := mustConsolidate(t, db, engine.ConsolidateOptions{}); r.Merged != 1 || merges[0].ID != "a" || merges[0].Into != "c" {
		t.Fatalf("%+v, %+v", r, merges)
	}
	store("d", .52)
	if r, merges := mustConsolidate(t, db, engine.ConsolidateOptions{}); r.Merged != 1 || merges[0].ID != "c" || merges[0].Into != "d" {
		t.Fatalf("%+v, %+v", r, merges)
	}
	// A chain of merges leads to the one that is there.
	_, err := db.Memories().Get(t.Context(), memory.Scope{Agent: "a"}, "b")
	if !errors.Is(err, fault.ErrNotFound) || !strings.Contains(err.Error(), `merged into "d"`) {
		t.Error(err)
	}
	if _, err := db.Memories().Get(t.Context(), memory.Scope{Agent: "b"}, "b"); !errors.Is(err, fault.ErrNotFound) || strings.Contains(err.Error(), "merged") {
		t.Errorf("another agent is told: %v", err)
	}
}

// TestManyAlike: of more than are compared at once all are merged into the last.
func TestManyAlike(t *testing.T) {
	db := alikeDB(t, vfs.NewMem(), engine.Options{})
	for i := range 100 {
		testdb.Store(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Text: fmt.Sprint("text ", i), Scope: memory.Scope{Agent: "a"}, Embedding: []float32{1, float32(i) / 1000}})
	}
	r, _ := mustConsolidate(t, db, engine.ConsolidateOptions{})
	left := testdb.List(t, db.Memories(), memory.Scope{Agent: "a"})
	if r.Merged != 99 || len(left) != 1 || left[0].ID != "m99" {
		t.Errorf("%+v, %d are left", r, len(left))
	}
	hits := recall(t, db, memory.Query{Scope: memory.Scope{Agent: "a"}, Embedding: []float32{1, 0}, Profile: memory.ProfileVector})
	if len(hits) != 1 || hits[0].ID != "m99" {
		t.Errorf("recall finds %+v", hits)
	}
}

// TestPrune: importance × 0.95^days since the last access, below the bound, and nothing that
// is pinned, a note, or recalled lately.
func TestPrune(t *testing.T) {
	clk := testdb.NewClock()
	db := testdb.New(t, engine.Options{Clock: clk.Now})
	ago := func(days int) time.Time { return clk.Now().Add(-time.Duration(days) * 24 * time.Hour) }
	for id, m := range map[string]memory.Memory{
		"faded":    {CreatedAt: ago(45), Importance: new(1.0)}, // 0.0994
		"fading":   {CreatedAt: ago(44), Importance: new(1.0)}, // 0.1046
		"recalled": {CreatedAt: ago(45), Importance: new(1.0), AccessCount: 1, LastAccessed: ago(10)},
		"pinned":   {CreatedAt: ago(45), Importance: new(.1), Pinned: true},
		"note":     {CreatedAt: ago(45), Importance: new(.1), Kind: memory.KindNote},
	} {
		m.ID, m.Text, m.Name, m.Scope = id, id, id, memory.Scope{Agent: "a"}
		testdb.Store(t, db.Memories(), m)
	}
	if r, _ := mustConsolidate(t, db, engine.ConsolidateOptions{}); r.Deleted != 0 {
		t.Errorf("the default prunes: %+v", r)
	}
	dry, _ := mustConsolidate(t, db, engine.ConsolidateOptions{PruneBelow: new(.1), DryRun: true})
	done, _ := mustConsolidate(t, db, engine.ConsolidateOptions{PruneBelow: new(.1)})
	if dry.Deleted != 1 || done.Deleted != 1 {
		t.Errorf("planned %+v, done %+v", dry, done)
	}
	h := history(t, db, memory.Scope{}, "faded")
	if last := h[len(h)-1]; last.Reason != memory.ReasonPruned {
		t.Errorf("%+v", last)
	}
	testdb.Check(t, db, 4)
}

// TestAverageEmbeddings: with the option what memories were merged into has the mean direction of
// their vectors and its own length; without it, and in a space that it has no vector in, nothing
// changes. It is found by the mean, also after a reopening, and check finds no fault.
func TestAverageEmbeddings(t *testing.T) {
	for _, average := range []bool{false, true} {
		fs := vfs.NewMem()
		db := alikeDB(t, fs, engine.Options{})
		testdb.SetPolicy(t, db, func(p *policy.Policy) { p.AverageEmbeddings = average })
		a := memory.Scope{Agent: "a"}
		store := func(id string, vec []float32, other ...float32) {
			m := memory.Memory{ID: id, Scope: a, Text: "text of " + id, Embedding: vec}
			if other != nil {
				m.Vectors = map[string][]float32{"other": other}
			}
			testdb.Store(t, db.Memories(), m)
		}
		store("x", []float32{5, 2}, 1, 1)
		store("y", []float32{10, -4})
		store("z", []float32{1, .3})
		store("into", []float32{2, 0})
		store("far", []float32{0, 1})
		if r, merges := mustConsolidate(t, db, engine.ConsolidateOptions{}); r.Merged != 3 {
			t.Fatalf("%+v, %v", r, merges)
		}
		want := []float32{2, 0}
		if average {
			x, y := 1+10/math.Sqrt(29)+1/math.Sqrt(1.09), .3/math.Sqrt(1.09)
			l := math.Hypot(x, y)
			want = []float32{float32(2 * x / l), float32(2 * y / l)}
		}
		testdb.Close(t, db)
		db = testdb.Open(t, fs, engine.Options{})
		m, err := db.Memories().GetWithVectors(t.Context(), a, "into")
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Abs(float64(m.Embedding[i]-want[i])) > 1e-6 {
				t.Errorf("average %v: %v, want %v", average, m.Embedding, want)
			}
		}
		if len(m.Vectors["other"]) > 0 {
			t.Errorf("it got a vector in a space of another one: %v", m.Vectors)
		}
		hits := recall(t, db, memory.Query{Scope: a, Embedding: want, Limit: 1, Profile: memory.ProfileVector})
		if len(hits) != 1 || hits[0].ID != "into" {
			t.Errorf("found %+v", hits)
		}
		testdb.Check(t, db, 2)
		testdb.Close(t, db)
	}
}

// cosine is that of two vectors.
func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	return dot / math.Sqrt(aa*bb)
}
