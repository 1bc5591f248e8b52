package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// readAll and writeAll treat a file as a whole.
func readAll(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeAll(t testing.TB, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(b)); err != nil { // see writeTestFile
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// copyFS copies the folder "db" of a closed database to a file system of its own. A live one
// is copied by CrashClone, at one instant.
func copyFS(t testing.TB, fs vfs.FS) *vfs.MemFS {
	t.Helper()
	to := vfs.NewMem()
	var walk func(dir string)
	walk = func(dir string) {
		if err := to.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		names, err := fs.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			path := fs.PathJoin(dir, name)
			if info, err := fs.Stat(path); err != nil {
				t.Fatal(err)
			} else if info.IsDir() {
				walk(path)
				continue
			}
			writeAll(t, to, path, readAll(t, fs, path))
		}
	}
	walk("db")
	return to
}

// closedDatabase is a folder with a database of n memories in tables and 10 more
// in the log.
func closedDatabase(t testing.TB, n int) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	db, err := openOn(fs, "db", Options{MemoryBudget: testBudget})
	if err != nil {
		t.Fatal(err)
	}
	var mems []memory.Memory
	for i := range n + 10 {
		mems = append(mems, memory.Memory{ID: fmt.Sprint("m", i), Scope: memory.Scope{User: "ada"}, Text: fmt.Sprintf("tea number%d %x", i, i*i*i*7919), Embedding: []float32{1, float32(i)}})
	}
	for part := range slices.Chunk(mems, n) {
		if _, err := db.Memories().StoreBatch(context.Background(), part, nil); err != nil {
			t.Fatal(err)
		}
		if len(part) == n {
			if err := db.store.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	closeTest(t, db)
	return fs
}

// TestOpenRefuses: what is no database, or none for this memdb, is refused by its
// kind, changes nothing, and leaves no lock behind.
func TestOpenRefuses(t *testing.T) {
	edit := func(old, new string) func(t *testing.T, fs vfs.FS) {
		return func(t *testing.T, fs vfs.FS) {
			b := readAll(t, fs, "db/memdb.json")
			changed := bytes.Replace(b, []byte(old), []byte(new), 1)
			if bytes.Equal(b, changed) {
				t.Fatalf("no %q in %s", old, b)
			}
			writeAll(t, fs, "db/memdb.json", changed)
		}
	}
	truncate := func(path string, n int) func(t *testing.T, fs vfs.FS) {
		return func(t *testing.T, fs vfs.FS) { writeAll(t, fs, path, readAll(t, fs, path)[:n]) }
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, fs vfs.FS)
		want  error
	}{
		{"newer layout", func(t *testing.T, fs vfs.FS) {
			id, err := place.Read(fs, "db")
			if err != nil {
				t.Fatal(err)
			}
			id.Layout = 99
			if err := id.Write(fs, "db"); err != nil {
				t.Fatal(err)
			}
		}, fault.ErrNewerLayout},
		{"another layout", edit(fmt.Sprintf(`"layout": %d`, place.Layout), `"layout": 99`), fault.ErrCorrupt},
		{"damaged JSON", edit(`{`, `[`), fault.ErrCorrupt},
		{"other magic", edit(`"memdb"`, `"other"`), fault.ErrCorrupt},
		{"empty identity", truncate("db/memdb.json", 0), fault.ErrCorrupt},
		{"half an identity", truncate("db/memdb.json", 40), fault.ErrCorrupt},
		{"no layout", edit(fmt.Sprintf(`"layout": %d`, place.Layout), `"layout": 0`), fault.ErrCorrupt},
		{"hash seed of another database", func(t *testing.T, fs vfs.FS) {
			b := regexp.MustCompile(`"hash_seed": "\d+"`).ReplaceAll(readAll(t, fs, "db/memdb.json"), []byte(`"hash_seed": "42"`))
			writeAll(t, fs, "db/memdb.json", b)
		}, fault.ErrCorrupt},
		{"no language", edit(`"auto"`, `"autu"`), fault.ErrCorrupt},
		{"no weight", edit(`"weight": 1`, `"weight": 99`), fault.ErrCorrupt},
		{"no ID", edit(`"id": "`, `"id": "x`), fault.ErrCorrupt},
		{"no store", func(t *testing.T, fs vfs.FS) { remove(t, fs, "db/store") }, fault.ErrCorrupt},
		{"empty store", func(t *testing.T, fs vfs.FS) {
			remove(t, fs, "db/store")
			if err := fs.MkdirAll("db/store", 0o755); err != nil {
				t.Fatal(err)
			}
		}, fault.ErrCorrupt},
		{"no identity", func(t *testing.T, fs vfs.FS) { remove(t, fs, "db/memdb.json") }, fault.ErrCorrupt},
		{"a file", func(t *testing.T, fs vfs.FS) {
			remove(t, fs, "db")
			writeAll(t, fs, "db", []byte("not a folder"))
		}, fault.ErrNotDatabase},
		{"other files", func(t *testing.T, fs vfs.FS) {
			remove(t, fs, "db")
			if err := fs.MkdirAll("db", 0o755); err != nil {
				t.Fatal(err)
			}
			writeAll(t, fs, "db/letter.txt", []byte("dear"))
		}, fault.ErrNotDatabase},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := closedDatabase(t, 20)
			c.spoil(t, fs)
			for range 2 { // the second time reports whether the lock was released
				db, err := openOn(fs, "db", Options{})
				wantError(t, c.name, err, c.want)
				if err == nil {
					closeTest(t, db)
				}
			}
		})
	}
}

