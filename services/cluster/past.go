package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Past names an earlier state of a shard: that behind a commit, or at a time.
type Past struct {
	// LSN is that of the newest commit that the state may have, 0 for any.
	LSN uint64
	// Time is when that was made at the latest; the zero Time for any.
	Time time.Time
}

// has reports whether the state may have a commit, 0 for none.
func (p *Past) has(lsn uint64, at int64) bool {
	return (p.LSN == 0 || lsn <= p.LSN) && (p.Time.IsZero() || lsn == 0 || at <= p.Time.UnixMilli())
}

// Past makes a copy of the shard as it was, from its newest snapshot and the log behind it, in a folder beside its
// own, and calls fn with it, opened to be read alone. Calls go on meanwhile. What was committed in one batch is in the
// copy together, or not at all. The folder is removed.
//
// ErrNotRetained: the newest snapshot is of later. ErrInvalid: the LSN is none that there was yet. ErrBusy: another
// copy is being made.
func (s *Shard) Past(ctx context.Context, at Past, fn func(db *engine.DB) error) (err error) {
	doing := s.o.doing("make an earlier state of")
	if newest := s.db.LSN(); at.LSN > newest {
		return fault.Invalid(doing, fmt.Sprintf("LSN %d is none yet: the newest commit is %d", at.LSN, newest), "give an earlier one, or a time")
	}
	dir, done, err := s.beside(doing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	o := s.o
	f, err := openFollower(ctx, &o, s.log, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.backTo(ctx, at, doing); err != nil {
		return err
	}
	if err := f.close(); err != nil {
		return err
	}
	db, err := engine.Open(dir, &engine.Options{ReadOnly: true, MemoryBudget: s.o.Engine.MemoryBudget, Logger: s.o.Logger})
	if err != nil {
		return err
	}
	return errors.Join(fn(db), db.Close())
}

// beside is an empty folder for a copy of the shard, until done is called. ErrBusy: there is one.
func (s *Shard) beside(doing string) (dir string, done func() error, err error) {
	if !s.copying.TryLock() {
		return "", nil, &fault.Error{Kind: fault.ErrBusy, What: doing, Why: "another copy of it is being made", Do: "try again when that is done"}
	}
	dir = s.o.Dir + ".copy"
	done = func() error {
		defer s.copying.Unlock()
		return dropFolder(dir)
	}
	if err := dropFolder(dir); err != nil { // of a process that was killed
		s.copying.Unlock()
		return "", nil, err
	}
	return dir, done, nil
}

// backTo brings an empty folder to an earlier state.
func (f *follower) backTo(ctx context.Context, at Past, doing string) error {
	first, last, err := f.log.Bounds(ctx)
	if err != nil {
		return unreached(doing, err)
	}
	if first > 1 { // the log was purged up to a snapshot
		if err := f.fromSnapshot(ctx); err != nil {
			return err
		}
		if !at.has(f.newest.lsn, f.newest.time) {
			return &fault.Error{
				Kind: fault.ErrNotRetained, What: doing,
				Why: fmt.Sprintf("its newest snapshot has commit %d of %s, and the log before it is gone", f.newest.lsn, clock.FromMillis(f.newest.time).Format(time.RFC3339)),
				Do:  "ask for a later state, or restore what was exported before",
			}
		}
	}
	f.past = &at
	if f.r.at.sequence >= last {
		return nil
	}
	err = f.log.Read(ctx, f.r.at.sequence+1, last, func(sequence uint64, data []byte) error {
		if err := f.apply(sequence, data); err != nil {
			return err
		}
		if f.over {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case errors.Is(err, ErrMissing):
		return &fault.Error{Kind: fault.ErrUnavailable, What: doing, Why: "a new snapshot has taken the place of the log", Cause: err, Do: "try again"}
	}
	return err
}
