package recall

import (
	"context"
	"math"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/query"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Of what several databases have, the words near those of a query are those of all, and each joins what it has of the best
// memories of all by either.

// countFound counts the memories that the words of the query find, as far as fewer would ask for near words.
func (r *recalling) countFound(ctx context.Context, out *memory.NearStatistics) error {
	if !r.asksNear() || len(r.counted.Terms) == 0 {
		*out = memory.NearStatistics{}
		return nil
	}
	if r.q.Profile != memory.ProfileBest { // no missing word is looked for where enough is found
		out.Own, out.Others = nil, 0
	}
	out.Enough, out.Keep = r.q.Limit, max(r.q.Limit, nearKeep)
	for _, df := range r.stats.DF {
		if int(df) >= out.Enough {
			out.Found = out.Enough
			return nil
		}
	}
	if r.set.IsEmpty() || len(r.terms) == 0 {
		return nil
	}
	hits, err := r.textHits(ctx, out.Enough)
	if out.Found = len(hits); err == nil && r.q.Profile == memory.ProfileBest {
		m, _ := r.lend(hits, make([]bool, len(hits)))
		out.Found = len(m.docs)
	}
	return err
}

// countNear finds the terms that are near words of the query: all that may be among the first of all databases, in which
// others of the same nearness may be more frequent.
func (r *recalling) countNear(ctx context.Context, out *memory.Statistics) error {
	out.Near.Terms = []memory.NearTerm{}
	of := r.missing()
	if given := &r.q.Statistics.Near; given.Found < given.Enough {
		of = r.terms
	}
	words := r.nearWords(of)
	if len(words) == 0 || r.set.IsEmpty() {
		return nil
	}
	found, err := r.termsNear(ctx, words, invindex.MaxQueryTerms)
	if len(found) > query.MaxExpansions {
		last := found[query.MaxExpansions-1].Rank()
		found = slices.DeleteFunc(found, func(t invindex.NearTerm) bool { return t.Rank() > last })
	}
	for _, t := range found {
		near := memory.NearTerm{Text: t.Text, Nearness: t.Nearness, Memories: t.Docs, Own: r.asks(t.Text)}
		if !near.Own {
			near.Rest = r.rest(words, t.Text)
		}
		out.Near.Terms = append(out.Near.Terms, near)
	}
	return err
}

// countRests counts the memories that have as a word what a near term has beside one of the query.
func (r *recalling) countRests(ctx context.Context, out *memory.Statistics) (err error) {
	var rests []string
	for _, t := range r.q.Statistics.Near.Terms {
		if t.Rest != "" && !slices.Contains(rests, t.Rest) && len(rests) < invindex.MaxQueryTerms {
			rests = append(rests, t.Rest)
		}
	}
	out.Near.Rests, err = r.frequencies(ctx, rests)
	return err
}

// nearOfAll are the words of all databases that are near those of the query; nil where none were looked for.
func (r *recalling) nearOfAll() []invindex.NearTerm {
	given := &r.q.Statistics.Near
	found := make([]invindex.NearTerm, len(given.Terms))
	doubtful := map[string]bool{}
	for i, t := range given.Terms {
		found[i] = invindex.NearTerm{Text: t.Text, Nearness: t.Nearness, Docs: t.Memories}
		doubtful[t.Text] = !given.Plausible(t)
	}
	return slices.DeleteFunc(invindex.FirstNear(found, query.MaxExpansions), func(t invindex.NearTerm) bool { return doubtful[t.Text] })
}

// countJoined finds the best memories by the words of the query, and by near ones.
func (r *recalling) countJoined(ctx context.Context, out *memory.Statistics) error {
	out.Near.Ranked, out.Near.Alike = []memory.Lifted{}, []memory.Place{}
	ranked, alike, _, err := r.rankBoth(ctx, r.nearOfAll())
	scores := make(map[uint32]float64, len(alike))
	for _, s := range alike {
		out.Near.Alike = append(out.Near.Alike, r.place(s.doc, s.score))
		scores[s.doc] = s.score
	}
	for _, s := range ranked {
		out.Near.Ranked = append(out.Near.Ranked, memory.Lifted{Place: r.place(s.doc, s.score), Near: scores[s.doc]})
	}
	return err
}

// rankBoth ranks by the words of the query, and by near ones.
func (r *recalling) rankBoth(ctx context.Context, near []invindex.NearTerm) (ranked, alike []scored, share float64, err error) {
	if r.set.IsEmpty() {
		return nil, nil, 0, nil
	}
	keep := r.keep
	r.keep = max(r.keep, nearKeep)
	ranked, err = r.rank(ctx)
	if r.keep = keep; err != nil {
		return nil, nil, 0, err
	}
	alike, share, err = r.alike(ctx, near)
	return ranked, alike, share, err
}

// rankPart is rankAll by the near words of all databases.
func (r *recalling) rankPart(ctx context.Context) ([]scored, error) {
	given := &r.q.Statistics.Near
	near := r.nearOfAll()
	switch {
	case len(near) == 0:
		return r.rank(ctx)
	case given.Found == 0:
		return r.rankNear(ctx, near)
	}
	ranked, alike, share, err := r.rankBoth(ctx, near)
	if err != nil {
		return nil, err
	}
	if last, ok := given.LastRanked(); ok {
		ranked = slices.DeleteFunc(ranked, func(s scored) bool { return r.place(s.doc, s.score).Compare(last) > 0 })
	}
	if last, ok := given.LastAlike(); ok {
		alike = slices.DeleteFunc(alike, func(s scored) bool { return r.place(s.doc, s.score).Compare(last) > 0 })
	}
	alone := lift(ranked, alike, share)
	r.alone = make(map[uint32]float64, len(alone))
	for _, s := range alone {
		r.alone[s.doc] = s.score
	}
	return behind(ranked, alone, share, leastLifted(given, share)), nil
}

// leastLifted is the least score of all memories that have words of the query, with what near ones add.
func leastLifted(given *memory.NearStatistics, share float64) float64 {
	least := math.Inf(1)
	last, ok := given.LastAlike()
	for _, p := range given.Ranked {
		score := p.Score
		if near := (memory.Place{Score: p.Near, Created: p.Created}); p.Near > 0 && (!ok || near.Compare(last) <= 0) {
			score += float64(share * p.Near)
		}
		least = min(least, score)
	}
	return least
}
