package graph

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The forms in which programs give entities, and are shown what calls have found.

// A Given is an entity as people write it, as one flat JSON object: its type is under "entity_type"
// or "type".
type Given struct {
	ID         string          `json:"id"`
	EntityType string          `json:"entity_type"`
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Aliases    []string        `json:"aliases"`
	Properties json.RawMessage `json:"properties"`
	Relations  []EdgeLine      `json:"relations"`
	// What a shown entity has beside it is taken, too, and the owner is that of the call.
	User      string        `json:"user"`
	Agent     string        `json:"agent"`
	Depth     int           `json:"depth"`
	CreatedAt clock.Instant `json:"created_at"`
	UpdatedAt clock.Instant `json:"updated_at"`
}

// typ is the type of the entity: "type" may be that of the line, as a shown entity has it.
func (g *Given) typ() string {
	if g.EntityType == "" && g.Type != TypeEntity {
		return g.Type
	}
	return g.EntityType
}

// Batch is what is to be written. ErrInvalid for relations of an entity without an ID, which has
// none yet.
func (g *Given) Batch() (Batch, error) {
	if g.ID == "" && len(g.Relations) > 0 {
		return Batch{}, &fault.Error{Kind: fault.ErrInvalid, What: "add an entity", Why: "it has relations and no id", Do: "give it an id"}
	}
	b := Batch{Entities: []Entity{{
		ID: g.ID, Type: g.typ(), Name: g.Name, Aliases: g.Aliases, Properties: g.Properties, CreatedAt: g.CreatedAt.Time, UpdatedAt: g.UpdatedAt.Time,
	}}}
	for i := range g.Relations {
		e := g.Relations[i].Edge()
		b.Relations = append(b.Relations, Relation{
			ID: e.ID, From: g.ID, Type: e.Type, To: e.Target, Properties: e.Properties, ValidFrom: e.ValidFrom, ValidTo: e.ValidTo,
		})
	}
	return b, nil
}

// Added is the answer of a write of one entity as one flat JSON object.
type Added struct {
	Stored    bool     `json:"stored"`
	ID        string   `json:"id"`
	Created   bool     `json:"created"`
	Relations int      `json:"relations"`           // how many were given
	WaitsFor  []string `json:"waits_for,omitempty"` // ends of these that are not there yet
	LSN       uint64   `json:"lsn"`
}

// NewAdded is the answer of a write of one entity.
func NewAdded(w Written) Added {
	var waits []string
	for _, r := range w.Relations {
		waits = append(waits, r.WaitsFor...)
	}
	slices.Sort(waits)
	return Added{true, w.Entities[0].ID, w.Entities[0].Created, len(w.Relations), slices.Compact(waits), w.LSN}
}

// Related is the answer of Relate as one flat JSON object.
type Related struct {
	ID       string   `json:"id"`
	Stored   bool     `json:"stored"`
	Created  bool     `json:"created"`
	WaitsFor []string `json:"waits_for,omitempty"`
}

// NewRelated is the answer of Relate.
func NewRelated(s Stored) Related { return Related{s.ID, true, s.Created, s.WaitsFor} }

// ShownRelations bounds the relations that are shown with an entity, and ListedRelations those
// with one of many.
const (
	ShownRelations  = 1000
	ListedRelations = 100
)

// FoundLine is an entity that a query has reached, as one flat JSON object.
type FoundLine struct {
	EntityLine
	Depth *int `json:"depth,omitempty"`
}

// foundPage is how many entities are read at once.
const foundPage = 500

// EachFound reads the records of entities that a query has reached, with up to so many relations
// of each, in their order and a few at a time. An error of yield ends it.
func (g Graph) EachFound(ctx context.Context, o scope.Owner, found []Found, relations int, s State, yield func(EntityLine, int) error) error {
	for len(found) > 0 {
		page := found[:min(len(found), foundPage)]
		found = found[len(page):]
		ids, depth := make([]string, len(page)), map[string]int{}
		for i, f := range page {
			ids[i], depth[f.ID] = f.ID, f.Depth
		}
		lines, _, err := g.Describe(ctx, o, ids, relations, s)
		if err != nil {
			return err
		}
		for _, l := range lines {
			if err := yield(l, depth[l.ID]); err != nil {
				return err
			}
		}
	}
	return nil
}

// MatchLine is a match as one flat JSON object. A way of several relations has all of them.
type MatchLine struct {
	From      EntityLine     `json:"from"`
	Relation  RelationLine   `json:"relation"`
	To        EntityLine     `json:"to"`
	Relations []RelationLine `json:"relations,omitempty"`
}

// A Matcher makes the lines of matches of one query, in their order.
type Matcher struct {
	// Graph, Owner and State are those of the query.
	Graph Graph
	Owner scope.Owner
	State State

	entities map[string]EntityLine
	last     Hop // the hop that was read last, and its relations
	same     []Relation
	nth      int
}

// Line reads the records of the ends and relations of a match. ErrConflict where one of them has
// ended meanwhile.
func (w *Matcher) Line(ctx context.Context, m Match) (line MatchLine, err error) {
	if line.From, err = w.entity(ctx, m[0].From); err != nil {
		return MatchLine{}, err
	}
	if line.To, err = w.entity(ctx, m[len(m)-1].To); err != nil {
		return MatchLine{}, err
	}
	for _, h := range m {
		r, err := w.relation(ctx, h)
		if err != nil {
			return MatchLine{}, err
		}
		line.Relations = append(line.Relations, r)
	}
	if line.Relation = line.Relations[0]; len(m) == 1 {
		line.Relations = nil
	}
	return line, nil
}

func (w *Matcher) entity(ctx context.Context, id string) (EntityLine, error) {
	if l, known := w.entities[id]; known {
		return l, nil
	}
	e, err := w.Graph.Get(ctx, w.Owner, id, w.State.AsOf)
	if err != nil {
		return EntityLine{}, err
	}
	if w.entities == nil || len(w.entities) >= foundPage {
		w.entities = map[string]EntityLine{}
	}
	w.entities[id] = NewEntityLine(e)
	return w.entities[id], nil
}

// relation is that of a hop. Relations with one triple come one after the other.
func (w *Matcher) relation(ctx context.Context, h Hop) (RelationLine, error) {
	if w.nth++; h != w.last || w.nth >= len(w.same) {
		all, err := w.Graph.Relations(ctx, w.Owner, h.From, h.Type, h.To, w.State)
		if err != nil {
			return RelationLine{}, err
		}
		w.last, w.same, w.nth = h, all, 0
	}
	if len(w.same) == 0 {
		return RelationLine{}, &fault.Error{Kind: fault.ErrConflict, What: "show a match", Why: "its relation was ended meanwhile", Do: "try again"}
	}
	return NewRelationLine(w.same[w.nth]), nil
}
