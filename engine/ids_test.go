package engine

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func testCipher(t *testing.T, seed uint64) layout.IDCipher {
	t.Helper()
	c, err := layout.NewIDCipher(seed)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestIDs: an ID is a UUID, the same numbers give another with other random bits, and
// only the database that made it reads it.
func TestIDs(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	c, other := testCipher(t, 7), testCipher(t, 8)
	seen := map[string]bool{}
	for i := range 20_000 {
		owner, seq, random := rng.Uint32(), rng.Uint64N(1<<layout.SeqBits), rng.Uint64()
		switch i % 4 {
		case 0:
			owner, seq = 1, uint64(i)
		case 1:
			owner, seq, random = math.MaxUint32, 1<<layout.SeqBits-1, math.MaxUint64>>(i%3)
		case 2:
			owner, seq = 0, 0
		}
		id := c.Seal(random, owner, seq)
		u, err := uuid.Parse(id)
		if err != nil || u.Version() != layout.IDVersion || u.Variant() != uuid.RFC4122 || u.String() != id {
			t.Fatalf("%q is no UUID of version %d: %v", id, layout.IDVersion, err)
		}
		if o, s, ok := c.Open(id); !ok || o != owner || s != seq {
			t.Fatalf("%q of %d, %d is read as %d, %d, %t (seed %d)", id, owner, seq, o, s, ok, seed)
		}
		if other.Says(id, owner, seq) {
			t.Fatalf("%q is read with another seed (seed %d)", id, seed)
		}
		if seen[id] && i%4 != 1 {
			t.Fatalf("%q comes twice (seed %d)", id, seed)
		}
		seen[id] = true
	}
	id := c.Seal(5, 3, 0x0102030405)
	for _, wrong := range []string{
		"", "m1", strings.ToUpper(id) + "0", id[1:], "{" + id[:34] + "}", strings.ReplaceAll(id, "-", ""),
		id[:14] + "8" + id[15:], id[:19] + "0" + id[20:], strings.Repeat("x", 36), strings.Repeat("-", 36),
	} {
		if o, s, ok := c.Open(wrong); ok {
			t.Errorf("%q is read as %d, %d", wrong, o, s)
		}
	}
}

// FuzzOpenID: whatever is read as an ID is the ID of what was read.
func FuzzOpenID(f *testing.F) {
	c, err := layout.NewIDCipher(7)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(c.Seal(5, 3, 4))
	f.Add("m1")
	f.Fuzz(func(t *testing.T, id string) {
		owner, seq, ok := c.Open(id)
		if ok && (seq >= 1<<layout.SeqBits || !c.Says(strings.ToUpper(id), owner, seq)) {
			t.Fatalf("%q is read as %d, %d", id, owner, seq)
		}
	})
}

// lives reads the events of an ID.
func lives(t *testing.T, db *DB, s memory.Scope, id string) (out []string) {
	t.Helper()
	for _, h := range mustHistory(t, db.Memories(), s, id) {
		e := string(h.Event)
		if h.NewText != nil {
			e += " " + *h.NewText
		}
		out = append(out, e)
	}
	return out
}

// TestGivenIDs: a memory whose ID was given by the database is found by it in every way,
// also after its end and an opening, and has no key in the ID index.
func TestGivenIDs(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	ctx, ada, bob := t.Context(), memory.Scope{User: "ada"}, memory.Scope{User: "bob"}
	first := mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "likes tea"}).ID
	second := mustStore(t, db.Memories(), memory.Memory{Scope: bob, Text: "likes tea"}).ID
	if first == second || !db.keys().Cipher.Says(second, 2, 2) {
		t.Fatalf("IDs %s and %s", first, second)
	}
	// It is taken, for its owner.
	_, err := db.Memories().Store(ctx, memory.Memory{ID: first, Scope: ada, Text: "likes milk"}, nil)
	if !errors.Is(err, fault.ErrExists) {
		t.Errorf("a store under the ID of another memory: %v", err)
	}
	st, err := db.Memories().Store(ctx, memory.Memory{ID: first, Scope: ada, Text: "likes milk"}, &memory.StoreOptions{Upsert: true})
	if err != nil || !st.Updated {
		t.Fatalf("%+v, %v", st, err)
	}
	mustStore(t, db.Memories(), memory.Memory{ID: first, Scope: bob, Text: "bob's own"})
	if _, err := db.Memories().Get(ctx, memory.Scope{}, first); err == nil {
		t.Error("an ID of two owners is found without a scope")
	}
	if _, err := db.Memories().Get(ctx, bob, second[:35]+"z"); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("an ID that nothing has: %v", err)
	}
	foreign := testCipher(t, db.keys().Seed+1).Seal(9, 2, 2)
	mustStore(t, db.Memories(), memory.Memory{ID: foreign, Scope: bob, Text: "of another database"})
	if err := db.Memories().Delete(ctx, ada, first); err != nil {
		t.Fatal(err)
	}
	again := mustStore(t, db.Memories(), memory.Memory{ID: first, Scope: ada, Text: "likes juice"})
	if again.ID != first {
		t.Errorf("stored as %s", again.ID)
	}
	for range 2 {
		for id, text := range map[string]string{second: "likes tea", foreign: "of another database", first: "bob's own"} {
			if m, err := db.Memories().Get(ctx, bob, id); err != nil || m.Text != text {
				t.Errorf("%s: %q, %v; want %q", id, m.Text, err, text)
			}
		}
		want := []string{"ADD likes tea", "UPDATE likes milk", "DELETE", "ADD likes juice"}
		if got := lives(t, db, ada, first); !slices.Equal(got, want) {
			t.Errorf("history %q, want %q", got, want)
		}
		if got := lives(t, db, bob, first); !slices.Equal(got, []string{"ADD bob's own"}) {
			t.Errorf("bob's history %q", got)
		}
		mustCheck(t, db, 4)
		closeTest(t, db)
		db = openTest(t, fs, Options{})
	}
	if keys := countKeys(t, db, layout.KindID); keys != 3 { // those that were not given by the database
		t.Errorf("%d keys in the ID index", keys)
	}
}

