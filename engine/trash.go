package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// trashEvery is how often the trash is looked through for what is to be emptied.
const trashEvery = time.Minute

// Undone is the report of an Undo.
type Undone struct {
	// Restored is how many memories came back, WithoutVectors how many of them lack vectors
	// that they had.
	Restored       int    `json:"restored"`
	WithoutVectors int    `json:"without_vectors"`
	LSN            uint64 `json:"lsn"`
}

// dueTime is when the trash has something to be emptied next, in Unix milliseconds. It spares the
// looks before: the trash may have as many lists as there were commits in a month.
type dueTime struct{ at atomic.Int64 }

func (d *dueTime) before(at int64) {
	for due := d.at.Load(); at < due && !d.at.CompareAndSwap(due, at); {
		due = d.at.Load()
	}
}

// undoBatch is how many memories one commit brings back: each is written and indexed anew.
const undoBatch = 1000

// Undo brings back what the commit of an LSN has evicted, pruned or merged away, while the
// trash keeps it: the policy says for how long, from the commit on. The LSN of a consolidation
// brings back all that it has taken, which may have been several commits. A memory comes back
// under its ID and Seq, as an update of what it was, with its vectors, its accesses, the
// confidence that it had, and what it had in the graph: its links to what is there, and the
// entities and relations that went since no other text told of them. What it was merged into gives
// the accesses and links back, and, unless it was changed since, has the importance, the pin and the
// confidence that it had. With its present text what is back is not merged any more; one that was
// evicted counts as accessed now. A memory whose ID was given to another one since stays away.
//
// It takes a commit for every thousand memories. One that is interrupted goes on where it was
// called again.
//
// ErrNotRetained where the trash has nothing of that LSN any more, or it was undone. ErrBusy where a
// View is open for two seconds more that is older than the LSN.
func (db *DB) Undo(ctx context.Context, lsn uint64) (report Undone, err error) {
	doing := fmt.Sprintf("undo LSN %d", lsn)
	if ctx, err = db.apart(ctx, doing); err != nil {
		return report, err
	}
	release, err := db.admit(ctx)
	if err != nil {
		return report, err
	}
	defer release()
	if err := db.turn.LockContext(ctx); err != nil {
		return report, err
	}
	defer db.turn.Unlock()
	if err := db.awaitOlder(ctx, lsn); err != nil {
		return report, err
	}
	if err := db.janitor.rest(ctx); err != nil {
		return report, err
	}
	defer db.chunks.busy.Unlock()
	// What is cleaned up once it is back would lose its keys.
	if err := db.janitor.cleanRanges(ctx, db.points.oldest()); err != nil {
		return report, err
	}
	chain, err := db.undoable(ctx, doing, lsn)
	if err != nil {
		return report, err
	}
	for i := range chain { // the newest first: what it has merged may have survived an older one
		if err := db.undoOne(ctx, doing, &chain[i], &report); err != nil {
			return report, err
		}
	}
	// The first one last: an Undo that was interrupted begins with it again.
	for i := range slices.Backward(chain) {
		t := &chain[i]
		err = db.acknowledge(db.update(ctx, func(tx *Tx) error {
			report.LSN = tx.state.LSN
			t.Undone = true
			return t.Keep((*partTx)(tx))
		}))
		if err != nil {
			return report, err
		}
	}
	db.due.trash.before(0)
	return report, nil
}

// undoable is the trash of an LSN, and what the same consolidation has put in the trash before.
func (db *DB) undoable(ctx context.Context, doing string, lsn uint64) (chain []policy.Trash, err error) {
	refuse := func(why, do string) error {
		return &fault.Error{Kind: fault.ErrNotRetained, What: doing, Why: why, Do: do}
	}
	err = db.view(ctx, nil, func(tx *Tx) error {
		t, known, err := policy.TrashOf((*partTx)(tx), lsn)
		switch {
		case err != nil:
			return err
		case !known:
			return refuse("the trash has nothing of it", "check the LSN; a policy without trash_ms keeps nothing")
		case t.Undone:
			return refuse("it was undone already", "")
		case t.Until <= tx.state.Now:
			return refuse("it is too old: the trash is emptied", "")
		}
		for known && err == nil {
			if !t.Undone {
				chain = append(chain, t)
			}
			if t.Before == 0 || t.Before >= t.LSN {
				return nil
			}
			t, known, err = policy.TrashOf((*partTx)(tx), t.Before)
		}
		return err
	})
	for i := range chain {
		if err == nil && db.janitor.cleans(chain[i].LSN) {
			err = &fault.Error{Kind: fault.ErrBusy, What: doing, Why: "a View is open that is older", Do: "end it, and try again"}
		}
	}
	return chain, err
}

