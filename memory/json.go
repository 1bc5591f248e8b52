package memory

import (
	"bytes"
	"encoding/json"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

// TypeMemory is the type of lines that hold a memory.
const TypeMemory = "memory"

// plainMemory has the fields of a Memory, and not its methods.
type plainMemory Memory

// memoryLine is a memory as one flat JSON object. Its own fields stand before those of the memory
// with the same keys.
type memoryLine struct {
	Type  string `json:"type"`
	User  string `json:"user"`
	Agent string `json:"agent"`
	Run   string `json:"run"`
	plainMemory
	Seq            uint64        `json:"seq,omitzero"`
	AutoImportance bool          `json:"auto_importance"`
	Pinned         bool          `json:"pinned"`
	CreatedAt      clock.Instant `json:"created_at,omitzero"`
	UpdatedAt      clock.Instant `json:"updated_at,omitzero"`
	EventTime      clock.Instant `json:"event_time,omitzero"`
	ExpiresAt      clock.Expiry  `json:"expires_at,omitzero"`
	LastAccessed   clock.Instant `json:"last_accessed,omitzero"`
}

func newMemoryLine(m *Memory) memoryLine {
	return memoryLine{
		Type: TypeMemory, User: m.User, Agent: m.Agent, Run: m.Run, plainMemory: plainMemory(*m),
		Seq: m.Seq, AutoImportance: m.AutoImportance, Pinned: m.Pinned,
		CreatedAt: clock.Instant{Time: m.CreatedAt}, UpdatedAt: clock.Instant{Time: m.UpdatedAt},
		EventTime: clock.Instant{Time: m.EventTime}, ExpiresAt: clock.Expiry{Instant: clock.Instant{Time: m.ExpiresAt}},
		LastAccessed: clock.Instant{Time: m.LastAccessed},
	}
}

func (l *memoryLine) memory() Memory {
	m := Memory(l.plainMemory)
	m.Scope = Scope{User: l.User, Agent: l.Agent, Run: l.Run}
	m.Seq, m.AutoImportance, m.Pinned = l.Seq, l.AutoImportance, l.Pinned
	m.CreatedAt, m.UpdatedAt, m.EventTime = l.CreatedAt.Time, l.UpdatedAt.Time, l.EventTime.Time
	m.ExpiresAt, m.LastAccessed = l.ExpiresAt.Time, l.LastAccessed.Time
	return m
}

// decodeExact is json.Unmarshal, but for numbers of metadata, which keep every digit.
func decodeExact(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(v)
}

// MarshalJSON writes the line of the memory.
func (m Memory) MarshalJSON() ([]byte, error) { return json.Marshal(newMemoryLine(&m)) }

// UnmarshalJSON reads such a line. Keys that it does not have are ignored.
func (m *Memory) UnmarshalJSON(b []byte) error {
	var l memoryLine
	err := decodeExact(b, &l)
	if err == nil {
		*m = l.memory()
	}
	return err
}

// hitLine is a hit as one flat JSON object.
type hitLine struct {
	memoryLine
	Score float64  `json:"score"`
	Parts *Signals `json:"parts,omitempty"`
	Spans []Span   `json:"spans,omitempty"`
}

// MarshalJSON writes the line of the memory, with the score, its parts where there are any, and
// the spans. An import takes it for the memory.
func (h Hit) MarshalJSON() ([]byte, error) {
	l := hitLine{memoryLine: newMemoryLine(&h.Memory), Score: h.Score, Spans: h.Spans}
	if h.Parts != (Signals{}) {
		l.Parts = &h.Parts
	}
	return json.Marshal(l)
}

// UnmarshalJSON reads such a line. Keys that it does not have are ignored.
func (h *Hit) UnmarshalJSON(b []byte) error {
	var l hitLine
	if err := decodeExact(b, &l); err != nil {
		return err
	}
	*h = Hit{Memory: l.memory(), Score: l.Score, Spans: l.Spans}
	if l.Parts != nil {
		h.Parts = *l.Parts
	}
	return nil
}
