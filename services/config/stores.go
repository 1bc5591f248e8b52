package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/graphs/neo4j"
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

// Neo4j is the provider of graphs in Neo4j.
const Neo4j = "neo4j"

// GraphStore is where entities and relations of facts lie.
type GraphStore struct {
	// Provider is Own or Neo4j; empty is Own.
	Provider string `json:"provider,omitempty"`
	// Config is for Neo4j; Own has no settings.
	Config GraphCalls `json:"config,omitzero"`
}

// GraphCalls says where Neo4j is, and how it is called.
type GraphCalls struct {
	// URL is that of HTTP, http://host:7474, or of a driver, bolt://host:7687; empty:
	// NEO4J_URL.
	URL string `json:"url,omitempty"`
	// Database is "neo4j" if it is empty.
	Database string `json:"database,omitempty"`
	// Username is NEO4J_USER, or "neo4j", if it is empty.
	Username string `json:"username,omitempty"`
	// Password is the password itself, PasswordEnv the variable that holds it; with neither it
	// is NEO4J_PASSWORD. Token and TokenEnv are a bearer token in its place.
	Password    Secret `json:"password,omitzero"`
	PasswordEnv string `json:"password_env,omitempty"`
	Token       Secret `json:"token,omitzero"`
	TokenEnv    string `json:"token_env,omitempty"`
	// Space tells memories of facts apart that share a database; empty: "memdb".
	Space string `json:"space,omitempty"`
	// API is "tx", the transactional endpoint, or "query", the Query API; empty: "query" for
	// Aura, else "tx".
	API string `json:"api,omitempty"`
	// Timeout bounds each try; 0: 30 s. Retries is as in Calls.
	Timeout Duration `json:"timeout,omitzero"`
	Retries *int     `json:"retries,omitempty"`
}

// History is where other memories of facts keep what happened. Here it is in the database,
// written in the commit of each change.
type History struct {
	// DBPath is the path of a file.
	DBPath string `json:"db_path,omitempty"`
}

// Prompts are system messages that stand in for the built-in ones of a memory of facts.
type Prompts struct {
	// FactExtraction asks for facts, UpdateDecision what to do with one.
	FactExtraction string `json:"fact_extraction,omitempty"`
	UpdateDecision string `json:"update_decision,omitempty"`
}

// versions are the forms of replies.
var versions = []string{"v1.0", "v1.1"}

// openStores takes what a configuration says of a memory of facts.
func (s *Services) openStores(c *Config, env Lookup) error {
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
		if err := s.openGraph(g, env); err != nil {
			return err
		}
		s.Graph = true
	}
	if c.Version != "" && !slices.Contains(versions, c.Version) {
		return fault.Invalid("set up facts", fmt.Sprintf("the version is %.40q", c.Version), "give version as one of "+strings.Join(versions, ", "))
	}
	s.Version, s.ExactScope = c.Version, c.ExactScope
	if c.CustomPrompts != nil {
		s.Prompts = *c.CustomPrompts
	}
	return nil
}

// openGraph makes the store of a graph. Nothing is called.
func (s *Services) openGraph(g *GraphStore, env Lookup) (err error) {
	switch g.Provider {
	case "", Own:
		if g.Config != (GraphCalls{}) {
			return fault.Invalid("set up graph_store", "the provider memdb has no settings, and config has some", "leave config out, or give provider as neo4j")
		}
		return nil
	case Neo4j:
	default:
		return noProvider("graph_store", g.Provider, []string{Own, Neo4j})
	}
	c := &g.Config
	password, hint, err := secret(c.Password, c.PasswordEnv, "password", neo4j.PasswordVariable, env)
	if err != nil {
		return err
	}
	token, tokenHint, err := secret(c.Token, c.TokenEnv, "token", "", env)
	if err != nil {
		return err
	}
	if token != "" {
		hint = tokenHint
		if c.Password.IsZero() && c.PasswordEnv == "" {
			password = "" // that of the environment is for those without a token
		}
	}
	s.GraphStore, err = neo4j.New(neo4j.Config{
		URL: cmp.Or(c.URL, env.get(neo4j.URLVariable)), Database: c.Database, Username: cmp.Or(c.Username, env.get(neo4j.UserVariable)),
		Password: password, Token: token, KeyHint: hint, Space: c.Space, API: neo4j.API(c.API),
		Timeout: time.Duration(c.Timeout), Retry: retries(c.Retries),
	})
	if err != nil {
		s.GraphStore = nil // no store that holds nothing
	}
	return err
}

// secret is a secret of a graph store and where it comes from: given, or in a variable.
func secret(given Secret, variable, key, own string, env Lookup) (value, hint string, err error) {
	doing := "set up neo4j"
	switch {
	case !given.IsZero() && variable != "":
		return "", "", fault.Invalid(doing, "both "+key+" and "+key+"_env are given", "leave one out")
	case given.value() == hidden:
		return "", "", fault.Invalid(doing, key+" is "+hidden+", which stands for a secret where a configuration is printed", "give "+key+", or "+key+"_env")
	case !given.IsZero():
		return given.value(), key + " of graph_store", nil
	case variable == "" && own == "":
		return "", "", nil
	}
	hint = cmp.Or(variable, own)
	value = env.get(hint)
	if value == "" && variable != "" {
		return "", "", fault.Invalid(doing, "the variable "+variable+", which "+key+"_env names, is not set", "set "+variable)
	}
	return value, hint, nil
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
