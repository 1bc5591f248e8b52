package hnsw

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// Estimator bounds the scores of rows, for a caller that joins them with others of its
// own: first by sketches where there are any, then by codes, at last with a query that
// is not rounded to codes, so that few rows need their exact score. It is for one
// goroutine.
type Estimator struct {
	x *Index
	r *searcher
	// nil: there are none, or the query is to be exact.
	sketches *sketches
	// See apart.
	slots, places []uint32
	// Of keys by the query's codes, and by the query.
	codes, sharp bounding
	// cold: codes in the file are not in the system's cache. faults were counted last.
	cold   bool
	faults uint64
}

// coldFaults is how many of a batch of codes must be waited for, one after the other,
// before the next ones are asked for together: to ask for one that is there costs a
// hundredth of a wait.
const coldFaults = 4

// deviationsScope is how many deviations of a sketch's error the bounds of an
// [Estimator] allow for: one row in 1,700 is better than its bound, and is lost if it
// is one of the best by a hair. reserve is the share of them at which it is one in 1,000:
// what lies between makes up for the error of the row's codes, which is smaller mostly.
const (
	deviationsScope = 3.25
	reserve         = .95
)

// Estimator prepares a query. Bounds of codes hold for certain, those of sketches for all
// but one row in a thousand; with exact, all are those of codes. It returns what
// [CheckVector] does for a query that doesn't fit. The caller closes it.
func (x *Index) Estimator(query []float32, exact bool) (*Estimator, error) {
	norm, err := checkedNorm(query, x.cfg.Dim, x.cfg.Metric)
	if err != nil {
		return nil, err
	}
	r := x.pool.Get().(*searcher)
	r.setQuery(query, norm)
	r.beam.sketches = nil
	p := &r.probe
	e := &Estimator{x: x, r: r, codes: p.bounding(x.cfg.Metric, &p.codes), sharp: p.bounding(x.cfg.Metric, &p.sharp)}
	if s := r.beam.coding.sketches.Load(); s != nil && !exact {
		s.query(&r.beam.sketch, r.probe.own, load(&r.beam.coding.bounds.coded))
		e.sketches = s
	}
	r.allow(true, deviationsScope)
	return e, nil
}

// Close gives back what the estimator holds.
func (e *Estimator) Close() { e.x.pool.Put(e.r) }

// Estimate sets low[i] and high[i] to bounds of the exact score of slots[i], each of
// which must hold a row: by sketches where there are any. It returns [ErrSlot] for one
// that was never handed out, [ErrConfig] if low or high has another length than slots,
// [ErrFile].
func (e *Estimator) Estimate(slots []uint32, low, high []float32) error {
	return e.bound(slots, low, high, e.byBoth)
}

// Refine is Estimate by codes alone.
func (e *Estimator) Refine(slots []uint32, low, high []float32) error {
	return e.bound(slots, low, high, e.byCodes)
}

// Sharpen is Refine with half the distance between the bounds, at a few times the cost.
func (e *Estimator) Sharpen(slots []uint32, low, high []float32) error {
	return e.bound(slots, low, high, e.byQuery)
}

// Refines reports whether [Estimator.Refine] gives a slot narrower bounds than
// [Estimator.Estimate].
func (e *Estimator) Refines(slot uint32) bool { return e.sketches.has(slot) }

// bound bounds scores by what bounds keys.
func (e *Estimator) bound(slots []uint32, low, high []float32, keys func(slots []uint32, low, high []float32)) (err error) {
	defer e.x.spill.guard()(&err)
	if err := e.x.spill.err(); err != nil {
		return err
	}
	if len(slots) != len(low) || len(slots) != len(high) {
		return fmt.Errorf("%w: %d slots to score and room for %d and %d bounds", ErrConfig, len(slots), len(low), len(high))
	}
	if length := e.r.beam.limit; len(slots) > 0 && slices.Max(slots) >= length {
		return fmt.Errorf("%w: slot %d of %d", ErrSlot, slices.Max(slots), length)
	}
	keys(slots, low, high)
	runtime.KeepAlive(e.x)
	return nil
}

