package mem0

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

const (
	// defaultPage and maxPage are how many memories a page has, maxOpen how many a list of the
	// open server.
	defaultPage = 100
	maxPage     = 200
	maxOpen     = 1000
	// maxPages bounds the number of a page: those before it are passed over one by one.
	maxPages = 1_000_000
)

// find returns the fact of the ID in the address, of what the key sees. What is none, and what lies
// in another scope, is unknown.
func (c *call) find(id string) (*memory.Memory, error) {
	m, err := c.Get(memory.Scope{}, id)
	if err == nil && m.Kind != memory.KindFact {
		err = server.Unknown("get " + id)
	}
	return m, c.unknown(err)
}

// unknown says of an ID that it is unknown as mem0 does.
func (c *call) unknown(err error) error {
	if errors.Is(err, memory.ErrNotFound) {
		return &server.Failure{Status: http.StatusNotFound, Code: "not_found", Message: "Memory not found!", Err: err}
	}
	return err
}

// get answers one memory; for the open server null where there is none.
func get(c *call) error {
	m, err := c.find(c.R.PathValue("id"))
	if c.form == open && errors.Is(err, memory.ErrNotFound) {
		return c.Reply(http.StatusOK, json.RawMessage("null"))
	}
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, newItem(m))
}

// history answers what has happened to a memory, the oldest first, also after its end. Without one
// it is empty for the open server, and unknown for others.
func history(c *call) error {
	fit, err := c.Scopes(memory.Scope{})
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	list := []record{}
	for _, s := range fit {
		all, err := c.DB.Memories().History(c.Context(), s, c.R.PathValue("id"))
		if err != nil && !errors.Is(err, memory.ErrNotFound) {
			return err
		}
		for i := range all {
			if h := &all[i]; h.Kind == memory.KindFact && !seen[h.ID] {
				seen[h.ID] = true
				list = append(list, newRecord(h))
			}
		}
	}
	if len(list) == 0 && c.form != open {
		return c.unknown(server.Unknown("get the history of " + c.R.PathValue("id")))
	}
	return c.Reply(http.StatusOK, list)
}

// listing is what a list may be asked for beside filters.
type listing struct {
	Filters    json.RawMessage `json:"filters"`
	Expired    bool            `json:"show_expired"`
	StartDate  string          `json:"start_date"`
	EndDate    string          `json:"end_date"`
	Categories []string        `json:"categories"`
	Metadata   json.RawMessage `json:"metadata"`
	Fields     []string        `json:"fields"`
	Keywords   string          `json:"keywords"`
	Page       *int            `json:"page"`
	PageSize   *int            `json:"page_size"`
	named
}

// wanted is all that must hold for a memory of the list.
func (l *listing) wanted() (wanted, error) {
	w, err := readFilter(l.Filters)
	if err != nil {
		return w, err
	}
	v, err := l.named.wanted()
	if err != nil {
		return w, err
	}
	w = w.and(v)
	if isSet(l.Metadata) {
		if v, err = readField("metadata", l.Metadata); err != nil {
			return w, err
		}
		w = w.and(v)
	}
	parts := []filter.Filter{w.filter}
	if l.Keywords != "" {
		parts = append(parts, filter.IContains("text", l.Keywords))
	}
	if len(l.Categories) > 0 {
		list := make([]any, len(l.Categories))
		for i, name := range l.Categories {
			list[i] = name
		}
		of, err := ofCategories("in", list)
		if err != nil {
			return w, err
		}
		parts = append(parts, of.filter)
	}
	if l.StartDate != "" {
		t, err := parseTime(l.StartDate)
		if err != nil {
			return w, err
		}
		parts = append(parts, filter.Gte("created_at", t.Time))
	}
	if l.EndDate != "" {
		t, err := parseTime(l.EndDate)
		if err != nil {
			return w, err
		}
		parts = append(parts, filter.Lte("created_at", t.End().Time))
	}
	w.filter = filter.And(parts...)
	return w, filter.Check(w.filter)
}

