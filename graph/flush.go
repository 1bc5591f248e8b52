package graph

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// flush writes what has changed, and reports whether anything has.
func (e *editor) flush() (wrote bool, err error) {
	var observed []observing
	size := e.size()
	for _, s := range e.order {
		if s.now != nil {
			o := observe(s.number, s.old, s.now)
			observed, size = append(observed, o), size+o.size()
		}
	}
	if err := e.t.Need(e.doing, size); err != nil {
		return false, err
	}
	changed := slices.ContainsFunc(e.order, func(s *subject) bool { return s.now != nil || s.isNew }) ||
		slices.ContainsFunc(e.list, (*change).changed)
	if !changed && len(e.added) == 0 && len(e.pasts) == 0 && len(e.former) == 0 && e.joined == nil {
		return false, nil
	}
	owner, err := e.t.GiveOwner(e.own.Owner)
	if err != nil {
		return true, err
	}
	e.reader.owner = owner
	if err := e.flushTypes(); err != nil {
		return true, err
	}
	var staged delta
	for _, s := range e.order {
		if err := e.flushSubject(s, &staged); err != nil {
			return true, err
		}
	}
	if err := cmp.Or(e.flushTies(&staged), e.flushPasts(), e.flushFormer(), e.flushJoint(&staged)); err != nil {
		return true, err
	}
	if err := e.t.Set(ownerKey(e.t, owner), e.own.encode()); err != nil {
		return true, err
	}
	e.part.stage(e.t, owner, staged)
	for i := range observed { // last: the memories are linked to what was written
		if err := observed[i].apply(e.t, e.doing, e.own.Owner, owner); err != nil {
			return true, err
		}
	}
	return true, nil
}

// changed reports whether the relation is new or another than before.
func (ch *change) changed() bool { return ch.old == nil || !ch.now.same(ch.old) }

// size is about what flush writes, in bytes.
func (e *editor) size() int {
	n := valid.MaxID
	for _, s := range e.order {
		n += 8*(len(s.id)+numSize) + 100
		if s.now != nil {
			n += 4 * len(s.now.encode())
		}
	}
	n += 100 * len(e.former)
	lists := [][]*change{e.list, e.pasts}
	if e.joined != nil {
		lists = append(lists, e.joined.ended)
		n += len(e.joined.links) * 2 * linkBytes
	}
	for _, list := range lists {
		for _, ch := range list {
			n += 150 + 4*len(ch.now.properties) + 2*len(ch.now.id)
		}
	}
	return n
}

func (e *editor) flushTypes() error {
	owner := e.reader.owner
	for _, a := range e.added {
		if err := e.t.Set(typeKey(e.t, owner, a.class, a.number), []byte(a.name)); err != nil {
			return err
		}
		if err := e.t.Set(typeNameKey(e.t, owner, a.class, a.name), numberValue(a.number)); err != nil {
			return err
		}
		b := binary.AppendUvarint(nil, uint64(owner))
		b = binary.AppendUvarint(append(b, a.class), uint64(a.number))
		e.t.Log(opType, codec.AppendBytes(b, a.name))
	}
	return nil
}

// flushSubject writes an entity, or the ID of a forward reference.
func (e *editor) flushSubject(s *subject, staged *delta) error {
	if s.now == nil && !s.isNew {
		return nil
	}
	owner, n := e.reader.owner, s.now
	if n == nil {
		n = &node{forward: true, id: s.id}
	}
	if s.isNew {
		if err := e.t.Set(idKey(e.t, owner, secID, s.id), numberValue(s.number)); err != nil {
			return err
		}
	}
	if s.old != nil && s.old.into != 0 && !n.forward { // it is there again, with its past
		n.first = s.old.first
		if err := e.keepSaid(s); err != nil {
			return err
		}
		if err := e.t.Delete(mergedKey(e.t, owner, s.old.into, s.number)); err != nil {
			return err
		}
	}
	if old := s.old; old != nil && (!old.forward || old.into != 0) && old.born != n.born {
		if err := e.t.Set(oldKey(e.t, owner, s.number, old.born), old.encode()); err != nil {
			return err
		}
	}
	value := n.encode()
	if err := e.t.Set(entityKey(e.t, owner, s.number), value); err != nil {
		return err
	}
	if err := e.indexNode(s.number, s.old, n); err != nil {
		return err
	}
	if s.created {
		e.own.entities++
	}
	b := binary.AppendUvarint(numberValue(owner), uint64(s.number))
	e.t.Log(opEntity, codec.AppendBytes(b, value))
	staged.nodes = append(staged.nodes, nodeDelta{number: s.number, real: !n.forward, typ: n.typ, id: s.id})
	return nil
}

