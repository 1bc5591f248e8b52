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
	validAt int64 // Unix milliseconds, 0 for any time
	highest uint32
	known   map[uint32]known
	buf     []edge
	// most ends the reading of an entity's relations when there are more; 0 reads all.
	most int
}

// known is what a walk has read of an entity.
type known struct {
	typ   uint32
	there bool
	id    string
}

func newKeys(r *reader, own *owned, validAt int64) *keys {
	return &keys{reader: r, validAt: validAt, highest: own.lastEntity, known: map[uint32]known{}}
}

func (k *keys) name() string              { return "keys" }
func (*keys) allOf(uint32) ([]edge, bool) { return nil, false }

func (k *keys) last() uint32 { return k.highest }

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
	if k.asOf == 0 && k.validAt == 0 { // what the keys say is enough
		err := each(k, prefix, func(key, _ []byte) error {
			a, _, ok := parseArc(key)
			if !ok {
				return layout.BadKey("relation", key)
			}
			k.buf = append(k.buf, edge{a.to, a.typ})
			if k.most > 0 && len(k.buf) > k.most {
				return kv.ErrStop
			}
			return nil
		})
		return k.buf, err
	}
	lower, upper := span(prefix)
	err := k.arcs(sec, lower, upper, func(a arc, t *tie) error {
		if k.validAt == 0 || t.holds(k.validAt) {
			k.buf = append(k.buf, edge{a.to, a.typ})
		}
		return nil
	})
	slices.SortStableFunc(k.buf, edge.compare)
	return k.buf, err
}

func (k *keys) look(num uint32) (known, error) {
	if n, ok := k.known[num]; ok {
		return n, nil
	}
	var n known
	at, err := k.node(num)
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
	n, err := k.look(num)
	return n.typ, n.there, err
}

func (k *keys) id(num uint32) (string, error) {
	n, err := k.look(num)
	return n.id, err
}

func (k *keys) members(typ uint32, visit func(num uint32) error) error {
	prefix := section(k, kindGraph, k.owner, secEntity, 0)
	if typ != 0 && k.asOf == 0 {
		prefix = be32(section(k, kindGraph, k.owner, secMember, numSize), typ)
	}
	stopped := false
	err := each(k, prefix, func(key, _ []byte) error {
		num := be32At(key, len(key)-numSize)
		n, err := k.look(num)
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