// listingIn is what the query of the address asks for.
func (c *call) listingIn() (*listing, error) {
	q := c.R.URL.Query()
	l := &listing{
		named: c.namedIn(), StartDate: q.Get("start_date"), EndDate: q.Get("end_date"), Keywords: q.Get("keywords"),
		Categories: listIn(q, "categories"), Fields: listIn(q, "fields"), Expired: q.Get("show_expired") == "true",
	}
	if text := q.Get("metadata"); text != "" {
		l.Metadata = json.RawMessage(text)
	}
	object := map[string]string{}
	for key, values := range q { // metadata[key]=value
		if name, ok := strings.CutPrefix(key, "metadata["); ok && strings.HasSuffix(name, "]") {
			object[strings.TrimSuffix(name, "]")] = values[0]
		}
	}
	if len(object) > 0 {
		b, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		l.Metadata = b
	}
	if len(l.Metadata) > 0 && (!json.Valid(l.Metadata) || l.Metadata[0] != '{') {
		return nil, invalid("list memories", "metadata is no JSON object", `write it as {"key":"value"}`)
	}
	return l, nil
}

// listIn is a list of the query, given several times or with commas.
func listIn(q url.Values, name string) []string {
	var all []string
	for _, v := range q[name] {
		all = append(all, strings.Split(v, ",")...)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// number reads a number of the query, nil where it is not there.
func (c *call) number(name string) (*int, error) {
	text := c.R.URL.Query().Get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, invalid("read the query", name+" is no whole number", "")
	}
	return &n, nil
}

// bounded is a number within bounds, one of the caller where it is not given.
func bounded(name string, n *int, instead, least, most int) (int, error) {
	switch {
	case n == nil:
		return instead, nil
	case *n < least || *n > most:
		return 0, invalid("read the request", fmt.Sprintf("%s is %d", name, *n), fmt.Sprintf("give %d to %d", least, most))
	}
	return *n, nil
}

// paged are the pages that a list is read in.
type paged struct{ number, size int }

// pages reads which page is asked for: the address goes before the body.
func (c *call) pages(l *listing) (p paged, err error) {
	for _, f := range []struct {
		name string
		to   **int
	}{{"page", &l.Page}, {"page_size", &l.PageSize}} {
		n, err := c.number(f.name)
		if err != nil {
			return p, err
		}
		if n != nil {
			*f.to = n
		}
	}
	if p.number, err = bounded("page", l.Page, 1, 1, maxPages); err != nil {
		return p, err
	}
	p.size, err = bounded("page_size", l.PageSize, defaultPage, 1, maxPage)
	return p, err
}

// envelope is a page of a list with the addresses of those beside it.
type envelope struct {
	Count    int     `json:"count"`
	Next     *string `json:"next"`
	Previous *string `json:"previous"`
	Results  []any   `json:"results"`
}

// envelope tells of a page.
func (c *call) envelope(p paged, count int, results []any) envelope {
	e := envelope{Count: count, Results: results}
	link := func(number int) *string {
		u := url.URL{Scheme: "http", Host: c.R.Host, Path: c.R.URL.Path}
		if c.R.TLS != nil {
			u.Scheme = "https"
		}
		q := maps.Clone(c.R.URL.Query())
		q.Set("page", strconv.Itoa(number))
		q.Set("page_size", strconv.Itoa(p.size))
		u.RawQuery = q.Encode()
		return orNull(u.String())
	}
	if p.number*p.size < count {
		e.Next = link(p.number + 1)
	}
	if p.number > 1 {
		e.Previous = link(p.number - 1)
	}
	return e
}

// list reads a page of what is asked for.
func (c *call) list(l *listing, p paged) (count int, items []any, err error) {
	w, err := l.wanted()
	if err != nil {
		return 0, nil, err
	}
	s, err := c.selected(w, l.Expired)
	if err != nil {
		return 0, nil, err
	}
	found, err := s.page(c.Context(), (p.number-1)*p.size, p.size)
	if err != nil {
		return 0, nil, err
	}
	items, err = newItems(found.memories, l.Fields)
	return found.count, items, err
}

// replyPage answers a page with what is beside it.
func (c *call) replyPage(l *listing) error {
	p, err := c.pages(l)
	if err != nil {
		return err
	}
	count, items, err := c.list(l, p)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, c.envelope(p, count, items))
}

