package exchange

import (
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The answers of calls as JSON: what memdbctl prints, and what a server says.

// Show is the record of a memory as it is shown: with its vectors only where they are asked for.
func Show(m memory.Memory, vectors bool) Record {
	r := NewRecord(m)
	if !vectors {
		r.Embedding, r.Vectors = nil, nil
	}
	return r
}

// Stored is the answer of a store, a memory.Stored as one flat JSON object.
type Stored struct {
	ID           string `json:"id"`
	Seq          uint64 `json:"seq"`
	Stored       bool   `json:"stored"`
	Deduplicated bool   `json:"deduplicated"`
	Updated      bool   `json:"updated"`
	// Pending: it has no vector yet, for the reason PendingWhy.
	Pending    bool   `json:"pending,omitempty"`
	PendingWhy string `json:"pending_why,omitempty"`
}

// New reports whether something new was stored.
func (s Stored) New() bool { return s.Stored }

// NewStored is the answer of a store.
func NewStored(s memory.Stored) Stored {
	return Stored{s.ID, s.Seq, s.Stored, s.Deduplicated, s.Updated, s.Pending, s.PendingWhy}
}

// StoredInSession is the answer of a store as one flat JSON object, with the session that the memory was appended to, if it was.
type StoredInSession struct {
	Stored
	Session   string `json:"session,omitempty"`
	MessageID string `json:"message_id,omitempty"`
	Messages  int    `json:"messages,omitempty"`
}

// Deleted is the answer of a delete, how many there were, as one flat JSON object.
type Deleted struct {
	Deleted int `json:"deleted"`
}

// Past is an entry of a history as one flat JSON object, with all that the database knows of it.
type Past struct {
	Type      string        `json:"type"`
	ID        string        `json:"id"`
	MemoryID  string        `json:"memory_id"`
	Seq       uint64        `json:"seq"`
	User      string        `json:"user"`
	Agent     string        `json:"agent"`
	Run       string        `json:"run"`
	Event     memory.Event  `json:"event"`
	OldText   *string       `json:"old_value"`
	NewText   *string       `json:"new_value"`
	Time      Time          `json:"timestamp"`
	LSN       uint64        `json:"lsn"`
	IsDeleted bool          `json:"is_deleted"`
	Reason    memory.Reason `json:"reason,omitempty"`
	Into      string        `json:"into,omitempty"`
	Policy    uint32        `json:"policy,omitempty"`
}

// NewPast is the line of an entry of a history.
func NewPast(e memory.HistoryEntry) Past {
	return Past{
		TypeHistory, e.ID, e.MemoryID, e.Seq, e.Scope.User, e.Scope.Agent, e.Scope.Run,
		e.Event, e.OldText, e.NewText,
		Time{Time: e.Time},
		e.LSN, e.IsDeleted, e.Reason, e.Into, e.Policy,
	}
}

// Hit is a memory.Hit as one flat JSON object: the record of the memory, with its score.
type Hit struct {
	Record
	Score float64         `json:"score"`
	Near  bool            `json:"near,omitempty"`
	Parts *memory.Signals `json:"parts,omitempty"`
	Spans []memory.Span   `json:"spans,omitempty"`
	Asked *Record         `json:"asked,omitempty"`
}

// NewHit is the line of a hit of a query.
func NewHit(h memory.Hit, q memory.Query) Hit {
	out := Hit{Record: Show(h.Memory, q.WithVectors), Score: h.Score, Near: h.Near, Spans: h.Spans}
	if q.Explain {
		out.Parts = &h.Parts
	}
	if h.Asked != nil {
		asked := Show(*h.Asked, false)
		out.Asked = &asked
	}
	return out
}

// Compacted is the answer of a compaction, an engine.Compacted as one flat JSON object.
type Compacted struct {
	Before  int64   `json:"disk_bytes_before"`
	After   int64   `json:"disk_bytes_after"`
	Seconds float64 `json:"seconds"`
}

// NewCompacted is the answer of a compaction.
func NewCompacted(c engine.Compacted) Compacted {
	return Compacted{c.DiskBytesBefore, c.DiskBytesAfter, c.Took.Seconds()}
}

// Rebuilt is the answer of a rebuild as one flat JSON object: how many documents, vectors or keys
// of the graph were looked at.
type Rebuilt struct {
	Index     string `json:"index"`
	Documents *int64 `json:"documents,omitempty"`
	Vectors   *int64 `json:"vectors,omitempty"`
	Keys      *int64 `json:"keys,omitempty"`
}

// Count is the count that the index has.
func (r *Rebuilt) Count() **int64 {
	switch r.Index {
	case engine.IndexVectors:
		return &r.Vectors
	case engine.IndexGraph:
		return &r.Keys
	}
	return &r.Documents
}

// Had is how much of each kind was deleted with an agent, as one flat JSON object.
type Had struct {
	Memories  int64 `json:"memories"`
	Entries   int64 `json:"entries"`
	Sessions  int64 `json:"sessions"`
	Entities  int64 `json:"entities"`
	Relations int64 `json:"relations"`
	Usage     int64 `json:"usage"`
}

// AgentDeleted is the report of DB.DeleteAgent as one flat JSON object: what an agent had, and what
// stays of it until it is erased.
type AgentDeleted struct {
	Deleted Had           `json:"deleted"`
	Left    []engine.Kept `json:"left"`
}

// NewAgentDeleted is the answer of DB.DeleteAgent.
func NewAgentDeleted(n map[string]int64) AgentDeleted {
	return AgentDeleted{
		Deleted: Had{n["memories"], n["entries"], n["sessions"], n["entities"], n["relations"], n["usage"]},
		Left:    []engine.Kept{{What: "the history of its memories, with their texts", Why: "memdbctl erase --agent takes it"}},
	}
}

// User is what a user has, as one flat JSON object.
type User struct {
	Type string `json:"type"`
	engine.User
}

// NewUser is the line of a user.
func NewUser(u engine.User) User { return User{"user", u} }

// HadUser is how much of each kind was deleted with a user, as one flat JSON object.
type HadUser struct {
	Memories  int64 `json:"memories"`
	History   int64 `json:"history"`
	Entries   int64 `json:"entries"`
	Sessions  int64 `json:"sessions"`
	Entities  int64 `json:"entities"`
	Relations int64 `json:"relations"`
	Usage     int64 `json:"usage"`
}

// UserDeleted is an engine.UserDeleted as one flat JSON object: what a user had, and what is left of
// it in the files.
type UserDeleted struct {
	Deleted HadUser       `json:"deleted"`
	Left    []engine.Left `json:"left"`
}

// NewUserDeleted is the answer of DB.DeleteUser.
func NewUserDeleted(d engine.UserDeleted) UserDeleted {
	n := d.Deleted
	return UserDeleted{
		Deleted: HadUser{n["memories"], n["history"], n["entries"], n["sessions"], n["entities"], n["relations"], n["usage"]},
		Left:    d.Left,
	}
}

// Consolidated is the report of a consolidation as one flat JSON object.
type Consolidated struct {
	engine.Consolidated
	Merged int `json:"merged"`
}

// NewConsolidated is the report of a consolidation.
func NewConsolidated(r engine.Consolidated) Consolidated {
	if r.Merges == nil {
		r.Merges = []uint64{}
	}
	return Consolidated{r, r.Merged}
}

// Imported is the answer of an import, a Report as one flat JSON object.
type Imported struct {
	// Format is the form that was read, empty for lines of JSON that were sent.
	Format string `json:"format,omitempty"`
	// DryRun: all was stored in a copy, and nothing in the database; Kinds are the records by their type.
	DryRun    bool           `json:"dry_run,omitempty"`
	Kinds     map[string]int `json:"kinds,omitzero"`
	Read      int            `json:"read"`
	Stored    int            `json:"stored"`
	Updated   int            `json:"updated"`
	Unchanged int            `json:"unchanged"`
	Skipped   int            `json:"skipped"`
	// Imported are those stored and updated by the type of their lines, of which the
	// memories are fragments.
	Imported  map[string]int `json:"imported"`
	Fragments int            `json:"fragments_imported"`
	Entities  int            `json:"entities_imported"`
	Events    int            `json:"events"`
	Errors    []Skipped      `json:"errors"`
	Notes     []string       `json:"notes,omitempty"`
	// LeftOut counts what has no place here, by what it is.
	LeftOut Counts `json:"left_out"`
	// Mapped says which field a key became, and Elsewhere counts the records by "user/agent" that are
	// in another scope than the flags name.
	Mapped    Mapped  `json:"mapped"`
	Elsewhere Counts  `json:"elsewhere"`
	Seconds   float64 `json:"seconds"`
	// LinkSeconds is how long the linking of vectors took after that, where it took
	// any time.
	LinkSeconds float64 `json:"link_seconds,omitempty"`
}

// Skipped is a LineError as one flat JSON object: a record that an import has left out, and why.
type Skipped struct {
	Line  int    `json:"line,omitempty"`
	ID    string `json:"id,omitempty"`
	Error string `json:"error"`
}

// NewImported is the answer of an import; inWords tells an error.
func NewImported(r Report, inWords func(error) string) Imported {
	out := Imported{
		Read: r.Read, Stored: r.Stored, Updated: r.Updated, Unchanged: r.Unchanged, Skipped: r.Skipped,
		Imported: r.Imported, Fragments: r.Imported[TypeMemory], Entities: r.Imported[graph.TypeEntity],
		Events: r.Events, Errors: []Skipped{}, Notes: r.Notes,
		LeftOut: r.LeftOut, Mapped: r.Mapped, Elsewhere: r.Elsewhere,
	}
	for _, e := range r.Errors {
		out.Errors = append(out.Errors, Skipped{e.Line, e.ID, inWords(e.Err)})
	}
	return out
}

// Exported is the answer of an export, an ExportReport as one flat JSON object.
type Exported struct {
	Memories int `json:"memories"`
	Events   int `json:"events"`
	Entries  int `json:"entries"`
	// Lines are those beside memories and events, by their type.
	Lines map[string]int `json:"lines"`
	// LeftOut counts what the form has no place for, by the type of its lines.
	LeftOut map[string]int `json:"left_out,omitzero"`
	// Unreadable is how much could not be read, and is not in the file.
	Unreadable int `json:"unreadable,omitempty"`
}

// NewExported is the answer of an export.
func NewExported(r ExportReport) Exported {
	return Exported{Memories: r.Memories, Events: r.Events, Entries: r.Lines[entries.TypeLine], Lines: r.Lines, Unreadable: r.Lost}
}
