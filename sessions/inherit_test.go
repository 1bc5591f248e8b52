package sessions_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// TestMessagesOutliveTheirMemories: what was said is read in every window, whatever ageing has
// done to its memory and however short the history is; what a caller has deleted, or has given
// an end, is gone with its history.
func TestMessagesOutliveTheirMemories(t *testing.T) {
	t.Parallel() // Compact waits
	w := newTalk(t)
	s, ctx := w.db.Sessions(), t.Context()
	testdb.SetPolicy(t, w.db, func(p *policy.Policy) { p.History, p.Trash = policy.Span(time.Hour), 0 })
	for i, text := range []string{"Yes.", "No.", "Perhaps."} {
		w.say("monday", []string{"user", "assistant"}[i%2], text)
	}
	deleted := w.say("monday", "assistant", "the code is 1234")
	brief, _, err := s.StoreMemory(ctx, memory.Memory{Scope: memory.Scope{Agent: "support", Run: "monday"}, Role: memory.RoleUser, Text: "for today", ExpiresAt: w.clk.Now().Add(time.Minute)}, nil, sessions.Message{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	yes := w.appendTo("monday", []sessions.Message{{Role: "assistant", Text: "Yes."}}, nil)[0]
	w.appendTo("tuesday", []sessions.Message{{MemoryIDs: []string{yes.MemoryID}}}, nil) // of another run
	// A repair, of which the content before can be had back.
	said := func(id, text string) sessions.Item {
		return sessions.Item{Message: &sessions.Message{ID: id, Role: "user", Text: text, MemoryIDs: []string{yes.MemoryID}}}
	}
	if _, err := s.Save(ctx, supportAgent, "saved", []sessions.Item{said("a", "Yes."), said("b", "Yes.")}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Repair(ctx, supportAgent, "saved", false); err != nil {
		t.Fatal(err)
	}
	w.clk.Advance(2 * time.Minute)
	before := w.db.LSN()

	testdb.NoError(t, w.db.Memories().Delete(ctx, supportAgent.Scope(), deleted.MemoryID))
	report, err := w.db.Evict(ctx, &engine.EvictOptions{MaxAge: new(time.Second), MinImportance: new(1.0)})
	if err != nil || report.Reasons[policy.Age] != 3 {
		t.Fatalf("%+v, %v", report, err)
	}
	testdb.Check(t, w.db, 0)
	h, err := w.db.Memories().History(ctx, supportAgent.Scope(), brief.ID) // it may have gone by itself before
	if err != nil || h[len(h)-1].Reason != memory.ReasonExpired {
		t.Errorf("%+v, %v", h, err)
	}
	lsn := w.db.LSN()
	w.clk.Advance(50 * time.Minute) // the history is there
	testdb.Compact(t, w.db)
	all := []string{"user: Yes.", "assistant: No.", "user: Perhaps.", "assistant: the code is 1234", "user: for today", "assistant: Yes."}
	testdb.Equal(t, "with their histories", w.items("monday"), all)
	if w.db.LSN() != lsn {
		t.Errorf("%d commits for nothing", w.db.LSN()-lsn)
	}
	version := func() uint64 {
		of, err := s.Get(ctx, supportAgent, "monday")
		testdb.NoError(t, err)
		return of.Version
	}
	old := version()
	w.clk.Advance(11 * time.Minute)
	testdb.NoError(t, w.db.View(ctx, func(tx *engine.Tx) error {
		testdb.Compact(t, w.db)
		testdb.Equal(t, "of a View from before", itemsOf(t, tx.Sessions(), "monday"), all)
		return nil
	}))
	w.clk.Advance(2 * time.Hour) // what Retain keeps ends
	testdb.Compact(t, w.db)
	left := []string{"user: Yes.", "assistant: No.", "user: Perhaps.", "assistant: ", "user: ", "assistant: Yes."}
	testdb.Equal(t, "without their histories", w.items("monday"), left)
	testdb.Equal(t, "of another run", w.items("tuesday"), []string{"user: Yes."})
	if _, err := w.db.Memories().History(ctx, supportAgent.Scope(), yes.MemoryID); err == nil {
		t.Error("the history is there: nothing was tried")
	}
	if version() <= old {
		t.Error("a repair that has read the session before would not know")
	}
	lsn = w.db.LSN()
	testdb.Compact(t, w.db)
	if w.db.LSN() != lsn {
		t.Errorf("forgotten once more with %d commits", w.db.LSN()-lsn)
	}
	l, err := s.Load(ctx, supportAgent, "monday", nil)
	if err != nil || !l.Messages[0].Orphan || l.Messages[0].MemoryID() == "" || l.Session.Messages != 6 {
		t.Errorf("%+v, %v", l, err)
	}
	testdb.Check(t, w.db, 0)
	w.reopen()
	s = w.db.Sessions()
	testdb.Equal(t, "after a reopen", w.items("monday"), left)
	testdb.Equal(t, "repaired", w.items("saved"), []string{"user: Yes.\nYes."})
	testdb.NoError(t, s.UndoRepair(ctx, supportAgent, "saved"))
	testdb.Equal(t, "undone", w.items("saved"), []string{"user: Yes.", "user: Yes."})
	if before >= lsn {
		t.Error("nothing happened")
	}
}

// TestMessagesLeadToSurvivors: a message whose memory was merged refers to what it was merged into,
// also once the history that tells so is gone, and says what it said.
func TestMessagesLeadToSurvivors(t *testing.T) {
	t.Parallel() // Compact waits
	w := newTalk(t)
	ctx := t.Context()
	testdb.SetPolicy(t, w.db, func(p *policy.Policy) { p.History, p.Trash = policy.Span(time.Hour), 0 })
	older := w.say("monday", "user", "I do not like tea.")
	newer := w.say("monday", "user", "i don't like tea")
	if r, err := w.db.Consolidate(ctx, nil); err != nil || r.Merged != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	look := func(when string) {
		t.Helper()
		l, err := w.db.Sessions().Load(ctx, supportAgent, "monday", nil)
		testdb.NoError(t, err)
		for i, text := range []string{"I do not like tea.", "i don't like tea"} {
			if m := l.Messages[i]; m.Text != text || m.Orphan || m.MemoryID() != newer.MemoryID {
				t.Errorf("%s: %q, orphan %v, of %q", when, m.Text, m.Orphan, m.MemoryID())
			}
		}
	}
	look("merged")
	w.clk.Advance(3 * time.Hour)
	w.work()                                         // what Retain keeps ends
	testdb.Soon(t, "the history ends", func() bool { // what is behind the calls may still read it
		testdb.Compact(t, w.db)
		_, err := w.db.Memories().History(ctx, supportAgent.Scope(), older.MemoryID)
		return err != nil
	})
	look("without the history")
	lsn := w.db.LSN()
	testdb.Compact(t, w.db)
	if w.db.LSN() != lsn {
		t.Errorf("forgotten once more with %d commits", w.db.LSN()-lsn)
	}
	testdb.Check(t, w.db, 1)
	w.reopen()
	look("after a reopen")
}

// TestRepeatedTextStays: what was said again two days ago is no orphan of its first time. Where a
// preset goes by the creation alone, the message keeps its text, however short the history is.
func TestRepeatedTextStays(t *testing.T) {
	t.Parallel() // Compact waits
	const day = 24 * time.Hour
	w := newTalk(t)
	ctx := t.Context()
	first := w.say("s", "user", "Yes.")
	w.clk.Advance(29 * day)
	if again := w.say("s", "user", "Yes."); again.MemoryID != first.MemoryID {
		t.Fatal("there are two memories: nothing is tried")
	}
	w.clk.Advance(2 * day)
	look := func(when string, orphan bool) {
		t.Helper()
		l, err := w.db.Sessions().Load(ctx, supportAgent, "s", nil)
		testdb.NoError(t, err)
		if len(l.Messages) != 2 {
			t.Fatalf("%s: %d messages", when, len(l.Messages))
		}
		for _, m := range l.Messages {
			if m.Text != "Yes." || m.Orphan != orphan {
				t.Errorf("%s: %q, orphan %v", when, m.Text, m.Orphan)
			}
		}
	}
	if r, err := w.db.Evict(ctx, nil); err != nil || r.Evicted != 0 {
		t.Errorf("by default: %+v, %v", r, err)
	}
	look("by default", false)
	p, err := policy.Preset(policy.PresetAgentOS)
	testdb.NoError(t, err)
	p.History, p.Trash = policy.Span(day), 0
	_, err = w.db.Policies().Set(ctx, p)
	testdb.NoError(t, err)
	if r, err := w.db.Evict(ctx, nil); err != nil || r.Reasons[policy.Age] != 1 {
		t.Errorf("by agentos: %+v, %v", r, err)
	}
	look("by agentos", true)
	w.clk.Advance(2 * day)
	w.work()
	testdb.Compact(t, w.db)
	if _, err := w.db.Memories().History(ctx, supportAgent.Scope(), first.MemoryID); err == nil {
		t.Error("the history is there: nothing was tried")
	}
	look("without the history", true)
}

// TestTextsOfManyMessages: what one commit may write is not all that is left behind.
func TestTextsOfManyMessages(t *testing.T) {
	t.Parallel() // Compact waits
	w := newTalk(t)
	testdb.SetPolicy(t, w.db, func(p *policy.Policy) { p.History, p.Trash = policy.Span(time.Hour), 0 })
	var all []sessions.Message
	for i := range 2500 {
		all = append(all, sessions.Message{Role: []string{"user", "assistant"}[i%2], Text: fmt.Sprint("text ", i%3)})
	}
	first := w.appendTo("long", all[:1], nil)[0]
	all = all[1:]
	for len(all) > 0 {
		n := min(len(all), 500)
		w.appendTo("long", all[:n], nil)
		all = all[n:]
	}
	want := w.items("long")
	w.clk.Advance(time.Hour)
	if r, err := w.db.Evict(t.Context(), &engine.EvictOptions{MaxAge: new(time.Second), MinImportance: new(1.0)}); err != nil || r.Evicted != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.work() // what Retain keeps ends
	lsn := w.db.LSN()
	testdb.Compact(t, w.db)
	if _, err := w.db.Memories().History(t.Context(), supportAgent.Scope(), first.MemoryID); err == nil {
		t.Fatal("the history is there: nothing was tried")
	}
	testdb.Equal(t, "items", w.items("long"), want)
	if n := w.db.LSN() - lsn; n < 3 {
		t.Errorf("%d commits for 2,500 messages", n)
	}
	testdb.Check(t, w.db, 0)
}
