package native

import (
	"fmt"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
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
		mergedBy(mergeMemories, listRoute(api.MemoryList, nil)), opRoute(api.MemoriesDelete), mergedBy(server.Sum, opRoute(api.MemoryCount)),
		mergedBy(mergeGroups, listRoute(api.MemoryGroups, nil)), opRoute(api.MemoryGet),
		opRoute(api.MemoryUpdate),
		opRoute(api.MemoryDelete), listRoute(api.MemoryHistory, nil),
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
	Memories exchange.Strict[exchange.Record] `json:"memories" openapi:"required"`
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
