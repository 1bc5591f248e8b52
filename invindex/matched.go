package invindex

import (
	"context"
	"fmt"
	"slices"
)

// Matched counts for given documents, in ascending order, how many of some terms
// each has: out[i] is that of docs[i]. Visibility is the caller's affair.
func (x *Index) Matched(ctx context.Context, s Snapshot, terms []string, docs []uint32, out []uint16) error {
	if len(terms) > MaxQueryTerms {
		return tooManyTerms(len(terms))
	}
	if err := checkDocs(docs, len(out)); err != nil {
		return err
	}
	clear(out)
	sc := newScratch()
	defer sc.free()
	return x.among(ctx, s, docs, func(v *view, lo, hi int) error {
		sc.decoded = sc.decoded[:0]
		for _, t := range terms {
			l, err := v.list(ofTerms, t, sc)
			if err != nil {
				return err
			}
			l.countIn(docs[lo:hi], out[lo:hi], &sc.mask)
		}
		return nil
	})
}

// Having says which of the documents, in ascending order and without doubles, have a filter value.
func (x *Index) Having(ctx context.Context, s Snapshot, value Value, docs []uint32, out []bool) error {
	if err := checkDocs(docs, len(out)); err != nil {
		return err
	}
	clear(out)
	if len(value.Key) > MaxTermBytes {
		return nil
	}
	key := string(valueKey(nil, value))
	sc := newScratch()
	defer sc.free()
	return x.among(ctx, s, docs, func(v *view, lo, hi int) error {
		sc.decoded = sc.decoded[:0]
		l, err := v.list(ofValues, key, sc)
		if err != nil || l.n == 0 {
			return err
		}
		l.mask(&sc.mask)
		for i, doc := range docs[lo:hi] {
			out[lo+i] = sc.mask[doc%chunkDocs>>6]>>(doc&63)&1 != 0
		}
		return nil
	})
}

// checkDocs refuses documents that are not in ascending order, or more or less room
// for results.
func checkDocs(docs []uint32, room int) error {
	if room != len(docs) {
		return fmt.Errorf("%w: room for %d results of %d documents", ErrInvalid, room, len(docs))
	}
	if !slices.IsSorted(docs) {
		return fmt.Errorf("%w: the documents are not in ascending order", ErrInvalid)
	}
	return nil
}

// among calls visit for each chunk that may have some of given documents, in ascending
// order: docs[lo:hi].
func (x *Index) among(ctx context.Context, s Snapshot, docs []uint32, visit func(v *view, lo, hi int) error) error {
	for _, c := range s.list(x) {
		if err := ctx.Err(); err != nil {
			return err
		}
		v := s.view(c)
		lo, _ := slices.BinarySearch(docs, v.base)
		hi, _ := slices.BinarySearch(docs, v.base+v.limit)
		if lo == hi {
			continue
		}
		if err := visit(&v, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// countIn adds one to the counts of the documents of a chunk that the list has.
func (l *postingList) countIn(docs []uint32, counts []uint16, m *mask) {
	reads := l.n
	if l.isPacked { // a bitmap becomes a mask word by word
		reads = min(reads, windows*denseWindow)
	}
	switch {
	case l.n == 0:
	case len(docs)*probeCost < reads:
		for i, doc := range docs {
			if l.freq(doc%chunkDocs) > 0 {
				counts[i]++
			}
		}
	default:
		l.mask(m)
		for i, doc := range docs {
			counts[i] += uint16(m[doc%chunkDocs>>6] >> (doc & 63) & 1)
		}
	}
}
