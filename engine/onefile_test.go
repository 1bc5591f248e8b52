package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/onefile"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
	archivefolder "github.com/seed-7aedc3ff/memdb/wal/folder"
)

var ofAda = memory.Scope{User: "ada"}

// openFileTest opens a database in one file, and closes it when the test ends.
func openFileTest(t testing.TB, path string, o Options) *DB {
	t.Helper()
	if o.MemoryBudget == 0 {
		o.MemoryBudget = testBudget
	}
	db, err := Open(path, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTest(t, db) })
	return db
}

// fileWith makes a file with n memories, closed, and returns its path.
func fileWith(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.memdb")
	db := openFileTest(t, path, Options{})
	for i := range n {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: ofAda, Text: fmt.Sprint("text number ", i, " of ", n)})
	}
	closeTest(t, db)
	return path
}

// TestFormIsToldByWhatIsThere: a folder is one, a file with the magic is one whatever its name, and
// where nothing is, the suffix says it.
func TestFormIsToldByWhatIsThere(t *testing.T) {
	path := fileWith(t, 1)
	dir := filepath.Dir(path)
	renamed := filepath.Join(dir, "plain name")
	if err := os.Rename(path, renamed); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "folder.memdb") // of an older memdb
	closeTest(t, openFileTest(t, filepath.Join(dir, "made"), Options{}))
	if err := os.Rename(filepath.Join(dir, "made"), folder); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want Form
	}{{renamed, FormFile}, {folder, FormFolder}, {filepath.Join(dir, "new.memdb"), FormFile}, {filepath.Join(dir, "new.db"), FormFolder}} {
		db := openFileTest(t, c.path, Options{})
		if db.Form() != c.want {
			t.Errorf("%s is a %s, want a %s", c.path, db.Form(), c.want)
		}
		s, err := db.Stats(t.Context())
		if err == nil {
			err = db.AddStructures(t.Context(), &s)
		}
		sum := int64(0)
		for _, n := range s.Structures {
			sum += n
		}
		if err != nil || s.Form != c.want || sum != s.DiskBytes {
			t.Errorf("%s: %s, %d of %d bytes, %v", c.path, s.Form, sum, s.DiskBytes, err)
		}
		closeTest(t, db)
	}
	for path, want := range map[string]bool{renamed: true, folder: true, filepath.Join(dir, "new.memdb"): false} {
		if there, err := Exists(path); there != want || err != nil {
			t.Errorf("Exists of %s: %v, %v", path, there, err)
		}
	}
	if db, err := OpenMemory(nil); err != nil || db.Form() != FormMemory || db.Close() != nil {
		t.Errorf("%v, %v", db, err)
	}
}

// TestFolderWithTheNameOfAFile verifies that no database is made in a folder whose name ends with .memdb, whatever
// else is in it, and that nothing is written there.
func TestFolderWithTheNameOfAFile(t *testing.T) {
	for what, fill := range map[string]func(dir string) error{
		"empty":       func(string) error { return nil },
		"litter":      func(dir string) error { return os.WriteFile(filepath.Join(dir, ".DS_Store"), nil, 0o600) },
		"interrupted": func(dir string) error { return os.WriteFile(filepath.Join(dir, fsys.LockName), nil, 0o600) },
		"other files": func(dir string) error { return os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a.memdb")
			if err := errors.Join(os.Mkdir(dir, 0o700), fill(dir)); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range []*Options{nil, {ReadOnly: true}, {Salvage: true}} {
				db, err := Open(dir, o)
				wantError(t, "open", err, fault.ErrNotDatabase)
				if db != nil {
					closeTest(t, db)
				}
				if err == nil || !strings.Contains(err.Error(), "remove the folder") {
					t.Errorf("%v", err)
				}
			}
			if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
				t.Errorf("%v, %v", after, err)
			}
			if there, err := Exists(dir); there || !errors.Is(err, fault.ErrNotDatabase) {
				t.Errorf("Exists: %v, %v", there, err)
			}
		})
	}
}

