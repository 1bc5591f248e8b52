package policy

import "math"

// Trust is what the vectors of a space have shown of their embedder, by the questions that were asked: the profile best
// gives them the weight that they have earned. Vectors that are random, all equal, or made of the same words as the text
// earn nothing, and a good embedder's as much as all of the text. The zero Trust has seen nothing.
//
// Two figures of each question say it, and both take what the text finds for a judge, since it is right more often than
// not. How far the similarity of the text's best match stands out, once what goes with its BM25 is taken off: a vector that
// knows more than the words has that memory stand out, a random one has not, and neither has one of hashed words. And how
// far the similarity follows BM25 among the memories that have words of the question: where it does, it says the same
// again. On LoCoMo, with fourteen embedders, no weight of them all was better by more than .01 of R@10 than what this finds
// (docs/recall.md has the figures).
type Trust struct {
	// Asked is how many questions were seen; older ones count for less.
	Asked float64
	// Stands and Squares are the sums of how far the best match stood out, in standard deviations, and of its square.
	Stands, Squares float64
	// Compared is how many questions say how far the similarity follows the text, and Follows the sum of the correlations.
	Compared, Follows float64
}

const (
	// mostTrust is the most that vectors earn for each standard deviation: then what stands out by six counts for half
	// of what the text can give.
	mostTrust = .085
	// trustSlope is what one deviation, by which the best match stands out, earns.
	trustSlope = .2
	// mostFollowing is the correlation at which a similarity says what BM25 says, and no more.
	mostFollowing = .6
	// beginTrust is the weight before any question, which counts for beginAsked questions: little enough to cost
	// nothing, and enough to find what the text does not.
	beginTrust, beginAsked = .01, 8
	// trustMemory is how many questions are remembered: an embedder may be replaced by another one under its name.
	trustMemory = 512
	// leastSpread is the least variance that is taken for the figures of few questions.
	leastSpread = .5
	// wholeWeight is the weight from which on all that is above the mean counts; see VectorFloor.
	wholeWeight = .05
)

// Add takes in a question: how far the text's best match stood out, and how far the similarity followed the text, NaN
// where too few memories had words of the question.
func (t *Trust) Add(stands, follows float64) {
	if math.IsNaN(stands) || math.IsInf(stands, 0) {
		return
	}
	if t.Asked >= trustMemory {
		*t = Trust{t.Asked / 2, t.Stands / 2, t.Squares / 2, t.Compared / 2, t.Follows / 2}
	}
	t.Asked++
	t.Stands += stands
	t.Squares += stands * stands
	if !math.IsNaN(follows) {
		t.Compared++
		t.Follows += follows
	}
}

// Weight is what a similarity counts for in the profile best, for each standard deviation by which it stands out.
func (t *Trust) Weight() float64 {
	earned := 0.0
	if t.Asked >= 2 {
		mean := t.Stands / t.Asked
		spread := max(t.Squares/t.Asked-mean*mean, leastSpread)
		sure := mean - math.Sqrt(spread/t.Asked) // by one standard error
		following := 0.0
		if t.Compared > 0 {
			following = t.Follows / t.Compared
		}
		own := min(1, max(0, 1-following/mostFollowing)) // what it says by itself
		earned = min(mostTrust, trustSlope*max(0, sure)*own)
	}
	weight := (beginAsked*beginTrust + t.Asked*earned) / (beginAsked + t.Asked)
	if weight < beginTrust/10 {
		return 0
	}
	return weight
}

// VectorFloor is from how many standard deviations on a similarity counts, with a weight: little trust is for what stands
// out.
func VectorFloor(weight float64) float64 { return max(0, 1-weight/wholeWeight) }
