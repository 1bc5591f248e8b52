package api

import (
	"context"
	"reflect"

	"github.com/seed-7aedc3ff/memdb/engine"
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
	// Once: the command takes the ID of a request.
	Once bool
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
	// Run gives yield each item. It returns the cursor of the next page, which is empty if no page follows.
	Run func(ctx context.Context, db *engine.DB, q *Q, yield func(L) error) (next string, err error)
}

// Fields are the fields of a request.
func (o *List[Q, L]) Fields() []Field { return FieldsOf(reflect.TypeFor[Q]()) }
