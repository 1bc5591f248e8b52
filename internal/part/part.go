// Package part says what the database asks of a structure that it keeps beside its
// memories, and what it offers to one: entries today, sessions, notes, usage and the
// graph alike. A part knows keys, owners and LSNs; it knows neither the engine nor any
// other part.
//
// # What a part does
//
// A part reads and writes under kinds of keys of its own. The engine gives each call of
// its users a [View] or a [Tx] by way of a [Runner], commits what was written together
// with everything else of the transaction, and walks over all parts for what concerns
// the whole database: opening, check, figures, export and import, reset.
//
// What a part holds in RAM follows from its keys. The part changes it in functions that it
// gives to [Tx.Stage]: they run after a commit is applied and before a reader can see the
// commit. What it holds is marked with LSNs, so that each reader finds its own state. The
// staged functions of a transaction that fails never run.
//
// # Order and locks
//
// A Tx is used by one goroutine, which holds the writer lock; a View by one goroutine,
// beside any others. Load comes first and alone. Staged functions run under the writer
// lock, in the order of their LSNs. Release and MemoryGone run in the background, without
// the lock.
package part

import (
	"context"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Part is a structure of the database beside its memories. It may also be a [Loader], a
// [Worker], a [Releaser], a [Resetter], [Lasting], a [Mourner], a [Heir], an [Eraser], a [Folder], a [Leader], [Divided], a [Grower]. One with Ops is a [Teller].
type Part interface {
	// Name is the name of the part in messages.
	Name() string
	// Kinds are the first bytes of its keys. No other part, and no kind of the memories,
	// has one of them.
	Kinds() []Kind
	// Ops are the codes of its changes in the log. No other part has one of them.
	Ops() []Op
	// Check reads all keys of the part and reports what does not fit.
	Check(c Checker) error
	// Figures are its figures in the statistics of the database, by JSON key.
	Figures(v View) (map[string]int64, error)
	// Lines calls yield with a line for each thing of the part that an export of a scope
	// has, in an order that depends on nothing but the state. The empty scope is everything.
	// The scope never names a run.
	Lines(v View, in scope.Scope, yield func(Line) error) error
	// NewLine returns an empty line of a type, nil where the type belongs to another part.
	NewLine(typ string) Line
	// DeleteOwner deletes everything that an owner has in the part, and returns how much
	// that was, as Figures counts it. The change is small whatever the owner has: it
	// deletes ranges of keys, and leaves what lies elsewhere to a [Worker].
	DeleteOwner(t Tx, owner uint32) (map[string]int64, error)
}

// Kind is the first byte of keys, which the number of a generation follows.
type Kind byte

// Op is the code of a change in the log.
type Op byte

// OpInternal is the operation of a change that no reader of the log asks for. It has no body.
const OpInternal Op = 12

// Loader is a part that holds something in RAM.
type Loader interface {
	// Load fills the RAM of the part from its keys, when the database is opened.
	Load(v View, o Opening) error
	// Bytes are about those that the part holds in RAM.
	Bytes() int64
}

// Opening is what a part learns when the database is opened.
type Opening struct {
	Budget   int64 // bytes of RAM that it may take
	ReadOnly bool
}

// Worker is a part with periodic work. A database that was opened to be read does none.
type Worker interface {
	// Every is the time from one Work to the next.
	Every() time.Duration
	// Work does what is due, in commits of bounded size.
	Work(ctx context.Context, r Runner) error
}

// Resetter is a part that holds something in RAM, and is told of a reset.
type Resetter interface {
	// Reset says that the commit of an LSN has deleted all keys. It is called as a staged
	// function is.
	Reset(lsn uint64)
}

// Lasting is a part whose keys a reset of the database leaves as they are.
type Lasting interface{ Lasts() }

// Releaser is a part that keeps older states in RAM.
type Releaser interface {
	// Release says that no reader has a state older than that of the LSN oldest any more.
	Release(oldest uint64)
}

// Mourner is a part that refers to memories.
type Mourner interface {
	// MemoryGone says that a memory is deleted and that no reader can see it any more. The
	// part calls del for each of its keys that refers to the memory; del deletes in the
	// commit that cleans up after the memory. After a crash the same call may come again. What
	// else is to follow takes a Tx: set writes a key of the part in that commit, by which its
	// [Worker] finds it.
	MemoryGone(v View, owner uint32, seq uint64, del func(key []byte) error, set func(key, value []byte) error) error
}

// Heir is a part whose things refer to memories for their texts, also once these have aged.
type Heir interface {
	// Inherit says that the last that is left of some memories of an owner, their texts by Seq,
	// is about to be removed, with what tells where they were merged into. When it returns, nothing
	// of the part needs them any more. It is called in the background, without a lock, and after a
	// crash again.
	Inherit(ctx context.Context, r Runner, owner uint32, texts map[uint64]string) error
}

// Folder is a part that merges values: [Tx.Merge] writes an operand, and the store folds
// operands of a key into one whenever it likes.
type Folder interface {
	// Fold returns one value for two values of a key of the part. It never fails, since a
	// compaction must not fail: it keeps a value that it cannot read.
	Fold(key, older, newer []byte) []byte
}

// Eraser is a part that keeps something of an owner longer than DeleteOwner and its Worker do.
type Eraser interface {
	// EraseOwners says that owners are erased: what they had is deleted, and no reader can see it any
	// more. The part calls del for each range of keys that it still has of them alone. After a crash
	// the same call may come again.
	EraseOwners(v View, owners map[uint32]bool, del func(lower, upper []byte) error) error
}

// Leader is a part with things that must be there before memories can be stored.
type Leader interface {
	// Leads is [Part.Lines] for these things, which Lines leaves out.
	Leads(v View, in scope.Scope, yield func(Line) error) error
}

// Divided is a part with sections of keys that figures of the database tell apart from the rest.
type Divided interface {
	// Divisions are those sections of a kind of the part, in the order of their keys.
	Divisions(v View, kind Kind) []Division
}

// Division is a section of keys, in [Lower, Upper).
type Division struct {
	Name         string
	Lower, Upper []byte
}

// Grower is a part with messages.
type Grower interface {
	// Grown is how many messages were written after an LSN and are kept, and the bytes of their
	// keys and values.
	Grown(v View, after uint64) (messages, bytes int64, err error)
}

// Teller is a part that reads what it has logged.
type Teller interface {
	// Tell reads the body of a change of an operation of the part from a log record, and no byte
	// behind it. It returns what says what the change did, nil where readers of the database see
	// nothing of it. A body that is malformed is the error of the reader.
	Tell(op Op, body *codec.Reader) Telling
}

// Telling says what a change of a commit did, as a state of the database that may be much later
// knows it: in an order and a number that depend on the log alone.
type Telling func(v View, of Commit) ([]Told, error)

// Commit is an LSN, and the time of its commit in Unix milliseconds.
type Commit struct {
	LSN  uint64
	Time int64
}

// Told is one thing that a change did. See package wal.
type Told struct {
	Op     string
	Owner  uint32 // the number, 0 for the whole database
	Run    string
	ID     string
	Seq    uint64
	Reason string
	Into   string
	// Before and After are what their JSON is.
	Before, After any
	// Unresolved: something of it is not known any more.
	Unresolved bool
}

// Runner runs the calls of a part's users: each as a transaction of its own, or all of
// them in the one that the user is in. doing is what an error says was being done.
type Runner interface {
	View(ctx context.Context, doing string, fn func(View) error) error
	Update(ctx context.Context, doing string, fn func(Tx) error) error
	// Append is Update for a small change, of about so many bytes, that may be committed
	// together with those of other callers. fn may be called more than once: it changes
	// nothing but the Tx and its own result.
	Append(ctx context.Context, doing string, bytes int, fn func(Tx) error) error
	// Prepare does all of storing a memory that needs no lock: it checks and analyses the
	// memory, and embeds it unless the user is in a transaction. [Tx.StoreMemory] stores it.
	Prepare(ctx context.Context, m NewMemory) (Prepared, error)
}

// NewMemory is a memory that a part has stored. What is empty is as in a store of a memory
// by a user.
type NewMemory struct {
	scope.Scope
	ID, Role, Kind, Name, Text string
	Created                    int64 // Unix milliseconds
	Importance                 *float64
	Pinned                     bool
}

// Prepared is a memory that is ready to be stored.
type Prepared interface {
	// Bytes is about what storing it writes.
	Bytes() int
}

// StoredMemory is what became of a memory: it is new, or that which was there already.
type StoredMemory struct {
	ID                   string
	Seq                  uint64
	Stored, Deduplicated bool
}

// View reads one state of the database.
type View interface {
	// Key begins a key of a kind, with room for so many bytes more.
	Key(kind byte, bytes int) []byte
	// Get returns a copy of the value of a key.
	Get(key []byte) (value []byte, found bool, err error)
	// Scan calls visit for the keys in [lower, upper), in order, until it returns an
	// error. Key and value are valid during the call.
	Scan(lower, upper []byte, visit func(key, value []byte) error) error
	// Iter moves over the keys in [lower, upper), in either direction. It is to be closed.
	Iter(lower, upper []byte) (kv.Iterator, error)
	// Hop visits keys in [lower, upper), in order, each time the first one from the key on that
	// visit has returned. It is for what lies in few places far from each other.
	Hop(lower, upper []byte, visit func(key, value []byte) (next []byte, err error)) error
	// Without says that something cannot be read. It returns nil where the reader goes on without
	// it, as an export of a damaged database does, and the error where it does not. Scan and Hop
	// ask it themselves for what they cannot read, and for errors of visit.
	Without(err error) error
	// LSN is the LSN of the state that is read. In a Tx it is the LSN that the commit will
	// have.
	LSN() uint64
	// Past reports whether the keys are of a later state than that of the LSN. A part whose keys
	// say when they were written, and when they ended, picks those that the state had; any other
	// part refuses to read.
	Past() bool
	// Now is the time of the transaction, in Unix milliseconds.
	Now() int64
	// Owner is the number of an owner, false for one that nothing was ever stored for.
	Owner(o scope.Owner) (number uint32, known bool, err error)
	// OwnerOf is the owner of a number, false for a number that no owner has. It looks at all
	// owners: it is for what cannot be read otherwise.
	OwnerOf(number uint32) (o scope.Owner, known bool, err error)
	// Run is the number of a run, false for a run that nothing was ever stored in.
	Run(name string) (number uint32, known bool, err error)
	// Memory is the living memory of an owner that has an ID.
	Memory(o scope.Owner, id string) (m Memory, found bool, err error)
	// MemoryAt is the memory of a Seq, if it lives.
	MemoryAt(seq uint64) (m Memory, found bool, err error)
	// Survivor is the living memory that one which is gone was merged into, also through
	// others that were merged since, as long as its history is kept.
	Survivor(owner uint32, seq uint64) (m Memory, found bool, err error)
	// MemoryWas is the last state of a memory, living or not, as long as its history is
	// kept.
	MemoryWas(owner uint32, seq uint64) (m Memory, found bool, err error)
	// Writing reports whether this is a Tx, which reads what it has written before anybody
	// else can.
	Writing() bool
	// Counter is what [Tx.Count] has counted for an owner, false where it was never
	// called.
	Counter(kind byte, owner uint32) (n int64, known bool, err error)
}

// Memory is what a part may know of a memory.
type Memory struct {
	ID    string
	Seq   uint64
	Owner uint32
	Scope scope.Scope
	Text  string
}

// Tx reads and writes. What it writes it reads at once, and others after the commit.
type Tx interface {
	View
	// Need refuses a change that would write so many bytes where the transaction or the
	// disk has no room for it. It comes before the first write of a change, which must
	// not fail half-way. NeedToFree is Need for what frees space.
	Need(doing string, bytes int) error
	NeedToFree(doing string, bytes int) error
	Set(key, value []byte) error
	// Merge writes an operand, which only a [Folder] may.
	Merge(key, value []byte) error
	Delete(key []byte) error
	DeleteRange(lower, upper []byte) error
	// Replaces notes that what was set takes the place of a value of so many bytes: where
	// much was written over, the store is compacted.
	Replaces(bytes int)
	// GiveOwner is the number of an owner, newly given if it has none; GiveRun that of a
	// run. A database that stores nothing for agents without a manifest refuses an owner of
	// such an agent. GiveAgent is GiveOwner for an agent without a user, with or without a
	// manifest: its manifest is stored by it.
	GiveOwner(o scope.Owner) (uint32, error)
	GiveAgent(id string) (uint32, error)
	GiveRun(name string) (uint32, error)
	// StoreMemory stores a memory in the same commit. One that it refuses has changed
	// nothing.
	StoreMemory(p Prepared) (StoredMemory, error)
	// StoreNew prepares a memory that derives from something of the part, and stores it in the
	// same commit. The memory is embedded later, in the background; no extractor reads its text,
	// and another memory with the same text is none of its duplicates.
	StoreNew(m NewMemory) (StoredMemory, error)
	// DeleteMemory deletes the memory of a Seq, and reports whether it lived.
	DeleteMemory(seq uint64) (bool, error)
	// Count adds to a counter of an owner, which a part has under one of its kinds.
	Count(kind byte, owner uint32, by int64) error
	// Log adds a change to the commit's log record: its code, and a body that only readers
	// of that code understand. It returns the number of the change within the commit. What
	// writes must log.
	Log(op Op, body []byte) (change uint32)
	// Stage keeps fn until the commit is applied, and then calls it with the LSN of the
	// commit, before a reader can see the commit. fn is never called for a transaction that
	// fails.
	Stage(fn func(lsn uint64))
}

// Checker reads one state for [Part.Check].
type Checker interface {
	View
	// Each is Scan of all keys of a kind.
	Each(kind byte, visit func(key, value []byte) error) error
	// EachCounter visits what [Tx].Count counts under a kind: also of owners that have
	// nothing of the kind any more.
	EachCounter(kind byte, visit func(owner uint32, n int64)) error
	// Problem reports damage, and Derived damage of a key that the part can make again of others.
	Problem(format string, args ...any)
	Derived(format string, args ...any)
}

// Line is one line of an export. As JSON it is a flat object with the key "type".
type Line interface {
	// Type is the value of the key "type".
	Type() string
	// Check returns why a line that was read cannot be stored.
	Check() error
	// Owner is whose it is; an import may give it to another.
	Owner() scope.Owner
	SetOwner(o scope.Owner)
	// Store puts what the line says in the database. It changes nothing where the same is
	// stored already. Where something else is stored, it returns ErrExists, or updates
	// under upsert.
	Store(t Tx, upsert bool) (Outcome, error)
}

// Outcome is what became of a line.
type Outcome uint8

// The outcomes of a line.
const (
	Unchanged Outcome = iota
	Stored
	Updated
)
