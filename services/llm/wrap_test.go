package llm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/meter"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// told is a Client that does what it is told, and counts.
type told struct {
	calls    atomic.Int64
	generate func(ctx context.Context, n int64, r Request) (Reply, error)
}

func (c *told) Model() string { return "told-1" }

func (c *told) Generate(ctx context.Context, r Request) (Reply, error) {
	return c.generate(ctx, c.calls.Add(1), r)
}

func answer(text string) *told {
	return &told{generate: func(context.Context, int64, Request) (Reply, error) {
		return Reply{Text: text, PromptTokens: 100, CompletionTokens: 10}, nil
	}}
}

func ask(text string) Request { return Request{Messages: []Message{{User, text}}} }

func wrap(t *testing.T, c Client, o Options) Client {
	t.Helper()
	w, err := Wrap(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestRetryTiming has a model that is busy twice, once with a time to wait, by a clock that
// moves by itself.
func TestRetryTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &told{generate: func(_ context.Context, n int64, _ Request) (Reply, error) {
			switch n {
			case 1:
				return Reply{}, &retry.Transient{Err: errors.New("busy")}
			case 2:
				return Reply{}, &retry.Transient{Err: errors.New("busy"), After: 20 * time.Second}
			}
			return Reply{Text: "yes"}, nil
		}}
		begun := time.Now()
		reply, err := wrap(t, c, Options{}).Generate(t.Context(), ask("?"))
		if took := time.Since(begun); err != nil || reply.Text != "yes" || took != 21*time.Second {
			t.Errorf("%+v after %s, error %v", reply, took, err)
		}
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &told{generate: func(ctx context.Context, _ int64, _ Request) (Reply, error) {
			<-ctx.Done()
			return Reply{}, ctx.Err()
		}}
		begun := time.Now()
		_, err := wrap(t, c, Options{Timeout: time.Minute}).Generate(t.Context(), ask("?"))
		if took := time.Since(begun); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "ask told-1") || !strings.Contains(err.Error(), "1m0s") || took != 4*time.Minute+7*time.Second {
			t.Errorf("%v after %s, want ErrModel after four tries", err, took)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := wrap(t, c, Options{}).Generate(ctx, ask("?")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's time is over: %v", err)
		}
	})
}

func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		c := &told{generate: func(context.Context, int64, Request) (Reply, error) {
			now := running.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			time.Sleep(time.Second)
			running.Add(-1)
			return Reply{Text: "yes"}, nil
		}}
		w := wrap(t, c, Options{Concurrency: 3, CacheEntries: -1})
		for range 12 {
			go func() {
				if _, err := w.Generate(t.Context(), ask("?")); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if most.Load() != 3 || c.calls.Load() != 12 {
			t.Errorf("%d at once, %d calls in all, want 3 and 12", most.Load(), c.calls.Load())
		}
	})
}

// TestCache counts the calls that are made with a cache and without.
func TestCache(t *testing.T) {
	alice, bob := scope.Owner{User: "alice"}, scope.Owner{User: "bob"}
	tool := []Tool{{Name: "f"}}
	with := func(change func(*Request)) Request {
		r := ask("one")
		change(&r)
		return r
	}
	requests := []Request{
		ask("one"), ask("one"), ask("two"), ask("one"),
		with(func(r *Request) { r.Owner = alice }), with(func(r *Request) { r.Owner = bob }), with(func(r *Request) { r.Owner = alice }),
		with(func(r *Request) { r.Tools = tool }), with(func(r *Request) { r.MaxTokens = 5 }), with(func(r *Request) { r.MaxTokens = DefaultMaxTokens }),
		with(func(r *Request) { r.Temperature = .5 }), with(func(r *Request) { r.Temperature = .5 }),
	}
	for _, c := range []struct {
		name    string
		entries int
		want    int64
	}{{"none", -1, 12}, {"default", 0, 8}, {"one entry", 1, 11}} {
		client := answer("yes")
		w := wrap(t, client, Options{CacheEntries: c.entries})
		for _, r := range requests {
			before := client.calls.Load()
			reply, err := w.Generate(t.Context(), r)
			if err != nil || reply.Text != "yes" || reply.Cached != (client.calls.Load() == before) {
				t.Fatalf("%s: %+v, error %v", c.name, reply, err)
			}
		}
		if got := client.calls.Load(); got != c.want {
			t.Errorf("%s: %d calls, want %d", c.name, got, c.want)
		}
	}
}

