package backups

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/wal"
)

const (
	// MaxUnsent bounds what waits in RAM for an archive: beyond it the archive begins again, from a base.
	MaxUnsent = 64 << 20
	// archiveDelay is how long a commit stays out of the archive at most, while that keeps up.
	archiveDelay = time.Second
	// frameBytes are about the most that one frame has.
	frameBytes = 8 << 20
	// retryArchive to mostRetryArchive are the pauses after failures of an archive, each twice the one before.
	retryArchive     = 100 * time.Millisecond
	mostRetryArchive = 30 * time.Second
	// lastSend is how long Close waits for an archive to take what is left. The log of the store keeps
	// it for the next opening.
	lastSend = 5 * time.Second
)

// ArchiveStats say how an archive keeps up.
type ArchiveStats struct {
	// Name is the archive's own.
	Name string `json:"name"`
	// LSN is that of the newest commit that the archive has; Number counts batches of the store.
	LSN    uint64 `json:"lsn"`
	Number uint64 `json:"number"`
	// Segments counts what was appended since the opening, Bytes what the batches of that had.
	Segments int64 `json:"segments"`
	Bytes    int64 `json:"bytes"`
	// UnsentBytes wait in RAM, LagMS is how long the oldest of them has at least.
	UnsentBytes int64 `json:"unsent_bytes"`
	LagMS       int64 `json:"lag_ms"`
	// Error is the last failure, empty once an append has succeeded; since when it fails is in Failing.
	Error   string     `json:"error,omitempty"`
	Failing *time.Time `json:"failing,omitempty"`
	// Restarts is how often the archive began again, from a base: at its beginning, and where it had missed
	// something. RestartLSN is the LSN of the base that is being written, or has to be, 0 if none is.
	Restarts   int64  `json:"restarts"`
	RestartLSN uint64 `json:"restart_lsn,omitempty"`
}

// archiver brings what a database writes to an archive. One goroutine runs it.
type archiver struct {
	host  Host
	log   *slog.Logger
	to    wal.Archive
	out   *store.Outlet
	delay time.Duration
	start uint64 // the number of the newest batch when the outlet was attached, 0: not known
	fresh bool   // the database had nothing then

	at int64 // when the newest commit that was sent was made

	begun bool
	base  bool // a base is due
	stop  context.CancelFunc
	over  chan struct{} // closed when run has returned
	last  time.Duration // how long end sends what is left

	mu     sync.Mutex
	turn   *sync.Cond // broadcast when something was sent, or the archiver has ended
	stats  ArchiveStats
	hurry  uint64 // somebody waits until this number is sent
	behind time.Time
	ready  bool // it has begun, and no base is due
	ended  bool
	tell   func(error) // of a failure, nil if nobody asks
	urgent chan struct{}
}

func (as *Archives) newArchiver(to wal.Archive, out *store.Outlet, delay time.Duration) *archiver {
	a := &archiver{host: as.host, log: as.Logger, to: to, out: out, delay: delay, last: as.LastSend, urgent: make(chan struct{}, 1)}
	if a.delay <= 0 {
		a.delay = archiveDelay
	}
	a.turn = sync.NewCond(&a.mu)
	a.stats.Name = to.Name()
	return a
}

// run sends until ctx ends.
func (a *archiver) run(ctx context.Context) {
	pause := retryArchive
	for ctx.Err() == nil {
		if !a.rest(ctx) {
			return
		}
		err := a.send(ctx)
		if err == nil {
			pause = retryArchive
			continue
		}
		if ctx.Err() != nil {
			return
		}
		a.failed(err)
		_ = retry.Sleep(ctx, pause) // the loop looks at ctx
		pause = min(2*pause, mostRetryArchive)
	}
}

