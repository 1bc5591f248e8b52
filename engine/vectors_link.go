package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
)

const (
	// linkPause is how long no vector must have come before a few are linked: in
	// the midst of writes the processor has better things to do.
	linkPause = 50 * time.Millisecond
	// linkFor is how long one space is linked before others have their turn and
	// snapshots are looked at.
	linkFor = 5 * time.Second
	// buildersBeside bounds the goroutines that link beside readers and writers.
	buildersBeside = 8
	// linkPoll is how often those who wait for the linker look again.
	linkPoll = 5 * time.Millisecond
)

// linker links stored vectors into the graphs of their spaces, in one goroutine
// beside readers and writers, writes snapshots, and reads ahead of searches. A vector
// is found before it is linked; what waits is bounded by making writers wait.
type linker struct {
	db     *DB
	signal chan struct{}
	ended  chan struct{} // closed when it has stopped
	// urgent counts the calls that wait for it.
	urgent atomic.Int64
	// behind is set while a space has as many unlinked vectors as there may be.
	behind atomic.Bool
	// turn ends the turn that runs, nil where none does; leisure tells that it
	// began in a pause between writes, all that it takes all processors.
	turn    atomic.Pointer[context.CancelFunc]
	leisure atomic.Bool
	all     atomic.Bool
	// rebuilding is held while indexes are made anew.
	rebuilding mutex
}

func newLinker(db *DB) *linker {
	return &linker{db: db, signal: make(chan struct{}, 1), ended: make(chan struct{}), rebuilding: make(mutex, 1)}
}

func (l *linker) wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// stored tells the linker of a new vector.
func (l *linker) stored(s *space) {
	if l.tooMany(s) {
		l.behind.Store(true)
	}
	if l.leisure.Load() {
		l.endTurn()
	}
	l.wake()
}

func (l *linker) endTurn() {
	if end := l.turn.Load(); end != nil {
		(*end)()
	}
}

func (l *linker) tooMany(s *space) bool {
	return s.index.Pending() >= l.db.limits.unlinkedMost && s.index.Due() && !s.broken.Load()
}

// admit makes a writer wait while too many vectors are unlinked.
func (l *linker) admit(ctx context.Context) error {
	if !l.behind.Load() {
		return nil
	}
	wait, cancel := l.db.lockLimit(ctx)
	defer cancel()
	err := l.await(wait, func() bool {
		if slices.ContainsFunc(l.db.spaces.all(), l.tooMany) {
			return false
		}
		l.behind.Store(false)
		return true
	})
	if err == nil || errors.Is(err, errLinkerEnded) {
		return nil // Close writes what is gathered, whatever is linked
	}
	return l.db.lockError(ctx, "write", "the vector index has too much to link")
}

var errLinkerEnded = errors.New("the linker has ended")

// await returns when a condition holds, looking at it now and then.
func (l *linker) await(ctx context.Context, holds func() bool) error {
	if holds() {
		return nil
	}
	if l.urgent.Add(1) == 1 && !l.all.Load() {
		l.endTurn() // the next one takes all processors
	}
	defer l.urgent.Add(-1)
	l.wake()
	tick := time.NewTicker(linkPoll)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.ended:
			return errLinkerEnded
		case <-tick.C:
		}
	}
	return nil
}

// WaitIndexed returns when every vector that was stored before the call is linked,
// so that no search scores it for want of a link. Small spaces have no graph and
// nothing to wait for. Searches find vectors without this, more slowly; while it
// waits, linking takes all processors that the program may use. It is for the end
// of a bulk import, before Close or the first queries, and for measuring.
func (db *DB) WaitIndexed(ctx context.Context) error {
	const doing = "wait for vectors to be linked"
	if err := db.usable(doing); err != nil { // Close does not wait for this call
		return err
	}
	var broken error
	for _, s := range db.spaces.all() {
		// Pending is a queue: what is ahead of the vectors that come later.
		until := s.added.Load()
		err := db.linker.await(ctx, func() bool {
			if now := db.spaces.numbered(s.num); now != s { // it was rebuilt meanwhile
				s, until = now, now.added.Load()
			}
			added := s.added.Load()
			return added-min(added, uint64(s.index.Pending())) >= until || !s.index.Due() || s.broken.Load()
		})
		switch {
		case errors.Is(err, errLinkerEnded):
			return closedError(doing)
		case err != nil:
			return fault.Within(doing, err)
		case s.broken.Load():
			broken = &fault.Error{Kind: fault.ErrBusy, What: doing, Why: "linking failed in the space " + s.name + "; the log says why", Do: "reopen the database"}
		}
	}
	return broken
}

