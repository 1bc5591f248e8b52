package graph

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// Entities, relations, links and types are the truth of a graph. The keys by which they are
// found follow from them, and so do the counts of an owner: Mend makes these again. It looks
// at keys in the order of the store, and changes what is wrong in commits of bounded size, so
// that an interrupted Mend has mended what it has come to.

const (
	// mendKeys and mendFixes bound what Mend looks at in one state, and what it changes in
	// one commit; mendBytes bounds the commit where names are long.
	mendKeys  = 4096
	mendFixes = 256
	mendBytes = 1 << 20

	doingMend = "rebuild the graph"
)

// Mend writes the keys that are missing by which entities, relations, links and types are
// found, removes those that lead to nothing or cannot be read, and corrects the counts of
// owners. progress, if it is not nil, is told how many keys were looked at, and 0: nobody
// knows of how many. It returns how many keys led to nothing.
func (p *Part) Mend(ctx context.Context, run part.Runner, progress func(done, of int64)) (removed int64, err error) {
	m := &mender{part: p, run: run, progress: progress, owners: map[uint32]bool{}}
	for _, kind := range []byte{kindGraph, kindArc} { // a relation's ID is looked at before the relation
		if err := m.sweep(ctx, kind); err != nil {
			return m.removed, err
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(m.owners)) {
		if err := m.recount(ctx, owner); err != nil {
			return m.removed, err
		}
	}
	if progress != nil {
		progress(m.looked, m.looked)
	}
	return m.removed, nil
}

// mender is a Mend in progress.
type mender struct {
	part     *Part
	run      part.Runner
	progress func(done, of int64)
	owners   map[uint32]bool // that have keys
	looked   int64
	removed  int64
}

// sweep mends what is wrong about the keys of a kind.
func (m *mender) sweep(ctx context.Context, kind byte) error {
	var from []byte
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var wrong [][]byte
		err := m.run.View(ctx, doingMend, func(v part.View) (err error) {
			lower, upper := span(v.Key(kind, 0))
			if from != nil {
				lower = from
			}
			wrong, from, err = m.look(v, lower, upper)
			return err
		})
		if err == nil {
			err = m.mend(ctx, wrong)
		}
		if err != nil || from == nil {
			return err
		}
		if m.progress != nil {
			m.progress(m.looked, 0)
		}
	}
}

// look looks at some keys, and returns those that something is wrong about, and the key to go
// on from, nil after the last.
func (m *mender) look(v part.View, lower, upper []byte) (wrong [][]byte, next []byte, err error) {
	it, err := v.Iter(lower, upper)
	if err != nil {
		return nil, nil, err
	}
	err = closing(it, func() error {
		x, seen := examiner{}, 0
		for ok := it.First(); ok; ok = it.Next() {
			if seen++; seen > mendKeys || len(wrong) >= mendFixes || x.size >= mendBytes {
				next = slices.Clone(it.Key())
				return nil
			}
			m.looked++
			value, err := it.ValueAndErr()
			if err != nil && !errors.Is(err, fault.ErrCorrupt) {
				return err
			}
			if owner, ok := ownerOf(it.Key()); ok {
				m.owners[owner] = true
			}
			if err := x.examine(v, it.Key(), value, err == nil); err != nil {
				return err
			}
			if len(x.fixes) > 0 {
				wrong, x.fixes = append(wrong, slices.Clone(it.Key())), nil
			}
		}
		return it.Error()
	}())
	return wrong, next, err
}

