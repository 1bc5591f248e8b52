package graph

import (
	"context"
	"errors"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Describe returns entities as lines with their relations, inverses too, in the order of
// the IDs and without those that are not there. At most so many relations come with each,
// and more reports for each line whether it has others.
func (g Graph) Describe(ctx context.Context, o scope.Owner, ids []string, relations int, s State) (lines []EntityLine, more []bool, err error) {
	const doing = "describe entities"
	if relations < 0 {
		return nil, nil, fault.Invalid(doing, "the number of relations is negative", "give 0 or more")
	}
	err = g.view(ctx, doing, o, s.AsOf, func(r *reader) error {
		own, err := r.owned()
		if err != nil {
			return err
		}
		d := &describer{keys: newKeys(r, &own, millis(s.ValidAt)), most: relations}
		for _, id := range ids {
			num, n, err := r.find(id)
			if err != nil {
				return err
			}
			if n == nil {
				continue
			}
			e, err := r.entity(o, n)
			if err != nil {
				return err
			}
			l := NewEntityLine(e)
			left, err := d.edges(num, &l)
			if err != nil {
				return err
			}
			lines, more = append(lines, l), append(more, left)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return lines, more, nil
}

// describer adds relations to lines of entities.
type describer struct {
	*keys
	most int
}

// edges adds the relations of an entity, and reports whether there are more.
func (d *describer) edges(num uint32, l *EntityLine) (more bool, err error) {
	l.Relations = []EdgeLine{}
	for _, sec := range []byte{secOut, secIn} {
		lower, upper := span(be32(section(d, kindArc, d.owner, sec, numSize), num))
		err := d.arcs(sec, lower, upper, func(a arc, t *tie) error {
			if d.validAt != 0 && !t.holds(d.validAt) {
				return nil
			}
			other, err := d.entity(a.to)
			if err != nil || !other.there {
				return err
			}
			if more = len(l.Relations) == d.most; more {
				return kv.ErrStop
			}
			typ, err := d.typeName(classRelation, a.typ)
			if err != nil {
				return err
			}
			if sec == secIn {
				typ = InversePrefix + typ
			}
			l.Relations = append(l.Relations, EdgeLine{
				Target: other.id, Type: typ, ID: t.id, Properties: t.properties,
				ValidFrom: clock.Instant{Time: clock.FromMillis(t.from)}, ValidTo: clock.Instant{Time: clock.FromMillis(t.to)},
			})
			return nil
		})
		if err != nil || more {
			return more, err
		}
	}
	return false, nil
}

// Each calls entity for the entities of an owner, by their age, and then relation for the
// relations that hold, each in one state. Either may be nil.
func (g Graph) Each(ctx context.Context, o scope.Owner, entity func(Entity) error, relation func(Relation) error) error {
	return g.view(ctx, "read the graph", o, 0, func(r *reader) error {
		own, err := r.owned()
		if err != nil {
			return err
		}
		k := newKeys(r, &own, 0)
		err = each(r, section(r, kindGraph, r.owner, secEntity, 0), func(_, value []byte) error {
			n, err := decodeNode(value)
			if err != nil || n.forward || entity == nil {
				return err
			}
			e, err := r.entity(o, &n)
			if err != nil {
				return err
			}
			return errors.Join(ctx.Err(), entity(e))
		})
		if err != nil || relation == nil {
			return err
		}
		return each(r, section(r, kindArc, r.owner, secOut, 0), func(key, value []byte) error {
			a, err := own.relation(secOut, key)
			if err != nil {
				return err
			}
			from, err := k.entity(a.from)
			if err != nil || !from.there {
				return err
			}
			to, err := k.entity(a.to)
			if err != nil || !to.there {
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
			return errors.Join(ctx.Err(), relation(t.relation(o, from.id, typ, to.id)))
		})
	})
}
