package native

import (
	"net/http"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

var (
	filtered  = param{name: "filter", kind: chosen, summary: "only memories that satisfy this filter, as text or as JSON: see the schema Filter", example: `kind = fact and importance >= 0.5`}
	groupings = []string{string(memory.GroupUser), string(memory.GroupAgent), string(memory.GroupOwner), string(memory.GroupRun)}
	upsert    = param{name: "upsert", kind: flag, summary: "update the memory with the same ID"}
	noDedup   = param{name: "no_dedup", kind: flag, summary: "store a text again that is already stored"}
)

func memories() []route {
	return []route{
		opRoute(api.MemoryStore),
		{at: "POST /memories/batch", summary: "Store many memories in one commit: all or none", body: batch{}, reply: batchStored{}, handle: storeMany, params: []param{
			upsert, noDedup, {name: "skip_invalid", kind: flag, summary: "store the valid memories, and report why the others are invalid"},
		}},
		mergedBy(mergeMemories, listRoute(api.MemoryList, nil)), opRoute(api.MemoriesDelete), mergedBy(server.Sum, opRoute(api.MemoryCount)),
		mergedBy(mergeGroups, listRoute(api.MemoryGroups, nil)), opRoute(api.MemoryGet),
		opRoute(api.MemoryUpdate),
		opRoute(api.MemoryDelete), listRoute(api.MemoryHistory, nil),
	}
}

// place sets the scope of a record that is to be stored to the one that it may have.
func (a *ask) place(r *exchange.Record, upsert bool) error {
	s, err := a.Exact(memory.Scope{User: r.User, Agent: r.Agent, Run: r.Run})
	if err != nil {
		return err
	}
	r.User, r.Agent, r.Run = s.User, s.Agent, s.Run
	note := r.Kind == memory.KindNote || r.Kind == memory.KindArchive
	if a.sealed(s) && (r.ID != "" || r.Name != "" || r.NoteID != 0 || note || upsert) {
		return server.Denied("the key is one of a run: it stores without an ID and a name, and no notes")
	}
	return nil
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
	made := api.Made{At: a.now()}
	for i := range b.Memories {
		if err := a.place(&b.Memories[i], o.Upsert); err != nil {
			return err
		}
		if all[i], err = made.NewMemory(b.Memories[i]); err != nil {
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
