package graph

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

const doingErase = "take what is erased out of the graph"

// A thing is an entity, a relation or a type of an owner, by its numbers.
type thing struct {
	owner uint32
	class byte // thingEntity, thingRelation, or the class of a type
	arc   arc  // of an entity and a type the number alone
}

const (
	thingEntity   = 'e'
	thingRelation = 'r'
)

// Traces are the things of the graph that an erasure takes out of the log. Deleting a memory deletes
// the entities and relations that only its text named, but changes in the log still name them. An
// erasure notes what the commits of the memory name, retains what is gone, and removes from the log
// every change that is about it.
type Traces struct {
	things map[thing]bool
	// observations are the IDs of erased memories that were observations of entities: versions of an
	// entity in the log list their texts.
	observations map[string]bool
}

// NewTraces returns Traces that know the IDs of the erased memories.
func NewTraces(ids map[string]bool) *Traces {
	t := &Traces{map[thing]bool{}, map[string]bool{}}
	for id := range ids {
		if IsObservation(id) {
			t.observations[id] = true
		}
	}
	return t
}

// Note adds what a change in the log names.
func (t *Traces) Note(op part.Op, body []byte) {
	eachThing(op, body, func(g thing) { t.things[g] = true })
}

// Types reports whether the Traces have types.
func (t *Traces) Types() bool {
	for g := range t.things {
		if g.isType() {
			return true
		}
	}
	return false
}

func (g *thing) isType() bool { return g.class == classEntity || g.class == classRelation }

// eachThing visits what a change in the log names.
func eachThing(op part.Op, body []byte, visit func(thing)) {
	r := codec.NewReader(body)
	owner := r.Uint32()
	entity := func(num uint32) { visit(thing{owner, thingEntity, arc{number: num}}) }
	typed := func(class byte, num uint32) {
		if num != 0 {
			visit(thing{owner, class, arc{number: num}})
		}
	}
	relation := func(a arc) {
		typed(classRelation, a.typ)
		visit(thing{owner, thingRelation, a})
	}
	switch op {
	case opEntity:
		entity(r.Uint32())
		if n, err := decodeNode(r.Bytes()); err == nil {
			typed(classEntity, n.typ)
		}
	case opType:
		typed(r.Byte(), r.Uint32())
	case opRelations:
		for range r.Count() {
			relation(arc{r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()})
			r.Bytes()
		}
	case opDelete, opDeleted, opClean, opLink, opUnlink, opMention:
		entity(r.Uint32())
	case opEnd, opUnrelate, opPast, opSay, opUnsay:
		if a, err := decodeArc(r.Take(arcSize + numSize)); err == nil {
			relation(a)
		}
	case opMerge, opUnmerge, opMerged:
		entity(r.Uint32())
		entity(r.Uint32())
	}
}

// Retain keeps the things that no key of the graph has any more.
func (t *Traces) Retain(v part.View) error {
	used := map[uint32]map[thing]bool{} // types, by owner
	for g := range t.things {
		r := &reader{View: v, owner: g.owner}
		var is bool
		var err error
		switch g.class {
		case thingEntity:
			is, err = exists(v, entityKey(v, g.owner, g.arc.number))
		case thingRelation:
			is, err = r.anyVersion(g.arc)
		default:
			if used[g.owner] == nil {
				if used[g.owner], err = r.usedTypes(); err != nil {
					return err
				}
			}
			is = used[g.owner][g]
		}
		if err != nil {
			return err
		}
		if is {
			delete(t.things, g)
		}
	}
	return nil
}

// anyVersion reports whether there is a relation, or a superseded version of it.
func (r *reader) anyVersion(a arc) (bool, error) {
	is, err := exists(r, outKey(r, r.owner, a))
	if err != nil || is {
		return is, err
	}
	return r.any(be32(appendArc(section(r, kindArc, r.owner, secOldOut, arcSize+numSize), a), a.number))
}

