package doctable

import (
	"math"
	"sync/atomic"
)

// Bounds are what may be found in a page of document rows, so that who looks for what is to go
// reads few rows, however many there are.
type Bounds struct {
	Expires    int64   // the earliest expiry, 0 where nothing expires
	Created    int64   // the earliest creation
	Importance float64 // the least
	Confidence float64 // the least that is stored
}

// bounds are those of each page.
type bounds struct{ pages Paged[bound] }

// bound is Bounds in a form in which 0 is that of no document, and the writer only raises what is
// not Expires.
type bound struct {
	expires     atomic.Int64
	age         atomic.Int64  // math.MaxInt64 less Created
	unimportant atomic.Uint64 // the bits of 1 less Importance
	unsure      atomic.Uint64 // the bits of 1 less Confidence
}

// boundSize is what a bound takes.
const boundSize = 32

// add notes a document. The writer calls it.
func (b *bounds) add(doc uint32, r *Row) { b.pages.Grow(uint64(doc) / PageSize).add(r) }

func (b *bound) add(r *Row) {
	if first, at := b.expires.Load(), r.Expires.Load(); at != 0 && (first == 0 || at < first) {
		b.expires.Store(at)
	}
	b.age.Store(max(b.age.Load(), math.MaxInt64-max(r.Created, 0)))
	// Floats from 0 on are in the order of their bits.
	b.unimportant.Store(max(b.unimportant.Load(), math.Float64bits(max(1-r.Importance, 0))))
	b.unsure.Store(max(b.unsure.Load(), math.Float64bits(max(1-r.Confidence, 0))))
}

// load is what was noted, false where nothing was.
func (b *bound) load() (Bounds, bool) {
	age := b.age.Load()
	return Bounds{
		Expires: b.expires.Load(), Created: math.MaxInt64 - age,
		Importance: 1 - math.Float64frombits(b.unimportant.Load()), Confidence: 1 - math.Float64frombits(b.unsure.Load()),
	}, age != 0
}

func (b *bound) clear() {
	b.expires.Store(0)
	b.age.Store(0)
	b.unimportant.Store(0)
	b.unsure.Store(0)
}

// Look returns the first page, from one on, whose bounds may be what is wanted; false where there
// is none.
func (t *Table) Look(from uint64, wanted func(b Bounds) bool) (page uint64, ok bool) {
	t.bounds.pages.EachFrom(from, None, func(at uint64, b *bound) bool {
		if of, any := b.load(); any && wanted(of) {
			page, ok = at, true
		}
		return !ok
	})
	return page, ok
}

// Expired appends the Seqs of those memories that had expired at a time of the first page,
// from one on, which may have such, and returns the page after it; 0 where there is none.
// It is a guess: a transaction that runs may have changed some.
func (t *Table) Expired(dst []uint64, from uint64, now int64) (seqs []uint64, next uint64) {
	page, ok := t.Look(from, func(b Bounds) bool { return b.Expires != 0 && b.Expires <= now })
	if !ok {
		return dst, 0
	}
	t.Rows.EachFrom(page*PageSize, (page+1)*PageSize, func(_ uint64, r *Row) bool {
		if r.Died.Load() == Alive && r.Over(now) {
			dst = append(dst, r.Seq)
		}
		return true
	})
	return dst, page + 1
}

// Narrow takes back what was noted for a page of documents that are gone. The writer calls
// it, while no transaction runs.
func (t *Table) Narrow(page uint64) {
	b := t.bounds.pages.At(page)
	if b == nil {
		return
	}
	var now bound
	t.Rows.EachFrom(page*PageSize, (page+1)*PageSize, func(_ uint64, r *Row) bool {
		if r.Died.Load() == Alive {
			now.add(r)
		}
		return true
	})
	b.expires.Store(now.expires.Load())
	b.age.Store(now.age.Load())
	b.unimportant.Store(now.unimportant.Load())
	b.unsure.Store(now.unsure.Load())
}
