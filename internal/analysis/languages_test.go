package analysis

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/seed-7aedc3ff/memdb/internal/languageset"
	"github.com/seed-7aedc3ff/memdb/internal/realdata"
)

// TestDetect: each text of the set says its language, with few exceptions, and no English one says another.
func TestDetect(t *testing.T) {
	a := NewAuto()
	wrong, all := 0, 0
	for _, l := range languageset.All() {
		if _, stemmed := languageNamed(l.Code); !stemmed {
			continue // Chinese, Japanese, Korean
		}
		for _, p := range l.List {
			all++
			got := a.Languages(p.Memory)
			if len(got) == 1 && (got[0].Code() == l.Code || got[0] == Danish && l.Code == "no" || got[0] == Norwegian && l.Code == "da") {
				continue // Danish and Norwegian share most of what is written
			}
			wrong++
			t.Logf("%s: %q is %v", l.Code, p.Memory, got)
			if l.Code == "en" {
				t.Errorf("an English text is in %v", got)
			}
		}
	}
	t.Logf("%d of %d languages are wrong", wrong, all)
	if 100*wrong > 5*all {
		t.Errorf("%d of %d languages are wrong, want at most 5%%", wrong, all)
	}
}

// TestNoText: what has no text is in no language.
func TestNoText(t *testing.T) {
	for _, a := range []*Analyzer{NewAuto(), NewEnglish()} {
		if got := a.Languages(""); len(got) != 0 {
			t.Errorf("no text is in %v", got)
		}
	}
}

// englishTexts are English, with what might be taken for another language.
var englishTexts = []string{
	passage, "Los Angeles, then San Francisco", "He said que sera, sera", "the café's naïve résumé of Señor Peña", "Dr. von Neumann was here",
	"Die hard fans of Der Spiegel met in the bar", "My son had a hat on", "del x; de facto, vis-à-vis, déjà vu and so on",
	"α and β decay, a σ of 3 μm", "He ordered crème brûlée and a piña colada in São Paulo",
	"Ja, I know!", "La La Land was fun", "par for the course", "I met Zoë and Renée at the Møller house",
	"Angela Merkel met François Hollande in Düsseldorf, and they talked for hours.", "Is it a la carte or en route?",
}

// TestEnglishStays: texts that are English have the terms that an analyzer of English gives them, and no mark.
func TestEnglishStays(t *testing.T) {
	auto, english := NewAuto(), NewEnglish()
	for _, text := range englishTexts {
		sameAsEnglish(t, auto, english, text)
	}
}

