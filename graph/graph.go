package graph

import (
	"context"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Graph is the graph of a database: in a transaction, or with each call as a transaction
// of its own.
type Graph struct {
	run  part.Runner
	part *Part
}

// New is a Graph whose calls a runner runs. Engine makes them: see its DB.Graph and
// Tx.Graph.
func New(r part.Runner, p *Part) Graph { return Graph{r, p} }

// Part is the structure as the database sees it.
type Part struct{ mu residents }

// Name is "graph".
func (*Part) Name() string { return "graph" }

// Kinds are those of entities, of relations, and of what is to be cleaned up.
func (*Part) Kinds() []part.Kind { return []part.Kind{kindGraph, kindArc, kindDoomed} }

// Ops are those of the changes of a graph.
func (*Part) Ops() []part.Op {
	return []part.Op{
		opEntity, opType, opRelations, opDelete, opEnd, opClean, opLink, opUnlink, opDeleteAll, opPast, opMerge, opUnmerge, opMention,
		opMerged, opSay, opUnsay, opUnrelate, opKeep, opMend, opDeleted,
	}
}

// Figures are the numbers of entities, of relations, and of links to memories.
func (*Part) Figures(v part.View) (map[string]int64, error) {
	f := map[string]int64{"entities": 0, "relations": 0, "links": 0}
	err := eachOwner(v, func(owner uint32, o *owned) error {
		f["entities"] += int64(o.entities)
		f["relations"] += int64(o.relations)
		links, err := countLinks(v, owner)
		f["links"] += links
		return err
	})
	return f, err
}

// eachOwner calls visit for each owner, in the order of the owners' numbers.
func eachOwner(v part.View, visit func(owner uint32, o *owned) error) error {
	lower, upper := span(v.Key(kindGraph, 0))
	return v.Hop(lower, upper, func(key, _ []byte) ([]byte, error) {
		owner, ok := ownerOf(key)
		if !ok {
			return nil, layout.BadKey("graph", key)
		}
		_, next := ownerSpan(v, kindGraph, owner)
		o, known, err := ownedOf(v, owner)
		if err == nil && known {
			err = visit(owner, &o)
		}
		return next, err
	})
}

// ownedOf is the record of an owner. Where it cannot be read, and the reader goes on, it says
// only whose it is.
func ownedOf(v part.View, owner uint32) (o owned, known bool, err error) {
	b, known, err := v.Get(ownerKey(v, owner))
	if err == nil && known {
		if o, err = decodeOwned(b); err == nil {
			return o, true, nil
		}
	}
	why := err
	if why == nil {
		why = &fault.Error{Kind: fault.ErrCorrupt, What: "read the graph", Why: fmt.Sprintf("the record of owner number %d is missing", owner)}
	}
	if v.Without(why) != nil {
		return owned{}, false, err
	}
	o = owned{}
	o.Owner, known, err = v.OwnerOf(owner)
	return o, known, err
}

// reader reads the graph of one owner, as it is or was at an LSN.
type reader struct {
	part.View
	owner uint32
	// asOf is the LSN of the state that is read, 0 for that of the View.
	asOf  uint64
	types [3]map[uint32]string
}

// owned reads the record of the owner, a zero one where there is none.
func (r *reader) owned() (o owned, err error) {
	b, found, err := r.Get(ownerKey(r, r.owner))
	if err != nil || !found {
		return owned{}, err
	}
	return decodeOwned(b)
}

// number is the number that an ID has, 0 for none.
func (r *reader) number(id string) (uint32, error) {
	b, found, err := r.Get(idKey(r, r.owner, secID, id))
	if err != nil || !found {
		return 0, err
	}
	return number(b)
}

// current is the newest version of an entity, nil for none.
func (r *reader) current(number uint32) (*node, error) {
	b, found, err := r.Get(entityKey(r, r.owner, number))
	if err != nil || !found {
		return nil, err
	}
	n, err := decodeNode(b)
	return &n, err
}

// node is an entity in the state that is read, nil where there is none and for a forward
// reference.
func (r *reader) node(number uint32) (*node, error) {
	n, err := r.current(number)
	if err == nil {
		n, err = r.version(number, n)
	}
	return n.real(), err
}

// version is what an entity, of which the newest version is known, was in the state that is
// read, nil where it was not there.
func (r *reader) version(number uint32, n *node) (*node, error) {
	switch {
	case n == nil || r.asOf != 0 && n.first > r.asOf:
		return nil, nil
	case r.asOf == 0 || n.born <= r.asOf:
		return n, nil
	}
	n = nil
	lower, upper := oldKey(r, r.owner, number, 0), oldKey(r, r.owner, number, r.asOf+1)
	err := r.Scan(lower, upper, func(_, value []byte) error { // few: versions of one entity
		old, err := decodeNode(value)
		n = &old
		return err
	})
	return n, err
}

// maxMergedChain bounds how often what an entity was merged into was merged itself: more is a
// damage that leads round in circles.
const maxMergedChain = 1 << 16

// resolve is the entity of a number in the state that is read: the one that it was merged into,
// where it was. A forward reference has its number alone, and what was not there yet has none.
func (r *reader) resolve(num uint32) (uint32, *node, error) {
	for range maxMergedChain {
		now, err := r.thereOrDoomed(num)
		if err != nil || now == nil {
			return 0, nil, err
		}
		n, err := r.version(num, now)
		switch {
		case err != nil || n == nil:
			return 0, nil, err
		case n.into == 0:
			return num, n.real(), nil
		}
		num = n.into
	}
	return 0, nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read the graph", Why: fmt.Sprintf("the merges of the entity of number %d lead round in circles", num), Do: "run check"}
}

// find is the entity that an ID leads to, 0 and nil where there is none.
func (r *reader) find(id string) (uint32, *node, error) {
	num, err := r.number(id)
	if err != nil || num == 0 {
		return 0, nil, err
	}
	return r.resolve(num)
}

// lost is the error of a number that something refers to and no entity has, nil where the
// entity was deleted and is still to be cleaned up after.
func (r *reader) lost(num uint32) error {
	doomed, err := exists(r, doomedKey(r, r.owner, num))
	if err == nil && !doomed {
		err = missing("entity", num, entityKey(r, r.owner, num))
	}
	return err
}

// real is the entity itself, nil for none and for a forward reference.
func (n *node) real() *node {
	if n == nil || n.forward {
		return nil
	}
	return n
}

// typeNumber is the number of a type, 0 for one that nothing has.
func (r *reader) typeNumber(class byte, name string) (uint32, error) {
	b, found, err := r.Get(typeNameKey(r, r.owner, class, name))
	if err != nil || !found {
		return 0, err
	}
	return number(b)
}

// typeName is the name of a type by its number, and "" for 0.
func (r *reader) typeName(class byte, num uint32) (string, error) {
	if num == 0 {
		return "", nil
	}
	if name, known := r.types[class][num]; known {
		return name, nil
	}
	b, found, err := r.Get(typeKey(r, r.owner, class, num))
	if err == nil && !found {
		err = missing("type", num, typeKey(r, r.owner, class, num))
	}
	name := string(b)
	if err != nil {
		if err = r.Without(err); err != nil {
			return "", err
		}
		name = r.lostType(class, num)
	}
	if r.types[class] == nil {
		r.types[class] = map[uint32]string{}
	}
	r.types[class][num] = name
	return name, nil
}

// lostType is a type whose name cannot be read by its number: what the index by name has, or else
// a word that says what is lost. All that is of the type can be had so.
func (r *reader) lostType(class byte, num uint32) string {
	name := fmt.Sprintf("lost_type_%d", num)
	prefix := typeNameKey(r, r.owner, class, "")
	_ = each(r, prefix, func(key, value []byte) error { // what it cannot read it tells itself
		if n, err := number(value); err == nil && n == num {
			name = string(key[len(prefix):])
		}
		return nil
	})
	return name
}

// missing is the error of what must be there, under a key, and is not.
func missing(what string, num uint32, key []byte) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: "read the graph", Why: fmt.Sprintf("the %s of number %d is missing: key %x", what, num, key), Do: "run check"}
}

