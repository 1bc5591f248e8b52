package invindex

import (
	"fmt"
	"math"
)

// QueryTerm is a term of a query. A word that the query repeats has the weight 2;
// terms should be distinct.
type QueryTerm struct {
	// Text is the term.
	Text   string
	Weight float64 // above 0
}

// Hit is a document that was found.
type Hit struct {
	// Doc is the document, Score its BM25.
	Doc   uint32
	Score float32
}

// scorer computes the scores of one query in fixed point.
//
// A term's part of a score is at most its weight times idf. The unit is the power
// of two in which these sum to 2³⁰ to 2³¹: sums fit 32 bits and are finer than a
// float32, and a score is its sum, rounded once. A part is at least one unit, so
// that a document matches where its sum is not 0.
type scorer struct {
	weights []float64 // weight · idf in units, for each query term
	c0, c1  float64   // the length norm: c0 + c1·length
	unit    float64
}

const (
	sumBits  = 31
	minTotal = 1e-30 // far from where a score would lose bits or become 0
	maxTotal = 1e+30
)

func (x *Index) newScorer(q []QueryTerm, st *Stats) (*scorer, error) {
	if len(q) > MaxQueryTerms {
		return nil, tooManyTerms(len(q))
	}
	if len(st.DF) != len(q) {
		return nil, fmt.Errorf("%w: statistics of %d terms for a query of %d", ErrInvalid, len(st.DF), len(q))
	}
	b := x.b
	if st.B != 0 {
		b = st.B
	}
	s := &scorer{weights: make([]float64, len(q)), c0: x.k1 * (1 - b), c1: x.k1 * b}
	if st.Length > 0 {
		s.c1 = x.k1 * b * float64(st.N) / float64(st.Length)
	}
	total := 0.0
	for i, t := range q {
		if !validWeight(t.Weight) {
			return nil, fmt.Errorf("%w: term %q has the weight %v", ErrInvalid, t.Text, t.Weight)
		}
		s.weights[i] = t.Weight * idf(st.N, uint64(st.DF[i]))
		total += s.weights[i]
	}
	if len(q) > 0 && !(total >= minTotal && total <= maxTotal) {
		return nil, fmt.Errorf("%w: the weights sum to %g; %g to %g is possible", ErrInvalid, total, minTotal, maxTotal)
	}
	_, exp := math.Frexp(total)
	s.unit = math.Ldexp(1, exp-sumBits)
	for i := range s.weights {
		s.weights[i] /= s.unit
	}
	return s, nil
}

// idf is Lucene's: above 0 for every df. A df above N, from statistics of other
// documents than those scored, counts as N.
func idf(n, df uint64) float64 {
	df = min(df, n)
	return math.Log1p((float64(n-df) + 0.5) / (float64(df) + 0.5))
}

// part is the score of a posting: weight · freq / (freq + c0 + c1·length), and one
// unit. Rounding is the same wherever it is computed: the conversion of the
// product forbids to fuse it with the sum, which some processors would.
func (s *scorer) part(weight float64, freq, length uint32) uint32 {
	f := float64(freq)
	return uint32(weight*f/(f+(s.c0+float64(s.c1*float64(length))))) + 1
}

// bound is at least the part of every posting that the impact stands for. Its
// extra unit is for the rounding of part, which need not be monotonic.
func (s *scorer) bound(weight float64, i impact) uint32 {
	return s.part(weight, i.freq, i.length) + 1
}

// most is at least every part of a term.
func (s *scorer) most(weight float64) uint32 {
	return uint32(weight) + 2
}

// score returns the score that a sum stands for. It is exact but for the rounding
// of the sum to a float32.
func (s *scorer) score(sum uint32) float32 {
	return float32(sum) * float32(s.unit)
}

func validWeight(w float64) bool {
	return w > 0 && !math.IsInf(w, 1)
}
