package memory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Statistics are what the score of a memory depends on beside the memory itself: figures of all
// memories that a query means. Where these are in several databases, each counts its own part, the
// parts are added up, and each database ranks its part by the sum; so the hits of all, joined by
// their scores, are those that one database with everything finds. Of equal scores those with Alike come last.
//
// What is counted depends on what is known by then, so it takes rounds: as long as the sum Lacks something,
// Memories.Statistics of each database says all that can be counted next, and is added to the sum. First the languages of
// the memories, which decide into which terms the query is read; then these terms, and how similar the query's vector is
// to others. Of further rounds a query takes those that it may need:
//
//   - Where few memories or none have a word of the query, as Query.OnlyWords says: the words near it; how many memories
//     have the rests of those that may be near by chance; and last, where some have words of the query, the best memories
//     by these and by near words.
//   - In the profile best where more match than lend: who lends to its neighbours.
//   - In the profile best in small scopes, as policy.Ranking says: the best matches; and how many memories have the terms of
//     the first of them.
//   - In the profile best where there are facts: the hits that they may correct.
//
// These are eight rounds at most. A query with Statistics is ranked by the profiles text, best, vector and hybrid: without
// operators, the graph, a past state, a plan and a bound of tokens. No database embeds its text: Memories.Embedding of any
// of them does, before the first round. What its vectors count for in the profile best is what they have shown to all
// databases together, and it shows none of them anything. In scopes of more than 256 memories the similarities
// that a vector has to stand out of are a sample, other ones than a single database takes.
type Statistics struct {
	// Version is StatisticsVersion where the figures were counted, 0 of a sum of none.
	Version int `json:"version"`
	// Memories is how many are meant, Unsure how many of them are too short to say their language,
	// and Languages how many there are in each of the languages that memdb knows, in its order.
	Memories  int   `json:"memories"`
	Unsure    int   `json:"unsure"`
	Languages []int `json:"languages"`
	// Length is that of their texts, in terms.
	Length uint64 `json:"length"`
	// Terms is how many memories have each term of the query. nil: not counted yet.
	Terms map[string]uint32 `json:"terms"`
	// Vectors is what the vectors of the query's space say.
	Vectors VectorStatistics `json:"vectors"`
	// Lend is how many matches of the text lend to their neighbours, 0 where none does, and Lenders the
	// first of these, best first. nil: not found yet.
	Lend    int     `json:"lend"`
	Lenders []Place `json:"lenders"`
	// Near is what words near those of the query go by.
	Near NearStatistics `json:"near"`
	// Look is what a second look goes by.
	Look LookStatistics `json:"look"`
	// Correct is how many of the best hits may be corrected by facts, 0 where none is, Facts how many facts
	// are meant, and Corrected the best hits before that. nil: not found yet.
	Correct   int     `json:"correct"`
	Facts     uint64  `json:"facts"`
	Corrected []Place `json:"corrected"`
}

// StatisticsVersion is that of what Memories.Statistics counts.
const StatisticsVersion = 1

// VectorStatistics are those of the vectors of a query's space.
type VectorStatistics struct {
	// Metric is that of the space, empty where no database has it.
	Metric string `json:"metric,omitempty"`
	// Compared is how many memories the query's vector was compared with, Mean what their similarity
	// is on average, and Squares the sum of the squares of how far each is from that.
	Compared int     `json:"compared"`
	Mean     float64 `json:"mean"`
	Squares  float64 `json:"squares"`
	// Shown is what the vectors have shown in questions.
	Shown Shown `json:"shown"`
}

// Shown is what vectors have shown in questions, in the figures of policy.Trust.
type Shown struct {
	// Asked is how many questions were seen.
	Asked float64 `json:"asked"`
	// Stands and Squares are the sums of how far the best match stood out, and of its square.
	Stands  float64 `json:"stands"`
	Squares float64 `json:"squares"`
	// Compared is how many questions say how far the similarity follows the text, and Follows the sum of that.
	Compared float64 `json:"compared"`
	Follows  float64 `json:"follows"`
}

// A Place is where a memory stands among others: those of higher scores come first, and of equal ones those
// that were created first.
type Place struct {
	// Score is that of the text, or of the hit.
	Score float64 `json:"score"`
	// Created is in milliseconds since 1970.
	Created int64 `json:"created"`
}

// Compare is negative where a place comes before another one, 0 where they are the same.
func (p Place) Compare(o Place) int {
	return cmp.Or(cmp.Compare(o.Score, p.Score), cmp.Compare(p.Created, o.Created))
}

// Lacks reports whether another round says more that the scores depend on.
func (s *Statistics) Lacks() bool {
	return s.Languages == nil || s.Terms == nil || s.LacksNear() || s.LacksRests() || s.lacksRanks() || s.LacksJoined()
}

// lacksRanks reports whether more is to be found of how memories are ranked by one set of words.
func (s *Statistics) lacksRanks() bool {
	return s.LacksLenders() || s.LacksBest() || s.LacksFirstTerms() || s.LacksCorrected()
}

// LacksLenders reports whether it is to be found which matches lend, since not all do.
func (s *Statistics) LacksLenders() bool {
	return s.Lend > 0 && s.Lenders == nil && s.matches() > s.Lend
}

