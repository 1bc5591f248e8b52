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

// DailyRetention is what is left of an importance after a day without access.
const DailyRetention = 0.95

// Retention returns what is left after a time without access: 1 at once, 0.95 after a day, half after 13.5 days. A time
// below zero counts as zero.
func Retention(idle time.Duration) float64 { return Retained(DailyRetention, idle) }

// Retained is Retention with another share that is left after a day, from 0 to 1.
func Retained(daily float64, idle time.Duration) float64 {
	if idle <= 0 {
		return 1
	}
	return math.Pow(daily, idle.Hours()/24)
}

// DecayedImportance returns what is left of an importance after a time without access, of which a share daily is left
// after a day: importance × daily^days, in whole days, so that it stays the same for a day.
func DecayedImportance(importance, daily float64, idle time.Duration) float64 {
	return importance * Retained(daily, idle.Truncate(day))
}

// FrequentAccess is the number of accesses from which on a memory counts as accessed most frequently.
const FrequentAccess = 100

// AccessFrequency returns how frequently a memory was accessed, from 0 for never to 1: on a logarithmic scale, since
// the tenth access says more than the hundredth, and less the longer ago the last one was (see Retention).
func AccessFrequency(count uint64, idle time.Duration) float64 {
	if count == 0 {
		return 0
	}
	share := math.Log1p(float64(count)) / math.Log1p(FrequentAccess)
	return min(1, share) * Retention(idle)
}

// Signals are what speaks for a memory in one recall. A signal that is missing is 0.
type Signals struct {
	Cosine     float64 // between the embeddings of query and memory, -1 to 1
	Keywords   float64 // share of the query's keywords that the memory holds, 0 to 1
	BM25       float64 // relevance of the text, in the unit that the weights expect
	Neighbours float64 // what the texts next to it in its run add to BM25, in the same unit
	Session    float64 // what the texts of its run have of the query, in the same unit
	SecondLook float64 // BM25 for the terms of the first hits, in the same unit
	Recency    float64 // see Recency
	Access     float64 // see AccessFrequency
	Importance float64 // 0 to 1
	Confidence float64 // 0 to 1
	Graph      float64 // what entities that the query names say for it, 0 to 1
	Fact       float64 // what lifts a fact above an older message that says no more
}

// Weights say what each signal counts for. A profile of recall is a set of weights.
type Weights struct {
	// Each is what the signal of its name counts for.
	Cosine     float64
	Keywords   float64
	BM25       float64
	Neighbours float64
	Session    float64
	SecondLook float64
	Recency    float64
	Access     float64
	Importance float64
	Confidence float64
	Graph      float64
	Fact       float64
}

// Ranking says which parts of a ranking are left out.
type Ranking struct {
	// AnySpeaker has a question that names one speaker, or says "I" or "you", be about all of them:
	// see OtherSpeaker.
	AnySpeaker bool
	// AnyTime has what a text says of times count the same: see SaysWhen and FitsDate.
	AnyTime bool
	// AnySession has the sessions (runs) that memories are in count the same: see SessionShare.
	AnySession bool
	// OneLook spares the second look, with the terms of the first hits: see SecondLookShare.
	OneLook bool
}

// Hybrid returns the weights of the profile hybrid: 50% similarity, 25% keywords, 10% recency with a half-life of one
// week, 10% importance, 5% confidence.
func Hybrid() Weights {
	return Weights{Cosine: .50, Keywords: .25, Recency: .10, Importance: .10, Confidence: .05}
}

// Substrate returns the weights of the profile substrate: 60% BM25 as a share of the best match's, 15% recency with a
// half-life of one week, 15% frequency of access, and 10% importance, of which Retention says how much is left.
func Substrate() Weights {
	return Weights{BM25: .60, Recency: .15, Access: .15, Importance: .10}
}

// SubstrateLearned returns the weights of the profile substrate for a memory with a learned vector, whose space has earned a
// weight: see BestLearned for the signal. As much as vectors can earn, it counts as BM25 does where a cosine stands out by
// six deviations.
func SubstrateLearned(weight float64) Weights {
	w := Substrate()
	w.Cosine = w.BM25 * weight / mostTrust / 6
	return w
}

// Best returns the weights of the profile best for a memory that has no learned vector to compare with: the text alone,
// with BM25 as a share of what the query's terms could give at most. The cosine of lexical vectors has no weight in it:
// they are made of the same words, and cost recall (docs/recall.md has the figures).
func Best() Weights {
	return Weights{BM25: 1, Neighbours: 1, Session: SessionShare, SecondLook: SecondLookShare}
}

// BestLearned returns the weights of the profile best for a memory with a learned vector, whose space has earned a
// weight: see Trust. Its signal is how far the cosine stands out of those of the scope, in standard deviations beyond
// VectorFloor, and never below 0, so that it can't undo what the text says.
func BestLearned(weight float64) Weights {
	w := Best()
	w.Cosine = weight
	return w
}

// GraphWeight is a weight of the graph to begin with: see [FromEntity]. On LoCoMo, whose turns say the names that questions
// ask by, it gains nothing, and weights from .2 on cost recall (docs/recall.md has the figures).
const GraphWeight = .05

