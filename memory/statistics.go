package memory

import (
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Statistics are what the score of a memory depends on beside the memory itself: figures of all
// memories that a query means. Where these are in several databases, each counts its own part, the
// parts are added up, and each database ranks its part by the sum; so the hits of all, joined by
// their scores, are those that one database with everything finds.
//
// It takes two rounds, since the languages of the memories decide into which terms the query is
// read: Memories.Statistics with nothing tells the languages, and with the languages the terms. A
// query with Statistics is ranked by the profiles text, best, vector and hybrid, for its words as
// they are: without operators, near words, a second look, the graph, a past state, a plan and a bound
// of tokens. The profile best ranks without vectors, whose weight each database learns by itself;
// and it has neighbours lend from each database's best matches, see recall.LendersMost.
type Statistics struct {
	// Memories is how many are meant, Unsure how many of them are too short to say their language,
	// and Languages how many there are in each of the languages that memdb knows, in its order.
	Memories  int   `json:"memories"`
	Unsure    int   `json:"unsure"`
	Languages []int `json:"languages"`
	// Length is that of their texts, in terms.
	Length uint64 `json:"length"`
	// Terms is how many memories have each term of the query. nil: not counted yet.
	Terms map[string]uint32 `json:"terms"`
}

// Add adds the part of another database. ErrMismatch where that knows other languages.
func (s *Statistics) Add(o *Statistics) error {
	if s.Languages != nil && o.Languages != nil && len(s.Languages) != len(o.Languages) {
		return &fault.Error{
			Kind: fault.ErrMismatch, What: "add up the statistics of databases", Why: fmt.Sprintf("one knows %d languages, and another %d", len(s.Languages), len(o.Languages)),
			Do: "run one version of memdb everywhere",
		}
	}
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
	if s.Terms == nil && o.Terms != nil {
		s.Terms = make(map[string]uint32, len(o.Terms))
	}
	for t, n := range o.Terms {
		s.Terms[t] += n
	}
	return nil
}

// checkParts refuses what is not exact where a query is answered from several databases, and has
// the rest do without what asks further words.
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
	q.OnlyWords, q.OneLook = true, true
	return nil
}
