package hnsw

import (
	"context"
	"slices"
)

const (
	// repairShare is the share of removed slots in the graph, one in so many,
	// from which on Link leads the links around them. Until then searches step
	// over them.
	repairShare = 16
	// repairFirst is the share from which on that comes before the linking of others,
	// unless somebody waits for those: where each process ends before all are linked,
	// removed ones must not gather.
	repairFirst = 8
	// repairReach bounds the candidates gathered for the links of one slot.
	repairReach = 512
)

func (g *graph) repairDue() bool {
	if g.thorough.Load() {
		return g.dead.Load() > 0
	}
	return g.removedShare(repairShare)
}

// RepairAll says whether [Index.Link] leads links around removed rows however few there are, so
// that a snapshot holds none of them.
func (x *Index) RepairAll(all bool) { x.graph.thorough.Store(all) }

// removedShare reports whether one in n linked slots or more is removed.
func (g *graph) removedShare(n int64) bool {
	dead := g.dead.Load()
	return dead > 0 && dead*n >= g.linked.Load()
}

// repair takes removed slots out of the graph, if there are enough of them: it
// gives the slots that link to one new links, chosen among their other ones and
// those of the removed slot, and hands the removed slots to the grace period.
// It runs while nothing is being linked.
func (w *builder) repair(ctx context.Context) error {
	g := w.graph
	if !g.repairDue() {
		return nil
	}
	g.mu.Lock()
	removed := slices.Clone(g.removed)
	g.mu.Unlock()
	return w.leadAround(ctx, removed)
}

// leadAround takes the given removed slots out of the graph. Others may be removed
// meanwhile.
func (w *builder) leadAround(ctx context.Context, removed []uint32) error {
	g := w.graph
	w.pruner.beam.pin()
	w.beam.pin()
	dead := &slotSet{}
	dead.reset(w.beam.limit)
	for _, slot := range removed {
		dead.add(slot)
	}
	w.replaceEntryPoint()
	hollows, err := w.hollows(ctx, dead)
	if err != nil {
		return err
	}
	var isolated []uint32
	for slot := range w.beam.x.length.Load() {
		if slot%rowsPerCheck == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if g.node(slot).state.Load()&stateLinked == 0 || dead.has(slot) {
			continue
		}
		for level := range g.level(slot) + 1 {
			if !w.rewire(slot, level, dead) && level == 0 {
				isolated = append(isolated, slot)
			}
		}
		w.pass()
	}
	g.dropEntries(dead)
	if err := w.leadAcross(ctx, hollows); err != nil {
		return err
	}
	if k := g.blocks.Load(); k != nil {
		k.seeds.Store(nil) // lest a walk start from one
	}
	// What is dropped may hold other rows soon: no block may have codes of it.
	if err := w.recode(ctx); err != nil {
		return err
	}
	for _, slot := range removed {
		g.equals.Load().drop(slot)
	}
	g.drop(removed)
	g.proved = 0
	for _, slot := range isolated {
		if g.live(slot) { // else it may have been the last one, and the graph has no entry point
			w.connect(slot, g.level(slot))
		}
		w.pass()
	}
	return nil
}

// replaceEntryPoint moves a dead entry point to the live slot in the highest
// layer, or empties the graph if there is none.
func (w *builder) replaceEntryPoint() {
	g := w.graph
	if slot, _, ok := g.entryPoint(); !ok || g.live(slot) {
		return
	}
	best, top := uint32(0), -1
	for slot := range w.beam.x.length.Load() {
		if state := g.node(slot).state.Load(); state&stateLinked != 0 && state&stateLive != 0 {
			if level := g.level(slot); level > top {
				best, top = slot, level
			}
		}
	}
	if top < 0 {
		g.entry.Store(0)
		return
	}
	g.setEntryPoint(best, top)
}

// rewire replaces a slot's links in a layer if one of them is dead. It reports
// false if there is nothing left to link to.
func (w *builder) rewire(slot uint32, level int, dead *slotSet) bool {
	g, p := w.graph, &w.pruner
	links := g.neighbours(slot, level, nil)
	// A slot without links was left so by a repair that was cancelled.
	if (len(links) > 0 || level > 0) && !slices.ContainsFunc(links, dead.has) {
		return true
	}
	p.beam.visited.reset(w.beam.x.length.Load())
	p.beam.visited.add(slot)
	p.ids = p.ids[:0]
	for i := 0; i < len(links) && len(p.ids) < repairReach; i++ {
		if !p.beam.visited.add(links[i]) {
			continue
		}
		if dead.has(links[i]) {
			links = g.neighbours(links[i], level, links)
		} else {
			p.ids = append(p.ids, links[i])
		}
	}
	p.kept = p.best(slot, g.room(level), p.kept[:0])
	g.setNeighbours(slot, level, p.kept)
	g.work.Add(1)
	for _, to := range p.kept {
		// A slot that only dead ones linked to must not be lost.
		g.linkIfRoom(to, slot, level)
	}
	return len(p.kept) > 0
}

// linkIfRoom adds a link where it displaces no other.
func (g *graph) linkIfRoom(from, to uint32, level int) {
	list := g.list(from, level)
	for i := range list {
		switch list[i].Load() {
		case 0:
			list[i].Store(to + 1)
			if level == 0 {
				g.changed(from)
			}
			return
		case to + 1:
			return
		}
	}
}

// drop takes slots that no link leads to any more out of the graph.
func (g *graph) drop(slots []uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gone := make(map[uint32]struct{}, len(slots))
	for _, slot := range slots {
		gone[slot] = struct{}{}
		g.orphan(slot)
		n := g.node(slot)
		n.state.Store(n.state.Load() &^ stateLinked)
	}
	g.removed = slices.DeleteFunc(g.removed, func(slot uint32) bool {
		_, ok := gone[slot]
		return ok
	})
	g.grace.retire(slots...)
	g.linked.Add(-int64(len(slots)))
	g.dead.Add(-int64(len(slots)))
}
