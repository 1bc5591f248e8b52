package hnsw

import (
	"context"
	"slices"
)

// A graph that has grown is put to the proof: every node is to be reached from the entry
// point, walks from some rows are to find what is closest to them among others, and as
// many of their neighbours as a search promises. What fails is mended: a node that nothing
// leads to gets a link; rows that walks do not come to become entries, from which every
// walk starts besides; and where walks find too few, they keep more candidates.

const (
	// leastProof is how many nodes a graph has at least that is put to the proof, and
	// proofGrowth the share, one in so many, by which it has grown since the last one;
	// where all pending rows are linked, one in proofEnd does.
	leastProof  = 64
	proofGrowth = 2
	proofEnd    = 8
	// A graph of which one node in frailShare was not reached, as where many rows are the
	// same, is put to it when it has grown by one in frailGrowth.
	frailShare  = 64
	frailGrowth = 16
	// proofRows is how many rows walks are to find, and one in proofMissed how many they may
	// miss: the walks of graphs without groups miss one in some hundreds. If they miss more,
	// others are looked for by walks of proofEf candidate alone, until none is
	// missed, proofRounds times at most.
	proofRows, proofMissed, proofRounds, proofEf = 256, 64, 16, 1
	// The rarest rows, one in proofRare, are looked for besides, leastRare at least and
	// mostRare at most: what walks miss is among them. Each that they miss gets rareLinks.
	proofRare, leastRare, mostRare, rareLinks = 64, 64, 1024, 4
	// maxEntries is how many entries there are at most: each walk scores them.
	maxEntries = 1024
	// Of the proofHits other rows closest to each of proofQueries, which are not looked for in
	// more than proofFlat, walks are to find that share. If they don't, they keep twice as
	// many candidates, until they keep mostEffort times as many. It is looked for whenever
	// there are twice as many rows.
	proofQueries, proofHits, proofFlat = 64, 10, 1 << 17
	proofRecall                        = .975
	mostEffort                         = 8
)

// prove puts the graph to the proof if it has grown by one in so many nodes. Nothing is
// linked meanwhile.
func (w *builder) prove(ctx context.Context, growth int64) error {
	g := w.graph
	linked := g.linked.Load()
	if g.frail {
		growth = frailGrowth
	}
	if linked < leastProof || linked < g.proved+g.proved/growth {
		return nil
	}
	w.beam.pin()
	w.pruner.beam.pin()
	if w.bySketches() {
		// Walks go by estimates of what lies in the file, which say too little for it.
		g.proved = linked
		return nil
	}
	if err := w.mend(ctx); err != nil {
		return err
	}
	rarest, err := w.rarest(ctx)
	if err != nil {
		return err
	}
	w.beam.byDistance = false // as searches score
	defer func() { w.beam.byDistance = true }()
	if err := w.leadToRare(ctx, rarest); err != nil {
		return err
	}
	if err := w.findLost(ctx); err != nil {
		return err
	}
	if err := w.measure(ctx); err != nil {
		return err
	}
	g.proved = linked
	return nil
}

// bySketches reports whether walks go by estimates.
func (w *builder) bySketches() bool {
	w.beam.bySketches(make([]float32, w.beam.x.cfg.Dim))
	return w.beam.sketches != nil
}

// mend gives each node of the lowest layer that the entry point does not lead to a link
// from one to which it does.
func (w *builder) mend(ctx context.Context) error {
	g, length := w.graph, w.beam.x.length.Load()
	entry, _, ok := g.entryPoint()
	if !ok {
		return nil
	}
	var reached slotSet
	reached.reset(length)
	w.spread(entry, &reached)
	mended := int64(0)
	for slot := range length {
		if slot%rowsPerCheck == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if g.node(slot).state.Load()&stateLinked == 0 || reached.has(slot) {
			continue
		}
		w.leadTo(slot, entry, &reached)
		w.spread(slot, &reached)
		mended++
		w.pass()
	}
	g.frail = mended*frailShare > g.linked.Load()
	return nil
}

// spread adds a slot and what it leads to in the lowest layer to a set.
func (w *builder) spread(slot uint32, reached *slotSet) {
	reached.add(slot)
	for next := append(w.queue[:0], slot); len(next) > 0; {
		last := len(next) - 1
		list := w.graph.list(next[last], 0)
		next = reached.addLinks(list, next[:last])
		w.queue = next
	}
}

