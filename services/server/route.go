package server

import (
	"net/http"
)

// A Dialect is a family of routes with its own way to tell an error.
type Dialect struct {
	// Name is that of the dialect in the log and the metrics.
	Name string
	// Routes are what it answers.
	Routes []Route
	// Prefixes are the paths below which requests that no route takes are answered in this dialect.
	// The longest one that fits decides.
	Prefixes []string
	// Fail writes an error in the form of the dialect. nil: as the native one does.
	Fail func(w http.ResponseWriter, r *http.Request, f *Failure)
	// Key finds the key of a request that has it elsewhere than in Authorization or X-Api-Key;
	// empty for none. nil: there is no other place.
	Key func(r *http.Request) string
}

// A Route answers one method of one path.
type Route struct {
	// Pattern is as of http.ServeMux: POST /v1/things/{id}.
	Pattern string
	// Handle answers. An error is told by the dialect, unless something was written before it.
	Handle func(c *Call) error
	// Public: it needs no key.
	Public bool
	// Admin: it needs a key of an administrator. Metrics: a key for metrics will do.
	Admin, Metrics bool
	// Probe: it says how the server is, so it is answered however many requests there are.
	Probe bool
	// Stream: the answer may take as long as it likes; only each part of it has a limit.
	Stream bool
	// Ends: the stream ends by itself, so a server that ends waits for it, as long as Options.Grace.
	Ends bool
	// MaxBody bounds the body, in bytes. 0: Options.MaxBody.
	MaxBody int64
	// Whole: it is about a whole database, of which a cluster has several; one must be named there.
	Whole bool
	// Reads: it changes nothing that a client sees, as each GET.
	Reads bool
	// Node: it is about the server, whatever databases it has.
	Node bool
	// Merge answers from the parts of all shards, where a call names nobody whose shard is known.
	// nil: such a call is refused.
	Merge func(c *Call, p *Parts) error
	// Doc describes it.
	Doc Doc
}

// A Doc describes a route for its OpenAPI document.
type Doc struct {
	// Summary is one sentence without its full stop.
	Summary string
	// Tag is the group of routes that it belongs to, of the glossary.
	Tag string
	// Path has the parameters of the path about which there is more to say than their names do.
	Path []Param
	// Query are the parameters of the query.
	Query []Param
	// Body and Reply are zero values of the types that are read and written as JSON; nil for none. A Reply may be a
	// OneOf.
	Body, Reply any
	// Lines: the reply is a list, each item a Reply.
	Lines bool
	// Media and BodyMedia are the media types of a reply and a body that are not JSON.
	Media     []string
	BodyMedia string
	// Status is that of success. 0: 200, or 204 without a Reply.
	Status int
	// Unchanged: the status is 200 where nothing new was stored.
	Unchanged bool
}

// A Param is a parameter of a query, a path or a header.
type Param struct {
	// Name and Summary are for people and programs. Summary is a sentence without its first capital and its full stop.
	Name, Summary string
	// Type is that of JSON schema: string, integer, number, boolean.
	Type string
	// Enum are all values that it can have. nil: there are others.
	Enum []string
	// MaxLength bounds a string. 0: it has no bound of its own.
	MaxLength int
	// Example is one of its values.
	Example string
	// Repeated: it can be given several times.
	Repeated bool
	// Required: the request needs it.
	Required bool
}
