package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// deleteTeas deletes two of three memories of storeTeas.
func deleteTeas(t testing.TB, db *DB) {
	t.Helper()
	var doomed []string
	for _, m := range everyMemory(t, db.Memories()) {
		if m.Seq%3 != 0 {
			doomed = append(doomed, m.ID)
		}
	}
	for _, id := range doomed {
		if err := db.Memories().Delete(t.Context(), memory.Scope{}, id); err != nil {
			t.Fatal(err)
		}
	}
}

func everyMemory(t testing.TB, mm Memories) (all []memory.Memory) {
	t.Helper()
	q := memory.ListQuery{AllScopes: true, Limit: 100}
	for {
		page, err := mm.List(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Memories...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
}

// waitMoved waits until no chunk is to be sealed, and none is sparse.
func (db *DB) waitMoved(t testing.TB) (chunks int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		db.janitor.wake()
		time.Sleep(2 * time.Millisecond)
		db.chunks.busy.Lock()
		chunks = len(db.chunks.sealed)
		db.chunks.graves++ // look even if few have died
		done := len(db.tables.NewestIndex.Load().Sealable()) == 0 && len(db.sparse()) == 0
		db.chunks.busy.Unlock()
		if done {
			return chunks
		}
	}
	t.Fatal("sparse chunks are not moved")
	return 0
}

// TestMove: the documents of sparse chunks move, in the order of their owners. What
// is found stays as it was to the bit, also for a View from before, and once the
// database is opened again.
func TestMove(t *testing.T) {
	race.Sequential(t)
	fs := vfs.NewMem()
	db := openTest(t, fs, rebuildOptions())
	for i := range 3 {
		vec := []float32{1, float32(i), 2}
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "v"}, Text: fmt.Sprint("with a vector ", i), Embedding: vec})
	}
	storeTeas(t, db, 1200)
	sealed := db.waitSealed(t)
	near := memory.Query{Scope: memory.Scope{User: "v"}, Embedding: []float32{1, 1, 2}, Profile: memory.ProfileVector, NoTouch: true}
	var after [][]memory.Hit
	var vectors []memory.Hit
	db.chunks.busy.Lock() // nothing moves until the second View has begun
	err := db.View(t.Context(), func(tx *Tx) error {
		old, list := teaAnswers(t, tx.Memories()), everyMemory(t, tx.Memories())
		deleteTeas(t, db)
		after, vectors = teaAnswers(t, db.Memories()), mustRecall(t, db.Memories(), near)
		if !reflect.DeepEqual(old, teaAnswers(t, tx.Memories())) || !reflect.DeepEqual(list, everyMemory(t, tx.Memories())) {
			t.Error("a View sees what was deleted after it")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(t.Context(), func(tx *Tx) error {
		db.chunks.busy.Unlock()
		left := db.waitMoved(t)
		if left > sealed/2 {
			t.Errorf("%d chunks are left of %d", left, sealed)
		}
		if db.tables.Docs.Moved.Load() <= tx.LSN() {
			t.Error("nothing moved beside the View")
		}
		if !reflect.DeepEqual(after, teaAnswers(t, tx.Memories())) || !reflect.DeepEqual(vectors, mustRecall(t, tx.Memories(), near)) {
			t.Error("a View from before sees other answers")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := int(mustStats(t, db).Memories)
	for range 3 {
		if !reflect.DeepEqual(after, teaAnswers(t, db.Memories())) || !reflect.DeepEqual(vectors, mustRecall(t, db.Memories(), near)) {
			t.Fatal("the answers differ")
		}
		mustCheck(t, db, want)
		closeTest(t, db)
		db = openTest(t, fs, rebuildOptions())
	}
	if !slices.IsSortedFunc(db.living(slices.Collect(func(yield func(uint16) bool) {
		db.chunks.busy.Lock()
		defer db.chunks.busy.Unlock()
		for _, o := range db.occupied() {
			if o.dead == 0 && o.living > 100 {
				yield(o.chunk)
				return
			}
		}
	})), func(a, b uint32) int { return int(db.tables.Docs.Row(a).Owner) - int(db.tables.Docs.Row(b).Owner) }) {
		t.Error("the moved documents are not in the order of their owners")
	}
	closeTest(t, db)
}

// TestMoveAndRebuild: a rebuild while a View from before a move is open leaves each
// memory once, also where the process is killed right after it.
func TestMoveAndRebuild(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := sealedTeas(t, fs, 600)
	var killed *vfs.MemFS
	var want int
	err := db.View(t.Context(), func(tx *Tx) error {
		old := teaAnswers(t, tx.Memories())
		deleteTeas(t, db)
		err := db.View(t.Context(), func(before *Tx) error {
			db.waitMoved(t)
			if db.tables.Docs.Moved.Load() <= tx.LSN() {
				t.Error("nothing moved beside the Views")
			}
			for _, m := range everyMemory(t, db.Memories())[:20] { // some have yet another version
				text := m.Text + " again"
				if _, err := db.Memories().Update(t.Context(), memory.Scope{}, m.ID, memory.Patch{Text: &text}); err != nil {
					return err
				}
			}
			return db.Rebuild(t.Context(), IndexText, nil)
		})
		if !reflect.DeepEqual(old, teaAnswers(t, tx.Memories())) {
			t.Error("a View from before sees other answers")
		}
		want = int(mustStats(t, db).Memories)
		killed = fs.CrashClone(vfs.CrashCloneCfg{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	mustCheck(t, db, want)
	closeTest(t, db)
	db = openTest(t, killed, rebuildOptions())
	mustCheck(t, db, want)
	if n := int(mustStats(t, db).Memories); n != want {
		t.Errorf("%d memories, there were %d", n, want)
	}
	closeTest(t, db)
}

// TestMoveBesideOthers: writers, transactions that are taken back and readers go on
// while documents move, and nothing is lost or seen twice.
func TestMoveBesideOthers(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, rebuildOptions())
	ctx := t.Context()
	var writers, others sync.WaitGroup
	stop := make(chan struct{})
	const each = 200
	for w := range 3 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 9))
			user := memory.Scope{User: fmt.Sprint("w", w)}
			for i := range each {
				id := fmt.Sprint(w, "-", i)
				mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: user, Text: "zebra " + id, Embedding: []float32{1, float32(i), 3}})
				if i%4 != 0 { // one of four stays
					if err := db.Memories().Delete(ctx, user, id); err != nil {
						t.Error(err)
					}
				}
				if i%10 == 9 {
					_ = db.Update(ctx, func(tx *Tx) error {
						id := fmt.Sprint(w, "-", 4*rng.IntN(i/4+1))
						if err := tx.Memories().Delete(ctx, user, id); err != nil {
							t.Error(err)
						}
						mustRecall(t, tx.Memories(), memory.Query{Scope: user, Text: "zebra", Profile: memory.ProfileText})
						time.Sleep(time.Millisecond)
						return context.Canceled
					})
				}
			}
		})
	}
	for w := range 2 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				q := memory.Query{Scope: memory.Scope{User: fmt.Sprint("w", w)}, Text: "zebra", Profile: memory.ProfileText, Limit: 1000, NoTouch: true}
				err := db.View(ctx, func(tx *Tx) error {
					n := len(mustRecall(t, tx.Memories(), q))
					time.Sleep(time.Millisecond)
					hits := mustRecall(t, tx.Memories(), q)
					ids := map[string]bool{}
					for _, h := range hits {
						ids[h.ID] = true
					}
					if len(hits) != n || len(ids) != n {
						t.Errorf("a View sees %d hits of %d memories, and saw %d", len(hits), len(ids), n)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				db.janitor.wake()
			}
		})
	}
	writers.Wait()
	close(stop)
	others.Wait()
	for range 2 {
		db.waitMoved(t)
		mustCheck(t, db, 3*each/4)
		for w := range 3 {
			q := memory.Query{Scope: memory.Scope{User: fmt.Sprint("w", w)}, Text: "zebra", Profile: memory.ProfileText, Limit: 1000}
			if hits := mustRecall(t, db.Memories(), q); len(hits) != each/4 {
				t.Errorf("%d of %d are found", len(hits), each/4)
			}
			q.Text, q.Embedding, q.Profile = "", []float32{1, 0, 3}, memory.ProfileVector
			if hits := mustRecall(t, db.Memories(), q); len(hits) != each/4 {
				t.Errorf("%d of %d are found by their vectors", len(hits), each/4)
			}
		}
		closeTest(t, db)
		db = openTest(t, fs, rebuildOptions())
	}
	closeTest(t, db)
}

