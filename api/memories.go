package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// Memory is a request about one memory. An ID is unique within an owner.
type Memory struct {
	Scope
	ID string `path:"id" arg:"ID" help:"the ID of the memory"`
}

// MemoryOf implements OfMemory.
func (m *Memory) MemoryOf() *Memory { return m }

// OfMemory is a request about one memory that is there.
type OfMemory interface {
	// MemoryOf returns the memory of the request, whose scope its caller sets.
	MemoryOf() *Memory
}

// in are the memories among which the one of the request is, and its scope.
func (m *Memory) in(db *engine.DB) (engine.Memories, memory.Scope) {
	return db.Memories().Lacking(m.Lack), memory.Scope{User: m.User, Agent: m.Agent, Run: m.Run}
}

// NewMemory is the memory that a record has stored.
func (m *Made) NewMemory(r exchange.Record) (memory.Memory, error) {
	if r.Type != "" && r.Type != exchange.TypeMemory {
		return memory.Memory{}, invalid("store a memory", fmt.Sprintf("its type is %.40q", r.Type), "leave it out, or name it memory")
	}
	return r.Memory(), m.notPast("store a memory", r.ExpiresAt.Time, "give a later time")
}

// MemoryStoreRequest stores a memory.
type MemoryStoreRequest struct {
	exchange.Record `body:"object"`
	Upsert          bool    `query:"upsert" help:"update the memory with the same ID"`
	NoDedup         bool    `query:"no_dedup" help:"store a text again that is already stored"`
	Session         *string `query:"session" unit:"run" help:"also append the memory to this session, which becomes its run"`
	Channel         *string `query:"channel" help:"the channel of the session; only with session"`
	Made
}

// memory is the memory that the request stores: its run is the session.
func (q *MemoryStoreRequest) memory() (memory.Memory, error) {
	r := q.Record
	switch {
	case q.Session == nil && q.Channel != nil, q.Session != nil && *q.Session == "":
		return memory.Memory{}, invalid("store a memory", "channel is for a session, and none is named", "name it with session")
	case q.Session != nil && r.Run != "" && r.Run != *q.Session:
		return memory.Memory{}, invalid("store a memory", "run and session differ; the session is the run", "leave one of them out")
	case q.Session != nil:
		r.Run = *q.Session
	}
	return q.NewMemory(r)
}

// Check implements Checked.
func (q *MemoryStoreRequest) Check() error {
	m, err := q.memory()
	if err == nil && q.Session != nil && m.User == "" && m.Agent == "" {
		err = &memory.Error{Kind: memory.ErrScope, What: "store a memory in a session", Why: "a session belongs to a user or an agent", Do: "give a user or an agent"}
	}
	if err != nil {
		return err
	}
	return m.Check()
}

// MemoryStore stores a memory, also in a session.
var MemoryStore = &Op[MemoryStoreRequest, exchange.StoredInSession]{
	Operation: Operation{Name: "store", Route: "POST /memories", Summary: "Store a memory, and with session append it to a session", Doing: "store a memory", Access: Creates, Status: 201, Once: true},
	Run: func(ctx context.Context, db *engine.DB, q *MemoryStoreRequest) (out exchange.StoredInSession, err error) {
		m, err := q.memory()
		if err != nil {
			return out, err
		}
		o := &memory.StoreOptions{Upsert: q.Upsert, NoDedup: q.NoDedup}
		var stored memory.Stored
		if q.Session == nil {
			stored, err = db.Memories().Store(ctx, m, o)
		} else {
			to := &sessions.AppendOptions{}
			if q.Channel != nil {
				to.Channel = *q.Channel
			}
			var a sessions.Appended
			stored, a, err = db.Sessions().StoreMemory(ctx, m, o, sessions.Message{}, to)
			out.Session, out.MessageID, out.Messages = a.Session, a.MessageID, a.Messages
		}
		out.Stored = exchange.NewStored(stored)
		return out, err
	},
}

// MemoryGetRequest shows a memory.
type MemoryGetRequest struct {
	Memory
	Vectors bool `query:"vectors" help:"add the vectors"`
}

// MemoryGet shows a memory.
var MemoryGet = &Op[MemoryGetRequest, exchange.Record]{
	Operation: Operation{Name: "get", Route: "GET /memories/{id}", Summary: "Show a memory", Doing: "get"},
	Run: func(ctx context.Context, db *engine.DB, q *MemoryGetRequest) (exchange.Record, error) {
		memories, scope := q.in(db)
		get := memories.Get
		if q.Vectors {
			get = memories.GetWithVectors
		}
		m, err := get(ctx, scope, q.ID)
		return exchange.Show(m, q.Vectors), err
	},
}

// An Expiry is when a memory ends, as far as that is given: null, or the zero time, is never.
type Expiry struct {
	// At is the time, nil where it is not given.
	At *time.Time
}

