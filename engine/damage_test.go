package engine

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestAnswersBesideDamage flips one bit in each block of each table in turn. It verifies that a
// page is complete, an error, or says how much is unreadable; that what is not found then may be
// damaged; that deleted memories do not return; and that a database which is opened to be written
// knows of the damage also the next time.
func TestAnswersBesideDamage(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	fs := vfs.NewMem()
	living := lossy(t, fs, setup{})
	db := openTest(t, fs, setup{})
	noError(t, db.store.Flush())
	remains := store.Remains{FS: fs, Dir: "db", Merger: db.merger(), Lost: func(store.Loss) {}}
	closeTest(t, db)
	removeSnapshots(t, fs)
	names, err := fs.List("db/store")
	noError(t, err)
	slices.Sort(names)
	marked, blocks := 0, 0
	for _, name := range names {
		if path.Ext(name) != ".sst" {
			continue
		}
		all, err := remains.TableBlocks("db/store/" + name)
		noError(t, err)
		for _, b := range all {
			blocks++
			copied := copyFiles(t, fs)
			content := readAll(t, copied, "db/store/"+name)
			content[(b.From+b.To)/2] ^= 1 << (blocks % 8)
			writeAll(t, copied, "db/store/"+name, content)
			for _, readOnly := range []bool{false, true} {
				if answersBeside(t, copied, readOnly, living) {
					marked++
				}
			}
		}
	}
	if blocks == 0 || marked == 0 {
		t.Errorf("%d answers are marked, of %d blocks", marked, blocks)
	}
}

// copyFiles are the files of a closed database once more.
func copyFiles(t *testing.T, fs *vfs.MemFS) *vfs.MemFS {
	t.Helper()
	copied := vfs.NewMem()
	if _, err := vfs.Clone(fs, copied, "db", "db", vfs.CloneSync); err != nil {
		t.Fatal(err)
	}
	return copied
}

// answersBeside opens a database that may be damaged and holds its answers against the memories
// that live. It reports whether they are marked.
func answersBeside(t *testing.T, fs vfs.FS, readOnly bool, living map[string]string) (marked bool) {
	t.Helper()
	ctx, ada := context.Background(), memory.Scope{User: "ada"}
	db, err := openSetup("db", setup{Options: Options{ReadOnly: readOnly, MemoryBudget: testBudget}, tuning: tuning{fs: fs}})
	if errors.Is(err, memory.ErrCorrupt) {
		return true
	}
	noError(t, err)
	defer closeTest(t, db)
	page, err := db.Memories().List(ctx, memory.ListQuery{Scope: ada, Limit: memory.MaxLimit, Lost: func(error) {}})
	if errors.Is(err, memory.ErrCorrupt) {
		return true
	}
	noError(t, err)
	got := map[string]string{}
	for _, m := range page.Memories {
		got[m.ID] = m.Text
		if _, lives := living[m.ID]; !lives {
			t.Errorf("%s was deleted, and is listed", m.ID)
		}
	}
	if page.Unreadable == 0 && !maps.Equal(got, living) {
		t.Errorf("read only %t: %d memories of %d without a word", readOnly, len(got), len(living))
	}
	for id := range living {
		if _, err := db.Memories().Get(ctx, ada, id); err != nil && !errors.Is(err, memory.ErrCorrupt) {
			t.Errorf("get %s: %v", id, err)
		}
	}
	if d := db.Damage(); d.Unreadable > 0 != (len(d.Known) > 0) || d.Unreadable < page.Unreadable {
		t.Errorf("%+v, and the page says %d", d, page.Unreadable)
	}
	return page.Unreadable > 0
}
