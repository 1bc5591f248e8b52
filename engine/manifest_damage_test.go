package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	logrecord "github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestDamagedManifest: no damaged byte of the MANIFEST makes a database that opens
// without its memories. (Pebble alone ignores what stands behind the byte.)
func TestDamagedManifest(t *testing.T) {
	fs := vfs.NewMem()
	const memories = 3
	for i := range memories {
		db := openTest(t, fs, Options{})
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("memory ", i)})
		if err := db.store.Flush(); err != nil {
			t.Fatal(err)
		}
		closeTest(t, db)
	}
	found, err := pebble.Peek("db/store", fs)
	if err != nil {
		t.Fatal(err)
	}
	whole := readTestFile(t, fs, found.ManifestFilename)
	if err := store.CheckManifest(fs, "db/store"); err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 1 << (at % 8)
		writeTestFile(t, fs, found.ManifestFilename, damaged)
		if err := store.CheckManifest(fs, "db/store"); err == nil {
			t.Errorf("byte %d of %d is damaged, and nothing tells", at, len(whole))
		}
	}
	if _, err := openOn(fs, "db", Options{MemoryBudget: testBudget}); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("open: %v", err)
	}
	writeTestFile(t, fs, found.ManifestFilename, whole)
	db := openTest(t, fs, Options{})
	mustCheck(t, db, memories)
	closeTest(t, db)
}

// TestTornManifest: what a crash leaves of a MANIFEST is no damage: any number of its
// last bytes may be missing, and so may any of the last record's sectors. A record that
// cannot be read before the last is damage.
func TestTornManifest(t *testing.T) {
	race.Sequential(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	fs := vfs.NewMem()
	closeTest(t, openTest(t, fs, Options{}))
	found, err := pebble.Peek("db/store", fs)
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		records := 2 + chance.IntN(5)
		whole, last := randomManifest(t, chance, records)
		torn := bytes.Clone(whole[:last+chance.IntN(len(whole)-last+1)])
		for from := last; from < len(torn); {
			to := min((from/512+1)*512, len(torn))
			if chance.IntN(4) == 0 {
				clear(torn[from:to])
			}
			from = to
		}
		writeTestFile(t, fs, found.ManifestFilename, torn)
		if err := store.CheckManifest(fs, "db/store"); err != nil {
			t.Fatalf("a last record at %d of %d bytes, of which %d are there: %v", last, len(whole), len(torn), err)
		}

		damaged := bytes.Clone(whole)
		at := chance.IntN(last)
		damaged[at] ^= 1 << chance.IntN(8)
		writeTestFile(t, fs, found.ManifestFilename, damaged)
		if err := store.CheckManifest(fs, "db/store"); err == nil && countRecords(damaged) < records {
			t.Fatalf("byte %d of %d is damaged, and nothing tells", at, len(whole))
		}
	}
}

// randomManifest makes a file of records, and tells where the last one begins.
func randomManifest(t *testing.T, chance *rand.Rand, records int) (file []byte, last int) {
	t.Helper()
	var out bytes.Buffer
	w := logrecord.NewWriter(&out)
	for range records {
		last = out.Len()
		payload := make([]byte, 1+chance.IntN([]int{100, 2000, 3 * (32 << 10)}[chance.IntN(3)]))
		for i := range payload {
			payload[i] = byte(1 + chance.IntN(255)) // a 512 of zeros was not written
		}
		_, err := w.WriteRecord(payload)
		if err := errors.Join(err, w.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes(), last
}

// countRecords is how many records Pebble reads.
func countRecords(file []byte) int {
	r := logrecord.NewReader(bytes.NewReader(file), 0)
	for n := 0; ; n++ {
		one, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, one)
		}
		if err != nil {
			return n
		}
	}
}

func readTestFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

func writeTestFile(t *testing.T, fs vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(bytes.Clone(b)) // under the race detector a file system in memory spoils what it was given
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
