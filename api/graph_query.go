package api

import (
	"context"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// GraphState chooses the state of a graph that a query sees, and bounds what it reads.
type GraphState struct {
	AsOf
	At       time.Time `query:"at" help:"only relations that were valid at this time"`
	MaxNodes int       `query:"max_nodes" help:"the largest number of entities that the query reads; the default is 1,000,000"`
	MaxEdges int       `query:"max_edges" help:"the largest number of relations that the query reads; the default is 10,000,000"`
}

func (s *GraphState) state() graph.State {
	return graph.State{AsOf: s.LSN, ValidAt: s.At, MaxNodes: s.MaxNodes, MaxEdges: s.MaxEdges}
}

// relations is how many relations come with each entity of a list.
func (b *Brief) relations() int {
	if b.Bare {
		return 0
	}
	return graph.ListedRelations
}

// listed yields what a query has found, unless it has failed.
func listed[T any](p graph.Plan, found []T, err error, yield func(T) error) (End, error) {
	if err == nil {
		err = each(found, yield)
	}
	return End{Plan: p}, err
}

// GraphWalk is a request for the entities that relations lead to from one.
type GraphWalk struct {
	GraphEntity
	GraphState
	Brief
}

// found yields the entities that a query has reached, unless it has failed.
func (q *GraphWalk) found(ctx context.Context, db *engine.DB, w graph.Walk, err error, yield func(graph.FoundLine) error) (End, error) {
	if err == nil {
		err = db.Graph().EachFound(ctx, q.owner(), w.Found, q.relations(), q.state(), func(e graph.EntityLine, depth int) error {
			return yield(graph.FoundLine{EntityLine: e, Depth: &depth})
		})
	}
	return End{Plan: w.Plan}, err
}

// GraphQueryRequest lists what is around an entity.
type GraphQueryRequest struct {
	GraphWalk
	Depth int `query:"depth" default:"2" help:"the largest number of relations from the start"`
}

// GraphQuery lists the entities around one.
var GraphQuery = &List[GraphQueryRequest, graph.FoundLine]{
	Operation: Operation{Name: "graph query", Route: "GET /graph/entities/{id}/around", Summary: "List the entities around an entity, breadth first in both directions", Doing: "query the graph"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphQueryRequest, yield func(graph.FoundLine) error) (End, error) {
		w, err := db.Graph().Query(ctx, q.owner(), q.ID, q.Depth, q.state())
		return q.found(ctx, db, w, err, yield)
	},
}

// GraphFindRequest lists what relations lead to.
type GraphFindRequest struct {
	GraphWalk
	Relation string `query:"relation" unit:"type" help:"only relations of this type; inverse:T follows relations of type T backwards"`
	Hops     int    `query:"hops" default:"1" min:"1" help:"the largest number of relations from the start"`
	Limit    int    `query:"limit" help:"the largest number of results; 0, the default, returns all"`
}

// GraphFind lists the entities that relations lead to.
var GraphFind = &List[GraphFindRequest, graph.FoundLine]{
	Operation: Operation{Name: "graph find", Route: "GET /graph/entities/{id}/find", Summary: "List the entities that relations lead to", Doing: "find entities"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphFindRequest, yield func(graph.FoundLine) error) (End, error) {
		w, err := db.Graph().Find(ctx, q.owner(), q.ID, graph.FindOptions{Relation: q.Relation, Hops: q.Hops, Limit: q.Limit, State: q.state()})
		return q.found(ctx, db, w, err, yield)
	},
}

// GraphMatchRequest lists paths by a pattern.
type GraphMatchRequest struct {
	Owner
	GraphState
	FromType string `query:"from_type" help:"only paths that start with an entity of this type"`
	FromName string `query:"from_name" help:"only paths that start with an entity of this name or alias"`
	Relation string `query:"relation" unit:"type" help:"only relations of this type; inverse:T follows relations of type T backwards"`
	ToType   string `query:"to_type" help:"only paths that end with an entity of this type"`
	ToName   string `query:"to_name" help:"only paths that end with an entity of this name or alias"`
	Hops     int    `query:"hops" default:"1" min:"1" max:"3" help:"the largest number of relations from the start"`
	Limit    int    `query:"limit" help:"the largest number of results; 0, the default, returns all"`
	Brief
}

// GraphMatch lists the paths that match a pattern. A brief line has the relations of the path alone, as the path goes.
var GraphMatch = &List[GraphMatchRequest, graph.MatchLine]{
	Operation: Operation{Name: "graph match", Route: "GET /graph/match", Summary: "List the paths that match a pattern", Doing: "match"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphMatchRequest, yield func(graph.MatchLine) error) (End, error) {
		m, err := db.Graph().Match(ctx, q.owner(), graph.Pattern{
			From: graph.NodePattern{Type: q.FromType, Name: q.FromName}, Relation: q.Relation, To: graph.NodePattern{Type: q.ToType, Name: q.ToName},
			Hops: q.Hops, Limit: q.Limit, State: q.state(),
		})
		w := &graph.Matcher{Graph: db.Graph(), Owner: q.owner(), State: q.state()}
		return listed(m.Plan, m.Matches, err, func(m graph.Match) error {
			if q.Bare {
				var l graph.MatchLine
				for _, h := range m {
					l.Relations = append(l.Relations, graph.RelationLine{From: h.From, Relation: h.Type, To: h.To})
				}
				return yield(l)
			}
			l, err := w.Line(ctx, m)
			if err != nil {
				return err
			}
			return yield(l)
		})
	},
}

// GraphPathRequest asks for a path.
type GraphPathRequest struct {
	Owner
	GraphState
	From string `query:"from" required:"true" arg:"FROM" help:"the ID of the entity at the start"`
	To   string `query:"to" required:"true" arg:"TO" help:"the ID of the entity at the end"`
}

// GraphHop is a relation of a path.
type GraphHop struct {
	// From and To are the IDs of entities, Relation is the type of the relation.
	From     string `json:"from"`
	Relation string `json:"relation"`
	To       string `json:"to"`
}

// GraphPath lists the relations of a shortest path.
var GraphPath = &List[GraphPathRequest, GraphHop]{
	Operation: Operation{Name: "graph path", Route: "GET /graph/path", Summary: "List the relations of a shortest path between two entities", Doing: "find a path"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphPathRequest, yield func(GraphHop) error) (End, error) {
		p, err := db.Graph().Path(ctx, q.owner(), q.From, q.To, q.state())
		if err == nil && !p.Found && p.Plan.Limit == "" {
			err = &memory.Error{Kind: memory.ErrNotFound, What: "find a path", Why: "no relations lead from the one to the other", Do: "check the IDs and the owner"}
		}
		return listed(p.Plan, p.Hops, err, func(h graph.Hop) error { return yield(GraphHop{h.From, h.Type, h.To}) })
	},
}

// GraphRankRequest ranks entities.
type GraphRankRequest struct {
	Owner
	GraphState
	IDs   []string `query:"id" required:"true" arg:"ID..." help:"the ID of an entity to start from"`
	Limit int      `query:"limit" default:"10" min:"1" help:"the largest number of results"`
}

// RankedEntity is an entity and its share of all rank.
type RankedEntity struct {
	// ID is the ID of the entity.
	ID   string  `json:"id"`
	Rank float64 `json:"rank"`
}

// GraphRank lists the entities nearest to some.
var GraphRank = &List[GraphRankRequest, RankedEntity]{
	Operation: Operation{Name: "graph rank", Route: "GET /graph/rank", Summary: "List the entities nearest to some by personalised PageRank", Doing: "rank entities"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphRankRequest, yield func(RankedEntity) error) (End, error) {
		r, err := db.Graph().Rank(ctx, q.owner(), q.IDs, graph.RankOptions{Limit: q.Limit, State: q.state()})
		return listed(r.Plan, r.Ranked, err, func(e graph.Ranked) error { return yield(RankedEntity(e)) })
	},
}

// GraphWhole is a query of all of a graph.
type GraphWhole struct {
	Owner
	GraphState
}

// GraphComponent is a part of a graph that no relation connects with the rest.
type GraphComponent struct {
	// Size is the number of its entities, First the ID of the oldest of them.
	Size  int    `json:"size"`
	First string `json:"first"`
}

// GraphComponents lists the connected components of a graph.
var GraphComponents = &List[GraphWhole, GraphComponent]{
	Operation: Operation{Name: "graph components", Route: "GET /graph/components", Summary: "List the connected components of a graph", Doing: "list components"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphWhole, yield func(GraphComponent) error) (End, error) {
		c, err := db.Graph().Components(ctx, q.owner(), q.state())
		return listed(c.Plan, c.Components, err, func(c graph.Component) error { return yield(GraphComponent(c)) })
	},
}

// GraphLookupRequest looks up a name.
type GraphLookupRequest struct {
	Owner
	Name  string `query:"name" required:"true" arg:"NAME" help:"the name to look up"`
	Type  string `query:"type" help:"only entities of this type"`
	Limit int    `query:"limit" default:"10" min:"1" help:"the largest number of results"`
}

// NamedEntity is an entity that was found by a name.
type NamedEntity struct {
	// ID, EntityType and Name describe the entity.
	ID         string `json:"id"`
	EntityType string `json:"entity_type"`
	Name       string `json:"name"`
	// Matched is the name or the alias that was found, in lower case, and Score is 1 for the name that was looked up.
	Matched string  `json:"matched"`
	Score   float64 `json:"score"`
}

// GraphLookup lists the entities with a similar name.
var GraphLookup = &List[GraphLookupRequest, NamedEntity]{
	Operation: Operation{Name: "graph lookup", Route: "GET /graph/lookup", Summary: "List entities with a similar name or alias", Doing: "look entities up"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphLookupRequest, yield func(NamedEntity) error) (End, error) {
		l, err := db.Graph().Lookup(ctx, q.owner(), q.Name, graph.LookupOptions{Type: q.Type, Limit: q.Limit})
		return listed(l.Plan, l.Named, err, func(n graph.Named) error { return yield(NamedEntity{n.ID, n.Type, n.Name, n.Matched, n.Score}) })
	},
}

// GraphDegreesRequest ranks entities by their relations.
type GraphDegreesRequest struct {
	Owner
	GraphState
	Type     string `query:"type" help:"only entities of this type"`
	Relation string `query:"relation" unit:"type" help:"only relations of this type"`
	Limit    int    `query:"limit" default:"10" min:"1" help:"the largest number of results"`
}

// GraphDegrees lists the entities with the most relations.
var GraphDegrees = &List[GraphDegreesRequest, graph.Degree]{
	Operation: Operation{Name: "graph degrees", Route: "GET /graph/degrees", Summary: "List the entities with the most relations", Doing: "list degrees"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphDegreesRequest, yield func(graph.Degree) error) (End, error) {
		d, err := db.Graph().Degrees(ctx, q.owner(), graph.DegreeOptions{Type: q.Type, Relation: q.Relation, Limit: q.Limit, State: q.state()})
		return listed(d.Plan, d.Degrees, err, yield)
	},
}

// GraphTypeCount is how many entities or relations have a type.
type GraphTypeCount struct {
	// Of is entity or relation.
	Of    string `json:"of"`
	Type  string `json:"type"`
	Count int    `json:"count"`
}

// GraphCounts counts entities and relations by type.
var GraphCounts = &List[GraphWhole, GraphTypeCount]{
	Operation: Operation{Name: "graph counts", Route: "GET /graph/counts", Summary: "Count entities and relations by type", Doing: "count types"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphWhole, yield func(GraphTypeCount) error) (End, error) {
		c, err := db.Graph().Counts(ctx, q.owner(), q.state())
		of := func(what string) func(graph.TypeCount) error {
			return func(t graph.TypeCount) error { return yield(GraphTypeCount{what, t.Type, t.Count}) }
		}
		if _, err = listed(c.Plan, c.Entities, err, of(graph.TypeEntity)); err != nil {
			return End{}, err
		}
		return listed(c.Plan, c.Relations, err, of(graph.TypeRelation))
	},
}

// GraphDuplicatesRequest lists pairs that may be duplicates.
type GraphDuplicatesRequest struct {
	Owner
	Limit    int     `query:"limit" default:"100" min:"1" help:"the largest number of results"`
	MinScore float64 `query:"min_score" default:"0.5" help:"the least score, above 0 and up to 1"`
}

// GraphDuplicates lists pairs of entities that may be duplicates.
var GraphDuplicates = &List[GraphDuplicatesRequest, graph.Duplicate]{
	Operation: Operation{Name: "graph duplicates", Route: "GET /graph/duplicates", Summary: "List pairs of entities that may be duplicates", Doing: "list duplicates"},
	Run: func(ctx context.Context, db *engine.DB, q *GraphDuplicatesRequest, yield func(graph.Duplicate) error) (End, error) {
		if q.MinScore <= 0 || q.MinScore > 1 {
			return End{}, invalid("list duplicates", "min_score is not above 0 and up to 1", "")
		}
		d, err := db.Graph().Duplicates(ctx, q.owner(), graph.DuplicateOptions{Limit: q.Limit, MinScore: q.MinScore})
		return listed(d.Plan, d.Pairs, err, yield)
	},
}
