package sessions_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

func TestSessionUpdatesSessionMetadataIfSessionIDProvided(t *testing.T) {
	w := newTalk(t)
	lsn := w.db.LSN()
	s, a, err := w.db.Sessions().StoreMemory(t.Context(), memory.Memory{Scope: memory.Scope{Agent: "support", Run: "session-456"}, Text: "User asked about pricing plans", Metadata: map[string]any{"n": 1.0}}, nil, sessions.Message{}, nil)
	if err != nil || !s.Stored || a.MemoryID != s.ID || a.Messages != 1 || w.db.LSN() != lsn+1 {
		t.Errorf("%+v, %+v, %v", s, a, err)
	}
	again, b, err := w.db.Sessions().StoreMemory(t.Context(), memory.Memory{Scope: memory.Scope{Agent: "support", Run: "session-456"}, Text: "User asked about pricing plans"}, nil, sessions.Message{}, nil)
	if err != nil || !again.Deduplicated || again.ID != s.ID || b.Messages != 2 {
		t.Errorf("%+v, %+v, %v", again, b, err)
	}
	testdb.Check(t, w.db, 1)
}

func TestSessionListsAllSessionsForASpecificAgent(t *testing.T) {
	w := newTalk(t)
	w.say("a", "user", "x")
	w.say("b", "user", "x")
	if _, err := w.db.Sessions().Append(t.Context(), memory.Owner{Agent: "other"}, "c", []sessions.Message{{Text: "x"}}, nil); err != nil {
		t.Fatal(err)
	}
	testdb.Equal(t, "sessions", w.names(sessions.Query{}), []string{"b", "a"})
}

func TestSessionGetOrCreate(t *testing.T) {
	w := newTalk(t)
	s, err := w.db.Sessions().Open(t.Context(), supportAgent, "s", nil)
	if err != nil || s.Messages != 0 || s.CreatedAt.IsZero() {
		t.Errorf("if no session exists, a new one is created with an empty message list: %+v, %v", s, err)
	}
	w.say("s", "user", "x")
	s, err = w.db.Sessions().Open(t.Context(), supportAgent, "s", nil)
	if err != nil || s.Messages != 1 {
		t.Errorf("the session is loaded: %+v, %v", s, err)
	}
}

func TestSessionsAreChannelScoped(t *testing.T) {
	w := newTalk(t)
	one, err := w.db.Sessions().OpenChannel(t.Context(), supportAgent, "telegram")
	two, other := w.db.Sessions().OpenChannel(t.Context(), supportAgent, "discord")
	if err := errors.Join(err, other); err != nil || one.Session == two.Session {
		t.Errorf("%+v, %+v, %v", one, two, err)
	}
	w.say(one.Session, "user", "secret")
	if items := w.items(two.Session); len(items) != 0 {
		t.Errorf("context leaks across channels: %q", items)
	}
}

func TestTheConversationContinuesWhereItWas(t *testing.T) {
	w := newTalk(t)
	for i := range 3 {
		w.say("s", "user", fmt.Sprint("question ", i))
		w.say("s", "assistant", fmt.Sprint("answer ", i))
		w.reopen() // after every loop of the agent
		l, err := w.db.Sessions().Load(t.Context(), supportAgent, "s", nil)
		if err != nil || len(l.Messages) != 2*(i+1) || l.Messages[2*i+1].Text != fmt.Sprint("answer ", i) || l.Session.UpdatedAt.Before(l.Session.CreatedAt) {
			t.Errorf("%+v, %v", l, err)
		}
	}
}

func TestOldSessionsAreArchivedAndExported(t *testing.T) {
	w := newTalk(t)
	w.say("old", "user", "hello")
	w.say("new", "user", "hello")
	if err := w.db.Sessions().Archive(t.Context(), supportAgent, "old"); err != nil {
		t.Fatal(err)
	}
	testdb.Equal(t, "sessions", w.names(sessions.Query{}), []string{"new"})
	testdb.Equal(t, "archived sessions", w.names(sessions.Query{Archived: true}), []string{"old"})
	var exported []string
	err := w.db.View(t.Context(), func(tx *engine.Tx) error {
		return tx.Lines(supportAgent.Scope(), nil, func(l engine.Line) error {
			exported = append(exported, l.Type())
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	testdb.Equal(t, "exported", exported, []string{"session", "message", "session", "message"})
}
