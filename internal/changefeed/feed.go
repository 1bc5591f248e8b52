package changefeed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/wal"
)

const (
	// pageCommits and pageBytes bound the log records that are read at once, and the changes whose
	// values are in memory at once.
	pageCommits = 256
	pageBytes   = 4 << 20
	// lookEvery is how often a reader that waits looks whether the database has failed.
	lookEvery = time.Second

	doing = "read the changes"
)

// Options say which changes are returned. nil: all up to the newest.
type Options struct {
	// Number is the first change that is returned of the commit with which it begins; 0: all of it.
	Number uint32
	// Follow goes on with what is committed later, until the context ends. Without it the changes end
	// with the newest commit.
	Follow bool
	// Scope leaves out what is not of it: changes of other owners, of other runs where it names one,
	// and of the whole database but for a reset. Empty: everyone's, for administration.
	Scope memory.Scope
	// WithAccesses also returns accesses, which are as many as the hits of recalls.
	WithAccesses bool
	// WithVectors also reads the vectors of memories, as long as they are kept: those of a version
	// that died are not.
	WithVectors bool
	// Reached, if not nil, is called with the LSN of each commit of which everything was returned,
	// also of one that has nothing to return: the next LSN is where to go on.
	Reached func(lsn uint64)
}

// Changes iterates over what was committed, from the commit of an LSN on; 0 is the oldest in the log. An error is
// the last that it yields.
func Changes(ctx context.Context, h Host, from uint64, o *Options) iter.Seq2[wal.Change, error] {
	return func(yield func(wal.Change, error) bool) {
		f := &feed{host: h, next: from, owners: map[uint32]scope.Owner{}}
		if o != nil {
			f.Options = *o
		}
		if err := f.run(ctx, yield); err != nil && !errors.Is(err, kv.ErrStop) {
			yield(wal.Change{}, err)
		}
	}
}

// feed is a reader of changes.
type feed struct {
	Options
	host   Host
	next   uint64 // the LSN of the commit that is read next
	owners map[uint32]scope.Owner
	holds  atomic.Uint64 // the log is kept from this LSN on
}

// logged is a log record.
type logged struct {
	lsn    uint64
	record []byte
}

func (f *feed) run(ctx context.Context, yield func(wal.Change, error) bool) error {
	if err := f.host.Usable(doing); err != nil {
		return err
	}
	if f.Scope != (memory.Scope{}) {
		if err := scope.Check(doing, f.Scope); err != nil {
			return err
		}
	}
	defer f.host.Running().open(f)()
	for {
		page, upTo, err := f.page(ctx)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			if !f.Follow {
				return nil
			}
			if err := f.wait(ctx, max(f.next, upTo+1)); err != nil {
				return err
			}
			continue
		}
		if err := f.give(ctx, page, yield); err != nil {
			return err
		}
	}
}

// page reads the next records of the log, none where there are none yet. upTo is the newest commit
// that is durable.
func (f *feed) page(ctx context.Context) (page []logged, upTo uint64, err error) {
	durable := f.host.Durable() // before the state, which may be a newer one
	err = f.host.View(ctx, func(r Reader) error {
		upTo = r.State().LSN
		if f.host.SyncEvery() > 0 {
			upTo = min(upTo, durable)
		}
		floor, err := logFloor(r.State())
		if err != nil {
			return err
		}
		if f.next == 0 {
			f.next = floor
		}
		if f.next < floor && f.next <= upTo {
			behind := &wal.BehindError{From: f.next, Floor: floor}
			return &fault.Error{
				Kind: fault.ErrFellBehind, What: doing, Cause: behind, Why: "they are not kept any longer",
				Do: fmt.Sprintf("export what is there, and go on from LSN %d; a longer log_ms of the policy keeps more", floor),
			}
		}
		f.holds.Store(f.next)
		page, err = logRecords(r.State(), f.next, upTo)
		return err
	})
	return page, upTo, store.Error(doing, err)
}

// logFloor is the LSN of the oldest record of the log, that of the next commit where there is none.
func logFloor(s *state.State) (floor uint64, err error) {
	floor = s.LSN + 1
	lower, upper := s.Keys.Span(layout.KindLog)
	err = kv.Scan(s.Reader, lower, upper, func(key, _ []byte) error {
		lsn, ok := layout.ParseLSNKey(key)
		if !ok {
			return layout.BadKey("log", key)
		}
		floor = lsn
		return kv.ErrStop
	})
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return floor, err
}

