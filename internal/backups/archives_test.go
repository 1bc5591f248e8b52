package backups

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/lifecycle"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// testHost is a store that commits keys, and nothing else of a database.
type testHost struct {
	store    *store.Store
	keys     *layout.Keys
	writing  sync.Mutex
	lsn      uint64
	lockWait time.Duration
	readOnly bool
	logged   bool
}

func (h *testHost) ID() string          { return "b6c1f1a2-3d8e-4b46-9f0c-2a54c1d6e7f8" }
func (h *testHost) Logged() bool        { return h.logged }
func (h *testHost) Store() *store.Store { return h.store }
func (h *testHost) Keys() *layout.Keys  { return h.keys }
func (h *testHost) Now() time.Time      { return time.Now() }

func (h *testHost) Enter(string) (release func(), err error) { return func() {}, nil }

func (h *testHost) Writable(doing string) error {
	if h.readOnly {
		return &fault.Error{Kind: fault.ErrReadOnly, What: doing}
	}
	return nil
}

func (h *testHost) Lock(context.Context) (unlock func(), err error) {
	h.writing.Lock()
	return h.writing.Unlock, nil
}

func (h *testHost) LockLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, h.lockWait)
}

// openHost opens a store on fs, which may hold one already, with its archives.
func openHost(t *testing.T, fs vfs.FS, to wal.Archive, c Config) (*testHost, *Archives) {
	t.Helper()
	keys, err := layout.NewKeys(7)
	noError(t, err)
	h := &testHost{keys: keys, lockWait: 20 * time.Millisecond}
	log := slog.New(slog.DiscardHandler)
	h.store = store.New(store.Config{Dir: "db", Base: fs, Log: log, Budget: 8 << 20, NumberKey: layout.NumberKey, TailBytes: MaxUnsent, Resume: func() {}})
	_, missing := fs.Stat(fs.PathJoin("db", store.Dir))
	noError(t, fs.MkdirAll("db", 0o700))
	noError(t, h.store.Open(missing == nil, store.Timeline{1}))
	newest, err := shipping.Newest(keys, h.store)
	noError(t, err)
	h.lsn = newest.LSN
	c.Logger, c.Work = log, lifecycle.New(func(err error) { t.Error(err) }, nil).Group()
	as := NewArchives(h, c)
	noError(t, as.Begin(to, time.Millisecond, missing != nil))
	as.Start()
	return h, as
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// commit commits n keys, one after the other, and syncs them as a database does.
func (h *testHost) commit(t *testing.T, as *Archives, n int) error {
	t.Helper()
	h.writing.Lock()
	defer h.writing.Unlock()
	for range n {
		h.lsn++
		b, key := h.store.NewBatch(), h.keys.LSN(layout.KindLog, h.lsn)
		now := time.Now().UnixMilli()
		noError(t, b.Set(key, layout.Seal(key, layout.AppendLogHead(nil, now, &layout.Counters{}, 0)), nil))
		noError(t, b.Set(fmt.Appendf(nil, "z%d", h.lsn), []byte(strings.Repeat("value ", 20)), nil))
		noError(t, h.store.ApplyBatch(b, true, store.Commit{LSN: h.lsn, Time: now}))
		noError(t, h.store.SyncLog([]*pebble.Batch{b}))
	}
	return as.AwaitSynced()
}

// keysOf are the keys and values of a store, but for the number of the newest batch.
func keysOf(t *testing.T, s *store.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	noError(t, kv.Scan(s, nil, nil, func(key, value []byte) error { all[string(key)] = string(value); return nil }))
	delete(all, string(layout.NumberKey))
	return all
}

// memArchive keeps the keys that frames bring. It can be made to fail.
type memArchive struct {
	t      *testing.T
	mu     sync.Mutex
	fail   error
	end    wal.End
	at     wal.Position
	keys   map[string]string
	closed bool
}

func newMemArchive(t *testing.T) *memArchive { return &memArchive{t: t, keys: map[string]string{}} }

func (a *memArchive) Name() string { return "memory" }

func (a *memArchive) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return nil
}

