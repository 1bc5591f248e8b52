package facts

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // the hash of a documented interface, not a protection
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// The limits of a memory of facts.
const (
	// DefaultLimit is how many facts a search or a list returns that names no limit.
	DefaultLimit = 100
	// DefaultConcurrency is how many facts are worked on at once, unless configured.
	DefaultConcurrency = 4
	// MaxConcurrency bounds what is configured: providers allow few calls at once.
	MaxConcurrency = 64
	// MaxMessages bounds the messages of one Add.
	MaxMessages = memory.MaxItems
	// MaxConversation bounds the text of one Add that a model is asked about, in bytes.
	// It is more than models read.
	MaxConversation = 4 << 20
	// MaxPrompt bounds a custom prompt, in bytes.
	MaxPrompt = 64 << 10
	// MaxFacts bounds the facts of one Add: what a model returns beyond is left out.
	MaxFacts = 1_000

	// defaultImportance is that of a fact which is given none.
	defaultImportance = 0.5
)

// Version is the form of replies in JSON.
type Version string

// The versions.
const (
	V10 Version = "v1.0" // the list of results alone
	V11 Version = "v1.1" // an object with results, relations and degraded; the default
)

// Prompts are system messages that stand in for the built-in ones. They are sent as they
// are. What a prompt asks for must be answered in the form that the built-in one asks for.
type Prompts struct {
	// FactExtraction asks for facts, UpdateDecision what to do with one.
	FactExtraction string
	UpdateDecision string
}

// Config says what a memory of facts stands on. The zero Config works.
type Config struct {
	// DB keeps the facts; whoever opened it closes it. nil: a database in memory, which
	// Facts.Close closes.
	DB *engine.DB
	// LLM extracts facts and decides. nil: the messages themselves are the facts.
	LLM llm.Client
	// Embedder makes the vectors of facts and queries. It is to be the one that DB was
	// opened with, if that was. nil: the lexical one that is built into the database.
	Embedder embed.Embedder
	// Graph keeps entities and relations of conversations, too. It needs an LLM that calls
	// tools.
	Graph bool
	// GraphStore keeps the graph in another database. What is to be done there is part of the
	// commit of the facts, and done afterwards: at once, or where that fails before the next
	// change. nil: the graph of DB, in the commit of the facts.
	GraphStore graphs.Store
	// ExactScope has an Add compare with, and a model see and change, only facts that were
	// stored with exactly the scope of the call. With false, a part that the call does not name
	// may be anything: what is said to one agent then changes what a user has with all of them.
	// nil: true.
	ExactScope *bool
	// ExactReads has the other calls find and delete only facts of exactly their scope, too.
	// Without it a part that such a call does not name may be anything.
	ExactReads bool
	// StoreUnembedded keeps facts whose embedding failed, without a vector.
	StoreUnembedded bool
	// Concurrency is how many facts of an Add are worked on at once, 1 to
	// MaxConcurrency; 0 is DefaultConcurrency. Facts that are alike, from a cosine of 0.35 on,
	// wait for each other: the later one is compared with what became of the earlier. With 1
	// each fact is compared with what became of all before it.
	Concurrency int
	// Prompts replace the built-in ones where they are not empty.
	Prompts Prompts
	// Version is the form of replies; empty is V11.
	Version Version
	// Logger hears what Degraded tells. nil: nothing is logged.
	Logger *slog.Logger
	// ForClients has Degraded tell clients of a server that something failed, and not what a provider
	// has answered.
	ForClients bool
	// CollectionName and HistoryPath are taken from configurations of other memories of
	// facts and have no effect: facts and their history lie in DB.
	CollectionName, HistoryPath string
}

// Facts is a memory of facts. It is safe for concurrent use.
type Facts struct {
	Config
	owned  bool // DB was made by New
	outbox *outbox
}

// New makes a memory of facts. ErrInvalid where the configuration is not valid,
// ErrMismatch where the vectors of the database are of another model than Embedder.
//
// nil is a database in memory with OpenAI's gpt-4o-mini and text-embedding-3-small, where the
// environment has OPENAI_API_KEY (and OPENAI_BASE_URL for another server), and otherwise the zero
// Config.
func New(c *Config) (*Facts, error) {
	if c == nil {
		return newDefault(config.Environment)
	}
	return newOn(c.DB, false, c)
}

