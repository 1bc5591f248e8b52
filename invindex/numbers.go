package invindex

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
)

// Number is a number of a document in a field, as its place in the order of numbers:
// [FloatOrder], [IntOrder], or any other order that a field keeps to. Numbers of
// different orders are in different fields.
type Number struct {
	// Field is the number of the field, Value the number as an ordered code.
	Field uint16
	Value uint64
}

// FloatOrder returns a place for each float64, as < orders them; both zeros have the
// same. Below 2⁵³ integers have the places of their floats, without loss; above, those
// that round to the same float64 share one. NaN has none.
func FloatOrder(f float64) uint64 {
	b := math.Float64bits(f + 0) // -0 becomes 0
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// IntOrder returns a place for each int64, such as a time.
func IntOrder(i int64) uint64 { return uint64(i) ^ 1<<63 }

// Range is the numbers from Lo to Hi, both included; none where Hi is below Lo.
type Range struct {
	Lo, Hi uint64 // both are within it
}

// The ranges that comparisons with a number stand for.

// Above is what is greater than v.
func Above(v uint64) Range {
	if v == math.MaxUint64 {
		return Range{1, 0}
	}
	return Range{v + 1, math.MaxUint64}
}

// From is what is greater than or equal to v.
func From(v uint64) Range { return Range{v, math.MaxUint64} }

// Below is what is less than v.
func Below(v uint64) Range {
	if v == 0 {
		return Range{1, 0}
	}
	return Range{0, v - 1}
}

// UpTo is what is less than or equal to v.
func UpTo(v uint64) Range { return Range{0, v} }

// FindRange returns the documents of within, or of all where that is nil, that have a
// number of the field in a range, visible or not, below the snapshot's mark. The bitmap
// is the caller's. It is ErrNoNumbers where a chunk that may have some holds documents
// whose numbers are not known ([Doc.Numbered]): these have to be looked at otherwise.
//
// It costs a pass over the numbers of the field in the newest chunk, but for blocks of
// 4,096 that are known to be outside, and in sealed ones over those in the range.
func (x *Index) FindRange(ctx context.Context, s Snapshot, field uint16, r Range, within *roaring.Bitmap) (*roaring.Bitmap, error) {
	set := roaring.New()
	if r.Hi < r.Lo {
		return set, nil
	}
	sc := newScratch()
	defer sc.free()
	for v, err := range sc.views(ctx, x, &s, Docs{Set: within}) {
		if err != nil {
			return nil, err
		}
		clear(sc.other[:])
		found, err := v.inRange(v.reader, field, r, &sc.other)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		sc.other.clip(v.limit)
		if v.docs != nil {
			v.docs.mask(&sc.mask)
			for i, word := range sc.mask {
				sc.other[i] &= word
			}
		}
		sc.collect(set, v.base, &sc.other)
	}
	return set, nil
}

// collect adds the documents of a chunk's mask to a set.
func (sc *scratch) collect(set *roaring.Bitmap, base uint32, m *mask) {
	if m.count() > maxArray { // whole words
		set.Or(roaring.AddOffset64(roaring.FromDense(m[:], true), int64(base)))
		return
	}
	sc.slots = m.slots(sc.slots[:0])
	sc.docs = sc.docs[:0]
	for _, slot := range sc.slots {
		sc.docs = append(sc.docs, base|uint32(slot))
	}
	set.AddMany(sc.docs)
}

// columnBlock is how many numbers are in a page of a sealed column, and in a hot one
// are bounded together.
const columnBlock = 4096

// pair is a number of the document of a slot.
type pair struct {
	value uint64
	slot  uint16
}

func comparePairs(a, b pair) int {
	return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.slot, b.slot))
}

// hotColumn is the numbers of a field in a hot chunk, in the order of their
// documents. One writer adds; readers read what was published before.
type hotColumn struct {
	field uint16
	rows  atomic.Pointer[columnRows]
	n     atomic.Uint32 // stored after the rows that it counts
}

// columnRows is room for numbers. It is replaced by a larger copy, never written
// below n.
type columnRows struct {
	values []uint64
	slots  []uint16
	bounds []Range // of each full block
}

