package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/languageset"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestLanguages asks questions in 28 languages with other forms of the words that the
// memories have: with the languages in a scope each, and all of them in one.
func TestLanguages(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	all, ids := languageset.All(), map[string]string{}
	for _, l := range all {
		if len(l.List) < 10 {
			t.Fatalf("%s: %d pairs", l.Name, len(l.List))
		}
		for i, p := range l.List {
			for _, user := range []string{l.Code, "all"} {
				ids[fmt.Sprint(user, l.Code, i)] = mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: user}, Text: p.Memory}).ID
			}
		}
	}
	if len(all) < 20 {
		t.Fatalf("%d languages", len(all))
	}
	for _, tc := range []struct {
		user  func(code string) string
		least float64
	}{
		{func(code string) string { return code }, .95},
		{func(string) string { return "all" }, .92},
	} {
		found, asked := 0, 0
		for _, l := range all {
			first := 0
			var missed []string
			for i, p := range l.List {
				hits := mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: tc.user(l.Code)}, Text: p.Question, Profile: memory.ProfileText})
				if len(hits) > 0 && hits[0].ID == ids[fmt.Sprint(tc.user(l.Code), l.Code, i)] {
					first++
					continue
				}
				missed = append(missed, p.Question)
			}
			t.Logf("%-10s %-4s %d of %d  %s", l.Name, tc.user(l.Code), first, len(l.List), strings.Join(missed, " / "))
			found += first
			asked += len(l.List)
		}
		share := float64(found) / float64(asked)
		t.Logf("%.3f of %d questions are answered at rank 1", share, asked)
		if share < tc.least {
			t.Errorf("%.3f of the questions are answered at rank 1, want %.2f", share, tc.least)
		}
	}
}

// TestLanguagesMove: a database that was made for English alone is opened as it was, and a rebuild makes it one of all
// languages, for good; but not where Options.Language says that it is to stay.
func TestLanguagesMove(t *testing.T) {
	ada := memory.Scope{User: "ada"}
	for _, stays := range []bool{false, true} {
		fs := vfs.NewMem()
		db := openTest(t, fs, Options{Language: "english"})
		id := mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "Die Hunde laufen jeden Morgen durch die Wälder."}).ID
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "The dogs are running in the woods."})
		closeTest(t, db)
		for try, want := range []string{"english", "auto", "auto"} {
			o := Options{}
			if stays {
				o.Language, want = "english", "english"
			}
			db := openTest(t, fs, o)
			if try == 1 {
				if err := db.Rebuild(t.Context(), IndexText, nil); err != nil {
					t.Fatal(err)
				}
			}
			s := db.Settings()
			if s.Language != want || !strings.HasPrefix(s.Analyzer, want+"-") {
				t.Errorf("%d: %+v, want %s", try, s, want)
			}
			for query, found := range map[string]bool{"Wälder": true, "Welcher Wald?": want == "auto", "Hund": true, "running dog": true} {
				hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: query, Profile: memory.ProfileText, OnlyWords: true})
				if (len(hits) > 0) != found {
					t.Errorf("%d, %s: %q finds %d", try, want, query, len(hits))
				}
			}
			if hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: `"Hunde laufen"`, Syntax: memory.SyntaxOperators}); len(hits) != 1 || hits[0].ID != id {
				t.Errorf("%d, %s: the phrase finds %d", try, want, len(hits))
			}
			mustCheck(t, db, 2)
			closeTest(t, db)
		}
	}
}

// TestLanguageOperators: words and phrases with signs are read in the languages of the scope.
func TestLanguageOperators(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "Sie hat gestern den grünen Tee getrunken."})
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "Sie hat gestern schwarzen Kaffee mit grünen Tassen getrunken."})
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "She likes green teas."})
	for query, want := range map[string]int{
		"+grün": 2, "+grünem -kaffee": 1, `"grüner Tee"`: 1, `"green tea"`: 1, `getrunken -"grüner Tee"`: 1, "+teas": 1, "NOT grüne tea": 1,
		"+kaffees": 1, `"hat gestern"`: 2, "grün*": 2,
	} {
		hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: query, Syntax: memory.SyntaxOperators, Profile: memory.ProfileText})
		if len(hits) != want {
			t.Errorf("%s finds %d, want %d: %v", query, len(hits), want, hits)
		}
	}
	hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: "grüner Tee", Profile: memory.ProfileText, Highlight: true})
	if len(hits) == 0 || len(hits[0].Spans) != 2 {
		t.Errorf("highlights %+v", hits)
	}
}

