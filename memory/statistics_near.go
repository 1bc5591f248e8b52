package memory

import (
	"slices"
	"strings"
)

// NearStatistics are what the words near those of a query go by, see Query.OnlyWords: they are looked for where few memories
// have words of it, and where no memory has one.
type NearStatistics struct {
	// Enough is how many memories are to have words of the query for no near ones to be looked for, 0 where none are ever,
	// and Found how many have, which each database counts as far as that at least.
	Enough int `json:"enough"`
	Found  int `json:"found"`
	// Own are the terms of the query one of which no memory may have, and Others how many of them are other
	// readings of its words, which count for nothing then.
	Own    []string `json:"own"`
	Others int      `json:"others"`
	// Terms are those of memories that are near, in ascending order. nil: not looked for yet.
	Terms []NearTerm `json:"terms"`
	// Rests is how many memories have the Rest of each term. nil: not counted yet.
	Rests map[string]uint32 `json:"rests"`
	// Keep is how many memories by words of the query, and how many by near ones, are joined, Ranked the first of the ones
	// and Alike of the others. nil: not found yet.
	Keep   int      `json:"keep"`
	Ranked []Lifted `json:"ranked"`
	Alike  []Place  `json:"alike"`
}

// A NearTerm is a term of memories that is near a word of a query.
type NearTerm struct {
	// Text is the term, Nearness how near it is to the nearest word, from 0 to 1.
	Text     string  `json:"text"`
	Nearness float64 `json:"nearness"`
	// Memories is how many have it.
	Memories uint32 `json:"memories"`
	// Own: the query has it itself.
	Own bool `json:"own,omitempty"`
	// Rest is what it has beside a word of the query, which has to be a word of the memories, too. Empty where none has to.
	Rest string `json:"rest,omitempty"`
}

// Lifted is the place of a memory that has words of the query, and what it has by near ones.
type Lifted struct {
	Place
	// Near is its score by near words alone.
	Near float64 `json:"near"`
}

// LacksNear reports whether words near those of the query are to be looked for.
func (s *Statistics) LacksNear() bool { return s.asksNear() && s.Near.Terms == nil }

// LacksRests reports whether the rests of near terms are to be counted.
func (s *Statistics) LacksRests() bool {
	return s.Near.Rests == nil && slices.ContainsFunc(s.Near.Terms, func(t NearTerm) bool { return !t.Own && t.Rest != "" })
}

// LacksJoined reports whether the best memories by words of the query and by near ones are to be found.
func (s *Statistics) LacksJoined() bool {
	return s.asksNear() && s.Near.Found > 0 && s.hasNear() && s.Near.Ranked == nil && !s.lacksRanks()
}

// OnlyNear reports whether memories are ranked by near words in the place of the query's.
func (s *Statistics) OnlyNear() bool { return s.asksNear() && s.Near.Found == 0 && s.hasNear() }

// asksNear reports whether near words are looked for: too few memories have words of the query, or none has one.
func (s *Statistics) asksNear() bool {
	return s.Near.Enough > 0 && s.Memories > 0 && s.Terms != nil && (s.Near.Found < s.Near.Enough || s.missing() > 0)
}

// missing is how many words of the query no memory has.
func (s *Statistics) missing() int {
	n := -s.Near.Others
	for _, t := range s.Near.Own {
		if s.Terms[t] == 0 {
			n++
		}
	}
	return max(0, n)
}

// hasNear reports whether it is known which words are near, and there are any.
func (s *Statistics) hasNear() bool {
	return s.Near.Terms != nil && !s.LacksRests() && slices.ContainsFunc(s.Near.Terms, s.Near.Plausible)
}

// Plausible reports whether a term stands beside the query's own, and not by chance.
func (n *NearStatistics) Plausible(t NearTerm) bool {
	return !t.Own && (t.Rest == "" || n.Rests[t.Rest] > 0)
}

// LastRanked is the place of the last memory by words of the query that is joined; ok is false where all are.
func (n *NearStatistics) LastRanked() (last Place, ok bool) {
	if n.Keep <= 0 || len(n.Ranked) < n.Keep {
		return Place{}, false
	}
	return n.Ranked[n.Keep-1].Place, true
}

// LastAlike is that of the last memory by near words.
func (n *NearStatistics) LastAlike() (last Place, ok bool) { return lastOf(n.Alike, n.Keep) }

func (n *NearStatistics) add(o *NearStatistics) {
	n.Enough, n.Keep, n.Found, n.Others = max(n.Enough, o.Enough), max(n.Keep, o.Keep), n.Found+o.Found, max(n.Others, o.Others)
	if n.Own == nil {
		n.Own = slices.Clone(o.Own)
	}
	n.addTerms(o.Terms)
	n.Rests = addCounts(n.Rests, o.Rests)
	if o.Ranked != nil {
		ranked := append(append(make([]Lifted, 0, len(n.Ranked)+len(o.Ranked)), n.Ranked...), o.Ranked...)
		slices.SortStableFunc(ranked, func(a, b Lifted) int { return a.Compare(b.Place) })
		n.Ranked = ranked[:min(len(ranked), n.Keep)]
	}
	n.Alike = joinPlaces(n.Alike, o.Alike, n.Keep)
}

// addTerms adds near terms of another database, of which one that both have is counted in both.
func (n *NearStatistics) addTerms(more []NearTerm) {
	if more == nil {
		return
	}
	all := append(append(make([]NearTerm, 0, len(n.Terms)+len(more)), n.Terms...), more...)
	slices.SortStableFunc(all, func(a, b NearTerm) int { return strings.Compare(a.Text, b.Text) })
	last := 0
	for i := 1; i < len(all); i++ {
		if all[i].Text == all[last].Text {
			all[last].Memories += all[i].Memories
			continue
		}
		last++
		all[last] = all[i]
	}
	n.Terms = all[:min(last+1, len(all))]
}
