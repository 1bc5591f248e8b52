package mem0

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// entity is a user, an agent, an app or a run that has memories.
type entity struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Type      string         `json:"type"`
	Owner     string         `json:"owner"`
	Metadata  map[string]any `json:"metadata"`
	Memories  int            `json:"total_memories"`
	CreatedAt time.Time      `json:"created_at"`
	UpdatedAt time.Time      `json:"updated_at"`
}

// entityKey names one.
type entityKey struct{ kind, name string }

// entities are those of a selection.
type entities struct {
	all      map[entityKey]*entity
	memories int
}

// countEntities reads a selection, and says whose it is.
func countEntities(ctx context.Context, tx *engine.Tx, s *selection) (entities, error) {
	e := entities{all: map[entityKey]*entity{}}
	for m, err := range s.all(ctx, tx) {
		if err != nil {
			return e, err
		}
		e.memories++
		app, _ := products.Mem0More(m.Metadata)[products.Mem0App].(string)
		for _, of := range []entityKey{{"user", m.User}, {"agent", m.Agent}, {"app", app}, {"run", m.Run}} {
			if of.name != "" {
				e.add(of, &m)
			}
		}
	}
	return e, nil
}

func (e *entities) add(of entityKey, m *memory.Memory) {
	one := e.all[of]
	if one == nil {
		one = &entity{ID: of.name, Name: of.name, Type: of.kind, Owner: "memdb", CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt}
		e.all[of] = one
	}
	one.Memories++
	if m.CreatedAt.Before(one.CreatedAt) {
		one.CreatedAt = m.CreatedAt
	}
	if m.UpdatedAt.After(one.UpdatedAt) {
		one.UpdatedAt = m.UpdatedAt
	}
}

// counts are how many there are of each type.
func (e *entities) counts() map[string]int {
	n := map[string]int{}
	for of := range e.all {
		n[of.kind]++
	}
	return n
}

// list is all of them, by type and name.
func (e *entities) list() []*entity {
	list := make([]*entity, 0, len(e.all))
	for _, one := range e.all {
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b *entity) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name)) })
	return list
}

// entitiesOf are those of what is asked for.
func (c *call) entitiesOf(w wanted) (e entities, err error) {
	w.named = true // without a name it is what the key sees
	s, err := c.selected(w, true)
	if err != nil {
		return e, err
	}
	err = c.DB.View(c.Context(), func(tx *engine.Tx) (err error) {
		e, err = countEntities(c.Context(), tx, s)
		return err
	})
	return e, err
}

// listEntities answers those who have memories, all of them unless a page is asked for.
func listEntities(c *call) error {
	e, err := c.entitiesOf(anything())
	if err != nil {
		return err
	}
	list := e.list()
	if c.form == open {
		list = slices.DeleteFunc(list, func(one *entity) bool { return one.Type == "app" })
		return c.Reply(http.StatusOK, list)
	}
	q := c.R.URL.Query()
	p := paged{1, max(len(list), 1)}
	if q.Has("page") || q.Has("page_size") {
		if p, err = c.pages(&listing{}); err != nil {
			return err
		}
	}
	from := min((p.number-1)*p.size, len(list))
	results := []any{}
	for _, one := range list[from:min(from+p.size, len(list))] {
		results = append(results, one)
	}
	n := e.counts()
	return c.Reply(http.StatusOK, struct {
		envelope
		Users  int `json:"total_users"`
		Agents int `json:"total_agents"`
		Apps   int `json:"total_apps"`
		Runs   int `json:"total_runs"`
	}{c.envelope(p, len(list), results), n["user"], n["agent"], n["app"], n["run"]})
}

// getEntity answers one entity as a list, empty where it has no memories.
func getEntity(c *call) error {
	w, err := c.ofEntity()
	if err != nil {
		return err
	}
	e, err := c.entitiesOf(w)
	if err != nil {
		return err
	}
	list := []*entity{}
	if one := e.all[entityKey{c.R.PathValue("type"), c.R.PathValue("entity")}]; one != nil {
		list = append(list, one)
	}
	return c.Reply(http.StatusOK, list)
}

// deleteEntity deletes the memories of an entity.
func deleteEntity(c *call) error {
	w, err := c.ofEntity()
	if err == nil {
		err = c.deleteWanted(w)
	}
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, message{"Entity deleted successfully!"})
}

// listOfEntity answers a page of the memories of an entity.
func listOfEntity(c *call) error {
	w, err := c.ofEntity()
	if err != nil {
		return err
	}
	p, err := c.pages(&listing{})
	if err != nil {
		return err
	}
	p.size = defaultPage
	s, err := c.selected(w, false)
	if err != nil {
		return err
	}
	found, err := s.page(c.Context(), (p.number-1)*p.size, p.size)
	if err != nil {
		return err
	}
	if p.number > 1 && len(found.memories) == 0 {
		return server.Fail(http.StatusNotFound, "not_found", "Invalid page.")
	}
	items, err := newItems(found.memories, nil)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, c.envelope(p, found.count, items))
}
