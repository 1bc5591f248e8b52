package policy

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/seed-7aedc3ff/memdb/scope"
)

// Debt is what has been taken of a confidence, as a whole number of steps of 2⁻⁴⁰ of the natural logarithm: the
// confidence c with the debt d is c·e^(−d·2⁻⁴⁰). Whole numbers add up to the same sum in any grouping, so that what a
// reader sees does not depend on when the store has folded them. A step changes a confidence by less than 10⁻¹².
type Debt int64

const (
	debtStep = 1.0 / (1 << 40)
	// mostDebt is the debt of a rate of 1, and the most that a memory has: e⁻³² is 10⁻¹⁴. A hundred thousand such
	// runs do not overflow their sum.
	mostDebt = Debt(32 << 40)
)

// DebtOf returns the debt of one consolidation at a rate from 0 to 1: −ln(1 − rate), capped at 32.
func DebtOf(rate float64) Debt {
	d := -math.Log1p(-rate) / debtStep
	if !(d < float64(mostDebt)) {
		return mostDebt
	}
	return Debt(math.Round(d))
}

// Confidence returns a stored confidence less a debt, rounded to nine digits after the point where there is a debt.
func Confidence(stored float64, d Debt) float64 {
	if d <= 0 {
		return stored
	}
	const digits = 1e9
	return min(stored, math.Round(stored*math.Exp(-float64(d)*debtStep)*digits)/digits)
}

// limit is the debt that takes a stored confidence down to a floor: 0 for one that is not above it.
func limit(stored, floor float64) Debt {
	switch {
	case stored <= floor:
		return 0
	case floor <= 0:
		return mostDebt
	}
	return min(Debt(math.Round(math.Log(stored/floor)/debtStep)), mostDebt)
}

// Run is one consolidation, as the database keeps it.
type Run struct {
	// LSN is that of the commit.
	LSN uint64
	// At is its time in Unix milliseconds. Where it is before that of a run before it, that one came by a clock that
	// was ahead.
	At int64
	// Rate, Idle (milliseconds) and Floor are those of the policy at that time, or of the call.
	Rate  float64
	Idle  int64
	Floor float64
	// Policy is the version of the policy.
	Policy uint32
	// Scope is whose memories the run was for; the empty one is everyone. Owners are the numbers of the owners in
	// the scope, rising, nil for everyone. An owner that came later has only memories that the run does not count for.
	Scope  scope.Scope
	Owners []uint32
}

// Runs are the consolidations of a database, ready to be asked what they have taken of a memory. One writer adds,
// while readers ask.
//
// A run counts for a memory if its LSN is after the one from which the memory is followed (the birth of its version,
// or a fold into its debt), and if the memory had not been accessed, or created, for the idle time of the run. Each
// counted run, in their order, takes its rate of what is there, down to its floor, and never raises.
//
// A run is judged by true time: it counts from its time on. So one by a clock that was ahead takes nothing once the clock
// is set right.
//
// Runs in a row with the same floor and idle time, whose times rise, are one stretch. In a stretch the runs that count
// are those from one on, so that a difference of two sums tells what they take: a look costs a few binary searches,
// whatever the number of runs. A clock that is set back begins a stretch.
type Runs struct{ table atomic.Pointer[runTable] }

// runTable is an immutable state of Runs. A later state shares the memory of an earlier one and writes only behind it.
type runTable struct {
	last   Run // without its owners
	count  int
	floor  float64          // the least of all
	all    track            // of owners that no scoped run was for
	scoped map[uint32]track // of the others: all runs that are for them
}

// track is the runs that are for an owner, in stretches, the oldest first.
type track []stretch

type stretch struct {
	floor float64
	idle  int64
	lsn   []uint64
	due   []int64 // the run counts for what was last accessed then or before
	sum   []Debt  // of the runs up to this one
}

// with returns the track with one run more.
func (t track) with(r *Run) track {
	if n := len(t); n == 0 || !t[n-1].continues(r) {
		t = append(t[:n:n], stretch{floor: r.Floor, idle: r.Idle})
	} else {
		t = slices.Clone(t)
	}
	s := &t[len(t)-1]
	before := Debt(0)
	if n := len(s.sum); n > 0 {
		before = s.sum[n-1]
	}
	s.lsn, s.due = append(s.lsn, r.LSN), append(s.due, r.At-r.Idle)
	s.sum = append(s.sum, min(before, math.MaxInt64-mostDebt)+DebtOf(r.Rate))
	return t
}