// TestFileIsNotWrittenToBeRead: opening and reading changes no byte.
func TestFileIsNotWrittenToBeRead(t *testing.T) {
	path := fileWith(t, 20)
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{}, {ReadOnly: true}} {
		db := openFileTest(t, path, o)
		if got := mustList(t, db.Memories(), ofAda); len(got) != 20 {
			t.Errorf("%d memories", len(got))
		}
		if hits := mustRecall(t, db.Memories(), memory.Query{Scope: ofAda, Text: "number", NoTouch: true}); len(hits) == 0 {
			t.Error("nothing is found")
		}
		if o.ReadOnly {
			_, err := db.Memories().Store(t.Context(), memory.Memory{Scope: ofAda, Text: "new"}, nil)
			wantError(t, "store", err, fault.ErrReadOnly)
		}
		closeTest(t, db)
		now, err := os.Stat(path)
		if err != nil || !os.SameFile(was, now) || !was.ModTime().Equal(now.ModTime()) {
			t.Errorf("it was written: %v", err)
		}
	}
	_, err = Open(filepath.Join(t.TempDir(), "none.memdb"), &Options{ReadOnly: true})
	wantError(t, "read what is not there", err, fault.ErrNotDatabase)
}

// TestFileGroups: writers that wait together share a snapshot.
func TestFileGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.memdb")
	db := openFileTest(t, path, Options{})
	const writers, each = 16, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := db.Memories().Store(t.Context(), memory.Memory{ID: fmt.Sprint(w, "-", i), Scope: ofAda, Text: fmt.Sprint("writer ", w, " stores ", i)}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	closeTest(t, db)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := onefile.Read(b)
	if head := c.Head; err != nil || head.LSN != writers*each || head.Number >= writers*each/2 {
		t.Errorf("%d snapshots for %d commits, %v", c.Head.Number, c.Head.LSN, err)
	}
	db = openFileTest(t, path, Options{})
	mustCheck(t, db, writers*each)
}

// TestFileLocked: a second opening, in this process or another, is told who has it.
func TestFileLocked(t *testing.T) {
	const variable = "MEMDB_TEST_OPEN_FILE"
	if path := os.Getenv(variable); path != "" {
		_, err := Open(path, nil)
		fmt.Fprintln(os.Stdout, "child:", errors.Is(err, fault.ErrLocked), err)
		return
	}
	path := filepath.Join(t.TempDir(), "a.memdb")
	db := openFileTest(t, path, Options{})
	child := func() string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFileLocked$", "-test.count=1")
		cmd.Env = append(os.Environ(), variable+"="+path)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("child: %v\n%s", err, out)
		}
		return string(out)
	}
	locked := func() {
		t.Helper()
		_, err := Open(path, nil)
		wantError(t, "a second opening", err, fault.ErrLocked)
		if out := child(); !strings.Contains(out, "child: true") || !strings.Contains(out, fmt.Sprint("pid ", os.Getpid())) {
			t.Errorf("the child was told\n%s", out)
		}
	}
	locked() // before there is a file
	mustStore(t, db.Memories(), memory.Memory{Scope: ofAda, Text: "one"})
	mustStore(t, db.Memories(), memory.Memory{Scope: ofAda, Text: "two"})
	locked() // and after it was replaced
	closeTest(t, db)
	if out := child(); !strings.Contains(out, "child: false <nil>") {
		t.Errorf("after Close the child was told\n%s", out)
	}
	db = openFileTest(t, path, Options{})
	equalSlices(t, "memories", texts(mustList(t, db.Memories(), ofAda)), []string{"one", "two"})
}

// TestFileLimit: a write that may make the file larger than its limit is refused, says how to go on,
// and changes nothing; deletes are taken.
func TestFileLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.memdb")
	const limit = 256 << 10
	db := openFileTest(t, path, Options{MaxFileBytes: limit})
	rng := rand.New(rand.NewPCG(7, 7))
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		var text strings.Builder
		fmt.Fprint(&text, n)
		for range 500 {
			fmt.Fprintf(&text, " %x", rng.Uint32())
		}
		_, err = db.Memories().Store(t.Context(), memory.Memory{ID: fmt.Sprint("m", n), Scope: ofAda, Text: text.String()}, nil)
	}
	wantError(t, "the store that is too much", err, fault.ErrFull)
	if !strings.Contains(err.Error(), "memdbctl convert") {
		t.Errorf("%v", err)
	}
	n-- // the one that was refused
	if info, err := os.Stat(path); err != nil || info.Size() > limit || info.Size() < limit/2 {
		t.Errorf("%v, %v", info, err)
	}
	if err := db.Memories().Delete(t.Context(), ofAda, "m0"); err != nil {
		t.Errorf("delete: %v", err)
	}
	mustCheck(t, db, n-1)
	closeTest(t, db)
	_, err = Open(path, &Options{MaxFileBytes: -1})
	wantError(t, "a limit below 0", err, fault.ErrInvalid)
	_, err = Open(path, &Options{MaxFileBytes: 4096})
	wantError(t, "open beyond the limit", err, fault.ErrFull)
	if !strings.Contains(err.Error(), "memdbctl convert") {
		t.Errorf("%v", err)
	}
}

