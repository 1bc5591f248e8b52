package native

import (
	"net/http"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

func factRoutes() []route {
	return []route{
		{at: "POST /facts", summary: "Extract facts from a conversation and store them", body: said{}, reply: factsAdded{}, stream: true, handle: withFacts(addFacts), params: inScope(filtered)},
		{at: "GET /facts", summary: "List the facts of a scope, or with query search them", reply: factItem{}, lines: true, handle: withFacts(listFacts), params: inScope(
			param{name: "query", kind: text, summary: "find the facts that match this query, best first"}, filtered, upTo,
			param{name: "after", kind: text, summary: "the cursor: next of the previous page; not with a query"},
		)},
		{at: "DELETE /facts", summary: "Delete the facts of a scope; their history stays", reply: deletedOne, handle: withFacts(deleteFacts), params: inScope()},
		{at: "GET /facts/{id}", summary: "Show a fact", reply: factItem{}, handle: withFacts(getFact), params: inScope()},
		{at: "PUT /facts/{id}", summary: "Change the text of a fact", body: factText{}, reply: factItem{}, handle: withFacts(changeFact), params: inScope()},
		{at: "DELETE /facts/{id}", summary: "Delete a fact; its history stays", reply: deletedOne, handle: withFacts(deleteFact), params: inScope()},
		{at: "GET /facts/{id}/history", summary: "List the history of a fact, also of a deleted one", reply: factEvent{}, lines: true, handle: withFacts(factHistory), params: inScope()},
		{at: "POST /facts/reset", summary: "Delete the facts of everyone, with their history", reply: deletedOne, admin: true, whole: true, handle: withFacts(resetFacts), params: []param{confirmed}},
	}
}

// withFacts answers 501 where there is no memory of facts.
func withFacts(handle func(a *ask, f *facts.Facts) error) func(a *ask) error {
	return func(a *ask) error {
		if a.Unbound() {
			if _, err := a.scoped("find the facts"); err != nil {
				return err
			}
		}
		if a.Facts == nil {
			return server.Fail(http.StatusNotImplemented, "not_configured", "the server has no memory of facts; name its models in the configuration of memdbd")
		}
		return handle(a, a.Facts)
	}
}

// said is a conversation, or a text that a user said.
type said struct {
	Text     string                         `json:"text"`
	Messages exchange.Strict[facts.Message] `json:"messages"`
	Metadata exchange.Object                `json:"metadata"`
	Infer    *bool                          `json:"infer"` // false: the messages are the facts, as they are
	Prompt   string                         `json:"prompt"`
}

// What facts look like: they write themselves as the memory of facts is configured to.
type (
	factsAdded struct {
		Results   []facts.Result      `json:"results"`
		Relations []any               `json:"relations"`
		Degraded  []facts.Degradation `json:"degraded"`
	}
	factItem struct {
		ID        string          `json:"id"`
		Memory    string          `json:"memory"`
		Hash      string          `json:"hash"`
		Metadata  exchange.Object `json:"metadata"`
		Score     *float64        `json:"score,omitempty"`
		CreatedAt string          `json:"created_at"`
		UpdatedAt string          `json:"updated_at"`
		UserID    string          `json:"user_id,omitempty"`
		AgentID   string          `json:"agent_id,omitempty"`
		RunID     string          `json:"run_id,omitempty"`
	}
	factEvent struct {
		ID        string  `json:"id"`
		MemoryID  string  `json:"memory_id"`
		Event     string  `json:"event"`
		OldValue  *string `json:"old_value"`
		NewValue  *string `json:"new_value"`
		IsDeleted bool    `json:"is_deleted"`
		Timestamp string  `json:"timestamp"`
	}
	factText struct {
		Text string `json:"text" openapi:"required"`
	}
)

// factScope is the scope of a call about facts, which names somebody.
func (a *ask) factScope(doing string) (memory.Scope, error) {
	s, err := a.scoped(doing)
	if err == nil && s == (memory.Scope{}) {
		err = &memory.Error{Kind: memory.ErrScope, What: doing, Why: "it names no user, agent or run", Do: "name one"}
	}
	return s, err
}

func addFacts(a *ask, f *facts.Facts) error {
	b, err := decoded[said](a)
	if err != nil {
		return err
	}
	s, err := a.factScope("add facts")
	if err != nil {
		return err
	}
	messages := facts.Messages(b.Messages)
	switch {
	case b.Text != "" && len(messages) > 0, b.Text == "" && len(messages) == 0:
		return invalid("add facts", "it takes a text or messages", "give one of the two")
	case b.Text != "":
		messages = facts.Text(b.Text)
	}
	added, err := f.Add(a.Context(), s, messages, &facts.AddOptions{Metadata: b.Metadata, Filter: value[filter.Filter](a, "filter"), Prompt: b.Prompt, Raw: b.Infer != nil && !*b.Infer})
	return a.ok(added, err)
}

func listFacts(a *ask, f *facts.Facts) error {
	s, err := a.factScope("list facts")
	if err != nil {
		return err
	}
	o := &facts.SearchOptions{Filter: value[filter.Filter](a, "filter"), After: value[string](a, "after")}
	if o.Limit, err = a.limit(facts.DefaultLimit); err != nil {
		return err
	}
	var found facts.Found
	switch {
	case a.given("query") && a.given("after"):
		return invalid("list facts", "query and after exclude each other", "")
	case a.given("query"):
		found, err = f.Search(a.Context(), s, value[string](a, "query"), o)
	default:
		found, err = f.GetAll(a.Context(), s, o)
	}
	if err != nil {
		return err
	}
	return a.list(func(s *stream) error {
		s.end.Next = found.Next
		return writeAll(s, found.Results)
	})
}

func deleteFacts(a *ask, f *facts.Facts) error {
	s, err := a.factScope("delete facts")
	if err != nil {
		return err
	}
	return a.deleted(f.DeleteAll(a.Context(), s))
}

func getFact(a *ask, f *facts.Facts) error {
	s, err := a.scoped("get a fact")
	if err != nil {
		return err
	}
	item, err := f.Get(a.Context(), s, a.id("id"))
	if err == nil && item == nil {
		err = server.Unknown("get the fact " + a.id("id"))
	}
	if err != nil {
		return err
	}
	return a.ok(*item, nil)
}

func changeFact(a *ask, f *facts.Facts) error {
	b, err := decoded[factText](a)
	if err != nil {
		return err
	}
	s, err := a.scoped("update a fact")
	if err != nil {
		return err
	}
	item, err := f.Update(a.Context(), s, a.id("id"), b.Text)
	return a.ok(item, err)
}

func deleteFact(a *ask, f *facts.Facts) error {
	s, err := a.scoped("delete a fact")
	if err != nil {
		return err
	}
	return a.deleted(1, f.Delete(a.Context(), s, a.id("id")))
}

func factHistory(a *ask, f *facts.Facts) error {
	s, err := a.scoped("history of a fact")
	if err != nil {
		return err
	}
	records, err := f.History(a.Context(), s, a.id("id"))
	if err == nil && len(records) == 0 {
		err = server.Unknown("history of the fact " + a.id("id"))
	}
	if err != nil {
		return err
	}
	return a.list(func(s *stream) error { return writeAll(s, records) })
}

func resetFacts(a *ask, f *facts.Facts) error {
	if err := a.confirm("delete the facts of everyone"); err != nil {
		return err
	}
	return a.deleted(f.Reset(a.Context()))
}
