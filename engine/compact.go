package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

const (
	doingCompact = "compact"
	// compactEvery is how often it is asked how much of the store is dead.
	compactEvery = 5 * time.Second
	// deadLeast and deadShare: tables are rewritten once deadLeast bytes are dead, and as
	// many as one in deadShare of theirs. So of two bytes that were written, one at most is
	// written again for it.
	deadLeast = 16 << 20
	deadShare = 2
	// briefWait is how long a call waits for what ends by itself, and soon: readers in the background,
	// and tables that nothing needs.
	briefWait = 2 * time.Second
)

// Compacted is what [DB.Compact] has done. The bytes are those of all files in the folder.
type Compacted struct {
	// DiskBytesBefore and DiskBytesAfter are what the folder took, Took how long it lasted.
	DiskBytesBefore int64
	DiskBytesAfter  int64
	Took            time.Duration
}

// Compact gives room back now: it removes what the policy does not keep any longer, cleans
// up what died, merges sparse chunks of the text index, and rewrites the tables of the
// store without what is dead. What Views can see stays that are open for seconds. The database does the
// same by itself, later; beside Compact, calls go on, and are slower. It takes as long as
// to read and write all of the store.
func (db *DB) Compact(ctx context.Context) (Compacted, error) {
	release, err := db.enter(doingCompact)
	if err != nil {
		return Compacted{}, err
	}
	defer release()
	if err := db.writable(doingCompact); err != nil {
		return Compacted{}, err
	}
	before, err := db.files()
	if err != nil {
		return Compacted{}, err
	}
	began, c := clock.System(), Compacted{DiskBytesBefore: before.Sum()}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return db.awaitOlder(ctx, db.LSN()) },
		db.janitor.work,
		func(ctx context.Context) error { return db.forget(ctx, new(time.Time)) },
		db.moveNow,
		db.janitor.work, // numbers and pages of what has moved
		db.compactNow,
		db.awaitCleaning,
		func(context.Context) error { return db.store.WriteWhole() },
	} {
		if err := step(ctx); err != nil {
			return Compacted{}, store.Error(doingCompact+fmt.Sprintf(" %s", db.dir), err)
		}
	}
	after, err := db.files()
	c.DiskBytesAfter, c.Took = after.Sum(), clock.System().Sub(began)
	return c, err
}

// compactStore rewrites the tables of the store.
func (db *DB) compactStore(ctx context.Context, pause func(took time.Duration)) error {
	// What was removed without a commit is in the snapshot of the newest read point.
	if err := db.republishNow(ctx); err != nil {
		return err
	}
	return db.store.CompactAll(ctx, pause)
}

// moveNow moves the documents of sparse chunks, however few have died.
func (db *DB) moveNow(ctx context.Context) error {
	if err := db.janitor.rest(ctx); err != nil {
		return err
	}
	defer db.chunks.busy.Unlock()
	db.chunks.graves = max(db.chunks.graves, db.lookLeast, int(db.tables.Docs.Live.Load()))
	return db.moveChunks(ctx)
}

// compactNow rewrites the tables of the store once the background reads no state of before.
func (db *DB) compactNow(ctx context.Context) error {
	taken := db.store.Taken()
	if err := db.republishNow(ctx); err != nil {
		return err
	}
	if err := awaitBriefly(ctx, func() bool { return !db.store.Holds(taken) }); err != nil {
		return err
	}
	return db.store.CompactAll(ctx, nil)
}

// awaitCleaning waits until the tables that nothing needs are removed, which the store does
// behind its calls. Some logs that nothing needs stay, to be written anew.
func (db *DB) awaitCleaning(ctx context.Context) error {
	return awaitBriefly(ctx, func() bool {
		t := &db.store.Metrics().Table
		return t.ObsoleteCount == 0 && t.ZombieCount == 0 // to be removed, and still read
	})
}

// awaitOlder waits until nobody reads a state of before an LSN, as the background may, but for what is
// retained.
func (db *DB) awaitOlder(ctx context.Context, lsn uint64) error {
	lsn = min(lsn, db.LSN())
	return awaitBriefly(ctx, func() bool { return db.points.oldestOpen() >= lsn })
}

// awaitBriefly waits until enough is true, for briefWait at most.
func awaitBriefly(ctx context.Context, enough func() bool) error {
	for deadline := clock.System().Add(briefWait); ctx.Err() == nil && !enough() && clock.System().Before(deadline); {
		_ = retry.Sleep(ctx, time.Millisecond)
	}
	return ctx.Err()
}

// deadness says when the store is to be compacted.
type deadness struct {
	// left is what was dead after the last time: what Views hold back.
	left int64
}

// shadowed notes that so many bytes of the store were written over or deleted, and has it
// looked each deadLeast of them whether it is to be compacted.
func (db *DB) shadowed(bytes int) {
	if n := db.store.Shadowed(bytes); n/deadLeast > (n-int64(bytes))/deadLeast {
		select {
		case db.due.rewritten <- struct{}{}:
		default:
		}
	}
}

// compactDead rewrites the tables of the store once much of them is dead. After each part it
// pauses as long as that took.
func (db *DB) compactDead(ctx context.Context, d *deadness) error {
	dead, tables := db.store.Garbage()
	d.left = min(d.left, dead)
	if dead-d.left < max(deadLeast, tables/deadShare) || db.store.AdmitMaintenance(doingCompact, deadLeast) != nil {
		return nil
	}
	err := db.compactStore(ctx, func(took time.Duration) { _ = retry.Sleep(ctx, took) })
	d.left, _ = db.store.Garbage()
	return err
}
