package facts

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Async has each method of Facts in a form that returns before the call is done. At most
// MaxConcurrency calls of one Async run at once: a further one waits for its turn before
// its method returns. What a call is to read must not be changed until it is done, and the
// database is not to be closed before.
type Async struct {
	f     *Facts
	turns chan struct{}
}

// Async returns the asynchronous form of f.
func (f *Facts) Async() *Async {
	return &Async{f, make(chan struct{}, MaxConcurrency)}
}

// Pending is a call that runs.
type Pending[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// Done is closed when the call is done.
func (p *Pending[T]) Done() <-chan struct{} { return p.done }

// Wait waits for the call and returns its result. Where ctx ends first, its error is
// returned and the call goes on: its own context ends it.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	select {
	case <-p.done:
		return p.value, p.err
	case <-ctx.Done():
	}
	select {
	case <-p.done: // both had happened
		return p.value, p.err
	default:
		var none T
		return none, ctx.Err()
	}
}

// start begins a call when there is a turn for it. One whose context ends before is done
// with the context's error.
func start[T any](ctx context.Context, a *Async, call func() (T, error)) *Pending[T] {
	p := &Pending[T]{done: make(chan struct{})}
	select {
	case a.turns <- struct{}{}:
	case <-ctx.Done():
		p.err = ctx.Err()
		close(p.done)
		return p
	}
	go func() {
		defer func() {
			<-a.turns
			close(p.done)
		}()
		if panicked := panics.Catch("runs a call", func() { p.value, p.err = call() }); panicked != nil {
			p.err = panicked
		}
	}()
	return p
}

// Nothing is the result of a call that has none.
type Nothing struct{}

// Add is Facts.Add.
func (a *Async) Add(ctx context.Context, s scope.Scope, messages Messages, o *AddOptions) *Pending[Added] {
	return start(ctx, a, func() (Added, error) { return a.f.Add(ctx, s, messages, o) })
}

// Search is Facts.Search.
func (a *Async) Search(ctx context.Context, s scope.Scope, query string, o *SearchOptions) *Pending[Found] {
	return start(ctx, a, func() (Found, error) { return a.f.Search(ctx, s, query, o) })
}

// GetAll is Facts.GetAll.
func (a *Async) GetAll(ctx context.Context, s scope.Scope, o *SearchOptions) *Pending[Found] {
	return start(ctx, a, func() (Found, error) { return a.f.GetAll(ctx, s, o) })
}

// Get is Facts.Get.
func (a *Async) Get(ctx context.Context, s scope.Scope, id string) *Pending[*Item] {
	return start(ctx, a, func() (*Item, error) { return a.f.Get(ctx, s, id) })
}

// Update is Facts.Update.
func (a *Async) Update(ctx context.Context, s scope.Scope, id, text string) *Pending[Item] {
	return start(ctx, a, func() (Item, error) { return a.f.Update(ctx, s, id, text) })
}

// Delete is Facts.Delete.
func (a *Async) Delete(ctx context.Context, s scope.Scope, id string) *Pending[Nothing] {
	return start(ctx, a, func() (Nothing, error) { return Nothing{}, a.f.Delete(ctx, s, id) })
}

// DeleteAll is Facts.DeleteAll.
func (a *Async) DeleteAll(ctx context.Context, s scope.Scope) *Pending[int] {
	return start(ctx, a, func() (int, error) { return a.f.DeleteAll(ctx, s) })
}

// History is Facts.History.
func (a *Async) History(ctx context.Context, s scope.Scope, id string) *Pending[[]Record] {
	return start(ctx, a, func() ([]Record, error) { return a.f.History(ctx, s, id) })
}

// Reset is Facts.Reset.
func (a *Async) Reset(ctx context.Context) *Pending[int] {
	return start(ctx, a, func() (int, error) { return a.f.Reset(ctx) })
}
