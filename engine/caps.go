package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The tables count what each owner has. An owner that comes to have more than the cap and its
// slack is looked at, beside writers, and loses what it has more than the cap: a look at ten
// thousand memories is worth it only where it takes many.

// capSlack is how many memories an owner may have more than the cap before it is looked at.
func capSlack(limit int64) int64 { return max(limit/10, 1) }

// capsEvery is how often agents are looked at, and what could not be evicted before.
const capsEvery = 5 * time.Second

// startCaps begins to evict what owners have more than the cap. Each policy that is set sets the
// watch in the commit that sets it: the next store knows the new cap.
func (db *DB) startCaps() {
	signal := make(chan struct{}, 1)
	watch := func(p *policy.Policy) {
		db.due.capsLooked.Store(0)
		db.tables.Docs.Watch(p.Cap+capSlack(p.Cap), signal)
	}
	db.tables.Ageing.Watch(watch)
	_ = db.lockBehind(context.Background()) // which never ends
	watch(db.tables.Ageing.At(state.MaxLSN))
	db.unlock()
	db.life.Every("keeps the caps", capsEvery, signal, db.keepCaps)
}

// keepCaps looks at each owner that the tables tell of. They do not count by agent: where the cap is
// for all that an agent has, all memories are looked at.
func (db *DB) keepCaps(ctx context.Context) error {
	p := db.tables.Ageing.At(state.MaxLSN)
	owners := &db.tables.Docs.Owners
	most := p.Cap + capSlack(p.Cap)
	if p.CapPer == policy.PerAgent {
		if err := db.keepAgentCaps(ctx, p); err != nil {
			return err
		}
	}
	for {
		owner, doc, ok := owners.Next()
		if !ok {
			return nil
		}
		had, err := db.settledCount(ctx, owner)
		if err != nil {
			return err
		}
		n, gone, err := db.keepCap(ctx, p, owner, doc)
		// What does not count for the cap stays, and so may what does: pinned, or by a verdict.
		upTo := max(most+max(had-n, 0), had-gone+capSlack(p.Cap))
		owners.Spare(owner, doc, upTo)
		if err != nil {
			return err
		}
	}
}

// keepAgentCaps evicts what agents have more than the cap, with all their users, unless nothing was
// stored since the last look.
func (db *DB) keepAgentCaps(ctx context.Context, p *policy.Policy) error {
	mark := db.tables.Docs.Mark.Load()
	if mark == db.due.capsLooked.Load() {
		return nil
	}
	var victims []victim
	var j *judge
	err := db.view(ctx, nil, func(tx *Tx) error {
		j = tx.newJudge(ctx, p)
		over, err := tx.overAgentCaps(ctx, p)
		for _, v := range over {
			if note, spared := j.spares(tx.db.tables.Docs.Row(tx.db.tables.Docs.At(v.Seq, tx.state.LSN)), policy.Cap); !spared {
				v.why = note
				victims = append(victims, v)
			}
		}
		return err
	})
	j.end()
	if err == nil && len(victims) > 0 {
		_, err = db.evictBehind(ctx, p.Version, func(tx *Tx) ([]victim, error) { return tx.evict(victims, p, memory.Scope{}, nil) })
	}
	if err == nil {
		_, err = j.decay(ctx)
	}
	if err == nil {
		db.due.capsLooked.Store(mark)
	}
	return err
}

// overAgentCaps are what agents have more than the cap, by Seq.
func (tx *Tx) overAgentCaps(ctx context.Context, p *policy.Policy) (over []victim, err error) {
	free, pinned, err := tx.takeable(p, memory.Scope{})
	if err != nil {
		return nil, err
	}
	counts, whose := map[uint32]int64{}, tx.newCapped(p)
	err = tx.eachIn(ctx, roaring.Or(free, pinned), func(_ uint32, r *doctable.Row) {
		if !r.Over(tx.state.Now) {
			counts[whose.of(r)]++
		}
	})
	if err = cmp.Or(err, whose.err); err != nil {
		return nil, err
	}
	over, err = tx.overCap(ctx, p, whose, counts, free)
	sortVictims(over)
	return over, err
}

