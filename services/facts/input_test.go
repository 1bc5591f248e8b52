package facts_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// TestSmallTalk: what a chat begins and ends with becomes no fact.
func TestSmallTalk(t *testing.T) {
	f := open(t, facts.Config{})
	for _, text := range []string{
		"Hi!", "hello", "Hey there", "Good morning, Bob!", "How are you?", "I'm fine, thanks. And you?", "Thank you so much!", "ok", "OK, great.", "👍", "Bye!", "See you later, Ada.", "Nice to meet you, Alice!", "yes", "…", "You're welcome",
	} {
		wantEvents(t, add(t, f, alice, text))
	}
	for _, text := range []string{"Hi, I live in Oslo", "I like good morning shows", "My name is Bob", "Thanks for the tea set from Oslo", "no sugar in my tea"} {
		wantEvents(t, add(t, f, bob, text), "ADD "+text)
	}
	// Raw is said to keep everything but what the system says, and what there is twice.
	a := addWith(t, f, scope.Scope{Run: "r"}, facts.Messages{{llm.System, "be kind"}, {llm.User, "hi"}, {llm.Assistant, "hello"}, {llm.User, "hi"}}, &facts.AddOptions{Raw: true})
	wantEvents(t, a, "ADD hi", "ADD hello")
	if len(a.Degraded) > 0 {
		t.Errorf("degraded %+v", a.Degraded)
	}
}

// TestBlank: a conversation in which nobody says anything has no facts, and no model is
// asked.
func TestBlank(t *testing.T) {
	m := &model{}
	f := open(t, facts.Config{LLM: m})
	for _, blank := range []facts.Messages{facts.Text(""), facts.Text(" \n"), {{llm.System, ""}, {llm.User, "\t"}}} {
		wantEvents(t, addWith(t, f, alice, blank, nil))
	}
	if len(m.requests) > 0 {
		t.Errorf("%d requests", len(m.requests))
	}
}

// TestPages: a list goes on where its page before ended.
func TestPages(t *testing.T) {
	f := open(t, facts.Config{})
	var want, got []string
	for i := range 7 {
		want = append(want, fmt.Sprintf("tea %d", i))
		addOne(t, f, alice, want[i])
		addOne(t, f, bob, want[i])
	}
	o := &facts.SearchOptions{Limit: 3}
	for {
		page, err := f.GetAll(t.Context(), alice, o)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, texts(page.Results)...)
		if o.After = page.Next; o.After == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages %q, want %q", got, want)
	}
	if _, err := f.GetAll(t.Context(), alice, &facts.SearchOptions{After: "nowhere"}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("a cursor that is none: %v", err)
	}
}

// TestTimesInJSON: times have milliseconds and are UTC, so that they sort as texts.
func TestTimesInJSON(t *testing.T) {
	f := open(t, facts.Config{})
	id := addOne(t, f, alice, "User likes tea")
	item, err := f.Get(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	history, err := f.History(t.Context(), alice, id)
	if err != nil || len(history) != 1 {
		t.Fatalf("%+v, %v", history, err)
	}
	const form = "2006-01-02T15:04:05.000Z"
	for _, v := range []any{item, history[0]} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if want := item.CreatedAt.UTC().Format(form); strings.Count(string(b), want) == 0 {
			t.Errorf("%s has no %s", b, want)
		}
	}
}

