package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
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

// trash keeps what an eviction needs to be undone, for as long as the policy says.
func (tx *Tx) trash(victims []victim, p *policy.Policy) error {
	t := policy.Trash{LSN: tx.lsn, Until: tx.now + p.Trash.Millis()}
	for i := range victims {
		v := &victims[i]
		a := tx.db.accessOf(v.Seq)
		t.Things = append(t.Things, policy.Trashed{Version: v.Version, Confidence: v.confidence, Count: a.Count, Last: a.Last, Into: v.into})
	}
	return t.Keep((*partTx)(tx))
}

// Undo brings back what the commit of an LSN has evicted, pruned or merged away, while the
// trash keeps it: the policy says for how long, from the commit on. A memory comes back under
// its ID and Seq, as an update of what it was, with its vectors, its accesses, and the
// confidence that it had. What it was merged into gives the accesses back, and keeps the
// importance. A memory whose ID was given to another one since stays away. What it had in the
// graph comes back with it: its links to what is there, and the entities and relations that went
// since no other text told of them.
//
// ErrNotRetained where the trash has nothing of that LSN any more, or it was undone. ErrBusy
// while a View is open that is older than the LSN.
func (db *DB) Undo(ctx context.Context, lsn uint64) (report Undone, err error) {
	doing := fmt.Sprintf("undo LSN %d", lsn)
	release, err := db.admit(ctx)
	if err != nil {
		return report, err
	}
	defer release()
	if err := db.turn.lockContext(ctx); err != nil {
		return report, err
	}
	defer db.turn.Unlock()
	if err := db.janitor.rest(ctx); err != nil {
		return report, err
	}
	defer db.chunks.busy.Unlock()
	// What is cleaned up once it is back would lose its keys.
	if err := db.janitor.cleanRanges(ctx, db.points.oldest()); err != nil {
		return report, err
	}
	if db.janitor.cleans(lsn) {
		return report, &fault.Error{Kind: fault.ErrBusy, What: doing, Why: "a View is open that is older", Do: "end it, and try again"}
	}
	err = db.acknowledge(db.update(ctx, func(tx *Tx) error {
		t, known, err := policy.TrashOf((*partTx)(tx), lsn)
		switch {
		case err != nil:
			return err
		case !known:
			return &fault.Error{Kind: fault.ErrNotRetained, What: doing, Why: "the trash has nothing of it", Do: "check the LSN; a policy without trash_ms keeps nothing"}
		case t.Undone:
			return &fault.Error{Kind: fault.ErrNotRetained, What: doing, Why: "it was undone already"}
		case t.Until <= tx.now:
			return &fault.Error{Kind: fault.ErrNotRetained, What: doing, Why: "it is too old: the trash is emptied"}
		}
		report.LSN = tx.lsn
		for i := range t.Things {
			if err := tx.bringBack(ctx, doing, &t.Things[i], &report); err != nil {
				return err
			}
		}
		if err := tx.emptyInGraph(t.Things); err != nil { // of what stays away
			return tx.breaks(err)
		}
		t.Undone = true
		return t.Keep((*partTx)(tx))
	}))
	return report, err
}

// cleans reports whether the death ranges of an LSN are still to be cleaned up.
func (j *janitor) cleans(lsn uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.ranges, func(d layout.DeathRange) bool { return d.LSN == lsn })
}

// bringBack writes a new version of a memory in the trash, unless its ID is another's.
func (tx *Tx) bringBack(ctx context.Context, doing string, x *policy.Trashed, report *Undone) error {
	if _, lives := tx.at(x.Seq); lives {
		return nil
	}
	rec, err := tx.record(x.Version)
	if err != nil {
		return err
	}
	if _, taken, err := tx.findID(x.Owner, rec.ID); taken || err != nil {
		return err
	}
	p := &prepared{rec: *rec, vectors: map[string][]float32{}, explicit: givenFields{id: true}}
	p.rec.Vectors, p.rec.Confidence = nil, x.Confidence
	p.rec.Flags = p.rec.Flags&^(layout.FlagPending|layout.FlagEmbedded) | layout.FlagUpdate
	p.rec.Before = rec.History(x.Version)
	p.rec.Updated = max(tx.now, rec.Updated)
	lost := false
	for _, ref := range rec.Vectors {
		vec, err := tx.vector(x.Version, ref)
		s := tx.spaceByNum(ref.Space)
		if err != nil && !errors.Is(err, fault.ErrCorrupt) { // which it is, too, where it is missing
			return err
		}
		if lost = lost || err != nil || s == nil; err == nil && s != nil {
			p.vectors[s.name] = vec
		}
	}
	if p.rec.Text == "" && len(p.vectors) == 0 {
		return nil // nothing of it is left
	}
	p.pending = tx.db.embedder != nil && p.rec.Text != "" && p.vectors[defaultSpace] == nil
	if err := tx.db.analyse(ctx, p); err != nil {
		return err
	}
	if err := tx.needFor(doing, 2, p.size()); err != nil {
		return err
	}
	_, run, err := tx.scopeNumbers(rec.Scope)
	if err != nil {
		return tx.breaks(err)
	}
	v := layout.Version{Owner: x.Owner, Seq: x.Seq, Born: tx.lsn, Change: tx.change()}
	if err := tx.write(p, &pendingVersion{Version: v, run: run, inherits: doctable.None}); err != nil {
		return err
	}
	tx.logVersioned(layout.LogUpdate, v, &x.Version)
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
// it was merged into. What consolidations had taken is in its confidence.
func (tx *Tx) backAccess(x *policy.Trashed) error {
	a := layout.Access{Count: x.Count, Last: x.Last}
	if a != (layout.Access{}) {
		if err := tx.setAccess(x.Owner, x.Seq, a); err != nil {
			return err
		}
		tx.logAccesses(layout.LogTouch, 1, appendTouch(nil, x.Owner, x.Seq, a))
	}
	seq := x.Seq
	tx.staged = append(tx.staged, stagedChange{tx.lsn, func(uint64) {
		s := tx.db.docs.Seq(seq)
		s.Fade.Store(nil)
		s.Count.Store(a.Count)
		s.Accessed.Store(a.Last)
	}})
	l, lives := tx.at(x.Into)
	if x.Into == 0 || !lives || x.Count == 0 {
		return nil
	}
	return tx.addAccess(l.Owner, l.Seq, layout.Access{Count: -x.Count}) // counts wrap around
}

// emptyTrash removes the vectors of what nobody can bring back any more, and the list of it.
func (db *DB) emptyTrash(ctx context.Context) error {
	for {
		var t policy.Trash
		found := false
		err := db.view(ctx, nil, func(tx *Tx) error {
			return policy.EachTrash((*partTx)(tx), func(of policy.Trash) error {
				if found = (of.Until <= tx.now || of.Undone) && !db.janitor.cleans(of.LSN); found {
					t = of
					return kv.ErrStop
				}
				return nil
			})
		})
		if err != nil || !found {
			return err
		}
		if err := db.dropTrash(ctx, &t); err != nil {
			return err
		}
		// Without chunks.busy: a writer may have to wait for the janitor.
		err = db.Update(ctx, func(tx *Tx) error {
			if !t.Undone { // what came back may be in the trash once more
				if err := tx.emptyInGraph(t.Things); err != nil {
					return err
				}
			}
			return t.Empty((*partTx)(tx))
		})
		if err != nil {
			return err
		}
	}
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
				if _, err := db.dropVersion(b, r, part[i].Version, maxLSN); err != nil {
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
