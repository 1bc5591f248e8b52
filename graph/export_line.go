package graph

import (
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Lines has a line for each entity and then one for each relation: by owner in the order
// of their first storing, and in the order of the keys. Relations that are superseded come
// behind the others, with the time at which they were, then links to memories, of entities and
// of relations, and merges last.
// Superseded versions of entities have no lines but what a merge needs to be undone.
func (*Part) Lines(v part.View, in scope.Scope, yield func(part.Line) error) error {
	return eachOwner(v, func(owner uint32, o *owned) error {
		if !scope.Contains(in, o.Scope()) {
			return nil
		}
		r := &reader{View: v, owner: owner}
		err := each(v, section(v, kindGraph, owner, secEntity, 0), func(_, value []byte) error {
			n, err := decodeNode(value)
			if err != nil || n.forward {
				return err
			}
			e, err := r.entity(o.Owner, &n)
			if err != nil {
				return err
			}
			return yield(&entityLine{EntityLine: NewEntityLine(e)})
		})
		if err != nil {
			return err
		}
		for _, sec := range []byte{secOut, secOldOut} {
			if err := r.relationLines(sec, o, yield); err != nil {
				return err
			}
		}
		if err := r.linkLines(o.Owner, yield); err != nil {
			return err
		}
		if err := r.saidLines(o.Owner, yield); err != nil {
			return err
		}
		return r.mergeLines(o.Owner, yield)
	})
}

// relationLines has a line for each relation of a section whose ends were not deleted.
func (r *reader) relationLines(sec byte, o *owned, yield func(part.Line) error) error {
	var from *node
	var fromNum uint32
	return each(r, section(r, kindArc, r.owner, sec, 0), func(key, value []byte) error {
		a, err := o.relation(sec, key)
		if err != nil {
			return err
		}
		if a.from != fromNum {
			if from, err = r.thereOrDoomed(a.from); err != nil {
				return err
			}
			fromNum = a.from
		}
		to, err := r.thereOrDoomed(a.to)
		if err != nil || to == nil || from == nil { // an end is deleted
			return err
		}
		t, err := decodeTie(value)
		if err != nil {
			return err
		}
		typ, err := r.typeName(classRelation, a.typ)
		if err != nil {
			return err
		}
		return yield(&relationLine{RelationLine: NewRelationLine(t.relation(o.Owner, from.id, typ, to.id))})
	})
}

// NewLine is an empty line of an entity, a relation, a link or a merge, nil for another type.
func (p *Part) NewLine(typ string) part.Line {
	switch typ {
	case TypeEntity:
		return &entityLine{part: p}
	case TypeRelation:
		return &relationLine{part: p}
	case TypeLink:
		return &linkLine{part: p}
	case TypeMerge:
		return &mergeLine{part: p}
	}
	return nil
}

// entityLine is an EntityLine on its way in or out of a database.
type entityLine struct {
	EntityLine
	part *Part
}

// Type is TypeEntity.
func (*entityLine) Type() string { return TypeEntity }

// Check returns why the line cannot be stored.
func (l *entityLine) Check() error {
	if l.ID == "" {
		return fmt.Errorf("an entity has no id")
	}
	return nil
}

// Owner is whose the entity is.
func (l *entityLine) Owner() scope.Owner { return scope.Owner{User: l.User, Agent: l.Agent} }

// SetOwner gives the entity to another owner.
func (l *entityLine) SetOwner(o scope.Owner) { l.User, l.Agent = o.User, o.Agent }

// Store puts the entity with its relations. What is there and says the same is left alone.
func (l *entityLine) Store(t part.Tx, upsert bool) (part.Outcome, error) {
	doing := fmt.Sprintf("store the entity %q", valid.Short(l.ID))
	n, edges := l.Entity()
	c, _, err := checkBatch(doing, &Batch{Entities: []Entity{n}, Relations: relationsOf(l.ID, edges)})
	if err == nil {
		err = scope.Check(doing, l.Owner().Scope())
	}
	if err != nil {
		return part.Unchanged, err
	}
	e, err := newEditor(t, l.part, doing, l.Owner())
	if err != nil {
		return part.Unchanged, err
	}
	s, err := e.entity(&c.entities[0], l.EntityType)
	if err != nil {
		return part.Unchanged, err
	}
	changes, err := e.relations(c.relations, &Options{})
	if err != nil {
		return part.Unchanged, err
	}
	differs, changed := s.now != nil && !s.created && !s.old.bare(), s.now != nil
	for _, ch := range changes {
		changed = changed || ch.changed()
		differs = differs || ch.old != nil && ch.changed()
	}
	switch {
	case !changed:
		return part.Unchanged, nil
	case differs && !upsert:
		return part.Unchanged, other(doing)
	}
	if s.created {
		return e.flushed(part.Stored)
	}
	return e.flushed(part.Updated)
}

// bare reports whether an entity exists only as the end of relations: nothing is lost where a line
// says what it is.
func (n *node) bare() bool {
	return n != nil && n.name == "" && n.typ == 0 && len(n.aliases) == 0 && len(n.properties) <= len("{}")
}

// flushed writes what has changed, for a line.
func (e *editor) flushed(o part.Outcome) (part.Outcome, error) {
	if _, err := e.flush(); err != nil {
		return part.Unchanged, err
	}
	return o, nil
}

func other(doing string) error {
	return &fault.Error{
		Kind: fault.ErrExists, What: doing, Why: "there is one that says something else",
		Do: "import with Upsert, or delete it first",
	}
}

// relationLine is a RelationLine on its way in or out of a database.
type relationLine struct {
	RelationLine
	part *Part
}

// Type is TypeRelation.
func (*relationLine) Type() string { return TypeRelation }

// Check returns why the line cannot be stored.
func (l *relationLine) Check() error {
	if l.From == "" || l.Relation == "" || l.To == "" {
		return fmt.Errorf("a relation lacks from, relation or to")
	}
	return nil
}

// Owner is whose the relation is.
func (l *relationLine) Owner() scope.Owner { return scope.Owner{User: l.User, Agent: l.Agent} }

// SetOwner gives the relation to another owner.
func (l *relationLine) SetOwner(o scope.Owner) { l.User, l.Agent = o.User, o.Agent }

// Store puts the relation. One that is there and says the same is left alone.
func (l *relationLine) Store(t part.Tx, upsert bool) (part.Outcome, error) {
	doing := fmt.Sprintf("store the relation of %q to %q", valid.Short(l.From), valid.Short(l.To))
	w := make([]wanted, 1)
	err := checkRelation(doing, &Relation{
		ID: l.ID, From: l.From, Type: l.Relation, To: l.To, Properties: l.Properties,
		ValidFrom: l.ValidFrom.Time, ValidTo: l.ValidTo.Time, CreatedAt: l.CreatedAt.Time, Extracted: l.Extracted,
	}, &w[0])
	if err == nil {
		err = scope.Check(doing, l.Owner().Scope())
	}
	if err != nil {
		return part.Unchanged, err
	}
	e, err := newEditor(t, l.part, doing, l.Owner())
	if err != nil {
		return part.Unchanged, err
	}
	if !l.SupersededAt.IsZero() {
		return e.past(&w[0], millis(l.SupersededAt.Time))
	}
	changes, err := e.relations(w, &Options{})
	if err != nil {
		return part.Unchanged, err
	}
	switch ch := changes[0]; {
	case ch.old == nil:
		return e.flushed(part.Stored)
	case !ch.changed():
		return part.Unchanged, nil
	case !upsert:
		return part.Unchanged, other(doing)
	}
	return e.flushed(part.Updated)
}

// past keeps a superseded version of a relation that another database had. It was never
// seen in this one, so its birth and its death are one: the first number that is free.
func (e *editor) past(w *wanted, diedAt int64) (part.Outcome, error) {
	id := w.id
	w.id, e.literal = "", true
	a, err := e.arc(w, &Options{})
	if err != nil {
		return part.Unchanged, err
	}
	if id != "" && id != derivedID(w.from, w.typ, w.to) {
		if a.number, err = e.numberOf(id, false); err != nil {
			return part.Unchanged, err
		}
		w.tie.id = id
	}
	t := w.tie
	if t.properties, err = e.merged(nil, w.properties); err != nil {
		return part.Unchanged, err
	}
	t.diedAt = diedAt
	free, known := uint64(1), false
	if !e.fresh {
		prefix := be32(appendArc(section(e.t, kindArc, e.reader.owner, secOldOut, arcSize+numSize), a), a.number)
		err := each(e.t, prefix, func(key, value []byte) error {
			have, err := decodeTie(value)
			if err != nil {
				return err
			}
			_, born, _ := parseArc(key)
			if born == free {
				free++
			}
			known = known || have.same(&t) && have.created == t.created && have.diedAt == t.diedAt
			return nil
		})
		if err != nil || known {
			return part.Unchanged, err
		}
	}
	t.born, t.died = free, free
	e.pasts = append(e.pasts, &change{arc: a, now: t})
	return e.flushed(part.Stored)
}
