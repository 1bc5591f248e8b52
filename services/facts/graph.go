package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
	"github.com/seed-7aedc3ff/memdb/services/graphs/own"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

const (
	// maxEntities and maxRelations bound what one conversation adds to the graph.
	maxEntities  = 500
	maxRelations = 1_000
)

// Relation is a relation between two entities of the graph, by their names.
type Relation = graphs.Relation

// conversationGraph is what a conversation adds to the graph.
type conversationGraph struct {
	entities  []graphs.Entity
	relations []Relation
}

// startGraph extracts the graph beside the decisions. The channel gives it once, nil where
// there is none; what failed is then in degraded.
func (a *adding) startGraph(ctx context.Context, conversation string) <-chan *conversationGraph {
	got := make(chan *conversationGraph, 1)
	switch {
	case !a.f.Graph || a.o.Raw:
		got <- nil
	case a.f.LLM == nil:
		a.degrade(StepGraph, "", "without a language model nothing is added to the graph", nil)
		got <- nil
	case a.scope.Owner() == (scope.Owner{}):
		a.degrade(StepGraph, "", "a run without a user and an agent has no graph", nil)
		got <- nil
	default:
		go func() {
			var g *conversationGraph
			var err error
			if panicked := panics.Catch("extracts a graph", func() { g, err = a.extractGraph(ctx, conversation) }); panicked != nil {
				err = panicked
			}
			if err != nil {
				a.graphLost = []Degradation{degradation(StepGraph, "", err.Error(), err)}
			}
			got <- g
		}()
	}
	return got
}

// extractGraph asks the model for entities, then for their relations. Entities without
// relations are better than nothing: they come with an error.
func (a *adding) extractGraph(ctx context.Context, conversation string) (*conversationGraph, error) {
	found, err := a.callTool(ctx, "extract entities", llm.Request{
		Messages: []llm.Message{{Role: llm.System, Text: entityPrompt}, {Role: llm.User, Text: conversation}},
		Tools:    []llm.Tool{entityTool},
	}, toolEntities, "entities")
	if err != nil {
		return nil, err
	}
	g := &conversationGraph{}
	bad := 0
	for _, raw := range found[:min(len(found), maxEntities)] {
		var e graphs.Entity
		if json.Unmarshal(raw, &e) != nil {
			bad++
			continue
		}
		e.Name, e.Type = oneLine(e.Name), strings.ToLower(strings.TrimSpace(e.Type))
		switch {
		case graphs.Fold(e.Name) == "" || !slices.Contains(entityTypes, e.Type) || own.Check(e) != nil:
			bad++
		case !slices.ContainsFunc(g.entities, func(o graphs.Entity) bool { return graphs.Fold(o.Name) == graphs.Fold(e.Name) }):
			g.entities = append(g.entities, e)
		}
	}
	if bad > 0 {
		err = llmFailed("extract entities", fmt.Sprintf("%d entities have no name, or a type that is none of the seven", bad), nil)
	}
	if len(g.entities) == 0 {
		return nil, err
	}
	return g, cmp.Or(a.extractRelations(ctx, conversation, g), err)
}

func (a *adding) extractRelations(ctx context.Context, conversation string, g *conversationGraph) error {
	names := make([]string, len(g.entities))
	for i, e := range g.entities {
		names[i] = e.Name
	}
	list, _ := json.Marshal(names) // strings
	found, err := a.callTool(ctx, "extract relations", llm.Request{
		Messages: []llm.Message{{Role: llm.System, Text: relationPrompt}, {Role: llm.User, Text: conversation}, {Role: llm.User, Text: string(list)}},
		Tools:    []llm.Tool{relationTool},
	}, toolRelations, "relations")
	if err != nil {
		return err
	}
	bad := 0
	for _, raw := range found[:min(len(found), maxRelations)] {
		var r Relation
		if json.Unmarshal(raw, &r) != nil {
			bad++
			continue
		}
		r.Source, r.Target, r.Relation = oneLine(r.Source), oneLine(r.Target), relationType(r.Relation)
		if r.Source == "" || r.Target == "" || r.Relation == "" || len(r.Relation) > memory.MaxID || graphs.Fold(r.Source) == graphs.Fold(r.Target) {
			bad++
			continue
		}
		if !slices.Contains(g.relations, r) {
			g.relations = append(g.relations, r)
		}
	}
	if bad > 0 {
		return llmFailed("extract relations", fmt.Sprintf("%d relations lack an end or a type, or go from an entity to itself", bad), nil)
	}
	return nil
}

// relationType is a type of relation in one form: "works at" is works_at.
func relationType(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "_")
}

// callTool has the model call a tool, and returns the elements of a list of its arguments. A
// model that answers in text is taken at its word.
func (a *adding) callTool(ctx context.Context, doing string, r llm.Request, tool, field string) ([]json.RawMessage, error) {
	reply, err := a.generate(ctx, doing, r)
	if err != nil {
		return nil, err
	}
	all, err := llm.Elements(&reply, tool, field)
	if err != nil {
		return nil, llmFailed(doing, "the arguments of the tool cannot be read"+truncated(reply), err)
	}
	return all, nil
}

