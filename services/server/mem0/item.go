package mem0

import (
	"crypto/md5" // the hash of a documented interface, not a protection
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

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
	Score          *float64       `json:"score,omitempty"`
	CreatedAt      time.Time      `json:"created_at"`
	UpdatedAt      time.Time      `json:"updated_at"`
}

// extra is what mem0 knows of a memory and memdb does not, as it lies under MetadataKey.
func extra(metadata map[string]any) map[string]any {
	m, _ := metadata[MetadataKey].(map[string]any)
	return m
}

// plain is the metadata that a client has given.
func plain(metadata map[string]any) map[string]any {
	m := maps.Clone(metadata)
	delete(m, MetadataKey)
	if m == nil {
		m = map[string]any{}
	}
	return m
}

// orNull is a text, nil for an empty one.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func newItem(m *memory.Memory) item {
	sum := md5.Sum([]byte(m.Text))
	more := extra(m.Metadata)
	it := item{
		ID: m.ID, Memory: m.Text, Hash: hex.EncodeToString(sum[:]),
		User: orNull(m.User), Agent: orNull(m.Agent), Run: orNull(m.Run), Session: orNull(m.Run),
		Metadata: plain(m.Metadata), Categories: []string{}, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
	}
	if app, ok := more["app_id"].(string); ok {
		it.App = &app
	}
	if date, ok := more["expiration_date"].(string); ok {
		it.ExpirationDate = &date
	}
	it.Immutable, _ = more["immutable"].(bool)
	list, _ := m.Metadata["categories"].([]any)
	for _, c := range list {
		if name, ok := c.(string); ok {
			it.Categories = append(it.Categories, name)
		}
	}
	return it
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
