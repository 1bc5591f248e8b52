package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/lifecycle"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// archives are those that receive what the database writes.
type archives struct {
	opened *archiver // that of the options, nil if there is none
	first  bool      // a write is acknowledged once the archive has it
	// late counts the writes that are made and that the archive does not have yet.
	late atomic.Int64

	closing chan struct{}    // closed when Close begins
	work    *lifecycle.Group // of those that run

	mu  sync.Mutex
	all []*archiver
}

// beginArchive numbers the batches of the store, for the archive of the options. It comes before anything
// is written.
func (db *DB) beginArchive(o *Options, fresh bool) error {
	if db.readOnly && o.Archive != nil {
		return fault.Invalid(place.Opening(db.dir), "an archive of a database that is only read", "leave Archive or ReadOnly out")
	}
	number, out, err := db.store.Numbered(o.Archive != nil, fresh, db.unsent)
	if err != nil || out == nil {
		return err
	}
	a := newArchiver(db, o.Archive, out, o.ArchiveDelay)
	a.start, a.fresh = number, fresh
	db.archives.opened, db.archives.first, db.archives.all = a, o.ArchiveFirst, []*archiver{a}
	return nil
}

// unsentShare is what may wait in RAM for an archive.
func (t *tuning) unsentShare() int64 { return cmp.Or(t.unsent, maxUnsent) }

// tailBytes is what of the log of the store is read for an archive.
func tailBytes(o *Options, t *tuning) int64 {
	if o.Archive == nil {
		return 0
	}
	return t.unsentShare()
}

// startArchive begins to send.
func (db *DB) startArchive() {
	if a := db.archives.opened; a != nil {
		db.runArchiver(a)
	}
}

func (db *DB) runArchiver(a *archiver) {
	ctx, cancel := context.WithCancel(context.Background())
	a.stop, a.over = cancel, make(chan struct{})
	db.archives.work.Go("archives", func(context.Context) {
		defer close(a.over)
		a.run(ctx)
	})
}

// syncLog makes batches durable: in the store, and in the archive where that comes first.
func (db *DB) syncLog(batches []*pebble.Batch) error {
	began := clock.System()
	err := db.store.SyncLog(batches)
	db.synced(began)
	if err == nil {
		err = db.inPlace()
	}
	if err != nil || !db.archives.first {
		return err
	}
	return db.archives.opened.wait(context.Background(), db.store.Synced())
}

// acknowledgeFirst is acknowledge where the archive comes first, until the context ends.
func (db *DB) acknowledgeFirst(ctx context.Context, seen uint64, err error) error {
	done := make(chan error, 1)
	db.archives.late.Add(1)
	db.archives.work.Go("waits for the archive", func(context.Context) {
		defer db.archives.late.Add(-1)
		done <- db.acknowledge(seen, err)
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if err != nil { // it was refused: nothing was written
			return ctx.Err()
		}
		return &fault.Error{
			Kind: fault.ErrUnavailable, What: "archive a write", Why: "the archive has not taken it in time", Cause: ctx.Err(),
			Do: "the write is in the database, and is archived once the archive answers; Archives says what fails",
		}
	}
}

// awaitLate keeps a write out while the archive that comes first fails: it would be made and not acknowledged.
func (db *DB) awaitLate(ctx context.Context) error {
	a := db.archives.opened
	if !db.archives.first || db.archives.late.Load() == 0 || a.figures(db.clock()).Error == "" {
		return nil
	}
	wait, cancel := db.lockLimit(ctx)
	defer cancel()
	err := a.wait(wait, db.store.Synced())
	if err == nil || wait.Err() == nil {
		return err
	}
	return &fault.Error{
		Kind: fault.ErrUnavailable, What: "write", Why: "the archive, which is to have each write first, fails", Cause: err,
		Do: "nothing was written; Archives says what fails; try again",
	}
}

// closeArchives bounds the wait of writes for an archive that does not answer while the database closes.
func (db *DB) closeArchives() (stop func() bool) {
	close(db.archives.closing)
	return time.AfterFunc(db.lastArchive, func() {
		for _, a := range db.archives.list() {
			a.giveUp()
		}
	}).Stop
}

// endArchives sends what is left.
func (db *DB) endArchives() error {
	var errs []error
	for _, a := range db.archives.list() {
		errs = append(errs, a.end())
	}
	db.archives.work.Wait()
	return errors.Join(errs...)
}

func (as *archives) list() []*archiver {
	as.mu.Lock()
	defer as.mu.Unlock()
	return slices.Clone(as.all)
}

// Archives say how the archives of the database keep up, first that of its options.
func (db *DB) Archives() []ArchiveStats {
	var all []ArchiveStats
	for _, a := range db.archives.list() {
		all = append(all, a.figures(db.clock()))
	}
	return all
}

// ArchiveTo archives the database into another archive beside those that it has, beginning with a base:
// up to the newest commit of now, and until ctx ends if follow is set, which is no error then. A failure
// of the archive before it has come up to now ends the call; later ones are tried again. It closes the
// archive. What it returns says how far it came.
func (db *DB) ArchiveTo(ctx context.Context, to wal.Archive, follow bool) (s ArchiveStats, err error) {
	release, err := db.enter("archive")
	if err != nil {
		return s, errors.Join(err, to.Close())
	}
	defer release()
	if err := db.writable("archive"); err != nil {
		return s, errors.Join(err, to.Close())
	}
	if db.logged != nil {
		err := fault.Invalid("archive", "the log of the database keeps what it writes", "back it up, or follow the log")
		return s, errors.Join(err, to.Close())
	}
	if err := db.lock(ctx); err != nil {
		return s, errors.Join(err, to.Close())
	}
	a := newArchiver(db, to, db.store.Attach(db.unsent), 0)
	a.base = true
	db.unlock()
	as := &db.archives
	as.mu.Lock()
	as.all = append(as.all, a)
	as.mu.Unlock()
	db.runArchiver(a)
	defer func() {
		as.mu.Lock()
		as.all = slices.DeleteFunc(as.all, func(other *archiver) bool { return other == a })
		as.mu.Unlock()
		if end := a.end(); end != nil {
			err = errors.Join(err, end)
		}
		s = a.figures(db.clock())
	}()
	if err := a.waitAll(ctx); err != nil || !follow {
		return s, err
	}
	select {
	case <-ctx.Done():
	case <-db.archives.closing:
	}
	return s, nil
}

// WaitArchived returns when the archive of the options has all that is durable now, or has refused to
// take anything, and says how far it came. Without an archive it is ErrInvalid.
func (db *DB) WaitArchived(ctx context.Context) (ArchiveStats, error) {
	const doing = "wait for the archive"
	a := db.archives.opened
	if a == nil {
		return ArchiveStats{}, fault.Invalid(doing, "the database was opened without an archive", "set Options.Archive")
	}
	release, err := db.enter(doing)
	if err != nil {
		return ArchiveStats{}, err
	}
	defer release()
	err = a.waitAll(ctx)
	return a.figures(db.clock()), err
}

// waitAll waits for everything that was applied before the call. The first failure of the archive ends the
// wait.
func (a *archiver) waitAll(ctx context.Context) error {
	if err := a.db.store.SyncLog(nil); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := a.onFailure(cancel)
	defer stop()
	err := a.wait(ctx, a.db.store.Synced())
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}
