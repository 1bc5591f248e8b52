package recall

import (
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// factReach is how many of the best are looked at for facts, however many are asked for: who asks
// for one hit gets the first of those who ask for more.
const factReach = 50

// correct moves facts above older messages of the same owner that have no word of the query which
// the fact lacks: somebody who asks "where do I live" wants the fact that was made of the newest
// message, and not the message of last year.
func (r *recalling) correct(ctx context.Context, ranked []scored) ([]scored, error) {
	first := ranked[:r.correctable(ranked)]
	if len(r.terms) == 0 || len(first) < 2 {
		return ranked, nil
	}
	docs := make([]uint32, len(first))
	for i, s := range first {
		docs[i] = s.doc
	}
	slices.Sort(docs)
	facts, err := r.ofKind(ctx, docs, memory.KindFact)
	if err != nil || !slices.Contains(facts, true) {
		return ranked, err
	}
	messages, err := r.ofKind(ctx, docs, memory.KindMessage)
	if err != nil || !slices.Contains(messages, true) {
		return ranked, err
	}
	words, err := r.termsIn(ctx, docs)
	if err != nil {
		return nil, err
	}
	place := func(s *scored) int { i, _ := slices.BinarySearch(docs, s.doc); return i }
	for i := 1; i < len(first); i++ {
		f := place(&first[i])
		if !facts[f] {
			continue
		}
		to := slices.IndexFunc(first[:i], func(s scored) bool {
			m := place(&s)
			return messages[m] && r.isOlder(s.doc, first[i].doc) && !slices.ContainsFunc(words, func(have []bool) bool { return have[m] && !have[f] })
		})
		if to >= 0 {
			s := above(first[i], first[to].score)
			copy(first[to+1:i+1], first[to:i])
			first[to] = s
		}
	}
	return ranked, nil
}

// hasFacts reports whether a memory that may be a hit is a fact.
func (r *recalling) hasFacts() (bool, error) {
	facts, err := r.facts()
	return err == nil && facts.Intersects(r.set), err
}

// facts are documents of facts, among them all that may be hits.
func (r *recalling) facts() (*roaring.Bitmap, error) {
	if r.set.IsEmpty() {
		return roaring.New(), nil
	}
	kind := invindex.Value{Field: layout.FieldKind, Key: scalar.TextKey(string(memory.KindFact))}
	facts, err := r.st.Index.FindIn(r.st.Postings, kind, r.set.Minimum(), r.set.Maximum()+1)
	return facts, state.TextError(doingRecall, err)
}

// above is a candidate that is lifted to a score, or next to nothing above it.
func above(s scored, score float64) scored {
	s.parts.Fact = score - s.score + roundings
	s.score = policy.Sum(policy.Signals(s.parts))
	return s
}

// isOlder reports whether a message of the owner of a fact was stored before the fact was, or was
// changed.
func (r *recalling) isOlder(message, fact uint32) bool {
	m, f := r.st.Docs.Row(message), r.st.Docs.Row(fact)
	return m.Owner == f.Owner && m.Born < f.Born
}

// ofKind says which of the documents are of a kind.
func (r *recalling) ofKind(ctx context.Context, docs []uint32, k memory.Kind) ([]bool, error) {
	return r.having(ctx, docs, invindex.Value{Field: layout.FieldKind, Key: scalar.TextKey(string(k))})
}

// termsIn says of each term of the query which of the documents have it.
func (r *recalling) termsIn(ctx context.Context, docs []uint32) ([][]bool, error) {
	words := make([][]bool, len(r.terms))
	counts := make([]uint16, len(docs))
	for t := range r.terms {
		if err := r.st.Index.Matched(ctx, r.st.Postings, []string{r.terms[t].Text}, docs, counts); err != nil {
			return nil, state.TextError(doingRecall, err)
		}
		words[t] = make([]bool, len(docs))
		for i, n := range counts {
			words[t][i] = n > 0
		}
	}
	return words, nil
}
