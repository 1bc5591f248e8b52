package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// lossy fills a database of 120 memories with vectors, of which some are deleted, some
// updated, and those of one scope deleted at once, and closes it.
func lossy(t *testing.T, fs vfs.FS, o setup) (living map[string]string) {
	t.Helper()
	db, ctx, ada := openTest(t, fs, o), t.Context(), memory.Scope{User: "ada"}
	living = map[string]string{}
	for i := range 120 {
		id, text := fmt.Sprint("m", i), fmt.Sprint("tea number ", i)
		mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: memory.Scope{User: "ada", Run: fmt.Sprint("r", i%3)}, Text: text, Embedding: []float32{float32(i), 1, 2}})
		living[id] = text
	}
	for i := 0; i < 120; i += 10 {
		if err := db.Memories().Delete(ctx, ada, fmt.Sprint("m", i)); err != nil {
			t.Fatal(err)
		}
		delete(living, fmt.Sprint("m", i))
		id, text := fmt.Sprint("m", i+1), fmt.Sprint("milk number ", i+1)
		if _, err := db.Memories().Update(ctx, ada, id, memory.Patch{Text: &text, Embedding: []float32{float32(i + 1), 2, 2}}); err != nil {
			t.Fatal(err)
		}
		living[id] = text
	}
	if _, err := db.Memories().DeleteScope(ctx, memory.Scope{User: "ada", Run: "r2"}); err != nil {
		t.Fatal(err)
	}
	for i := 2; i < 120; i += 3 {
		delete(living, fmt.Sprint("m", i))
	}
	janitorDone(t, db)
	closeTest(t, db)
	return living
}

// spoil changes keys of the closed database's store by hand.
func spoil(t *testing.T, fs vfs.FS, o setup, kind byte, change func(b *pebble.Batch, key, value []byte) error) (spoilt int) {
	t.Helper()
	db := openTest(t, fs, o)
	lower, upper := db.keys().Span(kind)
	batch := db.store.NewBatch()
	noError(t, kv.Scan(db.store, lower, upper, func(key, value []byte) error { return change(batch, key, value) }))
	spoilt = int(batch.Count())
	noError(t, db.store.Apply(batch, pebble.Sync))
	db.store.Fail(errors.New("spoilt")) // nothing of what it has in RAM is written
	closeTest(t, db)
	return spoilt
}

func removeSnapshots(t *testing.T, fs vfs.FS) {
	t.Helper()
	for _, name := range snapshots(t, fs) {
		if err := fs.Remove("db/" + name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpensWithout: a database of which something cannot be read opens, to be read and to be
// written, tells how much is lost, has all the rest, and check names what is lost.
func TestOpensWithout(t *testing.T) {
	race.Sequential(t)
	const seed = 11
	sealing := setup{tuning: tuning{hotBytes: 6 << 10}}
	flip := func(rng *rand.Rand) func(b *pebble.Batch, key, value []byte) error {
		return func(b *pebble.Batch, key, value []byte) error {
			if rng.IntN(4) > 0 || len(value) == 0 {
				return nil
			}
			value = append([]byte(nil), value...)
			return b.Set(key, value[:rng.IntN(len(value))], nil)
		}
	}
	drop := func(rng *rand.Rand) func(b *pebble.Batch, key, value []byte) error {
		return func(b *pebble.Batch, key, _ []byte) error {
			if rng.IntN(4) > 0 {
				return nil
			}
			return b.Delete(key, nil)
		}
	}
	for _, c := range []struct {
		name    string
		o       setup
		kind    byte
		change  func(*rand.Rand) func(*pebble.Batch, []byte, []byte) error
		vectors bool // that vectors are lost, and nothing else
	}{
		{"vectors that are missing", setup{}, layout.KindVector, drop, true},
		{"vectors that are cut", setup{}, layout.KindVector, flip, true},
		{"forward records that are cut", setup{}, layout.KindForward, flip, false},
		{"pages of rows that are cut", sealing, layout.KindRows, flip, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			fs := vfs.NewMem()
			living := lossy(t, fs, c.o)
			if spoil(t, fs, c.o, c.kind, c.change(rng)) == 0 {
				t.Fatal("nothing was spoilt")
			}
			removeSnapshots(t, fs)
			for _, readOnly := range []bool{true, false, true} {
				o := c.o
				o.ReadOnly = readOnly
				db := openTest(t, fs, o)
				recovered := !c.vectors && !readOnly
				stats, err := db.Stats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				report, err := db.Check(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case recovered || !c.vectors && stats.Lost == 0: // made again of the records
					if !report.OK || report.Memories != len(living) {
						t.Errorf("%d memories of %d, %v", report.Memories, len(living), report.Problems)
					}
					sameTexts(t, db, living)
				case c.vectors:
					sameTexts(t, db, living)
					wantLost(t, db, &stats, &report, len(living))
				default:
					wantLost(t, db, &stats, &report, -1)
				}
				closeTest(t, db)
			}
		})
	}
}

// wantLost wants losses in the statistics and the check, and, of n memories, a list of all
// with those vectors that are left: it tells of the others.
func wantLost(t *testing.T, db *DB, stats *Stats, report *Report, n int) {
	t.Helper()
	if stats.Lost == 0 || report.OK || !strings.Contains(fmt.Sprint(report.Problems), "memory ") {
		t.Errorf("%d lost, check says %v", stats.Lost, report.Problems)
	}
	if n < 0 {
		return
	}
	var lost []error
	with, without := 0, 0
	q := memory.ListQuery{Scope: memory.Scope{User: "ada"}, WithVectors: true, Lost: func(err error) { lost = append(lost, err) }}
	for m, err := range db.Memories().All(t.Context(), q) {
		switch {
		case err != nil:
			t.Fatal(err)
		case m.Embedding != nil:
			with++
		default:
			without++
		}
	}
	if with+without != n || without != len(lost) || without == 0 || !errors.Is(lost[0], memory.ErrCorrupt) {
		t.Errorf("%d memories with a vector, %d without, of %d; %d told of, as %v", with, without, n, len(lost), lost)
	}
	q.Lost = nil
	if _, err := db.Memories().List(t.Context(), q); !errors.Is(err, memory.ErrCorrupt) {
		t.Errorf("a list that was not asked to go on: %v", err)
	}
	hits := mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "ada"}, Embedding: []float32{7, 1, 2}, Profile: memory.ProfileVector, NoTouch: true})
	if len(hits) != 10 {
		t.Errorf("%d hits among the vectors that are left", len(hits))
	}
}

