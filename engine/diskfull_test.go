package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	quotaSize = 64 << 20
	// fillText makes few memories fill a disk.
	fillText = 256 << 10
)

// filler is a memory of a text that nothing compresses, with a word of its own.
func filler(n int) memory.Memory {
	var b strings.Builder
	fmt.Fprintf(&b, "zq%dx remembers ", n)
	for x := uint64(n)*0x9E3779B97F4A7C15 + 1; b.Len() < fillText; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b.WriteByte('a' + byte(x%16))
		if x%1024 == 0 {
			b.WriteByte(' ')
		}
	}
	return memory.Memory{ID: fmt.Sprint(n), Scope: ada, Text: b.String(), Importance: new(float64)}
}

// fillDisk stores until a store is refused, and returns how many there were.
func fillDisk(t *testing.T, db *DB, from int) (stored int) {
	t.Helper()
	for n := from; n < from+2*quotaSize/fillText; n++ {
		_, err := db.Memories().Store(t.Context(), filler(n), nil)
		if errors.Is(err, fault.ErrDiskFull) {
			return n
		}
		if err != nil {
			t.Fatalf("store %d: %v", n, err)
		}
	}
	t.Fatal("no store was refused")
	return 0
}

// resize sets the size of the disk, and has it looked at anew.
func resize(db *DB, quota *crashfs.Quota, size int64) {
	quota.Resize(size)
	db.store.FS.KeepFree(db.dir, reserveOf(db)/8*5, clock.System)
}

// reserveOf is what the database keeps free of its disk.
func reserveOf(db *DB) int64 {
	_, reserve := db.store.DiskFigures()
	return reserve
}

// holds makes sure that n fillers are there, found and whole.
func holds(t *testing.T, db *DB, n int) {
	t.Helper()
	ids, err := 0, error(nil)
	for _, err = range db.Memories().All(t.Context(), memory.ListQuery{Scope: ada}) {
		if err != nil {
			t.Fatal(err)
		}
		ids++
	}
	if ids != n {
		t.Errorf("%d memories are listed, want %d", ids, n)
	}
	hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: fmt.Sprintf("zq%dx", n-1), Profile: memory.ProfileText})
	if len(hits) == 0 || hits[0].ID != fmt.Sprint(n-1) {
		t.Errorf("%d hits for the newest memory", len(hits))
	}
	mustCheck(t, db, n)
}

// TestDiskReserve fills a disk until stores are refused: no write meets the end of it,
// reads and deletes go on, a crash loses nothing, and stores go on when there is room.
func TestDiskReserve(t *testing.T) {
	if race.Enabled {
		t.Skip("fills a disk")
	}
	mem := vfs.NewCrashableMem()
	quota := crashfs.NewQuota(mem, quotaSize)
	var log bytes.Buffer
	db, err := openOn(quota, "db", Options{MemoryBudget: testBudget, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for deadline := time.Now().Add(patience); ; {
		n = fillDisk(t, db, n)
		s, err := db.Stats(t.Context())
		if err != nil || s.DiskReserveBytes != quotaSize/4 {
			t.Fatalf("a reserve of %d; %v", s.DiskReserveBytes, err)
		}
		if s.DiskFreeBytes <= s.DiskReserveBytes+4*fillText {
			break
		}
		// Flushes and compactions have made room since, unless it was refused too early.
		if time.Now().After(deadline) {
			t.Fatalf("refused with %d bytes free and a reserve of %d", s.DiskFreeBytes, s.DiskReserveBytes)
		}
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	holds(t, db, n)
	resize(db, quota, quota.Used()+reserveOf(db)*3/4) // the last was refused for its size
	_, err = db.KV().Put(t.Context(), memory.Owner{User: "ada"}, "k", "v", nil)
	wantError(t, "put", err, fault.ErrDiskFull)
	text := "new"
	_, err = db.Memories().Update(t.Context(), ada, "0", memory.Patch{Text: &text})
	wantError(t, "update", err, fault.ErrDiskFull)
	err = db.Update(t.Context(), func(tx *Tx) error {
		if err := tx.Memories().Delete(t.Context(), ada, "0"); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		_, err := tx.Memories().Store(t.Context(), filler(n), nil)
		return err
	})
	wantError(t, "a transaction", err, fault.ErrDiskFull)
	if err := db.Memories().Delete(t.Context(), ada, fmt.Sprint(n-1)); err != nil {
		t.Errorf("delete: %v", err)
	}
	holds(t, db, n-1)
	if err := db.FlushTouches(t.Context()); err != nil {
		t.Errorf("flush what was recalled: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error("close:", err)
	}
	if quota.Refused() != 0 {
		t.Errorf("%d writes met a full disk", quota.Refused())
	}
	db = openTest(t, quota, Options{})
	holds(t, db, n-1)
	resize(db, quota, quota.Used()+reserveOf(db)*3/4)
	_, err = db.Memories().Store(t.Context(), filler(n), nil)
	wantError(t, "store after reopening", err, fault.ErrDiskFull)
	resize(db, quota, 2*quotaSize)
	if _, err = db.Memories().Store(t.Context(), filler(n-1), nil); err != nil {
		t.Errorf("store with room: %v", err)
	}
	holds(t, db, n)
	if !strings.Contains(log.String(), "the disk is nearly full") || strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log is not told, or of errors:\n%s", log.String())
	}
	holds(t, openTest(t, crashed, Options{}), n)
}

// TestDiskReserveBeside fills a disk by many writers at once, with vectors, so that
// flushes and compactions run beside them, and deletes from it: no write meets the end
// of the disk.
func TestDiskReserveBeside(t *testing.T) {
	const writers = 8
	quota := crashfs.NewQuota(vfs.NewMem(), quotaSize)
	db := openTest(t, quota, Options{})
	var stored, deleted atomic.Int64
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			for n := 0; ; n++ {
				m := filler(n*writers + w)
				m.Text = m.Text[:fillText/(2+n%16)]
				m.Embedding = make([]float32, memory.MaxDim)
				m.Embedding[n%memory.MaxDim] = 1
				_, err := db.Memories().Store(t.Context(), m, nil)
				if errors.Is(err, fault.ErrDiskFull) {
					return
				}
				if err != nil {
					t.Errorf("store: %v", err)
					return
				}
				stored.Add(1)
				if n%8 == 7 {
					// A flush beside it may leave too little for a delete, until it ends.
					err := db.Memories().Delete(t.Context(), ada, m.ID)
					for end := time.Now().Add(patience); errors.Is(err, fault.ErrDiskFull) && time.Now().Before(end); {
						time.Sleep(time.Millisecond)
						err = db.Memories().Delete(t.Context(), ada, m.ID)
					}
					if err != nil {
						t.Errorf("delete: %v", err)
					}
					deleted.Add(1)
				}
			}
		})
	}
	work.Wait()
	if quota.Refused() != 0 || db.Failed() != nil {
		t.Errorf("%d writes met a full disk; %v", quota.Refused(), db.Failed())
	}
	mustCheck(t, db, int(stored.Load()-deleted.Load()))
}

