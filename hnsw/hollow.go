package hnsw

import "context"

// Where many rows are removed beside each other, as a whole cluster is, they leave a hollow:
// what is nearest to it lies on all its sides, and only the rows that are gone led from one to
// another. Links that are chosen anew stay on the side of their row, so that walks with few
// candidates end there. So a repair asks what is nearest to rows in hollows before it, and
// gives links to those of them that walks miss after it.

const (
	// A row is in a hollow of whose links one in hollowShare or more is to a removed row.
	hollowShare = 2
	// mostHollow is how many rows in hollows are asked for at most, spread over all.
	mostHollow = 4096
	// hollowsPerCheck is for how many of them walks go between looks at the context.
	hollowsPerCheck = 256
	// Of the hollowHits rows nearest to each, those that walks with hollowEf candidates miss
	// get hollowLinks links, from where these end. That is done hollowRounds times.
	hollowHits, hollowEf, hollowLinks, hollowRounds = 10, 10, 4, 2
)

// hollow is a row in one, removed or not, and what was nearest to it before the repair.
type hollow struct {
	slot uint32
	near []uint32
}

// hollows returns rows in hollows; none where no row is left, and where walks go by estimates,
// which say too little.
func (w *builder) hollows(ctx context.Context, dead *slotSet) ([]hollow, error) {
	if _, _, ok := w.graph.entryPoint(); !ok || w.bySketches() {
		return nil, nil
	}
	var slots []uint32
	for slot := range w.beam.limit {
		if slot%rowsPerCheck == rowsPerCheck-1 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if w.graph.node(slot).state.Load()&stateLinked != 0 && w.inHollow(slot, dead) {
			slots = append(slots, slot)
		}
		w.pass()
	}
	w.beam.byDistance = false // as searches score
	defer func() { w.beam.byDistance = true }()
	var list []hollow
	step := max(1, (len(slots)+mostHollow-1)/mostHollow)
	for i := 0; i < len(slots); i += step {
		if len(list)%hollowsPerCheck == hollowsPerCheck-1 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		h := hollow{slot: slots[i]}
		found := w.find(h.slot, defaultEf)
		for _, c := range found[:min(hollowHits, len(found))] {
			h.near = append(h.near, c.slot&slotMask)
		}
		list = append(list, h)
		w.pass()
	}
	return list, nil
}

// inHollow reports whether so many of a node's links are to removed ones.
func (w *builder) inHollow(slot uint32, dead *slotSet) bool {
	w.queue = w.graph.neighbours(slot, 0, w.queue[:0])
	lost := 0
	for _, to := range w.queue {
		if dead.has(to) {
			lost++
		}
	}
	return lost > 0 && lost*hollowShare >= len(w.queue)
}

// leadAcross gives links to what was nearest to rows in hollows and is missed.
func (w *builder) leadAcross(ctx context.Context, list []hollow) error {
	w.beam.byDistance = false // as searches score
	defer func() { w.beam.byDistance = true }()
	for range hollowRounds {
		for i, h := range list {
			if i%hollowsPerCheck == hollowsPerCheck-1 && ctx.Err() != nil {
				return ctx.Err()
			}
			found := w.find(h.slot, hollowEf)
			for _, slot := range h.near {
				w.leadFrom(found, slot, hollowLinks)
			}
			w.pass()
		}
	}
	return nil
}
