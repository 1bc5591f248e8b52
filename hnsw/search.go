package hnsw

import (
	"context"
	"fmt"
	"runtime"
	"slices"
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
	Within *Set
	// Exact asks for the true top k at any cost.
	Exact bool
	// Truth is asked for rows instead of [Config].Truth, by a reader that looks
	// at a state of its own; nil is the latter. Where the index keeps rows it
	// is not called.
	Truth Truth
	// Rough leaves it at the scores of codes: for a caller that scores the hits
	// again.
	Rough bool
	// Ef is how many candidates an approximate search keeps: more find better
	// and take longer. Zero chooses by K. By sketches it keeps half as many more.
	Ef int
	// Plain keeps no more than Ef candidates also in a graph whose walks find too few: for
	// those who look for what is very near, which is found.
	Plain bool
	// Strategy forces a way to search, to compare it with the planned one. A
	// search may still end flat: where there is no graph, where Exact is asked
	// for, and where a walk found fewer than there are.
	Strategy Strategy
	// Sure asks for the best there are, as Exact does, where that costs no more than a walk
	// that would find nearly all of them: Ef is for where it does not. So does Ef 0.
	Sure bool
	// Told is filled in with how the answer was found, where it is not nil.
	Told *Told
}

// searcher is what one search needs of memory.
type searcher struct {
	x       *Index
	probe   probe
	beam    *beam
	within  *Set // the part of the search's set that lies below its limit
	flat    flatSearch
	cascade cascade
	told    Told
	ids     []uint32
	out     []float32
	row     []float32
	truth   Truth
	best    topK // by their exact scores
	sure    bool // see allow
	hop     hop
	codes   []uint8 // see equal
}

func newSearcher(x *Index) *searcher {
	return &searcher{
		x:    x,
		beam: newBeam(x),
		ids:  make([]uint32, 0, batch),
		out:  make([]float32, batch),
		row:  make([]float32, 0, x.cfg.Dim),
	}
}

// Search returns the best hits for a query, best first, equal scores by slot:
// min(K, what matches), never fewer. Scores are exact, as far as a float32 holds them: under
// Dot, a query of tiny components is better made longer. That no better row was
// missed is certain with Exact, as good as certain of a flat search, which is
// what small sets of rows get, and likely of a walk over the graph. It returns
// what [CheckVector] does for a query that doesn't fit, [ErrConfig] for a search
// that can't be, [ErrFile], Truth's error, and ctx's once ctx is done.
func (x *Index) Search(ctx context.Context, query []float32, s Search) (hits []Hit, err error) {
	norm, err := checkedNorm(query, x.cfg.Dim, x.cfg.Metric)
	if err != nil {
		return nil, err
	}
	if s.K < 0 || s.Ef < 0 {
		return nil, fmt.Errorf("%w: a search with k %d and ef %d; neither can be negative", ErrConfig, s.K, s.Ef)
	}
	if s.Strategy > Cascade {
		return nil, fmt.Errorf("%w: no search strategy %d; the last is %d", ErrConfig, s.Strategy, Cascade)
	}
	defer x.spill.guard()(&err)
	if err := x.spill.err(); err != nil {
		return nil, err
	}
	s.Slots = min(s.Slots, x.length.Load())
	s.K, s.Ef = min(s.K, int(s.Slots)), min(s.Ef, int(s.Slots))
	if s.K == 0 || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	epoch := x.graph.grace.enter()
	defer x.graph.grace.leave(epoch)
	r := x.pool.Get().(*searcher)
	defer x.pool.Put(r)
	r.setQuery(query, norm)
	r.beam.sketches = nil
	if !s.Exact {
		r.beam.bySketches(r.probe.own)
	}
	r.truth = s.Truth
	if r.truth == nil {
		r.truth = x.cfg.Truth
	}
	if s.Within != nil {
		s.Within = s.Within.below(s.Slots)
		r.within = s.Within
	}
	hits, err = r.search(ctx, &s)
	r.truth, r.within, r.beam.within, r.beam.visible = nil, nil, nil, nil // the pool must not keep what they refer to
	runtime.KeepAlive(x)
	return hits, err
}

// search goes the way that is planned, and falls back on others where that one
// comes to nothing.
func (r *searcher) search(ctx context.Context, s *Search) (hits []Hit, err error) {
	r.told = Told{}
	p := r.plan(s)
	r.told.Way = p.way
	switch p.way {
	case Flat:
		hits, err = r.searchFlat(ctx, s)
	case Cascade:
		hits, err = r.searchCells(ctx, s, p.cells, p.fresh)
	default:
		hits, err = r.searchGraph(ctx, s, &p)
	}
	r.tell(s)
	return hits, err
}

