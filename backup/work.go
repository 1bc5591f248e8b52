package backup

import (
	"cmp"
	"context"
	"sync"

	"github.com/seed-7aedc3ff/memdb/internal/panics"
)

// each calls do with the numbers below n, a few at once, until one fails.
func each(ctx context.Context, n int, do func(i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			var err error
			failed := panics.Catch("copies files of a backup", func() {
				for i := range next {
					if err = do(i); err != nil {
						return
					}
				}
			})
			if err = cmp.Or(failed, err); err != nil {
				stop(err)
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
