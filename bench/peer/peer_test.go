package peer

import (
	"fmt"
	"slices"
	"testing"
)

// TestTexts puts the same documents into each engine: what it finds must be in
// the scope, match a word, and come in an order that rare words decide.
func TestTexts(t *testing.T) {
	docs := []Document{
		{"1", "ada", "The engine weaves algebraical patterns"},
		{"2", "ada", "Looms weave flowers and leaves"},
		{"3", "ada", "A flower is a flower is a flower"},
		{"4", "bob-1", "Flowers for nobody else"},
		{"5", "bob", "Engines and flowers"},
	}
	for _, o := range Texts() {
		t.Run(o.Name, func(t *testing.T) {
			if o.Missing != "" {
				t.Skip(o.Missing)
			}
			x, err := o.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			}()
			for i := range docs {
				if err := x.Add(t.Context(), docs[i:i+1]); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range []struct {
				scope, query string
				k            int
				want         []string
			}{
				{"ada", "flower?", 10, []string{"3", "2"}},
				{"ada", "flowers", 1, []string{"3"}},
				{"ada", "algebraical flower", 1, []string{"1"}},
				{"bob", "flower", 10, []string{"5"}},
				{"bob-1", "flower", 10, []string{"4"}},
				{"nobody", "flower", 10, nil},
				{"ada", `"); OR -- *`, 10, nil},
				{"ada", "", 10, nil},
			} {
				got, err := x.Search(t.Context(), c.scope, c.query, c.k)
				if err != nil {
					t.Fatalf("%s: %q: %v", c.scope, c.query, err)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("%s: %q: got %v, want %v", c.scope, c.query, got, c.want)
				}
			}
		})
	}
}

func TestMatchAny(t *testing.T) {
	want := fmt.Sprintf(`scope : "%s" AND text : ("Who" OR "s" OR "Ada" OR "42")`, scopeWord("x"))
	if got := matchAny("x", `Who's "Ada" (42)?`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