// TestLanguagesOfAScope: a query is read in the languages of its scope, whatever others hold, also after the database
// is opened again, and says so in its plan.
func TestLanguagesOfAScope(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "de"}, Text: "Ich habe die alten Häuser nicht gesehen."})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ru"}, Text: "Она читает книги о больших кораблях."})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "en"}, Text: "She reads books about large ships."})
	for range 2 {
		for user, want := range map[string]string{"de": "[de]", "ru": "[ru]", "en": "[]"} {
			found, err := db.Memories().Recall(t.Context(), memory.Query{Scope: memory.Scope{User: user}, Text: "Haus корабль ship", Profile: memory.ProfileText, Explain: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(found.Plan.Languages); got != want || len(found.Hits) != 1 {
				t.Errorf("%s: languages %s, want %s; %d hits by %v", user, got, want, len(found.Hits), found.Plan.Terms)
			}
		}
		closeTest(t, db)
		db = openTest(t, fs, Options{})
	}
}

// TestShortNotes asks for notes of one to three words in ten languages, within those of their language, and beside
// longer memories of it: by their own words alone, and with near words.
func TestShortNotes(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	longer := map[string]languageset.Language{}
	for _, l := range languageset.All() {
		longer[l.Code] = l
	}
	ids := map[string]string{}
	for _, l := range languageset.Short() {
		if len(l.List) != 10 {
			t.Fatalf("%s: %d notes", l.Name, len(l.List))
		}
		for i, p := range l.List {
			if n := len(strings.Fields(p.Memory)); n > 3 {
				t.Fatalf("%q has %d words", p.Memory, n)
			}
			for _, user := range []string{"alone", "beside"} {
				ids[fmt.Sprint(user, l.Code, i)] = mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: user, Agent: l.Code}, Text: p.Memory}).ID
			}
		}
		for _, p := range longer[l.Code].List {
			mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "beside", Agent: l.Code}, Text: p.Memory})
		}
	}
	for _, user := range []string{"alone", "beside"} {
		for onlyWords, least := range map[bool]float64{true: .9, false: .95} {
			found, asked := 0, 0
			for _, l := range languageset.Short() {
				first := 0
				for i, p := range l.List {
					q := memory.Query{Scope: memory.Scope{User: user, Agent: l.Code}, Text: p.Question, Profile: memory.ProfileText, OnlyWords: onlyWords}
					if hits := mustRecall(t, db.Memories(), q); len(hits) > 0 && hits[0].ID == ids[fmt.Sprint(user, l.Code, i)] {
						first++
					} else {
						t.Logf("%s, %s: %q does not find %q first", user, l.Name, p.Question, p.Memory)
					}
				}
				if first < 7 {
					t.Errorf("%s, %s, only words %v: %d of 10", user, l.Name, onlyWords, first)
				}
				found += first
				asked += len(l.List)
			}
			if share := float64(found) / float64(asked); share < least {
				t.Errorf("%s, only words %v: %.3f of %d are found first, want %.2f", user, onlyWords, share, asked, least)
			}
		}
	}
}

// TestWordForms: a memory is found by other forms of its words than those that a stemmer knows, each beside one that is
// about something else.
func TestWordForms(t *testing.T) {
	for _, tc := range []struct{ text, query string }{
		{"She bought a bicycle in May.", "buying"},
		{"They lost the keys.", "who loses"},
		{"We met the children of Olga.", "meet a child"},
		{"There were mice in the cellar.", "mouse"},
		{"His number is 555-867-5309.", "5558675309"},
		{"His number is 5558675309.", "555 867 5309"},
		{"Call (555) 867-5309 on Monday.", "555-867-5309"},
		{"Call +1 555 867 5309 on Monday.", "5558675309"},
		{"他昨天買了一部新的電腦。", "电脑"},
		{"他昨天买了一部新的电脑。", "電腦"},
		{"我昨天買了iPhone15手機。", "iphone"},
		{"我昨天买了iPhone15手机。", "iPhone 15"},
		// Arabic: the article, what is written together with a word, and plurals that are made within it.
		{"ذهبت إلى المدرسة بسيارة جديدة.", "سيارة"},
		{"أعطى الكتاب لصديقه أمس في البيت.", "صديق"},
		{"يعمل أخي كطبيب في المستشفى.", "طبيب"},
		{"فذهب الرجل إلى السوق مع أخيه.", "ذهب"},
		{"وسافر إلى مدينة بعيدة في الصيف.", "سافر"},
		{"اشترت الكتب من المكتبة.", "كتاب"},
		{"يلعب الأطفال في الحديقة.", "طفل"},
		{"بيوت المدينة القديمة جميلة.", "بيت"},
		{"وصلت الرسائل أمس.", "رسالة"},
		{"سأسافر بالطائرة غدا.", "طائرة"},
		// Several languages in a sentence, and one in the script of another.
		{"Gestern haben wir the children im Park gesehen.", "child"},
		{"The meeting about книгах was long.", "книга"},
		{"privet kak dela segodnya", "segodnya"},
	} {
		db := openTest(t, vfs.NewMem(), Options{})
		ada := memory.Scope{User: "ada"}
		for _, other := range []string{"هذا نص آخر عن الطقس في باريس.", "The weather is fine, call 555-111-2222.", "今天天气很好。", "Das Wetter ist heute nicht gut."} {
			mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: other})
		}
		id := mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: tc.text}).ID
		for _, profile := range []memory.Profile{memory.ProfileText, memory.ProfileBest} {
			if hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: tc.query, Profile: profile}); len(hits) == 0 || hits[0].ID != id {
				t.Errorf("%s: %q does not find %q first: %v", profile, tc.query, tc.text, hits)
			}
		}
	}
}
