package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/requests"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// askedOnce is a request of the model: what it asks, and what an attempt at it has answered.
type askedOnce struct {
	client, id, asks string
	owner            memory.Owner
	answer           string
	at               time.Time
	gone             bool // its owner was deleted
}

// onceWorld does requests at random and counts their effects.
type onceWorld struct {
	t     *testing.T
	db    *DB
	rng   *rand.Rand
	clk   *testClock
	fs    vfs.FS
	done  map[[2]string]*askedOnce // by client and ID, the newest
	spent map[memory.Owner]int     // records of usage
	said  map[memory.Owner]int     // messages
	kept  map[memory.Owner]int     // memories
	calls int                      // how often a request was done
}

func newOnceWorld(t *testing.T, seed uint64, fs vfs.FS) *onceWorld {
	w := &onceWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), clk: newTestClock(), fs: fs,
		done: map[[2]string]*askedOnce{}, spent: map[memory.Owner]int{}, said: map[memory.Owner]int{}, kept: map[memory.Owner]int{},
	}
	w.open()
	return w
}

func (w *onceWorld) open() {
	o := setup{Options: Options{Clock: w.clk.now, MemoryBudget: testBudget}}
	db, err := openOn(w.fs, "db", o)
	noError(w.t, err)
	w.db = db
}

// effect makes the change of a request, and answers with a number that no other call answers.
func (w *onceWorld) effect(ctx context.Context, o memory.Owner, what int) (answer string, err error) {
	w.calls++
	answer = fmt.Sprint("answer ", w.calls)
	switch what {
	case 0:
		err = second(w.db.Usage().Add(ctx, usage.Record{Owner: o, Model: "m", PromptTokens: 1}, nil))
	case 1:
		err = second(w.db.Sessions().Append(ctx, o, "s", []sessions.Message{{Text: answer}}, nil))
	case 2:
		err = second(w.db.Memories().Store(ctx, memory.Memory{Scope: o.Scope(), Text: answer}, nil))
	default: // several structures, a memory that is stored before among what is read
		var s memory.Stored
		if s, err = w.db.Memories().Store(ctx, memory.Memory{Scope: o.Scope(), Text: answer}, nil); err != nil {
			return "", err
		}
		if _, err = w.db.Memories().Get(ctx, o.Scope(), s.ID); err != nil {
			return "", err
		}
		err = second(w.db.Usage().Add(ctx, usage.Record{Owner: o, Model: "m", PromptTokens: 1}, nil))
	}
	return answer, err
}

func (w *onceWorld) counted(o memory.Owner, what int) {
	switch what {
	case 0:
		w.spent[o]++
	case 1:
		w.said[o]++
	case 2:
		w.kept[o]++
	default:
		w.kept[o]++
		w.spent[o]++
	}
}

var errRefusedByTest = errors.New("the test fails the request")