// searchAll looks at all rows, in the way that costs less.
func (r *searcher) searchAll(ctx context.Context, s *Search, p *plan) ([]Hit, error) {
	if r.told.Way = r.wayOfAll(p); r.told.Way == Cascade {
		return r.searchCells(ctx, s, p.cells, p.fresh)
	}
	return r.searchFlat(ctx, s)
}

// walkOrWithin walks, and where a sweep finds too little of what a filter lets through, walks within that.
func (r *searcher) walkOrWithin(s *Search, p *plan) (found bool) {
	found = r.walk(s, p)
	if !found && p.way == Sweep && s.Within != nil && s.Strategy == Planned && p.share >= withinShare {
		p.way, r.told.Way = Within, Within
		found = r.walk(s, p)
	}
	return found
}

// searchGraph walks, and looks at all rows where that comes to nothing.
func (r *searcher) searchGraph(ctx context.Context, s *Search, p *plan) ([]Hit, error) {
	r.allow(false, deviationsWalk)
	p.hopped = r.hops(s, p)
	if !p.hopped && !r.walkOrWithin(s, p) {
		return r.searchAll(ctx, s, p)
	}
	shown, ok := r.liveOnes(s)
	if !ok {
		return r.searchAll(ctx, s, p)
	}
	if s.Rough {
		return r.rough(r.byCodes(shown, s.K), s.K), nil
	}
	hits, err := r.look(shown, s.K)
	if few := p.ef < defaultEf; err == nil && p.keeps && !p.sure {
		if hits, err = r.goOnce(s, p, hits); few {
			return hits, err
		}
	}
	for p.keeps && err == nil && (r.unsure(hits, p) || p.sure && r.level(hits, p)) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !p.goesOn(2*p.ef) || !r.goOn(s, p) {
			return r.widen(ctx, s, p, hits)
		}
		if shown, ok = r.liveOnes(s); !ok {
			return r.searchAll(ctx, s, p)
		}
		hits, err = r.look(shown, s.K)
	}
	return hits, err
}

// goOnce has a walk that was asked for so many candidates go on where it may have missed some
// that walks find for little more: from few candidates to those that a search keeps by
// default, and to rows spread over all.
func (r *searcher) goOnce(s *Search, p *plan, hits []Hit) (_ []Hit, err error) {
	few := p.ef < defaultEf
	if r.blurred(hits) && !s.Plain || few && r.unsure(hits, p) {
		p.ef = max(p.ef, defaultEf)
		hits, err = r.again(s, p, hits)
	}
	if err == nil && !few && p.hopped && r.level(hits, p) {
		// As many candidates find more by links where rows are all as far away.
		hits, err = r.again(s, p, hits)
	}
	return hits, err
}

// again returns what a walk finds that goes on, or the hits if it comes to nothing.
func (r *searcher) again(s *Search, p *plan, hits []Hit) ([]Hit, error) {
	if !r.goOn(s, p) {
		return hits, nil
	}
	shown, ok := r.liveOnes(s)
	if !ok {
		return hits, nil
	}
	return r.look(shown, s.K)
}

// liveOnes returns the candidates that the search may return, sorted. It reports false if
// too few of them have a row still.
func (r *searcher) liveOnes(s *Search) ([]candidate, bool) {
	shown := r.beam.shownOnes()
	if s.Within == nil || r.x.graph.dead.Load() == 0 {
		return shown, true
	}
	// The walk took what is within for rows: it would have waited for the state of each
	// slot that it met.
	live := slices.DeleteFunc(shown, func(c candidate) bool { return !r.x.graph.live(c.slot & slotMask) })
	return live, len(live) >= min(s.K, len(shown))
}

const (
	// widest is how many candidates a walk keeps at most that goes on because codes can't
	// tell which of fewer are the best.
	widest = 4096
	// flatAnyway is how many rows are then looked at one by one, which takes a few
	// milliseconds.
	flatAnyway = 1 << 17
	// unsureDeviations is how near the last candidate must come to being one of the best.
	unsureDeviations = 1
)

// look returns the k best of the candidates, by their exact scores.
func (r *searcher) look(shown []candidate, k int) ([]Hit, error) {
	r.best = topK{k: k, hits: make([]Hit, 0, min(k, len(shown)))}
	return r.rescore(r.byCodes(shown, k), k, &r.probe.codes)
}