// newOn is New on a database, nil for one in memory that is made here; owned: Close closes it.
func newOn(db *engine.DB, owned bool, c *Config) (*Facts, error) {
	f := &Facts{Config: *c, owned: owned, outbox: newOutbox()}
	f.DB = db
	if err := f.check(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if embed.IsLexical(f.Embedder) {
		f.Embedder = nil // the database makes the same vectors, and weighs a query's words
	}
	f.Version = cmp.Or(f.Version, V11)
	f.Concurrency = cmp.Or(f.Concurrency, DefaultConcurrency)
	if f.Logger == nil {
		f.Logger = slog.New(slog.DiscardHandler)
	}
	if f.DB == nil {
		db, err := engine.OpenMemory(&engine.Options{Logger: c.Logger})
		if err != nil {
			return nil, err
		}
		f.DB, f.owned = db, true
	}
	if err := f.bindSpace(context.Background()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

const doingNew = "make a memory of facts"

func (f *Facts) check() error {
	switch {
	case f.Version != "" && f.Version != V10 && f.Version != V11:
		return invalid(doingNew, fmt.Sprintf("the version is %q", f.Version), "give v1.0 or v1.1")
	case f.Concurrency < 0 || f.Concurrency > MaxConcurrency:
		return invalid(doingNew, fmt.Sprintf("the concurrency is %d", f.Concurrency), fmt.Sprintf("give 1 to %d, or 0 for %d", MaxConcurrency, DefaultConcurrency))
	}
	if err := checkPrompt(doingNew, "for extraction", f.Prompts.FactExtraction); err != nil {
		return err
	}
	return checkPrompt(doingNew, "for decisions", f.Prompts.UpdateDecision)
}

// bindSpace makes the space of the embedder's vectors, or refuses one of another model.
func (f *Facts) bindSpace(ctx context.Context) error {
	if f.Embedder == nil {
		return nil
	}
	model, dim := f.Embedder.Model(), f.Embedder.Dim()
	stats, err := f.DB.Stats(ctx)
	if err != nil {
		return err
	}
	for _, s := range stats.Spaces {
		if s.Name != "default" {
			continue
		}
		if s.Model == model && s.Dim == dim {
			return nil
		}
		return &memory.Error{
			Kind: memory.ErrMismatch, What: doingNew,
			Why: fmt.Sprintf("the vectors of the database are of %q with %d dimensions, and the embedder is %q with %d", s.Model, s.Dim, model, dim),
			Do:  fmt.Sprintf("use %q as before, or embed the memories again with the new model: DB.Reembed, memdbctl reembed", s.Model),
		}
	}
	err = f.DB.CreateSpace(ctx, engine.SpaceConfig{Model: model, Dim: dim, Base: embed.Base(f.Embedder)})
	if errors.Is(err, memory.ErrReadOnly) {
		return nil // nothing will be stored, and a search finds what has no vectors
	}
	return err
}

// Close closes the database, if New made it.
func (f *Facts) Close() error {
	if !f.owned {
		return nil
	}
	return f.DB.Close()
}

// Item is a fact.
type Item struct {
	// ID is the fact's, Memory its text.
	ID     string `json:"id"`
	Memory string `json:"memory"`
	// Hash is the MD5 of Memory in hexadecimal.
	Hash     string         `json:"hash"`
	Metadata map[string]any `json:"metadata"`
	// Score is in 0 to 1, and set by a search alone. It is 1 − (1−c)(1−w/2)(1−g/2): c is
	// the cosine of the fact's and the query's vector, 0 at the least; w the share of
	// the query's words that the fact has; g the BM25 of a fact that the graph found, as
	// a share of the best of those. So it is never below the cosine, and a fact that
	// only has the words is found, too.
	Score     *float64    `json:"score,omitempty"`
	CreatedAt time.Time   `json:"created_at"`
	UpdatedAt time.Time   `json:"updated_at"`
	Scope     scope.Scope `json:"-"`
}

// MarshalJSON writes the item with its scope as user_id, agent_id and run_id, and its times
// in milliseconds, UTC.
func (i Item) MarshalJSON() ([]byte, error) {
	type plain Item
	if i.Metadata == nil {
		i.Metadata = map[string]any{}
	}
	return json.Marshal(struct {
		plain
		CreatedAt clock.Instant `json:"created_at"`
		UpdatedAt clock.Instant `json:"updated_at"`
		scopeJSON
	}{plain(i), clock.Instant{Time: i.CreatedAt}, clock.Instant{Time: i.UpdatedAt}, scopeOf(i.Scope)})
}

type scopeJSON struct {
	User  string `json:"user_id,omitempty"`
	Agent string `json:"agent_id,omitempty"`
	Run   string `json:"run_id,omitempty"`
}

func scopeOf(s scope.Scope) scopeJSON { return scopeJSON{s.User, s.Agent, s.Run} }

func newItem(m *memory.Memory) Item {
	return Item{
		ID: m.ID, Memory: m.Text, Hash: hashOf(m.Text), Metadata: m.Metadata,
		CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, Scope: m.Scope,
	}
}

// hashOf is the MD5 of a text in hexadecimal.
func hashOf(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// Step is a part of an Add or a search that can fail by itself.
type Step string

// The steps.
const (
	StepLLM        Step = "llm" // there is none
	StepExtraction Step = "extraction"
	StepEmbedding  Step = "embedding"
	StepDecision   Step = "decision"
	StepCommit     Step = "commit"
	StepGraph      Step = "graph"
)

// Degradation is something that was left out or done in a lesser way, and why.
type Degradation struct {
	// Step is where it was.
	Step Step   `json:"step"`
	Fact string `json:"fact,omitempty"` // the fact that it is about
	Why  string `json:"why"`
	// Err is the error behind it, nil where there was none.
	Err error `json:"-"`
}

// maxWhy bounds Degradation.Why, in characters: what a provider says may be a page.
const maxWhy = 500

// degradation is one whose reason is in a line; Err has all of it, the stack of a panic too.
func degradation(step Step, fact, why string, err error) Degradation {
	why, _, _ = strings.Cut(why, "\n")
	return Degradation{step, fact, cutTo(why, maxWhy), err}
}

// tell logs what was done in a lesser way, and leaves in it what a caller may read.
func (f *Facts) tell(all []Degradation) {
	for i := range all {
		d := &all[i]
		f.Logger.Warn("a fact was left out or handled in a lesser way", "step", string(d.Step), "why", d.Why)
		if f.ForClients && d.Err != nil {
			d.Why = fault.Outward(d.Err)
		}
	}
}

// within chooses facts: those that a scope matches, or exact, those of no other scope.
func within(s scope.Scope, exact bool, also filter.Filter) filter.Filter {
	parts := []filter.Filter{filter.Eq("kind", string(memory.KindFact))}
	if exact {
		parts = append(parts, filter.Eq("user", s.User), filter.Eq("agent", s.Agent), filter.Eq("run", s.Run))
	}
	if also != nil {
		parts = append(parts, also)
	}
	return filter.And(parts...)
}
