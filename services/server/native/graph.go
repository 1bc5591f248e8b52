package native

import (
	"encoding/json"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
)

var strictEnds = param{name: "strict", kind: flag, summary: "refuse relations to entities that do not exist"}

func graphRoutes() []route {
	return []route{
		{at: "POST /graph/entities", summary: "Add an entity with relations, or update the entity with the same ID", body: graph.Given{}, reply: graph.Added{}, status: http.StatusCreated, handle: addEntity, params: ofOwner(strictEnds)},
		{at: "GET /graph/entities", summary: "List entities", reply: graph.FoundLine{}, lines: true, handle: listEntities, params: ofOwner(
			param{name: "type", kind: text, summary: "only entities of this type"},
			param{name: "name_prefix", kind: text, summary: "only entities with a name or an alias that begins with this text"}, asOf, upTo, after, wholeOf,
		)},
		{at: "GET /graph/entities/{id}", summary: "Show an entity and up to 1,000 of its relations", reply: graph.EntityLine{}, handle: getEntity, params: ofOwner(stateParams...)},
		{at: "DELETE /graph/entities/{id}", summary: "Delete an entity with its relations and links", reply: entityDeleted{}, handle: deleteEntity, params: ofOwner()},
		{at: "POST /graph/relations", summary: "Add a relation, or update the relation with the same ID or triple", body: relation{}, reply: graph.Related{}, status: http.StatusCreated, handle: relate, params: ofOwner(strictEnds)},
		{at: "DELETE /graph/relations", summary: "End a relation; earlier states still have it", reply: ended{}, handle: endRelation, params: ofOwner(
			param{name: "from", kind: text, required: true, summary: "the ID of the entity at the start"},
			param{name: "relation", kind: text, required: true, summary: "the type of the relation"},
			param{name: "to", kind: text, required: true, summary: "the ID of the entity at the end"},
			param{name: "id", kind: text, summary: "the ID of the relation; the default is the relation with this triple"},
		)},
		{at: "PUT /graph/entities/{id}/memories/{memory}", summary: "Link an entity to a memory of its owner", reply: linked{}, handle: linkMemory, params: ofOwner()},
		{at: "DELETE /graph/entities/{id}/memories/{memory}", summary: "Remove the link of an entity to a memory", reply: linked{}, handle: unlinkMemory, params: ofOwner()},
		{at: "POST /graph/entities/{id}/merge", summary: "Merge another entity into this one, with its relations, names and links", body: mergeFrom{}, reply: graph.Merged{}, handle: mergeEntities, params: ofOwner()},
		{at: "POST /graph/entities/{id}/unmerge", summary: "Undo the merge of an entity into another", reply: graph.Merged{}, handle: unmergeEntity, params: ofOwner()},
	}
}

func addEntity(a *ask) error {
	given, err := decoded[graph.Given](a)
	if err != nil {
		return err
	}
	owner, err := a.owner("add an entity")
	if err != nil {
		return err
	}
	b, err := given.Batch()
	if err != nil {
		return err
	}
	w, err := a.DB.Graph().Write(a.Context(), owner, b, &graph.Options{Strict: value[bool](a, "strict")})
	if err != nil {
		return err
	}
	return a.Reply(http.StatusCreated, graph.NewAdded(w))
}

func listEntities(a *ask) error {
	owner, err := a.owner("list entities")
	if err != nil {
		return err
	}
	q := graph.ListQuery{Owner: owner, Type: value[string](a, "type"), NamePrefix: value[string](a, "name_prefix"), AsOf: value[uint64](a, "as_of")}
	return a.list(func(s *stream) error {
		return s.pages(func(after string, limit int) (string, error) {
			q.After, q.Limit = after, limit
			page, err := a.DB.Graph().List(a.Context(), q)
			if err != nil {
				return "", err
			}
			found := make([]graph.Found, len(page.Entities))
			for i, e := range page.Entities {
				found[i].ID = e.ID
			}
			return page.Next, s.found(owner, found, graph.State{AsOf: q.AsOf}, false)
		})
	})
}

