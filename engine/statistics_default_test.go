package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const statisticsWords = "tea green black garden train journey Berlin doctor music piano plan morning river mountain bread letter window winter summer colleague meeting " +
	"insurance guitar dentist passport holiday kitchen bicycle harbour lecture museum concert neighbour birthday appointment"

// TestStatisticsSecondLook: the first hits of all parts say what the second look is for, at the best matches of all.
func TestStatisticsSecondLook(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		of    corpus
		e     embed.Embedder
		looks bool
	}{
		{"small", 700, corpus{words: statisticsWords}, nil, true},
		{"facts", 700, corpus{words: statisticsWords, facts: true}, nil, true},
		{"vectors", 500, corpus{words: statisticsWords, facts: true}, placeEmbedder{}, true},
		{"runs", 300, corpus{words: statisticsWords, runs: true}, nil, false},
		{"large", 2100, corpus{words: statisticsWords}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPartedOf(t, c.n, 4, c.e, c.of)
			looked := 0
			for _, text := range []string{
				"green tea in the garden of the museum", "a journey by train to the harbour", "who plays the piano and the guitar?", "dentist appointment number 17",
				"zebra insurance", "bread bread", "Was trinkt sie am Morgen?", "où est le train ?", "zebra",
			} {
				for _, limit := range []int{1, 10, 100} {
					q := memory.Query{Scope: memory.Scope{Agent: "planner"}, Text: text, Limit: limit, OnlyWords: true, NoTouch: true}
					off := rounding
					switch {
					case c.e != nil:
						off = byCodes
						q.Filter = filter.Eq("half", 1) // of more than 256, some are a sample
					case c.of.facts:
						off = lifted
					}
					looks := p.sameAsWhole(q, off)
					q.OneLook = true
					if once := p.sameAsWhole(q, off); !slices.EqualFunc(once, looks, func(a, b memory.Hit) bool { return a.Score == b.Score }) {
						looked++
					}
				}
			}
			if (looked > 5) != c.looks {
				t.Errorf("%d were looked at again", looked)
			}
		})
	}
}

// sameAsWhole recalls from the parts and from the whole, which are to find the same, and returns it.
func (p *parted) sameAsWhole(q memory.Query, off float64) []memory.Hit {
	p.t.Helper()
	var want memory.Result
	err := p.whole.View(p.t.Context(), func(tx *engine.Tx) (err error) { // of a view, vectors show nothing
		want, err = tx.Memories().Recall(p.t.Context(), q)
		return err
	})
	testdb.NoError(p.t, err)
	same(p.t, fmt.Sprintf("%s %q %d", q.Profile, q.Text, q.Limit), want.Hits, p.recall(q), off)
	return want.Hits
}
