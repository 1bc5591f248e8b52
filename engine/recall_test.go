package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/recall"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// recallWorld is a database of random memories in a few runs of a few owners, and
// what is needed to work out by hand what it must answer.
type recallWorld struct {
	t     *testing.T
	fs    vfs.FS
	db    *DB
	clock *testClock
	rng   *rand.Rand
	next  int
	ids   []string
}

const recallDim = 8

func newRecallWorld(t *testing.T, seed uint64) *recallWorld {
	w := &recallWorld{t: t, fs: vfs.NewMem(), clock: newTestClock(), rng: rand.New(rand.NewPCG(seed, 11))}
	w.open()
	t.Cleanup(func() { closeTest(t, w.db) })
	return w
}

func (w *recallWorld) open() {
	w.t.Helper()
	var err error
	w.db, err = openOn(w.fs, "db", Options{Clock: w.clock.now, MemoryBudget: testBudget})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *recallWorld) sentence(most int) string {
	words := strings.Fields("tea coffee river house garden train book music winter summer blue green quiet loud old new Ada Bob")
	var b []string
	for range 1 + w.rng.IntN(most) {
		b = append(b, words[w.rng.IntN(len(words))])
	}
	return strings.Join(b, " ")
}

func (w *recallWorld) vector() []float32 {
	v := make([]float32, recallDim)
	for i := range v {
		v[i] = float32(w.rng.NormFloat64())
	}
	return v
}

func (w *recallWorld) scope() memory.Scope {
	s := []memory.Scope{{User: "ada"}, {User: "ada", Agent: "a1"}, {User: "bob"}}[w.rng.IntN(3)]
	if w.rng.IntN(8) > 0 {
		s.Run = fmt.Sprint("r", w.rng.IntN(3)) // names that the owners share
	}
	return s
}

func (w *recallWorld) memory(id string) memory.Memory {
	m := memory.Memory{
		ID: id, Scope: w.scope(), Text: w.sentence(8), Metadata: map[string]any{"n": w.rng.IntN(3)},
		CreatedAt: w.clock.now().Add(-time.Duration(w.rng.IntN(40*24)) * time.Hour),
	}
	switch w.rng.IntN(6) {
	case 0:
		m.ExpiresAt = w.clock.now().Add(time.Duration(w.rng.IntN(48)) * time.Hour)
	case 1:
		m.AccessCount, m.LastAccessed = uint64(1+w.rng.IntN(300)), w.clock.now().Add(-time.Duration(w.rng.IntN(20*24))*time.Hour)
	case 2:
		m.Importance = new(w.rng.Float64())
	case 3:
		m.Text, m.Embedding = "", w.vector()
	}
	if w.rng.IntN(2) == 0 {
		m.Embedding = w.vector()
	}
	return m
}