// request does a request and holds its outcome to the model.
func (w *onceWorld) request() {
	t, ctx := w.t, w.t.Context()
	client, id := fmt.Sprint("c", w.rng.IntN(2)), fmt.Sprint("r", w.rng.IntN(12))
	owner := memory.Owner{User: fmt.Sprint("u", w.rng.IntN(3))}
	what, fails := w.rng.IntN(4), w.rng.IntN(6) == 0
	asks := fmt.Sprint(owner.User, what)
	key := [2]string{client, id}
	before := w.done[key]
	if before != nil && w.clk.now().Sub(before.at) >= requests.Keep {
		before = nil
	}
	if before != nil && w.rng.IntN(3) > 0 { // as a client that has lost the answer
		owner, asks = before.owner, before.asks
		what = int(asks[len(asks)-1] - '0')
	}
	calls := w.calls
	answer, repeated, err := Once(ctx, w.db, Request{ID: id, Client: client, Asks: asks}, func(ctx context.Context) (string, error) {
		answer, err := w.effect(ctx, owner, what)
		if err == nil && fails {
			err = errRefusedByTest
		}
		return answer, err
	})
	switch {
	case before == nil && fails:
		if !errors.Is(err, errRefusedByTest) {
			t.Fatalf("a request that fails: %v", err)
		}
	case before == nil:
		if err != nil || repeated || w.calls != calls+1 {
			t.Fatalf("request %v: %q, %v, %v", key, answer, repeated, err)
		}
		w.done[key] = &askedOnce{client, id, asks, owner, answer, w.clk.now(), false}
		w.counted(owner, what)
	case before.gone:
		wantError(t, "a request whose owner was deleted", err, fault.ErrNotRetained)
	case before.asks != asks:
		wantError(t, "an ID that was given to another request", err, fault.ErrRequestID)
	default:
		if err != nil || !repeated || answer != before.answer {
			t.Fatalf("request %v again: %q, %v, %v; the first answer was %q", key, answer, repeated, err, before.answer)
		}
	}
	if before != nil && w.calls != calls {
		t.Fatalf("request %v was done again", key)
	}
}

// step does something at random.
func (w *onceWorld) step() {
	switch w.rng.IntN(24) {
	case 0:
		w.clk.advance(time.Duration(w.rng.IntN(30)) * time.Hour)
	case 1:
		noError(w.t, w.db.Close())
		w.open()
	case 2:
		noError(w.t, requests.Part{}.Work(w.t.Context(), runner{db: w.db}))
	case 3:
		o := memory.Owner{User: fmt.Sprint("u", w.rng.IntN(3))}
		noError(w.t, second(w.db.DeleteOwner(w.t.Context(), o)))
		delete(w.spent, o)
		delete(w.said, o)
		delete(w.kept, o)
		for _, d := range w.done {
			d.gone = d.gone || d.owner == o
		}
	default:
		w.request()
	}
}

// verify holds what the database has to the effects that were counted.
func (w *onceWorld) verify() {
	w.t.Helper()
	spent, said, kept := effectsOf(w.t, w.db)
	if !maps.Equal(spent, w.spent) || !maps.Equal(said, w.said) || !maps.Equal(kept, w.kept) {
		w.t.Fatalf("usage %v, messages %v, memories %v; counted %v, %v, %v", spent, said, kept, w.spent, w.said, w.kept)
	}
	if r, err := w.db.Check(w.t.Context()); err != nil || !r.OK {
		w.t.Fatalf("check: %v, %v", r.Problems, err)
	}
}

// effectsOf counts records of usage, messages, and memories that no session has, by owner.
func effectsOf(t *testing.T, db *DB) (spent, said, kept map[memory.Owner]int) {
	t.Helper()
	spent, said, kept = map[memory.Owner]int{}, map[memory.Owner]int{}, map[memory.Owner]int{}
	for i := range 3 {
		o := memory.Owner{User: fmt.Sprint("u", i)}
		total, err := db.Usage().Total(t.Context(), usage.Query{Owner: o})
		noError(t, err)
		if total.Records > 0 {
			spent[o] = int(total.Records)
		}
		for _, m := range mustList(t, db.Memories(), o.Scope()) {
			if m.Run == "" {
				kept[o]++
			}
		}
		for _, err := range db.Sessions().Items(t.Context(), o, "s") {
			if errors.Is(err, fault.ErrNotFound) {
				break
			}
			noError(t, err)
			said[o]++
		}
	}
	return spent, said, kept
}

