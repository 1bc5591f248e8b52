package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/mention"
)

const (
	// extractorPatience is how long an extractor may take for one text.
	extractorPatience = 30 * time.Second
	// mostHung is how many calls may hang before an extractor is called no more: what hangs
	// cannot be ended, and keeps its memory.
	mostHung = 4
)

// extractor calls an extractor of entities, and bounds what it does.
type extractor struct {
	mention.Extractor
	hung atomic.Int32 // calls that have not returned
}

// newExtractor is the extractor of a database, nil without one.
func newExtractor(x mention.Extractor) *extractor {
	if x == nil {
		return nil
	}
	return &extractor{Extractor: x}
}

// byRule reports whether the extractor is as fast as the analysis of a text, so that it may be
// called under the writer lock.
func (x *extractor) byRule() bool {
	_, ok := x.Extractor.(mention.Rules)
	return ok
}

// extract calls the extractor with the beginning of a text. ErrExtractor, which names the
// extractor: it failed or panicked, has not returned within 30 s, or returned more or other
// than an extractor may. A call that hangs is left alone; while four hang, there is no other.
func (x *extractor) extract(ctx context.Context, text string) (mention.Found, error) {
	text = mention.Head(text)
	var f mention.Found
	var err error
	if x.byRule() {
		f, err = x.Extract(ctx, text)
		return f, cmp.Or(err, x.refused(&f))
	}
	if n := x.hung.Load(); n >= mostHung {
		return mention.Found{}, x.failed(fmt.Sprintf("%d calls of it have not returned", n), nil)
	}
	within, cancel := context.WithTimeout(ctx, extractorPatience)
	defer cancel()
	done := make(chan struct{})
	x.hung.Add(1)
	go func() {
		defer close(done)
		defer x.hung.Add(-1)
		if panicked := panics.Catch("extracts entities", func() { f, err = x.Extract(within, text) }); panicked != nil {
			f, err = mention.Found{}, panicked
		}
	}()
	select {
	case <-done:
	case <-within.Done():
		if ctx.Err() != nil {
			return mention.Found{}, ctx.Err()
		}
		return mention.Found{}, x.failed(fmt.Sprintf("it has not returned within %s", extractorPatience), nil)
	}
	if err != nil {
		return mention.Found{}, x.failed("", err)
	}
	return f, x.refused(&f)
}

// refused is the error of what cannot be stored.
func (x *extractor) refused(f *mention.Found) error {
	if why := f.Refusal(); why != "" {
		return x.failed(why, nil)
	}
	return nil
}

func (x *extractor) failed(why string, cause error) error {
	return &fault.Error{
		Kind: fault.ErrExtractor, What: fmt.Sprintf("extract entities with %.80s", x.Name()), Why: why, Cause: cause,
		Do: "check the extractor; ExtractEntities takes up what was left",
	}
}
