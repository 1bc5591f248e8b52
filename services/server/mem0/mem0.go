package mem0

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// NoteHeader is the header that says what was done in a lesser way than was asked.
const NoteHeader = "X-Memdb-Note"

// form is which kind of client asks, and so how it is answered.
type form int

const (
	wrapper  form = iota // the REST wrapper of facts
	platform             // mem0's platform
	open                 // mem0's open server
)

// call is one request.
type call struct {
	*server.Call
	form form
}

// handler answers a request.
type handler func(c *call) error

// New returns the two dialects: that of the paths with a version, and that of the open server.
func New() []*server.Dialect {
	return []*server.Dialect{
		{
			Name: "mem0", Fail: failVersioned, Routes: versioned(),
			Prefixes: []string{
				"/v1/memories/", "/v1/entities/", "/v1/batch/", "/v1/event/", "/v1/events/", "/v1/feedback/", "/v1/exports/", "/v1/ping/",
				"/v1/stats/", "/v1/reset/", "/v1/summary/", "/v1/users/", "/v1/agents/", "/v1/apps/", "/v1/runs/",
				"/v2/memories/", "/v2/entities/", "/v2/profiles/", "/v3/memories/", "/api/v1/orgs/", "/api/v1/webhooks/",
			},
		},
		{
			Name: "mem0-open", Fail: failOpen, Routes: unversioned(),
			Prefixes: []string{"/memories/", "/search/", "/reset/", "/configure/", "/entities/", "/generate-instructions/"},
		},
	}
}

// versioned are the routes with a version, each with and without the slash at its end.
func versioned() []server.Route {
	var routes []server.Route
	add := func(method, path string, admin bool, h handler) {
		handle := func(c *server.Call) error { return h(&call{c, formOf(c.R)}) }
		for _, end := range []string{"", "/{$}"} {
			routes = append(routes, server.Route{Pattern: method + " " + path + end, Admin: admin, Handle: handle})
		}
	}
	add("GET", "/v1/ping", false, ping)
	add("POST", "/v1/memories", false, addV1)
	add("GET", "/v1/memories", false, listV1)
	add("DELETE", "/v1/memories", false, deleteAll)
	add("GET", "/v1/memories/search", false, searchByQuery)
	add("POST", "/v1/memories/search", false, searchV1)
	add("GET", "/v1/memories/{id}", false, get)
	add("PUT", "/v1/memories/{id}", false, update)
	add("DELETE", "/v1/memories/{id}", false, remove)
	add("GET", "/v1/memories/{id}/history", false, history)
	add("GET", "/v1/memories/{type}/{entity}", false, listOfEntity)
	add("POST", "/v2/memories", false, listV2)
	add("POST", "/v2/memories/search", false, searchV2)
	add("POST", "/v3/memories", false, listV3)
	add("POST", "/v3/memories/add", false, addV3)
	add("POST", "/v3/memories/search", false, searchV3)
	add("PUT", "/v1/batch", false, updateBatch)
	add("DELETE", "/v1/batch", false, deleteBatch)
	add("GET", "/v1/event/{id}", false, getEvent)
	add("POST", "/v1/feedback", false, feedback)
	add("GET", "/v1/stats", false, stats)
	add("POST", "/v1/reset", true, reset)
	add("GET", "/v1/entities", false, listEntities)
	add("POST", "/v1/entities", false, graphEntities)
	add("GET", "/v1/entities/{name}/relations", false, graphRelations)
	add("DELETE", "/v1/entities/{type}/{entity}", false, deleteEntity)
	add("GET", "/v2/entities/{type}/{entity}", false, getEntity)
	add("DELETE", "/v2/entities/{type}/{entity}", false, deleteEntity)
	for _, m := range []struct{ method, path, why string }{
		{"GET", "/v1/memories/events", "lists of events"},
		{"GET", "/v1/events", "lists of events"},
		{"GET", "/v1/entities/filters", "filters for a dashboard"},
		{"POST", "/v1/exports", "exports that a model writes; memdbctl export has the memories as they are"},
		{"POST", "/v1/exports/get", "exports that a model writes; memdbctl export has the memories as they are"},
		{"POST", "/v1/summary", "summaries"},
		{"POST", "/v1/users", "users without memories; the first memory makes one"},
		{"POST", "/v1/agents", "agents without memories; the first memory makes one"},
		{"POST", "/v1/apps", "apps without memories; the first memory makes one"},
		{"POST", "/v1/runs", "runs without memories; the first memory makes one"},
		{"GET", "/v2/entities/user/{entity}/profile", "profiles of users"},
	} {
		add(m.method, m.path, false, missing(m.why))
	}
	for _, m := range []struct{ path, why string }{
		{"/v2/profiles/{rest...}", "profiles of users"},
		{"/api/v1/orgs/{rest...}", "organisations and projects; keys have scopes instead"},
		{"/api/v1/webhooks/{rest...}", "webhooks; memdbctl log tail --follow tells of changes"},
	} {
		h := missing(m.why)
		routes = append(routes, server.Route{Pattern: m.path, Handle: func(c *server.Call) error { return h(&call{c, platform}) }})
	}
	return routes
}

