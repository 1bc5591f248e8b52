package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
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
// fragments and facts by scope and text (see [Dedup]), notes by owner and name,
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
	// NoteID counts the notes and archives of an owner from 1 (see [Notes]). A store that
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
	// stored less what consolidations have taken since (see [DB.Consolidate]).
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

// StoreOptions changes what Store does. nil is the default.
type StoreOptions struct {
	// Upsert makes a store under an existing ID an update instead of ErrExists: the
	// memory becomes the one given, but for CreatedAt, access statistics, an
	// importance or confidence that is not given, and, where the text is the same,
	// the vectors of spaces that are not given.
	Upsert bool
	// NoDedup stores the memory even where its owner already has the same text.
	NoDedup bool
	// SkipInvalid makes StoreBatch report an invalid memory in its Stored.Err
	// and store the others, instead of storing none.
	SkipInvalid bool
}

// Stored is what became of a memory that was to be stored.
type Stored struct {
	// ID and Seq are those of the memory that is there now.
	ID  string `json:"id"`
	Seq uint64 `json:"seq"`
	// Stored: a new memory was added. Deduplicated: ID is that of the earlier
	// memory with the same text. Updated: Upsert changed an existing memory. None
	// of them: it was already there, unchanged, under the same ID.
	Stored       bool `json:"stored"`
	Deduplicated bool `json:"deduplicated"`
	Updated      bool `json:"updated,omitempty"`
	// Pending: the memory was written without the vector that the database's embedder
	// is to make of its text, for the reason PendingWhy. It is found by its text until
	// [DB.EmbedPending] embeds it.
	Pending    bool   `json:"pending,omitempty"`
	PendingWhy string `json:"pending_why,omitempty"`
	// Unextracted is why the memory was written without links to the entities that its text
	// mentions, where the database has an extractor. See [DB.ExtractEntities].
	Unextracted string `json:"unextracted,omitempty"`
	// Err is set only under SkipInvalid.
	Err error `json:"-"`
}

// Patch says what an update changes; a nil field stays as it is.
type Patch struct {
	// Text is the new text; Role and Source say what it is and where it comes from.
	Text     *string
	Role     *Role
	Source   *Source
	Metadata *map[string]any // replaces the whole object
	// MergeMetadata changes the fields that it names, as a JSON merge patch (RFC 7386):
	// null removes a field, an object is merged with the one that is there, and any other
	// value takes the field's place. It does not go with Metadata.
	MergeMetadata map[string]any
	Name          *string
	Aliases       *[]string
	// Embedding and Vectors replace the vectors of the spaces that they name. A
	// vector that is not replaced while the text changes is embedded again, or,
	// without an embedder, dropped: it would describe another text.
	Embedding []float32
	Vectors   map[string][]float32
	EventTime *time.Time
	ExpiresAt *time.Time // the zero time: never
	Pinned    *bool
	// Importance fixes it; AutoImportance makes it computed again.
	Importance     *float64
	AutoImportance bool
	Confidence     *float64
}

// ListQuery selects memories in an order.
type ListQuery struct {
	Scope
	// AllScopes lists every owner's memories: for administration only. No scope is given
	// beside it.
	AllScopes bool
	// Filter chooses among them; nil is all.
	Filter filter.Filter
	// OrderBy is a field as a filter names it; empty is seq, the order of first
	// storing. Values of one type are in their order (strings by their bytes),
	// null before booleans, before numbers, before strings; memories that have no
	// such value come last, also when Descending; equal ones are in the order of
	// seq.
	OrderBy    string
	Descending bool
	// Limit is the size of a page: 0 is 100, at most MaxLimit. A page ends sooner once its
	// records have more than 64 MiB.
	Limit int
	// Cursor is Page.Next of the page before; the rest of the query must be the
	// same.
	Cursor string
	// WithVectors also reads the vectors.
	WithVectors bool
	// Lost is called with each error of a memory, or a vector, that is damaged, and the
	// list goes on without it. nil: the first one ends the list.
	Lost func(error)
}

// Page is a part of a list.
type Page struct {
	// Memories are those of the page, in the order of the list.
	Memories []Memory
	// Next is the cursor of the page that follows, empty where none does. It marks
	// a place in the order, not a number of memories, so that those that are added
	// or removed meanwhile neither repeat nor hide others.
	Next string
}

