package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// NodePattern says which entities an end of a pattern means. An empty field means any.
type NodePattern struct {
	// Type is that of the entity.
	Type string
	// Name is a name or an alias, without regard to case.
	Name string
}

// Pattern is (From) -[Relation]-> (To).
type Pattern struct {
	// From and To are the ends.
	From, To NodePattern
	// Relation is the type of the relations, empty for any, "inverse:T" for those of type T
	// backwards.
	Relation string
	// Hops is the number of relations from From to To at most, up to MaxHops. 0: 1.
	Hops int
	// Limit bounds the answer. 0: all.
	Limit int
	State
}

// MaxHops bounds the hops of a pattern.
const MaxHops = 3

// Hop is a relation of a match: from one entity to another, as the pattern goes.
type Hop struct {
	From, Type, To string // From and To are IDs of entities
}

// Match is a way from one entity to another that fits a pattern: one to Hops relations,
// none twice.
type Match []Hop

// Matches is the answer of Match.
type Matches struct {
	// Matches are the ways, Plan says whether these are all.
	Matches []Match
	Plan    Plan
}

// Match returns the ways that fit a pattern, by the age of the entities that they begin
// with. Relations with the same triple are a match each.
func (g Graph) Match(ctx context.Context, o scope.Owner, p Pattern) (Matches, error) {
	const doing = "match a pattern"
	if p.Hops < 0 || p.Hops > MaxHops || p.Limit < 0 {
		return Matches{}, fault.Invalid(doing, fmt.Sprintf("hops is %d and limit %d", p.Hops, p.Limit), fmt.Sprintf("give 1 to %d hops, and a limit of 0 or more", MaxHops))
	}
	if p.Hops == 0 {
		p.Hops = 1
	}
	for _, n := range []NodePattern{p.From, p.To} {
		if err := valid.Word(doing, "name", n.Name); err != nil {
			return Matches{}, err
		}
	}
	m := &matcher{pattern: &p}
	plan, err := g.walk(ctx, doing, o, p.State, func(w *walk) error {
		m.walk = w
		return m.run()
	})
	if err != nil {
		return Matches{}, err
	}
	return Matches{m.found, plan}, nil
}

// matcher looks for a pattern.
type matcher struct {
	*walk
	pattern *Pattern
	along   step
	to      ends
	found   []Match
	types   map[uint32]string
	// path is the way so far, and buffers the relations of its hops.
	path    []arc
	buffers [MaxHops][]edge
	slab    []Hop // room for the hops of matches to come
	// lastType is the type that types was asked for last, with its name.
	lastType uint32
	lastName string
}

// maxSlab is how many hops are allocated at once.
const maxSlab = 1024

// ends are the entities that an end of a pattern means.
type ends struct {
	typ   uint32
	named map[uint32]bool // nil: of any name
	none  bool            // a name or a type that nothing has
}

func (m *matcher) run() error {
	along, known, err := m.walk.along(m.pattern.Relation)
	if err != nil || !known {
		return err
	}
	m.along, m.types = along, map[uint32]string{}
	from, err := m.ends(m.pattern.From)
	if err != nil {
		return err
	}
	if m.to, err = m.ends(m.pattern.To); err != nil || from.none || m.to.none {
		return err
	}
	if from.named == nil && m.to.named != nil && m.pattern.Hops == 1 {
		return m.backwards(from)
	}
	if all, known := m.ofType(from); known {
		return m.among(all, from)
	}
	return m.starts(from, func(num uint32) error {
		if err := m.node(); err != nil {
			return err
		}
		return m.from(num, 0)
	})
}

// ofType are all relations of the pattern's type, where going through them finds the
// matches in their order and takes less than going through all entities.
func (m *matcher) ofType(from ends) (all []edge, known bool) {
	if from.named != nil || m.pattern.Hops > 1 || m.along.typ == 0 || m.along.dir != Out {
		return nil, false
	}
	all, known = m.allOf(m.along.typ)
	return all, known && uint64(len(all)) <= uint64(m.last())
}

