package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// mediumFS is a file system on a medium that can only be read.
type mediumFS struct{ vfs.FS }

func onMedium(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS}
}

func (mediumFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, onMedium("open", name)
}

func (mediumFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, onMedium("open", name)
}

func (mediumFS) ReuseForWrite(_, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, onMedium("open", name)
}
func (mediumFS) Lock(name string) (io.Closer, error) { return nil, onMedium("open", name) }
func (mediumFS) Link(_, name string) error           { return onMedium("link", name) }
func (mediumFS) Remove(name string) error            { return onMedium("remove", name) }
func (mediumFS) RemoveAll(name string) error         { return onMedium("remove", name) }
func (mediumFS) Rename(name, _ string) error         { return onMedium("rename", name) }
func (f mediumFS) Unwrap() vfs.FS                    { return f.FS }

func (f mediumFS) MkdirAll(name string, _ os.FileMode) error {
	if _, err := f.Stat(name); err == nil {
		return nil
	}
	return onMedium("mkdir", name)
}

// TestReadOnlyMedium: a database on a medium that can only be read is read whole, twice at once,
// also with what only the log of the store has; to write there is refused with the remedy.
func TestReadOnlyMedium(t *testing.T) {
	mem, ada := vfs.NewCrashableMem(), memory.Scope{User: "ada"}
	db := openTest(t, mem, Options{})
	for i := range 300 {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: fmt.Sprint("tea number ", i), Embedding: []float32{1, float32(i)}})
	}
	for name, left := range map[string]vfs.FS{"closed": nil, "crashed": mem.CrashClone(vfs.CrashCloneCfg{})} {
		t.Run(name, func(t *testing.T) {
			if left == nil {
				left = mem
				closeTest(t, db)
			}
			medium := mediumFS{left}
			_, err := openOn(medium, "db", Options{})
			wantError(t, "open to write", err, fault.ErrReadOnly)
			if err == nil || !strings.Contains(err.Error(), "open it with ReadOnly") {
				t.Errorf("%v", err)
			}
			one, two := openTest(t, medium, Options{ReadOnly: true}), openTest(t, medium, Options{ReadOnly: true})
			for _, db := range []*DB{one, two} {
				if hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: "tea", Embedding: []float32{1, 7}, Limit: 300}); len(hits) != 300 {
					t.Errorf("%d are found", len(hits))
				}
				mustCheck(t, db, 300)
				_, err = db.Memories().Store(t.Context(), memory.Memory{Scope: ada, Text: "more"}, nil)
				wantError(t, "store", err, fault.ErrReadOnly)
				closeTest(t, db)
			}
		})
	}
}

// TestReadOnlyMediumLocked: who cannot make a lock finds that another process has one.
func TestReadOnlyMediumLocked(t *testing.T) {
	race.Sequential(t)
	const at = "MEMDB_TEST_MEDIUM"
	if dir := os.Getenv(at); dir != "" { // the child
		db, err := open(dir, &Options{ReadOnly: true}, &tuning{fs: mediumFS{vfs.Default}})
		fmt.Fprintln(os.Stdout, "child:", errors.Is(err, fault.ErrLocked), err)
		if err == nil {
			fmt.Fprintln(os.Stdout, db.Close())
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "db")
	db, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	child := func() string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReadOnlyMediumLocked$", "-test.count=1")
		cmd.Env = append(os.Environ(), at+"="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("child: %v\n%s", err, out)
		}
		return string(out)
	}
	if out := child(); !strings.Contains(out, "child: true") || !strings.Contains(out, fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("the child was told\n%s", out)
	}
	closeTest(t, db)
	if out := child(); !strings.Contains(out, "child: false <nil>") {
		t.Errorf("after Close the child was told\n%s", out)
	}
	if err := os.Remove(filepath.Join(dir, "memdb.lock")); err != nil {
		t.Fatal(err)
	}
	if out := child(); !strings.Contains(out, "child: false <nil>") {
		t.Errorf("without a file of the lock the child was told\n%s", out)
	}
}