func getEntity(a *ask) error {
	owner, err := a.owner("get an entity")
	if err != nil {
		return err
	}
	state, id := a.state(), a.id("id")
	if _, err := a.DB.Graph().Get(a.Context(), owner, id, state.AsOf); err != nil {
		return err
	}
	lines, _, err := a.DB.Graph().Describe(a.Context(), owner, []string{id}, graph.ShownRelations, state)
	if err == nil && len(lines) == 0 {
		err = invalid("get an entity", "it was deleted meanwhile", "")
	}
	if err != nil {
		return err
	}
	return a.ok(lines[0], nil)
}

type entityDeleted struct {
	Deleted graph.Deleted `json:"deleted"`
}

func deleteEntity(a *ask) error {
	owner, err := a.owner("delete an entity")
	if err != nil {
		return err
	}
	d, err := a.DB.Graph().Delete(a.Context(), owner, a.id("id"))
	return a.ok(entityDeleted{d}, err)
}

type relation struct {
	ID         string          `json:"id"`
	From       string          `json:"from" openapi:"required"`
	Relation   string          `json:"relation" openapi:"required"`
	To         string          `json:"to" openapi:"required"`
	Properties json.RawMessage `json:"properties"`
	ValidFrom  exchange.Time   `json:"valid_from"`
	ValidTo    exchange.Time   `json:"valid_to"`
}

func relate(a *ask) error {
	b, err := decoded[relation](a)
	if err != nil {
		return err
	}
	owner, err := a.owner("relate")
	if err != nil {
		return err
	}
	r := graph.Relation{ID: b.ID, From: b.From, Type: b.Relation, To: b.To, Properties: b.Properties, ValidFrom: b.ValidFrom.Time, ValidTo: b.ValidTo.Time}
	s, err := a.DB.Graph().Relate(a.Context(), owner, r, &graph.Options{Strict: value[bool](a, "strict")})
	if err != nil {
		return err
	}
	return a.Reply(http.StatusCreated, graph.NewRelated(s))
}

type ended struct {
	Ended int `json:"ended"`
}

func endRelation(a *ask) error {
	owner, err := a.owner("end a relation")
	if err != nil {
		return err
	}
	err = a.DB.Graph().End(a.Context(), owner, value[string](a, "from"), value[string](a, "relation"), value[string](a, "to"), value[string](a, "id"))
	return a.ok(ended{1}, err)
}

type linked struct {
	Linked  bool `json:"linked"`
	Changed bool `json:"changed"`
}

func linkMemory(a *ask) error {
	owner, err := a.owner("link a memory")
	if err != nil {
		return err
	}
	changed, err := a.DB.Graph().Link(a.Context(), owner, a.id("id"), a.id("memory"))
	return a.ok(linked{true, changed}, err)
}

func unlinkMemory(a *ask) error {
	owner, err := a.owner("unlink a memory")
	if err != nil {
		return err
	}
	changed, err := a.DB.Graph().Unlink(a.Context(), owner, a.id("id"), a.id("memory"))
	return a.ok(linked{false, changed}, err)
}

type mergeFrom struct {
	From string `json:"from" openapi:"required"` // the entity that goes
}

func mergeEntities(a *ask) error {
	b, err := decoded[mergeFrom](a)
	if err != nil {
		return err
	}
	owner, err := a.owner("merge entities")
	if err != nil {
		return err
	}
	m, err := a.DB.Graph().Merge(a.Context(), owner, a.id("id"), b.From)
	return a.ok(m, err)
}

func unmergeEntity(a *ask) error {
	owner, err := a.owner("unmerge an entity")
	if err != nil {
		return err
	}
	m, err := a.DB.Graph().Unmerge(a.Context(), owner, a.id("id"))
	return a.ok(m, err)
}
