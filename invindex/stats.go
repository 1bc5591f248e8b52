package invindex

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"
)

// Stats are what BM25 needs to know of a set of documents.
type Stats struct {
	N      uint64   // documents
	Length uint64   // their total length
	DF     []uint32 // for each term asked for, the documents that have it
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
	all := v.docs == nil && v.visible == nil
	var sum sum
	var err error
	if all {
		sum, err = v.sum()
	} else {
		v.mask(&sc.mask)
		if v.visible != nil {
			sc.mask.filter(v.base, v.visible)
		}
		sc.slots = sc.mask.slots(sc.slots[:0])
		sum, err = v.sumOf(sc.slots)
	}
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
		if all {
			st.DF[i] += l.count(v.limit)
		} else {
			st.DF[i] += l.common(sc.slots, &sc.mask)
		}
	}
	return nil
}

// Lookup is Find for an index without sealed chunks, in which reading can't fail.
// Where one is sealed and can't be read, the set is empty.
func (x *Index) Lookup(s Snapshot, value Value) *roaring.Bitmap {
	set, err := x.Find(s, value)
	if err != nil {
		return roaring.New()
	}
	return set
}

// Find returns the documents with a filter value, visible or not, below the
// snapshot's mark. The bitmap is the caller's.
func (x *Index) Find(s Snapshot, value Value) (*roaring.Bitmap, error) {
	set := roaring.New()
	if len(value.Key) > MaxTermBytes {
		return set, nil
	}
	key := string(valueKey(nil, value))
	sc := newScratch()
	defer sc.free()
	for _, c := range s.list(x) {
		v := s.view(c)
		if v.limit == 0 {
			break
		}
		sc.decoded = sc.decoded[:0]
		l, err := v.list(ofValues, key, sc)
		if err != nil {
			return nil, err
		}
		if sc.docs, err = l.docs(sc.docs[:0], v.base, v.limit); err != nil {
			return nil, err
		}
		set.AddMany(sc.docs)
	}
	return set, nil
}

// slots appends the slots of a mask.
func (m *mask) slots(dst []uint16) []uint16 {
	for i, word := range m {
		for ; word != 0; word &= word - 1 {
			dst = append(dst, uint16(i<<6|bits.TrailingZeros64(word)))
		}
	}
	return dst
}
