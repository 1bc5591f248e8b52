package hnsw

import "slices"

// A slot's life: Add announces it, and it is live and pending. Link claims it,
// and once it is linked, searches meet it in the graph. Remove retires it: from
// the graph by way of repair, else at once into the grace period, after which
// reclaim hands it back to Add.

// announce makes a stored slot live and pending.
func (g *graph) announce(slot uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.node(slot).state.Store(stateLive)
	pending := append(*g.pending.Load(), slot)
	if rows := g.rows.Add(1); len(pending) >= pruneFrom && len(pending) > pruneShare*int(rows) && g.linking.TryLock() {
		pending = g.prune(pending)
		g.linking.Unlock()
	}
	g.pending.Store(&pending)
}

// Below the crossover nothing takes slots off the list of pending ones. Where rows
// come and go, most of it is stale: from pruneFrom entries on it is kept to
// pruneShare times the rows there are.
const (
	pruneFrom  = 256
	pruneShare = 4
)

// prune returns a list of the slots among the pending ones that still are, once
// each. mu and linking are held.
func (g *graph) prune(pending []uint32) []uint32 {
	seen := make(map[uint32]bool, g.rows.Load())
	var kept []uint32
	for _, slot := range pending {
		if g.node(slot).state.Load() == stateLive && !seen[slot] {
			seen[slot] = true
			kept = append(kept, slot)
		}
	}
	return kept
}

// retire takes a slot's row out. What is not in the graph is free after a
// grace period; what is stays a waypoint until repair has led the links around.
func (g *graph) retire(slot uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.node(slot)
	switch state := n.state.Load(); {
	case state&stateLive == 0:
		return
	case state&stateTwin != 0:
		g.leaveTwins(slot)
		n.state.Store(0)
		g.grace.retire(slot)
	case state&stateClaimed != 0:
		n.state.Store(state &^ stateLive)
		g.removed = append(g.removed, slot)
		g.dead.Add(1)
	default:
		n.state.Store(0)
		g.orphan(slot)
		g.grace.retire(slot)
	}
	g.rows.Add(-1)
}

// claim marks a slot as being linked, if it holds a row and is not in the graph.
func (g *graph) claim(slot uint32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.node(slot)
	if n.state.Load() != stateLive {
		return false
	}
	n.state.Store(stateLive | stateClaimed)
	return true
}

// unclaim undoes claim for a slot that could not be linked.
func (g *graph) unclaim(slot uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.node(slot)
	if n.state.Load()&stateLive != 0 {
		n.state.Store(stateLive)
		return
	}
	// It was removed meanwhile, and is nobody's waypoint.
	n.state.Store(0)
	g.orphan(slot)
	g.removed = slices.DeleteFunc(g.removed, func(s uint32) bool { return s == slot })
	g.dead.Add(-1)
	g.grace.retire(slot)
}

// settle takes the n pending slots after the first skip off the list, but for
// those at or above upto, and returns how many at the front are to be skipped
// now.
func (g *graph) settle(skip, n int, upto uint32) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	pending := *g.pending.Load()
	keep := slices.Clone(pending[:skip])
	for _, slot := range pending[skip : skip+n] {
		if slot >= upto {
			keep = append(keep, slot)
		}
	}
	rest := pending[skip+n:]
	if len(keep) > 0 {
		rest = slices.Concat(keep, rest)
	}
	g.pending.Store(&rest)
	return len(keep)
}

// allocUpper gives a claimed slot zeroed records for the layers above 0.
func (g *graph) allocUpper(slot uint32, level int) error {
	if level == 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var first uint32
	if free := g.freeUppers[level]; len(free) > 0 {
		first = free[len(free)-1]
		g.freeUppers[level] = free[:len(free)-1]
	} else {
		first = g.uppersEnd
		if err := g.uppers.grow(first + uint32(level)); err != nil {
			return err
		}
		g.uppersEnd += uint32(level)
	}
	g.node(slot).upper.Store(first + 1)
	return nil
}

// reclaim appends to free the slots that no search can meet any more, and
// clears what the graph held of them.
func (g *graph) reclaim(free []uint32) []uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(free)
	free = g.grace.advance(free)
	for _, slot := range free[before:] {
		n := g.node(slot)
		n.state.Store(0)
		n.twin.Store(0)
		g.setNeighbours(slot, 0, nil)
		g.blocks.Load().forget(slot)
		if first := n.upper.Load(); first != 0 {
			level := g.level(slot)
			for l := 1; l <= level; l++ {
				g.setNeighbours(slot, l, nil)
			}
			n.upper.Store(0)
			g.freeUppers[level] = append(g.freeUppers[level], first-1)
		}
	}
	return free
}
