package ageing

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/lifecycle"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// The tables count what each owner has. An owner that comes to have more than the cap and its
// slack is looked at, beside writers, and loses what it has more than the cap: a look at ten
// thousand memories is worth it only where it takes many.

// CapSlack is how many memories an owner may have more than the cap before it is looked at.
func CapSlack(limit int64) int64 { return max(limit/10, 1) }

// capsEvery is how often agents are looked at, and what could not be evicted before.
const capsEvery = 5 * time.Second

// StartCaps begins to evict what owners have more than the cap. Each policy that is set sets the
// watch in the commit that sets it: the next store knows the new cap.
func (a *Ageing) StartCaps(life *lifecycle.Life) {
	signal := make(chan struct{}, 1)
	watch := func(p *policy.Policy) {
		a.capsLooked.Store(0)
		a.host.Tables().Docs.Watch(p.Cap+CapSlack(p.Cap), signal)
	}
	a.host.Tables().Ageing.Watch(watch)
	_, _ = a.host.Locked(context.Background(), func() { watch(a.host.Tables().Ageing.At(state.MaxLSN)) }) // which never ends
	life.Every("keeps the caps", capsEvery, signal, a.keepCaps)
}

// keepCaps looks at each owner that the tables tell of. They do not count by agent: where the cap is
// for all that an agent has, all memories are looked at.
func (a *Ageing) keepCaps(ctx context.Context) error {
	p := a.host.Tables().Ageing.At(state.MaxLSN)
	owners := &a.host.Tables().Docs.Owners
	most := p.Cap + CapSlack(p.Cap)
	if p.CapPer == policy.PerAgent {
		if err := a.KeepAgentCaps(ctx, p); err != nil {
			return err
		}
	}
	for {
		owner, doc, ok := owners.Next()
		if !ok {
			return nil
		}
		had, err := a.settledCount(ctx, owner)
		if err != nil {
			return err
		}
		n, gone, err := a.keepCap(ctx, p, owner, doc)
		// What does not count for the cap stays, and so may what does: pinned, or by a verdict.
		upTo := max(most+max(had-n, 0), had-gone+CapSlack(p.Cap))
		owners.Spare(owner, doc, upTo)
		if err != nil {
			return err
		}
	}
}

// KeepAgentCaps evicts what agents have more than the cap, with all their users, unless nothing was
// stored since the last look.
func (a *Ageing) KeepAgentCaps(ctx context.Context, p *policy.Policy) error {
	mark := a.host.Tables().Docs.Mark.Load()
	if mark == a.capsLooked.Load() {
		return nil
	}
	var victims []victim
	var j *judge
	err := a.view(ctx, func(st *State) error {
		j = st.newJudge(ctx, p)
		over, err := st.overAgentCaps(ctx, p)
		for _, v := range over {
			if note, spared := j.spares(st.Docs.Row(st.Docs.At(v.Seq, st.LSN)), policy.Cap); !spared {
				v.why = note
				victims = append(victims, v)
			}
		}
		return err
	})
	j.end()
	if err == nil && len(victims) > 0 {
		_, err = a.evictBehind(ctx, p.Version, func(tx *Tx) ([]victim, error) { return tx.evict(victims, p, memory.Scope{}, nil) })
	}
	if err == nil {
		_, err = j.decay(ctx)
	}
	if err == nil {
		a.capsLooked.Store(mark)
	}
	return err
}

// overAgentCaps are what agents have more than the cap, by Seq.
func (st *State) overAgentCaps(ctx context.Context, p *policy.Policy) (over []victim, err error) {
	free, pinned, err := st.takeable(p, memory.Scope{})
	if err != nil {
		return nil, err
	}
	counts, whose := map[uint32]int64{}, st.newCapped(p)
	err = st.EachIn(ctx, roaring.Or(free, pinned), func(_ uint32, r *doctable.Row) {
		if !r.Over(st.Now) {
			counts[whose.of(r)]++
		}
	})
	if err = cmp.Or(err, whose.err); err != nil {
		return nil, err
	}
	over, err = st.overCap(ctx, p, whose, counts, free)
	sortVictims(over)
	return over, err
}

// settledCount is how many living documents an owner has, once a View sees them.
func (a *Ageing) settledCount(ctx context.Context, owner uint32) (int64, error) {
	n := int64(0)
	lsn, err := a.host.Locked(ctx, func() { n = a.host.Tables().Docs.Owners.Living(owner) })
	if err != nil {
		return 0, err
	}
	return n, a.host.Durable(lsn)
}

// keepCap evicts what an owner has more than the cap, and returns how many counted for it, and
// how many of them are gone. doc is a document of the owner.
func (a *Ageing) keepCap(ctx context.Context, p *policy.Policy, owner, doc uint32) (n, gone int64, err error) {
	var victims []victim
	var j *judge
	err = a.view(ctx, func(st *State) error {
		j = st.newJudge(ctx, p)
		victims, n, err = st.overCapOf(ctx, p, owner, doc, j)
		return err
	})
	j.end()
	if err != nil || len(victims) == 0 {
		return n, 0, err
	}
	victims, err = a.evictBehind(ctx, p.Version, func(tx *Tx) ([]victim, error) { return tx.evict(victims, p, memory.Scope{}, nil) })
	if err == nil {
		_, err = j.decay(ctx)
	}
	return n, int64(len(victims)), err
}

// overCapOf are what an owner has more than the cap, by Seq, and how many it has that count.
func (st *State) overCapOf(ctx context.Context, p *policy.Policy, owner, doc uint32, j *judge) (over []victim, n int64, err error) {
	home, ok, err := st.homeOf(owner, doc)
	if err != nil || !ok {
		return nil, 0, err
	}
	free, pinned, err := st.takeable(p, home)
	if err != nil {
		return nil, 0, err
	}
	var candidates []capped
	err = st.EachIn(ctx, roaring.Or(free, pinned), func(doc uint32, r *doctable.Row) {
		if r.Owner != owner || r.Over(st.Now) {
			return
		}
		n++
		if free.Contains(doc) {
			candidates = append(candidates, st.capped(r))
		}
	})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(candidates, func(a, b capped) int { return a.Compare(b.Place) })
	for i := range candidates {
		if int64(len(over)) >= n-p.Cap {
			break
		}
		note, spared := j.spares(candidates[i].row, policy.Cap)
		if spared {
			continue
		}
		v := st.capVictim(candidates[i].row)
		v.why = note
		over = append(over, v)
	}
	sortVictims(over)
	return over, n, nil
}

// homeOf is the user and the agent of an owner, which a document has or had; false where the
// owner has none any more.
func (st *State) homeOf(owner, doc uint32) (home memory.Scope, ok bool, err error) {
	r := st.Docs.Row(doc)
	if !r.Visible(st.LSN) || r.Owner != owner {
		r = nil
		selection.EachRow(st.View.State, func(_ uint32, other *doctable.Row) bool {
			if other.Visible(st.LSN) && other.Owner == owner {
				r = other
			}
			return r == nil
		})
	}
	if r == nil {
		return memory.Scope{}, false, nil
	}
	rec, err := st.Record(r.Version)
	if err != nil {
		return memory.Scope{}, false, err
	}
	return memory.Scope{User: rec.Scope.User, Agent: rec.Scope.Agent}, true, nil
}