// change stores, updates, deletes, or moves a memory to another run.
func (w *recallWorld) change(m Memories) {
	w.t.Helper()
	ctx := context.Background()
	if m.tx == nil {
		w.clock.advance(time.Minute) // that of a transaction stands still
	}
	if len(w.ids) == 0 || w.rng.IntN(3) == 0 {
		mem := w.memory(fmt.Sprint("m", w.next))
		w.next++
		w.ids = append(w.ids, mem.ID)
		mustStore(w.t, m, mem)
		return
	}
	at := w.rng.IntN(len(w.ids))
	id := w.ids[at]
	old, err := m.Get(ctx, memory.Scope{}, id)
	switch {
	case errors.Is(err, fault.ErrNotFound): // expired
		w.ids = slices.Delete(w.ids, at, at+1)
		return
	case err != nil:
		w.t.Fatal(err)
	}
	switch w.rng.IntN(4) {
	case 0:
		_, err = m.Update(ctx, memory.Scope{}, id, memory.Patch{Text: new(w.sentence(8))})
	case 1:
		_, err = m.Update(ctx, memory.Scope{}, id, memory.Patch{Importance: new(w.rng.Float64())})
	case 2:
		moved := w.memory(id)
		moved.User, moved.Agent, moved.ExpiresAt = old.User, old.Agent, time.Time{}
		_, err = m.Store(ctx, moved, &memory.StoreOptions{Upsert: true})
	default:
		err = m.Delete(ctx, memory.Scope{}, id)
		w.ids = slices.Delete(w.ids, at, at+1)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *recallWorld) query(p memory.Profile) memory.Query {
	q := memory.Query{
		Scope:   []memory.Scope{{User: "ada"}, {Run: "r1"}, {User: "ada", Agent: "a1"}, {User: "bob"}, {User: "bob", Run: "r2"}}[w.rng.IntN(5)],
		Text:    w.sentence(6),
		Profile: p, Limit: 1 + w.rng.IntN(40), NoTouch: true, Ranking: policy.Ranking{OneLook: true}, OnlyWords: true,
	}
	if w.rng.IntN(3) == 0 {
		q.Filter = filter.In("n", 0, 1)
	}
	return q
}

// judged is a memory in the scope of a query, and what speaks for it.
type judged struct {
	memory.Memory
	parts   []float64 // of BM25, by term
	bm25    float64
	lenders []lender // its neighbours that may lend it something
	signals policy.Signals
	score   float64
	hit     bool
}

type lender struct {
	*judged
	weight float64
}

// judge works out the BM25 of every memory in the scope of a query by the formula,
// and who stands next to whom. most is what the terms could give at most.
func (w *recallWorld) judge(m Memories, q *memory.Query) (all []*judged, most float64) {
	w.t.Helper()
	page, err := m.List(context.Background(), memory.ListQuery{AllScopes: true, Limit: valid.MaxLimit, WithVectors: true})
	if err != nil {
		w.t.Fatal(err)
	}
	runs := map[memory.Scope][]*judged{}
	inSet := map[*judged]bool{}
	for _, mem := range page.Memories {
		j := &judged{Memory: mem}
		if mem.Run != "" {
			runs[mem.Scope] = append(runs[mem.Scope], j)
		}
		n, _ := mem.Metadata["n"].(interface{ Int64() (int64, error) }).Int64()
		if scope.Contains(q.Scope, mem.Scope) && (q.Filter == nil || n < 2) {
			all, inSet[j] = append(all, j), true
		}
	}
	most = w.bm25(all, q.Text)
	weights := policy.NeighbourWeights()
	for _, run := range runs {
		slices.SortFunc(run, func(a, b *judged) int { return cmp.Compare(a.Seq, b.Seq) })
		for i, j := range run {
			for d := 1; d <= len(weights); d++ {
				for _, k := range []int{i - d, i + d} {
					if k >= 0 && k < len(run) && inSet[run[k]] {
						j.lenders = append(j.lenders, lender{run[k], weights[d-1]})
					}
				}
			}
		}
	}
	return all, most
}

func (w *recallWorld) bm25(all []*judged, query string) (most float64) {
	var bag analysis.Bag
	analyzer := w.db.tables.Words.Analyzer.Load()
	freqs := make([]map[string]float64, len(all))
	lengths := make([]float64, len(all))
	df := map[string]float64{}
	total := 0.0
	for i, j := range all {
		bag.Reset()
		bag.Add(analyzer, j.Text, 1)
		lengths[i] = float64(bag.Length())
		total += lengths[i]
		freqs[i] = map[string]float64{}
		for _, term := range bag.Terms() {
			freqs[i][term.Term] = float64(term.Freq)
			df[term.Term]++
		}
	}
	n := float64(len(all))
	shares := analysis.Shares{All: len(all)}
	for _, l := range analysis.MarkedLanguages() {
		shares.Add(l, int(df[l.Mark()]))
	}
	reading := analyzer.Asked(query, &shares)
	bag.Reset()
	if err := bag.AddQueryIn(context.Background(), analyzer, query, 1, reading.In); err != nil {
		w.t.Fatal(err)
	}
	terms := slices.Clone(bag.Terms())
	extra := len(terms) - bag.Words()
	for _, term := range terms {
		if extra > 0 && df[term.Term] == 0 {
			extra--
			continue
		}
		weight := float64(term.Freq) * reading.Weight(term.In) * math.Log(1+(n-df[term.Term]+.5)/(df[term.Term]+.5))
		most += weight
		for i, j := range all {
			part := 0.0
			if f := freqs[i][term.Term]; f > 0 {
				part = weight * f / (f + 1.2*(1-.75+.75*lengths[i]*n/total))
				j.bm25 += part
				if b := policy.TurnLength; j.Run != "" {
					part = weight * f / (f + 1.2*(1-b+b*lengths[i]*n/total))
				}
			}
			j.parts = append(j.parts, part)
		}
	}
	return most
}

// askBest asks by the profile best, and compares the answer with what every memory should have.
func (w *recallWorld) askBest(m Memories, q *memory.Query) {
	w.t.Helper()
	q.Explain = true
	result, err := m.Recall(context.Background(), *q)
	if err != nil {
		w.t.Fatal(err)
	}
	w.compare(q, result.Hits, w.best(m, q, result.Plan.Trust))
}

// best evaluates the profile best over every memory, with the trust in the vectors that the
// answer says.
func (w *recallWorld) best(m Memories, q *memory.Query, trust *memory.Trust) []*judged {
	all, most := w.judge(m, q)
	slices.SortStableFunc(all, func(a, b *judged) int { // List is in order of Seq
		return cmp.Compare(float32(b.bm25), float32(a.bm25))
	})
	type talk struct {
		memory.Scope
		term int
	}
	said := map[talk]float64{}
	lends := map[*judged]bool{}
	for _, j := range all[:min(len(all), max(recall.LendersMost, q.Limit))] {
		lends[j] = j.bm25 > 0
		for term, own := range j.parts {
			at := talk{j.Scope, term}
			said[at] = max(said[at], own)
		}
	}
	found := false
	for _, j := range all {
		for term, own := range j.parts {
			if !lends[j] {
				own = 0
			}
			squares := 0.0
			for _, l := range j.lenders {
				if lends[l.judged] {
					squares += l.weight * l.weight * l.parts[term] * l.parts[term]
				}
			}
			j.signals.BM25 += own / most
			if j.Run != "" {
				j.signals.Session += said[talk{j.Scope, term}] / most
			}
			j.signals.Neighbours += (math.Sqrt(own*own+squares) - own) / most
		}
		j.hit = j.signals.BM25+j.signals.Neighbours > 0
		if !j.hit || q.Ranking.AnySession {
			j.signals.Session = 0
		}
		j.score = j.signals.BM25 + j.signals.Neighbours + policy.SessionShare*j.signals.Session
		found = found || j.hit
	}
	for _, j := range all {
		switch {
		case q.Embedding == nil || j.Embedding == nil:
		case !found: // by the vectors alone
			j.hit, j.score = true, cosine(q.Embedding, j.Embedding)
		case trust != nil && trust.Weight > 0:
			z := (cosine(q.Embedding, j.Embedding) - trust.Mean) / trust.Deviation
			j.signals.Cosine = max(0, z-trust.Floor) + .001*max(0, z+4)
			j.score += trust.Weight * j.signals.Cosine
			j.hit = true
		}
	}
	w.checkTrust(q, all, found, trust)
	return all
}

// checkTrust wants what the answer says of the similarities to be so: they are those of a
// sample, as the codes of the vectors say them.
func (w *recallWorld) checkTrust(q *memory.Query, all []*judged, found bool, trust *memory.Trust) {
	w.t.Helper()
	if trust == nil || !found || len(all) > 256 {
		return
	}
	var sum, squares, n float64
	for _, j := range all {
		if j.Embedding != nil {
			c := cosine(q.Embedding, j.Embedding)
			sum, squares, n = sum+c, squares+c*c, n+1
		}
	}
	mean := sum / n
	deviation := math.Sqrt(max(0, squares/n-mean*mean))
	if math.Abs(trust.Mean-mean) > .01 || math.Abs(trust.Deviation-deviation) > .01 {
		w.t.Errorf("%+v: the similarities have the mean %v and the deviation %v, want %v and %v", q, trust.Mean, trust.Deviation, mean, deviation)
	}
}

// substrate evaluates the profile substrate over every memory.
func (w *recallWorld) substrate(m Memories, q *memory.Query) []*judged {
	all, _ := w.judge(m, q)
	best := 0.0
	for _, j := range all {
		best = max(best, j.bm25)
	}
	for _, j := range all {
		const day = 24 * time.Hour
		now := w.clock.now()
		idle := now.Sub(j.CreatedAt)
		if j.LastAccessed.After(j.CreatedAt) {
			idle = now.Sub(j.LastAccessed)
		}
		left := math.Pow(.95, float64(idle)/float64(day))
		recency := math.Exp2(-float64(now.Sub(j.CreatedAt)) / float64(7*day))
		access := min(1, math.Log(1+float64(j.AccessCount))/math.Log(101)) * left
		j.hit = j.bm25 > 0
		j.score = .6*j.bm25/best + .15*recency + .15*access + .1**j.Importance*left
	}
	return all
}

// compare wants the hits to be the best of what was judged. The engine scores text
// in units of 2⁻³⁰ of its sum and cosines in float32, so that equal scores may
// change places within that.
func (w *recallWorld) compare(q *memory.Query, got []memory.Hit, all []*judged) {
	w.t.Helper()
	const within = 2e-6
	all = slices.DeleteFunc(all, func(j *judged) bool { return !j.hit })
	slices.SortStableFunc(all, func(a, b *judged) int { return cmp.Compare(b.score, a.score) })
	scores := map[uint64]float64{}
	for _, j := range all {
		scores[j.Seq] = j.score
	}
	if want := min(q.Limit, len(all)); len(got) != want {
		w.t.Fatalf("%+v: %d hits, want %d", q, len(got), want)
	}
	for i, h := range got {
		own, ok := scores[h.Seq]
		if !ok || math.Abs(h.Score-own) > within || math.Abs(h.Score-all[i].score) > within {
			w.t.Errorf("%+v: rank %d is memory %d with %v: it should have %v, the rank %v", q, i, h.Seq, h.Score, own, all[i].score)
		}
		if i > 0 && (h.Score > got[i-1].Score || h.Score == got[i-1].Score && h.Seq < got[i-1].Seq) {
			w.t.Errorf("%+v: rank %d is out of order", q, i)
		}
		if sum := partsSum(h.Parts); math.Abs(sum-h.Score) > 1e-12 {
			w.t.Errorf("%+v: rank %d: the parts sum to %v, the score is %v", q, i, sum, h.Score)
		}
	}
}

func partsSum(p memory.Signals) float64 {
	return p.Cosine + p.Keywords + p.BM25 + p.Neighbours + p.Session + p.SecondLook + p.Recency + p.Access + p.Importance + p.Confidence + p.Fact
}

// ask compares the answers of both profiles with brute force.
func (w *recallWorld) ask(m Memories, queries int) {
	w.t.Helper()
	for range queries {
		q := w.query(memory.ProfileSubstrate)
		w.compare(&q, mustRecall(w.t, m, q), w.substrate(m, &q))
		q = w.query(memory.ProfileBest)
		switch w.rng.IntN(4) {
		case 0:
			q.Embedding = w.vector()
		case 1:
			q.Text, q.Embedding = "", w.vector()
		}
		w.askBest(m, &q)
	}
}

// TestBestAndSubstrateEqualBruteForce compares both profiles with their formulas,
// evaluated over every memory in scope: neighbours found from a list of all, BM25
// computed in float64. Memories are updated, deleted, expire, and move to other
// runs; the database is opened again; some queries see more matches than lend.
func TestBestAndSubstrateEqualBruteForce(t *testing.T) {
	race.Sequential(t)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newRecallWorld(t, seed)
			for range 8 {
				for range 60 {
					w.change(w.db.Memories())
				}
				w.ask(w.db.Memories(), 8)
				if w.rng.IntN(3) == 0 {
					closeTest(t, w.db)
					w.open()
					w.ask(w.db.Memories(), 4)
				}
			}
		})
	}
}