// undoOne brings back what one commit has put in the trash.
func (db *DB) undoOne(ctx context.Context, doing string, t *policy.Trash, report *Undone) error {
	for left := t.Things; len(left) > 0; {
		var done Undone
		n := 0
		err := db.acknowledge(db.update(ctx, func(tx *Tx) error {
			done = Undone{LSN: tx.state.LSN}
			for n = 0; n < min(len(left), undoBatch); n++ {
				err := tx.bringBack(ctx, doing, t.LSN, &left[n], &done)
				if errors.Is(err, fault.ErrTxTooLarge) && n > 0 {
					return nil // the others are for the next transaction
				}
				if err != nil {
					return err
				}
			}
			return nil
		}))
		if err != nil {
			return err
		}
		left = left[n:]
		report.Restored, report.WithoutVectors, report.LSN = report.Restored+done.Restored, report.WithoutVectors+done.WithoutVectors, done.LSN
	}
	return db.acknowledge(db.update(ctx, func(tx *Tx) error {
		report.LSN = tx.state.LSN
		if err := tx.emptyInGraph(t.Things); err != nil { // of what stays away
			return tx.breaks(err)
		}
		for i := range t.Heirs {
			if err := tx.ageing().Disinherit(ctx, doing, &t.Heirs[i]); err != nil {
				return err
			}
		}
		return nil
	}))
}

// cleans reports whether the death ranges of an LSN are still to be cleaned up.
func (j *janitor) cleans(lsn uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.ranges, func(d layout.DeathRange) bool { return d.LSN == lsn })
}

// bringBack writes a new version of a memory in the trash, unless its ID is another's, or it was
// back since, and died in another way.
func (tx *Tx) bringBack(ctx context.Context, doing string, lsn uint64, x *policy.Trashed, report *Undone) error {
	if _, lives := tx.reader().At(x.Seq); lives {
		return nil
	}
	if died, err := tx.reader().DeathOf(x.Owner, x.Seq); err != nil || died == nil || died.Where.Born != lsn {
		return err
	}
	rec, err := tx.state.Record(x.Version)
	if err != nil {
		return err
	}
	if _, taken, err := tx.reader().FindID(x.Owner, rec.ID); taken || err != nil {
		return err
	}
	p := &records.Prepared{Rec: *rec, Vectors: map[string][]float32{}, Given: records.GivenFields{ID: true}}
	p.Rec.Vectors, p.Rec.Confidence = nil, x.Confidence
	p.Rec.Flags = p.Rec.Flags&^(layout.FlagPending|layout.FlagEmbedded) | layout.FlagUpdate | layout.FlagApart
	p.Rec.Before = rec.History(x.Version)
	p.Rec.Updated = max(tx.state.Now, rec.Updated)
	lost := false
	for _, ref := range rec.Vectors {
		vec, err := tx.reader().Vector(x.Version, ref)
		s := tx.reader().SpaceNumbered(ref.Space)
		if err != nil && !errors.Is(err, fault.ErrCorrupt) { // which it is, too, where it is missing
			return err
		}
		if lost = lost || err != nil || s == nil; err == nil && s != nil {
			p.Vectors[s.Name] = vec
		}
	}
	if p.Rec.Text == "" && len(p.Vectors) == 0 {
		return nil // nothing of it is left
	}
	p.Pending = tx.db.embedder != nil && p.Rec.Text != "" && p.Vectors[memory.DefaultSpace] == nil
	if err := records.Analyse(ctx, &tx.db.tables, p); err != nil {
		return err
	}
	if err := tx.needFor(doing, 2, p.Size()); err != nil {
		return err
	}
	_, run, err := tx.rec.ScopeNumbers(rec.Scope)
	if err != nil {
		return tx.breaks(err)
	}
	v := layout.Version{Owner: x.Owner, Seq: x.Seq, Born: tx.state.LSN, Change: tx.change()}
	if err := tx.rec.Write(p, &records.Pending{Version: v, Run: run, Inherits: doctable.None}); err != nil {
		return err
	}
	tx.rec.LogVersioned(layout.LogUpdate, v, &x.Version)
	report.Restored++
	if lost {
		report.WithoutVectors++
	}
	if err := tx.backAccess(x); err != nil {
		return err
	}
	return tx.rememberInGraph(rec.Scope.Owner(), x.Owner, x.Seq)
}

