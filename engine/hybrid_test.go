package engine

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// TestHybridEqualsBruteForce compares the hybrid ranking with the formula,
// evaluated from what Get returns: 50% cosine, 25% share of the query's keywords
// found, 10% recency with a half-life of a week, 10% importance, 5% confidence.
func TestHybridEqualsBruteForce(t *testing.T) {
	race.Sequential(t)
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { hybridRun(t, seed) })
	}
}

func hybridRun(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	db, err := openOn(vfs.NewMem(), "db", Options{Clock: func() time.Time { return now }, Language: analysis.English})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	analyzer, err := analysis.New(analysis.Config{Language: analysis.English})
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields("tea coffee river house garden train book music winter summer blue green quiet loud old new")
	sentence := func(n int) string {
		var b []string
		for range n {
			b = append(b, words[rng.IntN(len(words))])
		}
		return strings.Join(b, " ")
	}
	const dim, memories = 24, 400
	vector := func() []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	scopes := []memory.Scope{{User: "ada"}, {User: "ada", Agent: "a1"}, {User: "bob", Run: "r1"}, {User: "ada", Run: "r1"}}
	var stored []string
	for i := range memories {
		m := memory.Memory{
			ID: fmt.Sprint("m", i), Scope: scopes[rng.IntN(len(scopes))],
			Text:      fmt.Sprintf("%s number%d", sentence(1+rng.IntN(8)), i),
			CreatedAt: now.Add(-time.Duration(rng.IntN(60*24)) * time.Hour),
		}
		if rng.IntN(4) > 0 {
			m.Embedding = vector()
		}
		if rng.IntN(2) == 0 {
			m.Importance, m.Confidence = new(rng.Float64()), new(rng.Float64())
		}
		if _, err := db.Memories().Store(t.Context(), m, nil); err != nil {
			t.Fatal(err)
		}
		stored = append(stored, m.ID)
	}
	for i := range 60 { // some are changed, some deleted
		id := stored[rng.IntN(len(stored))]
		text := fmt.Sprintf("%s again%d", sentence(4), i)
		switch rng.IntN(3) {
		case 0:
			_, err = db.Memories().Update(t.Context(), memory.Scope{}, id, memory.Patch{Text: &text, Embedding: vector()})
		case 1:
			_, err = db.Memories().Update(t.Context(), memory.Scope{}, id, memory.Patch{Importance: new(rng.Float64())})
		default:
			err = db.Memories().Delete(t.Context(), memory.Scope{}, id)
			stored = slices.DeleteFunc(stored, func(s string) bool { return s == id })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 40 {
		q := memory.Query{
			Scope: []memory.Scope{{User: "ada"}, {Run: "r1"}, {User: "ada", Agent: "a1"}, {User: "bob"}}[rng.IntN(4)],
			Text:  sentence(1 + rng.IntN(5)), Profile: memory.ProfileHybrid, Limit: 1 + rng.IntN(50), NoTouch: true,
		}
		if rng.IntN(5) > 0 {
			q.Embedding = vector()
		} else {
			q.Text = ""
			q.Embedding = vector()
		}
		got, err := db.Memories().Recall(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		compareHybrid(t, got.Hits, bruteForce(t, db, analyzer, &q, stored, now), q.Limit)
	}
}

type expected struct {
	seq   uint64
	score float64
}

// bruteForce evaluates the formula over every memory in scope.
func bruteForce(t *testing.T, db *DB, a *analysis.Analyzer, q *memory.Query, ids []string, now time.Time) []expected {
	terms := termSet(a, q.Text)
	var all []expected
	for _, id := range ids {
		m, err := db.Memories().GetWithVectors(t.Context(), memory.Scope{}, id)
		if err != nil {
			t.Fatal(err)
		}
		if !scope.Contains(q.Scope, m.Scope) {
			continue
		}
		found := 0
		have := termSet(a, m.Text)
		for term := range terms {
			if have[term] {
				found++
			}
		}
		share := 0.0
		if len(terms) > 0 {
			share = float64(found) / float64(len(terms))
		}
		week := float64(7 * 24 * time.Hour)
		recency := math.Exp2(-float64(now.Sub(m.CreatedAt)) / week)
		score := 0.5*cosine(q.Embedding, m.Embedding) + 0.25*share + 0.10*recency + 0.10**m.Importance + 0.05**m.Confidence
		all = append(all, expected{m.Seq, score})
	}
	slices.SortFunc(all, func(a, b expected) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.seq, b.seq))
	})
	return all
}

func termSet(a *analysis.Analyzer, text string) map[string]bool {
	set := map[string]bool{}
	for _, tok := range a.Tokens(nil, text) {
		set[tok.Term] = true
	}
	return set
}

func cosine(a, b []float32) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// compareHybrid allows for the rounding of cosines in float32: the scores agree
// rank by rank, and a memory stands where its own score says.
func compareHybrid(t *testing.T, got []memory.Hit, want []expected, limit int) {
	t.Helper()
	const within = 1e-6
	want = want[:min(limit, len(want))]
	if len(got) != len(want) {
		t.Fatalf("%d hits, want %d", len(got), len(want))
	}
	scores := map[uint64]float64{}
	for _, w := range want {
		scores[w.seq] = w.score
	}
	for i, h := range got {
		if math.Abs(h.Score-want[i].score) > within {
			t.Errorf("rank %d: score %v, want %v", i, h.Score, want[i].score)
		}
		own, ok := scores[h.Seq]
		if !ok && math.Abs(h.Score-want[len(want)-1].score) > within {
			t.Errorf("rank %d: memory %d is not among the best", i, h.Seq)
		}
		if ok && math.Abs(h.Score-own) > within {
			t.Errorf("memory %d: score %v, want %v", h.Seq, h.Score, own)
		}
		p := h.Parts
		if sum := p.Cosine + p.Keywords + p.BM25 + p.Recency + p.Importance + p.Confidence; math.Abs(sum-h.Score) > 1e-12 {
			t.Errorf("rank %d: the parts sum to %v, the score is %v", i, sum, h.Score)
		}
	}
}
