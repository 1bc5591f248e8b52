package engine

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// folderOf is the content of each file under a folder, but of those that say who has it open.
func folderOf(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		switch {
		case err != nil:
			t.Fatal(err)
		case name == "memdb.lock", name == "memdb.holder":
		case info.IsDir():
			maps.Copy(files, folderOf(t, fs, path))
		default:
			files[path] = string(readTestFile(t, fs, path))
		}
	}
	return files
}

// sameFolder fails where a file was changed, made or removed.
func sameFolder(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path := range before {
		if _, there := after[path]; !there {
			t.Errorf("%s was removed", path)
		} else if before[path] != after[path] {
			t.Errorf("%s was changed", path)
		}
	}
	for path := range after {
		if _, there := before[path]; !there {
			t.Errorf("%s was made", path)
		}
	}
}

// storeName is the path of the newest file of the store whose name begins and ends in a way.
func storeName(t *testing.T, fs vfs.FS, prefix, suffix string) string {
	t.Helper()
	names, err := fs.List("db/store")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, suffix) || strings.HasSuffix(name, ".damaged")
	})
	if len(names) == 0 {
		t.Fatalf("no file %s*%s", prefix, suffix)
	}
	return "db/store/" + slices.Max(names)
}

// inTables is a database with memories in several tables, and the MANIFEST that it had before
// the last of them. killed: it was not closed, and its log holds more memories.
func inTables(t *testing.T, memories int, killed bool) (fs *vfs.MemFS, older []byte) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	db := openTest(t, mem, Options{})
	for i := range memories {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("memory ", i)})
		if i%(memories/4) == 0 {
			if err := db.store.Flush(); err != nil {
				t.Fatal(err)
			}
			if i < memories/2 {
				older = readTestFile(t, mem, storeName(t, mem, "MANIFEST-", ""))
			}
		}
	}
	if killed {
		// A compaction that runs has tables that nothing lists yet, or no more: to damage one is harmless.
		comes(t, "the store rests", func() bool {
			m := db.store.Metrics()
			return m.Compact.NumInProgress == 0 && m.Table.ObsoleteCount == 0
		})
		fs = mem.CrashClone(vfs.CrashCloneCfg{})
		closeTest(t, db)
		return fs, older
	}
	closeTest(t, db)
	return mem.CrashClone(vfs.CrashCloneCfg{}), older
}

// manifestRecords are where the records of a MANIFEST end that take less than a block.
func manifestRecords(manifest []byte) (ends []int) {
	for at := 0; at+7 <= len(manifest); {
		at += 7 + int(manifest[at+4]) + int(manifest[at+5])<<8
		ends = append(ends, at)
	}
	return ends
}

