package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// The codes of errors.
const (
	CodeNotFound  = "function_not_found" // no function has the name
	CodeFailed    = "invocation_failed"  // the function failed
	CodeForbidden = "FORBIDDEN"          // the caller may not do this
	CodeTimeout   = "TIMEOUT"            // it took longer than the caller allows
)

// A Function is one of the table.
type Function struct {
	// Name is what it is called by, as memory::store.
	Name string
	// Description is a sentence for people.
	Description string

	run func(f *Functions, ctx context.Context, c *server.Call, data []byte) (any, error)
}

// Functions are the functions by their names. The zero Functions work.
type Functions struct {
	// Summarizer makes the summaries of memory::session::compact. nil: the built-in one, which picks
	// sentences and needs no language model.
	Summarizer sessions.Summarizer
}

// table are the functions, in the order of a list.
var table = []Function{
	{"memory::store", "Store a memory, unless the agent has one with the same content", bind((*Functions).store)},
	{"memory::recall", "Find memories by meaning, words, age and importance", bind((*Functions).recall)},
	{"memory::evict", "Evict memories that are old and unimportant, of little confidence, or over the cap", bind((*Functions).evict)},
	{"memory::consolidate", "Decay the confidence of memories that were not accessed, and merge duplicates", bind((*Functions).consolidate)},
	{"memory::kg::add", "Add an entity with its relations to the knowledge graph, or change it", bind((*Functions).addEntity)},
	{"memory::kg::query", "Walk the knowledge graph from an entity, breadth first", bind((*Functions).queryGraph)},
	{"memory::session::list", "List the sessions of an agent, the newest first", bind((*Functions).listSessions)},
	{"memory::session::compact", "Summarise the older messages of a session", bind((*Functions).compactSession)},
	{"memory::session::repair", "Repair what a session holds", bind((*Functions).repairSession)},
}

// All lists the functions.
func All() []Function { return slices.Clone(table) }

// bind has a method take its arguments as a struct.
func bind[T any](run func(f *Functions, ctx context.Context, c *server.Call, in *T) (any, error)) func(*Functions, context.Context, *server.Call, []byte) (any, error) {
	return func(f *Functions, ctx context.Context, c *server.Call, data []byte) (any, error) {
		var in T
		if err := arguments(data, &in); err != nil {
			return nil, err
		}
		return run(f, ctx, c, &in)
	}
}

// arguments reads a JSON object; nothing and null are an empty one.
func arguments(data []byte, in any) error {
	switch data = bytes.TrimSpace(data); {
	case len(data) == 0 || string(data) == "null":
		return nil
	case data[0] != '{':
		return invalid("the arguments are no JSON object")
	}
	if err := exchange.Decode(data, in); err != nil {
		return invalid("the arguments: %v", err)
	}
	return nil
}

// Invoke calls the function of a name with one JSON object, and returns what is written as JSON. What
// the caller may see is what c allows, of which the request is not used: ctx ends the call. An unknown name
// is a *server.Failure of the code CodeNotFound; see Code for other errors.
func (f *Functions) Invoke(ctx context.Context, c *server.Call, name string, data json.RawMessage) (any, error) {
	i := slices.IndexFunc(table, func(of Function) bool { return of.Name == name })
	if i < 0 {
		return nil, server.Fail(http.StatusNotFound, CodeNotFound, "Function %s not found", name)
	}
	return table[i].run(f, ctx, c, data)
}

// Code is the code of an error of Invoke, as a caller of functions is told of it.
func Code(err error) string {
	var f *server.Failure
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return CodeTimeout
	case errors.As(err, &f) && f.Code == CodeNotFound:
		return CodeNotFound
	case errors.As(err, &f) && f.Status == http.StatusForbidden:
		return CodeForbidden
	}
	return CodeFailed
}

// invalid is the error of arguments that are none.
func invalid(format string, args ...any) error {
	return server.Fail(http.StatusBadRequest, "invalid", format, args...)
}

// DefaultAgent and DefaultSession are those of a call that names none.
const (
	DefaultAgent   = "default"
	DefaultSession = "default"
)

// scopes are those of an agent, and of a session of it if run is not empty, that the caller may see.
func scopes(c *server.Call, agent, run string) ([]memory.Scope, error) {
	if agent != "" {
		return c.Scopes(memory.Scope{Agent: agent, Run: run})
	}
	if fit, err := c.Scopes(memory.Scope{Run: run}); err == nil && len(fit) == 1 && fit[0].Agent != "" {
		return fit, nil
	}
	return c.Scopes(memory.Scope{Agent: DefaultAgent, Run: run})
}

// place is scopes where it must be one.
func place(c *server.Call, agent, run string) (memory.Scope, error) {
	fit, err := scopes(c, agent, run)
	switch {
	case err != nil:
		return memory.Scope{}, err
	case len(fit) > 1:
		return c.Scope(memory.Scope{Agent: fit[0].Agent, Run: run}) // says that several fit
	}
	return fit[0], nil
}

// session is place for what must be a session.
func session(c *server.Call, agent, run string) (memory.Scope, error) {
	s, err := place(c, agent, run)
	if err == nil && s.Run == "" {
		s.Run = DefaultSession
	}
	return s, err
}

// owner is place for what belongs to a user and an agent as a whole.
func owner(c *server.Call, agent string) (memory.Scope, error) {
	s, err := place(c, agent, "")
	if err == nil && s.Run != "" {
		err = server.Denied(fmt.Sprintf("the key %s is one of a session, and this belongs to an agent as a whole", c.Key.ID))
	}
	return s, err
}
