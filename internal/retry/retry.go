// Package retry repeats the call of a service that failed for a reason which passes. The
// waits double; a service that says how long to wait is obeyed.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// The defaults of a Policy.
const (
	DefaultTimes = 3
	DefaultBase  = time.Second
	// DefaultLongest is more than services ask for who limit calls by the minute.
	DefaultLongest = 90 * time.Second
	// maxTimes bounds what is configured: the tenth wait of one second is 17 minutes.
	maxTimes = 10
)

// Transient is an error that may pass.
type Transient struct {
	Err error
	// After is how long the service asks to wait; 0: it does not say.
	After time.Duration
}

func (t *Transient) Error() string { return t.Err.Error() }

// Unwrap returns Err.
func (t *Transient) Unwrap() error { return t.Err }

// Policy says how often a call is repeated, and when. The zero Policy is the default.
type Policy struct {
	// Times is how often a call is repeated after the first time; 0: DefaultTimes, less than
	// 0: never.
	Times int
	// Base is the first wait, each later one is twice the one before; 0: DefaultBase.
	Base time.Duration
	// Longest bounds a wait; 0: DefaultLongest. A service that asks for a longer one is not
	// called again.
	Longest time.Duration
	// Wait returns after a time, or earlier with the error of the context; nil: Sleep.
	Wait func(context.Context, time.Duration) error
}

// Check refuses a policy that is out of range.
func (p *Policy) Check(doing string) error {
	switch {
	case p.Times > maxTimes:
		return fault.Invalid(doing, fmt.Sprintf("it would repeat a call %d times", p.Times), fmt.Sprintf("give up to %d", maxTimes))
	case p.Base < 0 || p.Longest < 0:
		return fault.Invalid(doing, "a wait between repeated calls is negative", "give a positive one, or 0 for the default")
	}
	return nil
}

// Do calls fn until it succeeds, fails for good, or has been repeated as often as the policy
// says. It returns the last error.
func (p Policy) Do(ctx context.Context, fn func(context.Context) error) error {
	times, base, longest, wait := p.Times, p.Base, p.Longest, p.Wait
	if times == 0 {
		times = DefaultTimes
	}
	if base == 0 {
		base = DefaultBase
	}
	if longest == 0 {
		longest = DefaultLongest
	}
	if wait == nil {
		wait = Sleep
	}
	for n := 0; ; n++ {
		err := fn(ctx)
		again, passes := errors.AsType[*Transient](err)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !passes || n >= times || again.After > longest:
			return err
		}
		pause := again.After
		if pause <= 0 {
			pause = min(base<<n, longest)
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

// Sleep waits for a time, or until ctx ends, and returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Within calls fn with a limit of time. An fn that goes over it fails with an *Overtime, as
// Transient; the end of ctx itself is the error of ctx.
func Within(ctx context.Context, limit time.Duration, fn func(context.Context) error) error {
	inner, stop := context.WithTimeout(ctx, limit)
	defer stop()
	err := fn(inner)
	if err != nil && ctx.Err() == nil && inner.Err() != nil {
		return &Transient{Err: &Overtime{Limit: limit}}
	}
	return err
}

// Overtime is a call that took too long.
type Overtime struct{ Limit time.Duration }

func (o *Overtime) Error() string { return fmt.Sprintf("no reply within %s", o.Limit) }
