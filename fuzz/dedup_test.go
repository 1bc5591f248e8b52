package fuzz

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestSameTexts has 64 goroutines store the same thousand texts, a hundred under the race detector, each in an
// order of its own: each text is one memory, and every goroutine is told the same
// ID for a text.
func TestSameTexts(t *testing.T) {
	const writers = 64
	texts := race.Times(1000)
	w := newWorld()
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	scope := memory.Scope{User: "everyone"}
	seed := newSeed(t)
	ids := make([]atomic.Pointer[string], texts)
	var stored atomic.Int64
	errs := make(chan error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for _, n := range rng.Perm(texts) {
				mem := memory.Memory{Scope: scope, Text: fmt.Sprintf("text number %d", n)}
				st, err := w.db.Memories().Store(t.Context(), mem, nil)
				if err != nil {
					errs <- err
					return
				}
				if st.Stored == st.Deduplicated {
					errs <- fmt.Errorf("text %d: %+v", n, st)
					return
				}
				if st.Stored {
					stored.Add(1)
				}
				if !ids[n].CompareAndSwap(nil, &st.ID) && *ids[n].Load() != st.ID {
					errs <- fmt.Errorf("text %d is %s and %s", n, *ids[n].Load(), st.ID)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	if stored.Load() != int64(texts) {
		t.Errorf("%d stores said that they stored", stored.Load())
	}
	for _, when := range []string{"at once", "after reopening"} {
		n := 0
		for _, err := range w.db.Memories().All(context.Background(), memory.ListQuery{Scope: scope}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		report, err := w.db.Check(t.Context())
		if n != texts || err != nil || !report.OK {
			t.Errorf("%s: %d memories, check %+v, %v", when, n, report, err)
		}
		if err := w.reopen(); err != nil {
			t.Fatal(err)
		}
	}
	closes(t, w.db)
}
