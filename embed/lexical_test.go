package embed

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zeebo/xxh3"
)

var _ Embedder = (*Lexical)(nil)

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// TestGolden fails when vectors change on some platform, or with a dependency. Stored vectors must then be derived
// again: raise lexicalVersion, unless the analyzer's fingerprint has changed, and pin the new values.
func TestGolden(t *testing.T) {
	l := NewLexical()
	var b []byte
	texts := []string{
		"", "the", "cat", "The quick brown fox jumps over the lazy dog, and the dog sleeps.",
		"getUserID in src/auth.rs", "caf\u00e9 \u4eca\u5929\u5929\u6c14\u5f88\u597d \uc11c\uc6b8\uc5d0\uc11c \U0001f600", strings.Repeat("again and again ", 99),
	}
	idf := func(term string) float64 { return float64(len(term)) / 3 }
	for _, text := range texts {
		for _, v := range [][]float32{l.Document(text), l.Query(text, idf)} {
			for _, x := range v {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
		}
	}
	if got, want := xxh3.Hash(b), uint64(0x30a64cb23f595fb7); got != want {
		t.Errorf("vectors hash to %#x, want %#x", got, want)
	}
	if got, want := l.Model(), "lexical-1-512-english-1-ab975387886a48f7"; got != want {
		t.Errorf("model %q, want %q", got, want)
	}
}

// TestZero: the zero value is the built-in embedder, by value and behind a pointer.
func TestZero(t *testing.T) {
	want := NewLexical().Document("tea in Ghent")
	for _, e := range []Embedder{Lexical{}, &Lexical{}, NewLexical()} {
		got, err := e.Embed(t.Context(), []string{"tea in Ghent"})
		if err != nil || !slices.Equal(got[0], want) || e.Dim() != len(want) || !IsLexical(e) {
			t.Errorf("%T of %d dimensions: %v, error %v", e, e.Dim(), got, err)
		}
	}
	if IsLexical(NewCache(Lexical{}, 1, 0)) || IsLexical(nil) {
		t.Error("another embedder passes for the built-in one")
	}
}

func TestSimilarity(t *testing.T) {
	l := NewLexical()
	const text = "We received the package from Portugal on Monday morning"
	for _, tc := range []struct {
		name, near, far string
	}{
		{"same words", "the package from Portugal", "a letter from Spain"},
		{"inflection", "receiving packages", "sending letters"},
		{"typing errors", "packkage of Portugall", "garage of Germany"},
		{"questions", "What did we receive on Monday?", "What did you do on Friday?"},
		{"compounds", "package2 portugalTrip", "summerHoliday"},
	} {
		near, far := dot(l.Document(text), l.Query(tc.near, nil)), dot(l.Document(text), l.Query(tc.far, nil))
		if near < far+.1 {
			t.Errorf("%s: %q at %.3f, %q at %.3f", tc.name, tc.near, near, tc.far, far)
		}
	}
}

func TestIDF(t *testing.T) {
	l := NewLexical()
	idf := func(term string) float64 {
		switch term {
		case "zebra":
			return 8
		case "nan":
			return math.NaN()
		case "minus":
			return -1
		case "huge":
			return math.Inf(1)
		}
		return .1
	}
	v := l.Query("the zebra in our house", idf)
	if rare, common := dot(v, l.Document("zebra")), dot(v, l.Document("house")); rare < .9 || common > .3 {
		t.Errorf("cosine of the rare word %.3f, of the common one %.3f", rare, common)
	}
	if got, want := l.Query("nan zebra minus", idf), l.Query("zebra", idf); !slices.Equal(got, want) {
		t.Error("a word without a valid idf counts")
	}
	if got := l.Query("nan minus", idf); slices.ContainsFunc(got, func(x float32) bool { return x != 0 }) {
		t.Error("a query without words that count is not the zero vector")
	}
	if n := dot(l.Query("huge", idf), l.Query("huge", idf)); math.Abs(n-1) > 1e-6 {
		t.Errorf("infinite idf: squared length %v", n)
	}
}

// TestAnyBytes wants vectors of length 1, or 0 where there are no words, whatever the text is.
func TestAnyBytes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	l := NewLexical()
	texts := []string{
		strings.Repeat("x", 1<<20), strings.Repeat("word ", 1<<18), strings.Repeat("\u4eca", 1<<18),
		strings.Repeat("\u0431", 100), strings.Repeat("\U0001f600", 100), "\xff\xfe\x80",
	}
	for range 2_000 {
		b := make([]byte, rng.IntN(400))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		texts = append(texts, string(b))
	}
	for _, text := range texts {
		v := l.Document(text)
		if len(v) != l.Dim() {
			t.Fatalf("%.40q: %d numbers, want %d", text, len(v), l.Dim())
		}
		zero := !slices.ContainsFunc(v, func(x float32) bool { return x != 0 })
		if n := dot(v, v); !zero && math.Abs(n-1) > 1e-5 {
			t.Fatalf("%.40q: squared length %v", text, n)
		}
	}
	if v := l.Document("the \t..."); slices.ContainsFunc(v, func(x float32) bool { return x != 0 }) {
		t.Error("a text without words is not the zero vector")
	}
}

func TestEmbed(t *testing.T) {
	l := NewLexical()
	texts := []string{"one text", "", "another"}
	vectors, err := l.Embed(t.Context(), texts)
	if err != nil || len(vectors) != len(texts) {
		t.Fatalf("%d vectors, error %v", len(vectors), err)
	}
	for i, v := range vectors {
		if !slices.Equal(v, l.Document(texts[i])) {
			t.Errorf("vector %d is not that of %q", i, texts[i])
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if vectors, err := l.Embed(ctx, texts); !errors.Is(err, context.Canceled) || vectors != nil {
		t.Errorf("canceled: %d vectors, error %v", len(vectors), err)
	}
}

func TestConcurrentUse(t *testing.T) {
	l := NewLexical()
	want := l.Document(passage)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				l.Document("something else in between")
				if !slices.Equal(l.Document(passage), want) {
					t.Error("vector differs from the one made alone")
					return
				}
			}
		})
	}
	wg.Wait()
}

// passage is 570 bytes of English.
const passage = `When Maria came back from Lisbon in October she told everyone at the office that the new engine had ` +
	`finally passed its tests, and that she would be writing the report over the weekend. Nobody believed her at ` +
	`first; the project was late by three months, two of the people who knew it best had left, and the budget for ` +
	`1998 was already spent. "You'll see," she said, "it isn't a question of money." By Monday morning forty pages ` +
	`lay on the director's desk, carefully argued, with tables of measurements that nobody could quarrel with, and ` +
	`a short note of thanks, at last.`

func BenchmarkDocument(b *testing.B) {
	l := NewLexical()
	b.SetBytes(int64(len(passage)))
	b.ReportAllocs()
	for b.Loop() {
		l.Document(passage)
	}
}