// TestFileOnAFullDisk: what there is no room for is refused before anything is changed, and the file
// stays whole.
func TestFileOnAFullDisk(t *testing.T) {
	disk := crashfs.NewQuota(crashfs.NewDisk(), 64<<20)
	db, err := openEither("a.memdb", &Options{MemoryBudget: testBudget, DiskReserve: 1 << 20}, &tuning{fs: disk})
	if err != nil {
		t.Fatal(err)
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: ofAda, Text: "one"})
	disk.Resize(disk.Used() + 1<<20)
	_, err = db.Memories().Store(t.Context(), memory.Memory{ID: "b", Scope: ofAda, Text: "two"}, nil)
	wantError(t, "store on a full disk", err, fault.ErrDiskFull)
	if err := db.Memories().Delete(t.Context(), ofAda, "a"); err != nil {
		t.Errorf("delete on a full disk: %v", err)
	}
	disk.Resize(64 << 20)
	mustStore(t, db.Memories(), memory.Memory{ID: "b", Scope: ofAda, Text: "two"})
	// One that becomes full in the midst of a snapshot fails the database, and leaves the old file.
	lsn := db.LSN()
	reserved := &unreserved{FS: disk}
	closeTest(t, db)
	if db, err = openEither("a.memdb", &Options{MemoryBudget: testBudget}, &tuning{fs: reserved}); err != nil {
		t.Fatal(err)
	}
	disk.Resize(disk.Used() + 100)
	_, err = db.Memories().Store(t.Context(), memory.Memory{ID: "c", Scope: ofAda, Text: "three"}, nil)
	wantError(t, "store without space", err, fault.ErrFailed)
	if !strings.Contains(err.Error(), "make room on the disk") {
		t.Errorf("%v", err)
	}
	closeTest(t, db)
	disk.Resize(64 << 20)
	db, err = openEither("a.memdb", &Options{MemoryBudget: testBudget}, &tuning{fs: disk})
	if err != nil {
		t.Fatal(err)
	}
	if db.LSN() != lsn {
		t.Errorf("LSN %d, was %d", db.LSN(), lsn)
	}
	mustCheck(t, db, 1)
	closeTest(t, db)
}

// unreserved is a file system that does not tell its free space.
type unreserved struct{ vfs.FS }

func (unreserved) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{}, vfs.ErrUnsupported
}

// TestFileReplacedUnderneath: what another program puts in the place of the file, or takes away, is
// told, and not written over.
func TestFileReplacedUnderneath(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".other", []byte("mine"), 0o600), os.Rename(path+".other", path))
		},
		"written": func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"removed": os.Remove,
	} {
		t.Run(what, func(t *testing.T) {
			path := fileWith(t, 3)
			db := openFileTest(t, path, Options{})
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			r, err := db.Check(t.Context())
			if err != nil || r.OK || r.Problems[0].Kind != "file" {
				t.Errorf("check: %+v, %v", r, err)
			}
			_, err = db.Memories().Store(t.Context(), memory.Memory{Scope: ofAda, Text: "new"}, nil)
			wantError(t, "store", err, fault.ErrFailed)
			if !strings.Contains(err.Error(), "while the database was open") {
				t.Errorf("%v", err)
			}
			closeTest(t, db)
			b, err := os.ReadFile(path)
			if what == "removed" {
				if !errors.Is(err, os.ErrNotExist) {
					t.Errorf("it is there again: %v", err)
				}
			} else if string(b) != "mine" {
				t.Errorf("it holds %q, %v", b, err)
			}
		})
	}
	t.Run("made by two", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a.memdb")
		db := openFileTest(t, path, Options{})
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := db.Memories().Store(t.Context(), memory.Memory{Scope: ofAda, Text: "new"}, nil)
		wantError(t, "store", err, fault.ErrFailed)
		if b, err := os.ReadFile(path); string(b) != "mine" {
			t.Errorf("it holds %q, %v", b, err)
		}
	})
}

// TestFileCrashes crashes the machine at each change that commits make to the files, which append to the file, write it
// whole, or do both in turn: the state is the old or the new one, and every acknowledged write is there.
func TestFileCrashes(t *testing.T) {
	race.Sequential(t)
	for name, appends := range map[string]int64{"append": 0, "whole": 1, "both": 4 << 10} {
		t.Run(name, func(t *testing.T) { fileCrashes(t, appends) })
	}
}

