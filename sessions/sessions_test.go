package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

var supportAgent = memory.Owner{Agent: "support"}

// talk is a database with sessions, and a clock that the test moves.
type talk struct {
	t   *testing.T
	fs  *crashfs.Disk
	clk *testdb.Clock
	db  *engine.DB
}

func newTalk(t *testing.T) *talk {
	w := &talk{t: t, fs: crashfs.NewDisk(), clk: testdb.NewClock()}
	w.open()
	t.Cleanup(func() { testdb.Close(t, w.db) })
	return w
}

func (w *talk) open() {
	w.t.Helper()
	w.db = testdb.Open(w.t, w.fs, engine.Options{Clock: w.clk.Now, Retain: time.Hour})
}

func (w *talk) reopen() {
	w.t.Helper()
	testdb.Close(w.t, w.db)
	w.open()
}

// crash goes on with what a crash at this instant leaves.
func (w *talk) crash(r *rand.Rand) {
	w.t.Helper()
	clone := w.fs.Lose(r.IntN(2)*50, r)
	testdb.Close(w.t, w.db)
	w.fs = clone
	w.open()
}

// say appends one message and moves the clock by a second.
func (w *talk) say(name, role, text string) sessions.Appended {
	w.t.Helper()
	w.clk.Advance(time.Second)
	return w.appendTo(name, []sessions.Message{{Role: role, Text: text}}, nil)[0]
}