// UnmarshalJSON reads a time or null.
func (e *Expiry) UnmarshalJSON(b []byte) error {
	e.At = new(time.Time)
	if string(b) == "null" {
		return nil
	}
	var t exchange.Expiry
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	*e.At = t.Time
	return nil
}

// MarshalJSON writes a time or null.
func (e Expiry) MarshalJSON() ([]byte, error) {
	if e.At == nil || e.At.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(exchange.Time{Time: *e.At})
}

// MemoryChange has the fields of a memory to change. A field that is left out stays as it is.
type MemoryChange struct {
	Text   *string        `json:"text" arg:"[TEXT]..." stdin:"8388608" help:"the text"`
	Role   *memory.Role   `json:"role" enum:"user,assistant,system,tool" help:"who said it: user, assistant, system or tool"`
	Source *memory.Source `json:"source" unit:"word" help:"where it came from, as user_message, or any word"`
	// Metadata replaces the whole object; MergeMetadata changes the fields that it names.
	Metadata      *exchange.Object           `json:"metadata" help:"any facts about it, an object"`
	MergeMetadata exchange.Object            `json:"merge_metadata" help:"change what this object names of the metadata; a null removes"`
	Name          *string                    `json:"name" unit:"name" help:"a name to call it by"`
	Aliases       *[]string                  `json:"aliases" flag:"alias" unit:"name" help:"another name; can be repeated"`
	Embedding     exchange.Vector            `json:"embedding" help:"its vector, a list of numbers"`
	Vectors       map[string]exchange.Vector `json:"vectors"`
	EventTime     *exchange.Time             `json:"event_time" help:"when it happened"`
	ExpiresAt     Expiry                     `json:"expires_at" flag:"expires" help:"when it ends; a date is the end of that day; or never"`
	Pinned        *bool                      `json:"pinned" help:"it is never evicted"`
	// Importance fixes it; AutoImportance has it computed again.
	Importance     *float64 `json:"importance"`
	AutoImportance bool     `json:"auto_importance"`
	Confidence     *float64 `json:"confidence" help:"from 0 to 1"`
}

