package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/backup"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestBackupAfterCrashes crashes while a database is backed up to the same disk, written between,
// and restored from there. The database has all that was acknowledged, with nothing left of the
// copy of its store; each backup that was acknowledged restores to what it was; no other backup and
// no half of a restored database is there; and the next backup and restore go on.
func TestBackupAfterCrashes(t *testing.T) {
	race.Sequential(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const rounds, each = 4, 5
	type told struct{ stored, backups, restored int }
	var mu sync.Mutex
	var now told
	tell := func(change func(*told)) {
		mu.Lock()
		defer mu.Unlock()
		change(&now)
	}
	disk, states := crashing(rand.New(rand.NewPCG(seed, 1)), 12, 40, func() told {
		mu.Lock()
		defer mu.Unlock()
		return now
	})
	db, err := openOn(disk, "db", Options{MemoryBudget: testBudget})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, db)
	for round := range rounds {
		for i := range each {
			storeTea(t, db, round*each+i, round*each+i+1)
			tell(func(n *told) { n.stored++ })
		}
		mustBackup(t, db, disk, "repo", nil)
		tell(func(n *told) { n.backups++ })
		mustRestore(t, disk, "repo", fmt.Sprint("new", round), nil)
		tell(func(n *told) { n.restored++ })
	}
	all := states()
	for i, at := range all {
		checkAfterBackupCrash(t, at.fs, at.known.stored, at.known.backups, at.known.restored, each)
		if t.Failed() {
			t.Fatalf("crash %d of %d: %+v", i, len(all), at.known)
		}
	}
	if len(all) < 20 {
		t.Errorf("%d crashes", len(all))
	}
}

func checkAfterBackupCrash(t *testing.T, disk *crashfs.Disk, stored, backups, restored, each int) {
	t.Helper()
	db, err := openOn(disk, "db", Options{MemoryBudget: testBudget})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, db)
	if got := len(mustAll(t, db)); got < stored || got > stored+1 {
		t.Errorf("%d memories, and %d were acknowledged", got, stored)
	}
	if names, err := disk.List("db"); err != nil || slices.Contains(names, "store.backup") {
		t.Errorf("the copy of the store is left: %v, %v", names, err)
	}
	var found []backup.Backup
	if s, err := backup.OpenSource(fsys.On(disk, "repo")); err == nil {
		var damaged []backup.Problem
		if found, damaged, err = s.Backups(t.Context()); err != nil || len(damaged) > 0 {
			t.Fatal(damaged, err)
		}
	} else if backups > 0 {
		t.Fatal(err)
	}
	if len(found) < backups || len(found) > backups+1 {
		t.Errorf("%d backups, and %d were acknowledged", len(found), backups)
	}
	for i, b := range found[max(0, len(found)-2):] { // the older ones were looked at by earlier crashes
		n := max(0, len(found)-2) + i
		to := fmt.Sprint("of", n)
		r := mustRestore(t, disk, "repo", to, &RestoreOptions{ID: b.ID})
		if r.Memories != (n+1)*each {
			t.Errorf("backup %d has %d memories, want %d", n, r.Memories, (n+1)*each)
		}
	}
	for n := range backups + 1 { // what restores have made
		dir := fmt.Sprint("new", n)
		_, err := disk.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			if n < restored {
				t.Errorf("%s was restored, and is gone", dir)
			}
			continue
		}
		back, err := openOn(disk, dir, Options{MemoryBudget: testBudget})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(mustAll(t, back)); got != (n+1)*each {
			t.Errorf("%s has %d memories, want %d", dir, got, (n+1)*each)
		}
		closeTest(t, back)
	}
	mustBackup(t, db, disk, "repo", nil)
	if r := mustRestore(t, disk, "repo", fmt.Sprint("new", restored, "again"), nil); r.Memories < stored {
		t.Errorf("%+v", r)
	}
	if restored < backups { // the folder of the interrupted restore is taken up
		dir := fmt.Sprint("new", restored)
		if _, err := disk.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			mustRestore(t, disk, "repo", dir, nil)
		}
	}
}

// TestBackupUnderFaults: whatever change of a file fails while a backup is made, the call returns an
// error or a backup that is whole, and the database goes on, unless its own files have failed.
func TestBackupUnderFaults(t *testing.T) {
	race.Sequential(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 25 {
		mem := crashfs.NewDisk()
		disk := crashfs.Wrap(mem, nil)
		db, err := openOn(disk, "db", Options{MemoryBudget: testBudget})
		if err != nil {
			t.Fatal(err)
		}
		storeTea(t, db, 0, 5)
		at, failed := rng.IntN(60), ""
		var mu sync.Mutex
		n := 0
		disk.SetHook(func(op crashfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			apart := strings.Contains(op.Path, "store.backup") || strings.HasPrefix(op.Path, "repo")
			if !apart {
				return nil
			}
			if n++; n == at {
				failed = op.Kind.String() + " " + op.Path
				return errors.New("injected")
			}
			return nil
		})
		_, err = db.Backup(t.Context(), fsys.On(disk, "repo"), nil)
		disk.SetHook(nil)
		// Who holds the repository is a courtesy, what is not removed is removed later, and the copy
		// of the store was synced before it is closed, and is read afterwards. What cannot be linked
		// is copied.
		harmless := strings.Contains(failed, "memdb.holder") || strings.HasPrefix(failed, "remove") || strings.HasPrefix(failed, "close db/store.backup") || strings.HasPrefix(failed, "link ")
		if failed != "" && err == nil && !harmless {
			t.Errorf("%s failed, and the backup is told to be whole", failed)
		}
		if err := db.Failed(); err != nil {
			t.Errorf("%s: the database has failed: %v", failed, err)
		}
		storeTea(t, db, 5, 6)
		mustBackup(t, db, disk, "repo", nil)
		if r := mustRestore(t, disk, "repo", "new", nil); r.Memories != 6 {
			t.Errorf("%s: %+v", failed, r)
		}
		if got := len(mustList(t, db.Memories(), memory.Scope{User: "ada"})); got != 6 {
			t.Errorf("%s: %d memories", failed, got)
		}
		closeTest(t, db)
		if t.Failed() {
			t.FailNow()
		}
	}
}