// rest waits until there is something to send, and reports whether the archiver goes on.
func (a *archiver) rest(ctx context.Context) bool {
	if !a.begun || a.base {
		return true
	}
	timer := time.NewTimer(a.delay)
	defer timer.Stop()
	for {
		bytes, _, lost := a.out.Waiting()
		if lost || bytes >= frameBytes || a.hurried() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-a.urgent:
		case <-a.out.Ready():
		case <-timer.C:
			return true
		}
	}
}

func (a *archiver) hurried() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hurry > a.stats.Number
}

// send sends what there is.
func (a *archiver) send(ctx context.Context) error {
	if err := a.begin(ctx); err != nil {
		return err
	}
	bytes, unsynced, lost := a.out.Waiting()
	if lost {
		a.base = true
	}
	if a.base {
		return a.sendBase(ctx)
	}
	if bytes == 0 {
		a.caughtUp()
		return nil
	}
	if unsynced > 0 && len(a.out.Peek(1)) == 0 { // of what runs behind the calls nobody waits for a sync
		if err := a.host.Store().SyncLog(nil); err != nil {
			return err
		}
	}
	return a.sendFrames(ctx)
}

// begin prepares the archive, and finds out whether it has all that came before.
func (a *archiver) begin(ctx context.Context) error {
	if a.begun {
		return nil
	}
	end, err := a.to.Begin(ctx, a.host.ID(), shipping.Timeline(a.host.Store()))
	if err != nil {
		return err
	}
	// It goes on where it has the newest batch of before, or all up to those that are at hand: the first
	// batch of all has the number 1.
	n, first := end.Number, a.out.First()
	leads := n == a.start || first > 0 && first <= n+1 && n < a.start
	if n == 0 && a.fresh && a.start == 0 || leads && (end.Whole || n == 0 && first == 1) {
		a.out.Drop(n)
	} else {
		a.base = true
	}
	a.begun, a.at = true, end.Time
	a.mu.Lock()
	a.ready = !a.base
	a.stats.Number, a.stats.LSN = n, end.LSN
	a.mu.Unlock()
	return nil
}

// sendFrames sends the batches that are on disk.
func (a *archiver) sendFrames(ctx context.Context) error {
	for {
		f := a.frame(a.out.Peek(frameBytes))
		if f == nil {
			return nil
		}
		if err := a.to.Append(ctx, f); err != nil {
			return err
		}
		a.out.Drop(f.Last)
		a.sent(f)
	}
}

// frame is that of batches, nil for none.
func (a *archiver) frame(batches []store.Written) *wal.Frame {
	if len(batches) == 0 {
		return nil
	}
	f := &wal.Frame{Timeline: shipping.Timeline(a.host.Store()), Kind: wal.Batches, First: batches[0].Number, Since: a.lsn(), LSN: a.lsn(), Time: a.at}
	for _, b := range batches {
		if b.LSN == 0 { // of the log of the store, or of before the first commit
			b.LSN, b.Time = shipping.NewestCommit(b.Repr)
		}
		if b.LSN > f.LSN {
			f.LSN, f.Time = b.LSN, b.Time
		}
		a.at = f.Time
		f.Last, f.Batches = b.Number, append(f.Batches, b.Repr)
	}
	return f
}

func (a *archiver) lsn() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats.LSN
}

// sent notes what was appended.
func (a *archiver) sent(f *wal.Frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Error, a.stats.Failing = "", nil
	a.stats.Segments++
	for _, b := range f.Batches {
		a.stats.Bytes += int64(len(b))
	}
	if f.Kind != wal.Base {
		a.stats.Number, a.stats.LSN = f.After().Number, f.LSN
		a.behind = time.Time{}
		a.turn.Broadcast()
	}
}

// caughtUp notes that the archive has everything.
func (a *archiver) caughtUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Error, a.stats.Failing = "", nil
	a.turn.Broadcast()
}

