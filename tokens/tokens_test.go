package tokens

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// TestCounter compares counts with those that OpenAI's own tokenizer gives.
func TestCounter(t *testing.T) {
	for _, c := range []struct {
		text        string
		o200, cl100 int
	}{
		{"", 0, 0},
		{"tiktoken is great!", 6, 6},
		{"antidisestablishmentarianism", 6, 6},
		{"2 + 2 = 4", 7, 7},
		{"お誕生日おめでとう", 8, 9},
		{"hello world", 2, 2},
	} {
		for e, want := range map[Encoding]int{O200k: c.o200, Cl100k: c.cl100} {
			count, err := Counter(e)
			if err != nil {
				t.Fatal(err)
			}
			if got := count(c.text); got != want {
				t.Errorf("%s of %q: %d, want %d", e, c.text, got, want)
			}
		}
	}
}

// TestForModel: models have the encoding that is published for them; others are an error that
// says what to do.
func TestForModel(t *testing.T) {
	const text = "お誕生日おめでとう"
	for model, want := range map[string]int{"gpt-4o": 8, "gpt-4": 9, "gpt-3.5-turbo": 9, "text-embedding-3-small": 9} {
		count, err := ForModel(model)
		if err != nil {
			t.Fatal(err)
		}
		if got := count(text); got != want {
			t.Errorf("%s: %d tokens, want %d", model, got, want)
		}
	}
	for name, call := range map[string]func(string) (func(string) int, error){
		"an unknown model":     ForModel,
		"an unknown encoding":  func(s string) (func(string) int, error) { return Counter(Encoding(s)) },
		"a retired vocabulary": func(string) (func(string) int, error) { return ForModel("davinci") },
	} {
		if _, err := call("someone's"); !errors.Is(err, memory.ErrInvalid) || !strings.Contains(err.Error(), string(O200k)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWindow: a window takes as many of the newest messages as the budget has tokens for,
// and not one more.
func TestWindow(t *testing.T) {
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ctx, owner := t.Context(), memory.Owner{Agent: "support"}
	var messages []sessions.Message
	for i := range 50 {
		messages = append(messages, sessions.Message{Text: fmt.Sprint("message number ", i, strings.Repeat(" お誕生日おめでとう", i%4))})
	}
	if _, err := db.Sessions().Append(ctx, owner, "monday", messages, nil); err != nil {
		t.Fatal(err)
	}
	count, err := Counter(O200k)
	if err != nil {
		t.Fatal(err)
	}
	for _, budget := range []int{1, 30, 100, 250, 100_000} {
		loaded, err := db.Sessions().Load(ctx, owner, "monday", &sessions.Window{Tokens: budget, Count: count})
		if err != nil {
			t.Fatal(err)
		}
		sum, n := 0, len(loaded.Messages)
		for i, m := range loaded.Messages {
			if sum += count(m.Text); m.Text != messages[len(messages)-n+i].Text {
				t.Errorf("message %d of a budget of %d: %q", i, budget, m.Text)
			}
		}
		if sum > budget || n < len(messages) && sum+count(messages[len(messages)-n-1].Text) <= budget {
			t.Errorf("a budget of %d: %d messages of %d tokens", budget, n, sum)
		}
	}
}

// TestCounterOfAnything: whatever the text is, the count comes in time, is at most its bytes,
// and the same to callers beside each other.
func TestCounterOfAnything(t *testing.T) {
	count, err := Counter(Cl100k)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"<|endoftext|>", "\xff\xfe\x00", strings.Repeat("a", 200_000), strings.Repeat("\n", 200_000), strings.Repeat("!?", 100_000)} {
		want := count(text)
		if want < 1 || want > len(text) {
			t.Errorf("%.20q: %d tokens in %d bytes", text, want, len(text))
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if got := count(text); got != want {
					t.Errorf("%.20q: %d tokens, and %d", text, want, got)
				}
			})
		}
		all.Wait()
	}
}