// FromEntity is what an entity says for each of the memories that it is linked to: its rank, as a share of the highest
// one, less the more of the memories in scope it is linked to. An entity of a single memory says all of its rank, and one
// that all have nothing, as a word does (Spärck Jones 1972).
func FromEntity(rank float64, linked, all int) float64 {
	if linked == 0 || linked >= all {
		return 0
	}
	return rank * math.Log(float64(all)/float64(linked)) / math.Log(float64(all))
}

// OtherSpeaker is what the text of a turn counts for, in the profile best, where the question is about one speaker, by
// name, as "I" or as "you", and somebody else says the turn: what a person did and likes is mostly in their own words. On
// LoCoMo .4 to .7 differ by less than .01 of R@10 (docs/recall.md has the figures).
const OtherSpeaker = .5

// AskingTurn is what the text of a turn that asks counts for, in the profile best: a question has the words of what it
// asks for, and says nothing of it.
const AskingTurn = .8

// AnswerWeight is what the turn before one counts for, where it asks: an answer is read with its question, and is often a
// word or two. See NeighbourWeights.
const AnswerWeight = .9

// VagueTerm is what a word of a question counts for, in the profile best, that says in which form the answer is wanted
// ("what kind of", "describe", "mention"): it is seldom in the answer. It gains .002 of R@10 on LoCoMo and .005 of nDCG@10
// on CISI, and costs .0003 on Cranfield.
const VagueTerm = .5

// IsVague reports whether a term, the stem of an English word, is such a one.
func IsVague(term string) bool {
	switch term {
	case "about", "both", "describ", "dure", "kind", "mention", "say", "sort", "specif", "type":
		return true
	}
	return false
}

// SaysWhen is what the text of a memory counts for that says when something was, where the question asks for that.
const SaysWhen = 1.3

// FitsDate is what the text of a memory counts for whose event was on the days that the question names, or within
// FitsAfter of them: things are told when they are over.
const FitsDate = 1.4

// FitsAfter is how long after a day it is spoken of.
const FitsAfter = 7 * 24 * time.Hour

// TurnLength is how much the length of a text counts in BM25 for memories of a run (its b), in place of .75: a turn is short
// or long by manner, and its neighbours count, too. On LoCoMo it gains .011 of R@10.
const TurnLength = .3

// SessionShare is what a memory's run counts for in the profile best: the sum, over the terms of the query, of the most that
// one of the run's matches has of the term. It tells turns of the right session from those of others that have the same
// words (docs/recall.md has the figures).
const SessionShare = .1

// SecondLookShare is what BM25 for the terms of the first hits counts for beside that for the query's own terms, in the
// profile best, among memories of no run: feedback from the top ranks (Rocchio, "Relevance feedback in information
// retrieval", 1971). What answers a question seldom has all its words, and often those of its first hits. It gains .013 of
// nDCG@10 on Cranfield and .003 on CISI; among turns, whose neighbours say what they lack, nothing.
const SecondLookShare = .15

// NeighbourReach is how many places before and after it in its run a memory has neighbours.
const NeighbourReach = 3

// NeighbourWeights are what the text of a neighbour counts for, one, two and three places away. In a dialogue the
// second is by the same speaker again.
func NeighbourWeights() [NeighbourReach]float64 {
	return [NeighbourReach]float64{.5, .4, .2}
}

// WithNeighbours returns what one term of the query gives a memory: the length of the vector of its own part and those
// of its neighbours, each times its weight; squares is the sum of the latter's squares. So the neighbours of a memory
// that has the term itself add little, and those that have what it lacks add nearly all of theirs: a question's words
// are seldom all in the one turn that answers it.
func WithNeighbours(own, squares float64) float64 {
	return math.Sqrt(float64(own*own) + squares)
}

// Parts returns what each signal contributes to the score.
func (w Weights) Parts(s Signals) Signals {
	// The conversions keep a compiler from fusing a product with the sum that it goes into, which would make scores
	// differ between processors in the last bit.
	return Signals{
		Cosine:     float64(w.Cosine * s.Cosine),
		Keywords:   float64(w.Keywords * s.Keywords),
		BM25:       float64(w.BM25 * s.BM25),
		Neighbours: float64(w.Neighbours * s.Neighbours),
		Session:    float64(w.Session * s.Session),
		SecondLook: float64(w.SecondLook * s.SecondLook),
		Recency:    float64(w.Recency * s.Recency),
		Access:     float64(w.Access * s.Access),
		Importance: float64(w.Importance * s.Importance),
		Confidence: float64(w.Confidence * s.Confidence),
		Graph:      float64(w.Graph * s.Graph),
		Fact:       float64(w.Fact * s.Fact),
	}
}

// Score returns the sum of the parts, added in the order of the fields.
func (w Weights) Score(s Signals) float64 {
	return Sum(w.Parts(s))
}

// Sum returns the sum of parts, added in the order of the fields.
func Sum(p Signals) float64 {
	return p.Cosine + p.Keywords + p.BM25 + p.Neighbours + p.Session + p.SecondLook + p.Recency + p.Access + p.Importance + p.Confidence + p.Graph + p.Fact
}
