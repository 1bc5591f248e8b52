package place

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/onefile"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// TestRefuse verifies which folders can become a database.
func TestRefuse(t *testing.T) {
	for _, c := range []struct {
		name, has string
		want      error
	}{
		{"empty", "", nil},
		{"of a system", ".DS_Store", nil},
		{"of a system, too", "._x", nil},
		{"a lock", "memdb.lock", nil},
		{"an interrupted creation", "memdb.json.new", nil},
		{"other files", "letter.txt", fault.ErrNotDatabase},
		{"a store alone", store.Dir, fault.ErrCorrupt},
		{"a replica that is made", Replica, fault.ErrNotDatabase},
		{"a replica that is whole", ReplicaWhole, fault.ErrNotDatabase},
	} {
		f := vfs.NewMem()
		noError(t, MakeDir(f, "db"))
		if c.has != "" {
			write(t, f, "db/"+c.has, nil)
		}
		if err := Refuse(f, "db"); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		wantError(t, c.name, MustExist(f, "db"), fault.ErrNotDatabase, "without ReadOnly")
	}
	if err := Refuse(vfs.NewMem(), "nowhere"); err != nil {
		t.Error(err)
	}
	f, _, _ := made(t)
	if err := errors.Join(Refuse(f, "db"), MustExist(f, "db")); err != nil {
		t.Errorf("a database: %v", err)
	}
	write(t, f, "file", []byte("text"))
	wantError(t, "a file", Refuse(f, "file"), fault.ErrNotDatabase, Suffix)
}

// TestExists verifies that a folder and a file are told from what is none of memdb's, and that nothing is made.
func TestExists(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	id, err := New("", nil, time.Unix(0, 0))
	noError(t, err)
	noError(t, MakeDir(fsys.Disk, at("db")))
	noError(t, id.Write(fsys.Disk, at("db")))
	noError(t, os.Mkdir(at("other"), 0o700))
	noError(t, os.WriteFile(at("other/letter"), nil, 0o600))
	noError(t, os.WriteFile(at("one.memdb"), []byte(onefile.Magic), 0o600))
	noError(t, os.WriteFile(at("plain"), append([]byte(onefile.Magic), make([]byte, 64)...), 0o600))
	noError(t, os.Mkdir(at("store only"), 0o700))
	noError(t, os.Mkdir(at("store only/"+store.Dir), 0o700))
	for _, c := range []struct {
		name string
		want bool
		err  error
	}{
		{"db", true, nil},
		{"other", false, nil},
		{"nowhere", false, nil},
		{"nowhere.memdb", false, nil},
		{"one.memdb", true, nil},
		{"plain", true, nil},
		{"store only", false, fault.ErrCorrupt},
	} {
		got, err := Exists(at(c.name))
		if got != c.want || !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
	if info, err := os.Stat(at("db")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of a database: %v, %v", info.Mode(), err)
	}
}

// TestIsFile verifies that what is there decides between a folder and one file, and the suffix where nothing is.
func TestIsFile(t *testing.T) {
	f, id, _ := made(t)
	noError(t, f.MkdirAll("empty.memdb", 0o700))
	noError(t, f.MkdirAll("old.memdb", 0o700))
	noError(t, id.Write(f, "old.memdb"))
	write(t, f, "one.memdb", nil)
	write(t, f, "letter", []byte("text"))
	write(t, f, "moved", append([]byte(onefile.Magic), make([]byte, 64)...))
	for _, c := range []struct {
		path string
		want bool
		err  error
	}{
		{"db", false, nil},
		{"new", false, nil},
		{"new.memdb", true, nil},
		{"one.memdb", true, nil},
		{"letter", false, nil},
		{"moved", true, nil},
		{"old.memdb", false, nil},
		{"empty.memdb", false, fault.ErrNotDatabase},
	} {
		got, err := IsFile(f, c.path)
		if got != c.want || !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: %v, %v", c.path, got, err)
		}
	}
	wantError(t, "a folder of that name", InFolder("restore", "new.memdb"), fault.ErrInvalid, "memdbctl convert")
	noError(t, InFolder("restore", "new"))
}

