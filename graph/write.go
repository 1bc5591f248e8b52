package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Edge is a relation of an entity that is put: from this one to the target.
type Edge struct {
	// Target is the ID of the other end, Type the kind of relation.
	Target, Type       string
	ID                 string // empty: the triple names it
	Properties         json.RawMessage
	ValidFrom, ValidTo time.Time
}

// Batch is what is put together, in one commit.
type Batch struct {
	// Entities are new, or change those with their IDs.
	Entities []Entity
	// Relations may name entities of the batch, of the database, and such as come later.
	Relations []Relation
}

// MaxBatch bounds the entities and the relations of a batch together.
const MaxBatch = 50_000

// Options changes what a put does. nil is the default.
type Options struct {
	// Strict refuses a relation whose ends are not there: ErrNotFound. Otherwise it waits
	// for them.
	Strict bool
	// Create makes entities, without type or name, of the ends of relations that are not
	// there: for lists of bare triples. Strict goes before it.
	Create bool
}

// Stored is what became of an entity or a relation that was put.
type Stored struct {
	// ID is that of the entity or relation.
	ID string
	// Created: it was not there. Updated: it was, and is another now. Neither: it was there
	// and is the same.
	Created, Updated bool
	// WaitsFor has the ends of a relation that are not there yet: until they are, no query
	// returns it. Batches of 64 relations and more do not say so.
	WaitsFor []string
}

// Written is what became of a batch.
type Written struct {
	// Entities has the IDs of those of the batch, in its order. IDs that were not given are
	// given now.
	Entities []Stored
	// Relations has those of the batch, in its order.
	Relations []Stored
	// NewEntities is how many entities came to be, those of [Options].Create too.
	NewEntities int
	// LSN is that of the commit, or of the newest one where nothing changed.
	LSN uint64
}

// Put adds an entity, or changes the one that has its ID, together with relations from it.
// An empty Type or Name leaves what is there; properties are merged, aliases and relations
// are added. An entity without an ID is a new one, and gets a UUID.
func (g Graph) Put(ctx context.Context, o scope.Owner, e Entity, relations []Edge, opts *Options) (Stored, error) {
	doing := fmt.Sprintf("put the entity %q", valid.Short(e.ID))
	if e.ID == "" && len(relations) > 0 {
		return Stored{}, fault.Invalid(doing, "an entity without an ID cannot have relations yet", "give it an ID, or relate it when it has one")
	}
	b := Batch{Entities: []Entity{e}, Relations: relationsOf(e.ID, relations)}
	w, err := g.write(ctx, doing, o, b, opts)
	if err != nil {
		return Stored{}, err
	}
	return w.Entities[0], nil
}

// relationsOf are the relations of an entity with both their ends.
func relationsOf(id string, edges []Edge) []Relation {
	all := make([]Relation, len(edges))
	for i := range edges {
		r := &edges[i]
		all[i] = Relation{ID: r.ID, From: id, Type: r.Type, To: r.Target, Properties: r.Properties, ValidFrom: r.ValidFrom, ValidTo: r.ValidTo}
	}
	return all
}

// Relate adds a relation, or changes the one that its ID or its triple names. A type of
// "inverse:T" is T with the ends changed.
func (g Graph) Relate(ctx context.Context, o scope.Owner, r Relation, opts *Options) (Stored, error) {
	doing := fmt.Sprintf("relate %q to %q", valid.Short(r.From), valid.Short(r.To))
	w, err := g.write(ctx, doing, o, Batch{Relations: []Relation{r}}, opts)
	if err != nil {
		return Stored{}, err
	}
	return w.Relations[0], nil
}

// Write puts entities and relations in one commit: all, or none where one is refused.
func (g Graph) Write(ctx context.Context, o scope.Owner, b Batch, opts *Options) (Written, error) {
	return g.write(ctx, "write to the graph", o, b, opts)
}

