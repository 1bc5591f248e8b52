package native

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

var (
	withVectors = param{name: "vectors", kind: flag, summary: "add the vectors"}
	filtered    = param{name: "filter", kind: chosen, summary: "only memories that satisfy this filter, as text or as JSON: see the schema Filter", example: `kind = fact and importance >= 0.5`}
	groupings   = []string{string(memory.GroupUser), string(memory.GroupAgent), string(memory.GroupOwner), string(memory.GroupRun)}
	upsert      = param{name: "upsert", kind: flag, summary: "update the memory with the same ID"}
	noDedup     = param{name: "no_dedup", kind: flag, summary: "store a text again that is already stored"}
)

func memories() []route {
	return []route{
		{at: "POST /memories", summary: "Store a memory, and with session append it to a session", body: exchange.Record{}, reply: exchange.StoredInSession{}, status: http.StatusCreated, kept: true, handle: storeOne, params: []param{
			upsert, noDedup,
			{name: "session", kind: text, summary: "also append the memory to this session, which becomes its run"},
			{name: "channel", kind: text, summary: "the channel of the session; only with session"},
		}},
		{at: "POST /memories/batch", summary: "Store many memories in one commit: all or none", body: batch{}, reply: batchStored{}, handle: storeMany, params: []param{
			upsert, noDedup, {name: "skip_invalid", kind: flag, summary: "store the valid memories, and report why the others are invalid"},
		}},
		{at: "GET /memories", summary: "List memories", reply: exchange.Record{}, lines: true, merge: mergeMemories, handle: listMemories, params: inAll(
			filtered, upTo, after, wholeOf, withVectors,
			param{name: "order_by", kind: text, summary: "the field to sort by, as in filters; the default is the order of storing"},
			param{name: "descending", kind: flag, summary: "list in descending order"},
		)},
		{at: "DELETE /memories", summary: "Delete the memories that match a filter, or with all=true all of a scope", reply: exchange.Deleted{}, handle: deleteMany, params: inAll(
			filtered, param{name: "all", kind: flag, summary: "delete all memories of the scope; required without a filter"},
		)},
		{at: "GET /count", summary: "Count memories", reply: counted{}, merge: server.Sum, handle: countMemories, params: inAll(filtered)},
		{at: "GET /groups", summary: "Count memories by user, agent, owner or run", reply: memory.GroupSize{}, lines: true, merge: mergeGroups, handle: groupMemories, params: inAll(
			param{name: "by", kind: text, values: groupings, summary: "what to group by; the default is owner, a pair of a user and an agent"},
		)},
		{at: "GET /memories/{id}", summary: "Show a memory", reply: exchange.Record{}, handle: getMemory, params: inScope(withVectors)},
		{at: "PATCH /memories/{id}", summary: "Change a memory", body: change{}, reply: exchange.Record{}, handle: changeMemory, params: inScope()},
		{at: "DELETE /memories/{id}", summary: "Delete a memory; its history stays", reply: exchange.Deleted{}, handle: deleteMemory, params: inScope()},
		{at: "GET /memories/{id}/history", summary: "List the history of a memory, also of a deleted one", reply: exchange.Past{}, lines: true, handle: historyOf, params: inScope()},
	}
}

// checked is the memory of a record that is to be stored, in the scope that it may have.
func (a *ask) checked(r *exchange.Record, upsert bool) (memory.Memory, error) {
	m := r.Memory()
	if r.Type != "" && r.Type != exchange.TypeMemory {
		return m, invalid("store a memory", fmt.Sprintf("its type is %.40q", r.Type), "leave it out, or name it memory")
	}
	if !m.ExpiresAt.IsZero() && !m.ExpiresAt.After(a.now()) {
		return m, invalid("store a memory", "expires_at is past", "give a later time")
	}
	s, err := a.Exact(m.Scope)
	if err != nil {
		return m, err
	}
	m.Scope = s
	note := m.Kind == memory.KindNote || m.Kind == memory.KindArchive
	if a.sealed(s) && (m.ID != "" || m.Name != "" || m.NoteID != 0 || note || upsert) {
		return m, server.Denied("the key is one of a run: it stores without an ID and a name, and no notes")
	}
	return m, nil
}

