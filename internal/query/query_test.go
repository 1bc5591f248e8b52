package query

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
)

// showPhrase renders the readings of a phrase.
func showPhrase(readings [][]string) string {
	var quoted []string
	for _, tokens := range readings {
		quoted = append(quoted, fmt.Sprintf("%q", strings.Join(tokens, " ")))
	}
	return strings.Join(quoted, "|")
}

// show renders a query: the sign, the kind, what it looks for.
func show(q *Query) string {
	var parts []string
	for _, c := range q.Clauses {
		s := []string{"", "+", "-"}[c.Occur]
		switch c.Kind {
		case Word:
			s += strings.Join(c.Terms, "|")
		case Phrase:
			s += showPhrase(c.tokens)
		case Prefix:
			s += c.Base + "*"
		case Fuzzy:
			s += fmt.Sprintf("%s~%d", c.Base, c.Distance)
		}
		if c.Weight != 1 {
			s += fmt.Sprintf("^%v", c.Weight)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " ")
}

func TestParse(t *testing.T) {
	a := analysis.NewEnglish()
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"green teas", "green tea"},
		{"tea tea", "tea^2"},
		{"What did she say about tea?", "about say tea"},
		{"+tea -coffee milk", "+tea -coffe milk"},
		{"tea AND milk", "+tea +milk"},
		{"tea OR milk", "milk tea"},
		{"tea AND NOT milk sugar", "+tea -milk sugar"},
		{"NOT milk tea", "-milk tea"},
		{"a AND b AND c", "+b +c"}, // "a" is a stop word
		{`"green tea" cup`, `+"green tea" cup`},
		{`-"green tea" cup`, `-"green tea" cup`},
		{`“green tea” cup`, `+"green tea" cup`},
		{`NOT "green tea" cup`, `-"green tea" cup`},
		{`"tea"`, "+tea"},
		{`"the"`, ""},
		{`"" tea`, "tea"},
		{"choc* tee~ teee~2", "choc* tee~1 teee~2"},
		{"+choc* -tee~1", "+choc* -tee~1"},
		{"Caf\u00c9* ", "cafe*"},
		{"running*", "running*"},
		{"src/au*", "src/au*"},
		{"+foo.ba* -foo.ba~", `+foo.ba* -foo.ba~1`},
		{"+well-known*", `+"well know"`},
		{"-well-known~2 tea", `-"well know" tea`},
		{"well-known*", "know well"},
		{"+天气*", `+"天 天气 气"`},
		{"+src/auth.rs", "+src/auth.rs src auth.rs auth rs"},
		{"-src/auth.rs tea", "-src/auth.rs tea"},
		{"+well-known", `+"well know"`},
		{"+天气", `+"天 天气 气"`},
		{"+don't", "+dont"},
		// No signs:
		{"well-known -5 +1 - x -- --flag", "1 5 flag know well x"},
		{"5\" nails", "5 nail"},
		{`"green tea`, "green tea"},
		{`say "x`, "say x"},
		{"**bold** a* te~3 ~2 *", "3 bold te 2"},
		{"AND", ""},
		{"AND OR NOT", ""},
		{"tea AND", "tea"},
		{"OR tea", "tea"},
		{"tea NOT", "tea"},
		{"t~ te~2", "t te 2"},
		{"+", ""},
		{`+"`, ""},
		{"+ tea", "tea"},
		{"which~ AND", "which~1"},
		{"and or not", ""},
	} {
		got := show(Parse(a, c.text))
		if want := c.want; got != want && !sameWords(got, want) {
			t.Errorf("%q\n got %s\nwant %s", c.text, got, want)
		}
	}
}

// TestPrefixOfParts: a prefix that is no term itself stands for none of its parts.
func TestPrefixOfParts(t *testing.T) {
	c := Parse(analysis.NewEnglish(), "+src/au*").Clauses[0]
	for term, want := range map[string]bool{"src/auth.rs": true, "src": false, "au": false, "auth": false} {
		if _, ok := c.Accept([]byte(term)); ok != want {
			t.Errorf("src/au* stands for %s: %v", term, ok)
		}
	}
}

