package policy

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestRecency(t *testing.T) {
	const week = RecencyHalfLife
	for _, tc := range []struct {
		age, halfLife time.Duration
		want          float64
	}{
		{0, week, 1},
		{-time.Hour, week, 1},
		{math.MinInt64, week, 1},
		{week, week, .5},
		{2 * week, week, .25},
		{10 * week, week, 1.0 / 1024},
		{math.MaxInt64, 1, 0},
		{0, 0, 1},
		{1, 0, 0},
		{1, -week, 0},
	} {
		if got := Recency(tc.age, tc.halfLife); got != tc.want {
			t.Errorf("Recency(%v, %v) = %v, want %v", tc.age, tc.halfLife, got, tc.want)
		}
	}
	if r := Recency(time.Hour, week); r <= .99 || r >= 1 {
		t.Errorf("after an hour %v, want just below 1", r)
	}
}

func TestHybrid(t *testing.T) {
	for _, tc := range []struct {
		name    string
		signals Signals
		want    float64
	}{
		{"nothing", Signals{}, 0},
		{"all", Signals{Cosine: 1, Keywords: 1, BM25: 1, Recency: 1, Importance: 1, Confidence: 1}, 1},
		{"cosine", Signals{Cosine: 1}, .5},
		{"opposite", Signals{Cosine: -1}, -.5},
		{"keywords", Signals{Keywords: 1}, .25},
		{"BM25", Signals{BM25: 1}, 0},
		{"recency", Signals{Recency: 1}, .1},
		{"importance", Signals{Importance: 1}, .1},
		{"confidence", Signals{Confidence: 1}, .05},
		{"neighbours", Signals{Neighbours: 1}, 0},
		{"session", Signals{Session: 1}, 0},
		{"second look", Signals{SecondLook: 1}, 0},
		{"access", Signals{Access: 1}, 0},
	} {
		if got := Hybrid().Score(tc.signals); math.Abs(got-tc.want) > 1e-15 {
			t.Errorf("%s: score %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestSubstrate(t *testing.T) {
	for _, tc := range []struct {
		name    string
		signals Signals
		want    float64
	}{
		{"nothing", Signals{}, 0},
		{"all", Signals{Cosine: 1, Keywords: 1, BM25: 1, Neighbours: 1, Recency: 1, Access: 1, Importance: 1, Confidence: 1}, 1},
		{"BM25", Signals{BM25: 1}, .6},
		{"recency", Signals{Recency: 1}, .15},
		{"access", Signals{Access: 1}, .15},
		{"importance", Signals{Importance: 1}, .1},
	} {
		if got := Substrate().Score(tc.signals); math.Abs(got-tc.want) > 1e-15 {
			t.Errorf("%s: score %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestRetention(t *testing.T) {
	const day = 24 * time.Hour
	for _, tc := range []struct {
		idle time.Duration
		want float64
	}{
		{0, 1},
		{-day, 1},
		{day, .95},
		{2 * day, .9025},
		{324 * time.Hour, .5}, // 13.5 days
	} {
		if got := Retention(tc.idle); math.Abs(got-tc.want) > 1e-3 {
			t.Errorf("Retention(%v) = %v, want %v", tc.idle, got, tc.want)
		}
	}
	if got := Retention(math.MaxInt64); got < 0 || got > 1e-9 {
		t.Errorf("after 292 years %v is left", got)
	}
}

func TestAccessFrequency(t *testing.T) {
	const day = 24 * time.Hour
	for _, tc := range []struct {
		count uint64
		idle  time.Duration
		want  float64
	}{
		{0, 0, 0},
		{0, day, 0},
		{1, 0, .15019},
		{9, 0, .49892},
		{FrequentAccess, 0, 1},
		{math.MaxUint64, 0, 1},
		{FrequentAccess, day, .95},
		{9, day, .95 * .49892},
		{9, -day, .49892},
	} {
		if got := AccessFrequency(tc.count, tc.idle); math.Abs(got-tc.want) > 1e-5 {
			t.Errorf("AccessFrequency(%d, %v) = %v, want %v", tc.count, tc.idle, got, tc.want)
		}
	}
}

func TestWithNeighbours(t *testing.T) {
	for _, tc := range []struct{ own, squares, want float64 }{
		{0, 0, 0}, {2, 0, 2}, {0, 9, 3}, {3, 16, 5},
	} {
		if got := WithNeighbours(tc.own, tc.squares); got != tc.want {
			t.Errorf("WithNeighbours(%v, %v) = %v, want %v", tc.own, tc.squares, got, tc.want)
		}
	}
	last := 1.0
	for place, w := range NeighbourWeights() {
		if w <= 0 || w >= last {
			t.Errorf("the weight %d places away is %v, after %v", place+1, w, last)
		}
		last = w
	}
}

// TestScoreIsSumOfParts wants equal bits: explain must show what ranked.
func TestScoreIsSumOfParts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 10_000 {
		w := Weights{rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64()}
		s := Signals{2*rng.Float64() - 1, rng.Float64(), 20 * rng.Float64(), 20 * rng.Float64(), 20 * rng.Float64(), 20 * rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64()}
		p := w.Parts(s)
		sum := p.Cosine
		for _, part := range []float64{p.Keywords, p.BM25, p.Neighbours, p.Session, p.SecondLook, p.Recency, p.Access, p.Importance, p.Confidence, p.Graph, p.Fact} {
			sum += part
		}
		if got := w.Score(s); got != sum {
			t.Fatalf("%+v of %+v: score %v, sum of parts %v", w, s, got, sum)
		}
	}
}

func TestImportance(t *testing.T) {
	for _, tc := range []struct {
		text, role string
		want       float64
	}{
		{"", "user", .18},
		{"", "system", .30},
		{"", "assistant", .12},
		{"", "tool", .06},
		{"", "poet", .12},
		{strings.Repeat("x", 250), "user", .18 + .175},
		{strings.Repeat("x", 5000), "user", .18 + .35},
		{strings.Repeat("\u732b", 250), "user", .18 + .175}, // characters, not bytes
		{"never milk", "user", .18 + .0070 + .35/3},
		{"Never milk, NEVER never!", "user", .18 + .0168 + .35/3},
		{"remember, remembers", "user", .18 + .0133 + .35/3}, // forms of one word
		{"nevertheless", "user", ImportanceWithContent},
		{"nevertheless", "assistant", .12 + .0084},
		{"always, never: must milk", "user", .18 + .0168 + .35},
		{"I love it, never mind, always!", "user", ImportanceWithoutContent},
		{"okay", "system", .30 + .0028},
		{strings.Repeat("always never must need ", 100), "system", 1},
	} {
		if got := Importance(tc.text, tc.role); math.Abs(got-tc.want) > .5e-4 { // rounded to four digits
			t.Errorf("Importance(%.30q, %q) = %v, want %v", tc.text, tc.role, got, tc.want)
		}
	}
}

// TestImportanceAndEviction holds the weights to what their comment says of the default threshold.
func TestImportanceAndEviction(t *testing.T) {
	const minImportance = .2
	for _, role := range []string{"user", "assistant", "tool"} {
		if i := Importance("ok", role); i >= minImportance {
			t.Errorf("a bare ok of %s has importance %v, want below %v", role, i, minImportance)
		}
	}
	if i := Importance("We moved to the new office on Tuesday.", "user"); i < minImportance {
		t.Errorf("a user's sentence has importance %v, want at least %v", i, minImportance)
	}
}

func TestImportanceIsAShare(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 1_000 {
		b := make([]byte, rng.IntN(2000))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if got := Importance(string(b), string(b[:min(4, len(b))])); got < 0 || got > 1 {
			t.Fatalf("Importance(%q) = %v", b, got)
		}
	}
}

func TestKeywordsFit(t *testing.T) {
	for word, i := range keywords {
		if len(word) < shortestKeyword || len(word) > longestKeyword || i >= 64 {
			t.Errorf("keyword %q (group %d) is never found", word, i)
		}
	}
}

func BenchmarkImportance(b *testing.B) {
	text := strings.Repeat("Nothing in this sentence asks to be kept in mind. ", 12)
	for b.Loop() {
		Importance(text, "user")
	}
}

// TestCountKeywords compares the fast scan with the plain rule: words are runs of letters, whatever their case.
func TestCountKeywords(t *testing.T) {
	plain := func(text string) int {
		seen := map[int]bool{}
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
			if k, ok := keywords[strings.ToLower(word)]; ok {
				seen[k] = true
			}
		}
		return min(len(seen), ImportanceFullKeywords)
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	pieces := []string{
		" ", ", ", "-", "'", "9", "\x80", "\u2014", "\u00e9", "\u00df", "\u6771", "x", "Note", "noted", "MUST", "must", "bug", "bugs",
		"requirements", "requirement", "plan", "plans", "Error", "lov", "love", "e", "s", "always", "",
	}
	for range 20_000 {
		var text strings.Builder
		pieces := pieces[rng.IntN(len(pieces)):] // some without what is beyond ASCII
		for range rng.IntN(60) {
			text.WriteString(pieces[rng.IntN(len(pieces))])
		}
		if got, want := countKeywords(text.String()), plain(text.String()); got != want {
			t.Fatalf("%q has %d keywords, want %d (seed %d)", text.String(), got, want, seed)
		}
	}
}

// TestFromEntity: what few memories share says more of each of them.
func TestFromEntity(t *testing.T) {
	for _, test := range []struct {
		rank        float64
		linked, all int
		want        float64
	}{{1, 1, 100, 1}, {1, 10, 100, .5}, {.5, 10, 100, .25}, {1, 100, 100, 0}, {1, 0, 100, 0}, {1, 1, 1, 0}, {1, 5, 3, 0}} {
		if got := FromEntity(test.rank, test.linked, test.all); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
