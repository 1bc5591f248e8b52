package facts_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// TestAsyncMethods: there is an asynchronous form of each method that takes a context.
func TestAsyncMethods(t *testing.T) {
	plain, async := reflect.TypeFor[*facts.Facts](), reflect.TypeFor[*facts.Async]()
	for m := range plain.Methods() {
		if m.Type.NumIn() < 2 || m.Type.In(1) != reflect.TypeFor[context.Context]() {
			continue
		}
		other, there := async.MethodByName(m.Name)
		if !there || other.Type.NumIn() != m.Type.NumIn() {
			t.Errorf("Async has no %s of the same arguments", m.Name)
		}
	}
}

// wait is the result of a call that must succeed.
func wait[T any](t *testing.T, p *facts.Pending[T]) T {
	t.Helper()
	v, err := p.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestAsync: the life of a fact by the asynchronous forms.
func TestAsync(t *testing.T) {
	ctx := t.Context()
	f := open(t, facts.Config{LLM: &model{}})
	a := f.Async()
	added := wait(t, a.Add(ctx, alice, facts.Text("User likes tea"), nil))
	wantEvents(t, added, "ADD User likes tea")
	id := added.Results[0].ID
	if found := wait(t, a.Search(ctx, alice, "tea", nil)); len(found.Results) != 1 {
		t.Errorf("found %+v", found)
	}
	if all := wait(t, a.GetAll(ctx, alice, nil)); len(all.Results) != 1 {
		t.Errorf("all %+v", all)
	}
	wait(t, a.Update(ctx, alice, id, "User likes coffee"))
	if item := wait(t, a.Get(ctx, alice, id)); item == nil || item.Memory != "User likes coffee" {
		t.Errorf("got %+v", item)
	}
	wait(t, a.Delete(ctx, alice, id))
	if h := wait(t, a.History(ctx, alice, id)); len(h) != 3 {
		t.Errorf("history %+v", h)
	}
	if n := wait(t, a.DeleteAll(ctx, alice)); n != 0 {
		t.Errorf("deleted %d", n)
	}
	if _, err := a.Delete(ctx, alice, id).Wait(ctx); facts.ClassOf(err) != facts.NotFoundError {
		t.Errorf("a second delete: %v", err)
	}
	wait(t, a.Add(ctx, alice, facts.Text("User likes milk"), nil))
	if n := wait(t, a.Reset(ctx)); n != 1 {
		t.Errorf("reset %d", n)
	}
}

// held is a model that answers once it is let go.
type held struct{ free chan struct{} }

func (held) Model() string { return "held" }
func (h held) Generate(ctx context.Context, _ llm.Request) (llm.Reply, error) {
	select {
	case <-h.free:
		return llm.Reply{Text: "[]"}, nil
	case <-ctx.Done():
		return llm.Reply{}, ctx.Err()
	}
}

// TestAsyncTurns: a method returns while its call runs, and so many run at once; a wait that
// ends leaves the call alone, and the call's own context ends it.
func TestAsyncTurns(t *testing.T) {
	h := held{make(chan struct{})}
	f := open(t, facts.Config{LLM: h})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h.free = make(chan struct{}) // one of this bubble
		f.LLM = h
		a := f.Async()
		var running []*facts.Pending[facts.Added]
		for range facts.MaxConcurrency {
			running = append(running, a.Add(ctx, alice, facts.Text("x"), nil))
		}
		short, end := context.WithTimeout(ctx, time.Second)
		defer end()
		if _, err := running[0].Wait(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait that ends: %v", err)
		}
		if _, err := a.Add(short, alice, facts.Text("x"), nil).Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call without a turn: %v", err)
		}
		h.free <- struct{}{}
		synctest.Wait()
		turn := a.Add(ctx, alice, facts.Text("x"), nil) // where one was done
		cancel()
		for _, p := range append(running, turn) {
			<-p.Done()
		}
		if _, err := turn.Wait(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("a call whose context ended: %v", err)
		}
	})
}