// unsure reports whether candidates that the walk did not keep are likely to be among the
// best: the last one that it kept is among the better three quarters of the hits, as far
// as its codes tell, which is so where many rows are closer to each other than their codes are to them.
// The last of few is close to the worst of the hits in any case.
func (r *searcher) unsure(hits []Hit, p *plan) bool {
	b := r.beam
	if b.sketches != nil || b.shown >= p.matching || len(hits) == 0 {
		return false
	}
	if b.shown < b.ef {
		return !p.seeded && !p.hopped // what it met has no links to others
	}
	if hits[0].Score == hits[len(hits)-1].Score {
		return false // they are all the same
	}
	return r.mayReach(b.found[len(b.found)-1], hits[3*(len(hits)-1)/4].Score)
}

// blurred reports whether codes can't tell the better three quarters of the hits from the
// candidate that is the last of as many. It says the same of a walk with few candidates and of
// one with many, so that this one goes on where that one does: many rows that codes cannot tell
// apart are as much in the way of both.
func (r *searcher) blurred(hits []Hit) bool {
	n := len(hits)
	if n == 0 || hits[0].Score == hits[n-1].Score {
		return false
	}
	return r.mayReach(r.beam.found[n-1], hits[3*(n-1)/4].Score)
}

// mayReach reports whether a candidate is likely to have that score, as far as its codes tell.
func (r *searcher) mayReach(c candidate, score float32) bool {
	v := &r.probe.codes
	likely := r.probe.likely(v, c.score, r.beam.err(c.slot&slotMask), unsureDeviations)
	return float64(c.score)+v.shift+likely >= r.keyOf(score)
}

// levelShare is how much further from the query the last candidate lies than the last hit
// where a walk is likely to have found what there is: of photographs and of mixtures nearly
// all queries are above it. Where so many rows are as far from the query, a walk that keeps
// no more of them meets those that are a little closer by chance.
//
// A walk over links keeps the closest of all that it has met, which lie closer together than
// those that one over blocks has followed.
const levelShare, levelByLinks = 1.1, 1.05

// level reports whether what the walk kept is about as far from the query as the hits, so
// that it may have left out as many that are closer.
func (r *searcher) level(hits []Hit, p *plan) bool {
	b, v := r.beam, &r.probe.codes
	if len(hits) == 0 || b.shown < b.ef {
		return false
	}
	last := max(0, v.square-2*float64(b.found[len(b.found)-1].score))
	hit := max(0, v.square-2*(r.keyOf(hits[len(hits)-1].Score)-v.shift))
	share := levelShare
	if !p.hopped {
		share = levelByLinks
	}
	return last < share*share*hit
}

// goOn has the walk keep more candidates, of those it has met as well. It reports false
// if that would take longer than a flat search.
func (r *searcher) goOn(s *Search, p *plan) bool {
	if p.hopped {
		p.hopped = false
		return r.walk(s, p)
	}
	var met *Set
	if p.way == Within {
		met = s.Within // it has seen others, but not scored them
	}
	r.beam.widen(p.ef, met)
	if !p.seeded {
		p.seeded = true
		r.beam.seed(s.Slots, min(max(int(s.Slots)/seedShare, leastSeeds), mostSeeds))
	}
	r.startPending(s)
	ok := false
	if p.way == Within {
		ok = r.walkWithin(p)
	} else {
		ok = r.beam.walk(0, p.budget)
	}
	r.beam.findTwins()
	return ok
}

const (
	// leastSeeds is how many rows, spread over all, a walk starts from besides, where one
	// from the entry point may end in a place that has no links to others.
	leastSeeds = batch
	// Of many rows it is one in seedShare, and mostSeeds at most.
	seedShare, mostSeeds = 32, 8192
)

// seed adds some linked rows to those that the walk starts from.
func (b *beam) seed(slots uint32, n int) {
	nodes := b.x.graph.nodes.table.Load()
	step := max(1, slots/uint32(n))
	b.ids = b.ids[:0]
	for slot := step / 2; slot < slots; slot += step {
		if (*node)(nodes.At(slot)).state.Load()&stateLinked != 0 && b.visited.add(slot) {
			b.ids = append(b.ids, slot)
		}
		if len(b.ids) == batch {
			b.insertAll()
			b.ids = b.ids[:0]
		}
	}
	b.insertAll()
}

// widen ends a search whose walk has gone on for long.
func (r *searcher) widen(ctx context.Context, s *Search, p *plan, hits []Hit) ([]Hit, error) {
	if p.costOfAll() > flatAnyway {
		r.told.Unsure = true
		return hits, nil
	}
	return r.searchAll(ctx, s, p)
}