// TestBestWithMoreMatchesThanLenders is for the bound on who lends.
func TestBestWithMoreMatchesThanLenders(t *testing.T) {
	w := newRecallWorld(t, 5)
	var batch []memory.Memory
	for i := range 3 * recall.LendersMost {
		m := w.memory(fmt.Sprint("m", i))
		m.Scope, m.ExpiresAt = memory.Scope{User: "ada", Run: fmt.Sprint("r", i/7%40)}, time.Time{}
		m.Text = fmt.Sprintf("%s number%d", w.sentence(12), i) // no two of the same length and words
		batch = append(batch, m)
	}
	if _, err := w.db.Memories().StoreBatch(t.Context(), batch, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		q := w.query(memory.ProfileBest)
		q.Scope, q.Filter = memory.Scope{User: "ada"}, nil
		q.Text = fmt.Sprintf("tea house train number%d number%d", i, 100*i)
		w.askBest(w.db.Memories(), &q)
	}
}

// TestBestOwnWrites: an Update sees the neighbours that it has stored itself, and
// what is rolled back lends nothing afterwards.
func TestBestOwnWrites(t *testing.T) {
	w := newRecallWorld(t, 6)
	for range 100 {
		w.change(w.db.Memories())
	}
	kept := slices.Clone(w.ids)
	rollback := errors.New("rollback")
	err := w.db.Update(t.Context(), func(tx *Tx) error {
		for range 3 {
			for range 40 {
				w.change(tx.Memories())
			}
			w.ask(tx.Memories(), 5)
		}
		return rollback
	})
	if !errors.Is(err, rollback) {
		t.Fatal(err)
	}
	w.ids = kept
	w.ask(w.db.Memories(), 10)
	for range 100 {
		w.change(w.db.Memories())
	}
	w.ask(w.db.Memories(), 10)
}

