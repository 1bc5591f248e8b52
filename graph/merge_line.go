package graph

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// TypeMerge is the type of lines of an export that hold merges of entities.
const TypeMerge = "merge"

const (
	// mergeLineRelations and mergeLineBytes bound the relations of one line, which has at
	// least one of those that are left: others follow in lines of the same merge.
	mergeLineRelations = 500
	mergeLineBytes     = 8 << 20
)

// MergeLine is a merge of two entities as one flat JSON object: what [Graph.Unmerge] needs.
// Where a merge has many relations, several lines have them; the first one has the rest.
type MergeLine struct {
	Type  string `json:"type"`
	Into  string `json:"into"` // the ID of the entity that stayed
	Gone  string `json:"gone"`
	User  string `json:"user"`
	Agent string `json:"agent"`
	// GoesOn: an earlier line of the merge has the entities and the links.
	GoesOn bool `json:"goes_on,omitzero"`
	// Entity is the one that is gone as it was; Before and After are the one that stayed, where
	// the merge has changed it.
	Entity *MergedEntity `json:"entity,omitzero"`
	Before *MergedEntity `json:"before,omitzero"`
	After  *MergedEntity `json:"after,omitzero"`
	// Relations are those of the entity that is gone. They ended with the merge.
	Relations []MergedRelation `json:"relations,omitzero"`
	// Links are to memories, and have moved.
	Links []MergedMemory `json:"links,omitzero"`
}

// MergedEntity is a version of an entity.
type MergedEntity struct {
	// These are as in EntityLine.
	EntityType string          `json:"entity_type"`
	Name       string          `json:"name"`
	Aliases    []string        `json:"aliases"`
	Properties json.RawMessage `json:"properties"`
	CreatedAt  clock.Instant   `json:"created_at,omitzero"`
	UpdatedAt  clock.Instant   `json:"updated_at,omitzero"`
	Extracted  bool            `json:"extracted,omitzero"`
}

// MergedRelation is a relation that ended with a merge.
type MergedRelation struct {
	// These are as in RelationLine.
	ID       string `json:"id"`
	From     string `json:"from"`
	Relation string `json:"relation"`
	To       string `json:"to"`
	MergedVersion
	// Had is what the entity that stayed had with the same triple; Made: what the merge made of
	// that has not changed since.
	Had  *MergedVersion `json:"had,omitzero"`
	Made bool           `json:"made,omitzero"`
	// OtherMerged: the entity at the other end was merged before.
	OtherMerged bool `json:"other_merged,omitzero"`
	// Taken: the ID is that of another relation by now.
	Taken bool `json:"taken,omitzero"`
}

// MergedVersion is what a relation says.
type MergedVersion struct {
	// These are as in RelationLine.
	Properties json.RawMessage `json:"properties"`
	ValidFrom  clock.Instant   `json:"valid_from,omitzero"`
	ValidTo    clock.Instant   `json:"valid_to,omitzero"`
	CreatedAt  clock.Instant   `json:"created_at,omitzero"`
	Extracted  bool            `json:"extracted,omitzero"`
}

// MergedMemory is a memory whose link has moved. Had: the entity that stayed was linked to it, too.
type MergedMemory struct {
	// Memory is its ID; Had: the entity that stayed had the link before.
	Memory string `json:"memory"`
	Had    bool   `json:"had,omitzero"`
}

// mergeLines has the lines of each merge of an owner that can be undone. A merge comes behind
// that of the entity which stayed, if that one was merged later.
func (r *reader) mergeLines(o scope.Owner, yield func(part.Line) error) error {
	merges := map[uint32][]uint32{} // what was merged, by what stayed
	err := each(r, section(r, kindGraph, r.owner, secMerged, 0), func(key, _ []byte) error {
		into := be32At(key, body)
		merges[into] = append(merges[into], be32At(key, body+numSize))
		return nil
	})
	if err != nil {
		return err
	}
	var stayed []uint32
	for _, num := range slices.Sorted(maps.Keys(merges)) {
		n, err := r.current(num)
		if err != nil {
			return err
		}
		if n.real() != nil {
			stayed = append(stayed, num)
		}
	}
	seen := map[uint32]bool{}
	for i := 0; i < len(stayed); i++ { // it grows
		into := stayed[i]
		if seen[into] {
			return layout.BadKey("merge", mergedKey(r, r.owner, into, merges[into][0])) // they lead round in circles
		}
		seen[into] = true
		for _, num := range merges[into] {
			if err := r.linesOfMerge(o, into, num, yield); err != nil {
				return err
			}
			if len(merges[num]) > 0 {
				stayed = append(stayed, num)
			}
		}
	}
	return nil
}

