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
	sc := scratchPool.Get().(*scratch)
	defer scratchPool.Put(sc)
	for v, err := range sc.chunks(ctx, x, s, in) {
		if err != nil {
			return Stats{}, err
		}
		v.count(&st, terms, sc)
	}
	return st, nil
}

func tooManyTerms(n int) error {
	return fmt.Errorf("%w: a query of %d terms; at most %d are possible", ErrInvalid, n, MaxQueryTerms)
}

// Lookup returns the documents with a filter value, visible or not, below the
// snapshot's mark. The bitmap is the caller's.
func (x *Index) Lookup(s Snapshot, v Value) *roaring.Bitmap {
	set := roaring.New()
	if len(v.Key) > MaxTermBytes {
		return set
	}
	var room [2 + MaxTermBytes]byte
	key := string(valueKey(room[:0], v))
	var docs []uint32
	for _, c := range *x.chunks.Load() {
		limit := s.limit(c.number)
		if limit == 0 {
			break
		}
		l := c.values.find(key)
		if l == nil {
			continue
		}
		docs = docs[:0]
		base := uint32(c.number) << 16
		for _, p := range below(l.postings(), limit) {
			docs = append(docs, base|p>>16)
		}
		set.AddMany(docs)
	}
	return set
}

// count adds the view's documents to st.
func (v *view) count(st *Stats, terms []string, sc *scratch) {
	if v.docs == nil && v.visible == nil {
		sum := v.total()
		st.N += sum.docs
		st.Length += sum.length
		for i, t := range terms {
			if l := v.terms.find(t); l != nil {
				st.DF[i] += uint32(len(below(l.postings(), v.limit)))
			}
		}
		return
	}
	m := &sc.mask
	if v.docs == nil {
		clear(m[:])
		m.setRange(0, v.limit)
	} else {
		v.docs.mask(m)
		m.clip(v.limit)
	}
	if v.visible != nil {
		m.filter(v.base, v.visible)
	}
	slots := sc.slots[:0]
	for i, word := range m {
		for ; word != 0; word &= word - 1 {
			slots = append(slots, uint16(i<<6|bits.TrailingZeros64(word)))
		}
	}
	sc.slots = slots
	sum := v.sumOf(slots)
	st.N += sum.docs
	st.Length += sum.length
	for i, t := range terms {
		if l := v.terms.find(t); l != nil {
			st.DF[i] += common(below(l.postings(), v.limit), slots, m)
		}
	}
}

// probeCost is about how many postings can be looked at in the time of one look
// for a slot in a list.
const probeCost = 8

// common counts the postings whose slot is in a set, given as both slots and mask.
func common(p []posting, slots []uint16, m *mask) uint32 {
	n := uint32(0)
	if len(slots)*probeCost < len(p) {
		for _, slot := range slots {
			i := gallop(p, posting(slot)<<16)
			if p = p[i:]; len(p) == 0 {
				break
			}
			if uint16(p[0]>>16) == slot {
				n++
			}
		}
		return n
	}
	for _, x := range p {
		n += uint32(m[x>>22] >> (x >> 16 & 63) & 1)
	}
	return n
}
