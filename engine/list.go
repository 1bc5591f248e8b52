package engine

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// ordering is the order of a list, and the place after which it goes on.
type ordering struct {
	name       string // empty: by seq
	field      selection.Field
	descending bool
	after      *position
}

// position is where a memory stands in an order.
type position struct {
	value sortValue
	layout.Version
}

// sortValue is a value that can be ordered among others of any type.
type sortValue struct {
	kind sortKind
	num  scalar.Number
	str  string
}

type sortKind uint8

const (
	sortNull sortKind = iota
	sortBool
	sortNumber
	sortString
	sortMissing // last
)

// sortValueOf is the place of a value that a memory has, or has not, in an order.
func sortValueOf(v any, ok bool) sortValue {
	if !ok {
		return sortValue{kind: sortMissing}
	}
	switch v := v.(type) {
	case nil:
		return sortValue{kind: sortNull}
	case bool:
		return sortValue{kind: sortBool, num: scalar.Int(int64(flag(v)))}
	case string:
		return sortValue{kind: sortString, str: v}
	}
	if n, ok := scalar.NumberOf(v); ok {
		return sortValue{kind: sortNumber, num: n}
	}
	return sortValue{kind: sortMissing}
}

func (a sortValue) compare(b sortValue) int {
	if a.kind != b.kind {
		return cmp.Compare(a.kind, b.kind)
	}
	switch a.kind {
	case sortBool, sortNumber:
		return a.num.Compare(b.num)
	case sortString:
		return strings.Compare(a.str, b.str)
	}
	return 0
}

// pageBytes bounds what the memories of one page take: with the largest texts, a page of
// 10,000 would not fit into the memory of most machines.
const pageBytes = 64 << 20

const doingList = "list memories"

func newOrdering(db *DB, q *memory.ListQuery) (*ordering, error) {
	o := &ordering{name: q.OrderBy, descending: q.Descending}
	if o.name == "seq" {
		o.name = ""
	}
	if o.name != "" {
		var err error
		if o.field, err = selection.FieldOf(o.name); err != nil || len(q.OrderBy) > valid.MaxID || o.field.Name == "aliases" {
			return nil, fault.Invalid(doingList, fmt.Sprintf("there is no order by %q", valid.Short(q.OrderBy)), "name a field as a filter does")
		}
	}
	if o.field.Name == "text" {
		return nil, fault.Invalid(doingList, "texts are too long to order by", "order by name, or by a metadata field")
	}
	if q.Behind != nil {
		return o, o.begin(q)
	}
	if q.Cursor == "" {
		return o, nil
	}
	return o, o.resume(db, q.Cursor)
}

// begin has the list begin behind the place that a query names.
func (o *ordering) begin(q *memory.ListQuery) error {
	if q.Cursor != "" || o.name != byCreation && o.name != "updated_at" {
		return fault.Invalid(doingList, "only a list by created_at or updated_at, without a cursor, begins behind a place", "order it so, or leave the place out")
	}
	o.after = &position{value: sortValue{kind: sortMissing}}
	if at := q.Behind.At; !at.IsZero() {
		o.after.value = sortValueOf(at.UnixMilli(), true)
	}
	o.after.Seq = q.Behind.Seq
	return nil
}

// compare is the order of two memories: by value, then by seq. Missing values
// are last in both directions.
func (o *ordering) compare(a, b *position) int {
	c := a.value.compare(b.value)
	if o.descending && a.value.kind != sortMissing && b.value.kind != sortMissing {
		c = -c
	}
	if c == 0 {
		c = cmp.Compare(a.Seq, b.Seq)
		if o.descending && o.name == "" {
			c = -c
		}
	}
	return c
}

// cursorVersion is the first byte of a cursor, whose last sumSize are a checksum.
const (
	cursorVersion = 3
	sumSize       = 4
)

var cursorEncoding = base64.RawURLEncoding.Strict()

