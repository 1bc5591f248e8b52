package hnsw

import (
	"math"
)

// Strategy is a way to search.
type Strategy uint8

// The strategies.
const (
	Planned Strategy = iota // whichever costs least, by what a search can know
	Flat                    // score what matches
	Sweep                   // walk over all, return what matches
	Within                  // walk over what matches, through what does not (ACORN-1)
	// Cascade compares all rows by their bits in cells, then those that these don't rule out
	// by their codes, then the best themselves: it misses a certain one of the best rows with
	// a chance of CellMiss at most.
	Cascade
)

// plan is how a search is done.
type plan struct {
	strategy Strategy // that was asked for
	way      Strategy
	ef       int
	from     []candidate // where a walk over links begins, once it is known
	matching int         // at most
	share    float64     // of the rows, what matches at most
	budget   int         // rows scored before a flat search is cheaper
	keeps    bool        // the walk may go on with more candidates
	seeded   bool        // it has begun anew from rows spread over all
	near     float64     // of the rows near the query, what matches; 0 where it was not looked at
	sure     bool        // a walk that may have missed others is not the end of it
	hopped   bool        // the walk was one over blocks
	spent    float64     // cost of the walks so far
	// What a search by cells looks at; nil if there are none.
	cells *cells
	fresh []uint32
	filed bool // codes lie in the file
	// So many rows in cells take as long as one of a flat search.
	bitRows float64
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
	// Where only a share of the rows near the query matches, it keeps as many more
	// others. What lies further off is not known: no more than a half of the
	// share of all rows is counted on where none near matches.
	sweepMargin = 2
	// A walk over matching rows alone reads the links of links.
	withinCost      = 1100
	withinCostPerEf = 65
	// Below that share it loses its way, whatever it keeps.
	withinShare = 0.02
	// Below that one it does so where what matches lies in islands.
	islandShare = 0.08
	// Looking at what lies near the query takes about as long as a short walk:
	// it is done where a flat search costs so many times the least that a walk
	// does.
	worthLooking = 4
	// Where nearly none of the rows near the query match, the matching ones that are
	// closest to it lie at the edges of many clusters, all about as far from it: a walk
	// must keep more candidates. Of 30,000 rows in 100 clusters, half of which match, it
	// found .75 to .88 of the ten closest with 64 candidates, and .90 to .99 with four
	// times as many.
	awayShare = 8
	awayEf    = 4
	// Where that share of all rows matches, nothing else can matter much.
	nearlyAll = 0.9
	// A walk meets all nodes of a graph of so few.
	wholeGraph = 256
	// costPerRow is how much more a row costs in a walk than in a flat search.
	costPerRow = 2
)

const (
	// A search by cells costs that many rows of a flat search, and one for so many that lie
	// in cells, where nobody has measured it.
	cellsCost, defaultBitRows = 3000, 5
	// A row that bits leave costs as much as so many, which lie beside each other: measured
	// where bits leave half of 12,000 rows of 48 components.
	leftCost = 1.5
	// So many times as much where codes lie in the file, from which some hundreds or thousands
	// are read.
	filedCost = 4
	// What a search that is to be sure may cost before it has walked: as much as a walk that
	// finds nearly all of the best rows, whatever the query, which keeps some 2,000 candidates.
	// Of 24,000 rows of 40 topics (cosine .9 within) one with 640 found .954 for queries of
	// other topics, one with 64 .716.
	defaultSure = 50_000
	// By cells it may cost half of it, which 100,000 rows do: among more a walk comes first,
	// and all are looked at where it is unsure (see level).
	sureByCells = 2
)

// costOfAll is what looking at all rows costs, the cheaper way, where bits rule out most.
func (p *plan) costOfAll() float64 {
	flat := float64(p.matching)
	if p.cells == nil {
		return flat
	}
	cells := cellsCost + float64(p.cells.rows)/p.bitRows
	if p.filed {
		cells *= filedCost
	}
	return min(flat, cells+float64(len(p.fresh)))
}

// wayOfAll is the way that costs less for what bits have left of late. They rule out next to
// nothing where all rows are as far from what is asked: then a search by them compares all
// codes after all bits.
func (r *searcher) wayOfAll(p *plan) Strategy {
	cells, flat := p.costOfAll(), float64(p.matching)
	if cells >= flat {
		return Flat
	}
	c := &r.beam.coding.cover
	if p.filed || cells+leftCost*load(&c.left)*flat < flat || c.spared.Add(1)%retryCells == 0 {
		return Cascade
	}
	return Flat
}

// matching is how many rows the search may return at most.
func (s *Search) matching() int {
	if s.Within != nil {
		return s.Within.Len()
	}
	return int(s.Slots)
}

