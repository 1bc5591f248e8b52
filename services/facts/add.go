package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// Event is what an Add did with a fact.
type Event string

// The events.
const (
	Add    Event = "ADD"
	Update Event = "UPDATE"
	Delete Event = "DELETE"
	None   Event = "NONE" // it was there already
)

// Result is what became of a fact.
type Result struct {
	// Event is what was done.
	Event Event `json:"event"`
	// ID is the memory that was added, changed, deleted or found to tell the fact already.
	// It is empty for a NONE of which the model named none.
	ID string `json:"id"`
	// Memory is the text that the event leaves or, for a DELETE, takes away.
	Memory    string         `json:"memory"`
	OldMemory *string        `json:"old_memory,omitempty"` // for UPDATE and DELETE
	NewMemory *string        `json:"new_memory,omitempty"` // for ADD and UPDATE
	Metadata  map[string]any `json:"metadata,omitempty"`
}

// Added is the answer of Add.
type Added struct {
	// Results are what was done with each fact.
	Results []Result
	// Relations are those that the graph took.
	Relations []Relation
	// Degraded tells what was left out or done in a lesser way.
	Degraded []Degradation
	version  Version
}

// MarshalJSON writes the answer in the version of the configuration.
func (a Added) MarshalJSON() ([]byte, error) {
	return marshalReply(a.version, a.Results, a.Relations, a.Degraded)
}

