package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// newestLog is the path of the newest log, and its content.
func newestLog(t *testing.T, fs vfs.FS) (path string, content []byte) {
	t.Helper()
	names, err := fs.List("db/store")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	path = "db/store/" + slices.Max(names)
	return path, readTestFile(t, fs, path)
}

// marked is a database with memories that was killed after its log was marked, and how many
// bytes of the log the memories take.
func marked(t *testing.T, memories int) (fs *vfs.MemFS, log string, content []byte, synced int64) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	db := openTest(t, mem, Options{})
	for i := range memories {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("memory ", i)})
	}
	if err := db.store.MarkLogs(); err != nil {
		t.Fatal(err)
	}
	_, synced = db.store.FS.SyncedLogs()
	fs = mem.CrashClone(vfs.CrashCloneCfg{})
	closeTest(t, db)
	log, content = newestLog(t, fs)
	return fs, log, content, synced
}

// mustSalvage opens a damaged database with what came before the damage: all of it, and
// nothing behind it.
func mustSalvage(t *testing.T, fs vfs.FS, stored int) (left int) {
	t.Helper()
	db := openTest(t, fs, Options{Salvage: true})
	ms := mustList(t, db.Memories(), memory.Scope{User: "u"})
	slices.SortFunc(ms, func(a, b memory.Memory) int { return int(a.Seq) - int(b.Seq) })
	for i, m := range ms {
		if m.Text != fmt.Sprint("memory ", i) {
			t.Fatalf("memory %d is %q", i, m.Text)
		}
	}
	if len(ms) >= stored {
		t.Fatalf("%d of %d memories are there", len(ms), stored)
	}
	mustCheck(t, db, len(ms))
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("memory ", len(ms))})
	closeTest(t, db)
	db = openTest(t, fs, Options{})
	mustCheck(t, db, len(ms)+1)
	closeTest(t, db)
	return len(ms)
}

// TestLogDamage: a log that is missing, cut off or changed in what was acknowledged makes no
// database that opens with a part of its memories. It opens with what came before the
// damage if the caller wants that.
func TestLogDamage(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	const memories = 20
	base, log, whole, synced := marked(t, memories)
	if synced < 2000 || synced > int64(len(whole)) {
		t.Fatalf("%d bytes of %d are synced", synced, len(whole))
	}
	type damage struct {
		name string
		log  []byte // nil: it is missing
	}
	damages := []damage{{name: "missing"}, {"empty", whole[:0:0]}, {"all zero", make([]byte, len(whole))}, {"one byte less", whole[:synced-1]}}
	for range race.Times(20) {
		at := chance.Int64N(synced)
		damages = append(damages, damage{fmt.Sprint("cut at ", at), whole[:at]}, damage{fmt.Sprint("cut at ", at&^511), whole[:at&^511]})
		flipped := slices.Clone(whole)
		flipped[at] ^= 1 << chance.IntN(8)
		zeroed := slices.Clone(whole)
		clear(zeroed[at&^511 : at|511])
		damages = append(damages, damage{fmt.Sprint("a bit of byte ", at), flipped}, damage{fmt.Sprint("a sector of zeros at ", at&^511), zeroed})
	}
	for _, d := range damages {
		fs := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: chance})
		if d.log == nil {
			if err := fs.Remove(log); err != nil {
				t.Fatal(err)
			}
		} else {
			writeTestFile(t, fs, log, d.log)
		}
		for _, o := range []Options{{}, {ReadOnly: true}, {ReadOnly: true, Salvage: true}, {}} {
			o.MemoryBudget = testBudget
			db, err := openOn(fs, "db", o)
			if err == nil {
				closeTest(t, db)
			}
			name := log[strings.LastIndex(log, "/")+1:]
			if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "--salvage") {
				t.Fatalf("%s, %+v: %v", d.name, o, err)
			}
		}
		mustSalvage(t, fs, memories)
	}
}