// goesOn reports whether another walk, which keeps more candidates, leaves what all walks of a
// search cost far below what looking at all rows does, which may have to follow.
func (p *plan) goesOn(ef int) bool {
	p.spent += walkCost + walkCostPerEf*float64(p.ef)
	p.ef = ef
	return ef <= widest && p.spent+walkCost+walkCostPerEf*float64(ef) <= p.costOfAll()/walkShare
}

// walkShare is one over the share of it that walks may cost.
const walkShare = 4

// effort is how many candidates a walk keeps.
func (r *searcher) effort(s *Search) int {
	ef := s.Ef
	if ef == 0 {
		ef = max(defaultEf, 2*s.K)
	}
	ef = max(ef, s.K)
	if !s.Plain {
		ef *= int(r.x.graph.effort.Load())
	}
	if nodes := int(r.x.graph.linked.Load()); nodes <= wholeGraph {
		ef = max(ef, nodes) // where nearly all rows are twins
	}
	if r.beam.sketches != nil {
		// The order of estimates is rough: as many true hits are kept by half as many
		// more candidates.
		ef += ef / 2
	}
	return ef
}

// plan computes what each way would cost.
func (r *searcher) plan(s *Search) plan {
	p := plan{strategy: s.Strategy, way: Flat, ef: r.effort(s), matching: s.matching(), share: 1, sure: s.Sure || s.Ef == 0}
	if s.Within != nil {
		p.share = float64(p.matching) / float64(s.Slots)
	}
	entry, top, ok := r.x.graph.entryPoint()
	if s.Exact || p.matching == 0 {
		return p
	}
	p.cells, p.fresh = r.beam.coding.cover.look()
	p.bitRows = float64(r.x.cfg.BitRows)
	p.filed = r.beam.coding.codes.filed.Load() > 0
	r.choose(s, &p, ok)
	if p.way == Flat || p.way == Cascade {
		return p
	}
	p.keeps = s.Strategy == Planned && !s.Rough && r.beam.sketches == nil
	if s.Strategy == Planned && s.Within != nil && p.share < nearlyAll {
		p.from = r.beam.approach(entry, top, 0, arriveExpand)
		near := r.nearShare(p.from, s)
		p.near = near
		if near < p.share/awayShare {
			p.ef *= awayEf
		}
		p.way = r.cheapest(&p, near)
	}
	return p
}

// choose chooses the way of a search, as far as it does not depend on what is near the query. linked: there is a graph.
func (r *searcher) choose(s *Search, p *plan, linked bool) {
	p.way, p.budget = s.Strategy, math.MaxInt
	switch {
	case p.way == Cascade && p.cells == nil:
		p.way = Flat
	case p.way == Planned && r.beam.coding.vanishes():
		p.way = Flat
	case p.way == Planned && (!linked || r.exactIsCheap(s, p)):
		p.way = r.wayOfAll(p)
	case !linked && p.way != Cascade:
		p.way = Flat
	case p.way == Within && s.Within == nil:
		p.way = Sweep
	case p.way == Planned:
		p.way, p.budget = Sweep, int(p.costOfAll())/costPerRow
	}
}

// exactIsCheap reports whether a search looks at all rows without a look at the graph.
func (r *searcher) exactIsCheap(s *Search, p *plan) bool {
	all := p.costOfAll()
	if sure := float64(r.x.cfg.Sure); p.sure && (float64(p.matching) <= sure || all <= sure/sureByCells) {
		return true
	}
	least := walkCost + walkCostPerEf*float64(p.ef) // of a walk that meets what matches alone
	if s.Within != nil && p.share < nearlyAll {
		least *= worthLooking
	}
	return all <= least
}

// nearRows is how many links of rows near the query are looked at to tell how many
// of the rows there match.
const nearRows = 128

// nearShare estimates the share of the rows near the query that match, which the
// share of all rows says nothing of where what matches lies on one side of it.
func (r *searcher) nearShare(from []candidate, s *Search) float64 {
	b := r.beam
	b.ids = b.ids[:0]
	for _, c := range from {
		if len(b.ids) < nearRows {
			b.ids = r.x.graph.neighbours(c.slot, 0, b.ids)
		}
	}
	matching := 0
	for _, slot := range b.ids {
		if s.Within.Has(slot) {
			matching++
		}
	}
	return float64(matching) / float64(max(1, len(b.ids)))
}

// cheapest returns the way that costs least where that share of the rows near the
// query matches.
func (r *searcher) cheapest(p *plan, near float64) Strategy {
	ef := float64(p.ef)
	sweep := walkCost + walkCostPerEf*ef/max(near, p.share/sweepMargin)
	within := withinCost + withinCostPerEf*ef
	if p.share < withinShare {
		within = math.Inf(1)
	}
	switch {
	case p.costOfAll() <= min(sweep, within):
		return r.wayOfAll(p)
	case sweep <= within:
		return Sweep
	}
	return Within
}
