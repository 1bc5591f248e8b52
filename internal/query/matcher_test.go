package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
)

// endsAfter is a context that ends when it is looked at for the n-th time.
type endsAfter struct {
	context.Context
	n, looks int
}

func (c *endsAfter) Err() error {
	if c.looks++; c.looks >= c.n {
		return context.Canceled
	}
	return nil
}

// modelNext finds a phrase in tokens from a place on, one beginning after the other.
func modelNext(phrase []string, tokens []analysis.Token, at int) (from, to int, ok bool) {
	for ; at < len(tokens); at++ {
		if to, ok := modelEnds(phrase, tokens, at); ok {
			return at, to, true
		}
	}
	return 0, 0, false
}

// modelEnds reports whether the phrase begins with the token at from, and after which it ends.
func modelEnds(phrase []string, tokens []analysis.Token, from int) (int, bool) {
	at := from
	for _, term := range phrase {
		for at < len(tokens) && tokens[at].Term != term {
			if at == from || at+1 == len(tokens) || !holds(&tokens[at], &tokens[at+1]) {
				return 0, false
			}
			at++
		}
		if at == len(tokens) {
			return 0, false
		}
		at++
	}
	return at, true
}

// TestMatcherIsTheModel: all phrases at once are found where each is by itself, in tokens
// of which many may be passed over and many stand in several phrases.
func TestMatcherIsTheModel(t *testing.T) {
	race.Sequential(t)
	const seed = 43
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	phrases, found := 0, 0
	for range 20_000 {
		words := 1 + rng.IntN(4)
		term := func() string { return fmt.Sprint("t", rng.IntN(words)) }
		q := &Query{}
		for range 1 + rng.IntN(5) {
			c := Clause{Occur: Must, Kind: Phrase}
			most := 4
			if rng.IntN(10) == 0 {
				most = maxPhraseTokens - 1
			}
			var tokens []string
			for range 2 + rng.IntN(most) {
				tokens = append(tokens, term())
			}
			c.tokens = [][]string{tokens}
			q.Clauses = append(q.Clauses, c)
		}
		m := q.Matcher()
		for i := range rng.IntN(600) {
			span := analysis.Token{Term: term(), Start: 10 * i, End: 10*i + 5}
			if rng.IntN(3) == 0 {
				span.End += 10 * rng.IntN(3)
			}
			m.tokens = append(m.tokens, span)
		}
		got := make([][][2]int, len(m.phrases))
		behind := make([]int, len(m.phrases))
		if err := m.run(t.Context(), func(n, end int) bool {
			got[n] = append(got[n], [2]int{m.began(n, behind[n], end), end})
			behind[n] = end
			clear(m.reached[m.phrases[n].at:][:m.phrases[n].n])
			return true
		}); err != nil {
			t.Fatal(err)
		}
		at := map[string]int{}
		for _, c := range q.Clauses {
			key := strings.Join(c.tokens[0], " ")
			n, known := at[key]
			if !known {
				n = len(at)
				at[key] = n
			}
			var want [][2]int
			for from, to, ok := modelNext(c.tokens[0], m.tokens, 0); ok; from, to, ok = modelNext(c.tokens[0], m.tokens, to) {
				want = append(want, [2]int{from, to})
			}
			if !slices.Equal(got[n], want) {
				t.Fatalf("%v in %v\n got %v\nwant %v", c.tokens, m.tokens, got[n], want)
			}
			phrases++
			found += len(want)
		}
	}
	if found < phrases {
		t.Errorf("%d phrases were found %d times: the texts are too unlike them", phrases, found)
	}
}

// nearPhrases is a query of phrases of the greatest length that almost match everywhere in
// teaText, each another.
func nearPhrases(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%smilk" `, strings.Repeat("tea ", maxPhraseTokens-2-i%200))
	}
	return b.String()
}

func teaText(words int) string { return "milk " + strings.Repeat("tea ", words) }

// TestPhraseSteps: the steps for many phrases that almost match are those of a step for
// each token and 64 places, not of a comparison for each token and place.
func TestPhraseSteps(t *testing.T) {
	const words = 25_000
	a := analysis.NewEnglish()
	for _, c := range []struct {
		text  string
		steps int64 // for each token
	}{
		{strings.Repeat(nearPhrases(1), 250), 10}, // all are one
		{nearPhrases(200), 2 * 4 * 201},
	} {
		m := Parse(a, c.text).Matcher()
		if ok, err := m.Matches(t.Context(), teaText(words)); ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
		if got := int64(MaxSteps) - m.left; got > c.steps*words {
			t.Errorf("%d phrases took %d steps for each of %d tokens, want at most %d", len(m.phrases), got/words, words, c.steps)
		}
	}
}

