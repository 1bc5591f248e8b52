package mem0

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/messages"
	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// adding is the body of an add, of all kinds of clients.
type adding struct {
	Messages json.RawMessage `json:"messages"`
	named
	Metadata     map[string]any  `json:"metadata"`
	Expiration   *string         `json:"expiration_date"`
	Infer        *bool           `json:"infer"`
	Immutable    bool            `json:"immutable"`
	Prompt       string          `json:"prompt"`
	Timestamp    json.RawMessage `json:"timestamp"`
	AsyncMode    *bool           `json:"async_mode"`
	OutputFormat string          `json:"output_format"`
	Version      string          `json:"version"`

	Instructions      string          `json:"custom_instructions"`
	AgentInstructions string          `json:"agent_custom_instructions"`
	Includes          string          `json:"includes"`
	Excludes          string          `json:"excludes"`
	CustomCategories  json.RawMessage `json:"custom_categories"`
	Schema            json.RawMessage `json:"structured_data_schema"`
	MemoryType        *string         `json:"memory_type"`
}

const doingAdd = "add memories"

// added is what became of a text, as each kind of client reads it.
type added struct {
	ID        string            `json:"id"`
	Event     string            `json:"event"`
	Memory    string            `json:"memory"`
	OldMemory *string           `json:"old_memory,omitempty"`
	NewMemory *string           `json:"new_memory,omitempty"`
	Data      map[string]string `json:"data"`
}

func newAdded(r facts.Result) added {
	return added{r.ID, string(r.Event), r.Memory, r.OldMemory, r.NewMemory, map[string]string{"memory": r.Memory}}
}

// outcome is what an add did.
type outcome struct {
	scope    memory.Scope
	results  []added
	degraded []string
	begun    time.Time
}

// isSet reports whether a field of JSON has a value that says something.
func isSet(b json.RawMessage) bool {
	text := string(b)
	return text != "" && text != "null" && text != "[]" && text != "{}" && text != `""`
}

// unused says which fields of a body have no effect here.
func (a *adding) unused(c *call, inferred bool) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"custom_instructions", a.Instructions != ""},
		{"agent_custom_instructions", a.AgentInstructions != ""},
		{"includes", a.Includes != ""},
		{"excludes", a.Excludes != ""},
		{"custom_categories", isSet(a.CustomCategories)},
		{"structured_data_schema", isSet(a.Schema)},
		{"prompt", a.Prompt != "" && !inferred},
		{"timestamp", isSet(a.Timestamp) && inferred},
	} {
		if f.set {
			c.note("%s has no effect here", f.name)
		}
	}
}

// add reads a body, and adds what it says. All of it is durable when add returns.
func (c *call) add(a *adding) (*outcome, error) {
	if err := c.DecodeLoose(a); err != nil {
		return nil, err
	}
	messages, err := c.messages(a.Messages)
	if err != nil {
		return nil, err
	}
	if value(a.MemoryType) != "" {
		return nil, server.Fail(http.StatusNotImplemented, "not_implemented", "memdb has no memories of the type %q here; leave memory_type out", *a.MemoryType)
	}
	asked := a.scope()
	if slices.Contains([]string{asked.User, asked.Agent, asked.Run, value(a.App)}, wildcard) {
		return nil, invalid(doingAdd, "* is any user, agent, app or run, and the name of none", "name one")
	}
	s, err := c.Scope(asked)
	if err != nil {
		return nil, err
	}
	if s == (memory.Scope{}) {
		why := errNoEntity.Error()
		if value(a.App) != "" {
			why = "an app alone keeps no memories; name a user, an agent or a run beside it"
		}
		return nil, &server.Failure{Status: http.StatusBadRequest, Code: "scope", Message: why, Err: errNoEntity}
	}
	made, err := a.memory()
	if err != nil {
		return nil, err
	}
	done := &outcome{scope: s, begun: c.Now()}
	inferred := (a.Infer == nil || *a.Infer) && c.Facts != nil && c.Facts.LLM != nil
	if inferred {
		err = c.infer(done, a, messages, made.Metadata)
	} else {
		err = c.keep(done, a, messages, made.Metadata)
	}
	if err != nil {
		return nil, err
	}
	a.unused(c, inferred)
	return done, nil
}

