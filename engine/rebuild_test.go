package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// rebuildOptions give a database of many chunks, whose documents move all the time.
func rebuildOptions() setup { return setup{tuning: tuning{hotBytes: 40 << 10, lookLeast: 1}} }

// sealedTeas is a database of n memories in chunks that are sealed where they are full.
func sealedTeas(t testing.TB, fs vfs.FS, n int) *DB {
	t.Helper()
	db := openTest(t, fs, rebuildOptions())
	storeTeas(t, db, n)
	db.waitSealed(t)
	return db
}

// storeTeas stores n memories, and updates and deletes some of them.
func storeTeas(t testing.TB, db *DB, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	words := []string{"tea", "coffee", "milk", "green", "black", "morning"}
	text := func() string {
		return fmt.Sprint(rng.IntN(1e6), " ", words[rng.IntN(6)], " ", words[rng.IntN(6)], " ", words[rng.IntN(6)])
	}
	first := int(db.LSN())
	for i := first; i < first+n; i++ {
		mustStore(t, db.Memories(), memory.Memory{
			ID: fmt.Sprint(i), Scope: memory.Scope{User: fmt.Sprint("u", i%3)}, Text: text(), Metadata: map[string]any{"n": i % 10},
		})
		id := fmt.Sprint(first + rng.IntN(i-first+1))
		switch i % 10 {
		case 3:
			s := text()
			_, _ = db.Memories().Update(t.Context(), memory.Scope{}, id, memory.Patch{Text: &s}) // it may be deleted
		case 7:
			_ = db.Memories().Delete(t.Context(), memory.Scope{}, id)
		}
	}
}

// teaAnswers are what queries by text and filter find, with scores.
func teaAnswers(t testing.TB, mm Memories) (all [][]memory.Hit) {
	t.Helper()
	for _, q := range []memory.Query{
		{AllScopes: true, Text: "green tea", Profile: memory.ProfileText, Limit: 500},
		{Scope: memory.Scope{User: "u1"}, Text: "black coffee", Profile: memory.ProfileText, Limit: 50},
		{AllScopes: true, Text: "milk", Filter: filter.Eq("metadata.n", 4), Profile: memory.ProfileText, Limit: 500},
		{Scope: memory.Scope{User: "u2"}, Text: "morning"},
	} {
		q.NoTouch = true
		all = append(all, mustRecall(t, mm, q))
	}
	return all
}

