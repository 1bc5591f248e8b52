package policy

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Part is what a database keeps of policies and runs. In RAM it holds all of it: a policy is some hundred bytes, a run
// forty.
type Part struct {
	runs  Runs
	held  atomic.Pointer[[]since] // in the order of LSNs
	watch func(*Policy)           // nil: nobody waits for a policy
}

// since is a policy and the LSN from which on it holds.
type since struct {
	Policy
	lsn uint64
}

// NewPart returns the part of a database.
func NewPart() *Part { return &Part{} }

// Watch has fn called with each policy that is set from now on, before a reader can see its commit, under the lock of
// writers. It is called before the first writer begins.
func (p *Part) Watch(fn func(*Policy)) { p.watch = fn }

// Policies are the policies of a database: in a transaction, or with each call as a transaction of its own.
type Policies struct {
	part *Part
	run  part.Runner
}

// New returns the policies whose calls a runner runs. Engine makes them: see its DB.Policies and Tx.Policies.
func (p *Part) New(r part.Runner) Policies { return Policies{p, r} }

// Show returns the policy of the state that is read: the preset default where none was set.
func (p Policies) Show(ctx context.Context) (q Policy, err error) {
	err = p.run.View(ctx, "show the policy", func(v part.View) error {
		q, err = Stored(v)
		return err
	})
	return q, err
}

// Set makes q the policy, under the next version, and returns it with that version and its LSN. Version and LSN of q do
// not matter. It returns ErrInvalid for values that Policy.Check refuses. A policy that says what is stored already
// changes nothing.
func (p Policies) Set(ctx context.Context, q Policy) (set Policy, err error) {
	if err := q.Check(); err != nil {
		return Policy{}, err
	}
	err = p.run.Update(ctx, doingSet, func(t part.Tx) error {
		set, err = p.part.put(t, q)
		return err
	})
	return set, err
}