// LacksCorrected reports whether the best hits are to be found, which facts may correct.
func (s *Statistics) LacksCorrected() bool {
	return s.Correct > 0 && s.Facts > 0 && s.Corrected == nil && !s.LacksLenders() && !s.LacksBest() && !s.LacksFirstTerms() &&
		(s.Near.Enough == 0 || s.matches() > 0) // a vector finds without
}

// matches is how many memories match the text at most: words near it, where none has a word of it.
func (s *Statistics) matches() (n int) {
	if s.OnlyNear() {
		for _, t := range s.Near.Terms {
			n += int(t.Memories)
		}
	} else {
		for _, of := range s.Terms {
			n += int(of)
		}
	}
	return min(n, s.Memories)
}

// LastLender is the place of the last match that lends; ok is false where all do.
func (s *Statistics) LastLender() (last Place, ok bool) { return lastOf(s.Lenders, s.Lend) }

// LastCorrected is the place of the last hit that may be corrected; ok is false where all may.
func (s *Statistics) LastCorrected() (last Place, ok bool) { return lastOf(s.Corrected, s.Correct) }

func lastOf(places []Place, most int) (Place, bool) {
	if most <= 0 || len(places) < most {
		return Place{}, false
	}
	return places[most-1], true
}

// Add adds what another database has counted. ErrMismatch where that is of another version, knows other languages, or
// compares vectors in another way.
func (s *Statistics) Add(o *Statistics) error {
	if a, b := s.Vectors.Metric, o.Vectors.Metric; a != b && a != "" && b != "" {
		return &fault.Error{
			Kind: fault.ErrMismatch, What: "add up the statistics of databases", Why: fmt.Sprintf("the vectors of one space are compared by %s in one and by %s in another", a, b),
			Do: "export those of one of the two, and import them with the other metric",
		}
	}
	if s.Languages != nil && o.Languages != nil && len(s.Languages) != len(o.Languages) {
		return &fault.Error{
			Kind: fault.ErrMismatch, What: "add up the statistics of databases", Why: fmt.Sprintf("one knows %d languages, and another %d", len(s.Languages), len(o.Languages)),
			Do: "run one version of memdb everywhere",
		}
	}
	if o.Version != StatisticsVersion {
		return &fault.Error{
			Kind: fault.ErrMismatch, What: "add up the statistics of databases", Why: fmt.Sprintf("one counts in version %d, and another in version %d", StatisticsVersion, o.Version),
			Do: "run one version of memdb everywhere",
		}
	}
	s.Version = o.Version
	s.Memories += o.Memories
	s.Unsure += o.Unsure
	s.Length += o.Length
	if s.Languages == nil {
		s.Languages = slices.Clone(o.Languages)
	} else {
		for i, n := range o.Languages {
			s.Languages[i] += n
		}
	}
	s.Terms = addCounts(s.Terms, o.Terms)
	s.Vectors.add(&o.Vectors)
	s.Look.add(&o.Look)
	s.Near.add(&o.Near)
	s.Lend, s.Correct, s.Facts = max(s.Lend, o.Lend), max(s.Correct, o.Correct), s.Facts+o.Facts
	s.Lenders = joinPlaces(s.Lenders, o.Lenders, s.Lend)
	s.Corrected = joinPlaces(s.Corrected, o.Corrected, s.Correct)
	return nil
}

func (v *VectorStatistics) add(o *VectorStatistics) {
	v.Metric = cmp.Or(v.Metric, o.Metric)
	if n, m := float64(v.Compared), float64(o.Compared); m > 0 { // as Chan, Golub and LeVeque add up variances
		apart := o.Mean - v.Mean
		v.Mean += apart * m / (n + m)
		v.Squares += o.Squares + apart*apart*n*m/(n+m)
		v.Compared += o.Compared
	}
	v.Shown.Asked += o.Shown.Asked
	v.Shown.Stands += o.Shown.Stands
	v.Shown.Squares += o.Shown.Squares
	v.Shown.Compared += o.Shown.Compared
	v.Shown.Follows += o.Shown.Follows
}

// joinPlaces are the first of two lists; nil where both are.
func joinPlaces(a, b []Place, most int) []Place {
	if b == nil {
		return a
	}
	all := append(append(make([]Place, 0, len(a)+len(b)), a...), b...)
	slices.SortFunc(all, Place.Compare)
	return all[:min(len(all), most)]
}

// checkParts refuses what is not exact where a query is answered from several databases.
func (q *Query) checkParts(doing string) error {
	for _, f := range []struct {
		what string
		set  bool
	}{
		{"the profile substrate, whose scores are shares of the best hit", q.Profile == ProfileSubstrate},
		{"operators", q.Syntax == SyntaxOperators},
		{"the graph", q.Graph > 0},
		{"a past state", q.AsOf != 0},
		{"a plan", q.Explain},
		{"a bound of tokens", q.Tokens > 0},
	} {
		if f.set {
			return fault.Invalid(doing, f.what+" is not for a query over several databases", "leave it out, or name the user")
		}
	}
	return nil
}