func (c *MemoryChange) patch() memory.Patch {
	p := memory.Patch{
		Text: c.Text, Role: c.Role, Source: c.Source, MergeMetadata: c.MergeMetadata, Name: c.Name, Aliases: c.Aliases,
		Embedding: c.Embedding, ExpiresAt: c.ExpiresAt.At, Pinned: c.Pinned,
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

// MemoryUpdateRequest changes a memory.
type MemoryUpdateRequest struct {
	Memory
	MemoryChange `body:"object"`
	Made
}

// Check implements Checked.
func (q *MemoryUpdateRequest) Check() error {
	if q.ExpiresAt.At == nil {
		return nil
	}
	return q.notPast("update a memory", *q.ExpiresAt.At, "give a later time, null for never, or delete the memory")
}

// Refers implements Confined.
func (q *MemoryUpdateRequest) Refers() string {
	if q.Name != nil || q.Aliases != nil {
		return "it gives no names"
	}
	return ""
}

// MemoryUpdate changes a memory.
var MemoryUpdate = &Op[MemoryUpdateRequest, exchange.Record]{
	Operation: Operation{Name: "update", Route: "PATCH /memories/{id}", Summary: "Change a memory", Doing: "update", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *MemoryUpdateRequest) (exchange.Record, error) {
		if err := q.Check(); err != nil {
			return exchange.Record{}, err
		}
		memories, scope := q.in(db)
		m, err := memories.Update(ctx, scope, q.ID, q.patch())
		return exchange.Show(m, false), err
	},
}

// MemoryDelete deletes a memory.
var MemoryDelete = &Op[Memory, exchange.Deleted]{
	Operation: Operation{Name: "delete", Route: "DELETE /memories/{id}", Summary: "Delete a memory; its history stays", Doing: "delete", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *Memory) (exchange.Deleted, error) {
		memories, scope := q.in(db)
		return exchange.Deleted{Deleted: 1}, memories.Delete(ctx, scope, q.ID)
	},
}

// MemoriesDeleteRequest deletes many memories.
type MemoriesDeleteRequest struct {
	Selection
	All bool `query:"all" flag:"-" help:"delete all memories of the scope; required without a filter"`
}

// MemoriesDelete deletes the memories that match a filter, or all of a scope.
var MemoriesDelete = &Op[MemoriesDeleteRequest, exchange.Deleted]{
	Operation: Operation{Name: "delete --all", Route: "DELETE /memories", Summary: "Delete the memories that match a filter, or with all=true all of a scope", Doing: "delete memories", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *MemoriesDeleteRequest) (d exchange.Deleted, err error) {
		if q.All == (q.Filter != nil) {
			return d, invalid("delete memories", "it takes a filter, or all=true", "give one of the two")
		}
		var of memory.DeleteQuery
		of.Scope, of.AllScopes, of.Filter = q.selected()
		switch {
		case of.Filter != nil:
			d.Deleted, err = db.Memories().DeleteMatching(ctx, of)
		case of.AllScopes && of.Scope == (memory.Scope{}):
			d.Deleted, err = db.Memories().DeleteAll(ctx)
		default:
			d.Deleted, err = db.Memories().DeleteScope(ctx, of.Scope)
		}
		return d, err
	},
}

// MemoryListRequest lists memories.
type MemoryListRequest struct {
	Selection
	Page
	Vectors    bool   `query:"vectors" help:"add the vectors"`
	OrderBy    string `query:"order_by" unit:"field" help:"the field to sort by, as in filters; the default is the order of storing"`
	Descending bool   `query:"descending" help:"list in descending order"`
	Lossy
	// Behind has the list of one of several databases begin behind a place. It excludes After.
	Behind *memory.ListPlace
}

// MemoryList lists memories.
var MemoryList = &List[MemoryListRequest, exchange.Record]{
	Operation: Operation{Name: "list", Route: "GET /memories", Summary: "List memories", Doing: "list memories"},
	Run: func(ctx context.Context, db *engine.DB, q *MemoryListRequest, yield func(exchange.Record) error) (End, error) {
		of := memory.ListQuery{OrderBy: q.OrderBy, Descending: q.Descending, Limit: q.Limit, Cursor: q.After, Behind: q.Behind, WithVectors: q.Vectors, Lost: q.Lost}
		of.Scope, of.AllScopes, of.Filter = q.selected()
		page, err := db.Memories().List(ctx, of)
		if err != nil {
			return End{}, err
		}
		return End{Next: page.Next}, each(page.Memories, func(m memory.Memory) error { return yield(exchange.Show(m, q.Vectors)) })
	},
}

// MemoryCounted is the reply of MemoryCount.
type MemoryCounted struct {
	// Count is how many there are.
	Count int `json:"count"`
}

// MemoryCount counts memories.
var MemoryCount = &Op[Selection, MemoryCounted]{
	Operation: Operation{Name: "list --count", Route: "GET /count", Summary: "Count memories", Doing: "count memories"},
	Run: func(ctx context.Context, db *engine.DB, q *Selection) (MemoryCounted, error) {
		var of memory.ListQuery
		of.Scope, of.AllScopes, of.Filter = q.selected()
		n, err := db.Memories().Count(ctx, of)
		return MemoryCounted{n}, err
	},
}

// MemoryGroupsRequest counts memories by what their owners have in common.
type MemoryGroupsRequest struct {
	Scopes
	By memory.Group `query:"by" enum:"user,agent,owner,run" default:"owner" help:"what to group by: user, agent, run or owner, a pair of a user and an agent"`
}

// MemoryGroups lists users, agents, owners or runs.
var MemoryGroups = &List[MemoryGroupsRequest, memory.GroupSize]{
	Operation: Operation{Name: "groups", Route: "GET /groups", Summary: "Count memories by user, agent, owner or run", Doing: "count memories by group"},
	Run: func(ctx context.Context, db *engine.DB, q *MemoryGroupsRequest, yield func(memory.GroupSize) error) (End, error) {
		scope, err := q.one("count memories by group")
		if err != nil {
			return End{}, err
		}
		sizes, err := db.Memories().Groups(ctx, memory.GroupQuery{Scope: scope, AllScopes: q.AllScopes, By: q.By})
		if err != nil {
			return End{}, err
		}
		return End{}, each(sizes, yield)
	},
}

// MemoryHistoryRequest lists the history of a memory, which may be gone.
type MemoryHistoryRequest struct {
	Scope
	ID string `path:"id" arg:"ID" help:"the ID of the memory"`
}

// MemoryHistory lists the history of a memory.
var MemoryHistory = &List[MemoryHistoryRequest, exchange.Past]{
	Operation: Operation{Name: "history", Route: "GET /memories/{id}/history", Summary: "List the history of a memory, also of a deleted one", Doing: "history"},
	Run: func(ctx context.Context, db *engine.DB, q *MemoryHistoryRequest, yield func(exchange.Past) error) (End, error) {
		var found []memory.HistoryEntry
		var missing error
		for _, s := range q.scopes() { // what is gone is in none of them any more
			events, err := db.Memories().Lacking(q.Lack).History(ctx, s, q.ID)
			switch {
			case errors.Is(err, memory.ErrNotFound):
				missing = err
			case err != nil:
				return End{}, err
			case len(found) > 0 && found[0].ID != events[0].ID:
				return End{}, &memory.Error{Kind: memory.ErrAmbiguous, What: "history " + q.ID, Do: "name the user, the agent or the run that is meant"}
			default:
				found = events
			}
		}
		if len(found) == 0 {
			return End{}, missing
		}
		return End{}, each(found, func(e memory.HistoryEntry) error { return yield(exchange.NewPast(e)) })
	},
}
