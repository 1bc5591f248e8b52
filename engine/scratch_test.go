package engine

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestScratch verifies that a scratch copy has all of the database, that writes to it stay in it, and
// that nothing is left of it, in every form of a database.
func TestScratch(t *testing.T) {
	ctx, ada := t.Context(), memory.Scope{User: "ada"}
	for form, open := range map[string]func() (*DB, error){
		"folder": func() (*DB, error) { return Open(filepath.Join(t.TempDir(), "d"), nil) },
		"file":   func() (*DB, error) { return Open(filepath.Join(t.TempDir(), "d"+FileSuffix), nil) },
		"memory": func() (*DB, error) { return OpenMemory(nil) },
	} {
		t.Run(form, func(t *testing.T) {
			db, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			stop := errors.New("stop")
			if err := db.Scratch(ctx, nil, func(scratch *DB) error { // of an empty database
				mustStore(t, scratch.Memories(), memory.Memory{ID: "x", Scope: ada, Text: "never"})
				return stop
			}); !errors.Is(err, stop) {
				t.Fatal(err)
			}
			mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: ada, Text: "one", Embedding: []float32{1, 2}})
			before := db.LSN()
			err = db.Scratch(ctx, nil, func(scratch *DB) error {
				mustStore(t, db.Memories(), memory.Memory{ID: "later", Scope: ada, Text: "beside"})
				all, err := scratch.Memories().List(ctx, memory.ListQuery{Scope: ada})
				if err != nil || len(all.Memories) != 1 || all.Memories[0].Text != "one" || scratch.LSN() != before {
					t.Errorf("the copy has %v at LSN %d, %v", all, scratch.LSN(), err)
				}
				mustStore(t, scratch.Memories(), memory.Memory{ID: "b", Scope: ada, Text: "two"})
				release, err := scratch.enter("work in the background")
				if err != nil {
					return err
				}
				go func() { // it ends while the copy is closed
					for !scratch.life.Closed() {
						runtime.Gosched()
					}
					release()
				}()
				return scratch.Memories().Delete(ctx, ada, "a")
			})
			if err != nil {
				t.Fatal(err)
			}
			all, err := db.Memories().List(ctx, memory.ListQuery{Scope: ada})
			if err != nil || len(all.Memories) != 2 || db.LSN() != before+1 {
				t.Errorf("the database has %v at LSN %d, %v", all, db.LSN(), err)
			}
			if r, err := db.Check(ctx); err != nil || !r.OK {
				t.Errorf("%v %v", r, err)
			}
			names, err := db.store.FS.List(db.dir)
			if err != nil || slices.Contains(names, store.ScratchDir) {
				t.Errorf("the folder has %v, %v", names, err)
			}
		})
	}
}
