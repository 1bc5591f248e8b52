package hnsw

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// Of rows with the same codes one is a node, and the others are its twins: they have no
// links, and are found where it is. A thousand nodes in one place would have links to each
// other alone. A table by codes leads to the node: so Link knows a twin, and a search
// starts at the row that is its query, if there is one.

// equals has the nodes of a coding by their codes.
type equals struct {
	of    *coding
	mu    sync.Mutex // held by those who change it
	table atomic.Pointer[[]atomic.Uint32]
	used  int // places of the table that were ever taken
}

const (
	leastEquals = 1024
	// goneEqual is in the place of a slot that has left the table; the others are a slot
	// plus one, or 0.
	goneEqual = math.MaxUint32
)

func newEquals(c *coding, nodes int) *equals {
	e := &equals{of: c}
	table := make([]atomic.Uint32, equalsRoom(nodes))
	e.table.Store(&table)
	return e
}

// equalsRoom is how many places a table has for so many slots: a power of two, of which
// three quarters are taken at most.
func equalsRoom(n int) int { return max(leastEquals, 1<<bits.Len(uint(n+n/3))) }

func (e *equals) memory() int64 {
	if e == nil {
		return 0
	}
	return int64(4 * len(*e.table.Load()))
}

// likeness is what rows are the same by.
type likeness struct {
	scale float32
	bias  float32 // under Dot; else 0
	group int
	codes []uint8
}

func (l *likeness) hash() uint64 {
	return xxh3.HashSeed(l.codes, uint64(math.Float32bits(l.scale))<<32|uint64(l.group))
}

func (c *coding) likeness(slot uint32) likeness {
	row := c.row(slot)
	l := likeness{scale: row.head[0], group: c.label(slot), codes: row.codes}
	if c.metric == Dot {
		l.bias = row.head[1]
	}
	return l
}

// find returns the slot of a node with those codes.
func (e *equals) find(l likeness, hash uint64) (slot uint32, ok bool) {
	table := *e.table.Load()
	for at := int(hash) & (len(table) - 1); ; at = (at + 1) & (len(table) - 1) {
		switch held := table[at].Load(); held {
		case 0:
			return 0, false
		case goneEqual:
		default:
			other := e.of.likeness(held - 1)
			if other.scale == l.scale && other.bias == l.bias && other.group == l.group && string(other.codes) == string(l.codes) {
				return held - 1, true
			}
		}
	}
}

// add adds a slot whose codes none has; mu is held.
func (e *equals) add(slot uint32, hash uint64) {
	table := *e.table.Load()
	if 4*(e.used+1) > 3*len(table) {
		table = e.grown(table)
	}
	put(table, slot, hash)
	e.used++
}

func put(table []atomic.Uint32, slot uint32, hash uint64) {
	at := int(hash) & (len(table) - 1)
	for table[at].Load() != 0 {
		at = (at + 1) & (len(table) - 1)
	}
	table[at].Store(slot + 1)
}

// grown returns a table with room for as many again.
func (e *equals) grown(old []atomic.Uint32) []atomic.Uint32 {
	n := 0
	for i := range old {
		if held := old[i].Load(); held != 0 && held != goneEqual {
			n++
		}
	}
	table := make([]atomic.Uint32, equalsRoom(2*n))
	for i := range old {
		if held := old[i].Load(); held != 0 && held != goneEqual {
			l := e.of.likeness(held - 1)
			put(table, held-1, l.hash())
		}
	}
	e.used = n
	e.table.Store(&table)
	return table
}

// drop takes a slot from the table.
func (e *equals) drop(slot uint32) {
	if e != nil {
		e.change(slot, goneEqual-1)
	}
}

// change puts another slot in the place of one.
func (e *equals) change(from, to uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	table := *e.table.Load()
	l := e.of.likeness(from)
	for at := int(l.hash()) & (len(table) - 1); ; at = (at + 1) & (len(table) - 1) {
		switch table[at].Load() {
		case 0:
			return
		case from + 1:
			table[at].Store(to + 1)
			return
		}
	}
}

// gatherEquals makes the table where there is none of the coding of now. Nothing is linked
// meanwhile.
func (x *Index) gatherEquals() {
	g, c := &x.graph, x.coding.Load()
	if e := g.equals.Load(); e != nil && e.of == c {
		return
	}
	if c.codes.filed.Load() > 0 {
		g.equals.Store(nil) // to compare them would wait for the file
		return
	}
	e := newEquals(c, int(g.linked.Load()))
	for slot := range x.length.Load() {
		if g.node(slot).state.Load()&stateLinked == 0 {
			continue
		}
		l := c.likeness(slot)
		hash := l.hash()
		if _, ok := e.find(l, hash); !ok {
			e.add(slot, hash)
		}
	}
	g.equals.Store(e)
}

