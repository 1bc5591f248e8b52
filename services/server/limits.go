package server

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-7aedc3ff/memdb/filter"
)

// rates limit the requests of each key: so many a second, and so many at once.
type rates struct {
	perSecond rate.Limit
	burst     int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

// maxBuckets bounds what is kept of addresses without a key.
const maxBuckets = 10_000

// take counts a request of whom; 0 if it may go on, else how long it is to wait.
func (r *rates) take(whom string, now time.Time) time.Duration {
	if r.perSecond <= 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[whom]
	if b == nil {
		r.shrink(now)
		b = rate.NewLimiter(r.perSecond, r.burst)
		r.buckets[whom] = b
	}
	taken := b.ReserveN(now, 1)
	wait := taken.DelayFrom(now)
	if wait > 0 {
		taken.CancelAt(now)
	}
	return wait
}

// shrink forgets the buckets that are full again, where there are many.
func (r *rates) shrink(now time.Time) {
	if len(r.buckets) < maxBuckets {
		return
	}
	maps.DeleteFunc(r.buckets, func(_ string, b *rate.Limiter) bool { return b.TokensAt(now) >= float64(r.burst) })
	if len(r.buckets) >= maxBuckets { // of those who come at this rate, nobody is known apart
		clear(r.buckets)
	}
}

// Bounded returns the context of a request that comes by another way than HTTP, under which its filters take
// DefaultMaxWork at most.
func Bounded(ctx context.Context) context.Context { return filter.WithWork(ctx, DefaultMaxWork) }

// shares divide a number of units, such as requests or bytes, among those who ask. Nobody may take more
// while they hold as many as are free: one alone gets half of the units, each of two a third, and so
// on. Whoever holds nothing finds some free as long as fewer ask than there are units.
type shares struct {
	wait time.Duration // for units
	mu   struct {
		sync.Mutex
		free  int64
		held  map[string]int64
		freed chan struct{} // closed when units are given back; nil: nobody waits
	}
}

func newShares(units int64, wait time.Duration) *shares {
	s := &shares{wait: wait}
	s.mu.free, s.mu.held = units, map[string]int64{}
	return s
}

// take takes units for somebody, and waits for them until the context ends or it was waited long enough.
func (s *shares) take(ctx context.Context, whom string, units int64) error {
	freed := s.tryTake(whom, units)
	if freed == nil {
		return nil
	}
	t := time.NewTimer(s.wait)
	defer t.Stop()
	for ; freed != nil; freed = s.tryTake(whom, units) {
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return &Failure{Status: http.StatusServiceUnavailable, Code: "busy", Message: "the server has too many requests at once, or this key has its share of them; try again", RetryAfter: retryAfter}
		}
	}
	return nil
}

// tryTake takes units if it may, and returns nil. Otherwise the channel is closed when it is worth another try.
func (s *shares) tryTake(whom string, units int64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.held[whom] < s.mu.free && units <= s.mu.free {
		s.mu.free -= units
		s.mu.held[whom] += units
		return nil
	}
	if s.mu.freed == nil {
		s.mu.freed = make(chan struct{})
	}
	return s.mu.freed
}

// give gives units back.
func (s *shares) give(whom string, units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.free += units
	if s.mu.held[whom] -= units; s.mu.held[whom] == 0 {
		delete(s.mu.held, whom)
	}
	if s.mu.freed != nil {
		close(s.mu.freed)
		s.mu.freed = nil
	}
}

const (
	// slotWait is how much longer a connection is read and written than its request may take.
	slotWait = time.Second
	// bodiesHeld is how many of the largest bodies all requests together may hold in memory.
	bodiesHeld = 16
	// bodyStep is the first piece of a body that is made room for, in bytes. Each further one is as large
	// as all before it, so a client that sends little holds little, whatever length it has announced.
	bodyStep = 32 << 10
)

// hold reads the body of a request before the request takes a slot, so that a client that sends slowly
// keeps nobody waiting. What it takes counts as a part of all bodies until done is called.
func (s *Server) hold(ctx context.Context, whom string, body io.Reader, announced int64) (b []byte, done func(), err error) {
	taken := int64(0)
	give := func() { s.bodies.give(whom, taken) }
	defer func() {
		if err != nil {
			give()
		}
	}()
	for {
		if len(b) == cap(b) {
			more := int64(max(len(b), bodyStep))
			if left := announced + 1 - int64(len(b)); left > 0 { // one byte more, so that the end is seen
				more = min(more, left)
			}
			if err := s.bodies.take(ctx, whom, more); err != nil {
				return nil, nil, err
			}
			taken += more
			b = append(make([]byte, 0, taken), b...)
		}
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return b, give, nil
		default:
			return nil, nil, err
		}
	}
}