// TestBestStandsStillInAView: what changes after a View was opened, in a run's
// neighbours too, changes none of its answers.
func TestBestStandsStillInAView(t *testing.T) {
	w := newRecallWorld(t, 7)
	for range 300 {
		w.change(w.db.Memories())
	}
	err := w.db.View(t.Context(), func(tx *Tx) error {
		var queries []memory.Query
		for i := range 12 {
			q := w.query(memory.ProfileBest)
			if q.Limit = valid.MaxLimit; i%3 == 0 {
				q.Embedding = w.vector()
			}
			queries = append(queries, q)
		}
		before := make([][]memory.Hit, len(queries))
		for i, q := range queries {
			before[i] = mustRecall(t, tx.Memories(), q)
		}
		for range 6 {
			for range 100 {
				w.change(w.db.Memories())
			}
			for i, q := range queries {
				after := mustRecall(t, tx.Memories(), q)
				if a, b := fmt.Sprint(briefly(after)), fmt.Sprint(briefly(before[i])); a != b {
					t.Fatalf("%+v: the view answers\n%s\nbefore it was\n%s", q, a, b)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.ask(w.db.Memories(), 10)
}

func briefly(hits []memory.Hit) []string {
	var out []string
	for _, h := range hits {
		out = append(out, fmt.Sprint(h.Seq, h.Score, h.Parts))
	}
	return out
}

// TestRunsForget: a run that many memories have passed through lists those that
// are left, and its room is counted.
func TestRunsForget(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ctx := t.Context()
	s := memory.Scope{User: "ada", Run: "r"}
	for i := range 800 {
		if i == 400 { // what the list keeps for readers behind the opening is let go now
			comes(t, "that nobody reads an older state", func() bool { return db.points.oldest() >= db.LSN() })
		}
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: s, Text: fmt.Sprint("text ", i)})
		if i >= 10 {
			if err := db.Memories().Delete(ctx, s, fmt.Sprint(i-10)); err != nil {
				t.Fatal(err)
			}
		}
	}
	rs := &db.tables.Docs.Runs
	if len(rs.Lists) != 1 {
		t.Fatalf("%d lists, want 1", len(rs.Lists))
	}
	for _, l := range rs.Lists {
		if len(l.Seqs) < 10 || l.Room() > 64 {
			t.Errorf("10 memories are listed in %d places of %d", len(l.Seqs), l.Room())
		}
		if rs.Room != l.Room() {
			t.Errorf("room for %d is counted, it is %d", rs.Room, l.Room())
		}
	}
}

var allProfiles = []memory.Profile{memory.ProfileBest, memory.ProfileText, memory.ProfileVector, memory.ProfileHybrid, memory.ProfileSubstrate}

// TestRecallWithoutWords: a text without a word finds nothing by itself, whatever
// the profile; with an embedding, that finds.
func TestRecallWithoutWords(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: ada, Text: "Tea, please."})
	mustStore(t, db.Memories(), memory.Memory{ID: "b", Scope: ada, Text: "?!", Embedding: []float32{1, 0}})
	for _, p := range allProfiles {
		for _, text := range []string{" ", "\n\t", "?! ...", "the of and", "\x00\x01"} {
			q := memory.Query{Scope: ada, Text: text, Profile: p, Explain: true}
			r, err := db.Memories().Recall(t.Context(), q)
			if err != nil || len(r.Hits) > 0 {
				t.Errorf("%s %q: %v, %v", p, text, r.Hits, err)
			}
			if r.Plan == nil || r.Plan.InScope != 2 || len(r.Plan.Terms) > 0 {
				t.Errorf("%s %q: plan %+v", p, text, r.Plan)
			}
			if p == memory.ProfileText {
				continue
			}
			q.Embedding = []float32{1, 0}
			if hits := mustRecall(t, db.Memories(), q); len(hits) == 0 || hits[0].ID != "b" {
				t.Errorf("%s %q with an embedding: %v", p, text, hitIDs(hits))
			}
		}
	}
}

// TestNegativeCosineAndMissingSignals says where a memory stands that is opposite
// to the query's vector, and one that has none.
func TestNegativeCosineAndMissingSignals(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{Clock: newTestClock().now})
	ada := memory.Scope{User: "ada"}
	equal := func(m memory.Memory) memory.Memory {
		m.Scope, m.Importance = ada, new(.5)
		return m
	}
	for _, m := range []memory.Memory{
		{ID: "with it", Text: "something else", Embedding: []float32{1, 0}},
		{ID: "against it", Text: "green tea", Embedding: []float32{-1, 0}},
		{ID: "only text", Text: "black tea"},
		{ID: "neither", Text: "nothing at all"},
		{ID: "opposite", Text: "another thing", Embedding: []float32{-1, 0}},
	} {
		mustStore(t, db.Memories(), equal(m))
	}
	for _, tc := range []struct {
		profile memory.Profile
		want    []string
	}{
		// The text counts although the vector is against it; what has neither is
		// no hit.
		{memory.ProfileBest, []string{"against it", "only text", "with it", "opposite"}},
		{memory.ProfileText, []string{"against it", "only text"}},
		{memory.ProfileVector, []string{"with it", "against it", "opposite"}},
		{memory.ProfileSubstrate, []string{"against it", "only text", "with it", "opposite"}},
		// A missing signal is 0, which is more than a cosine below it.
		{memory.ProfileHybrid, []string{"with it", "only text", "neither", "against it", "opposite"}},
	} {
		q := memory.Query{Scope: ada, Text: "tea", Embedding: []float32{1, 0}, Profile: tc.profile}
		hits := mustRecall(t, db.Memories(), q)
		equalSlices(t, string(tc.profile), hitIDs(hits), tc.want)
		for _, h := range hits {
			if negative := h.Parts.Cosine < 0; negative != ((tc.profile == memory.ProfileVector || tc.profile == memory.ProfileHybrid) && h.Embedding == nil && (h.ID == "against it" || h.ID == "opposite")) {
				t.Errorf("%s: %s has the cosine %v", tc.profile, h.ID, h.Parts.Cosine)
			}
		}
	}
}