func storeOne(a *ask) error {
	r, err := decoded[exchange.Record](a)
	if err != nil {
		return err
	}
	session := value[string](a, "session")
	switch {
	case session == "" && (a.given("session") || a.given("channel")):
		return invalid("store a memory", "channel is for a session, and none is named", "name it with session")
	case session != "" && r.Run != "" && r.Run != session:
		return invalid("store a memory", "run and session differ; the session is the run", "leave one of them out")
	case session != "":
		r.Run = session
	}
	o := &memory.StoreOptions{Upsert: value[bool](a, "upsert"), NoDedup: value[bool](a, "no_dedup")}
	m, err := a.checked(&r, o.Upsert)
	if err != nil {
		return err
	}
	if session == "" {
		stored, err := a.DB.Memories().Store(a.Context(), m, o)
		if err != nil {
			return err
		}
		return a.Reply(statusOf(stored), exchange.NewStored(stored))
	}
	stored, appended, err := a.DB.Sessions().StoreMemory(a.Context(), m, o, sessions.Message{}, &sessions.AppendOptions{Channel: value[string](a, "channel")})
	if err != nil {
		return err
	}
	return a.Reply(statusOf(stored), exchange.StoredInSession{Stored: exchange.NewStored(stored), Session: appended.Session, MessageID: appended.MessageID, Messages: appended.Messages})
}

// statusOf is 201 where something new was stored.
func statusOf(s memory.Stored) int {
	if s.Stored {
		return http.StatusCreated
	}
	return http.StatusOK
}

// batch is the body of a store of many.
type batch struct {
	Memories strict[exchange.Record] `json:"memories" openapi:"required"`
}

// batchStored says of each memory of a batch what became of it.
type batchStored struct {
	Results []storedOrNot `json:"results"`
}

type storedOrNot struct {
	exchange.Stored
	Error string `json:"error,omitempty"`
}

func storeMany(a *ask) error {
	b, err := decoded[batch](a)
	if err != nil {
		return err
	}
	if len(b.Memories) == 0 {
		return invalid("store memories", "there are none", "give at least one")
	}
	o := &memory.StoreOptions{Upsert: value[bool](a, "upsert"), NoDedup: value[bool](a, "no_dedup"), SkipInvalid: value[bool](a, "skip_invalid")}
	all := make([]memory.Memory, len(b.Memories))
	for i := range b.Memories {
		if all[i], err = a.checked(&b.Memories[i], o.Upsert); err != nil {
			return err
		}
	}
	stored, err := a.DB.Memories().StoreBatch(a.Context(), all, o)
	if err != nil {
		return err
	}
	out := batchStored{Results: make([]storedOrNot, len(stored))}
	for i, s := range stored {
		out.Results[i].Stored = exchange.NewStored(s)
		if s.Err != nil {
			out.Results[i].Error = server.Fault(s.Err).Message
		}
	}
	return a.Reply(http.StatusOK, out)
}

func listMemories(a *ask) error {
	c, err := a.chooseAll("list memories")
	if err != nil {
		return err
	}
	q := memory.ListQuery{OrderBy: value[string](a, "order_by"), Descending: value[bool](a, "descending"), WithVectors: value[bool](a, "vectors")}
	q.Scope, q.AllScopes, q.Filter = c.narrow(value[filter.Filter](a, "filter"))
	return a.list(func(s *stream) error {
		q.Lost = s.lost
		return s.pages(func(after string, limit int) (string, error) {
			if err := a.goOn(&q, after); err != nil {
				return "", err
			}
			q.Limit = limit
			page, err := a.DB.Memories().List(a.Context(), q)
			if err != nil {
				return "", err
			}
			for _, m := range page.Memories {
				if err := s.write(exchange.Show(m, q.WithVectors)); err != nil {
					return "", err
				}
			}
			return page.Next, nil
		})
	})
}

// counted is how many there are.
type counted struct {
	Count int `json:"count"`
}

func countMemories(a *ask) error {
	c, err := a.chooseAll("count memories")
	if err != nil {
		return err
	}
	var q memory.ListQuery
	q.Scope, q.AllScopes, q.Filter = c.narrow(value[filter.Filter](a, "filter"))
	n, err := a.DB.Memories().Count(a.Context(), q)
	return a.ok(counted{n}, err)
}

func deleteMany(a *ask) error {
	c, err := a.chooseAll("delete memories")
	if err != nil {
		return err
	}
	all := value[bool](a, "all")
	if all == a.given("filter") {
		return invalid("delete memories", "it takes a filter, or all=true", "give one of the two")
	}
	var q memory.DeleteQuery
	q.Scope, q.AllScopes, q.Filter = c.narrow(value[filter.Filter](a, "filter"))
	switch {
	case q.Filter != nil:
		return a.deleted(a.DB.Memories().DeleteMatching(a.Context(), q))
	case q.AllScopes:
		return a.deleted(a.DB.Memories().DeleteAll(a.Context()))
	}
	return a.deleted(a.DB.Memories().DeleteScope(a.Context(), q.Scope))
}

func groupMemories(a *ask) error {
	c, err := a.chooseAll("group memories")
	if err != nil {
		return err
	}
	if len(c.scopes) > 1 || c.lack != (memory.Lack{}) {
		return invalid("group memories", "it takes one scope of users and agents that are there", "name the user, the agent or the run that is meant")
	}
	sizes, err := a.DB.Memories().Groups(a.Context(), memory.GroupQuery{Scope: c.scopes[0], AllScopes: c.everyone(), By: memory.Group(value[string](a, "by"))})
	if err != nil {
		return err
	}
	return a.list(func(s *stream) error { return writeAll(s, sizes) })
}