// TestDamagedStore: a store whose files do not fit what was acknowledged is refused before
// anything in its folder is touched, by reason and with the way on; Salvage opens it, with all
// that is whole, and keeps what it does not use. (Pebble alone opens a part of these without
// memories, and removes the tables.)
func TestDamagedStore(t *testing.T) {
	const memories = 24
	change := func(prefix, suffix string, fn func([]byte) []byte) func(*testing.T, vfs.FS, []byte) {
		return func(t *testing.T, fs vfs.FS, _ []byte) {
			path := storeName(t, fs, prefix, suffix)
			writeTestFile(t, fs, path, fn(readTestFile(t, fs, path)))
		}
	}
	remove := func(prefix, suffix string) func(*testing.T, vfs.FS, []byte) {
		return func(t *testing.T, fs vfs.FS, _ []byte) {
			if err := fs.Remove(storeName(t, fs, prefix, suffix)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, d := range []struct {
		name   string
		damage func(t *testing.T, fs vfs.FS, older []byte)
		says   string
		loses  bool
	}{
		{"half a MANIFEST", change("MANIFEST-", "", func(b []byte) []byte { return b[:len(b)/2] }), "was on disk to byte", false},
		{"a MANIFEST of whole records, without the last", change("MANIFEST-", "", func(b []byte) []byte {
			ends := manifestRecords(b)
			return b[:ends[len(ends)-2]]
		}), "was on disk to byte", false},
		{"a MANIFEST of one record", change("MANIFEST-", "", func(b []byte) []byte { return b[:manifestRecords(b)[0]] }), "was on disk to byte", false},
		{"an empty MANIFEST", change("MANIFEST-", "", func([]byte) []byte { return nil }), "was on disk to byte", false},
		{"a MANIFEST of zeros", change("MANIFEST-", "", func(b []byte) []byte { return make([]byte, len(b)) }), "was on disk to byte", false},
		{"a byte of the MANIFEST", change("MANIFEST-", "", func(b []byte) []byte { b[20] ^= 1; return b }), "does not fit its checksum", false},
		{"no MANIFEST", remove("MANIFEST-", ""), "is missing", false},
		{"an older MANIFEST under the same name", func(t *testing.T, fs vfs.FS, older []byte) {
			writeTestFile(t, fs, storeName(t, fs, "MANIFEST-", ""), older)
		}, "was on disk to byte", false},
		{"an older MANIFEST and its marker", func(t *testing.T, fs vfs.FS, older []byte) {
			if err := fs.Remove(storeName(t, fs, "marker.manifest.", "")); err != nil {
				t.Fatal(err)
			}
			writeTestFile(t, fs, "db/store/MANIFEST-000000", older)
			writeTestFile(t, fs, "db/store/marker.manifest.000001.MANIFEST-000000", nil)
		}, "MANIFEST-000000", false},
		{"no marker of the MANIFEST", remove("marker.manifest.", ""), "marker.manifest.* is missing", false},
		{"no marker of the format", remove("marker.format-version.", ""), "marker.format-version.* is missing", false},
		{"a table is missing", remove("", ".sst"), "is missing", true},
		{"half a table", change("", ".sst", func(b []byte) []byte { return b[:len(b)/2] }), "bytes of", true},
		{"an empty table", change("", ".sst", func([]byte) []byte { return nil }), "has 0 bytes of", true},
		{"options that cannot be read", change("OPTIONS-", "", func([]byte) []byte { return []byte("[noise\n=") }), "is damaged", false},
		{"options of another store", change("OPTIONS-", "", func(b []byte) []byte {
			return bytes.Replace(b, []byte("merger=memdb.stats.v1"), []byte("merger=other"), 1)
		}), "is damaged", false},
		{"a mark of another database", func(t *testing.T, fs vfs.FS, _ []byte) {
			other := vfs.NewMem()
			closeTest(t, openTest(t, other, Options{}))
			writeTestFile(t, fs, "db/memdb.mark", readTestFile(t, other, "db/memdb.mark"))
		}, "another copy", false},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %v", d.name, killed), func(t *testing.T) {
				t.Parallel()
				fs, older := inTables(t, memories, killed)
				whole := folderOf(t, fs, "db")
				d.damage(t, fs, older)
				before := folderOf(t, fs, "db")
				for _, o := range []Options{{}, {ReadOnly: true}, {ReadOnly: true, Salvage: true}} {
					o.MemoryBudget = testBudget
					db, err := openOn(fs, "db", o)
					if err == nil {
						closeTest(t, db)
					}
					if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), d.says) ||
						!strings.Contains(err.Error(), "--salvage") || !strings.Contains(err.Error(), "memdbctl rescue SRC DEST") {
						t.Fatalf("%+v: %v", o, err)
					}
					sameFolder(t, before, folderOf(t, fs, "db"))
				}
				damaged := maps.Clone(before)
				maps.DeleteFunc(damaged, func(path, content string) bool { return whole[path] == content })
				wantSalvaged(t, fs, damaged, memories, d.loses)
			})
		}
	}
}

