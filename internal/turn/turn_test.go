package turn

import (
	"bytes"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestPass: on one processor another goroutine runs while this one works, again and
// again, and not each time that it could.
func TestPass(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ran, done atomic.Int64
	go func() {
		for done.Load() == 0 {
			ran.Add(1)
			runtime.Gosched()
		}
	}()
	var turn Turn
	passed := int64(0)
	// The machine may take the processor for as long as the loop is meant to run.
	for began := time.Now(); time.Since(began) < 20*time.Millisecond || time.Since(began) < time.Minute && (ran.Load() < 3 || passed < 10_000); passed++ {
		turn.Pass()
	}
	done.Store(1)
	if n := ran.Load(); n < 3 || n > passed/2 {
		t.Errorf("another goroutine ran %d times in %d calls", n, passed)
	}
}

// TestOffer: turns are short while the processor comes back soon, and longer each time
// that it does not.
func TestOffer(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var others, done atomic.Int64 // for how long others keep the processor
	go func() {
		for done.Load() == 0 {
			for began := time.Now(); time.Since(began) < time.Duration(others.Load()); {
			}
			runtime.Gosched()
		}
	}()
	defer done.Store(1)
	var turn Turn
	// The scheduler may give the processor back at once, and the machine late.
	until := func(want time.Duration) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); turn.offer != want; {
			began, before := turn.began, turn.offer
			for turn.began.Equal(began) {
				turn.Offer()
			}
			if turn.offer != leastOffer && turn.offer != min(2*before, mostOffer) {
				t.Fatalf("after a turn of %v comes one of %v", before, turn.offer)
			}
			if time.Now().After(end) {
				t.Fatalf("the turn is %v, not %v", turn.offer, want)
			}
		}
	}
	until(leastOffer)
	others.Store(int64(2 * length))
	until(mostOffer)
	others.Store(0)
	until(leastOffer)
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := Writer(&out)
	for range 3 {
		if n, err := w.Write([]byte("abc")); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := out.String(); got != strings.Repeat("abc", 3) {
		t.Errorf("%q", got)
	}
}