// messages reads a conversation: a list of messages, or what one user said.
func (c *call) messages(b json.RawMessage) (facts.Messages, error) {
	if text := string(b); text == "" || text == "null" {
		return nil, c.lacks("messages", "they are required")
	}
	var m facts.Messages
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, invalid(doingAdd, "the messages cannot be read: "+err.Error(), `give a list of {"role": "user", "content": "…"}, or of messages of another form`)
	}
	if len(m) == 0 {
		return nil, c.lacks("messages", "there are none")
	}
	thoughts := 0
	_ = rawjson.Elements(b, func(one []byte) error { // a single message or a text has no elements
		if read, err := messages.Read(one, nil); err == nil {
			thoughts += read.Thoughts()
		}
		return nil
	})
	if thoughts > 0 {
		c.note("thoughts of a model that were left out: %d", thoughts)
	}
	return m, nil
}

// memory is what each message or fact becomes, without a text.
func (a *adding) memory() (memory.Memory, error) {
	p := products.Mem0{App: value(a.App), Expiration: value(a.Expiration), Immutable: a.Immutable, Metadata: a.Metadata}
	if p.Expiration != "" {
		if _, err := day("the date of expiry", p.Expiration); err != nil {
			return memory.Memory{}, err
		}
	}
	return p.Memory()
}

// infer has a language model take the facts out of a conversation.
func (c *call) infer(done *outcome, a *adding, messages facts.Messages, metadata map[string]any) error {
	o := &facts.AddOptions{Metadata: metadata, Prompt: a.Prompt, Filter: changeable(c)}
	r, err := c.Facts.Add(c.Context(), done.scope, messages, o)
	if err != nil {
		return err
	}
	for _, d := range r.Degraded {
		if len(r.Results) == 0 && d.Err != nil && d.Step != facts.StepGraph {
			return &server.Failure{
				Status: http.StatusBadGateway, Code: "provider_unavailable", Err: d.Err,
				Message: doingAdd + ": the language model or the embedder failed, and nothing was added; try again, or send infer: false",
			}
		}
		done.degraded = append(done.degraded, string(d.Step)+" of "+d.Fact)
		c.note("%s: a fact was left out or handled in a lesser way", d.Step)
	}
	for _, one := range r.Results {
		done.results = append(done.results, newAdded(one))
		if one.Event == facts.None && one.ID != "" {
			if err := c.revive(done.scope, one.ID, metadata); err != nil {
				return err
			}
		}
	}
	return nil
}

// changeable holds for the memories that a model may see and change.
func changeable(c *call) filter.Filter {
	return filter.And(c.unexpired(), filter.Not(filter.Eq(own+products.Mem0Immutable, true)))
}

// revive shows a memory again that has expired and was told once more.
func (c *call) revive(s memory.Scope, id string, metadata map[string]any) error {
	m, err := c.DB.Memories().Get(c.Context(), s, id)
	if errors.Is(err, memory.ErrNotFound) {
		return nil // somebody has deleted it meanwhile
	}
	if err != nil || !products.Mem0Expired(&m, c.Now()) {
		return err
	}
	_, err = c.DB.Memories().Update(c.Context(), m.Scope, m.ID, memory.Patch{MergeMetadata: map[string]any{
		products.Mem0Field: map[string]any{products.Mem0Expiration: products.Mem0More(metadata)[products.Mem0Expiration]},
	}})
	return err
}

