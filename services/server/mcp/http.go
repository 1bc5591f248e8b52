package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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

// withoutSessions answers the revisions of the protocol that subscribe within a session, which no request
// over HTTP has. Those from 2026-07-28 on listen with a request of its own.
func withoutSessions(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		if method == "resources/subscribe" || method == "resources/unsubscribe" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no session outlives a request over HTTP; use the revision 2026-07-28, or memdbctl mcp"}
		}
		result, err := next(ctx, method, r)
		if begun, ok := result.(*sdk.InitializeResult); ok && err == nil && begun.Capabilities.Resources != nil {
			begun.Capabilities.Resources.Subscribe = false // the capabilities are a copy
		}
		return result, err
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
	if version := c.R.Header.Get(versionHeader); bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) && version != "" && version != batchVersion {
		return server.Fail(http.StatusBadRequest, "invalid", "the protocol %.20q has no batches; send each message by itself", version)
	}
	s, err := h.of(c, key)
	if err != nil {
		return err
	}
	defer s.busy.Add(-1)
	r := c.R.WithContext(context.WithValue(c.Context(), forRequest{}, s.sdk))
	r.Body = io.NopCloser(bytes.NewReader(body))
	w := &inProtocol{ResponseWriter: c.W}
	h.handler.ServeHTTP(w, r)
	return w.end(c, body)
}

const (
	// versionHeader has the revision of the protocol that a client speaks, and batchVersion is the only one
	// that has batches. A client without the header speaks that one.
	versionHeader = "Mcp-Protocol-Version"
	batchVersion  = "2025-03-26"
	// noMethod is how the library says that it does not know a method.
	noMethod = "JSON RPC not handled"
)

// inProtocol holds back an answer that is plain text and no message of the protocol.
type inProtocol struct {
	http.ResponseWriter
	status int // of the answer that is held back, 0 for none
	text   bytes.Buffer
}

// WriteHeader holds the status of an error in plain text back.
func (w *inProtocol) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *inProtocol) Write(b []byte) (int, error) {
	if w.status != 0 {
		return w.text.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *inProtocol) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end answers in the protocol what was held back.
func (w *inProtocol) end(c *server.Call, body []byte) error {
	if w.status == 0 {
		return nil
	}
	text := strings.TrimSpace(w.text.String())
	if !strings.HasPrefix(text, noMethod) {
		return server.Fail(w.status, "invalid", "%s", text)
	}
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.Unmarshal(body, &message); err != nil { // a batch
		return server.Fail(w.status, "invalid", "%s", text)
	}
	if len(message.ID) == 0 { // a notification, which nobody is told about
		return c.Reply(http.StatusAccepted, nil)
	}
	return c.Reply(http.StatusOK, answered{Version: "2.0", ID: message.ID, Error: &rpcError{Code: -32601, Message: fmt.Sprintf("there is no method %.100q", message.Method)}})
}

// answered is an answer of JSON-RPC that is an error.
type answered struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
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

// of returns the server of a scope, which is made where there is none, for one more request.
func (h *hosts) of(c *server.Call, key hostKey) (*host, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.mu.kept[key]; s != nil {
		s.busy.Add(1)
		return s, nil
	}
	s, err := newHost(c.DB, Options{Scope: key.scope, Tools: key.tools, OnlyRun: key.onlyRun, Facts: c.Facts, Now: c.Now}, true)
	if err != nil {
		return nil, err
	}
	if h.mu.kept == nil {
		h.mu.kept = map[hostKey]*host{}
	}
	if len(h.mu.kept) >= maxHosts { // those with a request stay: it may listen to changes
		maps.DeleteFunc(h.mu.kept, func(_ hostKey, s *host) bool { return s.busy.Load() == 0 })
	}
	h.mu.kept[key] = s
	s.busy.Add(1)
	return s, nil
}

// fail writes an error as the protocol has it.
func fail(w http.ResponseWriter, _ *http.Request, f *server.Failure) {
	type data struct {
		Code      string `json:"code"`
		RequestID string `json:"request_id"`
	}
	code := -32000
	switch {
	case f.Status == http.StatusBadRequest:
		code = -32600
	case f.Status >= http.StatusInternalServerError:
		code = -32603
	}
	b, err := json.Marshal(answered{"2.0", nil, &rpcError{code, f.Message, data{f.Code, f.RequestID}}})
	if err != nil {
		b = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the server failed"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_, _ = w.Write(b) // a client that has left is not told
}
