package embed

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
)

// lexicalDim is the length of lexical vectors. TestLocomo measures R@10 by the cosine alone, and by half the cosine and
// a quarter of the share of query terms found: 128 numbers reach .430 and .581, 256 .524 and .624, 512 .569 and .635,
// 1,024 .612 and .644. Another hash moves these by .015, so that the last doubling is not worth its memory.
const lexicalDim = 512

// lexicalVersion is part of the model's name; raise it with every change of the rules.
const lexicalVersion = 1

// The pieces of words that are features have minGram to maxGram characters. Together those of one word weigh as much
// as the word. Pairs of words were tried as well, and cost recall.
const (
	minGram = 3
	maxGram = 5
)

// gramSeed keeps the piece "cat" apart from the word "cat".
const gramSeed = 0x6772616d

// Weights are summed in fixed point, with this as 1: integers add up to the same sum in any order and on every
// processor.
const unit = 1 << 16

// maxIDF bounds what a caller's idf may return: more than any term in 2³¹ documents can have.
const maxIDF = 64

// Lexical is the built-in embedder: a text's stems and the pieces of three to five characters of each are hashed to
// signed places of the vector (feature hashing; Weinberger et al., 2009), weighed by the logarithm of how often the
// word occurs, and the sum is normalised to length 1. The words that questions are put with do not count. A text
// without words yields the zero vector.
//
// Vectors are the same on every platform. The zero Lexical works, as a value or behind a pointer. It is safe for
// concurrent use, and embeds 570 bytes of English in some 10 µs.
type Lexical struct {
	dim int // 0: lexicalDim
}

// lexicalRules are what all Lexicals share. They stay those of the first version: vectors by them lie in databases, and
// the pieces of words bring most irregular forms together.
var lexicalRules = sync.OnceValue(analysis.FirstEnglish)

// NewLexical returns the built-in embedder.
func NewLexical() *Lexical { return &Lexical{} }

// IsLexical reports whether an Embedder is the built-in one, by value or behind a pointer.
func IsLexical(e Embedder) bool {
	switch e.(type) {
	case Lexical, *Lexical:
		return true
	}
	return false
}

// Dim returns the length of the vectors.
func (l Lexical) Dim() int { return cmp.Or(l.dim, lexicalDim) }

// Model names the rules, the dimension, and the analyzer whose stems are hashed.
func (l Lexical) Model() string {
	return fmt.Sprintf("lexical-%d-%d-%s", lexicalVersion, l.Dim(), lexicalRules().Fingerprint())
}

// Embed returns the Document vectors of texts. It fails only when ctx ends.
func (l Lexical) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		var err error
		if vectors[i], err = l.embed(ctx, text, nil); err != nil {
			return nil, fmt.Errorf("embed: stopped after %d of %d texts: %w", i, len(texts), err)
		}
	}
	return vectors, nil
}

// Document returns the vector of a text that is stored.
func (l Lexical) Document(text string) []float32 { return l.Query(text, nil) }

// Query returns the vector of a text that is searched for. The function idf, where it is not nil, returns the inverse
// document frequency of a term of the English analyzer, and makes rare words count for more; pieces inherit it from
// their word. What is not above 0 leaves a word out.
func (l Lexical) Query(text string, idf func(term string) float64) []float32 {
	v, _ := l.embed(context.Background(), text, idf) // it never ends
	return v
}

// QueryContext is Query, which ends with the context: only then is there an error.
func (l Lexical) QueryContext(ctx context.Context, text string, idf func(term string) float64) ([]float32, error) {
	return l.embed(ctx, text, idf)
}

// termsPerLook is how many terms are hashed between looks at the context: some 100 µs.
const termsPerLook = 256

// scratch is what embedding one text needs besides the result.
type scratch struct {
	bag analysis.Bag
	sum []int64
}

// scratches are of *scratch.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

// reset makes room for a sum of dim numbers.
func (s *scratch) reset(dim int) {
	s.bag.Reset()
	if cap(s.sum) < dim {
		s.sum = make([]int64, dim)
	}
	s.sum = s.sum[:dim]
	clear(s.sum)
}

func (l Lexical) embed(ctx context.Context, text string, idf func(term string) float64) ([]float32, error) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.reset(l.Dim())
	err := s.bag.AddQueryContext(ctx, lexicalRules(), text, 1)
	n := 0
	s.bag.Each(func(term string, freq uint32) { // in any order: sums of whole numbers
		if n++; n%termsPerLook == 0 && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return
		}
		weight := 1.0
		if freq > 1 {
			weight += math.Log(float64(freq))
		}
		if idf != nil {
			weight *= min(idf(term), maxIDF)
		}
		if weight > 0 { // and not NaN
			s.word(term, weight)
		}
	})
	if err != nil {
		return nil, err
	}
	return s.vector(), nil
}

// word adds a term and its pieces.
func (s *scratch) word(term string, weight float64) {
	s.add(xxh3.HashString(term), toUnits(weight))

	// Where the characters begin, and the end. Each is a byte at least.
	var bounds [analysis.MaxTermBytes + 1]int
	n := 0
	for i := range term {
		bounds[n] = i
		n++
	}
	bounds[n] = len(term)

	pieces := 0
	for size := minGram; size <= min(maxGram, n); size++ {
		pieces += n - size + 1
	}
	if pieces == 0 {
		return
	}
	each := toUnits(weight / math.Sqrt(float64(pieces)))
	for size := minGram; size <= min(maxGram, n); size++ {
		for i := range n - size + 1 {
			s.add(xxh3.HashStringSeed(term[bounds[i]:bounds[i+size]], gramSeed), each)
		}
	}
}

// toUnits rounds to fixed point, which takes away the last bits in which logarithms differ between processors.
func toUnits(weight float64) int64 { return int64(math.Round(weight * unit)) }

// add adds a feature at the place and with the sign that its hash says.
func (s *scratch) add(hash uint64, weight int64) {
	if hash>>63 == 1 {
		weight = -weight
	}
	s.sum[hash%uint64(len(s.sum))] += weight
}

// vector returns the sum at length 1.
func (s *scratch) vector() []float32 {
	var squares float64
	for _, x := range s.sum {
		// The conversion keeps the product from being fused with the sum, which not every processor does.
		squares += float64(float64(x) * float64(x))
	}
	v := make([]float32, len(s.sum))
	if squares == 0 {
		return v
	}
	length := math.Sqrt(squares)
	for i, x := range s.sum {
		v[i] = float32(float64(x) / length)
	}
	return v
}
