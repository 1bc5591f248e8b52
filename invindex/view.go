package invindex

import (
	"context"
	"iter"
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
				return
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
				v.docs = &rest[0]
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
	return view{chunk: c, reader: s.Reader, base: uint32(c.id()) << 16, limit: s.limit(c.id())}
}

// list opens the list of a term or a value. A packed list holds the postings from
// the view's limit on too: they are in no snapshot that was pinned before the
// chunk was whole, and such a one reads the chunk that it pinned. See cutPacked.
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

// sum sums the documents below the view's limit.
func (v *view) sum() (sum, error) {
	var s sum
	whole := v.limit >> windowBits
	for w := range int(whole) {
		t := v.total(w)
		s.docs += t.docs
		s.length += t.length
	}
	if rest := v.limit % windowDocs; rest > 0 {
		lengths, err := v.lengths(v.reader)
		if err != nil {
			return sum{}, err
		}
		if page := lengths.window(int(whole)); page != nil {
			for _, stored := range page[:rest] {
				s.add(stored)
			}
		}
	}
	return s, nil
}

// sumOf sums the documents in slots, of which some may be gaps.
func (v *view) sumOf(slots []uint16) (sum, error) {
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