// sameWords compares queries of plain words in any order.
func sameWords(a, b string) bool {
	count := map[string]int{}
	for w := range strings.FieldsSeq(a) {
		count[w]++
	}
	for w := range strings.FieldsSeq(b) {
		count[w]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// Text without signs is what the analyzer takes, in its order.
func TestPlainText(t *testing.T) {
	a := analysis.NewEnglish()
	for _, text := range []string{"who am i", "The cat, and the dog: running!", "src/auth.rs -5 \"", strings.Repeat("many words here ", 9)} {
		var bag analysis.Bag
		bag.AddQuery(a, text, 1)
		q := Parse(a, text)
		if len(q.Clauses) != len(bag.Terms()) {
			t.Fatalf("%q: %s", text, show(q))
		}
		for i, term := range bag.Terms() {
			if c := q.Clauses[i]; c.Terms[0] != term.Term || c.Weight != float64(term.Freq) || c.Occur != Should || c.Kind != Word {
				t.Errorf("%q: clause %d is %+v, want %+v", text, i, c, term)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	race.Sequential(t)
	a := analysis.NewEnglish()
	words := func(n int, form string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, form+" ", fmt.Sprintf("word%dx", i))
		}
		return b.String()
	}
	for _, text := range []string{
		words(100_000, "%s"), words(100_000, "+%s"), words(100_000, "-%s"), words(100_000, "%s*"), words(100_000, "%s~2"),
		words(50_000, `"%s other"`), words(50_000, `-"%s other"`), words(50_000, "%s AND"), words(100_000, "NOT"),
		strings.Repeat(`"`, 100_001), strings.Repeat("“", 40_000), strings.Repeat(`+"`, 50_001), strings.Repeat("AND ", 25_000),
		`"` + words(100_000, "%s") + `"`, strings.Repeat("x", 100_000) + "*", strings.Repeat("\xff", 100_000),
	} {
		began := time.Now()
		q := Parse(a, text)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%.20q… of %d bytes took %v", text, len(text), took)
		}
		check(t, q)
	}
}

// check holds a query to the limits.
func check(t *testing.T, q *Query) {
	t.Helper()
	terms := 0
	for _, c := range q.Clauses {
		switch c.Kind {
		case Prefix, Fuzzy:
			terms += MaxExpansions
			if c.Base == "" || len(c.Base) > analysis.MaxTermBytes || c.Distance > MaxDistance {
				t.Errorf("clause %+v", c)
			}
		default:
			terms += len(c.Terms)
			if len(c.Terms) == 0 || c.Kind == Phrase && (c.Occur == Should || (len(c.tokens) == 0 || len(c.tokens[0]) < 2)) {
				t.Errorf("clause %+v", c)
			}
		}
		if c.Weight <= 0 {
			t.Errorf("clause %+v", c)
		}
	}
	if terms > MaxTerms {
		t.Errorf("%d terms", terms)
	}
}

func TestMatches(t *testing.T) {
	a := analysis.NewEnglish()
	for _, c := range []struct {
		query, text string
		want        bool
	}{
		{`"green tea"`, "a cup of Green Teas!", true},
		{`"green tea"`, "tea, green", false},
		{`"green tea"`, "green iced tea", false},
		{`"green tea"`, "green green tea", true},
		{`-"green tea" cup`, "a cup of green tea", false},
		{`-"green tea" cup`, "a cup of tea, green", true},
		{`"state of the art"`, "State-of-the-art", true},
		{`"see src"`, "see src/auth.rs", true},
		{`"auth.rs handler"`, "the src/auth.rs handler", true},
		{`"see auth"`, "see src/auth.rs", false},
		{`"user id"`, "call getUserID now", true},
		{`"天很"`, "天气很好", false},
		{`"天 很"`, "天气很好", false},
		{`"气很"`, "天气很好", true},
		{`"データ"`, "このデータを見る", true},
		{`"서울"`, "오늘 서울에서", true},
		{`"green tea" "iced coffee"`, "iced coffee, green tea", true},
		{`"green tea" "iced coffee"`, "green tea, hot coffee", false},
		{"+well-known", "a well known fact", true},
		{"tea", "anything", true},
	} {
		if got := Parse(a, c.query).Matches(c.text); got != c.want {
			t.Errorf("%s in %q: %v", c.query, c.text, got)
		}
	}
	two := Parse(a, `"green tea" "iced coffee" -"black cat"`)
	if !two.Matches("green tea", "iced coffee") || two.Matches("green tea iced", "coffee") || two.Matches("green tea", "iced coffee", "black cat") {
		t.Error("phrases in several texts")
	}
	if !two.NeedsTexts() || Parse(a, "+tea -milk choc*").NeedsTexts() {
		t.Error("NeedsTexts")
	}
}

func TestSpans(t *testing.T) {
	a := analysis.NewEnglish()
	for _, c := range []struct{ query, text, want string }{
		{"tea", "Tea, teas and coffee", "[Tea], [teas] and coffee"},
		{`"green tea"`, "tea: Green teas, tea", "tea: [Green teas], tea"},
		{"choc*", "Chocolate, choc, chalk", "[Chocolate], [choc], chalk"},
		{"chocolte~", "Chocolate or chalk", "[Chocolate] or chalk"},
		{"tea -milk", "tea milk", "[tea] milk"},
		{"auth", "see src/auth.rs!", "see src/[auth].rs!"},
		{"src/auth.rs", "see src/auth.rs!", "see [src/auth.rs]!"},
		{"user", "getUserID", "get[User]ID"},
		{"天气", "今天天气", "今[天天气]"},
		{"cafe", "CAFÉ", "[CAFÉ]"},
		{"👍", "ok 👍🏽!", "ok [👍🏽]!"},
		{"running*", "he runs and was running", "he [runs] and was [running]"},
		{"", "nothing", "nothing"},
	} {
		spans := Parse(a, c.query).Spans(nil, c.text)
		got, from := "", 0
		for _, s := range spans {
			got += c.text[from:s.Start] + "[" + c.text[s.Start:s.End] + "]"
			from = s.End
		}
		if got += c.text[from:]; got != c.want {
			t.Errorf("%s: %s, want %s", c.query, got, c.want)
		}
	}
}

// distance is Levenshtein's, by its definition.
func distance(a, b []rune) int {
	if len(a) == 0 || len(b) == 0 {
		return len(a) + len(b)
	}
	d := distance(a[1:], b[1:])
	if a[0] != b[0] {
		d = 1 + min(d, distance(a, b[1:]), distance(a[1:], b))
	}
	return d
}

func TestLevenshtein(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	word := func() string {
		var w []rune
		for range rng.IntN(6) {
			w = append(w, []rune("abé天")[rng.IntN(4)])
		}
		return string(w)
	}
	for range 20_000 {
		a, b, limit := word(), word(), 1+rng.IntN(2)
		want := distance([]rune(a), []rune(b))
		got, ok := levenshtein(a, b, limit)
		if ok != (want <= limit) || ok && got != want {
			t.Fatalf("%q, %q within %d: %d, %v, want %d", a, b, limit, got, ok, want)
		}
	}
	if _, ok := levenshtein("a", strings.Repeat("é", 500), 2); ok {
		t.Error("a long word is close to a short one")
	}
}

func FuzzParse(f *testing.F) {
	a := analysis.NewEnglish()
	for _, text := range []string{"", `+"a b" -c* NOT d~2`, "AND OR NOT", `"`, "“x", "a AND NOT b", "\xff*", "-\u0301~"} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, text, doc string) {
		q := Parse(a, text)
		check(t, q)
		q.Matches(doc, text)
		last := 0
		for _, s := range q.Spans(nil, doc) {
			if s.Start < last || s.End <= s.Start || s.End > len(doc) {
				t.Fatalf("span %v after %d of %d bytes", s, last, len(doc))
			}
			last = s.End
		}
	})
}