// TestCacheKeepsWholeReplies wants no reply kept that a caller would ask for anew.
func TestCacheKeepsWholeReplies(t *testing.T) {
	for _, c := range []struct {
		name  string
		json  bool
		reply Reply
		keeps bool
	}{
		{"text", false, Reply{Text: "a"}, true},
		{"cut", false, Reply{Text: "a", Truncated: true}, false},
		{"empty", false, Reply{}, false},
		{"JSON", true, Reply{Text: `{"a":1}`}, true},
		{"half of JSON", true, Reply{Text: `{"a":`}, false},
		{"a call", true, Reply{Calls: []ToolCall{{"f", `{}`}}}, true},
		{"a bad call", false, Reply{Calls: []ToolCall{{"f", `{`}}}, false},
	} {
		client := &told{generate: func(context.Context, int64, Request) (Reply, error) { return c.reply, nil }}
		w := wrap(t, client, Options{})
		r := ask("?")
		r.JSON = c.json
		first, _ := w.Generate(t.Context(), r)
		if len(first.Calls) > 0 {
			first.Calls[0].Arguments = "the caller's own"
		}
		second, err := w.Generate(t.Context(), r)
		if err != nil || second.Cached != c.keeps {
			t.Errorf("%s: kept %v, want %v, error %v", c.name, second.Cached, c.keeps, err)
		}
		if c.keeps && len(c.reply.Calls) > 0 && second.Calls[0].Arguments != `{}` {
			t.Errorf("%s: a caller changed what the cache keeps", c.name)
		}
	}
	w := wrap(t, answer(strings.Repeat("x", maxCacheBytes/4)), Options{}).(*wrapped)
	for _, text := range []string{"1", "2", "3", "4", "5", "6"} {
		if _, err := w.Generate(t.Context(), ask(text)); err != nil {
			t.Fatal(err)
		}
	}
	if w.replies.mu.bytes > maxCacheBytes || w.replies.mu.recent.Len() != 3 {
		t.Errorf("%d entries of %d bytes", w.replies.mu.recent.Len(), w.replies.mu.bytes)
	}
}

func usd(t *testing.T, s string) usage.USD {
	t.Helper()
	u, err := usage.ParseUSD(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestMeter records calls in a database, each with its owner, and has a budget refuse one
// before it is made.
func TestMeter(t *testing.T) {
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	alice, house := scope.Owner{User: "alice"}, scope.Owner{Agent: "house"}
	// A call costs 100 x 3 $ and 10 x 15 $ for a million, 0.00045 $. Before it, up to
	// 2,000 tokens of the reply are reserved: 0.03 $ and a little.
	if err := db.Usage().SetBudget(t.Context(), usage.Budget{Owner: alice, Limit: usd(t, "0.0305")}); err != nil {
		t.Fatal(err)
	}
	client := answer("yes")
	w := wrap(t, client, Options{Meter: &meter.Meter{Usage: db.Usage(), Owner: house, Price: meter.Price{Prompt: usd(t, "3"), Completion: usd(t, "15")}}})
	call := func(o scope.Owner, text string) error {
		r := ask(text)
		r.Owner = o
		_, err := w.Generate(t.Context(), r)
		return err
	}
	for _, text := range []string{"one", "two", "two"} { // the third is of the cache
		if err := call(alice, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := call(alice, "three"); !errors.Is(err, usage.ErrBudget) {
		t.Errorf("over the budget: %v", err)
	}
	if err := call(scope.Owner{}, "four"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		owner   scope.Owner
		records int64
		cost    string
	}{{alice, 2, "0.0009"}, {house, 1, "0.00045"}} {
		got, err := db.Usage().Total(t.Context(), usage.Query{Owner: c.owner, Model: "told-1"})
		if err != nil || got.Records != c.records || got.Cost.String() != c.cost || got.PromptTokens != 100*c.records {
			t.Errorf("%v: %+v, error %v", c.owner, got, err)
		}
	}
	if got := client.calls.Load(); got != 3 {
		t.Errorf("%d calls, want 3", got)
	}
	client.generate = func(context.Context, int64, Request) (Reply, error) { return Reply{}, ErrModel }
	if err := call(house, "five"); !errors.Is(err, ErrModel) {
		t.Error(err)
	}
	if a, err := db.Usage().Check(t.Context(), house, nil); err != nil || a.Reserved.Cmp(usage.USD{}) != 0 || a.Spent.String() != "0.00045" {
		t.Errorf("after a call that failed: %+v, error %v", a, err)
	}
}

func TestDefaultsOfRequests(t *testing.T) {
	var got Request
	client := &told{generate: func(_ context.Context, _ int64, r Request) (Reply, error) { got = r; return Reply{Text: "a"}, nil }}
	w := wrap(t, client, Options{Temperature: .7, MaxTokens: 50})
	if _, err := w.Generate(t.Context(), ask("?")); err != nil || got.Temperature != .7 || got.MaxTokens != 50 {
		t.Errorf("%+v, error %v", got, err)
	}
}

func TestBadRequests(t *testing.T) {
	client := answer("yes")
	w := wrap(t, client, Options{})
	long := strings.Repeat("x", MaxRequestBytes+1)
	for name, r := range map[string]Request{
		"no messages":  {},
		"system alone": {Messages: []Message{{System, "s"}}},
		"a role":       {Messages: []Message{{"robot", "s"}}},
		"no UTF-8":     ask("\xff"),
		"too long":     ask(long),
		"temperature":  {Messages: ask("?").Messages, Temperature: 2.1},
		"tokens":       {Messages: ask("?").Messages, MaxTokens: -1},
		"a tool":       {Messages: ask("?").Messages, Tools: []Tool{{Name: "a b"}}},
		"a schema":     {Messages: ask("?").Messages, Tools: []Tool{{Name: "f", Parameters: []byte("[]")}}},
		"many tools":   {Messages: ask("?").Messages, Tools: slices.Repeat([]Tool{{Name: "f"}}, MaxTools+1)},
	} {
		if _, err := w.Generate(t.Context(), r); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "told-1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]Options{
		"timeout": {Timeout: -1}, "concurrency": {Concurrency: MaxConcurrency + 1}, "retries": {Retry: retry.Policy{Times: 99}}, "temperature": {Temperature: 3},
	} {
		if _, err := Wrap(client, o); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if client.calls.Load() != 0 {
		t.Error("a bad request was sent")
	}
}