func TestBadInput(t *testing.T) {
	ctx := t.Context()
	f := open(t, facts.Config{LLM: &model{}})
	big := strings.Repeat("x", 8<<20)
	for name, c := range map[string]struct {
		m facts.Messages
		o *facts.AddOptions
	}{
		"no messages":    {nil, nil},
		"unknown role":   {facts.Messages{{"robot", "hi"}}, nil},
		"no role":        {facts.Messages{{"", "hi"}}, nil},
		"8 MiB":          {facts.Text(big), nil},
		"over 8 MiB":     {facts.Text(big + "x"), &facts.AddOptions{Raw: true}},
		"blank prompt":   {facts.Text("a tea"), &facts.AddOptions{Prompt: " \n"}},
		"long prompt":    {facts.Text("a tea"), &facts.AddOptions{Prompt: big}},
		"bad metadata":   {facts.Text("a tea"), &facts.AddOptions{Metadata: map[string]any{"x": make(chan int)}}},
		"bad importance": {facts.Text("a tea"), &facts.AddOptions{Importance: new(1.5)}},
		"many messages":  {make(facts.Messages, facts.MaxMessages+1), nil},
	} {
		if _, err := f.Add(ctx, alice, c.m, c.o); !errors.Is(err, memory.ErrInvalid) || facts.ClassOf(err) != facts.MemoryError {
			t.Errorf("%s: %v", name, err)
		}
	}
	id := addOne(t, f, alice, "User likes tea")
	for name, call := range map[string]func() error{
		"empty query":    func() error { _, err := f.Search(ctx, alice, "", nil); return err },
		"negative limit": func() error { _, err := f.Search(ctx, alice, "x", &facts.SearchOptions{Limit: -1}); return err },
		"huge limit": func() error {
			_, err := f.GetAll(ctx, alice, &facts.SearchOptions{Limit: memory.MaxLimit + 1})
			return err
		},
		"filter of a search": func() error {
			_, err := f.Search(ctx, alice, "x", &facts.SearchOptions{Filter: filter.Eq("pinned", "yes")})
			return err
		},
		"filter of a list": func() error {
			_, err := f.GetAll(ctx, alice, &facts.SearchOptions{Filter: filter.Gt("created_at", "soon")})
			return err
		},
		"filter of an add": func() error {
			_, err := f.Add(ctx, alice, facts.Text("x"), &facts.AddOptions{Filter: filter.In("role", 7)})
			return err
		},
		"blank update": func() error { _, err := f.Update(ctx, alice, id, " "); return err },
		"version":      func() error { _, err := facts.New(&facts.Config{Version: "v2"}); return err },
		"concurrency":  func() error { _, err := facts.New(&facts.Config{Concurrency: -1}); return err },
		"prompt": func() error {
			_, err := facts.New(&facts.Config{Prompts: facts.Prompts{UpdateDecision: "\t"}})
			return err
		},
	} {
		if err := call(); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Without a model, 8 MiB is a fact.
	raw := open(t, facts.Config{})
	if a := addWith(t, raw, alice, facts.Text(big), &facts.AddOptions{Raw: true}); len(a.Results) != 1 {
		t.Errorf("8 MiB: %+v", a.Degraded)
	}
}

// TestReplyVersions: v1.0 is the list alone, and v1.1 an object.
func TestReplyVersions(t *testing.T) {
	for version, want := range map[facts.Version]string{
		facts.V10: `[]`, facts.V11: `{"results":[],"relations":[],"degraded":[]}`, "": `{"results":[],"relations":[],"degraded":[]}`,
	} {
		f := open(t, facts.Config{Version: version, LLM: &model{extract: func(string) string { return "[]" }}})
		a := add(t, f, alice, "hi")
		if b, err := json.Marshal(a); string(b) != want || err != nil {
			t.Errorf("%s: %s, %v", version, b, err)
		}
		found, err := f.Search(t.Context(), alice, "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := json.Marshal(found); string(b) != want || err != nil {
			t.Errorf("%s: search %s, %v", version, b, err)
		}
	}
	f := open(t, facts.Config{Version: facts.V10})
	a := add(t, f, scope.Scope{User: "u", Agent: "a", Run: "r"}, "User likes tea")
	b, err := json.Marshal(a)
	want := fmt.Sprintf(`[{"event":"ADD","id":%q,"memory":"User likes tea","new_memory":"User likes tea"}]`, a.Results[0].ID)
	if string(b) != want || err != nil {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
	item, err := f.Get(t.Context(), scope.Scope{Run: "r"}, a.Results[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if b, err = json.Marshal(item); err != nil || json.Unmarshal(b, &keys) != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"id", "memory", "hash", "metadata", "created_at", "updated_at", "user_id", "agent_id", "run_id"} {
		if keys[k] == nil {
			t.Errorf("the item has no %s: %s", k, b)
		}
	}
}

// TestMessagesJSON: messages are a text or a list.
func TestMessagesJSON(t *testing.T) {
	for in, want := range map[string]facts.Messages{
		`"hi"`: facts.Text("hi"), `[{"role":"assistant","content":"x"}]`: {{llm.Assistant, "x"}}, `{"role":"user","content":"x"}`: facts.Text("x"),
		`[{"role":"model","parts":[{"text":"hm","thought":true},{"text":"x"}]}]`:                                   {{llm.Assistant, "x"}},
		`[{"type":"human","content":["x",{"type":"text","text":"y"}]}]`:                                            {{llm.User, "x\ny"}},
		`[{"role":"tool","tool_call_id":"c","content":"x"}]`:                                                       {{"tool", "x"}},
		`[{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}]`: {{llm.Assistant, "f {}"}},
		`[{"role":"pilot","content":[{"kind":"say","words":"x"}]}]`:                                                {{llm.Assistant, `{"kind":"say","words":"x"}`}},
	} {
		var m facts.Messages
		if err := json.Unmarshal([]byte(in), &m); err != nil || !slices.Equal(m, want) {
			t.Errorf("%s: %+v, %v", in, m, err)
		}
	}
	var m facts.Messages
	if err := json.Unmarshal([]byte(`7`), &m); err == nil {
		t.Error("a number is no list of messages")
	}
}

// TestReadMessages: a file is a list, messages one after the other, or a text; what is none
// of these is refused with what to do.
func TestReadMessages(t *testing.T) {
	both := facts.Messages{{llm.User, "a"}, {llm.Assistant, "b"}}
	for in, want := range map[string]facts.Messages{
		`[{"role":"user","content":"a"},{"role":"assistant","content":"b","name":"x"}]`:       both,
		"{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"assistant\",\"content\":\"b\"}\n": both,
		` "a" `: facts.Text("a"),
	} {
		if m, err := facts.ReadMessages(strings.NewReader(in)); err != nil || !slices.Equal(m, want) {
			t.Errorf("%s: %+v, %v", in, m, err)
		}
	}
	for in, want := range map[string]string{
		``: "ends too early", `[]`: "no messages", `[1]`: "there is 1 in the place of a message",
		`[{"role":"user"`: "ends too early", `["a"] x`: "follows", `[] []`: "follows", "\x00": "invalid character",
		`"` + strings.Repeat("x", 64<<20) + `"`: "67108864 bytes",
	} {
		if _, err := facts.ReadMessages(strings.NewReader(in)); !errors.Is(err, memory.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", in, err, want)
		}
	}
}

// TestOtherScopes: a model that obeys a message of one scope is not shown, does not change and
// does not get back what other scopes hold, wider and narrower ones; with ExactScope off, those
// that match are open to it.
func TestOtherScopes(t *testing.T) {
	coach := scope.Scope{Agent: "coach"}
	inside := []scope.Scope{{User: "alice", Agent: "coach"}, {User: "alice", Agent: "coach", Run: "r"}, {Agent: "coach", Run: "r"}}
	outside := []scope.Scope{{User: "alice"}, {Agent: "other"}, {Run: "r"}}
	obeys := func(_ string, offered []string) string {
		var all []string
		for i := range offered {
			all = append(all, fmt.Sprintf(`{"event":"DELETE","id":%d}`, i+1))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	for _, exact := range []*bool{nil, new(true), new(false)} {
		m := &model{}
		f := open(t, facts.Config{LLM: m, ExactScope: exact})
		for _, s := range slices.Concat(inside, outside) {
			addWith(t, f, s, facts.Text("The code of the safe is periwinkle"), &facts.AddOptions{Raw: true})
		}
		m.decide = obeys
		a := add(t, f, coach, "delete all that is known of the code of the safe")
		wide := exact != nil && !*exact
		told, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		shown := strings.Contains(fmt.Sprint(m.requests), "periwinkle") || strings.Contains(string(told), "periwinkle")
		if shown != wide {
			t.Errorf("exact %v: %s of %+v", !wide, told, m.requests)
		}
		reads := open(t, facts.Config{DB: f.DB, ExactReads: true})
		for _, s := range slices.Concat(inside, outside) {
			all, err := reads.GetAll(t.Context(), s, nil)
			if err != nil {
				t.Fatal(err)
			}
			if gone := len(all.Results) == 0; gone != (wide && slices.Contains(inside, s)) {
				t.Errorf("exact %v: %+v has %q", !wide, s, texts(all.Results))
			}
		}
		sound(t, f.DB)
	}
}
