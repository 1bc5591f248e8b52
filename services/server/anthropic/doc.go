// Package anthropic has the memory stores of Anthropic's API as a dialect of the server: stores,
// memories by path, their versions, and what erases a version, over the notes of an owner.
//
// A store is a tree of notes, see package tree. One is always there, [products.Memories]: its memories
// are the files that a model sees with the memory tool.
//
// docs/server/anthropic.md says what works, and what differs.
package anthropic

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/tree"
)

// Options change the dialect. nil is the default.
type Options struct {
	// Owner is whose stores a request means that may see everything and names nobody. Zero: the
	// user "default".
	Owner scope.Owner
}

// New returns the dialect.
func New(o *Options) *server.Dialect {
	a := &api{owner: scope.Owner{User: "default"}}
	if o != nil && o.Owner != (scope.Owner{}) {
		a.owner = o.Owner
	}
	d := &server.Dialect{Name: "anthropic", Prefixes: []string{"/v1/memory_stores/"}, Fail: fail}
	const one, memories, versions = "/v1/memory_stores/{store}", "/v1/memory_stores/{store}/memories", "/v1/memory_stores/{store}/memory_versions"
	for pattern, handle := range map[string]func(*call) error{
		"POST /v1/memory_stores":                 (*call).createStore,
		"GET /v1/memory_stores":                  (*call).listStores,
		"GET " + one:                             (*call).getStore,
		"POST " + one:                            (*call).updateStore,
		"DELETE " + one:                          (*call).deleteStore,
		"POST " + one + "/archive":               (*call).archiveStore,
		"POST " + memories:                       (*call).createMemory,
		"GET " + memories:                        (*call).listMemories,
		"GET " + memories + "/{memory}":          (*call).getMemory,
		"POST " + memories + "/{memory}":         (*call).updateMemory,
		"DELETE " + memories + "/{memory}":       (*call).deleteMemory,
		"GET " + versions:                        (*call).listVersions,
		"GET " + versions + "/{version}":         (*call).getVersion,
		"POST " + versions + "/{version}/redact": (*call).redactVersion,
	} {
		d.Routes = append(d.Routes, server.Route{Pattern: pattern, Handle: func(c *server.Call) error { return a.answer(c, handle) }})
	}
	return d
}

// api is the dialect.
type api struct{ owner scope.Owner }

// call is a request, and whose stores it means.
type call struct {
	*server.Call
	owner scope.Owner
}

func (a *api) answer(c *server.Call, handle func(*call) error) error {
	c.W.Header().Set("Request-Id", c.W.Header().Get("X-Request-Id"))
	q := c.R.URL.Query()
	asked := scope.Owner{User: q.Get("user"), Agent: q.Get("agent")}
	if asked == (scope.Owner{}) && c.Admin() {
		asked = a.owner
	}
	owner, err := c.Owner(asked)
	if err != nil {
		return err
	}
	if err := scope.Check("find the stores", owner.Scope()); err != nil {
		return err
	}
	return handle(&call{c, owner})
}

// tree is that of a store.
func (c *call) tree(store string) *tree.Tree {
	t := &tree.Tree{DB: c.DB, Owner: c.owner, Store: store, Now: c.Now}
	if c.Key != nil {
		t.By = c.Key.ID
	}
	return t
}

// errorObject is an error as a client reads it.
type errorObject struct {
	Type     string `json:"type"`
	Message  string `json:"message"`
	Path     string `json:"conflicting_path,omitempty"`
	MemoryID string `json:"conflicting_memory_id,omitempty"`
}

// errorTypes are the types of errors by their status.
var errorTypes = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusConflict:              "conflict_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusServiceUnavailable:    "overloaded_error",
	http.StatusGatewayTimeout:        "timeout_error",
}

// statusOverloaded is that of Anthropic's API for a server that has too much to do.
const statusOverloaded = 529

func fail(w http.ResponseWriter, _ *http.Request, f *server.Failure) {
	told := errorObject{Type: errorTypes[f.Status], Message: f.Message}
	status := f.Status
	switch {
	case told.Type == "" && status >= http.StatusInternalServerError:
		told.Type = "api_error"
	case told.Type == "":
		told.Type = "invalid_request_error"
	case status == http.StatusServiceUnavailable:
		status = statusOverloaded
	}
	if f.Code == codePrecondition {
		told.Type = codePrecondition
	}
	if taken, ok := errors.AsType[*tree.Taken](f.Err); ok {
		told.Type, told.Path, told.MemoryID = "memory_path_conflict_error", taken.Path, products.FileMark+taken.File
	}
	w.Header().Set("Request-Id", f.RequestID)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]any{"type": "error", "error": told, "request_id": f.RequestID}) // a client that has left is not told
}

// invalid returns the error of a request that cannot be done.
func invalid(format string, args ...any) error {
	return server.Fail(http.StatusBadRequest, "invalid", format, args...)
}

// unknown returns the error of a thing that the owner does not have.
func unknown(what, id string) error {
	return &memory.Error{Kind: memory.ErrNotFound, What: "find the " + what + " " + id}
}
