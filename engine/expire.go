package engine

import (
	"context"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
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

// rewrites are the signals of flushes and compactions to the work behind the calls. While the
// store rewrites data is the time to look for what is to go. dead is for compactions of much that
// has died.
type rewrites struct{ expire, sweep, dead chan struct{} }

func newRewrites() rewrites {
	return rewrites{expire: make(chan struct{}, 1), sweep: make(chan struct{}, 1), dead: make(chan struct{}, 1)}
}

// tell is called by the store.
func (r *rewrites) tell() {
	for _, to := range []chan struct{}{r.expire, r.sweep} {
		select {
		case to <- struct{}{}:
		default:
		}
	}
}

// startExpiring begins to delete what expires, and what has while nobody had the
// database open.
func (db *DB) startExpiring() {
	db.due.rewrites.tell()
	db.life.Every("deletes what has expired", expireEvery, db.due.rewrites.expire, db.expire)
}

// expire deletes the memories that have expired: one commit for each page of rows names
// those that die, and reads none of them. The clean-up frees them.
func (db *DB) expire(ctx context.Context) error {
	if db.steady.jumped() {
		return nil // what has expired is hidden
	}
	var due []uint64
	for page := uint64(0); ; {
		due, page = db.tables.Docs.Expired(due[:0], page, db.now())
		if page == 0 {
			return nil
		}
		slices.Sort(due)
		if len(due) > 0 {
			if _, err := db.evictBehind(ctx, 0, func(tx *Tx) ([]victim, error) { return tx.expire(due) }); err != nil {
				return err
			}
		}
		if err := db.lockBehind(ctx); err != nil {
			return err
		}
		db.tables.Docs.Narrow(page - 1)
		db.unlock()
	}
}

// expire deletes those of some memories that have expired, whatever has become of them
// since they were found.
func (tx *Tx) expire(seqs []uint64) ([]victim, error) {
	var over []victim
	for _, seq := range seqs {
		if l, alive := tx.reader().At(seq); alive && l.Expired(tx.state.Now) {
			r := tx.db.tables.Docs.Row(l.Doc)
			f, a := tx.facts(r)
			over = append(over, newVictim(r, policy.Expired, &f, a))
		}
	}
	if len(over) == 0 {
		return nil, nil
	}
	return tx.evict(over, &policy.Policy{}, memory.Scope{}, nil)
}

// evictBehind commits an eviction behind the calls, and tells the observer of it.
func (db *DB) evictBehind(ctx context.Context, version uint32, evict func(tx *Tx) ([]victim, error)) (victims []victim, err error) {
	if err := db.moving.LockContext(ctx); err != nil {
		return nil, err
	}
	defer db.moving.Unlock()
	var lsn uint64
	var at int64
	err = db.acknowledge(db.updateBehind(ctx, func(tx *Tx) error {
		lsn, at = tx.state.LSN, tx.state.Now
		victims, err = evict(tx)
		return err
	}))
	if err == nil {
		db.observe(lsn, at, version, victims)
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

// startSweeping begins to evict what the policy rules out, a bounded part for each flush and
// compaction of the store.
func (db *DB) startSweeping() {
	next := uint64(0)
	db.life.Every("evicts as the store compacts", sweepEvery, db.due.rewrites.sweep, func(ctx context.Context) (err error) {
		if next, err = db.sweep(ctx, next); err != nil {
			return err
		}
		sleep(ctx, sweepPause)
		return nil
	})
}

// sweep evicts what the policy rules out by age and confidence in the next pages that may have
// such, from one on, and returns where to go on. It asks for a verdict about what a rule takes
// alone.
func (db *DB) sweep(ctx context.Context, from uint64) (next uint64, err error) {
	if err := db.turn.LockContext(ctx); err != nil {
		return from, err
	}
	defer db.turn.Unlock()
	if db.steady.jumped() {
		return from, nil
	}
	p := db.tables.Ageing.At(state.MaxLSN)
	pages, next := db.agedPages(p, from)
	if len(pages) == 0 {
		return next, nil
	}
	var victims []victim
	var j *judge
	err = db.view(ctx, nil, func(tx *Tx) error {
		j = tx.newJudge(ctx, p)
		victims, err = tx.unkeptIn(ctx, p, pages, j)
		return err
	})
	j.end()
	if err == nil && len(victims) > 0 {
		_, err = db.evictBehind(ctx, p.Version, func(tx *Tx) ([]victim, error) { return tx.evict(victims, p, memory.Scope{}, nil) })
	}
	if err == nil {
		_, err = j.decay(ctx)
	}
	if err != nil {
		return from, err
	}
	if err := db.lockBehind(ctx); err != nil {
		return from, err
	}
	defer db.unlock()
	for _, page := range pages {
		db.tables.Docs.Narrow(page)
	}
	return next, nil
}

// agedPages are the next pages of rows, from one on, in which a policy may evict something, and
// where those after them begin: 0 after the last one.
func (db *DB) agedPages(p *policy.Policy, from uint64) (pages []uint64, next uint64) {
	now, floor := db.now(), db.tables.Ageing.Runs().Floor()
	for next = from; len(pages) < sweepPages; next++ {
		page, ok := db.tables.Docs.Look(next, func(b doctable.Bounds) bool {
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
func (tx *Tx) unkeptIn(ctx context.Context, p *policy.Policy, pages []uint64, j *judge) (victims []victim, err error) {
	free, _, err := tx.takeable(p, memory.Scope{})
	if err != nil {
		return nil, err
	}
	in := roaring.New()
	for _, page := range pages {
		in.AddRange(page*doctable.PageSize, (page+1)*doctable.PageSize)
	}
	free.And(in)
	err = tx.eachIn(ctx, free, func(_ uint32, r *doctable.Row) {
		f, a := tx.facts(r)
		rule := tx.evicts(p, r, &f)
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
