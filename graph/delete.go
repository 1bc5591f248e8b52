package graph

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Deleted is how much a delete took away.
type Deleted struct {
	// Entities, Relations and Links are how many were deleted.
	Entities  int `json:"entities"`
	Relations int `json:"relations"`
	Links     int `json:"links"`
}

// freed is about what the delete of an entity writes, in bytes, whatever it has.
const freed = 4096

// Delete deletes an entity with its relations in both directions and its links to
// memories, ErrNotFound where there is none. They are gone at once, from earlier states
// too; the space comes back in the background. It reads the keys of the relations to count
// them, and writes few.
func (g Graph) Delete(ctx context.Context, o scope.Owner, id string) (d Deleted, err error) {
	doing := fmt.Sprintf("delete the entity %q", valid.Short(id))
	if err := checkID(doing, "entity ID", id); err != nil {
		return Deleted{}, err
	}
	if err := scope.Check(doing, o.Scope()); err != nil {
		return Deleted{}, err
	}
	err = g.run.Update(ctx, doing, func(t part.Tx) error {
		owner, known, err := t.Owner(o)
		if err != nil {
			return err
		}
		if !known {
			return notFound(doing, id)
		}
		d, err = g.part.remove(t, doing, owner, id)
		return err
	})
	if err != nil {
		return Deleted{}, err
	}
	return d, nil
}

func (p *Part) remove(t part.Tx, doing string, owner uint32, id string) (d Deleted, err error) {
	r := &reader{View: t, owner: owner}
	num, err := r.number(id)
	if err != nil || num == 0 {
		return Deleted{}, cmp.Or(err, notFound(doing, id))
	}
	return p.removeNumber(t, doing, r, num, map[uint32]bool{})
}

// removeNumber deletes an entity, with those that were merged into it. removed are those that
// are deleted already.
func (p *Part) removeNumber(t part.Tx, doing string, r *reader, num uint32, removed map[uint32]bool) (d Deleted, err error) {
	owner := r.owner
	n, err := r.current(num)
	if err != nil || n == nil {
		return Deleted{}, cmp.Or(err, missing("entity", num, entityKey(t, owner, num)))
	}
	if removed[num] {
		return Deleted{}, layout.BadKey("merge", mergedKey(t, owner, n.into, num)) // they lead round in circles
	}
	removed[num] = true
	if d, err = p.removeMerged(t, doing, r, num, removed); err != nil {
		return Deleted{}, err
	}
	own, err := r.owned()
	if err != nil {
		return Deleted{}, err
	}
	held, err := r.held(num)
	if err != nil {
		return Deleted{}, err
	}
	own.relations -= uint64(held.Relations)
	if !n.forward {
		own.entities--
		d.Entities++
	}
	d.Relations, d.Links = d.Relations+held.Relations, d.Links+held.Links
	keys := indexKeys(t, owner, num, n)
	if err := t.NeedToFree(doing, freed+len(keys)*4*valid.MaxID); err != nil {
		return Deleted{}, err
	}
	for k := range keys {
		if err := t.Delete([]byte(k)); err != nil {
			return Deleted{}, err
		}
	}
	lower, upper := span(be32(section(t, kindGraph, owner, secOld, numSize), num))
	err = cmp.Or(
		t.Delete(idKey(t, owner, secID, n.id)),
		t.Delete(entityKey(t, owner, num)),
		t.DeleteRange(lower, upper),
		t.Delete(mergedKey(t, owner, n.into, num)),
		t.Set(doomedKey(t, owner, num), nil),
		t.Set(ownerKey(t, owner), own.encode()),
	)
	if err != nil {
		return Deleted{}, err
	}
	t.Log(opDeleted, codec.AppendBytes(binary.AppendUvarint(numberValue(owner), uint64(num)), n.id))
	p.stage(t, owner, delta{nodes: []nodeDelta{{number: num, gone: true}}})
	o := observe(num, n, nil)
	return d, o.apply(t, doing, own.Owner, owner)
}

// removeMerged deletes the entities that were merged into one: what they were is a part of it.
func (p *Part) removeMerged(t part.Tx, doing string, r *reader, into uint32, removed map[uint32]bool) (d Deleted, err error) {
	all, err := r.mergedInto(into)
	for _, num := range all {
		if err != nil {
			break
		}
		var of Deleted
		of, err = p.removeNumber(t, doing, r, num, removed)
		d = Deleted{d.Entities + of.Entities, d.Relations + of.Relations, d.Links + of.Links}
	}
	return d, err
}

// mergedInto are the entities that were merged into one.
func (r *reader) mergedInto(into uint32) (all []uint32, err error) {
	err = each(r, be32(section(r, kindGraph, r.owner, secMerged, numSize), into), func(key, _ []byte) error {
		num := be32At(key, len(key)-numSize)
		n, err := r.current(num)
		if err == nil && (n == nil || n.into != into) {
			err = layout.BadKey("merge", key)
		}
		all = append(all, num)
		return err
	})
	return all, err
}

