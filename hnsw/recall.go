package hnsw

import (
	"context"
	"errors"
	"fmt"
)

// Recall looks for up to n rows of the index, spread over it, as the search says and
// exactly. It returns how many rows it looked for, and which share of the exact hits the
// search has, 0 to 1: a row that scores as much as the last of them is as good. The row
// itself is one of them. It returns [ErrConfig] for a search without a K, and what
// [Index.Search] returns. An exact search compares the row with all rows.
func (x *Index) Recall(ctx context.Context, s Search, n int) (sampled int, recall float64, err error) {
	if s.K < 1 {
		return 0, 0, fmt.Errorf("%w: recall of %d hits; ask for one or more", ErrConfig, s.K)
	}
	s.Slots = min(s.Slots, x.length.Load())
	found, wanted := 0, 0
	seen := map[uint32]bool{}
	for i := 0; i < recallTries*n && sampled < n && s.Slots > 0; i++ {
		slot := uint32(splitmix(uint64(i+1)*splitmixStep) % uint64(s.Slots))
		if seen[slot] || !x.Live(slot) || s.Visible != nil && !s.Visible(slot) {
			continue
		}
		seen[slot] = true
		row, err := x.rowOf(slot, s.Truth)
		if errors.Is(err, ErrSlot) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return sampled, 0, err
		}
		good, all, err := x.compare(ctx, row, s)
		if err != nil {
			return sampled, 0, err
		}
		sampled, found, wanted = sampled+1, found+good, wanted+all
	}
	if wanted == 0 {
		return sampled, 1, nil
	}
	return sampled, float64(found) / float64(wanted), nil
}

// recallTries is how many slots are tried for each row of a sample: some hold none.
const recallTries = 8

// rowOf returns a slot's row as it was added, as far as the index knows.
func (x *Index) rowOf(slot uint32, truth Truth) ([]float32, error) {
	if truth == nil {
		truth = x.cfg.Truth
	}
	if x.cfg.Quantized || x.keepsRows() {
		return x.Row(slot, nil)
	}
	return truth(slot, nil)
}

// compare returns how many hits of an exact search a search finds, and how many there are.
func (x *Index) compare(ctx context.Context, query []float32, s Search) (found, wanted int, err error) {
	hits, err := x.Search(ctx, query, s)
	if err != nil {
		return 0, 0, err
	}
	s.Exact, s.Strategy = true, Planned
	exact, err := x.Search(ctx, query, s)
	if err != nil || len(exact) == 0 {
		return 0, 0, err
	}
	for _, h := range hits {
		if h.Score >= exact[len(exact)-1].Score {
			found++
		}
	}
	return min(found, len(exact)), len(exact), nil
}