// TestMayBeThere verifies that a file needs its folder, and one that is read needs to be there.
func TestMayBeThere(t *testing.T) {
	f := vfs.NewMem()
	noError(t, f.MkdirAll("data", 0o700))
	write(t, f, "data/one.memdb", nil)
	noError(t, MayBeThere(f, "data/one.memdb", true))
	noError(t, MayBeThere(f, "data/new.memdb", false))
	wantError(t, "to be read", MayBeThere(f, "data/new.memdb", true), fault.ErrNotDatabase, "no such file")
	wantError(t, "no folder", MayBeThere(f, "nowhere/new.memdb", false), fault.ErrNotDatabase, "no folder")
}

// TestSetAside verifies that only a damaged file is kept under another name.
func TestSetAside(t *testing.T) {
	f := vfs.NewMem()
	noError(t, f.MkdirAll("data", 0o700))
	write(t, f, "data/one.memdb", []byte("rest"))
	noError(t, SetAside(f, "data/one.memdb", nil))
	if _, err := f.Stat("data/one.memdb" + fsys.FileDamaged); err == nil {
		t.Error("a whole file is set aside")
	}
	noError(t, SetAside(f, "data/one.memdb", []*onefile.Damage{{}}))
	if b, err := ReadBounded(f, "data/one.memdb"+fsys.FileDamaged, 100); err != nil || string(b) != "rest" {
		t.Errorf("kept %q, %v", b, err)
	}
	wantError(t, "nothing to keep", SetAside(f, "data/none.memdb", []*onefile.Damage{{}}), fault.ErrFailed, fsys.FileDamaged)
}

// TestLock verifies that a lock keeps others out until it is closed, and that the error names a next step.
func TestLock(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		name string
		lock func(shared bool) (interface{ Close() error }, error)
	}{
		{"folder", func(shared bool) (interface{ Close() error }, error) { return Lock(fsys.Disk, dir, now, shared) }},
		{"file", func(shared bool) (interface{ Close() error }, error) {
			return LockFile(fsys.Disk, filepath.Join(dir, "one.memdb"), now, shared)
		}},
	} {
		held, err := c.lock(false)
		noError(t, err)
		_, err = c.lock(false)
		wantError(t, c.name, err, fault.ErrLocked, "close it there")
		noError(t, held.Close())
		held, err = c.lock(true)
		noError(t, err)
		noError(t, held.Close())
	}
	wantError(t, "unwritable", LockError("db", os.ErrPermission), fault.ErrReadOnly, "ReadOnly")
	if broken := errors.New("broken"); !errors.Is(LockError("db", broken), broken) {
		t.Error("another error is lost")
	}
}

// TestMeasure verifies that each file is counted once, under what it is, and links of a copy are not.
func TestMeasure(t *testing.T) {
	f := vfs.NewMem()
	noError(t, f.MkdirAll("db/store", 0o700))
	noError(t, f.MkdirAll("db/"+store.CopyDir, 0o700))
	for name, n := range map[string]int{
		"memdb.json": 1, "vectors-1.snap": 10, "store/1.sst": 100, "store/2.log": 1000, "store/MANIFEST": 10_000, store.CopyDir + "/1.sst": 100_000,
	} {
		write(t, f, "db/"+name, make([]byte, n))
	}
	got, err := Measure(f, "db", "vectors-")
	if want := (FileBytes{Tables: 100, Logs: 1000, Snapshots: 10, Other: 10_001}); err != nil || got != want || got.Sum() != 11_111 {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, err := Measure(f, "nowhere", "x"); err == nil {
		t.Error("a folder that is missing has a size")
	}
}

// TestFullError verifies that a full disk is named as the cause, and other errors stay as they are.
func TestFullError(t *testing.T) {
	full := &fsys.Failure{Op: "write", Path: "db/x", Cause: syscall.ENOSPC}
	wantError(t, "full", FullError("db", errors.Join(errors.New("open"), full)), fault.ErrDiskFull, "the disk is full")
	if broken := errors.New("broken"); !errors.Is(FullError("db", broken), broken) {
		t.Error("another error is changed")
	}
}
