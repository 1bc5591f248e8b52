package recall

import (
	"cmp"
	"context"
	"slices"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/near"
	"github.com/seed-7aedc3ff/memdb/internal/query"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// A word of a query may be misspelt, in a form that the stemmer does not know, or a part of a word that is written
// together. So the words of the memories in scope are asked for those near it: alike in their letters, or one the
// beginning or the end of the other. That is done where no memory in scope has the word, and for all words where the
// memories that have them are fewer than the query asks for. What near words alone find stands behind all else.

const (
	// nearWords is how many words of a query are looked for so, the first ones.
	nearWords = 8
	// nearMissing is how many of the words that no memory has are looked for where others are found: two take some 5 % of
	// a recall.
	nearMissing = 2
	// nearShare is what a near word adds to the score of a memory that has other words of the query, as a share of
	// what the word itself would.
	nearShare = .3
	// nearKeep is how many memories are ranked at least where a near word may lift one.
	nearKeep = 100
	// partLetters is how many letters the rest of a compound has at least that no memory has as a word, where the query
	// may be in a language that writes words together.
	partLetters = 4
)

// rankAll ranks by the words of the query, and by words near them.
func (r *recalling) rankAll(ctx context.Context) ([]scored, error) {
	if !r.asksNear() {
		return r.rank(ctx)
	}
	if r.q.Statistics != nil {
		return r.rankPart(ctx)
	}
	missing, keep := r.missing(), r.keep
	if len(missing) > 0 {
		r.keep = max(r.keep, nearKeep)
	}
	ranked, err := r.rank(ctx)
	r.keep = keep
	if err == nil && (len(missing) > 0 || len(ranked) < r.q.Limit) {
		ranked, err = r.withNear(ctx, ranked, missing)
	}
	return ranked[:min(keep, len(ranked))], err
}

// asksNear reports whether near words may be looked for: the query is one of words alone.
func (r *recalling) asksNear() bool {
	if r.q.OnlyWords || r.q.Text == "" || r.q.Embedding != nil || r.q.Syntax == memory.SyntaxOperators || r.meant() == 0 {
		return false
	}
	switch r.q.Profile {
	case memory.ProfileVector, memory.ProfileHybrid: // they rank by vectors of the same letters
		return false
	}
	return len(r.stats.DF) == len(r.terms)
}

// missing are the longest terms of the query that no memory in scope has, for the profile best: the others rank by the
// words as they are, as long as these are enough.
func (r *recalling) missing() (terms []invindex.QueryTerm) {
	if r.q.Profile != memory.ProfileBest {
		return nil
	}
	for i, t := range r.terms {
		if r.stats.DF[i] == 0 {
			terms = append(terms, t)
		}
	}
	slices.SortStableFunc(terms, func(a, b invindex.QueryTerm) int { return cmp.Compare(len(b.Text), len(a.Text)) })
	return terms[:min(len(terms), nearMissing)]
}

// withNear adds to memories that were ranked by the words of the query those that have words near them: near the missing
// ones, or near any where too few memories were found.
func (r *recalling) withNear(ctx context.Context, ranked []scored, missing []invindex.QueryTerm) ([]scored, error) {
	of := missing
	if len(ranked) < r.q.Limit {
		of = r.terms
	}
	found, err := r.nearTerms(ctx, of)
	if err != nil || len(found) == 0 {
		return ranked, err
	}
	if len(ranked) == 0 {
		return r.rankNear(ctx, found)
	}
	alike, share, err := r.alike(ctx, found)
	alone := lift(ranked, alike, share)
	// A result is in descending order of its scores.
	return behind(ranked, alone, share, ranked[len(ranked)-1].score), err
}

// alike ranks by near words beside those of the query, and says what share of the scores counts.
func (r *recalling) alike(ctx context.Context, found []invindex.NearTerm) (alike []scored, share float64, err error) {
	most := 1.0
	if r.q.Profile != memory.ProfileText {
		most = r.most() // a score is a share of what the words could give
	}
	err = r.instead(found, func() error {
		alike, err = r.rankText(ctx, max(r.keep, nearKeep))
		return err
	})
	return alike, nearShare / most, err
}

// nearTerms are the terms in scope that are near some words.
func (r *recalling) nearTerms(ctx context.Context, of []invindex.QueryTerm) ([]invindex.NearTerm, error) {
	words := r.nearWords(of)
	if len(words) == 0 {
		return nil, nil
	}
	found, err := r.termsNear(ctx, words, query.MaxExpansions)
	if err != nil {
		return nil, err
	}
	return r.plausible(ctx, words, slices.DeleteFunc(found, func(t invindex.NearTerm) bool { return r.asks(t.Text) }))
}

// nearWords are the words that are looked for by what is near them.
func (r *recalling) nearWords(of []invindex.QueryTerm) (words []near.Word) {
	for _, t := range of {
		for _, text := range append(r.read.reading.Ends(t.Text), t.Text) {
			if w, ok := near.New(text); ok && len(words) < nearWords {
				words = append(words, w)
			}
		}
	}
	return words
}

// termsNear are the first terms in scope that are near words.
func (r *recalling) termsNear(ctx context.Context, words []near.Word, most int) ([]invindex.NearTerm, error) {
	found, err := r.st.Index.Near(ctx, r.st.Postings, words, invindex.Docs{Set: r.set}, most)
	r.stage("near words")
	return found, state.TextError(doingRecall, err)
}

// asks reports whether the query has a term.
func (r *recalling) asks(term string) bool {
	return slices.ContainsFunc(r.terms, func(own invindex.QueryTerm) bool { return own.Text == term })
}

// plausible leaves out words that end with a word of the query, or it with them, by chance: as passport ends with sport.
// What stands before is to be a word of the scope, but in languages that write words together.
func (r *recalling) plausible(ctx context.Context, words []near.Word, found []invindex.NearTerm) ([]invindex.NearTerm, error) {
	doubtful := map[string]string{} // the rests, by the term
	var rests []string
	for _, t := range found {
		if rest := r.rest(words, t.Text); rest != "" {
			if doubtful[t.Text] = rest; !slices.Contains(rests, rest) {
				rests = append(rests, rest)
			}
		}
	}
	if len(rests) == 0 {
		return found, nil
	}
	known, err := r.frequencies(ctx, rests)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(t invindex.NearTerm) bool {
		rest, doubt := doubtful[t.Text]
		return doubt && known[rest] == 0
	}), nil
}