// TestIDsAfterAbort: an ID that was given to what was taken back is of nothing, later, too.
func TestIDsAfterAbort(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ctx, ada := t.Context(), memory.Scope{User: "ada"}
	var lost []string
	for i := range 3 {
		err := db.Update(ctx, func(tx *Tx) error {
			st, err := tx.Memories().Store(ctx, memory.Memory{Scope: ada, Text: fmt.Sprint("lost ", i)}, nil)
			lost = append(lost, st.ID)
			if err != nil {
				return err
			}
			return kv.ErrStop
		})
		if !errors.Is(err, kv.ErrStop) {
			t.Fatal(err)
		}
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "kept"})
	for i, id := range lost {
		if slices.Contains(lost[:i], id) {
			t.Errorf("%s was given twice", id)
		}
		if m, err := db.Memories().Get(ctx, ada, id); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("%s, which was taken back, is %+v, %v", id, m, err)
		}
	}
	mustCheck(t, db, 1)
}

// TestIDsOfLayout2: memories that got random IDs, with a key each in the ID index, are
// found as before, and one that has such a key beside an ID that says itself is found once.
func TestIDsOfLayout2(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ctx, ada := t.Context(), memory.Scope{User: "ada"}
	old := mustStore(t, db.Memories(), memory.Memory{ID: uuid.NewString(), Scope: ada, Text: "old"})
	both := mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "both"})
	err := db.Update(ctx, func(tx *Tx) error {
		tx.change()
		key := tx.state.Keys.ID(both.ID, 1, both.Seq)
		db.writer.seen.Add(tx.state.Keys.Listed(key))
		return tx.set(key, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{old.ID, both.ID} {
		if _, err := db.Memories().Get(ctx, memory.Scope{}, id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if got := lives(t, db, ada, id); len(got) != 1 {
			t.Errorf("%s: history %q", id, got)
		}
	}
	mustCheck(t, db, 2)
}

// TestIDGivenAgain: who has an ID is found behind any number that had it, of the same
// owner and of others, and behind one that was restored after its death.
func TestIDGivenAgain(t *testing.T) {
	ctx, fs := t.Context(), vfs.NewMem()
	db := openTest(t, fs, Options{})
	ada, bob, eve := memory.Scope{User: "ada", Run: "r"}, memory.Scope{User: "bob"}, memory.Scope{User: "eve"}
	for i := range 5 {
		for _, s := range []memory.Scope{ada, bob, eve} {
			mustStore(t, db.Memories(), memory.Memory{ID: "state", Scope: s, Text: fmt.Sprint(s.User, i)})
			_, err := db.Memories().Store(ctx, memory.Memory{ID: "state", Scope: s, Text: "other"}, nil)
			wantError(t, "a store under an ID that is taken", err, fault.ErrExists)
			var n int
			if i%2 == 0 {
				n, err = db.Memories().DeleteScope(ctx, s)
			} else {
				n, err = 1, db.Memories().Delete(ctx, s, "state")
			}
			if n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "state", Scope: ada, Text: "ada's"})
	mustStore(t, db.Memories(), memory.Memory{ID: "state", Scope: bob, Text: "bob's"})
	past := "past"
	when := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	gone := memory.Life{History: []memory.HistoryEntry{
		{MemoryID: "state", Event: memory.EventAdd, Scope: bob, NewText: &past, Time: when},
		{MemoryID: "state", Event: memory.EventDelete, Scope: bob, OldText: &past, Time: when.Add(time.Hour)},
	}}
	if _, err := db.Memories().Restore(ctx, []memory.Life{gone}, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, s := range []memory.Scope{ada, bob} {
			m, err := db.Memories().Get(ctx, s, "state")
			if err != nil || m.Text != s.User+"'s" {
				t.Errorf("%s: %q, %v", s.User, m.Text, err)
			}
			_, err = db.Memories().Store(ctx, memory.Memory{ID: "state", Scope: s, Text: "other"}, nil)
			wantError(t, "a store under an ID that is taken", err, fault.ErrExists)
		}
		_, err := db.Memories().Get(ctx, eve, "state")
		wantError(t, "an ID that nobody has any more", err, fault.ErrNotFound)
		_, err = db.Memories().Get(ctx, memory.Scope{}, "state")
		wantError(t, "an ID of two", err, fault.ErrAmbiguous)
		if got := len(lives(t, db, eve, "state")); got != 10 {
			t.Errorf("%d events of an ID that was given five times, want 10", got)
		}
		mustCheck(t, db, 2)
		closeTest(t, db)
		db = openTest(t, fs, Options{})
	}
}
