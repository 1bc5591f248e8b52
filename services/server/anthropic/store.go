package anthropic

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server/tree"
)

// The limits of a store.
const (
	maxName          = 255
	maxDescription   = 1024
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
	// maxStores bounds the stores of an owner: a list reads all of them.
	maxStores = 10_000
)

const storeMark = "memstore_"

// store is a memory store, as an entry has it and a client sees it.
type store struct{ products.MemoryStore }

func (s *store) check() error {
	switch n := utf8.RuneCountInString(s.Name); {
	case n < 1 || n > maxName:
		return invalid("name: it has %d characters; give 1 to %d", n, maxName)
	case strings.ContainsFunc(s.Name, unicode.IsControl):
		return invalid("name: it has a control character")
	case utf8.RuneCountInString(s.Description) > maxDescription:
		return invalid("description: it has more than %d characters", maxDescription)
	case len(s.Metadata) > maxMetadata:
		return invalid("metadata: it has %d pairs; %d are the most", len(s.Metadata), maxMetadata)
	}
	for key, value := range s.Metadata {
		if n := utf8.RuneCountInString(key); n < 1 || n > maxMetadataKey || utf8.RuneCountInString(value) > maxMetadataValue {
			return invalid("metadata: a key has 1 to %d characters and a value at most %d, and %.80q does not", maxMetadataKey, maxMetadataValue, key)
		}
	}
	return nil
}

// now is the time with the resolution that is stored.
func (c *call) now() time.Time { return c.Now().UTC().Truncate(time.Millisecond) }

// find is a store of an ID.
func (c *call) find(v *tree.View, id string) (store, error) {
	e, found, err := v.KV().Lookup(c.Context(), c.owner, products.StoresKey+id)
	switch {
	case err != nil:
		return store{}, err
	case found:
		return parseStore(e)
	}
	s := store{products.MemoryStore{ID: id, Type: products.TypeMemoryStore, Name: id, Metadata: map[string]string{}, CreatedAt: c.now()}}
	some := id == products.Memories
	if some {
		s.Name, s.Description = "memories", "The files of the memory tool."
	}
	err = v.Files("/", func(f tree.File) { // an import may bring the memories alone
		some = true
		if f.CreatedAt.Before(s.CreatedAt) {
			s.CreatedAt = f.CreatedAt
		}
	})
	if err == nil && !some {
		err = unknown("memory store", id)
	}
	s.UpdatedAt = s.CreatedAt
	return s, err
}

func parseStore(e entries.Entry) (store, error) {
	var s store
	if err := json.Unmarshal(e.Value, &s); err != nil {
		return s, &memory.Error{Kind: memory.ErrCorrupt, What: "read the entry " + e.Key, Cause: err, Do: "delete that entry"}
	}
	return s, nil
}

// ofStore is the ID of the store that a request means. What is no ID of a store is unknown.
func (c *call) ofStore() (string, error) {
	id := c.R.PathValue("store")
	name, marked := strings.CutPrefix(id, storeMark)
	if !marked || name == "" || len(id) > maxName || strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return "", unknown("memory store", id)
	}
	return id, nil
}

// within runs fn on a store and its memories. With writing it is not archived.
func (c *call) within(writing bool, fn func(s store, e *tree.Edit) error) error {
	id, err := c.ofStore()
	if err != nil {
		return err
	}
	return c.tree(id).Update(c.Context(), func(e *tree.Edit) error {
		s, err := c.find(&e.View, id)
		if err == nil && writing && s.ArchivedAt != nil {
			err = invalid("the memory store %s is archived: its memories can be read and deleted, and nothing else", id)
		}
		if err != nil {
			return err
		}
		return fn(s, e)
	})
}

// reading runs fn on a store and its memories in one state.
func (c *call) reading(fn func(s store, v *tree.View) error) error {
	id, err := c.ofStore()
	if err != nil {
		return err
	}
	return c.tree(id).View(c.Context(), func(v *tree.View) error {
		s, err := c.find(v, id)
		if err != nil {
			return err
		}
		return fn(s, v)
	})
}

func (c *call) put(e *tree.Edit, s *store) error {
	_, err := e.KV().Put(c.Context(), c.owner, products.StoresKey+s.ID, s, nil)
	return err
}