// listV3 answers a page.
func listV3(c *call) error {
	var l listing
	if err := c.DecodeLoose(&l); err != nil {
		return err
	}
	if l.named != (named{}) {
		return invalid("list memories", "user_id, agent_id, app_id and run_id stand beside the filters", "put them into filters")
	}
	return c.replyPage(&l)
}

// listV2 answers a page as a list.
func listV2(c *call) error {
	var l listing
	if err := c.DecodeLoose(&l); err != nil {
		return err
	}
	p, err := c.pages(&l)
	if err != nil {
		return err
	}
	_, items, err := c.list(&l, p)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, items)
}

// listV1 answers a page where one is asked for, else a list; for the wrapper within results.
func listV1(c *call) error {
	l, err := c.listingIn()
	if err != nil {
		return err
	}
	q := c.R.URL.Query()
	if c.form == platform && q.Has("page") && q.Has("page_size") {
		return c.replyPage(l)
	}
	limit, err := c.number("limit")
	if err != nil {
		return err
	}
	size, err := bounded("limit", limit, defaultPage, 1, maxOpen)
	if err != nil {
		return err
	}
	_, items, err := c.list(l, paged{1, size})
	if err != nil {
		return err
	}
	if c.form == platform {
		return c.Reply(http.StatusOK, items)
	}
	return c.Reply(http.StatusOK, map[string]any{"results": items})
}

// listOpen answers a list, to an administrator also without naming anybody.
func listOpen(c *call) error {
	l, err := c.listingIn()
	if err != nil {
		return err
	}
	top, err := c.number("top_k")
	if err != nil {
		return err
	}
	size, err := bounded("top_k", top, maxOpen, 0, maxOpen)
	if err != nil {
		return err
	}
	w, err := l.wanted()
	if err != nil {
		return err
	}
	w.named = true // without a name it is what the key sees
	s, err := c.selected(w, l.Expired)
	if err != nil {
		return err
	}
	found, err := s.page(c.Context(), 0, size)
	if err != nil {
		return err
	}
	items, err := newItems(found.memories, nil)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, map[string]any{"results": items})
}

// configuration answers which models there are.
func configuration(c *call) error {
	if err := c.Reach([]memory.Scope{{}}, false); err != nil {
		return err
	}
	model := c.DB.VectorModel()
	told := map[string]any{"version": "v1.1", "embedder": map[string]any{"model": model.Model, "dimensions": model.Dim}, "llm": nil}
	if c.Facts != nil && c.Facts.LLM != nil {
		told["llm"] = map[string]string{"model": c.Facts.LLM.Model()}
	}
	return c.Reply(http.StatusOK, told)
}

// stats answers how many memories and entities there are.
func stats(c *call) error {
	all := anything()
	all.named = true
	s, err := c.selected(all, false)
	if err != nil {
		return err
	}
	var e entities
	if err := s.db.View(c.Context(), func(tx *engine.Tx) (err error) {
		e, err = countEntities(c.Context(), tx, s)
		return err
	}); err != nil {
		return err
	}
	n := e.counts()
	return c.Reply(http.StatusOK, map[string]int{
		"total_memories": e.memories, "total_users_with_memories": n["user"], "total_agents_with_memories": n["agent"],
		"total_runs_with_memories": n["run"], "total_apps_with_memories": n["app"],
	})
}