// keep stores each message of a user, an assistant or a tool as it is, in one commit.
func (c *call) keep(done *outcome, a *adding, messages facts.Messages, metadata map[string]any) error {
	verbatim := a.Infer != nil && !*a.Infer
	if !verbatim {
		c.note("there is no language model: the messages were kept as they are")
	}
	created, err := a.created(c)
	if err != nil {
		return err
	}
	var batch []memory.Memory
	for _, m := range messages {
		if m.Role == "system" || strings.TrimSpace(m.Content) == "" {
			continue
		}
		batch = append(batch, memory.Memory{
			Scope: done.scope, Kind: memory.KindFact, Role: memory.Role(m.Role), Text: m.Content, Metadata: metadata, CreatedAt: created,
		})
	}
	if len(batch) == 0 {
		c.note("there is no text of a user or an assistant, so nothing was added")
		return nil
	}
	// The same text again is the same memory only where nothing beside it would be lost.
	again := verbatim || len(metadata) > 0 || !created.IsZero()
	stored, err := c.DB.Memories().StoreBatch(c.Context(), batch, &memory.StoreOptions{NoDedup: again})
	if err != nil {
		return err
	}
	for i, s := range stored {
		event, text := facts.Add, batch[i].Text
		if s.Deduplicated {
			event = facts.None
			if err := c.revive(done.scope, s.ID, metadata); err != nil {
				return err
			}
		}
		r := facts.Result{Event: event, ID: s.ID, Memory: text}
		if event == facts.Add {
			r.NewMemory = &text
		}
		done.results = append(done.results, newAdded(r))
		if s.Pending {
			c.note("%s waits for its vector: %s", s.ID, s.PendingWhy)
		}
	}
	return nil
}

// created is when the memories were made, where the body says so.
func (a *adding) created(*call) (time.Time, error) {
	if !isSet(a.Timestamp) {
		return time.Time{}, nil
	}
	v, err := scalarOrList("timestamp", a.Timestamp)
	if err == nil {
		v, err = readTime(v)
	}
	if err != nil {
		return time.Time{}, err
	}
	t, err := scalar.Time(v)
	if err != nil {
		err = invalid(doingAdd, "the timestamp "+err.Error(), "give seconds since 1970")
	}
	return t, err
}

// immediate reports whether an add is answered with its results: where the client does not want an
// event, and where the memories belong to a run alone, since only owners keep entries.
func (done *outcome) immediate(events bool) bool {
	return !events || done.scope.Owner() == (memory.Owner{})
}

// addV3 answers with results where the messages were kept on request, else as if the work was
// still to be done: clients ask for the event then.
func addV3(c *call) error {
	var a adding
	done, err := c.add(&a)
	if err != nil {
		return err
	}
	if done.immediate(a.Infer == nil || *a.Infer) {
		return c.Reply(http.StatusOK, map[string]any{"message": "The memories were added", "status": "SUCCEEDED", "results": orEmpty(done.results)})
	}
	event, err := c.putEvent(done)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, queued{"The memories were added", "PENDING", event})
}

// queued is an answer that names an event.
type queued struct {
	Message string `json:"message"`
	Status  string `json:"status"`
	EventID string `json:"event_id"`
}

// addV1 answers a client of the platform with an event, or with the results where it does not want
// to wait for one; and one of the wrapper with the results.
func addV1(c *call) error {
	if c.form != platform {
		return addOpen(c)
	}
	var a adding
	done, err := c.add(&a)
	if err != nil {
		return err
	}
	var list any = orEmpty(done.results)
	if !done.immediate(a.AsyncMode == nil || *a.AsyncMode) {
		event, err := c.putEvent(done)
		if err != nil {
			return err
		}
		list = []queued{{"The memories were added", "PENDING", event}}
	}
	if a.OutputFormat == "v1.1" && (a.Version == "v2" || a.AsyncMode != nil && !*a.AsyncMode) {
		list = map[string]any{"results": list, "relations": []any{}}
	}
	return c.Reply(http.StatusOK, list)
}

// addOpen answers with the results.
func addOpen(c *call) error {
	var a adding
	done, err := c.add(&a)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, map[string]any{"results": orEmpty(done.results), "relations": []any{}, "degraded": orEmpty(done.degraded)})
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
