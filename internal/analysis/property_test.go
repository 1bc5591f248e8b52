package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// general tokenizes text by UAX #29 alone, without chunks and without the ASCII path: what the fast path must equal.
func general(a *Analyzer, text string) []Token {
	s := scanner{a: a, text: text}
	if a.detects {
		s.voices = voicesOf(text)
	}
	s.scanUnicode(0, len(text))
	return s.tokens
}

// checkTokens holds what is true of the tokens of any text.
func checkTokens(t *testing.T, a *Analyzer, text string) {
	t.Helper()
	tokens := a.Tokens(nil, text)
	start := 0
	for _, k := range tokens {
		switch {
		case k.Start < start || k.End <= k.Start || k.End > len(text):
			t.Fatalf("%q: token %q at [%d:%d] after one at %d", text, k.Term, k.Start, k.End, start)
		case k.Term == "" || len(k.Term) > MaxTermBytes || !utf8.ValidString(k.Term):
			t.Fatalf("%q: bad term %q", text, k.Term)
		}
		start = k.Start
	}
	if isASCII(text) {
		first := *a // numbers in groups are found a chunk at a time, on any path
		first.rules = firstRules
		if got, want := first.Tokens(nil, text), general(&first, text); !slices.Equal(got, want) {
			t.Fatalf("%q\nfast    %s\ngeneral %s", text, show(text, got), show(text, want))
		}
	}
	var b Bag
	b.Add(a, text, 1)
	if short := a.detects && len(text) <= shortBytes; int(b.Length()) > len(tokens) || !short && int(b.Length()) != len(tokens) {
		t.Fatalf("%q: bag of length %d, %d tokens", text, b.Length(), len(tokens))
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// pieces are what random texts are made of: each rule's triggers, so that they meet.
var pieces = strings.Split("a|b|T|t|s|I|ll|n't|don't|'|'s|word|Word|WORD|camelCase|HTTPServer|running|the|0|7|42|05|1,000|10.5|"+
	".|,|;|:|::|://|_|__|-|--|/|\\|@|#|++|+|(|)|\"| | |  |\t|\n|\x00|~|U.S|v1.2|x86_64", "|")

var foreignPieces = strings.Split("\u00e9|e\u0301|\u0301|\u2019|\u201c|\u2014|\u00ad|\u200d|\u200b|\ufe0f|\u0130|\u00df|\u017f|\ufb01|\uff21|\uff0e|\uff3f|"+
	"\u4eca|\u5929|\u304c|\u30c7|\u30fc|\uff83|\uff9e|\uc11c|\uc6b8|\u1100|\u0e2a|\u0e31|\u0e33|\u1798|\u17d2|\U0001f600|\U0001f3fd|\U0001f1eb|"+
	"\u20e3|\u0627|\u0640|\u0650|\u05d0|\u05b8|\u0663|\u0915|\u094d|\u0439|\u0451|\u00bd|\u33a1|\u3000|\u00a0|\xff|\xe4\xbb|\xf0", "|")

func randomText(rng *rand.Rand, from []string) string {
	var b strings.Builder
	for range rng.IntN(30) {
		b.WriteString(from[rng.IntN(len(from))])
	}
	return b.String()
}

func TestRandomTexts(t *testing.T) {
	race.Sequential(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	english, none := mustNew(t, English), mustNew(t, None)
	all := slices.Concat(pieces, foreignPieces)
	for range 15_000 {
		checkTokens(t, english, randomText(rng, pieces))
		checkTokens(t, none, randomText(rng, pieces))
		checkTokens(t, english, randomText(rng, all))
	}
}

func FuzzTokens(f *testing.F) {
	f.Add(probeText)
	f.Add(passage)
	f.Add(strings.Join(pieces, ""))
	f.Add(strings.Join(foreignPieces, ""))
	f.Add("caf\xe9 \xff na\xc3")
	english, none := mustNew(f, English), mustNew(f, None)
	f.Fuzz(func(t *testing.T, text string) {
		checkTokens(t, english, text)
		checkTokens(t, none, text)
	})
}

// TestHugeTexts runs what would take hours if any rule were quadratic.
func TestHugeTexts(t *testing.T) {
	race.Sequential(t)
	const size = 1 << 18
	a := mustNew(t, English)
	for _, piece := range []string{
		"a", "0", "_", "'", ".", "a.", "a'", "a_", "0,", "a-", "aB", "a1", "A.", "\u0301", "a\u0301", "\u4eca", "\u30c7", "\uc11c", "\u0e2a", "\u0e31",
		"\U0001f469\u200d", "\U0001f1eb", "\xff", "a:\u0301", "\u05d0\"", "\uff0e", "\u00e9", "C++",
		"5 ", "555 867 5309 ", "(5) ", "+5 ", "(", "+", "5-", "(5)", "\u570b",
	} {
		text := strings.Repeat(piece, size/len(piece))
		for _, k := range a.Tokens(nil, text) {
			if len(k.Term) > MaxTermBytes {
				t.Fatalf("%q repeated: term of %d bytes", piece, len(k.Term))
			}
		}
	}
}

// TestNormalizeShortcuts holds the tables to the rules, rune by rune and beside each other.
func TestNormalizeShortcuts(t *testing.T) {
	var quick []rune
	for r := rune(utf8.RuneSelf); r < 0x10000; r++ {
		if r >= latinEnd && r != '\u2019' && !isSettled(r) {
			continue
		}
		quick = append(quick, r)
		if got, want := normalize(string(r)), normalizeAny(string(r)); got != want {
			t.Errorf("%U: normalized to %q, by the rules to %q", r, got, want)
		}
		if isSettled(r) && folder.String(string(r)) != string(r) {
			t.Errorf("%U is settled but has a case", r)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 100_000 {
		text := string([]rune{quick[rng.IntN(len(quick))], 'a', quick[rng.IntN(len(quick))], quick[rng.IntN(len(quick))]})
		if got, want := normalize(text), normalizeAny(text); got != want {
			t.Fatalf("%q: normalized to %q, by the rules to %q", text, got, want)
		}
	}
}

// TestDigits holds the tables of decimal digits to what asciiDigit relies on: ranges made of whole runs.
func TestDigits(t *testing.T) {
	for _, rg := range unicode.Nd.R16 {
		if rg.Stride != 1 || (rg.Hi-rg.Lo+1)%10 != 0 {
			t.Errorf("%U to %U step %d is not made of runs from zero to nine", rg.Lo, rg.Hi, rg.Stride)
		}
	}
	for _, rg := range unicode.Nd.R32 {
		if rg.Stride != 1 || (rg.Hi-rg.Lo+1)%10 != 0 {
			t.Errorf("%U to %U step %d is not made of runs from zero to nine", rg.Lo, rg.Hi, rg.Stride)
		}
	}
	for r, want := range map[rune]byte{'\u0660': '0', '\u0669': '9', '\u096b': '5', '\U0001d7da': '2', '\U0001fbf7': '7'} {
		if got := asciiDigit(r); got != want {
			t.Errorf("%U is %c, want %c", r, got, want)
		}
	}
}

// TestBag compares bags with a map over the tokens.
func TestBag(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	english, none := mustNew(t, English), mustNew(t, None)
	var b Bag
	for range 2_000 {
		want := map[string]uint32{}
		var length uint32
		b.Reset()
		for range rng.IntN(12) {
			a := english
			if rng.IntN(2) == 0 {
				a = none
			}
			text, weight := randomText(rng, slices.Concat(pieces, foreignPieces, strings.Fields(passage))), rng.Uint32N(4)
			if weight == 3 {
				weight = math.MaxUint32 / 8
			}
			b.Add(a, text, weight)
			for _, k := range a.Tokens(nil, text) {
				if weight == 0 {
					break
				}
				want[k.Term] = uint32(min(math.MaxUint32, uint64(want[k.Term])+uint64(weight)))
				length = uint32(min(math.MaxUint32, uint64(length)+uint64(weight)))
			}
			if rng.IntN(3) == 0 {
				b.Terms() // sorting in between must not lose what follows
			}
		}
		checkBag(t, &b, want, length)
	}
}

func checkBag(t *testing.T, b *Bag, want map[string]uint32, length uint32) {
	t.Helper()
	terms := b.Terms()
	if b.Length() != length || len(terms) != len(want) {
		t.Fatalf("length %d with %d terms, want %d with %d", b.Length(), len(terms), length, len(want))
	}
	for i, k := range terms {
		if i > 0 && terms[i-1].Term >= k.Term {
			t.Fatalf("%q before %q", terms[i-1].Term, k.Term)
		}
		if k.Freq != want[k.Term] {
			t.Fatalf("%q: frequency %d, want %d", k.Term, k.Freq, want[k.Term])
		}
	}
}

// TestBagOfManyTerms grows a bag past what Reset keeps.
func TestBagOfManyTerms(t *testing.T) {
	a := mustNew(t, None)
	var text strings.Builder
	for i := range maxIdleSlots {
		text.WriteString(strings.Repeat("x", i%7+1))
		for n := i; n > 0; n /= 10 {
			text.WriteByte(byte('a' + n%10))
		}
		text.WriteByte(' ')
	}
	var b Bag
	for range 2 {
		want := map[string]uint32{}
		b.Add(a, text.String(), 1)
		for _, k := range a.Tokens(nil, text.String()) {
			want[k.Term]++
		}
		checkBag(t, &b, want, maxIdleSlots)
		b.Reset()
		checkBag(t, &b, map[string]uint32{}, 0)
	}
}
