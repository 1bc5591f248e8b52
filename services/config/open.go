package config

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/host"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/meter"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// Lookup is os.LookupEnv, or what a program has in its place. nil: nothing is set.
type Lookup func(name string) (value string, set bool)

// Environment is the Lookup of this process.
func Environment(name string) (value string, set bool) { return host.Variable(name) }

// get is a variable's value, empty where it is not set.
func (l Lookup) get(name string) string {
	if l == nil {
		return ""
	}
	value, _ := l(name)
	return value
}

// Lexical is the provider of vectors that needs no model: the one built into the engine.
const Lexical = "lexical"

// Local is the provider of vectors that runs a transformer in the program itself: the model is
// the path of its folder. Programs have it that register services/embedders/local.
const Local = "local"

// DefaultAgent is whose usage calls count in where no owner is named.
const DefaultAgent = "memdb"

// fromEnv are the providers that FromEnv looks for, in this order.
var fromEnv = []string{"openai", "anthropic", "google"}

// FromEnv is the configuration of an environment: the language model of the first key that
// is set of OPENAI_API_KEY, ANTHROPIC_API_KEY and GOOGLE_API_KEY, no language model where none
// is, and the lexical embedder. first are providers that are preferred to this order.
func FromEnv(env Lookup, first ...string) *Config {
	for _, name := range slices.Concat(first, fromEnv) {
		if p := named(name); p.Chat != nil && env.get(p.Variable) != "" {
			return &Config{LLM: &LLM{Provider: name}}
		}
	}
	return &Config{}
}

// Services are the model and the embedder of a Config.
type Services struct {
	// LLM is the language model, nil where none is configured; see NeedLLM. It repeats calls,
	// keeps replies and counts usage.
	LLM llm.Client
	// Embedder makes vectors, and keeps those of the texts that came last.
	Embedder embed.Embedder
	// Engine is for engine.Options: the Embedder without a cache, which a database has by
	// itself, and nil for the lexical one, which is the engine's own.
	Engine embed.Embedder
	// InMemory is set where the configuration has memories in RAM alone.
	InMemory bool
	// Graph is set where the configuration names a graph of facts.
	Graph bool
	// GraphStore is where that graph lies, nil for memdb's own.
	GraphStore graphs.Store
	// Prompts, Version and ExactScope are for a memory of facts, as the configuration has them.
	Prompts    Prompts
	Version    string
	ExactScope *bool

	meters []*meter.Meter
}

// NeedLLM is the language model, ErrInvalid where none is configured.
func (s *Services) NeedLLM() (llm.Client, error) {
	if s.LLM != nil {
		return s.LLM, nil
	}
	var names []string
	for _, name := range fromEnv {
		names = append(names, named(name).Variable+" ("+name+")")
	}
	return nil, fault.Invalid("ask a language model", "none is configured, and the environment holds no key of one", "set one of "+strings.Join(names, ", ")+", or give a configuration with llm")
}

// Meter has calls checked against budgets and recorded: in u, that of a database. Until then
// calls of metered services wait.
func (s *Services) Meter(u usage.Usage) {
	for _, m := range s.meters {
		m.Open(u)
	}
}

// MeterBy is Meter with the usage of a database that is open now and then.
func (s *Services) MeterBy(lend meter.Lend) {
	for _, m := range s.meters {
		m.OpenBy(lend)
	}
}

// Open makes what the configuration names. Nothing is called. ErrInvalid where something is
// not valid, or a key is missing: the error names the provider and the variable. metered has
// every call wait for [Services.Meter]; otherwise calls are not counted.
func (c *Config) Open(env Lookup, metered bool) (*Services, error) {
	if err := c.checkVariables("set up the configuration"); err != nil {
		return nil, err
	}
	s := &Services{}
	owner, err := c.owner()
	if err != nil {
		return nil, err
	}
	if err := s.openStores(c, env); err != nil {
		return nil, err
	}
	counts := func(calls *Calls) *meter.Meter {
		if !metered {
			return nil
		}
		m := meter.Later(owner)
		if calls.Price != nil {
			m.Price = meter.Price{Prompt: calls.Price.Prompt, Completion: calls.Price.Completion}
		}
		s.meters = append(s.meters, m)
		return m
	}
	if c.LLM != nil {
		if err := s.openLLM(c.LLM, env, counts); err != nil {
			return nil, err
		}
	}
	if c.Embedder == nil || c.Embedder.Provider == Lexical {
		s.Embedder = embed.NewLexical()
		return s, c.Embedder.onlyLexical()
	}
	return s, s.openEmbedder(c.Embedder, env, counts)
}

// owner is whose calls they are that name no owner.
func (c *Config) owner() (scope.Owner, error) {
	if c.Usage == nil || *c.Usage == (Usage{}) {
		return scope.Owner{Agent: DefaultAgent}, nil
	}
	for field, value := range map[string]string{"user": c.Usage.User, "agent": c.Usage.Agent} {
		if value == "" {
			continue
		}
		if err := valid.Word("set up usage", field, value); err != nil {
			return scope.Owner{}, err
		}
	}
	return scope.Owner{User: c.Usage.User, Agent: c.Usage.Agent}, nil
}

// onlyLexical refuses settings that the lexical embedder does not have.
func (e *Embedder) onlyLexical() error {
	if e != nil && (e.Config.Model != "" || e.Config.Dimensions != 0) {
		return fault.Invalid("set up lexical", "it has one model of one length", "leave model and dimensions out, or name another provider")
	}
	return nil
}

