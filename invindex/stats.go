package invindex

import (
	"context"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"
)

// Stats are what BM25 needs to know of a set of documents.
type Stats struct {
	N      uint64   // documents
	Length uint64   // their total length
	DF     []uint32 // for each term asked for, the documents that have it
	B      float64  // how much length counts in the scores, at most 1; 0: as much as the index says
}

// Stats counts the documents of in, their length, and how many have each term.
// With neither set nor visibility given it costs a look-up for each term and
// chunk; else it looks at each document of the set, and at each term's postings
// or the set, whichever is cheaper.
func (x *Index) Stats(ctx context.Context, s Snapshot, terms []string, in Docs) (Stats, error) {
	if len(terms) > MaxQueryTerms {
		return Stats{}, tooManyTerms(len(terms))
	}
	st := Stats{DF: make([]uint32, len(terms))}
	sc := newScratch()
	defer sc.free()
	for v, err := range sc.views(ctx, x, &s, in) {
		if err == nil {
			err = v.count(&st, terms, sc)
		}
		if err != nil {
			return Stats{}, err
		}
	}
	return st, nil
}

func tooManyTerms(n int) error {
	return fmt.Errorf("%w: a query of %d terms; at most %d are possible", ErrInvalid, n, MaxQueryTerms)
}

// count adds the view's documents to st.
func (v *view) count(st *Stats, terms []string, sc *scratch) error {
	if v.docs == nil && v.visible == nil {
		return v.countAll(st, terms, sc)
	}
	v.mask(&sc.mask)
	sum, hash, err := v.selected(sc)
	if err != nil {
		return err
	}
	st.N += sum.docs
	st.Length += sum.length
	sc.decoded = sc.decoded[:0]
	for i, t := range terms {
		l, err := v.list(ofTerms, t, sc)
		if err != nil {
			return err
		}
		if hash == (xxh3.Uint128{}) || l.n < minKnownCount {
			st.DF[i] += l.common(sc.slots, &sc.mask)
			continue
		}
		st.DF[i] += v.remembered().count(hash, t, func() uint32 { return l.common(sc.slots, &sc.mask) })
	}
	return nil
}

// selected removes from the scratch's mask what is not visible, sums the rest,
// and where these are few leaves them as slots, too; else it returns the mask's hash.
func (v *view) selected(sc *scratch) (s sum, hash xxh3.Uint128, err error) {
	sc.slots = sc.slots[:0]
	if v.docs == nil || v.docs.card > maxArray {
		if v.visible != nil {
			sc.mask.filter(v.base, v.visible)
		}
		hash = sc.mask.hash()
		s, err = v.remembered().sum(hash, func() (sum, error) { return v.sumMask(&sc.mask) })
		return s, hash, err
	}
	sc.slots = v.slots(sc.slots)
	if v.visible != nil {
		sc.slots = slices.DeleteFunc(sc.slots, func(slot uint16) bool {
			hidden := !v.visible(v.base + uint32(slot))
			if hidden {
				sc.mask[slot>>6] &^= 1 << (slot & 63)
			}
			return hidden
		})
	}
	if len(sc.slots) <= maxSummed {
		s, err = v.sumSlots(sc.slots)
		return s, hash, err
	}
	s, err = v.remembered().sum(sc.mask.hash(), func() (sum, error) { return v.sumSlots(sc.slots) })
	return s, hash, err
}

// maxSummed is how many documents are summed in about the time that it takes to
// look their sum up.
const maxSummed = 256

// countAll adds a view of which every document below the limit counts.
func (v *view) countAll(st *Stats, terms []string, sc *scratch) error {
	sum, err := v.sum()
	if err != nil {
		return err
	}
	st.N += sum.docs
	st.Length += sum.length
	for i, t := range terms {
		n := 0
		if v.limit == chunkDocs {
			n, err = v.docFreq(v.reader, ofTerms, t)
		} else {
			var l postingList
			if l, err = v.list(ofTerms, t, sc); err == nil {
				n = l.count(v.limit)
			}
		}
		if err != nil {
			return err
		}
		st.DF[i] += uint32(n)
	}
	return nil
}
