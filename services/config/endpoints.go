package config

import (
	"cmp"
	"strings"

	"github.com/seed-7aedc3ff/memdb/services/graphs/neo4j"
)

// An Endpoint is where a service of a configuration goes.
type Endpoint struct {
	// Provider is one of [Models] and [Embedders], or Neo4j.
	Provider string
	// Base is its address without a slash at the end, empty for the provider's own. For Local it is the
	// folder of the model.
	Base string
}

// String is the address, or the provider's name.
func (e Endpoint) String() string { return cmp.Or(e.Base, e.Provider) }

// Endpoints are all that [Config.Open] makes services for: nothing else is called, and no other folder
// is read.
func (c *Config) Endpoints(env Lookup) (all []Endpoint) {
	add := func(provider, base, variable string) {
		if base == "" && variable != "" {
			base = env.get(variable)
		}
		all = append(all, Endpoint{provider, strings.TrimRight(base, "/")})
	}
	if c.LLM != nil {
		add(c.LLM.Provider, c.LLM.Config.BaseURL, named(c.LLM.Provider).BaseVariable)
	}
	if e := c.Embedder; e != nil {
		switch e.Provider {
		case Lexical:
		case Local:
			add(Local, e.Config.Model, "")
		default:
			add(e.Provider, e.Config.BaseURL, named(e.Provider).BaseVariable)
		}
	}
	if g := c.GraphStore; g != nil && g.Provider == Neo4j {
		add(Neo4j, g.Config.URL, neo4j.URLVariable)
	}
	return all
}
