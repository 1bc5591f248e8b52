package hnsw

import (
	"context"
	"fmt"
	"iter"
	"math"
	"runtime"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

const (
	// batch is how many rows one call of a kernel scores: enough to hide the
	// call and to prefetch ahead, few enough to stay in the first-level cache.
	batch = 256
	// rowsPerCheck is how many rows are scored between looks at the context.
	rowsPerCheck = 64 * batch
)

// Search says what a search may return.
type Search struct {
	K int // at most so many hits
	// Slots limits the search to slots below it: the Len that the reader
	// pinned. Zero finds nothing.
	Slots uint32
	// Visible says whether the reader may see a slot; nil shows all. It is
	// called from the searching goroutine.
	Visible func(slot uint32) bool
	// Within limits the search to a set of slots, which must not change
	// meanwhile; nil is all.
	Within *roaring.Bitmap
	// Exact asks for the true top k at any cost.
	Exact bool
	// Ef is how many candidates an approximate search keeps: more find better
	// and take longer. Zero chooses by K.
	Ef int
}

// searcher is what one search needs of memory.
type searcher struct {
	x     *Index
	query []float32
	ids   []uint32
	out   []float32
}

func (x *Index) newSearcher() *searcher {
	return &searcher{
		x:     x,
		query: make([]float32, 0, x.cfg.Dim),
		ids:   make([]uint32, 0, batch),
		out:   make([]float32, batch),
	}
}

// Search returns the best hits for a query, best first, equal scores by slot:
// min(K, what matches), never fewer. It returns what [CheckVector] does for a
// query that doesn't fit, and ctx's error once ctx is done.
func (x *Index) Search(ctx context.Context, query []float32, s Search) ([]Hit, error) {
	norm, err := checkedNorm(query, x.cfg.Dim, x.cfg.Metric)
	if err != nil {
		return nil, err
	}
	if s.K < 0 || s.Ef < 0 {
		return nil, fmt.Errorf("%w: a search with k %d and ef %d; neither can be negative", ErrConfig, s.K, s.Ef)
	}
	s.Slots = min(s.Slots, x.length.Load())
	if s.K == 0 || s.Slots == 0 {
		return nil, ctx.Err()
	}
	r := x.pool.Get().(*searcher)
	defer x.pool.Put(r)
	r.query = x.prepare(query, norm, r.query[:0])
	hits, err := r.flat(ctx, &s)
	runtime.KeepAlive(x)
	return hits, err
}

// flat scores every row that matches.
func (r *searcher) flat(ctx context.Context, s *Search) ([]Hit, error) {
	best := topK{k: s.K}
	scored := 0
	for ids := range r.matching(s) {
		if scored%rowsPerCheck == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		scored += batch
		out := r.out[:len(ids)]
		r.score(ids, out)
		for i, score := range out {
			if best.enters(score) {
				best.push(Hit{Slot: ids[i], Score: score})
			}
		}
	}
	return best.sorted(), ctx.Err()
}

// matching yields the slots that the search may return, in ascending order and
// in batches that are valid until the next one.
func (r *searcher) matching(s *Search) iter.Seq[[]uint32] {
	return func(yield func([]uint32) bool) {
		ids := r.ids[:0]
		for slot := range candidates(s) {
			if !r.x.live(slot) || s.Visible != nil && !s.Visible(slot) {
				continue
			}
			ids = append(ids, slot)
			if len(ids) == batch {
				if !yield(ids) {
					return
				}
				ids = ids[:0]
			}
		}
		if len(ids) > 0 {
			yield(ids)
		}
	}
}

// candidates yields the slots below the limit that lie within the set.
func candidates(s *Search) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		if s.Within == nil {
			for slot := range s.Slots {
				if !yield(slot) {
					return
				}
			}
			return
		}
		for it := s.Within.Iterator(); it.HasNext(); {
			if slot := it.Next(); slot >= s.Slots || !yield(slot) {
				return
			}
		}
	}
}

// score sets out to the scores of the rows for the prepared query.
func (r *searcher) score(ids []uint32, out []float32) {
	x := r.x
	switch {
	case x.cfg.Quantized:
		r.scoreCodes(ids, out)
	case x.cfg.Metric == L2:
		simd.SquaredL2Rows(r.query, x.rows.table.Load(), ids, out)
		for i, d := range out {
			out[i] = negatedRoot(d)
		}
	default:
		simd.DotRows(r.query, x.rows.table.Load(), ids, out)
	}
}

// scoreCodes scores quantised rows against the float32 query: the rows are what
// they are, but the query is not rounded.
func (r *searcher) scoreCodes(ids []uint32, out []float32) {
	if r.x.cfg.Metric == L2 {
		row := make([]float32, 0, r.x.cfg.Dim)
		for i, id := range ids {
			row = r.x.codeRow(id).decode(row[:0])
			out[i] = negatedRoot(simd.SquaredL2(r.query, row))
		}
		return
	}
	simd.DotCodesRows(r.query, r.x.codes.table.Load(), ids, out)
}

func negatedRoot(squared float32) float32 { return 0 - float32(math.Sqrt(float64(squared))) }

// Scores sets out[i] to the score of slots[i] for the query. It returns what
// [CheckVector] does for a query that doesn't fit, [ErrSlot] for a slot without
// a row, and [ErrConfig] if out has another length than slots.
func (x *Index) Scores(query []float32, slots []uint32, out []float32) error {
	norm, err := checkedNorm(query, x.cfg.Dim, x.cfg.Metric)
	if err != nil {
		return err
	}
	if len(slots) != len(out) {
		return fmt.Errorf("%w: %d slots to score and room for %d scores", ErrConfig, len(slots), len(out))
	}
	length := x.length.Load()
	for _, slot := range slots {
		if slot >= length || !x.live(slot) {
			return fmt.Errorf("%w: slot %d of %d holds no row", ErrSlot, slot, length)
		}
	}
	r := x.pool.Get().(*searcher)
	defer x.pool.Put(r)
	r.query = x.prepare(query, norm, r.query[:0])
	r.score(slots, out)
	runtime.KeepAlive(x)
	return nil
}
