package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/recall"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// recalled are the hits of a query by their IDs, and its plan.
func recalled(t testing.TB, db *DB, q memory.Query) (map[string]memory.Hit, *memory.Plan) {
	t.Helper()
	q.Explain, q.NoTouch = true, true
	result, err := db.Memories().Recall(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	hits := map[string]memory.Hit{}
	for _, h := range result.Hits {
		hits[h.ID] = h
	}
	return hits, result.Plan
}

// TestSessionShare: what a run has of the query counts for its memories, the same for each of
// them; memories of no run have none, and a query can decline.
func TestSessionShare(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{})
	far := func(run string, n int) {
		for i := range 2 * policy.NeighbourReach {
			mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(run, n, i), Scope: memory.Scope{User: "u", Run: run}, Text: "nothing of note here"})
		}
	}
	for _, run := range []string{"right", "wrong"} {
		mustStore(t, db.Memories(), memory.Memory{ID: run, Scope: memory.Scope{User: "u", Run: run}, Text: "the harbour was full"})
		far(run, 0)
		if run == "right" {
			mustStore(t, db.Memories(), memory.Memory{ID: "other", Scope: memory.Scope{User: "u", Run: run}, Text: "we sailed to Crete"})
		}
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "alone", Scope: memory.Scope{User: "u"}, Text: "the harbour was full"})
	mustStore(t, db.Memories(), memory.Memory{ID: "hidden", Scope: memory.Scope{User: "v", Run: "wrong"}, Text: "harbour of Crete"})
	q := memory.Query{Scope: memory.Scope{User: "u"}, Text: "harbour Crete", Limit: 50}
	hits, _ := recalled(t, db, q)
	right, wrong, other, alone := hits["right"], hits["wrong"], hits["other"], hits["alone"]
	if right.Parts.Session != other.Parts.Session || right.Parts.Session <= wrong.Parts.Session || wrong.Parts.Session <= 0 || alone.Parts.Session != 0 {
		t.Errorf("shares of the session: %v, %v, %v, %v", right.Parts, other.Parts, wrong.Parts, alone.Parts)
	}
	if want := policy.SessionShare * (right.Parts.BM25 + other.Parts.BM25); right.Parts.Session < want*(1-1e-9) || right.Parts.Session > want*(1+1e-9) {
		t.Errorf("the session counts for %v, want %v", right.Parts.Session, want)
	}
	if right.Parts.BM25 != wrong.Parts.BM25 || right.Score <= wrong.Score {
		t.Errorf("%v is not above %v", right, wrong)
	}
	q.Ranking.AnySession = true
	hits, _ = recalled(t, db, q)
	if a, b := hits["right"], hits["wrong"]; a.Score != b.Score || a.Parts.Session != 0 {
		t.Errorf("with AnySession: %v, %v", a.Parts, b.Parts)
	}
}

