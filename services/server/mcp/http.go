package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// Path is where clients over HTTP ask.
const Path = "/mcp"

// maxHosts bounds the servers that are kept for the next request of their scope.
const maxHosts = 1024

// Dialect is the protocol over streamable HTTP. The scope is that of the key, narrowed by the query
// of the URL, which is part of a client's configuration: user, agent, run, and tools for the set of
// tools. A request whose scope neither says is refused.
func Dialect() *server.Dialect {
	h := &hosts{}
	h.handler = sdk.NewStreamableHTTPHandler(
		func(r *http.Request) *sdk.Server { s, _ := r.Context().Value(forRequest{}).(*sdk.Server); return s },
		// Hosts, origins and sizes are the server's to check.
		&sdk.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true, MaxRequestBodyBytes: -1, PropagateRequestCancellation: true},
	)
	return &server.Dialect{
		Name: "mcp", Prefixes: []string{Path}, Fail: fail,
		Routes: []server.Route{{Pattern: "POST " + Path, Stream: true, Handle: h.serve}},
	}
}

// forRequest is the key of the context for the server of a request.
type forRequest struct{}

// hosts are the servers of scopes.
type hosts struct {
	handler http.Handler
	mu      struct {
		sync.Mutex
		kept map[hostKey]*host
	}
}

type hostKey struct {
	db      *engine.DB
	scope   memory.Scope
	tools   Tools
	onlyRun bool
}

// serve answers a request with the server of its scope.
func (h *hosts) serve(c *server.Call) error {
	key, err := asked(c)
	if err != nil {
		return err
	}
	body, err := c.JSON()
	if err != nil {
		return err
	}
	s, err := h.of(c, key)
	if err != nil {
		return err
	}
	r := c.R.WithContext(context.WithValue(c.Context(), forRequest{}, s.sdk))
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.handler.ServeHTTP(c.W, r)
	return nil
}

// asked is what the URL and the key of a request say.
func asked(c *server.Call) (key hostKey, err error) {
	q, err := url.ParseQuery(c.R.URL.RawQuery)
	if err != nil {
		return key, server.Fail(http.StatusBadRequest, "invalid", "the query of the URL cannot be read: %v", err)
	}
	var scope memory.Scope
	into := map[string]*string{"user": &scope.User, "agent": &scope.Agent, "run": &scope.Run, "tools": (*string)(&key.tools)}
	for name, values := range q {
		to, known := into[name]
		if !known || len(values) > 1 || values[0] == "" {
			return key, server.Fail(http.StatusBadRequest, "invalid", "the query of the URL has user, agent, run and tools, each once and with a value; %q is something else", name)
		}
		*to = values[0]
	}
	if scope, err = c.Scope(scope); err != nil {
		return key, err
	}
	key.db, key.scope = c.DB, scope
	if !c.Admin() && scope.Run != "" {
		_, err := c.Owner(memory.Owner{User: scope.User, Agent: scope.Agent})
		key.onlyRun = err != nil // the key is one of the run
	}
	return key, nil
}

// of returns the server of a scope, which is made where there is none.
func (h *hosts) of(c *server.Call, key hostKey) (*host, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.mu.kept[key]; s != nil {
		return s, nil
	}
	s, err := newHost(c.DB, Options{Scope: key.scope, Tools: key.tools, OnlyRun: key.onlyRun, Facts: c.Facts, Now: c.Now})
	if err != nil {
		return nil, err
	}
	if len(h.mu.kept) >= maxHosts || h.mu.kept == nil {
		h.mu.kept = map[hostKey]*host{} // those that answer end with their requests
	}
	h.mu.kept[key] = s
	return s, nil
}

// fail writes an error as the protocol has it.
func fail(w http.ResponseWriter, _ *http.Request, f *server.Failure) {
	type data struct {
		Code      string `json:"code"`
		RequestID string `json:"request_id"`
	}
	type told struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    data   `json:"data"`
	}
	code := -32000
	switch {
	case f.Status == http.StatusBadRequest:
		code = -32600
	case f.Status >= http.StatusInternalServerError:
		code = -32603
	}
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": told{code, f.Message, data{f.Code, f.RequestID}}})
	if err != nil {
		b = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the server failed"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_, _ = w.Write(b) // a client that has left is not told
}