// TestOpensBesideBadBlocks: of tables of the store whose bytes have changed all is read that
// lies in other blocks.
func TestOpensBesideBadBlocks(t *testing.T) {
	race.Sequential(t)
	const n = 3000
	fs, ada := vfs.NewMem(), memory.Scope{User: "ada"}
	db := openTest(t, fs, Options{})
	rng := rand.New(rand.NewPCG(5, 0))
	var mems []memory.Memory
	for i := range n {
		vec := make([]float32, 32)
		for j := range vec {
			vec[j] = rng.Float32()
		}
		mems = append(mems, memory.Memory{Scope: ada, Text: fmt.Sprint("tea number ", i), Embedding: vec})
	}
	if _, err := db.Memories().StoreBatch(t.Context(), mems, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.store.Flush(); err != nil {
		t.Fatal(err)
	}
	lower, upper := db.keys().Span(layout.KindVector)
	tables, err := db.store.SSTables()
	if err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	removeSnapshots(t, fs)
	spoilt := 0
	for _, level := range tables {
		for _, info := range level {
			if string(info.Smallest.UserKey) >= string(upper) || string(info.Largest.UserKey) < string(lower) {
				continue
			}
			name := fmt.Sprintf("db/store/%06d.sst", info.FileNum)
			b := readAll(t, fs, name)
			b[len(b)/10*8] ^= 0x40 // vectors come last
			writeAll(t, fs, name, b)
			spoilt++
		}
	}
	if spoilt == 0 {
		t.Fatal("no table was spoilt")
	}
	db = openTest(t, fs, Options{})
	stats, err := db.Stats(t.Context())
	if err != nil || stats.Memories != n || stats.Lost == 0 || stats.Lost > n/10 {
		t.Fatalf("%d memories, %d lost, %v", stats.Memories, stats.Lost, err)
	}
	if report, err := db.Check(t.Context()); err != nil || report.OK {
		t.Errorf("check: %+v, %v", report, err)
	}
}

// sameTexts wants the memories of ada that are there.
func sameTexts(t *testing.T, db *DB, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for m, err := range db.Memories().All(t.Context(), memory.ListQuery{Scope: memory.Scope{User: "ada"}}) {
		if err != nil {
			t.Fatal(err)
		}
		got[m.ID] = m.Text
		hits := mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "ada"}, Text: m.Text, Limit: 1, NoTouch: true, Profile: memory.ProfileText})
		if len(hits) != 1 || hits[0].Text != m.Text {
			t.Errorf("%s is not found by its text", m.ID)
		}
	}
	for id, text := range want {
		if got[id] != text {
			t.Errorf("%s is %q, want %q", id, got[id], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d memories, want %d", len(got), len(want))
	}
}
