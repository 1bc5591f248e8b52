package replication

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// Options are those of a replica.
type Options struct {
	// BeginAgain has the replica begin again from a base where the feed does not have what follows.
	BeginAgain bool
	Logger     *slog.Logger
	Clock      func() time.Time
}

// Stats say how far a replica is.
type Stats struct {
	// LSN is that of the newest commit that reads see, LagMS how long ago the oldest commit was made that
	// has come and that they do not see; 0 if there is none.
	LSN   uint64 `json:"lsn"`
	LagMS int64  `json:"lag_ms"`
	// Timeline is the one that is followed; Number is that of the newest batch of the database that is
	// applied, AppliedLSN that of the newest commit with it.
	Timeline   string `json:"timeline"`
	Number     uint64 `json:"number"`
	AppliedLSN uint64 `json:"applied_lsn"`
	// ExpectedLSN is the LSN that the feed had and does not give any more, 0 where nothing is missing.
	ExpectedLSN uint64 `json:"expected_lsn,omitempty"`
	// Frames and Bytes have come since the opening, without what was there already.
	Frames int64 `json:"frames"`
	Bytes  int64 `json:"bytes"`
	// Loads is how often what was applied was made readable, LoadMS how long that took the last time.
	Loads  int64 `json:"loads"`
	LoadMS int64 `json:"load_ms"`
	// Restarts is how often the replica began again, from a base.
	Restarts int64 `json:"restarts"`
	// Building says that a base is coming, and not all of it is there.
	Building bool `json:"building,omitempty"`
	// Following says that more is waited for; Error is why it is not, or what it waits for to pass.
	Following bool   `json:"following"`
	Error     string `json:"error,omitempty"`
}

// Replica is a folder that follows a database. It is safe for concurrent use.
type Replica struct {
	Options
	host Host
	dir  string
	base vfs.FS
	held io.Closer
	feed wal.Feed

	stop  context.CancelFunc
	work  sync.WaitGroup // the following, the loading, and the closing of what is old
	fresh chan struct{}  // has a value when something was applied
	again bool           // what comes next is the first frame of another store; of the goroutine that follows,
	next  *followed      // as is what is built, nil for nothing

	loading sync.Mutex // held while main is loaded from, or replaced
	main    *followed  // nil until the first is whole: changed by the goroutine that follows, with loading

	mu struct {
		sync.Mutex
		replicaState
	}
	closing sync.Once
}

// replicaState is what callers of a replica wait for and read.
type replicaState struct {
	changed chan struct{} // closed when any of it changes
	shown   *view         // nil until something is readable
	views   int           // that are not closed
	kept    int           // views of older states that somebody still reads
	drained bool          // no read begins: another store takes the place of this one
	closed  bool
	ended   bool  // nothing is waited for any more
	broken  bool  // what was applied and is not shown never will be
	purging bool  // the files have what an erasure that was followed has removed
	err     error // why it has ended
	passing error // what is waited for to pass
	stats   Stats
	behind  []frameTime // the frames that reads do not see, by number
}

// frameTime is when the newest commit of a frame was made, in Unix milliseconds.
type frameTime struct {
	number uint64
	time   int64
}

