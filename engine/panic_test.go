package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// clumsy is a part whose work panics.
type clumsy struct{ tally }

func (*clumsy) Work(context.Context, part.Runner) error { panic("out of step") }

// TestPanicBehind: a panic in background work fails the database, with what it was, and the
// program goes on; what was acknowledged is there when it is opened again.
func TestPanicBehind(t *testing.T) {
	fs, ctx, ada := vfs.NewMem(), t.Context(), memory.Scope{User: "ada"}
	db, err := openOn(fs, "db", setup{Options: Options{MemoryBudget: testBudget}, tuning: tuning{beside: []part.Part{&clumsy{}}}})
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	for db.Failed() == nil {
		if _, err := db.Memories().Store(ctx, memory.Memory{Scope: ada, Text: "tea " + string(rune('a'+stored))}, nil); err == nil {
			stored++
		}
		time.Sleep(time.Millisecond)
	}
	_, err = db.Memories().Count(ctx, memory.ListQuery{Scope: ada})
	caught, ok := errors.AsType[*panics.Error](err)
	if !errors.Is(err, memory.ErrFailed) || !ok || caught.Value != "out of step" || caught.What != "works on tally" {
		t.Errorf("after the panic: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Close waits for ever")
	}
	db = openTest(t, fs, Options{})
	if n, err := db.Memories().Count(ctx, memory.ListQuery{Scope: ada}); err != nil || n < stored || n > stored+1 {
		t.Errorf("%d memories were acknowledged, %d are there, %v", stored, n, err)
	}
}

// TestPanicOfEmbedder: an embedder that panics is one that fails.
func TestPanicOfEmbedder(t *testing.T) {
	f := newFakeEmbedder(4)
	f.set(func(f *fakeEmbedder) { f.give = func([]string) [][]float32 { panic("no words") } })
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Embedder: f, Clock: clock.now})
	st, err := db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "tea"}, nil)
	if err != nil || !st.Pending {
		t.Errorf("%+v, %v", st, err)
	}
	_, err = db.EmbedPending(t.Context(), 10)
	wantError(t, "a pass", err, fault.ErrEmbedder)
	f.set(func(f *fakeEmbedder) { f.give = nil })
	clock.advance(24 * time.Hour) // a text that was refused is tried again later
	if n, err := db.EmbedPending(t.Context(), 10); err != nil || n != 1 {
		t.Errorf("%d embedded, %v", n, err)
	}
}
