package graph

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// editor changes the graph of an owner. It reads all that it needs before it writes
// anything: so a change that is refused leaves nothing, and the store has no need to make
// the transaction searchable, which would take most of the time of a large batch.
type editor struct {
	t      part.Tx
	part   *Part
	doing  string
	reader reader
	fresh  bool // the owner is new: nothing of it is there to be read
	own    owned

	subjects map[string]*subject
	numbers  map[string]uint32 // of entities, as they are stored, that number has read; 0: none
	order    []*subject        // in the order of their coming
	types    [3]map[string]uint32
	added    []addedType
	ties     map[arc]*change
	list     []*change         // of the ties, in the order of their coming
	pasts    []*change         // superseded versions that an import brings
	former   map[string]uint32 // the numbers that it gives to IDs of relations that are no more
	joined   *joint            // what a merge or its undoing does beside
	merges   *bool             // whether the owner has merges; nil: it was not asked
	literal  bool              // the ends of relations are those of their IDs, merged or not
}

// subject is an entity that a change names.
type subject struct {
	id      string
	number  uint32
	old     *node // as it is stored, nil if it is not
	now     *node // as it will be, nil: as it is
	created bool  // it was not there, or was a forward reference
	isNew   bool  // its number is new
	read    bool  // old is known
}

type addedType struct {
	class  byte
	number uint32
	name   string
}

// change is a relation that a change names.
type change struct {
	arc
	old *tie // nil: it is not there
	now tie
}

func newEditor(t part.Tx, p *Part, doing string, o scope.Owner) (*editor, error) {
	e := &editor{t: t, part: p, doing: doing, subjects: map[string]*subject{}, ties: map[arc]*change{}}
	owner, known, err := t.Owner(o)
	if err != nil {
		return nil, err
	}
	e.reader = reader{View: t, owner: owner}
	if known {
		if e.own, err = e.reader.owned(); err != nil {
			return nil, err
		}
	}
	if e.fresh = e.own.lastEntity == 0; e.fresh {
		e.own.born = t.LSN()
	}
	e.own.Owner = o
	return e, nil
}

// write makes the changes of a batch.
func (e *editor) write(c *checked, opts *Options) (w Written, err error) {
	w = Written{Entities: make([]Stored, len(c.entities)), Relations: make([]Stored, len(c.relations)), LSN: e.t.LSN()}
	subjects := make([]*subject, len(c.entities))
	for i := range c.entities {
		if subjects[i], err = e.entity(&c.entities[i], c.types[i]); err != nil {
			return Written{}, err
		}
	}
	changes, err := e.relations(c.relations, opts)
	if err != nil {
		return Written{}, err
	}
	for i, s := range subjects {
		w.Entities[i] = Stored{ID: s.id, Created: s.created, Updated: !s.created && s.now != nil}
	}
	for i, ch := range changes {
		id := ch.now.id
		if id == "" && len(c.relations) < bulk {
			id = derivedID(c.relations[i].from, c.relations[i].typ, c.relations[i].to)
		}
		w.Relations[i] = Stored{ID: id, Created: ch.old == nil, Updated: ch.old != nil && ch.changed()}
		if len(c.relations) < bulk {
			w.Relations[i].WaitsFor = e.notThere(&c.relations[i])
		}
	}
	before := e.own.entities
	wrote, err := e.flush()
	w.NewEntities = int(e.own.entities - before)
	if !wrote {
		w.LSN-- // nothing is to be committed
	}
	return w, err
}

