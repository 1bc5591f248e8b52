package hnsw

import "math"

// Strategy is a way to search.
type Strategy uint8

// The strategies.
const (
	Planned Strategy = iota // whichever costs least, by what a search can know
	Flat                    // score what matches
	Sweep                   // walk over all, return what matches
	Within                  // walk over what matches, through what does not (ACORN-1)
)

// plan is how a search is done.
type plan struct {
	strategy Strategy // that was asked for
	way      Strategy
	ef       int
	from     []candidate // where a walk begins
	matching int         // at most
	share    float64     // of the rows, what matches at most
	budget   int         // rows scored before a flat search is cheaper
}

const defaultEf = 64

// Costs are in rows of a flat search, about 30 ns each, and were measured on
// 200,000 rows of 384 components with filters of all sizes: even, on one side
// of the space, and on the side away from the query (bench: filtered).
const (
	// A walk over all rows costs that much and that much more for each
	// candidate that it keeps.
	walkCost      = 400
	walkCostPerEf = 24
	// Where only a share of the rows matches, it keeps as many more others; and
	// up to twice as many as that where fewer match near the query than
	// elsewhere, which is not known before.
	sweepMargin = 2
	// A walk over matching rows alone reads the links of links.
	withinCost      = 1500
	withinCostPerEf = 100
	// Below that share it loses its way, whatever it keeps.
	withinShare = 0.02
	// Below that one it does so where what matches lies in islands.
	islandShare = 0.08
	// costPerRow is how much more a row costs in a walk than in a flat search.
	costPerRow = 2
)

// plan computes what each way would cost.
func (r *searcher) plan(s *Search) plan {
	p := plan{strategy: s.Strategy, way: Flat, ef: s.Ef, matching: int(s.Slots), share: 1}
	if p.ef == 0 {
		p.ef = max(defaultEf, 2*s.K)
	}
	p.ef = max(p.ef, s.K)
	if s.Within != nil {
		p.matching = int(min(s.Within.GetCardinality(), uint64(p.matching)))
		p.share = float64(p.matching) / float64(s.Slots)
	}
	entry, top, ok := r.x.graph.entryPoint()
	if s.Exact || !ok || p.matching == 0 {
		return p
	}
	p.way, p.budget = s.Strategy, math.MaxInt
	if p.way == Planned {
		p.way, p.budget = p.cheapest(s.Within != nil), p.matching/costPerRow
	}
	if p.way == Within && s.Within == nil {
		p.way = Sweep
	}
	if p.way != Flat {
		p.from = r.beam.approach(entry, top, 0)
	}
	return p
}

// cheapest returns the way that costs least.
func (p *plan) cheapest(filtered bool) Strategy {
	matching, ef := float64(p.matching), float64(p.ef)
	if !filtered {
		if matching <= walkCost+walkCostPerEf*ef {
			return Flat
		}
		return Sweep
	}
	sweep := walkCost + walkCostPerEf*ef*sweepMargin/p.share
	within := withinCost + withinCostPerEf*ef
	if p.share < withinShare {
		within = math.Inf(1)
	}
	switch {
	case matching <= min(sweep, within):
		return Flat
	case sweep <= within:
		return Sweep
	}
	return Within
}