func fileCrashes(t *testing.T, appends int64) {
	t.Helper()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 5))
	disk := crashfs.NewDisk()
	type crash struct {
		disk         *crashfs.Disk
		acked, begun int
	}
	var crashes []crash
	acked, begun := 0, 0
	fs := crashfs.Wrap(disk, func(crashfs.Op) error {
		if begun > 0 {
			crashes = append(crashes, crash{disk.Lose(rng.IntN(101), rng), acked, begun})
		}
		return nil
	})
	db, err := openEither("a.memdb", &Options{MemoryBudget: testBudget}, &tuning{fs: fs, fileAppends: appends})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		begun++
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", begun), Scope: ofAda, Text: fmt.Sprint("text number ", begun)})
		acked = begun
	}
	fs.SetHook(nil)
	closeTest(t, db)
	if len(crashes) < 30 {
		t.Fatalf("%d crashes", len(crashes))
	}
	for i, c := range crashes {
		db, err := openEither("a.memdb", &Options{MemoryBudget: testBudget}, &tuning{fs: c.disk})
		if err != nil {
			t.Fatalf("seed %d, crash %d: %v", seed, i, err)
		}
		if n := len(mustList(t, db.Memories(), ofAda)); n < c.acked || n > c.begun || uint64(n) != db.LSN() {
			t.Errorf("seed %d, crash %d: %d memories at LSN %d; %d were acknowledged of %d", seed, i, n, db.LSN(), c.acked, c.begun)
		}
		mustStore(t, db.Memories(), memory.Memory{ID: "later", Scope: ofAda, Text: "later"})
		mustCheck(t, db, int(db.LSN()))
		closeTest(t, db)
		names, err := c.disk.List("")
		if err != nil || !slices.Equal(names, []string{"a.memdb"}) {
			t.Errorf("seed %d, crash %d: what lies there is %v, %v", seed, i, names, err)
		}
	}
}

// TestFileFaults fails each change that commits make to the files, one in each run: the call that
// meets it is told, nothing is acknowledged from then on, and the old file stays.
func TestFileFaults(t *testing.T) {
	injected := errors.New("injected")
	for at, more := 1, true; more; at++ {
		disk := crashfs.NewDisk()
		n, met := 0, ""
		counting := false
		fs := crashfs.Wrap(disk, func(op crashfs.Op) error {
			if !counting {
				return nil
			}
			if n++; n == at {
				met = op.Kind.String() + " " + op.Path
				return injected
			}
			return nil
		})
		db, err := openEither("a.memdb", &Options{MemoryBudget: testBudget}, &tuning{fs: fs})
		if err != nil {
			t.Fatal(err)
		}
		counting = true
		acked, failed := 0, false
		for i := range 3 {
			_, err := db.Memories().Store(t.Context(), memory.Memory{ID: fmt.Sprint("m", i), Scope: ofAda, Text: fmt.Sprint("text number ", i)}, nil)
			switch {
			case err == nil && failed:
				t.Fatalf("%s: a store after it was acknowledged", met)
			case err == nil:
				acked++
			case !errors.Is(err, fault.ErrFailed):
				t.Fatalf("%s: %v", met, err)
			default:
				failed = true
			}
		}
		counting = false
		more = met != ""
		// What is left over takes room alone, and where there are no links a rename does.
		if !failed && more && !strings.HasPrefix(met, "remove ") && !strings.HasPrefix(met, "link ") {
			t.Errorf("%s: nothing was told", met)
		}
		closeTest(t, db)
		left, err := openEither("a.memdb", &Options{MemoryBudget: testBudget}, &tuning{fs: disk.Crash(crashfs.Crash{})})
		if err != nil {
			t.Fatalf("%s: %v", met, err)
		}
		if got := len(mustList(t, left.Memories(), ofAda)); got < acked || got > acked+1 {
			t.Errorf("%s: %d memories, %d were acknowledged", met, got, acked)
		}
		closeTest(t, left)
		if at > 100 {
			t.Fatal("the commits never end")
		}
	}
}

