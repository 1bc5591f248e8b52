package agents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// An Entity is a thing that an agent knows of.
type Entity struct {
	ID         string          `json:"id"`
	AgentID    string          `json:"agent_id"`
	EntityType string          `json:"entity_type"`
	Name       string          `json:"name"`
	Attributes json.RawMessage `json:"attributes"`
	CreatedAt  time.Time       `json:"created_at,omitzero"`
}

func entityOf(e *graph.Entity) Entity {
	out := Entity{e.ID, e.Agent, e.Type, e.Name, e.Properties, e.CreatedAt}
	if len(out.Attributes) == 0 {
		out.Attributes = json.RawMessage("{}")
	}
	return out
}

// A Relation leads from an entity to another.
type Relation struct {
	ID           string          `json:"id"`
	AgentID      string          `json:"agent_id"`
	FromEntityID string          `json:"from_entity_id"`
	RelationType string          `json:"relation_type"`
	ToEntityID   string          `json:"to_entity_id"`
	Properties   json.RawMessage `json:"properties"`
	CreatedAt    time.Time       `json:"created_at,omitzero"`
}

func relationOf(r *graph.Relation) Relation {
	out := Relation{r.ID, r.Agent, r.From, r.Type, r.To, r.Properties, r.CreatedAt}
	if len(out.Properties) == 0 {
		out.Properties = json.RawMessage("{}")
	}
	return out
}

// ID is the answer of what adds an entity or a relation.
type ID struct {
	ID string `json:"id"`
}

func addEntity(c *server.Call) error {
	var in Entity
	if err := c.Decode(&in); err != nil {
		return err
	}
	if in.ID == "" && in.Name == "" {
		return missing("name", "what people call the entity")
	}
	o, err := owner(c)
	if err == nil {
		err = sameAgent(c, in.AgentID)
	}
	if err != nil {
		return err
	}
	e := graph.Entity{ID: in.ID, Type: in.EntityType, Name: in.Name, Properties: in.Attributes}
	st, err := c.DB.Graph().Put(c.Context(), o, e, nil, nil)
	if err != nil {
		return err
	}
	return c.Reply(created(st.Created), ID{st.ID})
}

// created is the status of what was made, or was there already.
func created(made bool) int {
	if made {
		return http.StatusCreated
	}
	return http.StatusOK
}

// Entities is a page of entities. Next is the cursor of the next one.
type Entities struct {
	Entities []Entity `json:"entities"`
	Next     string   `json:"next,omitempty"`
}

func listEntities(c *server.Call) error {
	limit, after, err := page(c)
	if err != nil {
		return err
	}
	o, err := owner(c)
	if err != nil {
		return err
	}
	q := c.R.URL.Query()
	found, err := c.DB.Graph().List(c.Context(), graph.ListQuery{Owner: o, Type: q.Get("entity_type"), NamePrefix: q.Get("name_prefix"), After: after, Limit: limit})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, Entities{entitiesOf(found.Entities), found.Next})
}

func entitiesOf(all []graph.Entity) []Entity {
	out := make([]Entity, 0, len(all))
	for i := range all {
		out = append(out, entityOf(&all[i]))
	}
	return out
}

func getEntity(c *server.Call) error {
	o, err := owner(c)
	if err != nil {
		return err
	}
	e, err := c.DB.Graph().Get(c.Context(), o, c.R.PathValue("entity"), 0)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, entityOf(&e))
}

func deleteEntity(c *server.Call) error {
	o, err := owner(c)
	if err != nil {
		return err
	}
	if _, err := c.DB.Graph().Delete(c.Context(), o, c.R.PathValue("entity")); err != nil {
		return err
	}
	return c.Reply(http.StatusNoContent, nil)
}

// addRelation adds a relation between two entities that are there.
func addRelation(c *server.Call) error {
	var in Relation
	if err := c.Decode(&in); err != nil {
		return err
	}
	for _, f := range []struct{ name, value string }{{"from_entity_id", in.FromEntityID}, {"relation_type", in.RelationType}, {"to_entity_id", in.ToEntityID}} {
		if f.value == "" {
			return missing(f.name, "a text")
		}
	}
	o, err := owner(c)
	if err == nil {
		err = sameAgent(c, in.AgentID)
	}
	if err != nil {
		return err
	}
	r := graph.Relation{ID: in.ID, From: in.FromEntityID, Type: in.RelationType, To: in.ToEntityID, Properties: in.Properties}
	st, err := c.DB.Graph().Relate(c.Context(), o, r, &graph.Options{Strict: true})
	if err != nil {
		return err
	}
	return c.Reply(created(st.Created), ID{st.ID})
}

