package api

import (
	"context"
	"encoding/json"
	"io"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
)

// Ends says what becomes of relations whose ends do not exist.
type Ends struct {
	Strict bool `query:"strict" help:"refuse relations to entities that do not exist"`
}

func (e *Ends) options() *graph.Options { return &graph.Options{Strict: e.Strict} }

// GraphAddRequest adds or updates an entity.
type GraphAddRequest struct {
	Owner
	Entity graph.Given `body:"entity" arg:"JSON" stdin:"8388608" help:"the entity"`
	Ends
}

// Check implements Checked.
func (q *GraphAddRequest) Check() error {
	_, err := q.Entity.Batch()
	return err
}

// GraphAdd adds an entity with relations, or updates one.
var GraphAdd = &Op[GraphAddRequest, graph.Added]{
	Operation: Operation{Name: "graph add", Route: "POST /graph/entities", Summary: "Add an entity with relations, or update the entity with the same ID", Doing: "add an entity", Access: Creates, Status: 201},
	Run: func(ctx context.Context, db *engine.DB, q *GraphAddRequest) (graph.Added, error) {
		b, err := q.Entity.Batch()
		if err != nil {
			return graph.Added{}, err
		}
		w, err := db.Graph().Write(ctx, q.owner(), b, q.options())
		if err != nil {
			return graph.Added{}, err
		}
		return graph.NewAdded(w), nil
	},
}

// NewRelation is a relation from one entity to another.
type NewRelation struct {
	ID         string          `json:"id" help:"the ID of the relation; the default is the relation with this triple"`
	From       string          `json:"from" openapi:"required" arg:"FROM" help:"the ID of the entity at the start"`
	Relation   string          `json:"relation" openapi:"required" arg:"TYPE" help:"the type of the relation"`
	To         string          `json:"to" openapi:"required" arg:"TO" help:"the ID of the entity at the end"`
	Properties json.RawMessage `json:"properties" help:"its properties, a JSON object"`
	ValidFrom  exchange.Time   `json:"valid_from" flag:"from" help:"the time from which the relation is valid"`
	ValidTo    exchange.Time   `json:"valid_to" flag:"to" help:"the time until which it is valid"`
}

// GraphRelateRequest adds or updates a relation.
type GraphRelateRequest struct {
	Owner
	NewRelation `body:"object"`
	Ends
}

// GraphRelate adds a relation, or updates one.
var GraphRelate = &Op[GraphRelateRequest, graph.Related]{
	Operation: Operation{Name: "graph relate", Route: "POST /graph/relations", Summary: "Add a relation, or update the relation with the same ID or triple", Doing: "relate", Access: Creates, Status: 201},
	Run: func(ctx context.Context, db *engine.DB, q *GraphRelateRequest) (graph.Related, error) {
		r := graph.Relation{ID: q.ID, From: q.From, Type: q.Relation, To: q.To, Properties: q.Properties, ValidFrom: q.ValidFrom.Time, ValidTo: q.ValidTo.Time}
		s, err := db.Graph().Relate(ctx, q.owner(), r, q.options())
		return graph.NewRelated(s), err
	},
}

// GraphEndRequest ends a relation.
type GraphEndRequest struct {
	Owner
	From     string `query:"from" required:"true" arg:"FROM" help:"the ID of the entity at the start"`
	Relation string `query:"relation" required:"true" arg:"TYPE" help:"the type of the relation"`
	To       string `query:"to" required:"true" arg:"TO" help:"the ID of the entity at the end"`
	ID       string `query:"id" help:"the ID of the relation; the default is the relation with this triple"`
}

// RelationEnded is the reply of GraphEnd.
type RelationEnded struct {
	// Ended is 1.
	Ended int `json:"ended"`
}

// GraphEnd ends a relation.
var GraphEnd = &Op[GraphEndRequest, RelationEnded]{
	Operation: Operation{Name: "graph end", Route: "DELETE /graph/relations", Summary: "End a relation; earlier states still have it", Doing: "end a relation", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *GraphEndRequest) (RelationEnded, error) {
		return RelationEnded{1}, db.Graph().End(ctx, q.owner(), q.From, q.Relation, q.To, q.ID)
	},
}