// cursor is the place after which the next page begins, bound to the database and
// the order, and a checksum of it.
func (o *ordering) cursor(db *DB, p *position) string {
	b := append([]byte{cursorVersion}, db.id[:]...)
	b = codec.AppendBytes(b, o.name)
	n := p.value.num
	b = append(b, flag(o.descending), byte(p.value.kind), flag(n.Integer), flag(n.Negative))
	b = codec.AppendFloat64(b, n.Float)
	b = binary.AppendUvarint(b, n.Magnitude)
	b = binary.AppendUvarint(b, p.Seq)
	b = append(b, p.value.str...)
	return cursorEncoding.EncodeToString(binary.LittleEndian.AppendUint32(b, uint32(xxh3.Hash(b))))
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (o *ordering) resume(db *DB, cursor string) error {
	bad := func(why string) error {
		return fault.Invalid(doingList, "the cursor "+why, "give Next of a page of this list, or begin without a cursor")
	}
	b, err := cursorEncoding.DecodeString(cursor)
	n := len(b) - sumSize
	if err != nil || n < 1+len(db.id) || b[0] != cursorVersion {
		return bad("is none")
	}
	if binary.LittleEndian.Uint32(b[n:]) != uint32(xxh3.Hash(b[:n])) {
		return bad("is damaged")
	}
	if string(b[1:1+len(db.id)]) != string(db.id[:]) {
		return bad("is of another database")
	}
	r := codec.NewReader(b[1+len(db.id) : n])
	name, descending := r.String(), r.Byte() == 1
	p := &position{}
	p.value.kind = sortKind(r.Byte())
	p.value.num.Integer, p.value.num.Negative = r.Byte() == 1, r.Byte() == 1
	p.value.num.Float, p.value.num.Magnitude = r.Float64(), r.Uvarint()
	p.Seq = r.Uvarint()
	p.value.str = string(r.Rest())
	if r.Err() != nil || p.value.kind > sortMissing {
		return bad("is damaged")
	}
	if name != o.name || descending != o.descending {
		return bad("is of a list in another order")
	}
	o.after = p
	return nil
}

// list is a page of the memories that q selects.
func (tx *Tx) list(ctx context.Context, q *memory.ListQuery, o *ordering, limit int) (memory.Page, error) {
	if q.Lost != nil {
		of := *tx
		of.state.Lose = q.Lost
		tx = &of
	}
	if tx.writes != nil {
		if err := tx.materialise(); err != nil {
			return memory.Page{}, tx.breaks(err)
		}
	}
	first := firstPlaces{most: limit + 1, order: o}
	if err := tx.offerAll(ctx, q, &first); err != nil {
		return memory.Page{}, err
	}
	places := first.sorted()
	var page memory.Page
	size := 0
	for i, p := range places[:min(limit, len(places))] {
		m, err := tx.loadWithout(p.Version, q)
		if err != nil {
			return memory.Page{}, err
		}
		if m != nil {
			page.Memories = append(page.Memories, *m)
			size += memoryBytes(m)
		}
		full := size > pageBytes
		if (i == limit-1 || full) && len(places) > i+1 {
			page.Next = o.cursor(tx.db, &p)
		}
		if full {
			break
		}
	}
	page.Unreadable = tx.db.unreadable()
	return page, nil
}

// loadWithout is load for a list, which may go without what cannot be read: nil for a memory
// that is lost.
func (tx *Tx) loadWithout(v layout.Version, q *memory.ListQuery) (*memory.Memory, error) {
	m, err := tx.load(v, q.WithVectors)
	if err == nil {
		return &m, nil
	}
	if q.Lost == nil || !store.Unreadable(err) {
		return nil, err
	}
	q.Lost(err)
	if !q.WithVectors {
		return nil, nil
	}
	if m, err = tx.load(v, false); err != nil {
		return nil, nil // it was told of
	}
	if rec, err := tx.state.Record(v); err == nil {
		setVectors(&m, tx.reader().VectorsLeft(rec, v))
	}
	return &m, nil
}

// offerAll offers the memories that q selects, page by page of document rows, in the
// order of their documents, or against it where the last come first. That is nearly
// the order of their Seqs and of their creation, and in a list by one of these whole
// pages cannot be among the first.
func (tx *Tx) offerAll(ctx context.Context, q *memory.ListQuery, first *firstPlaces) error {
	set, rest, err := selection.Indexed(ctx, &tx.state, q.Scope, q.AllScopes, q.Filter)
	if err == nil && (len(rest) > 0 || !first.order.paged()) {
		set, err = selection.Settled(ctx, &tx.state, set, rest)
	}
	if err != nil {
		return err
	}
	pages := pagesOf(set)
	if first.order.descending {
		slices.Reverse(pages)
	}
	n := 0
	for _, page := range pages {
		if first.passes(&tx.db.tables.Docs, page) {
			continue
		}
		docs := set.Iterator()
		for docs.AdvanceIfNeeded(page * doctable.PageSize); docs.HasNext() && docs.PeekNext()/doctable.PageSize == page; {
			if n++; n%state.CancelEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			row := tx.db.tables.Docs.Row(docs.Next())
			if !row.Visible(tx.state.LSN) || row.Over(tx.state.Now) {
				continue
			}
			p := position{Version: row.Version}
			if p.value, err = tx.sortValue(first.order, row); err != nil {
				return err
			}
			first.offer(p)
		}
	}
	return nil
}

// pagesOf are the pages of document rows that hold documents of a set.
func pagesOf(set *roaring.Bitmap) (pages []uint32) {
	for it := set.Iterator(); it.HasNext(); {
		page := it.PeekNext() / doctable.PageSize
		pages = append(pages, page)
		it.AdvanceIfNeeded((page + 1) * doctable.PageSize)
	}
	return pages
}

// sortValue is what a memory is ordered by.
func (tx *Tx) sortValue(o *ordering, row *doctable.Row) (sortValue, error) {
	switch {
	case o.name == "":
		return sortValue{}, nil
	case o.field.Row != nil:
		return sortValueOf(o.field.Row(&tx.state, row)), nil
	}
	m, err := selection.Look(&tx.state, row)
	if err != nil {
		return sortValueOf(nil, false), tx.state.Without(err)
	}
	v := sortValueOf(m.Value(o.field.Field))
	return v, m.Err
}

// firstPlaces keeps the first places of an order, as a heap with the last of them
// on top.
type firstPlaces struct {
	most  int
	order *ordering
	ps    []position
}

func (f *firstPlaces) Len() int           { return len(f.ps) }
func (f *firstPlaces) Less(i, j int) bool { return f.order.compare(&f.ps[i], &f.ps[j]) > 0 }
func (f *firstPlaces) Swap(i, j int)      { f.ps[i], f.ps[j] = f.ps[j], f.ps[i] }
func (f *firstPlaces) Push(v any)         { f.ps = append(f.ps, v.(position)) }
func (f *firstPlaces) Pop() any {
	p := f.ps[len(f.ps)-1]
	f.ps = f.ps[:len(f.ps)-1]
	return p
}

// paged reports whether the tables know where in the order a page of documents lies.
func (o *ordering) paged() bool { return o.name == "" || o.name == byCreation }

// byCreation is the order that pages of documents are in nearly, too.
const byCreation = "created_at"

// ends are places in the order that all documents of a page lie between, false where
// that is not known.
func (o *ordering) ends(docs *doctable.Table, page uint32) (near, far position, known bool) {
	switch o.name {
	case "":
		near.Seq, far.Seq = docs.SeqsOf(page)
		if o.descending {
			near.Seq, far.Seq = far.Seq, near.Seq
		}
	case byCreation:
		low, high := docs.Glances.Created(page)
		if low <= 0 { // there may be one without a time, which is the last
			return near, far, false
		}
		near.value, far.value = sortValueOf(low, true), sortValueOf(high, true)
		if o.descending {
			near.value, far.value = far.value, near.value
		}
		far.Seq = math.MaxUint64 // of equal times the lower Seq comes first
	default:
		return near, far, false
	}
	return near, far, true
}

// passes reports whether no document of a page can be among the first.
func (f *firstPlaces) passes(docs *doctable.Table, page uint32) bool {
	near, far, known := f.order.ends(docs, page)
	switch {
	case !known:
		return false
	case f.order.after != nil && f.order.compare(&far, f.order.after) <= 0:
		return true
	}
	return len(f.ps) >= f.most && f.order.compare(&near, &f.ps[0]) >= 0
}

func (f *firstPlaces) offer(p position) {
	switch {
	case f.order.after != nil && f.order.compare(&p, f.order.after) <= 0:
	case len(f.ps) < f.most:
		heap.Push(f, p)
	case f.order.compare(&p, &f.ps[0]) < 0:
		f.ps[0] = p
		heap.Fix(f, 0)
	}
}

func (f *firstPlaces) sorted() []position {
	slices.SortFunc(f.ps, func(a, b position) int { return f.order.compare(&a, &b) })
	return f.ps
}

// memoryBytes is about what a memory takes in RAM.
func memoryBytes(m *memory.Memory) int {
	n := 512 + len(m.Text) + len(m.Name) + 4*len(m.Embedding) + valueBytes(m.Metadata)
	for _, a := range m.Aliases {
		n += len(a)
	}
	for _, v := range m.Vectors {
		n += 4 * len(v)
	}
	return n
}

// valueBytes is about what a value of metadata takes in RAM.
func valueBytes(v any) int {
	n := 16
	switch v := v.(type) {
	case string:
		n += len(v)
	case json.Number:
		n += len(v)
	case []any:
		for _, e := range v {
			n += valueBytes(e)
		}
	case map[string]any:
		for k, e := range v {
			n += 32 + len(k) + valueBytes(e)
		}
	}
	return n
}
