package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

func TestALongSessionIsSavedAsideAndShownByOneCommit(t *testing.T) {
	w := newTalk(t)
	s, ctx := w.db.Sessions(), t.Context()
	w.say("s", "user", "old")
	var items []sessions.Item
	for i := range 5500 {
		items = append(items, sessions.Item{Message: &sessions.Message{ID: fmt.Sprint("m", i), Role: []string{"user", "assistant"}[i%2], Text: fmt.Sprint("text ", i)}})
	}
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { // sees either the old session or the new one
		for {
			select {
			case <-stop:
				return
			default:
			}
			i, err := s.Get(context.Background(), supportAgent, "s")
			if err != nil || i.Messages != 1 && i.Messages != len(items) {
				t.Errorf("%d messages, %v", i.Messages, err)
				return
			}
		}
	})
	lsn := w.db.LSN()
	n, err := s.Save(ctx, supportAgent, "s", items, nil)
	close(stop)
	watch.Wait()
	if err != nil || n != len(items) || w.db.LSN()-lsn != 6 {
		t.Errorf("%d messages in %d commits, %v", n, w.db.LSN()-lsn, err)
	}
	if got := w.items("s"); len(got) != len(items) || got[5499] != "assistant: text 5499" {
		t.Errorf("%d items", len(got))
	}
	wrong := uint64(1)
	_, err = s.Save(ctx, supportAgent, "s", items[:2], &sessions.SaveOptions{IfVersion: &wrong})
	testdb.WantError(t, "another version", err, memory.ErrConflict)
	_, err = s.Save(ctx, supportAgent, "fresh", items, nil) // one that is not there yet
	if err != nil || len(w.items("fresh")) != len(items) {
		t.Error(err)
	}
	w.work()
	testdb.Check(t, w.db, 1)
	if n := w.keysOf("s"); n != 2*len(items)+2 { // messages and IDs, the session and its state
		t.Errorf("%d keys", n)
	}
}

// A save that ends half-way, as by a crash, leaves nothing that is seen, and is removed.
func TestSessionSaveLeftHalfWay(t *testing.T) {
	w := newTalk(t)
	w.say("old", "user", "kept")
	var items []sessions.Item
	for i := range 2500 {
		items = append(items, sessions.Item{Message: &sessions.Message{ID: fmt.Sprint("m", i), Role: "user", Text: "x"}})
	}
	for _, name := range []string{"old", "new"} {
		_, err := w.db.Sessions().Save(untilCommit{t.Context(), w.db, w.db.LSN()}, supportAgent, name, items, nil)
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if names := w.names(sessions.Query{}); !slices.Equal(names, []string{"old"}) {
		t.Errorf("%v", names)
	}
	w.work()
	testdb.Equal(t, "items", w.items("old"), []string{"user: kept"})
	if n, m := w.keysOf("old"), w.keysOf("new"); n != 4 || m != 0 { // session, state, message, ID
		t.Errorf("%d keys of the old session and %d of the new one are left", n, m)
	}
	testdb.Check(t, w.db, 1)
}

func TestSessionSaveUpdatesTheMessageHistory(t *testing.T) {
	w := newTalk(t)
	w.say("s", "user", "hello")
	var items []sessions.Item
	for i, err := range w.db.Sessions().Items(t.Context(), supportAgent, "s") {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, i)
	}
	items = append(items, sessions.Item{Message: &sessions.Message{ID: "pushed", Role: "assistant", Text: "good morning"}})
	if n, err := w.db.Sessions().Save(t.Context(), supportAgent, "s", items, nil); n != 2 || err != nil {
		t.Error(n, err)
	}
	w.reopen()
	testdb.Equal(t, "saved", w.items("s"), []string{"user: hello", "assistant: good morning"})
}