// usedTypes are the types that entities and relations of the owner have, superseded ones and those
// of the trash and of merges, too. What cannot be read is left to a check.
func (r *reader) usedTypes() (map[thing]bool, error) {
	used := map[thing]bool{}
	typed := func(class byte, num uint32) { used[thing{r.owner, class, arc{number: num}}] = true }
	node := func(n *node) {
		if n.real() != nil {
			typed(classEntity, n.typ)
		}
	}
	for _, sec := range []struct {
		name byte
		read func(value []byte)
	}{
		{secEntity, func(value []byte) {
			if n, err := decodeNode(value); err == nil {
				node(&n)
			}
		}},
		{secOld, func(value []byte) {
			if n, err := decodeNode(value); err == nil {
				node(&n)
			}
		}},
		{secKept, func(value []byte) {
			h, _, err := decodeHeld(value)
			for i := 0; i < len(h.links) && err == nil; i++ {
				node(&h.links[i].node)
			}
			for i := 0; i < len(h.said) && err == nil; i++ {
				typed(classRelation, h.said[i].typ)
			}
		}},
		{secMerged, func(value []byte) {
			u, _, err := decodeMerge(value)
			if err != nil {
				return
			}
			node(&u.was)
			node(u.before)
			node(u.after)
			for i := range u.ended {
				typed(classRelation, u.ended[i].arc.typ)
			}
		}},
	} {
		err := each(r, section(r, kindGraph, r.owner, sec.name, 0), func(_, value []byte) error {
			sec.read(value)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, sec := range []byte{secOut, secOldOut} {
		err := each(r, section(r, kindArc, r.owner, sec, 0), func(key, _ []byte) error {
			if a, _, ok := parseArc(key); ok {
				typed(classRelation, a.typ)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return used, each(r, section(r, kindGraph, r.owner, secSaid, 0), func(key, _ []byte) error {
		typed(classRelation, saidArc(key, body).typ)
		return nil
	})
}

// Unused removes from the types those that a change of the log which stays needs.
func (t *Traces) Unused(op part.Op, body []byte) {
	if op == opType {
		return
	}
	eachThing(op, body, func(g thing) {
		if g.isType() {
			delete(t.things, g)
		}
	})
}

// Left returns the body of a change in the log without what is gone, nil where nothing stays. The
// types of changes that stay are still there: see Unused. types: only changes that give a type its
// number are looked at.
func (t *Traces) Left(op part.Op, body []byte, types bool) []byte {
	if types != (op == opType) {
		return body
	}
	if op == opRelations {
		return t.relationsLeft(body)
	}
	gone := false
	eachThing(op, body, func(g thing) { gone = gone || t.gone(g) && (op == opType || !g.isType()) })
	if op == opEntity && len(t.observations) > 0 && !gone {
		gone = t.observes(body)
	}
	if gone {
		return nil
	}
	return body
}

// gone reports whether a thing is gone, a relation also where one of its ends is.
func (t *Traces) gone(g thing) bool {
	if g.class != thingRelation || t.things[g] {
		return t.things[g]
	}
	return t.things[thing{g.owner, thingEntity, arc{number: g.arc.from}}] || t.things[thing{g.owner, thingEntity, arc{number: g.arc.to}}]
}

func (t *Traces) relationsLeft(body []byte) []byte {
	r := codec.NewReader(body)
	owner := r.Uint32()
	n, kept := r.Count(), 0
	var out []byte
	for range n {
		from := r.Rest()
		a := arc{r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()}
		r.Bytes()
		if !t.gone(thing{owner, thingRelation, a}) {
			out = append(out, from[:len(from)-r.Len()]...)
			kept++
		}
	}
	switch {
	case kept == n || r.Err() != nil:
		return body
	case kept == 0:
		return nil
	}
	return append(binary.AppendUvarint(numberValue(owner), uint64(kept)), out...)
}

// observes reports whether a version of an entity lists an erased observation.
func (t *Traces) observes(body []byte) bool {
	r := codec.NewReader(body)
	r.Uint32()
	r.Uint32()
	n, err := decodeNode(r.Bytes())
	if err != nil {
		return false
	}
	for id := range n.observed() {
		if t.observations[id] {
			return true
		}
	}
	return false
}

const tracesVersion = 1

// Encode returns the Traces as an erasure stores them.
func (t *Traces) Encode() []byte {
	b := binary.AppendUvarint([]byte{tracesVersion}, uint64(len(t.things)))
	for g := range t.things {
		b = append(b, g.class)
		for _, n := range []uint32{g.owner, g.arc.from, g.arc.typ, g.arc.to, g.arc.number} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(t.observations)))
	for id := range t.observations {
		b = codec.AppendBytes(b, id)
	}
	return b
}

// DecodeTraces reads what Encode wrote. It returns ErrCorrupt for damaged bytes.
func DecodeTraces(b []byte) (*Traces, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	t := NewTraces(nil)
	for range r.Count() {
		g := thing{class: r.Byte(), owner: r.Uint32()}
		g.arc = arc{r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()}
		t.things[g] = true
	}
	for range r.Count() {
		t.observations[r.String()] = true
	}
	if r.Err() != nil || r.Len() > 0 || v != tracesVersion {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read what an erasure takes out of the log of the graph", Cause: r.Err(), Do: "run check"}
	}
	return t, nil
}

// EraseTypes deletes the types among the Traces that nothing uses. They keep their numbers, which are
// never given again.
func (p *Part) EraseTypes(t part.Tx, of *Traces) error {
	if err := of.Retain(t); err != nil {
		return err
	}
	for g := range of.things {
		if !g.isType() {
			continue
		}
		key := typeKey(t, g.owner, g.class, g.arc.number)
		name, found, err := t.Get(key)
		if err != nil || !found {
			if err != nil {
				return err
			}
			continue
		}
		if err := t.NeedToFree(doingErase, len(name)+freed); err != nil {
			return err
		}
		if err := errors.Join(t.Delete(key), t.Delete(typeNameKey(t, g.owner, g.class, string(name)))); err != nil {
			return err
		}
		t.Log(opMend, numberValue(g.owner))
		p.stage(t, g.owner, delta{all: true}) // the types that it knows by name
	}
	return nil
}

// EraseMemories takes erased memories that were observations out of the properties of entities, in
// every version. ids are those of the memories. It may come again.
func (p *Part) EraseMemories(ctx context.Context, run part.Runner, owner uint32, ids map[string]bool) error {
	observations := NewTraces(ids).observations
	if len(observations) == 0 {
		return nil
	}
	var keys [][]byte
	err := run.View(ctx, doingErase, func(v part.View) error {
		for _, sec := range []byte{secEntity, secOld, secKept} {
			err := each(v, section(v, kindGraph, owner, sec, 0), func(key, value []byte) error {
				if without, _ := withoutObservations(key, value, observations); without != nil {
					keys = append(keys, slices.Clone(key))
				}
				return ctx.Err()
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	for ; len(keys) > 0 && err == nil; keys = keys[min(len(keys), eraseBatch):] {
		err = run.Update(ctx, doingErase, func(t part.Tx) error {
			for _, key := range keys[:min(len(keys), eraseBatch)] {
				if err := eraseObservations(t, owner, key, observations); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return err
}

// eraseBatch bounds the entities that one commit writes: each may have MaxProperties.
const eraseBatch = 16

func eraseObservations(t part.Tx, owner uint32, key []byte, ids map[string]bool) error {
	value, found, err := t.Get(key)
	if err != nil || !found {
		return err
	}
	without, err := withoutObservations(key, value, ids)
	if errors.Is(err, fault.ErrCorrupt) {
		return nil // check reports it, and the search of all files finds its text
	}
	if err != nil || without == nil {
		return err
	}
	if err := t.NeedToFree(doingErase, 2*len(without)+freed); err != nil {
		return err
	}
	if key[body-1] == secEntity {
		b := binary.AppendUvarint(numberValue(owner), uint64(be32At(key, body)))
		t.Log(opEntity, codec.AppendBytes(b, without))
	} else {
		t.Log(opMend, numberValue(owner))
	}
	return t.Set(key, without)
}

// withoutObservations is the value of a version of an entity, or of what a memory in the trash had,
// without some observations; nil where it has none of them.
func withoutObservations(key, value []byte, ids map[string]bool) ([]byte, error) {
	if key[body-1] != secKept {
		n, err := decodeNode(value)
		if err != nil || !n.forget(ids) {
			return nil, err
		}
		return n.encode(), nil
	}
	h, into, err := decodeHeld(value)
	if err != nil {
		return nil, err
	}
	has := false
	for i := range h.links {
		has = h.links[i].node.forget(ids) || has
	}
	if !has {
		return nil, nil
	}
	return h.encode(into), nil
}

// forget takes observations out of the properties of an entity, and reports whether it had one.
func (n *node) forget(ids map[string]bool) (had bool) {
	for id := range n.observed() {
		had = had || ids[id]
	}
	var p struct {
		Observations []json.RawMessage `json:"observations"`
	}
	if !had || json.Unmarshal(n.properties, &p) != nil {
		return false
	}
	texts := slices.DeleteFunc(p.Observations, func(raw json.RawMessage) bool {
		var text string
		return json.Unmarshal(raw, &text) == nil && ids[ObservationID(n.id, text)]
	})
	change, err := json.Marshal(map[string][]json.RawMessage{Observations: texts})
	if err != nil {
		return false
	}
	n.properties, err = mergeProperties(n.properties, change)
	return err == nil
}

// Sizes are how many entities and relations an owner has.
func Sizes(v part.View, owner uint32) (entities, relations int64, err error) {
	o, _, err := ownedOf(v, owner)
	return int64(o.entities), int64(o.relations), err
}

// NamesOf are the IDs and names of the entities that were extracted from texts and that a memory is
// linked to.
func NamesOf(v part.View, owner uint32, seq uint64) (names []string, err error) {
	r := &reader{View: v, owner: owner}
	nums, err := r.linkedTo(seq)
	if err != nil {
		return nil, err
	}
	for _, num := range nums {
		n, err := r.current(num)
		if err != nil || n.real() == nil || !n.extracted {
			continue // what cannot be read, check reports
		}
		names = append(append(names, n.id, n.name), n.aliases...)
	}
	return names, nil
}
