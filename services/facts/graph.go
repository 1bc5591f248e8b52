package facts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// An entity that facts made has an ID that follows from its run and its name, so that the
// same name of the same scope is one entity, and the two cannot be mistaken for what
// others keep in the graph. It is linked to the facts that speak of it, and deleted with
// the last of them.

const (
	entityPrefix = "fact-"
	// maxEntities and maxRelations bound what one conversation adds to the graph.
	maxEntities  = 500
	maxRelations = 1_000
	// maxReached bounds the entities that a search goes to from those that its query
	// names, and the facts of those.
	maxReached = 200
	// searchDepth is how many relations away a search goes.
	searchDepth = 1
	// maxQueryWords bounds the words of a query that entities are looked for by.
	maxQueryWords = 64
)

// entity is one that a conversation speaks of.
type entity struct {
	Name, Type, Description string
}

// ownProperties are the properties of an entity that facts made.
type ownProperties struct {
	Run         string `json:"run"`
	Description string `json:"description,omitempty"`
}

func (p ownProperties) json() json.RawMessage {
	b, _ := json.Marshal(p) // two strings
	return b
}

// foldName is a name as it is compared.
func foldName(name string) string { return strings.ToLower(oneLine(name)) }

// entityID is the ID of the entity of a name in a run.
func entityID(run, name string) string {
	sum := sha256.Sum256([]byte(run + "\x00" + foldName(name)))
	return entityPrefix + hex.EncodeToString(sum[:16])
}

// own reports whether facts made an entity, and in which run.
func own(e *graph.Entity) (run string, made bool) {
	var p ownProperties
	if !strings.HasPrefix(e.ID, entityPrefix) || json.Unmarshal(e.Properties, &p) != nil {
		return "", false
	}
	return p.Run, e.ID == entityID(p.Run, e.Name)
}