func (a *memArchive) Begin(context.Context, string, wal.Timeline) (wal.End, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.end, a.fail
}

func (a *memArchive) Append(_ context.Context, f *wal.Frame) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail != nil {
		return a.fail
	}
	if f.Kind == wal.Base && f.Last == 0 {
		a.at = wal.Position{}
		clear(a.keys)
	}
	if !f.Follows(a.at) && (f.Kind != wal.Batches || a.at.Parts == 0) {
		a.t.Errorf("%v %d to %d after %+v", f.Kind, f.First, f.Last, a.at)
	}
	for _, repr := range f.Batches {
		err := shipping.Changes(repr, func(c shipping.Change) error {
			if c.Kind == pebble.InternalKeyKindSet {
				a.keys[string(c.Key)] = string(c.Value)
			}
			return nil
		})
		if err != nil {
			a.t.Error(err)
		}
	}
	a.at = f.After()
	a.end = wal.End{Number: a.at.Number, LSN: max(f.LSN, a.end.LSN), Time: f.Time, Whole: true}
	return nil
}

func (a *memArchive) failing(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = err
}

// has compares what the archive has with a store.
func (a *memArchive) has(s *store.Store) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	got := maps.Clone(a.keys)
	delete(got, string(layout.NumberKey))
	if want := keysOf(a.t, s); !maps.Equal(got, want) {
		a.t.Errorf("the archive has %d keys, the store %d, or they differ", len(got), len(want))
	}
}

// endHost ends the archives and closes the store, in the order of a database.
func endHost(t *testing.T, h *testHost, as *Archives) {
	t.Helper()
	stop := as.Close()
	noError(t, as.End())
	stop()
	noError(t, h.store.Close())
}

// soon waits until a condition holds.
func soon(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not so in a minute: " + what)
		}
	}
}

// TestArchive verifies that an archive has each key of the store, from the first batch on, after the store is opened
// again, and from a base after writes that it did not see.
func TestArchive(t *testing.T) {
	fs, a := vfs.NewMem(), newMemArchive(t)
	for _, restarts := range []int64{0, 0} {
		h, as := openHost(t, fs, a, Config{})
		noError(t, h.commit(t, as, 5))
		s, err := as.Wait(t.Context())
		if err != nil || s.LSN != h.lsn || s.Restarts != restarts || s.Name != "memory" {
			t.Fatalf("%+v, %v; LSN %d", s, err, h.lsn)
		}
		a.has(h.store)
		endHost(t, h, as)
	}
	h, as := openHost(t, fs, nil, Config{})
	if _, err := as.Wait(t.Context()); !errors.Is(err, fault.ErrInvalid) || len(as.Stats()) != 0 {
		t.Errorf("without an archive: %v", err)
	}
	noError(t, h.commit(t, as, 2))
	endHost(t, h, as)
	h, as = openHost(t, fs, a, Config{})
	noError(t, h.commit(t, as, 2))
	if s, err := as.Wait(t.Context()); err != nil || s.Restarts != 1 {
		t.Errorf("behind what it did not see: %+v, %v", s, err)
	}
	a.has(h.store)
	endHost(t, h, as)
	if !a.closed {
		t.Error("the archive is not closed")
	}
}

// TestArchiveThatFails verifies that writes go on while an archive fails, that its failure is reported, and that it has
// everything once it works again: from a base if more waited than the bound allows.
func TestArchiveThatFails(t *testing.T) {
	for _, c := range []struct {
		what     string
		unsent   int64
		restarts int64
	}{{"within the bound", 0, 0}, {"beyond the bound", 1 << 10, 1}} {
		a := newMemArchive(t)
		h, as := openHost(t, vfs.NewMem(), a, Config{Unsent: c.unsent})
		noError(t, h.commit(t, as, 3))
		if _, err := as.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		gone := errors.New("no room")
		a.failing(gone)
		noError(t, h.commit(t, as, 30))
		if s, err := as.Wait(t.Context()); !errors.Is(err, gone) || s.Error == "" || s.Failing == nil {
			t.Errorf("%s: %+v, %v", c.what, s, err)
		}
		if s := as.Stats()[0]; c.restarts == 0 && s.UnsentBytes == 0 || c.unsent > 0 && s.UnsentBytes > c.unsent {
			t.Errorf("%s: %d bytes wait", c.what, s.UnsentBytes)
		}
		a.failing(nil)
		soon(t, "the archive has caught up", func() bool { s := as.Stats()[0]; return s.LSN == h.lsn && s.Error == "" })
		if s := as.Stats()[0]; s.Restarts != c.restarts || s.RestartLSN != 0 {
			t.Errorf("%s: %+v", c.what, s)
		}
		a.has(h.store)
		endHost(t, h, as)
	}
}

