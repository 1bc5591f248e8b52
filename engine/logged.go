package engine

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/lifecycle"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// LogMark says where the log of a database was when a batch was applied: its Epoch, and the Sequence and the
// Sum of the newest message then. What they are counted by is the matter of the log.
type LogMark = layout.LogMark

// Log is where the writes of a database become durable, in the place of its own disk: a replicated log. The
// folder of the database is what the log comes to, see [OpenLogged].
type Log interface {
	// Mark is where the log is now: behind the newest message that it has. The database keeps it with each
	// batch. It is called with locks of the database held, and returns at once.
	Mark() LogMark
	// Append returns nil once the log has the batches of the frame, behind all that it has, so that no
	// failure takes them back. It tries for as long as ctx lives. Any other error than that of ctx is for
	// good, and the database has failed: ErrNotOwner, where the log takes nothing of this owner any more.
	// Calls come one after the other, and each frame follows the one before. The frame is not changed, and
	// not kept.
	Append(ctx context.Context, f *wal.Frame) error
}

// LogOptions are those of a database over a log.
type LogOptions struct {
	// Log is the log, which has what the folder has, and goes on behind it.
	Log Log
	// Wait is how long the log may take to answer before writes are refused with ErrUnavailable; 0: 15
	// seconds, which an election of a leader may take.
	Wait time.Duration
	// Erased is called when an erasure has ended, and the log has that: what was erased is in the log itself
	// yet, and in what was made of it. nil: nobody is told.
	Erased func()
}

const (
	// logWait is LogOptions.Wait unless it is given.
	logWait = 15 * time.Second
	// sendEvery is how long what runs behind the calls, and what nobody waits for any more, stays out of the
	// log at most; and what was applied out of the folder's own disk.
	sendEvery = time.Second
)

// OpenLogged opens the database in a folder over a log, and creates it where the folder is missing or empty. The
// log has everything that the folder has, which a [Standby] has made of it or an earlier opening; and a log
// that has anything is not opened over an empty folder.
//
// A write is acknowledged once the log has it, and read then; the folder itself is synced once a second, so
// that a crash costs no more than to apply the last of the log again. Where the log does not answer, writes
// get ErrUnavailable after LogOptions.Wait, what they have changed is sent once it answers, and reads go on as
// of the newest state that the log has. Once the log refuses this owner, every call gets ErrNotOwner, and the
// folder is to be removed: it may hold what no log has.
//
// Other options than these are refused with ErrInvalid: Archive, Durability Buffered, ReadOnly, Salvage.
func OpenLogged(dir string, l LogOptions, o *Options) (*DB, error) {
	if o == nil {
		o = &Options{}
	}
	fs, dir := fsys.Named(dir)
	return openLogged(dir, l, o, &tuning{fs: fs})
}

func openLogged(dir string, l LogOptions, o *Options, t *tuning) (*DB, error) {
	if err := place.InFolder(place.Opening(dir), dir); err != nil {
		return nil, err
	}
	switch {
	case l.Log == nil:
		return nil, fault.Invalid(place.Opening(dir), "there is no log", "give one, or open it by Open")
	case o.Archive != nil || o.Durability == Buffered || o.ReadOnly || o.Salvage:
		return nil, fault.Invalid(place.Opening(dir), "an option does not go with a log, which keeps what is written", "leave out archives, buffered writes, reading alone and salvage")
	}
	if err := ownReplica(t, dir); err != nil {
		return nil, err
	}
	opts, floor := *o, &atomic.Int64{}
	now := o.Clock
	if now == nil {
		now = clock.System
	}
	// The clock of another machine may have been ahead: times of commits do not go back.
	opts.Clock = func() time.Time {
		at := now()
		if least := floor.Load(); at.UnixMilli() < least {
			return clock.FromMillis(least)
		}
		return at
	}
	t.logged = &overLog{log: l.Log, wait: cmp.Or(l.Wait, logWait), floor: floor, erased: l.Erased}
	return open(dir, &opts, t)
}

// ownReplica has a standby, which is closed, be the folder of the owner.
func ownReplica(t *tuning, dir string) error {
	if err := place.Look(t.fs, dir); err != nil {
		return err
	}
	id, err := place.Read(t.fs, dir)
	if err != nil || id == nil || !id.Replica {
		return err
	}
	if !id.Logged {
		return fault.Invalid(place.Opening(dir), "it is a replica that follows no log", "promote it: memdbctl replica promote DIR")
	}
	held, err := place.Lock(t.fs, dir, clock.System(), false)
	if err != nil {
		return err
	}
	id.Replica = false
	return errors.Join(fault.Within(place.Opening(dir), id.Write(t.fs, dir)), held.Close())
}

// refuseLogged refuses to write into the folder of a database over a log otherwise than by that, and to make one
// of a database that has no log.
func refuseLogged(id *place.Identity, dir string, readOnly bool, l *overLog) error {
	switch {
	case readOnly || id.Logged == (l != nil):
		return nil
	case id.Logged:
		return &fault.Error{
			Kind: fault.ErrReadOnly, What: place.Opening(dir), Why: "it is the folder of a shard of a cluster, which is what the log of the shard comes to",
			Do: "to write, ask a memdbd of the cluster; to look into it while no memdbd runs there, open it to be read alone",
		}
	}
	return &fault.Error{Kind: fault.ErrMismatch, What: place.Opening(dir), Why: "it is a database without a log", Do: "name another folder; its memories come into a cluster by memdbctl cluster import"}
}