// among adds the matches among relations of the pattern's type.
func (m *matcher) among(all []edge, from ends) error {
	all, stopped := m.within(all)
	if stopped != nil && !errors.Is(stopped, kv.ErrStop) {
		return stopped
	}
	if in, resident := m.source.(*memory); resident && len(in.nodes) == 0 && m.to.named == nil {
		return cmp.Or(m.amongResident(in.adjacency, all, from), stopped)
	}
	for _, e := range all {
		fits, err := m.fits(e.typ, from)
		if err == nil && fits {
			fits, err = m.fits(e.other, m.to)
		}
		if err == nil && fits {
			err = m.emit([]arc{{from: e.typ, typ: m.along.typ, to: e.other}})
		}
		if err != nil {
			return err
		}
	}
	return stopped
}

// amongResident is among, where the entities are those of an adjacency and their types are all
// that is asked: it counts the matches, and then makes them in two allocations.
func (m *matcher) amongResident(a *adjacency, all []edge, from ends) error {
	fits := func(e edge) bool {
		f, t := a.types[e.typ], a.types[e.other]
		return f != absent && t != absent && (from.typ == 0 || f == from.typ) && (m.to.typ == 0 || t == m.to.typ)
	}
	n := 0
	for _, e := range all {
		if fits(e) {
			n++
		}
	}
	typ, err := m.typeName(classRelation, m.along.typ)
	if err != nil || n == 0 {
		return err
	}
	most := n
	if m.pattern.Limit > 0 {
		most = min(n, m.pattern.Limit)
	}
	hops := make([]Hop, 0, most)
	m.found = make([]Match, 0, most)
	for _, e := range all {
		if !fits(e) {
			continue
		}
		if len(hops) == most {
			return m.stop("results")
		}
		hops = append(hops, Hop{a.ids[a.idAt[e.typ]:a.idAt[e.typ+1]], typ, a.ids[a.idAt[e.other]:a.idAt[e.other+1]]})
		m.found = append(m.found, hops[len(hops)-1:len(hops):len(hops)])
	}
	return nil
}