// TestCleanLog: a database that was closed has nothing in its logs, so that nobody misses one.
func TestCleanLog(t *testing.T) {
	base := vfs.NewMem()
	const memories = 3
	db := openTest(t, base, Options{})
	for i := range memories {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("memory ", i)})
	}
	closeTest(t, db)
	for _, damage := range []string{"missing", "empty", "noise"} {
		log, whole := newestLog(t, base)
		switch damage {
		case "missing":
			if err := base.Remove(log); err != nil {
				t.Fatal(err)
			}
		case "empty":
			writeTestFile(t, base, log, nil)
		default:
			for i := range whole {
				whole[i] ^= byte(i)
			}
			writeTestFile(t, base, log, whole)
		}
		db := openTest(t, base, Options{})
		mustCheck(t, db, memories)
		closeTest(t, db)
	}
}

// TestTornLog: what a crash leaves of the last record is no damage, whichever of its sectors
// were written.
func TestTornLog(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	const memories = 10
	mem := vfs.NewCrashableMem()
	db := openTest(t, mem, Options{})
	for i := range memories {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("memory ", i)})
	}
	if err := db.store.MarkLogs(); err != nil {
		t.Fatal(err)
	}
	_, from := db.store.FS.SyncedLogs()
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: strings.Repeat("a long last memory ", 600)})
	_, to := db.store.FS.SyncedLogs()
	killed := mem.CrashClone(vfs.CrashCloneCfg{})
	closeTest(t, db)
	log, whole := newestLog(t, killed)
	if to-from < 20<<9 {
		t.Fatalf("the last record has %d bytes", to-from)
	}
	for range race.Times(30) {
		torn := slices.Clone(whole)
		for at := from; at < to; at = at&^511 + 512 {
			if chance.IntN(3) == 0 {
				clear(torn[at:min(at&^511+512, to)])
			}
		}
		clear(torn[to-1 : to]) // at least that is missing
		torn[from+1+chance.Int64N(to-from-1)] ^= 1
		fs := killed.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: chance})
		writeTestFile(t, fs, log, torn)
		again := openTest(t, fs, Options{})
		mustCheck(t, again, memories)
		closeTest(t, again)
	}
}

// TestLogsMissing: of several logs that hold what is in no table, none can go unnoticed.
func TestLogsMissing(t *testing.T) {
	mem := vfs.NewCrashableMem()
	fs := crashfs.Wrap(mem, nil)
	db := openTest(t, fs, Options{MemoryBudget: 64 << 20}) // memtables of 4 MiB
	fs.SetHook(func(op crashfs.Op) error {
		if op.Kind == crashfs.Create && op.Class() == crashfs.Table {
			return errors.New("no such luck")
		}
		return nil
	})
	logs := func() []string {
		paths, _ := db.store.FS.SyncedLogs()
		return paths
	}
	stored := 0
	for ; len(logs()) < 3; stored++ {
		text := fmt.Sprint("memory ", stored)
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: text, Metadata: map[string]any{"padding": strings.Repeat("x ", 60<<10)}})
	}
	if err := db.store.MarkLogs(); err != nil {
		t.Fatal(err)
	}
	killed := mem.CrashClone(vfs.CrashCloneCfg{})
	paths := logs()
	fs.SetHook(nil)
	closeTest(t, db)
	last := stored
	for _, path := range slices.Backward(paths) {
		fs := killed.CrashClone(vfs.CrashCloneCfg{})
		if err := fs.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := openOn(fs, "db", Options{MemoryBudget: testBudget}); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "is missing") {
			t.Fatalf("without %s: %v", path, err)
		}
		left := mustSalvage(t, fs, stored)
		if left > last {
			t.Errorf("without %s: %d memories are left, without a later one %d", path, left, last)
		}
		last = left
	}
	if last != 0 {
		t.Errorf("without the first log: %d memories", last)
	}
}
