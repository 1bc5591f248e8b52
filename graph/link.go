package graph

import (
	"context"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Link links an entity to a memory of the same owner, ErrNotFound where either is not
// there. It reports whether the link is new.
func (g Graph) Link(ctx context.Context, o scope.Owner, entity, memory string) (created bool, err error) {
	return g.link(ctx, fmt.Sprintf("link the entity %q to a memory", valid.Short(entity)), o, entity, memory, true)
}

// Unlink removes the link of an entity to a memory, and reports whether there was one. An
// entity that was only ever extracted from texts goes with its last link; see [Entity].
func (g Graph) Unlink(ctx context.Context, o scope.Owner, entity, memory string) (removed bool, err error) {
	return g.link(ctx, fmt.Sprintf("unlink the entity %q from a memory", valid.Short(entity)), o, entity, memory, false)
}

// link makes or removes a link, and reports whether that changed anything.
func (g Graph) link(ctx context.Context, doing string, o scope.Owner, entity, memory string, want bool) (changed bool, err error) {
	for what, id := range map[string]string{"entity ID": entity, "memory ID": memory} {
		if err := checkID(doing, what, id); err != nil {
			return false, err
		}
	}
	if err := scope.Check(doing, o.Scope()); err != nil {
		return false, err
	}
	err = g.run.Append(ctx, doing, linkBytes, func(t part.Tx) error {
		changed = false
		r, num, seq, err := linked(t, doing, o, entity, memory)
		if err != nil {
			return err
		}
		there, err := exists(t, linkKey(t, r.owner, num, seq))
		if err != nil || there == want {
			return err
		}
		changed = true
		how := linkGiven
		if !want {
			how = noLink
		}
		err = setLink(t, doing, r.owner, num, seq, how, t.Now())
		if err == nil && !want {
			err = g.part.dropLoose(t, doing, r.owner, num)
		}
		return err
	})
	return changed && err == nil, err
}

// linked are the ends of a link.
func linked(t part.View, doing string, o scope.Owner, entity, memory string) (r *reader, num uint32, seq uint64, err error) {
	m, found, err := t.Memory(o, memory)
	if err != nil {
		return nil, 0, 0, err
	}
	if !found {
		return nil, 0, 0, &fault.Error{
			Kind: fault.ErrNotFound, What: doing, Why: fmt.Sprintf("its owner has no memory %q", valid.Short(memory)), Do: "check the ID and the owner",
		}
	}
	r = &reader{View: t, owner: m.Owner}
	num, n, err := r.find(entity)
	if err == nil && n == nil {
		err = notFound(doing, entity)
	}
	return r, num, m.Seq, err
}

// Memories returns the IDs of the memories that an entity is linked to, in the order of
// their first storing. It leaves out those that have expired.
func (g Graph) Memories(ctx context.Context, o scope.Owner, entity string) (ids []string, err error) {
	doing := fmt.Sprintf("list the memories of the entity %q", valid.Short(entity))
	if err := checkID(doing, "entity ID", entity); err != nil {
		return nil, err
	}
	err = g.view(ctx, doing, o, 0, func(r *reader) error {
		num, n, err := r.find(entity)
		if err != nil || n == nil {
			return err
		}
		return each(r, be32(section(r, kindGraph, r.owner, secLink, numSize), num), func(key, _ []byte) error {
			m, found, err := r.MemoryAt(be64At(key, len(key)-seqSize))
			if err == nil && found && m.Owner == r.owner {
				ids = append(ids, m.ID)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// Linked returns the IDs of the entities that are linked to a memory, by their age.
func (g Graph) Linked(ctx context.Context, o scope.Owner, memory string) (ids []string, err error) {
	doing := fmt.Sprintf("list the entities of the memory %q", valid.Short(memory))
	if err := checkID(doing, "memory ID", memory); err != nil {
		return nil, err
	}
	err = g.view(ctx, doing, o, 0, func(r *reader) error {
		m, found, err := r.Memory(o, memory)
		if err != nil || !found {
			return err
		}
		return each(r, be64(section(r, kindGraph, r.owner, secLinked, seqSize), m.Seq), func(key, _ []byte) error {
			n, err := r.node(be32At(key, len(key)-numSize))
			if err == nil && n != nil {
				ids = append(ids, n.id)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// Stats is how much an owner's graph holds.
type Stats struct {
	// Entities, Relations and Links count what is there, EntityTypes and RelationTypes the types of it.
	Entities      int64 `json:"entities"`
	Relations     int64 `json:"relations"`
	Links         int64 `json:"links"`
	EntityTypes   int64 `json:"entity_types"`
	RelationTypes int64 `json:"relation_types"`
}

// Stats returns how much the graph of an owner holds. Types that nothing has any more count.
func (g Graph) Stats(ctx context.Context, o scope.Owner) (s Stats, err error) {
	err = g.view(ctx, "count the graph", o, 0, func(r *reader) error {
		own, err := r.owned()
		if err != nil {
			return err
		}
		s = Stats{
			Entities: int64(own.entities), Relations: int64(own.relations),
			EntityTypes: int64(own.lastType[classEntity]), RelationTypes: int64(own.lastType[classRelation]),
		}
		s.Links, err = countLinks(r, r.owner)
		return err
	})
	if err != nil {
		return Stats{}, err
	}
	return s, nil
}
