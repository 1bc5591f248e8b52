package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// skipNumbers lets a database look for its next chunk near the end of the numbers, as one
// that has given all before does.
func skipNumbers(t testing.TB, db *DB) {
	t.Helper()
	if err := db.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer db.unlock()
	db.writer.next.Doc = MaxMemories - 2<<16
}

// nextDoc is the number that the next document gets.
func nextDoc(t testing.TB, db *DB) uint32 {
	t.Helper()
	if err := db.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer db.unlock()
	return db.writer.next.Doc
}

// TestNumbersGoRound: a database that has given more than 2³² document numbers, with
// crashes and without, finds all that is there, and nothing else.
func TestNumbersGoRound(t *testing.T) {
	race.Sequential(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	ada := memory.Scope{User: "ada"}
	o := setup{tuning: tuning{hotBytes: 30 << 10, lookLeast: 1, firstDoc: MaxMemories - 2<<16}}
	fs := vfs.NewCrashableMem()
	db := openTest(t, fs, o)
	live := map[string]string{}
	laps := max(race.Times(2), 1) // of 2³¹ each
	for lap := range laps {
		for i := range 400 {
			id := fmt.Sprint(rng.IntN(200))
			var text strings.Builder
			fmt.Fprint(&text, "tea ", lap, " ", i)
			for n := range 30 {
				fmt.Fprint(&text, " word", rng.IntN(1000)*n)
			}
			switch _, there := live[id]; {
			case there && rng.IntN(2) == 0:
				if err := db.Memories().Delete(t.Context(), ada, id); err != nil {
					t.Fatal(err)
				}
				delete(live, id)
			default:
				if _, err := db.Memories().Store(t.Context(), memory.Memory{ID: id, Scope: ada, Text: text.String(), Embedding: []float32{1, float32(i)}}, &memory.StoreOptions{Upsert: true}); err != nil {
					t.Fatal(err)
				}
				live[id] = text.String()
			}
			if i%50 == 0 {
				janitorDone(t, db)
				found := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: "tea", Limit: 1000, Profile: memory.ProfileText})
				if len(found) != len(live) {
					t.Fatalf("lap %d, %d: %d are found, want %d", lap, i, len(found), len(live))
				}
			}
		}
		if next := nextDoc(t, db); next > MaxMemories-2<<16 {
			t.Errorf("the next number is %d: the lap is not over", next)
		}
		mustCheck(t, db, len(live))
		clone := fs.CrashClone(vfs.CrashCloneCfg{})
		closeTest(t, db)
		fs = clone
		db = openTest(t, fs, o)
		mustCheck(t, db, len(live))
		for _, m := range mustList(t, db.Memories(), ada) {
			if live[m.ID] != m.Text {
				t.Fatalf("lap %d: %s is %q, want %q", lap, m.ID, m.Text, live[m.ID])
			}
		}
		skipNumbers(t, db)
	}
}

// TestNumbersComeBack: what a reset empties, or a chunk that closes early and dies, can be
// given again, and a database is full only where all are in use.
func TestNumbersComeBack(t *testing.T) {
	ada := memory.Scope{User: "ada"}
	db := openTest(t, vfs.NewMem(), setup{tuning: tuning{hotBytes: 1}})
	for range 3 {
		for i := range 20 {
			mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: fmt.Sprint("tea ", i)})
		}
		if _, err := db.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "begins another chunk"})
		for range 4 {
			janitorDone(t, db)
		}
		used := 0
		if err := db.lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, u := range db.chunks.used {
			if u {
				used++
			}
		}
		db.unlock()
		if used > 3 {
			t.Errorf("%d chunks are in use by one memory", used)
		}
	}
	if err := db.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := db.chunks.used
	for i := range db.chunks.used {
		db.chunks.used[i] = true
	}
	db.unlock()
	_, err := db.Memories().Store(t.Context(), memory.Memory{Scope: ada, Text: "one too many"}, nil)
	_, err2 := db.Memories().Store(t.Context(), memory.Memory{Scope: ada, Text: "one too many again"}, nil)
	wantError(t, "without a number", errors.Join(err, err2), fault.ErrFull)
	if err := db.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.chunks.used = all
	db.unlock()
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "there is room again"})
	if n := layout.ChunkOf(nextDoc(t, db)); int(n) > 200 {
		t.Errorf("chunk %d", n)
	}
}

// TestNumbersAreNotWasted: chunks that are closed after one memory become larger ones, so
// that a few numbers are enough for many of them, what is found stays the same, and all is
// there after a kill and in an index that is built anew, in parts.
func TestNumbersAreNotWasted(t *testing.T) {
	race.Sequential(t)
	const left, n = 64, 400
	fs := vfs.NewCrashableMem()
	o := setup{tuning: tuning{hotBytes: 1}}
	db := openTest(t, fs, o)
	take := func(used bool) { // the numbers that are not left
		t.Helper()
		if err := db.lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer db.unlock()
		for i := left; i < maxChunks-moveNumbers; i++ {
			db.chunks.used[i] = used
		}
	}
	take(true)
	ada := memory.Scope{User: "ada"}
	for i := range n {
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: fmt.Sprintf("tea %d number%d", i%7, i), Metadata: map[string]any{"n": i}, Embedding: []float32{1, float32(i)}})
	}
	janitorDone(t, db)
	answers := func(db *DB) (hits []string) {
		t.Helper()
		for _, q := range []memory.Query{
			{Text: "tea 3", Profile: memory.ProfileText},
			{Text: "number399 number0 tea", Profile: memory.ProfileText},
			{Embedding: []float32{1, 200}, Profile: memory.ProfileVector},
			{Text: "tea", Profile: memory.ProfileText, Filter: filter.Gt("metadata.n", 390)},
		} {
			q.Scope, q.Limit, q.NoTouch = ada, n, true
			for _, h := range mustRecall(t, db.Memories(), q) {
				hits = append(hits, fmt.Sprint(h.Text, h.Score))
			}
		}
		slices.Sort(hits)
		return hits
	}
	check := func(db *DB, what string, want []string) {
		t.Helper()
		mustCheck(t, db, n)
		if got := answers(db); !slices.Equal(got, want) {
			t.Errorf("%s: other answers: %d hits, want %d", what, len(got), len(want))
		}
	}
	want := answers(db)
	check(db, "merged", want)
	db.chunks.busy.Lock()
	sealed, tiers := len(db.chunks.sealed), 16/3
	db.chunks.busy.Unlock()
	if most := tiers * (mergeAt - 1); sealed > most {
		t.Errorf("%d chunks of %d memories, want %d at most", sealed, n, most)
	}
	take(false)
	if err := db.Rebuild(t.Context(), IndexText, nil); err != nil {
		t.Fatal(err)
	}
	check(db, "built anew", want)
	clone := fs.CrashClone(vfs.CrashCloneCfg{})
	closeTest(t, db)
	db = openTest(t, clone, o)
	check(db, "after a kill", want)
	closeTest(t, db)
}
