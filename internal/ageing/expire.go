package ageing

import (
	"context"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/lifecycle"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// A memory that has expired is hidden from every reader whose clock says so, and still
// there: its record, vectors, keys and rows. So it is deleted, as eviction deletes, by
// commits of their own now and then. Views from before them see their state to its end.

// expireEvery is how often what has expired is looked for: a minute after it expired, a
// memory is gone.
const expireEvery = 30 * time.Second

// StartExpiring begins to delete what expires, and what has while nobody had the
// database open.
func (a *Ageing) StartExpiring(life *lifecycle.Life) {
	a.Rewritten()
	life.Every("deletes what has expired", expireEvery, a.expiring, a.Expire)
}

// Expire deletes the memories that have expired: one commit for each page of rows names
// those that die, and reads none of them. The clean-up frees them.
func (a *Ageing) Expire(ctx context.Context) error {
	if a.Jumped() {
		return nil // what has expired is hidden
	}
	docs := &a.host.Tables().Docs
	var due []uint64
	for page := uint64(0); ; {
		due, page = docs.Expired(due[:0], page, a.Clock().UnixMilli())
		if page == 0 {
			return nil
		}
		slices.Sort(due)
		if len(due) > 0 {
			if _, err := a.evictBehind(ctx, 0, func(tx *Tx) ([]victim, error) { return tx.expire(due) }); err != nil {
				return err
			}
		}
		if _, err := a.host.Locked(ctx, func() { docs.Narrow(page - 1) }); err != nil {
			return err
		}
	}
}

// expire deletes those of some memories that have expired, whatever has become of them
// since they were found.
func (tx *Tx) expire(seqs []uint64) ([]victim, error) {
	var over []victim
	for _, seq := range seqs {
		if l, alive := tx.At(seq); alive && l.Expired(tx.Now) {
			r := tx.Docs.Row(l.Doc)
			f, a := tx.Facts(r)
			over = append(over, newVictim(r, policy.Expired, &f, a))
		}
	}
	if len(over) == 0 {
		return nil, nil
	}
	return tx.evict(over, &policy.Policy{}, memory.Scope{}, nil)
}

// evictBehind commits an eviction behind the calls, and tells the observer of it.
func (a *Ageing) evictBehind(ctx context.Context, version uint32, evict func(tx *Tx) ([]victim, error)) (victims []victim, err error) {
	var lsn uint64
	var at int64
	err = a.host.Behind(ctx, func(tx *Tx) error {
		lsn, at = tx.LSN, tx.Now
		victims, err = evict(tx)
		return err
	})
	if err == nil {
		a.observe(lsn, at, version, victims)
	}
	return victims, err
}

const (
	// sweepPages bounds how many pages of rows are looked through for one flush or compaction.
	sweepPages = 64
	// sweepEvery is how often that is done where the store rewrites nothing.
	sweepEvery = time.Minute
	// sweepPause is how long no page is looked through after that.
	sweepPause = time.Second
)

// StartSweeping begins to evict what the policy rules out, a bounded part for each flush and
// compaction of the store.
func (a *Ageing) StartSweeping(life *lifecycle.Life) {
	next := uint64(0)
	life.Every("evicts as the store compacts", sweepEvery, a.sweeping, func(ctx context.Context) (err error) {
		if next, err = a.Sweep(ctx, next); err != nil {
			return err
		}
		_ = retry.Sleep(ctx, sweepPause)
		return nil
	})
}

// Sweep evicts what the policy rules out by age and confidence in the next pages that may have
// such, from one on, and returns where to go on. It asks for a verdict about what a rule takes
// alone.
func (a *Ageing) Sweep(ctx context.Context, from uint64) (next uint64, err error) {
	release, err := a.host.Turn(ctx)
	if err != nil {
		return from, err
	}
	defer release()
	if a.Jumped() {
		return from, nil
	}
	p := a.host.Tables().Ageing.At(state.MaxLSN)
	pages, next := a.AgedPages(p, from)
	if len(pages) == 0 {
		return next, nil
	}
	var victims []victim
	var j *judge
	err = a.view(ctx, func(st *State) error {
		j = st.newJudge(ctx, p)
		victims, err = st.unkeptIn(ctx, p, pages, j)
		return err
	})
	j.end()
	if err == nil && len(victims) > 0 {
		_, err = a.evictBehind(ctx, p.Version, func(tx *Tx) ([]victim, error) { return tx.evict(victims, p, memory.Scope{}, nil) })
	}
	if err == nil {
		_, err = j.decay(ctx)
	}
	if err != nil {
		return from, err
	}
	_, err = a.host.Locked(ctx, func() {
		for _, page := range pages {
			a.host.Tables().Docs.Narrow(page)
		}
	})
	if err != nil {
		return from, err
	}
	return next, nil
}

// AgedPages are the next pages of rows, from one on, in which a policy may evict something, and
// where those after them begin: 0 after the last one.
func (a *Ageing) AgedPages(p *policy.Policy, from uint64) (pages []uint64, next uint64) {
	now, floor := a.Clock().UnixMilli(), a.host.Tables().Ageing.Runs().Floor()
	for next = from; len(pages) < sweepPages; next++ {
		page, ok := a.host.Tables().Docs.Look(next, func(b doctable.Bounds) bool {
			return p.MayEvict(state.Elapsed(now, b.Created), b.Importance, min(b.Confidence, floor))
		})
		if !ok {
			return pages, 0
		}
		pages, next = append(pages, page), page
	}
	return pages, next
}

// unkeptIn are the memories in pages of rows that a policy does not keep, but for its cap, by Seq.
func (st *State) unkeptIn(ctx context.Context, p *policy.Policy, pages []uint64, j *judge) (victims []victim, err error) {
	free, _, err := st.takeable(p, memory.Scope{})
	if err != nil {
		return nil, err
	}
	in := roaring.New()
	for _, page := range pages {
		in.AddRange(page*doctable.PageSize, (page+1)*doctable.PageSize)
	}
	free.And(in)
	err = st.EachIn(ctx, free, func(_ uint32, r *doctable.Row) {
		f, a := st.Facts(r)
		rule := st.evicts(p, r, &f)
		if rule == "" {
			return
		}
		if why, note, _ := j.of(r, rule); why != "" {
			v := newVictim(r, why, &f, a)
			v.why = note
			victims = append(victims, v)
		}
	})
	sortVictims(victims)
	return victims, err
}
