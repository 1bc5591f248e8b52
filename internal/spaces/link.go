package spaces

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/ctxlock"

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
type Linker struct {
	set    *Set
	signal chan struct{}
	ended  chan struct{} // closed when it has stopped
	// urgent counts the calls that wait for it.
	urgent atomic.Int64
	// behind is set while a space has as many unlinked vectors as there may be.
	behind atomic.Bool
	// turn ends the turn that runs, nil where none does; leisure tells that it
	// began in a pause between writes, All that it takes all processors.
	turn    atomic.Pointer[context.CancelFunc]
	leisure atomic.Bool
	All     atomic.Bool
	// Rebuilding is held while indexes are made anew.
	Rebuilding ctxlock.Mutex
}

func newLinker(ss *Set) *Linker {
	return &Linker{set: ss, signal: make(chan struct{}, 1), ended: make(chan struct{}), Rebuilding: ctxlock.New()}
}

// Wake has the linker look for work.
func (l *Linker) Wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// Stored tells the linker of a new vector.
func (l *Linker) Stored(s *Space) {
	if l.tooMany(s) {
		l.behind.Store(true)
	}
	if l.leisure.Load() {
		l.endTurn()
	}
	l.Wake()
}

func (l *Linker) endTurn() {
	if end := l.turn.Load(); end != nil {
		(*end)()
	}
}

func (l *Linker) tooMany(s *Space) bool {
	return s.Index.Pending() >= l.set.Limits.UnlinkedMost && s.Index.Due() && !s.Broken.Load()
}

// Behind reports whether some space may have too many unlinked vectors.
func (l *Linker) Behind() bool { return l.behind.Load() }

// Admit makes a writer wait while too many vectors are unlinked, until the context is done.
func (l *Linker) Admit(ctx context.Context) error {
	if !l.Behind() {
		return nil
	}
	err := l.Await(ctx, func() bool {
		if slices.ContainsFunc(l.set.All(), l.tooMany) {
			return false
		}
		l.behind.Store(false)
		return true
	})
	if errors.Is(err, ErrEnded) {
		return nil // Close writes what is gathered, whatever is linked
	}
	return err
}

// ErrEnded: the linker has ended, and nothing comes of waiting for it.
var ErrEnded = errors.New("the linker has ended")

// Await returns when a condition holds, looking at it now and then.
func (l *Linker) Await(ctx context.Context, holds func() bool) error {
	if holds() {
		return nil
	}
	if l.urgent.Add(1) == 1 && !l.All.Load() {
		l.endTurn() // the next one takes all processors
	}
	defer l.urgent.Add(-1)
	l.Wake()
	tick := time.NewTicker(linkPoll)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.ended:
			return ErrEnded
		case <-tick.C:
		}
	}
	return nil
}

// WaitLinked returns when every vector that was stored before the call is linked, with the
// space in which linking failed, if it did in one.
func (ss *Set) WaitLinked(ctx context.Context) (broken *Space, err error) {
	for _, s := range ss.All() {
		// Pending is a queue: what is ahead of the vectors that come later.
		until := s.Added.Load()
		err := ss.Linker.Await(ctx, func() bool {
			if now := ss.Numbered(s.Num); now != s { // it was rebuilt meanwhile
				s, until = now, now.Added.Load()
			}
			added := s.Added.Load()
			return added-min(added, uint64(s.Index.Pending())) >= until || !s.Index.Due() || s.Broken.Load()
		})
		if err != nil {
			return nil, err
		}
		if s.Broken.Load() {
			broken = s
		}
	}
	return broken, nil
}

