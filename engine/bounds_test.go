package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestPageBytes: a page of large memories ends before its limit, and the pages together
// are the whole list.
func TestPageBytes(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("texts of 80 MiB")
	}
	const n, size = 10, 8 << 20
	ada := memory.Scope{User: "ada"}
	db := openTest(t, vfs.NewMem(), Options{MemoryBudget: 1 << 30})
	for i := range n {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: strings.Repeat(fmt.Sprint(i), size)})
	}
	var pages []int
	q := memory.ListQuery{Scope: ada}
	for seen := 0; ; {
		page, err := db.Memories().List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Memories {
			if m.ID != fmt.Sprint(seen) {
				t.Errorf("memory %d is %s", seen, m.ID)
			}
			seen++
		}
		pages = append(pages, len(page.Memories))
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	equalSlices(t, "memories in each page", pages, []int{8, 2})
}

// TestCloseWithin: a Close that would wait for itself is refused at once, and the database
// goes on; beside the call it waits, and closes.
func TestCloseWithin(t *testing.T) {
	ada := memory.Scope{User: "ada"}
	db := openTest(t, vfs.NewMem(), Options{})
	err := db.View(t.Context(), func(*Tx) error {
		wantError(t, "Close within a View", db.Close(), fault.ErrInvalid)
		return nil
	})
	err = errors.Join(err, db.Update(t.Context(), func(tx *Tx) error {
		wantError(t, "Close within an Update", db.Close(), fault.ErrInvalid)
		mustStore(t, tx.Memories(), memory.Memory{Scope: ada, Text: "tea"})
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(mustList(t, db.Memories(), ada)); n != 1 {
		t.Errorf("%d memories after it", n)
	}
	other := openTest(t, vfs.NewMem(), Options{})
	err = db.View(t.Context(), func(*Tx) error { return other.Close() })
	if err != nil {
		t.Errorf("closing another database: %v", err)
	}
	closeTest(t, db)
}

// TestSealingThatFails: while chunks cannot be sealed, writers go on up to a bound, and are
// then refused by what keeps them; once it is mended, they go on.
func TestSealingThatFails(t *testing.T) {
	ada := memory.Scope{User: "ada"}
	db := openTest(t, vfs.NewMem(), setup{tuning: tuning{hotBytes: 1}})
	db.chunks.busy.Lock() // nothing is sealed
	broken := &fault.Error{Kind: fault.ErrDiskFull, What: "seal", Why: "there is no room", Do: "make room"}
	db.janitor.progress(true, broken)
	stored, refused := 0, error(nil)
	for refused == nil && stored < 100 {
		_, refused = db.Memories().Store(t.Context(), memory.Memory{Scope: ada, Text: fmt.Sprint("text ", stored)}, nil)
		if refused == nil {
			stored++
		}
	}
	wantError(t, "store", refused, fault.ErrDiskFull)
	if most := maxStuck + 3; stored > most {
		t.Errorf("%d chunks were begun, want at most %d", stored, most)
	}
	db.chunks.busy.Unlock()
	for deadline := time.Now().Add(patience); refused != nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		_, refused = db.Memories().Store(t.Context(), memory.Memory{Scope: ada, Text: "afterwards"}, nil)
	}
	if refused != nil {
		t.Errorf("after it was mended: %v", refused)
	}
	mustCheck(t, db, stored+1)
}

// TestResetFreesDisk: soon after a reset the disk has its space back.
func TestResetFreesDisk(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("texts of 8 MiB")
	}
	const seed = 7
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	db, err := Open(dir, &Options{MemoryBudget: testBudget})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, db)
	letters := make([]byte, 1<<20)
	for range 8 {
		for i := range letters {
			letters[i] = "abcdefghijklmnopqrstuvwxyz    "[rng.IntN(30)]
		}
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: string(letters)})
	}
	size := func() (n int64) {
		_ = filepath.WalkDir(filepath.Join(dir, "store"), func(path string, e fs.DirEntry, err error) error {
			if info, ierr := e.Info(); err == nil && ierr == nil && !e.IsDir() && filepath.Ext(path) == ".sst" {
				n += info.Size()
			}
			return nil
		})
		return n
	}
	before := size()
	if before < 4<<20 {
		t.Fatalf("tables of %d bytes before", before)
	}
	if n, err := db.Reset(t.Context()); n != 8 || err != nil {
		t.Fatal(n, err)
	}
	began := time.Now()
	waitFor(t, func() bool { return size() < before/10 })
	t.Logf("%d bytes, then %d after %v", before, size(), time.Since(began))
}