// TestArchiveFirst verifies that a write is acknowledged once the archive has it, that its context ends the wait, that
// no write begins meanwhile, and that Close ends the waits.
func TestArchiveFirst(t *testing.T) {
	a := newMemArchive(t)
	h, as := openHost(t, vfs.NewMem(), a, Config{First: true, LastSend: 20 * time.Millisecond})
	noError(t, h.commit(t, as, 3))
	if s := as.Stats()[0]; s.LSN != 3 {
		t.Errorf("acknowledged, and the archive has LSN %d", s.LSN)
	}
	noError(t, as.AwaitLate(t.Context()))
	a.failing(errors.New("gone"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var late atomic.Pointer[error]
	err := as.Acknowledge(ctx, func() error {
		err := h.commit(t, as, 1)
		late.Store(&err)
		return err
	}, nil)
	if !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "the write is in the database") {
		t.Errorf("a write that the archive does not have: %v", err)
	}
	soon(t, "it fails", func() bool { return as.Stats()[0].Error != "" })
	if err := as.AwaitLate(t.Context()); !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("a write beside it: %v", err)
	}
	if err := as.Acknowledge(ctx, func() error { return nil }, fault.ErrExists); err != nil && !errors.Is(err, ctx.Err()) {
		t.Errorf("a write that was refused: %v", err)
	}
	stop := as.Close()
	soon(t, "the wait has ended", func() bool { return late.Load() != nil })
	if err := *late.Load(); !errors.Is(err, fault.ErrClosed) {
		t.Errorf("at the close: %v", err)
	}
	stop()
	noError(t, as.End())
	noError(t, h.store.Close())
}

// TestArchiveTo verifies that a database gets an archive beside the one that it has, from a base on, for as long as the
// call lasts.
func TestArchiveTo(t *testing.T) {
	first := newMemArchive(t)
	h, as := openHost(t, vfs.NewMem(), first, Config{})
	noError(t, h.commit(t, as, 10))
	second := newMemArchive(t)
	s, err := as.To(t.Context(), second, false)
	if err != nil || s.LSN != h.lsn || s.Restarts != 1 || !second.closed {
		t.Errorf("%+v, %v", s, err)
	}
	second.has(h.store)
	ctx, cancel := context.WithCancel(t.Context())
	third, done := newMemArchive(t), make(chan error, 1)
	go func() {
		_, err := as.To(ctx, third, true)
		done <- err
	}()
	caughtUp := func() bool { all := as.Stats(); return len(all) == 2 && all[1].LSN == h.lsn }
	soon(t, "the base is there", caughtUp)
	noError(t, h.commit(t, as, 10))
	soon(t, "what follows is there", caughtUp)
	cancel()
	if err := <-done; err != nil || len(as.Stats()) != 1 {
		t.Errorf("%v, %d archives", err, len(as.Stats()))
	}
	third.has(h.store)
	for _, c := range []struct {
		what   string
		change func(on bool)
		kind   error
	}{
		{"only read", func(on bool) { h.readOnly = on }, fault.ErrReadOnly},
		{"over a log", func(on bool) { h.logged = on }, fault.ErrInvalid},
	} {
		c.change(true)
		to := newMemArchive(t)
		if _, err := as.To(t.Context(), to, false); !errors.Is(err, c.kind) || !to.closed {
			t.Errorf("%s: %v", c.what, err)
		}
		c.change(false)
	}
	endHost(t, h, as)
}
