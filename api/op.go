package api

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Access is what an operation does to the database.
type Access uint8

const (
	// Reads changes nothing that a client sees.
	Reads Access = iota
	// Writes changes a database that exists.
	Writes
	// Creates changes a database, and creates it if there is none.
	Creates
)

// An Operation describes what all operations have.
type Operation struct {
	// Name is the name of the command: kv put.
	Name string
	// Route is the method and the path of the route, below the base path: PUT /kv/{key}.
	Route string
	// Summary is one sentence without its full stop.
	Summary string
	// Doing names the operation in errors: put a value.
	Doing string
	// Access is what it does to the database.
	Access Access
	// Status is the status of success. 0: 200.
	Status int
	// Admin: only an administrator may run it, for it is about data of every owner.
	Admin bool
	// Whole: it is about a whole database, of which a cluster has several.
	Whole bool
	// Once: the command takes the ID of a request.
	Once bool
	// Long: it takes as long as it needs. Only each part of its reply has a limit.
	Long bool
}

// Describe returns what the operation is.
func (o *Operation) Describe() *Operation { return o }

// A Call is an operation with its request. Run runs it on a database; a client sends what Message returns.
type Call[F any] struct {
	*Operation
	// Run is of the type that Run of the operation has, without the request.
	Run     F
	fields  []Field
	request any
}

// Message writes the request for a server.
func (c *Call[F]) Message() (*Message, error) { return message(c.Operation, c.fields, c.request) }

// The functions that run an operation with its request.
type (
	OpRun[R any]     = func(ctx context.Context, db *engine.DB) (R, error)
	ListRun[L any]   = func(ctx context.Context, db *engine.DB, yield func(L) error) (End, error)
	StreamRun[R any] = func(ctx context.Context, db *engine.DB, w io.Writer) (R, error)
)

// An Op is an operation with one reply.
type Op[Q, R any] struct {
	Operation
	// Run runs it on a database.
	Run func(ctx context.Context, db *engine.DB, q *Q) (R, error)
	// As is set in the place of Run and of a route where a request is one of another operation.
	As func(q *Q) Call[OpRun[R]]
}

// Call is the operation with a request.
func (o *Op[Q, R]) Call(q *Q) Call[OpRun[R]] {
	if o.As != nil {
		return o.As(q)
	}
	return Call[OpRun[R]]{&o.Operation, func(ctx context.Context, db *engine.DB) (R, error) { return o.Run(ctx, db, q) }, o.Fields(), q}
}

// Fields are the fields of a request.
func (o *Op[Q, R]) Fields() []Field { return FieldsOf(reflect.TypeFor[Q]()) }

// A List is an operation whose reply is a list.
type List[Q, L any] struct {
	Operation
	// Run gives yield each item, and returns how the list ended.
	Run func(ctx context.Context, db *engine.DB, q *Q, yield func(L) error) (End, error)
	// As is set in the place of Run and of a route where a request is one of another operation.
	As func(q *Q) Call[ListRun[L]]
}

// Call is the operation with a request.
func (o *List[Q, L]) Call(q *Q) Call[ListRun[L]] {
	if o.As != nil {
		return o.As(q)
	}
	run := func(ctx context.Context, db *engine.DB, yield func(L) error) (End, error) {
		return o.Run(ctx, db, q, yield)
	}
	return Call[ListRun[L]]{&o.Operation, run, o.Fields(), q}
}

// An End is how a list ended.
type End struct {
	// Next is the cursor of the next page. It is empty if no page follows.
	Next string
	// Plan is how a query of a graph was answered: its Limit is what ended it early.
	Plan graph.Plan
}

// NewEnd is how a list of a server ended.
func NewEnd(e *ListEnd) End {
	return End{Next: e.Next, Plan: graph.Plan{Limit: e.Limit, Nodes: e.Entities, Edges: e.Relations}}
}

// Limited notes in the last line of a list what ended a query of a graph before it was through. It is an error where
// nothing was found by then.
func (e *End) Limited(of *ListEnd) error {
	if e.Plan.Limit == "" || e.Plan.Limit == "results" {
		of.Limit = e.Plan.Limit
		return nil
	}
	if of.Count == 0 {
		return invalid("query the graph", atLimit+e.Plan.Limit+", before it found anything", "raise max_nodes or max_edges, or ask for less")
	}
	of.Limit, of.Entities, of.Relations = e.Plan.Limit, e.Plan.Nodes, e.Plan.Edges
	return nil
}

// atLimit begins why a query found nothing.
const atLimit = "it ended at its limit of "

// IsLimited reports whether an error is of a query that ended before it found anything, here or on a server.
func IsLimited(err error) bool {
	own, ok := errors.AsType[*memory.Error](err)
	return ok && errors.Is(own.Kind, memory.ErrInvalid) && strings.HasPrefix(own.Why, atLimit)
}

// Fields are the fields of a request.
func (o *List[Q, L]) Fields() []Field { return FieldsOf(reflect.TypeFor[Q]()) }

// A Stream is an operation that writes its reply, which is no JSON object.
type Stream[Q, R any] struct {
	Operation
	// Media are the media types that the reply can have.
	Media []string
	// MediaOf is the media type of one reply. nil: the first of Media.
	MediaOf func(q *Q) string
	// Run writes the reply, and returns what it has written.
	Run func(ctx context.Context, db *engine.DB, q *Q, w io.Writer) (R, error)
}

// Call is the operation with a request.
func (o *Stream[Q, R]) Call(q *Q) Call[StreamRun[R]] {
	run := func(ctx context.Context, db *engine.DB, w io.Writer) (R, error) { return o.Run(ctx, db, q, w) }
	return Call[StreamRun[R]]{&o.Operation, run, o.Fields(), q}
}

// Fields are the fields of a request.
func (o *Stream[Q, R]) Fields() []Field { return FieldsOf(reflect.TypeFor[Q]()) }

// Kept is a reply to a request that may have found what it was to make: its status is 200 then.
type Kept interface {
	// New reports whether something new was made.
	New() bool
}

// Checked is a request that can be wrong by itself. Run refuses it, too: Check does so before a database is made for it.
type Checked interface {
	// Check refuses the request.
	Check() error
}

// Trial is a request that may only report what it would change.
type Trial interface {
	// ReadsOnly reports whether the request changes nothing.
	ReadsOnly() bool
}
