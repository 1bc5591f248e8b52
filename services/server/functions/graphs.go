package functions

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

const (
	// maxEntities bounds the entities of an answer, and maxRelations the relations of each: a walk that
	// would have more is refused, since a list cannot say that it is not whole.
	maxEntities  = 10_000
	maxRelations = 10_000
)

// An Entity is one of the knowledge graph.
type Entity struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Properties json.RawMessage `json:"properties,omitempty"`
	// Relations lead from the entity: those of others to it have types that begin with "inverse:".
	Relations []Relation `json:"relations"`
}

// A Relation leads from an entity to another.
type Relation struct {
	Target     string          `json:"target"`
	Type       string          `json:"type"`
	Properties json.RawMessage `json:"properties,omitempty"`
}

type addEntityIn struct {
	AgentID string  `json:"agentId"`
	Entity  *Entity `json:"entity"`
}

func (f *Functions) addEntity(ctx context.Context, c *server.Call, in *addEntityIn) (any, error) {
	switch {
	case in.Entity == nil:
		return nil, invalid("memory::kg::add: entity is missing; give an object with an id")
	case in.Entity.ID == "":
		return nil, invalid("memory::kg::add: entity.id is missing; give one that is unique for the agent")
	}
	s, err := owner(c, in.AgentID)
	if err != nil {
		return nil, err
	}
	edges := make([]graph.Edge, 0, len(in.Entity.Relations))
	for i, r := range in.Entity.Relations {
		if r.Target == "" || r.Type == "" {
			return nil, invalid("memory::kg::add: entity.relations[%d] needs a target and a type", i)
		}
		edges = append(edges, graph.Edge{Target: r.Target, Type: r.Type, Properties: r.Properties})
	}
	e := graph.Entity{ID: in.Entity.ID, Name: in.Entity.Name, Type: in.Entity.Type, Properties: in.Entity.Properties}
	st, err := c.DB.Graph().Put(ctx, s.Owner(), e, edges, nil)
	if err != nil {
		return nil, err
	}
	return struct {
		Stored bool   `json:"stored"`
		ID     string `json:"id"`
	}{true, st.ID}, nil
}

type queryGraphIn struct {
	AgentID  string `json:"agentId"`
	EntityID string `json:"entityId"`
	Depth    *int   `json:"depth"`
}

func (f *Functions) queryGraph(ctx context.Context, c *server.Call, in *queryGraphIn) (any, error) {
	if in.EntityID == "" {
		return nil, invalid("memory::kg::query: entityId is missing; name the entity to start from")
	}
	depth := graph.DefaultDepth
	if in.Depth != nil {
		depth = *in.Depth
	}
	s, err := owner(c, in.AgentID)
	if err != nil {
		return nil, err
	}
	out := []Entity{}
	err = c.DB.View(ctx, func(tx *engine.Tx) error {
		walk, err := tx.Graph().Query(ctx, s.Owner(), in.EntityID, depth, graph.State{})
		switch {
		case err != nil:
			return err
		case walk.Plan.Limit != "" || len(walk.Found) > maxEntities:
			return tooMany(in.EntityID, depth, fmt.Sprintf("more than %d entities", maxEntities))
		}
		ids := make([]string, len(walk.Found))
		for i, found := range walk.Found {
			ids[i] = found.ID
		}
		lines, more, err := tx.Graph().Describe(ctx, s.Owner(), ids, maxRelations, graph.State{})
		for i := range lines {
			if more[i] {
				return tooMany(in.EntityID, depth, fmt.Sprintf("an entity with more than %d relations, %s", maxRelations, lines[i].ID))
			}
			out = append(out, entityOf(&lines[i]))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func tooMany(id string, depth int, what string) error {
	return server.Fail(413, "too_large", "memory::kg::query: depth %d from %s reaches %s; ask for less depth", depth, id, what)
}

func entityOf(l *graph.EntityLine) Entity {
	e := Entity{ID: l.ID, Name: l.Name, Type: l.EntityType, Properties: l.Properties, Relations: make([]Relation, 0, len(l.Relations))}
	for _, r := range l.Relations {
		e.Relations = append(e.Relations, Relation{Target: r.Target, Type: r.Type, Properties: r.Properties})
	}
	return e
}