// starts calls visit for the entities that an end means.
func (m *matcher) starts(e ends, visit func(num uint32) error) error {
	if e.named == nil {
		return m.members(e.typ, visit)
	}
	for _, num := range slices.Sorted(maps.Keys(e.named)) {
		fits, err := m.fits(num, e)
		if err == nil && fits {
			err = visit(num)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// backwards goes from the few entities that To names.
func (m *matcher) backwards(from ends) error {
	back := Out
	if m.along.dir == Out {
		back = In
	}
	return m.starts(m.to, func(num uint32) error {
		if err := m.node(); err != nil {
			return err
		}
		edges, stopped := m.next(num, back, m.along.typ)
		if stopped != nil && !errors.Is(stopped, kv.ErrStop) {
			return stopped
		}
		for _, e := range edges {
			fits, err := m.fits(e.other, from)
			if err == nil && fits {
				err = m.emit([]arc{{from: e.other, typ: e.typ, to: num}})
			}
			if err != nil {
				return err
			}
		}
		return stopped
	})
}

// from adds the matches that go on from an entity.
func (m *matcher) from(num uint32, depth int) error {
	edges, stopped := m.next(num, m.along.dir, m.along.typ)
	if stopped != nil && !errors.Is(stopped, kv.ErrStop) {
		return stopped
	}
	last := depth+1 == m.pattern.Hops
	if !last { // the hops to come use the source again
		edges = append(m.buffers[depth][:0], edges...)
		m.buffers[depth] = edges
	}
	same := uint32(0) // of relations with one triple, which this one is
	for i, e := range edges {
		if same++; i == 0 || edges[i-1] != e {
			same = 0
		}
		a := arc{num, e.typ, e.other, same}
		if m.onPath(a) {
			continue
		}
		m.path = append(m.path, a)
		fits, err := m.fits(e.other, m.to)
		if err == nil && fits {
			err = m.emit(m.path)
		}
		if err == nil && !last {
			var there bool
			if _, there, err = m.is(e.other); err == nil && there {
				err = m.from(e.other, depth+1)
			}
		}
		m.path = m.path[:len(m.path)-1]
		if err != nil {
			return err
		}
	}
	return stopped
}

func (m *matcher) onPath(a arc) bool {
	return slices.Contains(m.path, a)
}

func (m *matcher) emit(path []arc) error {
	if m.pattern.Limit > 0 && len(m.found) == m.pattern.Limit {
		return m.stop("results")
	}
	if len(m.slab)+len(path) > cap(m.slab) { // one allocation for many matches
		m.slab = make([]Hop, 0, max(4*MaxHops, min(2*cap(m.slab), maxSlab)))
	}
	at := len(m.slab)
	for _, a := range path {
		h, err := m.hop(a)
		if err != nil {
			return err
		}
		m.slab = append(m.slab, h)
	}
	m.found = append(m.found, m.slab[at:len(m.slab):len(m.slab)])
	return nil
}

func (m *matcher) hop(a arc) (h Hop, err error) {
	if h.From, err = m.id(a.from); err != nil {
		return Hop{}, err
	}
	if h.To, err = m.id(a.to); err != nil {
		return Hop{}, err
	}
	if m.lastType == a.typ {
		h.Type = m.lastName
		return h, nil
	}
	typ, known := m.types[a.typ]
	if !known {
		if typ, err = m.typeName(classRelation, a.typ); err != nil {
			return Hop{}, err
		}
		if m.along.dir == In {
			typ = InversePrefix + typ
		}
		m.types[a.typ] = typ
	}
	h.Type, m.lastType, m.lastName = typ, a.typ, typ
	return h, nil
}

// fits reports whether an entity is there and one that an end means.
func (m *matcher) fits(num uint32, e ends) (bool, error) {
	if e.named != nil && !e.named[num] {
		return false, nil
	}
	typ, there, err := m.is(num)
	return there && (e.typ == 0 || typ == e.typ), err
}

func (m *matcher) ends(p NodePattern) (e ends, err error) {
	if p.Type != "" {
		if e.typ, err = m.typeNumber(classEntity, p.Type); err != nil {
			return ends{}, err
		}
		e.none = e.typ == 0
	}
	if p.Name != "" {
		named, err := m.namedThen(p.Name)
		if err != nil {
			return ends{}, err
		}
		e.named, e.none = named, e.none || len(named) == 0
	}
	return e, nil
}

// namedThen are the entities that have a name or an alias in the state that is read. The index
// of names is that of today, so a state of the past is looked through.
func (m *matcher) namedThen(name string) (map[uint32]bool, error) {
	if m.reader.asOf == 0 {
		return m.reader.named(name)
	}
	all, folded := map[uint32]bool{}, fold(name)
	var stopped error
	err := m.reader.eachNode(func(num uint32, n *node) error {
		if slices.Contains(n.names(), folded) {
			all[num] = true
		}
		stopped = m.node()
		return stopped
	})
	return all, cmp.Or(stopped, err)
}

// named are the entities that have a name or an alias, without regard to case.
func (r *reader) named(name string) (map[uint32]bool, error) {
	all := map[uint32]bool{}
	folded := fold(name)
	prefix := append(append(section(r, kindGraph, r.owner, secName, len(folded)+1), folded...), 0)
	err := each(r, prefix, func(key, _ []byte) error {
		_, num, ok := parseNameKey(key)
		if !ok {
			return layout.BadKey("name", key)
		}
		all[num] = true
		if n, err := r.current(num); err != nil || n.real() == nil {
			return cmp.Or(err, layout.BadKey("name", key))
		}
		return nil
	})
	return all, err
}

// Relations returns the relations that have a triple: the one that the triple names, and
// those with IDs of their own, in the order of their first storing. "inverse:T" changes
// the ends.
func (g Graph) Relations(ctx context.Context, o scope.Owner, from, typ, to string, s State) (all []Relation, err error) {
	doing := fmt.Sprintf("get the relations of %q to %q", valid.Short(from), valid.Short(to))
	w := wanted{}
	if err := checkRelation(doing, &Relation{From: from, Type: typ, To: to}, &w); err != nil {
		return nil, err
	}
	err = g.view(ctx, doing, o, s.AsOf, func(r *reader) error {
		a, err := r.triple(&w)
		if err != nil || a.from == 0 || a.typ == 0 || a.to == 0 {
			return err
		}
		lower, upper := span(appendArc(section(r, kindArc, r.owner, secOut, arcSize), a))
		return r.arcs(secOut, lower, upper, func(_ arc, t *tie) error {
			if s.ValidAt.IsZero() || t.holds(millis(s.ValidAt)) {
				all = append(all, t.relation(o, w.from, w.typ, w.to))
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, kv.ErrStop) {
		return nil, err
	}
	return all, nil
}