func remove(t *testing.T, fs vfs.FS, path string) {
	t.Helper()
	if err := fs.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// TestOpenEmptyFiles cuts every file of the store to nothing, or away. What is
// lost is told, by an error of its kind or by Check, and nothing is made up.
func TestOpenEmptyFiles(t *testing.T) {
	fs := closedDatabase(t, 30)
	names, err := fs.List("db/store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := "db/store/" + name
		for what, spoil := range map[string]func(vfs.FS){
			"empty":   func(fs vfs.FS) { writeAll(t, fs, path, nil) },
			"missing": func(fs vfs.FS) { remove(t, fs, path) },
		} {
			fs := copyFS(t, fs)
			spoil(fs)
			told := damageTold(t, fs, 40)
			switch class := crashfs.ClassOf(name); {
			case class == crashfs.Log:
				// A log that ends early is what a crash leaves: its end is lost.
			case class == crashfs.Other, class == crashfs.Marker && what == "empty":
				// The lock and the options are written anew; of a marker the name counts.
				if told != "" {
					t.Errorf("%s is %s: %s", name, what, told)
				}
			case told == "":
				t.Errorf("%s is %s, and nobody was told", name, what)
			}
		}
	}
}

// damageTold opens a damaged database of n memories, reads everything in it, and says
// how the damage shows; it is empty where all is there.
func damageTold(t *testing.T, fs vfs.FS, n int) string {
	t.Helper()
	db, err := openOn(fs, "db", Options{MemoryBudget: testBudget})
	if err != nil {
		wantError(t, "open", err, fault.ErrCorrupt)
		return err.Error()
	}
	defer func() { _ = db.Close() }()
	var told []string
	note := func(what string, err error) {
		if err == nil {
			return
		}
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("%s: %v, which is of no kind", what, err)
		}
		told = append(told, fmt.Sprintf("%s: %v", what, err))
	}
	ctx, ada := context.Background(), memory.Scope{User: "ada"}
	page, err := db.Memories().List(ctx, memory.ListQuery{Scope: ada, Limit: valid.MaxLimit, WithVectors: true})
	note("list", err)
	for i := range n {
		if len(told) > 3 {
			break // each further one looks through the same bad block again
		}
		m, err := db.Memories().Get(ctx, ada, fmt.Sprint("m", i))
		note("get", err)
		if err == nil && !strings.HasPrefix(m.Text, fmt.Sprintf("tea number%d ", i)) {
			t.Errorf("memory %d reads %q", i, m.Text)
		}
	}
	_, err = db.Memories().Recall(ctx, memory.Query{Scope: ada, Text: "tea number7", Embedding: []float32{1, 7}})
	note("recall", err)
	r, err := db.Check(ctx)
	note("check", err)
	if !r.OK {
		for _, p := range r.Problems {
			told = append(told, p.What)
		}
	}
	if len(told) == 0 && len(page.Memories) != n {
		t.Errorf("%d memories are left of %d, and nothing tells why", len(page.Memories), n)
	}
	return strings.Join(told, "; ")
}

