package agents

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// An Agent is what is said about an agent.
type Agent struct {
	AgentID   string          `json:"agent_id"`
	Name      string          `json:"name"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
}

func agentOf(a *usage.Agent) Agent { return Agent{a.ID, a.Name, a.Metadata, a.CreatedAt} }

// listAgents lists the manifests that the caller may see.
func listAgents(c *server.Call) error {
	if err := c.Reach([]memory.Scope{{}}, false); err != nil {
		return err
	}
	all, err := c.DB.Usage().Agents(c.Context())
	if err != nil {
		return err
	}
	out := []Agent{}
	for i := range all {
		if _, err := c.Fit(memory.Scope{Agent: all[i].ID}); err == nil {
			out = append(out, agentOf(&all[i]))
		}
	}
	return c.Reply(http.StatusOK, out)
}

func getAgent(c *server.Call) error {
	of := memory.Scope{Agent: c.R.PathValue("id")}
	if _, err := c.Fit(of); err != nil {
		return err
	}
	if err := c.Reach([]memory.Scope{of}, true); err != nil {
		return err
	}
	a, err := c.DB.Usage().Agent(c.Context(), c.R.PathValue("id"))
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, agentOf(&a))
}

// putAgent makes the manifest of an agent, which is one for all of its users: a key of a user may not.
func putAgent(c *server.Call) error {
	var in struct {
		Name     string          `json:"name"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	o, err := owner(c)
	switch {
	case err != nil:
		return err
	case o.User != "":
		return server.Denied("the manifest of an agent is one for all of its users, and the key is one of a user")
	}
	a, err := c.DB.Usage().AddAgent(c.Context(), usage.Agent{ID: o.Agent, Name: in.Name, Metadata: in.Metadata})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusCreated, agentOf(&a))
}

// A Pair is a value under its key.
type Pair struct {
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	UpdatedAt time.Time       `json:"updated_at"`
}

func pairOf(e *entries.Entry) Pair { return Pair{e.Key, e.Value, e.UpdatedAt} }

// Pairs is a page of values, in the order of their keys. Next is the cursor of the next one.
type Pairs struct {
	Pairs []Pair `json:"kv_pairs"`
	Next  string `json:"next,omitempty"`
}

func listKV(c *server.Call) error {
	limit, after, err := page(c)
	if err != nil {
		return err
	}
	o, err := owner(c)
	if err != nil {
		return err
	}
	found, err := c.DB.KV().List(c.Context(), entries.Query{Owner: o, Prefix: c.R.URL.Query().Get("prefix"), After: after, Limit: limit})
	if err != nil {
		return err
	}
	out := Pairs{[]Pair{}, found.Next}
	for i := range found.Entries {
		out.Pairs = append(out.Pairs, pairOf(&found.Entries[i]))
	}
	return c.Reply(http.StatusOK, out)
}

func getKV(c *server.Call) error {
	o, err := owner(c)
	if err != nil {
		return err
	}
	e, err := c.DB.KV().Get(c.Context(), o, c.R.PathValue("key"))
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, pairOf(&e))
}

func setKV(c *server.Call) error {
	var in struct {
		Value json.RawMessage `json:"value"`
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	if in.Value == nil {
		return missing("value", "any JSON value")
	}
	o, err := owner(c)
	if err != nil {
		return err
	}
	e, err := c.DB.KV().Put(c.Context(), o, c.R.PathValue("key"), in.Value, nil)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, pairOf(&e))
}

func deleteKV(c *server.Call) error {
	o, err := owner(c)
	if err != nil {
		return err
	}
	if err := c.DB.KV().Delete(c.Context(), o, c.R.PathValue("key")); err != nil {
		return err
	}
	return c.Reply(http.StatusNoContent, nil)
}

// Usage is what calls of language models have taken.
type Usage struct {
	Records          int64     `json:"records"`
	PromptTokens     int64     `json:"prompt_tokens"`
	CompletionTokens int64     `json:"completion_tokens"`
	TotalTokens      int64     `json:"total_tokens"`
	Cost             usage.USD `json:"cost_usd"`
}

// moment is a time of the query, zero without one.
func moment(c *server.Call, name string) (time.Time, error) {
	text := c.R.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := exchange.ParseTime(text)
	if err != nil {
		return at, invalid("%s: %v", name, err)
	}
	return at, nil
}

