// Package own keeps the graph of a memory of facts in memdb's own graph: in the transaction
// of the facts, or with each call as a transaction.
//
// An entity that it has made has an ID that follows from its run and its name, so that a name
// of a scope is one entity, and none can be mistaken for what others keep in the graph.
package own

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
)

const (
	entityPrefix = "fact-"
	// searchDepth is how many relations away Around goes.
	searchDepth = 1
	// listPage is how many entities are read at a time.
	listPage = 1_000
)

// Store is a graphs.Store of some owners.
type Store struct {
	graph  graph.Graph
	owners []scope.Owner
}

// New makes a Store in a graph, which Around and Delete look at for these owners: the graph is
// kept by owner, and does not know who has one.
func New(g graph.Graph, owners ...scope.Owner) *Store { return &Store{g, owners} }

// properties are those of an entity that facts made.
type properties struct {
	Run         string `json:"run"`
	Description string `json:"description,omitempty"`
}

func (p properties) json() json.RawMessage {
	b, _ := json.Marshal(p) // two strings
	return b
}

func entityID(run, name string) string { return entityPrefix + graphs.Key(run, name) }

// made reports whether facts made an entity, and in which run.
func made(e *graph.Entity) (run string, ok bool) {
	var p properties
	if !strings.HasPrefix(e.ID, entityPrefix) || json.Unmarshal(e.Properties, &p) != nil {
		return "", false
	}
	return p.Run, e.ID == entityID(p.Run, e.Name)
}

// Check reports whether the graph takes an entity.
func Check(e graphs.Entity) error {
	check := graph.Entity{Owner: scope.Owner{User: "u"}, ID: "e", Type: e.Type, Name: e.Name, Properties: properties{Description: e.Description}.json()}
	return check.Check()
}

