package recall

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Count are the statistics of a query over what this state has of it: with Statistics of nothing the
// languages, with those of the languages the terms, too.
func Count(ctx context.Context, h Host, st *state.State, q *memory.Query) (memory.Statistics, error) {
	r := begin(h, st, q, "")
	defer r.end()
	if err := r.narrow(ctx); err != nil {
		return memory.Statistics{}, err
	}
	shares, err := r.in.Languages(ctx, st)
	if err != nil {
		return memory.Statistics{}, err
	}
	all, err := r.st.Index.Stats(ctx, r.st.Postings, nil, invindex.Docs{Set: r.set}) // shares count none where all are English
	if err != nil {
		return memory.Statistics{}, state.TextError(doingRecall, err)
	}
	out := memory.Statistics{Memories: int(all.N), Unsure: shares.Unsure, Languages: shares.In[:]}
	if q.Statistics.Languages == nil || q.Text == "" {
		return out, nil
	}
	r.counted = &out
	err = r.analyse(ctx)
	return out, err
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
