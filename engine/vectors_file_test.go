//go:build unix && !race

package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestCodesInAFile: a database whose codes have no room in memory answers as one
// whose have, and leaves no file behind.
func TestCodesInAFile(t *testing.T) {
	const n, dim = 300, 128 // components enough for sketches, of a cache line each
	const sketch = 64
	const table = 4096 // of nodes by their codes, which are not compared where they lie in a file
	answers := func(codes int64) (found [][]string, info SpaceInfo) {
		limits, dir := smallLimits(), t.TempDir()
		limits.Codes = codes
		for round := range 2 { // built, and opened again with its snapshot
			db, err := openSetup(dir, setup{tuning: tuning{vectors: limits}})
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(uint64(round), 1))
			for i := range n {
				m := memory.Memory{ID: fmt.Sprint(round, "-", i), Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("t", round, i), Embedding: randomVec(rng, dim)}
				if _, err := db.Memories().Store(t.Context(), m, nil); err != nil {
					t.Fatal(err)
				}
			}
			waitIndexed(t, db)
			for range 20 {
				got, err := db.Memories().Recall(t.Context(), memory.Query{Scope: memory.Scope{User: "u"}, Embedding: randomVec(rng, dim), Profile: memory.ProfileVector})
				if err != nil {
					t.Fatal(err)
				}
				var ids []string
				for _, hit := range got.Hits {
					ids = append(ids, hit.ID)
				}
				found = append(found, ids)
			}
			st, err := db.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			info = st.Spaces[0]
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), spaces.SnapshotTemp) {
				t.Errorf("%s is left", e.Name())
			}
		}
		return found, info
	}
	inFile, file := answers(1)
	inMemory, memory := answers(0)
	if !slices.EqualFunc(inFile, inMemory, slices.Equal) {
		t.Errorf("found\n%v; with the codes in memory\n%v", inFile, inMemory)
	}
	if file.FileBytes != 2*n*(dim+16) || memory.FileBytes != 0 || file.Bytes+file.FileBytes != memory.Bytes-memory.BlockBytes-table+2*n*sketch {
		t.Errorf("%+v; with the codes in memory %+v", file, memory)
	}
}

// TestCodesFileFails: a recall by vectors whose file the system cannot read says so,
// and one by words goes on.
func TestCodesFileFails(t *testing.T) {
	limits := smallLimits()
	limits.Codes = 1
	db, err := openSetup(t.TempDir(), setup{tuning: tuning{vectors: limits}})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, db)
	for i := range 10 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("number ", i), Embedding: []float32{1, float32(i)}})
	}
	if err := unix.Ftruncate(int(db.spaces.Named(memory.DefaultSpace).File.Fd()), 0); err != nil {
		t.Fatal(err)
	}
	for _, p := range []memory.Profile{memory.ProfileBest, memory.ProfileVector, memory.ProfileHybrid, memory.ProfileSubstrate} {
		_, err := db.Memories().Recall(t.Context(), memory.Query{Scope: memory.Scope{User: "ada"}, Text: "number", Embedding: []float32{1, 1}, Profile: p})
		wantError(t, string(p), err, hnsw.ErrFile)
		if errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v blames the store", p, err)
		}
	}
	if hits := mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "ada"}, Text: "number"}); len(hits) != 10 {
		t.Errorf("%d hits of 10 by words", len(hits))
	}
}

// codesFS is the disk's file system, with files of codes that are counted and may not
// grow.
type codesFS struct {
	vfs.FS
	room   bool
	opened int
}

type codesFSFile struct {
	vfs.File
	fs *codesFS
}

func (f *codesFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	if err != nil || !strings.HasSuffix(name, spaces.SnapshotTemp) {
		return file, err
	}
	f.opened++
	return &codesFSFile{file, f}, nil
}

func (f *codesFSFile) WriteAt(p []byte, at int64) (int, error) {
	if !f.fs.room {
		return 0, unix.ENOSPC
	}
	return f.File.WriteAt(p, at)
}

func (f *codesFSFile) Close() error {
	f.fs.opened--
	return f.File.Close()
}

// TestCodesFileIsFull: the log says once that memory is taken instead.
func TestCodesFileIsFull(t *testing.T) {
	log, said := logged()
	limits := smallLimits()
	limits.Codes = 1
	db, err := openOn(&codesFS{FS: vfs.Default}, t.TempDir(), setup{Options: Options{Logger: log}, tuning: tuning{vectors: limits}})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, db)
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "tea", Embedding: []float32{1, 2}})
	_, err = db.spaces.Named(memory.DefaultSpace).File.WriteAt(make([]byte, 1), 0) // as for the next page
	wantError(t, "a full disk", err, unix.ENOSPC)
	const warning = "cannot grow: memory is taken"
	if got := said(); strings.Count(got, warning) != 1 || !strings.Contains(got, unix.ENOSPC.Error()) {
		t.Errorf("the log says %q", got)
	}
}

// TestCodesFileIsClosed: that of a space whose making was taken back, and those of a
// database that does not open.
func TestCodesFileIsClosed(t *testing.T) {
	fs, dir := &codesFS{FS: vfs.Default, room: true}, t.TempDir()
	limits := smallLimits()
	limits.Codes = 1
	opts := setup{tuning: tuning{fs: fs, vectors: limits}}
	db, err := openSetup(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	ada, stop := memory.Scope{User: "ada"}, errors.New("stop")
	err = db.Update(t.Context(), func(tx *Tx) error {
		mustStore(t, tx.Memories(), memory.Memory{Scope: ada, Text: "tea", Embedding: []float32{1, 2}})
		mustRecall(t, tx.Memories(), memory.Query{Scope: ada, Text: "tea"})
		if fs.opened != 1 {
			t.Errorf("%d files are open in the transaction", fs.opened)
		}
		return stop
	})
	if wantError(t, "an update that fails", err, stop); fs.opened != 0 {
		t.Errorf("%d files are open after it", fs.opened)
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "tea", Embedding: []float32{1, 2}})
	closeTest(t, db)
	opts.Embedder = newFakeEmbedder(5)
	_, err = openSetup(dir, opts)
	if wantError(t, "an embedder of another dimension", err, fault.ErrMismatch); fs.opened != 0 {
		t.Errorf("%d files are open after a failed Open", fs.opened)
	}
}