// leadTo gives a slot a link from the closest one that is reached and has room. If none has,
// it comes between the closest one and the last that this one leads to. What was reached
// still is: none of it by way of the slot.
func (w *builder) leadTo(slot, entry uint32, reached *slotSet) {
	g := w.graph
	w.beam.load(slot)
	_, top, _ := g.entryPoint()
	near := w.nearest(slot, w.beam.approach(entry, top, 0, approachEf), 0)
	closest := entry
	if i := slices.IndexFunc(near, func(c candidate) bool { return reached.has(c.slot) }); i >= 0 {
		closest = near[i].slot
	}
	for _, c := range near {
		if reached.has(c.slot) && w.linkWhereRoom(c.slot, slot) {
			return
		}
	}
	last := g.list(closest, 0)[g.m0-1].Load() - 1
	if !w.linkWhereRoom(slot, last) {
		g.forceLink(slot, last)
	}
	g.forceLink(closest, slot)
}

// linkWhereRoom adds a link in the lowest layer where it displaces no other, and reports
// whether it did.
func (w *builder) linkWhereRoom(from, to uint32) bool {
	lock := w.graph.lock(from)
	lock.Lock()
	defer lock.Unlock()
	list := w.graph.list(from, 0)
	for i := range list {
		switch list[i].Load() {
		case 0:
			list[i].Store(to + 1)
			w.graph.changed(from)
			return true
		case to + 1:
			return true
		}
	}
	return false
}

// rarest returns the live nodes that lie furthest from the closest that they have a link to.
func (w *builder) rarest(ctx context.Context) ([]Hit, error) {
	g, b := w.graph, w.beam
	best := topK{k: int(min(max(g.linked.Load()/proofRare, leastRare), mostRare))}
	for slot := range b.x.length.Load() {
		if slot%rowsPerCheck == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if g.node(slot).state.Load() != stateLive|stateClaimed|stateLinked {
			continue
		}
		first := g.list(slot, 0)[0].Load()
		if first == 0 {
			continue
		}
		bias := b.load(slot)
		if far := -b.scoreOne(first-1) - bias; len(best.hits) < best.k || far > best.hits[0].Score {
			best.push(Hit{Slot: slot, Score: far})
		}
		w.pass()
	}
	return best.sorted(), nil
}

// leadToRare gives rows that walks for them do not come to a link from some of those where
// the walks end.
func (w *builder) leadToRare(ctx context.Context, rows []Hit) error {
	for _, h := range rows {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.leadFrom(w.find(h.Slot, defaultEf), h.Slot, rareLinks)
		w.pass()
	}
	return nil
}

// leadFrom gives a row that a walk did not find links from so many of those that it found, the
// closest that have room.
func (w *builder) leadFrom(found []candidate, slot uint32, links int) {
	if slices.ContainsFunc(found, func(c candidate) bool { return c.slot&slotMask == slot }) {
		return
	}
	for _, c := range found {
		if links == 0 {
			return
		}
		if w.linkWhereRoom(c.slot&slotMask, slot) {
			links--
		}
	}
}

// findLost makes rows entries that walks do not come to, until they come to nearly all.
func (w *builder) findLost(ctx context.Context) error {
	g := w.graph
	before, ef, allowed := g.entriesNow(), defaultEf, proofRows/proofMissed
	for round := range proofRounds {
		sample, missed := w.sample(proofRows, round), 0
		for _, slot := range sample {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			best := w.closest(slot, sample)
			if found := w.find(slot, ef); len(found) == 0 || found[0].score < best.score {
				missed++
				if now := g.entriesNow(); len(now) < maxEntries && !slices.Contains(now, best.slot) {
					g.setEntries(append(slices.Clone(now), best.slot))
				}
			}
			w.pass()
		}
		if missed <= allowed {
			if round == 0 {
				g.setEntries(before) // so few that they would cost more than they find
			}
			break
		}
		ef, allowed = proofEf, 0
	}
	return nil
}

// sample returns about n live nodes that are spread over all, others in each round.
func (w *builder) sample(n, round int) (slots []uint32) {
	length := w.beam.x.length.Load()
	// A step that has nothing to do with the order in which rows came.
	step := uint64(splitmixStep)
	for i := 0; i < 4*n && len(slots) < n; i++ {
		slot := uint32(splitmix(uint64(round*4*n+i+1)*step) % uint64(length))
		if g := w.graph; g.node(slot).state.Load() == stateLive|stateClaimed|stateLinked {
			slots = append(slots, slot)
		}
	}
	return slots
}

// closest returns which of the slots is closest to a row, most often itself.
func (w *builder) closest(slot uint32, slots []uint32) (best candidate) {
	b := w.beam
	w.ask(slot)
	b.ids = append(b.ids[:0], slots...)
	for i, score := range b.score() {
		if i == 0 || score > best.score {
			best = candidate{score, b.ids[i]}
		}
	}
	return best
}

