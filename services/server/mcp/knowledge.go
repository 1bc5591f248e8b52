package mcp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// knowledge is the graph of an owner as the reference memory server has it.
type knowledge struct {
	db    *engine.DB
	owner memory.Owner
	now   func() time.Time
}

// node and arc are what the reference memory server answers with.
type node struct {
	Name         string   `json:"name"`
	EntityType   string   `json:"entityType"`
	Observations []string `json:"observations"`
}

type arc struct {
	From         string `json:"from"`
	To           string `json:"to"`
	RelationType string `json:"relationType"`
}

type known struct {
	Entities  []node `json:"entities"`
	Relations []arc  `json:"relations"`
}

type confirmed struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

// unknownEntity is the error of the reference memory server for an entity that is not there.
type unknownEntity struct{ name string }

func (e *unknownEntity) Error() string { return "Entity with name " + e.name + " not found" }

// lastOrder is the greatest order that this process, which alone has the database, has given.
var lastOrder atomic.Int64

// order is greater than all before it: microseconds, unless the clock was set back.
func (k *knowledge) order() int64 {
	for {
		last := lastOrder.Load()
		next := max(last+1, k.now().UnixMicro())
		if lastOrder.CompareAndSwap(last, next) {
			return next
		}
	}
}

// placed is a value with its place among others.
type placed[T any] struct {
	value T
	order int64
}

func inOrder[T any](all []placed[T]) []T {
	slices.SortStableFunc(all, func(a, b placed[T]) int { return cmp.Compare(a.order, b.order) })
	values := make([]T, len(all))
	for i := range all {
		values[i] = all[i].value
	}
	return values
}

// maxRead bounds what one answer has, in bytes.
const maxRead = 64 << 20

// read is the whole graph, in one state.
func (k *knowledge) read(ctx context.Context) (known, error) {
	return readFrom(ctx, k.db.Graph(), k.owner)
}

func readFrom(ctx context.Context, g graph.Graph, owner memory.Owner) (known, error) {
	var nodes []placed[node]
	var arcs []placed[arc]
	size := 0
	grow := func(n int) error {
		if size += n; size > maxRead {
			return &memory.Error{
				Kind: memory.ErrInvalid, What: "read the graph", Why: fmt.Sprintf("it has more than %d bytes", maxRead),
				Do: "look at a part of it, as memdbctl graph does",
			}
		}
		return nil
	}
	err := g.Each(ctx, owner, func(e graph.Entity) error {
		n, order, shown := products.NodeOf(&e)
		if !shown {
			return nil
		}
		nodes = append(nodes, placed[node]{node{n.Name, n.Type, n.Observations}, order})
		return grow(len(e.ID) + len(e.Type) + len(e.Properties))
	}, func(r graph.Relation) error {
		a, order := products.ArcOf(&r)
		arcs = append(arcs, placed[arc]{arc{a.From, a.To, a.Type}, order})
		return grow(len(a.From) + len(a.To) + len(a.Type))
	})
	return known{inOrder(nodes), inOrder(arcs)}, err
}

// only is what is left of a graph with the entities that a test keeps: relations have one of them
// at either end.
func (g known) only(keep func(*node) bool) known {
	kept := known{Entities: []node{}, Relations: []arc{}}
	names := map[string]bool{}
	for i := range g.Entities {
		if keep(&g.Entities[i]) {
			kept.Entities = append(kept.Entities, g.Entities[i])
			names[g.Entities[i].Name] = true
		}
	}
	for _, a := range g.Relations {
		if names[a.From] || names[a.To] {
			kept.Relations = append(kept.Relations, a)
		}
	}
	return kept
}

func (k *knowledge) readGraph(ctx context.Context, _ map[string]any) (content, structured any, err error) {
	g, err := k.read(ctx)
	return g, g, err
}

func (k *knowledge) searchNodes(ctx context.Context, args map[string]any) (content, structured any, err error) {
	g, err := k.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	query := lower(args["query"].(string))
	has := func(s string) bool { return strings.Contains(lower(s), query) }
	g = g.only(func(n *node) bool {
		return has(n.Name) || has(n.EntityType) || slices.ContainsFunc(n.Observations, has)
	})
	return g, g, nil
}