// becomesTwin makes a claimed slot the twin of a node with the same codes, if there is one.
func (g *graph) becomesTwin(slot uint32) bool {
	e := g.equals.Load()
	if e == nil {
		return false
	}
	l := e.of.likeness(slot)
	hash := l.hash()
	e.mu.Lock()
	node, ok := e.find(l, hash)
	if !ok {
		e.add(slot, hash)
	}
	e.mu.Unlock()
	if !ok || node == slot {
		return false
	}
	if g.adopt(node, slot) {
		return true
	}
	if !g.live(node) {
		e.change(node, slot)
	}
	return false
}

// adopt makes a claimed slot a twin of a node, and reports false if one of them is removed.
// Twins are a list, each of which has the one before it where others have links.
func (g *graph) adopt(node, slot uint32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	of, n := g.node(node), g.node(slot)
	if of.state.Load()&(stateLive|stateClaimed|stateTwin) != stateLive|stateClaimed || n.state.Load()&stateLive == 0 {
		return false
	}
	last := slot // of those that are the slot's own twins
	for next := n.twin.Load(); next != 0; next = g.node(last).twin.Load() {
		last = next - 1
	}
	g.follow(last, of.twin.Load())
	g.follow(node, slot+1)
	n.state.Store(stateLive | stateClaimed | stateTwin)
	g.twins.Add(1)
	g.work.Add(1)
	return true
}

// follow has a twin, plus one, or none if it is 0, come after a slot.
func (g *graph) follow(slot, twin uint32) {
	g.node(slot).twin.Store(twin)
	if twin != 0 {
		g.list(twin-1, 0)[0].Store(slot + 1)
	}
}

// leaveTwins takes a twin from the list that it is in; mu is held. Who has come to it goes
// on from it.
func (g *graph) leaveTwins(slot uint32) {
	before := g.list(slot, 0)[0].Load() - 1
	g.follow(before, g.node(slot).twin.Load())
	g.twins.Add(-1)
}

// orphan makes the first of a slot's twins a row that is to be linked, with the others as
// its twins; mu is held.
func (g *graph) orphan(slot uint32) {
	n := g.node(slot)
	first := n.twin.Load()
	if first == 0 {
		return
	}
	first--
	n.twin.Store(0)
	g.list(first, 0)[0].Store(0)
	g.node(first).state.Store(stateLive)
	g.twins.Add(-1)
	pending := append(*g.pending.Load(), first)
	g.pending.Store(&pending)
}

// addTwins adds the twins of a slot that was met, and its key with them.
func (b *beam) addTwins(slot uint32, key float32) {
	g := &b.x.graph
	for next := g.node(slot).twin.Load(); next != 0 && key > b.bar(); next = g.node(next - 1).twin.Load() {
		twin := next - 1
		if b.hides(twin) || !b.visited.add(twin) {
			continue
		}
		score := b.scoreOne(twin)
		b.insert(score, twin|markExpanded)
	}
}

// findTwins adds the twins of all that was found.
func (b *beam) findTwins() {
	if b.x.graph.twins.Load() == 0 {
		return
	}
	b.twinsOf = append(b.twinsOf[:0], b.found...)
	for _, c := range b.twinsOf {
		b.addTwins(c.slot&slotMask, c.score)
	}
}

// sameAs is what the rows have in common that are the query, and the hash of it.
func (r *searcher) sameAs() (l likeness, hash uint64) {
	r.codes = unsignedCodes(r.beam.query.Codes, r.codes[:0])
	l.scale, l.codes = r.beam.query.Scale, r.codes
	if c := r.beam.coding; c.grouped() {
		l.group = r.beam.frames.home
	} else if !c.rounds && c.metric == Cosine {
		l.scale = float32(unitScale(r.codes))
	}
	return l, l.hash()
}

// unsignedCodes appends to dst what signedCodes takes the offset off.
func unsignedCodes(codes []int8, dst []uint8) []uint8 {
	const zeros = codeZero * 0x0101010101010101
	b := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(codes))), len(codes))
	for ; len(b) >= 8; b = b[8:] {
		dst = binary.LittleEndian.AppendUint64(dst, binary.LittleEndian.Uint64(b)^zeros)
	}
	for _, c := range b {
		dst = append(dst, c^codeZero)
	}
	return dst
}

// equals returns the table by which the query is looked up, nil if it is not to be: under
// Dot the row that is the query need not be the best.
func (r *searcher) equals() *equals {
	c, e := r.beam.coding, r.x.graph.equals.Load()
	if e == nil || e.of != c || c.metric == Dot {
		return nil
	}
	return e
}

// equal returns the node whose codes are those of the query, to begin from: the row that
// is the query is among it and its twins.
func (r *searcher) equal() (slot uint32, ok bool) {
	e := r.equals()
	if e == nil {
		return 0, false
	}
	l, hash := r.sameAs()
	slot, ok = e.find(l, hash)
	return slot, ok && slot < r.beam.limit
}
