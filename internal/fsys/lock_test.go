package fsys_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

var holder = fsys.Holder{
	PID: 4711, Program: "memdbctl", Host: "attic",
	Since: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
}

func TestLockDir(t *testing.T) {
	onDisk := t.TempDir()
	mem := vfs.NewMem()
	if err := mem.MkdirAll("db", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fs  vfs.FS
		dir string
	}{
		"disk":   {vfs.Default, onDisk},
		"memory": {mem, "db"},
		"seam":   {fsys.New(mem), "db"},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := fsys.LockDir(c.fs, c.dir, holder)
			if err != nil {
				t.Fatal(err)
			}
			_, err = fsys.LockDir(c.fs, c.dir, fsys.Holder{PID: 1})
			locked, ok := errors.AsType[*fsys.LockedError](err)
			if !ok {
				t.Fatalf("locked twice: %v", err)
			}
			if locked.Dir != c.dir || locked.Holder == nil || *locked.Holder != holder {
				t.Errorf("the conflict names %+v", locked)
			}
			want := c.dir + " is held open by memdbctl (pid 4711 on attic, since 2026-11-20T12:00:00Z)"
			if err.Error() != want {
				t.Errorf("got  %s\nwant %s", err, want)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.fs.Stat(c.fs.PathJoin(c.dir, "memdb.holder")); err == nil {
				t.Error("the holder file stayed behind")
			}
			if err := first.Close(); err != nil {
				t.Errorf("second close: %v", err)
			}
			again, err := fsys.LockDir(c.fs, c.dir, holder)
			if err != nil {
				t.Fatalf("after release: %v", err)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLockDirStaleHolder starts from what a killed process, a crash while the
// file was written, or a stranger leaves behind.
func TestLockDirStaleHolder(t *testing.T) {
	for name, content := range map[string]string{
		"stale":   `{"pid":1,"program":"old","host":"h","since":"2020-01-01T00:00:00Z"}`,
		"cut":     `{"pid":1,"prog`,
		"empty":   "",
		"garbage": strings.Repeat("\x00\xff", 1<<16),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "memdb.holder")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			// The holder can't be learned while it is only starting.
			held, err := vfs.Default.Lock(filepath.Join(dir, "memdb.lock"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = fsys.LockDir(vfs.Default, dir, holder)
			locked, ok := errors.AsType[*fsys.LockedError](err)
			if !ok {
				t.Fatalf("no conflict: %v", err)
			}
			if known := name == "stale"; (locked.Holder != nil) != known {
				t.Errorf("holder %v", locked.Holder)
			}
			if err := held.Close(); err != nil {
				t.Fatal(err)
			}

			l, err := fsys.LockDir(vfs.Default, dir, holder)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			_, err = fsys.LockDir(vfs.Default, dir, holder)
			if locked, ok := errors.AsType[*fsys.LockedError](err); !ok || locked.Holder == nil || locked.Holder.PID != holder.PID {
				t.Errorf("the new holder is not named: %v", err)
			}
		})
	}
}

// TestLockDirAliases locks one folder under its other names: on Unix a process
// could lock it again, and lose both locks by closing one.
func TestLockDirAliases(t *testing.T) {
	dir := t.TempDir()
	l, err := fsys.LockDir(vfs.Default, dir, holder)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	t.Chdir(filepath.Dir(dir))
	for _, alias := range []string{
		link,
		filepath.Join(dir, "..", filepath.Base(dir)),
		filepath.Base(dir),
		"." + string(filepath.Separator) + filepath.Base(dir) + string(filepath.Separator),
	} {
		_, err := fsys.LockDir(vfs.Default, alias, holder)
		if _, ok := errors.AsType[*fsys.LockedError](err); !ok {
			t.Errorf("%s: %v", alias, err)
		}
	}
}

// TestLockDirFails shows that a lock that can't be had is no conflict.
func TestLockDirFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mem := vfs.NewMem()
	for name, c := range map[string]struct {
		fs  vfs.FS
		dir string
	}{
		"missing":           {vfs.Default, filepath.Join(t.TempDir(), "missing")},
		"no folder":         {vfs.Default, file},
		"missing in memory": {mem, "missing"},
	} {
		_, err := fsys.LockDir(c.fs, c.dir, holder)
		if err == nil {
			t.Errorf("%s: locked", name)
		}
		if _, ok := errors.AsType[*fsys.LockedError](err); ok {
			t.Errorf("%s: reported as held: %v", name, err)
		}
	}
}

// TestLockOfAnother verifies that who closes a lock whose file was removed leaves the files of the
// one who has locked the same name since.
func TestLockOfAnother(t *testing.T) {
	for name, c := range map[string]struct {
		lock func(path string) (io.Closer, error)
		file string // behind the path
	}{
		"folder": {func(path string) (io.Closer, error) {
			if err := os.MkdirAll(path, 0o700); err != nil {
				return nil, err
			}
			return fsys.LockDir(fsys.Disk, path, holder)
		}, "/memdb.lock"},
		"file": {func(path string) (io.Closer, error) { return fsys.LockFile(fsys.Disk, path, holder) }, ".lock"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			first, err := c.lock(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(path + c.file); err != nil {
				t.Skip("the system keeps files that are open") // Windows
			}
			second, err := c.lock(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			_, err = c.lock(path)
			if locked, ok := errors.AsType[*fsys.LockedError](err); !ok || locked.Holder == nil {
				t.Errorf("a third is not told who holds it: %v", err)
			}
			if err := second.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