// held counts the relations and the links of an entity, without those relations that went
// with their other end and are still to be cleaned up.
func (r *reader) held(num uint32) (d Deleted, err error) {
	doomed := map[uint32]bool{}
	if err := r.eachDoomed(func(num uint32) { doomed[num] = true }); err != nil {
		return Deleted{}, err
	}
	for _, sec := range []byte{secOut, secIn} {
		err := each(r, be32(section(r, kindArc, r.owner, sec, numSize), num), func(key, _ []byte) error {
			a, _, ok := parseArc(key)
			if !ok {
				return layout.BadKey("relation", key)
			}
			if loop := a.from == a.to && sec == secIn; !loop && !doomed[a.to] {
				d.Relations++
			}
			return nil
		})
		if err != nil {
			return Deleted{}, err
		}
	}
	err = each(r, be32(section(r, kindGraph, r.owner, secLink, numSize), num), func(_, _ []byte) error {
		d.Links++
		return nil
	})
	return d, err
}

// End says that a relation holds no longer: it is superseded by nothing. It is still there
// as of earlier LSNs. id is the relation's ID, or empty for the one that the triple names.
func (g Graph) End(ctx context.Context, o scope.Owner, from, typ, to, id string) error {
	doing := fmt.Sprintf("end the relation of %q to %q", valid.Short(from), valid.Short(to))
	w := wanted{}
	if err := checkRelation(doing, &Relation{From: from, Type: typ, To: to, ID: id}, &w); err != nil {
		return err
	}
	if err := scope.Check(doing, o.Scope()); err != nil {
		return err
	}
	return g.run.Update(ctx, doing, func(t part.Tx) error { return g.part.end(t, doing, o, &w) })
}

func (p *Part) end(t part.Tx, doing string, o scope.Owner, w *wanted) error {
	none := &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "its owner has no such relation", Do: "check its ends, its type and the owner"}
	owner, known, err := t.Owner(o)
	if err != nil {
		return err
	}
	if !known {
		return none
	}
	e, err := newEditor(t, p, doing, o)
	if err != nil {
		return err
	}
	a, err := e.reader.triple(w)
	if err != nil {
		return err
	}
	b, found, err := t.Get(outKey(t, owner, a))
	if err != nil {
		return err
	}
	if !found {
		return none
	}
	old, err := decodeTie(b)
	if err != nil {
		return err
	}
	if err := t.NeedToFree(doing, freed+len(b)); err != nil { // it adds the version that it keeps
		return err
	}
	e.own.relations--
	err = cmp.Or(
		e.supersede(&change{arc: a, old: &old}),
		t.Delete(outKey(t, owner, a)),
		t.Delete(inKey(t, owner, a)),
		t.Set(ownerKey(t, owner), e.own.encode()),
	)
	if err == nil && old.id != "" {
		err = t.Delete(idKey(t, owner, secGivenID, old.id))
	}
	if err != nil {
		return err
	}
	t.Log(opEnd, append(numberValue(owner), encodeArc(a)...))
	p.stage(t, owner, delta{arcs: []arcDelta{{arc: a, gone: true}}})
	return cmp.Or(p.dropLoose(t, doing, owner, a.from), p.dropLoose(t, doing, owner, a.to))
}

// DeleteOwner deletes the graph of an owner.
func (p *Part) DeleteOwner(t part.Tx, owner uint32) (map[string]int64, error) {
	r := &reader{View: t, owner: owner}
	own, err := r.owned()
	if err != nil {
		return nil, err
	}
	links, err := countLinks(t, owner)
	deleted := map[string]int64{"entities": int64(own.entities), "relations": int64(own.relations), "links": links}
	if err != nil || own.lastEntity == 0 {
		return deleted, err
	}
	if err := t.NeedToFree("delete the graph of an owner", freed); err != nil {
		return nil, err
	}
	for _, k := range p.Kinds() {
		lower, upper := ownerSpan(t, byte(k), owner)
		if err := t.DeleteRange(lower, upper); err != nil {
			return nil, err
		}
	}
	t.Log(opDeleteAll, numberValue(owner))
	p.stage(t, owner, delta{all: true})
	return deleted, nil
}

const (
	// cleanEvery is how often deleted entities are cleaned up after; nobody sees them from
	// the moment they are deleted.
	cleanEvery = 30 * time.Second
	// cleanBatch bounds the relations that one commit removes.
	cleanBatch = 5000
	// cleanEntities bounds the entities that one look finds.
	cleanEntities = 1000

	doingClean = "clean up after entities of the graph"
)

