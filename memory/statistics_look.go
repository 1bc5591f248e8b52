package memory

import "slices"

// LookStatistics are what the second look of the profile best goes by, see policy.Ranking: in small scopes the best
// matches are scored again, for terms of the first of them.
type LookStatistics struct {
	// Most is how many of the best matches are scored again, 0 where none is, and Hits the terms of how many are
	// looked for.
	Most int `json:"most"`
	Hits int `json:"hits"`
	// Alone is how many of the memories are in no run: where a match is in one, none is looked at again.
	Alone int `json:"alone"`
	// Best are the best matches before that, and First the first of these. nil: not found yet.
	Best  []Place    `json:"best"`
	First []FirstHit `json:"first"`
	// Turns: a match is in a run.
	Turns bool `json:"turns"`
	// Terms is how many memories have each term of the first hits. nil: not counted yet.
	Terms map[string]uint32 `json:"terms"`
}

// A FirstHit is a match whose terms are looked for.
type FirstHit struct {
	Place
	// All: it has all terms of the query, so nothing more is looked for.
	All bool `json:"all"`
	// Terms are those of its text that the query has not.
	Terms []string `json:"terms"`
}

// LacksBest reports whether the best matches are to be found, for a second look at them.
func (s *Statistics) LacksBest() bool {
	return s.Look.Most > 0 && s.Look.Alone > 0 && s.Look.Best == nil && s.matches() > 0 && !s.LacksLenders()
}

// LacksFirstTerms reports whether the terms of the first hits are to be counted.
func (s *Statistics) LacksFirstTerms() bool { return s.Look.Again() && s.Look.Terms == nil }

// Again reports whether the best matches are scored again.
func (l *LookStatistics) Again() bool {
	return !l.Turns && !slices.ContainsFunc(l.First, func(h FirstHit) bool { return h.All }) &&
		slices.ContainsFunc(l.First, func(h FirstHit) bool { return len(h.Terms) > 0 })
}

// Last is the place of the last match that is scored again; ok is false where all are.
func (l *LookStatistics) Last() (last Place, ok bool) { return lastOf(l.Best, l.Most) }

func (l *LookStatistics) add(o *LookStatistics) {
	l.Most, l.Hits, l.Alone, l.Turns = max(l.Most, o.Most), max(l.Hits, o.Hits), l.Alone+o.Alone, l.Turns || o.Turns
	l.Best = joinPlaces(l.Best, o.Best, l.Most)
	first := append(slices.Clone(l.First), o.First...)
	slices.SortStableFunc(first, func(a, b FirstHit) int { return a.Compare(b.Place) })
	l.First = first[:min(len(first), l.Hits)]
	l.Terms = addCounts(l.Terms, o.Terms)
}

// addCounts adds counts to others; nil where both are.
func addCounts(to, more map[string]uint32) map[string]uint32 {
	if to == nil && more != nil {
		to = make(map[string]uint32, len(more))
	}
	for t, n := range more {
		to[t] += n
	}
	return to
}
