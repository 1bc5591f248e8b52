package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/erasure"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

const userSecret = "periwinkle"

// fillUser gives a user something of everything, over three agents and without one: what lives,
// what has changed, what was deleted, what has expired, and what lies in the trash.
func fillUser(t *testing.T, db *DB, clk *testClock, user string) {
	t.Helper()
	ctx, m := t.Context(), db.Memories()
	for _, agent := range []string{"", "a1", "a2", "a3"} {
		o := memory.Owner{User: user, Agent: agent}
		for i := range 6 {
			text := fmt.Sprint(userSecret, " of ", user, " and ", agent, " number ", i)
			mem := memory.Memory{ID: fmt.Sprint(user, agent, i), Scope: o.Scope(), Text: text, Vectors: map[string][]float32{"default": {float32(i), 1}}}
			if i == 4 {
				mem.Importance, mem.CreatedAt = new(.1), clk.now().Add(-90*24*time.Hour) // for the trash
			}
			if i == 5 {
				mem.ExpiresAt = clk.now().Add(time.Minute)
			}
			mustStore(t, m, mem)
		}
		_, err := m.Store(ctx, memory.Memory{ID: fmt.Sprint(user, agent, 0), Scope: o.Scope(), Text: userSecret + " again", Vectors: map[string][]float32{"default": {1, 2}}}, &memory.StoreOptions{Upsert: true})
		noError(t, err)
		noError(t, m.Delete(ctx, o.Scope(), fmt.Sprint(user, agent, 1)))
		noError(t, second(db.KV().Put(ctx, o, "key", userSecret, nil)))
		noError(t, second(db.Notes().Add(ctx, o, "note", userSecret, "")))
		noError(t, second(db.Sessions().Append(ctx, o, "talk", []sessions.Message{{Text: userSecret + " said"}}, nil)))
		noError(t, second(db.Graph().Put(ctx, o, graph.Entity{ID: "ent", Type: userSecret}, []graph.Edge{{Type: "knows", Target: "other"}}, nil)))
		noError(t, second(db.Usage().Add(ctx, usage.Record{Owner: o, Model: userSecret, PromptTokens: 3, Cost: usd(t, "0.5")}, nil)))
		noError(t, db.Usage().SetBudget(ctx, usage.Budget{Owner: o, Per: usage.PerDay, Limit: usd(t, "7")}))
	}
	if r, err := db.Evict(ctx, &EvictOptions{Scope: memory.Scope{User: user}}); err != nil || r.Evicted < 4 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// userContent is all that a database says of a user.
func userContent(t *testing.T, db *DB, user string) string {
	t.Helper()
	var b strings.Builder
	line := func(l any) error {
		j, err := json.Marshal(l)
		fmt.Fprintf(&b, "%s\n", j)
		return err
	}
	s := memory.Scope{User: user}
	noError(t, db.View(t.Context(), func(tx *Tx) error {
		for m, err := range tx.Memories().All(t.Context(), memory.ListQuery{Scope: s}) {
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%d %s %q %q\n", m.Seq, m.ID, m.Text, m.Name)
		}
		for h, err := range tx.Memories().Histories(t.Context(), memory.HistoryQuery{Scope: s}) {
			if err != nil {
				return err
			}
			if err := line(h); err != nil {
				return err
			}
		}
		return tx.Lines(s, nil, func(l Line) error { return line(l) })
	}))
	for _, agent := range []string{"", "a1", "a2", "a3"} {
		noError(t, db.View(t.Context(), func(tx *Tx) error {
			budgets, err := tx.Usage().Budgets(t.Context(), memory.Owner{User: user, Agent: agent})
			for _, of := range budgets {
				fmt.Fprintf(&b, "%v\n", of)
			}
			return err
		}))
	}
	return b.String()
}

// secrets is how many values of the store, but for those of the log, have the word that all texts of users have.
func secrets(t *testing.T, db *DB, user string) (n int) {
	t.Helper()
	owners := map[uint32]bool{}
	noError(t, db.View(t.Context(), func(tx *Tx) error {
		return tx.reader().EachOwner(t.Context(), func(number uint32, o memory.Owner) { owners[number] = o.User == user })
	}))
	lower, upper := db.keys().Span(layout.KindRecord)
	noError(t, kv.Scan(db.store, lower, upper, func(key, value []byte) error {
		if v, _ := layout.ParseRecordKey(key); owners[v.Owner] && bytes.Contains(value, []byte(userSecret)) {
			n++
		}
		return nil
	}))
	return n
}

func openUsers(t *testing.T, fs vfs.FS, clk *testClock) *DB {
	t.Helper()
	return openTest(t, fs, setup{Options: Options{Clock: clk.now}, tuning: tuning{keepsExpired: true}})
}

// verifyDeleted: nothing of ada is left, and what bob has is that of before.
func verifyDeleted(t *testing.T, db *DB, bob string) {
	t.Helper()
	if got := userContent(t, db, "ada"); got != "" {
		t.Errorf("left of ada:\n%s", got)
	}
	if n := secrets(t, db, "ada"); n != 0 {
		t.Errorf("%d records are left of ada", n)
	}
	if got := userContent(t, db, "bob"); got != bob {
		t.Errorf("bob has changed: %s", difference(got, bob))
	}
	if all, err := db.Users(t.Context()); err != nil || len(all) != 1 || all[0].User != "bob" {
		t.Errorf("%+v, %v", all, err)
	}
	if r, err := db.Check(t.Context()); err != nil || !r.OK {
		t.Errorf("%v, %v", r.Problems, err)
	}
}

// TestDeleteUser: nothing of a user is left, and all of the others is, to the byte.
func TestDeleteUser(t *testing.T) {
	clk, fs := newTestClock(), vfs.NewMem()
	db := openUsers(t, fs, clk)
	setPolicy(t, db, func(p *policy.Policy) { p.Trash = policy.Span(48 * time.Hour) })
	fillUser(t, db, clk, "ada")
	fillUser(t, db, clk, "bob")
	all, err := db.Users(t.Context())
	if err != nil || len(all) != 2 || all[0].User != "ada" || all[0].Entries != 4 || all[0].Usage != 4 || all[0].Sessions != 4 ||
		all[0].Entities != 4 || all[0].Relations != 4 || len(all[0].Agents) != 4 || all[0].Memories == 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	clk.advance(2 * time.Minute)
	bob, before := userContent(t, db, "bob"), all[0]
	if secrets(t, db, "ada") == 0 {
		t.Fatal("nothing is to be deleted")
	}
	d, err := db.DeleteUser(t.Context(), "ada")
	if err != nil || d.Deleted["history"] == 0 || d.Deleted["entries"] != before.Entries || d.Deleted["entities"] != before.Entities || d.Deleted["usage"] != before.Usage {
		t.Errorf("%+v, %v", d, err)
	}
	verifyDeleted(t, db, bob)
	if d, err = db.DeleteUser(t.Context(), "ada"); err != nil || d.Deleted["memories"] != 0 || d.Deleted["history"] != 0 {
		t.Errorf("again: %+v, %v", d, err)
	}
	noError(t, db.Close())
	db = openUsers(t, fs, clk)
	verifyDeleted(t, db, bob)
	_, err = db.DeleteUser(t.Context(), "eve")
	wantError(t, "a user that there never was", err, fault.ErrNotFound)
	_, err = db.User(t.Context(), "ada")
	wantError(t, "a user that is gone", err, fault.ErrNotFound)
	if _, err = db.DeleteUser(t.Context(), ""); err == nil {
		t.Error("no user was deleted")
	}
}

// TestDeleteUserBesideView: what an open View can see stays and is told; called again, it goes.
func TestDeleteUserBesideView(t *testing.T) {
	t.Parallel() // it waits
	clk := newTestClock()
	db := openUsers(t, vfs.NewMem(), clk)
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: userSecret})
	noError(t, db.View(t.Context(), func(tx *Tx) error {
		d, err := db.DeleteUser(context.WithoutCancel(t.Context()), "ada")
		if err != nil || d.Deleted["memories"] != 1 || len(d.Left) == 0 || d.Left[0].What != "history" || d.Left[0].Count != 1 {
			t.Errorf("%+v, %v", d, err)
		}
		if got, err := tx.Memories().List(t.Context(), memory.ListQuery{Scope: memory.Scope{User: "ada"}}); err != nil || len(got.Memories) != 1 {
			t.Errorf("the View lost what it saw: %+v, %v", got, err)
		}
		return nil
	}))
	if d, err := db.DeleteUser(t.Context(), "ada"); err != nil || d.Deleted["history"] != 2 || d.Left[0].What == "history" {
		t.Errorf("%+v, %v", d, err)
	}
	if n := secrets(t, db, "ada"); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

