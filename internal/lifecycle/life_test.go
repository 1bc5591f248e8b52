package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/panics"
)

// quiet is a life in which nothing may fail.
func quiet(t *testing.T) *Life {
	t.Helper()
	never := func(err error) { t.Errorf("unexpected: %v", err) }
	return New(never, never)
}

// TestCalls verifies that EndCalls waits for calls that run and refuses later ones, also within a call.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := quiet(t)
		if l.Busy() || l.Closed() {
			t.Error("a new life is busy or closed")
		}
		for range 2 { // one within the other
			if !l.Enter() || !l.Busy() {
				t.Fatal("a call is refused")
			}
		}
		var ended atomic.Bool
		go func() {
			l.EndCalls()
			ended.Store(true)
		}()
		synctest.Wait()
		if !l.Closed() || l.Enter() {
			t.Error("a call begins after EndCalls")
		}
		l.Leave()
		synctest.Wait()
		if ended.Load() || !l.Busy() {
			t.Error("EndCalls does not wait for the outer call")
		}
		l.Leave()
		synctest.Wait()
		if !ended.Load() || l.Busy() {
			t.Error("EndCalls waits for ever")
		}
	})
}

// TestEvery verifies when work runs: on a signal, at each interval, and not after its end; and which errors are reported.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []error
		l := New(func(err error) { t.Error(err) }, func(err error) { reported = append(reported, err) })
		began, broken := time.Now(), errors.New("broken")
		var at []time.Duration
		l.Every("works", time.Minute, AtOnce(), func(ctx context.Context) error {
			at = append(at, time.Since(began))
			if len(at) == 2 {
				return broken
			}
			if len(at) == 3 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		time.Sleep(150 * time.Second) // of the test's own clock
		select {
		case <-l.Ending():
			t.Error("it ends by itself")
		default:
		}
		time.Sleep(time.Minute)
		l.EndWork()
		<-l.Ending()
		if want := []time.Duration{0, time.Minute, 2 * time.Minute}; !slices.Equal(at, want) {
			t.Errorf("it ran at %v, want %v", at, want)
		}
		if len(reported) != 1 || !errors.Is(reported[0], broken) {
			t.Errorf("reported: %v", reported)
		}
	})
}

// TestPanics verifies that a panic fails the life with what was done, and ends nothing else.
func TestPanics(t *testing.T) {
	failed := make(chan error, 1)
	l := New(func(err error) { failed <- err }, func(err error) { t.Error(err) })
	l.Go("trips", func(context.Context) { panic("a stone") })
	l.EndWork()
	caught, ok := errors.AsType[*panics.Error](<-failed)
	if !ok || caught.What != "trips" || caught.Value != "a stone" {
		t.Errorf("caught %+v", caught)
	}
	if !l.Enter() {
		t.Error("a panic refuses calls")
	}
}

// TestGroups verifies that a group outlives the other work until its owner ends it.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := quiet(t)
		g := l.Group()
		var order []string
		l.Go("works", func(ctx context.Context) {
			<-ctx.Done()
			order = append(order, "work")
		})
		g.Go("cleans up", func(ctx context.Context) {
			<-ctx.Done()
			order = append(order, "group")
		})
		l.EndWork()
		synctest.Wait()
		if !slices.Equal(order, []string{"work"}) {
			t.Errorf("EndWork ended %v", order)
		}
		g.End()
		g.Wait()
		if !slices.Equal(order, []string{"work", "group"}) {
			t.Errorf("ended: %v", order)
		}
	})
}

// TestClose verifies that only the first Close ends anything and returns its error.
func TestClose(t *testing.T) {
	l, ends, broken := quiet(t), 0, errors.New("broken")
	end := func() error { ends++; return broken }
	if err := l.Close(end); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := l.Close(end); err != nil || ends != 1 {
		t.Errorf("closed %d times: %v", ends, err)
	}
}

// shop has a method that may be called within another.
type shop struct{}

func (s *shop) shut() bool          { return CalledBack() }
func (s *shop) serve(fn func())     { fn() }
func (s *shop) shutWithin() bool    { return s.shut() }
func (*market) shutOf(s *shop) bool { return s.shut() }

type market struct{}

// TestCalledBack verifies that a method knows whether a method of the same type called it, directly or through a
// function, and that methods of other types do not count.
func TestCalledBack(t *testing.T) {
	s := &shop{}
	var within bool
	s.serve(func() { within = s.shut() })
	if !within || !s.shutWithin() {
		t.Error("a call within another one is not noticed")
	}
	if s.shut() || (&market{}).shutOf(s) {
		t.Error("a call on its own counts as one within another")
	}
}