// waitForCaps keeps a store waiting, as long as LockWait, while an owner has twice the slack more
// than the cap, and is to be looked at.
func (db *DB) waitForCaps(ctx context.Context, memories []*records.Prepared) error {
	owners := &db.tables.Docs.Owners
	if owners.Most() == 0 {
		return nil
	}
	release, err := db.enter("write") // a Close lets what evicts go on so long
	if err != nil {
		return err
	}
	defer release()
	limit := db.tables.Ageing.At(state.MaxLSN).Cap
	var wait context.Context
	for i, p := range memories {
		if i > 0 && p.Rec.Scope.Owner() == memories[i-1].Rec.Scope.Owner() {
			continue
		}
		owner, known := db.tables.Names.Cached(layout.Name{Class: layout.NameOwner, Text: scope.Key(p.Rec.Scope.Owner())})
		for known {
			spared := owners.Crowded(owner, limit+2*capSlack(limit))
			if spared == nil {
				break
			}
			if wait == nil {
				var cancel context.CancelFunc
				wait, cancel = db.lockLimit(ctx)
				defer cancel()
			}
			select {
			case <-spared:
			case <-wait.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// settledCount is how many living documents an owner has, once a View sees them.
func (db *DB) settledCount(ctx context.Context, owner uint32) (int64, error) {
	if err := db.lockBehind(ctx); err != nil {
		return 0, err
	}
	n, lsn := db.tables.Docs.Owners.Living(owner), db.writer.applied
	db.unlock()
	return n, db.syncer.Wait(lsn)
}

// keepCap evicts what an owner has more than the cap, and returns how many counted for it, and
// how many of them are gone. doc is a document of the owner.
func (db *DB) keepCap(ctx context.Context, p *policy.Policy, owner, doc uint32) (n, gone int64, err error) {
	var victims []victim
	var j *judge
	err = db.view(ctx, nil, func(tx *Tx) error {
		j = tx.newJudge(ctx, p)
		victims, n, err = tx.overCapOf(ctx, p, owner, doc, j)
		return err
	})
	j.end()
	if err != nil || len(victims) == 0 {
		return n, 0, err
	}
	victims, err = db.evictBehind(ctx, p.Version, func(tx *Tx) ([]victim, error) { return tx.evict(victims, p, memory.Scope{}, nil) })
	if err == nil {
		_, err = j.decay(ctx)
	}
	return n, int64(len(victims)), err
}

// overCapOf are what an owner has more than the cap, by Seq, and how many it has that count.
func (tx *Tx) overCapOf(ctx context.Context, p *policy.Policy, owner, doc uint32, j *judge) (over []victim, n int64, err error) {
	home, ok, err := tx.homeOf(owner, doc)
	if err != nil || !ok {
		return nil, 0, err
	}
	free, pinned, err := tx.takeable(p, home)
	if err != nil {
		return nil, 0, err
	}
	var candidates []capped
	err = tx.eachIn(ctx, roaring.Or(free, pinned), func(doc uint32, r *doctable.Row) {
		if r.Owner != owner || r.Over(tx.state.Now) {
			return
		}
		n++
		if free.Contains(doc) {
			candidates = append(candidates, tx.capped(r))
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
		v := tx.capVictim(candidates[i].row)
		v.why = note
		over = append(over, v)
	}
	sortVictims(over)
	return over, n, nil
}

// homeOf is the user and the agent of an owner, which a document has or had; false where the
// owner has none any more.
func (tx *Tx) homeOf(owner, doc uint32) (home memory.Scope, ok bool, err error) {
	r := tx.db.tables.Docs.Row(doc)
	if !r.Visible(tx.state.LSN) || r.Owner != owner {
		r = nil
		selection.EachRow(&tx.state, func(_ uint32, other *doctable.Row) bool {
			if other.Visible(tx.state.LSN) && other.Owner == owner {
				r = other
			}
			return r == nil
		})
	}
	if r == nil {
		return memory.Scope{}, false, nil
	}
	rec, err := tx.state.Record(r.Version)
	if err != nil {
		return memory.Scope{}, false, err
	}
	return memory.Scope{User: rec.Scope.User, Agent: rec.Scope.Agent}, true, nil
}
