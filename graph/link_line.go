package graph

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// TypeLink is the type of lines of an export that hold links of entities to memories.
const TypeLink = "link"

// LinkLine is a link of an entity to a memory of its owner as one flat JSON object, or that of a
// relation to a memory whose text tells of it.
type LinkLine struct {
	Type   string `json:"type"`
	Entity string `json:"entity,omitzero"`
	// From, Relation and To name a relation in the place of the entity.
	From      string        `json:"from,omitzero"`
	Relation  string        `json:"relation,omitzero"`
	To        string        `json:"to,omitzero"`
	Memory    string        `json:"memory"`
	User      string        `json:"user"`
	Agent     string        `json:"agent"`
	CreatedAt clock.Instant `json:"created_at,omitzero"`
	// Mentioned: the text of the memory is the reason for the link.
	Mentioned bool `json:"mentioned,omitzero"`
}

// linkLines has a line for each link of an owner, by the age of the entities and of the
// memories. Links to memories that have expired have none.
func (r *reader) linkLines(o scope.Owner, yield func(part.Line) error) error {
	var from *node
	last := uint32(0)
	return each(r, section(r, kindGraph, r.owner, secLink, 0), func(key, value []byte) error {
		if num := be32At(key, body); num != last {
			var err error
			if from, err = r.current(num); err != nil {
				return err
			}
			last = num
		}
		if from.real() == nil { // it is deleted, and is to be cleaned up after
			return nil
		}
		m, found, err := r.MemoryAt(be64At(key, len(key)-seqSize))
		if err != nil || !found || m.Owner != r.owner {
			return err
		}
		at, n := binary.Varint(value)
		if n <= 0 {
			return layout.BadKey("link", key)
		}
		return yield(&linkLine{LinkLine: LinkLine{
			Type: TypeLink, Entity: from.id, Memory: m.ID, User: o.User, Agent: o.Agent,
			CreatedAt: clock.Instant{Time: clock.FromMillis(at)}, Mentioned: byMention(value),
		}})
	})
}

// saidLines has a line for each relation and each memory that tells of it.
func (r *reader) saidLines(o scope.Owner, yield func(part.Line) error) error {
	prefix := section(r, kindGraph, r.owner, secSaid, 0)
	return each(r, prefix, func(key, _ []byte) error {
		if len(key) != len(prefix)+arcSize+seqSize {
			return layout.BadKey("said relation", key)
		}
		a := saidArc(key, len(prefix))
		var ids [2]string
		for i, end := range []uint32{a.from, a.to} {
			n, err := r.thereOrDoomed(end)
			if err != nil || n == nil {
				return err
			}
			ids[i] = n.id
		}
		m, found, err := r.MemoryAt(be64At(key, len(key)-seqSize))
		if err != nil || !found || m.Owner != r.owner {
			return err
		}
		typ, err := r.typeName(classRelation, a.typ)
		if err != nil {
			return err
		}
		return yield(&linkLine{LinkLine: LinkLine{
			Type: TypeLink, From: ids[0], Relation: typ, To: ids[1], Memory: m.ID, User: o.User, Agent: o.Agent, Mentioned: true,
		}})
	})
}

// linkLine is a LinkLine on its way in or out of a database.
type linkLine struct {
	LinkLine
	part *Part
}

// Type is TypeLink.
func (*linkLine) Type() string { return TypeLink }

// Check returns why the line cannot be stored.
func (l *linkLine) Check() error {
	relation := l.From != "" || l.Relation != "" || l.To != ""
	switch {
	case l.Memory == "", l.Entity == "" && !relation:
		return fmt.Errorf("a link lacks entity or memory")
	case relation && (l.Entity != "" || l.From == "" || l.Relation == "" || l.To == ""):
		return fmt.Errorf("a link is of an entity, or of a relation with from, relation and to")
	}
	for what, word := range map[string]string{"entity ID": l.Entity, "memory ID": l.Memory, "ID of an end": l.From, "type of a relation": l.Relation, "ID of another end": l.To} {
		if err := valid.Word("read a link", what, word); err != nil {
			return err
		}
	}
	return nil
}

// Owner is whose the link is.
func (l *linkLine) Owner() scope.Owner { return scope.Owner{User: l.User, Agent: l.Agent} }

// SetOwner gives the link to another owner.
func (l *linkLine) SetOwner(o scope.Owner) { l.User, l.Agent = o.User, o.Agent }

// Store makes the link, unless it is there: ErrNotFound where one of its ends is not.
func (l *linkLine) Store(t part.Tx, _ bool) (part.Outcome, error) {
	if l.Relation != "" {
		return l.storeSaid(t)
	}
	doing := fmt.Sprintf("link the entity %q to a memory", valid.Short(l.Entity))
	if err := scope.Check(doing, l.Owner().Scope()); err != nil {
		return part.Unchanged, err
	}
	r, num, seq, err := linked(t, doing, l.Owner(), l.Entity, l.Memory)
	if err != nil {
		return part.Unchanged, err
	}
	there, err := exists(t, linkKey(t, r.owner, num, seq))
	if err != nil || there {
		return part.Unchanged, err
	}
	how := linkGiven
	if l.Mentioned {
		how = linkMentioned
	}
	at := t.Now()
	if !l.CreatedAt.IsZero() {
		at = millis(l.CreatedAt.Time)
	}
	return part.Stored, setLink(t, doing, r.owner, num, seq, how, at)
}

// storeSaid notes that a memory tells of a relation.
func (l *linkLine) storeSaid(t part.Tx) (part.Outcome, error) {
	doing := fmt.Sprintf("link the relation of %q to %q to a memory", valid.Short(l.From), valid.Short(l.To))
	e, err := newEditor(t, l.part, doing, l.Owner())
	if err != nil {
		return part.Unchanged, err
	}
	m, found, err := t.Memory(l.Owner(), l.Memory)
	if err == nil && (!found || e.fresh) {
		err = &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "its owner has no such memory or relation", Do: "import the memories first"}
	}
	if err != nil {
		return part.Unchanged, err
	}
	var a arc // by the names that the text had
	for id, to := range map[string]*uint32{l.From: &a.from, l.To: &a.to} {
		if *to, err = e.reader.number(id); err != nil || *to == 0 {
			return part.Unchanged, cmp.Or(err, notFound(doing, id))
		}
	}
	if l.From == l.To {
		a.to = a.from
	}
	if a.typ, err = e.reader.typeNumber(classRelation, l.Relation); err != nil || a.typ == 0 {
		return part.Unchanged, cmp.Or(err, notFound(doing, l.From))
	}
	there, err := exists(t, saidKey(t, e.reader.owner, a, m.Seq))
	if err != nil || there {
		return part.Unchanged, err
	}
	return part.Stored, say(t, doing, e.reader.owner, a, m.Seq)
}