// TestFileReadBesideItsOwner verifies that a file is read without its lock while another program has it open: each reader
// sees one complete commit, no older than the last one acknowledged before it opened the file. It keeps that state, and
// writes nothing.
func TestFileReadBesideItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.memdb")
	owner, err := openEither(path, &Options{MemoryBudget: testBudget}, &tuning{fs: fsys.Disk, fileAppends: 8 << 10})
	noError(t, err)
	t.Cleanup(func() { closeTest(t, owner) })
	store := func(i int) error {
		return second(owner.Memories().StoreBatch(t.Context(), []memory.Memory{
			{ID: fmt.Sprint("a", i), Scope: ofAda, Text: fmt.Sprint("one of ", i)}, {ID: fmt.Sprint("b", i), Scope: ofAda, Text: fmt.Sprint("two of ", i)},
		}, nil))
	}
	noError(t, store(0))
	if runtime.GOOS == "windows" {
		_, err := Open(path, &Options{ReadOnly: true})
		wantError(t, "read beside the owner", err, fault.ErrLocked)
		return
	}
	var acked atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 1; ctx.Err() == nil && i < 300; i++ {
			if err := store(i); err != nil {
				t.Error(err)
				return
			}
			acked.Store(int64(i))
		}
	})
	var reader *DB
	var first []string
	for range 25 {
		least := acked.Load()
		db := openFileTest(t, path, Options{ReadOnly: true})
		got := mustList(t, db.Memories(), ofAda)
		if len(got)%2 != 0 || int64(len(got)) < 2*(least+1) {
			t.Errorf("%d memories; %d commits of two were acknowledged", len(got), least+1)
		}
		mustCheck(t, db, len(got))
		if len(mustRecall(t, db.Memories(), memory.Query{Scope: ofAda, Text: "one"})) == 0 {
			t.Error("nothing is found")
		}
		if reader == nil {
			reader, first = db, texts(got)
			continue
		}
		closeTest(t, db)
	}
	stop()
	wg.Wait()
	if t.Failed() {
		return
	}
	equalSlices(t, "what the first reader reads at last", texts(mustList(t, reader.Memories(), ofAda)), first)
	if _, err := reader.Memories().Store(t.Context(), memory.Memory{Scope: ofAda, Text: "new"}, nil); !errors.Is(err, fault.ErrReadOnly) {
		t.Errorf("a reader stores: %v", err)
	}
	closeTest(t, reader)
	_, err = Open(path, nil)
	wantError(t, "a second owner", err, fault.ErrLocked)
	if !strings.Contains(err.Error(), "ReadOnly") || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("%v", err)
	}
	_, err = Convert(t.Context(), path, path+".folder", nil)
	wantError(t, "convert", err, fault.ErrLocked)
	mustCheck(t, owner, len(mustList(t, owner.Memories(), ofAda)))
	closeTest(t, owner)
	if names, err := fsys.Disk.List(filepath.Dir(path)); err != nil || !slices.Equal(names, []string{"a.memdb"}) {
		t.Errorf("beside the file: %v, %v", names, err)
	}
}

// TestFileCommitsAreSmall verifies that a commit, and the access counts of a recall, write what they change, and not the
// file; and that the file does not grow for ever.
func TestFileCommitsAreSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.memdb")
	rng := rand.New(rand.NewPCG(3, 3))
	words := func(n int) string {
		var text strings.Builder
		for range n {
			fmt.Fprintf(&text, "%x ", rng.Uint32())
		}
		return text.String()
	}
	var all []memory.Memory
	for i := range 1000 {
		all = append(all, memory.Memory{ID: fmt.Sprint("m", i), Scope: ofAda, Text: fmt.Sprint("number ", i, " ", words(100))})
	}
	db := openFileTest(t, path, Options{})
	noError(t, second(db.Memories().StoreBatch(t.Context(), all, nil)))
	noError(t, second(db.Compact(t.Context())))
	begun, err := os.Stat(path)
	noError(t, err)
	grew := func(what string, most int64) {
		t.Helper()
		now, err := os.Stat(path)
		noError(t, err)
		if n := now.Size() - begun.Size(); !os.SameFile(begun, now) || n <= 0 || n > most {
			t.Errorf("%s: the file has grown by %d bytes, and is the same one: %v", what, n, os.SameFile(begun, now))
		}
		begun = now
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: ofAda, Text: "short"})
	grew("a store", 8<<10)
	mustRecall(t, db.Memories(), memory.Query{Scope: ofAda, Text: "short"})
	closeTest(t, db)
	grew("a recall", 4<<10)
	db = openFileTest(t, path, Options{})
	if m := mustRecall(t, db.Memories(), memory.Query{Scope: ofAda, Text: "short", NoTouch: true})[0]; m.AccessCount != 1 {
		t.Errorf("%d accesses", m.AccessCount)
	}
	// One key again and again: what is dead goes when the file is written whole.
	least := begun.Size()
	for i := range 60 {
		noError(t, second(db.KV().Put(t.Context(), memory.Owner{User: "ada"}, "key", fmt.Sprint(i, words(6000)), nil)))
		now, err := os.Stat(path)
		noError(t, err)
		if db.store.File().Size() != now.Size() {
			t.Fatalf("it has %d bytes, and says %d", now.Size(), db.store.File().Size())
		}
	}
	t.Logf("%d bytes, after 60 values of 54 KB under one key %d", least, db.store.File().Size())
	mustCheck(t, db, 1001)
}

