package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// heard keeps what an observer hears.
type heard struct {
	mu  sync.Mutex
	all []Eviction
}

func (h *heard) hear(_ context.Context, e Eviction) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
}

func (h *heard) list() []Eviction {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// TestObserver: what was evicted, pruned, merged away or has expired is told once, after its
// commit, in order, with the policy and the LSN.
func TestObserver(t *testing.T) {
	clk, h := newTestClock(), &heard{}
	var db *DB
	seen := func(ctx context.Context, e Eviction) {
		if _, err := db.Memories().Get(ctx, memory.Scope{}, e.ID); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("%s is told of, and there: %v", e.ID, err)
		}
		h.hear(ctx, e)
	}
	db = openTest(t, vfs.NewMem(), setup{Options: Options{Clock: clk.now, Hooks: Hooks{Evicted: seen, Wait: time.Minute}}, tuning: tuning{keepsExpired: true}})
	store := func(id, text string, change func(*memory.Memory)) {
		m := memory.Memory{ID: id, Scope: memory.Scope{Agent: "a"}, Text: text, CreatedAt: clk.now().Add(-24 * time.Hour), Importance: new(.5)}
		change(&m)
		mustStore(t, db.Memories(), m)
	}
	store("goes", "one thing", func(m *memory.Memory) { m.CreatedAt, m.Confidence = clk.now().Add(-90*24*time.Hour), new(0.0) })
	store("over", "another", func(m *memory.Memory) { m.ExpiresAt = clk.now().Add(time.Hour) })
	store("first", "The harbour master writes tables of the tides in blue ink every morning before six.", func(*memory.Memory) {})
	store("second", "The harbour master writes tables of the tides in blue ink every morning before six", func(*memory.Memory) {})
	if _, err := db.Evict(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	clk.advance(2 * time.Hour)
	if err := db.ageing.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := db.Consolidate(t.Context(), &ConsolidateOptions{Merge: new(true)}); err != nil || r.Merged != 1 {
		t.Fatal(r, err)
	}
	comes(t, "three are told of", func() bool { return len(h.list()) == 3 })
	closeTest(t, db)
	lsn := uint64(0)
	for i, want := range []struct {
		id     string
		reason policy.Reason
		into   string
	}{{"goes", "", ""}, {"over", policy.Expired, ""}, {"first", policy.Merged, "second"}} {
		e := h.list()[i]
		if e.ID != want.id || want.reason != "" && e.Reason != want.reason || e.Into != want.into || e.LSN <= lsn || e.Agent != "a" || e.Time.IsZero() || e.Missed != 0 {
			t.Errorf("%d: %+v", i, e)
		}
		lsn = e.LSN
	}
}

// TestObserversThatFail: an observer that panics or hangs holds nothing up; Close does not
// wait for it for long, and what it could not hear is counted.
func TestObserversThatFail(t *testing.T) {
	release, h, logged := make(chan struct{}), &heard{}, &counted{Handler: slog.DiscardHandler}
	first := true
	db := openTest(t, vfs.NewMem(), setup{Options: Options{Logger: slog.New(logged), Hooks: Hooks{Wait: 20 * time.Millisecond, Evicted: func(ctx context.Context, e Eviction) {
		if first {
			first = false
			<-release
			panic("and then it panics")
		}
		h.hear(ctx, e)
	}}}})
	evict := func(id string) {
		t.Helper()
		mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: memory.Scope{Agent: "a"}, Text: id, Confidence: new(0.0), CreatedAt: time.Now().Add(-90 * 24 * time.Hour), Importance: new(0.0)})
		if r, err := db.Evict(t.Context(), nil); err != nil || r.Evicted != 1 {
			t.Fatal(r, err)
		}
	}
	evict("hangs")
	evict("missed")
	comes(t, "it is given up", func() bool { return logged.Load() == 2 })
	close(release)
	n := 0
	comes(t, "it hears again, and of what it has missed", func() bool {
		n++
		evict(fmt.Sprint("later ", n))
		all := h.list()
		return len(all) > 0 && slices.ContainsFunc(all, func(e Eviction) bool { return e.Missed > 0 })
	})
	closeTest(t, db)
}

// counted counts what the log says of observers that were not told.
type counted struct {
	slog.Handler
	atomic.Int32
}

func (c *counted) Enabled(context.Context, slog.Level) bool { return true }

func (c *counted) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "an observer of evictions") {
		c.Add(1)
	}
	return nil
}
