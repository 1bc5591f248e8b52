package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// smallLimits make graphs and snapshots of few vectors.
func smallLimits() *spaces.Limits {
	return &spaces.Limits{Exhaustive: 20, Crossover: 30, UnlinkedSoft: 1, UnlinkedIdle: 1, UnlinkedMost: 1 << 20, SaveTail: 50, CloseTail: 1, FillLeast: 10}
}

func randomVec(rng *rand.Rand, dim int) []float32 {
	vec := make([]float32, dim)
	for i := range vec {
		vec[i] = float32(rng.NormFloat64())
	}
	return vec
}

func waitIndexed(t testing.TB, db *DB) {
	t.Helper()
	if err := db.WaitIndexed(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// scoreBy is the score of two vectors under a metric, in float64.
func scoreBy(m Metric, a, b []float32) float64 {
	var dot, square float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		square += (float64(a[i]) - float64(b[i])) * (float64(a[i]) - float64(b[i]))
	}
	switch m {
	case MetricDot:
		return dot
	case MetricL2:
		return -math.Sqrt(square)
	}
	return cosine(a, b)
}

// vectorWorld is a database with vectors, and what should be in it.
type vectorWorld struct {
	t      *testing.T
	rng    *rand.Rand
	fs     vfs.FS
	db     *DB
	opts   setup
	metric Metric
	dim    int
	mems   map[string]memory.Memory // by ID
	n      int
	// found and wanted count hits of searches by graph that should be there.
	found, wanted int
}

func newVectorWorld(t *testing.T, metric Metric, o opener) *vectorWorld {
	opts := o.setup()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	if opts.vectors == nil {
		opts.vectors = smallLimits()
	}
	w := &vectorWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), fs: crashfs.NewDisk(), opts: opts, metric: metric, dim: 12, mems: map[string]memory.Memory{},
	}
	w.db = openTest(t, w.fs, w.opts)
	if err := w.db.CreateSpace(t.Context(), SpaceConfig{Dim: w.dim, Metric: metric}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *vectorWorld) reopen() {
	closeTest(w.t, w.db)
	w.db = openTest(w.t, w.fs, w.opts)
}

func (w *vectorWorld) memory() memory.Memory {
	w.n++
	m := memory.Memory{
		ID: fmt.Sprint("m", w.n), Scope: memory.Scope{User: []string{"ada", "bob"}[w.rng.IntN(2)], Run: fmt.Sprint("r", w.rng.IntN(3))},
		Text: fmt.Sprint("number ", w.n), Metadata: map[string]any{"tag": fmt.Sprint(w.rng.IntN(3))},
	}
	if w.rng.IntN(10) > 0 {
		m.Embedding = randomVec(w.rng, w.dim)
	}
	return m
}

func (w *vectorWorld) pick(mems map[string]memory.Memory) (string, memory.Memory) {
	ids := make([]string, 0, len(mems))
	for id := range mems {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return "", memory.Memory{}
	}
	slices.Sort(ids)
	id := ids[w.rng.IntN(len(ids))]
	return id, mems[id]
}

