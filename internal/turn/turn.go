// Package turn has work in the background leave the processor to others now and then.
package turn

import (
	"io"
	"runtime"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

// length is how long a turn may be: where there is no other processor, a call that
// comes in meanwhile waits so long. The scheduler itself ends a turn after 10 ms.
const length = time.Millisecond

// A Turn is the time that a goroutine works without letting others run. Its zero value
// is one that is over.
type Turn struct{ began time.Time }

// Pass lets others run if the turn is over, and begins the next one. It is to be called
// where no lock is held, many times a millisecond.
func (t *Turn) Pass() {
	if clock.System().Sub(t.began) < length {
		return
	}
	runtime.Gosched()
	t.began = clock.System()
}

// Writer returns a writer to w that lets others run now and then.
func Writer(w io.Writer) io.Writer { return &writer{w: w} }

type writer struct {
	w    io.Writer
	turn Turn
}

func (w *writer) Write(p []byte) (int, error) {
	w.turn.Pass()
	return w.w.Write(p)
}
