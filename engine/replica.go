package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/replication"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// ReplicaOptions are those of a replica. The zero value works.
type ReplicaOptions struct {
	// Embedder and EmbedderOf make vectors of queries, as in [Options].
	Embedder   embed.Embedder
	EmbedderOf func(VectorModel) embed.Embedder
	// BeginAgain has the replica begin again from a base where the feed does not have what follows (see
	// wal.ErrGap), or goes on in another timeline of the same database. What is there is read until the
	// new one is whole. Without it the replica stops there, with that error, and is read as it is.
	BeginAgain bool
	// MemoryBudget and DiskReserve mean what they mean in [Options]. While the disk has no room for more than its
	// reserve, the replica waits.
	MemoryBudget int64
	DiskReserve  int64
	// Logger hears of what the replica does by itself. nil: nothing is logged.
	Logger *slog.Logger
	// Clock tells the time. nil: the system's.
	Clock func() time.Time
}

// forReading are the options of a database that reads the replica.
func (o *ReplicaOptions) forReading() *Options {
	return &Options{
		ReadOnly: true, Embedder: o.Embedder, EmbedderOf: o.EmbedderOf, MemoryBudget: o.MemoryBudget, DiskReserve: o.DiskReserve,
		Logger: o.Logger, Clock: o.Clock,
	}
}

// ReplicaStats say how far a replica is.
type ReplicaStats = replication.Stats

// Promotion is what a replica has become.
type Promotion = replication.Promotion

// Replica is a folder that follows a database: it applies what that has written, in its order, and
// derives nothing again. It is safe for concurrent use.
//
// Reads see the database as it was at one LSN, which moves on: what was applied becomes readable by
// loading it beside the reads, at the pace that loading allows. A replica of a database that is small has
// it at once; loading takes as long as opening the database would, without linking vectors, and is done
// during a fifth of the time at most.
//
// What is applied is on disk before it is read, and a replica that was killed goes on where it was.
type Replica struct{ *follower }

type follower = replication.Replica

// OpenReplica follows the database of a feed into a folder of its own, which is made where it is missing
// or empty, or goes on with the replica in it. The feed is called by one goroutine at a time, until it
// returns an error: io.EOF ends the following well; a feed tries again by itself what may pass. nil
// options are the zero options.
//
// What a batch, a base or a frame of the feed contradicts, the replica refuses whole, and stops with
// ErrCorrupt, ErrNotRetained (a gap) or ErrMismatch (another timeline or database): see
// [ReplicaOptions.BeginAgain] and [Replica.Err]. It is read on as it is.
//
// It returns ErrLocked where the folder is open already, ErrExists where it holds a database that is no
// replica, ErrNotDatabase where it holds other files, ErrCorrupt where it is damaged.
func OpenReplica(dir string, feed wal.Feed, o *ReplicaOptions) (*Replica, error) {
	f, dir := fsys.Named(dir)
	if o == nil {
		o = &ReplicaOptions{}
	}
	return openReplica(dir, feed, o, &tuning{fs: f})
}

func openReplica(dir string, feed wal.Feed, o *ReplicaOptions, t *tuning) (*Replica, error) {
	r, err := replication.Open(&replicaHost{*o, *t}, t.fs, dir, feed, replication.Options{BeginAgain: o.BeginAgain, Logger: o.Logger, Clock: o.Clock})
	if err != nil {
		return nil, err
	}
	return &Replica{r}, nil
}

// Use calls fn with the database as it is now: fn may read, and what it reads is of one LSN as long as it
// runs. The database is lent until fn returns; it is not to be closed, and writes to it are ErrReadOnly.
// Before anything has come, Use waits. ErrClosed: the replica is closed.
func (r *Replica) Use(ctx context.Context, fn func(*DB) error) error {
	return r.follower.Use(ctx, func(v replication.View) error { return fn((*DB)(v.(*replicaView))) })
}

// View is [DB.View] on the newest state that can be read.
func (r *Replica) View(ctx context.Context, fn func(*Tx) error) error {
	return r.Use(ctx, func(db *DB) error { return db.View(ctx, fn) })
}

