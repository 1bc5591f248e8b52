package invindex

import (
	"context"
	"iter"
)

// view is a chunk as a call sees it: cut at a mark, and limited to some of its
// documents.
type view struct {
	*hotChunk
	base    uint32
	limit   uint32     // slots below it are seen
	docs    *container // nil is all of them
	visible func(doc uint32) bool
}

// chunks yields the chunks that hold documents of in, in ascending order, or the
// error of ctx.
func (sc *scratch) chunks(ctx context.Context, x *Index, s Snapshot, in Docs) iter.Seq2[view, error] {
	return func(yield func(view, error) bool) {
		if in.Set != nil {
			if err := sc.selection.read(in.Set); err != nil {
				yield(view{}, err)
				return
			}
		}
		rest := sc.selection.containers
		for _, c := range *x.chunks.Load() {
			v := view{hotChunk: c, base: uint32(c.number) << 16, limit: s.limit(c.number), visible: in.Visible}
			if v.limit == 0 {
				return
			}
			if in.Set != nil {
				for len(rest) > 0 && rest[0].chunk < c.number {
					rest = rest[1:]
				}
				if len(rest) == 0 {
					return
				}
				if rest[0].chunk > c.number {
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

// total sums the documents below the view's limit.
func (v *view) total() sum {
	var s sum
	whole := v.limit >> windowBits
	for _, w := range v.sums[:whole] {
		s.docs += w.docs
		s.length += w.length
	}
	if rest := v.limit % windowDocs; rest > 0 {
		if page := v.lengths[whole].Load(); page != nil {
			for _, stored := range page[:rest] {
				s.add(stored)
			}
		}
	}
	return s
}

// sumOf sums the documents in slots, of which some may be gaps.
func (v *view) sumOf(slots []uint16) sum {
	var s sum
	for _, slot := range slots {
		if page := v.lengths[slot>>windowBits].Load(); page != nil {
			s.add(page[slot%windowDocs])
		}
	}
	return s
}