// GraphEntity is a request about one entity.
type GraphEntity struct {
	Owner
	ID string `path:"id" arg:"ID" help:"the ID of the entity"`
}

// GraphGetRequest shows an entity.
type GraphGetRequest struct {
	GraphEntity
	GraphState
}

// GraphGet shows an entity and its relations, up to graph.ShownRelations of them.
var GraphGet = &Op[GraphGetRequest, graph.EntityLine]{
	Operation: Operation{Name: "graph get", Route: "GET /graph/entities/{id}", Summary: "Show an entity and up to 1,000 of its relations", Doing: "get an entity"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphGetRequest) (graph.EntityLine, error) {
		if _, err := db.Graph().Get(ctx, q.owner(), q.ID, q.LSN); err != nil {
			return graph.EntityLine{}, err
		}
		lines, _, err := db.Graph().Describe(ctx, q.owner(), []string{q.ID}, graph.ShownRelations, q.state())
		if err == nil && len(lines) == 0 {
			err = invalid("get an entity", "it was deleted meanwhile", "")
		}
		if err != nil {
			return graph.EntityLine{}, err
		}
		return lines[0], nil
	},
}

// GraphListRequest lists entities.
type GraphListRequest struct {
	Owner
	Type       string `query:"type" help:"only entities of this type"`
	NamePrefix string `query:"name_prefix" help:"only entities with a name or an alias that begins with this text"`
	AsOf
	Page
	Brief
}

// GraphList lists entities.
var GraphList = &List[GraphListRequest, graph.FoundLine]{
	Operation: Operation{Name: "graph list", Route: "GET /graph/entities", Summary: "List entities", Doing: "list entities"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphListRequest, yield func(graph.FoundLine) error) (End, error) {
		page, err := db.Graph().List(ctx, graph.ListQuery{Owner: q.owner(), Type: q.Type, NamePrefix: q.NamePrefix, AsOf: q.LSN, After: q.After, Limit: q.Limit})
		if err != nil {
			return End{}, err
		}
		found := make([]graph.Found, len(page.Entities))
		for i, e := range page.Entities {
			found[i].ID = e.ID
		}
		return End{Next: page.Next}, db.Graph().EachFound(ctx, q.owner(), found, q.relations(), graph.State{AsOf: q.LSN}, func(e graph.EntityLine, _ int) error {
			return yield(graph.FoundLine{EntityLine: e})
		})
	},
}

// EntityDeleted is the reply of GraphDelete.
type EntityDeleted struct {
	// Deleted is how much was deleted.
	Deleted graph.Deleted `json:"deleted"`
}

// GraphDelete deletes an entity.
var GraphDelete = &Op[GraphEntity, EntityDeleted]{
	Operation: Operation{Name: "graph delete", Route: "DELETE /graph/entities/{id}", Summary: "Delete an entity with its relations and links", Doing: "delete an entity", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *GraphEntity) (EntityDeleted, error) {
		d, err := db.Graph().Delete(ctx, q.owner(), q.ID)
		return EntityDeleted{d}, err
	},
}

// GraphLinkRequest is a request about the link of an entity to a memory.
type GraphLinkRequest struct {
	Owner
	ID     string `path:"id" arg:"ENTITY" help:"the ID of the entity"`
	Memory string `path:"memory" arg:"MEMORY" help:"the ID of the memory"`
}

// MemoryLink is the reply of GraphLink and GraphUnlink.
type MemoryLink struct {
	// Linked reports whether the two are linked now, and Changed whether they were not, or were, before.
	Linked  bool `json:"linked"`
	Changed bool `json:"changed"`
}

// GraphLink links an entity to a memory.
var GraphLink = &Op[GraphLinkRequest, MemoryLink]{
	Operation: Operation{Name: "graph link", Route: "PUT /graph/entities/{id}/memories/{memory}", Summary: "Link an entity to a memory of its owner", Doing: "link a memory", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *GraphLinkRequest) (MemoryLink, error) {
		changed, err := db.Graph().Link(ctx, q.owner(), q.ID, q.Memory)
		return MemoryLink{true, changed}, err
	},
}