// continues reports whether a run is one of the stretch.
func (s *stretch) continues(r *Run) bool {
	return s.floor == r.Floor && s.idle == r.Idle && s.due[len(s.due)-1] <= r.At-r.Idle
}

// Add adds the newest run. Only the writer calls it.
func (rs *Runs) Add(r Run) {
	next := &runTable{}
	if old := rs.table.Load(); old != nil {
		*next = *old
	}
	next.floor = r.Floor
	if next.count > 0 {
		next.floor = min(rs.table.Load().floor, r.Floor)
	}
	next.count++
	scoped := make(map[uint32]track, len(next.scoped)+len(r.Owners))
	for owner, t := range next.scoped {
		if _, in := slices.BinarySearch(r.Owners, owner); r.Owners == nil || in {
			t = t.with(&r)
		}
		scoped[owner] = t
	}
	for _, owner := range r.Owners {
		if _, known := scoped[owner]; !known {
			scoped[owner] = next.all.clone().with(&r)
		}
	}
	if r.Owners == nil {
		next.all = next.all.with(&r)
	}
	next.scoped, next.last = scoped, r
	next.last.Owners = nil
	rs.table.Store(next)
}

// by is how many runs of the stretch are not later than a time.
func (s *stretch) by(at int64) int {
	n := len(s.due)
	if s.due[n-1] > at-s.idle {
		n, _ = slices.BinarySearch(s.due, at-s.idle+1)
	}
	return n
}

// clone copies a track, so that two that go on in different ways do not write behind the same one.
func (t track) clone() track {
	c := make(track, len(t))
	for i, s := range t {
		c[i] = stretch{s.floor, s.idle, slices.Clone(s.lsn), slices.Clone(s.due), slices.Clone(s.sum)}
	}
	return c
}

// Last is the newest run, false where there was none.
func (rs *Runs) Last() (Run, bool) {
	t := rs.table.Load()
	if t == nil {
		return Run{}, false
	}
	return t.last, true
}

// Floor is the least floor of a run: none has taken a confidence that was not below it further down. It is 1 where there
// was none.
func (rs *Runs) Floor() float64 {
	if t := rs.table.Load(); t != nil {
		return t.floor
	}
	return 1
}

// Count is how many runs there are.
func (rs *Runs) Count() int {
	if t := rs.table.Load(); t != nil {
		return t.count
	}
	return 0
}

// Aged is what the runs need to know of a memory.
type Aged struct {
	// Owner is the number of the owner.
	Owner  uint32
	Stored float64 // its stored confidence
	Debt   Debt    // what was folded already
	// After is the LSN of the fold, or of the birth of the version, whichever is later.
	After uint64
	// Last is the time of the last access, or of the creation where that is later, in Unix milliseconds.
	Last int64
}

// Owed returns the debt of a memory with the runs up to an LSN that are not later than now: at least m.Debt.
func (rs *Runs) Owed(m *Aged, upTo uint64, now int64) Debt {
	t := rs.table.Load()
	if t == nil || t.last.LSN <= m.After {
		return m.Debt
	}
	runs, ok := t.scoped[m.Owner]
	if !ok {
		runs = t.all
	}
	d := m.Debt
	for i := range runs {
		d = runs[i].add(d, m, upTo, now)
	}
	return d
}

// add is a debt with what the runs of the stretch take.
func (s *stretch) add(d Debt, m *Aged, upTo uint64, now int64) Debt {
	n := len(s.lsn)
	if s.lsn[n-1] <= m.After || s.due[n-1] < m.Last {
		return d
	}
	from, _ := slices.BinarySearch(s.lsn, m.After+1)
	if s.due[from] < m.Last {
		from, _ = slices.BinarySearch(s.due, m.Last)
	}
	to := s.by(now)
	if s.lsn[n-1] > upTo {
		last, _ := slices.BinarySearch(s.lsn, upTo+1)
		to = min(to, last)
	}
	if from >= to {
		return d
	}
	taken := s.sum[to-1]
	if from > 0 {
		taken -= s.sum[from-1]
	}
	return max(d, min(d+min(taken, mostDebt), limit(m.Stored, s.floor)))
}

// Takes reports whether one run takes something of a memory whose debt was d before it.
func (r *Run) Takes(m *Aged, d Debt) bool {
	return r.LSN > m.After && r.At-r.Idle >= m.Last && d < limit(m.Stored, r.Floor) && DebtOf(r.Rate) > 0
}
