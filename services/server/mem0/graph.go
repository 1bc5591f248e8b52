package mem0

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// maxRelations bounds the relations of an answer.
const maxRelations = 1000

// sameName reports whether an entity has a name, or an alias, without regard to case.
func sameName(e *graph.Entity, name string) bool {
	return slices.ContainsFunc(append([]string{e.Name}, e.Aliases...), func(s string) bool { return strings.EqualFold(s, name) })
}

// describe is the text of an entity's properties that describes it.
func describe(properties json.RawMessage) string {
	var p struct {
		Description string `json:"description"`
	}
	if json.Unmarshal(properties, &p) != nil {
		return ""
	}
	return p.Description
}

// relations are those of entities, with names in the place of IDs.
func relations(ctx context.Context, g graph.Graph, o scope.Owner, of []graph.Entity) ([]graphRelation, error) {
	list, names := []graphRelation{}, map[string]string{}
	var found []graph.Relation
	for _, e := range of {
		names[e.ID] = cmp.Or(e.Name, e.ID)
		p, err := g.Neighbours(ctx, o, e.ID, graph.NeighbourQuery{Direction: graph.Both, Limit: maxRelations})
		if err != nil {
			return nil, err
		}
		for _, n := range p.Neighbours {
			found = append(found, n.Relation)
		}
	}
	var unnamed []string
	for _, r := range found {
		for _, id := range []string{r.From, r.To} {
			if _, known := names[id]; !known {
				names[id] = id
				unnamed = append(unnamed, id)
			}
		}
	}
	others, err := g.GetAll(ctx, o, unnamed, 0)
	if err != nil {
		return nil, err
	}
	for _, e := range others {
		names[e.ID] = cmp.Or(e.Name, e.ID)
	}
	for _, r := range found {
		if one := (graphRelation{names[r.From], r.Type, names[r.To]}); !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list, nil
}

// graphOwner is whose graph is asked for.
func (c *call) graphOwner(n named) (scope.Owner, error) {
	if c.Facts != nil && c.Facts.GraphStore != nil {
		return scope.Owner{}, server.Fail(http.StatusNotImplemented, "not_implemented", "the graph lies in another database; ask that one")
	}
	if n.scope() == (memory.Scope{}) && c.Admin() {
		return scope.Owner{}, &server.Failure{Status: http.StatusBadRequest, Code: "scope", Message: errNoEntity.Error(), Err: errNoEntity}
	}
	return c.Owner(n.scope().Owner())
}

// graphEntity is an entity of the graph.
type graphEntity struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Aliases     []string `json:"aliases,omitempty"`
	Description string   `json:"description"`
}

// graphRelation is a relation of the graph.
type graphRelation struct {
	Source   string `json:"source"`
	Relation string `json:"relation"`
	Target   string `json:"target"`
}

// graphEntities answers what an owner's graph knows of.
func graphEntities(c *call) error {
	var body struct {
		named
		Limit *int   `json:"limit"`
		After string `json:"after"`
	}
	if err := c.DecodeLoose(&body); err != nil {
		return err
	}
	limit, err := bounded("limit", body.Limit, defaultPage, 1, maxOpen)
	if err != nil {
		return err
	}
	o, err := c.graphOwner(body.named)
	if err != nil {
		return err
	}
	p, err := c.DB.Graph().List(c.Context(), graph.ListQuery{Owner: o, After: body.After, Limit: limit})
	if err != nil {
		return err
	}
	list := []graphEntity{}
	for i := range p.Entities {
		list = append(list, newGraphEntity(&p.Entities[i]))
	}
	return c.Reply(http.StatusOK, map[string]any{"results": list, "next": orNull(p.Next)})
}

func newGraphEntity(e *graph.Entity) graphEntity {
	return graphEntity{ID: e.ID, Name: cmp.Or(e.Name, e.ID), Type: e.Type, Aliases: e.Aliases, Description: describe(e.Properties)}
}

// graphRelations answers the relations of the entities of a name, or of the one of an ID.
func graphRelations(c *call) error {
	n := c.namedIn()
	o, err := c.graphOwner(n)
	if err != nil {
		return err
	}
	list := []graphRelation{}
	err = c.DB.View(c.Context(), func(tx *engine.Tx) error {
		of, err := entitiesNamed(c.Context(), tx.Graph(), o, c.R.PathValue("name"))
		if err != nil {
			return err
		}
		list, err = relations(c.Context(), tx.Graph(), o, of)
		return err
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, map[string]any{"results": list})
}

// entitiesNamed are the entities that have a name, without regard to case, or an ID.
func entitiesNamed(ctx context.Context, g graph.Graph, o scope.Owner, name string) ([]graph.Entity, error) {
	e, err := g.Get(ctx, o, name, 0)
	if err == nil {
		return []graph.Entity{e}, nil
	}
	if !errors.Is(err, memory.ErrNotFound) && !errors.Is(err, memory.ErrInvalid) {
		return nil, err
	}
	var all []graph.Entity
	p, err := g.List(ctx, graph.ListQuery{Owner: o, NamePrefix: name, Limit: maxPage})
	if err != nil {
		return nil, err
	}
	for _, e := range p.Entities {
		if sameName(&e, name) {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return nil, server.Unknown("find the entity")
	}
	return all, nil
}
