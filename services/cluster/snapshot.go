package cluster

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/wal"
)

const (
	// snapshotEvery is how often it is looked whether a snapshot is due; snapshotPause is the pause after one that
	// failed, as for want of room.
	snapshotEvery = time.Second
	snapshotPause = 30 * time.Second
)

// keepSnapshots makes snapshots when they are due, until ctx ends or the shard is lost.
func (s *Shard) keepSnapshots(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for pause := snapshotEvery; retry.Sleep(ctx, pause) == nil; {
		pause = snapshotEvery
		select {
		case <-s.done:
			return
		default:
		}
		if !s.snapshotDue() {
			continue
		}
		if err := s.Snapshot(ctx); err != nil && ctx.Err() == nil {
			s.o.Logger.Warn("a snapshot of a shard could not be made; its log grows, and it is tried again", "shard", s.o.Number, "error", err)
			pause = snapshotPause
		}
	}
}

func (s *Shard) snapshotDue() bool {
	behind := s.Status().BehindBytes
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.erased || behind >= s.o.SnapshotBytes
}

// Snapshot keeps everything that the shard has among its objects, in the place of earlier snapshots, and purges the
// log of what comes before. Calls go on meanwhile.
func (s *Shard) Snapshot(ctx context.Context) error {
	// The name says when it was begun, so that names ascend. The log goes on behind the mark of the base, which may
	// be earlier.
	now := s.owner.state()
	name, sent := snapshotName(now.at.sequence), now.bytes
	s.mu.Lock()
	erased := s.erased
	s.erased = false
	s.mu.Unlock()
	mark, err := s.putSnapshot(ctx, name)
	s.mu.Lock()
	s.failing = ""
	if err != nil {
		s.failing, s.erased = err.Error(), s.erased || erased
	} else {
		s.snapshot, s.behind, s.from = mark.Sequence, 0, sent
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	objects := s.o.Backend.Objects(s.o.Number)
	all, err := snapshots(ctx, objects)
	if err != nil {
		return err
	}
	for _, old := range all { // of those after it none is touched: they are of a later owner
		if old.Name < name {
			if err := objects.Delete(ctx, old.Name); err != nil {
				return err
			}
		}
	}
	return s.log.PurgeTo(ctx, mark.Sequence)
}

// putSnapshot keeps a snapshot, and returns the mark of its base.
func (s *Shard) putSnapshot(ctx context.Context, name string) (mark engine.LogMark, err error) {
	r, w := io.Pipe()
	var (
		writing error
		work    sync.WaitGroup
	)
	work.Go(func() {
		caught := panics.Catch("writes a snapshot", func() { mark, writing = s.writeBase(ctx, w) })
		writing = errors.Join(writing, caught)
		w.CloseWithError(writing) // io.EOF where there is none
	})
	err = s.o.Backend.Objects(s.o.Number).Put(ctx, name, r)
	r.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
	work.Wait()
	return mark, errors.Join(err, writing)
}

func (s *Shard) writeBase(ctx context.Context, to io.Writer) (engine.LogMark, error) {
	out := bufio.NewWriterSize(to, 1<<20)
	frames := wal.NewWriter(out)
	mark, _, err := s.db.WriteBase(ctx, func(f *wal.Frame) error {
		_, err := frames.Write(f)
		return err
	})
	return mark, errors.Join(err, out.Flush())
}
