package graph

import (
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Check reports entities, relations, types and links that cannot be read, that lack a key
// by which they are found or the key of their other end; keys that lead to nothing; and
// counts that differ from what is there.
func (p *Part) Check(c part.Checker) error {
	k := &check{Checker: c, owners: map[uint32]*tally{}}
	if err := eachOwner(c, k.owner); err != nil {
		return err
	}
	if err := c.Each(kindDoomed, func(key, _ []byte) error {
		if t := k.owners[be32At(key, keyHeader)]; t != nil && (isLoose(key) || isLooseArc(key)) {
			return nil
		} else if t == nil || len(key) != keyHeader+ownerSize+numSize {
			c.Problem("graph: malformed key %x of a deleted entity", key)
		} else {
			t.doomed[be32At(key, keyHeader+ownerSize)] = true
		}
		return nil
	}); err != nil {
		return err
	}
	if err := c.Each(kindGraph, k.graph); err != nil {
		return err
	}
	if err := c.Each(kindArc, k.arc); err != nil {
		return err
	}
	for _, owner := range slices.Sorted(maps.Keys(k.owners)) {
		t := k.owners[owner]
		if t.entities != t.own.entities || t.relations != t.own.relations {
			c.Derived("graph of owner number %d: it has %d entities and %d relations, and its counts say %d and %d",
				owner, t.entities, t.relations, t.own.entities, t.own.relations)
		}
	}
	return nil
}

// check is a check in progress.
type check struct {
	part.Checker
	owners map[uint32]*tally
}

// tally is what was found of an owner.
type tally struct {
	*reader
	own                 owned
	entities, relations uint64
	doomed              map[uint32]bool
}

func (k *check) owner(owner uint32, o *owned) error {
	k.owners[owner] = &tally{reader: &reader{View: k, owner: owner}, own: *o, doomed: map[uint32]bool{}}
	if num, known, err := k.Owner(o.Owner); err != nil || !known || num != owner {
		k.Problem("graph of owner number %d: it names %q and %q, who have number %d", owner, o.User, o.Agent, num)
	}
	return nil
}

// of is the owner of a key, nil for a malformed one.
func (k *check) of(key []byte) *tally {
	owner, ok := ownerOf(key)
	if t := k.owners[owner]; ok && t != nil && len(key) >= body {
		return t
	}
	k.Problem("graph: the key %x belongs to no owner", key)
	return nil
}

// want reports a key that is missing, derives one that [Part.Mend] makes again.
func (k *check) want(key []byte, format string, args ...any) error {
	return k.missing(k.Problem, key, format, args)
}

func (k *check) derives(key []byte, format string, args ...any) error {
	return k.missing(k.Derived, key, format, args)
}

func (k *check) missing(report func(string, ...any), key []byte, format string, args []any) error {
	found, err := exists(k, key)
	if err == nil && !found {
		report("graph: "+format, args...)
	}
	return err
}

// keySection is how the keys of a section are checked: those whose length behind the section fits.
type keySection struct {
	fits  func(n int) bool
	check func(k *check, t *tally, key, rest, value []byte) error
}

func exactly(n int) func(int) bool { return func(m int) bool { return m == n } }

func above(n int) func(int) bool { return func(m int) bool { return m > n } }

var keySections = map[byte]keySection{
	secOwner: {exactly(0), func(*check, *tally, []byte, []byte, []byte) error { return nil }}, // see counters
	secType: {exactly(1 + numSize), func(k *check, t *tally, _, rest, value []byte) error {
		return k.derives(typeNameKey(t, t.owner, rest[0], string(value)), "the type %q is not found by its name", valid.Short(string(value)))
	}},
	secTypeName: {above(1), func(k *check, t *tally, _, rest, value []byte) error {
		return k.typeName(t, rest[0], string(rest[1:]), value)
	}},
	secID: {exactly(hashSize), func(k *check, t *tally, _, rest, value []byte) error { return k.byID(t, rest, value) }},
	secEntity: {exactly(numSize), func(k *check, t *tally, _, rest, value []byte) error {
		return k.entity(t, be32At(rest, 0), value)
	}},
	secOld: {exactly(numSize + lsnSize), func(k *check, t *tally, _, _, value []byte) error {
		_, err := decodeNode(value)
		return k.reads(t, err, "a superseded entity")
	}},
	secName:    {above(numSize), (*check).indexed},
	secMember:  {exactly(2 * numSize), (*check).indexed},
	secGivenID: {exactly(hashSize), func(k *check, t *tally, _, rest, value []byte) error { return k.givenID(t, rest, value) }},
	secFormerID: {exactly(hashSize), func(k *check, t *tally, _, _, value []byte) error {
		_, err := number(value)
		return k.reads(t, err, "a former ID of a relation")
	}},
	secLink: {exactly(numSize + seqSize), func(k *check, t *tally, key, _, _ []byte) error { return k.link(t, key) }},
	secMerged: {exactly(2 * numSize), func(k *check, t *tally, _, rest, value []byte) error {
		return k.merged(t, be32At(rest, 0), be32At(rest, numSize), value)
	}},
	secSaid: {exactly(arcSize + seqSize), func(k *check, t *tally, _, rest, _ []byte) error {
		a, seq := saidArc(rest, 0), be64At(rest, arcSize)
		return k.derives(saidByKey(t, t.owner, seq, a), "what memory %d tells of entity number %d is not found from the memory", seq, a.from)
	}},
	secSaidBy: {exactly(seqSize + arcSize), func(k *check, t *tally, _, rest, _ []byte) error {
		a, seq := saidArc(rest, seqSize), be64At(rest, 0)
		return k.derives(saidKey(t, t.owner, a, seq), "memory %d tells of a relation of entity number %d, which does not know it", seq, a.from)
	}},
	secKept: {exactly(seqSize), func(k *check, t *tally, _, rest, value []byte) error {
		if _, _, err := decodeHeld(value); err != nil {
			k.Problem("graph: what memory %d in the trash of owner number %d had: %v", be64At(rest, 0), t.owner, err)
		}
		return nil
	}},
	secLinked: {exactly(seqSize + numSize), func(k *check, t *tally, _, rest, _ []byte) error {
		last := be32At(rest, seqSize)
		return k.want(linkKey(t, t.owner, last, be64At(rest, 0)), "a memory is linked to entity number %d, which has no link to it", last)
	}},
}

func (k *check) graph(key, value []byte) error {
	t := k.of(key)
	if t == nil {
		return nil
	}
	rest := key[body:]
	s, known := keySections[key[body-1]]
	if !known || !s.fits(len(rest)) {
		k.Problem("graph: malformed key %x", key)
		return nil
	}
	return s.check(k, t, key, rest, value)
}

// reads says that a value of an owner cannot be read.
func (k *check) reads(t *tally, err error, what string) error {
	if err != nil {
		k.Problem("graph: %s of owner number %d: %v", what, t.owner, err)
	}
	return nil
}

// indexed checks a key by which an entity is found.
func (k *check) indexed(t *tally, key, _, _ []byte) error {
	return k.index(t, be32At(key, len(key)-numSize), key)
}

// merged checks the record of a merge.
func (k *check) merged(t *tally, into, num uint32, value []byte) error {
	if _, _, err := decodeMerge(value); err != nil {
		k.Problem("graph: the merge of entity number %d of owner number %d: %v", num, t.owner, err)
		return nil
	}
	n, err := t.current(num)
	if err != nil {
		return nil // it is reported
	}
	if n == nil || n.into != into {
		k.Problem("graph: entity number %d of owner number %d is said to be merged into number %d, and is not", num, t.owner, into)
	}
	return k.want(entityKey(t, t.owner, into), "entity number %d, which number %d was merged into, is missing", into, num)
}

func (k *check) typeName(t *tally, class byte, name string, value []byte) error {
	num, err := number(value)
	if err != nil {
		k.Derived("graph: the type %q: %v", valid.Short(name), err)
		return nil
	}
	b, found, err := t.Get(typeKey(t, t.owner, class, num))
	if err == nil && (!found || string(b) != name) {
		k.Derived("graph: the type %q has number %d, which is another's", valid.Short(name), num)
	}
	return err
}

func (k *check) byID(t *tally, hash, value []byte) error {
	num, err := number(value)
	if err != nil {
		k.Derived("graph: an ID of owner number %d: %v", t.owner, err)
		return nil
	}
	n, err := t.current(num)
	if err == nil && n != nil {
		if h := hashOf(n.id); string(h[:]) == string(hash) {
			return nil
		}
	}
	k.Derived("graph: an ID of owner number %d leads to entity number %d, which has another or is not there (%v)", t.owner, num, err)
	return nil
}

func (k *check) entity(t *tally, num uint32, value []byte) error {
	n, err := decodeNode(value)
	if err != nil {
		k.Problem("graph: entity number %d of owner number %d: %v", num, t.owner, err)
		return nil
	}
	if num > t.own.lastEntity {
		k.Derived("graph: the entity %q has number %d, and the highest that was given out is %d", valid.Short(n.id), num, t.own.lastEntity)
	}
	if !n.forward {
		t.entities++
	}
	if n.into != 0 {
		if err := k.want(mergedKey(t, t.owner, n.into, num), "the merge of the entity %q is not found", valid.Short(n.id)); err != nil {
			return err
		}
	}
	for key := range indexKeys(t, t.owner, num, &n) {
		if err := k.derives([]byte(key), "the entity %q is not found by a name or by its type", valid.Short(n.id)); err != nil {
			return err
		}
	}
	if n.typ != 0 {
		if err := k.want(typeKey(t, t.owner, classEntity, n.typ), "the type of the entity %q is missing", valid.Short(n.id)); err != nil {
			return err
		}
	}
	return k.derives(idKey(t, t.owner, secID, n.id), "the entity %q is not found by its ID", valid.Short(n.id))
}

// index checks a key of an index of entities.
func (k *check) index(t *tally, num uint32, key []byte) error {
	n, err := t.current(num)
	if err != nil {
		return nil // it is reported
	}
	if n == nil || !indexKeys(t, t.owner, num, n)[string(key)] {
		k.Derived("graph: an index says of entity number %d of owner number %d what it is not", num, t.owner)
	}
	return nil
}

func (k *check) givenID(t *tally, hash, value []byte) error {
	a, err := decodeArc(value)
	if err != nil {
		k.Derived("graph: the ID of a relation of owner number %d: %v", t.owner, err)
		return nil
	}
	b, found, err := t.Get(outKey(t, t.owner, a))
	if err != nil {
		return err
	}
	if r, err := decodeTie(b); found && err == nil {
		if h := hashOf(r.id); string(h[:]) == string(hash) {
			return nil
		}
	}
	k.Derived("graph: the ID of a relation of owner number %d leads to one that has another or is not there", t.owner)
	return nil
}

func (k *check) link(t *tally, key []byte) error {
	num, seq := be32At(key, body), be64At(key, body+numSize)
	if !t.doomed[num] {
		if err := k.want(entityKey(t, t.owner, num), "entity number %d is linked to memory %d, and is not there", num, seq); err != nil {
			return err
		}
	}
	return k.derives(linkedKey(t, t.owner, seq, num), "the link of entity number %d to memory %d is not found from the memory", num, seq)
}

func (k *check) arc(key, value []byte) error {
	t := k.of(key)
	if t == nil {
		return nil
	}
	a, born, ok := parseArc(key)
	sec := key[body-1]
	if old := born != 0; !ok || (sec == secOldOut || sec == secOldIn) != old {
		k.Problem("graph: malformed key %x of a relation", key)
		return nil
	}
	switch sec {
	case secIn:
		return k.want(outKey(t, t.owner, a.reversed()), "a relation to entity number %d of owner number %d is missing", a.from, t.owner)
	case secOldIn:
		return k.want(oldArcKey(t, t.owner, secOldOut, a.reversed(), born), "a superseded relation to entity number %d of owner number %d is missing", a.from, t.owner)
	case secOut, secOldOut:
		return k.tie(t, sec, a, born, value)
	}
	k.Problem("graph: malformed key %x of a relation", key)
	return nil
}

func (k *check) tie(t *tally, sec byte, a arc, born uint64, value []byte) error {
	r, err := decodeTie(value)
	if err != nil || sec == secOldOut && (r.born != born || r.died < born) {
		k.Problem("graph: the relation from entity number %d to %d of owner number %d cannot be read (%v)", a.from, a.to, t.owner, err)
		return nil
	}
	other := inKey(t, t.owner, a)
	if sec == secOldOut {
		other = oldArcKey(t, t.owner, secOldIn, a.reversed(), born)
	}
	if err := k.derives(other, "a relation from entity number %d of owner number %d is not found from its other end, %d", a.from, t.owner, a.to); err != nil {
		return err
	}
	if sec == secOut && !t.doomed[a.from] && !t.doomed[a.to] {
		t.relations++
	}
	for _, num := range []uint32{a.from, a.to} {
		if t.doomed[num] {
			continue
		}
		if err := k.want(entityKey(t, t.owner, num), "an end of a relation of owner number %d, entity number %d, is missing", t.owner, num); err != nil {
			return err
		}
	}
	return k.want(typeKey(t, t.owner, classRelation, a.typ), "the type of a relation from entity number %d of owner number %d is missing", a.from, t.owner)
}
