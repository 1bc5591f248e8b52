package recovery_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/recovery"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// lossy is a closed database of memories with vectors, of which some are deleted and some updated, and the texts of
// those that live.
func lossy(t *testing.T) (fs vfs.FS, living map[string]string) {
	t.Helper()
	fs, living = vfs.NewMem(), map[string]string{}
	db, ctx, ada := testdb.Open(t, fs, engine.Options{}), t.Context(), memory.Scope{User: "ada"}
	for i := range 60 {
		id, text := fmt.Sprint("m", i), fmt.Sprint("tea number ", i)
		testdb.Store(t, db.Memories(), memory.Memory{ID: id, Scope: memory.Scope{User: "ada", Run: fmt.Sprint("r", i%3)}, Text: text, Embedding: []float32{float32(i), 1, 2}})
		living[id] = text
	}
	for i := 0; i < 60; i += 10 {
		testdb.NoError(t, db.Memories().Delete(ctx, ada, fmt.Sprint("m", i)))
		delete(living, fmt.Sprint("m", i))
		id, text := fmt.Sprint("m", i+1), fmt.Sprint("milk number ", i+1)
		_, err := db.Memories().Update(ctx, ada, id, memory.Patch{Text: &text, Embedding: []float32{float32(i + 1), 2, 2}})
		testdb.NoError(t, err)
		living[id] = text
	}
	waitVectors(t, db, int64(len(living)))
	testdb.Close(t, db)
	return fs, living
}

// spoil damages some of the keys of a kind in the store of a closed database.
func spoil(t *testing.T, fs vfs.FS, kind byte, change func(s *store.Store, key, value []byte) error) {
	t.Helper()
	rng, spoilt := rand.New(rand.NewPCG(11, 0)), 0
	testdb.Spoil(t, fs, func(ks *layout.Keys, s *store.Store) error {
		lower, upper := ks.Span(kind)
		return kv.Scan(s, lower, upper, func(key, value []byte) error {
			if rng.IntN(4) > 0 || len(value) == 0 {
				return nil
			}
			spoilt++
			return change(s, slices.Clone(key), value[:rng.IntN(len(value))])
		})
	})
	if spoilt == 0 {
		t.Fatal("nothing was spoilt")
	}
}

func drop(s *store.Store, key, _ []byte) error { return s.Delete(key, pebble.Sync) }
func cut(s *store.Store, key, value []byte) error {
	return s.Set(key, slices.Clone(value), pebble.Sync)
}

// sameTexts wants the memories of ada that are there, found by their texts.
func sameTexts(t *testing.T, db *engine.DB, want map[string]string) {
	t.Helper()
	got := testdb.List(t, db.Memories(), memory.Scope{User: "ada"})
	for _, m := range got {
		if want[m.ID] != m.Text {
			t.Errorf("%s is %q, want %q", m.ID, m.Text, want[m.ID])
		}
		r, err := db.Memories().Recall(t.Context(), memory.Query{Scope: memory.Scope{User: "ada"}, Text: m.Text, Limit: 1, NoTouch: true, Profile: memory.ProfileText})
		if err != nil || len(r.Hits) != 1 || r.Hits[0].Text != m.Text {
			t.Errorf("%s is not found by its text: %v", m.ID, err)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d memories, want %d", len(got), len(want))
	}
}

// TestOpensWithout: a database of which something cannot be read opens, and reports how much is lost; where it is
// opened to be written, what follows from the records is made again.
func TestOpensWithout(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    byte
		change  func(s *store.Store, key, value []byte) error
		derived bool // all of it follows from the records
	}{
		{"vectors that are missing", layout.KindVector, drop, false},
		{"vectors that are cut", layout.KindVector, cut, false},
		{"forward records that are cut", layout.KindForward, cut, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, living := lossy(t)
			spoil(t, fs, c.kind, c.change)
			db := testdb.Open(t, fs, engine.Options{ReadOnly: true})
			if s := testdb.Stats(t, db); s.Lost == 0 {
				t.Error("nothing is reported as lost")
			}
			r, err := db.Check(t.Context())
			if err != nil || r.OK || !strings.Contains(fmt.Sprint(r.Problems), "memory ") {
				t.Errorf("check: %+v, %v", r, err)
			}
			testdb.Close(t, db)
			db = testdb.Open(t, fs, engine.Options{})
			sameTexts(t, db, living)
			testdb.Close(t, db)
			if !c.derived {
				return
			}
			db = testdb.Open(t, fs, engine.Options{ReadOnly: true})
			testdb.Check(t, db, len(living))
			if s := testdb.Stats(t, db); s.Lost != 0 {
				t.Errorf("%d are lost of what was made again", s.Lost)
			}
		})
	}
}