// TestFileKilled kills a process while it commits, MEMDB_CRASHES times or a few: the file is the old
// or the new one, and every acknowledged write is there.
func TestFileKilled(t *testing.T) {
	const variable = "MEMDB_TEST_KILL_FILE"
	if path := os.Getenv(variable); path != "" {
		commitForEver(t, path)
		return
	}
	race.Sequential(t)
	kills := 12
	if v := os.Getenv(crashesVar); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", crashesVar, err)
		}
	}
	path := filepath.Join(t.TempDir(), "a.memdb")
	acked := map[string]bool{}
	kept, total := 0, 0
	for round := range kills {
		killCommitting(t, path, variable, acked)
		db := openFileTest(t, path, Options{})
		left := map[string]int{}
		for _, m := range mustList(t, db.Memories(), ofAda) {
			left[strings.TrimSuffix(m.ID, "'")]++
		}
		for id := range acked {
			if left[id] == 0 {
				t.Fatalf("round %d: %s was acknowledged, and is gone", round, id)
			}
		}
		for id, n := range left {
			if n != 2 {
				t.Fatalf("round %d: of the commit %s there is a part", round, id)
			}
			acked[id] = true
		}
		total += len(left) - kept
		kept = len(left)
		if round%10 == 0 || round == kills-1 {
			mustCheck(t, db, 2*len(left))
		}
		if round%20 == 19 { // so that a commit takes about the same all the time
			for id := range left {
				for _, id := range []string{id, id + "'"} {
					if err := db.Memories().Delete(t.Context(), ofAda, id); err != nil {
						t.Fatal(err)
					}
				}
			}
			clear(acked)
			kept = 0
		}
		closeTest(t, db)
	}
	t.Logf("%d kills, %d commits were whole", kills, total)
}

// commitForEver stores two memories in each commit, in four goroutines, and prints what is
// acknowledged.
func commitForEver(t *testing.T, path string) {
	t.Helper()
	// Both kinds of commits: those that append, and those that write the file whole.
	db, err := openEither(path, &Options{MemoryBudget: testBudget}, &tuning{fs: fsys.Disk, fileAppends: 16 << 10})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				id := rand.Uint64()
				two := []memory.Memory{{ID: fmt.Sprint(id), Scope: ofAda, Text: fmt.Sprint("one ", id)}, {ID: fmt.Sprint(id, "'"), Scope: ofAda, Text: fmt.Sprint("two ", id)}}
				if _, err := db.Memories().StoreBatch(context.Background(), two, nil); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				fmt.Fprintln(os.Stdout, "acknowledged", id)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// killCommitting kills a process that commits after a few commits, and notes what it acknowledged.
func killCommitting(t *testing.T, path, variable string, acked map[string]bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFileKilled$", "-test.count=1")
	cmd.Env = append(os.Environ(), variable+"="+path)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	after := 1 + rand.IntN(20)
	lines := bufio.NewScanner(out)
	note := func() {
		if id, ok := strings.CutPrefix(lines.Text(), "acknowledged "); ok {
			acked[id] = true
		}
	}
	for n := 0; n < after && lines.Scan(); n++ {
		note()
	}
	time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) // into the midst of a commit
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		note()
	}
	if _, err := io.Copy(io.Discard, out); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Log(err)
	}
	_ = cmd.Wait() // it was killed
	if err := os.Remove(path + ".lock"); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// TestFileErases: what is erased is in the file no more, and no compressed block holds it.