// rest is what has to be a word of the scope for a term not to be near words by chance, empty where nothing has to.
func (r *recalling) rest(words []near.Word, term string) (doubtful string) {
	if r.read.reading.Compounds() {
		return ""
	}
	least := near.MaxLetters + 1
	if r.read.reading.In.Has(analysis.Unsure) {
		least = partLetters
	}
	for i := range words {
		if rest := words[i].Rest(term); rest != "" && utf8.RuneCountInString(rest) < least {
			doubtful = rest
		}
	}
	return doubtful
}

// rankNear ranks by near words alone, where nothing has a word of the query.
func (r *recalling) rankNear(ctx context.Context, found []invindex.NearTerm) (ranked []scored, err error) {
	err = r.instead(found, func() error {
		ranked, err = r.rank(ctx)
		return err
	})
	for i := range ranked {
		ranked[i].near = true
	}
	return ranked, err
}

// instead calls rank with near words in the place of the query's own.
func (r *recalling) instead(found []invindex.NearTerm, rank func() error) error {
	terms, stats, words := r.terms, r.stats, r.words
	defer func() { r.terms, r.stats, r.words = terms, stats, words }()
	r.terms, r.stats.DF = nil, nil
	for _, t := range found {
		r.terms = append(r.terms, invindex.QueryTerm{Text: t.Text, Weight: t.Nearness})
		r.stats.DF = append(r.stats.DF, t.Docs)
		r.plan.Near = append(r.plan.Near, t.Text)
	}
	r.words = len(r.terms)
	r.near.terms, r.near.stats = r.terms, r.stats
	return rank()
}

// lift adds a share of the scores by near words to those of memories that have words of the query, and returns the others.
func lift(ranked, alike []scored, share float64) (alone []scored) {
	at := make(map[uint32]int, len(ranked))
	for i := range ranked {
		at[ranked[i].doc] = i
	}
	for _, s := range alike {
		i, both := at[s.doc]
		if !both {
			s.near = true
			alone = append(alone, s)
			continue
		}
		more := float64(share * s.score)
		ranked[i].score += more
		ranked[i].parts.BM25 += more
	}
	slices.SortFunc(ranked, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.seq, b.seq))
	})
	return alone
}

// behind puts memories that have near words alone behind the others, in their order, with at most the score of the last one.
func behind(ranked, alone []scored, share, last float64) []scored {
	for i := range alone {
		alone[i].score = min(float64(share*alone[i].score), last)
		alone[i].parts = memory.Signals{BM25: alone[i].score}
	}
	return append(ranked, alone...)
}