// wantSalvaged opens a damaged database with Salvage, and holds it against what was stored. What
// the damage left of a file that is not used any more is kept.
func wantSalvaged(t *testing.T, fs vfs.FS, damaged map[string]string, memories int, loses bool) {
	t.Helper()
	db := openTest(t, fs, Options{Salvage: true})
	if db.Salvaged() == "" {
		t.Error("Salvage says nothing")
	}
	if said := strings.Contains(db.Salvaged(), "lost with all that lay in them"); said != loses {
		t.Errorf("Salvage says %q", db.Salvaged())
	}
	if !loses {
		if ms := mustList(t, db.Memories(), memory.Scope{User: "u"}); len(ms) != memories {
			t.Errorf("%d memories of %d are there", len(ms), memories)
		}
		mustCheck(t, db, memories)
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "v"}, Text: "one more"})
	closeTest(t, db)
	left := slices.Collect(maps.Values(folderOf(t, fs, "db")))
	for path, content := range damaged {
		if content != "" && !slices.Contains(left, content) {
			t.Errorf("what was left of %s is gone", path)
		}
	}
	db = openTest(t, fs, Options{})
	if ms := mustList(t, db.Memories(), memory.Scope{User: "v"}); len(ms) != 1 || db.Salvaged() != "" {
		t.Errorf("opened again: %v, %q", ms, db.Salvaged())
	}
	closeTest(t, db)
}

// TestNewLogIsMarked: a log that was made is missed at once, not only when the next mark is due:
// a database that is killed within a moment of opening does not lose its newest log unnoticed.
func TestNewLogIsMarked(t *testing.T) {
	mem := vfs.NewCrashableMem()
	db := openTest(t, mem, Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: "before"})
	closeTest(t, db)
	db = openTest(t, mem, Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: "after"}) // no mark was due since
	killed := mem.CrashClone(vfs.CrashCloneCfg{})
	closeTest(t, db)
	log, _ := newestLog(t, killed)
	if err := killed.Remove(log); err != nil {
		t.Fatal(err)
	}
	before := folderOf(t, killed, "db")
	if _, err := openOn(killed, "db", Options{MemoryBudget: testBudget}); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("open without %s: %v", log, err)
	}
	sameFolder(t, before, folderOf(t, killed, "db"))
}

// TestMarkCosts: commits cost no sync of the mark.
func TestMarkCosts(t *testing.T) {
	disk := crashfs.Wrap(vfs.NewMem(), nil)
	db := openTest(t, disk, Options{})
	var marks, logs atomic.Int64
	disk.SetHook(func(op crashfs.Op) error {
		switch {
		case op.Kind != crashfs.Sync:
		case op.Class() == crashfs.Log:
			logs.Add(1)
		case strings.HasSuffix(op.Path, "memdb.mark"):
			marks.Add(1)
		}
		return nil
	})
	const stores = 400
	for i := range stores {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("memory ", i)})
	}
	disk.SetHook(nil)
	closeTest(t, db)
	t.Logf("%d syncs of logs, %d of the mark", logs.Load(), marks.Load())
	if logs.Load() < stores || marks.Load() > stores/8 { // one a second is due, and the machine may be slow
		t.Errorf("%d stores took %d syncs of logs and %d of the mark", stores, logs.Load(), marks.Load())
	}
}

// TestOlderStore: a store that was put back from an older copy of the folder, without what lies
// beside it, is refused; Salvage goes on with it.
func TestOlderStore(t *testing.T) {
	mem := vfs.NewMem()
	db := openTest(t, mem, Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: "memory 0"})
	closeTest(t, db)
	older := folderOf(t, mem, "db/store")
	db = openTest(t, mem, Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: "memory 1"})
	closeTest(t, db)
	if err := mem.RemoveAll("db/store"); err != nil {
		t.Fatal(err)
	}
	if err := mem.MkdirAll("db/store", 0o700); err != nil {
		t.Fatal(err)
	}
	for path, content := range older {
		writeTestFile(t, mem, path, []byte(content))
	}
	before := folderOf(t, mem, "db")
	if _, err := openOn(mem, "db", Options{MemoryBudget: testBudget}); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "older") {
		t.Errorf("open: %v", err)
	}
	sameFolder(t, before, folderOf(t, mem, "db"))
	db = openTest(t, mem, Options{Salvage: true})
	if ms := mustList(t, db.Memories(), memory.Scope{User: "u"}); len(ms) != 1 || !strings.Contains(db.Salvaged(), "lost") {
		t.Errorf("%d memories, %q", len(ms), db.Salvaged())
	}
	closeTest(t, db)
	closeTest(t, openTest(t, mem, Options{}))
}

