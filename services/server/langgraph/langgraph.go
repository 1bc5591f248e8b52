// Package langgraph has LangGraph's store as a dialect of the server: values under a namespace and a
// key, found by their fields and by what they mean.
//
// An item is a memory of the scope of the key, exactly. Its text is what of the value is searched; its
// metadata has the namespace, the key and the value. Its ID follows from scope, namespace and key.
//
// docs/server/langgraph.md says what works, and what differs.
package langgraph

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// Options change the dialect. nil is the default.
type Options struct {
	// Scope is whose items a request means that may see everything and names nobody. Zero: the user
	// "default".
	Scope memory.Scope
}

// New returns the dialect.
func New(o *Options) *server.Dialect {
	s := &store{otherwise: memory.Scope{User: "default"}}
	if o != nil && o.Scope != (memory.Scope{}) {
		s.otherwise = o.Scope
	}
	return &server.Dialect{Name: "langgraph", Prefixes: []string{"/store/"}, Fail: fail, Routes: []server.Route{
		{Pattern: "PUT /store/items", Handle: s.put},
		{Pattern: "GET /store/items", Handle: s.get},
		{Pattern: "DELETE /store/items", Handle: s.remove},
		{Pattern: "POST /store/items/search", Handle: s.search},
		{Pattern: "POST /store/namespaces", Handle: s.namespaces},
	}}
}

type store struct{ otherwise memory.Scope }

func fail(w http.ResponseWriter, _ *http.Request, f *server.Failure) {
	status := f.Status
	if status == http.StatusBadRequest {
		status = http.StatusUnprocessableEntity
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]string{"detail": f.Message}) // a client that has left is not told
}

func invalid(format string, args ...any) error {
	return server.Fail(http.StatusUnprocessableEntity, "invalid", format, args...)
}

// errNoItem is that there is no item under a key.
var errNoItem = server.Fail(http.StatusNotFound, "not_found", "Item not found")

// maxWindow bounds limit and offset together.
const maxWindow = memory.MaxLimit

// field is the path of what an item has in the metadata of its memory.
const field = "metadata." + exchange.LangGraphField + "."

// scope is whose items a request means.
func (s *store) scope(c *server.Call) (memory.Scope, error) {
	q := c.R.URL.Query()
	asked := memory.Scope{User: q.Get("user"), Agent: q.Get("agent"), Run: q.Get("run")}
	if asked == (memory.Scope{}) && c.Admin() {
		asked = s.otherwise
	}
	return c.Scope(asked)
}

// items chooses the items of a scope whose namespace begins with labels.
func items(of memory.Scope, prefix []string) []filter.Filter {
	all := []filter.Filter{filter.Eq("user", of.User), filter.Eq("agent", of.Agent), filter.Eq("run", of.Run)}
	if len(prefix) == 0 {
		return append(all, filter.Exists(field+exchange.LangGraphKey))
	}
	joined := strings.Join(prefix, ".")
	return append(all, filter.Or(filter.Eq(field+exchange.LangGraphSpace, joined), filter.Prefix(field+exchange.LangGraphSpace, joined+".")))
}

// checked is an error of an item as clients are told of it.
func checked(err error) error {
	if err != nil {
		err = invalid("%v", err)
	}
	return err
}

// idOf is the ID of the memory of an item.
func idOf(of memory.Scope, space []string, key string) (string, error) {
	id, err := exchange.LangGraphID(of, space, key)
	return id, checked(err)
}

// item is an item as clients see it.
type item struct {
	Namespace []string  `json:"namespace"`
	Key       string    `json:"key"`
	Value     any       `json:"value"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// itemOf is a memory as an item; false where it is none.
func itemOf(m *memory.Memory) (item, bool) {
	of, _ := m.Metadata[exchange.LangGraphField].(map[string]any)
	space, isSpace := of[exchange.LangGraphSpace].(string)
	key, isKey := of[exchange.LangGraphKey].(string)
	value, isValue := of[exchange.LangGraphValue].(map[string]any)
	return item{strings.Split(space, "."), key, value, m.CreatedAt, m.UpdatedAt}, isSpace && isKey && isValue
}

func (s *store) put(c *server.Call) error {
	var body struct {
		Namespace []string        `json:"namespace"`
		Key       string          `json:"key"`
		Value     exchange.Object `json:"value"`
		Index     json.RawMessage `json:"index"`
		TTL       *float64        `json:"ttl"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	of, err := s.scope(c)
	if err != nil {
		return err
	}
	i := exchange.LangGraphItem{Scope: of, Namespace: body.Namespace, Key: body.Key, Value: body.Value, Index: body.Index, TTL: body.TTL}
	m, err := i.Memory(c.Now())
	if err != nil {
		return checked(err)
	}
	m.UpdatedAt = c.Now()
	if _, err := c.DB.Memories().Store(c.Context(), m, &memory.StoreOptions{Upsert: true, NoDedup: true}); err != nil {
		return err
	}
	return c.Reply(http.StatusNoContent, nil)
}

func (s *store) get(c *server.Call) error {
	q := c.R.URL.Query()
	var space []string
	if text := q.Get("namespace"); text != "" {
		space = strings.Split(text, ".")
	}
	of, err := s.scope(c)
	if err != nil {
		return err
	}
	id, err := idOf(of, space, q.Get("key"))
	if err != nil {
		return err
	}
	m, err := c.DB.Memories().Get(c.Context(), of, id)
	if errors.Is(err, memory.ErrNotFound) {
		return errNoItem
	}
	if err != nil {
		return err
	}
	found, is := itemOf(&m)
	if !is {
		return errNoItem
	}
	if q.Get("refresh_ttl") != "false" {
		if err := refresh(c, []memory.Memory{m}); err != nil {
			return err
		}
	}
	return c.Reply(http.StatusOK, found)
}

// refresh starts the time to live of items again, which is no change of them.
func refresh(c *server.Call, read []memory.Memory) error {
	until := map[uint64]time.Time{}
	for i := range read {
		m := &read[i]
		kept, _ := m.Metadata[exchange.LangGraphField].(map[string]any)
		number, _ := kept[exchange.LangGraphTTL].(json.Number)
		if number == "" || m.ExpiresAt.IsZero() { // an item that has no time to live
			continue
		}
		ttl, err := number.Float64()
		if err != nil {
			return err
		}
		if until[m.Seq], err = exchange.LangGraphExpiry(c.Now(), ttl); err != nil {
			return checked(err)
		}
	}
	if len(until) == 0 {
		return nil
	}
	return c.DB.Memories().Extend(c.Context(), until)
}

func (s *store) remove(c *server.Call) error {
	var body struct {
		Namespace []string `json:"namespace"`
		Key       string   `json:"key"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	of, err := s.scope(c)
	if err != nil {
		return err
	}
	id, err := idOf(of, body.Namespace, body.Key)
	if err != nil {
		return err
	}
	if err := c.DB.Memories().Delete(c.Context(), of, id); err != nil && !errors.Is(err, memory.ErrNotFound) {
		return err
	}
	return c.Reply(http.StatusNoContent, nil)
}