// Run links until the context is done.
func (l *Linker) Run(ctx context.Context) {
	defer close(l.ended)
	if !l.set.ReadOnly {
		l.set.sweepSnapshots()
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

// round gives each space a turn and reports whether one has more to do.
func (l *Linker) round(ctx context.Context) (more bool) {
	for _, s := range l.set.All() {
		if s.Index.Due() && !s.Broken.Load() {
			if l.pause(ctx, s) {
				l.link(ctx, s)
			}
			more = true
		}
		if ctx.Err() != nil {
			return false
		}
		l.save(ctx, s)
		if s.fillDue() {
			s.fill(ctx)
		}
	}
	return more
}

// save writes a snapshot of a space where the last one lacks much.
func (l *Linker) save(ctx context.Context, s *Space) {
	if s.renew.Load() {
		l.renew(ctx, s)
		return
	}
	if old := s.Replaces.Load(); old != nil {
		if s.Index.Linked() == 0 && s.Index.Due() && !s.Broken.Load() {
			return // its turn was taken before anything was linked, and nothing would be written
		}
		if old.Saved.Name != "" {
			l.set.removeFile(old.Saved.Name)
		}
		l.set.Save(ctx, s, 0, 0)
		s.Replaces.Store(nil)
		return
	}
	least, used := l.set.Limits.SaveTail, uint64(s.Used.Load())
	l.set.Save(ctx, s, max(least, used/addedShare), max(least, used/saveShare))
}

// renew writes the snapshot of a space anew, or removes it.
func (l *Linker) renew(ctx context.Context, s *Space) {
	if !l.set.Save(ctx, s, 0, 0) && s.Saved.Name != "" && ctx.Err() == nil {
		l.set.removeFile(s.Saved.Name)
		s.Saved.Name = ""
	}
	s.renew.Store(ctx.Err() != nil)
}

// Renew writes the snapshots of all spaces anew, without the vectors that were removed before the
// call. A snapshot that cannot be written, or not without them, is removed: opening makes the
// index anew then. It returns [ErrEnded] where the set was closed meanwhile.
func (ss *Set) Renew(ctx context.Context) error {
	for _, s := range ss.All() {
		s.Index.RepairAll(true)
		defer s.Index.RepairAll(false)
		replaced := func() bool { return ss.Numbered(s.Num) != s }
		err := ss.Linker.Await(ctx, func() bool {
			return s.Index.Stats().Removed == 0 || s.Broken.Load() || !s.Index.Due() || replaced()
		})
		if err != nil {
			return err
		}
		if s.Index.Stats().Removed > 0 && !replaced() {
			return fmt.Errorf("the links of the space %s cannot be led around removed vectors", s.Name)
		}
		s.renew.Store(true)
		if err := ss.Linker.Await(ctx, func() bool { return !s.renew.Load() || replaced() }); err != nil {
			return err
		}
	}
	return nil
}

// pause waits until no vector has come for a while, or too many have, and tells
// whether the space has its turn then: not where another one presses. Snapshots do
// not wait for that.
func (l *Linker) pause(ctx context.Context, s *Space) bool {
	presses := func(o *Space) bool { return o.Index.Due() && !o.Broken.Load() && l.pressed(o) }
	tick := time.NewTicker(linkPause)
	defer tick.Stop()
	for seen := ^uint64(0); !l.pressed(s); {
		added := s.Added.Load()
		if added == seen {
			return true
		}
		seen = added
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		spaces := l.set.All()
		if slices.ContainsFunc(spaces, presses) {
			return l.pressed(s)
		}
		for _, o := range spaces {
			l.save(ctx, o)
		}
	}
	return true
}

// pressed reports whether linking must not wait for a pause between writes: it takes
// more of the processor than the writes themselves, and only searches gain by it.
func (l *Linker) pressed(s *Space) bool {
	pending, limits := s.Index.Pending(), &l.set.Limits
	return l.urgent.Load() > 0 || pending >= limits.UnlinkedIdle || pending >= limits.UnlinkedSoft && s.Asked.Load()
}

// builders is how many goroutines link: half of what the program may run at once,
// so that readers and writers find the other half free, and all of it while
// somebody waits for the links.
func (l *Linker) builders() int {
	all := runtime.GOMAXPROCS(0)
	if l.urgent.Load() > 0 {
		return all
	}
	return min(all/2, buildersBeside)
}

// link links until there is nothing more to do, the turn is over, or, where nothing
// presses, the next vector comes: it would wait for the processor.
func (l *Linker) link(ctx context.Context, s *Space) {
	turn, cancel := context.WithTimeout(ctx, linkFor)
	defer cancel()
	l.turn.Store(&cancel)
	defer l.turn.Store(nil)
	l.leisure.Store(!l.pressed(s))
	defer l.leisure.Store(false)
	l.All.Store(l.urgent.Load() > 0)
	defer l.All.Store(false)
	s.Index.SetBuilders(l.builders())
	s.Index.SetYield(l.leisure.Load())
	asked := s.Asked.Swap(false)
	err := s.Index.Link(turn, s.Index.Len())
	if turn.Err() != nil {
		if asked { // not all was linked
			s.Asked.Store(true)
		}
		return
	}
	if err == nil {
		return
	}
	if _, panicked := errors.AsType[*panics.Error](err); panicked { // nobody knows what it has left
		l.set.Store.Fail(err)
		return
	}
	s.Broken.Store(true)
	l.set.Logger.Error("linking vectors failed; they are found without links, more slowly", "space", s.Name, "error", err)
}

// Walks reports whether a search among so many documents goes by the links, and has the linker
// hear of one that would.
func (s *Space) Walks(docs int) bool {
	if docs <= s.set.Limits.Exhaustive {
		return false
	}
	if !s.Asked.Load() {
		s.Asked.Store(true)
	}
	return s.Index.Linked() > 0
}