// notThere are the ends of a relation that no entity is yet. They were loaded.
func (e *editor) notThere(w *wanted) (ids []string) {
	for _, id := range []string{w.from, w.to} {
		s := e.subjects[id]
		if there := s.real() || s.old != nil && s.old.into != 0; !there && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// bulk is the number of relations from which on a batch does not tell the IDs that follow
// from triples nor which ends are not there, and reads the relations that are there in one pass.
const bulk = 64

// subject is the entity of an ID, which gets a number where it has none.
func (e *editor) subject(id string) (*subject, error) {
	if s := e.subjects[id]; s != nil {
		return s, nil
	}
	s := &subject{id: id}
	if num, read := e.numbers[id]; read {
		s.number = num
	} else if !e.fresh {
		num, err := e.reader.number(id)
		if err != nil {
			return s, err
		}
		s.number = num
	}
	if s.number == 0 {
		if err := next(e.doing, "entities", &e.own.lastEntity); err != nil {
			return s, err
		}
		s.number, s.isNew, s.read = e.own.lastEntity, true, true
	}
	e.subjects[id] = s
	e.order = append(e.order, s)
	return s, nil
}

// next gives out a number.
func next(doing, of string, last *uint32) error {
	if *last == ^uint32(0) {
		return &fault.Error{Kind: fault.ErrFull, What: doing, Why: "all numbers of " + of + " of this owner are in use", Do: "use another owner"}
	}
	*last++
	return nil
}

// load reads an entity as it is stored.
func (e *editor) load(s *subject) (err error) {
	if !s.read {
		s.old, err = e.reader.current(s.number)
		s.read = err == nil
		if err == nil && (s.old == nil || s.old.id != s.id) {
			return missing("entity", s.number, entityKey(e.t, e.reader.owner, s.number))
		}
	}
	return err
}

// real reports whether the entity will be there when the change is made.
func (s *subject) real() bool { return s.now != nil || s.old != nil && !s.old.forward }

// entity adds or changes an entity.
func (e *editor) entity(given *node, typ string) (*subject, error) {
	id := given.id
	if id == "" {
		id = e.newID()
	}
	s, err := e.subject(id)
	if err == nil {
		err = e.load(s)
	}
	if err != nil {
		return nil, err
	}
	base := s.now
	if base == nil && s.real() {
		base = s.old
	}
	n := node{id: id, extracted: given.extracted, first: e.t.LSN(), created: cmp.Or(given.created, e.t.Now()), updated: cmp.Or(given.updated, given.created, e.t.Now())}
	if base != nil {
		n = *base
		n.extracted = base.extracted && given.extracted
		n.created = cmp.Or(given.created, base.created)
	}
	n.name = cmp.Or(given.name, n.name)
	if n.properties, err = e.merged(n.properties, given.properties); err != nil {
		return nil, err
	}
	if n.aliases, err = addAliases(e.doing, n.aliases, given.aliases); err != nil {
		return nil, err
	}
	if typ != "" {
		if n.typ, err = e.typeNumber(classEntity, typ); err != nil {
			return nil, err
		}
	}
	if base != nil && sameNode(base, &n) {
		return s, nil
	}
	n.born, n.updated = e.t.LSN(), cmp.Or(given.updated, e.t.Now())
	s.created = s.created || base == nil
	s.now = &n
	return s, nil
}

// newID is a UUID that no entity of the owner has: it follows from the owner, from the
// number that the entity gets, and from the commit that gives it.
func (e *editor) newID() string {
	b := codec.AppendBytes(codec.AppendBytes(nil, e.own.User), e.own.Agent)
	b = binary.BigEndian.AppendUint32(b, e.own.lastEntity+1)
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, e.t.LSN()), uint64(e.t.Now()))
	return uuidOf(hashOf(string(b)))
}

func (e *editor) merged(old, change []byte) ([]byte, error) {
	if len(change) == 0 {
		return old, nil
	}
	b, err := mergeProperties(old, change)
	if err == nil && len(b) > MaxProperties {
		err = fault.Invalid(e.doing, fmt.Sprintf("its properties would be %d bytes of JSON, the limit is %d", len(b), MaxProperties), "remove some")
	}
	return b, err
}

// typeNumber is the number of a type, newly given if it has none.
func (e *editor) typeNumber(class byte, name string) (num uint32, err error) {
	if num = e.types[class][name]; num != 0 {
		return num, nil
	}
	if !e.fresh {
		if num, err = e.reader.typeNumber(class, name); err != nil {
			return 0, err
		}
	}
	if num == 0 {
		if e.own.lastType[class] == MaxTypes {
			return 0, fault.Invalid(e.doing, fmt.Sprintf("its owner has %d types of that, the limit", MaxTypes), "use the types that there are")
		}
		e.own.lastType[class]++
		num = e.own.lastType[class]
		e.added = append(e.added, addedType{class, num, name})
	}
	if e.types[class] == nil {
		e.types[class] = map[string]uint32{}
	}
	e.types[class][name] = num
	return num, nil
}