// TestRecallTouches: a recall touches its hits and no others, unless it declines.
func TestRecallTouches(t *testing.T) {
	for _, p := range allProfiles {
		clock := newTestClock()
		db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
		ada := memory.Scope{User: "ada"}
		mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: ada, Text: "tea"})
		mustStore(t, db.Memories(), memory.Memory{ID: "b", Scope: ada, Text: "coffee"})
		for _, q := range []memory.Query{{NoTouch: true}, {}, {NoTouch: true}, {}} {
			q.Scope, q.Text, q.Limit, q.Profile = ada, "tea", 1, p
			clock.advance(time.Hour)
			if hits := mustRecall(t, db.Memories(), q); len(hits) != 1 || hits[0].ID != "a" {
				t.Fatalf("%s: hits %v", p, hitIDs(hits))
			}
		}
		ms := mustList(t, db.Memories(), ada)
		if ms[0].AccessCount != 2 || !ms[0].LastAccessed.Equal(clock.now()) || ms[1].AccessCount != 0 {
			t.Errorf("%s: accesses %d at %v, and %d", p, ms[0].AccessCount, ms[0].LastAccessed, ms[1].AccessCount)
		}
	}
}

// TestExplain wants each profile to tell what it did.
func TestExplain(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada", Run: "r"}
	for i, text := range []string{"green tea", "a house", "old trains"} {
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: text, Embedding: []float32{1, float32(i)}})
	}
	for _, tc := range []struct {
		profile    memory.Profile
		embedding  []float32
		candidates int
		exhaustive bool
		vector     string
		stages     string
	}{
		{memory.ProfileBest, nil, 3, false, "", "scope statistics text neighbours terms turns rank fetch"},
		{memory.ProfileBest, []float32{1, 0}, 3, true, "default", "scope statistics text neighbours terms turns vectors trust vectors rank fetch"},
		{memory.ProfileText, nil, 1, false, "", "scope statistics text rank fetch"},
		{memory.ProfileVector, []float32{1, 0}, 3, true, "default", "scope vectors rank fetch"},
		{memory.ProfileHybrid, []float32{1, 0}, 3, true, "default", "scope vectors text rank fetch"},
		{memory.ProfileSubstrate, nil, 1, false, "", "scope statistics text rank fetch"},
		{memory.ProfileSubstrate, []float32{1, 0}, 3, true, "default", "scope statistics text vectors trust vectors rank fetch"},
	} {
		r, err := db.Memories().Recall(t.Context(), memory.Query{
			Scope: ada, Text: "tea", Embedding: tc.embedding, Profile: tc.profile, Explain: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		var stages []string
		for _, s := range r.Plan.Stages {
			stages = append(stages, s.Name)
		}
		p := r.Plan
		if got := strings.Join(stages, " "); got != tc.stages {
			t.Errorf("%s: stages %s, want %s", tc.profile, got, tc.stages)
		}
		if p.Profile != tc.profile || p.InScope != 3 || p.Candidates != tc.candidates || p.Exhaustive != tc.exhaustive || p.Vector != tc.vector {
			t.Errorf("%s: plan %+v", tc.profile, p)
		}
		if !slices.Equal(p.Terms, []string{"te", "tea"}) { // the texts are too short to say their language
			t.Errorf("%s: terms %v", tc.profile, p.Terms)
		}
		for _, h := range r.Hits {
			if sum := partsSum(h.Parts); math.Abs(sum-h.Score) > 1e-12 {
				t.Errorf("%s: the parts of %q sum to %v, the score is %v", tc.profile, h.Text, sum, h.Score)
			}
		}
	}
}

// TestBestIsTheDefault, and a lexical embedder has no part in it: its vectors are
// made of the words that the text is searched by.
func TestBestIsTheDefault(t *testing.T) {
	for _, tc := range []struct {
		embedder embed.Embedder
		vector   string
	}{{nil, ""}, {embed.NewLexical(), ""}, {embed.Lexical{}, ""}, {newFakeEmbedder(8), "default"}} {
		db := openTest(t, vfs.NewMem(), Options{Embedder: tc.embedder})
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "tea"})
		r, err := db.Memories().Recall(t.Context(), memory.Query{Scope: memory.Scope{User: "ada"}, Text: "tea", Explain: true})
		if err != nil {
			t.Fatal(err)
		}
		if r.Plan.Profile != memory.ProfileBest || r.Plan.Vector != tc.vector || len(r.Hits) != 1 {
			t.Errorf("%T: plan %+v, %d hits", tc.embedder, r.Plan, len(r.Hits))
		}
	}
}

