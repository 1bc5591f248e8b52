package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// Tools names a set of tools.
type Tools string

// The sets of tools.
const (
	Memdb     Tools = "memdb"     // remember, recall, forget, facts, notes, graph, session
	Reference Tools = "reference" // those of the protocol's reference memory server
	Anthropic Tools = "anthropic" // memory, with six commands on files
)

// Sets are all sets of tools.
func Sets() []Tools { return []Tools{Memdb, Reference, Anthropic} }

// Options of a server. Scope is needed.
type Options struct {
	// Scope is whose memories the tools work with.
	Scope memory.Scope
	// Tools are those that it has; empty: Memdb.
	Tools Tools
	// OnlyRun: what belongs to the user and the agent as a whole, as notes and the graph, is out
	// of reach.
	OnlyRun bool
	// Facts is the memory of facts; nil: one without a model, where texts are facts as they are.
	Facts *facts.Facts
	// Now tells the time. nil: the system's.
	Now func() time.Time
	// Logger hears of what fails. nil: nothing is logged.
	Logger *slog.Logger
}

// maxFrame bounds a message on the input, in bytes: a text of the largest size, as JSON writes it.
const maxFrame = 4*memory.MaxText + 1<<20

// A host is what the tools of one server work with.
type host struct {
	Options
	db  *engine.DB
	sdk *sdk.Server
	// busy counts the requests that are answered now, over HTTP.
	busy atomic.Int64
}

// newHost makes a server with its tools; errors are those of Check. overHTTP: no session outlives its request.
func newHost(db *engine.DB, o Options, overHTTP bool) (*host, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	h := &host{Options: o, db: db}
	if h.Now == nil {
		h.Now = time.Now
	}
	if h.Logger == nil {
		h.Logger = slog.New(slog.DiscardHandler)
	}
	if h.Facts == nil {
		f, err := facts.New(&facts.Config{DB: db, Logger: h.Logger})
		if err != nil {
			return nil, err
		}
		h.Facts = f
	}
	so := &sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}, // the list of tools never changes
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	}
	switch h.Tools {
	default:
		so.Instructions = instructions
		h.sdk = sdk.NewServer(&sdk.Implementation{Name: "memdb", Title: "memdb", Version: version}, so)
		h.addMemoryTools()
	case Anthropic:
		h.sdk = sdk.NewServer(&sdk.Implementation{Name: "memdb", Title: "memdb", Version: version}, so)
		h.addFiles()
	case Reference:
		so.Capabilities.Resources = &sdk.ResourceCapabilities{} // nor does that of resources
		so.SubscribeHandler = func(context.Context, *sdk.SubscribeRequest) error { return nil }
		so.UnsubscribeHandler = func(context.Context, *sdk.UnsubscribeRequest) error { return nil }
		h.sdk = sdk.NewServer(&sdk.Implementation{Name: "memory-server", Title: "memdb", Version: version}, so)
		h.addReference()
	}
	if overHTTP {
		h.sdk.AddReceivingMiddleware(withoutSessions)
	}
	h.sdk.AddReceivingMiddleware(h.guard)
	return h, nil
}

// Check returns why no server can be made: ErrScope without a scope, ErrInvalid for tools that are
// not there, or that the scope has no place for.
func (o *Options) Check() error {
	const doing = "serve tools"
	switch {
	case o.Scope == (memory.Scope{}):
		return &memory.Error{Kind: memory.ErrScope, What: doing, Why: "nothing says whose memories are meant", Do: "name a user, an agent or a run"}
	case o.Tools != "" && !slices.Contains(Sets(), o.Tools):
		return &memory.Error{Kind: memory.ErrInvalid, What: doing, Why: "there are no tools " + strconv.Quote(string(o.Tools)), Do: "take memdb, reference or anthropic"}
	case (o.Tools == Reference || o.Tools == Anthropic) && !o.hasOwner():
		return &memory.Error{
			Kind: memory.ErrInvalid, What: doing, Why: "what these tools keep belongs to a user and an agent, and the scope is a run",
			Do: "name a user or an agent, or take the tools of memdb",
		}
	}
	return scope.Check(doing, o.Scope)
}

// version is that of the tools.
const version = "1"

// hasOwner reports whether what belongs to a user and an agent is in reach.
func (o *Options) hasOwner() bool { return !o.OnlyRun && o.Scope.Owner() != (memory.Owner{}) }

// guard has a panic of a tool be an error of that call, and marks answers of a damaged database.
func (h *host) guard(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (result sdk.Result, err error) {
		if caught := panics.Catch("answers "+method, func() { result, err = next(ctx, method, r) }); caught != nil {
			h.Logger.Error("a call panicked", "method", method, "error", caught)
			return nil, errors.New("the server failed; its log says why")
		}
		if of, ok := result.(*sdk.CallToolResult); ok && err == nil {
			h.mark(of)
		}
		return result, err
	}
}

// mark tells the model and its program that an answer of a damaged database may be incomplete.
func (h *host) mark(r *sdk.CallToolResult) {
	n := h.db.Damage().Unreadable
	if n == 0 {
		return
	}
	if r.Meta == nil {
		r.Meta = sdk.Meta{}
	}
	r.Meta["unreadable"] = n
	r.Content = append(r.Content, &sdk.TextContent{Text: fmt.Sprintf("The database is damaged: %d things in it cannot be read. This answer may be incomplete.", n)})
}

// told is what a model is told of an error.
func (h *host) told(err error) error {
	f := server.Fault(err)
	if f.Err != nil && f.Status >= 500 {
		h.Logger.Warn("a tool failed", "error", err)
	}
	return errors.New(f.Message)
}

// failed is the result of a call that fails.
func failed(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// Serve answers the messages of a client, a line of JSON each, until the input or the context
// ends. A context that is over is no error.
func Serve(ctx context.Context, db *engine.DB, o Options, in io.Reader, out io.Writer) error {
	h, err := newHost(db, o, false)
	if err != nil {
		return err
	}
	err = h.sdk.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: keptOpen{out}, MaxLineLength: maxFrame})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// keptOpen is a writer that outlives the session.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

// schemaOf is a schema of this package as the wire has it.
func schemaOf(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return b
}
