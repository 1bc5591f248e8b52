// Package memory says what a memory is: the types that programs write and read, what may stand in
// them, and the errors of the calls that take them. It stores nothing: that is package engine.
package memory

import (
	"time"

	"github.com/seed-7aedc3ff/memdb/scope"
)

// Scope says whose memories a call is about: user, agent, run. At least one is
// given, every given one must match, and several owners may match.
type Scope = scope.Scope

// Owner is the exact pair of user and agent that something belongs to. At least
// one is given; an empty one is a value of its own, not any.
type Owner = scope.Owner

// Role is who said it.
type Role string

// The roles of a memory. An empty role is stored as RoleUser.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
	RoleTool      Role = "tool"
)

// Kind is what a memory is. It decides how duplicates are recognised: messages,
// fragments and facts by scope and text (see engine.Dedup), notes by owner and name,
// archives and summaries never.
type Kind string

// The kinds of a memory. An empty kind is stored as KindMessage.
const (
	KindMessage  Kind = "message"
	KindFragment Kind = "fragment"
	KindFact     Kind = "fact"
	KindNote     Kind = "note"
	KindArchive  Kind = "archive"
	KindSummary  Kind = "summary"
)

// Source is where a memory came from: one of the constants, or the caller's own
// word.
type Source string

// The sources that memdb itself knows. An empty source stays empty.
const (
	SourceUserMessage    Source = "user_message"
	SourceAgentResponse  Source = "agent_response"
	SourceToolResult     Source = "tool_result"
	SourceWebSearch      Source = "web_search"
	SourceUserPreference Source = "user_preference"
	SourceSystemNote     Source = "system_note"
)

// Memory is one thing remembered.
//
// Times are instants with millisecond resolution, in UTC when read. A zero time
// means "not set"; for CreatedAt it means now. The Unix epoch itself, which is how
// others write a missing time, is taken for not set too. Its JSON is one flat object,
// with user, agent and run among the other fields, and is what an import takes.
type Memory struct {
	// ID is unique within the owner (user, agent). Empty: a UUID v4 is made.
	ID string `json:"id"`
	// Seq is the order of first storing, never reused. Set by the database.
	Seq uint64 `json:"seq"`
	Scope

	// Role, Kind and Source say what it is and where it comes from.
	Role   Role   `json:"role"`
	Kind   Kind   `json:"kind"`
	Source Source `json:"source,omitempty"`

	// Text may be empty only with a vector. At most MaxText bytes of UTF-8.
	Text string `json:"text"`
	// NoteID counts the notes and archives of an owner from 1 (see engine.Notes). A store that
	// names a number which is free gives it to the memory; an import does.
	NoteID uint64 `json:"note_id,omitempty"`
	// Name and Aliases address notes and archives. Of an owner's notes each has another
	// name: a second one is ErrExists, unless it is stored with NoDedup.
	Name    string   `json:"name,omitempty"`
	Aliases []string `json:"aliases,omitempty"`
	// Metadata is a JSON object. Numbers are read back as json.Number, so
	// that none loses a digit.
	Metadata map[string]any `json:"metadata,omitempty"`

	// Embedding is the vector in the space "default", whose dimension the first
	// one stored fixes. Vectors holds those of other spaces, by space name.
	Embedding []float32            `json:"embedding,omitempty"`
	Vectors   map[string][]float32 `json:"vectors,omitempty"`

	// CreatedAt is when it was stored, UpdatedAt when its content changed last.
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	// EventTime is when it happened, where that is not when it was stored.
	EventTime time.Time `json:"event_time,omitzero"`
	// ExpiresAt hides the memory from then on. Within a minute it is deleted, which its
	// history tells.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Pinned    bool      `json:"pinned,omitempty"`

	// Importance is in [0, 1]. nil: computed from the text and the role, and
	// computed again when the text changes. Never nil when read; AutoImportance
	// then says whether it was computed.
	Importance     *float64 `json:"importance"`
	AutoImportance bool     `json:"auto_importance,omitempty"`
	// Confidence is in [0, 1]. nil: 1. Never nil when read, and then that of now: what is
	// stored less what consolidations have taken since (see engine.DB.Consolidate).
	Confidence *float64 `json:"confidence"`
	// StoredConfidence is the confidence that was set last. DecayedImportance is what is
	// left of the importance since the last access, or the creation of a memory that was
	// never accessed: importance × the policy's daily retention to the power of the whole
	// days.
	// Set by the database; a store ignores both.
	StoredConfidence  *float64 `json:"stored_confidence,omitempty"`
	DecayedImportance *float64 `json:"decayed_importance,omitempty"`

	// Hash is the SHA-256 of the text in hexadecimal. Set by the database.
	Hash string `json:"hash"`

	// AccessCount and LastAccessed tell how often and when the memory was last
	// recalled. They are not versioned: a View reads the newest. Set by the
	// database, or by an import.
	AccessCount  uint64    `json:"access_count"`
	LastAccessed time.Time `json:"last_accessed,omitzero"`
}

// Lack names what the owner of a memory does not have.
type Lack struct {
	User  bool // a user
	Agent bool // an agent
}

// In reports whether a scope lacks what it is to lack.
func (l Lack) In(s Scope) bool { return (!l.User || s.User == "") && (!l.Agent || s.Agent == "") }

// IndexedField is a field whose words are searched along with the text: "name",
// "event_time" (as date words), or a metadata field ("metadata.speaker").
type IndexedField struct {
	// Field is the name of the field.
	Field string `json:"field"`
	// Weight is how much a word counts beside one of the text: 0 is 1; at
	// least 0.25, at most 16, in steps of 0.25.
	Weight float64 `json:"weight"`
}