func (c *call) createStore() error {
	var body struct {
		Name        string            `json:"name"`
		Description string            `json:"description"`
		Metadata    map[string]string `json:"metadata"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	at := c.now()
	s := store{products.MemoryStore{ID: storeMark + rand.Text(), Type: products.TypeMemoryStore, Name: body.Name, Description: body.Description, Metadata: body.Metadata, CreatedAt: at, UpdatedAt: at}}
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	if err := s.check(); err != nil {
		return err
	}
	err := c.tree(s.ID).Update(c.Context(), func(e *tree.Edit) error {
		all, err := c.stores(&e.View)
		if err == nil && len(all) >= maxStores {
			err = &memory.Error{Kind: memory.ErrFull, What: "create a memory store", Why: "there are as many as an owner may have", Do: "delete some"}
		}
		if err != nil {
			return err
		}
		return c.put(e, &s)
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, s)
}

// stores are those of which there is an entry.
func (c *call) stores(v *tree.View) (all []store, err error) {
	for e, err := range v.KV().All(c.Context(), entries.Query{Owner: c.owner, Prefix: products.StoresKey}) {
		if err != nil {
			return nil, err
		}
		s, err := parseStore(e)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (c *call) listStores() error {
	q := c.R.URL.Query()
	w, err := windowOf(q)
	if err != nil {
		return err
	}
	p, err := periodOf(q)
	if err != nil {
		return err
	}
	archived := q.Get("include_archived")
	if archived != "" && archived != "true" && archived != "false" {
		return invalid("include_archived: give true or false")
	}
	var all []store
	err = c.tree(products.Memories).View(c.Context(), func(v *tree.View) error {
		if all, err = c.stores(v); err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(s store) bool { return s.ID == products.Memories }) {
			return nil
		}
		some := false
		if err := v.Files("/", func(tree.File) { some = true }); err != nil || !some {
			return err
		}
		s, err := c.find(v, products.Memories)
		all = append(all, s)
		return err
	})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s store) bool {
		return s.ArchivedAt != nil && archived != "true" || !p.has(s.CreatedAt)
	})
	key := func(s store) string { return newestFirst(s.CreatedAt, s.ID) }
	slices.SortFunc(all, func(a, b store) int { return cmp.Compare(key(a), key(b)) })
	return c.page(pageOf(all, key, w, func(s store) (any, error) { return s, nil }))
}

// page answers with a page.
func (c *call) page(p page, err error) error {
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, p)
}

func (c *call) getStore() error {
	var found store
	err := c.reading(func(s store, _ *tree.View) error {
		found = s
		return nil
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, found)
}

func (c *call) updateStore() error {
	var body struct {
		Name        *string            `json:"name"`
		Description *string            `json:"description"`
		Metadata    map[string]*string `json:"metadata"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	var changed store
	err := c.within(true, func(s store, e *tree.Edit) error {
		if body.Name != nil {
			s.Name = *body.Name
		}
		if body.Description != nil {
			s.Description = *body.Description
		}
		for key, value := range body.Metadata {
			if value == nil {
				delete(s.Metadata, key)
			} else {
				s.Metadata[key] = *value
			}
		}
		if err := s.check(); err != nil {
			return err
		}
		s.UpdatedAt = c.now()
		changed = s
		return c.put(e, &s)
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, changed)
}

// fixed refuses what would take the store of the memory tool away.
func fixed(s *store) error {
	if s.ID == products.Memories {
		return invalid("the memory store %s is that of the memory tool and stays; delete its memories instead", s.ID)
	}
	return nil
}

func (c *call) archiveStore() error {
	var changed store
	err := c.within(false, func(s store, e *tree.Edit) error {
		changed = s
		if err := fixed(&s); err != nil || s.ArchivedAt != nil {
			return err
		}
		at := c.now()
		s.ArchivedAt, s.UpdatedAt = &at, at
		changed = s
		return c.put(e, &s)
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, changed)
}

func (c *call) deleteStore() error {
	id := ""
	err := c.within(false, func(s store, e *tree.Edit) error {
		if err := fixed(&s); err != nil {
			return err
		}
		id = s.ID
		if err := e.Clear(); err != nil {
			return err
		}
		return e.KV().Delete(c.Context(), c.owner, products.StoresKey+id)
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, map[string]string{"id": id, "type": "memory_store_deleted"})
}