// Event is what happened to a memory.
type Event string

// The events of a history.
const (
	EventAdd    Event = "ADD"
	EventUpdate Event = "UPDATE"
	EventDelete Event = "DELETE"
)

// HistoryEntry is one change of a memory.
type HistoryEntry struct {
	// ID is the entry's own, the same at every reading.
	ID       string `json:"id"`
	MemoryID string `json:"memory_id"`
	Seq      uint64 `json:"seq"`
	Scope    Scope  `json:"scope"`
	// Kind is what the memory was; empty, in a Restore, is KindMessage.
	Kind  Kind  `json:"kind,omitempty"`
	Event Event `json:"event"`
	// OldText is nil for an add, NewText for a delete.
	OldText   *string   `json:"old_value"`
	NewText   *string   `json:"new_value"`
	Time      time.Time `json:"timestamp"`
	LSN       uint64    `json:"lsn"`
	IsDeleted bool      `json:"is_deleted"`
	// Reason is why it was deleted, where nobody named it: one of the reasons, such as
	// ReasonAge. Into is the ID of the memory that it was merged into, and Policy the
	// version of the policy that said so.
	Reason Reason `json:"reason,omitempty"`
	Into   string `json:"into,omitempty"`
	Policy uint32 `json:"policy,omitempty"`
}

// Reason is why a memory is gone.
type Reason string

// The reasons of a history.
const (
	ReasonScope      Reason = "scope"              // its scope was deleted, or a filter chose it
	ReasonAge        Reason = "evicted:age"        // too old and not important
	ReasonConfidence Reason = "evicted:confidence" // too low a confidence
	ReasonCap        Reason = "evicted:cap"        // its owner had too many
	ReasonExpired    Reason = "expired"            // its time was over
	ReasonPruned     Reason = "pruned"             // too low a decayed importance
	ReasonMerged     Reason = "merged"             // nearly the same as another
	ReasonCaller     Reason = "evicted:caller"     // a verdict of the program, see Hooks
)

// reasons, roles and kindNames are the words by the numbers that stand for them in the store.
var reasons = [layout.Reasons]Reason{
	layout.ReasonScope: ReasonScope, layout.ReasonAge: ReasonAge, layout.ReasonConfidence: ReasonConfidence,
	layout.ReasonCap: ReasonCap, layout.ReasonExpired: ReasonExpired, layout.ReasonPruned: ReasonPruned,
	layout.ReasonMerged: ReasonMerged, layout.ReasonCaller: ReasonCaller,
}

var (
	roles     = [layout.RoleCount]Role{RoleUser, RoleAssistant, RoleSystem, RoleTool}
	kindNames = [layout.KindCount]Kind{KindMessage, KindFragment, KindFact, KindNote, KindArchive, KindSummary}
)

// memoryOf turns the record into what a caller sees; stats and vectors are added by
// the transaction.
func memoryOf(r *layout.Record, seq uint64) (Memory, error) {
	meta, err := metadata.Decode(r.Metadata)
	if err != nil {
		return Memory{}, err
	}
	importance, confidence := r.Importance, r.Confidence
	return Memory{
		ID: r.ID, Seq: seq, Scope: r.Scope,
		Role: roles[r.Role], Kind: kindNames[r.Kind], Source: Source(r.Source),
		Text: r.Text, Name: r.Name, Aliases: r.Aliases, Metadata: meta,
		CreatedAt: clock.FromMillis(r.Created), UpdatedAt: clock.FromMillis(r.Updated),
		EventTime: clock.FromMillis(r.Event), ExpiresAt: clock.FromMillis(r.Expires),
		Pinned:     r.Flags&layout.FlagPinned != 0,
		Importance: &importance, AutoImportance: r.Flags&layout.FlagAutoImportance != 0,
		Confidence: &confidence, Hash: textHash(r.Text),
	}, nil
}

func textHash(text string) string {
	sum := textSum(text)
	return hex.EncodeToString(sum[:])
}

// textSum is the SHA-256 of a text, which it does not copy.
func textSum(text string) [sha256.Size]byte {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(text), len(text)))
}