// TestStepsHaveALimit: a query that takes more is refused by the name of the limit, and
// phrases and spans end with their context.
func TestStepsHaveALimit(t *testing.T) {
	const words = 10_000
	a := analysis.NewEnglish()
	texts := map[string]string{
		"phrases": nearPhrases(100), "fuzzy words": "aaaaaaaab~2 aaaaaaaac~2",
	}
	var other strings.Builder
	for i := range words {
		fmt.Fprintf(&other, "aaaaaazz%d ", i)
	}
	for name, text := range texts {
		for what, look := range map[string]func(m *Matcher, ctx context.Context) error{
			"matches": func(m *Matcher, ctx context.Context) error {
				_, err := m.Matches(ctx, teaText(words))
				return err
			},
			"spans": func(m *Matcher, ctx context.Context) error {
				_, err := m.Spans(ctx, nil, teaText(words)+other.String())
				return err
			},
		} {
			if what == "matches" && name != "phrases" {
				continue // it does not look at them
			}
			q := Parse(a, text)
			m := q.Matcher()
			if err := look(m, t.Context()); err != nil {
				t.Errorf("%s of %s: %v", what, name, err)
			}
			least := int((MaxSteps - m.left) / stepsPerLook / 2)
			m = q.Matcher()
			m.left, m.until = 100_000, 100_000
			if err := look(m, t.Context()); !errors.Is(err, ErrSteps) || !strings.Contains(err.Error(), fmt.Sprint(int64(MaxSteps))) {
				t.Errorf("%s of %s with few steps: %v", what, name, err)
			}
			ctx := &endsAfter{Context: t.Context(), n: math.MaxInt}
			if err := look(q.Matcher(), ctx); err != nil {
				t.Error(err)
			}
			for _, n := range []int{1, ctx.looks / 2, ctx.looks} {
				if err := look(q.Matcher(), &endsAfter{Context: t.Context(), n: n}); !errors.Is(err, context.Canceled) {
					t.Errorf("%s of %s, ended by look %d of %d: %v", what, name, n, ctx.looks, err)
				}
			}
			if ctx.looks < least {
				t.Errorf("%s of %s: %d looks, want %d", what, name, ctx.looks, least)
			}
		}
	}
}

// TestParseEndsWithItsContext: so does the reading of a query of any kind.
func TestParseEndsWithItsContext(t *testing.T) {
	a := analysis.NewEnglish()
	for name, unit := range map[string]string{
		"plain words": "tea ", "operators": "tea AND ", "phrases": `"a b" `, "one phrase": "tea", "quotes": `"`, "fuzzy words": "tea~ ", "one word": "\ufdfa",
	} {
		text := strings.Repeat(unit, 64<<10/len(unit))
		if name == "one phrase" {
			text = `"` + strings.Repeat("tea ", 16<<10) + `"`
		}
		whole := &endsAfter{Context: t.Context(), n: math.MaxInt}
		want, err := ParseContext(whole, a, text)
		if err != nil || show(want) != show(Parse(a, text)) {
			t.Errorf("%s: %v", name, err)
		}
		for _, n := range []int{1, 2, whole.looks / 2, whole.looks} {
			if _, err := ParseContext(&endsAfter{Context: t.Context(), n: n}, a, text); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, ended by look %d of %d: %v", name, n, whole.looks, err)
			}
		}
		if _, err := Words(&endsAfter{Context: t.Context(), n: 1}, a, text, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("%s as words: %v", name, err)
		}
	}
}

func BenchmarkMatches(b *testing.B) {
	a := analysis.NewEnglish()
	memory := strings.Repeat("She said that the green tea of src/auth.rs was not as good as black coffee, and left. ", 12)
	for _, bm := range []struct{ name, query, text string }{
		{"phrase", `"green tea" `, memory},
		{"absent", `"green coffee" milk`, memory},
		{"ten phrases", strings.Repeat(`"green tea" "black coffee" "said that the" "good as black" "of src" `, 2), memory},
		{"near phrases", nearPhrases(200), teaText(25_000)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			m := Parse(a, bm.query).Matcher()
			b.SetBytes(int64(len(bm.text)))
			for b.Loop() {
				m.left, m.until = MaxSteps, MaxSteps
				if _, err := m.Matches(b.Context(), bm.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSpans(b *testing.B) {
	a := analysis.NewEnglish()
	memory := strings.Repeat("She said that the green tea of src/auth.rs was not as good as black coffee, and left. ", 12)
	word := strings.Repeat("a", 50) + "zzzzz "
	var fuzzy strings.Builder
	for i := range 8 {
		fuzzy.WriteString(strings.Repeat("a", 55) + string(rune('b'+i)) + "~2 ")
	}
	for _, bm := range []struct{ name, query, text string }{
		{"words", "green coffee", memory},
		{"all kinds", `"green tea" choc* coffe~ said`, memory},
		{"long fuzzy words", fuzzy.String(), strings.Repeat(word, 64<<10/len(word))},
	} {
		b.Run(bm.name, func(b *testing.B) {
			m := Parse(a, bm.query).Matcher()
			b.SetBytes(int64(len(bm.text)))
			var spans []Span
			for b.Loop() {
				m.left, m.until = MaxSteps, MaxSteps
				var err error
				if spans, err = m.Spans(b.Context(), spans[:0], bm.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