// TestSecondLook: what shares the terms of the first hits counts more, unless a first hit has
// all that was asked; the plan shows the terms, and a query can decline.
func TestSecondLook(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{})
	for i, text := range []string{
		"Nora adopted a greyhound called Biscuit", "Biscuit hates the rain, says Nora", "Nora went home",
		"the greyhound track is closed", strings.Repeat("ÿ", recall.FirstHitBytes), "a day without anything", "nothing more",
	} {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: memory.Scope{User: "u"}, Text: text})
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "hidden", Scope: memory.Scope{User: "v"}, Text: "Nora's greyhound Secretariat"})
	for i, text := range []string{"Nora adopted a greyhound called Biscuit", "Biscuit hates the rain, says Nora"} {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("turn", i), Scope: memory.Scope{User: "w", Run: "r"}, Text: text})
	}
	q := memory.Query{Scope: memory.Scope{User: "u"}, Text: "weather that Nora's greyhound dislikes"}
	hits, plan := recalled(t, db, q)
	if !slices.Contains(plan.SecondLook, "biscuit") || slices.Contains(plan.SecondLook, "nora") || slices.Contains(plan.SecondLook, "secretariat") || len(plan.SecondLook) > recall.FirstHitTerms {
		t.Errorf("the second look is for %q", plan.SecondLook)
	}
	if said := hits["1"].Parts; said.SecondLook <= 0 {
		t.Errorf("a turn with the term of a first hit has %v", said)
	}
	for _, h := range hits {
		if sum := h.Parts.BM25 + h.Parts.Neighbours + h.Parts.Session + h.Parts.SecondLook; sum != h.Score {
			t.Errorf("%s has %v of parts %v", h.ID, h.Score, h.Parts)
		}
	}
	for what, q := range map[string]memory.Query{
		"OneLook":           {Scope: q.Scope, Text: q.Text, Ranking: policy.Ranking{OneLook: true}},
		"a hit with all":    {Scope: q.Scope, Text: "Nora's greyhound"},
		"operators":         {Scope: q.Scope, Text: q.Text, Syntax: memory.SyntaxOperators},
		"nothing was found": {Scope: q.Scope, Text: "zebra"},
		"turns":             {Scope: memory.Scope{User: "w"}, Text: q.Text},
	} {
		hits, plan := recalled(t, db, q)
		if len(plan.SecondLook) > 0 {
			t.Errorf("%s: the second look is for %q", what, plan.SecondLook)
		}
		for _, h := range hits {
			if h.Parts.SecondLook != 0 {
				t.Errorf("%s: %s has %v", what, h.ID, h.Parts)
			}
		}
	}
	if _, plan := recalled(t, db, memory.Query{Scope: q.Scope, Text: strings.Repeat("ÿ", recall.FirstHitBytes) + " zebra"}); len(plan.SecondLook) > recall.FirstHitTerms {
		t.Errorf("of a long word: %d terms", len(plan.SecondLook))
	}
}

// BenchmarkBest recalls within a scope of 10,000 turns with and without what the profile adds
// to the neighbours.
func BenchmarkBest(b *testing.B) {
	db := openTest(b, vfs.NewMem(), setup{})
	words := strings.Fields("harbour crete lamp dog rain piano letter garden train bread window uncle paint river clock stone market song bridge coat")
	batch := make([]memory.Memory, 10_000)
	for i := range batch {
		text := fmt.Sprint("turn ", i%997, " ", words[i%20], " ", words[i*7/3%20], " and ", words[i*11/5%19], " by ", words[i/13%17], " word", i%3001, " thing", i%1409)
		batch[i] = memory.Memory{Scope: memory.Scope{User: "u", Run: fmt.Sprint(i / 30)}, Text: text}
	}
	if _, err := db.Memories().StoreBatch(b.Context(), batch, nil); err != nil {
		b.Fatal(err)
	}
	for _, plain := range []bool{true, false} {
		b.Run(map[bool]string{true: "neighbours alone", false: "all"}[plain], func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				text := fmt.Sprint(words[i%20], " ", words[i*3%17], " word", i%3001, " thing", i%907)
				if _, err := db.Memories().Recall(b.Context(), memory.Query{Scope: memory.Scope{User: "u"}, Text: text, Ranking: policy.Ranking{AnySession: plain}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestEqualVectors: an embedder whose vectors are all equal leaves the order of the text as it is.
func TestEqualVectors(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{})
	for i := range 40 {
		text := fmt.Sprint("harbour ", strings.Repeat("lamp ", i%7), strings.Repeat("rain ", i%5), "number", i, strings.Repeat(" filler", i))
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: memory.Scope{User: "u", Run: fmt.Sprint(i / 10)}, Text: text, Embedding: []float32{.6, .8}})
	}
	q := memory.Query{Scope: memory.Scope{User: "u"}, Text: "rain lamp zebra", Limit: 10, NoTouch: true}
	alone := hitIDs(mustRecall(t, db.Memories(), q))
	q.Embedding = []float32{.6, .8}
	equalSlices(t, "with equal vectors", hitIDs(mustRecall(t, db.Memories(), q)), alone)
}