// marshalReply is a reply with lists that are never null.
func marshalReply[T any](v Version, results []T, relations []Relation, degraded []Degradation) ([]byte, error) {
	results = orEmpty(results)
	if v == V10 {
		return json.Marshal(results)
	}
	return json.Marshal(struct {
		Results   []T           `json:"results"`
		Relations []Relation    `json:"relations"`
		Degraded  []Degradation `json:"degraded"`
	}{results, orEmpty(relations), orEmpty(degraded)})
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// AddOptions changes what Add does. nil is the default.
type AddOptions struct {
	// Metadata is attached to each fact that is added. A fact that is updated keeps its own.
	Metadata map[string]any
	// Filter narrows the facts that a new one is compared with.
	Filter filter.Filter
	// Prompt stands in for the prompt for extraction, of the configuration too.
	Prompt string
	// Raw stores each message of a user or an assistant as a fact, as it is, and asks no
	// model: what is infer=false elsewhere.
	Raw bool
	// Importance is that of the facts that are added, 0 to 1. nil: 0.5.
	Importance *float64
}

// Add takes the facts out of a conversation and brings the memory up to date with them.
// All that it changes is one commit. ErrScope without a scope; ErrInvalid for messages,
// metadata or a prompt that cannot be taken; the error of the context, which leaves
// everything as it was; and the errors of a commit. What a provider fails at is no error:
// see Added.Degraded.
func (f *Facts) Add(ctx context.Context, s scope.Scope, messages Messages, o *AddOptions) (Added, error) {
	return f.add(ctx, s, messages, o, func(_ context.Context, fn func(*engine.DB) error) error { return fn(f.DB) })
}

// Lend gives a database for as long as a function runs. It may be closed at other times, and is
// the same one, with what others have done to it, when it is given again. It is called by
// several goroutines.
type Lend func(ctx context.Context, fn func(*engine.DB) error) error

// AddBy is Facts.Add for a program that holds the database only while something is read or
// written, and not while a model answers. c.DB is not used. What is decided by is looked at
// again in the commit, as it is in every Add: see the package.
func AddBy(ctx context.Context, lend Lend, c Config, s scope.Scope, messages Messages, o *AddOptions) (Added, error) {
	if err := checkScope(doingAdd, s); err != nil {
		return Added{}, err // before a database is made
	}
	var f *Facts
	err := lend(ctx, func(db *engine.DB) (err error) {
		c.DB = db
		f, err = New(&c)
		return err
	})
	if err != nil {
		return Added{}, err
	}
	f.DB = nil
	return f.add(ctx, s, messages, o, lend)
}

func (f *Facts) add(ctx context.Context, s scope.Scope, messages Messages, o *AddOptions, lend Lend) (Added, error) {
	if o == nil {
		o = &AddOptions{}
	}
	a := &adding{f: f, scope: s, o: o, lend: lend}
	if err := a.check(messages); err != nil {
		return Added{}, err
	}
	err := a.run(ctx, messages)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil && !a.committed {
		return Added{}, err
	}
	f.tell(a.degraded)
	return Added{a.results, a.relations, a.degraded, f.Version}, nil
}

// adding is an Add that runs.
type adding struct {
	f     *Facts
	scope scope.Scope
	o     *AddOptions
	lend  Lend

	works []*work
	graph *conversationGraph // nil: none was asked for, or it failed
	// graphLost is what its extraction failed at; it is of another goroutine until the graph
	// is there.
	graphLost []Degradation

	committed bool
	results   []Result
	relations []Relation
	degraded  []Degradation
}

// check refuses what no part of could be stored.
func (a *adding) check(messages Messages) error {
	if err := checkScope(doingAdd, a.scope); err != nil {
		return err
	}
	if err := messages.check(); err != nil {
		return err
	}
	if err := checkPrompt(doingAdd, "for extraction", a.o.Prompt); err != nil {
		return err
	}
	if err := filter.Check(a.o.Filter); err != nil {
		return err
	}
	probe := a.memory("fact", nil, "")
	return probe.Check()
}

// memory is a fact as the database keeps it.
func (a *adding) memory(text string, vec []float32, role memory.Role) memory.Memory {
	importance := a.o.Importance
	if importance == nil {
		importance = new(defaultImportance)
	}
	return memory.Memory{
		Scope: a.scope, Kind: memory.KindFact, Role: role, Text: text, Embedding: vec,
		Metadata: maps.Clone(a.o.Metadata), Importance: importance,
	}
}

func (a *adding) run(ctx context.Context, messages Messages) error {
	conversation := ""
	if !a.o.Raw && a.f.LLM != nil {
		var err error
		if conversation, err = messages.conversation(); err != nil {
			return err
		}
	}
	if err := a.extract(ctx, messages, conversation); err != nil || len(a.works) == 0 {
		return err
	}
	if err := a.embedFacts(ctx); err != nil {
		return err
	}
	found := a.startGraph(ctx, conversation)
	err := a.decideAll(ctx)
	a.graph = <-found // its calls end with the context, too
	a.degraded = append(a.degraded, a.graphLost...)
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return a.commit(ctx)
}

func (a *adding) degrade(step Step, fact, why string, err error) {
	a.degraded = append(a.degraded, degradation(step, fact, why, err))
}

// extract finds the facts. Only the context's end is an error.
func (a *adding) extract(ctx context.Context, messages Messages, conversation string) error {
	if a.o.Raw || a.f.LLM == nil {
		if !a.o.Raw {
			a.degrade(StepLLM, "", "there is no language model: the messages themselves are the facts, and none of them is compared with others but for the same text", nil)
		}
		for _, s := range messages.statements(a.o.Raw) {
			a.works = append(a.works, &work{fact: s.text, role: s.role, asIs: true})
		}
		a.checkWorks()
		return nil
	}
	if messages.blank() {
		return nil // there is nothing to ask about
	}
	system := cmp.Or(a.o.Prompt, a.f.Prompts.FactExtraction, extractionPrompt)
	reply, err := a.generate(ctx, "extract facts", extractionRequest(system, conversation))
	if err != nil {
		a.degrade(StepExtraction, "", err.Error(), err)
		return ctx.Err()
	}
	facts, bad, err := parseFacts(reply.Text)
	if err != nil {
		err = llmFailed("extract facts", "the reply cannot be read"+truncated(reply), err)
		a.degrade(StepExtraction, "", err.Error(), err)
		return nil
	}
	if bad > 0 {
		a.degrade(StepExtraction, "", fmt.Sprintf("%d elements of the reply are no facts", bad), nil)
	}
	if len(facts) > MaxFacts {
		a.degrade(StepExtraction, "", fmt.Sprintf("the reply has %d facts; those after the first %d are left out", len(facts), MaxFacts), nil)
		facts = facts[:MaxFacts]
	}
	for _, text := range facts {
		a.works = append(a.works, &work{fact: text})
	}
	a.checkWorks()
	return nil
}

// checkWorks leaves out what the database would not take.
func (a *adding) checkWorks() {
	a.works = slices.DeleteFunc(a.works, func(w *work) bool {
		m := a.memory(w.fact, nil, w.role)
		err := m.Check()
		if err != nil {
			a.degrade(StepExtraction, shorten(w.fact), err.Error(), err)
		}
		return err != nil
	})
}

// generate calls the model. The call counts in the usage of the owner whose facts it is about.
func (a *adding) generate(ctx context.Context, doing string, r llm.Request) (reply llm.Reply, err error) {
	r.Owner = a.scope.Owner()
	if panicked := panics.Catch("answers", func() { reply, err = a.f.LLM.Generate(ctx, r) }); panicked != nil {
		err = panicked
	}
	if err != nil {
		return reply, llmFailed(doing, "", err)
	}
	return reply, nil
}

// truncated says that a reply was cut, which is why it cannot be read.
func truncated(r llm.Reply) string {
	if r.Truncated {
		return ", since it was cut at the limit of tokens"
	}
	return ""
}

// embedFacts embeds the facts. One that cannot be is left out, or kept without a vector.
func (a *adding) embedFacts(ctx context.Context) error {
	texts := make([]string, len(a.works))
	for i, w := range a.works {
		texts[i] = w.fact
	}
	vecs, failed, err := a.f.embed(ctx, texts)
	if err != nil {
		return err
	}
	kept := a.works[:0]
	for i, w := range a.works {
		w.vec = vecs[i]
		if a.usable(w.fact, failed[i]) {
			kept = append(kept, w)
		}
	}
	a.works = kept
	return nil
}

// usable reports whether a text is stored although its embedding may have failed.
func (a *adding) usable(text string, failed error) bool {
	switch {
	case failed == nil:
		return true
	case a.f.StoreUnembedded:
		a.degrade(StepEmbedding, shorten(text), "it is stored without a vector: "+failed.Error(), failed)
		return true
	}
	a.degrade(StepEmbedding, shorten(text), failed.Error(), failed)
	return false
}
