package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

func TestSessionMessageContentOfSeveralParts(t *testing.T) {
	w := newTalk(t)
	parts := json.RawMessage(`[{"type":"text","text":"see"},{"type":"image","url":"file:///a.png","w":12345678901234567890},{"type":"tool_call","id":"t1","args":{"q":"\u00e9"}},{"type":"tool_result","id":"t1","ok":1e-7}]`)
	w.appendTo("s", []sessions.Message{{Text: "see", Parts: parts}}, nil)
	w.reopen()
	l, err := w.db.Sessions().Load(t.Context(), supportAgent, "s", nil)
	if err != nil || string(l.Messages[0].Parts) != string(parts) || l.Messages[0].Text != "see" {
		t.Errorf("%s, %v", l.Messages[0].Parts, err)
	}
}

func TestASessionOfMoreThan20MessagesLosesTheOldest(t *testing.T) {
	w := newTalk(t)
	trim := &sessions.AppendOptions{TrimRemoves: 20}
	for i := range 25 {
		w.appendTo("s", []sessions.Message{{Text: fmt.Sprint("turn ", i)}}, trim)
		if items := w.items("s"); len(items) != min(i+1, 20) || items[len(items)-1] != fmt.Sprint("user: turn ", i) {
			t.Errorf("after %d: %q", i+1, items)
		}
	}
	w.work()
	if items := w.items("s"); items[0] != "user: turn 5" {
		t.Errorf("%q", items)
	}
	testdb.Check(t, w.db, 25)
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
	testdb.Equal(t, "items", w.items("monday"), want)
	testdb.Check(t, w.db, 1)
	w.reopen()
	testdb.Equal(t, "items after a reopen", w.items("monday"), want)
	testdb.Check(t, w.db, 1)
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
		testdb.NoError(t, err)
		items = append(items, i)
	}
	if _, err := w.db.Sessions().Save(t.Context(), supportAgent, "s", items, nil); err != nil {
		t.Fatal(err)
	}
	check("saved again")
	testdb.Check(t, w.db, 1)
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
			testdb.NoError(t, err)
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
				testdb.NoError(t, err)
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
	testdb.WantError(t, "another text under an ID", err, memory.ErrExists)
	testdb.Equal(t, "items", w.items("monday"), []string{"user: hello", "assistant: hi"})
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
	testdb.Check(t, w.db, 10)
}