// rough returns the first candidates by the scores of their codes.
func (r *searcher) rough(found []candidate, k int) []Hit {
	hits := make([]Hit, 0, k)
	for _, c := range found[:min(k, len(found))] {
		score := r.scoreOf(float64(c.score) + r.probe.codes.shift)
		hits = append(hits, Hit{Slot: c.slot & slotMask, Score: float32(score)})
	}
	return hits
}

// walk fills the beam with what matches, from the graph and from what is not
// linked yet. It reports false if that would take longer than a flat search or
// found too few.
func (r *searcher) walk(s *Search, p *plan) bool {
	b := r.beam
	if entry, top, ok := r.x.graph.entryPoint(); ok && p.from == nil {
		p.from = b.approach(entry, top, 0, arriveExpand)
	}
	b.within, b.visible = s.Within, r.visible(s)
	b.reset(p.ef)
	// Before the walk: what is linked in between is met there.
	r.startPending(s)
	b.start(p.from...)
	b.enter()
	if slot, ok := r.equal(); ok {
		b.start(candidate{b.scoreOne(slot), slot})
	}
	if r.x.cfg.Metric == Dot && p.strategy == Planned {
		// The longest rows are closest to most, and have links to each other alone.
		b.seed(s.Slots, leastSeeds)
	}
	if p.way == Within {
		if !r.startWithin(p) || !r.walkWithin(p) {
			return false
		}
	} else if !b.walk(0, p.budget) {
		return false
	}
	b.findTwins()
	return b.shown >= s.K || b.shown >= p.matching
}

// visible returns what decides, besides the set, whether a slot that the walk meets
// is returned; nil if all are.
func (r *searcher) visible(s *Search) func(slot uint32) bool {
	x := r.x
	seen := s.Visible
	if seen == nil && s.Within == nil && x.graph.dead.Load() > 0 {
		seen = x.graph.live
	}
	switch {
	case s.Within != nil || s.Slots >= r.beam.limit:
		return seen
	case seen != nil:
		return func(slot uint32) bool { return slot < s.Slots && seen(slot) }
	}
	return func(slot uint32) bool { return slot < s.Slots }
}

// startPending adds the matching slots that are not in the graph. Whether the reader
// may see a slot, and whether it was met before, is asked only of those whose score
// is good enough: there may be many thousands, and asking takes longer than scoring.
func (r *searcher) startPending(s *Search) {
	// The table has all slots below s.Slots, which were there before the search began:
	// what is announced since is beyond.
	b, nodes := r.beam, r.x.graph.nodes.table.Load()
	b.ids = b.ids[:0]
	for _, slot := range *r.x.graph.pending.Load() {
		if slot >= s.Slots || (*node)(nodes.At(slot)).state.Load()&(stateLive|stateLinked) != stateLive {
			continue
		}
		b.ids = append(b.ids, slot)
		if len(b.ids) == batch {
			b.insertPending()
		}
	}
	b.insertPending()
	b.steps = 0
}

// Scores sets out[i] to the score of slots[i] for the query. It returns what
// [CheckVector] does for a query that doesn't fit, [ErrSlot] for a slot without
// a row, [ErrConfig] if out has another length than slots, [ErrFile], and Truth's
// error.
func (x *Index) Scores(query []float32, slots []uint32, out []float32) (err error) {
	norm, err := checkedNorm(query, x.cfg.Dim, x.cfg.Metric)
	if err != nil {
		return err
	}
	if len(slots) != len(out) {
		return fmt.Errorf("%w: %d slots to score and room for %d scores", ErrConfig, len(slots), len(out))
	}
	if err := x.checkSlots(slots); err != nil {
		return err
	}
	defer x.spill.guard()(&err)
	if err := x.spill.err(); err != nil {
		return err
	}
	r := x.pool.Get().(*searcher)
	defer x.pool.Put(r)
	r.probe.vec = x.prepare(query, norm, r.probe.vec[:0])
	r.beam.pin()
	r.truth = x.cfg.Truth
	err = r.score(slots, out)
	runtime.KeepAlive(x)
	return err
}

func (x *Index) checkSlots(slots []uint32) error {
	length, nodes := x.length.Load(), x.graph.nodes.table.Load()
	for _, slot := range slots {
		if slot >= length || (*node)(nodes.At(slot)).state.Load()&stateLive == 0 {
			return fmt.Errorf("%w: slot %d of %d holds no row", ErrSlot, slot, length)
		}
	}
	return nil
}
