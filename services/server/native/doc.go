// Package native is the dialect of memdb itself: REST below /memdb/v1 for all that memdbctl does
// with a database that is in use.
//
// Keys of JSON are those of memdbctl --json. What a call is about stands in its query, and what is
// stored in its body; a parameter and a key that are not known are refused. A list is a stream of
// JSON lines. Its last line is {"end":true,"count":N}, or {"error":…} where it broke: a list without
// such a line was cut off.
//
// # Scopes
//
// user, agent and run say whose memories a call is about, and user and agent whose notes, values,
// graph and usage. What is left out is taken from the key; an empty user or agent means none. An
// administrator, for whom nothing is taken from a key, names a scope or says all_scopes=true.
//
// IDs are unique within a user and an agent. So a key that is bound to a run stores without IDs and
// names: whether one is taken in another run is nothing that it may learn.
package native

import (
	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// base is the path below which all routes lie.
const base = api.BasePath

// New returns the dialect.
func New() *server.Dialect {
	d := &server.Dialect{Name: "memdb", Prefixes: []string{base + "/"}}
	for _, family := range []struct {
		tag    string
		routes []route
	}{
		{"memories", memories()},
		{"recall", recalls()},
		{"values", values()},
		{"notes", noteRoutes()},
		{"sessions", sessionRoutes()},
		{"graph", graphRoutes()},
		{"usage", usageRoutes()},
		{"owners", owners()},
		{"facts", factRoutes()},
		{"ageing", ageing()},
		{"database", database()},
		{"transfer", transfers()},
	} {
		for _, r := range family.routes {
			d.Routes = append(d.Routes, r.route(family.tag))
		}
	}
	return d
}