// change makes one random change through m, and notes it in mems.
func (w *vectorWorld) change(m Memories, mems map[string]memory.Memory) {
	w.t.Helper()
	id, old := w.pick(mems)
	var err error
	switch n := w.rng.IntN(20); {
	case n < 10 || id == "":
		mem := w.memory()
		_, err = m.Store(w.t.Context(), mem, nil)
		mems[mem.ID] = mem
	case n < 13:
		old.Embedding = randomVec(w.rng, w.dim)
		_, err = m.Update(w.t.Context(), old.Scope, id, memory.Patch{Embedding: old.Embedding})
		mems[id] = old
	case n < 16:
		old.Metadata = map[string]any{"tag": fmt.Sprint(w.rng.IntN(3))}
		_, err = m.Update(w.t.Context(), old.Scope, id, memory.Patch{Metadata: &old.Metadata})
		mems[id] = old
	default:
		err = m.Delete(w.t.Context(), old.Scope, id)
		delete(mems, id)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// check compares searches through m with brute force over mems.
func (w *vectorWorld) check(m Memories, mems map[string]memory.Memory) {
	w.t.Helper()
	for range 6 {
		q := memory.Query{
			Embedding: randomVec(w.rng, w.dim), Profile: memory.ProfileVector, Limit: 1 + w.rng.IntN(20), NoTouch: true,
			Exact: w.rng.IntN(3) == 0, Explain: true,
		}
		q.Scope = []memory.Scope{{User: "ada"}, {User: "bob"}, {User: "bob", Run: "r1"}, {Run: "r2"}, {}}[w.rng.IntN(5)]
		q.AllScopes = q.Scope == memory.Scope{}
		tag := ""
		if w.rng.IntN(2) == 0 {
			tag = fmt.Sprint(w.rng.IntN(3))
			q.Filter = filter.Eq("tag", tag)
		}
		type scoredID struct {
			id    string
			score float64
		}
		var want []scoredID
		scores := map[string]float64{}
		for id, mem := range mems {
			if mem.Embedding == nil || !scope.Contains(q.Scope, mem.Scope) || tag != "" && mem.Metadata["tag"] != tag {
				continue
			}
			scores[id] = scoreBy(w.metric, q.Embedding, mem.Embedding)
			want = append(want, scoredID{id, scores[id]})
		}
		slices.SortFunc(want, func(a, b scoredID) int { return cmp.Compare(b.score, a.score) })
		want = want[:min(len(want), q.Limit)]
		r, err := m.Recall(w.t.Context(), q)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(r.Hits) != len(want) {
			w.t.Fatalf("%d hits, want %d: %+v", len(r.Hits), len(want), r.Plan)
		}
		if q.Exact && r.Plan.Approximate {
			w.t.Errorf("an exact search was not: %+v", r.Plan)
		}
		const within = 1e-5
		for i, h := range r.Hits {
			score, ok := scores[h.ID]
			if !ok || math.Abs(score-h.Score) > within {
				w.t.Fatalf("%s has the score %v, want %v (%v)", h.ID, h.Score, score, ok)
			}
			if !r.Plan.Approximate && math.Abs(h.Score-want[i].score) > within {
				w.t.Fatalf("rank %d: %v, want %v: %+v", i, h.Score, want[i].score, r.Plan)
			}
			if r.Plan.Approximate && h.Score >= want[len(want)-1].score-within {
				w.found++
			}
		}
		if r.Plan.Approximate {
			w.wanted += len(want)
		}
	}
}

// enough checks the recall of all searches by graph.
func (w *vectorWorld) enough() {
	w.t.Helper()
	w.t.Logf("%d of %d hits found by the graph", w.found, w.wanted)
	if w.wanted == 0 || float64(w.found) < .95*float64(w.wanted) {
		w.t.Errorf("the graph found %d of %d", w.found, w.wanted)
	}
}

// TestGraphModel compares searches by graph with brute force while memories come,
// change and go, in transactions that commit or not, before and after reopening.
func TestGraphModel(t *testing.T) {
	for _, metric := range []Metric{MetricCosine, MetricDot, MetricL2} {
		// With no memory for rows each is read from the store.
		for _, rows := range []int64{0, -1} {
			t.Run(fmt.Sprint(metric, ", rows ", rows), func(t *testing.T) {
				t.Parallel()
				limits := smallLimits()
				limits.Rows = rows
				w := newVectorWorld(t, metric, setup{tuning: tuning{vectors: limits}})
				for range 5 {
					w.round()
				}
				w.enough()
				waitIndexed(t, w.db)
				mustCheck(t, w.db, len(w.mems))
			})
		}
	}
}

func (w *vectorWorld) round() {
	for range 150 {
		w.change(w.db.Memories(), w.mems)
	}
	w.check(w.db.Memories(), w.mems)
	for _, commit := range []bool{true, false} {
		mems := maps.Clone(w.mems)
		err := w.db.Update(w.t.Context(), func(tx *Tx) error {
			for range 20 {
				w.change(tx.Memories(), mems)
			}
			w.check(tx.Memories(), mems)
			w.change(tx.Memories(), mems)
			if !commit {
				return fault.ErrBusy
			}
			return nil
		})
		if commit != (err == nil) {
			w.t.Fatal(err)
		}
		if commit {
			w.mems = mems
		}
		w.check(w.db.Memories(), w.mems)
	}
	if w.rng.IntN(2) == 0 {
		waitIndexed(w.t, w.db)
	}
	w.check(w.db.Memories(), w.mems)
	w.reopen()
	w.check(w.db.Memories(), w.mems)
}

// TestGraphIsolation: what a View finds by the graph is what it saw, whatever comes
// and goes beside it, and a reset.
func TestGraphIsolation(t *testing.T) {
	w := newVectorWorld(t, MetricCosine, Options{})
	for range 300 {
		w.change(w.db.Memories(), w.mems)
	}
	waitIndexed(t, w.db)
	before := maps.Clone(w.mems)
	err := w.db.View(t.Context(), func(tx *Tx) error {
		reader := *w
		reader.rng = rand.New(rand.NewPCG(w.rng.Uint64(), 2))
		var writer sync.WaitGroup
		writer.Go(func() {
			for range 300 {
				w.change(w.db.Memories(), w.mems)
			}
		})
		for range 20 {
			reader.check(tx.Memories(), before)
		}
		writer.Wait()
		waitIndexed(t, w.db)
		w.check(w.db.Memories(), w.mems)
		reader.check(tx.Memories(), before)
		if _, err := w.db.Reset(t.Context()); err != nil {
			return err
		}
		for range 5 {
			reader.check(tx.Memories(), before)
		}
		reader.enough()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.mems = map[string]memory.Memory{}
	w.check(w.db.Memories(), w.mems)
	for range 100 {
		w.change(w.db.Memories(), w.mems)
	}
	w.reopen()
	w.check(w.db.Memories(), w.mems)
}

// TestStoredIsFound: the next query finds a vector, linked or not.
func TestStoredIsFound(t *testing.T) {
	limits := smallLimits()
	limits.UnlinkedSoft, limits.UnlinkedIdle = 1<<20, 1<<20 // linked only in pauses, which there are none of
	w := newVectorWorld(t, MetricCosine, setup{tuning: tuning{vectors: limits}})
	unlinked := int64(0)
	for i := range 300 {
		mem := w.memory()
		mem.Embedding = randomVec(w.rng, w.dim)
		mustStore(t, w.db.Memories(), mem)
		hits := mustRecall(t, w.db.Memories(), memory.Query{AllScopes: true, Embedding: mem.Embedding, Profile: memory.ProfileVector, Limit: 1, NoTouch: true})
		if len(hits) != 1 || hits[0].ID != mem.ID {
			t.Fatalf("memory %d: %+v", i, hits)
		}
		st, err := w.db.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlinked = max(unlinked, st.Spaces[0].Unlinked)
		if i == 200 {
			waitIndexed(t, w.db)
		}
	}
	if unlinked < 50 {
		t.Errorf("at most %d vectors were unlinked: nothing was tested", unlinked)
	}
	waitIndexed(t, w.db)
	st, err := w.db.Stats(t.Context())
	if s := st.Spaces[0]; err != nil || s.Unlinked != 0 || s.Linked != 300 || s.Vectors != 300 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestWaitIndexed: it ends with its context and with the database.
func TestWaitIndexed(t *testing.T) {
	w := newVectorWorld(t, MetricCosine, Options{})
	// More than the linker links before the calls begin.
	var mems []memory.Memory
	for range 4000 {
		m := w.memory()
		m.Embedding = randomVec(w.rng, w.dim)
		mems = append(mems, m)
	}
	if _, err := w.db.Memories().StoreBatch(t.Context(), mems, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, "a context that is done", w.db.WaitIndexed(ctx), context.Canceled)
	ended := make(chan error, 1)
	go func() { ended <- w.db.WaitIndexed(context.Background()) }()
	closeTest(t, w.db)
	within(t, "WaitIndexed of a closed database", func() {
		if err := <-ended; err != nil && !errors.Is(err, fault.ErrClosed) {
			t.Error(err)
		}
	})
	wantError(t, "a closed database", w.db.WaitIndexed(t.Context()), fault.ErrClosed)
}

// TestBrokenSpace: where vectors of one space cannot be linked, those of others are, and
// writers wait for none.
func TestBrokenSpace(t *testing.T) {
	limits := smallLimits()
	limits.UnlinkedMost = 40
	db := openTest(t, vfs.NewMem(), setup{tuning: tuning{vectors: limits}})
	for _, name := range []string{"broken", "sound"} {
		if err := db.CreateSpace(t.Context(), SpaceConfig{Name: name, Dim: 2}); err != nil {
			t.Fatal(err)
		}
	}
	sound, broken := db.spaces.Named("sound"), db.spaces.Named("broken")
	broken.Broken.Store(true)
	for i := range 100 {
		vec := []float32{1, float32(i)}
		mustStore(t, db.Memories(), memory.Memory{
			Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("number ", i), Vectors: map[string][]float32{"sound": vec, "broken": vec},
		})
	}
	err := db.WaitIndexed(t.Context())
	if wantError(t, "a space that cannot be linked", err, fault.ErrBusy); err != nil && !strings.Contains(err.Error(), "space broken") {
		t.Errorf("%q does not name the space", err)
	}
	if n, m := sound.Index.Linked(), broken.Index.Linked(); n != 100 || m != 0 {
		t.Errorf("%d and %d of 100 vectors are linked", n, m)
	}
}

// TestUnlinkedIsBounded: however fast vectors come, not more than there may be are
// unlinked.
func TestUnlinkedIsBounded(t *testing.T) {
	limits := smallLimits()
	limits.UnlinkedMost = 100
	w := newVectorWorld(t, MetricCosine, setup{tuning: tuning{vectors: limits}})
	const batch = 50
	most := int64(0)
	for range 40 {
		var mems []memory.Memory
		for range batch {
			m := w.memory()
			m.Embedding = randomVec(w.rng, w.dim)
			mems = append(mems, m)
		}
		if _, err := w.db.Memories().StoreBatch(t.Context(), mems, nil); err != nil {
			t.Fatal(err)
		}
		st, err := w.db.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, st.Spaces[0].Unlinked)
	}
	if most > 100+batch {
		t.Errorf("%d vectors were unlinked", most)
	}
}

// TestCreateSpace: with a metric and a model, once, and not again as another.
func TestCreateSpace(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	ctx := t.Context()
	far := SpaceConfig{Name: "far", Dim: 2, Metric: MetricL2, Model: "m1"}
	for range 2 {
		if err := db.CreateSpace(ctx, far); err != nil {
			t.Fatal(err)
		}
		closeTest(t, db)
		db = openTest(t, fs, Options{})
	}
	for name, change := range map[string]func(c *SpaceConfig){
		"dimension": func(c *SpaceConfig) { c.Dim = 3 },
		"metric":    func(c *SpaceConfig) { c.Metric = MetricDot },
		"model":     func(c *SpaceConfig) { c.Model = "m2" },
	} {
		c := far
		change(&c)
		err := db.CreateSpace(ctx, c)
		wantError(t, name, err, fault.ErrMismatch)
		for _, side := range []string{"2 dimensions compared by l2", `"m1"`, fmt.Sprintf("%d dimensions compared by %s", c.Dim, c.Metric)} {
			if err != nil && !strings.Contains(err.Error(), side) {
				t.Errorf("%s: %q does not name %s", name, err, side)
			}
		}
	}
	for name, c := range map[string]SpaceConfig{
		"no dimension":        {Name: "x"},
		"too many dimensions": {Name: "x", Dim: 100_000},
		"unknown metric":      {Name: "x", Dim: 2, Metric: "hamming"},
		"control character":   {Name: "x\n", Dim: 2},
		"the lexical one":     {Name: "lexical", Dim: 2},
	} {
		wantError(t, name, db.CreateSpace(ctx, c), fault.ErrInvalid)
	}
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "near", Scope: ada, Vectors: map[string][]float32{"far": {1, 1}}})
	mustStore(t, db.Memories(), memory.Memory{ID: "same way", Scope: ada, Vectors: map[string][]float32{"far": {5, 0}}})
	equalSlices(t, "by distance", closest(t, db.Memories(), ada, "far", 1, 0), []string{"near", "same way"})
	hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Space: "far", Embedding: []float32{1, 0}, Profile: memory.ProfileHybrid})
	if got := hits[0].Parts.Cosine; hits[0].ID != "near" || math.Abs(got-0.5*0.5) > 1e-6 {
		t.Errorf("a distance of 1 counts %v in hybrid, want 0.25", got)
	}
	mustCheck(t, db, 2)
}