func (w *talk) appendTo(name string, m []sessions.Message, o *sessions.AppendOptions) []sessions.Appended {
	w.t.Helper()
	out, err := w.db.Sessions().Append(w.t.Context(), supportAgent, name, m, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// items is what a session holds, as lines such as "user: hello".
func (w *talk) items(name string) []string {
	w.t.Helper()
	return itemsOf(w.t, w.db.Sessions(), name)
}

func itemsOf(t *testing.T, s engine.Sessions, name string) (lines []string) {
	t.Helper()
	for i, err := range s.Items(context.Background(), supportAgent, name) {
		switch {
		case err != nil:
			t.Fatal(err)
		case i.Marker != nil:
			lines = append(lines, fmt.Sprintf("--- %d", i.Marker.Summarized))
		default:
			lines = append(lines, i.Message.Role+": "+i.Message.Text)
		}
	}
	return lines
}

func (w *talk) names(q sessions.Query) (names []string) {
	w.t.Helper()
	q.Owner = supportAgent
	for s, err := range w.db.Sessions().All(w.t.Context(), q) {
		if err != nil {
			w.t.Fatal(err)
		}
		names = append(names, s.Session)
	}
	return names
}

func (w *talk) memories() int {
	w.t.Helper()
	n, err := w.db.Memories().Count(w.t.Context(), memory.ListQuery{Scope: supportAgent.Scope()})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// TestSessionJSON: what is loaded marshals to what a save takes, and is read as what it was.
func TestSessionJSON(t *testing.T) {
	w := newTalk(t)
	s, ctx := w.db.Sessions(), t.Context()
	w.turns("s", 0, 12)
	w.compact("s", &sessions.CompactOptions{Threshold: 10, KeepRecent: 4})
	w.appendTo("s", []sessions.Message{{Role: "assistant", Parts: json.RawMessage(`[{"type":"image"}]`), ToolCalls: json.RawMessage(`[{"id":"c"}]`), Extra: json.RawMessage(`{"refusal":null}`)}}, nil)
	want := []sessions.Item{}
	for i, err := range s.Items(ctx, supportAgent, "s") {
		testdb.NoError(t, err)
		want = append(want, i)
	}
	b, err := json.Marshal(want)
	testdb.NoError(t, err)
	var got []sessions.Item
	testdb.NoError(t, json.Unmarshal(b, &got))
	if n, err := s.Save(ctx, supportAgent, "again", got, nil); err != nil || n != 13 {
		t.Fatal(n, err)
	}
	testdb.Equal(t, "items", w.items("again"), w.items("s"))
	l, err := s.Load(ctx, supportAgent, "s", nil)
	testdb.NoError(t, err)
	if b, err = json.Marshal(l); err != nil {
		t.Fatal(err)
	}
	var keys struct {
		Session struct {
			Type, Session, Agent string
			Messages             int
		}
		Marker   struct{ Type string }
		Messages []sessions.Message
	}
	testdb.NoError(t, json.Unmarshal(b, &keys))
	if keys.Session.Type != "session" || keys.Session.Session != "s" || keys.Session.Agent != "support" || keys.Session.Messages != 13 || keys.Marker.Type != "marker" ||
		len(keys.Messages) != 5 || string(keys.Messages[4].ToolCalls) != `[{"id":"c"}]` || string(keys.Messages[4].Extra) != `{"refusal":null}` || keys.Messages[0].Text != l.Messages[0].Text {
		t.Errorf("%s", b)
	}
	var official sessions.Message
	testdb.NoError(t, json.Unmarshal([]byte(`{"role":"user","content":[{"type":"text","text":"hello"}]}`), &official))
	if official.Content() != "hello" {
		t.Errorf("%+v", official)
	}
}

// TestSessionRefused: what is refused changes nothing, and says what to do.
func TestSessionRefused(t *testing.T) {
	w := newTalk(t)
	w.appendTo("monday", []sessions.Message{{Text: "hello"}}, &sessions.AppendOptions{Channel: "telegram"})
	lsn, s, ctx := w.db.LSN(), w.db.Sessions(), t.Context()
	say := func(o memory.Owner, name string, m sessions.Message, opts *sessions.AppendOptions) error {
		_, err := s.Append(ctx, o, name, []sessions.Message{m}, opts)
		return err
	}
	long := strings.Repeat("x", 1<<20)
	hello := sessions.Message{Text: "hello"}
	for _, c := range []struct {
		name string
		err  error
		kind error
	}{
		{"no owner", say(memory.Owner{}, "monday", hello, nil), memory.ErrScope},
		{"no name", say(supportAgent, "", hello, nil), memory.ErrInvalid},
		{"a name of 1 MB", say(supportAgent, long, hello, nil), memory.ErrInvalid},
		{"a message ID of 1 MB", say(supportAgent, "monday", sessions.Message{ID: long, Text: "x"}, nil), memory.ErrInvalid},
		{"a memory ID of 1 MB", say(supportAgent, "monday", sessions.Message{MemoryIDs: []string{long}}, nil), memory.ErrInvalid},
		{"a channel of 1 MB", say(supportAgent, "monday", hello, &sessions.AppendOptions{Channel: long}), memory.ErrInvalid},
		{"another channel", say(supportAgent, "monday", hello, &sessions.AppendOptions{Channel: "discord"}), memory.ErrConflict},
		{"an unknown role", say(supportAgent, "monday", sessions.Message{Role: "alien", Text: "x"}, &sessions.AppendOptions{Strict: true}), memory.ErrInvalid},
		{"an empty message", say(supportAgent, "monday", sessions.Message{}, nil), memory.ErrInvalid},
		{"an unknown memory", say(supportAgent, "monday", sessions.Message{MemoryIDs: []string{"m"}}, nil), memory.ErrNotFound},
		{"no JSON", say(supportAgent, "monday", sessions.Message{Parts: json.RawMessage(`{`)}, nil), memory.ErrInvalid},
		{"a negative trim", say(supportAgent, "monday", hello, &sessions.AppendOptions{TrimRemoves: -1}), memory.ErrInvalid},
		{"a time before year 1", say(supportAgent, "monday", sessions.Message{Text: "x", At: time.UnixMilli(-1 << 60)}, nil), memory.ErrInvalid},
		{"close an unknown one", s.Close(ctx, supportAgent, "friday"), memory.ErrNotFound},
		{"close another owner's", s.Close(ctx, memory.Owner{Agent: "other"}, "monday"), memory.ErrNotFound},
	} {
		testdb.WantError(t, c.name, c.err, c.kind)
		if e, ok := errors.AsType[*memory.Error](c.err); ok && !errors.Is(c.kind, memory.ErrScope) && e.Do == "" {
			t.Errorf("%s: %v does not say what to do", c.name, c.err)
		}
	}
	for _, win := range []sessions.Window{{Last: -1}, {Tokens: -1}, {Whole: true, Last: 3}} {
		_, err := s.Load(ctx, supportAgent, "monday", &win)
		testdb.WantError(t, "a bad window", err, memory.ErrInvalid)
	}
	_, err := s.Load(ctx, memory.Owner{Agent: "other"}, "monday", nil)
	testdb.WantError(t, "another owner's session", err, memory.ErrNotFound)
	_, err = s.List(ctx, sessions.Query{Owner: supportAgent, After: "!"})
	testdb.WantError(t, "a bad mark", err, memory.ErrInvalid)
	if w.db.LSN() != lsn {
		t.Errorf("refused calls have committed %d times", w.db.LSN()-lsn)
	}
	testdb.Equal(t, "items", w.items("monday"), []string{"user: hello"})
}

// TestSessionWindow: the window is the newest messages, by number or by tokens.
func TestSessionWindow(t *testing.T) {
	w := newTalk(t)
	for i := range 50 {
		w.say("monday", "user", fmt.Sprintf("m%02d", i))
	}
	words := func(s string) int { return 10 }
	for _, c := range []struct {
		win   *sessions.Window
		first string
		n     int
	}{
		{nil, "m30", 20},
		{&sessions.Window{Last: 3}, "m47", 3},
		{&sessions.Window{Last: 100}, "m00", 50},
		{&sessions.Window{Whole: true}, "m00", 50},
		{&sessions.Window{Tokens: 45, Count: words}, "m46", 4},
		{&sessions.Window{Tokens: 405, Count: words}, "m10", 40}, // over several blocks
		{&sessions.Window{Tokens: 45, Count: words, Last: 2}, "m48", 2},
		{&sessions.Window{Tokens: 10_000}, "m00", 50},
		{&sessions.Window{Tokens: 9, Count: words}, "", 0},
	} {
		s, err := w.db.Sessions().Load(t.Context(), supportAgent, "monday", c.win)
		if err != nil || len(s.Messages) != c.n || c.n > 0 && (s.Messages[0].Text != c.first || s.Messages[c.n-1].Text != "m49") {
			t.Errorf("%+v: %d messages, %v", c.win, len(s.Messages), err)
		}
	}
	// When a session exceeds 20 messages, the oldest are removed.
	out := w.appendTo("monday", []sessions.Message{{Text: "m50"}}, &sessions.AppendOptions{TrimRemoves: 20})
	if out[0].Messages != 20 || w.items("monday")[0] != "user: m31" {
		t.Errorf("after a trim: %+v, %v", out, w.items("monday"))
	}
	testdb.Check(t, w.db, 51)
}

// TestSessionDelete: a session goes with or without its memories; what another run has stays.
func TestSessionDelete(t *testing.T) {
	w := newTalk(t)
	ctx := t.Context()
	testdb.Store(t, w.db.Memories(), memory.Memory{ID: "shared", Scope: memory.Scope{Agent: "support", Run: "other"}, Text: "shared"})
	w.say("monday", "user", "one")
	w.say("monday", "user", "two")
	w.appendTo("monday", []sessions.Message{{MemoryIDs: []string{"shared"}}}, nil)
	w.say("tuesday", "user", "three")
	d, err := w.db.Sessions().Delete(ctx, supportAgent, "monday", nil)
	if err != nil || d != (sessions.Deleted{Deleted: 1, Messages: 3}) || w.memories() != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	_, err = w.db.Sessions().Get(ctx, supportAgent, "monday")
	testdb.WantError(t, "a deleted session", err, memory.ErrNotFound)
	testdb.Equal(t, "list", w.names(sessions.Query{}), []string{"tuesday"})
	w.say("monday", "user", "again") // another session of that name
	w.appendTo("monday", []sessions.Message{{MemoryIDs: []string{"shared"}}}, nil)
	testdb.Equal(t, "items", w.items("monday"), []string{"user: again", "user: shared"})
	d, err = w.db.Sessions().Delete(ctx, supportAgent, "monday", &sessions.DeleteOptions{Memories: true})
	if err != nil || d != (sessions.Deleted{Deleted: 1, Messages: 2, Memories: 1}) || w.memories() != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	testdb.Check(t, w.db, 4)
	w.work()
	testdb.Check(t, w.db, 4)
	if n := w.keysOf("monday"); n != 0 {
		t.Errorf("%d keys of a deleted session are left", n)
	}
	testdb.Equal(t, "items of the other", w.items("tuesday"), []string{"user: three"})
}

// work lets the retention pass, and does what the parts have to do then.
func (w *talk) work() {
	w.t.Helper()
	w.clk.Advance(2 * time.Hour)
	testdb.Store(w.t, w.db.Memories(), memory.Memory{ID: "tick", Scope: memory.Scope{User: "clock"}, Text: "tick"})
	w.clk.Advance(2 * time.Hour)
	if err := w.db.Memories().Delete(w.t.Context(), memory.Scope{User: "clock"}, "tick"); err != nil {
		w.t.Fatal(err)
	}
	testdb.NoError(w.t, sessions.Work(w.t.Context(), w.db.Sessions().Sessions, w.db.LSN()))
}

// keysOf counts the keys of the parts that belong to a session.
func (w *talk) keysOf(name string) int {
	w.t.Helper()
	n, err := sessions.CountKeys(w.t.Context(), w.db.Sessions().Sessions, supportAgent, name)
	testdb.NoError(w.t, err)
	return n
}

// TestSessionOrphan: a message whose memory is gone keeps its text while the history does.
func TestSessionOrphan(t *testing.T) {
	w := newTalk(t)
	a := w.say("monday", "user", "the key is under the mat")
	if err := w.db.Memories().Delete(t.Context(), supportAgent.Scope(), a.MemoryID); err != nil {
		t.Fatal(err)
	}
	w.work()
	s, err := w.db.Sessions().Load(t.Context(), supportAgent, "monday", nil)
	if err != nil || !s.Messages[0].Orphan || s.Messages[0].Text != "the key is under the mat" || s.Messages[0].MemoryID() != a.MemoryID {
		t.Errorf("%+v, %v", s.Messages, err)
	}
	testdb.Check(t, w.db, 0)
}

// TestSessionAsOf: a state of the past shows the messages and sessions of then.
func TestSessionAsOf(t *testing.T) {
	w := newTalk(t)
	type state struct {
		lsn   uint64
		items []string
		info  sessions.Session
	}
	var states []state
	note := func() {
		i, err := w.db.Sessions().Get(t.Context(), supportAgent, "monday")
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, state{w.db.LSN(), w.items("monday"), i})
	}
	for i := range 9 {
		w.say("monday", "user", fmt.Sprint("text ", i))
		note()
		if i == 4 {
			w.appendTo("monday", []sessions.Message{{Text: "cut"}}, &sessions.AppendOptions{TrimRemoves: 3})
			note()
			if err := w.db.Sessions().SetMetadata(t.Context(), supportAgent, "monday", json.RawMessage(`{"a":1}`)); err != nil {
				t.Fatal(err)
			}
			note()
		}
	}
	if _, err := w.db.Sessions().Delete(t.Context(), supportAgent, "monday", nil); err != nil {
		t.Fatal(err)
	}
	gone := w.db.LSN()
	w.say("monday", "user", "anew")
	for _, at := range states {
		err := w.db.ViewAt(t.Context(), at.lsn, func(past *engine.Tx) error {
			testdb.Equal(t, fmt.Sprint("items as of ", at.lsn), itemsOf(t, past.Sessions(), "monday"), at.items)
			i, err := past.Sessions().Get(t.Context(), supportAgent, "monday")
			i.Version, at.info.Version = 0, 0
			if fmt.Sprint(i) != fmt.Sprint(at.info) {
				t.Errorf("as of %d: %+v, want %+v", at.lsn, i, at.info)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := w.db.ViewAt(t.Context(), gone, func(past *engine.Tx) error {
		_, err := past.Sessions().Get(t.Context(), supportAgent, "monday")
		return err
	})
	testdb.WantError(t, "as of the delete", err, memory.ErrNotFound)
}

// TestSessionLines: an export and an import keep all that a session is, and a second import
// changes nothing.
func TestSessionLines(t *testing.T) {
	w := newTalk(t)
	ctx := t.Context()
	w.appendTo("monday", []sessions.Message{{Text: "hello"}, {Role: "assistant", Text: "hi", Parts: json.RawMessage(`{"n":1e400}`)}}, &sessions.AppendOptions{Channel: "telegram"})
	gone := w.say("monday", "user", "forget this")
	w.appendTo("monday", []sessions.Message{{Text: "own"}}, &sessions.AppendOptions{NoMemory: true})
	if err := w.db.Memories().Delete(ctx, supportAgent.Scope(), gone.MemoryID); err != nil {
		t.Fatal(err)
	}
	if err := w.db.Sessions().Archive(ctx, supportAgent, "monday"); err != nil {
		t.Fatal(err)
	}
	export := func(db *engine.DB) (lines []string) {
		err := db.View(ctx, func(tx *engine.Tx) error {
			return tx.Lines(memory.Scope{}, nil, func(l engine.Line) error {
				b, err := json.Marshal(l)
				lines = append(lines, string(b))
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	lines := export(w.db)
	other := newTalk(t)
	for _, m := range testdb.List(t, w.db.Memories(), supportAgent.Scope()) {
		testdb.Store(t, other.db.Memories(), m)
	}
	load := func() (outcomes []memory.Stored) {
		for _, text := range lines {
			var head struct{ Type string }
			_ = json.Unmarshal([]byte(text), &head)
			l := other.db.NewLine(head.Type)
			if err := json.Unmarshal([]byte(text), l); err != nil {
				t.Fatal(err)
			}
			err := other.db.Update(ctx, func(tx *engine.Tx) error {
				s, err := tx.StoreLine(l, false)
				outcomes = append(outcomes, s)
				return err
			})
			if err != nil {
				t.Fatal(text, err)
			}
		}
		return outcomes
	}
	if o := load(); len(o) != 5 || !o[0].Stored || !o[4].Stored {
		t.Errorf("%+v", o)
	}
	testdb.Equal(t, "lines", export(other.db), lines)
	for i, s := range load() {
		if s.Stored || s.Updated {
			t.Errorf("line %d again: %+v", i, s)
		}
	}
	testdb.Check(t, other.db, 2)
}

// TestSessionModel plays random calls on sessions against lists of texts.
func TestSessionModel(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	w := newTalk(t)
	model := map[string][]string{}
	s, ctx := w.db.Sessions(), t.Context()
	for step := range 400 {
		name := fmt.Sprint("s", r.IntN(4))
		switch n := r.IntN(20); {
		case n < 12:
			var m []sessions.Message
			for range 1 + r.IntN(3) {
				m = append(m, sessions.Message{Role: "user", Text: fmt.Sprint("text ", r.IntN(30))})
				model[name] = append(model[name], "user: "+m[len(m)-1].Text)
			}
			o := &sessions.AppendOptions{NoMemory: r.IntN(2) == 0, TrimRemoves: r.IntN(2) * r.IntN(20)}
			w.appendTo(name, m, o)
			if all := model[name]; o.TrimRemoves > 0 && len(all) > o.TrimRemoves {
				model[name] = all[len(all)-o.TrimRemoves:]
			}
		case n < 13:
			_, err := s.Delete(ctx, supportAgent, name, &sessions.DeleteOptions{Memories: r.IntN(2) == 0})
			if _, there := model[name]; (err == nil) != there {
				t.Fatalf("step %d: delete: %v, there %v", step, err, there)
			}
			delete(model, name)
		case n < 14:
			if r.IntN(2) == 0 {
				w.reopen()
			} else {
				w.crash(r)
			}
			s = w.db.Sessions()
		case n < 15:
			w.work()
		default:
			if _, there := model[name]; there {
				testdb.Equal(t, fmt.Sprintf("step %d: %s", step, name), w.items(name), model[name])
			}
		}
		if len(w.names(sessions.Query{})) != len(model) {
			t.Fatalf("step %d: sessions %v, want %d", step, w.names(sessions.Query{}), len(model))
		}
	}
	for name, want := range model {
		testdb.Equal(t, name, w.items(name), want)
	}
	testdb.Check(t, w.db, w.memories())
}

// TestSessionCheck: check finds each kind of damage that is done to a session.
func TestSessionCheck(t *testing.T) {
	for _, c := range []struct {
		kind byte
		says string
	}{{'S', "there is no session"}, {'G', "its state"}, {'T', "is not there"}, {'U', "a list lacks it"}, {'J', "not found by its ID"}} {
		w := newTalk(t)
		w.say("monday", "user", "hello")
		w.say("monday", "user", "there")
		testdb.NoError(t, sessions.Drop(t.Context(), w.db.Sessions().Sessions, c.kind))
		report, err := w.db.Check(t.Context())
		if err != nil || !slices.ContainsFunc(report.Problems, func(p engine.Problem) bool { return strings.Contains(p.What, c.says) }) {
			t.Errorf("%c: %v, %v", c.kind, report.Problems, err)
		}
	}
}
