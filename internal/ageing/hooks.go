package ageing

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// Hooks let a program take part in how memories age. The zero Hooks do nothing.
//
// A hook is called in a goroutine of its own, outside every lock of writers and readers. A
// hook that panics, or that is not back in time, is logged and takes nothing but its own
// effect: no call of the database fails or waits for it any longer. While a call of a hook
// is not back, the hook is not called again.
type Hooks struct {
	// Verdict is asked what is to become of a memory: by Evict of each memory of the policy's
	// kinds that has not expired and is not pinned, by Consolidate and Options.KeepCaps of each
	// that they would take. Where Verdict panics or is late, the memory is kept; where it is late, so
	// are all others of that pass. A View is open meanwhile. nil: the policy alone decides.
	Verdict func(ctx context.Context, j Judged) policy.Verdict
	// Wait is how long a call of a hook may take; then its context is over. 0: a second.
	Wait time.Duration
	// Evicted hears of each memory that was evicted, pruned, merged away or has expired, once
	// the commit is durable, in the order of the commits and of the Seqs within one. It hears
	// at most once: what a crash or the end of Close comes before is not told again.
	Evicted func(ctx context.Context, e Eviction)
}

// Judged is what a verdict is asked of.
type Judged struct {
	// Memory is the memory without its vectors, as Get returns it.
	Memory memory.Memory
	// Rule is why the policy takes the memory, empty where the policy keeps it.
	Rule policy.Reason
	// Policy is the version of the policy.
	Policy uint32
}

// Eviction is a memory that is gone, for one who observes evictions.
type Eviction struct {
	Victim
	// LSN and Time are those of the commit, Policy is the version of the policy.
	LSN    uint64    `json:"lsn"`
	Time   time.Time `json:"time"`
	Policy uint32    `json:"policy"`
	Into   string    `json:"into,omitempty"` // the ID of what it was merged into
	// Missed is how many evictions before this one were not told, since the observer was
	// more than MaxUnobserved behind.
	Missed uint64 `json:"missed,omitempty"`
}

const (
	// MaxUnobserved bounds the evictions that wait for Hooks.Evicted, which take some 150
	// bytes each. What comes on top is counted in Eviction.Missed.
	MaxUnobserved = 200_000
	// hookWait is Hooks.Wait unless the caller says otherwise.
	hookWait = time.Second
	// closeWait is how long Close lets the observer hear of what it has not heard yet.
	closeWait = time.Second
)

// callout calls functions of the program that the database is linked into, one at a time.
type callout struct {
	mu   sync.Mutex
	hung chan struct{} // of a call that was given up, closed when it is back; nil: none
	wait time.Duration
}

// errLate is that a hook was not back in time, or that an earlier call of it still is not.
var errLate = errors.New("it is not back in time")