// TestScoresOfMetrics: profiles that mix signals make a similarity of a score, others
// take it as it is.
func TestScoresOfMetrics(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada, query := memory.Scope{User: "ada"}, []float32{1, 2}
	for _, m := range []Metric{MetricCosine, MetricDot, MetricL2} {
		if err := db.CreateSpace(t.Context(), SpaceConfig{Name: string(m), Dim: 2, Metric: m}); err != nil {
			t.Fatal(err)
		}
	}
	vectors := map[string][]float32{"a": {2, 4}, "b": {-2, -4}, "c": {.1, .2}}
	for id, vec := range vectors {
		mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: ada, Vectors: map[string][]float32{"cosine": vec, "dot": vec, "l2": vec}})
	}
	root := math.Sqrt(5) // the length of the query
	raw := map[Metric]map[string]float64{
		MetricCosine: {"a": 1, "b": -1, "c": 1},
		MetricDot:    {"a": 10, "b": -10, "c": .5},
		MetricL2:     {"a": -root, "b": -3 * root, "c": -.9 * root},
	}
	mixed := map[Metric]map[string]float64{
		MetricCosine: {"a": 1, "b": -1, "c": 1},
		MetricDot:    {"a": 1, "b": -1, "c": .5},
		MetricL2:     {"a": 1 / (1 + root), "b": 1 / (1 + 3*root), "c": 1 / (1 + .9*root)},
	}
	for metric := range raw {
		for _, p := range []memory.Profile{memory.ProfileVector, memory.ProfileSubstrate, memory.ProfileHybrid, memory.ProfileBest} {
			hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Space: string(metric), Embedding: query, Profile: p})
			if len(hits) != len(vectors) {
				t.Errorf("%s, %s: %d hits", metric, p, len(hits))
			}
			for _, h := range hits {
				want := raw[metric][h.ID]
				switch p {
				case memory.ProfileHybrid:
					want = policy.Hybrid().Cosine * mixed[metric][h.ID]
				case memory.ProfileBest, memory.ProfileSubstrate:
					want = mixed[metric][h.ID] // the text has found nothing
				}
				if math.Abs(h.Parts.Cosine-want) > 1e-6 {
					t.Errorf("%s, %s: the vector of %s counts %v, want %v", metric, p, h.ID, h.Parts.Cosine, want)
				}
			}
		}
	}
}

