package agents

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// DefaultRecall is how many fragments a recall returns that does not say.
const DefaultRecall = 10

// sources are where a fragment may come from, by both of their spellings.
var sources = func() map[string]memory.Source {
	all := map[string]memory.Source{}
	for _, s := range []memory.Source{
		memory.SourceUserMessage, memory.SourceAgentResponse, memory.SourceToolResult,
		memory.SourceWebSearch, memory.SourceUserPreference, memory.SourceSystemNote,
	} {
		all[string(s)], all[strings.ReplaceAll(string(s), "_", "")] = s, s
	}
	return all
}()

// sourceOf reads a source: web_search or WebSearch.
func sourceOf(text string) (memory.Source, error) {
	if s, ok := sources[strings.ToLower(text)]; ok {
		return s, nil
	}
	return "", invalid("source is %q; give user_message, agent_response, tool_result, web_search, user_preference or system_note", text)
}

// A Fragment is a text that an agent remembers.
type Fragment struct {
	ID             string         `json:"id"`
	AgentID        string         `json:"agent_id"`
	Content        string         `json:"content"`
	Source         memory.Source  `json:"source"`
	Importance     float64        `json:"importance"` // what is left of it since the last access
	Confidence     float64        `json:"confidence"`
	AccessCount    uint64         `json:"access_count"`
	SessionID      string         `json:"session_id,omitempty"`
	Metadata       map[string]any `json:"metadata,omitempty"`
	CreatedAt      time.Time      `json:"created_at"`
	LastAccessedAt time.Time      `json:"last_accessed_at"`
	Score          *float64       `json:"score,omitempty"` // of a recall
}

func fragmentOf(m *memory.Memory) Fragment {
	f := Fragment{
		ID: m.ID, AgentID: m.Agent, Content: m.Text, Source: m.Source, Importance: *m.Importance, Confidence: *m.Confidence,
		AccessCount: m.AccessCount, SessionID: m.Run, Metadata: m.Metadata, CreatedAt: m.CreatedAt, LastAccessedAt: m.LastAccessed,
	}
	if m.DecayedImportance != nil {
		f.Importance = *m.DecayedImportance
	}
	if f.LastAccessedAt.IsZero() {
		f.LastAccessedAt = f.CreatedAt
	}
	return f
}

// Remembered is the answer of a store. Deduplicated: the ID is that of an earlier fragment that says the same.
type Remembered struct {
	ID           string `json:"id"`
	Stored       bool   `json:"stored"`
	Deduplicated bool   `json:"deduplicated"`
}

func remember(c *server.Call) error {
	var in struct {
		Content    string         `json:"content"`
		Source     string         `json:"source"`
		Importance *float64       `json:"importance"`
		Embedding  []float32      `json:"embedding"`
		SessionID  string         `json:"session_id"`
		Metadata   map[string]any `json:"metadata"`
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	if in.Content == "" {
		return missing("content", "a text")
	}
	m := memory.Memory{Kind: memory.KindFragment, Text: in.Content, Importance: in.Importance, Embedding: in.Embedding, Metadata: in.Metadata}
	if m.Importance == nil {
		full := 1.0
		m.Importance = &full
	}
	var err error
	if m.Source, err = sourceOf(cmp.Or(in.Source, string(memory.SourceUserMessage))); err != nil {
		return err
	}
	if m.Scope, err = c.Exact(memory.Scope{Agent: c.R.PathValue("id"), Run: in.SessionID}); err != nil {
		return err
	}
	st, err := c.DB.Memories().Store(c.Context(), m, nil)
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if !st.Stored {
		status = http.StatusOK
	}
	return c.Reply(status, Remembered{st.ID, st.Stored, st.Deduplicated})
}

// Fragments is a page of fragments, in the order of their first storing. Next is the cursor of the next one.
type Fragments struct {
	Fragments []Fragment `json:"fragments"`
	Next      string     `json:"next,omitempty"`
}

func listMemories(c *server.Call) error {
	limit, cursor, err := page(c)
	if err != nil {
		return err
	}
	s, err := c.Scope(memory.Scope{Agent: c.R.PathValue("id"), Run: c.R.URL.Query().Get("session_id")})
	if err != nil {
		return err
	}
	q := memory.ListQuery{Scope: s, Limit: limit, Cursor: cursor}
	if from := c.R.URL.Query().Get("source"); from != "" {
		of, err := sourceOf(from)
		if err != nil {
			return err
		}
		q.Filter = filter.Eq("source", string(of))
	}
	found, err := c.DB.Memories().List(c.Context(), q)
	if err != nil {
		return err
	}
	out := Fragments{[]Fragment{}, found.Next}
	for i := range found.Memories {
		out.Fragments = append(out.Fragments, fragmentOf(&found.Memories[i]))
	}
	return c.Reply(http.StatusOK, out)
}

func getMemory(c *server.Call) error {
	m, err := c.Get(memory.Scope{Agent: c.R.PathValue("id")}, c.R.PathValue("memory"))
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, fragmentOf(m))
}