// TestFlippedBytes damages tables at many places: reading all of them never
// panics, never returns another text, and the damage is told wherever it matters.
func TestFlippedBytes(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	fs := closedDatabase(t, 200)
	names, err := fs.List("db/store")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	tried, told := 0, 0
	for _, name := range names {
		if crashfs.ClassOf(name) != crashfs.Table {
			continue
		}
		path := "db/store/" + name
		whole := readAll(t, fs, path)
		for range max(race.Times(4), 2) { // Pebble looks for the bit in each block that it reads, each time
			damaged := slices.Clone(whole)
			at := rng.IntN(len(damaged))
			damaged[at] ^= byte(1 + rng.IntN(255))
			clone := copyFS(t, fs)
			writeAll(t, clone, path, damaged)
			tried++
			db, err := openOn(clone, "db", Options{MemoryBudget: testBudget})
			if err != nil {
				wantError(t, fmt.Sprintf("open with byte %d of %s flipped", at, name), err, fault.ErrCorrupt)
				told++
				continue
			}
			if err := db.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if damageTold(t, clone, 210) != "" {
				told++
			}
		}
	}
	t.Logf("%d of %d flipped bytes were told", told, tried)
	if tried == 0 || told*10 < tried*9 {
		t.Errorf("only %d of %d flipped bytes were told", told, tried)
	}
}

// TestLocked: a folder is opened once, in this process and in others.
func TestLocked(t *testing.T) {
	if dir := os.Getenv("MEMDB_TEST_OPEN"); dir != "" { // the child
		db, err := Open(dir, nil)
		fmt.Fprintln(os.Stdout, "child:", errors.Is(err, fault.ErrLocked), err)
		if err == nil {
			fmt.Fprintln(os.Stdout, db.Close())
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "new", "db")
	db, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, nil)
	wantError(t, "second Open", err, fault.ErrLocked)
	_, err = Open(filepath.Join(dir, "..", "db"), nil)
	wantError(t, "second Open by another path", err, fault.ErrLocked)
	child := func() string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLocked$", "-test.count=1")
		cmd.Env = append(os.Environ(), "MEMDB_TEST_OPEN="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("child: %v\n%s", err, out)
		}
		return string(out)
	}
	if out := child(); !strings.Contains(out, "child: true") || !strings.Contains(out, fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("the child was told\n%s", out)
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "still works"})
	closeTest(t, db)
	if out := child(); !strings.Contains(out, "child: false <nil>") {
		t.Errorf("after Close the child was told\n%s", out)
	}
	if db, err = Open(dir, nil); err != nil {
		t.Fatal(err)
	}
	equalSlices(t, "memories", texts(mustList(t, db.Memories(), memory.Scope{User: "ada"})), []string{"still works"})
	closeTest(t, db)
}

// TestCreationInterrupted crashes before every change that creating a database
// makes, keeping none, some or all of what was not synced: afterwards it opens,
// as the same database or as a new one.
func TestCreationInterrupted(t *testing.T) {
	race.Sequential(t)
	mem := crashfs.NewDisk()
	var clones []*crashfs.Disk
	rng := rand.New(rand.NewPCG(3, 3))
	fs := crashfs.Wrap(mem, func(crashfs.Op) error {
		for _, percent := range []int{0, 50, 100} {
			clones = append(clones, mem.Lose(percent, rng))
		}
		return nil
	})
	db, err := openOn(fs, "some/where/db", Options{MemoryBudget: testBudget})
	if err != nil {
		t.Fatal(err)
	}
	fs.SetHook(nil)
	// Once a store is acknowledged, the folder itself must be durable too.
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "kept"})
	acknowledged := mem.Crash(crashfs.Crash{})
	closeTest(t, db)
	if race.Enabled {
		rng.Shuffle(len(clones), func(i, j int) { clones[i], clones[j] = clones[j], clones[i] })
		clones = clones[:min(len(clones), 60)]
	}
	for i, clone := range append(clones, acknowledged) {
		db, err := openOn(clone, "some/where/db", Options{MemoryBudget: testBudget})
		if err != nil {
			t.Errorf("crash %d: %v", i, err)
			continue
		}
		n := 0
		if clone == acknowledged {
			n = 1
		}
		mustCheck(t, db, n)
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "new"})
		closeTest(t, db)
		if db, err = openOn(clone, "some/where/db", Options{MemoryBudget: testBudget}); err != nil {
			t.Fatal(err)
		}
		mustCheck(t, db, n+1)
		closeTest(t, db)
	}
	t.Logf("%d crashes", len(clones))
}

