package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/erasure"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// traces are the files of a folder that hold something of some needles.
func traces(t testing.TB, fs vfs.FS, needles ...string) (found []string) {
	t.Helper()
	return tracesIn(t, fs, "db", needles...)
}

func tracesIn(t testing.TB, fs vfs.FS, dir string, needles ...string) (found []string) {
	t.Helper()
	inspect := func() error {
		found = nil
		return store.Inspect(fs, dir, (&DB{}).merger(), func(file string, b []byte) {
			for _, needle := range needles {
				if at := needle + " in " + file; bytes.Contains(b, []byte(needle)) && !slices.Contains(found, at) {
					found = append(found, at)
				}
			}
		})
	}
	err := inspect()
	// An open database may have removed a file meanwhile, or not written it to its end: all again.
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		err = inspect()
	}
	noError(t, err)
	return found
}

// lacks are those of the needles that are in no file.
func lacks(t testing.TB, fs vfs.FS, needles []string) (missing []string) {
	t.Helper()
	found := traces(t, fs, needles...)
	for _, needle := range needles {
		if !slices.ContainsFunc(found, func(s string) bool { return strings.HasPrefix(s, needle+" in ") }) {
			missing = append(missing, needle)
		}
	}
	return missing
}

// fillTraces gives an owner something of everything, of which each has a word of its own.
func fillTraces(t *testing.T, db *DB, clk *testClock, o memory.Owner, word string) (needles []string) {
	t.Helper()
	ctx, m := t.Context(), db.Memories()
	w := func(what string) string {
		s := word + what
		needles = append(needles, s)
		return s
	}
	vectors := func(i int) map[string][]float32 {
		return map[string][]float32{"default": {float32(i), 1}, "other": {1, 2, float32(i)}}
	}
	s := o.Scope()
	s.Run = w("run")
	store := func(id string, mem memory.Memory) {
		mem.ID, mem.Scope = id, s
		mustStore(t, m, mem)
	}
	store(w("id"), memory.Memory{Text: w("living") + " text", Metadata: map[string]any{w("field"): w("value")}, Vectors: vectors(1)})
	store(w("changed"), memory.Memory{Text: w("before"), Vectors: vectors(2)})
	_, err := m.Store(ctx, memory.Memory{ID: word + "changed", Scope: s, Text: w("after"), Vectors: vectors(3)}, &memory.StoreOptions{Upsert: true})
	noError(t, err)
	store(w("deleted"), memory.Memory{Text: w("gone"), Vectors: vectors(4)})
	noError(t, m.Delete(ctx, s, word+"deleted"))
	store(w("expired"), memory.Memory{Text: w("over"), ExpiresAt: clk.now().Add(time.Minute)})
	store(w("trashed"), memory.Memory{Text: w("evicted"), Importance: new(.1), CreatedAt: clk.now().Add(-90 * 24 * time.Hour), Vectors: vectors(5)})
	store(w("first"), memory.Memory{Text: "the " + w("same") + " thing", Kind: memory.KindFact})
	store(w("second"), memory.Memory{Text: "the " + word + "same thing.", Kind: memory.KindFact})
	noError(t, second(db.KV().Put(ctx, o, w("key"), w("entry"), nil)))
	noError(t, second(db.KV().Put(ctx, o, w("expiring"), word, &entries.PutOptions{ExpiresAt: clk.now().Add(time.Hour)})))
	noError(t, second(db.KV().Put(ctx, o, w("oldkey"), w("oldentry"), nil)))
	noError(t, db.KV().Delete(ctx, o, word+"oldkey"))
	noError(t, second(db.Notes().Add(ctx, o, w("note"), w("noted"), "")))
	noError(t, second(db.Sessions().Append(ctx, o, w("session"), []sessions.Message{{ID: w("message"), Text: w("said")}}, nil)))
	noError(t, second(db.Graph().Put(ctx, o, graph.Entity{ID: w("entity"), Type: w("type"), Name: w("named")}, []graph.Edge{{Type: w("relation"), Target: w("target")}}, nil)))
	noError(t, second(db.Usage().Add(ctx, usage.Record{Owner: o, Model: w("model"), PromptTokens: 3, Cost: usd(t, "0.5")}, nil)))
	noError(t, db.Usage().SetBudget(ctx, usage.Budget{Owner: o, Per: usage.PerDay, Limit: usd(t, "7")}))
	_, _, err = Once(ctx, db, Request{ID: word, Asks: word}, func(ctx context.Context) (string, error) {
		return w("answer"), db.Update(ctx, func(tx *Tx) error { return second(tx.KV().List(ctx, entries.Query{Owner: o})) })
	})
	noError(t, err)
	return needles
}

