package engine

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// TestNoteNames: no two notes of an owner have one name, whichever way a note comes by it.
func TestNoteNames(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	m, ctx := db.Memories(), t.Context()
	ada := Scope{User: "ada"}
	mustStore(t, m, Memory{ID: "a", Scope: ada, Kind: KindNote, Name: "x", Text: "text of a"})
	mustStore(t, m, Memory{ID: "b", Scope: ada, Kind: KindNote, Name: "y", Text: "text of b"})
	mustStore(t, m, Memory{ID: "fact", Scope: ada, Kind: KindFact, Name: "x", Text: "a fact"})
	mustStore(t, m, Memory{ID: "b", Scope: Scope{User: "bob"}, Kind: KindNote, Name: "x", Text: "of another owner"})
	taken := Memory{ID: "b", Scope: ada, Kind: KindNote, Name: "x", Text: "text of b"}
	lives := []Life{{Memory: &taken}}
	for name, try := range map[string]func(m Memories) error{
		"update": func(m Memories) error { _, err := m.Update(ctx, ada, "b", Patch{Name: new("x")}); return err },
		"upsert": func(m Memories) error { _, err := m.Store(ctx, taken, &StoreOptions{Upsert: true}); return err },
		"kind": func(m Memories) error {
			_, err := m.Store(ctx, Memory{ID: "fact", Scope: ada, Kind: KindNote, Name: "x", Text: "a fact"}, &StoreOptions{Upsert: true})
			return err
		},
		"store": func(m Memories) error {
			_, err := m.Store(ctx, Memory{ID: "new", Scope: ada, Kind: KindNote, Name: "x", Text: "new"}, nil)
			return err
		},
		"import": func(m Memories) error {
			_, err := m.Restore(ctx, lives, &RestoreOptions{StoreOptions: StoreOptions{Upsert: true}})
			return err
		},
	} {
		wantError(t, name, try(m), fault.ErrExists)
		err := db.Update(ctx, func(tx *Tx) error {
			wantError(t, name+" in an Update", try(tx.Memories()), fault.ErrExists)
			return nil // what was refused left the transaction whole
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustUpdate(t, m, ada, "a", Patch{Name: new("x"), Text: new("its own name")})
	err := db.Update(ctx, func(tx *Tx) error { // a name that is given up is free, in the same transaction
		mustUpdate(t, tx.Memories(), ada, "a", Patch{Name: new("z")})
		mustUpdate(t, tx.Memories(), ada, "b", Patch{Name: new("x")})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	mustCheck(t, db, 4)
}
