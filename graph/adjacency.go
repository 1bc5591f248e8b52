package graph

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// adjacency is the graph of an owner in RAM, as it was at an LSN. It never changes: what
// came later is in an overlay.
type adjacency struct {
	lsn     uint64
	out, in rows
	byType  rows     // of types: the two ends of each relation, as an edge to To of "type" From
	types   []uint32 // of entities, by number; absent: no entity
	ids     string   // of entities, one after the other
	idAt    []uint32 // where the ID of a number begins in ids, and where the last one ends
	named   names    // of types
}

// names are the types of entities and of relations that were there when an adjacency was read.
// A type keeps its number, so what came later is looked up by key.
type names struct {
	numbers [3]map[string]uint32 // by class
	texts   [3]map[uint32]string
	bytes   int64
}

// typeBytes is about what a type takes in RAM without its name.
const typeBytes = 80

func readNames(r *reader) (n names, err error) {
	for _, class := range []byte{classEntity, classRelation} {
		n.numbers[class], n.texts[class] = map[string]uint32{}, map[uint32]string{}
		prefix := append(section(r, kindGraph, r.owner, secType, 1), class)
		err := each(r, prefix, func(key, value []byte) error {
			name, num := string(value), be32At(key, len(prefix))
			if len(key) != len(prefix)+numSize || num == 0 {
				return layout.BadKey("type", key)
			}
			n.numbers[class][name], n.texts[class][num] = num, name
			n.bytes += typeBytes + int64(len(name))
			return nil
		})
		if err != nil {
			return names{}, err
		}
	}
	return n, nil
}

// absent is the type of a number that no entity has.
const absent = ^uint32(0)

// rows are the relations of each entity in one direction, by type and other end, one
// entity after the other (compressed sparse rows).
type rows struct {
	at    []uint32 // where the row of a number begins in edges, and where the last one ends
	edges []edge
}

func (r *rows) row(num uint32) []edge {
	if int(num)+1 >= len(r.at) {
		return nil
	}
	return r.edges[r.at[num]:r.at[num+1]:r.at[num+1]]
}

// ofType are the edges of a row that have a type: they lie together.
func ofType(row []edge, typ uint32) []edge {
	from := sort.Search(len(row), func(i int) bool { return row[i].typ >= typ })
	row = row[from:]
	return row[:sort.Search(len(row), func(i int) bool { return row[i].typ > typ })]
}

// The bytes in RAM of an edge in one direction, and of an entity without its ID.
const (
	edgeBytes   = 8
	entityBytes = 4 + 4 + 4 + 4
	// usualID is what an ID takes where nothing is known of it.
	usualID = 24
)

// bytes is what the adjacency takes in RAM.
func (a *adjacency) bytes() int64 {
	return 3*int64(len(a.out.edges))*edgeBytes + int64(len(a.types))*entityBytes + int64(len(a.ids)) + a.named.bytes
}

// expected is about what the adjacency of an owner will take.
func expected(o *owned) int64 {
	return 3*edgeBytes*int64(o.relations) + (entityBytes+usualID)*int64(o.lastEntity)
}

