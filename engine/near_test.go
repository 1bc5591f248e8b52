package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestNear: where nothing has a word of a query, words near its own are found, and the plan says so.
func TestNear(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada, bob := memory.Scope{User: "ada"}, memory.Scope{User: "bob"}
	texts := map[string]string{}
	for _, text := range []string{
		"Prefers coffee in the morning.", "Der Termin beim Zahnarzt ist am Freitag.", "Die Krankenversicherung hat nicht alles bezahlt.",
		"Sukunimi on Virtanen, etunimi Aino.", "Lives in Reykjavik.",
	} {
		texts[mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: text}).ID] = text
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: bob, Text: "Keeps chinchillas."})
	for _, profile := range []memory.Profile{memory.ProfileText, memory.ProfileBest, memory.ProfileSubstrate} {
		for _, tc := range []struct {
			query, first string
			near         bool
		}{
			{"coffee", "Prefers coffee in the morning.", false},
			{"cofee", "Prefers coffee in the morning.", true},
			{"Zahnarzttermin", "Der Termin beim Zahnarzt ist am Freitag.", true},
			{"Versicherung", "Die Krankenversicherung hat nicht alles bezahlt.", true},
			{"Reikjavik", "Lives in Reykjavik.", true},
			{"chinchilas", "", false}, // of another scope
			{"zebra", "", false},
		} {
			found, err := db.Memories().Recall(t.Context(), memory.Query{Scope: ada, Text: tc.query, Profile: profile, Explain: true})
			if err != nil {
				t.Fatal(err)
			}
			first := ""
			if len(found.Hits) > 0 {
				first = texts[found.Hits[0].ID]
			}
			if first != tc.first || len(found.Plan.Near) > 0 != tc.near {
				t.Errorf("%s: %q finds %q by the near words %v", profile, tc.query, first, found.Plan.Near)
			}
			if hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: tc.query, Profile: profile, OnlyWords: true}); len(hits) > 0 && tc.near {
				t.Errorf("%s: %q finds %d by its own words", profile, tc.query, len(hits))
			}
		}
	}
}

// TestNearInTime: near words of a query of 8 MiB are looked for in a bounded time.
func TestNearInTime(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	for i := range 200 {
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: fmt.Sprintf("%s %s", strings.Repeat(string(rune('a'+i%26)), 5+i%50), strings.Repeat("xy", 1+i%30))})
	}
	began := time.Now()
	mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: strings.Repeat("qqqqqrrrrr ", memory.MaxText/16) + strings.Repeat("z", 64), Profile: memory.ProfileText})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