// TestOnceModel does requests at random, many of them again, some with an ID that another one has, beside
// reopenings, deleted owners and a clock that jumps, and holds answers and effects to a model.
func TestOnceModel(t *testing.T) {
	race.Sequential(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := newOnceWorld(t, seed, vfs.NewMem())
	for i := range race.Times(600) {
		w.step()
		if i%50 == 0 {
			w.verify()
		}
	}
	w.verify()
	w.clk.advance(requests.Keep)
	noError(t, requests.Part{}.Work(t.Context(), runner{db: w.db}))
	for _, k := range (requests.Part{}).Kinds() {
		if n := countKeys(t, w.db, byte(k)); n > 0 {
			t.Errorf("%d keys of kind %c are left when all records have expired", n, k)
		}
	}
	noError(t, w.db.Close())
}

// TestOnceAfterCrashes cuts the power at random points. A request whose answer was received is repeated
// after that; any other one is either done as a whole, and answers, or not at all.
func TestOnceAfterCrashes(t *testing.T) {
	race.Sequential(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var acknowledged atomic.Int64
	most := race.Times(30)
	fs, states := crashing(rand.New(rand.NewPCG(seed, 2)), 6, most, func() int { return int(acknowledged.Load()) })
	clk := newTestClock()
	o := Options{Clock: clk.now}
	db := openTest(t, fs, o)
	owner := memory.Owner{User: "u0"}
	do := func(db *DB, i int) (answer int, repeated bool, err error) {
		return Once(t.Context(), db, Request{ID: fmt.Sprint(i), Asks: i}, func(ctx context.Context) (int, error) {
			if err := second(db.Usage().Add(ctx, usage.Record{Owner: owner, Model: "m", PromptTokens: 1}, nil)); err != nil {
				return 0, err
			}
			return i, second(db.Memories().Store(ctx, memory.Memory{Scope: owner.Scope(), Text: fmt.Sprint("text ", i)}, nil))
		})
	}
	for i := 0; i < max(race.Times(100), 40) || len(states()) < most/2; i++ {
		_, repeated, err := do(db, i)
		noError(t, err)
		if repeated {
			t.Fatalf("request %d was done before", i)
		}
		acknowledged.Add(1)
	}
	closeTest(t, db)
	for i, at := range states() {
		db := openTest(t, at.fs, o)
		spent, _, kept := effectsOf(t, db)
		n := spent[owner]
		if kept[owner] != n || n < at.known || n > at.known+1 {
			t.Fatalf("crash %d: %d records of usage and %d memories after %d requests", i, n, kept[owner], at.known)
		}
		for r := range n + 1 {
			answer, repeated, err := do(db, r)
			if err != nil || answer != r || repeated != (r < n) {
				t.Fatalf("crash %d: request %d of %d again: %d, %v, %v", i, r, n, answer, repeated, err)
			}
		}
		if spent, _, kept = effectsOf(t, db); spent[owner] != n+1 || kept[owner] != n+1 {
			t.Fatalf("crash %d: %d records of usage and %d memories after all requests", i, spent[owner], kept[owner])
		}
		closeTest(t, db)
	}
}

// TestOnceBesideItself sends one request from many goroutines: one of them does it, and all get its
// answer.
func TestOnceBesideItself(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	owner := memory.Owner{User: "u0"}
	var calls atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			answer, _, err := Once(t.Context(), db, Request{ID: "r", Asks: 1}, func(ctx context.Context) (int64, error) {
				n := calls.Add(1)
				return n, second(db.Usage().Add(ctx, usage.Record{Owner: owner, Model: "m"}, nil))
			})
			if err != nil || answer != 1 {
				t.Errorf("%d, %v", answer, err)
			}
		})
	}
	group.Wait()
	if spent, _, _ := effectsOf(t, db); spent[owner] != 1 || calls.Load() != 1 {
		t.Errorf("done %d times, %d records", calls.Load(), spent[owner])
	}
}

