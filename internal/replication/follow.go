package replication

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// fullPause is how long a replica waits for room on its disk before it looks again.
const fullPause = 500 * time.Millisecond

// behind runs fn in a goroutine that Close waits for. A panic ends the following.
func (r *Replica) behind(what string, fn func()) {
	r.work.Go(func() {
		if err := panics.Catch(what, fn); err != nil {
			r.fail(&fault.Error{Kind: fault.ErrFailed, What: doingReplica(r.dir), Cause: err, Do: "close the replica and open it again"})
		}
	})
}

// follow applies what the feed gives until it ends.
func (r *Replica) follow(ctx context.Context) {
	for {
		err := r.step(ctx)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil: // of Close, or of a failure that is told already
			err = nil
		case errors.Is(err, io.EOF):
			err = r.short(err)
		case r.beginsAgain(err):
			continue
		}
		if err != nil {
			r.Logger.Error("the replica follows no more", "folder", r.dir, "error", err)
		}
		r.change(func(s *replicaState) {
			if s.err == nil {
				s.err = err
			}
			s.ended, s.passing, s.stats.Following = true, nil, false
			s.broken = s.broken || s.drained // what came could not take the place of what was there
		})
		r.tell()
		return
	}
}

// short is why the end of a feed is not the end of what it had, nil where it is.
func (r *Replica) short(end error) error {
	short, ok := errors.AsType[*wal.ShortError](end)
	if !ok {
		return nil
	}
	r.change(func(s *replicaState) { s.stats.ExpectedLSN = short.Had.LSN })
	return &fault.Error{
		Kind: fault.ErrCorrupt, What: doingReplica(r.dir), Cause: short,
		Do: "restore the archive from a copy; or have the database archive again, which begins with a base, and follow with --begin-again",
	}
}

// step takes one frame.
func (r *Replica) step(ctx context.Context) error {
	to := r.next
	if to == nil && !r.again {
		to = r.main
	}
	at := wal.Position{}
	if to != nil {
		at = to.at
	}
	frame, err := r.feed(ctx, at)
	if err != nil {
		return err
	}
	if frame == nil {
		return fault.Invalid(doingReplica(r.dir), "the feed gave neither a frame nor an error", "return io.EOF at its end")
	}
	if to == nil {
		if to, err = r.build(frame.Timeline); err != nil {
			return err
		}
	}
	before := to.at
	if err := r.take(ctx, to, frame); err != nil {
		return err
	}
	if to == r.next && to.whole() {
		if err := r.replace(ctx); err != nil {
			return err
		}
		to = r.main
	}
	r.took(to, before, frame)
	return nil
}

// take applies a frame once the disk has room for it.
func (r *Replica) take(ctx context.Context, to *followed, frame *wal.Frame) error {
	for {
		err := to.take(frame)
		full := errors.Is(err, fault.ErrDiskFull)
		r.mu.Lock()
		told := r.mu.passing != nil
		r.mu.Unlock()
		if full != told {
			r.change(func(s *replicaState) {
				s.passing = nil
				if full {
					s.passing = err
				}
			})
		}
		if !full {
			return err
		}
		if err := retry.Sleep(ctx, fullPause); err != nil {
			return err
		}
	}
}

// took notes a frame that was applied, behind a position.
func (r *Replica) took(to *followed, before wal.Position, frame *wal.Frame) {
	if to.at == before {
		return // it was there
	}
	size := int64(0)
	for _, b := range frame.Batches {
		size += int64(len(b))
	}
	r.change(func(s *replicaState) {
		s.stats.Frames++
		s.stats.Bytes += size
		s.stats.Building = r.next != nil
		if to != r.main {
			return
		}
		s.purging = to.mustPurge()
		s.stats.Timeline, s.stats.Number = to.at.Timeline.String(), to.at.Number
		s.stats.AppliedLSN = max(s.stats.AppliedLSN, to.lsn)
		if frame.Time > 0 {
			s.behind = append(s.behind, frameTime{to.at.Number, frame.Time})
		}
	})
	r.tell()
}

// tell has what was applied loaded.
func (r *Replica) tell() {
	select {
	case r.fresh <- struct{}{}:
	default:
	}
}

// build begins a store beside the one that is there.
func (r *Replica) build(t wal.Timeline) (*followed, error) {
	path := r.base.PathJoin(r.dir, place.Replica)
	if err := removeAll(r.base, path); err != nil {
		return nil, fault.Within(doingReplica(r.dir), err)
	}
	f, err := newFollowed(r.host, r.base, path, t)
	if err != nil {
		return nil, err
	}
	if r.main != nil {
		f.database = r.main.database
	}
	r.next, r.again = f, false
	return f, nil
}

// drop gives up what was built.
func (r *Replica) drop() error {
	err := r.next.close()
	r.next = nil
	return errors.Join(err, removeAll(r.base, r.base.PathJoin(r.dir, place.Replica)))
}

// replace puts what was built, which is whole, in the place of what is there, once no read runs.
func (r *Replica) replace(ctx context.Context) error {
	if err := r.drain(ctx); err != nil {
		return err
	}
	r.loading.Lock()
	defer r.loading.Unlock()
	if err := r.closeViews(); err != nil {
		return err
	}
	again := r.main != nil
	if again {
		main := r.main
		r.main = nil
		if err := main.close(); err != nil {
			return err
		}
	}
	built := r.next
	r.next = nil
	if err := built.close(); err != nil {
		return err
	}
	if err := replaceReplica(r.base, r.dir); err != nil {
		return err
	}
	id, err := mayFollow(r.base, r.dir)
	if err != nil {
		return err
	}
	f, err := openFollowed(r.host, r.base, r.dir, id)
	if err != nil {
		return err
	}
	f.lsn, f.time = built.lsn, built.time
	r.main = f
	r.change(func(s *replicaState) {
		s.drained, s.behind, s.purging = false, nil, f.erased
		s.stats.AppliedLSN, s.stats.Number = f.lsn, f.at.Number
		if again {
			s.stats.Restarts++
		}
	})
	return nil
}

// beginsAgain reports whether the replica goes on from a base after an error. What has just begun again
// does not: the feed has no base that it could follow.
func (r *Replica) beginsAgain(err error) bool {
	if !r.BeginAgain || r.main == nil || r.again || r.next != nil || !errors.Is(err, wal.ErrGap) {
		return false
	}
	r.Logger.Warn("the replica begins again from a base", "folder", r.dir, "why", err)
	r.again = true
	return true
}