func (k *knowledge) openNodes(ctx context.Context, args map[string]any) (content, structured any, err error) {
	g, err := k.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	asked := map[string]bool{}
	for _, name := range texts(args["names"]) {
		asked[name] = true
	}
	g = g.only(func(n *node) bool { return asked[n.Name] })
	return g, g, nil
}

// texts, objects and textOf take what a shape has checked apart.
func texts(v any) []string {
	all := []string{}
	for _, s := range v.([]any) {
		all = append(all, s.(string))
	}
	return all
}

func objects(v any) []map[string]any {
	all := []map[string]any{}
	for _, o := range v.([]any) {
		all = append(all, o.(map[string]any))
	}
	return all
}

func arcOf(o map[string]any) arc {
	return arc{o["from"].(string), o["to"].(string), o["relationType"].(string)}
}

// kept is the arc as it is kept.
func (a arc) kept() *products.Arc { return &products.Arc{From: a.From, To: a.To, Type: a.RelationType} }

// find is the entity of a name with its observations, nil where there is none for the tools.
func find(ctx context.Context, g graph.Graph, owner memory.Owner, name string) (*graph.Entity, []string, error) {
	found, err := g.GetAll(ctx, owner, []string{products.NodeID(name)}, 0)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	n, _, shown := products.NodeOf(&found[0])
	if !shown {
		return nil, nil, nil
	}
	return &found[0], n.Observations, nil
}

func (k *knowledge) createEntities(ctx context.Context, args map[string]any) (content, structured any, err error) {
	added := []node{}
	err = k.db.Update(ctx, func(tx *engine.Tx) error {
		g, seen := tx.Graph(), map[string]bool{}
		var b graph.Batch
		for _, o := range objects(args["entities"]) {
			n := node{o["name"].(string), o["entityType"].(string), texts(o["observations"])}
			there, _, err := find(ctx, g, k.owner, n.Name)
			if err != nil {
				return err
			}
			if there != nil || seen[n.Name] {
				continue
			}
			seen[n.Name] = true
			added = append(added, n)
			e, err := (&products.Node{Name: n.Name, Type: n.EntityType, Observations: n.Observations}).Entity(k.order())
			if err != nil {
				return err
			}
			b.Entities = append(b.Entities, e)
		}
		if len(added) == 0 {
			return nil
		}
		_, err := g.Write(ctx, k.owner, b, nil)
		return err
	})
	return added, map[string]any{"entities": added}, err
}

func (k *knowledge) createRelations(ctx context.Context, args map[string]any) (content, structured any, err error) {
	added := []arc{}
	err = k.db.Update(ctx, func(tx *engine.Tx) error {
		g, seen := tx.Graph(), map[arc]bool{}
		var b graph.Batch
		for _, o := range objects(args["relations"]) {
			a := arcOf(o)
			if seen[a] {
				continue
			}
			r, err := a.kept().Relation(k.order())
			if err != nil {
				return err
			}
			there, err := g.Relations(ctx, k.owner, r.From, r.Type, r.To, graph.State{})
			if err != nil {
				return err
			}
			if len(there) > 0 {
				continue
			}
			seen[a] = true
			added = append(added, a)
			b.Relations = append(b.Relations, r)
		}
		if len(added) == 0 {
			return nil
		}
		_, err := g.Write(ctx, k.owner, b, &graph.Options{Create: true})
		return err
	})
	return added, map[string]any{"relations": added}, err
}

type addedObservations struct {
	EntityName        string   `json:"entityName"`
	AddedObservations []string `json:"addedObservations"`
}

func (k *knowledge) addObservations(ctx context.Context, args map[string]any) (content, structured any, err error) {
	results := []addedObservations{}
	err = k.change(ctx, objects(args["observations"]), func(o map[string]any, there []string) []string {
		fresh := []string{}
		for _, text := range texts(o["contents"]) {
			if !slices.Contains(there, text) {
				fresh = append(fresh, text)
			}
		}
		results = append(results, addedObservations{o["entityName"].(string), fresh})
		return slices.Concat(there, fresh)
	}, true)
	return results, map[string]any{"results": results}, err
}

