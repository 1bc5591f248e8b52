package api

import (
	"context"
	"io"
	"reflect"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
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
	// Once: the command takes the ID of a request.
	Once bool
	// Long: it takes as long as it needs. Only each part of its reply has a limit.
	Long bool
}

// Describe returns what the operation is.
func (o *Operation) Describe() *Operation { return o }

// An Op is an operation with one reply.
type Op[Q, R any] struct {
	Operation
	// Run runs it on a database.
	Run func(ctx context.Context, db *engine.DB, q *Q) (R, error)
}

// Fields are the fields of a request.
func (o *Op[Q, R]) Fields() []Field { return FieldsOf(reflect.TypeFor[Q]()) }

// A List is an operation whose reply is a list.
type List[Q, L any] struct {
	Operation
	// Run gives yield each item, and returns how the list ended.
	Run func(ctx context.Context, db *engine.DB, q *Q, yield func(L) error) (End, error)
}

// An End is how a list ended.
type End struct {
	// Next is the cursor of the next page. It is empty if no page follows.
	Next string
	// Plan is how a query of a graph was answered: its Limit is what ended it early.
	Plan graph.Plan
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
