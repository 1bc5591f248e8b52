package graph

import (
	"errors"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Mentions are what a text says: entities by their names, and relations between those, whose
// ends are names.
type Mentions struct {
	Entities  []Entity // of which Name, Type and Properties count
	Relations []Relation
}

// MentionCount is what mentions have changed.
type MentionCount struct {
	Entities  int // new ones
	Relations int // new ones
	Links     int // new ones
	Unlinked  int // links of an earlier text, which the new one has no reason for
}

// Mention links a memory to the entities that its text names, in the commit that stores the
// memory. A name means the entity that has it as a name or an alias, of several the oldest of
// the same type, or else the oldest; failing that, the entity whose ID is the name in lower
// case; failing that, a new entity of that ID. An entity that is there stays as it is. Links
// that an earlier text of the memory was the reason for are removed, and entities and relations
// go that no text tells of any more and no caller has put. A name that no entity can
// have is left out.
func (p *Part) Mention(t part.Tx, o scope.Owner, seq uint64, m *Mentions) (n MentionCount, err error) {
	const doing = "link a memory to what it mentions"
	e, err := newEditor(t, p, doing, o)
	if err != nil {
		return n, err
	}
	ids := map[string]string{} // by folded name
	linked := map[uint32]bool{}
	for i := range m.Entities {
		s, err := e.mentioned(&m.Entities[i])
		if err != nil {
			return n, err
		}
		if s == nil {
			continue
		}
		ids[fold(m.Entities[i].Name)] = s.id
		linked[s.number] = true
		if s.created {
			n.Entities++
		}
	}
	var want []wanted
	for i := range m.Relations {
		r := &m.Relations[i]
		var w wanted
		from, to := ids[fold(r.From)], ids[fold(r.To)]
		if from != "" && to != "" && checkRelation(doing, &Relation{From: from, Type: r.Type, To: to, Extracted: true}, &w) == nil {
			want = append(want, w)
		}
	}
	changes, err := e.relations(want, &Options{})
	if err != nil {
		return n, err
	}
	for _, ch := range changes {
		if ch.old == nil {
			n.Relations++
		}
	}
	stale, err := e.reader.heldOf(seq, true)
	if err != nil {
		return n, err
	}
	if _, err := e.flush(); err != nil {
		return n, err
	}
	if err := e.tell(seq, changes, stale.said); err != nil {
		return n, err
	}
	return n, e.relink(seq, linked, stale.links, &n)
}

// tell notes the relations that a text tells of, and those that the text before it did alone go.
func (e *editor) tell(seq uint64, said []*change, stale []heldSaid) error {
	for _, ch := range said {
		if err := say(e.t, e.doing, e.reader.owner, ch.arc, seq); err != nil {
			return err
		}
	}
	for i := range stale {
		a := stale[i].arc
		if slices.ContainsFunc(said, func(ch *change) bool { return ch.arc == a }) {
			continue
		}
		if err := unsay(e.t, e.doing, e.reader.owner, a, seq); err != nil {
			return err
		}
		if err := e.part.dropUnsaid(e.t, e.doing, e.reader.owner, a); err != nil {
			return err
		}
	}
	return nil
}

// mentioned is the entity that a name means, nil where no entity can have the name.
func (e *editor) mentioned(given *Entity) (*subject, error) {
	n, err := checkEntity(e.doing, &Entity{
		Name: given.Name, Type: given.Type, Properties: given.Properties, Extracted: true,
	})
	folded := fold(given.Name)
	if err != nil || folded == "" || valid.Word("", "", folded) != nil {
		return nil, nil //nolint:nilerr // it cannot be stored, and the memory can
	}
	if !e.fresh {
		all, err := e.reader.named(given.Name)
		if err != nil {
			return nil, err
		}
		var found *subject
		for _, num := range slices.Sorted(maps.Keys(all)) {
			at, err := e.reader.current(num)
			if err != nil {
				return nil, err
			}
			if at.real() == nil {
				continue
			}
			typ, err := e.reader.typeName(classEntity, at.typ)
			if err != nil {
				return nil, err
			}
			if found != nil && typ != given.Type {
				continue
			}
			if found, err = e.subject(at.id); err != nil {
				return nil, err
			}
			if typ == given.Type {
				break
			}
		}
		if found != nil {
			return found, e.load(found)
		}
	}
	s, err := e.subject(folded)
	if err != nil {
		return nil, err
	}
	if err := e.load(s); err != nil || s.real() {
		return s, err
	}
	if s.old != nil && s.old.into != 0 { // it was merged into another
		return e.survivor(s, &Options{Strict: true})
	}
	n.id = folded
	return e.entity(&n, given.Type)
}

// linkedTo are the entities that a memory is linked to.
func (r *reader) linkedTo(seq uint64) (nums []uint32, err error) {
	prefix := be64(section(r, kindGraph, r.owner, secLinked, seqSize), seq)
	err = each(r, prefix, func(key, _ []byte) error {
		num := be32At(key, len(prefix))
		if len(key) != len(prefix)+numSize || num == 0 {
			return layout.BadKey("link", key)
		}
		nums = append(nums, num)
		return nil
	})
	return nums, err
}

// relink adds the links of a text, and removes those of the text before it.
func (e *editor) relink(seq uint64, linked map[uint32]bool, stale []heldLink, n *MentionCount) error {
	owner := e.reader.owner
	for _, num := range slices.Sorted(maps.Keys(linked)) {
		there, err := exists(e.t, linkKey(e.t, owner, num, seq))
		if err != nil {
			return err
		}
		if there {
			continue
		}
		n.Links++
		if err := setLink(e.t, e.doing, owner, num, seq, linkMentioned, e.t.Now()); err != nil {
			return err
		}
	}
	for i := range stale {
		num := stale[i].num
		if linked[num] {
			continue
		}
		n.Unlinked++
		if err := setLink(e.t, e.doing, owner, num, seq, noLink, 0); err != nil {
			return err
		}
		if err := e.part.dropLoose(e.t, e.doing, owner, num); err != nil {
			return err
		}
	}
	return nil
}

// Mentioned reports whether a memory is linked to an entity because of its text.
func (p *Part) Mentioned(v part.View, owner uint32, seq uint64) (bool, error) {
	h, err := (&reader{View: v, owner: owner}).heldOf(seq, true)
	return len(h.links) > 0, err
}

// linksUpTo are the memories that an entity is linked to, nil where these are more than most.
func (r *reader) linksUpTo(num uint32, most int) (seqs []uint64, err error) {
	err = each(r, be32(section(r, kindGraph, r.owner, secLink, numSize), num), func(key, _ []byte) error {
		if len(seqs) == most {
			seqs = nil
			return kv.ErrStop
		}
		seqs = append(seqs, be64At(key, len(key)-seqSize))
		return nil
	})
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return seqs, err
}
