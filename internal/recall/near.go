package recall

import (
	"context"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/near"
	"github.com/seed-7aedc3ff/memdb/internal/query"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Where no memory in scope has a word of a query, its words may be misspelt, in a form that
// the stemmer does not know, or parts of words that are written together. So the words of
// the memories in scope are asked for those near them: alike in their letters, or one the
// beginning or the end of the other.

// nearWords is how many words of a query are looked for so, the first ones.
const nearWords = 8

// rankNear is rank where nothing has a word of the query: by the words near its own.
func (r *recalling) rankNear(ctx context.Context) ([]scored, error) {
	if !r.asksNear() {
		return nil, nil
	}
	var words []near.Word
	for _, t := range r.terms {
		if w, ok := near.New(t.Text); ok && len(words) < nearWords {
			words = append(words, w)
		}
	}
	if len(words) == 0 {
		return nil, nil
	}
	found, err := r.st.Index.Near(ctx, r.st.Postings, words, invindex.Docs{Set: r.set}, query.MaxExpansions)
	if err != nil {
		return nil, state.TextError(doingRecall, err)
	}
	r.stage("near words")
	if len(found) == 0 {
		return nil, nil
	}
	r.terms, r.stats.DF = r.terms[:0], r.stats.DF[:0]
	for _, t := range found {
		r.terms = append(r.terms, invindex.QueryTerm{Text: t.Text, Weight: t.Nearness})
		r.stats.DF = append(r.stats.DF, t.Docs)
		r.plan.Near = append(r.plan.Near, t.Text)
	}
	r.words = len(r.terms)
	return r.rank(ctx)
}

// asksNear reports whether the query is one of words alone, none of which is in scope.
func (r *recalling) asksNear() bool {
	if r.q.OnlyWords || r.q.Text == "" || r.q.Embedding != nil || r.q.Syntax == memory.SyntaxOperators || r.set.IsEmpty() {
		return false
	}
	switch r.q.Profile {
	case memory.ProfileVector, memory.ProfileHybrid: // they have ranked by vectors of the same letters
		return false
	}
	return !slices.ContainsFunc(r.stats.DF, func(df uint32) bool { return df > 0 })
}
