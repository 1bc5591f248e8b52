package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
)

// TestSalvageCrashes: whatever moment a crash takes of Salvage, the database is damaged as
// before, and told so, or mended; and Salvage opens it, with all that it held.
func TestSalvageCrashes(t *testing.T) {
	const memories = 12
	for _, damage := range []string{"half a MANIFEST", "no MANIFEST and no copy", "no markers", "options", "memdb.json"} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			chance := rand.New(rand.NewPCG(seed, 0))
			fs, _ := inTables(t, memories, true)
			spoilFolder(t, fs, damage)
			disk := crashfs.NewDisk()
			copyFolder(t, fs, disk, "db")
			wrapped := crashfs.Wrap(disk, nil)
			const most = 8
			var left []*crashfs.Disk
			ops := 0
			wrapped.SetHook(func(op crashfs.Op) error {
				if ops++; op.Kind != crashfs.Close && (chance.IntN(12) == 0) && len(left) < most {
					left = append(left, disk.Lose([]int{0, 30, 70, 100}[chance.IntN(4)], chance))
				}
				return nil
			})
			db := openTest(t, wrapped, Options{Salvage: true})
			wrapped.SetHook(nil)
			mustCheck(t, db, memories)
			closeTest(t, db)
			for i, crashed := range left {
				db, err := openOn(crashed, "db", Options{MemoryBudget: testBudget})
				if err != nil {
					if !errors.Is(err, fault.ErrCorrupt) {
						t.Fatalf("crash %d: %v", i, err)
					}
					db = openTest(t, crashed, Options{Salvage: true})
				}
				mustCheck(t, db, memories)
				closeTest(t, db)
				closeTest(t, openTest(t, crashed, Options{}))
			}
			t.Logf("%d changes, %d crashes", ops, len(left))
		})
	}
}

// spoilFolder damages a database.
func spoilFolder(t *testing.T, fs vfs.FS, damage string) {
	t.Helper()
	for path := range folderOf(t, fs, "db") {
		name := fs.PathBase(path)
		gone := false
		switch damage {
		case "half a MANIFEST":
			if strings.HasPrefix(name, "MANIFEST-") {
				b := readTestFile(t, fs, path)
				writeTestFile(t, fs, path, b[:len(b)/2])
			}
		case "no MANIFEST and no copy":
			gone = strings.Contains(name, "MANIFEST-") && !strings.HasPrefix(name, "marker.")
		case "no markers":
			gone = strings.HasPrefix(name, "marker.")
		case "options":
			if strings.HasPrefix(name, "OPTIONS-") {
				writeTestFile(t, fs, path, []byte("[noise\n="))
			}
		case "memdb.json":
			gone = name == damage
		default:
			t.Fatal(fmt.Sprint("no such damage: ", damage))
		}
		if gone {
			if err := fs.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// copyFolder copies a folder to another file system, where all of it is on disk.
func copyFolder(t *testing.T, from, to vfs.FS, dir string) {
	t.Helper()
	for path, content := range folderOf(t, from, dir) {
		if err := to.MkdirAll(to.PathDir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		writeTestFile(t, to, path, []byte(content))
		f, err := to.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{dir + "/store", dir, "/"} {
		if err := fsys.SyncDir(to, dir); err != nil {
			t.Fatal(err)
		}
	}
}