func (l *linker) run(ctx context.Context) {
	defer close(l.ended)
	if !l.db.readOnly {
		l.db.sweepSnapshots()
	}
	for {
		for l.round(ctx) && ctx.Err() == nil {
		}
		select {
		case <-ctx.Done():
			return
		case <-l.signal:
		}
	}
}

// round gives each space a turn and tells whether one has more to do.
func (l *linker) round(ctx context.Context) (more bool) {
	for _, s := range l.db.spaces.all() {
		if s.index.Due() && !s.broken.Load() {
			if l.pause(ctx, s) {
				l.link(ctx, s)
			}
			more = true
		}
		if ctx.Err() != nil {
			return false
		}
		l.save(ctx, s)
		if s.fillDue(l.db) {
			s.fill(ctx, l.db)
		}
	}
	return more
}

// save writes a snapshot of a space where the last one lacks much.
func (l *linker) save(ctx context.Context, s *space) {
	if old := s.replaces.Load(); old != nil {
		if old.saved.name != "" {
			l.db.removeFile(old.saved.name)
		}
		l.db.saveSpace(ctx, s, 0, 0)
		s.replaces.Store(nil)
		return
	}
	least, used := l.db.limits.saveTail, uint64(s.used.Load())
	l.db.saveSpace(ctx, s, max(least, used/addedShare), max(least, used/saveShare))
}

// pause waits until no vector has come for a while, or too many have, and tells
// whether the space has its turn then: not where another one presses. Snapshots do
// not wait for that.
func (l *linker) pause(ctx context.Context, s *space) bool {
	presses := func(o *space) bool { return o.index.Due() && !o.broken.Load() && l.pressed(o) }
	tick := time.NewTicker(linkPause)
	defer tick.Stop()
	for seen := ^uint64(0); !l.pressed(s); {
		added := s.added.Load()
		if added == seen {
			return true
		}
		seen = added
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		spaces := l.db.spaces.all()
		if slices.ContainsFunc(spaces, presses) {
			return l.pressed(s)
		}
		for _, o := range spaces {
			l.save(ctx, o)
		}
	}
	return true
}

// pressed tells whether linking must not wait for a pause between writes: it takes
// more of the processor than the writes themselves, and only searches gain by it.
func (l *linker) pressed(s *space) bool {
	pending, limits := s.index.Pending(), &l.db.limits
	return l.urgent.Load() > 0 || pending >= limits.unlinkedIdle || pending >= limits.unlinkedSoft && s.asked.Load()
}

// builders is how many goroutines link: half of what the program may run at once,
// so that readers and writers find the other half free, and all of it while
// somebody waits for the links.
func (l *linker) builders() int {
	all := runtime.GOMAXPROCS(0)
	if l.urgent.Load() > 0 {
		return all
	}
	return min(all/2, buildersBeside)
}

// link links until there is nothing more to do, the turn is over, or, where nothing
// presses, the next vector comes: it would wait for the processor.
func (l *linker) link(ctx context.Context, s *space) {
	turn, cancel := context.WithTimeout(ctx, linkFor)
	defer cancel()
	l.turn.Store(&cancel)
	defer l.turn.Store(nil)
	l.leisure.Store(!l.pressed(s))
	defer l.leisure.Store(false)
	l.all.Store(l.urgent.Load() > 0)
	defer l.all.Store(false)
	s.index.SetBuilders(l.builders())
	s.index.SetYield(l.leisure.Load())
	asked := s.asked.Swap(false)
	err := s.index.Link(turn, s.index.Len())
	if turn.Err() != nil {
		if asked { // not all was linked
			s.asked.Store(true)
		}
		return
	}
	if err == nil {
		return
	}
	if _, panicked := errors.AsType[*panics.Error](err); panicked { // nobody knows what it has left
		l.db.store.Fail(err)
		return
	}
	s.broken.Store(true)
	l.db.logger.Error("linking vectors failed; they are found without links, more slowly", "space", s.name, "error", err)
}
