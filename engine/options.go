package engine

import (
	"log/slog"
	"time"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// Durability says when a write is acknowledged.
type Durability uint8

const (
	// Durable acknowledges a write when it is on disk. The default.
	Durable Durability = iota
	// Buffered acknowledges a write when it is applied and syncs every 100 ms:
	// a crash of the process or the machine may lose the writes since the last
	// sync, never an earlier one, and never leaves a part of a commit.
	Buffered
)

// Dedup says what a store does with a text that is there already. Facts are always
// looked for in their scope, notes by their name; archives and summaries have no
// duplicates. See [Memories.Store].
type Dedup uint8

const (
	// DedupScope looks for the same text of the same user, agent and run. The default.
	DedupScope Dedup = iota
	// DedupOwner looks for the same text of the same user and agent, in any run. A run
	// that is told of a duplicate may not find it among its own memories.
	DedupOwner
	// DedupNone stores every memory.
	DedupNone
)

// IndexedField is a field whose words are searched along with the text: "name",
// "event_time" (as date words), or a metadata field ("metadata.speaker").
type IndexedField struct {
	Field string `json:"field"`
	// Weight is how much a word counts beside one of the text: 0 is 1; at
	// least 0.25, at most 16, in steps of 0.25.
	Weight float64 `json:"weight"`
}

// Options of a database. The zero value works.
type Options struct {
	// Embedder makes vectors of texts. nil: the built-in lexical one, which
	// knows words and their parts, not meaning.
	Embedder embed.Embedder
	// EmbedInBackground has the database call EmbedPending by itself, as long as
	// memories wait for the Embedder. Where the Embedder fails, it waits between the
	// calls, ever longer up to five minutes.
	EmbedInBackground bool
	// IndexedText names the fields that are searched along with the text. It is
	// fixed when the database is created. nil: as stored; for a new database
	// the name alone.
	IndexedText []IndexedField
	// Language is the analyzer's: "english" or "none". It is fixed when the
	// database is created. Empty: as stored; for a new database "english".
	Language string
	// Durability is Durable unless said otherwise.
	Durability Durability
	// Dedup is DedupScope unless said otherwise.
	Dedup Dedup
	// LockWait is the longest that a write waits for the writer lock before it
	// returns ErrBusy. 0: as long as its context allows.
	LockWait time.Duration
	// Retain is how long a state of the memories can be read after it has passed,
	// by Query.AsOf, while the database stays open. What has died since takes
	// memory for as long. 0: only while a View holds the state.
	Retain time.Duration
	// MemoryBudget is shared by the caches, in bytes. 0: a quarter of the
	// machine's memory, at most 2 GiB.
	MemoryBudget int64
	// DiskReserve is how much of the disk is kept free, in bytes: a write that would
	// leave less is refused with ErrDiskFull, and writes are taken again when there is
	// room. Deletes and clean-up may take half of it. 0: 64 MiB, or a quarter of a
	// disk that is smaller than 256 MiB, but at least room for four memtables; less
	// makes the memtables smaller, down to MinDiskReserve. Where the system does not
	// tell the free space, nothing is refused.
	DiskReserve int64
	// Schedule has the database consolidate and evict by itself, as long as it is open, at
	// the times of cron expressions in UTC; the zero Schedule at those of the policy. What was
	// missed while it was closed is done once. nil: it does neither by itself. See
	// policy.FromEnv.
	Schedule *policy.Schedule
	// ReadOnly opens a database that exists and changes nothing in its folder, but for
	// the lock and who holds it: so it opens also on a full disk, unless its text index
	// is damaged. Writes are ErrReadOnly, and recalls touch nothing.
	ReadOnly bool
	// Salvage opens a database whose log is damaged, or lacks what was acknowledged, with
	// the commits that came before the damage. What comes after is lost; the damaged logs
	// stay in the folder as files that end with ".damaged". Without it, and with
	// ReadOnly, Open returns ErrCorrupt and says what would be lost. On a database
	// without such damage it does nothing.
	Salvage bool
	// Logger hears of what the database does by itself. nil: nothing is logged.
	Logger *slog.Logger
	// Clock tells the time. nil: the system's.
	Clock func() time.Time
}
