package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// The providers of a VectorStore that are there.
const (
	// Own is memdb's own engine, in its folder, and memdb's own graph.
	Own = "memdb"
	// Memory is memdb's own engine in RAM alone: nothing is left when it is closed.
	Memory = "memory"
)

// VectorStore is where memories and their vectors lie.
type VectorStore struct {
	// Provider is Own or Memory; empty is Own.
	Provider string `json:"provider,omitempty"`
	// Config is for providers of other programs; those that are there have no settings.
	Config map[string]any `json:"config,omitempty"`
	// CollectionName is accepted and has no effect: a database is one collection.
	CollectionName string `json:"collection_name,omitempty"`
}

// GraphStore is where entities and relations of facts lie.
type GraphStore struct {
	// Provider is Own; empty is Own.
	Provider string         `json:"provider,omitempty"`
	Config   map[string]any `json:"config,omitempty"`
}

// History is where other memories of facts keep what happened. Here it is in the database,
// written in the commit of each change.
type History struct {
	DBPath string `json:"db_path,omitempty"`
}

// Prompts are system messages that stand in for the built-in ones of a memory of facts.
type Prompts struct {
	FactExtraction string `json:"fact_extraction,omitempty"`
	UpdateDecision string `json:"update_decision,omitempty"`
}

// versions are the forms of replies.
var versions = []string{"v1.0", "v1.1"}

// openStores takes what a configuration says of a memory of facts.
func (s *Services) openStores(c *Config) error {
	if v := c.VectorStore; v != nil {
		switch v.Provider {
		case "", Own, Memory:
		default:
			return noProvider("vector_store", v.Provider, []string{Own, Memory})
		}
		if err := noSettings("vector_store", v.Provider, v.Config); err != nil {
			return err
		}
		s.InMemory = v.Provider == Memory
	}
	if g := c.GraphStore; g != nil {
		if g.Provider != "" && g.Provider != Own {
			return noProvider("graph_store", g.Provider, []string{Own})
		}
		if err := noSettings("graph_store", g.Provider, g.Config); err != nil {
			return err
		}
		s.Graph = true
	}
	if c.Version != "" && !slices.Contains(versions, c.Version) {
		return fault.Invalid("set up facts", fmt.Sprintf("the version is %.40q", c.Version), "give version as one of "+strings.Join(versions, ", "))
	}
	s.Version = c.Version
	if c.CustomPrompts != nil {
		s.Prompts = *c.CustomPrompts
	}
	return nil
}

// noSettings refuses settings of a provider that has none.
func noSettings(part, provider string, given map[string]any) error {
	if len(given) == 0 {
		return nil
	}
	if provider == "" {
		provider = Own
	}
	names := slices.Sorted(maps.Keys(given))
	return fault.Invalid("set up "+part, fmt.Sprintf("the provider %s has no settings, and config has %.80s", provider, strings.Join(names, ", ")), "leave config out, or name the provider that it is of")
}

// NeedFolder is the error of a program that keeps memories in a folder, where the configuration
// has them in RAM alone; otherwise nil.
func (s *Services) NeedFolder(doing string) error {
	if !s.InMemory {
		return nil
	}
	return fault.Invalid(doing, "the configuration has memories in RAM alone (vector_store.provider is memory), and a folder is given", "leave vector_store out, or give no folder")
}