// unversioned are the routes of the open server, without slashes at their ends.
func unversioned() []server.Route {
	var routes []server.Route
	add := func(pattern string, admin bool, h handler) {
		handle := func(c *server.Call) error { return h(&call{c, open}) }
		routes = append(routes, server.Route{Pattern: pattern, Admin: admin, Handle: handle})
	}
	add("POST /memories", false, addOpen)
	add("GET /memories", false, listOpen)
	add("DELETE /memories", false, deleteAll)
	add("GET /memories/{id}", false, get)
	add("PUT /memories/{id}", false, update)
	add("DELETE /memories/{id}", false, remove)
	add("GET /memories/{id}/history", false, history)
	add("POST /search", false, searchOpen)
	add("POST /reset", true, reset)
	add("GET /configure", false, configuration)
	add("POST /configure", true, missing("a change of its configuration by a request; its own file and flags have it"))
	add("GET /configure/providers", false, missing("a list of providers"))
	add("POST /generate-instructions", false, missing("instructions that a model writes"))
	add("GET /entities", false, listEntities)
	add("DELETE /entities/{type}/{entity}", false, deleteEntity)
	return routes
}

// formOf is which kind of client sends a request to a path with a version.
func formOf(r *http.Request) form {
	kind, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(kind, "Token") || r.Header.Get("X-Mem0-Client") != "" || r.Header.Values("Mem0-User-ID") != nil {
		return platform
	}
	return wrapper
}

// missing answers what memdb does not have.
func missing(what string) handler {
	return func(*call) error {
		return server.Fail(http.StatusNotImplemented, "not_implemented", "memdb has no %s", what)
	}
}

// ping says that the key is good.
func ping(c *call) error {
	return c.Reply(http.StatusOK, map[string]string{"status": "ok", "org_id": "memdb", "project_id": "memdb"})
}

// note says in a header what was done in a lesser way than was asked.
func (c *call) note(format string, args ...any) {
	const most = 500
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, fmt.Sprintf(format, args...))
	c.W.Header().Add(NoteHeader, text[:min(len(text), most)])
}

// memories are the facts through which deletes go, which take what the graph has of them along.
func (c *call) memories() (*facts.Facts, error) {
	if c.Facts != nil {
		return c.Facts, nil
	}
	return facts.New(&facts.Config{DB: c.DB})
}

func invalid(what, why, do string) error {
	return &memory.Error{Kind: memory.ErrInvalid, What: what, Why: why, Do: do}
}

// missingField is the code of a body that lacks what it needs.
const missingField = "validation"

// lacks is the error of a body that lacks what it needs: 400, and 422 for the open server.
func (c *call) lacks(field, why string) error {
	status := http.StatusBadRequest
	if c.form == open {
		status = http.StatusUnprocessableEntity
	}
	return server.Fail(status, missingField, "%s: %s", field, why)
}

// failVersioned writes an error so that each of the keys under which clients look has it.
func failVersioned(w http.ResponseWriter, _ *http.Request, f *server.Failure) {
	writeError(w, f.Status, struct {
		Error     string `json:"error"`
		Detail    string `json:"detail"`
		Message   string `json:"message"`
		Code      string `json:"code"`
		RequestID string `json:"request_id"`
	}{f.Message, f.Message, f.Message, f.Code, f.RequestID})
}

// failOpen writes an error as the open server does: a list for what a body lacks.
func failOpen(w http.ResponseWriter, _ *http.Request, f *server.Failure) {
	type fault struct {
		Type     string   `json:"type"`
		Location []string `json:"loc"`
		Message  string   `json:"msg"`
	}
	var detail any = f.Message
	if f.Code == missingField {
		field, _, _ := strings.Cut(f.Message, ":")
		detail = []fault{{"missing", []string{"body", field}, f.Message}}
	}
	writeError(w, f.Status, struct {
		Detail    any    `json:"detail"`
		Code      string `json:"code"`
		RequestID string `json:"request_id"`
	}{detail, f.Code, f.RequestID})
}

func writeError(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that has left is not told
}
