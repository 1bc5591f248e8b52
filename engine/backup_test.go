package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/backup"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// filledForBackup is a database with something of every structure, of which a part is in tables.
func filledForBackup(t *testing.T, files vfs.FS) (*DB, *besides) {
	t.Helper()
	clk := newTestClock()
	db := openTest(t, files, Options{Clock: clk.now})
	w := &besides{db: db, rng: rand.New(rand.NewPCG(35, 4)), clk: clk}
	for range 40 {
		if err := w.step(t.Context(), t); err != nil && !isExpected(err) {
			t.Fatal(err)
		}
	}
	storeTea(t, db, 0, 60)
	if err := db.store.Flush(); err != nil {
		t.Fatal(err)
	}
	storeTea(t, db, 60, 80)
	return db, w
}

func storeTea(t *testing.T, db *DB, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		mustStore(t, db.Memories(), memory.Memory{
			ID: fmt.Sprint("m", i), Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("tea number ", i), Embedding: []float32{1, float32(i)},
		})
	}
}

func mustBackup(t *testing.T, db *DB, files vfs.FS, repo string, o *BackupOptions) BackupReport {
	t.Helper()
	r, err := db.Backup(t.Context(), fsys.On(files, repo), o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Verified || r.ID == "" || r.Timeline != db.identity.Timeline || r.Files == 0 || r.Bytes == 0 {
		t.Fatalf("%+v", r)
	}
	return r
}

func mustRestore(t *testing.T, files vfs.FS, repo, dir string, o *RestoreOptions) RestoreReport {
	t.Helper()
	r, err := Restore(t.Context(), fsys.On(files, repo), fsys.On(files, dir), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBackupAndRestore: what is restored says what the database said, passes the check, goes on
// under a new timeline, and knows where it comes from; of a repository and of an archive.
func TestBackupAndRestore(t *testing.T) {
	for _, from := range []string{"repo", "file"} {
		t.Run(from, func(t *testing.T) {
			mem := vfs.NewMem()
			db, _ := filledForBackup(t, mem)
			want := contentOf(t, db)
			made := mustBackup(t, db, mem, "repo", &BackupOptions{Archive: fsys.On(mem, "file")})
			if made.LSN != db.LSN() {
				t.Errorf("LSN %d, want %d", made.LSN, db.LSN())
			}
			if names, err := mem.List("db"); err != nil || slices.Contains(names, "store.backup") {
				t.Errorf("the copy of the store is left: %v, %v", names, err)
			}
			storeTea(t, db, 80, 90) // none of the backup

			r := mustRestore(t, mem, from, "new", nil)
			if r.LSN != made.LSN || r.Backup != made.ID || r.Timeline == made.Timeline || r.Memories == 0 {
				t.Errorf("%+v of %+v", r, made)
			}
			if _, err := mem.Stat("new.restoring"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder beside is left: %v", err)
			}
			back, err := openOn(mem, "new", Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer closeTest(t, back)
			if back.LSN() != made.LSN || contentOf(t, back) != want {
				t.Error("another content")
			}
			mustCheck(t, back, r.Memories)
			id := back.identity
			if id.Settings.ID != db.identity.Settings.ID || id.Timeline != r.Timeline || id.Parent == nil || *id.Parent != (Origin{Timeline: made.Timeline, LSN: made.LSN, Backup: made.ID}) {
				t.Errorf("identity %+v, parent %+v", id, id.Parent)
			}
			if timeline := (fsysTimeline{mem, "new"}).read(t); timeline != r.Timeline {
				t.Errorf("the mark has the timeline %s", timeline)
			}
			storeTea(t, back, 80, 95)
			again := mustBackup(t, back, mem, "repo", nil)
			if again.Timeline != r.Timeline || again.NewBytes == 0 {
				t.Errorf("%+v", again)
			}
		})
	}
}

// fsysTimeline is the mark in a folder.
type fsysTimeline struct {
	fs  vfs.FS
	dir string
}

func (f fsysTimeline) read(t *testing.T) string {
	t.Helper()
	timeline, err := (&place.Identity{}).TimelineIn(f.fs, f.dir)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", timeline[:4], timeline[4:6], timeline[6:8], timeline[8:10], timeline[10:])
}

// TestBackupBesideWriters: a backup that is made while a writer goes on has all that was
// acknowledged before, a prefix of what was stored, and exactly what its LSN says.
func TestBackupBesideWriters(t *testing.T) {
	mem := vfs.NewMem()
	db := openTest(t, mem, Options{})
	var mu sync.Mutex
	var lsns []uint64 // after the store of each memory
	store := func(i int) error {
		_, err := db.Memories().Store(t.Context(), memory.Memory{ID: fmt.Sprint(i), Scope: memory.Scope{User: "ada"}, Text: strings.Repeat(fmt.Sprint(i, " "), 200)}, nil)
		mu.Lock()
		defer mu.Unlock()
		lsns = append(lsns, db.LSN())
		return err
	}
	for i := range 100 {
		if err := store(i); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		for i := 100; ctx.Err() == nil && failed == nil; i++ {
			failed = store(i)
		}
	})
	for n := range 4 {
		mu.Lock()
		acknowledged := len(lsns)
		mu.Unlock()
		made := mustBackup(t, db, mem, "repo", nil)
		r := mustRestore(t, mem, "repo", fmt.Sprint("new", n), &RestoreOptions{ID: made.ID})
		var known []uint64
		comes(t, "that the writer knows of all that the backup has", func() bool {
			mu.Lock()
			defer mu.Unlock()
			known = slices.Clone(lsns)
			return known[len(known)-1] >= made.LSN
		})
		want, _ := slices.BinarySearch(known, made.LSN+1) // memories whose LSN is not above
		if r.Memories != want || want < acknowledged {
			t.Errorf("%d memories at LSN %d, want %d, and at least %d", r.Memories, made.LSN, want, acknowledged)
		}
		back, err := openOn(mem, fmt.Sprint("new", n), Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range mustAll(t, back) {
			if m.ID != fmt.Sprint(i) {
				t.Fatalf("memory %d is %s", i, m.ID)
			}
		}
		closeTest(t, back)
	}
	stop()
	if wg.Wait(); failed != nil {
		t.Error(failed)
	}
}

func mustAll(t *testing.T, db *DB) (all []memory.Memory) {
	t.Helper()
	err := db.View(t.Context(), func(tx *Tx) error {
		for m, err := range tx.Memories().All(t.Context(), memory.ListQuery{AllScopes: true}) {
			if err != nil {
				return err
			}
			all = append(all, m)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// reads counts the bytes of tables that are read.
type reads struct {
	vfs.FS
	mu    sync.Mutex
	paths []string
}

func (r *reads) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	r.mu.Lock()
	r.paths = append(r.paths, name)
	r.mu.Unlock()
	return r.FS.Open(name, opts...)
}

func (r *reads) Unwrap() vfs.FS { return r.FS }

// TestSecondBackup: tables that the backup before has are neither copied nor read; all are with
// Full, and a database of another timeline trusts none.
func TestSecondBackup(t *testing.T) {
	disk := &reads{FS: vfs.NewMem()}
	db, _ := filledForBackup(t, disk)
	first := mustBackup(t, db, disk, "repo", nil)
	storeTea(t, db, 80, 81)
	again := func(o *BackupOptions) (BackupReport, int) {
		disk.mu.Lock()
		disk.paths = nil
		disk.mu.Unlock()
		r := mustBackup(t, db, disk, "repo", o)
		disk.mu.Lock()
		defer disk.mu.Unlock()
		tables := 0
		for _, path := range disk.paths {
			if strings.HasPrefix(path, "repo/files/") {
				tables++
			}
		}
		return r, tables
	}
	second, _ := again(nil)
	if second.ID <= first.ID || second.LSN <= first.LSN || second.NewBytes >= first.NewBytes {
		t.Errorf("%+v after %+v", second, first)
	}
	third, looked := again(nil) // nothing is new but the MANIFEST and the log
	if third.NewBytes > third.Bytes/2 || looked > 0 {
		t.Errorf("%+v: %d files of the repository were read", third, looked)
	}
	full, looked := again(&BackupOptions{Full: true})
	if looked < 3 {
		t.Errorf("%+v: %d files of the repository were read", full, looked)
	}
}

// TestBackupMends: a file of the repository that is damaged is told by verify, and replaced by a
// backup that reads all.
func TestBackupMends(t *testing.T) {
	mem := vfs.NewMem()
	db, _ := filledForBackup(t, mem)
	mustBackup(t, db, mem, "repo", nil)
	s, err := backup.OpenSource(fsys.On(mem, "repo"))
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := s.Backups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all[0].Files, func(f backup.File) bool { return strings.HasSuffix(f.Name, ".sst") })
	hash := all[0].Files[at].Hash
	table := mem.PathJoin("repo", "files", hash[:2], hash)
	b := readTestFile(t, mem, table)
	b[len(b)/2] ^= 1
	writeTestFile(t, mem, table, b)
	verify := func() backup.Report {
		r, err := s.Verify(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := verify(); r.OK || len(r.Problems) != 1 || !strings.HasSuffix(table, filepath.Base(strings.Fields(r.Problems[0].What)[0])) {
		t.Fatalf("%+v", r)
	}
	mustBackup(t, db, mem, "repo", &BackupOptions{Full: true})
	if r := verify(); !r.OK || r.Backups != 2 {
		t.Errorf("%+v", r)
	}
}

// TestBackupOfDamage: a table of the database that is damaged is in no backup.
func TestBackupOfDamage(t *testing.T) {
	mem := vfs.NewMem()
	db, _ := filledForBackup(t, mem)
	closeTest(t, db)
	table, size := "", 0
	for path, content := range folderOf(t, mem, "db/store") {
		if strings.HasSuffix(path, ".sst") && len(content) > size {
			table, size = path, len(content)
		}
	}
	b := readTestFile(t, mem, table)
	b[len(b)/2] ^= 1
	writeTestFile(t, mem, table, b)
	db, err := openOn(mem, "db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, db)
	_, err = db.Backup(t.Context(), fsys.On(mem, "repo"), nil)
	wantError(t, "a damaged table", err, fault.ErrCorrupt)
	if !strings.Contains(err.Error(), ".sst") {
		t.Error(err)
	}
	_, err = Restore(t.Context(), fsys.On(mem, "repo"), fsys.On(mem, "new"), nil)
	wantError(t, "a repository without backups", err, fault.ErrNotFound)
}

// TestBackupOfReaders: a database that is only read can be backed up, also on a medium that
// cannot be written; and one that lives in memory.
func TestBackupOfReaders(t *testing.T) {
	mem, medium := vfs.NewMem(), vfs.NewMem()
	db, _ := filledForBackup(t, medium)
	want := contentOf(t, db)
	closeTest(t, db)
	db = openTest(t, mediumFS{medium}, Options{ReadOnly: true})
	made := mustBackup(t, db, mem, "repo", nil)
	mustRestore(t, mem, "repo", "new", &RestoreOptions{ID: made.ID})
	back, err := openOn(mem, "new", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, back)
	if contentOf(t, back) != want {
		t.Error("another content")
	}

	live, err := OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, live)
	storeTea(t, live, 0, 5)
	mustBackup(t, live, mem, "repo2", nil)
	if r := mustRestore(t, mem, "repo2", "new2", nil); r.Memories != 5 {
		t.Errorf("%+v", r)
	}
}

// TestBackupWithoutRoom: a repository on a full disk is told, leaves the database as it is, and
// holds no new backup.
func TestBackupWithoutRoom(t *testing.T) {
	mem := vfs.NewMem()
	db, _ := filledForBackup(t, mem)
	full := crashfs.NewQuota(vfs.NewMem(), (64<<20)+(16<<10))
	_, err := db.Backup(t.Context(), fsys.On(full, "repo"), nil)
	wantError(t, "a full disk", err, fault.ErrDiskFull)
	storeTea(t, db, 80, 82)
	full.Resize(1 << 30)
	mustBackup(t, db, full, "repo", nil)
	_, err = Restore(t.Context(), fsys.On(full, "repo"), fsys.On(crashfs.NewQuota(vfs.NewMem(), 8<<10), "new"), nil)
	wantError(t, "a full disk", err, fault.ErrDiskFull)
	db2 := openTest(t, vfs.NewMem(), Options{})
	_, err = db2.Backup(t.Context(), fsys.On(mediumFS{full}, "repo"), nil)
	wantError(t, "a medium", err, fault.ErrReadOnly)
}