// Open follows the database of a feed into a folder, or goes on with the replica in it.
func Open(h Host, base vfs.FS, dir string, feed wal.Feed, o Options) (*Replica, error) {
	if err := place.InFolder(doingReplica(dir), dir); err != nil {
		return nil, err
	}
	if feed == nil {
		return nil, fault.Invalid(doingReplica(dir), "there is no feed", "give one: folder.Follow has that of an archive")
	}
	r := &Replica{Options: o, host: h, dir: dir, base: base, feed: feed, fresh: make(chan struct{}, 1)}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	if r.Clock == nil {
		r.Clock = clock.System
	}
	r.mu.changed, r.mu.stats.Following = make(chan struct{}), true
	if err := place.Look(r.base, dir); err != nil {
		return nil, err
	}
	if err := place.MakeDir(r.base, dir); err != nil {
		return nil, place.FullError(dir, err)
	}
	held, err := place.Lock(r.base, dir, r.Clock(), false)
	if err != nil {
		return nil, err
	}
	r.held = held
	if err := r.begin(); err != nil {
		return nil, errors.Join(place.FullError(dir, err), held.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	r.behind("follows", func() { r.follow(ctx) })
	r.behind("loads a replica", func() { r.keepLoading(ctx) })
	return r, nil
}

// begin opens what is there.
func (r *Replica) begin() error {
	if err := settleReplica(r.base, r.dir); err != nil {
		return err
	}
	id, err := mayFollow(r.base, r.dir)
	if err != nil || id == nil {
		return err
	}
	f, err := openFollowed(r.host, r.base, r.dir, id)
	if err != nil {
		return err
	}
	r.main, r.mu.purging = f, f.erased
	if err := r.load(); err != nil {
		return errors.Join(err, f.close())
	}
	r.tell() // files may still have what was erased
	if lsn, marked := r.LSN(), f.store.MarkedLSN(); lsn < marked {
		err := &fault.Error{Kind: fault.ErrCorrupt, What: doingReplica(r.dir), Why: "commits are gone that it had applied", Do: beginAgain}
		return errors.Join(err, r.closeViews(), f.close())
	}
	return nil
}

// Use calls fn with the database as it is now, and waits before anything has come.
func (r *Replica) Use(ctx context.Context, fn func(View) error) error {
	v, err := r.acquire(ctx)
	if err != nil {
		return err
	}
	defer r.release(v)
	return fn(v.db)
}

// Dir is the folder of the replica.
func (r *Replica) Dir() string {
	if vfs.Root(r.base) != vfs.Default {
		return ""
	}
	return r.dir
}

// LSN is that of the newest commit that reads see, 0 before there is one.
func (r *Replica) LSN() uint64 { return r.Stats().LSN }

// Lag is how long ago the oldest commit was made that has come and that reads do not see, 0 if there is
// none. What has not come yet the replica does not know: the delay of an archive comes on top of it.
func (r *Replica) Lag() time.Duration { return time.Duration(r.Stats().LagMS) * time.Millisecond }

// Err is why the replica follows no more, nil while it does and after the end of the feed.
func (r *Replica) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.err
}

// Stats are the figures of now.
func (r *Replica) Stats() Stats {
	now := r.Clock().UnixMilli()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.mu.stats
	if len(r.mu.behind) > 0 {
		s.LagMS = max(0, now-r.mu.behind[0].time)
	}
	switch {
	case r.mu.err != nil:
		s.Error = r.mu.err.Error()
	case r.mu.passing != nil:
		s.Error = r.mu.passing.Error()
	}
	return s
}

// Wait returns once the feed has ended, or the replica has stopped, and reads see all that has come; no
// file has what an erasure has removed then, unless a read goes on that began before. It returns what
// [Replica.Err] is then: ErrCorrupt where the feed has less than it had.
func (r *Replica) Wait(ctx context.Context) error {
	err := r.await(ctx, func(s *replicaState) bool { return s.over() && (!s.purging || s.broken || s.kept > 0) })
	if err != nil {
		return err
	}
	return r.Err()
}

// WaitLSN returns once reads see the commit of an LSN: whoever has written it to the database finds it
// in the replica then. Where the following ends before, that is ErrNotRetained, or the reason why.
func (r *Replica) WaitLSN(ctx context.Context, lsn uint64) error {
	err := r.await(ctx, func(s *replicaState) bool {
		return s.stats.LSN >= lsn || s.over()
	})
	if err != nil || r.LSN() >= lsn {
		return err
	}
	if err := r.Err(); err != nil {
		return err
	}
	return &fault.Error{Kind: fault.ErrNotRetained, What: "wait for a commit", Why: "the feed ended before it", Do: "follow on"}
}

// over reports whether reads will never see more than they do.
func (s *replicaState) over() bool {
	if s.shown == nil {
		return s.ended && (s.broken || s.stats.Number == 0)
	}
	return s.ended && (s.broken || s.shown.at.Number == s.stats.Number)
}

// await returns when the state is as it should be, or the replica is closed.
func (r *Replica) await(ctx context.Context, is func(*replicaState) bool) error {
	closed := false
	err := r.reach(ctx, func(s *replicaState) bool {
		done := is(s)
		closed = !done && s.closed
		return done || closed
	})
	if closed {
		return closedReplica()
	}
	return err
}

// reach returns when the state is as it should be.
func (r *Replica) reach(ctx context.Context, is func(*replicaState) bool) error {
	for {
		r.mu.Lock()
		done, changed := is(&r.mu.replicaState), r.mu.changed
		r.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func closedReplica() error {
	return &fault.Error{Kind: fault.ErrClosed, What: "use a replica", Why: "it is closed", Do: "open it"}
}

// change changes the state, and wakes who waits for it.
func (r *Replica) change(fn func(*replicaState)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn(&r.mu.replicaState)
	close(r.mu.changed)
	r.mu.changed = make(chan struct{})
}

// Close ends the following, waits for reads that run, and gives the folder back. What was applied stays:
// opening the replica again goes on behind it. Closing again does nothing. It must not be called within
// [Replica.Use].
func (r *Replica) Close() (err error) {
	r.closing.Do(func() { err = r.close() })
	return err
}

func (r *Replica) close() error {
	r.stop()
	r.change(func(s *replicaState) { s.closed = true })
	r.work.Wait()
	errs := []error{r.drain(context.Background()), r.closeViews()}
	if r.next != nil {
		errs = append(errs, r.drop())
	}
	if r.main != nil {
		errs = append(errs, r.main.close())
	}
	return errors.Join(append(errs, r.held.Close())...)
}
