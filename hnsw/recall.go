package hnsw

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Asked is what the queries of [Index.Recall] are made of.
type Asked uint8

// What is asked for.
const (
	// AskStored: rows of the index.
	AskStored Asked = iota
	// AskAway: rows moved into any direction, by as much as they are from another one: what is
	// like nothing that is stored.
	AskAway
	// AskBetween: points half-way between two rows.
	AskBetween
	// AskRare: those of many rows whose nearest other one is the farthest.
	AskRare
)

// Asks are all of them.
func Asks() []Asked { return []Asked{AskStored, AskAway, AskBetween, AskRare} }

// String returns a word for it.
func (a Asked) String() string { return [...]string{"stored", "away", "between", "rare"}[a] }

// Recalled says what searches have found.
type Recalled struct {
	Sampled int // queries
	// Recall is the share of the exact hits that the searches have, 0 to 1: a row that scores
	// as much as the last of them is as good. First is the share of the queries whose first
	// hit is as good as the exact one. Without queries both are 1.
	Recall, First float64
}

// Recall makes up to n queries of rows of the index, spread over it, and compares what the
// search finds for them with the exact hits. It returns [ErrConfig] for a search without a K,
// and what [Index.Search] returns. An exact search compares the query with all rows.
func (x *Index) Recall(ctx context.Context, s Search, asked Asked, n int) (Recalled, error) {
	r := Recalled{Recall: 1, First: 1}
	if s.K < 1 {
		return r, fmt.Errorf("%w: recall of %d hits; ask for one or more", ErrConfig, s.K)
	}
	s.Slots = min(s.Slots, x.length.Load())
	p := sampling{x: x, s: s, asked: asked, seen: map[uint32]bool{}}
	var err error
	if asked == AskRare {
		err = p.findRare(ctx, n)
	}
	found, wanted, first := 0, 0, 0
	for i := 0; err == nil && i < recallTries*n && r.Sampled < n && s.Slots > 0; i++ {
		var query []float32
		if query, err = p.query(); err != nil || query == nil {
			continue
		}
		var c compared
		if c, err = x.compare(ctx, query, s); err != nil || c.wanted == 0 {
			continue
		}
		r.Sampled++
		found, wanted = found+c.found, wanted+c.wanted
		if c.first {
			first++
		}
	}
	if err == nil && r.Sampled > 0 {
		r.Recall, r.First = float64(found)/float64(wanted), float64(first)/float64(r.Sampled)
	}
	return r, err
}

// recallTries is how many slots are tried for each row of a sample: some hold none.
const recallTries = 8

// sampling makes queries.
type sampling struct {
	x     *Index
	s     Search
	asked Asked
	tries uint64
	seen  map[uint32]bool
	rare  []uint32
}

// query returns the next one, or nil if there was no row where it was looked for.
func (p *sampling) query() ([]float32, error) {
	row, slot, err := p.row()
	if row == nil || err != nil || p.asked == AskStored || p.asked == AskRare {
		return row, err
	}
	other, otherSlot, err := p.row()
	p.seen[slot], p.seen[otherSlot] = false, false // each may be of another pair
	if other == nil || err != nil {
		return nil, err
	}
	query := make([]float32, len(row))
	if p.asked == AskBetween {
		for i, v := range row {
			query[i] = v/2 + other[i]/2
		}
	} else {
		p.moveAway(query, row, distance(row, other))
	}
	if CheckVector(query, p.x.cfg.Dim, p.x.cfg.Metric) != nil {
		return nil, nil // the middle of two rows may be nothing
	}
	return query, nil
}

// moveAway sets a query to a row moved so far, into a direction that has nothing to do with
// the rows.
func (p *sampling) moveAway(query, row []float32, far float64) {
	square := 0.0
	for i := range query {
		// The sum of four even numbers is nearly normal.
		sum := -2.0
		for range 4 {
			p.tries++
			sum += float64(splitmix(p.tries*splitmixStep)>>11) / (1 << 53)
		}
		query[i] = float32(sum)
		square += sum * sum
	}
	by := far / math.Sqrt(max(square, math.SmallestNonzeroFloat64))
	for i, v := range row {
		query[i] = float32(float64(v) + by*float64(query[i]))
	}
}

// row returns a row that was not returned yet, and its slot, or nil if there was none where it
// was looked for.
func (p *sampling) row() ([]float32, uint32, error) {
	slot, ok := p.slot()
	if !ok {
		return nil, 0, nil
	}
	row, err := p.x.rowOf(slot, p.s.Truth)
	if errors.Is(err, ErrSlot) {
		return nil, 0, nil // it was removed meanwhile
	}
	return row, slot, err
}

func (p *sampling) slot() (slot uint32, ok bool) {
	if p.asked == AskRare {
		if len(p.rare) == 0 {
			return 0, false
		}
		slot, p.rare = p.rare[0], p.rare[1:]
		return slot, true
	}
	return p.next()
}

func (p *sampling) next() (slot uint32, ok bool) {
	p.tries++
	slot = uint32(splitmix(p.tries*splitmixStep) % uint64(max(1, p.s.Slots)))
	if p.seen[slot] || !p.x.Live(slot) || p.s.Visible != nil && !p.s.Visible(slot) {
		return 0, false
	}
	p.seen[slot] = true
	return slot, true
}

// rareOf is of how many rows the rarest one is taken.
const rareOf = 32

// findRare looks for n rare rows: by what a search of few candidates finds besides them.
func (p *sampling) findRare(ctx context.Context, n int) error {
	var all []Hit
	s := p.s
	s.K, s.Ef, s.Plain, s.Sure, s.Rough = 2, 16, true, false, false
	for range rareOf * recallTries * n {
		if p.s.Slots == 0 || len(all) == rareOf*n {
			break
		}
		slot, ok := p.next()
		if !ok {
			continue
		}
		row, err := p.x.rowOf(slot, p.s.Truth)
		if errors.Is(err, ErrSlot) {
			continue
		}
		if err != nil {
			return err
		}
		hits, err := p.x.Search(ctx, row, s)
		if err != nil {
			return err
		}
		near := float32(math.Inf(-1))
		for _, h := range hits {
			if h.Slot != slot {
				near = max(near, h.Score)
			}
		}
		all = append(all, Hit{Slot: slot, Score: -near})
	}
	slices.SortFunc(all, compareHits)
	for _, h := range all[:min(n, len(all))] {
		p.rare = append(p.rare, h.Slot)
	}
	return nil
}

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

// compared is how many hits of an exact search a search finds, of how many, and whether the
// first one is as good.
type compared struct {
	found, wanted int
	first         bool
}

func (x *Index) compare(ctx context.Context, query []float32, s Search) (c compared, err error) {
	hits, err := x.Search(ctx, query, s)
	if err != nil {
		return c, err
	}
	s.Exact, s.Strategy, s.Told = true, Planned, nil
	exact, err := x.Search(ctx, query, s)
	if err != nil || len(exact) == 0 {
		return c, err
	}
	for _, h := range hits {
		if h.Score >= exact[len(exact)-1].Score {
			c.found++
		}
	}
	c.found, c.wanted = min(c.found, len(exact)), len(exact)
	c.first = len(hits) > 0 && hits[0].Score >= exact[0].Score
	return c, nil
}