// readAdjacency makes the adjacency of the state that a reader reads.
func readAdjacency(r *reader, own *owned) (*adjacency, error) {
	n := int(own.lastEntity)
	a := &adjacency{lsn: r.LSN(), types: slices.Repeat([]uint32{absent}, n+1), idAt: make([]uint32, 0, n+2)}
	known := newSet(own.lastEntity) // entities, forward references, and what is to be cleaned up after
	var ids strings.Builder
	err := each(r, section(r, kindGraph, r.owner, secEntity, 0), func(key, value []byte) error {
		num := be32At(key, body)
		if len(key) != body+numSize || !own.gave(num, own.lastEntity) {
			return layout.BadKey("entity", key)
		}
		node, err := decodeNode(value)
		if known.add(num); err != nil || node.forward {
			return err
		}
		for len(a.idAt) <= int(num) {
			a.idAt = append(a.idAt, uint32(ids.Len()))
		}
		a.types[num] = node.typ
		ids.WriteString(node.id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	a.ids = ids.String()
	for len(a.idAt) < n+2 {
		a.idAt = append(a.idAt, uint32(len(a.ids)))
	}
	if err := r.eachDoomed(func(num uint32) {
		if own.gave(num, own.lastEntity) {
			known.add(num)
		}
	}); err != nil {
		return nil, err
	}
	if a.named, err = readNames(r); err != nil {
		return nil, err
	}
	if a.out, err = readRows(r, secOut, own, known); err != nil {
		return nil, err
	}
	if a.in, err = readRows(r, secIn, own, known); err != nil {
		return nil, err
	}
	a.byType = a.out.transposed()
	return a, nil
}

// transposed are the rows of types that rows of entities make: a counting sort by type.
func (r *rows) transposed() rows {
	highest := uint32(0)
	for _, e := range r.edges {
		highest = max(highest, e.typ)
	}
	t := rows{at: make([]uint32, highest+2), edges: make([]edge, len(r.edges))}
	for _, e := range r.edges {
		t.at[e.typ+1]++
	}
	for i := range highest + 1 {
		t.at[i+1] += t.at[i]
	}
	next := slices.Clone(t.at)
	for from := range len(r.at) - 1 {
		for _, e := range r.row(uint32(from)) {
			t.edges[next[e.typ]] = edge{other: e.other, typ: uint32(from)}
			next[e.typ]++
		}
	}
	return t
}

// readRows reads the relations of each entity in one direction. known are the numbers that may
// be an end of one.
func readRows(r *reader, sec byte, own *owned, known set) (rows, error) {
	n := int(own.lastEntity)
	out := rows{at: make([]uint32, 0, n+2), edges: make([]edge, 0, own.relations)}
	err := each(r, section(r, kindArc, r.owner, sec, 0), func(key, _ []byte) error {
		a, err := own.relation(sec, key)
		if err != nil {
			return err
		}
		if !known.has(a.from) || !known.has(a.to) {
			return layout.BadKey("relation", key)
		}
		for len(out.at) <= int(a.from) {
			out.at = append(out.at, uint32(len(out.edges)))
		}
		out.edges = append(out.edges, edge{a.to, a.typ})
		return nil
	})
	for len(out.at) < n+2 {
		out.at = append(out.at, uint32(len(out.edges)))
	}
	return out, err
}

// delta is what a commit changes in the graph of an owner.
type delta struct {
	lsn   uint64
	all   bool // everything is gone
	nodes []nodeDelta
	arcs  []arcDelta
}

type nodeDelta struct {
	number uint32
	real   bool // it is an entity; otherwise it is deleted, or a forward reference
	gone   bool // it is deleted
	typ    uint32
	id     string
}

type arcDelta struct {
	arc
	gone bool
}

// size is about the bytes of a delta in RAM.
func (d *delta) size() int64 {
	n := int64(0)
	for i := range d.nodes {
		n += 48 + int64(len(d.nodes[i].id))
	}
	return n + 24*int64(len(d.arcs)) + 64
}

// overlay is what has changed since the adjacency that it lies over, up to an LSN. It
// never changes, either.
type overlay struct {
	deltas  int // how many it has taken in
	highest uint32
	nodes   map[uint32]nodeDelta
	out, in map[uint32][]edgeDelta
	byType  map[uint32][]edgeDelta
}

type edgeDelta struct {
	edge
	gone bool
}

func newOverlay(deltas []delta, highest uint32) *overlay {
	o := &overlay{deltas: len(deltas), highest: highest, nodes: map[uint32]nodeDelta{}, out: map[uint32][]edgeDelta{}, in: map[uint32][]edgeDelta{}, byType: map[uint32][]edgeDelta{}}
	for i := range deltas {
		for _, n := range deltas[i].nodes {
			o.nodes[n.number] = n
			o.highest = max(o.highest, n.number)
		}
		for _, a := range deltas[i].arcs {
			o.out[a.from] = append(o.out[a.from], edgeDelta{edge{a.to, a.typ}, a.gone})
			o.in[a.to] = append(o.in[a.to], edgeDelta{edge{a.from, a.typ}, a.gone})
			o.byType[a.typ] = append(o.byType[a.typ], edgeDelta{edge{a.to, a.from}, a.gone})
		}
	}
	return o
}

// memory is a source in RAM: an adjacency with what has changed since.
type memory struct {
	*adjacency
	*overlay
	buf []edge
}

func (m *memory) name() string { return "memory" }
func (m *memory) last() uint32 { return m.highest }

func (m *memory) edges(num uint32, dir Direction, typ uint32) ([]edge, error) {
	base, changes := &m.adjacency.out, m.overlay.out
	if dir == In {
		base, changes = &m.adjacency.in, m.overlay.in
	}
	row := m.row(base, changes, num)
	if typ != 0 {
		row = ofType(row, typ)
	}
	return row, nil
}

// row is a row with what has changed of it.
func (m *memory) row(base *rows, changes map[uint32][]edgeDelta, num uint32) []edge {
	row := base.row(num)
	if len(changes) > 0 {
		if changed := changes[num]; changed != nil {
			m.buf = applied(append(m.buf[:0], row...), changed)
			row = m.buf
		}
	}
	return row
}

func (m *memory) allOf(typ uint32) ([]edge, bool) {
	return m.row(&m.adjacency.byType, m.overlay.byType, typ), true
}

// applied is a row with its changes, in order.
func applied(row []edge, changes []edgeDelta) []edge {
	for _, c := range changes {
		if !c.gone {
			row = append(row, c.edge)
		}
	}
	slices.SortFunc(row, edge.compare)
	for _, c := range changes {
		if i, found := slices.BinarySearchFunc(row, c.edge, edge.compare); c.gone && found {
			row = slices.Delete(row, i, i+1)
		}
	}
	return row
}

func (m *memory) is(num uint32) (typ uint32, there bool, err error) {
	if len(m.nodes) > 0 {
		if n, changed := m.nodes[num]; changed {
			return n.typ, n.real, nil
		}
	}
	if int(num) >= len(m.types) || m.types[num] == absent {
		return 0, false, nil
	}
	return m.types[num], true, nil
}

func (m *memory) id(num uint32) (string, error) {
	if len(m.nodes) > 0 {
		if n, changed := m.nodes[num]; changed {
			return n.id, nil
		}
	}
	if int(num)+1 >= len(m.idAt) {
		return "", &fault.Error{Kind: fault.ErrCorrupt, What: "read the graph", Why: fmt.Sprintf("entity number %d is not in memory", num), Do: "run check"}
	}
	return m.ids[m.idAt[num]:m.idAt[num+1]], nil
}

func (m *memory) members(typ uint32, visit func(num uint32) error) error {
	for num := uint32(1); num <= m.highest; num++ {
		if len(m.nodes) == 0 && typ != 0 && int(num) < len(m.types) && m.types[num] != typ {
			continue
		}
		if have, there, _ := m.is(num); !there || typ != 0 && have != typ {
			continue
		}
		if err := visit(num); err != nil {
			return err
		}
	}
	return nil
}

// folded is the adjacency with the overlay taken in, which stands for an LSN.
func (m *memory) folded(lsn uint64) (*adjacency, error) {
	n := int(m.highest)
	a := &adjacency{lsn: lsn, types: make([]uint32, n+1), idAt: make([]uint32, 1, n+2), named: m.named}
	var ids strings.Builder
	for num := range uint32(n + 1) {
		typ, there, _ := m.is(num)
		if a.types[num] = typ; !there {
			a.types[num] = absent
		} else {
			id, err := m.id(num)
			if err != nil {
				return nil, err
			}
			ids.WriteString(id)
		}
		a.idAt = append(a.idAt, uint32(ids.Len()))
	}
	a.ids = ids.String()
	for dir, to := range map[Direction]*rows{Out: &a.out, In: &a.in} {
		to.at = make([]uint32, 1, n+2)
		for num := range uint32(n + 1) {
			row, err := m.edges(num, dir, 0)
			if err != nil {
				return nil, err
			}
			if m.nodes[num].gone {
				row = nil
			}
			for _, e := range row {
				if !m.nodes[e.other].gone {
					to.edges = append(to.edges, e)
				}
			}
			to.at = append(to.at, uint32(len(to.edges)))
		}
		to.edges = slices.Clip(to.edges)
	}
	a.byType = a.out.transposed()
	return a, nil
}