func totalUsage(c *server.Call) error {
	o, err := owner(c)
	if err != nil {
		return err
	}
	since, errSince := moment(c, "since")
	until, errUntil := moment(c, "until")
	if err := errors.Join(errSince, errUntil); err != nil {
		return err
	}
	if err := c.Reach([]memory.Scope{o.Scope()}, false); err != nil { // of all users with the agent
		return err
	}
	t, err := c.DB.Usage().Total(c.Context(), usage.Query{Owner: o, Model: c.R.URL.Query().Get("model"), Since: since, Until: until})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, Usage{t.Records, t.PromptTokens, t.CompletionTokens, t.TotalTokens, t.Cost})
}

// Time is read in any form of a time, and written as the others of this dialect are.
type Time struct{ exchange.Time }

// MarshalJSON writes RFC 3339 without a fraction where there is none.
func (t Time) MarshalJSON() ([]byte, error) { return t.Time.Time.MarshalJSON() }

func timeOf(t time.Time) Time { return Time{exchange.Time{Time: t}} }

// A Record is one call of a language model.
type Record struct {
	AgentID          string    `json:"agent_id"`
	Model            string    `json:"model"`
	PromptTokens     int64     `json:"prompt_tokens"`
	CompletionTokens int64     `json:"completion_tokens"`
	TotalTokens      int64     `json:"total_tokens"`
	Cost             usage.USD `json:"cost_usd"`
	Timestamp        Time      `json:"timestamp"`
}

func addUsage(c *server.Call) error {
	var in Record
	if err := c.Decode(&in); err != nil {
		return err
	}
	o, err := owner(c)
	if err == nil {
		err = sameAgent(c, in.AgentID)
	}
	if err != nil {
		return err
	}
	r, err := c.DB.Usage().Add(c.Context(), usage.Record{
		Owner: o, Model: in.Model, PromptTokens: in.PromptTokens, CompletionTokens: in.CompletionTokens,
		TotalTokens: in.TotalTokens, Cost: in.Cost, Time: in.Timestamp.Time.Time,
	}, nil)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusCreated, Record{o.Agent, r.Model, r.PromptTokens, r.CompletionTokens, r.TotalTokens, r.Cost, timeOf(r.Time)})
}

// sameAgent refuses an agent in a body that is another than that of the path.
func sameAgent(c *server.Call, id string) error {
	if id != "" && id != c.R.PathValue("id") {
		return invalid("agent_id is %q, and the path is that of %q", id, c.R.PathValue("id"))
	}
	return nil
}

// Spent is what an agent has spent.
type Spent struct {
	AgentID string    `json:"agent_id"`
	Name    string    `json:"name"`
	Cost    usage.USD `json:"cost_usd"`
	Tokens  int64     `json:"tokens"`
}

// rankAgents lists what agents have spent, the most expensive one first.
func rankAgents(c *server.Call) error {
	fit, err := c.Scopes(memory.Scope{User: c.R.URL.Query().Get("user")})
	if err != nil {
		return err
	}
	sums := map[string]*Spent{}
	for i, s := range fit {
		if s.Run != "" {
			return server.Denied("the key is one of a run, and usage belongs to a user and an agent")
		}
		for _, t := range fit[:i] {
			if overlap(s.Owner(), t.Owner()) {
				return invalid("the key has scopes that overlap, so that usage would count twice; name a user")
			}
		}
		ranked, err := c.DB.Usage().Rank(c.Context(), usage.Query{Owner: s.Owner()})
		if err != nil {
			return err
		}
		for _, r := range ranked {
			if sums[r.AgentID] == nil {
				sums[r.AgentID] = &Spent{AgentID: r.AgentID, Name: r.Name}
			}
			sum := sums[r.AgentID]
			sum.Cost, sum.Tokens = sum.Cost.Add(r.Cost), sum.Tokens+r.TotalTokens
		}
	}
	return c.Reply(http.StatusOK, byCost(sums))
}

// byCost sorts what agents have spent: the most expensive first, those of one cost by their IDs.
func byCost(sums map[string]*Spent) []Spent {
	out := make([]Spent, 0, len(sums))
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, *sums[id])
	}
	slices.SortStableFunc(out, func(a, b Spent) int { return b.Cost.Cmp(a.Cost) })
	return out
}

// overlap reports whether something may belong to both.
func overlap(a, b scope.Owner) bool {
	return (a.User == "" || b.User == "" || a.User == b.User) && (a.Agent == "" || b.Agent == "" || a.Agent == b.Agent)
}
