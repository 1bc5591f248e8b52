package engine

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// jumpLeast is by how much a clock must go ahead of the time that passes to count as having
	// jumped: more than a change to summer time, by which some machines' clocks are wrong.
	jumpLeast = 2 * time.Hour
	// jumpHolds is for how long such a clock must stand to be believed: a machine that was asleep
	// has such a clock, too, and one that is set by a network is set right within minutes.
	jumpHolds = 10 * time.Minute
)

// steady reports whether the clock may be believed by what takes things away. It compares the clock
// with the time that passes, as the machine counts it whatever its clock is set to. What passes while
// the database is closed nobody counts.
type steady struct {
	clock  func() time.Time
	passed func(now time.Time) time.Duration
	logger *slog.Logger
	began  time.Time

	mu sync.Mutex
	// trusted is by how much the clock was ahead of the time that passes when it was believed
	// last, jump by how much it is at a time since.
	trusted, jump, since time.Duration
	suspected            bool
}

func newSteady(now func() time.Time, passed func() time.Duration, logger *slog.Logger) *steady {
	s := &steady{clock: now, logger: logger, began: now()}
	if passed != nil {
		s.passed = func(time.Time) time.Duration { return passed() }
	} else {
		// Readings of the machine's clock carry what it counts; those of other clocks do not, and
		// are believed. One reading serves both, since the clock may be set between two.
		s.passed = func(now time.Time) time.Duration { return now.Sub(s.began) }
	}
	return s
}

// jumped reports whether the clock has gone ahead of the time that passes, lately.
func (s *steady) jumped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	passed := s.passed(now)
	ahead := now.Round(0).Sub(s.began.Round(0)) - passed // Round takes away what the machine counts
	switch {
	case ahead-s.trusted < jumpLeast: // as it was, or set back
		s.trusted, s.suspected = ahead, false
	case !s.suspected || (ahead-s.jump).Abs() >= jumpLeast:
		s.jump, s.since, s.suspected = ahead, passed, true
		s.logger.Warn("the clock has jumped ahead: nothing ages until it has stood, or is set right", "now", now, "by", ahead-s.trusted, "for", jumpHolds)
	case passed-s.since >= jumpHolds:
		s.trusted, s.suspected = ahead, false
	}
	return s.suspected
}
