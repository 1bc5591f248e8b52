package recall

import (
	"context"
	"slices"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// Of what several databases have, the first hits are those of all, and each scores again what it has of the best
// matches of all.

// countLook says whether there may be a second look.
func (r *recalling) countLook(out *memory.Statistics) {
	if r.q.Ranking.OneLook || r.q.Profile != memory.ProfileBest || len(out.Terms) == 0 || r.meant() > secondLookScope {
		return
	}
	look := &out.Look
	look.Most, look.Hits = secondLookMost, firstHits
	for _, doc := range r.in.List() {
		if r.st.Docs.Row(doc).Run == 0 {
			look.Alone++
		}
	}
}

// countBest finds the best matches, and the terms of the first of them.
func (r *recalling) countBest(ctx context.Context, out *memory.Statistics) error {
	out.Look.Best = []memory.Place{}
	if r.set.IsEmpty() {
		return nil
	}
	r.counted = out
	defer func() { r.counted = nil }()
	_, err := r.withNeighbours(ctx)
	return err
}

// lookAgainAtPart is lookAgain by the first hits of all databases, or tells those of this one.
func (r *recalling) lookAgainAtPart(ctx context.Context, m *matches, have []uint16, most float64) error {
	given := &r.q.Statistics.Look
	if r.counted != nil {
		return r.tellBest(ctx, m, have, &r.counted.Look)
	}
	if !given.Again() || len(m.docs) == 0 {
		return nil
	}
	places := r.bestMatches(m)
	if last, ok := given.Last(); ok {
		places = slices.DeleteFunc(places, func(s scored) bool { return r.place(m.docs[s.doc], s.score).Compare(last) > 0 })
	}
	found := firstTermsOf(given)
	for i := range found {
		found[i].df = given.Terms[found[i].text]
	}
	terms, stats := r.heaviest(found, r.stats.N)
	return r.scoreAgain(ctx, m, places, terms, stats, most)
}

// tellBest tells what a second look at this database goes by.
func (r *recalling) tellBest(ctx context.Context, m *matches, have []uint16, out *memory.LookStatistics) error {
	if len(m.docs) == 0 {
		return nil
	}
	if have == nil {
		out.Turns = true
		return nil
	}
	places := r.bestMatches(m)
	for _, p := range places {
		out.Best = append(out.Best, r.place(m.docs[p.doc], p.score))
	}
	first := places[:min(firstHits, len(places))]
	for i, h := range first {
		out.First = append(out.First, memory.FirstHit{Place: out.Best[i], All: r.hasAll(have, h.doc), Terms: []string{}})
	}
	return r.eachSaid(ctx, m, first, func(hit int, term string) { out.First[hit].Terms = append(out.First[hit].Terms, term) })
}

// countFirstTerms counts the memories that have terms of the first hits.
func (r *recalling) countFirstTerms(ctx context.Context, out *memory.Statistics) (err error) {
	out.Look.Terms, err = r.frequencies(ctx, textsOf(firstTermsOf(&r.q.Statistics.Look)))
	return err
}

// firstTermsOf are the terms of the first hits of all databases.
func firstTermsOf(look *memory.LookStatistics) (found []firstHitTerm) {
	at := map[string]int{}
	for _, h := range look.First {
		for _, term := range h.Terms {
			found = addFirstTerm(found, at, term, h.Score)
		}
	}
	return found
}
