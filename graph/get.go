package graph

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Get returns the entity of an ID, ErrNotFound where there is none. The ID of an entity that
// was merged leads to the one that it was merged into, here and in all that reads. asOf is the
// LSN of the state to be read, 0 for the newest.
func (g Graph) Get(ctx context.Context, o scope.Owner, id string, asOf uint64) (Entity, error) {
	doing := fmt.Sprintf("get the entity %q", valid.Short(id))
	if err := checkID(doing, "entity ID", id); err != nil {
		return Entity{}, err
	}
	found := false
	var e Entity
	err := g.view(ctx, doing, o, asOf, func(r *reader) (err error) {
		e, found, err = r.lookup(o, id)
		return err
	})
	if err == nil && !found {
		err = notFound(doing, id)
	}
	if err != nil {
		return Entity{}, err
	}
	return e, nil
}

// GetAll returns the entities of IDs, in their order, without those that are not there.
func (g Graph) GetAll(ctx context.Context, o scope.Owner, ids []string, asOf uint64) (all []Entity, err error) {
	err = g.view(ctx, "get entities", o, asOf, func(r *reader) error {
		for _, id := range ids {
			e, found, err := r.lookup(o, id)
			if err != nil {
				return err
			}
			if found {
				all = append(all, e)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (r *reader) lookup(o scope.Owner, id string) (e Entity, found bool, err error) {
	_, n, err := r.find(id)
	if err != nil || n == nil {
		return Entity{}, false, err
	}
	e, err = r.entity(o, n)
	return e, err == nil, err
}

// entity is a node with its names.
func (r *reader) entity(o scope.Owner, n *node) (Entity, error) {
	typ, err := r.typeName(classEntity, n.typ)
	if err == nil && len(n.properties) > 0 && !json.Valid(n.properties) {
		err = &fault.Error{Kind: fault.ErrCorrupt, What: "read the graph", Why: fmt.Sprintf("the properties of the entity %q are no JSON", valid.Short(n.id)), Do: "run check"}
	}
	return Entity{
		Owner: o, ID: n.id, Type: typ, Name: n.name, Aliases: n.aliases, Properties: n.properties,
		CreatedAt: clock.FromMillis(n.created), UpdatedAt: clock.FromMillis(n.updated), Extracted: n.extracted,
	}, err
}

// Direction is which relations of an entity are meant.
type Direction uint8

// The directions.
const (
	Both Direction = iota
	Out            // those that come from the entity
	In             // those that go to it: its inverses
)

// NeighbourQuery selects relations of an entity, in the order of their types and other
// ends: those that come from it, then those that go to it.
type NeighbourQuery struct {
	// Direction says which relations: those from the entity, those to it, or both.
	Direction Direction
	// Type is the type of the relations, empty for any. "inverse:T" means those of type T
	// that go to the entity.
	Type string
	AsOf uint64
	// After is Next of the page before.
	After string
	// Limit is the size of a page: 0 is 100, at most MaxLimit of package engine.
	Limit int
}

// Neighbour is a relation as an entity has it.
type Neighbour struct {
	// Target is the other end. Type is that of the relation, with "inverse:" before it
	// where the relation comes from the target.
	Target, Type string
	Relation     Relation
}

// NeighbourPage is a part of the relations of an entity.
type NeighbourPage struct {
	// Neighbours are those of the page.
	Neighbours []Neighbour
	// Next is given as After to get the page that follows; empty after the last one.
	Next string
}

const defaultPage = 100

// Neighbours returns a page of the relations of an entity, ErrNotFound where the entity is
// not there.
func (g Graph) Neighbours(ctx context.Context, o scope.Owner, id string, q NeighbourQuery) (page NeighbourPage, err error) {
	doing := fmt.Sprintf("read the neighbours of the entity %q", valid.Short(id))
	limit, err := valid.Limit(doing, q.Limit, defaultPage)
	if err == nil {
		err = checkID(doing, "entity ID", id)
	}
	if err != nil {
		return NeighbourPage{}, err
	}
	after, err := hex.DecodeString(q.After)
	if err != nil {
		return NeighbourPage{}, fault.Invalid(doing, "After is no Next of a page", "give Next as it was returned")
	}
	typ, swap := forwardType(q.Type)
	if swap {
		if q.Direction != Out {
			q.Direction = In
		} else {
			return NeighbourPage{}, nil // an inverse never comes from it
		}
	} else if q.Type != "" && q.Direction == Both {
		q.Direction = Out
	}
	found := false
	err = g.view(ctx, doing, o, q.AsOf, func(r *reader) error {
		num, n, err := r.find(id)
		if err != nil || n == nil {
			return err
		}
		found = true
		p := &pager{reader: r, owner: o, self: n, after: after, limit: limit}
		page, err = p.read(num, typ, q.Direction)
		return err
	})
	if err == nil && !found {
		err = notFound(doing, id)
	}
	if err != nil {
		return NeighbourPage{}, err
	}
	return page, nil
}

// pager reads a page of neighbours.
type pager struct {
	*reader
	owner scope.Owner
	self  *node
	after []byte // section and rest of the last key of the page before
	limit int
	page  NeighbourPage
	// last is the last relation of the page, in its section.
	last        arc
	lastSection byte
}

func (p *pager) read(num uint32, typ string, dir Direction) (NeighbourPage, error) {
	typNum := uint32(0)
	if typ != "" {
		var err error
		if typNum, err = p.typeNumber(classRelation, typ); err != nil || typNum == 0 {
			return NeighbourPage{}, err
		}
	}
	sections := []byte{secOut, secIn}
	switch dir {
	case Out:
		sections = sections[:1]
	case In:
		sections = sections[1:]
	}
	for _, sec := range sections {
		prefix := be32(section(p, kindArc, p.reader.owner, sec, arcSize), num)
		if typNum != 0 {
			prefix = be32(prefix, typNum)
		}
		err := p.section(sec, prefix)
		if errors.Is(err, kv.ErrStop) || p.page.Next != "" {
			break
		}
		if err != nil {
			return NeighbourPage{}, err
		}
	}
	return p.page, nil
}

// section reads what the page has of one section. Relations of a past state lie in two
// ranges of keys, so they are gathered and put in order first.
func (p *pager) section(sec byte, prefix []byte) error {
	lower, upper := span(prefix)
	var after []byte
	if len(p.after) > 0 {
		after = append(be32(p.Key(kindArc, ownerSize+len(p.after)+1), p.reader.owner), p.after...)
	}
	if p.asOf == 0 {
		if len(after) > 0 && bytes.Compare(after, lower) >= 0 {
			lower = append(after, 0)
		}
		if bytes.Compare(lower, upper) >= 0 {
			return nil
		}
		return p.arcs(sec, lower, upper, func(a arc, t *tie) error { return p.add(sec, a, t) })
	}
	type past struct {
		arc
		*tie
	}
	var all []past
	err := p.arcs(sec, lower, upper, func(a arc, t *tie) error {
		all = append(all, past{a, t})
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b past) int { return a.arc.compare(b.arc) })
	for _, x := range all {
		if bytes.Compare(arcKey(p, p.reader.owner, sec, x.arc), after) <= 0 {
			continue
		}
		if err := p.add(sec, x.arc, x.tie); err != nil {
			return err
		}
	}
	return nil
}

// add adds a relation to the page, if its other end is there.
func (p *pager) add(sec byte, a arc, t *tie) error {
	other, err := p.otherEnd(a.to)
	if err != nil || other == nil {
		return err
	}
	if len(p.page.Neighbours) == p.limit {
		p.page.Next = hex.EncodeToString(arcKey(p, p.reader.owner, p.lastSection, p.last)[keyHeader+ownerSize:])
		return kv.ErrStop
	}
	typ, err := p.typeName(classRelation, a.typ)
	if err != nil {
		return err
	}
	n := Neighbour{Target: other.id, Type: typ}
	if sec == secOut {
		n.Relation = t.relation(p.owner, p.self.id, typ, other.id)
	} else {
		n.Type = InversePrefix + typ
		n.Relation = t.relation(p.owner, other.id, typ, p.self.id)
	}
	p.page.Neighbours = append(p.page.Neighbours, n)
	p.last, p.lastSection = a, sec
	return nil
}

// otherEnd is the entity at the other end of a relation, nil where it is a forward reference, or
// deleted and to be cleaned up after.
func (r *reader) otherEnd(num uint32) (*node, error) {
	n, err := r.node(num)
	if err == nil && n == nil {
		_, err = r.thereOrDoomed(num)
	}
	return n, err
}

// arcs calls visit for the relations in a range of keys of one section, which is secOut or
// secIn, in the state that is read. The arc is as the end has it whose key it is. Relations
// that have ended since come after the others.
func (r *reader) arcs(sec byte, lower, upper []byte, visit func(a arc, t *tie) error) error {
	err := r.Scan(lower, upper, func(key, value []byte) error {
		a, _, ok := parseArc(key)
		if !ok {
			return layout.BadKey("relation", key)
		}
		t, err := r.tieOf(sec, a, value)
		if err != nil || r.asOf != 0 && t.born > r.asOf {
			return err
		}
		return visit(a, t)
	})
	if err != nil || r.asOf == 0 {
		return err
	}
	return r.oldArcs(sec, lower, upper, visit)
}

// oldSection is the section of superseded versions beside one of relations.
func oldSection(sec byte) byte {
	if sec == secOut {
		return secOldOut
	}
	return secOldIn
}

func (r *reader) oldArcs(sec byte, lower, upper []byte, visit func(a arc, t *tie) error) error {
	lower, upper = bytes.Clone(lower), bytes.Clone(upper)
	lower[body-1], upper[body-1] = oldSection(sec), oldSection(sec)+upper[body-1]-sec
	return r.Scan(lower, upper, func(key, value []byte) error {
		a, born, ok := parseArc(key)
		if !ok {
			return layout.BadKey("relation", key)
		}
		if born > r.asOf {
			return nil
		}
		if sec == secIn {
			b, found, err := r.View.Get(oldArcKey(r, r.owner, secOldOut, a.reversed(), born))
			if err != nil {
				return err
			}
			if !found {
				return missing("superseded relation to the entity", a.from, key)
			}
			value = b
		}
		t, err := decodeTie(value)
		if err != nil || t.died <= r.asOf {
			return err
		}
		return visit(a, &t)
	})
}

// tieOf is the relation of a key of secOut or secIn.
func (r *reader) tieOf(sec byte, a arc, value []byte) (*tie, error) {
	if sec == secIn {
		b, found, err := r.View.Get(outKey(r, r.owner, a.reversed()))
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, missing("relation to the entity", a.from, outKey(r, r.owner, a.reversed()))
		}
		value = b
	}
	t, err := decodeTie(value)
	return &t, err
}

// ListQuery selects entities of an owner.
type ListQuery struct {
	scope.Owner
	// Type keeps entities of this type; empty: of any.
	Type string
	// NamePrefix keeps entities with a name or an alias that begins so, without regard to
	// case, in the order of those names. Otherwise the order is that of their first storing.
	NamePrefix string
	AsOf       uint64
	After      string // Next of the page before
	Limit      int    // the size of a page: 0 is 100, at most MaxLimit of package engine
}

// Page is a part of the entities of a query.
type Page struct {
	// Entities are those of the page.
	Entities []Entity
	// Next is given as After to get the page that follows; empty after the last one.
	Next string
}

// List returns a page of an owner's entities.
func (g Graph) List(ctx context.Context, q ListQuery) (page Page, err error) {
	const doing = "list entities"
	limit, err := valid.Limit(doing, q.Limit, defaultPage)
	if err == nil {
		err = valid.Word(doing, "prefix of a name", q.NamePrefix)
	}
	if err != nil {
		return Page{}, err
	}
	after, err := hex.DecodeString(q.After)
	if err != nil {
		return Page{}, fault.Invalid(doing, "After is no Next of a page", "give Next as it was returned")
	}
	err = g.view(ctx, doing, q.Owner, q.AsOf, func(r *reader) error {
		page, err = r.list(&q, after, limit)
		return err
	})
	if err != nil {
		return Page{}, err
	}
	return page, nil
}

// listed is the range of keys in which the entities of a query are, after a cursor.
func (r *reader) listed(q *ListQuery, typ uint32, after []byte) (lower, upper []byte) {
	prefix := section(r, kindGraph, r.owner, secEntity, 0)
	switch {
	case q.NamePrefix != "":
		prefix = append(section(r, kindGraph, r.owner, secName, len(q.NamePrefix)), fold(q.NamePrefix)...)
	case typ != 0 && r.asOf == 0:
		prefix = be32(section(r, kindGraph, r.owner, secMember, numSize), typ)
	}
	lower, upper = span(prefix)
	if len(after) > 0 {
		if start := append(be32(r.Key(kindGraph, ownerSize+len(after)+1), r.owner), append(after, 0)...); bytes.Compare(start, lower) > 0 {
			lower = start
		}
	}
	return lower, upper
}

func (r *reader) list(q *ListQuery, after []byte, limit int) (page Page, err error) {
	typ := uint32(0)
	if q.Type != "" {
		if typ, err = r.typeNumber(classEntity, q.Type); err != nil || typ == 0 {
			return Page{}, err
		}
	}
	if q.NamePrefix != "" && r.asOf != 0 {
		return r.listNamed(q, typ, after, limit)
	}
	lower, upper := r.listed(q, typ, after)
	if bytes.Compare(lower, upper) >= 0 {
		return Page{}, nil
	}
	var last []byte
	seen := map[uint32]bool{} // an entity may have several names with the prefix
	err = r.Scan(lower, upper, func(key, _ []byte) error {
		num := be32At(key, len(key)-numSize)
		n, err := r.node(num)
		if err == nil && n == nil && r.asOf == 0 && key[body-1] != secEntity {
			err = layout.BadKey("entity", key) // names and types lead to what is there
		}
		if err != nil || n == nil || typ != 0 && n.typ != typ || seen[num] {
			return err
		}
		if len(page.Entities) == limit {
			page.Next = hex.EncodeToString(last)
			return kv.ErrStop
		}
		e, err := r.entity(q.Owner, n)
		if err != nil {
			return err
		}
		seen[num] = q.NamePrefix != ""
		page.Entities = append(page.Entities, e)
		last = append(last[:0], key[keyHeader+ownerSize:]...)
		return nil
	})
	return page, err
}

// listNamed is list by names as of an LSN: the index of names is that of today, so it looks at
// the entities of then, and gives them in the order that the index had.
func (r *reader) listNamed(q *ListQuery, typ uint32, after []byte, limit int) (page Page, err error) {
	prefix := string(section(r, kindGraph, r.owner, secName, 0)) + fold(q.NamePrefix)
	found := map[string]*node{} // by the first key of each entity
	err = r.eachNode(func(num uint32, n *node) error {
		if typ != 0 && n.typ != typ {
			return nil
		}
		for _, name := range n.names() { // in their order
			if key := nameKey(r, r.owner, name, num); strings.HasPrefix(string(key), prefix) {
				found[string(key)] = n
				break
			}
		}
		return nil
	})
	if err != nil {
		return Page{}, err
	}
	last := ""
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if key[keyHeader+ownerSize:] <= string(after) {
			continue
		}
		if len(page.Entities) == limit {
			page.Next = hex.EncodeToString([]byte(last))
			break
		}
		e, err := r.entity(q.Owner, found[key])
		if err != nil {
			return Page{}, err
		}
		page.Entities = append(page.Entities, e)
		last = key[keyHeader+ownerSize:]
	}
	return page, nil
}

// eachNode calls visit for the entities in the state that is read, by their age.
func (r *reader) eachNode(visit func(num uint32, n *node) error) error {
	return each(r, section(r, kindGraph, r.owner, secEntity, 0), func(key, _ []byte) error {
		num := be32At(key, len(key)-numSize)
		n, err := r.node(num)
		if err == nil && n != nil {
			err = visit(num, n)
		}
		return err
	})
}

// eachDoomed calls visit for the numbers of the entities that are deleted and still to be
// cleaned up after.
func (r *reader) eachDoomed(visit func(num uint32)) error {
	return each(r, be32(r.Key(kindDoomed, ownerSize), r.owner), func(key, _ []byte) error {
		if len(key) == keyHeader+ownerSize+numSize {
			visit(be32At(key, keyHeader+ownerSize))
		}
		return nil
	})
}

// triple is the arc of a relation, a zero one where a name of it is not known.
func (r *reader) triple(w *wanted) (a arc, err error) {
	own := w.id != "" && w.id != derivedID(w.from, w.typ, w.to)
	if a.from, w.from, err = r.endOf(w.from); err != nil {
		return arc{}, err
	}
	if a.to, w.to, err = r.endOf(w.to); err != nil {
		return arc{}, err
	}
	if a.typ, err = r.typeNumber(classRelation, w.typ); err != nil {
		return arc{}, err
	}
	if !own {
		return a, nil
	}
	a, _, err = r.holder(w.id)
	return a, err
}

// endOf is an end of a relation by its ID: the entity which it was merged into, 0 for none.
func (r *reader) endOf(id string) (num uint32, now string, err error) {
	if num, err = r.number(id); err != nil || num == 0 {
		return 0, id, err
	}
	if num, _, err = r.resolve(num); err != nil || num == 0 {
		return 0, id, err
	}
	n, err := r.current(num)
	if err != nil || n == nil {
		return 0, id, err
	}
	return num, n.id, nil
}

// holder is the relation that has an ID of its own, false where none has. One whose end is
// deleted, and that is still to be cleaned up after, has none any more.
func (r *reader) holder(id string) (a arc, found bool, err error) {
	b, found, err := r.Get(idKey(r, r.owner, secGivenID, id))
	if err != nil || !found {
		return arc{}, false, err
	}
	if a, err = decodeArc(b); err != nil {
		return arc{}, false, err
	}
	for _, end := range []uint32{a.from, a.to} {
		if n, err := r.thereOrDoomed(end); err != nil || n == nil {
			return arc{}, false, err
		}
	}
	return a, true, nil
}
