package hnsw

import (
	"context"
	"runtime"
	"sync/atomic"
)

// grace holds slots back until no search can still meet them, without anybody
// waiting: searches count themselves into the current epoch; slots retired in
// an epoch are free once that epoch is over and its last search has left.
type grace struct {
	epoch   atomic.Uint64
	readers [2]readerCount // of the epochs with this parity

	fresh   []uint32 // retired in this epoch
	waiting []uint32 // retired in the one before
}

// readerCount has a cache line to itself, so that epochs don't slow each other.
type readerCount struct {
	n atomic.Int64
	_ [56]byte
}

// enter counts a search in and returns what leave needs to count it out.
func (g *grace) enter() uint64 {
	for {
		e := g.epoch.Load()
		g.readers[e&1].n.Add(1)
		if g.epoch.Load() == e {
			return e
		}
		// The epoch ended in between: advance may have missed this count.
		g.readers[e&1].n.Add(-1)
	}
}

func (g *grace) leave(epoch uint64) { g.readers[epoch&1].n.Add(-1) }

// retire holds a slot back that no search beginning later can meet. Calls of
// retire and advance must not overlap.
func (g *grace) retire(slots ...uint32) { g.fresh = append(g.fresh, slots...) }

// advance appends to free the slots that have become free.
func (g *grace) advance(free []uint32) []uint32 {
	for range 2 {
		if g.readers[(g.epoch.Load()+1)&1].n.Load() != 0 {
			return free // a search of the last epoch is still running
		}
		free = append(free, g.waiting...)
		g.waiting = g.waiting[:0]
		if len(g.fresh) == 0 {
			return free
		}
		g.waiting, g.fresh = g.fresh, g.waiting
		g.epoch.Add(1)
	}
	return free
}

// wait returns once every search has left that was counted in before. Nobody else calls it
// meanwhile.
func (g *grace) wait(ctx context.Context) error {
	for range 2 {
		e := g.epoch.Load()
		for g.readers[(e+1)&1].n.Load() != 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			runtime.Gosched() // a search takes a millisecond or so
		}
		g.epoch.Store(e + 1)
	}
	return nil
}
