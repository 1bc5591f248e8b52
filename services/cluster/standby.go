package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
)

// Standby follows the log of a shard that another machine owns, so that this one takes it over in the time that
// opening takes. It keeps keys and values alone, and reads nothing. It is safe for concurrent use.
type Standby struct {
	o    ShardOptions
	log  Log
	stop context.CancelFunc
	work sync.WaitGroup

	f *follower // of the goroutine that follows, until that has ended

	mu       sync.Mutex
	sequence uint64        // of the newest message that was applied
	applied  int64         // bytes of batches
	err      error         // why it does not follow now
	ended    bool          // it is closed or owned
	news     chan struct{} // closed when any of this changes
}

// followPause is the pause before a log that could not be read is read again.
const followPause = 500 * time.Millisecond

// newFollower opens the log and the folder of a shard.
func newFollower(ctx context.Context, o *ShardOptions) (*follower, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	log, err := o.Backend.Log(ctx, o.Number)
	if err != nil {
		return nil, err
	}
	return openFollower(ctx, o, log, o.Dir)
}

// Follow opens the folder of a shard and follows its log. Errors are those of [OpenShard], but ErrHeld.
func Follow(ctx context.Context, o ShardOptions) (*Standby, error) {
	f, err := newFollower(ctx, &o)
	if err != nil {
		return nil, err
	}
	background, cancel := context.WithCancel(context.Background())
	s := &Standby{o: o, log: f.log, stop: cancel, f: f, news: make(chan struct{})}
	f.o = &s.o
	s.work.Go(func() {
		if err := panics.Catch("follows a shard", func() { s.follow(background) }); err != nil {
			s.note(0, err)
		}
	})
	return s, nil
}

// follow applies what comes, until ctx ends.
func (s *Standby) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.f.catchUp(ctx)
		if err == nil {
			err = s.f.standby.Purge(ctx)
		}
		if err == nil {
			s.note(s.f.r.at.sequence, nil)
			err = s.log.Read(ctx, s.f.r.at.sequence+1, 0, func(sequence uint64, data []byte) error {
				err := s.f.apply(sequence, data)
				if err == nil {
					s.note(sequence, nil)
					err = s.f.standby.Purge(ctx)
				}
				return err
			})
		}
		if ctx.Err() != nil {
			return
		}
		s.note(0, err)
		s.o.Logger.Warn("a standby waits for its log", "shard", s.o.Number, "error", err)
		if retry.Sleep(ctx, followPause) != nil {
			return
		}
	}
}

// note tells who waits for the standby how far it is, or why it does not go on.
func (s *Standby) note(sequence uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sequence, s.err = max(s.sequence, sequence), err
	if s.f != nil {
		s.applied = s.f.applied
	}
	close(s.news)
	s.news = make(chan struct{})
}

// CatchUp returns once the standby has everything that the log has now.
func (s *Standby) CatchUp(ctx context.Context) error {
	_, last, err := s.log.Bounds(ctx)
	if err != nil {
		return err
	}
	for {
		s.mu.Lock()
		has, ended, err, news := s.sequence >= last, s.ended, s.err, s.news
		s.mu.Unlock()
		switch {
		case has:
			return nil
		case ended:
			return &fault.Error{Kind: fault.ErrClosed, What: s.o.doing("follow"), Why: "the standby is closed", Do: "follow the shard again"}
		case err != nil && !errors.Is(err, ErrUnavailable):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-news:
		}
	}
}

// Sequence is that of the newest message that the standby has, and Err why it does not follow, nil while it does.
func (s *Standby) Sequence() (sequence uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sequence, s.err
}

// Applied are the bytes of the batches that were applied since the standby was opened.
func (s *Standby) Applied() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// Own ends the following and makes this machine the owner, as [OpenShard] does. In any case the standby is closed.
func (s *Standby) Own(ctx context.Context) (*Shard, error) {
	f := s.end()
	if f == nil {
		return nil, &fault.Error{Kind: fault.ErrClosed, What: s.o.doing("own"), Why: "the standby is closed", Do: "open the shard"}
	}
	return f.own(ctx)
}

// end ends the following.
func (s *Standby) end() *follower {
	s.stop()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.f
	s.f, s.ended = nil, true
	close(s.news)
	s.news = make(chan struct{})
	return f
}

// Close ends the following and gives the folder back.
func (s *Standby) Close() error {
	f := s.end()
	if f == nil {
		return nil
	}
	return f.close()
}
