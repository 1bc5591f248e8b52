package engine

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/records"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// checkOnlyLive holds the vectors and the records in the store against the live
// memories: every vector is that of one, and no dead record is of an update that no
// history tells of. The janitor must have done its work, and no View be open.
func checkOnlyLive(t testing.TB, db *DB) {
	t.Helper()
	want := map[string]bool{}
	err := db.View(context.Background(), func(tx *Tx) error {
		lower, upper := db.keys().Span(layout.KindRecord)
		return kv.Scan(db.store, lower, upper, func(key, value []byte) error {
			v, _ := layout.ParseRecordKey(key)
			rec, err := layout.DecodeRecord(value)
			if err != nil {
				return err
			}
			if l, lives := tx.reader().At(v.Seq); !lives || l.Version != v {
				if rec.Flags&layout.FlagEmbedded != 0 {
					t.Errorf("a dead version of memory %s was only embedded, and is there", rec.ID)
				}
				return nil
			}
			for _, b := range v.Brought(rec.Vectors) {
				want[string(b.Key(db.keys(), v.Owner))] = true
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	lower, upper := db.keys().Span(layout.KindVector)
	err = kv.Scan(db.store, lower, upper, func(key, _ []byte) error {
		have[string(key)] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(have, want) {
		t.Errorf("%d vectors are in the store, %d are of live memories:\n%x\n%x", len(have), len(want),
			slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(want)))
	}
}

// changeVectors stores memories with vectors in two spaces, and replaces, keeps and
// drops them in every way.
func changeVectors(t *testing.T, db *DB, before int) {
	t.Helper()
	ctx, ada := t.Context(), memory.Scope{User: "ada"}
	id := func(i int) string { return fmt.Sprint(before, " ", i) }
	vec := func(i int) []float32 { return []float32{1, float32(i + before), 2} }
	tea := func(i int) memory.Memory {
		return memory.Memory{ID: id(i), Scope: memory.Scope{User: "ada", Run: fmt.Sprint("r", i%4)}, Text: "tea " + id(i), Embedding: vec(i), Vectors: map[string][]float32{"image": {1, 2}}}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	update := func(m Memories, i int, p memory.Patch) {
		t.Helper()
		_, err := m.Update(ctx, ada, id(i), p)
		must(err)
	}
	for i := range 40 {
		mustStore(t, db.Memories(), tea(i))
	}
	pinned, text := true, "another tea"
	for i := range 40 {
		switch i % 8 {
		case 0: // keeps both, twice
			update(db.Memories(), i, memory.Patch{Pinned: &pinned})
			update(db.Memories(), i, memory.Patch{Pinned: &pinned})
		case 1: // replaces one and keeps the other
			update(db.Memories(), i, memory.Patch{Embedding: vec(i + 1)})
			update(db.Memories(), i, memory.Patch{Pinned: &pinned})
		case 2: // drops both
			update(db.Memories(), i, memory.Patch{Text: &text})
		case 3:
			update(db.Memories(), i, memory.Patch{Pinned: &pinned})
			must(db.Memories().Delete(ctx, ada, id(i)))
		case 4: // several times in one commit
			must(db.Update(ctx, func(tx *Tx) error {
				update(tx.Memories(), i, memory.Patch{Embedding: vec(i + 2)})
				update(tx.Memories(), i, memory.Patch{Pinned: &pinned})
				update(tx.Memories(), i, memory.Patch{Embedding: vec(i + 3)})
				return nil
			}))
		case 5: // with a look at it in between
			must(db.Update(ctx, func(tx *Tx) error {
				update(tx.Memories(), i, memory.Patch{Embedding: vec(i + 2)})
				mustRecall(t, tx.Memories(), memory.Query{Scope: ada, Text: "tea", NoTouch: true})
				update(tx.Memories(), i, memory.Patch{Embedding: vec(i + 3)})
				return nil
			}))
		case 6: // comes and goes in one commit
			must(db.Update(ctx, func(tx *Tx) error {
				m := tea(i)
				m.ID += " gone"
				mustStore(t, tx.Memories(), m)
				return tx.Memories().Delete(ctx, ada, m.ID)
			}))
		}
	}
	_, err := db.Memories().DeleteScope(ctx, memory.Scope{User: "ada", Run: "r3"})
	must(err)
}

// janitorDone does all of the janitor's work that there is.
func janitorDone(t testing.TB, db *DB) {
	t.Helper()
	janitorDoneBeside(t, db, math.MaxUint64)
}

// janitorDoneBeside does all of the janitor's work that there is beside a View of a state.
func janitorDoneBeside(t testing.TB, db *DB, lsn uint64) {
	t.Helper()
	comes(t, "that nobody else reads an older state", func() bool { // work behind the calls may just now
		oldest, newest := db.points.numbers()
		alone := oldest == newest || db.points.oldestOpen() >= lsn
		if err := db.janitor.work(context.Background()); err != nil {
			t.Fatal(err)
		}
		return alone
	})
}

// TestVectorsOfTheDead: vectors of versions that nobody can see are removed, and no
// others, whether their chunks are sealed, their documents move, or the process is
// killed before the janitor comes to it.
func TestVectorsOfTheDead(t *testing.T) {
	race.Sequential(t)
	for name, o := range map[string]setup{
		"in memory": {}, "sealed": {tuning: tuning{hotBytes: 1}}, "in chunks": {tuning: tuning{hotBytes: 30 << 10}}, "moving": {tuning: tuning{hotBytes: 30 << 10, lookLeast: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			db := openTest(t, fs, o)
			changeVectors(t, db, 0)
			janitorDone(t, db)
			checkOnlyLive(t, db)

			db.chunks.busy.Lock() // it comes too late
			db.janitor.progress(true, nil)
			changeVectors(t, db, 1000)
			db.chunks.busy.Unlock()
			want := int(mustStats(t, db).Memories)
			before := everyMemory(t, db.Memories())
			killed := fs.CrashClone(vfs.CrashCloneCfg{})
			closeTest(t, db)
			for range 2 {
				db = openTest(t, killed, o)
				janitorDone(t, db)
				checkOnlyLive(t, db)
				mustCheck(t, db, want)
				if after := everyMemory(t, db.Memories()); len(after) != len(before) {
					t.Errorf("%d memories, there were %d", len(after), len(before))
				}
				closeTest(t, db)
			}
		})
	}
}

// TestVectorsOfAView: a View, and Retain, keep the vectors of the states that they can
// read.
func TestVectorsOfAView(t *testing.T) {
	ctx, ada := t.Context(), memory.Scope{User: "ada"}
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now, Retain: time.Minute})
	vec := func(i float32) []float32 { return []float32{1, i} }
	mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: ada, Text: "tea", Embedding: vec(1)})
	change := func(i float32) uint64 {
		t.Helper()
		lsn := db.LSN()
		if _, err := db.Memories().Update(ctx, ada, "a", memory.Patch{Embedding: vec(i)}); err != nil {
			t.Fatal(err)
		}
		return lsn
	}
	wantCount := func(n int, seen uint64) {
		t.Helper()
		janitorDoneBeside(t, db, seen)
		if got := countKeys(t, db, layout.KindVector); got != n {
			t.Errorf("%d vectors are in the store, want %d", got, n)
		}
	}
	read := func(m Memories, lsn uint64, i float32) {
		t.Helper()
		hits := mustRecall(t, m, memory.Query{Scope: ada, Embedding: vec(2), Profile: memory.ProfileVector, AsOf: lsn, WithVectors: true, NoTouch: true})
		if len(hits) != 1 || !slices.Equal(hits[0].Embedding, vec(i)) {
			t.Errorf("as of LSN %d: %+v", lsn, hits)
		}
	}
	first := change(2)
	wantCount(2, db.LSN())
	read(db.Memories(), first, 1)
	err := db.View(ctx, func(tx *Tx) error {
		change(3)
		clock.advance(time.Hour)
		change(4)
		clock.advance(time.Hour)
		change(5)
		wantCount(4, tx.LSN()) // of the View, and what came after
		read(tx.Memories(), 0, 2)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Hour)
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "makes a new read point"})
	clock.advance(time.Hour)
	wantCount(1, db.LSN())
	read(db.Memories(), 0, 5)
}

// TestEmbeddedVersions: a version that was only to be embedded goes with its death,
// and the history is as it was.
func TestEmbeddedVersions(t *testing.T) {
	ctx, ada := t.Context(), memory.Scope{User: "ada"}
	e := newFakeEmbedder(4)
	db := openTest(t, vfs.NewMem(), setup{Options: Options{Embedder: e}, tuning: tuning{uncached: true}})
	e.set(func(f *fakeEmbedder) { f.fail = fmt.Errorf("no network") })
	for _, id := range []string{"a", "b", "c"} {
		mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: ada, Text: "tea " + id})
	}
	e.set(func(f *fakeEmbedder) { f.fail = nil })
	if n, err := db.EmbedPending(ctx, 0); n != 3 || err != nil {
		t.Fatalf("%d are embedded, %v", n, err)
	}
	text := "coffee"
	if _, err := db.Memories().Update(ctx, ada, "a", memory.Patch{Text: &text}); err != nil {
		t.Fatal(err)
	}
	if err := db.Memories().Delete(ctx, ada, "b"); err != nil {
		t.Fatal(err)
	}
	history := func() (all [][]memory.HistoryEntry) {
		for _, id := range []string{"a", "b", "c"} {
			all = append(all, mustHistory(t, db.Memories(), ada, id))
		}
		return all
	}
	before := history()
	janitorDone(t, db)
	checkOnlyLive(t, db)
	if after := history(); fmt.Sprint(lengths(after)) != "[2 2 1]" || !records.SameEvents(after[0], before[0]) || !records.SameEvents(after[1], before[1]) {
		t.Errorf("histories\n%+v\nwere\n%+v", after, before)
	}
	mustCheck(t, db, 2)
}

func lengths[T any](lists [][]T) (all []int) {
	for _, l := range lists {
		all = append(all, len(l))
	}
	return all
}
