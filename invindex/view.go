package invindex

import (
	"context"
	"iter"
	"math/bits"
)

// view is a chunk as a call sees it: cut at a mark, and limited to some of its
// documents.
type view struct {
	chunk
	reader  Reader
	base    uint32
	limit   uint32     // slots below it are seen
	docs    *container // nil is all of them
	visible func(doc uint32) bool
}

// views yields the chunks that hold documents of in, in ascending order, or the
// error that ends them.
func (sc *scratch) views(ctx context.Context, x *Index, s *Snapshot, in Docs) iter.Seq2[view, error] {
	return func(yield func(view, error) bool) {
		if in.Set != nil {
			if err := sc.selection.read(in.Set); err != nil {
				yield(view{}, err)
				return
			}
		}
		rest := sc.selection.containers
		for _, c := range s.list(x) {
			v := s.view(c)
			if v.limit == 0 {
				continue
			}
			v.visible = in.Visible
			if in.Set != nil {
				for len(rest) > 0 && rest[0].chunk < c.id() {
					rest = rest[1:]
				}
				if len(rest) == 0 {
					return
				}
				if rest[0].chunk > c.id() {
					continue
				}
				if !rest[0].covers(min(v.limit, c.end())) {
					v.docs = &rest[0]
				}
			}
			if err := ctx.Err(); err != nil {
				yield(view{}, err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (s *Snapshot) view(c chunk) view {
	return view{chunk: c, reader: s.Reader, base: uint32(c.id()) << 16, limit: s.limit(c)}
}

// list opens the list of a term or a value, cut at the view's limit. Only a packed
// list is not cut: of a sealed chunk, a limit is below the end only for a Snapshot
// that did not pin its chunks, and then the callers mask what is above it.
func (v *view) list(kind dictKind, key string, sc *scratch) (postingList, error) {
	l, err := v.find(v.reader, kind, key, &sc.decoded)
	if err == nil && !l.isPacked {
		l.below(v.limit)
	}
	return l, err
}

// mask writes the view's documents, visible or not.
func (v *view) mask(m *mask) {
	if v.docs != nil {
		v.docs.mask(m)
	} else {
		clear(m[:])
		m.setRange(0, chunkDocs)
	}
	m.clip(v.limit)
}

// slots appends the view's documents, visible or not, of a view of some.
func (v *view) slots(dst []uint16) []uint16 {
	from := len(dst)
	dst = v.docs.slots(dst)
	for len(dst) > from && uint32(dst[len(dst)-1]) >= v.limit {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// sum sums the documents below the view's limit.
func (v *view) sum() (sum, error) {
	var s sum
	whole := int(v.limit >> windowBits)
	for w := range whole {
		s.join(v.total(w))
	}
	if rest := v.limit % windowDocs; rest > 0 {
		lengths, err := v.lengths(v.reader)
		if err != nil {
			return sum{}, err
		}
		if page := lengths.window(whole); page != nil {
			for _, stored := range page[:rest] {
				s.add(stored)
			}
		}
	}
	return s, nil
}

// sumSlots sums the documents in slots, of which some may be gaps.
func (v *view) sumSlots(slots []uint16) (sum, error) {
	lengths, err := v.lengths(v.reader)
	if err != nil {
		return sum{}, err
	}
	var s sum
	for _, slot := range slots {
		s.add(lengths.stored(uint32(slot)))
	}
	return s, nil
}

// sumMask sums the documents in a mask below the view's limit.
func (v *view) sumMask(m *mask) (sum, error) {
	lengths, err := v.lengths(v.reader)
	if err != nil {
		return sum{}, err
	}
	var s sum
	for w := range int((v.limit + windowDocs - 1) >> windowBits) {
		page, words := lengths.window(w), m.window(w)
		if page == nil {
			continue
		}
		n := 0
		for _, word := range words {
			n += bits.OnesCount64(word)
		}
		// Of a window that is wholly below the limit, the fewer are summed: those in
		// the mask, or the others.
		if n <= windowDocs/2 || uint32(w+1)<<windowBits > v.limit {
			s.join(page.sum(words, 0))
			continue
		}
		t, others := v.total(w), page.sum(words, ^uint64(0))
		s.join(sum{docs: t.docs - others.docs, length: t.length - others.length})
	}
	return s, nil
}

// sum sums the documents of which the bits in words differ from those in flip.
func (p *lengthPage) sum(words []uint64, flip uint64) sum {
	var s sum
	for i, word := range words {
		for word ^= flip; word != 0; word &= word - 1 {
			s.add(p[i<<6|bits.TrailingZeros64(word)])
		}
	}
	return s
}
