package graph

import (
	"cmp"
	"errors"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// edge is a relation as one of its ends has it.
type edge struct{ other, typ uint32 }

func (e edge) compare(f edge) int {
	return cmp.Or(cmp.Compare(e.typ, f.typ), cmp.Compare(e.other, f.other))
}

// source is where a walk finds relations: the keys, or RAM. Both give the same edges in
// the same order.
type source interface {
	// edges are the relations of an entity in one direction, Out or In, of one type or, for
	// 0, of any, by type and other end. Other ends may be no entities: see is. The edges
	// are valid until the next call.
	edges(num uint32, dir Direction, typ uint32) ([]edge, error)
	// is reports whether there is an entity of a number, and its type.
	is(num uint32) (typ uint32, there bool, err error)
	// id is the ID of an entity that is there.
	id(num uint32) (string, error)
	// members calls visit for the entities of a type, or of any for 0, in the order of
	// their numbers.
	members(typ uint32, visit func(num uint32) error) error
	// allOf are the relations of a type, each as an edge whose other end is To and whose
	// typ is From, by From and To; false where the source would have to look for them.
	allOf(typ uint32) (ends []edge, known bool)
	// last is the highest number of an entity.
	last() uint32
	// name is "memory" or "keys".
	name() string
}

// keys is a source that reads keys.
type keys struct {
	*reader
	own     *owned
	validAt int64 // Unix milliseconds, 0 for any time
	known   map[uint32]known
	buf     []edge
	// most ends the reading of an entity's relations when there are more; 0 reads all.
	most int
	// look is called now and then while relations are read, and ends that; nil: nothing does.
	look func() error
	read int
}

// keyLooks is how many relations are read between two calls of look.
const keyLooks = 1 << 9

// known is what a walk has read of an entity.
type known struct {
	typ   uint32
	there bool
	id    string
}

func newKeys(r *reader, own *owned, validAt int64) *keys {
	return &keys{reader: r, own: own, validAt: validAt, known: map[uint32]known{}}
}

func (k *keys) name() string              { return "keys" }
func (*keys) allOf(uint32) ([]edge, bool) { return nil, false }

func (k *keys) last() uint32 { return k.own.lastEntity }

func (k *keys) edges(num uint32, dir Direction, typ uint32) ([]edge, error) {
	sec := byte(secOut)
	if dir == In {
		sec = secIn
	}
	prefix := be32(section(k, kindArc, k.owner, sec, 2*numSize), num)
	if typ != 0 {
		prefix = be32(prefix, typ)
	}
	k.buf = k.buf[:0]
	var stopped error
	add := func(a arc) error {
		if k.read++; k.read%keyLooks == 0 && k.look != nil {
			if stopped = k.look(); stopped != nil {
				return stopped
			}
		}
		k.buf = append(k.buf, edge{a.to, a.typ})
		if k.most > 0 && len(k.buf) > k.most {
			return kv.ErrStop
		}
		return nil
	}
	if k.asOf == 0 && k.validAt == 0 { // what the keys say is enough
		err := each(k, prefix, func(key, _ []byte) error {
			a, err := k.own.relation(sec, key)
			if err == nil {
				err = add(a)
			}
			return err
		})
		return k.buf, cmp.Or(stopped, err)
	}
	lower, upper := span(prefix)
	err := k.arcs(sec, lower, upper, func(a arc, t *tie) error {
		switch {
		case !k.own.knows(a):
			return layout.BadKey("relation", arcKey(k, k.owner, sec, a))
		case k.validAt != 0 && !t.holds(k.validAt):
			return nil
		}
		return add(a)
	})
	slices.SortStableFunc(k.buf, edge.compare)
	return k.buf, cmp.Or(stopped, err)
}

// entity is what there is under a number, which something refers to.
func (k *keys) entity(num uint32) (known, error) {
	if n, ok := k.known[num]; ok {
		return n, nil
	}
	var n known
	at, err := k.otherEnd(num)
	if err != nil {
		return known{}, err
	}
	if at != nil {
		n = known{at.typ, true, at.id}
	}
	k.known[num] = n
	return n, nil
}

func (k *keys) is(num uint32) (uint32, bool, error) {
	n, err := k.entity(num)
	return n.typ, n.there, err
}

func (k *keys) id(num uint32) (string, error) {
	n, err := k.entity(num)
	return n.id, err
}

func (k *keys) members(typ uint32, visit func(num uint32) error) error {
	prefix := section(k, kindGraph, k.owner, secEntity, 0)
	if typ != 0 && k.asOf == 0 {
		prefix = be32(section(k, kindGraph, k.owner, secMember, numSize), typ)
	}
	stopped := false
	err := each(k, prefix, func(key, _ []byte) error {
		num := be32At(key, len(prefix))
		if len(key) != len(prefix)+numSize || !k.own.gave(num, k.own.lastEntity) {
			return layout.BadKey("entity", key)
		}
		n, err := k.entity(num)
		if byType := key[body-1] == secMember; err == nil && byType && (!n.there || n.typ != typ) {
			err = layout.BadKey("type", key)
		}
		if err != nil || !n.there || typ != 0 && n.typ != typ {
			return err
		}
		err = visit(num)
		stopped = errors.Is(err, kv.ErrStop)
		return err
	})
	if stopped {
		return kv.ErrStop
	}
	return err
}
