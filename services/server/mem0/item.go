package mem0

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// item is a memory as each kind of client reads it: the run is there under both of its names.
type item struct {
	ID             string         `json:"id"`
	Memory         string         `json:"memory"`
	Hash           string         `json:"hash"`
	User           *string        `json:"user_id"`
	Agent          *string        `json:"agent_id"`
	App            *string        `json:"app_id"`
	Run            *string        `json:"run_id"`
	Session        *string        `json:"session_id"`
	Metadata       map[string]any `json:"metadata"`
	Categories     []string       `json:"categories"`
	Immutable      bool           `json:"immutable"`
	ExpirationDate *string        `json:"expiration_date"`
	Role           string         `json:"role"`
	Actor          string         `json:"actor_id,omitempty"`
	Score          *float64       `json:"score,omitempty"`
	CreatedAt      time.Time      `json:"created_at"`
	UpdatedAt      time.Time      `json:"updated_at"`

	more map[string]any
}

// orNull is a text, nil for an empty one.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func newItem(m *memory.Memory) item {
	of := products.Mem0Of(m)
	it := item{
		ID: m.ID, Memory: m.Text, Hash: cmp.Or(of.Hash, products.Mem0Hash(m.Text)),
		User: orNull(m.User), Agent: orNull(m.Agent), App: orNull(of.App), Run: orNull(m.Run), Session: orNull(m.Run),
		Metadata: of.Metadata, Categories: of.Categories, Immutable: of.Immutable, ExpirationDate: orNull(of.Expiration),
		Role: of.Role, Actor: of.Actor, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, more: of.More,
	}
	if it.Metadata == nil {
		it.Metadata = map[string]any{}
	}
	return it
}

// MarshalJSON adds the keys that mem0 has beside those of an item.
func (it item) MarshalJSON() ([]byte, error) {
	type known item
	b, err := json.Marshal(known(it))
	if err != nil || len(it.more) == 0 {
		return b, err
	}
	more, err := json.Marshal(it.more)
	if err != nil {
		return nil, err
	}
	return slices.Concat(b[:len(b)-1], []byte(","), more[1:]), nil
}

// newItems are memories as lists have them, with the fields that were asked for, all by default.
func newItems(memories []memory.Memory, fields []string) ([]any, error) {
	list := make([]any, len(memories))
	for i := range memories {
		var err error
		if list[i], err = only(newItem(&memories[i]), fields); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// only is an item with these fields and its ID, all where none is named.
func only(it item, fields []string) (any, error) {
	if len(fields) == 0 {
		return it, nil
	}
	b, err := json.Marshal(it)
	if err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, func(key string, _ json.RawMessage) bool { return key != "id" && !slices.Contains(fields, key) })
	return all, nil
}

// record is an entry of a history, as each kind of client reads it.
type record struct {
	ID        string    `json:"id"`
	MemoryID  string    `json:"memory_id"`
	Event     string    `json:"event"`
	Input     []any     `json:"input"` // memdb does not keep it
	OldMemory *string   `json:"old_memory"`
	NewMemory string    `json:"new_memory"`
	OldValue  *string   `json:"old_value"`
	NewValue  *string   `json:"new_value"`
	User      string    `json:"user_id"`
	Agent     *string   `json:"agent_id"`
	Session   *string   `json:"session_id"`
	Run       *string   `json:"run_id"`
	IsDeleted bool      `json:"is_deleted"`
	Reason    string    `json:"reason,omitempty"`
	Timestamp time.Time `json:"timestamp"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

func newRecord(h *memory.HistoryEntry) record {
	return record{
		ID: h.ID, MemoryID: h.MemoryID, Event: string(h.Event), Input: []any{},
		OldMemory: h.OldText, NewMemory: value(h.NewText), OldValue: h.OldText, NewValue: h.NewText,
		User: h.Scope.User, Agent: orNull(h.Scope.Agent), Session: orNull(h.Scope.Run), Run: orNull(h.Scope.Run),
		IsDeleted: h.IsDeleted, Reason: string(h.Reason), Timestamp: h.Time, CreatedAt: h.Time, UpdatedAt: h.Time,
	}
}