// maxHops bounds how far related entities are.
const maxHops = 100

// findRelated lists the entities that one has relations to, up to max_hops away, without itself.
func findRelated(c *server.Call) error {
	hops, err := number(c, "max_hops", 1, 1, maxHops)
	if err != nil {
		return err
	}
	o, err := owner(c)
	if err != nil {
		return err
	}
	var out []Entity
	err = c.DB.View(c.Context(), func(tx *engine.Tx) error {
		g := tx.Graph()
		if _, err := g.Get(c.Context(), o, c.R.PathValue("entity"), 0); err != nil {
			return err
		}
		walk, err := g.Find(c.Context(), o, c.R.PathValue("entity"), graph.FindOptions{Relation: c.R.URL.Query().Get("relation_type"), Hops: hops})
		if err == nil {
			err = whole(&walk.Plan, len(walk.Found))
		}
		if err != nil {
			return err
		}
		ids := make([]string, len(walk.Found))
		for i, f := range walk.Found {
			ids[i] = f.ID
		}
		all, err := g.GetAll(c.Context(), o, ids, 0)
		out = entitiesOf(all)
		return err
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, out)
}

// whole refuses an answer that is not whole, or has more than a list may.
func whole(p *graph.Plan, n int) error {
	if p.Limit == "" && n <= memory.MaxLimit {
		return nil
	}
	return server.Fail(http.StatusRequestEntityTooLarge, "too_large", "the answer would have more than %d results; ask for less", memory.MaxLimit)
}

// A Node says which entities an end of a pattern means; what is left out means any.
type Node struct {
	EntityType string `json:"entity_type"`
	Name       string `json:"name"`
}

// A Match is a relation that fits a pattern, with its ends.
type Match struct {
	From     Entity   `json:"from"`
	Relation Relation `json:"relation"`
	To       Entity   `json:"to"`
}

func match(c *server.Call) error {
	var in struct {
		From     Node   `json:"from"`
		Relation string `json:"relation"`
		To       Node   `json:"to"`
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	o, err := owner(c)
	if err != nil {
		return err
	}
	out := []Match{}
	err = c.DB.View(c.Context(), func(tx *engine.Tx) error {
		found, err := tx.Graph().Match(c.Context(), o, graph.Pattern{
			From: graph.NodePattern{Type: in.From.EntityType, Name: in.From.Name}, Relation: in.Relation,
			To: graph.NodePattern{Type: in.To.EntityType, Name: in.To.Name},
		})
		if err == nil {
			err = whole(&found.Plan, len(found.Matches))
		}
		if err != nil {
			return err
		}
		out, err = matches(c, tx.Graph(), o, found.Matches)
		return err
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, out)
}

// matches reads the ends and the relations of matches of one hop, each once.
func matches(c *server.Call, g graph.Graph, o scope.Owner, found []graph.Match) ([]Match, error) {
	ends := map[string]Entity{}
	end := func(id string) (Entity, error) {
		if e, ok := ends[id]; ok {
			return e, nil
		}
		e, err := g.Get(c.Context(), o, id, 0)
		if err != nil {
			return Entity{}, err
		}
		ends[id] = entityOf(&e)
		return ends[id], nil
	}
	out := []Match{}
	seen := map[graph.Hop]bool{}
	for _, m := range found {
		hop := m[0]
		if seen[hop] { // relations of one triple come together
			continue
		}
		seen[hop] = true
		from, err := end(hop.From)
		if err != nil {
			return nil, fmt.Errorf("read the match of %s: %w", hop.From, err)
		}
		to, err := end(hop.To)
		if err != nil {
			return nil, fmt.Errorf("read the match of %s: %w", hop.To, err)
		}
		relations, err := g.Relations(c.Context(), o, hop.From, hop.Type, hop.To, graph.State{})
		if err != nil {
			return nil, err
		}
		for i := range relations {
			out = append(out, Match{from, relationOf(&relations[i]), to})
		}
	}
	return out, nil
}
