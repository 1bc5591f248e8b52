package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// scripted stands for a provider's client: it knows about moving, and keeps what it was asked.
type scripted struct{ asked []llm.Request }

func (*scripted) Model() string { return "scripted" }

func (s *scripted) Generate(_ context.Context, r llm.Request) (llm.Reply, error) {
	text := r.Messages[len(r.Messages)-1].Text
	switch {
	case strings.HasPrefix(r.Messages[0].Text, "What is so now:"):
		s.asked = append(s.asked, r)
		return llm.Reply{Text: "Noted."}, nil
	case strings.HasPrefix(text, "New fact: ") && strings.Contains(text, "- ID: 1, Text: User lives in "):
		return llm.Reply{Text: `[{"event": "UPDATE", "id": "1", "data": "User lives in Bruges"}]`}, nil
	case strings.HasPrefix(text, "New fact: "):
		return llm.Reply{Text: `[{"event": "ADD"}]`}, nil
	case strings.Contains(text, "live in Antwerp"):
		return llm.Reply{Text: `["User lives in Antwerp"]`}, nil
	case strings.Contains(text, "Bruges"):
		return llm.Reply{Text: `["User lives in Bruges"]`}, nil
	}
	return llm.Reply{Text: `[]`}, nil
}

// home is a database in memory with a clock that the test sets, and a user who talks.
type home struct {
	*engine.DB
	*scripted
	ms atomic.Int64 // the time
}

func open(t *testing.T) *home {
	t.Helper()
	h := &home{scripted: &scripted{}}
	h.ms.Store(time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC).UnixMilli())
	db, err := engine.OpenMemory(&engine.Options{Clock: h.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	h.DB = db
	return h
}

func (h *home) now() time.Time { return time.UnixMilli(h.ms.Load()).UTC() }

// talk is a conversation of its own, an hour after the one before. It returns what was printed.
func (h *home) talk(t *testing.T, lines ...string) string {
	t.Helper()
	h.ms.Add(time.Hour.Milliseconds())
	var out strings.Builder
	if err := chat(t.Context(), h.DB, h.scripted, "ada", strings.NewReader(strings.Join(lines, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	if s, err := h.Sessions().OpenChannel(t.Context(), scope.Owner{User: "ada"}, "chat"); err == nil {
		if err := h.Sessions().Close(t.Context(), s.Owner, s.Session); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// prompt is the system's message of the last question.
func (h *home) prompt() string { return h.asked[len(h.asked)-1].Messages[0].Text }

// TestCorrectedFact asks after a correction: the fact stands first, and the message that it has
// overtaken is not shown, though one recall over both has it above the fact.
func TestCorrectedFact(t *testing.T) {
	h := open(t)
	if out := h.talk(t, "I live in Antwerp, near the river."); out != "Noted.\n" {
		t.Errorf("printed %q", out)
	}
	h.talk(t, "Where do I live?")
	if p := h.prompt(); !strings.Contains(p, "- User lives in Antwerp\n") || !strings.Contains(p, "user: I live in Antwerp") {
		t.Errorf("before the correction:\n%s", p)
	}
	h.talk(t, "We have moved, and now our house is in Bruges.")
	h.talk(t, "Where do I live now, and where is my house?")
	p := h.prompt()
	fact, said := strings.Index(p, "User lives in Bruges"), strings.Index(p, "our house is in Bruges")
	if fact < 0 || said < fact {
		t.Errorf("the fact does not stand above the messages:\n%s", p)
	}
	if strings.Contains(p, "Antwerp") {
		t.Errorf("what was so before the correction is shown:\n%s", p)
	}
	found, err := h.Memories().Recall(t.Context(), memory.Query{Scope: scope.Scope{User: "ada"}, Text: "Do I live near the river?", NoTouch: true})
	if err != nil {
		t.Fatal(err)
	}
	at := func(part string) int {
		return slices.IndexFunc(found.Hits, func(hit memory.Hit) bool { return strings.Contains(hit.Text, part) })
	}
	if stale, fact := at("Antwerp"), at("lives in Bruges"); stale < 0 || fact < stale {
		t.Errorf("one recall over both has the stale message at %d and the fact at %d: the test shows nothing", stale, fact)
	}
}

// TestSaidLater shows a message that speaks of the old place after the correction.
func TestSaidLater(t *testing.T) {
	h := open(t)
	h.talk(t, "I live in Antwerp.")
	h.talk(t, "My home is in Bruges by now.")
	h.talk(t, "My dentist is still in Antwerp.")
	h.talk(t, "Which dentist in Antwerp?")
	if p := h.prompt(); !strings.Contains(p, "My dentist is still in Antwerp.") || strings.Contains(p, "I live in Antwerp.") {
		t.Errorf("asked about the dentist:\n%s", p)
	}
}

// TestBudget says more than a prompt has room for.
func TestBudget(t *testing.T) {
	h := open(t)
	var lines []string
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("Plan %d: %s", i, strings.Repeat("a long plan for the garden ", 12)))
	}
	h.talk(t, lines...)
	h.talk(t, "What is the plan for the garden?")
	if p := h.prompt(); len(p) > 4*rememberTokens || !strings.Contains(p, "a long plan for the garden") {
		t.Errorf("%d bytes are remembered, of at most %d:\n%s", len(p), 4*rememberTokens, p)
	}
	window := h.asked[39].Messages
	size := 0
	for _, m := range window[1:] {
		size += len(m.Text)
	}
	if len(window) < 5 || size > 4*windowTokens+len(lines[39]) {
		t.Errorf("the window has %d messages of %d bytes", len(window), size)
	}
}

// TestAges lets two months pass: small talk fades, the fact stays.
func TestAges(t *testing.T) {
	h := open(t)
	h.talk(t, "I live in Antwerp.", "ok")
	h.ms.Store(h.now().AddDate(0, 2, 0).UnixMilli())
	evicted, err := h.Evict(t.Context(), nil)
	if err != nil || evicted.Evicted == 0 {
		t.Errorf("evicted %+v, %v", evicted, err)
	}
	h.talk(t, "Where do I live?")
	if p := h.prompt(); !strings.Contains(p, "- User lives in Antwerp\n") || strings.Contains(p, "user: ok\n") {
		t.Errorf("two months later:\n%s", p)
	}
}

// TestForget leaves nothing of the user, and all of others.
func TestForget(t *testing.T) {
	h := open(t)
	if _, err := h.Memories().Store(t.Context(), memory.Memory{Scope: scope.Scope{User: "bob"}, Text: "Bob lives in Bruges."}, nil); err != nil {
		t.Fatal(err)
	}
	h.talk(t, "I live in Antwerp.")
	if err := chat(t.Context(), h.DB, h.scripted, "ada", strings.NewReader("My house is in Bruges.\n/forget\nnever read"), new(strings.Builder)); err != nil {
		t.Fatal(err)
	}
	if u, err := h.User(t.Context(), "ada"); err == nil && u.Memories+u.Sessions+u.Usage > 0 || err != nil && !errors.Is(err, memory.ErrNotFound) {
		t.Errorf("left of ada: %+v, %v", u, err)
	}
	all, err := h.Memories().List(t.Context(), memory.ListQuery{AllScopes: true})
	if err != nil || len(all.Memories) != 1 || all.Memories[0].User != "bob" {
		t.Errorf("left in all: %+v, %v", all.Memories, err)
	}
}

// TestPage holds docs/assistant.md to the program.
func TestPage(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/assistant.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```go\n"+string(program)+"```\n") {
		t.Error("docs/assistant.md does not have the program as it is in main.go")
	}
}
