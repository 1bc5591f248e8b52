package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/erasure"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/lifecycle"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
)

// An erasure leaves nothing of a memory, an agent or a user in the folder. It writes first, in
// numbers, what it is going to do. Then each step finds by itself what is left for it, so that a
// database that was killed goes on when it is opened: what lives is deleted; once no View is open
// from before that, so is what the history, the trash and the parts keep; chunks of the text index
// whose dictionaries have the words are moved; the log gets marks in the place of changes; names
// that nobody else has are deleted; and last, the files are rewritten.

const (
	// eraseEvery is how often an erasure that has waited in vain is gone on with.
	eraseEvery = time.Second
	// eraseLook is how often it is looked whether older Views have ended.
	eraseLook = 2 * time.Millisecond
)

// EraseQuery says what [DB.Erase] erases.
type EraseQuery = erasure.Query

// Erased is how much is gone with an erasure.
type Erased = erasure.Erased

// Kept is something that an erasure leaves, or does not reach.
type Kept = erasure.Kept

// EraseReport is what an erasure has done.
type EraseReport = erasure.Report

// erasing is what an erasure reads of a transaction.
func (tx *Tx) erasing() *erasure.State {
	return &erasure.State{View: tx.reader(), Part: (*partTx)(tx), Lines: tx.Lines}
}

// Erase removes every trace of a memory, an agent or a user from the folder: records with their
// history and what the trash keeps, vectors and their snapshots, the words in the text index, what
// others were told when they were merged, entries, sessions and messages, notes, the graph, usage
// and budgets, the changes in the log, and names that nobody else has. Then it rewrites the files:
// tables, logs and the MANIFEST.
//
// It waits for Views that were begun before, and for what else reads a state of before, as an archive
// that begins or a rebuild, as long as LockWait and ctx allow, and then returns ErrBusy; past states of
// before it, see [DB.ViewAt], are gone. The erasure stays begun: it goes on as soon as it can, also when
// the database is opened again after a crash, and a call that says the same goes on with it and reports.
// While it runs, writes for a user or an agent that is erased return ErrBusy. Within a View, an Update or
// a callback it would wait for itself: that is ErrInvalid.
//
// It takes as long as it takes to read all records and the log, and to rewrite what tables hold of
// theirs beside that of others. ErrNotFound where there is nothing of that name; ErrAmbiguous where
// several owners have a memory with the ID; ErrReadOnly.
func (db *DB) Erase(ctx context.Context, q EraseQuery) (EraseReport, error) {
	if err := q.Check(); err != nil {
		return EraseReport{}, err
	}
	if !q.DryRun && db.life.Busy() && lifecycle.CalledBack() {
		return EraseReport{}, fault.Invalid(erasure.Doing, "it is called within a View, an Update or a callback, for whose end it would wait", "return from that first")
	}
	if q.DryRun {
		return db.eraseDry(ctx, &q)
	}
	ctx, err := db.apart(ctx, erasure.Doing)
	if err != nil {
		return EraseReport{}, err
	}
	release, err := db.admit(ctx)
	if err != nil {
		return EraseReport{}, err
	}
	defer release()
	wait, cancel := db.lockLimit(ctx)
	defer cancel()
	if err := db.turn.LockContext(wait); err != nil {
		return EraseReport{}, db.lockError(ctx, erasure.Doing, "an eviction, a consolidation or another erasure runs")
	}
	defer db.turn.Unlock()
	began := clock.System()
	if pending := db.erasing.Load(); pending != nil {
		same, err := db.sameErasure(ctx, pending, &q)
		if err != nil {
			return EraseReport{}, err
		}
		if err := db.erase(ctx, wait, pending, began, same); err != nil {
			return EraseReport{}, db.beganError(ctx, err)
		}
		if same {
			return db.erasedReport(pending, began), nil
		}
	}
	e, err := db.beginErasure(ctx, &q)
	if errors.Is(err, fault.ErrNotFound) {
		if r, ended, rerr := q.Ended(db.store); rerr != nil || ended {
			return r, rerr
		}
	}
	if err != nil {
		return EraseReport{}, err
	}
	if err := db.erase(ctx, wait, e, began, true); err != nil {
		return EraseReport{}, db.beganError(ctx, err)
	}
	return db.erasedReport(e, began), nil
}

