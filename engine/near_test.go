package engine

import (
	"fmt"
	"math"
	"slices"
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

// TestNearJoins: near words add to what has other words of the query, and what has only these stands behind, and says so.
func TestNearJoins(t *testing.T) {
	var smart []string // as many as a query finds
	for i := range 9 {
		smart = append(smart, fmt.Sprintf("He is a smart boy, %d.", i))
	}
	for _, tc := range []struct {
		name     string
		texts    []string // in the order in which they are wanted
		near     int      // how many of these, the last ones, have near words alone
		others   []string // that are not to be found
		query    string
		profiles []memory.Profile
	}{
		{
			name: "misspelt in a text", query: "coffee",
			texts: []string{"Prefers coffee in the morning.", "Wants more cofee."}, near: 1, others: []string{"Drinks tea."},
		},
		{
			name: "misspelt in the query", query: "cofee machine", profiles: []memory.Profile{memory.ProfileBest},
			texts:  []string{"The coffee machine of the office is new.", "The washing machine is broken.", "Likes coffee."},
			near:   1,
			others: []string{"Drinks tea."},
		},
		{
			name: "a part of compounds", query: "Versicherung",
			texts: []string{"Die Versicherung ist teuer.", "Die Krankenversicherung hat nicht bezahlt.", "Wo ist die Versicherungsnummer?"}, near: 2,
			others: []string{"Das ist ein Haus."},
		},
		{
			name: "a compound of parts", query: "Zahnarzttermin",
			texts: []string{"Der Zahnarzttermin ist am Montag.", "Der Termin beim Zahnarzt ist am Freitag."}, near: 1,
		},
		{name: "by chance", query: "passport", texts: []string{"Renewed her passport."}, others: []string{"Likes sports.", "Plays a sport."}},
		{name: "by chance, the other way", query: "sports", texts: []string{"Likes sports."}, others: []string{"Renewed her passport."}},
		{name: "written apart", query: "smartwatch", texts: []string{"Bought a smartwatch.", "Bought a smart watch."}, near: 1, others: []string{"Bought a house."}},
		{
			name: "written together", query: "my smart watch", profiles: []memory.Profile{memory.ProfileBest},
			texts: append([]string{"Bought a smartwatch in May."}, smart...), others: []string{"Bought a house."},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			db := openTest(t, vfs.NewMem(), Options{})
			ada := memory.Scope{User: "ada"}
			for _, text := range append(tc.texts, tc.others...) {
				mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: text})
			}
			if tc.profiles == nil {
				tc.profiles = []memory.Profile{memory.ProfileText, memory.ProfileBest, memory.ProfileSubstrate}
			}
			for _, profile := range tc.profiles {
				found, err := db.Memories().Recall(t.Context(), memory.Query{Scope: ada, Text: tc.query, Profile: profile, Explain: true})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for i, h := range found.Hits {
					got = append(got, h.Text)
					if h.Near != (i >= len(tc.texts)-tc.near) || i > 0 && h.Score > found.Hits[i-1].Score || math.Abs(partsSum(h.Parts)-h.Score) > 1e-12 {
						t.Errorf("%s: %q has near %v, score %v of parts %+v", profile, h.Text, h.Near, h.Score, h.Parts)
					}
				}
				slices.Sort(got[min(len(got), len(tc.texts)-tc.near):])
				want := slices.Clone(tc.texts)
				slices.Sort(want[len(tc.texts)-tc.near:])
				if !slices.Equal(got, want) || (len(found.Plan.Near) > 0) != (tc.near > 0) {
					t.Errorf("%s: %q finds %q by the near words %q, want %q", profile, tc.query, got, found.Plan.Near, want)
				}
				only := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: tc.query, Profile: profile, OnlyWords: true})
				if len(only) != len(tc.texts)-tc.near {
					t.Errorf("%s: %q alone finds %d", profile, tc.query, len(only))
				}
			}
		})
	}
}

// TestCompounds: of words that are written together a memory is found by a part that others have as a word, and by its
// parts what is asked for together, in ten texts of five languages.
func TestCompounds(t *testing.T) {
	for query, texts := range map[string][2]string{ // a text that has the word itself, and one that has it in another
		"Versicherung":   {"Die Versicherung für das Auto ist teuer.", "Die Krankenversicherung hat gestern nicht bezahlt."},
		"Schlüssel":      {"Der Schlüssel von dem Büro ist hier.", "Der Autoschlüssel ist wieder nicht da."},
		"Termin":         {"Der Termin mit der Bank ist morgen.", "Der Zahnarzttermin ist am Freitag um neun."},
		"Rechnung":       {"Ich habe die Rechnung nicht gesehen.", "Wir haben die Stromrechnung noch nicht bezahlt."},
		"verzekering":    {"De verzekering van het huis is duur.", "De zorgverzekering heeft het niet betaald."},
		"sleutel":        {"Hij heeft de sleutel van de kelder.", "Zij is de autosleutel weer kwijt."},
		"forsikring":     {"Hun har en forsikring til huset.", "Han har ikke betalt sin sygeforsikring."},
		"försäkring":     {"Vi har en försäkring för huset.", "Hon har inte betalat sin bilförsäkring."},
		"nyckel":         {"Han har en nyckel till källaren.", "Hon har inte sin bilnyckel här."},
		"Zahnarzttermin": {"Der Zahnarzttermin ist für die Kinder.", "Am Freitag ist ein Termin bei dem Zahnarzt."},
	} {
		db := openTest(t, vfs.NewMem(), Options{})
		ada := memory.Scope{User: "ada"}
		for _, text := range texts {
			mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: text})
		}
		for _, profile := range []memory.Profile{memory.ProfileText, memory.ProfileBest} {
			hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: query, Profile: profile})
			if len(hits) != 2 || hits[0].Text != texts[0] || hits[0].Near || hits[1].Text != texts[1] || !hits[1].Near {
				t.Errorf("%s: %q finds %+v", profile, query, hits)
			}
		}
	}
}
