package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/erasure"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/requests"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// eraseTries and erasePause bound how long what the background holds is waited for: a list that
// is not seen yet, a chunk that cannot be moved at once.
const (
	eraseTries = 200
	erasePause = 10 * time.Millisecond
)

// eraseKeys deletes all keys of an erasure. Each step may come again.
func (db *DB) eraseKeys(ctx, wait context.Context, e *erasure.Erasure) error {
	if err := db.nameErased(ctx, e); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"delete what lives", func() error { return db.eraseLiving(ctx, e) }},
		{"wait for Views", func() error { return db.awaitReaders(ctx, wait) }},
		{"finish what parts have begun", func() error { return db.workParts(ctx) }},
		{"take it out of what others keep", func() error { return db.eraseMentions(ctx, e) }},
		{"remove histories", func() error { return db.eraseHistories(ctx, wait, e) }},
		{"finish what parts have begun", func() error { return db.workParts(ctx) }},
		{"wait for Views", func() error { return db.awaitReaders(ctx, wait) }},
		{"finish what parts have begun", func() error { return db.workParts(ctx) }},
		{"delete what is left", func() error { return db.eraseRest(e) }},
		{"move its words out of the text index", func() error { return db.eraseWords(ctx, &e.Whose) }},
		{"find what the log has of it", func() error { return db.traceLog(ctx, e) }},
		{"take it out of the log", func() error { return db.eraseLog(ctx, e) }},
		{"delete its names", func() error { return db.eraseNames(ctx, e) }},
	} {
		if err := step.do(); err != nil {
			return fault.Within(step.what, err)
		}
	}
	return nil
}

// nameErased finds the names of the owners, which a database that goes on does not know.
func (db *DB) nameErased(ctx context.Context, e *erasure.Erasure) error {
	e.Names = e.Names[:0]
	return db.view(ctx, nil, func(tx *Tx) error {
		return tx.reader().EachOwner(ctx, func(number uint32, o scope.Owner) {
			if e.HasOwner(number) {
				e.Names = append(e.Names, o)
			}
		})
	})
}