func (k *knowledge) deleteObservations(ctx context.Context, args map[string]any) (content, structured any, err error) {
	err = k.change(ctx, objects(args["deletions"]), func(o map[string]any, there []string) []string {
		gone := texts(o["observations"])
		return slices.DeleteFunc(slices.Clone(there), func(text string) bool { return slices.Contains(gone, text) })
	}, false)
	const done = "Observations deleted successfully"
	return done, confirmed{true, done}, err
}

// change changes the observations of entities. must: an entity that is not there is an error, and
// nothing is changed.
func (k *knowledge) change(ctx context.Context, all []map[string]any, fn func(o map[string]any, there []string) []string, must bool) error {
	return k.db.Update(ctx, func(tx *engine.Tx) error {
		g := tx.Graph()
		for _, o := range all {
			name := o["entityName"].(string)
			e, there, err := find(ctx, g, k.owner, name)
			switch {
			case err != nil:
				return err
			case e == nil && must:
				return &unknownEntity{name}
			case e == nil:
				continue
			}
			next := fn(o, there)
			if slices.Equal(there, next) {
				continue
			}
			properties, err := products.Observed(next)
			if err != nil {
				return err
			}
			if _, err := g.Put(ctx, k.owner, graph.Entity{ID: e.ID, Properties: properties}, nil, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

func (k *knowledge) deleteEntities(ctx context.Context, args map[string]any) (content, structured any, err error) {
	err = k.db.Update(ctx, func(tx *engine.Tx) error {
		g, ends, seen := tx.Graph(), map[string]bool{}, map[string]bool{}
		for _, name := range texts(args["entityNames"]) {
			if seen[name] {
				continue
			}
			seen[name] = true
			there, err := g.GetAll(ctx, k.owner, []string{products.NodeID(name)}, 0)
			if err != nil {
				return err
			}
			if len(there) == 0 {
				continue
			}
			err = k.neighbours(ctx, g, there[0].ID, func(n graph.Neighbour) { ends[n.Target] = true })
			if err != nil {
				return err
			}
			if _, err := g.Delete(ctx, k.owner, there[0].ID); err != nil {
				return err
			}
		}
		return k.prune(ctx, g, ends)
	})
	const done = "Entities deleted successfully"
	return done, confirmed{true, done}, err
}

func (k *knowledge) deleteRelations(ctx context.Context, args map[string]any) (content, structured any, err error) {
	err = k.db.Update(ctx, func(tx *engine.Tx) error {
		g, ends := tx.Graph(), map[string]bool{}
		for _, o := range objects(args["relations"]) {
			r, err := arcOf(o).kept().Relation(0)
			if err != nil {
				return err
			}
			there, err := g.Relations(ctx, k.owner, r.From, r.Type, r.To, graph.State{})
			if err != nil {
				return err
			}
			for i := range there {
				if err := k.end(ctx, g, &there[i]); err != nil {
					return err
				}
			}
			ends[r.From], ends[r.To] = true, true
		}
		return k.prune(ctx, g, ends)
	})
	const done = "Relations deleted successfully"
	return done, confirmed{true, done}, err
}

// end ends a relation: by its ID where it is not the one that its triple names.
func (k *knowledge) end(ctx context.Context, g graph.Graph, r *graph.Relation) error {
	return g.End(ctx, k.owner, r.From, r.Type, r.To, r.ID)
}

// neighbours calls fn with each relation of an entity.
func (k *knowledge) neighbours(ctx context.Context, g graph.Graph, id string, fn func(graph.Neighbour)) error {
	q := graph.NeighbourQuery{Limit: memory.MaxLimit}
	for {
		page, err := g.Neighbours(ctx, k.owner, id, q)
		if err != nil {
			return err
		}
		for _, n := range page.Neighbours {
			fn(n)
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// prune deletes what stood for ends of relations, and is an end of none any more.
func (k *knowledge) prune(ctx context.Context, g graph.Graph, ends map[string]bool) error {
	found, err := g.GetAll(ctx, k.owner, slices.Sorted(maps.Keys(ends)), 0)
	if err != nil {
		return err
	}
	for i := range found {
		if _, _, shown := products.NodeOf(&found[i]); shown {
			continue
		}
		page, err := g.Neighbours(ctx, k.owner, found[i].ID, graph.NeighbourQuery{Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Neighbours) > 0 {
			continue
		}
		if _, err := g.Delete(ctx, k.owner, found[i].ID); err != nil {
			return err
		}
	}
	return nil
}