// TestDiskReserveLifts refuses, and takes writes again when there is room, without
// being opened again; it says both.
func TestDiskReserveLifts(t *testing.T) {
	quota := crashfs.NewQuota(vfs.NewMem(), quotaSize)
	var log bytes.Buffer
	db := openTest(t, quota, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	mustStore(t, db.Memories(), filler(0))
	used := quota.Used()
	resize(db, quota, used+reserveOf(db))
	_, err := db.Memories().Store(t.Context(), filler(1), nil)
	wantError(t, "store", err, fault.ErrDiskFull)
	resize(db, quota, used+reserveOf(db)/2-1)
	err = db.Memories().Delete(t.Context(), ada, "0")
	wantError(t, "delete in the last half of the reserve", err, fault.ErrDiskFull)
	_, err = db.Reset(t.Context())
	wantError(t, "reset in the last half of the reserve", err, fault.ErrDiskFull)
	mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: "remembers"})
	err = db.FlushTouches(t.Context())
	wantError(t, "touches in the last half of the reserve", err, fault.ErrDiskFull)
	// A write that is larger than what is left counts with its size.
	resize(db, quota, used+reserveOf(db)+8<<20)
	m := filler(2)
	m.Text = strings.Repeat("word ", memory.MaxText/5)
	_, err = db.Memories().Store(t.Context(), m, nil)
	wantError(t, "a large store", err, fault.ErrDiskFull)
	mustStore(t, db.Memories(), filler(1))
	if err := db.FlushTouches(t.Context()); err != nil {
		t.Errorf("touches that were put off: %v", err)
	}
	if m, err := db.Memories().Get(t.Context(), ada, "0"); err != nil || m.AccessCount != 1 {
		t.Errorf("%d touches, %v", m.AccessCount, err)
	}
	for _, say := range []string{"writes are refused", "writes are taken"} {
		if !strings.Contains(log.String(), say) {
			t.Errorf("%q is not in the log:\n%s", say, log.String())
		}
	}
}