// eraseLiving deletes what lives, in a commit for each owner.
func (db *DB) eraseLiving(ctx context.Context, e *erasure.Erasure) error {
	if !e.All() {
		return db.acknowledge(db.update(ctx, func(tx *Tx) error {
			tx.frees = true // also where it stores again the rest of a summary
			if err := e.Delete(tx.erasing(), &tx.rec, (*partTx)(tx)); err != nil {
				return err
			}
			for _, owner := range e.Owners { // an answer of theirs may have the memory
				err := tx.changePart(erasure.Doing, func(t part.Tx) error { return requests.Forget(t, owner) })
				if err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, o := range e.Names {
		err := db.acknowledge(db.update(ctx, func(tx *Tx) error {
			tx.frees = true
			_, err := tx.DeleteOwner(ctx, o)
			return err
		}))
		if err != nil {
			return err
		}
	}
	return nil
}

// workParts has the parts do all that is due: nobody has a state any more of before what was
// deleted.
func (db *DB) workParts(ctx context.Context) error {
	if err := db.cleanDead(ctx); err != nil {
		return err
	}
	db.releaseParts(db.points.oldest())
	for _, p := range db.parts {
		if w, ok := p.(part.Worker); ok {
			if err := w.Work(ctx, runner{db: db}); err != nil {
				return err
			}
		}
	}
	return nil
}

// eraseHistories removes the records of what has died, and what the trash keeps.
func (db *DB) eraseHistories(ctx, wait context.Context, e *erasure.Erasure) error {
	for range eraseTries {
		done, err := db.eraseDeadIn(ctx, &e.Whose, e.RecordSpans(db.keys()))
		if err != nil {
			return err
		}
		if done.left+done.living == 0 {
			if err := db.shown(ctx); err != nil {
				return err
			}
			return db.releaseSeqs(ctx)
		}
		if retry.Sleep(wait, erasePause) != nil {
			break
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return readersError()
}

// eraseMentions takes a memory out of what others keep of it: the messages that refer to it, and
// the ends of memories that were merged into it.
func (db *DB) eraseMentions(ctx context.Context, e *erasure.Erasure) error {
	if e.All() {
		return nil // all of theirs goes
	}
	ids := map[string]bool{}
	for _, span := range e.RecordSpans(db.keys()) {
		err := kv.Scan(db.store, span[0], span[1], func(key, value []byte) error {
			rec, err := layout.DecodeRecord(value)
			if v, ok := layout.ParseRecordKey(key); ok && err == nil && !slices.Contains(e.Archives, v.Seq) {
				ids[rec.ID] = true // that of a summary which is stored again stays
			}
			return nil // what cannot be read, check tells
		})
		if err != nil {
			return err
		}
	}
	if e.Traces == nil { // the IDs are gone with the histories
		if err := db.keepTraces(e, graph.NewTraces(ids)); err != nil {
			return err
		}
	}
	_, seqs := e.Sets()
	for _, owner := range e.Owners {
		if err := partOf[*sessions.Part](db).EraseMemories(ctx, runner{db: db}, owner, seqs, ids); err != nil {
			return err
		}
		if err := partOf[*graph.Part](db).EraseMemories(ctx, runner{db: db}, owner, ids); err != nil {
			return err
		}
		if err := db.eraseSurvivor(owner, ids); err != nil {
			return err
		}
	}
	return nil
}

// eraseSurvivor takes IDs out of the ends of memories that were merged into theirs.
func (db *DB) eraseSurvivor(owner uint32, ids map[string]bool) error {
	prefix := binary.BigEndian.AppendUint32(db.keys().Header(layout.KindHistory, 4), owner)
	return db.applyBare(func(b *pebble.Batch) error {
		return kv.Scan(db.store, prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
			d, err := layout.DecodeDeath(value)
			if err != nil || !ids[d.IntoID] || d.IntoID == "" {
				return nil // what cannot be read, check tells
			}
			d.IntoID = ""
			return b.Set(key, d.Encode(), nil)
		})
	})
}

// eraseRest deletes the keys of owners that nothing else deletes: ends of which the record cannot
// be read, statistics, counters, and what parts keep longer than their things.
func (db *DB) eraseRest(e *erasure.Erasure) error {
	return db.applyBare(func(b *pebble.Batch) error {
		for _, kind := range []byte{layout.KindHistory, layout.KindStats} {
			for _, prefix := range e.OwnedKeys(db.keys(), kind) {
				if err := b.DeleteRange(prefix, layout.PrefixEnd(prefix), nil); err != nil {
					return err
				}
			}
		}
		if !e.All() {
			return nil
		}
		for _, owner := range e.Owners {
			for _, kind := range db.partKinds() {
				if err := b.Delete(db.keys().Counter(kind, owner), nil); err != nil {
					return err
				}
			}
		}
		tx := &Tx{db: db, state: db.stateOf(db.store, state.MaxLSN)}
		span := func(lower, upper []byte) error { return b.DeleteRange(lower, upper, nil) }
		owners, _ := e.Sets()
		for _, p := range db.parts {
			if of, ok := p.(part.Eraser); ok {
				if err := of.EraseOwners((*partTx)(tx), owners, span); err != nil {
					return err
				}
			}
		}
		return db.store.AdmitFreeing(erasure.Doing, b.Len())
	})
}

// eraseWords moves the documents of all chunks of the text index that hold words of documents that
// are erased, or of nobody knows whom: those that a transaction has taken back, and those that had
// died before the chunk was sealed.
func (db *DB) eraseWords(ctx context.Context, of *erasure.Whose) error {
	for range eraseTries {
		more, err := db.eraseWordsOnce(ctx, of)
		if err != nil || !more {
			return err
		}
		if err := db.janitor.work(ctx); err != nil {
			return err
		}
		_ = retry.Sleep(ctx, erasePause)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return &fault.Error{Kind: fault.ErrBusy, What: erasure.Doing, Why: "chunks of the text index cannot be moved beside what is deleted all the time", Do: "try again"}
}

func (db *DB) eraseWordsOnce(ctx context.Context, of *erasure.Whose) (more bool, err error) {
	if err := db.janitor.rest(ctx); err != nil {
		return false, err
	}
	defer db.chunks.busy.Unlock()
	stale, err := db.stale(ctx, of)
	if err != nil || len(stale) == 0 {
		return false, err
	}
	if err := db.closeChunk(ctx, stale); err != nil {
		return true, err
	}
	if err := db.sealChunks(ctx); err != nil {
		return true, err
	}
	sealed := slices.DeleteFunc(stale, func(o occupancy) bool { return !db.chunks.sealed[o.chunk] })
	for len(sealed) > 0 {
		from := db.together(sealed)
		if _, err := db.move(ctx, from); err != nil && !errors.Is(err, errLater) {
			return true, err
		}
		sealed = sealed[len(from):]
	}
	return true, nil
}

// stale are the chunks that hold words of what is erased. The janitor rests.
func (db *DB) stale(ctx context.Context, of *erasure.Whose) (all []occupancy, err error) {
	if err := db.lockBehind(ctx); err != nil {
		return nil, err
	}
	defer db.unlock()
	docs, err := db.tables.NewestIndex.Load().Documents(db.newestText())
	if err != nil {
		return nil, err
	}
	for chunk, n := range docs {
		o := occupancy{chunk: chunk}
		first := uint64(chunk) << 16
		db.tables.Docs.Rows.EachFrom(first, first+1<<16, func(_ uint64, r *doctable.Row) bool {
			switch died := r.Died.Load(); {
			case died == doctable.Alive:
				o.living++
			case died != 0 && r.Seq != 0 && !of.Has(r.Owner, r.Seq):
				o.dead++ // of others
			}
			return true
		})
		if n > o.living+o.dead {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b occupancy) int { return int(a.chunk) - int(b.chunk) })
	return all, nil
}

// closeChunk ends the chunk that grows, if it is one of some.
func (db *DB) closeChunk(ctx context.Context, of []occupancy) error {
	return db.acknowledge(db.updateBehind(ctx, func(tx *Tx) error {
		index := db.tables.NewestIndex.Load()
		number, _, ok := index.Growing()
		if !ok || !slices.ContainsFunc(of, func(o occupancy) bool { return o.chunk == number }) {
			return nil
		}
		if db.grows(number) {
			tx.next.Doc = (uint32(number) + 1) << 16
		}
		tx.rec.LogInternal()
		tx.onApplied(func(uint64) error {
			index.End()
			return nil
		})
		return nil
	}))
}

// eraseNames deletes the names that nothing else has, and says that the keys are gone: what is
// left to do needs no names.
func (db *DB) eraseNames(ctx context.Context, e *erasure.Erasure) error {
	var runs []string
	err := db.view(ctx, nil, func(tx *Tx) (err error) {
		runs, err = tx.erasing().IdleRuns()
		return err
	})
	if err != nil {
		return err
	}
	return db.acknowledge(db.update(ctx, func(tx *Tx) error {
		gone, err := tx.erasing().IdleNames(ctx, e, runs)
		if err != nil {
			return err
		}
		if err := tx.needToFree(erasure.Doing, 64*len(gone)+256); err != nil {
			return err
		}
		e.Gone.Names = int64(len(gone))
		for _, k := range gone {
			if err := tx.del(tx.state.Keys.Name(k.Class, k.Text)); err != nil {
				return err
			}
		}
		next := *e
		next.Rewriting, next.Fields = true, tx.erasing().FieldsLeft(gone)
		next.Commits, next.Archives, next.Traces = nil, nil, nil
		if err := tx.set(layout.ErasureKey, next.Encode()); err != nil {
			return err
		}
		tx.rec.LogInternal()
		tx.onApplied(func(uint64) error {
			for _, k := range gone {
				db.tables.Names.Forget(k)
				if k.Class == layout.NameField {
					db.tables.Fields.Remove(k.Text)
				}
			}
			e.Rewriting, e.Fields, e.GoneNames = next.Rewriting, next.Fields, erasure.OwnerNames(gone) // others read the rest of it meanwhile
			return nil
		})
		return nil
	}))
}

// eraseFiles rewrites the files of the database.
func (db *DB) eraseFiles(ctx, wait context.Context, e *erasure.Erasure) error {
	if err := db.awaitReaders(ctx, wait); err != nil {
		return err
	}
	// What was deleted since without a commit is in the files for every snapshot of before.
	taken := db.store.Taken()
	if err := db.republishNow(ctx); err != nil {
		return err
	}
	if err := db.awaitEnds(ctx, wait, func() bool { return !db.store.Holds(taken) }); err != nil {
		return err
	}
	before, err := db.store.FS.List(db.dir)
	if err != nil {
		return err
	}
	if err := db.spaces.Renew(ctx); err != nil {
		return err
	}
	p, err := db.store.Purge(ctx, func(fill func(*pebble.Batch) error) error {
		if err := db.lockBehind(ctx); err != nil {
			return err
		}
		defer db.unlock()
		return db.applyBare(fill)
	})
	if err != nil {
		return err
	}
	after, err := db.store.FS.List(db.dir)
	if err != nil {
		return err
	}
	e.Report.RewrittenBytes += p.Rewritten
	e.Report.FilesRemoved += p.Removed + len(slices.DeleteFunc(before, func(name string) bool { return slices.Contains(after, name) }))
	found, err := e.Search(ctx, db.store, db.parts)
	if err != nil {
		return err
	}
	e.Report.Left = slices.Concat(e.Stays, found, db.keptOf(e, after))
	return nil
}

// keptOf is what stays in the folder.
func (db *DB) keptOf(e *erasure.Erasure, files []string) (kept []Kept) {
	if e.Fields > 0 {
		kept = append(kept, Kept{What: fmt.Sprintf("%d names of metadata fields", e.Fields), Why: "memories of others have them, too"})
	}
	for _, name := range files {
		if erasure.SetAside(name) {
			kept = append(kept, Kept{What: name, Why: "Salvage or rescue has set it aside, and nothing reads it: remove it"})
		}
	}
	if path := db.store.File().Damaged(); path != "" {
		kept = append(kept, Kept{What: path, Why: "Salvage has set it aside, and nothing reads it: remove it"})
	}
	names, err := db.store.FS.List(db.store.FS.PathJoin(db.dir, "store"))
	if err != nil {
		return kept
	}
	for _, name := range names {
		if erasure.SetAside(name) {
			kept = append(kept, Kept{What: "store/" + name, Why: "Salvage has set it aside, and nothing reads it: remove it"})
		}
	}
	return kept
}

// eraseLog puts marks in the place of the changes in the log that were of what is erased.
func (db *DB) eraseLog(ctx context.Context, e *erasure.Erasure) error {
	if err := db.rewriteLog(ctx, e.WithoutMemories); err != nil {
		return err
	}
	if e.All() || !e.Graph.Types() {
		return nil
	}
	err := e.TraceTypes(ctx, db.store, db.keys())
	if err == nil {
		err = db.acknowledge(db.update(ctx, func(tx *Tx) error {
			return tx.changePart(erasure.Doing, func(t part.Tx) error { return partOf[*graph.Part](db).EraseTypes(t, e.Graph) })
		}))
	}
	if err != nil {
		return err
	}
	return db.rewriteLog(ctx, e.WithoutTypes)
}

// traceLog notes what the log has in the graph of memories that are erased: what the commits name that
// wrote or deleted one, and that is gone.
func (db *DB) traceLog(ctx context.Context, e *erasure.Erasure) error {
	if e.All() {
		return nil
	}
	err := e.TraceLog(ctx, db.store, db.keys())
	if err == nil {
		err = db.view(ctx, nil, func(tx *Tx) error { return e.Graph.Retain((*partTx)(tx)) })
	}
	if err != nil {
		return err
	}
	return db.keepTraces(e, e.Graph)
}

// keepTraces stores what an erasure removes from the log, so that it can continue after a crash.
func (db *DB) keepTraces(e *erasure.Erasure, t *graph.Traces) error {
	e.Traces = t.Encode()
	return db.applyBare(func(b *pebble.Batch) error { return b.Set(layout.ErasureKey, e.Encode(), nil) })
}

// rewriteLog writes the records of the log again that without returns; nil leaves one as it is.
func (db *DB) rewriteLog(ctx context.Context, without func(value []byte) []byte) error {
	lower, upper := db.keys().Span(layout.KindLog)
	for lower != nil {
		next := []byte(nil)
		err := db.applyBare(func(b *pebble.Batch) error {
			err := kv.Scan(db.store, lower, upper, func(key, value []byte) error {
				if b.Len() > cleanBytes {
					next = slices.Clone(key)
					return kv.ErrStop
				}
				if left := without(value); left != nil {
					return b.Set(key, left, nil)
				}
				return ctx.Err()
			})
			if errors.Is(err, kv.ErrStop) {
				err = nil
			}
			if err != nil {
				return err
			}
			return db.store.AdmitFreeing(erasure.Doing, b.Len())
		})
		if err != nil {
			return err
		}
		lower = next
	}
	return nil
}

// cleanBytes bounds a batch of the log.
const cleanBytes = 4 << 20
