package backups

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/lifecycle"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// Config says how a database archives what it writes.
type Config struct {
	// First acknowledges a write once the archive has it.
	First bool
	// Unsent bounds what waits in RAM for an archive, and LastSend how long Close waits for one; 0: the defaults.
	Unsent   int64
	LastSend time.Duration
	Logger   *slog.Logger
	// Work runs what sends.
	Work *lifecycle.Group
}

// Archives receive what a database writes.
type Archives struct {
	Config
	host    Host
	opened  *archiver     // that of the options, nil if there is none
	closing chan struct{} // closed when Close begins
	// late counts the writes that are made and that the archive does not have yet.
	late atomic.Int64

	mu  sync.Mutex
	all []*archiver
}

// NewArchives returns the archives of a database, none so far.
func NewArchives(h Host, c Config) *Archives {
	c.Unsent, c.LastSend = cmp.Or(c.Unsent, MaxUnsent), cmp.Or(c.LastSend, lastSend)
	return &Archives{Config: c, host: h, closing: make(chan struct{})}
}

// Begin numbers the batches of the store, for the archive of the options if that is not nil. It comes before
// anything is written. fresh says that the database is new.
func (as *Archives) Begin(to wal.Archive, delay time.Duration, fresh bool) error {
	number, out, err := as.host.Store().Numbered(to != nil, fresh, as.Unsent)
	if err != nil || out == nil {
		return err
	}
	a := as.newArchiver(to, out, delay)
	a.start, a.fresh = number, fresh
	as.opened, as.all = a, []*archiver{a}
	return nil
}

// Start begins to send.
func (as *Archives) Start() {
	if as.opened != nil {
		as.run(as.opened)
	}
}

func (as *Archives) run(a *archiver) {
	ctx, cancel := context.WithCancel(context.Background())
	a.stop, a.over = cancel, make(chan struct{})
	as.Work.Go("archives", func(context.Context) {
		defer close(a.over)
		a.run(ctx)
	})
}

// AwaitSynced returns when the archive has what the store has synced, at once unless the archive comes first.
func (as *Archives) AwaitSynced() error {
	if !as.First {
		return nil
	}
	return as.opened.wait(context.Background(), as.host.Store().Synced())
}

// Acknowledge waits for wait, which returns once the archive has a write, until the context ends. refused is why
// nothing was written, nil if something was.
func (as *Archives) Acknowledge(ctx context.Context, wait func() error, refused error) error {
	done := make(chan error, 1)
	as.late.Add(1)
	as.Work.Go("waits for the archive", func(context.Context) {
		defer as.late.Add(-1)
		done <- wait()
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if refused != nil { // it was refused: nothing was written
			return ctx.Err()
		}
		return &fault.Error{
			Kind: fault.ErrUnavailable, What: "archive a write", Why: "the archive has not taken it in time", Cause: ctx.Err(),
			Do: "the write is in the database, and is archived once the archive answers; Archives says what fails",
		}
	}
}

// AwaitLate keeps a write out while the archive that comes first fails: it would be made and not acknowledged.
func (as *Archives) AwaitLate(ctx context.Context) error {
	a := as.opened
	if !as.First || as.late.Load() == 0 || a.figures(as.host.Now()).Error == "" {
		return nil
	}
	wait, cancel := as.host.LockLimit(ctx)
	defer cancel()
	err := a.wait(wait, as.host.Store().Synced())
	if err == nil || wait.Err() == nil {
		return err
	}
	return &fault.Error{
		Kind: fault.ErrUnavailable, What: "write", Why: "the archive, which is to have each write first, fails", Cause: err,
		Do: "nothing was written; Archives says what fails; try again",
	}
}

// Close bounds the wait of writes for an archive that does not answer while the database closes, until stop is
// called.
func (as *Archives) Close() (stop func() bool) {
	close(as.closing)
	return time.AfterFunc(as.LastSend, func() {
		for _, a := range as.list() {
			a.giveUp()
		}
	}).Stop
}

// End sends what is left.
func (as *Archives) End() error {
	var errs []error
	for _, a := range as.list() {
		errs = append(errs, a.end())
	}
	as.Work.Wait()
	return errors.Join(errs...)
}

func (as *Archives) list() []*archiver {
	as.mu.Lock()
	defer as.mu.Unlock()
	return slices.Clone(as.all)
}

// Stats say how the archives keep up, first that of the options.
func (as *Archives) Stats() []ArchiveStats {
	var all []ArchiveStats
	for _, a := range as.list() {
		all = append(all, a.figures(as.host.Now()))
	}
	return all
}

// To archives the database into another archive beside those that it has: see DB.ArchiveTo.
func (as *Archives) To(ctx context.Context, to wal.Archive, follow bool) (s ArchiveStats, err error) {
	release, err := as.host.Enter("archive")
	if err != nil {
		return s, errors.Join(err, to.Close())
	}
	defer release()
	if err := as.host.Writable("archive"); err != nil {
		return s, errors.Join(err, to.Close())
	}
	if as.host.Logged() {
		err := fault.Invalid("archive", "the log of the database keeps what it writes", "back it up, or follow the log")
		return s, errors.Join(err, to.Close())
	}
	unlock, err := as.host.Lock(ctx)
	if err != nil {
		return s, errors.Join(err, to.Close())
	}
	a := as.newArchiver(to, as.host.Store().Attach(as.Unsent), 0)
	a.base = true
	unlock()
	as.mu.Lock()
	as.all = append(as.all, a)
	as.mu.Unlock()
	as.run(a)
	defer func() {
		as.mu.Lock()
		as.all = slices.DeleteFunc(as.all, func(other *archiver) bool { return other == a })
		as.mu.Unlock()
		if end := a.end(); end != nil {
			err = errors.Join(err, end)
		}
		s = a.figures(as.host.Now())
	}()
	if err := a.waitAll(ctx); err != nil || !follow {
		return s, err
	}
	select {
	case <-ctx.Done():
	case <-as.closing:
	}
	return s, nil
}

// Wait returns when the archive of the options has all that is durable now, or has refused to take anything: see
// DB.WaitArchived.
func (as *Archives) Wait(ctx context.Context) (ArchiveStats, error) {
	const doing = "wait for the archive"
	a := as.opened
	if a == nil {
		return ArchiveStats{}, fault.Invalid(doing, "the database was opened without an archive", "set Options.Archive")
	}
	release, err := as.host.Enter(doing)
	if err != nil {
		return ArchiveStats{}, err
	}
	defer release()
	err = a.waitAll(ctx)
	return a.figures(as.host.Now()), err
}
