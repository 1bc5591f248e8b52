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
	way      Strategy
	ef       int
	from     []candidate // where a walk begins
	matching int         // at most
	budget   int         // rows scored before a flat search is cheaper
}

// Costs are in rows of a flat search, and were measured on 200,000 rows of 384
// components.
const (
	defaultEf = 64
	// rowsPerEf is how many rows a walk scores for each candidate that it
	// keeps, and costPerRow how much more one takes than in a flat search.
	rowsPerEf  = 14
	costPerRow = 2
	// A walk over matching rows alone loses its way more easily, and keeps
	// withinEf times as many candidates; for those, and for the links of links
	// that it reads, it takes withinCost times as long.
	withinEf   = 2
	withinCost = 8
	// Where few of the rows near the query match, less than half of the share
	// elsewhere, it has to keep and takes awayFactor times as much again.
	awayFactor = 4
	// probeEf is how many of the rows nearest to the query are looked at to
	// learn what share of them matches; below probeFrom times what a walk
	// without a filter takes, a flat search needs no better.
	probeEf   = 16
	probeFrom = 3
)

// plan computes what each way would cost, and leaves out what cannot be the
// best before it takes time to know.
func (r *searcher) plan(s *Search) plan {
	p := plan{way: Flat, ef: s.Ef, matching: int(s.Slots)}
	if p.ef == 0 {
		p.ef = max(defaultEf, 2*s.K)
	}
	p.ef = max(p.ef, s.K)
	if s.Within != nil {
		p.matching = int(min(s.Within.GetCardinality(), uint64(p.matching)))
	}
	entry, top, ok := r.x.graph.entryPoint()
	if s.Strategy != Planned {
		return r.forced(s, p)
	}
	matching := float64(p.matching)
	unfiltered := float64(p.ef) * rowsPerEf * costPerRow
	if s.Exact || !ok || matching <= unfiltered || s.Within != nil && matching <= unfiltered*probeFrom {
		return p
	}
	p.budget = int(min(matching/costPerRow, math.MaxInt32))
	p.from = r.beam.approach(entry, top, 0)
	if s.Within == nil {
		p.way = Sweep
		return p
	}
	near, share := r.probeWithin(s, p.from), matching/float64(s.Slots)
	walkWithin, ef := unfiltered*withinCost, p.ef*withinEf
	if near < share/2 {
		walkWithin, ef = walkWithin*awayFactor, ef*awayFactor
	}
	switch through := unfiltered / near; {
	case through < min(matching, walkWithin):
		p.way = Sweep
	case walkWithin < matching:
		p.way, p.ef = Within, ef
	}
	return p
}

// forced does what the search asks for, where there is a graph to do it on.
func (r *searcher) forced(s *Search, p plan) plan {
	entry, top, ok := r.x.graph.entryPoint()
	if !ok || s.Exact || s.Strategy == Flat {
		return p
	}
	p.way, p.budget = s.Strategy, math.MaxInt
	if s.Within == nil {
		p.way = Sweep
	}
	p.from = r.beam.approach(entry, top, 0)
	return p
}

// probeWithin returns the share of rows in the set among those nearest to the
// query.
func (r *searcher) probeWithin(s *Search, from []candidate) float64 {
	b := r.beam
	b.visible = nil
	b.reset(probeEf)
	b.start(from...)
	b.walk(0, math.MaxInt)
	n := 0
	for _, c := range b.found {
		if s.Within.Contains(c.slot & slotMask) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(b.found)))
}