func forget(c *server.Call) error {
	m, err := c.Get(memory.Scope{Agent: c.R.PathValue("id")}, c.R.PathValue("memory"))
	if err != nil {
		return err
	}
	if err := c.DB.Memories().Lacking(memory.Lack{User: m.User == ""}).Delete(c.Context(), m.Scope, m.ID); err != nil {
		return err
	}
	return c.Reply(http.StatusNoContent, nil)
}

func recall(c *server.Call) error {
	var in struct {
		Query     string    `json:"query"`
		Limit     *int      `json:"limit"`
		Embedding []float32 `json:"embedding"`
		Filter    struct {
			AgentID       string   `json:"agent_id"`
			Source        string   `json:"source"`
			SessionID     string   `json:"session_id"`
			MinImportance *float64 `json:"min_importance"`
		} `json:"filter"`
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	if in.Query == "" && len(in.Embedding) == 0 {
		return missing("query", "a text, or an embedding")
	}
	if err := sameAgent(c, in.Filter.AgentID); err != nil {
		return err
	}
	fit, err := c.Scopes(memory.Scope{Agent: c.R.PathValue("id"), Run: in.Filter.SessionID})
	if err != nil {
		return err
	}
	q := memory.Query{Scopes: fit, Text: in.Query, Embedding: in.Embedding, Limit: DefaultRecall, Profile: memory.ProfileSubstrate}
	if in.Limit != nil {
		if q.Limit = *in.Limit; q.Limit < 1 {
			return invalid("limit is %d; give 1 or more", q.Limit)
		}
	}
	var all []filter.Filter
	if in.Filter.Source != "" {
		of, err := sourceOf(in.Filter.Source)
		if err != nil {
			return err
		}
		all = append(all, filter.Eq("source", string(of)))
	}
	if in.Filter.MinImportance != nil {
		all = append(all, filter.Gte("importance", *in.Filter.MinImportance))
	}
	if len(all) > 0 {
		q.Filter = filter.And(all...)
	}
	found, err := c.DB.Memories().Recall(c.Context(), q)
	if err != nil {
		return err
	}
	out := make([]Fragment, 0, len(found.Hits))
	for i := range found.Hits {
		f := fragmentOf(&found.Hits[i].Memory)
		f.Score = &found.Hits[i].Score
		out = append(out, f)
	}
	return c.Reply(http.StatusOK, out)
}

// Consolidated is the report of a consolidation.
type Consolidated struct {
	Processed int `json:"fragments_processed"`
	Deleted   int `json:"fragments_deleted"`
	Merged    int `json:"fragments_merged"`
}

// consolidate decays and merges the memories of an agent, and deletes those below a threshold of
// importance, if there is one.
func consolidate(c *server.Call) error {
	var in struct {
		Threshold *float64 `json:"threshold"`
	}
	if c.R.ContentLength != 0 {
		if err := c.Decode(&in); err != nil {
			return err
		}
	}
	o, err := owner(c)
	if err != nil {
		return err
	}
	if err := c.Reach([]memory.Scope{o.Scope()}, false); err != nil { // of all users with the agent
		return err
	}
	r, err := c.DB.Consolidate(c.Context(), &engine.ConsolidateOptions{Scope: o.Scope(), PruneBelow: in.Threshold})
	switch {
	case err != nil:
		return err
	case r.Skipped != "":
		return server.Fail(http.StatusServiceUnavailable, "skipped", "consolidate: %s", r.Skipped)
	}
	return c.Reply(http.StatusOK, Consolidated{r.Processed, r.Deleted, r.Merged})
}