// byBoth sets bounds of keys, by sketches where there are any.
func (e *Estimator) byBoth(slots []uint32, low, high []float32) {
	has := e.sketches.has
	switch {
	case e.sketches != nil && e.sketches.from == 0:
		e.bySketches(slots, low, high)
	case !slices.ContainsFunc(slots, has):
		e.byCodes(slots, low, high)
	default:
		e.apart(slots, low, high, has, e.bySketches)
		e.apart(slots, low, high, func(slot uint32) bool { return !has(slot) }, e.byCodes)
	}
}

// bounding turns keys, as a view gives them, into bounds of scores.
type bounding struct {
	metric      Metric
	square, err float32
	reach       float32 // see view
	noise       float32 // twice what float32 adds to keys, as squared distances have it
	fixed       float32 // what it adds to the error of scores
	relative    float32 // of a distance, what float32 arithmetic may be off by
	add, by     float32 // a score is the key and add, times by
}

func (p *probe) bounding(m Metric, v *view) bounding {
	const half = 1.0 / (1 << 24)
	add := v.shift + p.off
	return bounding{
		metric: m, square: float32(v.square), err: roundUp(v.err), reach: roundUp(v.reach), noise: roundUp(2*p.noise + 8*half*v.square),
		fixed: roundUp(p.rounding + 8*half*(math.Abs(add)+v.square)), relative: roundUp(p.perSquare + 8*half),
		add: float32(add), by: float32(1 / p.by),
	}
}

// of bounds the score of a key that is off by rough, besides that the row's codes are off
// by err. Bounds are apart, lest somebody take one for the score.
func (b *bounding) of(key, rough, err float32) (low, high float32) {
	both := b.err + err
	if b.reach > 0 {
		both, rough = err, rough+b.err*(b.reach+err)
	}
	both *= 1 + b.relative
	far := float32(math.Sqrt(float64(max(0, b.square-2*(key-rough)) + b.noise)))
	if b.metric == L2 {
		near := float32(math.Sqrt(float64(max(0, b.square-2*(key+rough)-b.noise))))
		const least = math.SmallestNonzeroFloat32
		return -(far+both)*(1+b.relative) - least, -max(0, (near-both)*(1-b.relative)-least)
	}
	slack := rough + far*both + both*both/2 + b.fixed
	return (key + b.add - slack) * b.by, (key + b.add + slack) * b.by
}

// byQuery is byCodes with the query as it is.
func (e *Estimator) byQuery(slots []uint32, low, high []float32) {
	c := e.r.beam.coding
	e.r.beam.sharpKeys(e.r.probe.own, slots, high)
	for i, key := range high {
		low[i], high[i] = e.sharp.of(key, 0, e.err(c, slots[i]))
	}
}

// err returns by how much the codes of a slot's row and of the query may be off besides
// what bounding has.
func (e *Estimator) err(c *coding, slot uint32) float32 {
	if !c.grouped() {
		return *c.row(slot).err
	}
	return roundUp(e.r.beam.err(slot))
}

// byCodes sets bounds of keys.
func (e *Estimator) byCodes(slots []uint32, low, high []float32) {
	if e.r.beam.coding.codes.filed.Load() == 0 {
		e.byCodesAt(slots, low, high)
		return
	}
	if e.faults == 0 {
		e.faults = majorFaults()
	}
	for len(slots) > 0 {
		n := min(batch, len(slots))
		if e.cold {
			e.fetch(slots[:n])
		}
		e.byCodesAt(slots[:n], low[:n], high[:n])
		if !e.cold {
			before := e.faults
			e.faults = majorFaults()
			e.cold = e.faults-before >= coldFaults
		}
		slots, low, high = slots[n:], low[n:], high[n:]
	}
}