// TestRebuild: the new text index gives the answers of the old one, to the bit, in
// the Views before and after, and once opened again.
func TestRebuild(t *testing.T) {
	race.Sequential(t)
	fs := vfs.NewMem()
	db := openTest(t, fs, rebuildOptions())
	storeTeas(t, db, 1200)
	if n := db.waitSealed(t); n < 2 { // small ones may have been merged
		t.Fatalf("%d chunks are sealed", n)
	}
	storeTeas(t, db, 20) // some are in no sealed chunk
	before, stats := teaAnswers(t, db.Memories()), mustStats(t, db)
	told := int64(0)
	err := db.View(t.Context(), func(tx *Tx) error {
		err := db.Rebuild(t.Context(), IndexText, func(done, of int64) {
			if told = done; done > of+100 {
				t.Errorf("%d documents are done of %d", done, of)
			}
		})
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(before, teaAnswers(t, tx.Memories())) {
			t.Error("a View from before sees other answers")
		}
		r, err := db.Check(t.Context())
		if err != nil || !r.OK {
			t.Errorf("check: %+v, %v", r, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if told < stats.Memories {
		t.Errorf("told of %d documents, there are %d memories", told, stats.Memories)
	}
	for range 2 {
		if !reflect.DeepEqual(before, teaAnswers(t, db.Memories())) {
			t.Fatal("the answers differ")
		}
		if after := mustStats(t, db); after.Memories != stats.Memories {
			t.Errorf("%d memories, there were %d", after.Memories, stats.Memories)
		}
		mustCheck(t, db, int(stats.Memories))
		storeTeas(t, db, 10)
		before = teaAnswers(t, db.Memories())
		stats = mustStats(t, db)
		closeTest(t, db)
		db = openTest(t, fs, rebuildOptions())
	}
	oneGeneration(t, db)
	closeTest(t, db)
}

func mustStats(t testing.TB, db *DB) Stats {
	t.Helper()
	s, err := db.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// oneGeneration checks that the store holds no keys of another generation.
func oneGeneration(t testing.TB, db *DB) {
	t.Helper()
	for _, kind := range []byte{layout.KindText, layout.KindForward} {
		err := kv.Scan(db.store, []byte{kind}, []byte{kind + 1}, func(key, _ []byte) error {
			if !strings.HasPrefix(string(key), string(db.keys().Header(kind, 0))) {
				return fmt.Errorf("key %x is of another generation", key)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestRebuildOfNothing: whole chunks whose documents are all gone leave nothing
// that the next Open would look for.
func TestRebuildOfNothing(t *testing.T) {
	race.Sequential(t)
	fs := vfs.NewMem()
	db := sealedTeas(t, fs, 600)
	for _, user := range []string{"u0", "u1", "u2"} {
		if _, err := db.Memories().DeleteScope(t.Context(), memory.Scope{User: user}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := db.Rebuild(t.Context(), IndexText, nil); err != nil {
			t.Fatal(err)
		}
		mustCheck(t, db, 0)
		closeTest(t, db)
		db = openTest(t, fs, rebuildOptions())
		mustCheck(t, db, 0)
	}
	storeTeas(t, db, 100)
	closeTest(t, db)
}

// TestRebuildBesideOthers: writers and readers go on while the index is rebuilt
// again and again, and nothing is lost.
func TestRebuildBesideOthers(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, rebuildOptions())
	storeTeas(t, db, 300)
	var writers, others sync.WaitGroup
	stop := make(chan struct{})
	for w := range 3 {
		writers.Go(func() {
			for i := range 150 {
				id := fmt.Sprint("w", w, " ", i)
				mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: memory.Scope{User: "w"}, Text: "zebra " + id})
				if i%3 == 0 {
					if err := db.Memories().Delete(t.Context(), memory.Scope{User: "w"}, id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := db.Rebuild(t.Context(), IndexText, nil); err != nil {
				t.Error(err)
				return
			}
		}
	})
	others.Go(func() {
		for n := 0; ; {
			select {
			case <-stop:
				return
			default:
			}
			// No memory of these is ever deleted.
			hits := mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "w"}, Text: "zebra", Profile: memory.ProfileText, Limit: 1000, NoTouch: true})
			kept := 0
			for _, h := range hits {
				var w, i int
				if _, err := fmt.Sscanf(h.ID, "w%d %d", &w, &i); err != nil {
					t.Error(err)
				}
				if i%3 != 0 {
					kept++
				}
			}
			if kept < n {
				t.Errorf("%d found, %d before", kept, n)
			}
			n = kept
		}
	})
	writers.Wait()
	close(stop)
	others.Wait()
	want := int(mustStats(t, db).Memories)
	for range 2 {
		mustCheck(t, db, want)
		if hits := mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "w"}, Text: "zebra", Profile: memory.ProfileText, Limit: 1000}); len(hits) != 300 {
			t.Errorf("%d of 300 found", len(hits))
		}
		closeTest(t, db)
		db = openTest(t, fs, rebuildOptions())
	}
	closeTest(t, db)
}

// TestRebuildInterrupted: nothing has changed, and what was begun is gone with the
// next Open.
func TestRebuildInterrupted(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	fs := vfs.NewMem()
	db := sealedTeas(t, fs, 1500)
	before := teaAnswers(t, db.Memories())
	ctx, cancel := context.WithCancel(t.Context())
	if err := db.Rebuild(ctx, IndexText, func(int64, int64) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Fatalf("rebuild: %v", err)
	}
	for range 2 {
		if !reflect.DeepEqual(before, teaAnswers(t, db.Memories())) {
			t.Fatal("the answers differ")
		}
		closeTest(t, db)
		db = openTest(t, fs, rebuildOptions())
	}
	oneGeneration(t, db)
	if err := db.Rebuild(t.Context(), IndexText, nil); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, teaAnswers(t, db.Memories())) {
		t.Fatal("the answers differ")
	}
	closeTest(t, db)
}

// damage flips a bit of the values of a kind for which choose returns true.
func damage(t testing.TB, db *DB, kind byte, choose func(key []byte) bool) (n int) {
	t.Helper()
	lower, upper := db.keys().Span(kind)
	err := kv.Scan(db.store, lower, upper, func(key, value []byte) error {
		if !choose(key) {
			return nil
		}
		n++
		value = append([]byte(nil), value...)
		value[len(value)/2] ^= 1
		return db.store.Set(key, value, pebble.Sync)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRebuildMends: damage that a check finds is gone after a rebuild.
func TestRebuildMends(t *testing.T) {
	race.Sequential(t)
	db := sealedTeas(t, vfs.NewMem(), 800)
	before := teaAnswers(t, db.Memories())
	if n := damage(t, db, layout.KindText, func([]byte) bool { return true }); n < 10 {
		t.Fatalf("%d pages", n)
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "other"}, Text: "makes a new read point"})
	r, err := db.Check(t.Context())
	if err != nil || r.OK || !strings.Contains(fmt.Sprint(r.Problems), "rebuild") {
		t.Fatalf("check: %+v, %v", r, err)
	}
	if err := db.Rebuild(t.Context(), IndexText, nil); err != nil {
		t.Fatal(err)
	}
	if r, err = db.Check(t.Context()); err != nil || !r.OK {
		t.Errorf("check: %+v, %v", r, err)
	}
	if err := db.Memories().Delete(t.Context(), memory.Scope{User: "other"}, r1(t, db)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, teaAnswers(t, db.Memories())) {
		t.Error("the answers differ")
	}
	closeTest(t, db)
}

// r1 is the ID of the memory of the user other.
func r1(t testing.TB, db *DB) string {
	t.Helper()
	page, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: memory.Scope{User: "other"}})
	if err != nil || len(page.Memories) != 1 {
		t.Fatalf("list: %+v, %v", page, err)
	}
	return page.Memories[0].ID
}

// TestOpenMends: a chunk that cannot be opened is built anew by Open.
func TestOpenMends(t *testing.T) {
	race.Sequential(t)
	fs := crashfs.NewDisk()
	db := openTest(t, fs, setup{tuning: tuning{hotBytes: rebuildOptions().hotBytes}}) // no chunk is merged with others
	storeTeas(t, db, 600)
	db.waitSealed(t)
	before, stats := teaAnswers(t, db.Memories()), mustStats(t, db)
	// A scope that is deleted, and not yet cleaned up, stays deleted.
	db.chunks.busy.Lock()
	second := slices.Sorted(maps.Keys(db.chunks.sealed))[1]
	if n := damage(t, db, layout.KindText, func(key []byte) bool {
		return binary.BigEndian.Uint16(key[layout.KeyHeader:]) == second && key[layout.KeyHeader+2] == 'h'
	}); n == 0 {
		t.Fatal("no page of the second chunk")
	}
	if _, err := db.Memories().DeleteScope(t.Context(), memory.Scope{User: "u0"}); err != nil {
		t.Fatal(err)
	}
	killed := fs.Crash(crashfs.Crash{})
	db.chunks.busy.Unlock()
	closeTest(t, db)

	o := rebuildOptions()
	var log func() string
	o.Logger, log = logged()
	db = openTest(t, killed, o)
	if !strings.Contains(log(), "damaged") {
		t.Errorf("log: %s", log())
	}
	after := teaAnswers(t, db.Memories())
	for _, i := range []int{1, 3} { // of the users u1 and u2
		if !reflect.DeepEqual(before[i], after[i]) {
			t.Error("the answers differ")
		}
	}
	for _, h := range after[0] {
		if h.Scope.User == "u0" {
			t.Errorf("memory %s of a deleted scope is found", h.ID)
		}
	}
	left := int(mustStats(t, db).Memories)
	if left == 0 || left >= int(stats.Memories) {
		t.Errorf("%d memories are left of %d", left, stats.Memories)
	}
	mustCheck(t, db, left)
	closeTest(t, db)
	o = rebuildOptions()
	o.Logger, log = logged()
	db = openTest(t, killed, o)
	if log() != "" {
		t.Errorf("log of the next opening: %s", log())
	}
	oneGeneration(t, db)
	closeTest(t, db)
}

// TestRebuildNotesAnalyzer: what was indexed by another analyzer is told of when the
// database is opened, until a rebuild.
func TestRebuildNotesAnalyzer(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	storeTeas(t, db, 10)
	closeTest(t, db)
	id, err := place.Read(fs, "db")
	if err != nil {
		t.Fatal(err)
	}
	now := id.Settings.Analyzer
	id.Settings.Analyzer = "another"
	if err := id.Write(fs, "db"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"another", now} {
		var o Options
		var log func() string
		o.Logger, log = logged()
		db = openTest(t, fs, o)
		if got := db.Settings().Analyzer; got != want || strings.Contains(log(), "rebuild") != (want == "another") {
			t.Errorf("analyzer %s, log %s", got, log())
		}
		if err := db.Rebuild(t.Context(), IndexText, nil); err != nil {
			t.Fatal(err)
		}
		if got := db.Settings().Analyzer; got != now {
			t.Errorf("analyzer %s after the rebuild", got)
		}
		closeTest(t, db)
	}
}

func TestRebuildRefuses(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	if err := db.Rebuild(t.Context(), "rows", nil); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), `"rows"`) {
		t.Errorf("rebuild rows: %v", err)
	}
	closeTest(t, db)
	if err := db.Rebuild(t.Context(), IndexText, nil); !errors.Is(err, fault.ErrClosed) {
		t.Errorf("rebuild of a closed database: %v", err)
	}
}

// TestRebuildAfterReset: what a reset has deleted, and a View or Retain keeps the rows
// of, is left out of a rebuild.
func TestRebuildAfterReset(t *testing.T) {
	race.Sequential(t)
	resetAndRebuild := func(t *testing.T, db *DB) {
		t.Helper()
		if _, err := db.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		storeTeas(t, db, 50)
		if err := db.Rebuild(t.Context(), IndexText, nil); err != nil {
			t.Fatal(err)
		}
		mustCheck(t, db, int(mustStats(t, db).Memories))
	}
	t.Run("retained", func(t *testing.T) {
		o := rebuildOptions()
		o.Retain = time.Hour
		db := openTest(t, vfs.NewMem(), o)
		storeTeas(t, db, 100)
		resetAndRebuild(t, db)
	})
	t.Run("in a View", func(t *testing.T) {
		db := openTest(t, vfs.NewMem(), rebuildOptions())
		storeTeas(t, db, 100)
		err := db.View(t.Context(), func(tx *Tx) error {
			before := teaAnswers(t, tx.Memories())
			resetAndRebuild(t, db)
			if !reflect.DeepEqual(before, teaAnswers(t, tx.Memories())) {
				t.Error("a View from before sees other answers")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestRebuildBesideCleanUp: neither a rebuild nor a View that began before the clean-up
// of a death range loses sight of how the memories died.
func TestRebuildBesideCleanUp(t *testing.T) {
	fs := vfs.NewMem()
	db := sealedTeas(t, fs, 600)
	ctx := t.Context()
	users := []memory.Scope{{User: "u0"}, {User: "u1"}, {User: "u2"}}
	db.chunks.busy.Lock()
	var dead []memory.Memory
	for _, user := range users {
		dead = append(dead, mustList(t, db.Memories(), user)...)
		if _, err := db.Memories().DeleteScope(ctx, user); err != nil {
			t.Fatal(err)
		}
	}
	died := func(m Memories) {
		t.Helper()
		for _, d := range dead {
			if h := mustHistory(t, m, d.Scope, d.ID); !h[len(h)-1].IsDeleted {
				t.Fatalf("history of what was deleted: %+v", h)
			}
		}
	}
	err := db.View(ctx, func(tx *Tx) error {
		died(tx.Memories())
		if err := db.rebuild(ctx, nil); err != nil {
			return err
		}
		db.chunks.busy.Unlock()
		for i := range 3 { // the janitor works again and again
			mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("new", i), Scope: users[0], Text: "tea"})
			janitorDoneBeside(t, db, tx.LSN())
		}
		if countKeys(t, db, layout.KindRange) > 0 {
			t.Error("the clean-up has waited")
		}
		died(tx.Memories())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	db = openTest(t, fs, rebuildOptions())
	mustCheck(t, db, 3)
	died(db.Memories())
}

// TestRebuildCleansUp: what a rebuild leaves out has left nothing behind.
func TestRebuildCleansUp(t *testing.T) {
	race.Sequential(t)
	fs := vfs.NewMem()
	db := sealedTeas(t, fs, 600)
	db.chunks.busy.Lock() // nobody else cleans up
	user := memory.Scope{User: "u0"}
	dead := mustList(t, db.Memories(), user)[0]
	if _, err := db.Memories().DeleteScope(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	left := int(db.tables.Docs.Live.Load())
	if err := db.rebuild(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	db.janitor.stop()
	db.chunks.busy.Unlock()
	closeTest(t, db)
	db = openTest(t, fs, rebuildOptions())
	mustCheck(t, db, left)
	if h := mustHistory(t, db.Memories(), user, dead.ID); !h[len(h)-1].IsDeleted {
		t.Errorf("history after reopening: %+v", h)
	}
}

// TestRebuildMovesRules: a text index that was made by older rules goes on with them, also for what is stored later,
// until it is made anew; and where that was interrupted, what follows is by the newer ones.
func TestRebuildMovesRules(t *testing.T) {
	older, err := analysis.New(analysis.Config{Index: "auto-1-"})
	if err != nil || !older.Older() {
		t.Fatal(err)
	}
	ada := memory.Scope{User: "ada"}
	fs := vfs.NewMem()
	closeTest(t, openTest(t, fs, Options{}))
	name := func(analyzer string) {
		t.Helper()
		id, err := place.Read(fs, "db")
		if err != nil {
			t.Fatal(err)
		}
		id.Settings.Analyzer = analyzer
		if err := id.Write(fs, "db"); err != nil {
			t.Fatal(err)
		}
	}
	name(older.Fingerprint())
	for round, want := range []struct {
		analyzer string
		found    map[string]int
	}{
		{"auto-1-", map[string]int{"bought": 1, "buy": 0}},
		{"auto-1-", map[string]int{"bought": 2, "buy": 0}},
		{"auto-2-", map[string]int{"bought": 3, "buy": 3, "buying": 3}},
		{"auto-2-", map[string]int{"bought": 4, "buy": 4}},
	} {
		db := openTest(t, fs, Options{})
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: fmt.Sprint("She bought tea ", round)})
		if round == 2 {
			if err := db.Rebuild(t.Context(), IndexText, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := db.Settings().Analyzer; !strings.HasPrefix(got, want.analyzer) {
			t.Errorf("%d: analyzer %s, want %s", round, got, want.analyzer)
		}
		for query, n := range want.found {
			if hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: query, OnlyWords: true}); len(hits) != n {
				t.Errorf("%d: %q finds %d, want %d", round, query, len(hits), n)
			}
		}
		mustCheck(t, db, round+1)
		closeTest(t, db)
	}
	name(moving + older.Fingerprint())
	o := Options{}
	var log func() string
	o.Logger, log = logged()
	db := openTest(t, fs, o)
	if db.tables.Words.Analyzer.Load().Older() || !strings.Contains(log(), "rebuild") {
		t.Errorf("older rules after an interrupted move, log %s", log())
	}
	closeTest(t, db)
}

// TestRebuildIsDurable: a power cut right after a rebuild takes nothing of it back, and
// memdb.json never says that the text was indexed by an analyzer when it was not.
func TestRebuildIsDurable(t *testing.T) {
	race.Sequential(t)
	for seed := range uint64(20) {
		mem := crashfs.NewDisk()
		db := openTest(t, mem, Options{})
		for i := range 20 {
			mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("tea number ", i)})
		}
		now := db.Settings().Analyzer
		older := *db.identity
		older.Settings.Analyzer = "older"
		if err := older.Write(db.store.FS, "db"); err != nil {
			t.Fatal(err)
		}
		db.identity = &older
		if err := db.Rebuild(t.Context(), IndexText, nil); err != nil {
			t.Fatal(err)
		}
		crash := mem.Lose(int(seed%3)*50, rand.New(rand.NewPCG(seed, 0)))
		built := db.keys().Gen[layout.KindText]
		closeTest(t, db)
		again := openTest(t, crash, Options{})
		if gen := again.keys().Gen[layout.KindText]; gen != built || again.Settings().Analyzer != now {
			t.Errorf("seed %d: generation %d was built, %d is there, indexed by %s", seed, built, gen, again.Settings().Analyzer)
		}
		mustCheck(t, again, 20)
	}
}