// TestOnceBounds holds IDs, answers and calls within a request to their bounds.
func TestOnceBounds(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ctx, scope := t.Context(), memory.Scope{User: "u0"}
	never := func(context.Context) (int, error) {
		t.Error("a request that is refused was done")
		return 0, nil
	}
	for _, id := range []string{"", strings.Repeat("x", 513), "\xff"} {
		_, _, err := Once(ctx, db, Request{ID: id}, never)
		wantError(t, "an ID", err, fault.ErrInvalid)
	}
	_, _, err := Once(ctx, db, Request{ID: "r", Asks: func() {}}, never)
	wantError(t, "what has no JSON", err, fault.ErrInvalid)

	long := func(context.Context) (string, error) { return strings.Repeat("x", requests.MaxAnswer), nil }
	_, repeated, err := Once(ctx, db, Request{ID: "long"}, long)
	if err != nil || repeated {
		t.Error(repeated, err)
	}
	_, _, err = Once(ctx, db, Request{ID: "long"}, long)
	wantError(t, "an answer that is too long", err, fault.ErrNotRetained)

	// A call that makes its own commits runs alone, and never waits for its own request.
	_, _, err = Once(ctx, db, Request{ID: "two"}, func(ctx context.Context) (int, error) {
		noError(t, second(db.Memories().Store(ctx, memory.Memory{Scope: scope, Text: "tea"}, nil)))
		if err := second(db.Evict(ctx, &EvictOptions{Scope: scope})); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("an eviction after a store: %v", err)
		}
		if err := second(db.Usage().Add(Apart(ctx), usage.Record{Owner: scope.Owner(), Model: "m"}, nil)); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("a record apart after a store: %v", err)
		}
		return 0, errRefusedByTest
	})
	if !errors.Is(err, errRefusedByTest) {
		t.Error(err)
	}
	if left := mustList(t, db.Memories(), scope); len(left) > 0 {
		t.Errorf("a request that failed has stored %v", texts(left))
	}
	n := 0
	for range 2 {
		_, _, err := Once(ctx, db, Request{ID: "evict"}, func(ctx context.Context) (Evicted, error) {
			n++
			return db.Evict(ctx, &EvictOptions{Scope: scope})
		})
		noError(t, err)
	}
	if n != 1 {
		t.Errorf("an eviction was done %d times", n)
	}
}

// TestOnceErasesAnswers verifies that an erased memory is in no answer that is kept.
func TestOnceErasesAnswers(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	ctx := t.Context()
	store := func(user, id, text string) (memory.Stored, bool, error) {
		return Once(ctx, db, Request{ID: id, Asks: text}, func(ctx context.Context) (memory.Stored, error) {
			return db.Memories().Store(ctx, memory.Memory{Scope: memory.Scope{User: user}, ID: id, Text: text}, nil)
		})
	}
	for _, user := range []string{"ada", "bob"} {
		_, _, err := store(user, "q0z"+user, "tea")
		noError(t, err)
	}
	_, err := db.Erase(ctx, EraseQuery{User: "ada", ID: "q0zada"})
	noError(t, err)
	if found := traces(t, fs, "q0zada"); len(found) > 0 {
		t.Errorf("left: %s", strings.Join(found, "\n"))
	}
	_, _, err = store("ada", "q0zada", "tea")
	wantError(t, "a request whose memory is erased", err, fault.ErrNotRetained)
	s, repeated, err := store("bob", "q0zbob", "tea")
	if err != nil || !repeated || s.ID != "q0zbob" {
		t.Errorf("a request of somebody else: %+v, %v, %v", s, repeated, err)
	}
	if got := slices.Concat(ids(mustList(t, db.Memories(), memory.Scope{User: "ada"})), ids(mustList(t, db.Memories(), memory.Scope{User: "bob"}))); len(got) != 1 {
		t.Errorf("memories: %v", got)
	}
}

// BenchmarkAttemptOf is what a call outside of any request pays for there being requests.
func BenchmarkAttemptOf(b *testing.B) {
	type key int
	ctx := b.Context()
	for i := range 6 { // as deep as the context of a request over HTTP
		ctx = context.WithValue(ctx, key(i), i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if attemptOf(ctx) != nil {
			b.Fatal("there is an attempt")
		}
	}
}