// sendBase begins the archive again: with everything that the store has now.
func (a *archiver) sendBase(ctx context.Context) (err error) {
	a.mu.Lock()
	above := a.stats.Number
	a.mu.Unlock()
	snap, number, err := a.out.Anew(above)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	newest, err := shipping.Newest(a.host.Keys(), snap)
	if err != nil {
		return err
	}
	a.at = newest.Time
	a.mu.Lock()
	a.ready = false
	a.stats.RestartLSN = newest.LSN
	a.mu.Unlock()
	base := shipping.NewBase(a.host.Store(), number, newest, func(f *wal.Frame) error { return a.appendBase(ctx, f) })
	if _, err := base.Write(ctx, snap); err != nil {
		return err
	}
	a.base = false
	a.mu.Lock()
	a.ready, a.stats.RestartLSN = true, 0
	a.stats.Restarts++
	a.turn.Broadcast()
	a.mu.Unlock()
	return nil
}

// appendBase appends a part of a base, and then what has come meanwhile.
func (a *archiver) appendBase(ctx context.Context, f *wal.Frame) error {
	if err := a.to.Append(ctx, f); err != nil {
		return err
	}
	a.sent(f)
	if bytes, _, lost := a.out.Waiting(); f.Kind != wal.Base || lost || bytes < frameBytes {
		return nil // what is lost has the base begin again
	}
	return a.sendFrames(ctx)
}

// failed notes a failure and tells of it once.
func (a *archiver) failed(err error) {
	now := a.host.Now()
	a.mu.Lock()
	first := a.stats.Failing == nil
	a.stats.Error = err.Error()
	if a.tell != nil {
		a.tell(err)
	}
	if first {
		a.stats.Failing = &now
	}
	a.mu.Unlock()
	if first {
		a.log.Warn("the archive takes nothing; it is tried again, and the database goes on", "archive", a.to.Name(), "error", err)
	}
}

// ErrUnarchived is what a write gets that waits for an archive while the database closes.
var ErrUnarchived = &fault.Error{Kind: fault.ErrClosed, What: "archive a write", Why: "the database is being closed, and the archive does not take it", Do: "the write is in the database; open it again to have it archived"}

// wait returns when everything up to a number was sent, or the archiver has ended.
func (a *archiver) wait(ctx context.Context, number uint64) error {
	stop := context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.turn.Broadcast()
	})
	defer stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.ready || a.stats.Number < number {
		if a.ended {
			return ErrUnarchived
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		a.hurry = max(a.hurry, number)
		select {
		case a.urgent <- struct{}{}:
		default:
		}
		a.turn.Wait()
	}
	return nil
}

// onFailure has tell called with the next failure, or at once with the one that lasts.
func (a *archiver) onFailure(tell func(error)) (stop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell = tell
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.tell = nil
	}
}

// giveUp ends the waits for the archive.
func (a *archiver) giveUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.turn.Broadcast()
}

// end sends what is left, for a bounded time, and gives the archive back.
func (a *archiver) end() error {
	a.stop()
	<-a.over
	ctx, cancel := context.WithTimeout(context.Background(), a.last)
	defer cancel()
	err := a.host.Store().Failed()
	if err == nil {
		err = a.host.Store().SyncLog(nil)
	}
	if err == nil {
		err = a.send(ctx)
	}
	if err != nil {
		a.failed(err)
	}
	a.out.Detach()
	a.giveUp()
	return a.to.Close()
}

// figures are those of now.
func (a *archiver) figures(now time.Time) ArchiveStats {
	bytes, _, lost := a.out.Waiting()
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	s.UnsentBytes = bytes
	if bytes == 0 && !lost {
		a.behind = time.Time{}
	} else if a.behind.IsZero() {
		a.behind = now
	}
	if !a.behind.IsZero() {
		s.LagMS = now.Sub(a.behind).Milliseconds()
	}
	return s
}

// waitAll waits for everything that was applied before the call. The first failure of the archive ends the
// wait.
func (a *archiver) waitAll(ctx context.Context) error {
	if err := a.host.Store().SyncLog(nil); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := a.onFailure(cancel)
	defer stop()
	err := a.wait(ctx, a.host.Store().Synced())
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}