// Every is how often deleted entities are cleaned up after.
func (*Part) Every() time.Duration { return cleanEvery }

// Work deletes extracted entities and relations that no memory is the reason for any more, and
// removes the relations and the links of deleted entities. What is interrupted goes on where it
// was.
func (p *Part) Work(ctx context.Context, run part.Runner) error {
	for {
		var all [][2]uint32
		var loosened []loose
		// The clean-up after memories has no LSN, so that a view need not see what it has left.
		err := run.Update(ctx, doingClean, func(v part.Tx) error {
			return each(v, v.Key(kindDoomed, 0), func(key, _ []byte) error {
				if isLoose(key) || isLooseArc(key) {
					loosened = append(loosened, looseOf(key))
				} else {
					all = append(all, [2]uint32{be32At(key, keyHeader), be32At(key, keyHeader+ownerSize)})
				}
				if len(all)+len(loosened) == cleanEntities {
					return kv.ErrStop
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		if err := p.dropAll(ctx, run, loosened); err != nil {
			return err
		}
		for _, d := range all {
			for left := true; left; {
				err := run.Update(ctx, doingClean, func(t part.Tx) (err error) {
					left, err = clean(t, d[0], d[1])
					return err
				})
				if err != nil {
					return err
				}
			}
		}
		if len(all)+len(loosened) < cleanEntities {
			return nil
		}
	}
}

// clean removes a part of what a deleted entity has left, and reports whether there may be
// more.
func clean(t part.Tx, owner, num uint32) (left bool, err error) {
	// With the graph of its owner the mark goes, and the number may be that of a new entity.
	if doomed, err := exists(t, doomedKey(t, owner, num)); err != nil || !doomed {
		return false, err
	}
	keys, err := leftovers(t, owner, num)
	if err != nil {
		return false, err
	}
	if left = len(keys) >= cleanBatch; !left {
		keys = append(keys, doomedKey(t, owner, num))
	}
	size := 0
	for _, k := range keys {
		size += len(k) + 16
	}
	if err := t.NeedToFree(doingClean, size); err != nil {
		return false, err
	}
	for _, k := range keys {
		if err := t.Delete(k); err != nil {
			return false, err
		}
	}
	t.Log(opClean, binary.AppendUvarint(numberValue(owner), uint64(num)))
	return left, nil
}

// leftovers are the keys of the first relations and links of a deleted entity, both keys
// of each.
func leftovers(t part.View, owner, num uint32) (keys [][]byte, err error) {
	stop := func() error {
		if len(keys) >= cleanBatch {
			return kv.ErrStop
		}
		return nil
	}
	for _, sec := range []byte{secOut, secIn, secOldOut, secOldIn} {
		err := each(t, be32(section(t, kindArc, owner, sec, numSize), num), func(key, value []byte) error {
			both, err := pairOf(t, owner, sec, key, value)
			keys = append(keys, both...)
			return cmp.Or(err, stop())
		})
		if err != nil || len(keys) >= cleanBatch {
			return keys, err
		}
	}
	err = each(t, be32(section(t, kindGraph, owner, secLink, numSize), num), func(key, _ []byte) error {
		seq := binary.BigEndian.Uint64(key[len(key)-seqSize:])
		keys = append(keys, linkKey(t, owner, num, seq), linkedKey(t, owner, seq, num))
		return stop()
	})
	return keys, err
}

// pairOf are the keys of a relation: both ends, those of the memories that tell of it, and its
// ID where it has one of its own.
func pairOf(v part.View, owner uint32, sec byte, key, value []byte) (keys [][]byte, err error) {
	a, born, ok := parseArc(key)
	if !ok {
		return nil, layout.BadKey("relation", key)
	}
	if sec == secIn || sec == secOldIn {
		a = a.reversed()
	}
	if a.number == 0 {
		if keys, err = saidKeys(v, owner, a); err != nil {
			return nil, err
		}
	}
	if sec == secOldOut || sec == secOldIn {
		return append(keys, oldArcKey(v, owner, secOldOut, a, born), oldArcKey(v, owner, secOldIn, a.reversed(), born)), nil
	}
	keys = append(keys, outKey(v, owner, a), inKey(v, owner, a))
	if a.number == 0 {
		return keys, nil
	}
	if sec == secIn {
		if value, _, err = v.Get(outKey(v, owner, a)); err != nil || value == nil {
			return keys, err
		}
	}
	t, err := decodeTie(value)
	if err != nil || t.id == "" {
		return keys, err
	}
	id := idKey(v, owner, secGivenID, t.id)
	b, found, err := v.Get(id)
	if err == nil && found {
		var has arc
		if has, err = decodeArc(b); err == nil && has == a { // else another relation has it by now
			keys = append(keys, id)
		}
	}
	return keys, err
}