// askNoise is by how many steps of its codes a query's components are off those of a row.
const askNoise = 3

// ask makes a query that is close to a row: one that is the row would have the same
// distance from rows that no other query has, and the walk would spread to all of them.
// The same row always makes the same query.
func (w *builder) ask(slot uint32) {
	b := w.beam
	b.load(slot)
	state := (uint64(slot) + 1) * splitmixStep
	b.query.Sum = 0
	for i, code := range b.query.Codes {
		state += splitmixStep
		off := int(splitmix(state)%(2*askNoise+1)) - askNoise
		code = int8(min(max(int(code)+off, -codeMax), codeMax))
		b.query.Codes[i] = code
		b.query.Sum += int32(code)
	}
}

// find returns what a walk finds that looks for a row as a search does.
func (w *builder) find(slot uint32, ef int) []candidate {
	b := w.beam
	w.ask(slot)
	entry, top, _ := w.graph.entryPoint()
	from := b.approach(entry, top, 0, arriveExpand)
	if w.graph.dead.Load() > 0 {
		b.visible = w.graph.live
	}
	b.reset(ef)
	b.start(from...)
	b.enter()
	if b.x.cfg.Metric == Dot {
		b.seed(b.limit, leastSeeds)
	}
	b.walk(0, int(w.graph.linked.Load()))
	return b.shownOnes()
}

// measure sets how many times the candidates that a search asks for its walk keeps.
func (w *builder) measure(ctx context.Context) error {
	g := w.graph
	linked := g.linked.Load()
	if linked > proofFlat || linked < 2*g.measured {
		return nil // as it was
	}
	var sample []uint32
	var floors []float32
	for _, slot := range w.sample(proofQueries, proofRounds) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if floor, ok := w.floor(slot); ok {
			sample, floors = append(sample, slot), append(floors, floor)
		}
		w.pass()
	}
	effort := 1
	for ; effort < mostEffort; effort *= 2 {
		found, wanted := 0, 0
		for i, slot := range sample {
			wanted += proofHits
			hits := w.find(slot, effort*defaultEf)
			for _, c := range hits[:min(proofHits+1, len(hits))] {
				if c.slot&slotMask != slot && c.score >= floors[i] {
					found++
				}
			}
			w.pass()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if float64(found) >= proofRecall*float64(wanted) {
			break
		}
	}
	g.effort.Store(int32(effort))
	g.measured = linked
	return nil
}

// floor returns the score that the last of the proofHits other nodes closest to a row has; ok is false
// where fewer are left, as when all are removed beside it.
func (w *builder) floor(slot uint32) (score float32, ok bool) {
	b, g := w.beam, w.graph
	w.ask(slot)
	best := topK{k: proofHits}
	b.ids = b.ids[:0]
	add := func() {
		for i, score := range b.score() {
			if len(best.hits) < best.k || score > best.hits[0].Score {
				best.push(Hit{Slot: b.ids[i], Score: score})
			}
		}
		b.ids = b.ids[:0]
	}
	for other := range b.x.length.Load() {
		if other != slot && g.node(other).state.Load() == stateLive|stateClaimed|stateLinked {
			if b.ids = append(b.ids, other); len(b.ids) == batch {
				add()
			}
		}
	}
	add()
	if len(best.hits) < best.k {
		return 0, false
	}
	return best.hits[0].Score, true
}

// entriesNow returns the entries, which must not be changed.
func (g *graph) entriesNow() []uint32 {
	if e := g.entries.Load(); e != nil {
		return *e
	}
	return nil
}

func (g *graph) setEntries(entries []uint32) { g.entries.Store(&entries) }

// dropEntries takes slots that leave the graph from the entries.
func (g *graph) dropEntries(gone *slotSet) {
	if now := g.entriesNow(); slices.ContainsFunc(now, gone.has) {
		g.setEntries(slices.DeleteFunc(slices.Clone(now), gone.has))
	}
}

// enter has a walk in the lowest layer start from the entries besides.
func (b *beam) enter() {
	entries := b.x.graph.entriesNow()
	if len(entries) == 0 {
		return
	}
	b.ids = b.ids[:0]
	for _, slot := range entries {
		if b.visited.add(slot) {
			b.ids = append(b.ids, slot)
		}
		if len(b.ids) == batch {
			b.insertAll()
			b.ids = b.ids[:0]
		}
	}
	b.insertAll()
}
