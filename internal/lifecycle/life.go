// Package lifecycle runs what begins when something is opened and ends when it is closed: calls, which Close waits
// for, and work in the background, which Close ends.
//
// A Life ends in four steps, and in no other order: [Life.Close] begins, once; [Life.EndWork] ends the work in the
// background; [Life.EndCalls] refuses new calls and waits for those that run; and then the owner closes what they
// used. Groups that [Life.Group] makes end when their owner says so.
package lifecycle

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/panics"
)

// Life is the time between opening and closing. It is safe for concurrent use.
type Life struct {
	fail   func(error)
	report func(error)

	work    *Group
	closing sync.Once

	idle sync.Cond // of mu: no call runs
	mu   struct {
		sync.Mutex
		calls  int
		closed bool
	}
}

// New begins a life. Work that panics calls fail, with a [panics.Error]; work that returns an error before its end
// calls report.
func New(fail, report func(error)) *Life {
	l := &Life{fail: fail, report: report}
	l.work = l.Group()
	l.idle.L = &l.mu
	return l
}

// Enter begins a call and keeps EndCalls waiting until Leave. It is false once EndCalls was called. A call within
// another one passes or is refused, and never waits.
func (l *Life) Enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return false
	}
	l.mu.calls++
	return true
}

// Leave ends a call.
func (l *Life) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.calls--; l.mu.calls == 0 {
		l.idle.Broadcast()
	}
}

// Busy reports whether a call runs.
func (l *Life) Busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.calls > 0
}

// Closed reports whether new calls are refused.
func (l *Life) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.closed
}

// EndCalls refuses new calls and waits for those that run.
func (l *Life) EndCalls() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.closed = true
	for l.mu.calls > 0 {
		l.idle.Wait()
	}
}

// Ending is closed when EndWork begins.
func (l *Life) Ending() <-chan struct{} { return l.work.ctx.Done() }

// Go runs fn in the background. Its context ends with EndWork, which waits for it.
func (l *Life) Go(what string, fn func(context.Context)) { l.work.Go(what, fn) }

// Every runs fn in the background every interval, and when signal fires, until EndWork. An error is reported, unless
// fn was interrupted by the end.
func (l *Life) Every(what string, interval time.Duration, signal <-chan struct{}, fn func(context.Context) error) {
	l.Go(what, func(ctx context.Context) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
			case <-tick.C:
			case <-signal:
			}
			if ctx.Err() != nil {
				return
			}
			if err := fn(ctx); err != nil && ctx.Err() == nil {
				l.report(err)
			}
		}
	})
}

// EndWork ends the work in the background and waits for it.
func (l *Life) EndWork() { l.work.End() }

// Close runs end once, however often it is called.
func (l *Life) Close(end func() error) (err error) {
	l.closing.Do(func() { err = end() })
	return err
}

// Group is work in the background that ends together.
type Group struct {
	ctx  context.Context
	stop context.CancelFunc
	fail func(error)
	work sync.WaitGroup
}

// Group returns a group whose panics fail the life. EndWork does not end it.
func (l *Life) Group() *Group {
	g := &Group{fail: l.fail}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// Go runs fn in a goroutine of its own. what says what fn does, as a verb: "cleans up".
func (g *Group) Go(what string, fn func(context.Context)) {
	g.work.Go(func() {
		if err := panics.Catch(what, func() { fn(g.ctx) }); err != nil {
			g.fail(err)
		}
	})
}

// Wait waits for the work of the group, which may end by itself.
func (g *Group) Wait() { g.work.Wait() }

// End ends the context of the group and waits for its work.
func (g *Group) End() {
	g.stop()
	g.work.Wait()
}

// AtOnce returns a signal that has Every begin with a run.
func AtOnce() <-chan struct{} {
	signal := make(chan struct{}, 1)
	signal <- struct{}{}
	return signal
}

// CalledBack reports whether its caller, a method, runs within another method of the same type: it would wait for
// itself if it waited for the calls that run.
func CalledBack() bool {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	method, more := frames.Next()
	prefix := method.Function[:strings.Index(method.Function, ").")+2]
	for more {
		var f runtime.Frame
		if f, more = frames.Next(); strings.HasPrefix(f.Function, prefix) {
			return true
		}
	}
	return false
}