// fetch asks for the codes that lie in the file.
func (e *Estimator) fetch(slots []uint32) {
	table, first := e.r.beam.coding.codes.table.Load(), e.r.beam.coding.codes.firstFiled()
	for _, slot := range slots {
		if slot >= first {
			fetch(table.At(slot), table.Stride)
		}
	}
}

// byCodesAt is byCodes wherever the codes lie.
func (e *Estimator) byCodesAt(slots []uint32, low, high []float32) {
	c := e.r.beam.coding
	if c.grouped() {
		e.r.beam.codeKeys(slots, high)
		for i, key := range high {
			low[i], high[i] = e.codes.of(key, 0, e.err(c, slots[i]))
		}
		return
	}
	table, at := c.codes.table.Load(), errOffset(c.dim)
	simd.Dot8Rows(&e.r.beam.query, table, slots, high)
	for i, key := range high {
		low[i], high[i] = e.codes.of(key, 0, *(*float32)(unsafe.Add(table.At(slots[i]), at)))
	}
}

// bySketches is byCodes for slots that have sketches.
func (e *Estimator) bySketches(slots []uint32, low, high []float32) {
	q, s := &e.r.beam.sketch, e.sketches
	table := s.table.Load()
	simd.DotBitsRows(&q.bits, table, slots, high)
	// They estimate keys of the query itself.
	most := float32(load(&e.r.beam.coding.bounds.err))
	allowed, noise := float32(q.allowed), float32(q.noise)
	if b := e.sharp; b.metric != L2 {
		// As of does it, without a call for each: there may be many thousands.
		both := (b.err + most) * (1 + b.relative)
		fixed := both*both/2 + b.fixed
		// The root of x is at most the mean of x/y and y, whatever y is (the inequality of
		// arithmetic and geometric means). With a usual root as y the mean is little more,
		// and needs no root for each.
		const least = 1e-18 // whose square float32 still divides by
		usual := max(float32(math.Sqrt(float64(b.square))), least)
		half, inverse := usual/2, 1/(2*usual)
		for i, key := range high {
			rough := allowed**(*float32)(table.At(slots[i])) + noise
			far := (max(0, b.square-2*(key-rough))+b.noise)*inverse + half
			key, slack := key+b.add, max(rough, reserve*rough+far*both)+fixed
			low[i], high[i] = (key-slack)*b.by, (key+slack)*b.by
		}
		return
	}
	for i, key := range high {
		rough := allowed**(*float32)(table.At(slots[i])) + noise
		low[i], high[i] = e.sharp.of(key, rough, most)
	}
}

// apart has the slots of a kind bounded together, for kernels that fetch ahead.
func (e *Estimator) apart(slots []uint32, low, high []float32, kind func(uint32) bool, bound func(slots []uint32, low, high []float32)) {
	e.slots, e.places = e.slots[:0], e.places[:0]
	for i, slot := range slots {
		if kind(slot) {
			e.slots, e.places = append(e.slots, slot), append(e.places, uint32(i))
		}
	}
	bounds := e.r.beam.room(2 * len(e.slots))
	some, most := bounds[:len(e.slots)], bounds[len(e.slots):]
	bound(e.slots, some, most)
	for i, place := range e.places {
		low[place], high[place] = some[i], most[i]
	}
}

// Exact returns the score of a slot, which must hold a row. Where the index keeps
// codes alone, truth is asked for the row unless it is kept; its error is returned as
// it is.
func (e *Estimator) Exact(slot uint32, truth Truth) (score float32, err error) {
	x := e.x
	if !x.cfg.Quantized && !x.keepsRows() {
		return e.r.scoreRow(slot, truth)
	}
	if err := x.checkSlots([]uint32{slot}); err != nil {
		return 0, err
	}
	defer x.spill.guard()(&err)
	if err := x.spill.err(); err != nil {
		return 0, err
	}
	id, out := [1]uint32{slot}, [1]float32{}
	err = e.r.score(id[:], out[:])
	runtime.KeepAlive(x)
	return out[0], err
}
