//go:build unix

package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// nameWait is how long an Open may take of a folder with an odd name: who waits for a pipe, or
// reads a device to its end, takes for ever.
const nameWait = 20 * time.Second

// oddities are what a name in a folder may lead to if somebody else has made the folder.
var oddities = map[string]func(path, target string) error{
	"link":        func(path, target string) error { return os.Symlink(target, path) },
	"broken link": func(path, target string) error { return os.Symlink(target+".none", path) },
	"device":      func(path, _ string) error { return os.Symlink("/dev/zero", path) },
	"pipe":        func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
	"folder":      func(path, _ string) error { return os.Mkdir(path, 0o700) },
	"huge file": func(path, _ string) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
	},
}

// namesFolder makes the folder of a database, and returns it with all names in it, those that it
// has only at times as well.
func namesFolder(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	for _, text := range []string{"tea", "milk"} { // the second time there is a MANIFEST that a table is in
		db, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: text, Embedding: []float32{1, 2}})
		closeTest(t, db)
	}
	names = []string{
		"memdb.json.new", "memdb.holder", "memdb.sock", "memdb.socket", "memdb.json.damaged", "vectors-9-1.snap", "vectors-1-0.snap.new",
		"store.rebuilt", "store.backup", "store.damaged", "store/logs.mark", "store/CURRENT", "store/000999.log", "store/000999.sst", "store/000999.blob",
		"store/000999.dbtmp", "store/temporary.000999.dbtmp", "store/000999.log.damaged",
	}
	for _, sub := range []string{"", "store"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, filepath.Join(sub, e.Name()))
		}
	}
	return dir, names
}

// TestOddNames: whatever a name in the folder of a database leads to, opening ends soon, with an
// error that names the file, or without harm. What a link leads to stays as it is.
func TestOddNames(t *testing.T) {
	race.Sequential(t)
	from, names := namesFolder(t)
	for _, name := range names {
		for kind, put := range oddities {
			t.Run(strings.ReplaceAll(name, "/", "_")+"/"+kind, func(t *testing.T) {
				if kind == "folder" && strings.HasPrefix(name, "store") && !strings.Contains(name, "/") {
					return // as it is to be
				}
				place := t.TempDir()
				dir, target := filepath.Join(place, "db"), filepath.Join(place, "target")
				path := filepath.Join(dir, name)
				if err := errors.Join(os.CopyFS(dir, os.DirFS(from)), os.Chmod(dir, 0o700), os.RemoveAll(path), put(path, target)); err != nil {
					t.Fatal(err)
				}
				target = fillTarget(t, target, name)
				for _, readOnly := range []bool{true, false} {
					if err := openSoon(t, dir, readOnly); err != nil && !strings.Contains(err.Error(), filepath.Base(name)) {
						t.Errorf("read only %v: it names no file: %v", readOnly, err)
					} else if err == nil && strings.HasPrefix(kind, "link") && !ignored(name) {
						t.Errorf("read only %v: it opens", readOnly)
					}
				}
				if b, err := os.ReadFile(target); err != nil || string(b) != "mine" {
					t.Errorf("the target of the link is now %q, %v", b, err)
				}
				if _, err := os.Lstat(filepath.Join(place, "target.none")); err == nil {
					t.Error("what a broken link leads to was made")
				}
			})
		}
	}
}

// fillTarget makes what links lead to: a file, or for the store a folder. It returns the file.
func fillTarget(t *testing.T, target, name string) string {
	t.Helper()
	if name == "store" {
		if err := os.Mkdir(target, 0o700); err != nil {
			t.Fatal(err)
		}
		target = filepath.Join(target, "LOCK")
	}
	if err := os.WriteFile(target, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	return target
}

// ignored reports whether Open looks at what has the name not at all.
func ignored(name string) bool {
	return strings.HasPrefix(name, "memdb.sock") || strings.HasSuffix(name, ".damaged")
}

// openSoon opens the database of a folder and closes it, and fails where that takes long.
func openSoon(t *testing.T, dir string, readOnly bool) error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		db, err := Open(dir, &Options{ReadOnly: readOnly})
		if err == nil {
			err = db.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(nameWait):
		t.Fatalf("read only %v: Open does not end", readOnly)
		return nil
	}
}

// TestOddNamesOfRemains: no link is followed by what reads a damaged database either.
func TestOddNamesOfRemains(t *testing.T) {
	dir, _ := namesFolder(t)
	store := filepath.Join(dir, "store")
	if err := errors.Join(os.Rename(store, dir+".elsewhere"), os.Symlink(dir+".elsewhere", store)); err != nil {
		t.Fatal(err)
	}
	_, err := OpenRemains(t.Context(), dir, filepath.Join(t.TempDir(), "new"), nil)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), store+" is a link") {
		t.Error(err)
	}
}

// TestLinkedFolder: the folder itself may be a link, which its user has named.
func TestLinkedFolder(t *testing.T) {
	dir, _ := namesFolder(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := openSoon(t, link, false); err != nil {
		t.Error(err)
	}
}

// umaskDir, in the environment, is where the child of TestUmask makes a database.
const umaskDir = "MEMDB_TEST_UMASK"

// TestUmask: whatever the umask, files and folders are their owner's alone.
func TestUmask(t *testing.T) {
	if dir := os.Getenv(umaskDir); dir != "" { // the child: a umask is that of a whole process
		syscall.Umask(0)
		db, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "tea", Embedding: []float32{1, 2}})
		wantPrivate(t, dir) // with what is there only while it is open
		closeTest(t, db)
		return
	}
	dir := filepath.Join(t.TempDir(), "made", "db")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUmask$")
	child.Env = append(os.Environ(), umaskDir+"="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := wantPrivate(t, filepath.Dir(dir)); n < 10 {
		t.Errorf("%d names", n)
	}
}

// wantPrivate looks at the modes of all that is in a folder, and returns how much that is.
func wantPrivate(t *testing.T, dir string) (names int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		names++
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has the mode %04o, want %04o", path, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return names
}

// TestWideFolder: a folder that others may enter is told of, and one that they may not is not.
func TestWideFolder(t *testing.T) {
	for mode, want := range map[os.FileMode]bool{0o700: false, 0o750: true, 0o701: true} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		db, err := Open(dir, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		closeTest(t, db)
		if got := strings.Contains(log.String(), "chmod 700"); got != want {
			t.Errorf("mode %04o: told: %v; %s", mode, got, &log)
		}
	}
}
