package recall

import (
	"context"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Count are the statistics of a query over what this state has of it, as far as they go by those that
// it has: what comes next, see memory.Statistics.
func Count(ctx context.Context, h Host, st *state.State, q *memory.Query) (memory.Statistics, error) {
	r := begin(h, st, q, "")
	defer r.end()
	if err := r.narrow(ctx); err != nil {
		return memory.Statistics{}, err
	}
	var out memory.Statistics
	var err error
	switch given := q.Statistics; {
	case given.Languages == nil:
		out, err = r.countLanguages(ctx)
	case given.Terms == nil:
		out, err = r.countTerms(ctx)
	default:
		err = r.countRest(ctx, &out)
	}
	out.Version = memory.StatisticsVersion
	return out, err
}

// countRest counts, once the terms of the query are known, all that can be counted by what is known.
func (r *recalling) countRest(ctx context.Context, out *memory.Statistics) error {
	if err := r.analyse(ctx); err != nil {
		return err
	}
	given := r.q.Statistics
	count := func() error {
		for _, figure := range []struct {
			lacks bool
			count func(ctx context.Context, out *memory.Statistics) error
		}{
			{given.LacksNear(), r.countNear},
			{given.LacksRests(), r.countRests},
			{given.LacksLenders(), r.countLenders},
			{given.LacksBest(), r.countBest},
			{given.LacksFirstTerms(), r.countFirstTerms},
			{given.LacksCorrected(), r.countCorrected},
			{given.LacksJoined(), r.countJoined},
		} {
			if figure.lacks {
				if err := figure.count(ctx, out); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if given.OnlyNear() {
		return r.instead(r.nearOfAll(), count)
	}
	return count()
}

// countLanguages counts the memories that are meant.
func (r *recalling) countLanguages(ctx context.Context) (out memory.Statistics, err error) {
	shares, err := r.in.Languages(ctx, r.st)
	if err != nil {
		return out, err
	}
	all, err := r.st.Index.Stats(ctx, r.st.Postings, nil, invindex.Docs{Set: r.set}) // shares count none where all are English
	if err != nil {
		return out, state.TextError(doingRecall, err)
	}
	out = memory.Statistics{Memories: int(all.N), Unsure: shares.Unsure, Languages: shares.In[:]}
	if r.q.Profile == memory.ProfileBest && r.q.Text != "" {
		out.Lend, out.Correct = max(LendersMost, r.q.Limit), factReach
		facts, err := r.facts()
		if err != nil {
			return out, err
		}
		out.Facts = facts.AndCardinality(r.set)
	}
	return out, nil
}

// countTerms counts the terms of the query, and says what its vector looks at.
func (r *recalling) countTerms(ctx context.Context) (out memory.Statistics, err error) {
	r.counted = &out
	if err := r.analyse(ctx); err != nil {
		return out, err
	}
	if out.Terms == nil {
		out.Terms = map[string]uint32{} // none count
	}
	r.countLook(&out)
	if err := r.countFound(ctx, &out.Near); err != nil {
		return out, err
	}
	if r.q.Embedding == nil {
		return out, nil
	}
	s := r.querySpace()
	if s == nil {
		return out, nil
	}
	v := &out.Vectors
	v.Metric = s.Metric.String()
	if r.q.Profile != memory.ProfileBest || r.q.Text == "" {
		return out, nil
	}
	trust, _ := r.host.Trust(s)
	v.Shown = memory.Shown(trust)
	all, err := r.middles(ctx, r.spread())
	v.Compared = len(all)
	v.Mean, v.Squares = meanAndSquares(all)
	return out, err
}

// countLenders finds the best matches of the text.
func (r *recalling) countLenders(ctx context.Context, out *memory.Statistics) error {
	out.Lenders = []memory.Place{}
	if len(r.terms) == 0 {
		return nil
	}
	hits, err := r.textHits(ctx, r.q.Statistics.Lend)
	for _, h := range hits {
		out.Lenders = append(out.Lenders, r.place(h.Doc, float64(h.Score)))
	}
	return err
}

// countCorrected finds the best hits before facts correct them.
func (r *recalling) countCorrected(ctx context.Context, out *memory.Statistics) error {
	out.Corrected = []memory.Place{}
	if r.set.IsEmpty() || len(r.terms) == 0 {
		return nil
	}
	r.keep = r.q.Statistics.Correct
	ranked, err := r.rankBest(ctx)
	for _, s := range ranked {
		out.Corrected = append(out.Corrected, r.place(s.doc, s.score))
	}
	return err
}

// place is that of a document among those of all databases.
func (r *recalling) place(doc uint32, score float64) memory.Place {
	return memory.Place{Score: score, Created: r.st.Docs.Row(doc).Created}
}

// lending leaves of the best matches those that are among the best of all databases.
func (r *recalling) lending(hits []invindex.Hit) []invindex.Hit {
	if r.q.Statistics == nil {
		return hits
	}
	last, ok := r.q.Statistics.LastLender()
	if !ok {
		return hits
	}
	return slices.DeleteFunc(hits, func(h invindex.Hit) bool { return r.place(h.Doc, float64(h.Score)).Compare(last) > 0 })
}

// correctable is how many of the first hits facts may correct.
func (r *recalling) correctable(ranked []scored) int {
	n := min(factReach, len(ranked))
	if r.q.Statistics == nil {
		return n
	}
	if last, ok := r.q.Statistics.LastCorrected(); ok {
		if behind := slices.IndexFunc(ranked[:n], func(s scored) bool { return r.place(s.doc, s.score).Compare(last) > 0 }); behind >= 0 {
			return behind
		}
	}
	return n
}

// textless reports whether no memory that is meant has a word of the query, in any database.
func (r *recalling) textless(text *matches) bool {
	if r.q.Statistics == nil {
		return len(text.docs) == 0
	}
	for _, n := range r.stats.DF {
		if n > 0 {
			return false
		}
	}
	return true
}

// meant is how many memories the query means, in all databases.
func (r *recalling) meant() int {
	if given := r.q.Statistics; given != nil {
		return given.Memories
	}
	return r.in.N
}

// shares are in which languages the memories are that the query means.
func (r *recalling) shares(ctx context.Context) (analysis.Shares, error) {
	given := r.q.Statistics
	if given == nil || given.Languages == nil {
		return r.in.Languages(ctx, r.st)
	}
	shares := analysis.Shares{Unsure: given.Unsure}
	if len(given.Languages) != len(shares.In) {
		return shares, &memory.Error{Kind: memory.ErrMismatch, What: doingRecall, Why: "its statistics are of other languages", Do: "run one version of memdb everywhere"}
	}
	copy(shares.In[:], given.Languages)
	if shares != (analysis.Shares{}) {
		shares.All = given.Memories
	}
	return shares, nil
}

// count are the statistics of words: of the memories in scope, or those that the query came with.
func (r *recalling) count(ctx context.Context, words []string) (invindex.Stats, error) {
	if given := r.q.Statistics; given != nil && given.Terms != nil {
		stats := invindex.Stats{N: uint64(given.Memories), Length: given.Length, DF: make([]uint32, len(words))}
		for i, w := range words {
			stats.DF[i] = given.Terms[w]
		}
		return stats, nil
	}
	stats, err := r.st.Index.Stats(ctx, r.st.Postings, words, invindex.Docs{Set: r.set})
	if err == nil && r.counted != nil {
		r.counted.Length, r.counted.Terms = stats.Length, make(map[string]uint32, len(words))
		for i, w := range words {
			r.counted.Terms[w] = stats.DF[i]
		}
	}
	return stats, err
}

// frequencies are how many memories in scope have each of some terms.
func (r *recalling) frequencies(ctx context.Context, terms []string) (map[string]uint32, error) {
	stats, err := r.st.Index.Stats(ctx, r.st.Postings, terms, invindex.Docs{Set: r.set})
	if err != nil {
		return nil, state.TextError(doingRecall, err)
	}
	counts := make(map[string]uint32, len(terms))
	for i, t := range terms {
		counts[t] = stats.DF[i]
	}
	return counts, nil
}