// exists reports whether a key is there.
func exists(v part.View, key []byte) (bool, error) {
	_, found, err := v.Get(key)
	return found, err
}

// view runs fn with the graph of an owner. fn is not called for an owner that has nothing.
func (g Graph) view(ctx context.Context, doing string, o scope.Owner, asOf uint64, fn func(*reader) error) error {
	if err := scope.Check(doing, o.Scope()); err != nil {
		return err
	}
	return g.run.View(ctx, doing, func(v part.View) error {
		if asOf > v.LSN() {
			return &fault.Error{Kind: fault.ErrNotRetained, What: doing, Why: fmt.Sprintf("LSN %d is after the newest, %d", asOf, v.LSN()), Do: "give an LSN that has been reached"}
		}
		if asOf == 0 && v.Past() {
			asOf = v.LSN()
		}
		owner, known, err := v.Owner(o)
		if err != nil || !known {
			return err
		}
		return fn(&reader{View: v, owner: owner, asOf: asOf})
	})
}

func notFound(doing, id string) error {
	return &fault.Error{
		Kind: fault.ErrNotFound, What: doing, Why: fmt.Sprintf("its owner has no entity %q", valid.Short(id)),
		Do: "check the ID and the owner",
	}
}

// each calls visit for the keys of a prefix.
func each(v part.View, prefix []byte, visit func(key, value []byte) error) error {
	lower, upper := span(prefix)
	return v.Scan(lower, upper, visit)
}

// closing adds the error of closing an iterator to that of its use.
func closing(it kv.Iterator, err error) error {
	if cerr := it.Close(); err == nil {
		return cerr
	}
	return err
}

// thereOrDoomed is the newest version of an end of a relation, nil where that is deleted and to
// be cleaned up after.
func (r *reader) thereOrDoomed(num uint32) (*node, error) {
	n, err := r.current(num)
	if err == nil && n == nil {
		err = r.lost(num)
	}
	return n, err
}

// countLinks is how many links the entities of an owner have. Links are counted when that
// is asked for: those of a deleted memory go in a commit that counts nothing.
func countLinks(v part.View, owner uint32) (n int64, err error) {
	last, there := uint32(0), false
	err = each(v, section(v, kindGraph, owner, secLink, 0), func(key, _ []byte) error {
		if num := be32At(key, body); num != last {
			var err error
			last = num
			if there, err = exists(v, entityKey(v, owner, num)); err != nil {
				return err
			}
		}
		if there { // others are to be cleaned up
			n++
		}
		return nil
	})
	return n, err
}
