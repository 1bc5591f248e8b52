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

// narrow applies a filter to a set of visible documents: by postings where the
// fields are indexed, and by reading records for the rest.
func (tx *Tx) narrow(ctx context.Context, set *roaring.Bitmap, f Filter) (*roaring.Bitmap, error) {
	if f == nil {
		return set, nil
	}
	set, rest, err := tx.byPostings(set, f)
	if err != nil || len(rest) == 0 {
		return set, err
	}
	keep := roaring.New()
	it := set.Iterator()
	for it.HasNext() {
		doc := it.Next()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		rec, err := tx.record(tx.db.docs.row(doc).version)
		if err != nil {
			return nil, err
		}
		meta, err := decodeMetadata(rec.metadata)
		if err != nil {
			return nil, err
		}
		if And(rest).match(rec, meta) {
			keep.Add(doc)
		}
	}
	return keep, nil
}

// byPostings narrows the set by what the postings can decide, and returns the
// conditions that they cannot.
func (tx *Tx) byPostings(set *roaring.Bitmap, f Filter) (_ *roaring.Bitmap, rest []Filter, err error) {
	switch f := f.(type) {
	case And:
		for _, g := range f {
			var more []Filter
			if set, more, err = tx.byPostings(set, g); err != nil {
				return nil, nil, err
			}
			rest = append(rest, more...)
		}
		return set, rest, nil
	case Eq:
		with, ok, err := tx.postingsOf(f.Field, []any{f.Value})
		if err != nil || !ok {
			return set, []Filter{f}, err
		}
		return intersect(set, with), nil, nil
	case In:
		with, ok, err := tx.postingsOf(f.Field, f.Values)
		if err != nil || !ok {
			return set, []Filter{f}, err
		}
		return intersect(set, with), nil, nil
	}
	return set, []Filter{f}, nil
}

// postingsOf is the union of the postings of a field's values, false where the
// field or a value is not indexed.
func (tx *Tx) postingsOf(name string, values []any) (*roaring.Bitmap, bool, error) {
	number, class := tx.indexedField(name)
	if number == 0 {
		return nil, false, nil
	}
	set := roaring.New()
	for _, v := range values {
		key, ok := exactKey(v)
		if !ok || len(key) > MaxIndexedValue && class == 0 {
			return nil, false, nil
		}
		if class != 0 {
			s, isString := v.(string)
			if !isString || s == "" {
				continue
			}
			num, found, err := tx.lookup(nameKey{class, s})
			if err != nil {
				return nil, false, err
			}
			if !found {
				continue
			}
			key = numberValue(num)
		}
		set.Or(tx.db.text.Lookup(tx.snapshot(), invindex.Value{Field: number, Key: key}))
	}
	return set, true, nil
}

// indexedField is the number of a field in the filter index, 0 for none, and the
// class of its values where those are interned.
func (tx *Tx) indexedField(name string) (number uint16, class nameClass) {
	f := fieldOf(name)
	switch f.number {
	case 0:
	case fieldUser:
		return fieldUser, nameUser
	case fieldAgent:
		return fieldAgent, nameAgent
	case fieldRun:
		return fieldRun, nameRun
	default:
		return f.number, 0
	}
	if f.of != nil {
		return 0, 0
	}
	if num, ok := tx.db.fields.number(f.path); ok {
		return firstMetadataField + uint16(num), 0
	}
	if tx.writes != nil {
		if num, ok := tx.names[nameKey{nameField, f.path}]; ok {
			return firstMetadataField + uint16(num), 0
		}
	}
	return 0, 0
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