// GraphUnlink removes the link of an entity to a memory.
var GraphUnlink = &Op[GraphLinkRequest, MemoryLink]{
	Operation: Operation{Name: "graph link --remove", Route: "DELETE /graph/entities/{id}/memories/{memory}", Summary: "Remove the link of an entity to a memory", Doing: "unlink a memory", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *GraphLinkRequest) (MemoryLink, error) {
		changed, err := db.Graph().Unlink(ctx, q.owner(), q.ID, q.Memory)
		return MemoryLink{false, changed}, err
	},
}

// EntityMerge is the entity that a merge ends.
type EntityMerge struct {
	From string `json:"from" openapi:"required" arg:"B" help:"the ID of the entity that goes"`
}

// GraphMergeRequest merges two entities.
type GraphMergeRequest struct {
	Owner
	ID          string `path:"id" arg:"A" help:"the ID of the entity that stays"`
	EntityMerge `body:"object"`
}

// GraphMerge merges an entity into another.
var GraphMerge = &Op[GraphMergeRequest, graph.Merged]{
	Operation: Operation{Name: "graph merge", Route: "POST /graph/entities/{id}/merge", Summary: "Merge another entity into this one, with its relations, names and links", Doing: "merge entities", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *GraphMergeRequest) (graph.Merged, error) {
		return db.Graph().Merge(ctx, q.owner(), q.ID, q.From)
	},
}

// GraphUnmerge undoes a merge.
var GraphUnmerge = &Op[GraphEntity, graph.Merged]{
	Operation: Operation{Name: "graph unmerge", Route: "POST /graph/entities/{id}/unmerge", Summary: "Undo the merge of an entity into another", Doing: "unmerge an entity", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *GraphEntity) (graph.Merged, error) {
		return db.Graph().Unmerge(ctx, q.owner(), q.ID)
	},
}

// GraphStats shows how much a graph has.
var GraphStats = &Op[Owner, graph.Stats]{
	Operation: Operation{Name: "graph stats", Route: "GET /graph/stats", Summary: "Show statistics of a graph", Doing: "show the graph"},
	Run: func(ctx context.Context, db *engine.DB, q *Owner) (graph.Stats, error) {
		return db.Graph().Stats(ctx, q.owner())
	},
}

// GraphShowRequest draws the neighbourhood of an entity.
type GraphShowRequest struct {
	GraphEntity
	GraphState
	Depth int `query:"depth" default:"1" min:"1" help:"the largest number of relations from the start"`
	Limit int `query:"limit" default:"40" min:"1" max:"500" help:"the largest number of entities, up to 500"`
}

// GraphShow draws the neighbourhood of an entity as SVG.
var GraphShow = &Stream[GraphShowRequest, graph.Drawn]{
	Operation: Operation{Name: "graph show", Route: "GET /graph/entities/{id}/picture", Summary: "Draw the neighbourhood of an entity", Doing: "draw an entity"},
	Media:     []string{"image/svg+xml"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphShowRequest, w io.Writer) (graph.Drawn, error) {
		return db.Graph().Picture(ctx, q.owner(), q.ID, w, graph.PictureOptions{Depth: q.Depth, Entities: q.Limit, State: q.state()})
	},
}

// GraphExportRequest writes a graph.
type GraphExportRequest struct {
	Owner
	Format string `query:"format" enum:"jsonl,dot,graphml" default:"jsonl" help:"the format"`
}

// GraphExport writes a graph as JSON lines, for Graphviz or as GraphML.
var GraphExport = &Stream[GraphExportRequest, struct{}]{
	Operation: Operation{Name: "graph export", Route: "GET /graph/export", Summary: "Write the graph as jsonl, dot or graphml", Doing: "export a graph", Long: true},
	Media:     []string{"application/x-ndjson", "text/vnd.graphviz", "application/xml"},
	MediaOf: func(q *GraphExportRequest) string {
		return map[string]string{"jsonl": "application/x-ndjson", "dot": "text/vnd.graphviz; charset=utf-8", "graphml": "application/xml"}[q.Format]
	},
	Run: func(ctx context.Context, db *engine.DB, q *GraphExportRequest, w io.Writer) (struct{}, error) {
		f, known := graph.FormatOf(q.Format)
		if !known {
			return struct{}{}, invalid("export a graph", "there is no such format", "there are jsonl, dot and graphml")
		}
		return struct{}{}, db.Graph().Export(ctx, q.owner(), f, w)
	},
}