// logRecords reads a page of the log from an LSN on, up to another.
func logRecords(s *state.State, from, upTo uint64) (page []logged, err error) {
	ks := s.Keys
	bytes, next := 0, from
	err = kv.Scan(s.Reader, ks.LSN(layout.KindLog, from), ks.LSN(layout.KindLog, upTo+1), func(key, value []byte) error {
		lsn, ok := layout.ParseLSNKey(key)
		switch {
		case !ok:
			return layout.BadKey("log", key)
		case lsn != next:
			return lacking(next, lsn)
		case len(page) == pageCommits || len(page) > 0 && bytes+len(value) > pageBytes:
			return kv.ErrStop
		}
		page = append(page, logged{lsn, slices.Clone(value)})
		bytes, next = bytes+len(value), next+1
		return nil
	})
	if errors.Is(err, kv.ErrStop) {
		return page, nil
	}
	if err == nil && len(page) == 0 && from <= upTo {
		err = lacking(from, upTo+1)
	}
	return page, err
}

// lacking is the error of a log that has a gap.
func lacking(from, next uint64) error {
	return &fault.Error{
		Kind: fault.ErrCorrupt, What: doing, Why: fmt.Sprintf("the log lacks the commits from LSN %d up to %d", from, next-1),
		Do: fmt.Sprintf("run check; export what is there, and go on from LSN %d", next),
	}
}

// wait returns when the commit of an LSN is durable, or may be.
func (f *feed) wait(ctx context.Context, lsn uint64) error {
	look, buffered := lookEvery, f.host.SyncEvery()
	if buffered > 0 { // what is seen may be durable a while later
		look = buffered / 2
	}
	timer := time.NewTimer(look)
	defer timer.Stop()
	for {
		if err := f.host.Usable(doing); err != nil {
			return err
		}
		news, there := f.host.After(lsn)
		if there && buffered > 0 {
			there = f.host.Durable() >= lsn
			news = nil
		}
		if there {
			return nil
		}
		timer.Reset(look)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.host.Ending():
			return &fault.Error{Kind: fault.ErrClosed, What: doing, Why: "the database is closed", Do: "open it"}
		case <-news:
		case <-timer.C:
		}
	}
}

// give returns the changes of a page.
func (f *feed) give(ctx context.Context, page []logged, yield func(wal.Change, error) bool) error {
	commits := make([]*commit, len(page))
	for i, p := range page {
		var err error
		if commits[i], err = decode(f.host.Parts(), p); err != nil {
			if i == 0 {
				return err
			}
			commits = commits[:i] // what comes before is returned first
			break
		}
	}
	if err := f.findDeaths(ctx, commits); err != nil {
		return err
	}
	for _, c := range commits {
		if err := f.giveCommit(ctx, c, yield); err != nil {
			return err
		}
		f.next, f.Number = c.lsn+1, 0
		f.holds.Store(f.next)
		if f.Reached != nil {
			f.Reached(c.lsn)
		}
	}
	return nil
}

// giveCommit returns the changes of one commit, some at a time: nothing of the database is held
// while the reader has them.
func (f *feed) giveCommit(ctx context.Context, c *commit, yield func(wal.Change, error) bool) error {
	number := uint32(0)
	again := false // what comes may have had other numbers, and is given again
	for steps := c.steps; len(steps) > 0; {
		var batch []wal.Change
		err := f.host.View(ctx, func(r Reader) error {
			for bytes := 0; len(steps) > 0 && len(batch) < pageCommits && bytes < pageBytes; steps = steps[1:] {
				s := &steps[0]
				again = again || s.shifts
				if s.tell == nil && (number < f.Number && !again || s.op == wal.OpAccess && !f.WithAccesses) {
					number++
					continue
				}
				told, err := f.tell(r, c, s)
				if err != nil {
					return err
				}
				for i := range told {
					told[i].LSN, told[i].Number, told[i].Time = c.lsn, number, clock.FromMillis(c.time)
					if (number >= f.Number || again) && f.wants(&told[i]) {
						batch = append(batch, told[i])
						bytes += sizeOf(&told[i])
					}
					number++
				}
			}
			return nil
		})
		if err != nil {
			return store.Error(doing, err)
		}
		for i := range batch {
			if !yield(batch[i], nil) {
				return kv.ErrStop
			}
		}
	}
	return nil
}

// wants reports whether the reader has asked for a change.
func (f *feed) wants(c *wal.Change) bool {
	switch {
	case f.Scope == (memory.Scope{}) || c.Op == wal.OpReset:
		return true
	case c.Scope == (scope.Scope{}):
		return c.Op == wal.OpDelete && c.Seq == 0 // of whom, nobody knows any more
	}
	return scope.Contains(f.Scope, c.Scope)
}

// sizeOf is about what the values of a change take in memory.
func sizeOf(c *wal.Change) int {
	n := 256
	for _, v := range []any{c.Before, c.After} {
		if m, ok := v.(*memory.Memory); ok {
			n += len(m.Text) + 4*len(m.Embedding) + 256
		}
	}
	return n
}