// TestDeleteUserBesideStores: what the user stores between the steps of a deletion keeps its history.
func TestDeleteUserBesideStores(t *testing.T) {
	clk := newTestClock()
	db := openUsers(t, vfs.NewMem(), clk)
	m := memory.Memory{ID: "m", Scope: memory.Scope{User: "ada"}, Text: userSecret}
	mustStore(t, db.Memories(), m)
	owners, deleted := map[uint32]bool{}, map[string]int64{}
	noError(t, db.deleteLiving(t.Context(), "ada", owners, deleted))
	for _, m.Text = range []string{"one", "two", "three"} {
		noError(t, second(db.Memories().Store(t.Context(), m, &memory.StoreOptions{Upsert: true})))
	}
	left, err := db.eraseDead(t.Context(), erasure.Of(owners), deleted)
	if err != nil || left != 0 || deleted["history"] != 2 {
		t.Errorf("%d are left, %v deleted, %v", left, deleted, err)
	}
	if h := mustHistory(t, db.Memories(), m.Scope, "m"); len(h) != 3 {
		t.Errorf("the history of what was stored since: %+v", h)
	}
	mustCheck(t, db, 1)
	noError(t, second(db.DeleteUser(t.Context(), "ada")))
	if n := secrets(t, db, "ada"); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

// TestDeleteUserAfterCrashes: wherever a deletion is cut off, called again it goes on.
func TestDeleteUserAfterCrashes(t *testing.T) {
	race.Sequential(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	clk, mem := newTestClock(), crashfs.NewDisk()
	fs := crashfs.Wrap(mem, nil)
	db := openUsers(t, fs, clk)
	setPolicy(t, db, func(p *policy.Policy) { p.Trash = policy.Span(48 * time.Hour) })
	fillUser(t, db, clk, "ada")
	fillUser(t, db, clk, "bob")
	bob := userContent(t, db, "bob")
	var states []*crashfs.Disk
	fs.SetHook(func(crashfs.Op) error {
		states = append(states, mem.Lose(rng.IntN(101), rng))
		return nil
	})
	noError(t, second(db.DeleteUser(t.Context(), "ada")))
	fs.SetHook(nil)
	acknowledged := mem.Lose(0, rng)
	closeTest(t, db)
	if len(states) < 10 {
		t.Fatalf("%d crashes", len(states))
	}
	for _, i := range rng.Perm(len(states))[:10] {
		db := openUsers(t, states[i], clk)
		noError(t, second(db.DeleteUser(t.Context(), "ada")))
		verifyDeleted(t, db, bob)
		closeTest(t, db)
		if t.Failed() {
			t.Fatalf("crash %d", i)
		}
	}
	db = openUsers(t, acknowledged, clk)
	verifyDeleted(t, db, bob) // without a second call
	closeTest(t, db)
}