// TestBestInALargeScope: where not every memory is scored, what the text finds and
// what the vectors find are both among the hits.
func TestBestInALargeScope(t *testing.T) {
	race.Sequential(t)
	if testing.Short() {
		t.Skip("stores 20,000 memories")
	}
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada", Run: "r"}
	var batch []memory.Memory
	for i := range db.spaces.Limits.Exhaustive + 10 {
		batch = append(batch, memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: "noise", Embedding: []float32{1, float32(i%97) + 20}})
	}
	const byText, byVector = 7_000, 14_000
	batch[byText].Text, batch[byText+1].Text = "green", "tea"
	batch[byVector].Embedding = []float32{1, 0}
	for part := range slices.Chunk(batch, 5000) {
		if _, err := db.Memories().StoreBatch(t.Context(), part, &memory.StoreOptions{NoDedup: true}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := db.Memories().Recall(t.Context(), memory.Query{Scope: ada, Text: "green tea", Embedding: []float32{1, 0}, Limit: 3, Explain: true})
	if err != nil {
		t.Fatal(err)
	}
	got := hitIDs(r.Hits)
	slices.Sort(got)
	want := []string{fmt.Sprint(byText), fmt.Sprint(byText + 1), fmt.Sprint(byVector)}
	slices.Sort(want)
	equalSlices(t, "hits", got, want)
	if p := r.Plan; p.Exhaustive || p.Candidates < recall.CandidatesMost || p.Candidates > recall.CandidatesMost+10 {
		t.Errorf("plan %+v", p)
	}
}

// TestRecencyOfFarTimes: a time further away than a Duration reaches is as old, or as
// new, as can be, in a score and in what rules memories out before they are scored.
func TestRecencyOfFarTimes(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{Clock: newTestClock().now})
	ada, vec := memory.Scope{User: "ada"}, []float32{1, 0}
	recency := map[int]float64{1: 0, 1700: 0, 1970: 0, 2400: 1, 9999: 1}
	years := slices.Sorted(maps.Keys(recency))
	const each = 20
	for i := range each * len(years) {
		year := years[i%len(years)]
		mustStore(t, db.Memories(), memory.Memory{
			ID: fmt.Sprint(i), Scope: ada, Text: fmt.Sprint("number ", i), Embedding: vec,
			CreatedAt: time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC), Importance: new(float64(i) / (each * 10)),
		})
	}
	for _, p := range []memory.Profile{memory.ProfileHybrid, memory.ProfileSubstrate} {
		q := memory.Query{Scope: ada, Text: "number", Profile: p, Limit: each * len(years), NoTouch: true}
		weight := policy.Substrate().Recency
		if p == memory.ProfileHybrid {
			q.Embedding, weight = vec, policy.Hybrid().Recency
		}
		all := mustRecall(t, db.Memories(), q)
		for _, h := range all {
			if want := weight * recency[h.CreatedAt.Year()]; math.Abs(h.Parts.Recency-want) > 1e-9 {
				t.Errorf("%s: the recency of %v counts %v, want %v", p, h.CreatedAt, h.Parts.Recency, want)
			}
		}
		q.Limit = 5
		equalSlices(t, string(p)+": the best five", hitIDs(mustRecall(t, db.Memories(), q)), hitIDs(all)[:q.Limit])
	}
}

