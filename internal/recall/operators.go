package recall

import (
	"context"
	"errors"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/query"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// parse reads the text of the query, once.
func (r *recalling) parse(ctx context.Context) (err error) {
	if r.parsed != nil {
		return nil
	}
	in, err := r.languages(ctx)
	if err != nil {
		return err
	}
	if r.q.Syntax == memory.SyntaxOperators {
		r.parsed, err = query.ParseIn(ctx, r.st.Words.Analyzer.Load(), r.q.Text, in)
	} else {
		r.parsed, err = query.Words(ctx, r.st.Words.Analyzer.Load(), r.q.Text, in)
	}
	r.matcher = r.parsed.Matcher()
	return err
}

// matchError names the limit that the phrases and fuzzy words of a query are over.
func matchError(err error) error {
	if errors.Is(err, query.ErrSteps) {
		return &memory.Error{Kind: memory.ErrInvalid, What: doingRecall, Cause: err, Why: "the query takes too long", Do: "ask for fewer phrases and fuzzy words, or of a smaller scope"}
	}
	return err
}

// operators turns a text with operators into terms, their statistics over the scope,
// and the conditions on hits.
func (r *recalling) operators(ctx context.Context) error {
	if err := r.parse(ctx); err != nil {
		return err
	}
	parsed := r.parsed
	text, in := r.st.Index, invindex.Docs{Set: r.set}
	bound, err := text.Bind(ctx, r.st.Postings, parsed, in, func(ctx context.Context, doc uint32) (bool, error) {
		texts, err := r.indexedTexts(doc)
		if err != nil {
			return false, err
		}
		ok, err := r.matcher.Matches(ctx, texts...)
		return ok, matchError(err)
	})
	if err != nil {
		return state.TextError(doingRecall, err)
	}
	r.terms = bound.Scoring()
	r.words = len(r.terms)
	words := bound.Terms()
	if r.q.Explain {
		r.plan.Terms = words
	}
	if r.stats, err = text.Stats(ctx, r.st.Postings, words, in); err != nil {
		return state.TextError(doingRecall, err)
	}
	r.stage("statistics")
	if r.q.Profile == memory.ProfileText {
		r.bound = bound // the index sees to the conditions
		return nil
	}
	r.stats = bound.Blend(r.stats)
	return r.demand(ctx, parsed, bound)
}

// demand leaves in the set what has what the query demands.
func (r *recalling) demand(ctx context.Context, parsed *query.Query, bound *invindex.Query) error {
	before := r.in.N
	set, err := r.st.Index.Narrow(r.st.Postings, bound, r.set.Clone())
	if err != nil {
		return state.TextError(doingRecall, err)
	}
	if parsed.NeedsTexts() {
		var out []uint32
		for it := set.Iterator(); it.HasNext(); {
			doc := it.Next()
			if err := ctx.Err(); err != nil {
				return err
			}
			ok, err := bound.Verify(ctx, doc)
			if err != nil {
				return err
			}
			if !ok {
				out = append(out, doc)
			}
		}
		set.AndNot(roaring.BitmapOf(out...))
	}
	r.within(selection.NewMembers(set))
	r.narrowed = r.in.N < before
	r.stage("conditions")
	return nil
}

// indexedTexts are the texts of a document that are searched.
func (r *recalling) indexedTexts(doc uint32) ([]string, error) {
	rec, err := r.st.Record(r.st.Docs.Row(doc).Version)
	if err != nil {
		return nil, err
	}
	return r.st.Words.Texts(rec)
}

// highlight finds what of a memory's text the query looks for.
func (r *recalling) highlight(ctx context.Context, text string) (spans []memory.Span, err error) {
	found, err := r.matcher.Spans(ctx, nil, text)
	for _, s := range found {
		spans = append(spans, memory.Span(s))
	}
	return spans, matchError(err)
}