func TestFileErases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.memdb")
	db := openFileTest(t, path, Options{})
	for i := range 50 {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: memory.Scope{User: "ulrike"}, Text: fmt.Sprint("secretword of ulrike ", i)})
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: memory.Scope{User: "bob"}, Text: fmt.Sprint("bob's text ", i)})
	}
	if n := inBlocks(t, path, "secretword"); n == 0 {
		t.Fatal("the word is in no block")
	}
	if _, err := db.Erase(t.Context(), EraseQuery{User: "ulrike"}); err != nil {
		t.Fatal(err)
	}
	if n := inBlocks(t, path, "secretword") + inBlocks(t, path, "ulrike"); n > 0 {
		t.Errorf("what was erased is in %d keys", n)
	}
	mustCheck(t, db, 50)
}

// TestFileFinishesBeyondItsLimit verifies that erasures and rebuilds end although the file has reached its limit, that
// nobody is kept from writing by an erasure that does not end, and that the file still opens.
func TestFileFinishesBeyondItsLimit(t *testing.T) {
	path, clk := filepath.Join(t.TempDir(), "a.memdb"), newTestClock()
	limit := int64(0)
	open := func() *DB {
		db, err := openEither(path, &Options{Clock: clk.now, MemoryBudget: testBudget, MaxFileBytes: limit}, &tuning{fs: fsys.Disk, keepsExpired: true, hotBytes: 4 << 10})
		noError(t, err)
		t.Cleanup(func() { closeTest(t, db) })
		return db
	}
	db := open()
	words := fillWorld(t, db, clk)
	chat := memory.Owner{User: "summarised"}
	said := ""
	for i := range 8 {
		a, err := db.Sessions().Append(t.Context(), chat, "chat", []sessions.Message{{Role: "user", Text: fmt.Sprintf("Zqjword%cz was mentioned. Then it came up again.", 'a'+i)}}, nil)
		noError(t, err)
		if i == 1 {
			said = a[0].MemoryID
		}
	}
	if c, err := db.Sessions().Compact(t.Context(), chat, "chat", &sessions.CompactOptions{Threshold: 3, KeepRecent: 1}); err != nil || !c.Compacted {
		t.Fatalf("%+v, %v", c, err)
	}
	noError(t, second(db.Compact(t.Context())))
	size := db.store.File().Size()
	closeTest(t, db)
	limit = size * 2 / 3
	db = open()
	_, err := db.Memories().Store(t.Context(), memory.Memory{Scope: ofAda, Text: "new"}, nil)
	wantError(t, "store", err, fault.ErrFull)
	for _, q := range []EraseQuery{{User: chat.User, ID: said}, {User: "viktor-user", Agent: "anton-agent"}, {User: "ulrike-user"}} {
		if _, err := db.Erase(t.Context(), q); err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		if r, err := db.Check(t.Context()); err != nil || !r.OK || r.Erasing {
			t.Errorf("%+v: %+v, %v", q, r, err)
		}
	}
	noError(t, db.Rebuild(t.Context(), IndexAll, nil))
	for o, of := range words {
		if o.User == "ulrike-user" && inBlocks(t, path, of[0][:3]) > 0 {
			t.Errorf("%+v is in the file", o)
		}
	}
	closeTest(t, db)
	db = open()
	closeTest(t, db)
	limit = 2 * size
	db = open()
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ulrike-user"}, Text: "is back"})
	if r, err := db.CheckDeep(t.Context()); err != nil || !r.OK {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFileFinishesAnErasure verifies that check reports an erasure that was interrupted, and that a program which opens the
// file to write for something else finishes the erasure before it ends.
func TestFileFinishesAnErasure(t *testing.T) {
	dir := t.TempDir()
	path, killed := filepath.Join(dir, "a.memdb"), filepath.Join(dir, "killed.memdb")
	db := openFileTest(t, path, Options{LockWait: time.Millisecond})
	for i := range 20 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ulrike"}, Text: fmt.Sprint("secretword of ulrike ", i)})
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "bob"}, Text: fmt.Sprint("bob's text ", i)})
	}
	noError(t, db.View(t.Context(), func(*Tx) error { // for whose end the erasure waits
		erased := make(chan error)
		go func() { erased <- second(db.Erase(t.Context(), EraseQuery{User: "ulrike"})) }()
		wantError(t, "erase beside a View", <-erased, fault.ErrBusy)
		b, err := os.ReadFile(path)
		noError(t, err)
		return os.WriteFile(killed, b, 0o600)
	}))
	check := func(erasing bool) {
		t.Helper()
		db := openFileTest(t, killed, Options{ReadOnly: true})
		if r, err := db.Check(t.Context()); err != nil || !r.OK || r.Erasing != erasing {
			t.Errorf("%+v, %v; want an erasure: %v", r, err, erasing)
		}
		closeTest(t, db)
	}
	check(true)
	other := openFileTest(t, killed, Options{})
	mustStore(t, other.Memories(), memory.Memory{Scope: memory.Scope{User: "bob"}, Text: "one more"})
	closeTest(t, other)
	check(false)
	if n := inBlocks(t, killed, "secretword") + inBlocks(t, killed, "ulrike"); n > 0 {
		t.Errorf("what was erased is in %d keys", n)
	}
}