// mend examines keys again, as they are by now, and changes what is wrong.
func (m *mender) mend(ctx context.Context, keys [][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	removed := int64(0)
	err := m.run.Update(ctx, doingMend, func(t part.Tx) error {
		owners := map[uint32]bool{}
		for _, key := range keys {
			value, whole, there, err := get(t, key)
			if err != nil {
				return err
			}
			if !there {
				continue
			}
			x := examiner{}
			if err := x.examine(t, key, value, whole); err != nil {
				return err
			}
			if err := x.write(t); err != nil {
				return err
			}
			if owner, ok := ownerOf(key); ok && len(x.fixes) > 0 {
				owners[owner] = true
			}
			removed += x.dangling
		}
		for _, owner := range slices.Sorted(maps.Keys(owners)) {
			m.changed(t, owner)
		}
		return nil
	})
	if err == nil {
		m.removed += removed
	}
	return err
}

// changed logs that keys of an owner were mended; what is in RAM of its graph was made of those
// of before.
func (m *mender) changed(t part.Tx, owner uint32) {
	t.Log(opMend, numberValue(owner))
	m.part.stage(t, owner, delta{all: true})
}

// get reads a key. It is not whole where its value cannot be read.
func get(v part.View, key []byte) (value []byte, whole, there bool, err error) {
	value, there, err = v.Get(key)
	if errors.Is(err, fault.ErrCorrupt) {
		return nil, false, true, nil
	}
	return value, there && err == nil, there, err
}

// examiner says what is to be changed for a key to be right.
type examiner struct {
	reader
	fixes    []fix
	size     int   // of all keys and values to be set
	dangling int64 // keys that lead to nothing
}

// fix is a key to be set, or removed.
type fix struct {
	key, value []byte
	gone       bool
}

func (x *examiner) write(t part.Tx) error {
	size := 0
	for _, f := range x.fixes {
		size += 2 * (len(f.key) + len(f.value))
	}
	if size > 0 {
		if err := t.NeedToFree(doingMend, size+freed); err != nil {
			return err
		}
	}
	for _, f := range x.fixes {
		var err error
		if f.gone {
			err = t.Delete(f.key)
		} else {
			err = t.Set(f.key, f.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// want has a key set that follows from another.
func (x *examiner) want(key, value []byte) error {
	have, whole, _, err := get(x, key)
	if err == nil && (!whole || !bytes.Equal(have, value)) {
		x.fixes = append(x.fixes, fix{key: key, value: value})
		x.size += len(key) + len(value)
	}
	return err
}

func (x *examiner) drop(key []byte) {
	x.fixes = append(x.fixes, fix{key: slices.Clone(key), gone: true})
}

// follows has a key removed that is no good, which it follows from makes it again, or that
// follows from nothing.
func (x *examiner) follows(key []byte, good bool, from func() []byte) error {
	if !good {
		x.drop(key)
		return nil
	}
	_, _, there, err := get(x, from())
	if err == nil && !there {
		x.dangling++
		x.drop(key)
	}
	return err
}

// examine looks at a key, whose value is whole where it could be read.
func (x *examiner) examine(v part.View, key, value []byte, whole bool) error {
	owner, ok := ownerOf(key)
	if !ok {
		return nil
	}
	x.reader = reader{View: v, owner: owner}
	if key[0] == kindArc {
		return x.relation(key, value, whole)
	}
	rest, last := key[body:], be32At(key, len(key)-numSize)
	sized := func(n int) bool { return whole && len(rest) == n }
	switch key[body-1] {
	case secType:
		if sized(1 + numSize) {
			return x.want(typeNameKey(v, owner, rest[0], string(value)), numberValue(last))
		}
	case secTypeName:
		return x.typeName(key, value, whole && len(rest) > 1)
	case secEntity:
		if sized(numSize) {
			return x.entity(last, value)
		}
	case secID:
		return x.byID(key, value, sized(hashSize))
	case secName:
		return x.index(key, last, whole && len(rest) > numSize)
	case secMember:
		return x.index(key, last, sized(2*numSize))
	case secGivenID:
		return x.givenID(key, value, sized(hashSize))
	case secLink, secLinked, secSaid, secSaidBy:
		return x.ofMemory(v, key, sized)
	}
	return nil
}

// ofMemory examines a key that connects the graph to a memory: each has a key for the way back.
func (x *examiner) ofMemory(v part.View, key []byte, sized func(int) bool) error {
	rest, owner := key[body:], x.owner
	switch key[body-1] {
	case secLink:
		if sized(numSize + seqSize) {
			return x.want(linkedKey(v, owner, be64At(rest, numSize), be32At(rest, 0)), nil)
		}
	case secLinked:
		return x.follows(key, sized(seqSize+numSize), func() []byte { return linkKey(v, owner, be32At(key, len(key)-numSize), be64At(rest, 0)) })
	case secSaid:
		if sized(arcSize + seqSize) {
			return x.want(saidByKey(v, owner, be64At(rest, arcSize), saidArc(rest, 0)), nil)
		}
	case secSaidBy: // either end says all
		if sized(seqSize + arcSize) {
			return x.want(saidKey(v, owner, saidArc(rest, seqSize), be64At(rest, 0)), nil)
		}
		x.drop(key)
	}
	return nil
}

// typeName looks at a name of a type. Its number and its name say the same of each other, so
// that one that is lost is made again from the other.
func (x *examiner) typeName(key, value []byte, good bool) error {
	num, err := number(value)
	if !good || err != nil {
		x.drop(key)
		return nil
	}
	class, name := key[body], key[body+1:]
	at := typeKey(x, x.owner, class, num)
	have, whole, _, err := get(x, at)
	switch {
	case err != nil:
		return err
	case !whole:
		return x.want(at, slices.Clone(name))
	case !bytes.Equal(have, name):
		x.drop(key)
	}
	return nil
}

func (x *examiner) entity(num uint32, value []byte) error {
	n, err := decodeNode(value)
	if err != nil {
		return nil // check tells of it
	}
	if err := x.want(idKey(x, x.owner, secID, n.id), numberValue(num)); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(indexKeys(x, x.owner, num, &n))) {
		if err := x.want([]byte(key), nil); err != nil {
			return err
		}
	}
	return nil
}

// found looks at a key by which an entity is found, unless the entity cannot be read.
func (x *examiner) found(key []byte, num uint32, by func(n *node) bool) error {
	n, err := x.current(num)
	if errors.Is(err, fault.ErrCorrupt) {
		return nil
	}
	if err == nil && (n == nil || !by(n)) {
		x.dangling++
		x.drop(key)
	}
	return err
}

func (x *examiner) byID(key, value []byte, good bool) error {
	num, err := number(value)
	if !good || err != nil {
		x.drop(key)
		return nil
	}
	return x.found(key, num, func(n *node) bool {
		h := hashOf(n.id)
		return bytes.Equal(h[:], key[body:])
	})
}

func (x *examiner) index(key []byte, num uint32, good bool) error {
	if !good {
		x.drop(key)
		return nil
	}
	return x.found(key, num, func(n *node) bool { return indexKeys(x, x.owner, num, n)[string(key)] })
}

func (x *examiner) givenID(key, value []byte, good bool) error {
	a, err := decodeArc(value)
	if !good || err != nil {
		x.drop(key)
		return nil
	}
	b, whole, there, err := get(x, outKey(x, x.owner, a))
	if err != nil || there && !whole {
		return err
	}
	if there {
		r, err := decodeTie(b)
		if h := hashOf(r.id); err != nil || bytes.Equal(h[:], key[body:]) {
			return nil
		}
	}
	x.dangling++
	x.drop(key)
	return nil
}

// relation looks at a key of a relation, from either end.
func (x *examiner) relation(key, value []byte, whole bool) error {
	a, born, ok := parseArc(key)
	sec := key[body-1]
	good := ok && whole && (sec == secOldOut || sec == secOldIn) == (born != 0)
	switch sec {
	case secIn:
		return x.follows(key, good, func() []byte { return outKey(x, x.owner, a.reversed()) })
	case secOldIn:
		return x.follows(key, good, func() []byte { return oldArcKey(x, x.owner, secOldOut, a.reversed(), born) })
	case secOldOut:
		if good {
			return x.want(oldArcKey(x, x.owner, secOldIn, a.reversed(), born), nil)
		}
	case secOut:
		if good {
			return x.out(a, value)
		}
	}
	return nil
}

func (x *examiner) out(a arc, value []byte) error {
	if err := x.want(inKey(x, x.owner, a), nil); err != nil {
		return err
	}
	r, err := decodeTie(value)
	if err != nil || r.id == "" {
		return nil // check tells of it
	}
	for _, end := range []uint32{a.from, a.to} {
		if doomed, err := exists(x, doomedKey(x, x.owner, end)); err != nil || doomed {
			return err // another relation may have the ID by now
		}
	}
	key := idKey(x, x.owner, secGivenID, r.id)
	_, whole, _, err := get(x, key)
	if err != nil || whole {
		return err
	}
	return x.want(key, encodeArc(a))
}

// recount corrects the counts of an owner, and the highest numbers that were given out. Where
// they are wrong, it counts again while nobody writes.
func (m *mender) recount(ctx context.Context, owner uint32) error {
	wrong := false
	err := m.run.View(ctx, doingMend, func(v part.View) (err error) {
		_, wrong, err = recounted(v, owner, m.looking)
		return err
	})
	if err != nil || !wrong {
		return err
	}
	return m.run.Update(ctx, doingMend, func(t part.Tx) error {
		o, wrong, err := recounted(t, owner, func() {})
		if err != nil || !wrong {
			return err
		}
		if err := t.NeedToFree(doingMend, freed); err != nil {
			return err
		}
		m.changed(t, owner)
		return t.Set(ownerKey(t, owner), o.encode())
	})
}

// recounted is the record of an owner as it is to be, and whether it is another.
func recounted(v part.View, owner uint32, looking func()) (o owned, wrong bool, err error) {
	is, err := counted(v, owner, looking)
	if err != nil || is.lastEntity == 0 {
		return owned{}, false, err
	}
	b, whole, _, err := get(v, ownerKey(v, owner))
	if err != nil {
		return owned{}, false, err
	}
	says, bad := decodeOwned(b)
	if !whole || bad != nil {
		var known bool
		is.Owner, known, err = v.OwnerOf(owner)
		return is, known, err // without a name there is nobody whose it could be
	}
	is.Owner, is.born = says.Owner, says.born
	is.lastEntity, is.lastRelation = max(is.lastEntity, says.lastEntity), max(is.lastRelation, says.lastRelation)
	for class := range is.lastType {
		is.lastType[class] = max(is.lastType[class], says.lastType[class])
	}
	return is, is != says, nil
}

func (m *mender) looking() {
	if m.looked++; m.progress != nil && m.looked%mendKeys == 0 {
		m.progress(m.looked, 0)
	}
}

// counted is the record of an owner as its keys say it. looking is called for each.
func counted(v part.View, owner uint32, looking func()) (o owned, err error) {
	r := &reader{View: v, owner: owner}
	doomed := map[uint32]bool{}
	if err := r.eachDoomed(func(num uint32) { doomed[num], o.lastEntity = true, max(o.lastEntity, num) }); err != nil {
		return o, err
	}
	visit := func(sec, kind byte, of func(key, value []byte, whole bool)) {
		if err != nil {
			return
		}
		err = eachRead(v, section(v, kind, owner, sec, 0), func(key, value []byte, whole bool) {
			looking()
			of(key, value, whole)
		})
	}
	visit(secEntity, kindGraph, func(key, value []byte, whole bool) {
		if n, err := decodeNode(value); whole && err == nil {
			if !n.forward {
				o.entities++
			}
			if o.born == 0 || n.first < o.born { // where the record is lost: changes before are told without names
				o.born = n.first
			}
		}
		o.lastEntity = max(o.lastEntity, be32At(key, body))
	})
	visit(secType, kindGraph, func(key, _ []byte, _ bool) {
		if class, num := key[body], be32At(key, body+1); len(key) == body+1+numSize && int(class) < len(o.lastType) && num <= MaxTypes {
			o.lastType[class] = max(o.lastType[class], num)
		}
	})
	visit(secOut, kindArc, func(key, value []byte, whole bool) {
		a, _, ok := parseArc(key)
		if _, err := decodeTie(value); ok && whole && err == nil && !doomed[a.from] && !doomed[a.to] {
			o.relations++
		}
		o.lastRelation = max(o.lastRelation, a.number)
	})
	visit(secOldOut, kindArc, func(key, _ []byte, _ bool) {
		a, _, _ := parseArc(key)
		o.lastRelation = max(o.lastRelation, a.number)
	})
	visit(secFormerID, kindGraph, func(_, value []byte, whole bool) {
		if num, err := number(value); whole && err == nil {
			o.lastRelation = max(o.lastRelation, num)
		}
	})
	return o, err
}

// eachRead visits the keys of a prefix, also those whose values cannot be read.
func eachRead(v part.View, prefix []byte, visit func(key, value []byte, whole bool)) error {
	it, err := v.Iter(prefix, layout.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	return closing(it, func() error {
		for ok := it.First(); ok; ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil && !errors.Is(err, fault.ErrCorrupt) {
				return err
			}
			visit(it.Key(), value, err == nil)
		}
		return it.Error()
	}())
}