// Apply makes a change. The facts of Gone are still to be there, or their links are gone with
// them.
func (s *Store) Apply(ctx context.Context, c graphs.Change) (done graphs.Applied, err error) {
	for i := range c.Retold {
		f := &c.Retold[i]
		if err := s.unlink(ctx, f, func(name string) bool { return graphs.LeftBehind(f, name) }); err != nil {
			return done, err
		}
	}
	for i := range c.Gone {
		if err := s.unlink(ctx, &c.Gone[i], func(string) bool { return true }); err != nil {
			return done, err
		}
	}
	if len(c.Entities) == 0 || len(c.Told) == 0 {
		return done, nil
	}
	owner := c.Scope.Owner()
	batch := graph.Batch{}
	for _, e := range c.Entities {
		batch.Entities = append(batch.Entities, graph.Entity{
			Owner: owner, ID: entityID(c.Scope.Run, e.Name), Type: e.Type, Name: e.Name,
			Properties: properties{c.Scope.Run, e.Description}.json(), Extracted: true,
		})
	}
	if done, err = s.relate(ctx, &c, &batch); err != nil {
		return done, err
	}
	if _, err := s.graph.Write(ctx, owner, batch, nil); err != nil {
		return done, err
	}
	for _, e := range batch.Entities {
		for _, f := range graphs.About(e.Name, c.Told) {
			if _, err := s.graph.Link(ctx, owner, e.ID, f.ID); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// relate adds the relations whose ends are in the batch or in the graph already.
func (s *Store) relate(ctx context.Context, c *graphs.Change, batch *graph.Batch) (done graphs.Applied, err error) {
	known := map[string]bool{}
	for _, e := range batch.Entities {
		known[e.ID] = true
	}
	for _, r := range c.Relations {
		from, to := entityID(c.Scope.Run, r.Source), entityID(c.Scope.Run, r.Target)
		there, err := s.graph.GetAll(ctx, c.Scope.Owner(), []string{from, to}, 0)
		if err != nil {
			return done, err
		}
		for _, e := range there {
			known[e.ID] = true
		}
		if !known[from] || !known[to] {
			done.Lost = append(done.Lost, r)
			continue
		}
		batch.Relations = append(batch.Relations, graph.Relation{Owner: c.Scope.Owner(), From: from, Type: r.Relation, To: to})
		done.Taken = append(done.Taken, r)
	}
	return done, nil
}

// unlink removes links of a fact to entities that facts made, and the entities that no fact is
// linked to any more.
func (s *Store) unlink(ctx context.Context, f *graphs.Fact, gone func(name string) bool) error {
	owner := f.Scope.Owner()
	if owner == (scope.Owner{}) {
		return nil // what belongs to a run alone has no graph
	}
	ids, err := s.graph.Linked(ctx, owner, f.ID)
	if err != nil || len(ids) == 0 {
		return err
	}
	entities, err := s.graph.GetAll(ctx, owner, ids, 0)
	if err != nil {
		return err
	}
	for i := range entities {
		e := &entities[i]
		if _, ok := made(e); !ok || !gone(e.Name) {
			continue
		}
		if _, err := s.graph.Unlink(ctx, owner, e.ID, f.ID); err != nil {
			return err
		}
		left, err := s.graph.Memories(ctx, owner, e.ID)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			continue
		}
		// One without relations has gone with its last link.
		if _, err := s.graph.Delete(ctx, owner, e.ID); err != nil && !errors.Is(err, memory.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Delete deletes the entities of a selection.
func (s *Store) Delete(ctx context.Context, sel graphs.Selection) error {
	for _, o := range s.owners {
		if err := s.deleteOf(ctx, o, &sel); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) deleteOf(ctx context.Context, o scope.Owner, sel *graphs.Selection) error {
	var ids []string
	for q := (graph.ListQuery{Owner: o, Limit: listPage}); ; {
		page, err := s.graph.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Entities {
			if selected(sel, o, &page.Entities[i]) {
				ids = append(ids, page.Entities[i].ID)
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	for _, id := range ids {
		if _, err := s.graph.Delete(ctx, o, id); err != nil {
			return err
		}
	}
	return nil
}

// selected reports whether facts made an entity, in a scope of a selection.
func selected(sel *graphs.Selection, o scope.Owner, e *graph.Entity) bool {
	run, ok := made(e)
	return ok && sel.Holds(scope.Scope{User: o.User, Agent: o.Agent, Run: run})
}

// Around finds what lies around the names of a text.
func (s *Store) Around(ctx context.Context, sel graphs.Selection, text string) (graphs.Near, error) {
	near := &neighbourhood{names: map[string]string{}, facts: map[string]bool{}}
	for _, o := range s.owners {
		if err := s.walk(ctx, near, o, &sel, text); err != nil {
			return graphs.Near{}, err
		}
	}
	return near.Near, nil
}

// neighbourhood is what lies in the graph around the names of a text.
type neighbourhood struct {
	graphs.Near
	names map[string]string // of the entities of the owner, by ID
	facts map[string]bool
}

func (s *Store) walk(ctx context.Context, near *neighbourhood, o scope.Owner, sel *graphs.Selection, text string) error {
	starts, err := s.namedIn(ctx, o, sel, text)
	if err != nil {
		return err
	}
	var ids []string
	for _, id := range starts {
		w, err := s.graph.Query(ctx, o, id, searchDepth, graph.State{})
		if err != nil {
			return err
		}
		for _, at := range w.Found {
			if !slices.Contains(ids, at.ID) && len(ids) < graphs.MaxReached {
				ids = append(ids, at.ID)
			}
		}
	}
	entities, err := s.graph.GetAll(ctx, o, ids, 0)
	if err != nil {
		return err
	}
	entities = slices.DeleteFunc(entities, func(e graph.Entity) bool { return !selected(sel, o, &e) })
	clear(near.names)
	for i := range entities {
		near.names[entities[i].ID] = entities[i].Name
		near.Names = append(near.Names, entities[i].Name)
	}
	for i := range entities {
		if err := s.about(ctx, near, o, entities[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// about adds the facts of an entity and its relations within the neighbourhood.
func (s *Store) about(ctx context.Context, near *neighbourhood, o scope.Owner, id string) error {
	memories, err := s.graph.Memories(ctx, o, id)
	if err != nil {
		return err
	}
	for _, m := range memories {
		if !near.facts[m] && len(near.Facts) < graphs.MaxReached {
			near.facts[m] = true
			near.Facts = append(near.Facts, m)
		}
	}
	page, err := s.graph.Neighbours(ctx, o, id, graph.NeighbourQuery{Direction: graph.Out, Limit: graphs.MaxReached})
	if err != nil {
		return err
	}
	for _, n := range page.Neighbours {
		if target, within := near.names[n.Target]; within {
			near.Relations = append(near.Relations, graphs.Relation{Source: near.names[id], Relation: n.Type, Target: target})
		}
	}
	return nil
}

// namedIn finds the entities whose names a text has.
func (s *Store) namedIn(ctx context.Context, o scope.Owner, sel *graphs.Selection, text string) (ids []string, err error) {
	for _, w := range graphs.QueryWords(text) {
		page, err := s.graph.List(ctx, graph.ListQuery{Owner: o, NamePrefix: w, Limit: graphs.MaxReached})
		if err != nil {
			return nil, err
		}
		for i := range page.Entities {
			e := &page.Entities[i]
			if selected(sel, o, e) && graphs.SpeaksOf(text, e.Name) && !slices.Contains(ids, e.ID) {
				ids = append(ids, e.ID)
			}
		}
	}
	return ids, nil
}