// TestReadOnly opens what a crash left, with a log to replay, on a disk without a free
// byte: everything is there and nothing is changed.
func TestReadOnly(t *testing.T) {
	mem := vfs.NewCrashableMem()
	db := openTest(t, mem, Options{})
	for n := range 5 {
		m := filler(n)
		m.Embedding = []float32{1, float32(n)}
		mustStore(t, db.Memories(), m)
	}
	if _, err := db.KV().Put(t.Context(), memory.Owner{User: "ada"}, "k", "v", nil); err != nil {
		t.Fatal(err)
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	disk := crashfs.Wrap(crashfs.NewQuota(crashed, 0), nil)
	_, err := openOn(disk, "db", Options{MemoryBudget: testBudget})
	wantError(t, "open on a full disk", err, fault.ErrDiskFull)
	wantError(t, "open on a full disk", err, syscall.ENOSPC)
	before := listing(t, crashed)
	disk.SetHook(func(op crashfs.Op) error {
		if !strings.Contains(op.Path, "memdb.holder") {
			t.Errorf("%s of %s", op.Kind, op.Path)
		}
		return nil
	})
	db = openTest(t, disk, Options{ReadOnly: true})
	holds(t, db, 5)
	if e, found, err := db.KV().Lookup(t.Context(), memory.Owner{User: "ada"}, "k"); err != nil || !found || string(e.Value) != `"v"` {
		t.Errorf("get: %+v, %v, %v", e, found, err)
	}
	if hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Embedding: []float32{1, 4}, Profile: memory.ProfileVector}); len(hits) != 5 || hits[0].ID != "4" {
		t.Errorf("by a vector: %v", hitIDs(hits))
	}
	if _, err := db.Stats(t.Context()); err != nil {
		t.Error(err)
	}
	if err := db.WaitIndexed(t.Context()); err != nil {
		t.Error(err)
	}
	if err := db.FlushTouches(t.Context()); err != nil {
		t.Error(err)
	}
	refusesWrites(t, db)
	if err := db.Close(); err != nil {
		t.Error("close:", err)
	}
	disk.SetHook(nil)
	if after := listing(t, crashed); after != before {
		t.Errorf("the folder was\n%s\nand is\n%s", before, after)
	}
	holds(t, openTest(t, crashed, Options{}), 5)
}

func refusesWrites(t *testing.T, db *DB) {
	t.Helper()
	ctx, m := t.Context(), db.Memories()
	text := "new"
	calls := map[string]error{
		"Update":      db.Update(ctx, func(*Tx) error { return nil }),
		"Delete":      m.Delete(ctx, ada, "0"),
		"CreateSpace": db.CreateSpace(ctx, SpaceConfig{Name: "other", Dim: 2}),
		"Rebuild":     db.Rebuild(ctx, IndexText, nil),
	}
	_, calls["Store"] = m.Store(ctx, filler(9), nil)
	_, calls["StoreBatch"] = m.StoreBatch(ctx, []memory.Memory{filler(9)}, nil)
	_, calls["Restore"] = m.Restore(ctx, []memory.Life{{Memory: &memory.Memory{Scope: ada, Text: text}}}, nil)
	_, calls["Update memory"] = m.Update(ctx, ada, "0", memory.Patch{Text: &text})
	_, calls["DeleteScope"] = m.DeleteScope(ctx, ada)
	_, calls["Reset"] = db.Reset(ctx)
	_, calls["Put"] = db.KV().Put(ctx, memory.Owner{User: "ada"}, "k", 1, nil)
	for call, err := range calls {
		wantError(t, call, err, fault.ErrReadOnly)
	}
}

// listing is the files of a folder with their sizes, without who holds it.
func listing(t *testing.T, f vfs.FS) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{"db", "db/" + store.Dir} {
		names, err := f.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		for _, name := range names {
			info, err := f.Stat(f.PathJoin(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if name != "memdb.holder" {
				fmt.Fprintf(&b, "%s/%s %d\n", dir, name, info.Size())
			}
		}
	}
	return b.String()
}

// TestReadOnlyNeedsADatabase makes nothing where there is none.
func TestReadOnlyNeedsADatabase(t *testing.T) {
	mem := vfs.NewMem()
	_, err := openOn(mem, "db", Options{ReadOnly: true})
	wantError(t, "a missing folder", err, fault.ErrNotDatabase)
	if _, err := mem.Stat("db"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
	if err := mem.MkdirAll("db", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = openOn(mem, "db", Options{ReadOnly: true})
	wantError(t, "an empty folder", err, fault.ErrNotDatabase)
	id, err := place.New("", nil, newTestClock().now())
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Write(mem, "db"); err != nil {
		t.Fatal(err)
	}
	_, err = openOn(mem, "db", Options{ReadOnly: true})
	wantError(t, "one whose making was interrupted", err, fault.ErrNotDatabase)
}

// TestFullDiskFails fills the disk behind the database's back: the write that meets it
// fails the database, and says why and what to do.
func TestFullDiskFails(t *testing.T) {
	quota := crashfs.NewQuota(vfs.NewMem(), quotaSize)
	db := openTest(t, quota, Options{})
	mustStore(t, db.Memories(), filler(0))
	db.store.FS.KeepFree("nowhere", 0, newTestClock().now) // the figure stays what it was
	if _, known := db.store.FS.Free(0); !known {
		t.Fatal("the free space is not known")
	}
	quota.Resize(0)
	_, err := db.Memories().Store(context.Background(), memory.Memory{Scope: ada, Text: "more"}, nil)
	for n := 1; err == nil && n < 10; n++ {
		_, err = db.Memories().Store(context.Background(), filler(n), nil)
	}
	wantError(t, "store", err, fault.ErrFailed)
	wantError(t, "store", err, syscall.ENOSPC)
	if !strings.Contains(err.Error(), "make room on the disk") || !fsys.IsFull(err) {
		t.Error(err)
	}
}
