package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// rescuable makes a database in a folder, with contents of all kinds in tables and in a log, and
// returns its export.
func rescuable(t *testing.T, dir string, now *testClock) string {
	t.Helper()
	out := ""
	for range 2 { // the second Open has what the first has stored in tables
		db, err := engine.Open(dir, &engine.Options{Clock: now.now, MemoryBudget: 32 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if out == "" {
			fill(t, db, now)
		}
		out = export(t, db, nil)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// files are the contents of all files of a folder, by their path.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRescue: what is left comes back whole, whatever file beside the tables is gone, and the
// damaged folder stays as it is.
func TestRescue(t *testing.T) {
	race.Sequential(t)
	now := newTestClock()
	whole := filepath.Join(t.TempDir(), "db")
	want := rescuable(t, whole, now)
	for _, gone := range []string{"nothing", "memdb.json", "memdb.mark", "store/MANIFEST-*", "store/OPTIONS-*", "store/marker.*", "all but tables"} {
		t.Run(strings.ReplaceAll(gone, "/", " "), func(t *testing.T) {
			dir, to := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "new")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			for path := range filesOf(t, dir) {
				rel, _ := filepath.Rel(dir, path)
				match, _ := filepath.Match(gone, filepath.ToSlash(rel))
				if match || gone == "all but tables" && filepath.Ext(path) != ".sst" {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			before := filesOf(t, dir)
			r, err := Rescue(t.Context(), dir, to, &engine.Options{Clock: now.now})
			if err != nil {
				t.Fatal(err)
			}
			// Without any list of the tables nobody knows whether one is missing.
			if lost := len(r.Lost); gone != "all but tables" && lost > 0 || gone == "all but tables" && (lost != 1 || !strings.Contains(r.Lost[0].Reason, "MANIFEST")) {
				t.Errorf("lost: %v", r.Lost)
			}
			if after := filesOf(t, dir); len(after) != len(before) {
				t.Errorf("the folder has %d files, had %d", len(after), len(before))
			} else {
				for path, content := range before {
					if after[path] != content {
						t.Errorf("%s has changed", path)
					}
				}
			}
			checkRescued(t, to, now, want)
		})
	}
}

// linesOf are the lines of an export but those of deaths of what has expired: when these come is
// left to the background.
func linesOf(export string) []string {
	return slices.DeleteFunc(slices.Collect(strings.Lines(export)), func(line string) bool { return strings.Contains(line, `"reason":"expired"`) })
}

func checkRescued(t *testing.T, dir string, now *testClock, want string) {
	t.Helper()
	db, err := engine.Open(dir, &engine.Options{Clock: now.now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if got, want := linesOf(export(t, db, nil)), linesOf(want); !slices.Equal(got, want) {
		t.Errorf("the rescued database exports %d lines, the whole one %d", len(got), len(want))
	}
	if r, err := db.Check(t.Context()); err != nil || !r.OK {
		t.Errorf("check: %v, %v", err, r.Problems)
	}
	if _, err := os.Stat(dir + ".remains"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy is still there: %v", err)
	}
}

// TestRescueOfATable: a byte of each block of a table is flipped, one block at a time. All lines
// but those of the block come back, and what is lost is told.
func TestRescueOfATable(t *testing.T) {
	now := newTestClock()
	whole := filepath.Join(t.TempDir(), "db")
	want := slices.Sorted(strings.Lines(rescuable(t, whole, now)))
	tables, err := filepath.Glob(filepath.Join(whole, "store", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	table, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	const blockBytes = 4096
	for at := 100; at < len(table); at += 3 * blockBytes {
		dir, to := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "new")
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(table)
		bad[at] ^= 0x10
		if err := os.WriteFile(filepath.Join(dir, "store", filepath.Base(tables[0])), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Rescue(t.Context(), dir, to, &engine.Options{Clock: now.now})
		if err != nil {
			t.Fatalf("byte %d of %d: %v", at, len(table), err)
		}
		db, err := engine.Open(to, &engine.Options{Clock: now.now})
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Sorted(strings.Lines(export(t, db, nil)))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		lost := 0
		for _, line := range want {
			if _, ok := slices.BinarySearch(got, line); !ok {
				lost++
			}
		}
		if lost > 0 && len(r.Lost) == 0 || lost > len(want)*3/4 {
			t.Errorf("byte %d of %d: %d of %d lines are lost, and told of: %v", at, len(table), lost, len(want), r.Lost)
		}
	}
}

// TestRescueKeys verifies that a rescue brings the API keys along.
func TestRescueKeys(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "rescued")
	db, err := engine.Open(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := apikeys.Open(db.APIKeys(), time.Now).Add(t.Context(), apikeys.Rights{Admin: true})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if r, err := Rescue(t.Context(), from, to, nil); err != nil || len(r.Lost) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if db, err = engine.Open(to, nil); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k := apikeys.Open(db.APIKeys(), time.Now)
	if key, needed, err := k.Find(secret); err != nil || !needed || !key.Admin {
		t.Errorf("the key: %+v, %v, %v", key, needed, err)
	}
	if _, needed, err := k.Find(""); !needed || err == nil {
		t.Errorf("without a key: %v, %v", needed, err)
	}
}

// TestRescueOfAnOlderStore verifies that a rescue counts the commits which were acknowledged and which an
// older copy of the store beside the newer mark does not have.
func TestRescueOfAnOlderStore(t *testing.T) {
	now := newTestClock()
	dir, older := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "older")
	store := func(from, to int) {
		db, err := engine.Open(dir, &engine.Options{Clock: now.now})
		if err != nil {
			t.Fatal(err)
		}
		for i := from; i < to; i++ {
			if _, err := db.Memories().Store(t.Context(), memory.Memory{ID: fmt.Sprint("m", i), Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("tea ", i)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	store(0, 10)
	if err := os.CopyFS(older, os.DirFS(filepath.Join(dir, "store"))); err != nil {
		t.Fatal(err)
	}
	store(10, 20)
	if err := os.RemoveAll(filepath.Join(dir, "store")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "store"), os.DirFS(older)); err != nil {
		t.Fatal(err)
	}
	r, err := Rescue(t.Context(), dir, filepath.Join(t.TempDir(), "new"), &engine.Options{Clock: now.now})
	if err != nil {
		t.Fatal(err)
	}
	if at := slices.IndexFunc(r.Lost, func(l RescueLoss) bool { return l.What == "commits" && l.Count == 10 }); r.Memories != 10 || at < 0 {
		t.Errorf("%d memories, lost %+v; want 10, and 10 commits lost", r.Memories, r.Lost)
	}
}

// TestRescueRefuses: nothing to read, a database in the way, and one that is open.
func TestRescueRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	now := newTestClock()
	rescuable(t, dir, now)
	empty := t.TempDir()
	if err := os.Mkdir(filepath.Join(empty, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Rescue(t.Context(), empty, filepath.Join(t.TempDir(), "new"), nil); !errors.Is(err, memory.ErrCorrupt) {
		t.Errorf("of nothing: %v", err)
	}
	if _, err := Rescue(t.Context(), dir, dir, nil); !errors.Is(err, memory.ErrExists) {
		t.Errorf("into itself: %v", err)
	}
	db, err := engine.Open(dir, &engine.Options{Clock: now.now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Rescue(t.Context(), dir, filepath.Join(t.TempDir(), "new"), nil); !errors.Is(err, memory.ErrLocked) {
		t.Errorf("of one that is open: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