// beganError is the error of a call whose erasure has begun: ErrBusy where the time of the call is over.
func (db *DB) beganError(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return unendedError("the deadline of the call is over")
	}
	return err
}

func (db *DB) erasedReport(e *erasure.Erasure, began time.Time) EraseReport {
	r := e.Report
	r.Erased, r.LSN, r.Seconds = e.Gone, e.LSN, clock.System().Sub(began).Seconds()
	if r.Left == nil {
		r.Left = []Kept{}
	}
	if r.Derived == nil {
		r.Derived = []Kept{}
	}
	r.OutOfReach = db.outOfReach()
	return r
}

// eraseDry counts what an erasure would erase.
func (db *DB) eraseDry(ctx context.Context, q *EraseQuery) (r EraseReport, err error) {
	err = db.view(ctx, nil, func(tx *Tx) error {
		e, err := tx.erasing().Find(ctx, q)
		if err != nil {
			return err
		}
		if err = tx.erasing().Follow(ctx, e); err != nil {
			return err
		}
		if err = tx.erasing().Count(ctx, e); err != nil {
			return err
		}
		e.LSN, e.Report.Left = tx.state.LSN, e.Stays
		r = db.erasedReport(e, clock.System())
		r.Seconds = 0
		return nil
	})
	return r, err
}

// sameErasure reports whether a query means what an erasure that has begun erases. Of one whose names
// are gone already the fingerprint says so.
func (db *DB) sameErasure(ctx context.Context, e *erasure.Erasure, q *EraseQuery) (same bool, err error) {
	err = db.view(ctx, nil, func(tx *Tx) error {
		of, err := tx.erasing().Find(ctx, q)
		if errors.Is(err, fault.ErrNotFound) {
			same = e.Asked == q.Fingerprint() || e.Asked == 0 && e.Rewriting
			return nil
		}
		if err == nil {
			missing := func(seq uint64) bool { return !slices.Contains(e.Seqs, seq) }
			same = slices.Equal(of.Owners, e.Owners) && (of.Seqs == nil) == (e.Seqs == nil) && !slices.ContainsFunc(of.Seqs, missing)
		}
		return err
	})
	return same, err
}

// beginErasure writes what is going to be erased.
func (db *DB) beginErasure(ctx context.Context, q *EraseQuery) (e *erasure.Erasure, err error) {
	var counted *erasure.Erasure
	err = db.view(ctx, nil, func(tx *Tx) error { // without the lock: it reads all records
		if counted, err = tx.erasing().Find(ctx, q); err != nil {
			return err
		}
		if err := tx.erasing().Follow(ctx, counted); err != nil {
			return err
		}
		if err := tx.erasing().Count(ctx, counted); err != nil {
			return err
		}
		return tx.erasing().Gather(ctx, counted)
	})
	if err != nil {
		return nil, err
	}
	err = db.acknowledge(db.update(ctx, func(tx *Tx) error {
		if e, err = tx.erasing().Find(ctx, q); err != nil {
			return err
		}
		e = e.With(counted)
		e.LSN, e.At, e.Asked = tx.state.LSN, tx.state.Now, q.Fingerprint()
		if err := tx.needToFree(erasure.Doing, 64+12*(len(e.Owners)+len(e.Seqs)+len(e.Commits))); err != nil {
			return err
		}
		if err := tx.set(layout.ErasureKey, e.Encode()); err != nil {
			return err
		}
		if err := erasure.CloseReports(&tx.rec); err != nil {
			return err
		}
		tx.change()
		tx.log = e.AppendLog(tx.log)
		tx.onApplied(func(uint64) error {
			db.erasing.Store(e)
			return nil
		})
		return nil
	}))
	return e, err
}

// loadErasure finds an erasure that has begun.
func (db *DB) loadErasure() error {
	b, closer, err := db.store.Get(layout.ErasureKey)
	if errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	l, err := layout.DecodeErasure(b)
	if err = errors.Join(err, closer.Close()); err != nil {
		return err
	}
	db.erasing.Store(erasure.New(*l))
	return nil
}