// TestCreationFails: an error of the disk while a database is created is told,
// and leaves what can be opened once the disk is mended.
func TestCreationFails(t *testing.T) {
	cause := errors.New("disk on fire")
	count := crashfs.Wrap(vfs.NewMem(), nil)
	db, err := openOn(count, "db", Options{MemoryBudget: testBudget})
	if err != nil {
		t.Fatal(err)
	}
	ops, step := count.Ops(), 1
	closeTest(t, db)
	if race.Enabled {
		step = 5
	}
	for at := 1; at <= ops; at += step {
		var hit atomic.Bool
		fs := crashfs.Wrap(vfs.NewMem(), func(op crashfs.Op) error {
			if op.N == at {
				hit.Store(true)
				return cause
			}
			return nil
		})
		within(t, fmt.Sprintf("Open with change %d failing", at), func() {
			db, err := openOn(fs, "db", Options{MemoryBudget: testBudget})
			if err == nil {
				_ = db.Close()
			}
		})
		fs.SetHook(nil)
		db, err := openOn(fs, "db", Options{MemoryBudget: testBudget})
		if err != nil {
			t.Errorf("after change %d of %d failed: %v", at, ops, err)
			continue
		}
		mustCheck(t, db, 0)
		closeTest(t, db)
	}
}

// TestSettings: what is fixed at creation is taken over while nothing is stored,
// and is a mismatch afterwards.
func TestSettings(t *testing.T) {
	fs := vfs.NewMem()
	open := func(o Options) (*DB, error) {
		o.MemoryBudget = testBudget
		return openOn(fs, "db", o)
	}
	check := func(o Options, want error, language string, fields ...string) {
		t.Helper()
		db, err := open(o)
		if want != nil || err != nil {
			wantError(t, fmt.Sprintf("%+v", o), err, want)
			return
		}
		s := db.Settings()
		if s.Language != language || s.Layout != place.Layout || s.ID == "" {
			t.Errorf("settings %+v", s)
		}
		var indexed []string
		for _, f := range s.IndexedText {
			indexed = append(indexed, f.Field)
		}
		equalSlices(t, "indexed", indexed, fields)
		closeTest(t, db)
	}
	name, tag := []memory.IndexedField{{Field: "name", Weight: 1}}, []memory.IndexedField{{Field: "metadata.tag", Weight: 2}}
	check(Options{}, nil, "auto", "name")
	check(Options{IndexedText: tag}, nil, "auto", "metadata.tag")
	check(Options{Language: "none"}, nil, "none", "metadata.tag")
	check(Options{}, nil, "none", "metadata.tag")
	check(Options{Language: "klingon"}, fault.ErrInvalid, "")
	check(Options{IndexedText: []memory.IndexedField{{Field: "text"}}}, fault.ErrInvalid, "")
	db, err := open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "running", Metadata: map[string]any{"tag": "sport"}})
	for query, want := range map[string]int{"sport": 1, "running": 1, "run": 0} {
		if hits := mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "ada"}, Text: query, Profile: memory.ProfileText}); len(hits) != want {
			t.Errorf("%q finds %d, want %d", query, len(hits), want)
		}
	}
	closeTest(t, db)
	check(Options{IndexedText: name}, fault.ErrMismatch, "")
	check(Options{Language: "english"}, fault.ErrMismatch, "")
	check(Options{Language: "none", IndexedText: tag}, nil, "none", "metadata.tag")
}

// TestCloseKeepsTouches: a recall that Close waits for is counted.
func TestCloseKeepsTouches(t *testing.T) {
	fs := vfs.NewMem()
	var hook atomic.Pointer[func()]
	db := openTest(t, fs, Options{Clock: func() time.Time {
		if fn := hook.Swap(nil); fn != nil {
			(*fn)()
		}
		return time.Unix(1_800_000_000, 0)
	}})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: ada, Text: "tea"})
	closed := make(chan error, 1)
	closing := func() {
		go func() { closed <- db.Close() }()
		for !db.life.Closed() {
			time.Sleep(time.Millisecond)
		}
	}
	err := db.View(t.Context(), func(tx *Tx) error {
		hook.Store(&closing) // within the recall
		_, err := tx.Memories().Recall(t.Context(), memory.Query{Scope: ada, Text: "tea"})
		return err
	})
	if err != nil && !errors.Is(err, fault.ErrClosed) {
		t.Fatal(err)
	}
	told := err == nil
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	db = openTest(t, fs, Options{})
	if m := mustGet(t, db.Memories(), ada, "one"); told != (m.AccessCount == 1) {
		t.Errorf("recall answered: %v; recalls counted: %d", told, m.AccessCount)
	}
}