// openTraces opens a database whose chunks of the text index are small.
func openTraces(t *testing.T, fs vfs.FS, clk *testClock, o Options) *DB {
	t.Helper()
	o.Clock = clk.now
	return openTest(t, fs, setup{Options: o, tuning: tuning{keepsExpired: true, hotBytes: 4 << 10}})
}

// eraseWorld is a database with two users of two agents each, with sealed chunks, a trash, and merges.
func eraseWorld(t *testing.T, fs vfs.FS, clk *testClock, o Options) (db *DB, of map[memory.Owner][]string) {
	t.Helper()
	db = openTraces(t, fs, clk, o)
	return db, fillWorld(t, db, clk)
}

// fillWorld fills the database of eraseWorld.
func fillWorld(t *testing.T, db *DB, clk *testClock) (of map[memory.Owner][]string) {
	t.Helper()
	setPolicy(t, db, func(p *policy.Policy) { p.Trash = policy.Span(48 * time.Hour) })
	of = map[memory.Owner][]string{}
	for i, owner := range []memory.Owner{{User: "ulrike-user", Agent: "anton-agent"}, {User: "ulrike-user", Agent: "berta-agent"}, {User: "viktor-user", Agent: "anton-agent"}, {User: "viktor-user"}} {
		of[owner] = fillTraces(t, db, clk, owner, fmt.Sprintf("q%dz", i))
	}
	if _, err := db.Usage().AddAgent(t.Context(), usage.Agent{ID: "anton-agent", Name: "manifest-of-anton"}); err != nil {
		t.Fatal(err)
	}
	if r, err := db.Evict(t.Context(), &EvictOptions{Scope: memory.Scope{User: "ulrike-user"}}); err != nil || r.Evicted == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := db.Evict(t.Context(), &EvictOptions{Scope: memory.Scope{Agent: "anton-agent"}}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []memory.Scope{{User: "ulrike-user"}, {Agent: "anton-agent"}, {}} {
		if _, err := db.Consolidate(t.Context(), &ConsolidateOptions{Scope: s}); err != nil {
			t.Fatal(err)
		}
	}
	noError(t, db.store.Flush())
	return of
}

// TestEraseReadsLog: each record of the log can be told apart into its changes, so that those of
// others stay, and what is erased of one owner is nobody else's.
func TestEraseReadsLog(t *testing.T) {
	clk := newTestClock()
	db, _ := eraseWorld(t, vfs.NewMem(), clk, Options{})
	ops, read, all := map[byte]bool{}, 0, 0
	noError(t, erasure.ReadLog(t.Context(), db.store, db.keys(), func(_ uint64, changes []erasure.Change) {
		read++
		for i := range changes {
			ops[changes[i].Op()] = true
		}
	}))
	nobody := erasure.New(layout.Erasure{Owners: []uint32{1 << 30}})
	lower, upper := db.keys().Span(layout.KindLog)
	noError(t, kv.Scan(db.store, lower, upper, func(key, value []byte) error {
		all++
		if without := nobody.WithoutMemories(value); without != nil {
			t.Errorf("the record %x has changed for nobody, or cannot be read: %x", key, value)
		}
		return nil
	}))
	if read != all {
		t.Errorf("%d of %d records can be read", read, all)
	}
	for _, op := range []byte{1, 2, 3, 6, 7, 20, 21, 41, 42, 44, 46, 60, 62, 80, 82, 85} {
		if !ops[op] {
			t.Errorf("operation %d is not tried", op)
		}
	}
}

// TestEraseUser: no file has anything of a user, and what others have is there.
func TestEraseUser(t *testing.T) {
	clk, fs := newTestClock(), vfs.NewMem()
	db, of := eraseWorld(t, fs, clk, Options{})
	gone := []string{"ulrike-user", "berta-agent"}
	var kept []string
	for o, needles := range of {
		if o.User == "ulrike-user" {
			gone = append(gone, needles...)
		} else {
			kept = append(kept, needles...)
		}
	}
	kept = append(kept, "viktor-user", "anton-agent", "manifest-of-anton")
	if missing := lacks(t, fs, append(slices.Clone(gone), kept...)); len(missing) > 0 {
		t.Fatalf("not to be found before: %v", missing)
	}
	before := userContent(t, db, "viktor-user")
	dry, err := db.Erase(t.Context(), EraseQuery{User: "ulrike-user", DryRun: true})
	noError(t, err)
	r, err := db.Erase(t.Context(), EraseQuery{User: "ulrike-user"})
	noError(t, err)
	if n := r.Erased; n.Memories == 0 || n.Versions <= n.Memories || n.Events == 0 || n.Entries != 4 || n.Messages != 2 || n.Entities == 0 || n.Relations != 2 || n.Usage != 2 || n.Names == 0 {
		t.Errorf("%+v", n)
	}
	if n := dry.Erased; n.Memories != r.Erased.Memories || n.Versions != r.Erased.Versions || n.Entries != r.Erased.Entries || n.Usage != r.Erased.Usage {
		t.Errorf("dry run: %+v, then %+v", n, r.Erased)
	}
	if r.LSN == 0 || r.RewrittenBytes == 0 || r.FilesRemoved == 0 || len(r.OutOfReach) == 0 {
		t.Errorf("%+v", r)
	}
	verifyErased := func(t *testing.T, db *DB) {
		t.Helper()
		if found := traces(t, fs, gone...); len(found) > 0 {
			t.Errorf("left: %s", strings.Join(found, "\n"))
		}
		if missing := lacks(t, fs, kept); len(missing) > 0 {
			t.Errorf("lost of others: %v", missing)
		}
		if got := userContent(t, db, "viktor-user"); got != before {
			t.Errorf("others have changed: %s", difference(got, before))
		}
		if r, err := db.CheckDeep(t.Context()); err != nil || !r.OK {
			t.Errorf("%v, %v", r.Problems, err)
		}
	}
	verifyErased(t, db)
	_, err = db.Erase(t.Context(), EraseQuery{User: "ulrike-user"})
	wantError(t, "again", err, fault.ErrNotFound)
	noError(t, db.Close())
	db = openTraces(t, fs, clk, Options{})
	verifyErased(t, db)
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ulrike-user"}, Text: "is back"})
	if got, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: memory.Scope{User: "ulrike-user"}}); err != nil || len(got.Memories) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestEraseAgent: no file has anything of an agent, of any user.
