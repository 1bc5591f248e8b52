package hnsw

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// Estimator scores rows by their codes alone, for a caller that joins the scores
// with others of its own: with the bounds it gives, few rows need their exact
// score. It is for one goroutine.
type Estimator struct {
	x *Index
	r *searcher
}

// Estimator prepares a query. With exact, the bounds hold for certain, else as
// those of a flat search do. It returns what [CheckVector] does for a query that
// doesn't fit. The caller closes it.
func (x *Index) Estimator(query []float32, exact bool) (*Estimator, error) {
	norm, err := checkedNorm(query, x.cfg.Dim, x.cfg.Metric)
	if err != nil {
		return nil, err
	}
	r := x.pool.Get().(*searcher)
	r.setQuery(query, norm)
	r.probe.allow(deviationsFlat)
	if exact {
		r.probe.allow(math.Inf(1))
	}
	return &Estimator{x, r}, nil
}

// Close gives back what the estimator holds.
func (e *Estimator) Close() { e.x.pool.Put(e.r) }

// Estimate sets low[i] and high[i] to bounds of the exact score of slots[i],
// each of which must hold a row. It returns [ErrSlot] for one that was never
// handed out, [ErrConfig] if low or high has another length than slots, [ErrFile].
func (e *Estimator) Estimate(slots []uint32, low, high []float32) (err error) {
	defer e.x.spill.guard()(&err)
	if err := e.x.spill.err(); err != nil {
		return err
	}
	if len(slots) != len(low) || len(slots) != len(high) {
		return fmt.Errorf("%w: %d slots to score and room for %d and %d bounds", ErrConfig, len(slots), len(low), len(high))
	}
	if length := e.x.length.Load(); len(slots) > 0 && slices.Max(slots) >= length {
		return fmt.Errorf("%w: slot %d of %d", ErrSlot, slices.Max(slots), length)
	}
	table := e.x.codes.table.Load()
	simd.Dot8Rows(&e.r.beam.query, table, slots, high)
	for i, key := range high {
		slack := float32(e.r.probe.slack(*(*float32)(table.At(slots[i]))))
		low[i], high[i] = key-slack, key+slack
	}
	if e.x.cfg.Metric == L2 {
		e.toDistances(low, float32(math.Inf(-1)))
		e.toDistances(high, 0)
	}
	runtime.KeepAlive(e.x)
	return nil
}

// toDistances turns bounds of keys into bounds of scores, as keyOf does the other
// way, and leaves room for the rounding towards a limit.
func (e *Estimator) toDistances(bounds []float32, limit float32) {
	for i, key := range bounds {
		squared := e.r.probe.norm*e.r.probe.norm - 2*float64(key)
		score := -float32(math.Sqrt(max(0, squared)))
		bounds[i] = math.Nextafter32(score, limit)
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