// PromoteReplica makes the replica in a folder a database of its own, which [Open] opens to be written:
// one that is closed, or whose process was killed. The folder keeps all that was applied. It begins a new
// timeline behind that, so that nothing which the database writes from now on is taken for what the replica
// has, or the other way round.
//
// Whether the database that was followed still lives, PromoteReplica does not know: if it does, there are
// two databases from then on, which go their own ways.
//
// It returns ErrInvalid where the folder holds no replica, ErrLocked while it is followed, ErrCorrupt where
// it is damaged. A promotion that is interrupted is done or not; it can be called again.
func PromoteReplica(dir string) (*Promotion, error) {
	f, dir := fsys.Named(dir)
	return replication.Promote(&replicaHost{}, f, dir)
}

// IsReplica reports whether the folder holds a replica: see [OpenReplica]. It creates nothing.
func IsReplica(dir string) (bool, error) {
	f, dir := fsys.Named(dir)
	return replication.Is(f, dir)
}

// StandbyOptions configure a standby. The zero value works.
type StandbyOptions struct {
	// MemoryBudget and DiskReserve mean what they mean in [Options].
	MemoryBudget int64
	DiskReserve  int64
	// Logger hears of what the store does by itself. nil: nothing is logged.
	Logger *slog.Logger
}

// Standby is a folder that is made of the frames of a log, and is not read meanwhile. Once it is closed, [OpenLogged]
// opens it to own it, [Open] with ReadOnly to look into it, and [PromoteReplica] makes a database of its own of it.
type Standby = replication.Standby

// OpenStandby opens the folder of a standby or of an owner, which is closed or was killed, or begins one where the
// folder is missing or empty. nil options are the zero options.
//
// It returns ErrLocked where the folder is open already, ErrExists where it holds a database without a log,
// ErrNotDatabase where it holds other files, ErrCorrupt where it is damaged, ErrNotRetained where it does not
// tell how far it is.
func OpenStandby(dir string, o *StandbyOptions) (*Standby, error) {
	f, dir := fsys.Named(dir)
	return openStandby(f, dir, o)
}

func openStandby(f vfs.FS, dir string, o *StandbyOptions) (*Standby, error) {
	h := &replicaHost{}
	if o != nil {
		h.MemoryBudget, h.DiskReserve, h.Logger = o.MemoryBudget, o.DiskReserve, o.Logger
	}
	return replication.OpenStandby(h, f, dir)
}

// replicaHost makes the stores and databases of a replica with the options of that.
type replicaHost struct {
	ReplicaOptions
	tuning tuning // of the databases that read, for tests
}

// Store implements [replication.Host].
func (h *replicaHost) Store(base vfs.FS, dir string) *store.Store {
	opts, t := h.forReading(), &tuning{fs: base}
	db, _ := newDB(dir, opts, t)
	c := db.storeConfig(base, opts, t)
	c.ReadOnly, c.Resume, c.Rewritten = false, func() {}, nil
	return store.New(c)
}

// Show implements [replication.Host].
func (h *replicaHost) Show(dir string, st *store.Store, id *place.Identity, stats func() ReplicaStats) (replication.View, error) {
	opts, t := h.forReading(), h.tuning
	t.frozen, t.follows = st, stats
	db, _ := newDB(dir, opts, &t)
	db.held = notHeld{}
	if err := cmp.Or(db.ageing.SetHooks(opts.Hooks, place.Opening(dir)), db.become(id, opts)); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return (*replicaView)(db), db.launch(id, opts)
}

// notHeld stands for the lock of a folder, which the replica holds.
type notHeld struct{}

// Close does nothing: the view does not hold the lock.
func (notHeld) Close() error { return nil }

// replicaView is a database that shows one state of a replica.
type replicaView DB

func (v *replicaView) LSN() uint64                     { return (*DB)(v).LSN() }
func (v *replicaView) Renew(ctx context.Context) error { return v.spaces.Renew(ctx) }
func (v *replicaView) Close() error                    { return (*DB)(v).Close() }

// keptShare bounds what the next view links again of the vectors of a space: one in so many.
const keptShare = 16

// EndLinking ends the linking of vectors, and keeps what was linked in a file, so that who opens the
// database next reads the links. Searches go on.
func (v *replicaView) EndLinking() {
	v.life.EndWork()
	for _, s := range v.spaces.All() {
		least := max(v.spaces.Limits.CloseTail, uint64(s.Used.Load())/keptShare)
		v.spaces.Save(context.Background(), s, least, least)
	}
}