// logged is a logger and what it was told.
func logged() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var b bytes.Buffer
	h := slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return b.Write(p)
	}), nil)
	return slog.New(h), func() string {
		mu.Lock()
		defer mu.Unlock()
		return b.String()
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestGraphRecall: in scopes wide and narrow, and within filters, a walk over the
// graph finds at least 95 of 100 of the closest.
func TestGraphRecall(t *testing.T) {
	race.Sequential(t)
	if testing.Short() {
		t.Skip("links 8,000 vectors")
	}
	limits := smallLimits()
	limits.Exhaustive = 100
	w := newVectorWorld(t, MetricCosine, setup{tuning: tuning{vectors: limits}})
	const n = 8000
	var mems []memory.Memory
	centre := make([][]float32, 40)
	for i := range centre {
		centre[i] = randomVec(w.rng, w.dim)
	}
	for i := range n {
		m := w.memory()
		m.Embedding = randomVec(w.rng, w.dim)
		c := centre[i%len(centre)]
		for j := range m.Embedding {
			m.Embedding[j] = c[j] + m.Embedding[j]/2
		}
		m.Metadata["cluster"] = i % len(centre)
		m.Metadata["some"] = w.rng.IntN(1000) < 20
		mems = append(mems, m)
	}
	for part := range slices.Chunk(mems, 1000) {
		if _, err := w.db.Memories().StoreBatch(t.Context(), part, nil); err != nil {
			t.Fatal(err)
		}
	}
	waitIndexed(t, w.db)
	for name, q := range map[string]memory.Query{
		"all":              {AllScopes: true},
		"an owner":         {Scope: memory.Scope{User: "ada"}},
		"a run":            {Scope: memory.Scope{User: "ada", Run: "r1"}},
		"one in 50":        {AllScopes: true, Filter: filter.Eq("some", true)},
		"another cluster":  {AllScopes: true, Filter: filter.Eq("cluster", 7)},
		"not that cluster": {AllScopes: true, Filter: filter.Ne("cluster", 3)},
	} {
		found, wanted := 0, 0
		for range 40 {
			near := centre[3]
			if name != "another cluster" {
				near = centre[w.rng.IntN(len(centre))]
			}
			q.Embedding = randomVec(w.rng, w.dim)
			for i := range near {
				q.Embedding[i] = near[i] + q.Embedding[i]/2
			}
			q.Profile, q.NoTouch, q.Explain = memory.ProfileVector, true, true
			q.Exact = true
			want := hitIDs(mustRecall(t, w.db.Memories(), q))
			q.Exact = false
			r, err := w.db.Memories().Recall(t.Context(), q)
			if err != nil || !r.Plan.Approximate || len(r.Hits) != len(want) {
				t.Fatalf("%s: %d hits, want %d: %+v, %v", name, len(r.Hits), len(want), r.Plan, err)
			}
			for _, id := range hitIDs(r.Hits) {
				if slices.Contains(want, id) {
					found++
				}
			}
			wanted += len(want)
		}
		t.Logf("%s: %d of %d", name, found, wanted)
		if float64(found) < .95*float64(wanted) {
			t.Errorf("%s: %d of %d found", name, found, wanted)
		}
	}
}

// TestPlanSaysMiss: where so many vectors are compared by their bits first, the plan says how
// likely it is that one of the nearest is missed, and hits are what an exact search finds.
func TestPlanSaysMiss(t *testing.T) {
	race.Sequential(t)
	db := openTest(t, vfs.NewMem(), setup{tuning: tuning{vectors: smallLimits()}})
	m, ada, rng := db.Memories(), memory.Scope{User: "ada"}, rand.New(rand.NewPCG(1, 2))
	all := make([]memory.Memory, 4500)
	for i := range all {
		all[i] = memory.Memory{ID: fmt.Sprint("m", i), Scope: ada, Embedding: randomVec(rng, 6)}
	}
	if _, err := m.StoreBatch(t.Context(), all, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := db.Stats(t.Context())
	if err != nil || st.Spaces[0].CellBytes < 4500*(64/8+5*4) || st.Spaces[0].CellBytes > st.Spaces[0].Bytes {
		t.Errorf("%+v, %v: cells take at least their bits, and five numbers a vector", st.Spaces, err)
	}
	for range 20 {
		q := memory.Query{Scope: ada, Embedding: randomVec(rng, 6), Profile: memory.ProfileVector, Explain: true, NoTouch: true}
		r, err := m.Recall(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Plan.Approximate || r.Plan.VectorMiss != hnsw.CellMiss || r.Plan.VectorUnsure {
			t.Fatalf("plan %+v of a search by bits", r.Plan)
		}
		q.Exact = true
		exact, err := m.Recall(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range r.Hits {
			if h.ID != exact.Hits[i].ID {
				t.Errorf("hit %d is %s, %v; exactly %s, %v", i, h.ID, h.Score, exact.Hits[i].ID, exact.Hits[i].Score)
			}
		}
		if exact.Plan.VectorMiss != 0 {
			t.Errorf("plan %+v of an exact search", exact.Plan)
		}
	}
}

// TestTinyProducts: products that no float32 holds rank as larger ones do, and are told.
func TestTinyProducts(t *testing.T) {
	rng, ada := rand.New(rand.NewPCG(1, 2)), memory.Scope{User: "ada"}
	for _, limits := range []*spaces.Limits{nil, smallLimits()} {
		for _, scale := range []float32{1e-12, 1e-25, 1e-37} {
			db := openTest(t, vfs.NewMem(), setup{tuning: tuning{vectors: limits}})
			if err := db.CreateSpace(t.Context(), SpaceConfig{Dim: 16, Metric: MetricDot}); err != nil {
				t.Fatal(err)
			}
			vecs := map[string][]float32{}
			for i := range 60 {
				m := memory.Memory{ID: fmt.Sprint("m", i), Scope: ada, Embedding: randomVec(rng, 16)}
				for k := range m.Embedding {
					m.Embedding[k] *= scale
				}
				vecs[m.ID] = m.Embedding
				mustStore(t, db.Memories(), m)
			}
			waitIndexed(t, db)
			for _, query := range vecs {
				best, most := "", 0.0
				for id, v := range vecs {
					if s := scoreBy(MetricDot, v, query); s > most {
						best, most = id, s
					}
				}
				q := memory.Query{Scope: ada, Embedding: query, Profile: memory.ProfileVector, Limit: 5, NoTouch: true}
				hits := mustRecall(t, db.Memories(), q)
				if len(hits) != 5 || hits[0].ID != best || math.Abs(hits[0].Score/most-1) > 1e-4 || hits[0].Parts.Cosine != hits[0].Score {
					t.Fatalf("scale %g: %+v; the best is %s with %g", scale, hits, best, most)
				}
				why, err := db.Memories().Why(t.Context(), q, best)
				if err != nil || why.Vector == nil || math.Abs(*why.Vector.Similarity/most-1) > 1e-4 {
					t.Fatalf("scale %g: %+v, %v", scale, why, err)
				}
			}
		}
	}
}