// conversationGraph is what a conversation adds to the graph.
type conversationGraph struct {
	entities  []entity
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
	var found struct{ Entities []entity }
	err := a.callTool(ctx, "extract entities", llm.Request{
		Messages: []llm.Message{{Role: llm.System, Text: entityPrompt}, {Role: llm.User, Text: conversation}},
		Tools:    []llm.Tool{entityTool},
	}, toolEntities, &found)
	if err != nil {
		return nil, err
	}
	g := &conversationGraph{}
	bad := 0
	for _, e := range found.Entities[:min(len(found.Entities), maxEntities)] {
		e.Name, e.Type = oneLine(e.Name), strings.ToLower(strings.TrimSpace(e.Type))
		check := graph.Entity{Owner: scope.Owner{User: "u"}, ID: "e", Type: e.Type, Name: e.Name, Properties: ownProperties{Description: e.Description}.json()}
		switch {
		case foldName(e.Name) == "" || !slices.Contains(entityTypes, e.Type) || check.Check() != nil:
			bad++
		case !slices.ContainsFunc(g.entities, func(o entity) bool { return foldName(o.Name) == foldName(e.Name) }):
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
	var found struct{ Relations []Relation }
	err := a.callTool(ctx, "extract relations", llm.Request{
		Messages: []llm.Message{{Role: llm.System, Text: relationPrompt}, {Role: llm.User, Text: conversation}, {Role: llm.User, Text: string(list)}},
		Tools:    []llm.Tool{relationTool},
	}, toolRelations, &found)
	if err != nil {
		return err
	}
	bad := 0
	for _, r := range found.Relations[:min(len(found.Relations), maxRelations)] {
		r.Source, r.Target, r.Relation = oneLine(r.Source), oneLine(r.Target), relationType(r.Relation)
		if r.Source == "" || r.Target == "" || r.Relation == "" || len(r.Relation) > engine.MaxID || foldName(r.Source) == foldName(r.Target) {
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

// callTool has the model call a tool, and reads its arguments. A model that answers in
// text is taken at its word.
func (a *adding) callTool(ctx context.Context, doing string, r llm.Request, tool string, into any) error {
	reply, err := a.generate(ctx, doing, r)
	if err != nil {
		return err
	}
	arguments := reply.Text
	for _, c := range reply.Calls {
		if c.Name == tool {
			arguments = c.Arguments
			break
		}
	}
	if len(arguments) > maxReply {
		return llmFailed(doing, fmt.Sprintf("the reply has %d bytes, and the limit is %d", len(arguments), maxReply), nil)
	}
	begin := strings.IndexByte(arguments, '{')
	if begin < 0 {
		return llmFailed(doing, "the model did not call the tool "+tool+truncated(reply), nil)
	}
	if err := json.NewDecoder(strings.NewReader(arguments[begin:])).Decode(into); err != nil {
		return llmFailed(doing, "the arguments of the tool cannot be read"+truncated(reply), err)
	}
	return nil
}

// writeGraph puts the graph of the conversation, and links it to the facts of this Add.
// Entities that no fact speaks of are linked to all of them; without a fact, nothing is
// put.
func (c *committing) writeGraph(ctx context.Context, tx *engine.Tx) error {
	owner := c.scope.Owner()
	var facts []told
	for _, t := range c.linked {
		if err := unlinkGone(ctx, tx, t); err != nil {
			return err
		}
		if t.memory.Scope.Owner() == owner {
			facts = append(facts, t)
		}
	}
	if c.graph == nil || len(facts) == 0 {
		return nil
	}
	batch := graph.Batch{}
	for _, e := range c.graph.entities {
		batch.Entities = append(batch.Entities, graph.Entity{
			Owner: owner, ID: entityID(c.scope.Run, e.Name), Type: e.Type, Name: e.Name,
			Properties: ownProperties{c.scope.Run, e.Description}.json(), Extracted: true,
		})
	}
	if err := c.relate(ctx, tx, &batch); err != nil {
		return err
	}
	if _, err := tx.Graph().Write(ctx, owner, batch, nil); err != nil {
		return err
	}
	for _, e := range batch.Entities {
		about := slices.DeleteFunc(slices.Clone(facts), func(t told) bool { return !speaksOf(t.new, e.Name) })
		if len(about) == 0 {
			about = facts
		}
		for _, t := range about {
			if _, err := tx.Graph().Link(ctx, owner, e.ID, t.memory.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// relate adds the relations whose ends are in the batch or in the graph already, and
// reports the others.
func (c *committing) relate(ctx context.Context, tx *engine.Tx, batch *graph.Batch) error {
	known := map[string]bool{}
	for _, e := range batch.Entities {
		known[e.ID] = true
	}
	for _, r := range c.graph.relations {
		from, to := entityID(c.scope.Run, r.Source), entityID(c.scope.Run, r.Target)
		there, err := tx.Graph().GetAll(ctx, c.scope.Owner(), []string{from, to}, 0)
		if err != nil {
			return err
		}
		for _, e := range there {
			known[e.ID] = true
		}
		if !known[from] || !known[to] {
			c.lost = append(c.lost, Degradation{StepGraph, "", fmt.Sprintf("the relation %s of %q and %q has an end that is no entity", r.Relation, shorten(r.Source), shorten(r.Target)), nil})
			continue
		}
		batch.Relations = append(batch.Relations, graph.Relation{Owner: c.scope.Owner(), From: from, Type: r.Relation, To: to})
		c.relations = append(c.relations, r)
	}
	return nil
}

// speaksOf reports whether a text has a name, as whole words.
func speaksOf(text, name string) bool {
	return strings.Contains(spaced(text), spaced(name))
}

// spaced is the words of a text in lower case, each between spaces.
func spaced(text string) string {
	return " " + strings.Join(wordsOf(text), " ") + " "
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}

// unlinkGone removes the links of a fact to entities of which it no longer speaks.
func unlinkGone(ctx context.Context, tx *engine.Tx, t told) error {
	if t.old == "" || t.memory.Scope.Owner() == (scope.Owner{}) {
		return nil
	}
	ids, err := linkedEntities(ctx, tx, t.memory)
	if err != nil || len(ids) == 0 {
		return err
	}
	owner := t.memory.Scope.Owner()
	entities, err := tx.Graph().GetAll(ctx, owner, ids, 0)
	if err != nil {
		return err
	}
	for i := range entities {
		e := &entities[i]
		if _, made := own(e); !made || !speaksOf(t.old, e.Name) || speaksOf(t.new, e.Name) {
			continue
		}
		if _, err := tx.Graph().Unlink(ctx, owner, e.ID, t.memory.ID); err != nil {
			return err
		}
	}
	return dropUnlinked(ctx, tx, owner, ids)
}

// linkedEntities are the entities that are linked to a fact.
func linkedEntities(ctx context.Context, tx *engine.Tx, m engine.Memory) ([]string, error) {
	if m.Scope.Owner() == (scope.Owner{}) {
		return nil, nil
	}
	return tx.Graph().Linked(ctx, m.Scope.Owner(), m.ID)
}

// dropUnlinked deletes those of some entities that facts made and no fact is linked to.
func dropUnlinked(ctx context.Context, tx *engine.Tx, o scope.Owner, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	entities, err := tx.Graph().GetAll(ctx, o, ids, 0)
	if err != nil {
		return err
	}
	for i := range entities {
		if _, made := own(&entities[i]); !made {
			continue
		}
		left, err := tx.Graph().Memories(ctx, o, entities[i].ID)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			continue
		}
		if _, err := tx.Graph().Delete(ctx, o, entities[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// deleteGraph deletes the entities of an owner that facts made, of some runs.
func deleteGraph(ctx context.Context, tx *engine.Tx, o scope.Owner, of func(run string) bool) error {
	var ids []string
	for q := (graph.ListQuery{Owner: o, Limit: engine.MaxLimit}); ; {
		page, err := tx.Graph().List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Entities {
			if run, made := own(&page.Entities[i]); made && of(run) {
				ids = append(ids, page.Entities[i].ID)
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	for _, id := range ids {
		if _, err := tx.Graph().Delete(ctx, o, id); err != nil {
			return err
		}
	}
	return nil
}

// searchGraph adds to what a search found the facts of the entities that the query names
// and of those that these are related to, ranked by BM25.
func (f *Facts) searchGraph(ctx context.Context, s scope.Scope, query string, found []ranked, also filter.Filter) ([]ranked, []Relation, error) {
	owners, err := f.graphOwners(ctx, s, found)
	if err != nil {
		return found, nil, err
	}
	near := &neighbourhood{names: map[string]string{}, facts: map[string]bool{}}
	for _, o := range owners {
		if err := f.walk(ctx, near, o, s, query); err != nil {
			return found, nil, err
		}
	}
	if len(near.facts) == 0 {
		return found, near.relations, nil
	}
	ids := make([]any, 0, len(near.facts))
	for id := range near.facts {
		ids = append(ids, id)
	}
	only := filter.In("id", ids...)
	if also != nil {
		only = filter.And(only, also)
	}
	r, err := f.DB.Memories().Recall(ctx, engine.Query{
		Scope: s, Text: head(query + " " + strings.Join(near.mentioned, " ")), Filter: f.within(s, only),
		Profile: engine.ProfileText, Limit: len(ids), NoTouch: true,
	})
	if err != nil || len(r.Hits) == 0 || r.Hits[0].Score <= 0 {
		return found, near.relations, err
	}
	return merge(found, r.Hits), near.relations, nil
}

// merge lifts the facts that the graph found by their BM25, as a share of the best.
func merge(found []ranked, hits []engine.Hit) []ranked {
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
	if f.ExactScope || s.User != "" && s.Agent != "" {
		return owners, ctx.Err()
	}
	for i := range found {
		add(found[i].Memory.Scope.Owner())
	}
	return owners, ctx.Err()
}

// neighbourhood is what lies in the graph around the names of a query.
type neighbourhood struct {
	names     map[string]string // of entities, by ID
	mentioned []string          // their names
	facts     map[string]bool   // by ID
	relations []Relation
}

func (f *Facts) walk(ctx context.Context, near *neighbourhood, o scope.Owner, s scope.Scope, query string) error {
	seen := func(e *graph.Entity) bool {
		run, made := own(e)
		return made && (run == s.Run || s.Run == "" && !f.ExactScope)
	}
	starts, err := f.namedIn(ctx, o, query, seen)
	if err != nil {
		return err
	}
	var ids []string
	for _, id := range starts {
		w, err := f.DB.Graph().Query(ctx, o, id, searchDepth, graph.State{})
		if err != nil {
			return err
		}
		for _, at := range w.Found {
			if !slices.Contains(ids, at.ID) && len(ids) < maxReached {
				ids = append(ids, at.ID)
			}
		}
	}
	entities, err := f.DB.Graph().GetAll(ctx, o, ids, 0)
	if err != nil {
		return err
	}
	entities = slices.DeleteFunc(entities, func(e graph.Entity) bool { return !seen(&e) })
	for i := range entities {
		near.names[entities[i].ID] = entities[i].Name
		near.mentioned = append(near.mentioned, entities[i].Name)
	}
	for i := range entities {
		if err := f.about(ctx, near, o, entities[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// about adds the facts of an entity and its relations within the neighbourhood.
func (f *Facts) about(ctx context.Context, near *neighbourhood, o scope.Owner, id string) error {
	memories, err := f.DB.Graph().Memories(ctx, o, id)
	if err != nil {
		return err
	}
	for _, m := range memories {
		if len(near.facts) < maxReached {
			near.facts[m] = true
		}
	}
	page, err := f.DB.Graph().Neighbours(ctx, o, id, graph.NeighbourQuery{Direction: graph.Out, Limit: maxReached})
	if err != nil {
		return err
	}
	for _, n := range page.Neighbours {
		if target, within := near.names[n.Target]; within {
			near.relations = append(near.relations, Relation{near.names[id], n.Type, target})
		}
	}
	return nil
}

// namedIn finds the entities whose names a query has.
func (f *Facts) namedIn(ctx context.Context, o scope.Owner, query string, seen func(*graph.Entity) bool) ([]string, error) {
	words := wordsOf(query)
	slices.Sort(words)
	words = slices.Compact(words)
	var ids []string
	for _, w := range words[:min(len(words), maxQueryWords)] {
		page, err := f.DB.Graph().List(ctx, graph.ListQuery{Owner: o, NamePrefix: w, Limit: maxReached})
		if err != nil {
			return nil, err
		}
		for i := range page.Entities {
			e := &page.Entities[i]
			if seen(e) && speaksOf(query, e.Name) && !slices.Contains(ids, e.ID) {
				ids = append(ids, e.ID)
			}
		}
	}
	return ids, nil
}