// strayPages counts pages of chunks that are not sealed. The janitor is busy.
func strayPages(t testing.TB, db *DB) (n int) {
	t.Helper()
	lower, upper := db.keys().Span(layout.KindText)
	err := kv.Scan(db.store, lower, upper, func(key, _ []byte) error {
		if chunk, ok := db.tables.NewestIndex.Load().ChunkOf(key); !ok || !db.chunks.sealed[chunk] {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sparseTeas is a database with sparse chunks, the janitor of which rests until
// release is called, and the documents of one chunk, written anew but not committed.
func sparseTeas(t *testing.T, fs vfs.FS) (db *DB, m *mover, release func()) {
	t.Helper()
	db = openTest(t, fs, rebuildOptions())
	storeTeas(t, db, 600)
	db.waitSealed(t)
	janitorDone(t, db) // which numbers are free is not for readers behind the opening to say
	db.chunks.busy.Lock()
	release = sync.OnceFunc(db.chunks.busy.Unlock)
	t.Cleanup(release)
	deleteTeas(t, db)
	from := db.sparse()
	m = &mover{db: db, from: from, docs: db.living(from)}
	if ok, err := m.reserve(t.Context()); err != nil || !ok || len(m.docs) == 0 {
		t.Fatalf("%d documents to move to chunk %d: %v, %v", len(m.docs), m.chunk, ok, err)
	}
	if err := db.sealChunks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db, m, release
}

// TestMoveOfNone: where all that was to be moved has died before the commit, nothing
// is left of it, and its number is free.
func TestMoveOfNone(t *testing.T) {
	race.Sequential(t)
	fs := vfs.NewMem()
	db, m, release := sparseTeas(t, fs)
	for _, doc := range m.docs {
		if err := db.Memories().Delete(t.Context(), memory.Scope{}, idOf(t, db, doc)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strayPages(t, db); n > 0 {
		t.Errorf("%d pages are left", n)
	}
	if db.chunks.used[m.chunk] {
		t.Errorf("chunk %d is taken", m.chunk)
	}
	release()
	mustCheck(t, db, int(mustStats(t, db).Memories))
	closeTest(t, db)
	db = openTest(t, fs, rebuildOptions())
	mustCheck(t, db, int(mustStats(t, db).Memories))
	closeTest(t, db)
}

// idOf is the ID of the memory of a document.
func idOf(t testing.TB, db *DB, doc uint32) (id string) {
	t.Helper()
	err := db.View(t.Context(), func(tx *Tx) error {
		rec, err := tx.state.Record(db.tables.Docs.Row(doc).Version)
		if err == nil {
			id = rec.ID
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestMoveLater: a move that a death range keeps from its commit is begun again once
// that is cleaned up, under the same number.
func TestMoveLater(t *testing.T) {
	race.Sequential(t)
	db, m, release := sparseTeas(t, vfs.NewMem())
	held := db.points.acquire(nil) // it cannot be cleaned up
	n, err := db.Memories().DeleteMatching(t.Context(), memory.DeleteQuery{AllScopes: true, Filter: filter.Eq("metadata.n", 4)})
	if err != nil || n == 0 {
		t.Fatalf("%d are deleted, %v", n, err)
	}
	if err := m.giveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = db.move(t.Context(), m.from)
	wantError(t, "move", err, errLater)
	if n := strayPages(t, db); n > 0 {
		t.Errorf("%d pages are left", n)
	}
	db.chunks.graves = 1000
	next := nextDoc(t, db)
	done, stop := context.WithCancel(t.Context())
	stop()
	if err := db.moveChunks(done); err != nil {
		t.Errorf("it is begun, although it would be in vain: %v", err)
	}
	if err := db.moveChunks(t.Context()); err != nil || db.chunks.graves != 1000 {
		t.Errorf("%v, and %d graves are left of 1000", err, db.chunks.graves)
	}
	if n := nextDoc(t, db); n != next {
		t.Errorf("%d document numbers are gone", n-next)
	}
	if err := db.points.done(nil, held); err != nil {
		t.Error(err)
	}
	release()
	db.waitMoved(t)
	db.chunks.busy.Lock()
	if db.tables.Docs.Moved.Load() == 0 || !db.chunks.sealed[m.chunk] {
		t.Errorf("nothing moved to chunk %d", m.chunk)
	}
	db.chunks.busy.Unlock()
	mustCheck(t, db, int(mustStats(t, db).Memories))
	closeTest(t, db)
}

// TestMoveSettles: what a death range takes while documents are moved stays dead, and the
// move is not in vain.
func TestMoveSettles(t *testing.T) {
	race.Sequential(t)
	db, m, release := sparseTeas(t, vfs.NewMem())
	before := int(mustStats(t, db).Memories)
	n, err := db.Memories().DeleteMatching(t.Context(), memory.DeleteQuery{AllScopes: true, Filter: filter.Eq("metadata.n", 4)})
	if err != nil || n == 0 {
		t.Fatalf("%d are deleted, %v", n, err)
	}
	if err := m.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if db.tables.Docs.Moved.Load() == 0 || !db.chunks.sealed[m.chunk] {
		t.Errorf("nothing moved to chunk %d", m.chunk)
	}
	release()
	mustCheck(t, db, before-n)
	closeTest(t, db)
}

// TestMoveFails: damage that a move meets leaves no page of it, and takes no number
// the next time.
func TestMoveFails(t *testing.T) {
	race.Sequential(t)
	fs := vfs.NewMem()
	db := sealedTeas(t, fs, 600)
	db.chunks.busy.Lock()
	deleteTeas(t, db)
	from := db.sparse()
	source := layout.ChunkOf(db.living(from)[0])
	damage(t, db, layout.KindText, func(key []byte) bool {
		return binary.BigEndian.Uint16(key[layout.KeyHeader:]) == source && key[layout.KeyHeader+2] == 't'
	})
	_, err := db.move(t.Context(), from)
	wantError(t, "move", err, fault.ErrCorrupt)
	if n := strayPages(t, db); n > 0 {
		t.Errorf("%d pages are left", n)
	}
	next := nextDoc(t, db)
	_, err = db.move(t.Context(), from)
	wantError(t, "move again", err, fault.ErrCorrupt)
	if n := nextDoc(t, db); n != next {
		t.Errorf("%d document numbers are gone", n-next)
	}
	db.chunks.busy.Unlock()
	closeTest(t, db)
}

// TestMoveInterrupted: pages of a move that a crash has cut short are gone once the
// database is opened.
func TestMoveInterrupted(t *testing.T) {
	race.Sequential(t)
	fs := vfs.NewCrashableMem()
	db, _, _ := sparseTeas(t, fs)
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "other"}, Text: "makes what is before it durable"})
	if strayPages(t, db) == 0 {
		t.Fatal("nothing was written")
	}
	want := int(mustStats(t, db).Memories)
	db = openTest(t, fs.CrashClone(vfs.CrashCloneCfg{}), Options{})
	db.chunks.busy.Lock()
	if n := strayPages(t, db); n > 0 {
		t.Errorf("%d pages are left", n)
	}
	db.chunks.busy.Unlock()
	mustCheck(t, db, want)
	closeTest(t, db)
}

// TestMoveWaitsForDeaths: a few deaths are not worth a look at the chunks, and no
// number.
func TestMoveWaitsForDeaths(t *testing.T) {
	race.Sequential(t)
	o := rebuildOptions()
	o.lookLeast = 0
	db := openTest(t, vfs.NewMem(), o)
	storeTeas(t, db, 600)
	db.waitSealed(t)
	for range 2 { // small chunks are merged
		janitorDone(t, db)
	}
	moved := db.tables.Docs.Moved.Load()
	deleteTeas(t, db)
	next := nextDoc(t, db)
	janitorDone(t, db)
	if n := nextDoc(t, db); db.tables.Docs.Moved.Load() != moved || n != next {
		t.Errorf("moved as of LSN %d after %d, next document %d after %d", db.tables.Docs.Moved.Load(), moved, n, next)
	}
	db.chunks.busy.Lock()
	if db.chunks.graves == 0 || len(db.sparse()) == 0 {
		t.Errorf("%d graves, sparse chunks %v", db.chunks.graves, db.sparse())
	}
	db.chunks.busy.Unlock()
	closeTest(t, db)
}

// TestMoveReleases: however often memories are updated, what RAM holds of their
// documents does not grow, once no View sees them; and all else is as it was.
func TestMoveReleases(t *testing.T) {
	race.Sequential(t)
	db := openTest(t, vfs.NewMem(), rebuildOptions())
	ctx, s := t.Context(), memory.Scope{User: "u", Run: "r"}
	const n, rounds = 200, 6
	for i := range n {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: s, Text: fmt.Sprint("tea ", i), Embedding: []float32{1, float32(i)}})
	}
	update := func(round, from int) {
		for i := from; i < n; i++ {
			text := fmt.Sprint("tea ", i, " of round ", round)
			if _, err := db.Memories().Update(ctx, s, fmt.Sprint(i), memory.Patch{Text: &text}); err != nil {
				t.Fatal(err)
			}
		}
	}
	pages := func() int64 {
		d := &db.tables.Docs
		return d.Rows.Pages.Load() + d.Glances.Docs.Pages.Load() + d.Plain.Words.Pages.Load() + db.spaces.All()[0].Slots.Pages.Load()
	}
	released := func() bool {
		db.waitMoved(t)
		db.janitor.wake()
		db.chunks.busy.Lock()
		defer db.chunks.busy.Unlock()
		return len(db.chunks.left) == 0
	}
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			if holds() {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Fatalf("%s: %d pages, %v", what, pages(), db.chunks.left)
	}
	for i := range 10 { // the documents of which nothing newer takes the place
		if err := db.Memories().Delete(ctx, s, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	update(0, 10)
	eventually("after the first round", released)
	q := memory.Query{Scope: s, Text: "tea 100", Embedding: []float32{1, 100}, NoTouch: true}
	first := pages()
	err := db.View(ctx, func(tx *Tx) error {
		hits, all := mustRecall(t, tx.Memories(), q), everyMemory(t, tx.Memories())
		for round := 1; round < 4; round++ {
			update(round, 10)
			db.waitMoved(t)
		}
		if !reflect.DeepEqual(hits, mustRecall(t, tx.Memories(), q)) || !reflect.DeepEqual(all, everyMemory(t, tx.Memories())) {
			t.Error("a View lost what it sees")
		}
		if pages() <= first {
			t.Error("nothing is held for a View")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for round := 4; round < rounds; round++ {
		update(round, 10)
		db.waitMoved(t)
	}
	eventually("at the end", func() bool { return released() && pages() <= 4*first })
	if hits := mustRecall(t, db.Memories(), q); len(hits) != 10 || hits[0].ID != "100" {
		t.Errorf("recalled %v", hits)
	}
	if _, err := db.Memories().Get(ctx, s, "3"); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("a deleted memory: %v", err)
	}
	if h, err := db.Memories().History(ctx, s, "3"); err != nil || len(h) != 2 {
		t.Errorf("the history of a deleted memory: %v, %v", h, err)
	}
	if h, err := db.Memories().History(ctx, s, "150"); err != nil || len(h) != rounds+1 {
		t.Errorf("%d entries of history, %v", len(h), err)
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "3", Scope: s, Text: "tea again"})
	mustCheck(t, db, n-9)
	closeTest(t, db)
}

// TestDeadChunksRelease: what RAM holds of the documents of a chunk goes when all of
// them have died, however they did, and without anybody who reads.
func TestDeadChunksRelease(t *testing.T) {
	ctx, s := t.Context(), memory.Scope{User: "u"}
	for _, c := range []struct {
		how  string
		die  func(*DB) error
		most int64 // pages of rows that may be left
	}{
		{"updated before they are sealed", func(db *DB) error {
			for i := range 2000 {
				text := fmt.Sprint("tea ", i)
				if _, err := db.Memories().Update(ctx, s, "7", memory.Patch{Text: &text}); err != nil {
					return err
				}
			}
			return nil
		}, 8},
		{"reset", func(db *DB) error {
			_, err := db.Reset(ctx)
			return err
		}, 1},
		{"deleted with their scope", func(db *DB) error {
			_, err := db.Memories().DeleteScope(ctx, s)
			return err
		}, 1},
	} {
		t.Run(c.how, func(t *testing.T) {
			db := openTest(t, vfs.NewMem(), rebuildOptions())
			for i := range 300 {
				mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: s, Text: fmt.Sprint("tea ", i), Embedding: []float32{1, float32(i)}})
			}
			db.waitSealed(t)
			before := db.tables.Docs.Rows.Pages.Load()
			if err := c.die(db); err != nil {
				t.Fatal(err)
			}
			pages := &db.tables.Docs.Rows.Pages
			for deadline := time.Now().Add(patience); pages.Load() > c.most && time.Now().Before(deadline); {
				time.Sleep(5 * time.Millisecond)
			}
			if pages.Load() > c.most {
				t.Errorf("%d pages of rows; %d before, in %d chunks", pages.Load(), before, nextDoc(t, db)>>16+1)
			}
			closeTest(t, db)
		})
	}
}

// TestMovedAndDeleted: the vectors of what has moved, and was deleted with its scope, are
// there until the clean-up, by which an opening after a crash knows that it died.
func TestMovedAndDeleted(t *testing.T) {
	race.Sequential(t)
	fs := vfs.NewCrashableMem()
	db := openTest(t, fs, rebuildOptions())
	ctx := t.Context()
	user := memory.Scope{User: "v"}
	for i := range 20 {
		mustStore(t, db.Memories(), memory.Memory{Scope: user, Text: fmt.Sprint("with a vector ", i), Embedding: []float32{1, float32(i)}})
	}
	storeTeas(t, db, 600)
	db.waitSealed(t)
	db.chunks.busy.Lock() // it moves nothing before there is a View
	deleteTeas(t, db)
	err := db.View(ctx, func(tx *Tx) error { // the old numbers are not reclaimed meanwhile
		db.chunks.busy.Unlock()
		db.janitor.wake()
		db.waitMoved(t)
		if db.tables.Docs.Moved.Load() <= tx.LSN() {
			t.Error("nothing moved")
		}
		db.chunks.busy.Lock()
		if n, err := db.Memories().DeleteScope(ctx, user); n == 0 || err != nil {
			t.Errorf("%d deleted, %v", n, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	left := int(db.tables.Docs.Live.Load())
	err = errors.Join(db.janitor.reclaimDead(ctx, db.points.oldest()), db.store.SyncLog(nil))
	if err != nil {
		t.Fatal(err)
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	db.chunks.busy.Unlock()
	closeTest(t, db)
	db = openTest(t, crashed, rebuildOptions())
	mustCheck(t, db, left)
	closeTest(t, db)
}

// TestMoveKeepsTombstones: a move beside a View that still sees what has died forgets none of
// it: after a crash the vectors of the dead go, those that died while the new chunk was
// written, too.
func TestMoveKeepsTombstones(t *testing.T) {
	race.Sequential(t)
	fs, ctx, user := vfs.NewCrashableMem(), t.Context(), memory.Scope{User: "v"}
	db := openTest(t, fs, rebuildOptions())
	for i := range 20 {
		mustStore(t, db.Memories(), memory.Memory{Scope: user, Text: fmt.Sprint("with a vector ", i), Embedding: []float32{1, float32(i)}})
	}
	storeTeas(t, db, 600)
	db.waitSealed(t)
	db.chunks.busy.Lock()
	remove := func(ids ...string) {
		for _, id := range ids {
			if err := db.Memories().Delete(ctx, user, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	var crashed *vfs.MemFS
	err := db.View(ctx, func(*Tx) error {
		deleteTeas(t, db)
		stored := ids(mustList(t, db.Memories(), user))
		remove(stored[0])
		m := &mover{db: db, from: db.sparse()}
		m.docs = db.living(m.from)
		if ok, err := m.reserve(ctx); err != nil || !ok {
			t.Fatalf("%v, %v", ok, err)
		}
		if err := errors.Join(db.sealChunks(ctx), m.build(ctx)); err != nil {
			t.Fatal(err)
		}
		remove(stored[1:4]...)
		before := unreclaimed(t, db)
		if err := errors.Join(m.commit(ctx), db.store.SyncLog(nil)); err != nil {
			t.Fatal(err)
		}
		if n := unreclaimed(t, db); n != before {
			t.Errorf("%d documents are to be reclaimed after the move, %d before", n, before)
		}
		crashed = fs.CrashClone(vfs.CrashCloneCfg{})
		return nil
	})
	db.chunks.busy.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	left := int(db.tables.Docs.Live.Load())
	closeTest(t, db)
	db = openTest(t, crashed, rebuildOptions())
	for deadline := time.Now().Add(patience); countKeys(t, db, layout.KindVector) > len(mustList(t, db.Memories(), user)); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d vectors are left of %d memories", countKeys(t, db, layout.KindVector), len(mustList(t, db.Memories(), user)))
		}
		db.janitor.wake()
	}
	mustCheck(t, db, left)
	closeTest(t, db)
}

// unreclaimed counts the tombstones of documents that are still to be reclaimed.
func unreclaimed(t testing.TB, db *DB) (n int) {
	t.Helper()
	tombs, err := db.loadTombstones()
	if err != nil {
		t.Fatal(err)
	}
	return len(tombs.left)
}