// relations adds or changes relations, and returns the change of each.
func (e *editor) relations(want []wanted, opts *Options) ([]*change, error) {
	if len(want) >= bulk {
		if err := e.number(want); err != nil {
			return nil, err
		}
	}
	changes := make([]*change, len(want))
	fresh, room := make([]*change, 0, len(want)), make([]change, len(want))
	for i := range want {
		w := &want[i]
		a, err := e.arc(w, opts)
		if err != nil {
			return nil, err
		}
		ch := e.ties[a]
		if ch == nil {
			ch = &room[i]
			ch.arc = a
			e.ties[a] = ch
			e.list = append(e.list, ch)
			fresh = append(fresh, ch)
		}
		changes[i] = ch
	}
	if err := e.loadTies(fresh); err != nil {
		return nil, err
	}
	for i := range want {
		if err := e.tie(changes[i], &want[i]); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// number reads the numbers of the ends of many relations: in the order of the keys, by one
// iterator, which takes a fifth of the time of as many single reads.
func (e *editor) number(want []wanted) error {
	e.ties, e.list = make(map[arc]*change, len(want)), slices.Grow(e.list, len(want))
	if e.fresh {
		return nil
	}
	type unread struct {
		hash [hashSize]byte
		id   string
	}
	var all []unread
	asked := make(map[string]bool, len(e.subjects))
	for i := range want {
		for _, id := range []string{want[i].from, want[i].to} {
			if e.subjects[id] == nil && !asked[id] {
				asked[id] = true
				all = append(all, unread{hashOf(id), id})
			}
		}
	}
	slices.SortFunc(all, func(a, b unread) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	prefix := section(e.t, kindGraph, e.reader.owner, secID, hashSize)
	it, err := e.t.Iter(span(prefix))
	if err != nil {
		return err
	}
	e.numbers = make(map[string]uint32, len(all))
	return closing(it, func() error {
		key := slices.Clone(prefix)
		for i := range all {
			key = append(key[:len(prefix)], all[i].hash[:]...)
			e.numbers[all[i].id] = 0
			if !it.SeekGE(key) || !bytes.Equal(it.Key(), key) {
				continue
			}
			value, err := it.ValueAndErr()
			if err == nil {
				e.numbers[all[i].id], err = number(value)
			}
			if err != nil {
				return err
			}
		}
		return it.Error()
	}())
}

// arc names a relation by numbers, and its ends by the IDs of these.
func (e *editor) arc(w *wanted, opts *Options) (a arc, err error) {
	own := w.id != "" && w.id != derivedID(w.from, w.typ, w.to)
	from, err := e.end(w.from, opts)
	if err != nil {
		return arc{}, err
	}
	to, err := e.end(w.to, opts)
	if err != nil {
		return arc{}, err
	}
	a.from, a.to = from.number, to.number
	w.from, w.to = from.id, to.id
	if a.typ, err = e.typeNumber(classRelation, w.typ); err != nil {
		return arc{}, err
	}
	if !own {
		w.id = ""
		return a, nil
	}
	return e.given(a, w.id)
}

// end is an end of a relation. An ID that was merged leads to the entity that it was merged
// into, unless the change is about what was before the merge.
func (e *editor) end(id string, opts *Options) (*subject, error) {
	s, err := e.subject(id)
	if err != nil || s.now != nil || e.literal {
		return s, err
	}
	if s, err = e.survivor(s, opts); err != nil {
		return nil, err
	}
	if s.real() || !opts.Strict && !opts.Create {
		return s, nil
	}
	if opts.Strict {
		return nil, notFound(e.doing, id)
	}
	s.created = true
	s.now = &node{id: s.id, first: e.t.LSN(), born: e.t.LSN(), created: e.t.Now(), updated: e.t.Now()}
	return s, nil
}

// survivor is the entity that one was merged into, or itself. It reads entities of a large
// change only where the owner has merges, or the options ask what is there.
func (e *editor) survivor(s *subject, opts *Options) (*subject, error) {
	if s.isNew {
		return s, nil
	}
	if e.numbers != nil && !opts.Strict && !opts.Create {
		if merges, err := e.hasMerges(); err != nil || !merges {
			return s, err
		}
	}
	for range maxMergedChain {
		if err := e.load(s); err != nil {
			return nil, err
		}
		if s.now != nil || s.old == nil || !s.old.forward || s.old.into == 0 {
			return s, nil
		}
		into, err := e.reader.current(s.old.into)
		if err != nil || into == nil {
			return nil, cmp.Or(err, missing("entity", s.old.into, entityKey(e.t, e.reader.owner, s.old.into)))
		}
		if s, err = e.subject(into.id); err != nil {
			return nil, err
		}
	}
	return nil, layout.BadKey("merge", mergedKey(e.t, e.reader.owner, s.old.into, s.number))
}

// hasMerges reports whether an entity of the owner was merged into another.
func (e *editor) hasMerges() (bool, error) {
	if e.merges == nil {
		any := false
		err := each(e.t, section(e.t, kindGraph, e.reader.owner, secMerged, 0), func(_, _ []byte) error {
			any = true
			return kv.ErrStop
		})
		if err != nil {
			return false, err
		}
		e.merges = &any
	}
	return *e.merges, nil
}

// given is the arc of a relation that has an ID of its own.
func (e *editor) given(a arc, id string) (arc, error) {
	for _, ch := range e.list {
		if ch.now.id == id {
			return e.sameTriple(ch.arc, a, id)
		}
	}
	if !e.fresh {
		have, found, err := e.reader.holder(id)
		if err != nil {
			return arc{}, err
		}
		if found {
			return e.sameTriple(have, a, id)
		}
	}
	if err := next(e.doing, "relations", &e.own.lastRelation); err != nil {
		return arc{}, err
	}
	a.number = e.own.lastRelation
	e.ties[a] = &change{arc: a, now: tie{id: id}}
	e.list = append(e.list, e.ties[a])
	return a, nil
}

func (e *editor) sameTriple(have, want arc, id string) (arc, error) {
	if want.number = have.number; have != want {
		return arc{}, &fault.Error{
			Kind: fault.ErrExists, What: e.doing, Why: fmt.Sprintf("another relation has the ID %q", valid.Short(id)),
			Do: "give another ID, or none",
		}
	}
	return have, nil
}

// loadTies reads relations as they are stored: many in the order of their keys, by one
// iterator.
func (e *editor) loadTies(changes []*change) error {
	if e.fresh || len(changes) == 0 {
		return nil
	}
	if len(changes) < bulk {
		for _, ch := range changes {
			b, found, err := e.t.Get(outKey(e.t, e.reader.owner, ch.arc))
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			t, err := decodeTie(b)
			if err != nil {
				return err
			}
			ch.old = &t
		}
		return nil
	}
	sorted := slices.Clone(changes)
	slices.SortFunc(sorted, func(a, b *change) int { return a.arc.compare(b.arc) })
	it, err := e.t.Iter(span(section(e.t, kindArc, e.reader.owner, secOut, 0)))
	if err != nil {
		return err
	}
	return closing(it, func() error {
		key := section(e.t, kindArc, e.reader.owner, secOut, arcSize+numSize)
		head, there := len(key), true
		for i, ch := range sorted {
			key = appendArc(key[:head], ch.arc)
			if ch.arc.number != 0 {
				key = be32(key, ch.arc.number)
			}
			if i == 0 || bytes.Compare(it.Key(), key) < 0 { // else no key lies between the last one and this
				there = it.SeekGE(key)
			}
			if !there {
				break
			}
			if !bytes.Equal(it.Key(), key) {
				continue
			}
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			t, err := decodeTie(value)
			if err != nil {
				return err
			}
			ch.old = &t
		}
		return it.Error()
	}())
}

// tie is the relation as it will be.
func (e *editor) tie(ch *change, w *wanted) (err error) {
	base := ch.now
	switch {
	case base.born != 0: // changed by this batch before
	case ch.old != nil:
		base = *ch.old
	default:
		base = tie{extracted: true, born: e.t.LSN(), created: cmp.Or(w.created, e.t.Now()), id: w.id}
	}
	base.extracted = base.extracted && w.extracted
	if base.properties, err = e.merged(base.properties, w.properties); err != nil {
		return err
	}
	if w.bounds {
		base.from, base.to = cmp.Or(w.tie.from, base.from), cmp.Or(w.tie.to, base.to)
		if base.from != 0 && base.to != 0 && base.to <= base.from {
			return fault.Invalid(e.doing, "the relation's validity would end before it begins", "give both valid_from and valid_to")
		}
	}
	if ch.old == nil || !base.same(ch.old) {
		base.born = e.t.LSN()
		if ch.old != nil {
			base.created = cmp.Or(w.created, e.t.Now())
		}
	}
	ch.now = base
	return nil
}
