package hnsw

import (
	"math"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// hop is a walk over blocks. It keeps candidates by estimates of their costs, a cost being
// the negative of a key, and follows the best of them; what it has followed is a result,
// by the key of its codes.
type hop struct {
	tables simd.QueryTables
	turned []float32
	found  simd.Found
	pool   simd.Pool
	open   uint64 // places of the pool
	wide   widePool
	ef     int // candidates kept
}

// widePool is a pool of more candidates than [simd.Pool] has room for.
type widePool struct {
	costs []float32
	ids   []uint32
	next  int // none before it is open
}

// mostHop is how many candidates a walk over blocks keeps at most: it finds the place of each
// among all others.
const mostHop = 1024

// startSeeds is how many seeds a walk starts from.
const startSeeds = 4

// ask prepares a query, which is coded as rows are, and no candidates of ef.
func (h *hop) ask(k *blocks, query []float32, ef int) {
	h.turned = append(h.turned[:0], query...)
	if k.rotation != nil {
		k.rotation.turn(h.turned)
	}
	h.tables.Set(h.turned[:k.bits])
	h.ef = ef
	if ef <= simd.PoolRoom {
		h.pool.Reset(ef)
		h.open = 0
		return
	}
	h.wide.costs, h.wide.ids, h.wide.next = h.wide.costs[:0], h.wide.ids[:0], 0
}

// bar is the cost below which a candidate is kept.
func (h *hop) bar() float32 {
	if h.ef <= simd.PoolRoom {
		return h.pool.Bar()
	}
	if len(h.wide.costs) < h.ef {
		return float32(math.Inf(1))
	}
	return h.wide.costs[h.ef-1]
}

// absorb keeps the first n found that are good enough and not in the set.
func (h *hop) absorb(n int, visited *slotSet) {
	switch {
	case n == 0:
	case h.ef <= simd.PoolRoom:
		h.open = h.pool.Absorb(&h.found, n, visited.words)
	default:
		for i, cost := range h.found.Costs[:n] {
			if id := h.found.IDs[i]; !visited.has(id) {
				h.wide.insert(cost, id, h.ef)
			}
		}
	}
}

func (p *widePool) insert(cost float32, id uint32, ef int) {
	at, n := 0, len(p.costs)
	for n > 0 { // as in beam.insert
		half := (n + 1) >> 1
		if p.costs[at+half-1] <= cost {
			at += half
		}
		n -= half
	}
	if at >= ef {
		return
	}
	if len(p.costs) < ef {
		p.costs, p.ids = append(p.costs, 0), append(p.ids, 0)
	}
	copy(p.costs[at+1:], p.costs[at:])
	copy(p.ids[at+1:], p.ids[at:])
	p.costs[at], p.ids[at] = cost, id
	p.next = min(p.next, at)
}

// take returns the best open candidate, which no longer is.
func (h *hop) take() (slot uint32, ok bool) {
	if h.ef <= simd.PoolRoom {
		if h.open == 0 {
			return 0, false
		}
		at := simd.First(h.open) & (simd.PoolRoom - 1)
		h.open &= h.open - 1
		slot = h.pool.IDs[at]
		h.pool.IDs[at] |= simd.PoolDone
		return slot, true
	}
	if slot, ok = h.peek(); ok {
		h.wide.ids[h.wide.next] |= simd.PoolDone
		h.wide.next++
	}
	return slot, ok
}

// peek returns the candidate that take would.
func (h *hop) peek() (slot uint32, ok bool) {
	if h.ef <= simd.PoolRoom {
		return h.pool.IDs[simd.First(h.open)&(simd.PoolRoom-1)], h.open != 0
	}
	p := &h.wide
	for p.next < len(p.ids) && p.ids[p.next]&simd.PoolDone != 0 {
		p.next++
	}
	if p.next == len(p.ids) {
		return 0, false
	}
	return p.ids[p.next], true
}

// hops fills the beam by a walk over blocks. It reports false if there are none, if that
// would take longer than a flat search, and if it found too few.
func (r *searcher) hops(s *Search, p *plan) bool {
	b := r.beam
	k := r.x.graph.blocks.Load()
	if p.way != Sweep || k == nil || k.of != b.coding || b.sketches != nil {
		return false
	}
	from, pool := k.seeds.Load(), p.pool(&r.x.graph)
	if from == nil || pool > mostHop || s.Within != nil && p.share < nearlyAll && (p.near < leastNear || pool > simd.PoolRoom) {
		return false
	}
	walk := k.walks.enter()
	defer k.walks.leave(walk)
	b.within, b.visible = s.Within, r.visible(s)
	b.reset(p.ef)
	r.startPending(s)
	h := &r.hop
	h.ask(k, r.probe.own, pool)
	h.start(k, from, b)
	if slot, ok := r.equal(); ok {
		h.found.IDs[0], h.found.Costs[0] = slot, -b.scoreOne(slot)
		h.absorb(1, &b.visited)
	}
	b.hop(h, k, p.budget)
	return b.shown >= s.K || b.shown >= p.matching
}

// leastNear is the share of the rows near the query that must match for a filtered walk to go by
// blocks: what they show of others is in its way. With less, a walk of 10 candidates by links
// found .95 where one by blocks took 48 to 96, and twice as long.
const leastNear = .75

// pool is how many candidates a walk keeps so that about ef of them can be returned: with
// fewer, walks for few candidates would come short, go on by links, and find more than those
// for a few more.
func (p *plan) pool(g *graph) int {
	live := 1 - min(float64(g.dead.Load())/float64(max(1, g.linked.Load())), mostDead)
	if p.near > 0 && p.near < 1 {
		return int(math.Ceil(float64(p.ef) / p.near / live))
	}
	if p.share >= nearlyAll {
		live *= p.share
	}
	pool := int(math.Ceil(float64(p.ef) / live))
	if p.ef <= simd.PoolRoom {
		pool = min(pool, simd.PoolRoom) // more would cost half as much again
	}
	return pool
}

// mostDead is the share of removed rows at most that is counted on near the query.
const mostDead = .5

// hop follows candidates until none is open.
func (b *beam) hop(h *hop, k *blocks, budget int) {
	limit := k.limit.Load() // before the table, which has all below it
	codes, table := b.coding.codes.table.Load(), k.table.Load()
	lines := (int(codes.Stride) + 127) / 64
	fetch := func(slot uint32) {
		if slot < limit {
			simd.PrefetchLines(table.At(slot), k.lines)
		}
		simd.PrefetchLines(codes.At(slot), lines)
	}
	twins := b.x.graph.twins.Load() > 0
	var id [1]uint32
	var key [1]float32
	for b.steps <= budget {
		slot, ok := h.take()
		if !ok {
			break
		}
		if !b.visited.add(slot) {
			continue // it was met more than once before it was followed
		}
		id[0] = slot
		simd.Dot8Rows(&b.query, codes, id[:], key[:])
		b.steps++
		if slot < limit && k.isCoded(slot) {
			n := simd.ScanBlock(&h.tables, table.At(slot), -key[0], h.bar(), &h.found)
			h.absorb(h.below(n, b.limit), &b.visited)
		} else {
			h.byCodes(b, slot)
		}
		h.ahead(fetch)
		if key[0] > b.bar() && !b.hides(slot) {
			b.insert(key[0], slot|markExpanded)
		}
		if twins {
			b.addTwins(slot, key[0])
		}
	}
}

// hopAhead is how many of the open candidates are fetched before each hop: those behind the
// best one are most often followed soon. With four a walk took .84 to .88 times as long as with
// the best one alone (60,000 rows of MNIST and of the mixture, 14 and 32 candidates).
const hopAhead = 4

// ahead has the candidates fetched that are likely to be followed next.
func (h *hop) ahead(fetch func(slot uint32)) {
	if h.ef > simd.PoolRoom {
		if next, ok := h.peek(); ok {
			fetch(next)
		}
		return
	}
	open := h.open
	for range hopAhead {
		if open == 0 {
			return
		}
		fetch(h.pool.IDs[simd.First(open)&(simd.PoolRoom-1)])
		open &= open - 1
	}
}

// below drops what is not below the limit from the first n found.
func (h *hop) below(n int, limit uint32) int {
	for i := 0; i < n; {
		if h.found.IDs[i] < limit {
			i++
			continue
		}
		n--
		h.found.IDs[i], h.found.Costs[i] = h.found.IDs[n], h.found.Costs[n]
	}
	return n
}

// byCodes compares with the neighbours of a node that has no block.
func (h *hop) byCodes(b *beam, slot uint32) {
	b.ids = b.x.graph.neighbours(slot, 0, b.ids[:0])
	b.ids = slices.DeleteFunc(b.ids, func(id uint32) bool { return id >= b.limit || b.visited.has(id) })
	scores := b.score()
	for ids := b.ids; len(ids) > 0; {
		n := copy(h.found.IDs[:], ids)
		for i, score := range scores[:n] {
			h.found.Costs[i] = -score
		}
		h.absorb(n, &b.visited)
		ids, scores = ids[n:], scores[n:]
	}
}

// start keeps the seeds closest to the query.
func (h *hop) start(k *blocks, s *sown, b *beam) {
	size := simd.BlockBytes(k.bits)
	base := float32(s.square/2 - float64(simd.Dot(h.turned, s.mean)))
	var best [startSeeds]candidate
	n, bar := 0, float32(math.Inf(1))
	for i := range len(s.blocks) * 8 / size {
		found := simd.ScanBlock(&h.tables, s.block(i, size), base, bar, &h.found)
		for j, cost := range h.found.Costs[:found] {
			if cost >= bar || h.found.IDs[j] >= b.limit {
				continue
			}
			n = min(n+1, startSeeds)
			at := n - 1
			for ; at > 0 && best[at-1].score > cost; at-- {
				best[at] = best[at-1]
			}
			best[at] = candidate{cost, h.found.IDs[j]}
			if n == startSeeds {
				bar = best[n-1].score
			}
		}
	}
	for i, c := range best[:n] {
		h.found.Costs[i], h.found.IDs[i] = c.score, c.slot
		simd.PrefetchLines(b.coding.codes.table.Load().At(c.slot), k.lines)
	}
	h.absorb(n, &b.visited)
}
