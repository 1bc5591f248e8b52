package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestOperators asks the same memories in every profile that reads operators, in a
// chunk in memory and in sealed ones.
func TestOperators(t *testing.T) {
	texts := []string{
		"green tea in the morning", "tea that is green", "black coffee", "coffee with milk", "tea with milk",
		"chocolate cake", "chocolates and tea", "a kettle for tea", "running late for coffee",
	}
	for _, hot := range []int64{0, 1} {
		db := openTest(t, vfs.NewMem(), setup{tuning: tuning{hotBytes: hot}})
		for i, text := range texts {
			mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: memory.Scope{User: "u"}, Text: text, Embedding: []float32{1, float32(i)}})
		}
		db.waitSealed(t)
		for _, c := range []struct{ text, want string }{
			{"tea", "0 1 4 6 7"},
			{"+tea -milk", "0 1 6 7"},
			{"tea NOT milk", "0 1 6 7"},
			{"tea AND milk", "4"},
			{`"green tea"`, "0"},
			{`+tea -"green tea"`, "1 4 6 7"},
			{"choc*", "5 6"},
			{"cofee~", "2 3 8"},
			{`"green tea" coffee`, "0"},
			{"+tea +coffee", ""},
			{`+milk "`, "3 4"},
			{"-tea", ""},
			{`" + - AND (`, ""},
		} {
			for _, p := range []memory.Profile{memory.ProfileText, memory.ProfileBest, memory.ProfileHybrid, memory.ProfileSubstrate} {
				q := memory.Query{Scope: memory.Scope{User: "u"}, Text: c.text, Profile: p, Syntax: memory.SyntaxOperators, Limit: 50, NoTouch: true}
				var got []string
				for _, h := range mustRecall(t, db.Memories(), q) {
					if p != memory.ProfileHybrid || h.Parts.Keywords > 0 { // hybrid ranks those without a word, too
						got = append(got, h.ID)
					}
				}
				slices.Sort(got)
				if strings.Join(got, " ") != c.want {
					t.Errorf("%s, %s: %v, want %s", c.text, p, got, c.want)
				}
			}
		}
		// What the text demands holds for what the vector finds.
		q := memory.Query{Scope: memory.Scope{User: "u"}, Text: "-coffee +milk", Embedding: []float32{1, 3}, Syntax: memory.SyntaxOperators}
		if hits := mustRecall(t, db.Memories(), q); len(hits) != 1 || hits[0].ID != "4" {
			t.Errorf("with a vector: %+v", hits)
		}
		// Without being asked for, operators are not read.
		q = memory.Query{Scope: memory.Scope{User: "u"}, Text: `What of "green tea"?`}
		if hits := mustRecall(t, db.Memories(), q); len(hits) != 5 {
			t.Errorf("a question with quotes has %d hits", len(hits))
		}
		q.Syntax = "odd"
		if _, err := db.Memories().Recall(context.Background(), q); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("an unknown syntax: %v", err)
		}
	}
}

func TestHighlight(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: "Running late: 茶 and green tea, or Tea."})
	for _, c := range []struct {
		text, want string
		syntax     memory.Syntax
	}{
		{"tea", "Running late: 茶 and green [tea], or [Tea].", memory.SyntaxPlain},
		{`"green tea" run`, "[Running] late: 茶 and [green tea], or Tea.", memory.SyntaxOperators},
		{`gre* tea`, "Running late: 茶 and [green] [tea], or [Tea].", memory.SyntaxOperators},
		{"茶", "Running late: [茶] and green tea, or Tea.", memory.SyntaxPlain},
	} {
		q := memory.Query{Scope: memory.Scope{User: "u"}, Text: c.text, Syntax: c.syntax, Highlight: true}
		hits := mustRecall(t, db.Memories(), q)
		if len(hits) != 1 {
			t.Fatalf("%s: %d hits", c.text, len(hits))
		}
		if got := memory.Highlight(hits[0].Text, hits[0].Spans, "[", "]"); got != c.want {
			t.Errorf("%s: %s", c.text, got)
		}
	}
}
