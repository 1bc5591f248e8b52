package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// testClock is a clock that only the test moves.
type testClock struct{ ms atomic.Int64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.ms.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *testClock) now() time.Time          { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *testClock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// testBudget keeps the caches of the many databases of these tests small.
const testBudget = 32 << 20

// setup is how a test opens a database.
type setup struct {
	Options
	tuning
}

// opener is a setup, or the Options of one.
type opener interface{ setup() setup }

func (o Options) setup() setup { return setup{Options: o} }
func (s setup) setup() setup   { return s }

// openSetup opens a database. Where the test moves the clock, it also says when what has
// expired is deleted.
func openSetup(dir string, o opener) (*DB, error) {
	s := o.setup()
	s.keepsExpired = s.keepsExpired || s.Clock != nil
	return open(dir, &s.Options, &s.tuning)
}

// openOn opens a database in a folder of fs.
func openOn(fs vfs.FS, dir string, o opener) (*DB, error) {
	s := o.setup()
	s.fs = fs
	return openSetup(dir, s)
}

// openTest opens the database "db" on fs and closes it when the test ends.
func openTest(t testing.TB, fs vfs.FS, o opener) *DB {
	t.Helper()
	s := o.setup()
	s.fs = fs
	if s.MemoryBudget == 0 {
		s.MemoryBudget = testBudget
	}
	db, err := openSetup("db", s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTest(t, db) })
	return db
}

func closeTest(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Error("close:", err)
	}
}

// mustStore stores a memory that must be new.
func mustStore(t testing.TB, m Memories, mem memory.Memory) memory.Stored {
	t.Helper()
	st, err := m.Store(context.Background(), mem, nil)
	if err != nil || !st.Stored {
		t.Fatalf("store %+v: %+v, %v", mem, st, err)
	}
	return st
}

func mustList(t testing.TB, m Memories, s memory.Scope) []memory.Memory {
	t.Helper()
	page, err := m.List(context.Background(), memory.ListQuery{Scope: s, Limit: valid.MaxLimit})
	if err != nil || page.Next != "" {
		t.Fatalf("list %+v: next %q, %v", s, page.Next, err)
	}
	return page.Memories
}

func mustRecall(t testing.TB, m Memories, q memory.Query) []memory.Hit {
	t.Helper()
	r, err := m.Recall(context.Background(), q)
	if err != nil {
		t.Fatalf("recall %+v: %v", q, err)
	}
	return r.Hits
}

func mustHistory(t testing.TB, m Memories, s memory.Scope, id string) []memory.HistoryEntry {
	t.Helper()
	h, err := m.History(context.Background(), s, id)
	if err != nil {
		t.Fatalf("history of %s in %+v: %v", id, s, err)
	}
	return h
}

// mustCheck runs Check, which must find n memories and nothing wrong.
func mustCheck(t testing.TB, db *DB, n int) {
	t.Helper()
	r, err := db.Check(context.Background())
	if err != nil || !r.OK || r.Memories != n {
		t.Fatalf("check: %+v, %v; %d memories are expected", r, err, n)
	}
}

func texts(ms []memory.Memory) []string {
	out := []string{}
	for _, m := range ms {
		out = append(out, m.Text)
	}
	return out
}

func ids(ms []memory.Memory) []string {
	out := []string{}
	for _, m := range ms {
		out = append(out, m.ID)
	}
	return out
}

func hitIDs(hits []memory.Hit) []string {
	out := []string{}
	for i := range hits {
		out = append(out, hits[i].ID)
	}
	return out
}

func equalSlices[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func wantError(t testing.TB, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: error %v, want %v", what, err, kind)
	}
}