func (r *reader) linesOfMerge(o scope.Owner, into, num uint32, yield func(part.Line) error) error {
	a, err := r.current(into)
	if err != nil {
		return err
	}
	b, err := r.current(num)
	if err != nil || a == nil || b == nil || b.into != into {
		return err
	}
	u, err := r.undoing(num, b)
	if err != nil {
		return err
	}
	l := MergeLine{Type: TypeMerge, Into: a.id, Gone: b.id, User: o.User, Agent: o.Agent}
	rest := l
	rest.GoesOn = true
	if err := r.describeMerge(&l, u); err != nil {
		return err
	}
	all, err := r.mergedRelations(u, num, into)
	if err != nil {
		return err
	}
	size := 0
	for i := range all {
		if len(l.Relations) == mergeLineRelations || size > mergeLineBytes {
			if err := yield(&mergeLine{MergeLine: l}); err != nil {
				return err
			}
			l, size = rest, 0
		}
		l.Relations = append(l.Relations, all[i])
		size += all[i].size()
	}
	return yield(&mergeLine{MergeLine: l})
}

// mergedRelations are the relations of a merge whose ends are there, by the names of these: a
// copy of the graph numbers them anew, and exports them in the same order.
func (r *reader) mergedRelations(u *undoing, num, into uint32) (all []MergedRelation, err error) {
	for i := range u.ended {
		m, there, err := r.mergedRelation(u, &u.ended[i], num, into)
		if err != nil {
			return nil, err
		}
		if there {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b MergedRelation) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.Relation, b.Relation), strings.Compare(a.To, b.To), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// size is about the bytes of a relation in a line, without what is bounded.
func (m *MergedRelation) size() int {
	n := len(m.Properties)
	if m.Had != nil {
		n += len(m.Had.Properties)
	}
	return n
}

// describeMerge adds the entities and the links of a merge to its line.
func (r *reader) describeMerge(l *MergeLine, u *undoing) (err error) {
	if l.Entity, err = r.mergedEntity(&u.was); err != nil {
		return err
	}
	if u.before != nil && u.after != nil {
		if l.Before, err = r.mergedEntity(u.before); err != nil {
			return err
		}
		if l.After, err = r.mergedEntity(u.after); err != nil {
			return err
		}
	}
	for _, link := range u.links {
		m, found, err := r.MemoryAt(link.seq)
		if err != nil {
			return err
		}
		if found && m.Owner == r.owner {
			l.Links = append(l.Links, MergedMemory{Memory: m.ID, Had: link.had})
		}
	}
	return nil
}

func (r *reader) mergedEntity(n *node) (*MergedEntity, error) {
	e, err := r.entity(scope.Owner{}, n)
	if err != nil {
		return nil, err
	}
	l := NewEntityLine(e)
	return &MergedEntity{
		EntityType: l.EntityType, Name: l.Name, Aliases: l.Aliases, Properties: l.Properties, CreatedAt: l.CreatedAt, UpdatedAt: l.UpdatedAt,
		Extracted: l.Extracted,
	}, nil
}

// mergedRelation is a relation of a merge for its line, false where an end is deleted.
func (r *reader) mergedRelation(u *undoing, t *endedTie, num, into uint32) (m MergedRelation, there bool, err error) {
	var ids [2]string
	for i, end := range []uint32{t.arc.from, t.arc.to} {
		n, err := r.current(end)
		if err != nil || n == nil {
			return m, false, err
		}
		ids[i] = n.id
		if end == t.other(num) && end != into {
			blocked, err := r.blocks(u, t, end, n)
			if err != nil {
				return m, false, err
			}
			m.OtherMerged = n.into != 0 && !blocked
		}
	}
	typ, err := r.typeName(classRelation, t.typ)
	if err != nil {
		return m, false, err
	}
	m.From, m.Relation, m.To = ids[0], typ, ids[1]
	if m.ID = t.id; m.ID == "" {
		m.ID = derivedID(m.From, m.Relation, m.To)
	} else {
		now, err := r.givenNumber(m.ID)
		if err != nil {
			return m, false, err
		}
		m.Taken = now != 0 && now != t.number
	}
	m.MergedVersion = t.version()
	if t.had != nil {
		had := t.had.version()
		m.Had = &had
		now, err := r.holding(t.replaced(num, into))
		if err != nil {
			return m, false, err
		}
		m.Made = now != nil && now.born == t.made
	}
	return m, true, nil
}

// holding is a relation as it holds now, nil for none.
func (r *reader) holding(a arc) (*tie, error) {
	b, found, err := r.Get(outKey(r, r.owner, a))
	if err != nil || !found {
		return nil, err
	}
	t, err := decodeTie(b)
	return &t, err
}

func (t *tie) version() MergedVersion {
	l := NewRelationLine(t.relation(scope.Owner{}, "", "", ""))
	return MergedVersion{Properties: l.Properties, ValidFrom: l.ValidFrom, ValidTo: l.ValidTo, CreatedAt: l.CreatedAt, Extracted: l.Extracted}
}

// mergeLine is a MergeLine on its way in or out of a database.
type mergeLine struct {
	MergeLine
	part *Part
}

// Type is TypeMerge.
func (*mergeLine) Type() string { return TypeMerge }

// Check returns why the line cannot be stored.
func (l *mergeLine) Check() error {
	const doing = "read a merge"
	if l.Into == "" || l.Gone == "" {
		return fmt.Errorf("a merge lacks into or gone")
	}
	if l.Into == l.Gone {
		return fmt.Errorf("a merge names one entity twice")
	}
	if l.Entity == nil && !l.GoesOn {
		return fmt.Errorf("a merge lacks the entity that is gone")
	}
	if len(l.Relations)+len(l.Links) > 2*MaxMerge {
		return fmt.Errorf("a merge has more than %d relations and links", 2*MaxMerge)
	}
	for _, id := range []string{l.Into, l.Gone} {
		if err := valid.Word(doing, "entity ID", id); err != nil {
			return err
		}
	}
	for _, e := range []*MergedEntity{l.Entity, l.Before, l.After} {
		if e != nil {
			if _, err := e.node(doing, l.Gone); err != nil {
				return err
			}
		}
	}
	for i := range l.Relations {
		if err := l.checkRelation(doing, &l.Relations[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkRelation refuses a relation that cannot be stored, or that the merge cannot have ended.
func (l *mergeLine) checkRelation(doing string, m *MergedRelation) error {
	if m.From != l.Gone && m.To != l.Gone {
		return fmt.Errorf("a merge has a relation that is not of the entity %q", valid.Short(l.Gone))
	}
	for _, v := range []*MergedVersion{&m.MergedVersion, m.Had} {
		if v == nil {
			continue
		}
		if _, err := v.wanted(doing, m); err != nil {
			return err
		}
	}
	return nil
}

// Owner is whose the merge is.
func (l *mergeLine) Owner() scope.Owner { return scope.Owner{User: l.User, Agent: l.Agent} }

// SetOwner gives the merge to another owner.
func (l *mergeLine) SetOwner(o scope.Owner) { l.User, l.Agent = o.User, o.Agent }

func (m *MergedEntity) node(doing, id string) (node, error) {
	return checkEntity(doing, &Entity{
		ID: id, Type: m.EntityType, Name: m.Name, Aliases: m.Aliases, Properties: m.Properties,
		CreatedAt: m.CreatedAt.Time, UpdatedAt: m.UpdatedAt.Time, Extracted: m.Extracted,
	})
}

// wanted is a version of a relation of the ends and the type of another.
func (v *MergedVersion) wanted(doing string, of *MergedRelation) (w wanted, err error) {
	err = checkRelation(doing, &Relation{
		ID: of.ID, From: of.From, Type: of.Relation, To: of.To, Properties: v.Properties,
		ValidFrom: v.ValidFrom.Time, ValidTo: v.ValidTo.Time, CreatedAt: v.CreatedAt.Time, Extracted: v.Extracted,
	}, &w)
	return w, err
}

// Store says that an entity which is not there was merged into one that is. It changes
// nothing where that is said already. ErrNotFound: the one that stayed is not there.
// ErrExists: the other one is, or was merged into a third.
func (l *mergeLine) Store(t part.Tx, _ bool) (part.Outcome, error) {
	doing := fmt.Sprintf("store the merge of the entity %q into %q", valid.Short(l.Gone), valid.Short(l.Into))
	if err := scope.Check(doing, l.Owner().Scope()); err != nil {
		return part.Unchanged, err
	}
	e, err := newEditor(t, l.part, doing, l.Owner())
	if err != nil {
		return part.Unchanged, err
	}
	if e.fresh {
		return part.Unchanged, notFound(doing, l.Into)
	}
	into, err := e.reader.number(l.Into)
	if err != nil {
		return part.Unchanged, err
	}
	a, err := e.reader.current(into)
	if err != nil {
		return part.Unchanged, err
	}
	if a == nil || a.forward && a.into == 0 {
		return part.Unchanged, notFound(doing, l.Into)
	}
	b, err := e.subject(l.Gone)
	if err == nil {
		err = e.load(b)
	}
	switch {
	case err != nil:
		return part.Unchanged, err
	case b.old != nil && b.old.into == into && into != 0:
		return l.goOn(e, b)
	case l.GoesOn:
		return part.Unchanged, notFound(doing, l.Gone)
	case b.old != nil && (!b.old.forward || b.old.into != 0):
		return part.Unchanged, &fault.Error{
			Kind: fault.ErrExists, What: doing, Why: fmt.Sprintf("the entity %q is there, or was merged into another", valid.Short(l.Gone)),
			Do: "delete it, or undo that merge, and import again",
		}
	}
	return l.storeFirst(e, b, into)
}

// storeFirst stores a merge of which nothing is there.
func (l *mergeLine) storeFirst(e *editor, b *subject, into uint32) (part.Outcome, error) {
	u := &undoing{}
	was, err := e.mergedNode(l.Entity, l.Gone)
	if err != nil {
		return part.Unchanged, err
	}
	u.was = *was
	if l.Before != nil && l.After != nil {
		if u.before, err = e.mergedNode(l.Before, l.Into); err != nil {
			return part.Unchanged, err
		}
		if u.after, err = e.mergedNode(l.After, l.Into); err != nil {
			return part.Unchanged, err
		}
	}
	for _, m := range l.Links {
		at, found, err := e.t.Memory(l.Owner(), m.Memory)
		if err != nil {
			return part.Unchanged, err
		}
		if found {
			u.links = append(u.links, movedLink{seq: at.Seq, had: m.Had})
		}
	}
	b.now = &node{forward: true, id: l.Gone, first: e.t.LSN(), born: e.t.LSN(), into: into}
	if err := l.addRelations(e, u, b.number, into); err != nil {
		return part.Unchanged, err
	}
	return l.flush(e, u, b.number, into, part.Stored)
}

// goOn adds relations to a merge that an import has brought, and leaves those that it has.
func (l *mergeLine) goOn(e *editor, b *subject) (part.Outcome, error) {
	record, found, err := e.reader.Get(mergedKey(e.t, e.reader.owner, b.old.into, b.number))
	if err != nil {
		return part.Unchanged, err
	}
	if !found {
		return part.Unchanged, missing("merge of the entity", b.number, mergedKey(e.t, e.reader.owner, b.old.into, b.number))
	}
	u, imported, err := decodeMerge(record)
	if err != nil || !imported || !l.GoesOn {
		return part.Unchanged, err
	}
	had := len(u.ended)
	if err := l.addRelations(e, u, b.number, b.old.into); err != nil || len(u.ended) == had {
		return part.Unchanged, err
	}
	if len(u.ended) > MaxMerge {
		return part.Unchanged, e.bounded(len(u.ended))
	}
	return l.flush(e, u, b.number, b.old.into, part.Stored)
}

// mergedNode is a version of an entity as the record of a merge has it.
func (e *editor) mergedNode(m *MergedEntity, id string) (*node, error) {
	n, err := m.node(e.doing, id)
	if err != nil {
		return nil, err
	}
	if n.properties, err = e.merged(nil, n.properties); err != nil {
		return nil, err
	}
	if m.EntityType != "" {
		if n.typ, err = e.typeNumber(classEntity, m.EntityType); err != nil {
			return nil, err
		}
	}
	n.first, n.born = e.t.LSN(), e.t.LSN()
	return &n, nil
}

// addRelations adds the relations of the line that are not there.
func (l *mergeLine) addRelations(e *editor, u *undoing, num, into uint32) error {
	e.literal = true
	there := make(map[arc]bool, len(u.ended))
	for i := range u.ended {
		there[u.ended[i].arc] = true
	}
	for i := range l.Relations {
		m := &l.Relations[i]
		w, err := m.wanted(e.doing, m)
		if err != nil {
			return err
		}
		own := w.id
		w.id = ""
		t := endedTie{otherMerged: m.OtherMerged}
		if t.arc, err = e.arc(&w, &Options{}); err != nil {
			return err
		}
		if own != "" && own != derivedID(w.from, w.typ, w.to) {
			if t.number, err = e.numberOf(own, m.Taken); err != nil {
				return err
			}
			w.tie.id = own
		}
		if there[t.arc] {
			continue
		}
		if t.tie, err = e.version(w.tie, w.properties); err != nil {
			return err
		}
		if err := e.addHad(m, &t, num, into); err != nil {
			return err
		}
		u.ended = append(u.ended, t)
	}
	return nil
}

// addHad adds what the entity that stayed had in the place of a relation.
func (e *editor) addHad(m *MergedRelation, t *endedTie, num, into uint32) error {
	if m.Had == nil {
		return nil
	}
	w, err := m.Had.wanted(e.doing, m)
	if err != nil {
		return err
	}
	w.id = ""
	had, err := e.version(w.tie, w.properties)
	if err != nil {
		return err
	}
	t.had = &had
	t.had.id = ""
	now, err := e.reader.holding(t.replaced(num, into))
	if now != nil && m.Made {
		t.made = now.born
	}
	return err
}

// version is a version of a relation that lived in another database.
func (e *editor) version(t tie, properties []byte) (tie, error) {
	var err error
	t.properties, err = e.merged(nil, properties)
	t.born, t.created = e.t.LSN(), cmp.Or(t.created, e.t.Now())
	return t, err
}

// givenNumber is the number of the relation that has an ID of its own, 0 for none.
func (r *reader) givenNumber(id string) (uint32, error) {
	a, _, err := r.holder(id)
	return a.number, err
}

// numberOf is the number of a relation's own ID: that of the relation which has the ID, by
// whatever triple since a merge, unless it is another one, or the number that an import has
// given it, or a new one.
func (e *editor) numberOf(id string, taken bool) (num uint32, err error) {
	if num = e.former[id]; num != 0 {
		return num, nil
	}
	if !e.fresh {
		if !taken {
			if num, err = e.reader.givenNumber(id); err != nil || num != 0 {
				return num, err
			}
		}
		b, found, err := e.reader.Get(idKey(e.t, e.reader.owner, secFormerID, id))
		if err != nil {
			return 0, err
		}
		if found {
			return number(b)
		}
	}
	if err := next(e.doing, "relations", &e.own.lastRelation); err != nil {
		return 0, err
	}
	if e.former == nil {
		e.former = map[string]uint32{}
	}
	e.former[id] = e.own.lastRelation
	return e.own.lastRelation, nil
}

// flushFormer writes the numbers of IDs that relations had in another database.
func (e *editor) flushFormer() error {
	for id, num := range e.former {
		if err := e.t.Set(idKey(e.t, e.reader.owner, secFormerID, id), numberValue(num)); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the record of the merge, with the entities and types that are new.
func (l *mergeLine) flush(e *editor, u *undoing, num, into uint32, o part.Outcome) (part.Outcome, error) {
	record := u.encode()
	if err := e.t.Need(e.doing, e.size()+3*len(record)); err != nil {
		return part.Unchanged, err
	}
	if _, err := e.flush(); err != nil {
		return part.Unchanged, err
	}
	owner := e.reader.owner
	logged := binary.AppendUvarint(binary.AppendUvarint(numberValue(owner), uint64(into)), uint64(num))
	e.t.Log(opMerged, codec.AppendBytes(logged, record))
	return o, e.t.Set(mergedKey(e.t, owner, into, num), record)
}
