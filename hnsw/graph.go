package hnsw

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"
)

// maxLevel bounds the layers above the lowest. With the smallest M, 2, a node
// in a billion would reach it.
const maxLevel = 30

// The state word of a slot.
const (
	stateLive    = 1 << iota // the slot holds a row
	stateClaimed             // Link has begun to link it, or has done so
	stateLinked              // a search can meet it in the graph
	stateTwin                // it is found where the node is that has the same codes
)

// node is the fixed part of a slot in the graph.
type node struct {
	state atomic.Uint32
	upper atomic.Uint32 // 1 + the first of its level() records in uppers; 0 without
	twin  atomic.Uint32 // 1 + the next row with the same codes; 0 without
}

// graph holds the links between slots. A link is stored as the slot plus one;
// a list ends at its first zero or with its room.
type graph struct {
	m, m0     int
	seed      uint64
	perLevel  float64 // mean of the levels' exponential distribution
	nodes     arena   // of node
	links     arena   // m0 links in the lowest layer
	uppers    arena   // m links in one layer above
	entry     atomic.Uint64
	rows      atomic.Int64  // slots that hold one
	linked    atomic.Int64  // nodes in the graph
	dead      atomic.Int64  // of them, those without a row
	thorough  atomic.Bool   // see RepairAll
	work      atomic.Uint64 // nodes that were linked, or led around removed ones, ever
	uppersEnd uint32
	// What walks start from besides, and how many times the candidates that are asked
	// for they keep: see prove.
	entries atomic.Pointer[[]uint32]
	equals  atomic.Pointer[equals] // nil: codes are not compared
	twins   atomic.Int64           // rows that are
	blocks  atomic.Pointer[blocks] // nil: there are none
	unfit   atomic.Int64           // nodes there were when blocks misled walks last
	effort  atomic.Int32
	// Nodes there were then, and when the effort was chosen; the builder's.
	proved, measured int64
	frail            bool // see frailShare

	// pending lists the slots that Link has still to see. The slice is only
	// appended to or replaced, so that a search may read what it has loaded.
	pending atomic.Pointer[[]uint32]

	locks      [lockStripes]sync.Mutex
	linking    sync.Mutex // held by Link: one at a time
	mu         sync.Mutex // guards what follows, states' transitions and pending's replacement
	removed    []uint32   // linked slots without a row, until repair
	grace      grace
	freeUppers [maxLevel + 1][]uint32 // by level, first records of unused runs
}

func (g *graph) init(cfg *Config) {
	g.m, g.m0, g.seed = cfg.M, 2*cfg.M, cfg.Seed
	g.perLevel = 1 / math.Log(float64(cfg.M))
	g.nodes.init(unsafe.Sizeof(node{}))
	g.links.init(uintptr(g.m0) * 4)
	g.uppers.init(uintptr(g.m) * 4)
	g.pending.Store(new([]uint32))
	g.effort.Store(1)
}

func (g *graph) bytes(slots uint32) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	nodes, _ := g.nodes.bytes(slots)
	links, _ := g.links.bytes(slots)
	uppers, _ := g.uppers.bytes(g.uppersEnd)
	return nodes + links + uppers + g.blocks.Load().memory(slots) + g.equals.Load().memory()
}

func (g *graph) growTo(n uint32) error {
	if err := g.nodes.grow(n); err != nil {
		return err
	}
	return g.links.grow(n)
}

func (g *graph) node(slot uint32) *node { return (*node)(g.nodes.table.Load().At(slot)) }

func (g *graph) live(slot uint32) bool { return g.node(slot).state.Load()&stateLive != 0 }

// level returns a slot's highest layer: a hash of its number, which spares
// storing it and makes the graph the same whatever the order of claims.
func (g *graph) level(slot uint32) int {
	uniform := (float64(splitmix(g.seed+(uint64(slot)+1)*splitmixStep)>>11) + 1) / (1 << 53)
	return min(int(-math.Log(uniform)*g.perLevel), maxLevel)
}

// splitmixStep is what the generator of splitmix64 adds to its state.
const splitmixStep = 0x9e3779b97f4a7c15

// splitmix returns what splitmix64 makes of a state.
func splitmix(state uint64) uint64 {
	h := (state ^ state>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// list returns a node's links in a layer that it is in.
func (g *graph) list(slot uint32, level int) []atomic.Uint32 {
	if level == 0 {
		return unsafe.Slice((*atomic.Uint32)(g.links.table.Load().At(slot)), g.m0)
	}
	first := g.node(slot).upper.Load()
	if first == 0 {
		return nil
	}
	return unsafe.Slice((*atomic.Uint32)(g.uppers.table.Load().At(first-1+uint32(level-1))), g.m)
}

// unshared is a list of links of a graph that nobody else has yet, to be written at
// a fraction of what atomic stores take.
func unshared(list []atomic.Uint32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(list))), len(list))
}

// neighbours appends a node's links in a layer to dst.
func (g *graph) neighbours(slot uint32, level int, dst []uint32) []uint32 {
	list := g.list(slot, level)
	for i := range list {
		v := list[i].Load()
		if v == 0 {
			break
		}
		dst = append(dst, v-1)
	}
	return dst
}

// setNeighbours replaces a node's links in a layer. The caller owns the node.
func (g *graph) setNeighbours(slot uint32, level int, to []uint32) {
	list := g.list(slot, level)
	for i := range list {
		var v uint32
		if i < len(to) {
			v = to[i] + 1
		}
		if list[i].Load() != v {
			list[i].Store(v)
		}
	}
	if level == 0 {
		g.changed(slot)
	}
}

// entryPoint returns where searches begin: a node of the highest layer.
func (g *graph) entryPoint() (slot uint32, level int, ok bool) {
	e := g.entry.Load()
	return uint32(e>>8) - 1, int(e & 0xff), e != 0
}

func (g *graph) setEntryPoint(slot uint32, level int) {
	g.entry.Store((uint64(slot)+1)<<8 | uint64(level))
}

// firstEntryPoint makes a claimed slot the entry point of an empty graph, and
// reports false if there is one already.
func (g *graph) firstEntryPoint(slot uint32, level int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.entry.Load() != 0 {
		return false
	}
	g.setEntryPoint(slot, level)
	g.markLinked(slot)
	return true
}

// setLinked says that a claimed slot is met by searches, be it live or not, and
// makes it the entry point if its layer is the highest.
func (g *graph) setLinked(slot uint32, level int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.markLinked(slot)
	if _, top, _ := g.entryPoint(); level > top {
		g.setEntryPoint(slot, level)
	}
}

func (g *graph) markLinked(slot uint32) {
	n := g.node(slot)
	n.state.Store(n.state.Load() | stateLinked)
	g.linked.Add(1)
	g.work.Add(1)
	if k := g.blocks.Load(); k != nil {
		k.uncoded.Add(1)
	}
}

// room returns how many links a node has in a layer.
func (g *graph) room(level int) int {
	if level == 0 {
		return g.m0
	}
	return g.m
}

// lock returns the lock that guards a node's links against other builders.
func (g *graph) lock(slot uint32) *sync.Mutex { return &g.locks[slot&(lockStripes-1)] }

// forceLink adds a link in the lowest layer, in the place of the last one if
// there is no room.
func (g *graph) forceLink(from, to uint32) {
	lock := g.lock(from)
	lock.Lock()
	defer lock.Unlock()
	list := g.list(from, 0)
	i := 0
	for i < len(list)-1 && list[i].Load() != 0 {
		i++
	}
	list[i].Store(to + 1)
	g.changed(from)
}