// TestManifestCopy: each MANIFEST has a copy that holds the same, and goes with it.
func TestManifestCopy(t *testing.T) {
	mem := vfs.NewMem()
	db, err := openOn(mem, "db", setup{Options: Options{MemoryBudget: testBudget}, tuning: tuning{manifestBytes: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("memory ", i)})
		if err := db.store.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	closeTest(t, db)
	names, err := mem.List("db/store")
	if err != nil {
		t.Fatal(err)
	}
	copies := 0
	for _, name := range names {
		of, ok := fsys.IsManifestCopy(name)
		if !ok {
			continue
		}
		copies++
		if !slices.Contains(names, of) {
			t.Errorf("%s is left", name)
		} else if !bytes.Equal(readTestFile(t, mem, "db/store/"+name), readTestFile(t, mem, "db/store/"+of)) {
			t.Errorf("%s is not the same as %s", name, of)
		}
	}
	if copies == 0 {
		t.Errorf("no copy among %v", names)
	}
}

// TestLostCatalog: where the MANIFEST and its copy are gone, Salvage makes a store anew of what
// the tables and logs hold, the newest value of each key, and keeps the old one beside it.
func TestLostCatalog(t *testing.T) {
	mem := vfs.NewCrashableMem()
	db := openTest(t, mem, Options{})
	ctx := t.Context()
	const memories = 24
	for round := range 3 { // so that each key has values in several tables
		for i := range memories {
			text := fmt.Sprintf("memory %d of round %d", i, round)
			if round == 0 {
				mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: memory.Scope{User: "u"}, Text: text})
			} else if _, err := db.Memories().Update(ctx, memory.Scope{User: "u"}, fmt.Sprint("m", i), memory.Patch{Text: &text}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.store.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range memories / 2 {
		if err := db.Memories().Delete(ctx, memory.Scope{User: "u"}, fmt.Sprint("m", i)); err != nil {
			t.Fatal(err)
		}
	}
	lsn := db.LSN()
	fs := mem.CrashClone(vfs.CrashCloneCfg{})
	closeTest(t, db)
	for path := range folderOf(t, fs, "db/store") {
		if strings.Contains(path, "MANIFEST-") { // the marker, too
			if err := fs.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := folderOf(t, fs, "db/store")
	if _, err := openOn(fs, "db", Options{MemoryBudget: testBudget}); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("open: %v", err)
	}
	db = openTest(t, fs, Options{Salvage: true})
	if !strings.Contains(db.Salvaged(), "a new store was made") || db.LSN() != lsn {
		t.Errorf("LSN %d of %d, %q", db.LSN(), lsn, db.Salvaged())
	}
	for _, m := range mustList(t, db.Memories(), memory.Scope{User: "u"}) {
		if !strings.HasSuffix(m.Text, "of round 2") {
			t.Errorf("%s is %q", m.ID, m.Text)
		}
	}
	mustCheck(t, db, memories/2)
	closeTest(t, db)
	kept := folderOf(t, fs, "db/store.damaged")
	for path, content := range before {
		if kept[strings.Replace(path, "db/store/", "db/store.damaged/", 1)] != content {
			t.Errorf("%s was not kept", path)
		}
	}
	closeTest(t, openTest(t, fs, Options{}))
}