func (g Graph) write(ctx context.Context, doing string, o scope.Owner, b Batch, opts *Options) (w Written, err error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := scope.Check(doing, o.Scope()); err != nil {
		return Written{}, err
	}
	if n := len(b.Entities) + len(b.Relations); n > MaxBatch {
		return Written{}, fault.Invalid(doing, fmt.Sprintf("it has %d entities and relations, the limit is %d", n, MaxBatch), "split it")
	}
	c, bytes, err := checkBatch(doing, &b)
	if err != nil {
		return Written{}, err
	}
	put := func(t part.Tx) error {
		e, err := newEditor(t, g.part, doing, o)
		if err == nil {
			w, err = e.write(c, opts)
		}
		return err
	}
	const together = 64 << 10 // what may wait for other callers
	if bytes > together {
		err = g.run.Update(ctx, doing, put)
	} else {
		err = g.run.Append(ctx, doing, bytes, put)
	}
	if err != nil {
		return Written{}, err
	}
	return w, nil
}

// checked is a batch whose values can be stored.
type checked struct {
	entities  []node   // with the type by its name, in the next field
	types     []string // of the entities
	relations []wanted
}

// checkBatch refuses what cannot be stored, and returns about how many bytes it takes.
func checkBatch(doing string, b *Batch) (*checked, int, error) {
	c := &checked{entities: make([]node, len(b.Entities)), types: make([]string, len(b.Entities)), relations: make([]wanted, len(b.Relations))}
	size := valid.MaxID
	for i := range b.Entities {
		n, err := checkEntity(doing, &b.Entities[i])
		if err != nil {
			return nil, 0, err
		}
		c.entities[i], c.types[i] = n, b.Entities[i].Type
		size += 6*(len(n.id)+len(n.name)) + 4*len(n.properties) + 200
	}
	for i := range b.Relations {
		r := &c.relations[i]
		if err := checkRelation(doing, &b.Relations[i], r); err != nil {
			return nil, 0, err
		}
		size += 4*(len(r.from)+len(r.to)) + 4*len(r.properties) + 300
	}
	return c, size, nil
}

// Check returns why the entity cannot be stored.
func (e *Entity) Check() error {
	_, err := checkEntity("check an entity", e)
	return err
}

// Check returns why the relation cannot be stored.
func (r *Relation) Check() error {
	return checkRelation("check a relation", r, &wanted{})
}

func checkEntity(doing string, e *Entity) (n node, err error) {
	n = node{id: e.ID, extracted: e.Extracted, name: e.Name, created: millis(e.CreatedAt), updated: millis(e.UpdatedAt)}
	if len(e.Aliases) > MaxAliases {
		return node{}, fault.Invalid(doing, fmt.Sprintf("it has %d aliases, the limit is %d", len(e.Aliases), MaxAliases), "leave some out")
	}
	for _, s := range [][2]string{{"entity ID", e.ID}, {"entity type", e.Type}, {"name", e.Name}} {
		if err := valid.Word(doing, s[0], s[1]); err != nil {
			return node{}, err
		}
	}
	for _, a := range e.Aliases {
		if a == "" {
			return node{}, fault.Invalid(doing, "an alias is empty", "leave it out")
		}
		if err := valid.Word(doing, "alias", a); err != nil {
			return node{}, err
		}
		n.aliases = append(n.aliases, a)
	}
	for what, t := range map[string]time.Time{"created_at": e.CreatedAt, "updated_at": e.UpdatedAt} {
		if err := valid.Time(doing, what, t); err != nil {
			return node{}, err
		}
	}
	n.properties, err = rawProperties(doing, e.Properties)
	return n, err
}

// addAliases adds those that are not there.
func addAliases(doing string, have, add []string) ([]string, error) {
	all := slices.Clone(have)
	for _, a := range add {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	if len(all) > MaxAliases {
		return nil, fault.Invalid(doing, fmt.Sprintf("it would have %d aliases, the limit is %d", len(all), MaxAliases), "remove some")
	}
	return all, nil
}