// indexNode brings the indexes by name and by type from one version of an entity to
// another; nil is none.
func (e *editor) indexNode(number uint32, old, now *node) error {
	owner := e.reader.owner
	have, want := indexKeys(e.t, owner, number, old), indexKeys(e.t, owner, number, now)
	for _, k := range slices.Sorted(maps.Keys(have)) {
		if !want[k] {
			if err := e.t.Delete([]byte(k)); err != nil {
				return err
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if !have[k] {
			if err := e.t.Set([]byte(k), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexKeys are the keys by which an entity is found by name and by type.
func indexKeys(v part.View, owner, number uint32, n *node) map[string]bool {
	keys := map[string]bool{}
	if n == nil || n.forward {
		return keys
	}
	for _, name := range n.names() {
		keys[string(nameKey(v, owner, name, number))] = true
	}
	keys[string(memberKey(v, owner, n.typ, number))] = true
	return keys
}

// flushTies writes the relations that are new or changed, in the order of their keys.
func (e *editor) flushTies(staged *delta) error {
	owner, n := e.reader.owner, 0
	var logged, value []byte
	slices.SortFunc(e.list, func(a, b *change) int { return a.arc.compare(b.arc) })
	for _, ch := range e.list {
		if !ch.changed() {
			continue
		}
		n++
		if err := e.supersede(ch); err != nil {
			return err
		}
		value = ch.now.encode(value[:0])
		if err := e.t.Set(outKey(e.t, owner, ch.arc), value); err != nil {
			return err
		}
		logged = appendLogged(logged, ch, e.t.Now())
		if ch.old != nil {
			continue
		}
		e.own.relations++
		if ch.now.id != "" {
			if err := e.t.Set(idKey(e.t, owner, secGivenID, ch.now.id), encodeArc(ch.arc)); err != nil {
				return err
			}
		}
		staged.arcs = append(staged.arcs, arcDelta{arc: ch.arc})
	}
	if err := e.flushOtherEnds(staged.arcs); err != nil {
		return err
	}
	if n > 0 {
		head := binary.AppendUvarint(numberValue(owner), uint64(n))
		e.t.Log(opRelations, append(head, logged...))
	}
	return nil
}

// flushOtherEnds writes the keys by which new relations are found from their other ends, in
// their order: the store finds the place of a key fast if it follows the last one.
func (e *editor) flushOtherEnds(arcs []arcDelta) error {
	ends := make([]arc, len(arcs))
	for i := range arcs {
		ends[i] = arcs[i].reversed()
	}
	slices.SortFunc(ends, arc.compare)
	for _, a := range ends {
		if err := e.t.Set(arcKey(e.t, e.reader.owner, secIn, a), nil); err != nil {
			return err
		}
	}
	return nil
}

// flushPasts writes the superseded versions that an import brings.
func (e *editor) flushPasts() error {
	for _, ch := range e.pasts {
		value := ch.now.encode(nil)
		err := cmp.Or(
			e.t.Set(oldArcKey(e.t, e.reader.owner, secOldOut, ch.arc, ch.now.born), value),
			e.t.Set(oldArcKey(e.t, e.reader.owner, secOldIn, ch.reversed(), ch.now.born), nil),
		)
		if err != nil {
			return err
		}
		e.t.Log(opPast, codec.AppendBytes(append(numberValue(e.reader.owner), encodeArc(ch.arc)...), value))
	}
	return nil
}

// appendLogged appends what the log says of a relation. Its birth and its creation are
// those of the log record, unless it says more than its triple.
func appendLogged(b []byte, ch *change, now int64) []byte {
	b = binary.AppendUvarint(b, uint64(ch.from))
	b = binary.AppendUvarint(b, uint64(ch.typ))
	b = binary.AppendUvarint(b, uint64(ch.to))
	b = binary.AppendUvarint(b, uint64(ch.number))
	if ch.now.id == "" && len(ch.now.properties) == 0 && ch.now.from == 0 && ch.now.to == 0 && ch.now.created == now && !ch.now.extracted {
		return append(b, 0)
	}
	value := ch.now.encode(nil)
	return codec.AppendBytes(b, value)
}

// supersede keeps the version of a relation that another takes the place of.
func (e *editor) supersede(ch *change) error {
	if ch.old == nil || ch.old.born == e.t.LSN() {
		return nil
	}
	old := *ch.old
	old.died, old.diedAt = e.t.LSN(), e.t.Now()
	return cmp.Or(
		e.t.Set(oldArcKey(e.t, e.reader.owner, secOldOut, ch.arc, old.born), old.encode(nil)),
		e.t.Set(oldArcKey(e.t, e.reader.owner, secOldIn, ch.reversed(), old.born), nil),
	)
}
