package server

import (
	"math"
	"net/http"
	"sync"
	"time"
)

// rates count the requests of keys by a bucket each: so many a second, and so many at once.
type rates struct {
	perSecond, burst float64

	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	left float64
	at   time.Time
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
		b = &bucket{left: r.burst, at: now}
		r.buckets[whom] = b
	}
	b.left = min(r.burst, b.left+max(0, now.Sub(b.at).Seconds())*r.perSecond)
	b.at = now
	if b.left < 1 {
		return time.Duration(math.Ceil((1 - b.left) / r.perSecond * float64(time.Second)))
	}
	b.left--
	return 0
}

// shrink forgets the buckets that are full again, where there are many.
func (r *rates) shrink(now time.Time) {
	if len(r.buckets) < maxBuckets {
		return
	}
	for whom, b := range r.buckets {
		if b.left+now.Sub(b.at).Seconds()*r.perSecond >= r.burst {
			delete(r.buckets, whom)
		}
	}
	if len(r.buckets) >= maxBuckets { // of those who come at this rate, nobody is known apart
		clear(r.buckets)
	}
}

// slots bound how many requests run at once. Those beyond wait, but not for long.
type slots chan struct{}

// enter waits for a slot as long as the context and the timer allow.
func (s slots) enter(r *http.Request, wait time.Duration) error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case s <- struct{}{}:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	case <-t.C:
		return &Failure{Status: http.StatusServiceUnavailable, Code: "busy", Message: "the server has too many requests at once; try again", RetryAfter: retryAfter}
	}
}

func (s slots) leave() { <-s }