// add adds a number and returns the number of bytes by which the column grew.
func (c *hotColumn) add(p pair) int {
	n, grown := int(c.n.Load()), 0
	rows := c.rows.Load()
	if rows == nil || n == len(rows.values) {
		const first, each = 16, 10
		room := max(first, 2*n)
		bigger := &columnRows{make([]uint64, room), make([]uint16, room), make([]Range, room/columnBlock)}
		if rows != nil {
			copy(bigger.values, rows.values)
			copy(bigger.slots, rows.slots)
			copy(bigger.bounds, rows.bounds)
		}
		grown = each * (room - n)
		rows = bigger
		c.rows.Store(rows)
	}
	rows.values[n], rows.slots[n] = p.value, p.slot
	if n++; n%columnBlock == 0 {
		block := rows.values[n-columnBlock : n]
		rows.bounds[n/columnBlock-1] = Range{slices.Min(block), slices.Max(block)}
	}
	c.n.Store(uint32(n))
	return grown
}

// inRange adds the slots of the numbers in a range to a mask.
func (c *hotColumn) inRange(r Range, m *mask) {
	n := int(c.n.Load())
	rows := c.rows.Load()
	for from := 0; from < n; from += columnBlock {
		to := min(from+columnBlock, n)
		if to-from == columnBlock {
			if b := rows.bounds[from/columnBlock]; b.Lo > r.Hi || b.Hi < r.Lo {
				continue
			}
		}
		slots := rows.slots[from:to]
		for i, v := range rows.values[from:to] { // without a branch on what is close to random
			bit := uint64(0)
			if v-r.Lo <= r.Hi-r.Lo {
				bit = 1
			}
			m[slots[i]>>6] |= bit << (slots[i] & 63)
		}
	}
}

// pairs returns the column's numbers in their order.
func (c *hotColumn) pairs() []pair {
	out := make([]pair, c.n.Load())
	rows := c.rows.Load()
	for i := range out {
		out[i] = pair{rows.values[i], rows.slots[i]}
	}
	slices.SortFunc(out, comparePairs)
	return out
}

// hotColumns are the columns of a hot chunk, ascending by field; copied when one is
// new.
type hotColumns struct {
	list atomic.Pointer[[]*hotColumn]
	// unknown: a document was added whose numbers are not known.
	unknown atomic.Bool
}

func (h *hotColumns) all() []*hotColumn {
	if list := h.list.Load(); list != nil {
		return *list
	}
	return nil
}

// find returns the column of a field, or where it would be in the list.
func (h *hotColumns) find(field uint16) (c *hotColumn, at int) {
	list := h.all()
	at, ok := slices.BinarySearchFunc(list, field, func(c *hotColumn, f uint16) int { return cmp.Compare(c.field, f) })
	if !ok {
		return nil, at
	}
	return list[at], at
}

// add adds the numbers of a document and returns the number of bytes by which the
// columns grew.
func (h *hotColumns) add(slot uint16, d *Doc) int {
	if !d.Numbered {
		h.unknown.Store(true)
	}
	grown := 0
	for _, n := range d.Numbers {
		grown += h.put(n.Field, pair{n.Value, slot})
	}
	return grown
}

// put adds a number.
func (h *hotColumns) put(field uint16, p pair) (grown int) {
	c, at := h.find(field)
	if c == nil {
		const each = 64 // of a column, about
		c = &hotColumn{field: field}
		list := slices.Insert(slices.Clone(h.all()), at, c)
		h.list.Store(&list)
		grown = each
	}
	return grown + c.add(p)
}

func (c *hotChunk) inRange(_ Reader, field uint16, r Range, m *mask) (bool, error) {
	if c.columns.unknown.Load() {
		return false, noNumbers(c.number)
	}
	col, _ := c.columns.find(field)
	if col != nil {
		col.inRange(r, m)
	}
	return col != nil, nil
}

func noNumbers(chunk uint16) error {
	return fmt.Errorf("%w: chunk %d holds documents that were added without", ErrNoNumbers, chunk)
}
