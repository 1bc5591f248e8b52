package recall

import (
	"context"
	"math"
	"slices"

	"github.com/seed-7aedc3ff/memdb/policy"
)

// rankSubstrate scores the memories that have a word of the query, in large scopes
// those of the best BM25, by the signals of a search without vectors; and, where the query has
// a vector that has earned a weight, those that are near it.
func (r *recalling) rankSubstrate(ctx context.Context) ([]scored, error) {
	text, err := r.textShares(ctx)
	if err != nil {
		return nil, err
	}
	var v vectorLook
	if r.q.Embedding != nil {
		if len(text.docs) == 0 {
			return r.rankVector(ctx)
		}
		if v, err = r.lookAtVectors(ctx, text, policy.Weights{BM25: 1}); err != nil {
			return nil, err
		}
	}
	if v.weight > 0 {
		return r.rankSubstrateLearned(ctx, text, v)
	}
	weights, best := policy.Substrate(), newTop(r.keep)
	for i, doc := range text.docs {
		s := r.aged(doc)
		s.BM25 = text.own[i]
		best.weigh(doc, r.st.Docs.Row, weights, s)
	}
	return best.sorted(), nil
}

// textShares are the matches of the text, with their BM25 as a share of the best one's.
func (r *recalling) textShares(ctx context.Context) (*matches, error) {
	if len(r.terms) == 0 {
		return newMatches(nil), nil
	}
	hits, err := r.textHits(ctx, max(textMost, r.q.Limit))
	if err != nil {
		return nil, err
	}
	m := newMatches(docsOf(hits))
	for i, h := range hits {
		m.own[i] = float64(h.Score) / float64(hits[0].Score)
	}
	return m, nil
}

// aged are the signals of a memory that do not depend on the query.
func (r *recalling) aged(doc uint32) policy.Signals {
	row := r.st.Docs.Row(doc)
	access := r.st.Docs.Access(row.Seq)
	idle := r.since(max(access.Last, row.Created))
	return policy.Signals{
		Recency:    policy.Recency(r.since(row.Created), policy.RecencyHalfLife),
		Access:     policy.AccessFrequency(access.Count, idle),
		Importance: row.Importance * policy.Retained(r.st.Ageing.At(r.st.LSN).DailyRetention, idle),
	}
}

func (r *recalling) rankSubstrateLearned(ctx context.Context, text *matches, v vectorLook) ([]scored, error) {
	docs, match, err := r.withVectors(ctx, text)
	if err != nil {
		return nil, err
	}
	defer r.cos.close()
	alone, learned := policy.Substrate(), policy.SubstrateLearned(v.weight)
	// The others' signals are at most their weights.
	most := v.ceilings(resized(&r.scratch.rest, len(docs)), learned.Cosine)
	for i := range most.rest {
		most.rest[i] += alone.Recency + alone.Access + alone.Importance
		if match[i] > 0 {
			most.rest[i] = math.Inf(1)
		}
	}
	return r.join(docs, r.keep, most, func(i int, c float64) (policy.Weights, policy.Signals) {
		s := r.aged(docs[i])
		if match[i] > 0 {
			s.BM25 = text.own[match[i]-1]
		}
		if math.IsNaN(c) {
			return alone, s
		}
		s.Cosine = v.signal(c)
		return learned, s
	})
}

// withVectors are the documents that the text has found, by their places among the matches from 1
// on, and those that have a vector to compare with, all in scope where they are few; r.cos is of
// them, and the caller closes it.
func (r *recalling) withVectors(ctx context.Context, text *matches) (docs []uint32, match []int32, err error) {
	if r.few() {
		docs = r.in.List()
	} else if docs, err = r.withNearest(ctx, text.docs); err != nil {
		return nil, nil, err
	}
	if err := r.cosines(ctx, docs); err != nil {
		return nil, nil, err
	}
	docs = slices.Clone(docs) // the list is that of others, too
	r.plan.Candidates = len(docs)
	match = make([]int32, len(docs))
	for i, doc := range text.docs {
		if at, found := slices.BinarySearch(docs, doc); found {
			match[at] = int32(i) + 1
		}
	}
	n := 0
	for i := range docs { // the text or the vector must have found it
		if match[i] > 0 || r.cos.has(i) {
			docs[n], match[n] = docs[i], match[i]
			r.cos.move(n, i)
			n++
		}
	}
	return docs[:n], match[:n], nil
}

// ceilings are bounds of what similarities count for, with a weight: rest is filled in with what is
// to be added to those. The signal of a similarity c is max(0, (c - least) / deviation), and next
// to nothing.
func (v *vectorLook) ceilings(rest []float64, weight float64) ceilings {
	most := ceilings{rest: rest, weight: weight / v.deviation, least: v.least()}
	for i := range rest {
		rest[i] = roundings - most.weight*most.least + weight*v.faintMost()
	}
	return most
}
