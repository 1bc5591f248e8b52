package engine

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/internal/host"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/wal"
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
type Dedup = records.Dedup

const (
	// DedupScope looks for the same text of the same user, agent and run. The default.
	DedupScope = records.DedupScope
	// DedupOwner looks for the same text of the same user and agent, in any run. A run
	// that is told of a duplicate may not find it among its own memories.
	DedupOwner = records.DedupOwner
	// DedupNone stores every memory.
	DedupNone = records.DedupNone
)

// Options of a database. The zero value works.
type Options struct {
	// Embedder makes vectors of texts. nil: the built-in lexical one, which
	// knows words and their parts, not meaning.
	Embedder embed.Embedder
	// EmbedderOf is called where Embedder is nil, while the database is opened, with what made
	// its vectors, and returns the Embedder to use or nil for none: so a program that reads a
	// database of others learns from it which model that takes.
	EmbedderOf func(VectorModel) embed.Embedder
	// EmbedInBackground has the database call EmbedPending by itself, as long as
	// memories wait for the Embedder. Where the Embedder fails, it waits between the
	// calls, ever longer up to five minutes.
	EmbedInBackground bool
	// Extractor finds the entities that a text mentions: each store then links the memory
	// to them, in the graph of its owner and in the same commit. nil: none. mention.Rules
	// needs no model. Like an embedder it is called before the writer lock is taken, and in
	// an Update only mention.Rules is called. Imports call none: see [DB.ExtractEntities].
	Extractor mention.Extractor
	// IndexedText names the fields that are searched along with the text. It is
	// fixed when the database is created. nil: as stored; for a new database
	// the name alone.
	IndexedText []memory.IndexedField
	// Language is how words are stemmed: "auto", in the language of each text;
	// "english", where words of other languages stay as they are; or "none". It
	// is fixed when the database is created; but Rebuild makes a database of
	// "english" one of "auto" where Language is empty. Empty: as stored; for a new
	// database "auto".
	Language string
	// Durability is Durable unless said otherwise.
	Durability Durability
	// Dedup is DedupScope unless said otherwise.
	Dedup Dedup
	// StrictAgents refuses to store anything new for an agent that has no manifest (see
	// usage.Usage.AddAgent) with ErrUnknownAgent: memories, and all that is kept beside
	// them. What is there already can be read, changed and deleted. Without it an agent is
	// there as soon as something is stored for it. The option is that of an opening: nothing
	// of it is stored.
	StrictAgents bool
	// Admit is asked for each owner that is to have something for the first time, under the writer
	// lock; its error refuses the write. A shard of a cluster so takes only what belongs to it. What is
	// there already can be changed. Nothing of it is stored. nil: every owner is taken.
	Admit func(scope.Owner) error
	// LockWait is the longest that a write waits for the writer lock before it
	// returns ErrBusy. 0: as long as its context allows.
	LockWait time.Duration
	// Retain is how long a state of the memories can be read after it has passed,
	// by Query.AsOf, while the database stays open. What has died since takes
	// memory for as long. 0: only while a View holds the state.
	Retain time.Duration
	// MaxViewAge is how old a View may become, by the Clock. The calls that an older one
	// begins return ErrViewExpired, and it no longer keeps what has died since from being
	// freed; a call that runs is never interrupted. 0: a View may run for ever.
	MaxViewAge time.Duration
	// MaxChangesLag is how long a record of the log is kept for a running [DB.Changes] that has
	// still to read it, beyond what the policy's log_ms says. A reader that is further behind
	// gets memory.ErrFellBehind. 0: an hour.
	MaxChangesLag time.Duration
	// MemoryBudget is shared by the caches, in bytes. 0: a quarter of the
	// machine's memory, at most 2 GiB.
	MemoryBudget int64
	// DiskReserve is how much of the disk is kept free, in bytes: a write that would
	// leave less is refused with ErrDiskFull, and writes are taken again when there is
	// room. Deletes and clean-up may take half of it. 0: 64 MiB, or a quarter of a
	// disk that is smaller than 256 MiB, but at least room for four memtables; less
	// makes the memtables smaller, down to MinDiskReserve. Where the system does not
	// tell the free space, nothing is refused. A database in one file keeps as much as is said, or
	// 64 MiB or a quarter of the disk, beside the room for a second file.
	DiskReserve int64
	// MaxFileBytes is how large a database in one file may become, in bytes: new data that may make
	// it larger is refused with ErrFull. Deletes, erasures and rebuilds are not, so a file opens as long as
	// it has at most twice as much. All of it is in RAM: docs/format/onefile.md has how much memory and time
	// a file needs. 0: 1 GiB. [Convert] makes a folder of a file that has become too large.
	MaxFileBytes int64
	// Schedule has the database consolidate and evict by itself, as long as it is open, at
	// the times of cron expressions in UTC; the zero Schedule at those of the policy. What was
	// missed while it was closed is done once. nil: it does neither by itself. See
	// policy.FromEnv.
	Schedule *policy.Schedule
	// KeepCaps has the database hold owners to the policy's cap by itself. An owner that has a
	// tenth more is brought back to the cap, beside writers. The least important memories go
	// first; of equal ones those that were accessed longest ago, then those that were stored
	// first. A store for an owner that has two tenths more waits for that, LockWait at most.
	// Without KeepCaps only an eviction looks at the cap.
	KeepCaps bool
	// EvictOnCompaction has the database evict what the policy rules out by age and by confidence
	// while its store is rewritten. It looks after each flush and compaction, at most once a
	// second, and each minute. A look is at up to 65,536 rows, where bounds in RAM say that there
	// may be something, and ends in one commit.
	EvictOnCompaction bool
	// Hooks let the program take part in how memories age.
	Hooks Hooks
	// Archive receives everything that the database writes, in order, so that a replica or a restore
	// to any past LSN can be made of it: see package wal, and wal/folder for one in a folder. The
	// database closes it. An archive that is slow, full or failing does not hurt the database: it is
	// tried again, what waits for it is bounded, and it begins again from a base where it missed
	// something, see [DB.Archives]. nil: none.
	Archive wal.Archive
	// ArchiveDelay is how long after its acknowledgement a write is in the Archive at the latest,
	// while that keeps up. 0: a second.
	ArchiveDelay time.Duration
	// ArchiveFirst acknowledges a write only once the Archive has it. While the Archive fails, writes
	// wait. The context of the call ends the wait: ErrUnavailable says whether the write was made. Close ends
	// it with ErrClosed after five seconds.
	ArchiveFirst bool
	// ReadOnly opens a database that exists, and changes nothing in its folder but the lock
	// and who holds it. On a read-only medium it does without these, and shares the lock with
	// others who only read. It opens on a full disk, too, unless the text index is damaged.
	// A database in one file is read without its lock, also while another program writes it: as of its
	// last commit at the opening (but on Windows, where it needs the lock).
	// Writes are ErrReadOnly, and recalls touch nothing.
	ReadOnly bool
	// Salvage opens a database that is damaged, or lacks what was acknowledged, with what is
	// whole: with the commits that came before the damage of a log; without tables that are
	// gone or cut off; with the copies of its MANIFEST and of memdb.json where these are
	// damaged or gone; and with a new store, made of what the tables and logs hold, where the
	// copy of the MANIFEST is gone, too. [DB.Salvaged] says what was mended and what is lost.
	// What is not used any more stays in the folder under names that end with ".damaged".
	// Without it, and with ReadOnly, Open returns ErrCorrupt, changes nothing in the folder,
	// and says what is wrong. On a database without such damage it does nothing.
	Salvage bool
	// SlowAfter has the Logger warn of each recall, write and sync that takes as long or longer,
	// with its stages. 0: of none.
	SlowAfter time.Duration
	// Logger hears of what the database does by itself. nil: nothing is logged.
	Logger *slog.Logger
	// Clock tells the time. nil: the system's.
	Clock func() time.Time
}