func getMemory(a *ask) error {
	vectors := value[bool](a, "vectors")
	return a.one("get", a.id("id"), func(m engine.Memories, s memory.Scope) error {
		get := m.Get
		if vectors {
			get = m.GetWithVectors
		}
		found, err := get(a.Context(), s, a.id("id"))
		return a.ok(exchange.Show(found, vectors), err)
	})
}

// change is what a memory is to be: what is left out stays as it is.
type change struct {
	Text   *string        `json:"text"`
	Role   *memory.Role   `json:"role"`
	Source *memory.Source `json:"source"`
	// Metadata takes the place of the whole object; MergeMetadata changes the fields that it names.
	Metadata      *exchange.Object           `json:"metadata"`
	MergeMetadata exchange.Object            `json:"merge_metadata"`
	Name          *string                    `json:"name"`
	Aliases       *[]string                  `json:"aliases"`
	Embedding     exchange.Vector            `json:"embedding"`
	Vectors       map[string]exchange.Vector `json:"vectors"`
	EventTime     *exchange.Time             `json:"event_time"`
	// ExpiresAt is a time, or null for never.
	ExpiresAt expiry `json:"expires_at"`
	Pinned    *bool  `json:"pinned"`
	// Importance fixes it; AutoImportance has it computed again.
	Importance     *float64 `json:"importance"`
	AutoImportance bool     `json:"auto_importance"`
	Confidence     *float64 `json:"confidence"`
}

// expiry is when a memory ends, as far as it is given: null is never.
type expiry struct{ at *time.Time }

// UnmarshalJSON reads a time or null.
func (e *expiry) UnmarshalJSON(b []byte) error {
	e.at = new(time.Time)
	if string(b) == "null" {
		return nil
	}
	var t exchange.Expiry
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	*e.at = t.Time
	return nil
}

func (c *change) patch() memory.Patch {
	p := memory.Patch{
		Text: c.Text, Role: c.Role, Source: c.Source, MergeMetadata: c.MergeMetadata, Name: c.Name, Aliases: c.Aliases,
		Embedding: c.Embedding, ExpiresAt: c.ExpiresAt.at, Pinned: c.Pinned,
		Importance: c.Importance, AutoImportance: c.AutoImportance, Confidence: c.Confidence,
	}
	if c.Metadata != nil {
		o := map[string]any(*c.Metadata)
		p.Metadata = &o
	}
	if c.EventTime != nil {
		p.EventTime = &c.EventTime.Time
	}
	for space, v := range c.Vectors {
		if p.Vectors == nil {
			p.Vectors = map[string][]float32{}
		}
		p.Vectors[space] = v
	}
	return p
}

func changeMemory(a *ask) error {
	c, err := decoded[change](a)
	if err != nil {
		return err
	}
	patch := c.patch()
	if patch.ExpiresAt != nil && !patch.ExpiresAt.IsZero() && !patch.ExpiresAt.After(a.now()) {
		return invalid("update a memory", "expires_at is past", "give a later time, null for never, or delete the memory")
	}
	return a.one("update", a.id("id"), func(m engine.Memories, s memory.Scope) error {
		if a.sealed(s) && (patch.Name != nil || patch.Aliases != nil) {
			return server.Denied("the key is one of a run: it gives no names")
		}
		changed, err := m.Update(a.Context(), s, a.id("id"), patch)
		return a.ok(exchange.Show(changed, false), err)
	})
}

func deleteMemory(a *ask) error {
	return a.one("delete", a.id("id"), func(m engine.Memories, s memory.Scope) error {
		return a.deleted(1, m.Delete(a.Context(), s, a.id("id")))
	})
}

// historyOf looks in each scope of the key, since what is gone is in none of them any more.
func historyOf(a *ask) error {
	id := a.id("id")
	c, err := a.choose("history", true)
	if err != nil {
		return err
	}
	m := a.DB.Memories().Lacking(c.lack)
	var found []memory.HistoryEntry
	var last error
	for _, s := range c.scopes {
		entries, err := m.History(a.Context(), s, id)
		switch {
		case err != nil && server.Fault(err).Status == http.StatusNotFound:
			last = err
		case err != nil:
			return err
		case len(found) > 0 && found[0].ID != entries[0].ID:
			return &memory.Error{Kind: memory.ErrAmbiguous, What: "history " + id, Do: "name the user, the agent or the run that is meant"}
		default:
			found = entries
		}
	}
	if len(found) == 0 {
		return last
	}
	return a.list(func(s *stream) error {
		for _, e := range found {
			if err := s.write(exchange.NewPast(e)); err != nil {
				return err
			}
		}
		return nil
	})
}
