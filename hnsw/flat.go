package hnsw

import (
	"context"
	"iter"
	"math"
	"slices"
)

const (
	// batch is how many rows one call of a kernel scores: enough to hide the
	// call and to prefetch ahead, few enough to stay in the caches.
	batch = 256
	// rowsPerCheck is how many rows are scored between looks at the context.
	rowsPerCheck = 64 * batch
)

// flatSearch scores all rows that match. It keeps those whose key
// could, by its slack, be among the k best: at least as high as the k-th best
// key would be if each of those were as low as it could be.
type flatSearch struct {
	found []candidate
	bar   topK    // the k highest keys, each less its slack
	floor float32 // no key below it reaches the bar
	limit int     // of found, before what has fallen below the bar is dropped
	shift float64 // what keys lack of those of scores
}

// searchFlat finds the true top k: for certain, unless it goes by sketches.
func (r *searcher) searchFlat(ctx context.Context, s *Search) ([]Hit, error) {
	r.startFlat(s)
	f := &r.flat
	scored := 0
	for ids := range r.matching(s) {
		if scored%rowsPerCheck == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		scored += batch
		out := r.out[:len(ids)]
		r.beam.keys(ids, out)
		for i, key := range out {
			if key >= f.floor {
				f.add(candidate{key, ids[i]}, r)
			}
		}
	}
	return r.finishFlat(s)
}

// startFlat prepares a search that is to be sure of what it leaves out.
func (r *searcher) startFlat(s *Search) {
	r.allow(true, deviationsFlat)
	f := &r.flat
	f.found, f.bar, f.limit, f.floor = f.found[:0], topK{k: s.K, hits: f.bar.hits[:0]}, 4*batch, float32(math.Inf(-1))
	f.shift = r.probe.codes.shift
}

// finishFlat returns the k best of what was found.
func (r *searcher) finishFlat(s *Search) ([]Hit, error) {
	f := &r.flat
	f.drop(r)
	found := f.found
	if s.Rough || r.beam.sketches != nil {
		slices.SortFunc(found, compareCandidates)
		found = r.byCodes(found, s.K)
	}
	if s.Rough {
		return r.rough(found, s.K), nil
	}
	r.best = topK{k: s.K, hits: make([]Hit, 0, min(s.K, len(found)))}
	return r.rescore(r.sharpen(found, s.K), s.K, &r.probe.sharp)
}

func (f *flatSearch) add(c candidate, r *searcher) {
	slack := float32(r.slack(c))
	if len(f.bar.hits) == f.bar.k && c.score+slack < f.bar.hits[0].Score {
		return
	}
	f.found = append(f.found, c)
	if low := c.score - slack; len(f.bar.hits) < f.bar.k || low > f.bar.hits[0].Score {
		f.bar.push(Hit{Slot: c.slot, Score: low})
		if len(f.bar.hits) == f.bar.k {
			f.floor = r.lowest(float64(f.bar.hits[0].Score))
		}
	}
	if len(f.found) >= f.limit {
		f.drop(r)
		f.limit = 4*batch + 2*len(f.found)
	}
}

// drop removes what has fallen below the bar.
func (f *flatSearch) drop(r *searcher) {
	if len(f.bar.hits) < f.bar.k {
		return
	}
	bar := f.bar.hits[0].Score
	f.found = slices.DeleteFunc(f.found, func(c candidate) bool {
		return c.score+float32(r.slack(c)) < bar
	})
}

// matching yields the slots that the search may return, in ascending order and
// in batches that are valid until the next one.
func (r *searcher) matching(s *Search) iter.Seq[[]uint32] {
	nodes := r.x.graph.nodes.table.Load()
	return func(yield func([]uint32) bool) {
		var some [batch]uint32
		kept := r.ids[:0]
		next := candidates(s)
		for slots := next(some[:]); len(slots) > 0; slots = next(some[:]) {
			kept = kept[:0]
			for _, slot := range slots {
				if (*node)(nodes.At(slot)).state.Load()&stateLive != 0 && (s.Visible == nil || s.Visible(slot)) {
					kept = append(kept, slot)
				}
			}
			if len(kept) > 0 && !yield(kept) {
				return
			}
		}
	}
}

// candidates returns a function that fills a buffer with the next slots below
// the limit that lie within the set, until there are none.
func candidates(s *Search) func(buf []uint32) []uint32 {
	next := uint32(0)
	if s.Within != nil {
		return func(buf []uint32) []uint32 {
			n, to := s.Within.next(next, buf)
			next = to
			return buf[:n]
		}
	}
	return func(buf []uint32) []uint32 {
		n := min(uint32(len(buf)), s.Slots-next)
		for i := range n {
			buf[i] = next + i
		}
		next += n
		return buf[:n]
	}
}