// The limits of a database. Each is checked before anything is changed.
const (
	// MaxSpaces bounds the vector spaces of a database.
	MaxSpaces = 64

	// MaxTxBytes and MaxTxChanges bound what one transaction writes: the store
	// below accepts no batch of 4 GiB, and a commit is held in memory.
	MaxTxBytes   = 64 << 20
	MaxTxChanges = 100_000
	// MaxMemories bounds the document numbers that are in use at once, by chunks of
	// 65,536: see giveDoc.
	MaxMemories = 1 << 31
	// MinDiskReserve is the least that is kept free of the disk, in bytes: four
	// memtables of the least size. A lower Options.DiskReserve is taken for it.
	MinDiskReserve = store.MinReserve
)

const defaultPage = 100

// tuning is what tests set otherwise than users have it. The zero value is what Open uses.
type tuning struct {
	// fs holds the files, nil for the operating system's.
	fs vfs.FS
	// file keeps what fs, which is in RAM, holds.
	file *store.File
	// alone takes the lock of a database in one file also to read it.
	alone bool
	// fileAppends is how much is appended to one file before it is written whole, 0 for its share of the file:
	// tests do both all the time.
	fileAppends int64
	// manifestBytes is the size at which the store's MANIFEST rotates, 0 for its
	// own: tests rotate it all the time.
	manifestBytes int64
	// hotBytes is the size at which a chunk of the text index takes no more
	// documents, 0 for its share of the budget: tests seal all the time.
	hotBytes int64
	// lookLeast is how many documents of sealed chunks must have died before the chunks
	// are looked through for sparse ones, 0 for the default: tests move all the time.
	lookLeast int
	// uncached calls the embedder each time: a model can tell when it fails.
	uncached bool
	// columns makes filters use the columns of numbers whatever the size of the set.
	columns bool
	// keepsExpired leaves what has expired where it is until [DB.expire] is called: tests
	// say when.
	keepsExpired bool
	// passed is the time that has passed since the opening, which a clock that tests set does
	// not tell; nil where it is as that clock says.
	passed func() time.Duration
	// firstDoc is where a new database looks for its first chunk: tests begin near the end
	// of the numbers, and go on to it.
	firstDoc uint32
	// mends opens what is left of a database, of which anything may be missing, see [OpenRemains].
	mends bool
	// logged is the log of the database, nil if it has none.
	logged *overLog
	// frozen is the store to read, of a state that a replica shows; follows are the figures of that replica.
	frozen  *store.Store
	follows func() ReplicaStats
	// beside are more parts than there are.
	beside []part.Part
	// unsent is what waits in RAM for an archive, 0 for the default.
	unsent int64
	// lastArchive is how long Close waits for an archive, 0 for the default.
	lastArchive time.Duration
	// vectors are others than the default limits: tests build graphs of few vectors.
	vectors *spaces.Limits
}

const defaultBudgetMost = 2 << 30

// defaultBudget is a quarter of the machine's memory, at most 2 GiB.
func defaultBudget() int64 {
	m := host.Memory() / 4
	if m == 0 {
		m = defaultBudgetMost
	}
	return min(m, defaultBudgetMost)
}

// embeddingShare is what the vectors of texts that were embedded last get.
func (db *DB) embeddingShare() int64 { return db.budget / 16 }

// scopesShare is what remembered scopes get.
func (db *DB) scopesShare() int64 { return db.budget / 32 }

// textShare is what the pages of the text index get of the memory budget.
func (db *DB) textShare() int64 { return db.budget / 4 }
