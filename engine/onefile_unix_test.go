//go:build unix

package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestFileBadNames: what is no regular file is refused at once, with what it is, and left alone.
func TestFileBadNames(t *testing.T) {
	whole := fileWith(t, 1)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.Symlink(whole, at("link.memdb")), os.Symlink(at("none"), at("dangling.memdb")), os.Symlink(at("loop.memdb"), at("loop.memdb")),
		os.Symlink("/dev/zero", at("zeros.memdb")), syscall.Mkfifo(at("pipe.memdb"), 0o600), syscall.Mkfifo(at("pipe"), 0o600),
		os.WriteFile(at("text"), []byte("not memdb's"), 0o600), os.WriteFile(at("file"), nil, 0o600), os.Mkdir(at("other.memdb"), 0o700),
		os.WriteFile(filepath.Join(at("other.memdb"), "letter"), []byte("mine"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, why := range map[string]string{
		at("link.memdb"): "it is a link", at("dangling.memdb"): "it is a link", at("loop.memdb"): "it is a link", at("zeros.memdb"): "it is a link",
		at("pipe.memdb"): "it is a pipe", at("pipe"): "it is a pipe", "/dev/null": "it is a device",
		at("text"): "none of memdb", at("other.memdb"): "remove the folder", at("none/new.memdb"): "there is no folder",
	} {
		for _, o := range []Options{{}, {ReadOnly: true}, {Salvage: true}} {
			db, err := Open(path, &o)
			if err == nil {
				closeTest(t, db)
			}
			wantError(t, path, err, fault.ErrNotDatabase)
			if err != nil && !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, want %q", path, err, why)
			}
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 9 {
		t.Errorf("there lie %v, %v", names, err)
	}
}

// TestFileFollowsNoLinks: a link in the place of what lies beside a file leads to nothing that is
// written.
func TestFileFollowsNoLinks(t *testing.T) {
	for _, suffix := range []string{".lock", ".holder", ".new"} {
		path := fileWith(t, 1)
		victim := filepath.Join(t.TempDir(), "victim")
		if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), os.Symlink(victim, path+suffix)); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, &Options{MemoryBudget: testBudget})
		if suffix == ".lock" {
			if err == nil {
				t.Error("a lock that is a link was taken")
			}
		} else if err != nil {
			t.Errorf("%s: %v", suffix, err)
		}
		if err == nil {
			mustStore(t, db.Memories(), memory.Memory{Scope: ofAda, Text: "one more"})
			closeTest(t, db)
		}
		if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
			t.Errorf("%s: the file behind the link holds %q, %v", suffix, b, err)
		}
	}
}

// TestFileInAFolderThatCannotBeWritten: it can be read, and is not opened to be written.
func TestFileInAFolderThatCannotBeWritten(t *testing.T) {
	path := fileWith(t, 2)
	if err := os.Chmod(filepath.Dir(path), 0o500); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(filepath.Dir(path), 0o700) }()
	medium := mediumFS{vfs.Default} // root may write in any folder, but not there
	_, err := openEither(path, &Options{MemoryBudget: testBudget}, &tuning{fs: medium})
	wantError(t, "open to write", err, fault.ErrReadOnly)
	db, err := openEither(path, &Options{ReadOnly: true, MemoryBudget: testBudget}, &tuning{fs: medium})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, db)
	if got := mustList(t, db.Memories(), ofAda); len(got) != 2 {
		t.Errorf("%d memories", len(got))
	}
}
