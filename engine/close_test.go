package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestCloseFlushes: a database that was closed has one log and little in it, however
// much was written; and what was written is there.
func TestCloseFlushes(t *testing.T) {
	if race.Enabled {
		t.Skip("writes 36 MB")
	}
	fs := vfs.NewMem()
	logs := func() (sizes []int64) {
		t.Helper()
		names, err := fs.List("db/store")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, ".log") {
				continue
			}
			info, err := fs.Stat("db/store/" + name)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, info.Size())
		}
		return sizes
	}
	small := Options{MemoryBudget: 64 << 20} // memtables of 4 MiB
	text := strings.Repeat(" lorem ipsum dolor", 1000)
	stored := 0
	for _, c := range []struct {
		memories int
		most     int64 // of the log
	}{
		{1, 20 << 10},   // however little it was
		{100, 20 << 10}, // what was in the log is in tables
		{2000, 8 << 20}, // the log is an old one, written again
	} {
		db := openTest(t, fs, small)
		for range c.memories {
			stored++
			mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint(stored, text)})
		}
		if sizes := logs(); c.memories == 2000 && len(sizes) < 2 {
			t.Fatalf("too little was written: logs of %d bytes", sizes)
		}
		closeTest(t, db)
		if sizes := logs(); len(sizes) != 1 || sizes[0] > c.most {
			t.Errorf("after %d memories: logs of %d bytes", c.memories, sizes)
		}
	}
	db := openTest(t, fs, small)
	mustCheck(t, db, stored)
	closeTest(t, db)
}

// TestCloseKeepsLog: a log that cannot be removed is no reason for Close to fail, since
// all is on disk. It says so, and the next Close removes the log.
func TestCloseKeepsLog(t *testing.T) {
	if race.Enabled {
		t.Skip("writes 17 MB")
	}
	base := vfs.NewMem()
	fs := crashfs.Wrap(base, nil)
	logger, log := logged()
	db := openTest(t, fs, Options{MemoryBudget: 64 << 20, Logger: logger}) // memtables of 4 MiB
	text := strings.Repeat(" lorem ipsum dolor", 1000)
	const memories = 1000
	for i := range memories {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint(i, text)})
	}
	var refused []string
	fs.SetHook(func(op crashfs.Op) error {
		if op.Kind != crashfs.Remove || op.Class() != crashfs.Log {
			return nil
		}
		refused = append(refused, op.Path)
		return errors.New("no such luck")
	})
	closeTest(t, db)
	fs.SetHook(nil)
	if len(refused) == 0 {
		t.Fatal("no log was to be removed")
	}
	if !strings.Contains(log(), "old log") {
		t.Errorf("nothing tells of %v: %s", refused, log())
	}
	db = openTest(t, base, Options{})
	mustCheck(t, db, memories)
	closeTest(t, db)
	for _, name := range refused {
		if _, err := base.Stat(name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}