func TestEraseAgent(t *testing.T) {
	clk, fs := newTestClock(), vfs.NewMem()
	db, of := eraseWorld(t, fs, clk, Options{})
	gone := []string{"anton-agent", "manifest-of-anton"}
	var kept []string
	for o, needles := range of {
		if o.Agent == "anton-agent" {
			gone = append(gone, needles...)
		} else {
			kept = append(kept, needles...)
		}
	}
	if missing := lacks(t, fs, append(slices.Clone(gone), kept...)); len(missing) > 0 {
		t.Fatalf("not to be found before: %v", missing)
	}
	noError(t, second(db.Erase(t.Context(), EraseQuery{Agent: "anton-agent"})))
	if found := traces(t, fs, gone...); len(found) > 0 {
		t.Errorf("left: %s", strings.Join(found, "\n"))
	}
	if missing := lacks(t, fs, append(kept, "ulrike-user", "viktor-user", "berta-agent")); len(missing) > 0 {
		t.Errorf("lost of others: %v", missing)
	}
	if r, err := db.CheckDeep(t.Context()); err != nil || !r.OK {
		t.Errorf("%v, %v", r.Problems, err)
	}
}

// TestEraseMemory: no file has anything of one memory, living or not: not the messages that refer
// to it, nor what its text told the graph.
func TestEraseMemory(t *testing.T) {
	clk, fs := newTestClock(), vfs.NewMem()
	db, of := eraseWorld(t, fs, clk, Options{})
	o := memory.Owner{User: "ulrike-user", Agent: "anton-agent"}
	for _, c := range []struct {
		id   string
		gone []string
	}{
		{"q0zid", []string{"q0zid", "q0zliving", "q0zfield", "q0zvalue"}},
		{"q0zchanged", []string{"q0zchanged", "q0zbefore", "q0zafter"}},
		{"q0zdeleted", []string{"q0zdeleted", "q0zgone"}},
		{"q0zexpired", []string{"q0zexpired", "q0zover"}},
		{"q0ztrashed", []string{"q0ztrashed", "q0zevicted"}},
	} {
		if missing := lacks(t, fs, c.gone); len(missing) > 0 {
			t.Fatalf("%s: not to be found before: %v", c.id, missing)
		}
		r, err := db.Erase(t.Context(), EraseQuery{User: o.User, Agent: o.Agent, ID: c.id})
		if err != nil || r.Erased.Memories != 1 {
			t.Errorf("%s: %+v, %v", c.id, r, err)
		}
		if found := traces(t, fs, c.gone...); len(found) > 0 {
			t.Errorf("%s: left: %s", c.id, strings.Join(found, "\n"))
		}
	}
	var said string
	for item, err := range db.Sessions().Items(t.Context(), o, "q0zsession") {
		noError(t, err)
		said = item.Message.MemoryID()
	}
	_, err := db.Erase(t.Context(), EraseQuery{User: o.User, Agent: o.Agent, ID: said})
	noError(t, err)
	if found := traces(t, fs, "q0zsaid", said); len(found) > 0 {
		t.Errorf("left of what was said: %s", strings.Join(found, "\n"))
	}
	kept := slices.DeleteFunc(slices.Concat(of[o], of[memory.Owner{User: "ulrike-user", Agent: "berta-agent"}], of[memory.Owner{User: "viktor-user"}]), func(s string) bool {
		return slices.Contains([]string{"q0zid", "q0zliving", "q0zfield", "q0zvalue", "q0zchanged", "q0zbefore", "q0zafter", "q0zdeleted", "q0zgone", "q0zexpired", "q0zover", "q0ztrashed", "q0zevicted", "q0zsaid", "q0zanswer"}, s)
	})
	if missing := lacks(t, fs, kept); len(missing) > 0 {
		t.Errorf("lost of others: %v", missing)
	}
	if r, err := db.CheckDeep(t.Context()); err != nil || !r.OK {
		t.Errorf("%v, %v", r.Problems, err)
	}
	_, err = db.Erase(t.Context(), EraseQuery{User: o.User, ID: "q0zid"})
	wantError(t, "a memory that is erased", err, fault.ErrNotFound)
}

