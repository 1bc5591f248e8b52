package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/scope"
)

var ops = scope.Owner{Agent: "ops"}

func mustAdd(t testing.TB, n notes.Notes, name, content string, kind memory.Kind) notes.Note {
	t.Helper()
	note, err := n.Add(context.Background(), ops, name, content, kind)
	if err != nil {
		t.Fatal(err)
	}
	return note
}

// TestNotesAfterCrashes: after a crash anywhere, what was acknowledged is there, under its
// name and number, and nothing else is.
func TestNotesAfterCrashes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	rounds := race.Times(30)
	fs, o := crashfs.NewDisk(), setup{tuning: tuning{hotBytes: 30 << 10, lookLeast: 1}}
	db := openTest(t, fs, o)
	have := map[uint64]string{} // names by number
	for range rounds {
		for range 20 {
			name := fmt.Sprint("n", rng.IntN(30))
			at := func() uint64 {
				for id, is := range have {
					if is == name {
						return id
					}
				}
				return 0
			}()
			switch {
			case at == 0:
				have[mustAdd(t, db.Notes(), name, "text of "+name, "").ID] = name
			case rng.IntN(2) == 0:
				if err := db.Notes().Remove(t.Context(), ops, name); err != nil {
					t.Fatal(err)
				}
				delete(have, at)
			default:
				to := fmt.Sprint("m", rng.IntN(1<<30))
				if _, err := db.Notes().Rename(t.Context(), ops, name, to, false); err != nil {
					t.Fatal(err)
				}
				have[at] = to
			}
		}
		if rng.IntN(3) == 0 {
			janitorDone(t, db)
		}
		clone := fs.Lose(rng.IntN(101), rng)
		closeTest(t, db)
		fs = clone
		db = openTest(t, fs, o)
		mustCheck(t, db, len(have))
		for id, name := range have {
			if note, err := db.Notes().Get(t.Context(), ops, name); err != nil || note.ID != id {
				t.Fatalf("%q: %+v, %v, want number %d", name, note, err, id)
			}
		}
	}
}

// TestNotesAreReached: erasing, ageing and deleting a note by its memory does the same to the
// note, and damage is found.
func TestNotesAreReached(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, setup{})
	n, ctx := db.Notes(), t.Context()
	note := mustAdd(t, n, "a", "first", "")
	mustAdd(t, n, "b", "second", "")
	if err := db.Memories().Delete(ctx, ops.Scope(), note.MemoryID); err != nil {
		t.Fatal(err)
	}
	_, err := n.Get(ctx, ops, "a")
	wantError(t, "of a deleted memory", err, fault.ErrNotFound)
	janitorDone(t, db)
	mustStore(t, db.Memories(), memory.Memory{Scope: ops.Scope(), Text: "the next state"})
	if f := mustStats(t, db).Parts["notes"]; f != 1 {
		t.Errorf("%d notes have a number, 1 is there", f)
	}
	if _, err := db.DeleteOwner(ctx, ops); err != nil {
		t.Fatal(err)
	}
	if again := mustAdd(t, n, "a", "first", ""); again.ID != 3 {
		t.Errorf("after its agent was deleted: number %d", again.ID)
	}
	if _, err := db.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	if again := mustAdd(t, n, "a", "first", ""); again.ID != 1 {
		t.Errorf("after a reset: number %d", again.ID)
	}
	mustCheck(t, db, 1)
	for _, key := range [][]byte{
		append(db.keys().Header('N', 0), 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 9), // a number that no memory has
		append(db.keys().Header('N', 0), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 9), // of a memory that there never was
		append(db.keys().Header('N', 0), 7),                                     // malformed
	} {
		for _, damaged := range []bool{true, false} {
			err := db.store.Delete(key, pebble.Sync)
			if damaged {
				err = db.store.Set(key, layout.Seal(key, []byte{1}), pebble.Sync)
			}
			if err != nil {
				t.Fatal(err)
			}
			closeTest(t, db)
			db = openTest(t, fs, setup{})
			if r, err := db.Check(ctx); err != nil || r.OK == damaged {
				t.Errorf("%x, damaged %v: %+v, %v", key, damaged, r, err)
			}
		}
	}
}