// countKeys counts the keys of a kind in the newest state of the store.
func countKeys(t testing.TB, db *DB, kind byte) int {
	t.Helper()
	n := 0
	lower, upper := db.keys().Span(kind)
	if err := kv.Scan(db.store, lower, upper, func(_, _ []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// waitForReaders returns when nobody reads an older state, as work behind the calls may: what such
// a state shows is not reclaimed yet, and a chunk is sealed with it.
func waitForReaders(t *testing.T, db *DB) {
	t.Helper()
	waitFor(t, func() bool {
		oldest, newest := db.points.numbers()
		return oldest == newest
	})
}

// waitCleaned returns when the janitor has removed every death range and
// tombstone.
func waitCleaned(t testing.TB, db *DB) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		ranges, tombstones := countKeys(t, db, layout.KindRange), countKeys(t, db, layout.KindTombstone)
		if ranges+tombstones == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the janitor has left %d death ranges and %d tombstones", ranges, tombstones)
		}
		db.janitor.wake()
	}
}

// fakeEmbedder makes a vector of a hash of the text. It can be made to fail and
// to wait.
type fakeEmbedder struct {
	dim   int
	model string
	calls atomic.Int64

	mu   sync.Mutex
	fail error
	gate chan struct{}                    // not nil: every call waits until it is closed
	give func(texts []string) [][]float32 // not nil: what to return instead
}

var hashSeed = maphash.MakeSeed()

func newFakeEmbedder(dim int) *fakeEmbedder { return &fakeEmbedder{dim: dim, model: "fake"} }

func (f *fakeEmbedder) Dim() int      { return f.dim }
func (f *fakeEmbedder) Model() string { return f.model }

func (f *fakeEmbedder) set(change func(*fakeEmbedder)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeEmbedder) failing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fail != nil
}

func (f *fakeEmbedder) vector(text string) []float32 {
	vec := make([]float32, f.dim)
	for i := range vec {
		b := binary.AppendUvarint([]byte(text), uint64(i))
		vec[i] = float32(maphash.Bytes(hashSeed, b)%2000)/1000 - 0.9995 // never 0
	}
	return vec
}

func (f *fakeEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	f.calls.Add(1)
	f.mu.Lock()
	fail, gate, give := f.fail, f.gate, f.give
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fail != nil {
		return nil, fail
	}
	if give != nil {
		return give(texts), nil
	}
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		vecs[i] = f.vector(text)
	}
	return vecs, nil
}

// waitVectors returns when the slots of all but n vectors are free.
func waitVectors(t testing.TB, db *DB, n int64) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		st, err := db.Stats(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if st.Vectors == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d vectors are held, want %d", st.Vectors, n)
		}
	}
}

// pending reports whether a death range is still to be cleaned up.
func (j *janitor) pending() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.ranges) > 0
}

// second is the error of a call.
func second[T any](_ T, err error) error { return err }

func usd(t testing.TB, s string) usage.USD {
	t.Helper()
	u, err := usage.ParseUSD(s)
	noError(t, err)
	return u
}

// mustEvict evicts and returns the report and the reasons by ID.
func mustEvict(t *testing.T, db *DB, o EvictOptions) (Evicted, map[string]policy.Reason) {
	t.Helper()
	got := map[string]policy.Reason{}
	o.Visit = func(v Victim) error {
		got[v.ID] = v.Reason
		return nil
	}
	r, err := db.Evict(t.Context(), &o)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[policy.Reason]int{}
	for _, why := range got {
		counts[why]++
	}
	if r.Evicted != len(got) || !maps.Equal(counts, r.Reasons) || r.DryRun != o.DryRun {
		t.Fatalf("the report %+v is not that of %v", r, got)
	}
	return r, got
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come")
		}
	}
}

func mustConsolidate(t *testing.T, db *DB, o ConsolidateOptions) (Consolidated, []Merge) {
	t.Helper()
	var merges []Merge
	o.Visit = func(m Merge) error {
		merges = append(merges, m)
		return nil
	}
	r, err := db.Consolidate(t.Context(), &o)
	if err != nil {
		t.Fatal(err)
	}
	return r, merges
}

// comes waits until ok, for two minutes at most.
func comes(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("two minutes went by, and not: " + what)
		}
	}
}
