package native

import (
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// stateParams say which state of the graph is seen, and how much is looked at.
var stateParams = []param{
	asOf,
	{name: "at", kind: moment, summary: "only relations that were valid at this time"},
	{name: "max_nodes", kind: count, summary: "the largest number of entities that the query reads; the default is 1,000,000"},
	{name: "max_edges", kind: count, summary: "the largest number of relations that the query reads; the default is 10,000,000"},
}

var (
	most         = param{name: "limit", kind: count, summary: "the largest number of results; 0, the default, returns all"}
	nearest      = param{name: "limit", kind: count, summary: "the largest number of results; the default is 10"}
	hops         = param{name: "hops", kind: count, summary: "the largest number of relations from the start; the default is 1"}
	alongType    = param{name: "relation", kind: text, summary: "only relations of this type; inverse:T follows those of type T backwards"}
	ofEntityType = param{name: "type", kind: text, summary: "only entities of this type"}
)

// inState are parameters of a query of the graph.
func inState(more ...param) []param { return append(ofOwner(stateParams...), more...) }

func graphQueries() []route {
	return []route{
		{at: "GET /graph/entities/{id}/around", summary: "List the entities around an entity, breadth first in both directions", reply: graph.FoundLine{}, lines: true, handle: queryGraph, params: inState(
			param{name: "depth", kind: count, summary: "the largest number of relations from the start; the default is 2"},
		)},
		{at: "GET /graph/entities/{id}/find", summary: "List the entities that relations lead to", reply: graph.FoundLine{}, lines: true, handle: findEntities, params: inState(alongType, hops, most)},
		{at: "GET /graph/match", summary: "List the paths that match a pattern", reply: graph.MatchLine{}, lines: true, handle: matchGraph, params: inState(
			param{name: "from_type", kind: text, summary: "only paths that start with an entity of this type"},
			param{name: "from_name", kind: text, summary: "only paths that start with an entity of this name or alias"}, alongType,
			param{name: "to_type", kind: text, summary: "only paths that end with an entity of this type"},
			param{name: "to_name", kind: text, summary: "only paths that end with an entity of this name or alias"}, hops, most,
		)},
		{at: "GET /graph/path", summary: "List the relations of a shortest path between two entities", reply: hop{}, lines: true, handle: pathOf, params: inState(
			param{name: "from", kind: text, required: true, summary: "the ID of the entity at the start"},
			param{name: "to", kind: text, required: true, summary: "the ID of the entity at the end"},
		)},
		{at: "GET /graph/rank", summary: "List the entities nearest to some by personalised PageRank", reply: rankedEntity{}, lines: true, handle: rankEntities, params: inState(
			param{name: "id", kind: text, required: true, repeated: true, summary: "the ID of an entity to start from"}, nearest,
		)},
		{at: "GET /graph/components", summary: "List the connected components of a graph", reply: component{}, lines: true, handle: components, params: inState()},
		{at: "GET /graph/lookup", summary: "List entities with a similar name or alias", reply: namedEntity{}, lines: true, handle: lookup, params: ofOwner(
			param{name: "name", kind: text, required: true, summary: "the name to look up"}, ofEntityType, nearest,
		)},
		{at: "GET /graph/degrees", summary: "List the entities with the most relations", reply: graph.Degree{}, lines: true, handle: degrees, params: inState(
			ofEntityType, param{name: "relation", kind: text, summary: "only relations of this type"}, nearest,
		)},
		{at: "GET /graph/counts", summary: "Count entities and relations by type", reply: typeCount{}, lines: true, handle: typeCounts, params: inState()},
		{at: "GET /graph/duplicates", summary: "List pairs of entities that may be duplicates", reply: graph.Duplicate{}, lines: true, handle: duplicates, params: ofOwner(
			param{name: "limit", kind: count, summary: "the largest number of results; the default is 100"},
			param{name: "min_score", kind: number, summary: "the least score, above 0 and up to 1; the default is 0.5"},
		)},
		{at: "GET /graph/stats", summary: "Show statistics of a graph", reply: graph.Stats{}, handle: graphStats, params: ofOwner()},
	}
}

// state is the state of the graph that the parameters name.
func (a *ask) state() graph.State {
	return graph.State{AsOf: value[uint64](a, "as_of"), ValidAt: value[time.Time](a, "at"), MaxNodes: value[int](a, "max_nodes"), MaxEdges: value[int](a, "max_edges")}
}

// atLeastOne is the value of a parameter that is 1 or more.
func (a *ask) atLeastOne(name string, usual int) (int, error) {
	if !a.given(name) {
		return usual, nil
	}
	n := value[int](a, name)
	if n < 1 {
		return 0, invalid("read the parameter "+name, "it is below 1", "")
	}
	return n, nil
}

// found writes entities that a query has reached.
func (s *stream) found(o scope.Owner, found []graph.Found, state graph.State, depths bool) error {
	return s.a.DB.Graph().EachFound(s.a.Context(), o, found, graph.ListedRelations, state, func(l graph.EntityLine, depth int) error {
		line := graph.FoundLine{EntityLine: l}
		if depths {
			line.Depth = &depth
		}
		return s.write(line)
	})
}

// limited says what ended a query before it was through. It is an error where nothing was found by
// then.
func (s *stream) limited(p graph.Plan, found int) error {
	if p.Limit != "" && p.Limit != "results" && found == 0 {
		return &memory.Error{
			Kind: memory.ErrInvalid, What: "query the graph", Why: fmt.Sprintf("it ended at its limit of %s, before it found anything", p.Limit),
			Do: "raise max_nodes or max_edges, or ask for less",
		}
	}
	s.end.Limit = p.Limit
	return nil
}

// answer lists what a query of the owner's graph has found.
func (a *ask) answer(doing string, ask func(g graph.Graph, o scope.Owner) (plan graph.Plan, found int, write func(s *stream) error, err error)) error {
	owner, err := a.owner(doing)
	if err != nil {
		return err
	}
	plan, found, write, err := ask(a.DB.Graph(), owner)
	if err != nil {
		return err
	}
	return a.list(func(s *stream) error {
		if err := s.limited(plan, found); err != nil {
			return err
		}
		return write(s)
	})
}

func (a *ask) walk(o scope.Owner, w graph.Walk, state graph.State) (graph.Plan, int, func(s *stream) error, error) {
	return w.Plan, len(w.Found), func(s *stream) error { return s.found(o, w.Found, state, true) }, nil
}

func queryGraph(a *ask) error {
	depth := graph.DefaultDepth
	if a.given("depth") {
		depth = value[int](a, "depth")
	}
	return a.answer("query the graph", func(g graph.Graph, o scope.Owner) (plan graph.Plan, n int, write func(*stream) error, err error) {
		w, err := g.Query(a.Context(), o, a.id("id"), depth, a.state())
		if err != nil {
			return plan, 0, nil, err
		}
		return a.walk(o, w, a.state())
	})
}

func findEntities(a *ask) error {
	n, err := a.atLeastOne("hops", 1)
	if err != nil {
		return err
	}
	f := graph.FindOptions{Relation: value[string](a, "relation"), Hops: n, Limit: value[int](a, "limit"), State: a.state()}
	return a.answer("find entities", func(g graph.Graph, o scope.Owner) (plan graph.Plan, n int, write func(*stream) error, err error) {
		w, err := g.Find(a.Context(), o, a.id("id"), f)
		if err != nil {
			return plan, 0, nil, err
		}
		return a.walk(o, w, f.State)
	})
}

func matchGraph(a *ask) error {
	n, err := a.atLeastOne("hops", 1)
	if err != nil {
		return err
	}
	if n > graph.MaxHops {
		return invalid("match", fmt.Sprintf("hops is above %d", graph.MaxHops), "")
	}
	p := graph.Pattern{Relation: value[string](a, "relation"), Hops: n, Limit: value[int](a, "limit"), State: a.state()}
	p.From.Type, p.From.Name = value[string](a, "from_type"), value[string](a, "from_name")
	p.To.Type, p.To.Name = value[string](a, "to_type"), value[string](a, "to_name")
	return a.answer("match", func(g graph.Graph, o scope.Owner) (plan graph.Plan, n int, write func(*stream) error, err error) {
		m, err := g.Match(a.Context(), o, p)
		return m.Plan, len(m.Matches), func(s *stream) error {
			w := &graph.Matcher{Graph: g, Owner: o, State: p.State}
			for _, one := range m.Matches {
				line, err := w.Line(a.Context(), one)
				if err == nil {
					err = s.write(line)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}, err
	})
}

type hop struct {
	From     string `json:"from"`
	Relation string `json:"relation"`
	To       string `json:"to"`
}

func pathOf(a *ask) error {
	return a.answer("find a path", func(g graph.Graph, o scope.Owner) (plan graph.Plan, n int, write func(*stream) error, err error) {
		p, err := g.Path(a.Context(), o, value[string](a, "from"), value[string](a, "to"), a.state())
		if err == nil && !p.Found && p.Plan.Limit == "" {
			err = &memory.Error{Kind: memory.ErrNotFound, What: "find a path", Why: "no relations lead from the one to the other", Do: "check the IDs and the owner"}
		}
		found := len(p.Hops)
		if p.Found {
			found++ // of an entity to itself there are no hops
		}
		return p.Plan, found, func(s *stream) error {
			for _, h := range p.Hops {
				if err := s.write(hop{h.From, h.Type, h.To}); err != nil {
					return err
				}
			}
			return nil
		}, err
	})
}

type rankedEntity struct {
	ID   string  `json:"id"`
	Rank float64 `json:"rank"`
}

func rankEntities(a *ask) error {
	n, err := a.atLeastOne("limit", 10)
	if err != nil {
		return err
	}
	return a.answer("rank entities", func(g graph.Graph, o scope.Owner) (plan graph.Plan, found int, write func(*stream) error, err error) {
		r, err := g.Rank(a.Context(), o, a.texts("id"), graph.RankOptions{Limit: n, State: a.state()})
		return r.Plan, len(r.Ranked), func(s *stream) error {
			for _, e := range r.Ranked {
				if err := s.write(rankedEntity{e.ID, e.Rank}); err != nil {
					return err
				}
			}
			return nil
		}, err
	})
}

type component struct {
	Size  int    `json:"size"`
	First string `json:"first"`
}

func components(a *ask) error {
	return a.answer("list components", func(g graph.Graph, o scope.Owner) (plan graph.Plan, found int, write func(*stream) error, err error) {
		c, err := g.Components(a.Context(), o, a.state())
		return c.Plan, len(c.Components), func(s *stream) error {
			for _, part := range c.Components {
				if err := s.write(component{part.Size, part.First}); err != nil {
					return err
				}
			}
			return nil
		}, err
	})
}

type namedEntity struct {
	ID         string  `json:"id"`
	EntityType string  `json:"entity_type"`
	Name       string  `json:"name"`
	Matched    string  `json:"matched"`
	Score      float64 `json:"score"`
}

func lookup(a *ask) error {
	n, err := a.atLeastOne("limit", 10)
	if err != nil {
		return err
	}
	return a.answer("look entities up", func(g graph.Graph, o scope.Owner) (plan graph.Plan, found int, write func(*stream) error, err error) {
		l, err := g.Lookup(a.Context(), o, value[string](a, "name"), graph.LookupOptions{Type: value[string](a, "type"), Limit: n})
		return l.Plan, len(l.Named), func(s *stream) error {
			for _, e := range l.Named {
				if err := s.write(namedEntity{e.ID, e.Type, e.Name, e.Matched, e.Score}); err != nil {
					return err
				}
			}
			return nil
		}, err
	})
}

func degrees(a *ask) error {
	n, err := a.atLeastOne("limit", 10)
	if err != nil {
		return err
	}
	return a.answer("list degrees", func(g graph.Graph, o scope.Owner) (plan graph.Plan, found int, write func(*stream) error, err error) {
		d, err := g.Degrees(a.Context(), o, graph.DegreeOptions{Type: value[string](a, "type"), Relation: value[string](a, "relation"), Limit: n, State: a.state()})
		return d.Plan, len(d.Degrees), func(s *stream) error { return writeAll(s, d.Degrees) }, err
	})
}

type typeCount struct {
	Of    string `json:"of"`
	Type  string `json:"type"`
	Count int64  `json:"count"`
}

func typeCounts(a *ask) error {
	return a.answer("count types", func(g graph.Graph, o scope.Owner) (plan graph.Plan, found int, write func(*stream) error, err error) {
		c, err := g.Counts(a.Context(), o, a.state())
		return c.Plan, len(c.Entities), func(s *stream) error {
			for _, of := range []struct {
				what   string
				counts []graph.TypeCount
			}{{graph.TypeEntity, c.Entities}, {graph.TypeRelation, c.Relations}} {
				for _, n := range of.counts {
					if err := s.write(typeCount{of.what, n.Type, int64(n.Count)}); err != nil {
						return err
					}
				}
			}
			return nil
		}, err
	})
}

func duplicates(a *ask) error {
	n, err := a.atLeastOne("limit", 100)
	if err != nil {
		return err
	}
	opts := graph.DuplicateOptions{Limit: n, MinScore: 0.5}
	if a.given("min_score") {
		if opts.MinScore = value[float64](a, "min_score"); opts.MinScore <= 0 || opts.MinScore > 1 {
			return invalid("list duplicates", "min_score is not above 0 and up to 1", "")
		}
	}
	return a.answer("list duplicates", func(g graph.Graph, o scope.Owner) (plan graph.Plan, found int, write func(*stream) error, err error) {
		d, err := g.Duplicates(a.Context(), o, opts)
		return d.Plan, len(d.Pairs), func(s *stream) error { return writeAll(s, d.Pairs) }, err
	})
}

func graphStats(a *ask) error {
	owner, err := a.owner("show the graph")
	if err != nil {
		return err
	}
	s, err := a.DB.Graph().Stats(a.Context(), owner)
	return a.ok(s, err)
}
