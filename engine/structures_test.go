package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

func mustStructures(t *testing.T, db *DB) Stats {
	t.Helper()
	s, err := db.Stats(t.Context())
	if err == nil {
		err = db.AddStructures(t.Context(), &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for name, n := range s.Structures {
		if n < 0 {
			t.Errorf("%s take %d bytes", name, n)
		}
		sum += n
	}
	if sum != s.DiskBytes {
		t.Errorf("the structures take %d bytes, the folder %d: %v", sum, s.DiskBytes, s.Structures)
	}
	return s
}

// TestStructures: the structures take what the folder does, each of them what is its own.
func TestStructures(t *testing.T) {
	race.Sequential(t)
	db := openTest(t, vfs.NewMem(), Options{})
	mustStructures(t, db)
	ada := memory.Scope{User: "ada"}
	for i := range 100 {
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, ID: fmt.Sprint("m", i), Text: fmt.Sprintf("number %d %s", i, strings.Repeat("abc ", i)), Embedding: someVector(i)})
	}
	if _, err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	one := mustStructures(t, db).Structures
	for _, name := range []string{"records", "vectors", "text", "log", "names"} {
		if one[name] == 0 {
			t.Errorf("%s take nothing: %v", name, one)
		}
	}
	for _, name := range []string{"graph", "sessions", "notes", "usage", "entries", "history", "trash"} {
		if one[name] != 0 {
			t.Errorf("%s take %d bytes, and there are none", name, one[name])
		}
	}
	if _, err := db.Sessions().Append(t.Context(), ada.Owner(), "run", []sessions.Message{{Role: "user", Text: strings.Repeat("hello ", 1000)}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if two := mustStructures(t, db).Structures; two["sessions"] == 0 {
		t.Errorf("sessions take nothing: %v", two)
	}
}

func someVector(i int) []float32 {
	v := make([]float32, 64)
	for n := range v {
		v[n] = float32((i+1)*(n+3)%17) + .5
	}
	return v
}

// TestStructuresMeasured: what large tables hold is measured by their blocks, and what has no key
// takes nothing.
func TestStructuresMeasured(t *testing.T) {
	race.Sequential(t)
	db := openTest(t, vfs.NewMem(), Options{})
	for i := range 100 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint(i), Embedding: someVector(i)})
	}
	if _, err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := db.View(t.Context(), func(tx *Tx) error {
		read, measured := tx.structureSpans(), tx.structureSpans()
		if err := tx.readSpans(t.Context(), read); err != nil {
			return err
		}
		if err := tx.measureSpans(measured); err != nil {
			return err
		}
		last := []byte{0}
		sum := uint64(0)
		for i, s := range measured {
			if string(s.lower) != string(last) {
				t.Errorf("the span of the %s begins at %x, the one before ends at %x", s.name, s.lower, last)
			}
			last = s.upper
			if read[i].weight == 0 && s.weight != 0 {
				t.Errorf("%s take %d bytes without a key", s.name, s.weight)
			}
			sum += s.weight
		}
		if tables := uint64(db.store.Metrics().Total().TablesSize); sum < tables/2 || sum > tables {
			t.Errorf("%d bytes were measured of %d", sum, tables)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