// overLog is the log of a database, for its store.
type overLog struct {
	log   Log
	wait  time.Duration
	floor *atomic.Int64 // the time of the newest commit, in Unix milliseconds
	// erased: see LogOptions.
	erased func()
	db     *DB
	work   *lifecycle.Group // what sends; nil before it begins
}

var _ store.Log = (*overLog)(nil)

// Mark implements store.Log.
func (l *overLog) Mark() []byte { return l.log.Mark().Encode() }

// Send implements store.Log.
func (l *overLog) Send(ctx context.Context, batches []store.Written) error {
	return l.log.Append(ctx, batchesFrame(shipping.Timeline(l.db.store), batches))
}

// batchesFrame is the frame of batches that follow each other.
func batchesFrame(t wal.Timeline, batches []store.Written) *wal.Frame {
	last := batches[len(batches)-1]
	f := &wal.Frame{Timeline: t, Kind: wal.Batches, First: batches[0].Number, Last: last.Number, LSN: last.LSN, Time: last.Time}
	for _, b := range batches {
		f.Batches = append(f.Batches, b.Repr)
	}
	return f
}

// beginLog begins to send what is written. It comes before anything is.
func (db *DB) beginLog(fresh bool) error {
	l := db.logged
	if _, err := db.store.Sent(fresh); err != nil {
		return err
	}
	l.work = db.life.Group()
	l.work.Go("sends to the log", db.store.RunLog)
	return nil
}

// beginTime has the time begin where the newest commit was made.
func (db *DB) beginTime() error {
	if db.logged == nil {
		return nil
	}
	snap := db.store.NewSnapshot()
	newest, err := shipping.Newest(db.keys(), snap)
	db.logged.floor.Store(newest.Time)
	return errors.Join(err, snap.Close())
}

// startLog has what nobody waits for sent, too, once everything else runs.
func (db *DB) startLog() {
	db.life.Every("sends to the log", sendEvery, nil, func(context.Context) error {
		if n, _, late := db.store.Unsent(); n > 0 && !late {
			if err := cmp.Or(db.syncer.Wait(db.syncer.Newest()), db.store.SyncLog(nil)); err != nil {
				return err
			}
		}
		return db.store.SyncOwn()
	})
}

// endLog sends what closing has written, which nobody waits for, and ends what is sent.
func (db *DB) endLog() (err error) {
	if db.logged == nil {
		return nil
	}
	if db.Failed() == nil {
		err = db.store.SyncLog(nil)
	}
	db.logged.end()
	return err
}

// end ends what is sent.
func (l *overLog) end() {
	if l != nil && l.work != nil {
		l.work.End()
	}
}

// Unsent is what the log of the database does not have yet, in bytes and in batches; late says that it does not
// answer, see [LogOptions]. They are 0 and false for a database without one.
func (db *DB) Unsent() (batches int, bytes int64, late bool) {
	if db.logged == nil {
		return 0, 0, false
	}
	return db.store.Unsent()
}

// Disown has every later call of a database over a log get ErrNotOwner, with the reason why: at once, whatever
// runs. The folder is to be removed once the database is closed.
func (db *DB) Disown(why string) {
	db.store.Refuse(notOwner(db.dir, why))
}

func notOwner(dir, why string) *fault.Error {
	return &fault.Error{
		Kind: fault.ErrNotOwner, What: "use the database " + dir, Why: why,
		Do: "ask the owner of the shard: memdbctl cluster status names it",
	}
}

// WriteBase gives everything that a database over a log has, in frames that each follow the one before: the
// parts of a base, and its end (see wal.Base). It returns once write has them all, with the mark that the base
// has: what follows in the log begins behind its sequence. Everything that the base has is in the log before
// its end is written. Writers and readers go on meanwhile.
func (db *DB) WriteBase(ctx context.Context, write func(*wal.Frame) error) (m LogMark, f wal.Frame, err error) {
	const doing = "write a base of the database"
	release, err := db.enter(doing)
	if err != nil {
		return m, f, err
	}
	defer release()
	if db.logged == nil {
		return m, f, fault.Invalid(doing, "it has no log that goes on behind it", "back it up: DB.Backup")
	}
	snap, number := db.store.Numbering()
	defer func() { err = errors.Join(err, snap.Close()) }()
	if err := db.store.SyncLog(nil); err != nil {
		return m, f, err
	}
	newest, err := shipping.Newest(db.keys(), snap)
	if err != nil {
		return m, f, err
	}
	if m, err = shipping.Mark(snap); err != nil {
		return m, f, err
	}
	f, err = shipping.NewBase(db.store, number, newest, write).Write(ctx, snap)
	return m, f, err
}

// NewestCommit is the newest commit in a batch of a frame and when it was made, in Unix milliseconds; 0 and 0 if the
// batch has none.
func NewestCommit(batch []byte) (lsn uint64, at int64) { return shipping.NewestCommit(batch) }

// Digest is what two copies of one log have in common when they have applied the same batches of it.
type Digest = shipping.Digest

// Digest reads everything that a database over a log has, as of now, and returns once its log has that, too.
func (db *DB) Digest(ctx context.Context) (d Digest, err error) {
	const doing = "read all of the database"
	release, err := db.enter(doing)
	if err != nil {
		return d, err
	}
	defer release()
	if db.logged == nil {
		return d, fault.Invalid(doing, "it has no log that it could be compared with", "use check")
	}
	snap, number := db.store.Numbering()
	defer func() { err = errors.Join(err, snap.Close()) }()
	if err := db.store.SyncLog(nil); err != nil {
		return d, err
	}
	return shipping.DigestOf(ctx, snap, number)
}