// TestEraseBesideSnapshot: the files keep nothing for what reads the store in the background, as behind
// an opening, or for an archive.
func TestEraseBesideSnapshot(t *testing.T) {
	clk, fs := newTestClock(), vfs.NewMem()
	db, of := eraseWorld(t, fs, clk, Options{})
	var gone []string
	for o, needles := range of {
		if o.User == "ulrike-user" {
			gone = append(gone, needles...)
		}
	}
	snap, closed := db.store.NewSnapshot(), make(chan error)
	go func() {
		time.Sleep(100 * time.Millisecond)
		closed <- snap.Close()
	}()
	noError(t, second(db.Erase(t.Context(), EraseQuery{User: "ulrike-user"})))
	if found := traces(t, fs, gone...); len(found) > 0 {
		t.Errorf("left: %s", strings.Join(found, "\n"))
	}
	noError(t, <-closed)
}

// TestEraseBesideViews: an erasure within a View is refused; one beside a View waits for it, is
// busy where it takes too long, and goes on by itself.
func TestEraseBesideViews(t *testing.T) {
	t.Parallel() // it waits
	clk, fs := newTestClock(), vfs.NewMem()
	db := openTraces(t, fs, clk, Options{})
	needles := fillTraces(t, db, clk, memory.Owner{User: "ulrike-user"}, "q0z")
	noError(t, db.Close())
	db = openTraces(t, fs, clk, Options{LockWait: 500 * time.Millisecond}) // for the erasure, not for what fills it
	noError(t, db.View(t.Context(), func(*Tx) error {
		_, err := db.Erase(t.Context(), EraseQuery{User: "ulrike-user"})
		wantError(t, "within a View", err, fault.ErrInvalid)
		return nil
	}))
	noError(t, db.Update(t.Context(), func(*Tx) error {
		_, err := db.Erase(t.Context(), EraseQuery{User: "ulrike-user"})
		wantError(t, "within an Update", err, fault.ErrInvalid)
		return nil
	}))
	in, out, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- db.View(context.WithoutCancel(t.Context()), func(tx *Tx) error {
			close(in)
			<-out
			got, err := tx.Memories().List(context.WithoutCancel(t.Context()), memory.ListQuery{Scope: memory.Scope{User: "ulrike-user"}})
			if err == nil && len(got.Memories) == 0 {
				err = fmt.Errorf("the View lost what it saw")
			}
			return err
		})
	}()
	<-in
	_, err := db.Erase(t.Context(), EraseQuery{User: "ulrike-user"})
	wantError(t, "beside a View", err, fault.ErrBusy)
	if st, err := db.Stats(t.Context()); err != nil || !st.Erasing {
		t.Errorf("it is not told that an erasure has begun: %v", err)
	}
	_, err = db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{User: "ulrike-user"}, Text: "meanwhile"}, nil)
	wantError(t, "a store for who is erased", err, fault.ErrBusy)
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "viktor-user"}, Text: "meanwhile"})
	close(out)
	noError(t, <-done)
	for deadline := time.Now().Add(time.Minute); db.erasing.Load() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not go on")
		}
	}
	if found := traces(t, fs, append(needles, "ulrike-user")...); len(found) > 0 {
		t.Errorf("left: %s", strings.Join(found, "\n"))
	}
}