// goOnErasing goes on with an erasure that was interrupted, or waits for Views.
func (db *DB) goOnErasing(ctx context.Context) error {
	if db.erasing.Load() == nil {
		return nil
	}
	if err := db.turn.LockContext(ctx); err != nil {
		return err
	}
	defer db.turn.Unlock()
	e := db.erasing.Load()
	if e == nil || !e.Rewriting && db.points.oldestOpen() < e.LSN {
		return nil // a View may take long
	}
	wait, cancel := context.WithTimeout(ctx, eraseEvery)
	defer cancel()
	err := db.erase(ctx, wait, e, clock.System(), false)
	if err == nil {
		db.logger.Info("an erasure that had begun is done", "lsn", e.LSN)
	}
	if errors.Is(err, fault.ErrBusy) {
		return nil // it is tried again
	}
	return err
}

// finishErasing completes a pending erasure before the database closes, since a short-lived program
// never reaches it in the background. It leaves an erasure that waits for an open View.
func (db *DB) finishErasing() {
	if db.readOnly || db.Failed() != nil {
		return
	}
	if err := db.goOnErasing(context.Background()); err != nil {
		db.logger.Warn("an erasure that had begun is not done; it goes on when the database is opened again", "error", err)
	}
}

// erase does what an erasure has left to do. wait bounds how long it waits for Views. told: the caller
// gets the report; otherwise it is kept.
func (db *DB) erase(ctx, wait context.Context, e *erasure.Erasure, began time.Time, told bool) error {
	if !e.Rewriting {
		if err := db.eraseKeys(ctx, wait, e); err != nil {
			return fault.Within(erasure.Doing, err)
		}
	}
	if err := db.eraseFiles(ctx, wait, e); err != nil {
		return fault.Within(erasure.Doing, err)
	}
	err := db.applyBare(func(b *pebble.Batch) error {
		if !told {
			reports, err := e.Keep(db.store, db.erasedReport(e, began))
			if err != nil {
				return err
			}
			if err := b.Set(layout.ErasedKey, reports, nil); err != nil {
				return err
			}
		}
		return b.Delete(layout.ErasureKey, nil)
	})
	if err = cmp.Or(err, db.store.SyncLog(nil)); err != nil {
		return err
	}
	db.erasing.Store(nil)
	if db.logged != nil && db.logged.erased != nil {
		db.logged.erased()
	}
	return nil
}

// awaitReaders waits until nobody reads a state of before what was deleted last.
func (db *DB) awaitReaders(ctx, wait context.Context) error {
	lsn := db.syncer.Newest()
	if err := db.syncer.Wait(lsn); err != nil {
		return err
	}
	db.points.dropPast(lsn)
	return db.awaitEnds(ctx, wait, func() bool { return db.points.oldest() >= lsn })
}

// awaitEnds waits until enough Views have ended.
func (db *DB) awaitEnds(ctx, wait context.Context, enough func() bool) error {
	for {
		if err := db.points.expire(); err != nil {
			return err
		}
		if enough() {
			return nil
		}
		if retry.Sleep(wait, eraseLook) != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return readersError()
		}
	}
}

func readersError() error { return unendedError("a View is open that was begun before") }

// unendedError says that an erasure has begun and waits.
func unendedError(why string) error {
	return &fault.Error{
		Kind: fault.ErrBusy, What: erasure.Doing, Why: why,
		Do: "wait for the reads that began before it; the erasure continues in the background; call it again for its report",
	}
}

// refuseErased refuses a write for an owner that is being erased.
func (db *DB) refuseErased(owner uint32) error {
	e := db.erasing.Load()
	if e == nil || !e.All() || !e.HasOwner(owner) {
		return nil
	}
	return &fault.Error{Kind: fault.ErrBusy, What: "write", Why: "its user or agent is being erased", Do: "try again when that is done"}
}

// outOfReach is what an erasure cannot reach.
func (db *DB) outOfReach() (kept []Kept) {
	if len(db.Archives()) > 0 {
		kept = append(kept, Kept{What: "the archive that this database is written to", Why: "its segments of before have it: begin a new archive, and remove the old one"})
	}
	return append(kept, Kept{What: "backups, archives and exports made before", Why: "the database does not know where they are: erase or remove them, too"})
}
