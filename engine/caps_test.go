package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// sizes are how many living memories each owner has.
func sizes(t *testing.T, db *DB) map[memory.Scope]int {
	t.Helper()
	groups, err := db.Memories().Groups(t.Context(), memory.GroupQuery{AllScopes: true})
	if err != nil {
		t.Fatal(err)
	}
	of := map[memory.Scope]int{}
	for _, g := range groups {
		of[g.Scope] = g.Memories
	}
	return of
}

// setPolicy changes the stored policy.
func setPolicy(t *testing.T, db *DB, change func(p *policy.Policy)) {
	t.Helper()
	p, err := db.Policies().Show(t.Context())
	if err == nil {
		change(&p)
		_, err = db.Policies().Set(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestStoresWaitForCaps: a store of an owner that has far more than the cap waits until that was
// evicted, and one that must not wait, or for another owner, does not.
func TestStoresWaitForCaps(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{Options: Options{KeepCaps: true}})
	setPolicy(t, db, func(p *policy.Policy) { p.Cap = 50 })
	a, b := memory.Scope{Agent: "a"}, memory.Scope{Agent: "b"}
	comes(t, "the watch", func() bool { return db.tables.Docs.Owners.Most() == 55 })
	db.moving.Lock() // no eviction
	for i := range 61 {
		mustStore(t, db.Memories(), memory.Memory{Scope: a, Text: fmt.Sprint("text ", i)})
	}
	done, stop := context.WithCancel(t.Context())
	stop()
	if _, err := db.Memories().Store(done, memory.Memory{Scope: a, Text: "no time"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v", err)
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: b, Text: "another owner"})
	stored := make(chan error)
	go func() {
		_, err := db.Memories().Store(t.Context(), memory.Memory{Scope: a, Text: "waits"}, nil)
		stored <- err
	}()
	select {
	case err := <-stored:
		t.Errorf("stored at once: %v", err)
		db.moving.Unlock()
	case <-time.After(20 * time.Millisecond):
		db.moving.Unlock()
		if err := <-stored; err != nil {
			t.Error(err)
		}
	}
	comes(t, "the cap", func() bool { return sizes(t, db)[a] <= 55 })
	closeTest(t, db)
}

// TestKeepCaps: owners are held at the cap and its slack while they store; the least
// important go, whatever is pinned or of another kind stays, and counts if it is pinned; a
// lower cap holds at once, and for a database that is opened.
func TestKeepCaps(t *testing.T) {
	sequential(t)
	fs := vfs.NewMem()
	db := openTest(t, fs, setup{Options: Options{KeepCaps: true}})
	setPolicy(t, db, func(p *policy.Policy) { p.Cap = 50 })
	owners := []memory.Scope{{Agent: "a"}, {User: "u"}, {User: "u", Agent: "a"}, {User: "v"}}
	for i := range 400 {
		for _, o := range owners {
			m := memory.Memory{Scope: o, Text: fmt.Sprint("text ", i), Importance: new(float64(i%100) / 100)}
			m.Pinned = i < 20
			mustStore(t, db.Memories(), m)
			note := memory.Memory{Scope: memory.Scope{Agent: "notes"}, Text: fmt.Sprint("note ", i, o), Kind: memory.KindArchive}
			mustStore(t, db.Memories(), note)
		}
	}
	capped := func(limit int) bool {
		of := sizes(t, db)
		if of[memory.Scope{Agent: "notes"}] != 1600 {
			t.Fatalf("archives went: %v", of)
		}
		for _, o := range owners {
			if n := of[o]; n < limit {
				t.Fatalf("%+v has %d", o, n)
			} else if n > limit+limit/10 {
				return false
			}
		}
		return true
	}
	comes(t, "the cap", func() bool { return capped(50) })
	for _, o := range owners {
		all, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: o, Limit: 3000})
		if err != nil {
			t.Fatal(err)
		}
		pinned := 0
		for _, m := range all.Memories {
			if m.Scope != o || m.Kind == memory.KindArchive {
				continue
			}
			if m.Pinned {
				pinned++
			} else if *m.Importance < .85 {
				t.Errorf("%+v keeps %v", o, *m.Importance)
			}
		}
		if pinned != 20 {
			t.Errorf("%+v keeps %d pinned ones", o, pinned)
		}
	}
	setPolicy(t, db, func(p *policy.Policy) { p.Cap = 40 })
	for _, o := range owners { // what tells of the owner
		mustStore(t, db.Memories(), memory.Memory{Scope: o, Text: "one more", Importance: new(1.0)})
	}
	comes(t, "the lower cap", func() bool { return capped(40) })
	setPolicy(t, db, func(p *policy.Policy) { p.Cap = 10 })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTest(t, fs, setup{Options: Options{KeepCaps: true}})
	comes(t, "the cap of a database that is opened", func() bool {
		of := sizes(t, db)
		return !slices.ContainsFunc(owners, func(o memory.Scope) bool { return of[o] != 20 }) // the pinned ones
	})
	mustCheck(t, db, 1600+4*20)
}

// TestOwnersAreCounted: after all that can happen to memories, the tables count as many of each
// owner as there are.
func TestOwnersAreCounted(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	failure := errors.New("no")
	some := func() memory.Scope {
		return []memory.Scope{{Agent: "a"}, {Agent: "b"}, {User: "u", Agent: "b"}, {User: "u", Agent: "b", Run: "r"}}[rng.IntN(4)]
	}
	for i := range 300 {
		id := fmt.Sprint("m", rng.IntN(60))
		switch rng.IntN(12) {
		case 0:
			_, _ = db.Memories().DeleteScope(t.Context(), memory.Scope{Agent: "b", Run: "r"})
		case 1, 2:
			_ = db.Memories().Delete(t.Context(), some(), id)
		case 3:
			err := db.Update(t.Context(), func(tx *Tx) error {
				for n := range 3 {
					if _, err := tx.Memories().Store(t.Context(), memory.Memory{ID: id, Scope: some(), Text: fmt.Sprint(i, n)}, &memory.StoreOptions{Upsert: true}); err != nil {
						return err
					}
				}
				_, _ = tx.Memories().DeleteScope(t.Context(), some())
				return failure
			})
			if !errors.Is(err, failure) {
				t.Fatal(err)
			}
		case 4:
			if rng.IntN(20) == 0 {
				if _, err := db.Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else if rng.IntN(3) == 0 {
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				db = openTest(t, fs, Options{})
			}
		default:
			if _, err := db.Memories().Store(t.Context(), memory.Memory{ID: id, Scope: some(), Text: fmt.Sprint("text ", i)}, &memory.StoreOptions{Upsert: true}); err != nil {
				t.Fatal(err)
			}
		}
		equalOwners(t, db)
	}
}

// equalOwners compares what the tables count with what is there.
func equalOwners(t *testing.T, db *DB) {
	t.Helper()
	want := sizes(t, db)
	err := db.view(context.Background(), nil, func(tx *Tx) error {
		for o, n := range want {
			owner, known, err := tx.state.Lookup(layout.Name{Class: layout.NameOwner, Text: scope.Key(o.Owner())})
			if err != nil || !known {
				return fmt.Errorf("%+v: %v %w", o, known, err)
			}
			if got := db.tables.Docs.Owners.Living(owner); got != int64(n) {
				t.Fatalf("%+v has %d, and is counted with %d", o, n, got)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
