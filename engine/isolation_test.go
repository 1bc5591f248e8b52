package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// patience is how long a test waits for what must happen soon.
const patience = 2 * time.Minute

// within fails the test if fn does not return in time.
func within(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s has not returned after %v", what, patience)
	}
}

// fill stores n memories with texts, vectors and metadata, as "m0" to "m<n-1>".
func fill(t *testing.T, db *DB, s memory.Scope, from, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(from), 3))
	mems := make([]memory.Memory, n)
	for i := range mems {
		mems[i] = memory.Memory{
			ID: fmt.Sprint("m", from+i), Scope: s, Text: fmt.Sprintf("%s number%d", modelWords[rng.IntN(len(modelWords))], from+i),
			Metadata: map[string]any{"n": i % 7},
		}
		if i%3 > 0 {
			mems[i].Embedding = []float32{rng.Float32(), rng.Float32(), rng.Float32(), 0.1}
		}
	}
	if _, err := db.Memories().StoreBatch(t.Context(), mems, nil); err != nil {
		t.Fatal(err)
	}
}

// answers is everything that a reader can be told, as one string.
func answers(t *testing.T, m Memories, s memory.Scope) string {
	t.Helper()
	ctx := t.Context()
	var all []any
	note := func(v any, err error) {
		if err != nil {
			all = append(all, err.Error())
		}
		all = append(all, v)
	}
	for i := range 40 {
		note(m.Get(ctx, s, fmt.Sprint("m", 7*i)))
		note(m.History(ctx, s, fmt.Sprint("m", 5*i)))
	}
	note(m.List(ctx, memory.ListQuery{Scope: s, Limit: 1000, WithVectors: true}))
	note(m.List(ctx, memory.ListQuery{Scope: s, Filter: filter.And(filter.Eq("n", 3), filter.Eq("role", "user"))}))
	for _, q := range []memory.Query{
		{Text: "tea house number70", Profile: memory.ProfileText, Limit: 50},
		{Text: "tea winter", Profile: memory.ProfileVector, Limit: 50}, // in the lexical space
		{Embedding: []float32{1, 2, 3, 4}, Profile: memory.ProfileVector, Limit: 200},
		{Text: "coffee train", Embedding: []float32{4, 3, 2, 1}, Profile: memory.ProfileHybrid, Filter: filter.In("n", 1, 2)},
	} {
		q.Scope, q.NoTouch, q.WithVectors = s, true, true
		note(m.Recall(ctx, q))
	}
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestViewStandsStill holds a View over 10,000 updates and deletes, and the stores
// between them, while the janitor frees what died before it, and slots and IDs are
// used again. Only those count that changed a memory.
func TestViewStandsStill(t *testing.T) {
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	ada := memory.Scope{User: "ada"}
	fill(t, db, ada, 0, 300)
	ctx := t.Context()
	err := db.View(ctx, func(older *Tx) error { // holds the janitor back
		for i := range 60 {
			if err := db.Memories().Delete(ctx, ada, fmt.Sprint("m", 5*i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(ctx, func(tx *Tx) error {
		before := answers(t, tx.Memories(), ada)
		rng := rand.New(rand.NewPCG(1, 1))
		most := race.Times(10_000)
		made := 0
		for round := 0; made < most; round++ {
			n := change(t, db, ada, rng, round)
			if n == 0 {
				return fmt.Errorf("round %d changed nothing", round)
			}
			made += n
			clock.advance(time.Hour)
			if after := answers(t, tx.Memories(), ada); after != before {
				return fmt.Errorf("round %d: the view answers\n%s\nbefore it was\n%s", round, after, before)
			}
		}
		t.Logf("the view stood still over %d updates and deletes", made)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	waitCleaned(t, db)
	mustCheck(t, db, len(mustList(t, db.Memories(), ada)))
}

// change tries 500 changes, 50 by themselves, the others in transactions, and
// returns how many updates and deletes took place: the memory may be gone.
func change(t *testing.T, db *DB, s memory.Scope, rng *rand.Rand, round int) (made int) {
	t.Helper()
	ctx := t.Context()
	one := func(m Memories, i int) error {
		id := fmt.Sprint("m", rng.IntN(300))
		text := fmt.Sprintf("tea coffee round%d change%d", round, i)
		var err error
		switch rng.IntN(5) {
		case 0:
			err = m.Delete(ctx, s, id)
		case 1:
			_, err = m.Update(ctx, s, id, memory.Patch{Text: &text})
		case 2:
			_, err = m.Update(ctx, s, id, memory.Patch{Embedding: []float32{rng.Float32(), 1, 0, 0}})
		case 3:
			_, err = m.Update(ctx, s, id, memory.Patch{Metadata: &map[string]any{"n": rng.IntN(7)}})
		case 4:
			var stored memory.Stored
			stored, err = m.Store(ctx, memory.Memory{ID: id, Scope: s, Text: text, Embedding: []float32{1, rng.Float32(), 0, 0}}, &memory.StoreOptions{Upsert: true})
			if err == nil && !stored.Updated {
				return nil // a new memory
			}
		}
		if errors.Is(err, fault.ErrNotFound) {
			return nil
		}
		made++
		return err
	}
	for i := range 50 {
		if err := one(db.Memories(), i); err != nil {
			t.Fatal(err)
		}
	}
	for range 9 {
		err := db.Update(ctx, func(tx *Tx) error {
			for i := range 50 {
				if err := one(tx.Memories(), i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return made
}

// TestViewDoesNotWait: an Update that does not end delays no View.
func TestViewDoesNotWait(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: ada, Text: "before"})
	inside, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- db.Update(context.Background(), func(tx *Tx) error {
			_, err := tx.Memories().Update(context.Background(), ada, "one", memory.Patch{Text: new("after")})
			mustRecall(t, tx.Memories(), memory.Query{Scope: ada, Text: "after", NoTouch: true}) // shows it to the indexes
			close(inside)
			<-release
			return err
		})
	}()
	<-inside
	within(t, "a View beside an Update", func() {
		for range 100 {
			if m, err := db.Memories().Get(context.Background(), ada, "one"); err != nil || m.Text != "before" {
				t.Errorf("read %q, %v", m.Text, err)
			}
			hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: "before after"})
			if len(hits) != 1 || hits[0].Text != "before" {
				t.Errorf("recalled %v", hitIDs(hits))
			}
		}
	})
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if m, err := db.Memories().Get(t.Context(), ada, "one"); err != nil || m.Text != "after" {
		t.Errorf("read %q, %v", m.Text, err)
	}
}

// TestViewSeesOnlyDurable stops the sync of the log: what waits for it is seen by
// nobody, and a duplicate of it is not told before it is durable.
func TestViewSeesOnlyDurable(t *testing.T) {
	fs := crashfs.Wrap(vfs.NewMem(), nil)
	db := openTest(t, fs, Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "first"})
	syncing, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fs.SetHook(func(op crashfs.Op) error {
		if op.Kind == crashfs.Sync && op.Class() == crashfs.Log {
			once.Do(func() { close(syncing) })
			<-release
		}
		return nil
	})
	var told atomic.Int32
	var wg sync.WaitGroup
	store := func() {
		if _, err := db.Memories().Store(context.Background(), memory.Memory{Scope: ada, Text: "second"}, nil); err != nil {
			t.Error(err)
		}
		told.Add(1)
	}
	wg.Go(store)
	<-syncing
	wg.Go(store) // a duplicate
	time.Sleep(50 * time.Millisecond)
	within(t, "a View beside a sync", func() {
		equalSlices(t, "memories before the sync", texts(mustList(t, db.Memories(), ada)), []string{"first"})
	})
	if n := told.Load(); n != 0 {
		t.Errorf("%d stores were acknowledged before the sync", n)
	}
	close(release)
	wg.Wait()
	equalSlices(t, "memories after the sync", texts(mustList(t, db.Memories(), ada)), []string{"first", "second"})
}

// TestReadYourWrites: what was acknowledged to one goroutine, another one sees.
func TestReadYourWrites(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	var wg sync.WaitGroup
	for writer := range 4 {
		told := make(chan string)
		wg.Go(func() {
			defer close(told)
			for i := range 100 {
				id := fmt.Sprintf("w%d-%d", writer, i)
				mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: ada, Text: "it was " + id})
				told <- id
			}
		})
		wg.Go(func() {
			for id := range told {
				if _, err := db.Memories().Get(context.Background(), ada, id); err != nil {
					t.Error(err)
				}
				if err := db.Memories().Delete(context.Background(), ada, id); err != nil {
					t.Error(err)
				}
				if _, err := db.Memories().Get(context.Background(), ada, id); !errors.Is(err, fault.ErrNotFound) {
					t.Errorf("%s was deleted: %v", id, err)
				}
			}
		})
	}
	wg.Wait()
	mustCheck(t, db, 0)
}

// TestCommitsAreAtomic: each commit replaces all memories by those of the next
// round; a reader never sees two rounds, or another number of memories.
func TestCommitsAreAtomic(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	const rounds, each = 150, 8
	replace := func(round int) error {
		return db.Update(context.Background(), func(tx *Tx) error {
			if _, err := tx.Memories().DeleteScope(context.Background(), ada); err != nil {
				return err
			}
			for i := range each {
				vec := []float32{1, float32(round), float32(i)}
				mustStore(t, tx.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: fmt.Sprint("tea ", round), Embedding: vec, Metadata: map[string]any{"round": round}, Kind: memory.KindSummary})
			}
			return nil
		})
	}
	if err := replace(0); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !over.Load() {
				sameRound(t, db, ada, each)
			}
		})
	}
	for round := range rounds {
		if err := replace(round + 1); err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	wg.Wait()
	waitCleaned(t, db)
	mustCheck(t, db, each)
}

func sameRound(t *testing.T, db *DB, s memory.Scope, each int) {
	err := db.View(context.Background(), func(tx *Tx) error {
		seen := map[string]int{}
		for _, m := range mustList(t, tx.Memories(), s) {
			seen[m.Text]++
		}
		for _, q := range []memory.Query{{Text: "tea"}, {Embedding: []float32{1, 1, 1}, Profile: memory.ProfileVector}} {
			q.Scope, q.Limit = s, 100
			for _, h := range mustRecall(t, tx.Memories(), q) {
				seen[h.Text]++
			}
		}
		if len(seen) != 1 {
			t.Errorf("one view sees %v", seen)
		}
		for text, n := range seen {
			if n != 3*each {
				t.Errorf("%q was read %d times, want %d", text, n, 3*each)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNestedTransactions(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "first"})
	within(t, "a View with calls in it", func() {
		err := db.View(t.Context(), func(outer *Tx) error {
			mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "second"})
			err := db.Update(t.Context(), func(tx *Tx) error {
				mustStore(t, tx.Memories(), memory.Memory{Scope: ada, Text: "third"})
				return nil
			})
			if err != nil {
				return err
			}
			equalSlices(t, "outer view", texts(mustList(t, outer.Memories(), ada)), []string{"first"})
			return db.View(t.Context(), func(inner *Tx) error {
				equalSlices(t, "inner view", texts(mustList(t, inner.Memories(), ada)), []string{"first", "second", "third"})
				equalSlices(t, "outer view", texts(mustList(t, outer.Memories(), ada)), []string{"first"})
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestTransactionMisuse: what a transaction refuses.
func TestTransactionMisuse(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	ctx := t.Context()
	one := mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "first"})
	writes := map[string]func(m Memories) error{
		"store":        func(m Memories) error { _, err := m.Store(ctx, memory.Memory{Scope: ada, Text: "x"}, nil); return err },
		"update":       func(m Memories) error { _, err := m.Update(ctx, ada, one.ID, memory.Patch{}); return err },
		"delete":       func(m Memories) error { return m.Delete(ctx, ada, one.ID) },
		"delete scope": func(m Memories) error { _, err := m.DeleteScope(ctx, ada); return err },
	}
	reads := map[string]func(m Memories) error{
		"get":     func(m Memories) error { _, err := m.Get(ctx, ada, one.ID); return err },
		"list":    func(m Memories) error { _, err := m.List(ctx, memory.ListQuery{Scope: ada}); return err },
		"recall":  func(m Memories) error { _, err := m.Recall(ctx, memory.Query{Scope: ada, Text: "x"}); return err },
		"history": func(m Memories) error { _, err := m.History(ctx, ada, one.ID); return err },
	}
	var over []Memories
	err := db.View(ctx, func(tx *Tx) error {
		over = append(over, tx.Memories())
		for name, write := range writes {
			wantError(t, name+" in a View", write(tx.Memories()), fault.ErrReadOnly)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(ctx, func(tx *Tx) error { over = append(over, tx.Memories()); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, m := range over {
		for name, call := range writes {
			wantError(t, name+" after the end", call(m), fault.ErrTxDone)
		}
		for name, call := range reads {
			wantError(t, name+" after the end", call(m), fault.ErrTxDone)
		}
	}
	equalSlices(t, "memories", texts(mustList(t, db.Memories(), ada)), []string{"first"})
}

func TestCloseWaitsForViews(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	one := mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "first"})
	lsn := db.LSN()
	closed := make(chan error, 1)
	err := db.View(t.Context(), func(tx *Tx) error {
		go func() { closed <- db.Close() }()
		for deadline := time.Now().Add(patience); !errors.Is(db.usable(""), fault.ErrClosed); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("Close has not begun")
			}
		}
		// The view's own calls are refused or answered, and never wait.
		within(t, "a call within a View that Close waits for", func() {
			if _, err := tx.Memories().Get(context.Background(), ada, one.ID); err != nil {
				wantError(t, "get", err, fault.ErrClosed)
			}
			wantError(t, "store", db.Update(context.Background(), func(*Tx) error { return nil }), fault.ErrClosed)
		})
		select {
		case err := <-closed:
			t.Errorf("Close returned beside a View: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	ctx := t.Context()
	_, stats := db.Stats(ctx)
	_, check := db.Check(ctx)
	_, store := db.Memories().Store(ctx, memory.Memory{Scope: ada, Text: "x"}, nil)
	_, get := db.Memories().Get(ctx, ada, one.ID)
	_, recall := db.Memories().Recall(ctx, memory.Query{Scope: ada, Text: "x"})
	for what, err := range map[string]error{
		"stats": stats, "check": check, "store": store, "get": get, "recall": recall,
		"view": db.View(ctx, func(*Tx) error { return nil }),
	} {
		wantError(t, what+" of a closed database", err, fault.ErrClosed)
	}
	if got := db.LSN(); got != lsn {
		t.Errorf("LSN of a closed database: %d, want %d", got, lsn)
	}
	if err := db.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// TestWriterLock: who waits for the lock gives up after LockWait, or with its
// context, and has changed nothing.
func TestWriterLock(t *testing.T) {
	ada := memory.Scope{User: "ada"}
	for _, c := range []struct {
		name string
		wait time.Duration
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		{"LockWait", 200 * time.Millisecond, context.WithCancel, fault.ErrBusy},
		{"cancelled", 0, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 20*time.Millisecond)
		}, context.DeadlineExceeded},
		{"cancelled before", 0, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openTest(t, vfs.NewMem(), Options{LockWait: c.wait})
			ctx, cancel := c.ctx(t.Context())
			defer cancel()
			err := db.Update(t.Context(), func(*Tx) error {
				within(t, "a second write", func() {
					_, err := db.Memories().Store(ctx, memory.Memory{Scope: ada, Text: "second"}, nil)
					wantError(t, "a second write", err, c.want)
				})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "third"})
			equalSlices(t, "memories", texts(mustList(t, db.Memories(), ada)), []string{"third"})
		})
	}
	db := openTest(t, vfs.NewMem(), Options{})
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := db.Memories().Store(done, memory.Memory{Scope: ada, Text: "x"}, nil)
	wantError(t, "store with a context that is done", err, context.Canceled)
}

// TestViewExpires: a View that is older than MaxViewAge keeps nothing from being freed, and
// the calls that it begins fail, those of parts and of past states too; whatever begins a
// View of its own reads on.
func TestViewExpires(t *testing.T) {
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now, MaxViewAge: time.Minute, Retain: 10 * time.Minute})
	ctx, mm, ada := t.Context(), db.Memories(), memory.Scope{User: "ada"}
	mustStore(t, mm, memory.Memory{ID: "a", Scope: ada, Text: "tea", Embedding: []float32{1, 2}})
	first := db.LSN()
	mustStore(t, mm, memory.Memory{ID: "b", Scope: ada, Text: "coffee"})
	outlive := func(tx *Tx) error {
		if list := mustList(t, tx.Memories(), ada); len(list) == 0 {
			t.Error("a young View sees nothing")
		}
		clock.advance(time.Minute)
		mustList(t, tx.Memories(), ada) // it is as old as it may be
		clock.advance(time.Second)
		_, err := tx.Memories().Get(ctx, ada, "b")
		wantError(t, "get", err, fault.ErrViewExpired)
		_, _, err = tx.KV().Lookup(ctx, ada.Owner(), "k")
		wantError(t, "look-up of an entry", err, fault.ErrViewExpired)
		wantError(t, "export", tx.Lines(ada, nil, func(Line) error { return nil }), fault.ErrViewExpired)
		mustList(t, mm, ada)
		return nil
	}
	if err := db.ViewAt(ctx, first, outlive); err != nil {
		t.Error(err)
	}
	err := db.View(ctx, func(tx *Tx) error {
		if err := mm.Delete(ctx, ada, "a"); err != nil {
			return err
		}
		err := outlive(tx)
		for range 2 { // the state is retained for a while
			clock.advance(11 * time.Minute)
			db.points.oldest()
		}
		db.janitor.wake()
		waitVectors(t, db, 0) // while the View still runs
		return err
	})
	if err != nil {
		t.Error(err)
	}
	wantError(t, "a state that an expired View had", db.ViewAt(ctx, first, outlive), fault.ErrNotRetained)
}

// TestViewExpiresBetweenCalls: a call that runs keeps its state to the end, however long it
// takes, and so do the calls within it.
func TestViewExpiresBetweenCalls(t *testing.T) {
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now, MaxViewAge: time.Minute})
	ctx, mm, ada := t.Context(), db.Memories(), memory.Scope{User: "ada"}
	mustStore(t, mm, memory.Memory{ID: "a", Scope: ada, Text: "tea", Embedding: []float32{1, 2}})
	if _, err := mm.Update(ctx, ada, "a", memory.Patch{Text: new("green tea")}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := db.View(ctx, func(tx *Tx) error {
		for entries, err := range tx.Memories().Histories(ctx, memory.HistoryQuery{Scope: ada}) {
			if err != nil {
				return err
			}
			seen += len(entries)
			if err := mm.Delete(ctx, ada, "a"); err != nil {
				return err
			}
			clock.advance(time.Hour)
			db.janitor.wake()
			time.Sleep(10 * time.Millisecond)
			m, err := tx.Memories().GetWithVectors(ctx, ada, "a")
			if err != nil || m.Text != "green tea" {
				t.Errorf("within a call: %q, %v", m.Text, err)
			}
		}
		_, err := tx.Memories().Get(ctx, ada, "a")
		wantError(t, "after the call", err, fault.ErrViewExpired)
		waitVectors(t, db, 0)
		return nil
	})
	if err != nil || seen != 2 {
		t.Errorf("%d entries of a history of 2, error %v", seen, err)
	}
}

// TestViewsExpireBesideWriters: whatever is freed, sealed and moved meanwhile, each call in
// a View answers from its state or says that the View has expired.
func TestViewsExpireBesideWriters(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{
		Options: Options{MaxViewAge: 3 * time.Millisecond, Durability: Buffered},
		tuning:  tuning{hotBytes: 20 << 10, lookLeast: 1},
	})
	ctx, stop := context.WithCancel(t.Context())
	mm, ada := db.Memories(), memory.Scope{User: "ada"}
	var writer, readers sync.WaitGroup
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			mustStore(t, mm, memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: fmt.Sprint("green tea ", i), Embedding: []float32{1, float32(i)}})
			if i >= 50 {
				if err := mm.Delete(context.WithoutCancel(ctx), ada, fmt.Sprint(i-50)); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 3 {
		readers.Go(func() {
			for range 20 {
				err := db.View(ctx, func(tx *Tx) error { return readTillExpired(ctx, tx, ada) })
				wantError(t, "a View that is never left", err, fault.ErrViewExpired)
			}
		})
	}
	readers.Wait()
	stop()
	writer.Wait()
	closeTest(t, db)
}

// readTillExpired reads the same in a View over and over, and returns why that ended.
func readTillExpired(ctx context.Context, tx *Tx, s memory.Scope) error {
	var first []string
	for {
		page, err := tx.Memories().List(ctx, memory.ListQuery{Scope: s, Limit: 100})
		if err != nil {
			return err
		}
		if got := ids(page.Memories); first == nil {
			first = got
		} else if fmt.Sprint(got) != fmt.Sprint(first) {
			return fmt.Errorf("a View lists %v and then %v", first, got)
		}
		r, err := tx.Memories().Recall(ctx, memory.Query{Scope: s, Text: "tea", Embedding: []float32{1, 1}, Limit: 100, NoTouch: true})
		if err != nil {
			return err
		}
		if len(r.Hits) != len(first) {
			return fmt.Errorf("a View lists %d memories and finds %d", len(first), len(r.Hits))
		}
	}
}