// backAccess gives a memory that is back the accesses that it had, and takes them from what
// it was merged into. What consolidations had taken is in its confidence. Who brings back what
// was evicted looks at it: it counts as accessed now, or the next eviction would take it again.
func (tx *Tx) backAccess(x *policy.Trashed) error {
	a := layout.Access{Count: x.Count, Last: x.Last}
	if x.Into == 0 {
		a.Last = max(a.Last, tx.state.Now)
	}
	if err := tx.rec.SetAccess(x.Owner, x.Seq, a); err != nil { // the count that was kept has what was gathered
		return err
	}
	seq := x.Seq
	tx.onApplied(func(uint64) error {
		s := tx.db.tables.Docs.Seq(seq)
		s.Fade.Store(nil)
		s.Count.Store(a.Count)
		s.Accessed.Store(a.Last)
		return nil
	})
	l, lives := tx.reader().At(x.Into)
	if x.Into == 0 || !lives || x.Count == 0 {
		return nil
	}
	return tx.ageing().AddAccess(l.Owner, l.Seq, layout.Access{Count: -x.Count}) // counts wrap around
}

// emptyTrash removes the vectors of what nobody can bring back any more, and the list of it.
func (db *DB) emptyTrash(ctx context.Context) error {
	db.due.emptying.Lock()
	defer db.due.emptying.Unlock()
	if db.now() < db.due.trash.at.Load() || db.steady.jumped() {
		return nil
	}
	db.due.trash.at.Store(math.MaxInt64)
	var due []uint64
	next := int64(math.MaxInt64)
	err := db.view(ctx, nil, func(tx *Tx) error {
		if tx.state.LSN < db.due.newest.Load() {
			next = 0 // a list is applied and not to be seen yet: its time was given before ours was taken away
		}
		return policy.EachTrash((*partTx)(tx), func(of policy.Trash) error {
			switch {
			case of.Until > tx.state.Now && !of.Undone:
				next = min(next, of.Until)
			case db.waitsForJanitor(of.LSN):
				next = 0
			default:
				due = append(due, of.LSN)
			}
			return ctx.Err()
		})
	})
	for len(due) > 0 && err == nil {
		if err = db.emptyOne(ctx, due[0]); err == nil {
			due = due[1:]
		}
	}
	if err != nil {
		next = 0
	}
	db.due.trash.before(next)
	return err
}

// waitsForJanitor reports whether what a commit has put in the trash is still to be cleaned up. The janitor
// has the trash looked at again once it has done that.
func (db *DB) waitsForJanitor(lsn uint64) bool {
	if !db.janitor.cleans(lsn) {
		return false
	}
	db.due.uncleaned.Store(true)
	return db.janitor.cleans(lsn) // it may have ended before it was told
}

// tellTrash has the trash looked at.
func (d *due) tellTrash() {
	select {
	case d.look <- struct{}{}:
	default:
	}
}

// emptyOne removes the trash of an LSN.
func (db *DB) emptyOne(ctx context.Context, lsn uint64) error {
	var t policy.Trash
	known := false
	err := db.view(ctx, nil, func(tx *Tx) (err error) {
		t, known, err = policy.TrashOf((*partTx)(tx), lsn)
		return err
	})
	if err != nil || !known {
		return err
	}
	if err := db.dropTrash(ctx, &t); err != nil {
		return err
	}
	// Without chunks.busy: a writer may have to wait for the janitor.
	return db.Update(ctx, func(tx *Tx) error {
		if !t.Undone {
			if err := tx.emptyInGraph(t.Things); err != nil {
				return err
			}
		}
		return t.Empty((*partTx)(tx))
	})
}

// dropTrash removes what clean-up has left of the memories in the trash: again after a crash.
func (db *DB) dropTrash(ctx context.Context, t *policy.Trash) error {
	if err := db.janitor.rest(ctx); err != nil {
		return err
	}
	defer db.chunks.busy.Unlock()
	for part := range slices.Chunk(t.Things, cleanBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := db.applySwept(func(b *pebble.Batch, r kv.Reader) error {
			for i := range part {
				if _, err := db.dropVersion(b, r, part[i].Version, state.MaxLSN); err != nil {
					return err
				}
			}
			return db.store.AdmitFreeing(doingClean, b.Len())
		})
		if err != nil {
			return err
		}
	}
	return nil
}