// call runs fn, and returns an error where it panics, ends its goroutine, or is not back
// when the time is over. fn shall write its result where nobody looks after an error.
func (c *callout) call(ctx context.Context, what string, fn func(context.Context)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hung != nil {
		select {
		case <-c.hung:
			c.hung = nil
		default:
			return errLate
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	done, back := make(chan struct{}), false
	var err error
	go func() {
		defer close(done)
		err = panics.Catch(what, func() { fn(ctx) })
		back = true
	}()
	select {
	case <-done:
	case <-ctx.Done():
		runtime.Gosched() // it may just be coming back
		select {
		case <-done:
		default:
			c.hung = done
			return errLate
		}
	}
	if !back { // runtime.Goexit
		return fmt.Errorf("its goroutine ended while it %s", what)
	}
	return err
}

// judge asks for verdicts in one pass. nil asks for none: the rules stand.
type judge struct {
	st     *State
	ctx    context.Context
	policy *policy.Policy
	late   bool
	// unjudged is how many memories were kept since there was no verdict.
	unjudged int
	failure  error
	decays   []victim
}

// newJudge is the judge of a pass, nil where the caller gives no verdicts.
func (st *State) newJudge(ctx context.Context, p *policy.Policy) *judge {
	if st.of.hooks.Verdict == nil {
		return nil
	}
	return &judge{st: st, ctx: ctx, policy: p}
}

// of is why a memory is to be evicted, with the caller's words: empty where it stays. kept
// reports whether the caller has said so, or said nothing.
func (j *judge) of(r *doctable.Row, rule policy.Reason) (why policy.Reason, note string, kept bool) {
	if j == nil || rule == policy.Expired {
		return rule, "", false
	}
	m, err := j.st.Memory(r.Version)
	var v policy.Verdict
	if err == nil && j.late {
		err = errLate
	}
	if err == nil {
		answer := make(chan policy.Verdict, 1)
		asked := Judged{Memory: m, Rule: rule, Policy: j.policy.Version}
		err = j.st.of.verdicts.call(j.ctx, "gives a verdict", func(ctx context.Context) { answer <- j.st.of.hooks.Verdict(ctx, asked) })
		if err == nil {
			v = <-answer
			err = v.Check()
		}
		j.late = j.late || errors.Is(err, errLate)
	}
	if err != nil {
		j.unjudged++
		if j.failure == nil {
			j.failure = err
		}
		return "", "", true
	}
	switch v.Act {
	case policy.Keep:
		return "", v.Why, true
	case policy.Decay:
		f, a := j.st.Facts(r)
		j.decays = append(j.decays, newVictim(r, "", &f, a))
		return "", v.Why, false
	case policy.Evict:
		return policy.Caller, v.Why, false
	}
	return rule, v.Why, false
}

// spares reports whether the caller keeps a memory that a rule would take.
func (j *judge) spares(r *doctable.Row, rule policy.Reason) (note string, spared bool) {
	if j == nil {
		return "", false
	}
	why, note, _ := j.of(r, rule)
	return note, why == ""
}

// end logs what kept the judge from its verdicts, and returns how many those were.
func (j *judge) end() int {
	if j == nil {
		return 0
	}
	if j.unjudged > 0 {
		j.st.of.Logger.Warn("memories are kept without a verdict", "memories", j.unjudged, "error", j.failure)
	}
	return j.unjudged
}

// decayBatch is how many memories that a verdict decays are changed in one commit.
const decayBatch = 500

// decay takes the policy's rate of the confidences that verdicts decay, and returns how many
// it changed. What was changed or deleted since the verdict stays.
func (j *judge) decay(ctx context.Context) (n int, err error) {
	if j == nil {
		return 0, nil
	}
	for from := 0; from < len(j.decays); from += decayBatch {
		part := j.decays[from:min(from+decayBatch, len(j.decays))]
		changed := 0
		err := j.st.of.host.Behind(ctx, func(tx *Tx) error {
			changed = 0
			for i := range part {
				lower, lowers := j.policy.Decayed(part[i].confidence)
				l, lives := tx.At(part[i].Seq)
				if !lowers || !lives || l.Version != part[i].Version {
					continue
				}
				rec, err := tx.Record(l.Version)
				if err != nil {
					return err
				}
				if _, err := tx.Writer.Patch(ctx, doingEvict, l, rec, &memory.Patch{Confidence: &lower}, records.Made{}); err != nil {
					return err
				}
				changed++
			}
			return nil
		})
		if err != nil {
			return n, err
		}
		n += changed
	}
	return n, nil
}

// observing hands evictions to the observer, behind those who commit them.
type observing struct {
	signal chan struct{}
	mu     struct {
		sync.Mutex
		queue   []evicted
		waiting int
		missed  uint64
	}
}

// evicted are the victims of one commit.
type evicted struct {
	lsn     uint64
	at      int64
	policy  uint32
	victims []victim
	missed  uint64 // before them
}

// observe notes victims of a durable commit for the observer.
func (a *Ageing) observe(lsn uint64, at int64, version uint32, victims []victim) {
	if a.hooks.Evicted == nil || len(victims) == 0 {
		return
	}
	o := &a.observing
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.waiting+len(victims) > MaxUnobserved {
		o.mu.missed += uint64(len(victims))
		return
	}
	o.mu.waiting += len(victims)
	o.mu.queue = append(o.mu.queue, evicted{lsn, at, version, victims, o.mu.missed})
	o.mu.missed = 0
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

func (o *observing) take() (e evicted, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.mu.queue) == 0 {
		return evicted{}, false
	}
	e = o.mu.queue[0]
	o.mu.queue = o.mu.queue[1:]
	o.mu.waiting -= len(e.victims)
	return e, true
}

// Observed reports whether the program observes evictions.
func (a *Ageing) Observed() bool { return a.hooks.Evicted != nil }

// RunObserver tells the observer of evictions until ctx is over, and then of what is left
// for as long as closeWait.
func (a *Ageing) RunObserver(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
			defer cancel()
			a.tellObserver(rest)
			return
		case <-a.observing.signal:
			a.tellObserver(ctx)
		}
	}
}

func (a *Ageing) tellObserver(ctx context.Context) {
	for ctx.Err() == nil {
		e, ok := a.observing.take()
		if !ok {
			return
		}
		if err := a.tell(ctx, &e); err != nil && ctx.Err() == nil && !fault.Told(err) {
			a.Logger.Warn("an observer of evictions was not told of all", "lsn", e.lsn, "error", err)
		}
	}
}

// tell calls the observer for each victim of a commit. One whose call fails does not keep
// the others from being told; after one that is late, what comes before its return is not.
func (a *Ageing) tell(ctx context.Context, e *evicted) error {
	var failure error
	missed := e.missed
	for i := range e.victims {
		if err := ctx.Err(); err != nil {
			return err
		}
		told, found, err := a.eviction(ctx, e, &e.victims[i])
		if err != nil {
			return err
		}
		if !found {
			continue // a reset came between
		}
		told.Missed = missed
		err = a.observers.call(ctx, "observes an eviction", func(ctx context.Context) { a.hooks.Evicted(ctx, told) })
		if failure = errors.Join(failure, err); errors.Is(err, errLate) {
			rest := uint64(len(e.victims) - i)
			a.observing.mu.Lock()
			a.observing.mu.missed += missed + rest
			a.observing.mu.Unlock()
			return failure
		}
		missed = 0
	}
	return failure
}

// eviction is what the observer hears of a victim.
func (a *Ageing) eviction(ctx context.Context, e *evicted, v *victim) (told Eviction, found bool, err error) {
	err = a.view(ctx, func(st *State) error {
		told = Eviction{LSN: e.lsn, Time: clock.FromMillis(e.at), Policy: e.policy}
		if told.Victim, found, err = st.shownVictim(v, e.at); err != nil || !found || v.into == 0 {
			return err
		}
		told.Into, err = st.LastID(v.Owner, v.into)
		return err
	})
	return told, found, err
}

// SetHooks checks the hooks and makes what calls them. opening is what an error says was being done.
func (a *Ageing) SetHooks(h Hooks, opening string) error {
	if h.Wait < 0 {
		return fault.Invalid(opening, fmt.Sprintf("Hooks.Wait is %v", h.Wait), "give a time above 0, or 0 for a second")
	}
	if h.Wait == 0 {
		h.Wait = hookWait
	}
	a.hooks = h
	a.verdicts.wait, a.observers.wait = h.Wait, h.Wait
	return nil
}
