package policy

import (
	"math"
	"time"
)

// RecencyHalfLife is the age at which a memory's recency has fallen to one half.
const RecencyHalfLife = 7 * 24 * time.Hour

// Recency returns how recent something of the given age is: 1 when new, 0.5 after one half-life, 0.25 after two. An
// age below zero, such as that of a memory dated in the future, counts as zero. With a half-life that is not positive
// only what is new counts.
func Recency(age, halfLife time.Duration) float64 {
	switch {
	case age <= 0:
		return 1
	case halfLife <= 0:
		return 0
	}
	return math.Exp2(-float64(age) / float64(halfLife))
}

// Signals are what speaks for a memory in one recall. A signal that is missing is 0.
type Signals struct {
	Cosine     float64 // between the embeddings of query and memory, -1 to 1
	Keywords   float64 // share of the query's keywords that the memory holds, 0 to 1
	BM25       float64 // relevance of the text, in the unit that the weights expect
	Recency    float64 // see Recency
	Importance float64 // 0 to 1
	Confidence float64 // 0 to 1
}

// Weights say what each signal counts for. A profile of recall is a set of weights.
type Weights struct {
	Cosine     float64
	Keywords   float64
	BM25       float64
	Recency    float64
	Importance float64
	Confidence float64
}

// Hybrid returns the weights of the profile hybrid: 50% similarity, 25% keywords, 10% recency with a half-life of one
// week, 10% importance, 5% confidence.
func Hybrid() Weights {
	return Weights{Cosine: .50, Keywords: .25, Recency: .10, Importance: .10, Confidence: .05}
}

// Parts returns what each signal contributes to the score.
func (w Weights) Parts(s Signals) Signals {
	// The conversions keep a compiler from fusing a product with the sum that it goes into, which would make scores
	// differ between processors in the last bit.
	return Signals{
		Cosine:     float64(w.Cosine * s.Cosine),
		Keywords:   float64(w.Keywords * s.Keywords),
		BM25:       float64(w.BM25 * s.BM25),
		Recency:    float64(w.Recency * s.Recency),
		Importance: float64(w.Importance * s.Importance),
		Confidence: float64(w.Confidence * s.Confidence),
	}
}

// Score returns the sum of the parts, added in the order of the fields.
func (w Weights) Score(s Signals) float64 {
	p := w.Parts(s)
	return p.Cosine + p.Keywords + p.BM25 + p.Recency + p.Importance + p.Confidence
}