// graphChange is what this Add does to the graph.
func (c *committing) graphChange() graphs.Change {
	change := graphs.Change{Scope: c.scope, Gone: c.gone}
	owner := c.scope.Owner()
	for _, t := range c.linked {
		if slices.ContainsFunc(c.gone, func(g graphs.Fact) bool { return g.ID == t.memory.ID && g.Scope == t.memory.Scope }) {
			continue // a later fact of the same conversation ends it
		}
		f := graphs.Fact{ID: t.memory.ID, Scope: t.memory.Scope, Text: t.new, Before: t.old}
		if t.old != "" {
			change.Retold = append(change.Retold, f)
		}
		if t.memory.Scope.Owner() == owner {
			f.Before = ""
			change.Told = append(change.Told, f)
		}
	}
	if c.graph != nil && len(change.Told) > 0 {
		change.Entities, change.Relations = c.graph.entities, c.graph.relations
	}
	return change
}

// writeGraph puts the graph of the conversation, and links it to the facts of this Add.
// Entities that no fact speaks of are linked to all of them; without a fact, nothing is
// put.
func (c *committing) writeGraph(ctx context.Context, tx *engine.Tx) error {
	done, waiting, err := c.f.applyGraph(ctx, tx, c.graphChange())
	c.waiting, c.relations = waiting, done.Taken
	c.lost = append(c.lost, lostRelations(done.Lost)...)
	return err
}

// finishGraph does what is to be done in another graph store.
func (a *adding) finishGraph(ctx context.Context, waiting string) {
	if waiting == "" {
		return
	}
	var done graphs.Applied
	err := a.lend(ctx, func(db *engine.DB) (err error) {
		done, err = a.f.flushGraph(ctx, db.KV(), waiting)
		return err
	})
	a.relations = done.Taken
	a.degraded = append(a.degraded, lostRelations(done.Lost)...)
	if err != nil {
		a.degrade(StepGraph, "", err.Error(), err)
	}
}

// lostRelations says which relations were not taken.
func lostRelations(list []Relation) (lost []Degradation) {
	for _, r := range list {
		lost = append(lost, Degradation{StepGraph, "", fmt.Sprintf("the relation %s of %q and %q has an end that is no entity", r.Relation, shorten(r.Source), shorten(r.Target)), nil})
	}
	return lost
}

// searchGraph adds to what a search found the facts of the entities that the query names
// and of those that these are related to, ranked by BM25.
func (f *Facts) searchGraph(ctx context.Context, s scope.Scope, query string, found []ranked, also filter.Filter) ([]ranked, []Relation, error) {
	store := f.GraphStore
	if store == nil {
		owners, err := f.graphOwners(ctx, s, found)
		if err != nil {
			return found, nil, err
		}
		store = own.New(f.DB.Graph(), owners...)
	}
	var near graphs.Near
	var err error
	if panicked := panics.Catch("searches the graph", func() {
		near, err = store.Around(ctx, graphs.Selection{Scope: s, Exact: f.ExactReads}, query)
	}); panicked != nil {
		err = panicked
	}
	if err != nil || len(near.Facts) == 0 {
		return found, near.Relations, err
	}
	ids := make([]any, 0, len(near.Facts))
	for _, id := range near.Facts {
		ids = append(ids, id)
	}
	only := filter.In("id", ids...)
	if also != nil {
		only = filter.And(only, also)
	}
	r, err := f.DB.Memories().Recall(ctx, memory.Query{
		Scope: s, Text: head(query + " " + strings.Join(near.Names, " ")), Filter: within(s, f.ExactReads, only),
		Profile: memory.ProfileText, Limit: len(ids), NoTouch: true,
	})
	if err != nil || len(r.Hits) == 0 || r.Hits[0].Score <= 0 {
		return found, near.Relations, err
	}
	return merge(found, r.Hits), near.Relations, nil
}

// merge lifts the facts that the graph found by their BM25, as a share of the best.
func merge(found []ranked, hits []memory.Hit) []ranked {
	for i := range hits {
		share := byWords * hits[i].Score / hits[0].Score
		at := slices.IndexFunc(found, func(r ranked) bool { return r.Seq == hits[i].Seq })
		if at < 0 {
			at = len(found)
			found = append(found, ranked{hits[i].Memory, 0})
		}
		found[at].score = either(found[at].score, share)
	}
	sortRanked(found)
	return found
}

// graphOwners are the owners whose graphs a search looks at: the one that the scope
// names, and where it leaves a part open, those of what was found.
func (f *Facts) graphOwners(ctx context.Context, s scope.Scope, found []ranked) ([]scope.Owner, error) {
	var owners []scope.Owner
	add := func(o scope.Owner) {
		if o != (scope.Owner{}) && !slices.Contains(owners, o) {
			owners = append(owners, o)
		}
	}
	add(s.Owner())
	if f.ExactReads || s.User != "" && s.Agent != "" {
		return owners, ctx.Err()
	}
	for i := range found {
		add(found[i].Memory.Scope.Owner())
	}
	return owners, ctx.Err()
}