// inBlocks counts the keys of a file that have a text in them.
func inBlocks(t *testing.T, path, text string) (n int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := onefile.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	has := func(b []byte) bool { return strings.Contains(string(b), text) }
	if has(c.Head.Identity) {
		n++
	}
	set := func(key, value []byte) error {
		if has(key) || has(value) {
			n++
		}
		return nil
	}
	noError(t, c.Table.Each(set))
	for _, commit := range c.Commits {
		noError(t, commit.Apply(onefile.Changes{
			DeleteRange: func(lower, upper []byte) error { return errors.Join(set(lower, nil), set(upper, nil)) },
			Delete:      func(key []byte) error { return set(key, nil) },
			Set:         set,
		}))
	}
	return n
}

// TestFileAges: what the database does by itself, eviction and its undoing among it, is kept in the
// file.
func TestFileAges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.memdb")
	clk := newTestClock()
	db := openFileTest(t, path, Options{Clock: clk.now})
	for i := range 5 {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: ofAda, Text: fmt.Sprint("text ", i), Importance: new(.1)})
	}
	clk.advance(90 * 24 * time.Hour)
	r, err := db.Evict(t.Context(), &EvictOptions{MaxAge: new(30 * 24 * time.Hour)})
	if err != nil || r.Evicted != 5 {
		t.Fatalf("%+v, %v", r, err)
	}
	closeTest(t, db)
	db = openFileTest(t, path, Options{Clock: clk.now})
	mustCheck(t, db, 0)
	if u, err := db.Undo(t.Context(), r.LSN); err != nil || u.Restored != 5 {
		t.Errorf("%+v, %v", u, err)
	}
	closeTest(t, db)
	db = openFileTest(t, path, Options{Clock: clk.now})
	mustCheck(t, db, 5)
}

// TestFileIsRefusedWhereAFolderIsMade: what makes a folder refuses the name of a file.
func TestFileIsRefusedWhereAFolderIsMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.memdb")
	_, err := Restore(t.Context(), t.TempDir(), path, nil)
	wantError(t, "restore", err, fault.ErrInvalid)
	_, replica := OpenReplica(path, nil, nil)
	wantError(t, "replica", replica, fault.ErrInvalid)
	for _, err := range []error{err, replica} {
		if !strings.Contains(err.Error(), "memdbctl convert") {
			t.Errorf("%v", err)
		}
	}
	if kind, _, err := fsys.KindOf(fsys.Disk, path); kind != fsys.Missing || err != nil {
		t.Errorf("%v, %v", kind, err)
	}
}

// TestFileIsBackedUp: a backup and an archive of a file are as those of a folder, and what is restored
// of them is a folder that has everything.
func TestFileIsBackedUp(t *testing.T) {
	dir := t.TempDir()
	path, repo, archive := filepath.Join(dir, "a.memdb"), filepath.Join(dir, "repo"), filepath.Join(dir, "archive")
	n := 0
	for range 2 { // the second opening has no log of the first
		db := openFileTest(t, path, Options{Archive: archivefolder.New(archive)})
		for range 3 {
			n++
			mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", n), Scope: ofAda, Text: fmt.Sprint("text number ", n)})
		}
		if _, err := db.WaitArchived(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, err := db.Backup(t.Context(), repo, nil); err != nil || r.LSN != uint64(n) {
			t.Fatalf("%+v, %v", r, err)
		}
		closeTest(t, db)
	}
	for name, from := range map[string]string{"backup": repo, "archive": archive} {
		to := filepath.Join(dir, "restored from "+name)
		if r, err := Restore(t.Context(), from, to, nil); err != nil || r.Memories != n {
			t.Errorf("%s: %+v, %v", name, r, err)
			continue
		}
		db := openFileTest(t, to, Options{})
		if db.Form() != FormFolder {
			t.Errorf("%s: it is a %s", name, db.Form())
		}
		mustCheck(t, db, n)
	}
}
