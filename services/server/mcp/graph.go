package mcp

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

type graphIn struct {
	Action     string         `json:"action"`
	ID         string         `json:"id,omitempty" jsonschema:"of put, get and delete: the entity; a put without one makes a new entity"`
	Name       string         `json:"name,omitempty" jsonschema:"of put: what it is called; of find: the name to look for"`
	Type       string         `json:"type,omitempty" jsonschema:"of put and find: the kind of entity, such as person"`
	Aliases    []string       `json:"aliases,omitempty" jsonschema:"of put: other names"`
	Properties map[string]any `json:"properties,omitempty" jsonschema:"of put and relate: what is known; null removes a key"`
	From       string         `json:"from,omitempty" jsonschema:"of relate, unrelate and path: the ID of the entity at the beginning"`
	Relation   string         `json:"relation,omitempty" jsonschema:"of relate and unrelate: the kind of relation, in the active voice, such as works_at"`
	To         string         `json:"to,omitempty" jsonschema:"of relate, unrelate and path: the ID of the entity at the end"`
	Limit      int            `json:"limit,omitempty" jsonschema:"of find and get: at most so many; default 20, up to 100"`
}

type entityLine struct {
	ID         string         `json:"id"`
	Type       string         `json:"type"`
	Name       string         `json:"name"`
	Aliases    []string       `json:"aliases,omitempty"`
	Properties any            `json:"properties,omitempty"`
	Relations  []relationLine `json:"relations,omitempty"`
	More       bool           `json:"more,omitempty" jsonschema:"it has relations beyond those"`
}

type relationLine struct {
	From     string `json:"from"`
	Relation string `json:"relation"`
	To       string `json:"to"`
}

type graphOut struct {
	Entities  []entityLine   `json:"entities"`
	Relations []relationLine `json:"relations,omitempty" jsonschema:"of path: the way; of relate: the relation"`
	Created   bool           `json:"created,omitempty"`
}

func (h *host) graph(ctx context.Context, in graphIn) (out graphOut, err error) {
	out.Entities = []entityLine{}
	limit, err := limited(in.Limit, 20)
	if err != nil {
		return out, err
	}
	g, owner := h.db.Graph(), h.Scope.Owner()
	switch in.Action {
	case "put":
		e := graph.Entity{ID: in.ID, Name: in.Name, Type: in.Type, Aliases: in.Aliases}
		if len(in.Properties) > 0 {
			e.Properties = schemaOf(in.Properties)
		}
		stored, err := g.Put(ctx, owner, e, nil, nil)
		if err != nil {
			return out, err
		}
		out.Created = stored.Created
		return out, h.describe(ctx, &out, limit, stored.ID)
	case "find":
		if in.Name == "" {
			return out, lacks("graph", in.Action, "name")
		}
		found, err := g.Lookup(ctx, owner, in.Name, graph.LookupOptions{Type: in.Type, Limit: limit})
		if err != nil {
			return out, err
		}
		var ids []string
		for i := range found.Named {
			ids = append(ids, found.Named[i].ID)
		}
		return out, h.describe(ctx, &out, limit, ids...)
	case "get", "delete":
		return h.oneEntity(ctx, in, limit)
	}
	return h.relation(ctx, in)
}

// describe adds entities with their relations.
func (h *host) describe(ctx context.Context, out *graphOut, relations int, ids ...string) error {
	lines, more, err := h.db.Graph().Describe(ctx, h.Scope.Owner(), ids, relations, graph.State{})
	for i := range lines {
		l := &lines[i]
		e := entityLine{ID: l.ID, Type: l.EntityType, Name: l.Name, Aliases: l.Aliases, More: more[i]}
		if len(l.Properties) > 0 {
			e.Properties = l.Properties
		}
		for _, r := range l.Relations {
			e.Relations = append(e.Relations, relationLine{l.ID, r.Type, r.Target})
		}
		out.Entities = append(out.Entities, e)
	}
	return err
}

func (h *host) oneEntity(ctx context.Context, in graphIn, limit int) (out graphOut, err error) {
	out.Entities = []entityLine{}
	if in.ID == "" {
		return out, lacks("graph", in.Action, "id")
	}
	g, owner := h.db.Graph(), h.Scope.Owner()
	if in.Action == "delete" {
		_, err := g.Delete(ctx, owner, in.ID)
		return out, err
	}
	if _, err := g.Get(ctx, owner, in.ID, 0); err != nil {
		return out, err
	}
	return out, h.describe(ctx, &out, limit, in.ID)
}

// relation is what is done with two ends.
func (h *host) relation(ctx context.Context, in graphIn) (out graphOut, err error) {
	out.Entities = []entityLine{}
	g, owner := h.db.Graph(), h.Scope.Owner()
	switch {
	case in.From == "":
		return out, lacks("graph", in.Action, "from")
	case in.To == "":
		return out, lacks("graph", in.Action, "to")
	case in.Relation == "" && in.Action != "path":
		return out, lacks("graph", in.Action, "relation")
	}
	switch in.Action {
	case "relate":
		r := graph.Relation{From: in.From, Type: in.Relation, To: in.To}
		if len(in.Properties) > 0 {
			r.Properties = schemaOf(in.Properties)
		}
		// An end that is not there is more often a slip than an entity to come.
		stored, err := g.Relate(ctx, owner, r, &graph.Options{Strict: true})
		if err == nil {
			out.Created = stored.Created
			out.Relations = []relationLine{{in.From, in.Relation, in.To}}
		}
		return out, err
	case "unrelate":
		return out, g.End(ctx, owner, in.From, in.Relation, in.To, "")
	}
	way, err := g.Path(ctx, owner, in.From, in.To, graph.State{})
	if err == nil && !way.Found {
		err = &memory.Error{Kind: memory.ErrNotFound, What: "find a way from " + in.From + " to " + in.To, Why: "no relations connect them", Do: "see with find whether these are their IDs"}
	}
	for _, hop := range way.Hops {
		out.Relations = append(out.Relations, relationLine{hop.From, hop.Type, hop.To})
	}
	return out, err
}
