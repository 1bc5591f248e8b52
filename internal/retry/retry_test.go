package retry

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// TestWaits holds the waits of a policy against a clock that moves by itself.
func TestWaits(t *testing.T) {
	boom := errors.New("boom")
	transient := func(after time.Duration) error { return &Transient{boom, after} }
	for _, c := range []struct {
		name   string
		policy Policy
		fails  []error // of one call after the other; then success
		want   []time.Duration
		err    error
	}{
		{"success", Policy{}, nil, nil, nil},
		{"doubling", Policy{}, []error{transient(0), transient(0), transient(0)}, []time.Duration{1e9, 2e9, 4e9}, nil},
		{"given up", Policy{}, []error{transient(0), transient(0), transient(0), transient(0)}, []time.Duration{1e9, 2e9, 4e9}, boom},
		{"asked for", Policy{}, []error{transient(7 * time.Second), transient(0)}, []time.Duration{7e9, 2e9}, nil},
		{"for good", Policy{}, []error{boom}, nil, boom},
		{"no repetition", Policy{Times: -1}, []error{transient(0)}, nil, boom},
		{"bounded", Policy{Times: 4, Base: 40 * time.Second}, []error{transient(0), transient(0), transient(0)}, []time.Duration{40e9, 80e9, 90e9}, nil},
		{"asked for too long", Policy{}, []error{transient(time.Hour)}, nil, boom},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls []time.Time
				err := c.policy.Do(t.Context(), func(context.Context) error {
					calls = append(calls, time.Now())
					if n := len(calls); n <= len(c.fails) {
						return c.fails[n-1]
					}
					return nil
				})
				var waits []time.Duration
				for i := range calls[1:] {
					waits = append(waits, calls[i+1].Sub(calls[i]))
				}
				if !errors.Is(err, c.err) || !slices.Equal(waits, c.want) {
					t.Errorf("waits %v, error %v, want %v and %v", waits, err, c.want, c.err)
				}
			})
		})
	}
}

func TestContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer stop()
		begun, calls := time.Now(), 0
		err := Policy{}.Do(ctx, func(context.Context) error { calls++; return &Transient{Err: errors.New("boom")} })
		if !errors.Is(err, context.DeadlineExceeded) || calls != 2 || time.Since(begun) != 1500*time.Millisecond {
			t.Errorf("%d calls in %s, error %v", calls, time.Since(begun), err)
		}
	})
}

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		err := Within(t.Context(), time.Minute, hang)
		if _, passes := errors.AsType[*Transient](err); !passes || err.Error() != "no reply within 1m0s" || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that hangs: %v", err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := Within(ctx, time.Minute, hang); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's time is over: %v", err)
		}
	})
}

func TestCheck(t *testing.T) {
	for _, p := range []Policy{{Times: 11}, {Base: -1}, {Longest: -1}} {
		if err := p.Check("test"); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := (&Policy{Times: -1}).Check("test"); err != nil {
		t.Error(err)
	}
}
