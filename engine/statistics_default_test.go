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
	"github.com/seed-7aedc3ff/memdb/policy"
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
					q.Ranking.OneLook = true
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

// TestStatisticsNear: words near those of a query are those of all parts, and what they find stands where one database
// has it.
func TestStatisticsNear(t *testing.T) {
	rare := statisticsWords + " smartwatch Krankenversicherung passport sports Zahnarzttermin pianist gardener teapot concerto"
	for _, c := range []struct {
		name string
		n    int
		of   corpus
		e    embed.Embedder
	}{
		{"notes", 600, corpus{words: rare}, nil},
		{"few", 40, corpus{words: rare}, nil},
		{"facts", 500, corpus{words: rare, facts: true}, nil},
		{"runs", 500, corpus{words: rare, runs: true, facts: true}, nil},
		{"vectors", 200, corpus{words: rare, facts: true}, placeEmbedder{}},
		{"large", 2100, corpus{words: rare}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPartedOf(t, c.n, 4, c.e, c.of)
			alone, lifts := 0, 0
			for _, text := range []string{
				"grene tea", "pianno", "jurney by trian", "a pianno concert", "Versicherung", "sport", "smart watch", "number 17", "zebra", "zebra pianno", "!!!",
				"teapot", "Zahnarzt Termin", "gardner number 23", "concertos of a pianst in the museum", "où est le traine ?", "passports and smartwatchs",
			} {
				for i, limit := range []int{1, 10, 100} {
					for _, profile := range []memory.Profile{memory.ProfileText, memory.ProfileBest} {
						q := memory.Query{Scope: memory.Scope{Agent: "planner"}, Text: text, Limit: limit, Profile: profile, NoTouch: true}
						off := rounding
						switch {
						case c.e != nil && profile == memory.ProfileBest:
							off = byCodes
						case c.of.facts && profile == memory.ProfileBest:
							off = lifted
						}
						if i == 1 {
							q.Filter = filter.Eq("tenth", 1)
						}
						hits := p.sameAsWhole(q, off)
						q.OnlyWords = true
						only := p.sameAsWhole(q, off)
						for n, h := range hits {
							if h.Near {
								alone++
							} else if h.Score != only[n].Score {
								lifts++
							}
						}
					}
				}
			}
			if alone < 20 || c.e == nil && lifts < 10 {
				t.Errorf("near words alone found %d, and lifted %d", alone, lifts)
			}
		})
	}
}

// TestStatisticsRounds: no round is asked that a query does not need.
func TestStatisticsRounds(t *testing.T) {
	notes := newPartedOf(t, 400, 3, nil, corpus{words: statisticsWords})
	turns := newPartedOf(t, 300, 3, nil, corpus{words: statisticsWords, runs: true, facts: true})
	for _, c := range []struct {
		p    *parted
		q    memory.Query
		want int
	}{
		{notes, memory.Query{Text: "green tea", Profile: memory.ProfileText}, 2},
		{notes, memory.Query{Text: "pianno tea", Profile: memory.ProfileText}, 2}, // enough have one of the words
		{notes, memory.Query{Text: "pianno", Profile: memory.ProfileText}, 3},
		{notes, memory.Query{Text: "number 17 pianno", Profile: memory.ProfileText, Limit: 1000}, 4},
		{notes, memory.Query{Text: "green tea", Profile: memory.ProfileHybrid}, 2},
		{notes, memory.Query{Text: "green tea"}, 3}, // the first hits have both words
		{notes, memory.Query{Text: "green tea", Ranking: policy.Ranking{OneLook: true}}, 2},
		{notes, memory.Query{Text: "green tea, journey, train, concert, lecture, bread"}, 4},
		{notes, memory.Query{Text: "pianno tea"}, 5},
		{notes, memory.Query{Text: "pianno tea", Ranking: policy.Ranking{OneLook: true}}, 4},
		{notes, memory.Query{Text: "pianno tea", Ranking: policy.Ranking{OneLook: true}, OnlyWords: true}, 2},
		{notes, memory.Query{Text: "pianno"}, 4},
		{notes, memory.Query{Text: "xyzzyx"}, 3},
		{turns, memory.Query{Text: "green tea"}, 4}, // some are in no run, and there are facts
		{turns, memory.Query{Text: "pianno tea"}, 5},
	} {
		c.q.Scope = memory.Scope{Agent: "planner"}
		c.p.statistics(c.q, c.p.parts...)
		if c.p.rounds != c.want {
			t.Errorf("%s %q takes %d rounds, want %d", c.q.Profile, c.q.Text, c.p.rounds, c.want)
		}
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
