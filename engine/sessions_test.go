package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

var supportAgent = memory.Owner{Agent: "support"}

// talk is a database with sessions, and a clock that the test moves.
type talk struct {
	t   *testing.T
	fs  *crashfs.Disk
	clk *testClock
	db  *DB
}

func newTalk(t *testing.T) *talk {
	w := &talk{t: t, fs: crashfs.NewDisk(), clk: newTestClock()}
	w.open()
	t.Cleanup(func() { closeTest(t, w.db) })
	return w
}

func (w *talk) open() {
	w.t.Helper()
	w.db = openTest(w.t, w.fs, Options{Clock: w.clk.now, Retain: time.Hour})
}

func (w *talk) reopen() {
	w.t.Helper()
	closeTest(w.t, w.db)
	w.open()
}

// crash goes on with what a crash at this instant leaves.
func (w *talk) crash(r *rand.Rand) {
	w.t.Helper()
	clone := w.fs.Lose(r.IntN(2)*50, r)
	closeTest(w.t, w.db)
	w.fs = clone
	w.open()
}

// say appends one message and moves the clock by a second.
func (w *talk) say(name, role, text string) sessions.Appended {
	w.t.Helper()
	w.clk.advance(time.Second)
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

func itemsOf(t *testing.T, s Sessions, name string) (lines []string) {
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

// TestSessionAppend: a message and its memory are one commit, and a repeated text is one
// memory and two messages.
func TestSessionAppend(t *testing.T) {
	w := newTalk(t)
	before := w.db.LSN()
	first := w.say("monday", "user", "yes")
	if w.db.LSN() != before+1 || !first.Stored || first.Deduplicated || first.Messages != 1 || first.Session != "monday" {
		t.Errorf("%d commits: %+v", w.db.LSN()-before, first)
	}
	again := w.say("monday", "assistant", "yes")
	if again.Stored || !again.Deduplicated || again.MemoryID != first.MemoryID || again.MessageID == first.MessageID || again.Messages != 2 {
		t.Errorf("repeated: %+v", again)
	}
	m, err := w.db.Memories().Get(t.Context(), supportAgent.Scope(), first.MemoryID)
	if err != nil || m.Scope.Run != "monday" || m.Role != memory.RoleUser || m.Text != "yes" {
		t.Errorf("%+v, %v", m, err)
	}
	own := w.appendTo("monday", []sessions.Message{{Role: "tool", Parts: json.RawMessage(`[{"type": "tool_result", "n": 1.50}]`)}, {ID: "m4", Text: "no"}}, &sessions.AppendOptions{NoMemory: true})
	if own[0].MemoryID != "" || own[1].MessageID != "m4" || own[1].Messages != 4 || w.memories() != 1 {
		t.Errorf("without memories: %+v", own)
	}
	refers := w.appendTo("monday", []sessions.Message{{Role: "system", MemoryIDs: []string{first.MemoryID}}}, nil)[0]
	if refers.MemoryID != first.MemoryID || refers.Stored || refers.Deduplicated {
		t.Errorf("refers: %+v", refers)
	}
	want := []string{"user: yes", "assistant: yes", "tool: ", "user: no", "system: yes"}
	equalSlices(t, "items", w.items("monday"), want)
	mustCheck(t, w.db, 1)
	w.reopen()
	equalSlices(t, "items after a reopen", w.items("monday"), want)
	mustCheck(t, w.db, 1)
	s, err := w.db.Sessions().Load(t.Context(), supportAgent, "monday", nil)
	if err != nil || string(s.Messages[2].Parts) != `[{"type":"tool_result","n":1.50}]` || s.Session.Messages != 5 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestSessionAppendParts: what the parts of a message say in words is a memory, too, and stays
// where it is said.
func TestSessionAppendParts(t *testing.T) {
	w := newTalk(t)
	parts := json.RawMessage(`[{"type":"text","text":"the harbour at dawn"},{"type":"image","source":{}}]`)
	call := json.RawMessage(`[{"type":"tool_use","id":"c","name":"look","input":{"q":"harbour"}}]`)
	out := w.appendTo("s", []sessions.Message{{ID: "m", Parts: parts}, {Role: "assistant", Parts: call}, {Role: "assistant", ToolCalls: json.RawMessage(`[{"id":"d"}]`), Name: "bot"}}, nil)
	if !out[0].Stored || out[0].MemoryID == "" || out[1].MemoryID != "" || out[2].MemoryID != "" {
		t.Errorf("%+v", out)
	}
	hits, err := w.db.Memories().Recall(t.Context(), memory.Query{Scopes: []memory.Scope{supportAgent.Scope()}, Text: "harbour dawn", Profile: "text"})
	if err != nil || len(hits.Hits) != 1 || hits.Hits[0].ID != out[0].MemoryID {
		t.Errorf("%+v, %v", hits, err)
	}
	if again := w.appendTo("s", []sessions.Message{{ID: "m", Parts: parts}}, nil)[0]; !again.Repeated {
		t.Errorf("again: %+v", again)
	}
	check := func(what string) {
		t.Helper()
		l, err := w.db.Sessions().Load(t.Context(), supportAgent, "s", nil)
		if err != nil || len(l.Messages) != 3 || l.Messages[0].Text != "" || string(l.Messages[0].Parts) != string(parts) || l.Messages[0].MemoryID() != out[0].MemoryID ||
			l.Messages[0].Orphan || string(l.Messages[2].ToolCalls) != `[{"id":"d"}]` || l.Messages[2].Name != "bot" {
			t.Errorf("%s: %+v, %v", what, l.Messages, err)
		}
	}
	check("appended")
	var items []sessions.Item
	for i, err := range w.db.Sessions().Items(t.Context(), supportAgent, "s") {
		noError(t, err)
		items = append(items, i)
	}
	if _, err := w.db.Sessions().Save(t.Context(), supportAgent, "s", items, nil); err != nil {
		t.Fatal(err)
	}
	check("saved again")
	mustCheck(t, w.db, 1)
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
		noError(t, err)
		want = append(want, i)
	}
	b, err := json.Marshal(want)
	noError(t, err)
	var got []sessions.Item
	noError(t, json.Unmarshal(b, &got))
	if n, err := s.Save(ctx, supportAgent, "again", got, nil); err != nil || n != 13 {
		t.Fatal(n, err)
	}
	equalSlices(t, "items", w.items("again"), w.items("s"))
	l, err := s.Load(ctx, supportAgent, "s", nil)
	noError(t, err)
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
	noError(t, json.Unmarshal(b, &keys))
	if keys.Session.Type != "session" || keys.Session.Session != "s" || keys.Session.Agent != "support" || keys.Session.Messages != 13 || keys.Marker.Type != "marker" ||
		len(keys.Messages) != 5 || string(keys.Messages[4].ToolCalls) != `[{"id":"c"}]` || string(keys.Messages[4].Extra) != `{"refusal":null}` || keys.Messages[0].Text != l.Messages[0].Text {
		t.Errorf("%s", b)
	}
	var official sessions.Message
	noError(t, json.Unmarshal([]byte(`{"role":"user","content":[{"type":"text","text":"hello"}]}`), &official))
	if official.Content() != "hello" {
		t.Errorf("%+v", official)
	}
}

// TestSessionToolsStayTogether: no window, trim or compaction parts the call of a tool from its
// results, in either form.
func TestSessionToolsStayTogether(t *testing.T) {
	w := newTalk(t)
	s, ctx := w.db.Sessions(), t.Context()
	forms := map[string]func(n int) []sessions.Message{
		"anthropic": func(n int) []sessions.Message {
			return []sessions.Message{
				{Role: "user", Text: fmt.Sprint("ask ", n)},
				{Role: "assistant", Parts: fmt.Appendf(nil, `[{"type":"tool_use","id":"c%d","name":"f","input":{}}]`, n)},
				{Role: "user", Parts: fmt.Appendf(nil, `[{"type":"tool_result","tool_use_id":"c%d","content":"r"}]`, n)},
			}
		},
		"openai": func(n int) []sessions.Message {
			return []sessions.Message{
				{Role: "user", Text: fmt.Sprint("ask ", n)},
				{Role: "assistant", ToolCalls: fmt.Appendf(nil, `[{"id":"c%d"},{"id":"d%d"}]`, n, n)},
				{Role: "tool", ToolCallID: fmt.Sprint("c", n), Text: "one"},
				{Role: "tool", ToolCallID: fmt.Sprint("d", n), Text: "two"},
			}
		},
		"no IDs": func(n int) []sessions.Message {
			return []sessions.Message{
				{Role: "user", Text: fmt.Sprint("ask ", n)},
				{Role: "assistant", Parts: json.RawMessage(`[{"type":"tool_use"}]`)},
				{Role: "tool", Text: "done"},
			}
		},
	}
	begins := func(what string, got []sessions.Message) {
		t.Helper()
		if len(got) > 0 && (got[0].ToolCallID != "" || got[0].Role == "tool" || strings.Contains(string(got[0].Parts), "tool_result")) {
			t.Errorf("%s begins with a result: %+v", what, got[0])
		}
	}
	for form, turn := range forms {
		for n := range 14 {
			w.appendTo(form, turn(n), &sessions.AppendOptions{NoMemory: true})
		}
		size := len(turn(0))
		load := func(win *sessions.Window) []sessions.Message {
			t.Helper()
			l, err := s.Load(ctx, supportAgent, form, win)
			noError(t, err)
			return l.Messages
		}
		for last := 1; last <= 14*size; last++ {
			got := load(&sessions.Window{Last: last})
			begins(fmt.Sprintf("%s, the last %d", form, last), got)
			if len(got) == 0 || len(got) > max(last, size-1) || len(got) < last-size {
				t.Errorf("%s: the last %d are %d", form, last, len(got))
			}
		}
		one := func(string) int { return 1 }
		for tokens := 1; tokens <= 14*size; tokens++ {
			got := load(&sessions.Window{Tokens: tokens, Count: one})
			begins(fmt.Sprintf("%s, %d tokens", form, tokens), got)
			if len(got) > tokens {
				t.Errorf("%s: %d tokens are %d messages", form, tokens, len(got))
			}
		}
		for keep := 1; keep <= 10; keep++ {
			if _, err := s.Compact(ctx, supportAgent, form, &sessions.CompactOptions{Threshold: 11, KeepRecent: 11 - keep}); err != nil {
				t.Fatal(err)
			}
			begins(form+", compacted", load(&sessions.Window{Whole: true}))
			w.appendTo(form, turn(100+keep), &sessions.AppendOptions{NoMemory: true})
		}
		for trim := 9; trim > 0; trim-- {
			out := w.appendTo(form, turn(200 + trim)[:1], &sessions.AppendOptions{NoMemory: true, TrimRemoves: trim})
			var all []sessions.Message
			for i, err := range s.Items(ctx, supportAgent, form) {
				noError(t, err)
				if i.Message != nil {
					all = append(all, *i.Message)
				}
			}
			begins(fmt.Sprintf("%s, trimmed to %d", form, trim), all)
			if out[0].Messages < trim || out[0].Messages > trim+size {
				t.Errorf("%s: trimmed to %d: %d", form, trim, out[0].Messages)
			}
		}
	}
	// A marker that an earlier version has put between the two.
	items := []sessions.Item{}
	for i, m := range append(forms["openai"](1), forms["openai"](2)...) {
		if i == 2 {
			items = append(items, sessions.Item{Marker: &sessions.Marker{Summarized: 2}})
		}
		items = append(items, sessions.Item{Message: &m})
	}
	if _, err := s.Save(ctx, supportAgent, "marked", items, nil); err != nil {
		t.Fatal(err)
	}
	l, err := s.Load(ctx, supportAgent, "marked", nil)
	if err != nil || len(l.Messages) != 7 || len(l.Messages[0].ToolCalls) == 0 {
		t.Errorf("%+v, %v", l.Messages, err)
	}
}

// TestSessionAppendAgain: an append that is tried again under its message ID changes
// nothing, and one that says something else is refused.
func TestSessionAppendAgain(t *testing.T) {
	w := newTalk(t)
	m := []sessions.Message{{ID: "m1", Text: "hello"}, {ID: "m2", Role: "assistant", Text: "hi"}}
	first := w.appendTo("monday", m, nil)
	lsn := w.db.LSN()
	again := w.appendTo("monday", m, nil)
	if !again[0].Repeated || !again[1].Repeated || again[0].MemoryID != first[0].MemoryID || w.db.LSN() != lsn {
		t.Errorf("%+v, %d commits", again, w.db.LSN()-lsn)
	}
	_, err := w.db.Sessions().Append(t.Context(), supportAgent, "monday", []sessions.Message{{ID: "m3", Text: "new"}, {ID: "m2", Text: "bye"}}, nil)
	wantError(t, "another text under an ID", err, memory.ErrExists)
	equalSlices(t, "items", w.items("monday"), []string{"user: hello", "assistant: hi"})
	if w.memories() != 2 || w.db.LSN() != lsn {
		t.Errorf("a refused append has stored something: %d memories", w.memories())
	}
	// What goes together in one group of commits is refused by itself.
	var done sync.WaitGroup
	for i := range 16 {
		done.Go(func() {
			_, err := w.db.Sessions().Append(context.Background(), supportAgent, "tuesday", []sessions.Message{{ID: fmt.Sprint("x", i%8), Text: fmt.Sprint("text ", i%8)}}, nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if n := len(w.items("tuesday")); n != 8 {
		t.Errorf("%d messages, want 8", n)
	}
	mustCheck(t, w.db, 10)
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
		{"an unknown role", say(supportAgent, "monday", sessions.Message{Role: "alien", Text: "x"}, nil), memory.ErrInvalid},
		{"an empty message", say(supportAgent, "monday", sessions.Message{}, nil), memory.ErrInvalid},
		{"an unknown memory", say(supportAgent, "monday", sessions.Message{MemoryIDs: []string{"m"}}, nil), memory.ErrNotFound},
		{"no JSON", say(supportAgent, "monday", sessions.Message{Parts: json.RawMessage(`{`)}, nil), memory.ErrInvalid},
		{"a negative trim", say(supportAgent, "monday", hello, &sessions.AppendOptions{TrimRemoves: -1}), memory.ErrInvalid},
		{"a time before year 1", say(supportAgent, "monday", sessions.Message{Text: "x", At: time.UnixMilli(-1 << 60)}, nil), memory.ErrInvalid},
		{"close an unknown one", s.Close(ctx, supportAgent, "friday"), memory.ErrNotFound},
		{"close another owner's", s.Close(ctx, memory.Owner{Agent: "other"}, "monday"), memory.ErrNotFound},
	} {
		wantError(t, c.name, c.err, c.kind)
		if e, ok := errors.AsType[*memory.Error](c.err); ok && !errors.Is(c.kind, memory.ErrScope) && e.Do == "" {
			t.Errorf("%s: %v does not say what to do", c.name, c.err)
		}
	}
	for _, win := range []sessions.Window{{Last: -1}, {Tokens: -1}, {Whole: true, Last: 3}} {
		_, err := s.Load(ctx, supportAgent, "monday", &win)
		wantError(t, "a bad window", err, memory.ErrInvalid)
	}
	_, err := s.Load(ctx, memory.Owner{Agent: "other"}, "monday", nil)
	wantError(t, "another owner's session", err, memory.ErrNotFound)
	_, err = s.List(ctx, sessions.Query{Owner: supportAgent, After: "!"})
	wantError(t, "a bad mark", err, memory.ErrInvalid)
	if w.db.LSN() != lsn {
		t.Errorf("refused calls have committed %d times", w.db.LSN()-lsn)
	}
	equalSlices(t, "items", w.items("monday"), []string{"user: hello"})
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
	// Seed B's cut: when a session exceeds 20 messages, the oldest are removed.
	out := w.appendTo("monday", []sessions.Message{{Text: "m50"}}, &sessions.AppendOptions{TrimRemoves: 20})
	if out[0].Messages != 20 || w.items("monday")[0] != "user: m31" {
		t.Errorf("after a trim: %+v, %v", out, w.items("monday"))
	}
	mustCheck(t, w.db, 51)
}

// TestSessionList: lists are by the last update, page by page, and by channel.
func TestSessionList(t *testing.T) {
	w := newTalk(t)
	s, ctx := w.db.Sessions(), t.Context()
	for i, channel := range []string{"telegram", "discord", "telegram", ""} {
		w.clk.advance(time.Second)
		w.appendTo(fmt.Sprint("s", i), []sessions.Message{{Text: "hello"}}, &sessions.AppendOptions{Channel: channel})
	}
	equalSlices(t, "all", w.names(sessions.Query{}), []string{"s3", "s2", "s1", "s0"})
	w.say("s1", "user", "again")
	equalSlices(t, "after an append", w.names(sessions.Query{Limit: 1}), []string{"s1", "s3", "s2", "s0"})
	equalSlices(t, "of a channel", w.names(sessions.Query{Channel: "telegram"}), []string{"s2", "s0"})

	of, err := s.OpenChannel(ctx, supportAgent, "telegram")
	if err != nil || of.Session != "s2" {
		t.Errorf("%+v, %v", of, err)
	}
	if err := errors.Join(s.Close(ctx, supportAgent, "s2"), s.Archive(ctx, supportAgent, "s0")); err != nil {
		t.Fatal(err)
	}
	_, err = s.Append(ctx, supportAgent, "s2", []sessions.Message{{Text: "x"}}, nil)
	wantError(t, "append to a closed session", err, memory.ErrConflict)
	fresh, err := s.OpenChannel(ctx, supportAgent, "telegram")
	if err != nil || fresh.Channel != "telegram" || fresh.Messages != 0 || slices.Contains([]string{"s0", "s2"}, fresh.Session) {
		t.Errorf("%+v, %v", fresh, err)
	}
	equalSlices(t, "archived", w.names(sessions.Query{Archived: true}), []string{"s0"})
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
	wantError(t, "metadata", s.SetMetadata(ctx, supportAgent, "s0", json.RawMessage(`[]`)), memory.ErrInvalid)
	w.reopen()
	mustCheck(t, w.db, 6)
	if n := len(w.names(sessions.Query{})); n != 5 {
		t.Errorf("%d sessions", n)
	}
	stats, err := w.db.Stats(ctx)
	if err != nil || stats.Parts["sessions"] != 5 {
		t.Error(stats.Parts, err)
	}
}

// TestSessionDelete: a session goes with or without its memories; what another run has stays.
func TestSessionDelete(t *testing.T) {
	w := newTalk(t)
	ctx := t.Context()
	mustStore(t, w.db.Memories(), memory.Memory{ID: "shared", Scope: memory.Scope{Agent: "support", Run: "other"}, Text: "shared"})
	w.say("monday", "user", "one")
	w.say("monday", "user", "two")
	w.appendTo("monday", []sessions.Message{{MemoryIDs: []string{"shared"}}}, nil)
	w.say("tuesday", "user", "three")
	d, err := w.db.Sessions().Delete(ctx, supportAgent, "monday", nil)
	if err != nil || d != (sessions.Deleted{Deleted: 1, Messages: 3}) || w.memories() != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	_, err = w.db.Sessions().Get(ctx, supportAgent, "monday")
	wantError(t, "a deleted session", err, memory.ErrNotFound)
	equalSlices(t, "list", w.names(sessions.Query{}), []string{"tuesday"})
	w.say("monday", "user", "again") // another session of that name
	w.appendTo("monday", []sessions.Message{{MemoryIDs: []string{"shared"}}}, nil)
	equalSlices(t, "items", w.items("monday"), []string{"user: again", "user: shared"})
	d, err = w.db.Sessions().Delete(ctx, supportAgent, "monday", &sessions.DeleteOptions{Memories: true})
	if err != nil || d != (sessions.Deleted{Deleted: 1, Messages: 2, Memories: 1}) || w.memories() != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	mustCheck(t, w.db, 4)
	w.work()
	mustCheck(t, w.db, 4)
	if n := w.keysOf("monday"); n != 0 {
		t.Errorf("%d keys of a deleted session are left", n)
	}
	equalSlices(t, "items of the other", w.items("tuesday"), []string{"user: three"})
}

// work lets the retention pass, and does what the parts have to do then.
func (w *talk) work() {
	w.t.Helper()
	w.clk.advance(2 * time.Hour)
	mustStore(w.t, w.db.Memories(), memory.Memory{ID: "tick", Scope: memory.Scope{User: "clock"}, Text: "tick"})
	w.clk.advance(2 * time.Hour)
	if err := w.db.Memories().Delete(w.t.Context(), memory.Scope{User: "clock"}, "tick"); err != nil {
		w.t.Fatal(err)
	}
	for _, p := range w.db.parts {
		if of, ok := p.(*sessions.Part); ok {
			of.Release(w.db.points.oldest())
			if err := of.Work(w.t.Context(), runner{db: w.db}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// keysOf counts the keys of the parts that belong to a session.
func (w *talk) keysOf(name string) (n int) {
	w.t.Helper()
	err := w.db.View(w.t.Context(), func(tx *Tx) error {
		v := (*partTx)(tx)
		run, _, err := v.Run(name)
		owner, _, oerr := v.Owner(supportAgent)
		for _, kind := range []byte("SGTBJW") {
			key := v.Key(kind, 8)
			key = append(key, byte(owner>>24), byte(owner>>16), byte(owner>>8), byte(owner), byte(run>>24), byte(run>>16), byte(run>>8), byte(run))
			upper := slices.Clone(key)
			upper[len(upper)-1]++
			if err := v.Scan(key, upper, func(_, _ []byte) error { n++; return nil }); err != nil {
				return err
			}
		}
		return errors.Join(err, oerr)
	})
	if err != nil {
		w.t.Fatal(err)
	}
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
	mustCheck(t, w.db, 0)
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
		err := w.db.View(t.Context(), func(tx *Tx) error {
			return tx.asOf(at.lsn, func(past *Tx) error {
				equalSlices(t, fmt.Sprint("items as of ", at.lsn), itemsOf(t, past.Sessions(), "monday"), at.items)
				i, err := past.Sessions().Get(t.Context(), supportAgent, "monday")
				i.Version, at.info.Version = 0, 0
				if fmt.Sprint(i) != fmt.Sprint(at.info) {
					t.Errorf("as of %d: %+v, want %+v", at.lsn, i, at.info)
				}
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := w.db.View(t.Context(), func(tx *Tx) error {
		return tx.asOf(gone, func(past *Tx) error {
			_, err := past.Sessions().Get(t.Context(), supportAgent, "monday")
			return err
		})
	})
	wantError(t, "as of the delete", err, memory.ErrNotFound)
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
	export := func(db *DB) (lines []string) {
		err := db.View(ctx, func(tx *Tx) error {
			return tx.Lines(memory.Scope{}, nil, func(l Line) error {
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
	for _, m := range mustList(t, w.db.Memories(), supportAgent.Scope()) {
		mustStore(t, other.db.Memories(), m)
	}
	load := func() (outcomes []memory.Stored) {
		for _, text := range lines {
			var head struct{ Type string }
			_ = json.Unmarshal([]byte(text), &head)
			l := other.db.NewLine(head.Type)
			if err := json.Unmarshal([]byte(text), l); err != nil {
				t.Fatal(err)
			}
			err := other.db.Update(ctx, func(tx *Tx) error {
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
	equalSlices(t, "lines", export(other.db), lines)
	for i, s := range load() {
		if s.Stored || s.Updated {
			t.Errorf("line %d again: %+v", i, s)
		}
	}
	mustCheck(t, other.db, 2)
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
				equalSlices(t, fmt.Sprintf("step %d: %s", step, name), w.items(name), model[name])
			}
		}
		if len(w.names(sessions.Query{})) != len(model) {
			t.Fatalf("step %d: sessions %v, want %d", step, w.names(sessions.Query{}), len(model))
		}
	}
	for name, want := range model {
		equalSlices(t, name, w.items(name), want)
	}
	mustCheck(t, w.db, w.memories())
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
		err := (runner{db: w.db}).Update(t.Context(), "damage", func(tx part.Tx) error {
			var key []byte
			err := tx.Scan(tx.Key(c.kind, 0), tx.Key(c.kind+1, 0), func(k, _ []byte) error {
				key = slices.Clone(k)
				return nil
			})
			tx.Log(new(sessions.Part).Ops()[0], nil)
			return errors.Join(err, tx.Delete(key))
		})
		if err != nil {
			t.Fatal(err)
		}
		report, err := w.db.Check(t.Context())
		if err != nil || !slices.ContainsFunc(report.Problems, func(p Problem) bool { return strings.Contains(p.What, c.says) }) {
			t.Errorf("%c: %v, %v", c.kind, report.Problems, err)
		}
	}
}

// TestSessionListOfThePast: a list in a View of a past state has the sessions of then, in
// their order, page by page, also those that were archived, deleted or made anew since.
func TestSessionListOfThePast(t *testing.T) {
	clock := newTestClock()
	db, ctx := openTest(t, vfs.NewMem(), Options{Clock: clock.now, Retain: 24 * time.Hour}), t.Context()
	s := db.Sessions()
	say := func(name, text string) {
		t.Helper()
		clock.advance(time.Second)
		if _, err := s.Append(ctx, supportAgent, name, []sessions.Message{{Text: text}}, &sessions.AppendOptions{Channel: "c" + name[:1], NoMemory: true}); err != nil {
			t.Fatal(err)
		}
	}
	queries := []sessions.Query{{}, {Archived: true}, {Channel: "ca"}, {Channel: "ca", Archived: true}, {Limit: 2}}
	lists := func(s Sessions) (all []string) {
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
			clock.advance(time.Second)
			if _, err := s.Delete(ctx, supportAgent, name, nil); err != nil && !errors.Is(err, memory.ErrNotFound) {
				t.Fatal(err)
			}
		case 1:
			clock.advance(time.Second)
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
	if err := partOf[*sessions.Part](db).Work(ctx, runner{db: db}); err != nil {
		t.Fatal(err)
	}
	for _, at := range states {
		err := db.ViewAt(ctx, at.lsn, func(tx *Tx) error {
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
