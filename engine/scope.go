package engine

import (
	"container/heap"
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/invindex"
)

// cancelEvery is how many documents a loop handles between looks at its context.
const cancelEvery = 1 << 14

// inScope is the set of documents that are visible and in a scope, or in any
// where all is set.
func (tx *Tx) inScope(ctx context.Context, s Scope, all bool) (*roaring.Bitmap, error) {
	set, err := tx.scopeSet(s)
	if err != nil {
		return nil, err
	}
	if set == nil {
		if !all {
			return roaring.New(), nil
		}
		set = roaring.New()
		set.AddRange(0, uint64(tx.mark))
	}
	return tx.onlyVisible(ctx, set)
}

// scopeSet intersects the postings of the given fields; nil without any.
func (tx *Tx) scopeSet(s Scope) (*roaring.Bitmap, error) {
	var set *roaring.Bitmap
	for _, f := range []struct {
		field uint16
		class nameClass
		name  string
	}{{fieldRun, nameRun, s.Run}, {fieldUser, nameUser, s.User}, {fieldAgent, nameAgent, s.Agent}} {
		if f.name == "" {
			continue
		}
		num, ok, err := tx.lookup(nameKey{f.class, f.name})
		if err != nil {
			return nil, err
		}
		if !ok {
			return roaring.New(), nil
		}
		set = intersect(set, tx.db.text.Lookup(tx.snapshot(), invindex.Value{Field: f.field, Key: numberValue(num)}))
	}
	return set, nil
}

func intersect(set, with *roaring.Bitmap) *roaring.Bitmap {
	if set == nil {
		return with
	}
	set.And(with)
	return set
}

func (tx *Tx) snapshot() invindex.Snapshot { return invindex.Snapshot{Docs: tx.mark} }

// onlyVisible removes what is not born, dead or expired.
func (tx *Tx) onlyVisible(ctx context.Context, set *roaring.Bitmap) (*roaring.Bitmap, error) {
	var out []uint32
	n := 0
	it := set.Iterator()
	for it.HasNext() {
		doc := it.Next()
		if n++; n%cancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if r := tx.db.docs.row(doc); !r.visible(tx.lsn) || r.expires != 0 && r.expires <= tx.now {
			out = append(out, doc)
		}
	}
	if len(out) > 0 {
		set.AndNot(roaring.BitmapOf(out...))
	}
	return set, nil
}

// list is a page of the memories that q selects.
func (tx *Tx) list(ctx context.Context, q *ListQuery, limit int) (Page, error) {
	if tx.writes != nil {
		if err := tx.materialise(); err != nil {
			return Page{}, tx.breaks(err)
		}
	}
	set, err := tx.inScope(ctx, q.Scope, q.AllScopes)
	if err != nil {
		return Page{}, err
	}
	if set, err = tx.narrow(ctx, set, q.Filter); err != nil {
		return Page{}, err
	}
	first := lowest{most: limit + 1}
	it := set.Iterator()
	for it.HasNext() {
		if row := tx.db.docs.row(it.Next()); row.seq > q.After {
			first.offer(row.version)
		}
	}
	versions := first.sorted()
	page := Page{More: len(versions) > limit}
	for _, v := range versions[:min(limit, len(versions))] {
		m, err := tx.load(v, q.WithVectors)
		if err != nil {
			return Page{}, err
		}
		page.Memories = append(page.Memories, m)
		page.Next = v.seq
	}
	return page, nil
}

// lowest keeps the versions of the lowest Seqs, as a heap with the highest first.
type lowest struct {
	most int
	vs   []version
}

func (l *lowest) Len() int           { return len(l.vs) }
func (l *lowest) Less(i, j int) bool { return l.vs[i].seq > l.vs[j].seq }
func (l *lowest) Swap(i, j int)      { l.vs[i], l.vs[j] = l.vs[j], l.vs[i] }
func (l *lowest) Push(v any)         { l.vs = append(l.vs, v.(version)) }
func (l *lowest) Pop() any {
	v := l.vs[len(l.vs)-1]
	l.vs = l.vs[:len(l.vs)-1]
	return v
}

func (l *lowest) offer(v version) {
	switch {
	case len(l.vs) < l.most:
		heap.Push(l, v)
	case v.seq < l.vs[0].seq:
		l.vs[0] = v
		heap.Fix(l, 0)
	}
}

func (l *lowest) sorted() []version {
	slices.SortFunc(l.vs, func(a, b version) int {
		if a.seq < b.seq {
			return -1
		}
		return 1
	})
	return l.vs
}