// Stored is the policy of a state.
func Stored(v part.View) (p Policy, err error) {
	lower := section(v, sectionPolicy)
	it, err := v.Iter(lower, section(v, sectionRun))
	if err != nil {
		return Policy{}, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.Last(); ok; ok = it.Prev() {
		value, err := it.ValueAndErr()
		if err != nil {
			return Policy{}, err
		}
		if p, err = decodePolicy(value); err != nil || p.LSN <= v.LSN() {
			return p, err
		}
	}
	return Default(), it.Error()
}

// nobody is the owner number under which policies are counted.
const nobody = 0

// put stores a policy under the next version. What RAM holds follows from the commit.
func (p *Part) put(t part.Tx, q Policy) (Policy, error) {
	have, err := Stored(t)
	if err != nil || have.Version > 0 && have.Same(&q) {
		return have, err
	}
	const size = 4096
	if err := t.Need(doingSet, size); err != nil {
		return Policy{}, err
	}
	q.Version, q.LSN = have.Version+1, t.LSN()
	q.Kinds = slices.Clone(q.Kinds)
	b, err := q.encode()
	if err != nil {
		return Policy{}, &fault.Error{Kind: fault.ErrFailed, What: doingSet, Cause: err}
	}
	if err := t.Set(policyKey(t, q.Version), b); err != nil {
		return Policy{}, err
	}
	// How many there are: by that a check finds that the newest is lost.
	counted, _, err := t.Counter(byte(kind), nobody)
	if err != nil {
		return Policy{}, err
	}
	if err := t.Count(byte(kind), nobody, int64(q.Version)-counted); err != nil {
		return Policy{}, err
	}
	t.Log(opPolicy, b)
	t.Stage(func(lsn uint64) { p.hold(q, lsn) })
	return q, nil
}

// Record writes a run of the transaction's LSN and time, and returns it as it was written.
func (p *Part) Record(t part.Tx, doing string, r Run) (Run, error) {
	r.LSN, r.At = t.LSN(), t.Now()
	b := r.encode()
	if err := t.Need(doing, len(b)); err != nil {
		return Run{}, err
	}
	if err := t.Set(runKey(t, r.LSN), b); err != nil {
		return Run{}, err
	}
	t.Log(opRun, b)
	t.Stage(func(uint64) { p.runs.Add(r) })
	return r, nil
}

// Runs are the consolidations of the database.
func (p *Part) Runs() *Runs { return &p.runs }

// At is the policy as of an LSN, out of RAM. The value is shared, and not to be written to.
func (p *Part) At(lsn uint64) *Policy {
	held := p.held.Load()
	if held != nil {
		for i := len(*held) - 1; i >= 0; i-- {
			if q := &(*held)[i]; q.lsn <= lsn {
				return &q.Policy
			}
		}
	}
	return &preset
}

var preset = Default()

// hold notes a policy that holds from an LSN on. Only the writer calls it.
func (p *Part) hold(q Policy, lsn uint64) {
	var next []since
	if held := p.held.Load(); held != nil {
		next = slices.Clone(*held)
	}
	next = append(next, since{q, lsn})
	p.held.Store(&next)
	if p.watch != nil {
		p.watch(&next[len(next)-1].Policy)
	}
}

// Name is "policies".
func (*Part) Name() string { return "policies" }

// Kinds is that of policies and runs.
func (*Part) Kinds() []part.Kind { return []part.Kind{kind} }

// Divisions tell the trash apart.
func (*Part) Divisions(v part.View, _ part.Kind) []part.Division {
	return []part.Division{{Name: "trash", Lower: section(v, sectionTrash), Upper: section(v, sectionTrash+1)}}
}

// Ops are those of a policy, of a run, of a scheduled job and of trash.
func (*Part) Ops() []part.Op { return []part.Op{opPolicy, opRun, opJob, opTrash} }

// Load reads the policies and the runs.
func (p *Part) Load(v part.View, _ part.Opening) error {
	lower := v.Key(byte(kind), 0)
	return v.Scan(lower, section(v, sections), func(key, value []byte) error {
		s, number, ok := parseKey(key)
		if !ok {
			return &fault.Error{Kind: fault.ErrCorrupt, What: "read the policies", Why: "a key is malformed", Do: "run check"}
		}
		switch s {
		case sectionRun:
			r, err := decodeRun(number, value)
			if err == nil {
				p.runs.Add(r)
			}
			return err
		case sectionJob, sectionTrash:
			return nil // is read when it is asked for
		}
		q, err := decodePolicy(value)
		if err == nil {
			p.hold(q, q.LSN)
		}
		return err
	})
}

// Reset says that the policies are gone with everything else. The runs stay in RAM, for readers of earlier states: they
// count for no memory that is born later.
func (p *Part) Reset(lsn uint64) { p.hold(Default(), lsn) }

// DeleteOwner deletes nothing: policies and runs are those of the database.
func (*Part) DeleteOwner(part.Tx, uint32) (map[string]int64, error) { return nil, nil }

// EraseOwners deletes the consolidations that were for nobody else: they name the user or the agent.
func (*Part) EraseOwners(v part.View, owners map[uint32]bool, del func(lower, upper []byte) error) error {
	return v.Scan(section(v, sectionRun), section(v, sectionRun+1), func(key, value []byte) error {
		_, lsn, ok := parseKey(key)
		if !ok {
			return nil // which check reports
		}
		r, err := decodeRun(lsn, value)
		if err != nil {
			return err
		}
		others := func(owner uint32) bool { return !owners[owner] }
		if r.Scope == (scope.Scope{}) || slices.ContainsFunc(r.Owners, others) {
			return nil
		}
		lower := slices.Clone(key)
		return del(lower, append(slices.Clone(lower), 0))
	})
}

// Bytes are about those of the runs and the policies in RAM.
func (p *Part) Bytes() int64 {
	const run, policy = 64, 512
	n := int64(p.runs.Count()) * run
	if held := p.held.Load(); held != nil {
		n += int64(len(*held)) * policy
	}
	return n
}

// Figures are the number of runs and the version of the policy.
func (p *Part) Figures(v part.View) (map[string]int64, error) {
	return map[string]int64{"consolidations": int64(p.runs.Count()), "policy": int64(p.At(v.LSN()).Version)}, nil
}