func (s *Services) openLLM(c *LLM, env Lookup, counts func(*Calls) *meter.Meter) error {
	p := named(c.Provider)
	if p.Chat == nil {
		return noProvider("llm", c.Provider, Models())
	}
	access, err := c.Config.access(p, "llm", env)
	if err != nil {
		return err
	}
	client, err := p.NewChat(access)
	if err != nil {
		return err
	}
	o := llm.Options{
		Timeout: time.Duration(c.Config.Timeout), Concurrency: c.Config.Concurrency, Temperature: c.Config.Temperature, MaxTokens: c.Config.MaxTokens,
		CacheEntries: entries(c.Config.Cache), Retry: c.Config.retry(), Meter: counts(&c.Config.Calls),
	}
	s.LLM, err = llm.Wrap(client, o)
	return err
}

func (s *Services) openEmbedder(c *Embedder, env Lookup, counts func(*Calls) *meter.Meter) error {
	p := named(c.Provider)
	if !p.EmbedsTexts() {
		return noProvider("embedder", c.Provider, Embedders())
	}
	access, err := c.Config.access(p, "embedder", env)
	if err != nil {
		return err
	}
	access.Dimensions, access.InputType, access.PromptName = c.Config.Dimensions, c.Config.InputType, c.Config.PromptName
	source, err := p.NewSource(access)
	if err != nil {
		return err
	}
	e, err := embedders.New(source, embedders.Options{
		Timeout: time.Duration(c.Config.Timeout), Concurrency: c.Config.Concurrency, Batch: c.Config.Batch,
		CacheEntries: -1, Retry: c.Config.retry(), Base: access.BaseURL, Meter: counts(&c.Config.Calls),
	})
	if err != nil {
		return err
	}
	s.Engine, s.Embedder = e, e
	if n := entries(c.Config.Cache); n >= 0 {
		s.Embedder = embed.NewCache(e, n, 0)
	}
	return nil
}

// noProvider refuses the name of a provider.
func noProvider(part, name string, known []string) error {
	if name == Local && part == "embedder" {
		return fault.Invalid("set up local", "this program is built without it", "use the memdbctl and the memdbd of the module services/embedders/local, or call config.Register(&local.Provider)")
	}
	return fault.Invalid("set up "+part, fmt.Sprintf("there is no provider %.40q", name), "give provider as one of "+strings.Join(known, ", "))
}

// retry is how calls are repeated.
func (c *Calls) retry() retry.Policy { return retries(c.Retries) }

func retries(n *int) retry.Policy {
	switch {
	case n == nil:
		return retry.Policy{}
	case *n <= 0:
		return retry.Policy{Times: -1}
	}
	return retry.Policy{Times: *n}
}

// entries is the size of a cache as llm.Options and embedders.Options have it: less than 0 is
// none.
func entries(n *int) int {
	switch {
	case n == nil:
		return 0
	case *n <= 0:
		return -1
	}
	return *n
}

// access says where a provider is, with the key to it. A variable that is named and not set is an
// error here; whether a provider needs a key at all, its description says.
func (c *Calls) access(p *providers.Provider, part string, env Lookup) (providers.Config, error) {
	doing := "set up " + p.Name
	a := providers.Config{Model: c.Model, Key: c.APIKey.value(), KeyHint: "api_key of " + part, BaseURL: c.BaseURL, Version: c.APIVersion}
	if a.BaseURL == "" && p.BaseVariable != "" {
		a.BaseURL = env.get(p.BaseVariable)
	}
	switch {
	case !c.APIKey.IsZero() && c.APIKeyEnv != "":
		return a, fault.Invalid(doing, "both api_key and api_key_env are given", "leave one out")
	case a.Key == hidden:
		return a, fault.Invalid(doing, "api_key is "+hidden+", which stands for a key where a configuration is printed", "give the key, or api_key_env")
	case !c.APIKey.IsZero():
		return a, nil
	}
	a.KeyHint = cmp.Or(c.APIKeyEnv, p.Variable)
	a.Key = env.get(a.KeyHint)
	if a.Key == "" && c.APIKeyEnv != "" {
		return a, fault.Invalid(doing, "there is no key: the variable "+c.APIKeyEnv+", which api_key_env names, is not set", "set "+c.APIKeyEnv)
	}
	return a, nil
}

// OpenFile is Load and Open; an empty path is FromEnv.
func OpenFile(path string, env Lookup, metered bool) (*Services, error) {
	c := FromEnv(env)
	if path != "" {
		var err error
		if c, err = Load(path); err != nil {
			return nil, err
		}
	}
	return c.Open(env, metered)
}

// OpenDB is OpenFile, and opens a database whose embedder is that of the configuration; calls
// are counted in its usage. o.Embedder is to be nil. Where the configuration has memories in RAM
// alone, dir is to be empty.
func OpenDB(ctx context.Context, dir string, o *engine.Options, path string, env Lookup) (*engine.DB, *Services, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s, err := OpenFile(path, env, true)
	if err != nil {
		return nil, nil, err
	}
	if s.InMemory && dir != "" {
		return nil, nil, s.NeedFolder("open " + dir)
	}
	full := engine.Options{}
	if o != nil {
		full = *o
	}
	if full.Embedder != nil {
		return nil, nil, fault.Invalid("open "+dir, "it is given an embedder beside that of the configuration", "leave Options.Embedder nil")
	}
	full.Embedder = s.Engine
	db, err := open(dir, s.InMemory, &full)
	if err != nil {
		return nil, nil, err
	}
	s.Meter(db.Usage())
	return db, s, nil
}

// open opens the database of a folder, or one in memory.
func open(dir string, inMemory bool, o *engine.Options) (*engine.DB, error) {
	if inMemory {
		return engine.OpenMemory(o)
	}
	return engine.Open(dir, o)
}
