package graph

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Degree is how many relations an entity has.
type Degree struct {
	// ID is the entity's.
	ID  string `json:"id"`
	Out int    `json:"out"` // that come from it
	In  int    `json:"in"`  // that go to it
}

// DegreeOptions changes what Degrees counts.
type DegreeOptions struct {
	// Type counts for entities of this type; empty: of any.
	Type string
	// Relation counts relations of this type; empty: of any.
	Relation string
	// Limit bounds the answer. 0: 10.
	Limit int
	State
}

// Degrees is the answer of Degrees.
type Degrees struct {
	Degrees []Degree // the most relations first, then the oldest
	Plan    Plan
}

// usualDegrees is how many entities Degrees returns where the caller names no limit.
const usualDegrees = 10

// Degrees returns the entities that have the most relations to and from entities that are
// there. A relation of an entity to itself counts in both directions.
func (g Graph) Degrees(ctx context.Context, o scope.Owner, opts DegreeOptions) (Degrees, error) {
	const doing = "count the relations of entities"
	if opts.Limit < 0 {
		return Degrees{}, fault.Invalid(doing, "the limit is negative", "give 0 or more")
	}
	var all []Degree
	plan, err := g.walk(ctx, doing, o, opts.State, func(w *walk) error {
		types, known, err := w.typesOf(opts.Type, opts.Relation)
		if err != nil || !known {
			return err
		}
		err = w.eachMember(types[classEntity], func(num uint32) error {
			d := Degree{}
			if d.Out, err = w.degree(num, Out, types[classRelation]); err != nil {
				return err
			}
			if d.In, err = w.degree(num, In, types[classRelation]); err != nil || d.Out+d.In == 0 {
				return err
			}
			d.ID, err = w.id(num)
			all = append(all, d)
			return err
		})
		return err
	})
	if err != nil {
		return Degrees{}, err
	}
	slices.SortStableFunc(all, func(a, b Degree) int { return cmp.Compare(b.Out+b.In, a.Out+a.In) })
	return Degrees{all[:min(len(all), cmp.Or(opts.Limit, usualDegrees))], plan}, nil
}

// typesOf are the numbers of a type of entities and one of relations, 0 for an empty name,
// and whether there are such types.
func (w *walk) typesOf(entity, relation string) (types [3]uint32, known bool, err error) {
	for class, name := range map[byte]string{classEntity: entity, classRelation: relation} {
		if name == "" {
			continue
		}
		if types[class], err = w.reader.typeNumber(class, name); err != nil || types[class] == 0 {
			return types, false, err
		}
	}
	return types, true, nil
}

// eachMember calls visit for the entities of a type, or of any for 0. It has read the list
// of them before, so that visit may use the source.
func (w *walk) eachMember(typ uint32, visit func(num uint32) error) error {
	var nums []uint32
	err := w.members(typ, func(num uint32) error {
		nums = append(nums, num)
		return w.node()
	})
	for _, num := range nums {
		if verr := visit(num); verr != nil {
			return verr
		}
	}
	return err
}

// degree counts the relations of an entity in one direction, whose other ends are there.
func (w *walk) degree(num uint32, dir Direction, typ uint32) (n int, err error) {
	edges, err := w.next(num, dir, typ)
	if err != nil {
		return 0, err
	}
	for _, e := range edges {
		_, there, err := w.is(e.other)
		if err != nil {
			return 0, err
		}
		if there {
			n++
		}
	}
	return n, nil
}

// TypeCount is how many entities or relations have a type.
type TypeCount struct {
	// Type is a type of entities or relations, Count how many there are of it.
	Type  string `json:"type"`
	Count int    `json:"count"`
}

// Counts is how many entities and relations there are of each type, the most first, then
// the type that was given first. Relations count whose ends are both there.
type Counts struct {
	// Entities and Relations count by type; Plan says whether all were counted.
	Entities  []TypeCount
	Relations []TypeCount
	Plan      Plan
}

// Counts counts the entities and the relations of an owner by their types. It reads all of
// them.
func (g Graph) Counts(ctx context.Context, o scope.Owner, s State) (c Counts, err error) {
	plan, err := g.walk(ctx, "count the graph by types", o, s, func(w *walk) error {
		entities, relations := map[uint32]int{}, map[uint32]int{}
		err := w.eachMember(0, func(num uint32) error {
			typ, _, err := w.is(num)
			if err != nil {
				return err
			}
			entities[typ]++
			edges, err := w.next(num, Out, 0)
			if err != nil {
				return err
			}
			for _, e := range edges {
				_, there, err := w.is(e.other)
				if err != nil {
					return err
				}
				if there {
					relations[e.typ]++
				}
			}
			return nil
		})
		if err != nil && w.plan.Limit == "" {
			return err
		}
		var nerr error
		if c.Entities, nerr = w.named(classEntity, entities); nerr != nil {
			return nerr
		}
		if c.Relations, nerr = w.named(classRelation, relations); nerr != nil {
			return nerr
		}
		return err
	})
	if err != nil {
		return Counts{}, err
	}
	c.Plan = plan
	return c, nil
}

// named are counts with the names of the types.
func (w *walk) named(class byte, counts map[uint32]int) (all []TypeCount, err error) {
	nums := make([]uint32, 0, len(counts))
	for num := range counts {
		nums = append(nums, num)
	}
	slices.SortFunc(nums, func(a, b uint32) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for _, num := range nums {
		name, err := w.reader.typeName(class, num)
		if err != nil {
			return nil, err
		}
		all = append(all, TypeCount{name, counts[num]})
	}
	return all, nil
}
