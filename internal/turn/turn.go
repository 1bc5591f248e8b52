// Package turn has work in the background leave the processor to others now and then.
package turn

import (
	"io"
	"runtime"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

const (
	// length is how long a turn may be: where there is no other processor, a call that
	// comes in meanwhile waits so long. The scheduler itself ends a turn after 10 ms.
	length = time.Millisecond
	// spare is how long turns of Spare are.
	spare = 200 * time.Microsecond
	// leastOffer and mostOffer are how long turns of Offer are.
	leastOffer = 100 * time.Microsecond
	mostOffer  = 100 * time.Millisecond
)

// A Turn is the time that a goroutine works without letting others run. Its zero value
// is one that is over.
type Turn struct {
	began time.Time
	offer time.Duration
}

// Pass lets others run if the turn is over, and begins the next one. It is to be called
// where no lock is held, many times a millisecond. It is for work that nobody waits for:
// where others are always busy, it comes on slowly.
func (t *Turn) Pass() {
	if clock.System().Sub(t.began) >= length {
		runtime.Gosched()
		t.began = clock.System()
	}
}

// Spare is Pass with turns of 200 µs: for work that may take its time beside searches of
// about a millisecond, whose slowest would wait for it.
func (t *Turn) Spare() {
	if clock.System().Sub(t.began) >= spare {
		runtime.Gosched()
		t.began = clock.System()
	}
}

// Offer is Pass for work that must keep up with others. As long as they give the
// processor back soon, because they wait for the disk, it has turns of 100 µs and works
// while they wait. Each time that they do not, the next turn is twice as long.
func (t *Turn) Offer() {
	now := clock.System()
	if now.Sub(t.began) < t.offer {
		return
	}
	runtime.Gosched()
	t.began = clock.System()
	if t.began.Sub(now) < length {
		t.offer = leastOffer
	} else {
		t.offer = min(max(2*t.offer, leastOffer), mostOffer)
	}
}

// Writer returns a writer to w that lets others run now and then, as Pass does.
func Writer(w io.Writer) io.Writer { return &writer{w: w} }

type writer struct {
	w    io.Writer
	turn Turn
}

func (w *writer) Write(p []byte) (int, error) {
	w.turn.Pass()
	return w.w.Write(p)
}