// TestEnglishCollectionsStay: in collections of judged questions, whose figures must not move, no document and no
// question is taken for another language than English.
func TestEnglishCollectionsStay(t *testing.T) {
	auto, english := NewAuto(), NewEnglish()
	for _, name := range []string{"ir/cranfield", "ir/cisi", "locomo"} {
		dir := realdata.Path(t, name)
		texts := 0
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			// Lines and strings are shorter than documents, and so say less: what is English line by line is so as a whole.
			for line := range strings.Lines(string(b)) {
				for text := range strings.SplitSeq(line, `", "`) {
					texts++
					sameAsEnglish(t, auto, english, strings.TrimSpace(text))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d texts", name, texts)
	}
}

// sameAsEnglish reads a text as a field: one of three words that says nothing is read in other languages as well.
func sameAsEnglish(t *testing.T, auto, english *Analyzer, text string) {
	t.Helper()
	s := scanner{a: auto, detects: true, field: true, meter: meter{ctx: t.Context()}}
	s.scan(text)
	if got, want := s.tokens, english.Tokens(nil, text); !slices.Equal(got, want) {
		t.Errorf("%.80q (%v)\n got %s\nwant %s", text, auto.Languages(text), show(text, got), show(text, want))
	}
	var got, want Bag
	if err := got.AddField(t.Context(), auto, text, 1); err != nil {
		t.Error(err)
	}
	want.Add(english, text, 1)
	if !slices.Equal(got.Terms(), want.Terms()) && got.Languages()&^(1<<Greek) != 0 {
		t.Errorf("%.80q is in %v", text, got.Languages())
	}
	got.Reset()
	want.Reset()
	if err := got.AddQueryIn(t.Context(), auto, text, 1, 0); err != nil {
		t.Error(err)
	}
	want.AddQuery(english, text, 1)
	if !slices.Equal(got.Terms(), want.Terms()) {
		t.Errorf("%.80q as a query\n got %v\nwant %v", text, got.Terms(), want.Terms())
	}
}

// TestLanguageTerms: what becomes of forms of a word in a text of each language.
func TestLanguageTerms(t *testing.T) {
	a := NewAuto()
	for _, tc := range []struct{ name, text, want string }{
		{"German", "Ich habe die Häuser nicht gesehen", "ich(Ich) hab(habe) die haus(Häuser) nicht geseh(gesehen)"},
		{"French clitic", "l'été n'est pas là", "l ete(été) n est pas la(là)"},
		{"Turkish casing", "IŞIK ve ışık çok ILIK", "isik(IŞIK) ve isik(ışık) cok(çok) ilik(ILIK)"},
		{"Russian", "с книгами и в книгах", "с книг(книгами) и в книг(книгах)"},
		{"Arabic article", "قرأت الكتاب في المكتبة", "قرا(قرأت) كتاب(الكتاب) في مكتب(المكتبة)"},
		{"Hebrew", "הספרים של הילדה", "ספר(הספרים) של ילד(הילדה)"},
		{"Hindi", "लड़कियों ने किताबें पढ़ीं", "लडक(लड़कियों) ने किताब(किताबें) पढ(पढ़ीं)"},
		{"identifiers stay", "Das ist nicht src/auth.rs oder getUserID", "das(Das) ist nicht src/auth.rs src auth.rs auth rs oder getuserid(getUserID) get user(User) id(ID)"},
		{"two scripts", "The meeting about книгах was long", "meet(meeting) about книг(книгах) long"},
	} {
		if got := show(tc.text, a.Tokens(nil, tc.text)); got != tc.want {
			t.Errorf("%s: %q\n got %s\nwant %s", tc.name, tc.text, got, tc.want)
		}
	}
}

// TestScriptForms: forms of letters that people type for each other are one.
func TestScriptForms(t *testing.T) {
	for _, tc := range []struct {
		l    Language
		x, y string
	}{
		{Arabic, "مكتبة", "مکتبه"},
		{Arabic, "على", "علی"},
		{Persian, "کتابی", "كتابي"},
		{Urdu, "ہے", "هے"},
		{Hindi, "ज़मीन", "जमीन"},
		{Hindi, "हिन्दी", "हिंदी"},
		{Hindi, "चाँद", "चांद"},
		{Hebrew, "שָׁלוֹם", "שלום"},
		{Hebrew, "הבית", "בית"},
		{Persian, "می\u200cروم", "میروم"},
		{Romanian, "oraș", "oraş"},
		{German, "Straße", "STRASSE"},
		{Greek, "Αθήνας", "ΑΘΗΝΑΣ"},
	} {
		if x, y := termIn(tc.l, Fold(tc.x)), termIn(tc.l, Fold(tc.y)); x != y {
			t.Errorf("%v: %s is %s, %s is %s", tc.l, tc.x, x, tc.y, y)
		}
	}
}

// TestMarks: a document is marked with its languages, and the mark has no part in its length.
func TestMarks(t *testing.T) {
	a := NewAuto()
	const text = "Ich habe es nicht gesehen, и он тоже не видел"
	var b Bag
	b.Add(a, "some English before", 1)
	before := b.Length()
	b.Add(a, text, 1)
	b.Add(a, "and some after it", 1)
	var marks []string
	for _, k := range b.Terms() {
		if IsMark(k.Term) {
			marks = append(marks, k.Term)
		}
	}
	if want := []string{German.Mark(), Russian.Mark()}; !slices.Equal(marks, want) || b.Languages().String() != "de ru" {
		t.Errorf("marks %q, languages %v, want %q", marks, b.Languages(), want)
	}
	want := int(before) + len(a.Tokens(nil, text)) + len(a.Tokens(nil, "and some after it"))
	if int(b.Length()) != want {
		t.Errorf("length %d, want %d", b.Length(), want)
	}
	var again Bag
	again.Add(a, "some English before", 1)
	again.Add(a, "and some after it", 1)
	again.Add(a, text, 1)
	if !slices.Equal(b.Terms(), again.Terms()) {
		t.Error("the order of texts changes the terms")
	}
}

// TestQueryIn: the words of a query are read in all languages of its scope, and those of questions are left out in the
// language of the question alone.
func TestQueryIn(t *testing.T) {
	a := NewAuto()
	in := Languages(0).With(German).With(French).With(Russian)
	for text, want := range map[string]string{
		"Wo laufen die Hunde?":     "hund lauf laufen",
		"what did the dogs die of": "di die dog",
		"книгах":                   "книг книгах",
		"die der das":              "das der di die",
	} {
		var b Bag
		if err := b.AddQueryIn(t.Context(), a, text, 1, in); err != nil {
			t.Fatal(err)
		}
		var terms []string
		for _, k := range b.Terms() {
			terms = append(terms, k.Term)
			if k.Freq != 1 {
				t.Errorf("%q: %s counts %d", text, k.Term, k.Freq)
			}
		}
		if got := strings.Join(terms, " "); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestRandomLanguages holds what is true of all texts for mixtures of words of all languages, and that a text is found
// by itself in the languages that it is marked with.
func TestRandomLanguages(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var words []string
	for _, l := range languageset.All() {
		for _, p := range l.List {
			words = append(words, strings.Fields(p.Memory)...)
		}
	}
	words = append(slices.Concat(words, pieces), foreignPieces...)
	a := NewAuto()
	for range 4000 {
		var b strings.Builder
		for range 1 + rng.IntN(20) {
			b.WriteString(words[rng.IntN(len(words))] + []string{" ", "", ", "}[rng.IntN(3)])
		}
		text := b.String()
		checkTokens(t, a, text)
		var doc, query Bag
		doc.Add(a, text, 1)
		if err := query.AddQueryIn(t.Context(), a, text, 1, doc.Languages()); err != nil {
			t.Fatal(err)
		}
		tokens := a.Tokens(nil, text)
		if query.Len() == 0 && len(tokens) > 0 {
			t.Fatalf("%q: no terms of a query", text)
		}
		readings, err := a.Readings(t.Context(), text, doc.Languages())
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, k := range slices.Concat(readings...) {
			found[k.Term] = true
		}
		for _, k := range tokens {
			if !found[k.Term] {
				t.Fatalf("%q, in %v: the term %q of %q is in no reading", text, doc.Languages(), k.Term, text[k.Start:k.End])
			}
		}
	}
}

// TestStemmers: any word has a term in any language: valid, bounded, and the same each time.
func TestStemmers(t *testing.T) {
	race.Sequential(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	alphabets := []string{
		"abcdefghijklmnopqrstuvwxyzäöüßéèêàçñãõåøæşğıőűșț'", "абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґ", "ابتثجحخدذرزسشصضطظعغفقكلمنهوية ةىءآأپچژگکیٹڈڑںےہھ", "אבגדהוזחטיכלמנסעפצקרשתךםןףץ",
		"अआइईउऊएऐओऔकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसहािीुूेैोौंँः्", "αβγδεζηθικλμνξοπρσςτυφχψω", "அஆஇஈஉஊஎஏஐஒஓகஙசஞடணதநபமயரலவழளறனாிீுூெேைொோௌ்",
	}
	for range 15_000 {
		letters := []rune(alphabets[rng.IntN(len(alphabets))])
		word := make([]rune, 1+rng.IntN(24))
		for i := range word {
			word[i] = letters[rng.IntN(len(letters))]
		}
		for l := base + 1; l < languageCount; l++ {
			term := termIn(l, string(word))
			if term == "" || len(term) > MaxTermBytes || !utf8.ValidString(term) || term != termIn(l, string(word)) {
				t.Fatalf("%v: %q becomes %q", l, string(word), term)
			}
		}
	}
}

// TestHugeLanguages: 8 MiB of one script are analysed in time linear in the text, and end with the context.
func TestHugeLanguages(t *testing.T) {
	race.Sequential(t)
	a := NewAuto()
	for i, piece := range []string{"книга ", "ä", "ich habe nicht ", "كتاب ", "ספרים", "किताबें ", "σοφία ", "புத்தகம் ", "ığüşö", "العلم"} {
		size := 1 << 20
		if i < 2 {
			size = 8 << 20
		}
		text := strings.Repeat(piece, size/len(piece))
		began := time.Now()
		var b Bag
		b.Add(a, text, 1)
		took := time.Since(began)
		t.Logf("%q: %v", piece, took)
		if took > time.Minute {
			t.Errorf("%q repeated takes %v", piece, took)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := b.AddContext(ctx, a, text, 1); err == nil {
			t.Errorf("%q: no error of a context that has ended", piece)
		}
	}
}

// TestFoldTable holds the table of foldings to the rules.
func TestFoldTable(t *testing.T) {
	for r := range rune(latinEnd) {
		text := "a" + string(r) + "b"
		if got, want := string(appendFolded(nil, text)), folder.String(text); got != want {
			t.Errorf("%U: %q, want %q", r, got, want)
		}
	}
}

// TestWrongScript: a language in another script than its own is found as it is written.
func TestWrongScript(t *testing.T) {
	a := NewAuto()
	for _, text := range []string{"privet kak dela segodnya", "mera naam Ravi hai", "merhaba nasılsın", "ich спасибо habe", "Привет wie geht es dir?"} {
		doc := a.Tokens(nil, text)
		var b Bag
		b.Add(a, text, 1)
		for word := range strings.FieldsSeq(text) {
			var q Bag
			if err := q.AddQueryIn(t.Context(), a, word, 1, b.Languages()); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(q.Terms(), func(k TermFreq) bool {
				return slices.ContainsFunc(doc, func(d Token) bool { return d.Term == k.Term })
			}) {
				t.Errorf("%q does not find %q, which is in %v", word, text, b.Languages())
			}
		}
	}
}

// TestGoldenStems pins the stems of all words of the set: where they change, it takes another version of the rules.
func TestGoldenStems(t *testing.T) {
	a := NewAuto()
	var b strings.Builder
	for _, l := range languageset.All() {
		for _, p := range l.List {
			fmt.Fprintf(&b, "%s\t%s\n", l.Code, show(p.Memory, a.Tokens(nil, p.Memory)))
		}
	}
	checkGolden(t, "stems.txt", b.String())
}

// TestSilentWords: no word that speaks for a language is taken for one that does not.
func TestSilentWords(t *testing.T) {
	for _, list := range []map[string]uint32{wordVotes, bareVotes} {
		for w := range list {
			if silent(w) {
				t.Errorf("%s is silent", w)
			}
		}
	}
	for end := range endingSet {
		if w := "abc" + end; silent(w) || endingVotes(w) == 0 {
			t.Errorf("%s is silent", w)
		}
	}
	words, quiet := strings.Fields(strings.Repeat("copper engine river notebook ", 5)), 0
	for i := range 10_000 {
		w := fmt.Sprint(words[i%len(words)][:2+i%4], i)
		if silent(w) {
			quiet++
		}
	}
	if quiet < 9_000 {
		t.Errorf("of 10,000 words that are none %d are silent", quiet)
	}
}
