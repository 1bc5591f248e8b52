package sessions_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// TestSessionList: lists are by the last update, page by page, and by channel.
func TestSessionList(t *testing.T) {
	w := newTalk(t)
	s, ctx := w.db.Sessions(), t.Context()
	for i, channel := range []string{"telegram", "discord", "telegram", ""} {
		w.clk.Advance(time.Second)
		w.appendTo(fmt.Sprint("s", i), []sessions.Message{{Text: "hello"}}, &sessions.AppendOptions{Channel: channel})
	}
	testdb.Equal(t, "all", w.names(sessions.Query{}), []string{"s3", "s2", "s1", "s0"})
	w.say("s1", "user", "again")
	testdb.Equal(t, "after an append", w.names(sessions.Query{Limit: 1}), []string{"s1", "s3", "s2", "s0"})
	testdb.Equal(t, "of a channel", w.names(sessions.Query{Channel: "telegram"}), []string{"s2", "s0"})

	of, err := s.OpenChannel(ctx, supportAgent, "telegram")
	if err != nil || of.Session != "s2" {
		t.Errorf("%+v, %v", of, err)
	}
	if err := errors.Join(s.Close(ctx, supportAgent, "s2"), s.Archive(ctx, supportAgent, "s0")); err != nil {
		t.Fatal(err)
	}
	_, err = s.Append(ctx, supportAgent, "s2", []sessions.Message{{Text: "x"}}, nil)
	testdb.WantError(t, "append to a closed session", err, memory.ErrConflict)
	fresh, err := s.OpenChannel(ctx, supportAgent, "telegram")
	if err != nil || fresh.Channel != "telegram" || fresh.Messages != 0 || slices.Contains([]string{"s0", "s2"}, fresh.Session) {
		t.Errorf("%+v, %v", fresh, err)
	}
	testdb.Equal(t, "archived", w.names(sessions.Query{Archived: true}), []string{"s0"})
	if slices.Contains(w.names(sessions.Query{}), "s0") {
		t.Error("an archived session is listed")
	}
	if o, err := s.Open(ctx, supportAgent, "s0", nil); err != nil || o.Closed || o.Archived || o.Messages != 1 {
		t.Errorf("opened again: %+v, %v", o, err)
	}
	if err := s.SetMetadata(ctx, supportAgent, "s0", json.RawMessage(`{"lang": "nl"}`)); err != nil {
		t.Fatal(err)
	}
	w.say("s0", "user", "more")
	if o, err := s.Get(ctx, supportAgent, "s0"); err != nil || string(o.Metadata) != `{"lang":"nl"}` || o.Messages != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	testdb.WantError(t, "metadata", s.SetMetadata(ctx, supportAgent, "s0", json.RawMessage(`[]`)), memory.ErrInvalid)
	w.reopen()
	testdb.Check(t, w.db, 6)
	if n := len(w.names(sessions.Query{})); n != 5 {
		t.Errorf("%d sessions", n)
	}
	stats, err := w.db.Stats(ctx)
	if err != nil || stats.Parts["sessions"] != 5 {
		t.Error(stats.Parts, err)
	}
}

// TestSessionListOfThePast: a list in a View of a past state has the sessions of then, in
// their order, page by page, also those that were archived, deleted or made anew since.
func TestSessionListOfThePast(t *testing.T) {
	clock := testdb.NewClock()
	db, ctx := testdb.Open(t, vfs.NewMem(), engine.Options{Clock: clock.Now, Retain: 24 * time.Hour}), t.Context()
	s := db.Sessions()
	say := func(name, text string) {
		t.Helper()
		clock.Advance(time.Second)
		if _, err := s.Append(ctx, supportAgent, name, []sessions.Message{{Text: text}}, &sessions.AppendOptions{Channel: "c" + name[:1], NoMemory: true}); err != nil {
			t.Fatal(err)
		}
	}
	queries := []sessions.Query{{}, {Archived: true}, {Channel: "ca"}, {Channel: "ca", Archived: true}, {Limit: 2}}
	lists := func(s engine.Sessions) (all []string) {
		for _, q := range queries {
			q.Owner = supportAgent
			var names []string
			for of, err := range s.All(ctx, q) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, fmt.Sprint(of.Session, ":", of.Messages))
			}
			all = append(all, strings.Join(names, " "))
		}
		return all
	}
	type state struct {
		lsn  uint64
		want []string
	}
	var states []state
	note := func() { states = append(states, state{db.LSN(), lists(s)}) }
	rng := rand.New(rand.NewPCG(7, 7))
	for step := range 60 {
		name := fmt.Sprint([]string{"a", "b"}[rng.IntN(2)], rng.IntN(5))
		switch rng.IntN(6) {
		case 0:
			clock.Advance(time.Second)
			if _, err := s.Delete(ctx, supportAgent, name, nil); err != nil && !errors.Is(err, memory.ErrNotFound) {
				t.Fatal(err)
			}
		case 1:
			clock.Advance(time.Second)
			if err := s.Archive(ctx, supportAgent, name); err != nil && !errors.Is(err, memory.ErrNotFound) {
				t.Fatal(err)
			}
		default:
			if at, err := s.Get(ctx, supportAgent, name); err == nil && at.Closed {
				if _, err := s.Open(ctx, supportAgent, name, nil); err != nil {
					t.Fatal(err)
				}
			}
			say(name, fmt.Sprint("text ", step))
		}
		note()
	}
	if err := sessions.Work(ctx, s.Sessions, 0); err != nil {
		t.Fatal(err)
	}
	for _, at := range states {
		err := db.ViewAt(ctx, at.lsn, func(tx *engine.Tx) error {
			if got := lists(tx.Sessions()); !slices.Equal(got, at.want) {
				t.Errorf("as of %d: %q, want %q", at.lsn, got, at.want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
