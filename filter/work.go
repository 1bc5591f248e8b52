package filter

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// What the parts of a filter cost, in steps of a few nanoseconds each at worst.
const (
	// conditionSteps are those of a condition for one memory.
	conditionSteps = 8
	// scannedPerStep is how many bytes of a string are searched in one step.
	scannedPerStep = 16
	// foldSteps are those of a byte that is read without regard to case.
	foldSteps = 8
)

// work is what the filters under one context may still cost.
type work struct {
	most int64
	left atomic.Int64
}

// forWork is the key of the context for work.
type forWork struct{}

// WithWork returns a context under which all filters together take so many steps at most. Further ones fail with
// ErrInvalid. A condition takes 8 steps for a memory, and 1 more for each 16 bytes of a string in which it looks for
// something; without regard to case 8 for each byte. A regular expression takes as many steps for each byte as
// MaxProgram counts for it, where the string has the text with which the expression begins. Without
// WithWork only the end of the context bounds filters.
func WithWork(ctx context.Context, steps int64) context.Context {
	w := &work{most: steps}
	w.left.Store(steps)
	return context.WithValue(ctx, forWork{}, w)
}

// WithWorkAgain returns a context under which filters may take as much again as at first: for each of the calls that come
// under one context.
func WithWorkAgain(ctx context.Context) context.Context {
	if w, ok := ctx.Value(forWork{}).(*work); ok {
		return WithWork(ctx, w.most)
	}
	return ctx
}

// spend counts steps.
func (t *trial) spend(steps int) {
	if t.work != nil && t.work.left.Add(-int64(steps)) < 0 && t.err == nil {
		t.err = fault.Invalid("evaluate a filter", fmt.Sprintf("the filters of this call take more than %d steps over the memories", t.work.most),
			"narrow the scope, add a condition on another field, or repeat less in a regular expression")
	}
}