// TestBestBesideAWriter asks while memories come, go and change runs. The race
// detector does most of the checking.
func TestBestBesideAWriter(t *testing.T) {
	w := newRecallWorld(t, 8)
	for range 100 {
		w.change(w.db.Memories())
	}
	var queries []memory.Query
	for range 20 {
		queries = append(queries, w.query(memory.ProfileBest))
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				q := queries[i%len(queries)]
				r, err := w.db.Memories().Recall(context.Background(), q)
				if err != nil {
					t.Error(err)
					return
				}
				for i := 1; i < len(r.Hits); i++ {
					if r.Hits[i].Score > r.Hits[i-1].Score {
						t.Errorf("%+v: rank %d is out of order", q, i)
					}
				}
			}
		})
	}
	for range 400 {
		w.change(w.db.Memories())
	}
	close(stop)
	readers.Wait()
	w.ask(w.db.Memories(), 10)
}

// BenchmarkRecall recalls in an owner of 10,000 among 50,000 memories, which were
// stored in turns.
func BenchmarkRecall(b *testing.B) {
	db := openTest(b, vfs.NewMem(), Options{MemoryBudget: 256 << 20})
	rng := rand.New(rand.NewPCG(1, 1))
	word := func() string { return fmt.Sprint("w", int(1000*rng.ExpFloat64())) }
	const owners, each, dim = 5, 10_000, 384
	vector := func() []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	for i := range each {
		var batch []memory.Memory
		for o := range owners {
			m := memory.Memory{Scope: memory.Scope{Agent: fmt.Sprint("a", o), Run: fmt.Sprint("r", i/20)}}
			for range 30 {
				m.Text += word() + " "
			}
			if o == 0 {
				m.Embedding = vector()
			}
			batch = append(batch, m)
		}
		if _, err := db.Memories().StoreBatch(b.Context(), batch, nil); err != nil {
			b.Fatal(err)
		}
	}
	for _, p := range allProfiles {
		for _, embedding := range [][]float32{nil, vector()} {
			name := string(p)
			if embedding != nil {
				name += " with an embedding"
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					q := memory.Query{
						Scope: memory.Scope{Agent: "a0"}, Text: word() + " " + word() + " " + word() + " " + word(),
						Embedding: embedding, Profile: p, NoTouch: true,
					}
					if _, err := db.Memories().Recall(b.Context(), q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