// TestDerives: keys that say what others are read by follow from these where they cannot be read.
func TestDerives(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(ks *layout.Keys, s *store.Store) error
	}{
		{"generations missing", func(_ *layout.Keys, s *store.Store) error { return s.Delete(layout.GenerationsKey, pebble.Sync) }},
		{"generations damaged", func(_ *layout.Keys, s *store.Store) error {
			return s.Set(layout.GenerationsKey, []byte{1}, pebble.Sync)
		}},
		{"newest record of the log damaged", func(ks *layout.Keys, s *store.Store) error {
			lower, upper := ks.Span(layout.KindLog)
			var last []byte
			err := kv.Scan(s, lower, upper, func(key, _ []byte) error { last = slices.Clone(key); return nil })
			return errors.Join(err, s.Set(last, []byte{1}, pebble.Sync))
		}},
		{"name of a space damaged", func(ks *layout.Keys, s *store.Store) error {
			key := ks.Name(layout.NameSpace, memory.DefaultSpace)
			return errors.Join(s.Delete(key, pebble.Sync), s.Delete(layout.GenerationsKey, pebble.Sync))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, living := lossy(t)
			testdb.Spoil(t, fs, c.damage)
			db := testdb.Open(t, fs, engine.Options{})
			if s := testdb.Stats(t, db); s.Lost == 0 {
				t.Error("nothing is reported as lost")
			}
			sameTexts(t, db, living)
			r, err := db.Memories().Recall(t.Context(), memory.Query{Scope: memory.Scope{User: "ada"}, Embedding: []float32{7, 1, 2}, Profile: memory.ProfileVector, NoTouch: true})
			if err != nil || len(r.Hits) == 0 {
				t.Errorf("no memory is found by its vector: %v", err)
			}
			testdb.Store(t, db.Memories(), memory.Memory{ID: "new", Scope: memory.Scope{User: "ada"}, Text: "stored behind the damage"})
		})
	}
}

// TestRemains: what is left of a damaged database is a database, and what is lost is reported.
func TestRemains(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, fs vfs.FS)
		lost   string // of what something is lost; empty for nothing
	}{
		{"whole", func(*testing.T, vfs.FS) {}, ""},
		{"identity gone", func(t *testing.T, fs vfs.FS) { testdb.NoError(t, fs.Remove("db/"+place.Name)) }, ""},
		{"identity and its copy gone", func(t *testing.T, fs vfs.FS) {
			testdb.Spoil(t, fs, func(_ *layout.Keys, s *store.Store) error { return s.Delete(layout.IdentityKey, pebble.Sync) })
			testdb.NoError(t, fs.Remove("db/"+place.Name))
		}, "the settings"},
		{"a name of an owner damaged", func(t *testing.T, fs vfs.FS) {
			testdb.Spoil(t, fs, func(ks *layout.Keys, s *store.Store) error {
				return s.Set(ks.Name(layout.NameOwner, "nobody"), []byte{1}, pebble.Sync)
			})
		}, "a name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, living := lossy(t)
			c.damage(t, fs)
			left, err := engine.OpenRemains(t.Context(), fsys.On(fs, "db"), fsys.On(fs, "beside"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { testdb.NoError(t, left.Close()) }()
			sameTexts(t, left.DB, living)
			if what := fmt.Sprint(left.Lost); left.Keys == 0 || (c.lost == "") != (len(left.Lost) == 0) || !strings.Contains(what, c.lost) {
				t.Errorf("%d keys, lost: %s; want %q", left.Keys, what, c.lost)
			}
		})
	}
}

// TestRemainsOfNothing: a folder without a store has no remains.
func TestRemainsOfNothing(t *testing.T) {
	fs, _ := lossy(t)
	testdb.NoError(t, fs.RemoveAll("db/"+store.Dir))
	if left, err := engine.OpenRemains(t.Context(), fsys.On(fs, "db"), fsys.On(fs, "beside"), nil); !errors.Is(err, memory.ErrCorrupt) {
		t.Errorf("%v, %v", left, err)
	}
}

// TestBetween: what lay between two keys is named, and so is whether it follows from the rest.
func TestBetween(t *testing.T) {
	key := func(kind byte) []byte { return []byte{kind, 0, 1} }
	for _, c := range []struct {
		from, to []byte
		what     string
		counts   bool
	}{
		{nil, nil, "everything in a file of the store", true},
		{key(layout.KindRecord), key(layout.KindRecord), "memories", true},
		{key(layout.KindForward), key(layout.KindForward), "", false},
		{key(layout.KindVector), key(layout.KindVector), "vectors", true},
		{key(layout.KindName), key(layout.KindName), "names", true},
		{key(byte(entries.Part{}.Kinds()[0])), key(byte(entries.Part{}.Kinds()[0])), "entries", true},
		{[]byte{1}, []byte{2}, "", false},
	} {
		if what, counts := recovery.Between([]part.Part{entries.Part{}}, c.from, c.to); what != c.what || counts != c.counts {
			t.Errorf("%q to %q: %q, %v; want %q, %v", c.from, c.to, what, counts, c.what, c.counts)
		}
	}
	what, counts := recovery.Between(nil, nil, key(0xff))
	for _, name := range []string{"deaths of memories", "access statistics", "the log of changes", "deletes", "settings of the store"} {
		if !counts || !strings.Contains(what, name) {
			t.Errorf("all keys: %q, %v; %q is missing", what, counts, name)
		}
	}
}

// TestRemainsOfFile: so is a database in one file.
func TestRemainsOfFile(t *testing.T) {
	fs := vfs.NewMem()
	db, err := engine.Open(fsys.On(fs, "one"+engine.FileSuffix), &engine.Options{MemoryBudget: testdb.Budget})
	testdb.NoError(t, err)
	testdb.Store(t, db.Memories(), memory.Memory{ID: "a", Scope: memory.Scope{User: "ada"}, Text: "tea"})
	testdb.Close(t, db)
	left, err := engine.OpenRemains(t.Context(), fsys.On(fs, "one"+engine.FileSuffix), fsys.On(fs, "beside"), nil)
	testdb.NoError(t, err)
	sameTexts(t, left.DB, map[string]string{"a": "tea"})
	if len(left.Lost) > 0 {
		t.Errorf("lost: %v", left.Lost)
	}
	testdb.NoError(t, left.Close())
}
