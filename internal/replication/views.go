package replication

import (
	"context"
	"errors"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/wal"
)

const (
	// loadShare is how many times as long as a load the replica waits after it, so that loading takes a
	// fifth of a processor at most; leastPause is the least.
	loadShare  = 4
	leastPause = 5 * time.Millisecond
)

// view is a database that reads one state of the replica. Replica.mu guards refs and old.
type view struct {
	db   View
	at   wal.Position
	refs int  // that read
	old  bool // the last of them closes it
}

// keepLoading makes what was applied readable, until ctx ends.
func (r *Replica) keepLoading(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.fresh:
		}
		began := clock.System()
		again, err := false, r.load()
		if err == nil {
			again, err = r.purge(ctx)
		}
		if err != nil {
			r.fail(err)
			return
		}
		if again {
			r.tell()
		}
		if retry.Sleep(ctx, max(leastPause, loadShare*clock.System().Sub(began))) != nil {
			return
		}
	}
}

// fail ends the following for a reason, the first of which counts.
func (r *Replica) fail(err error) {
	r.change(func(s *replicaState) {
		if s.err == nil && !s.closed {
			s.err = err
		}
		s.ended, s.broken, s.stats.Following = true, true, false
	})
	r.stop()
}

// load makes the newest state the one that reads see, unless they do already.
func (r *Replica) load() error {
	r.loading.Lock()
	defer r.loading.Unlock()
	r.mu.Lock()
	shown, number, drained := r.mu.shown, r.mu.stats.Number, r.mu.drained
	r.mu.Unlock()
	if r.main == nil || drained || shown != nil && shown.at.Number == number {
		return nil
	}
	began := clock.System()
	if shown != nil {
		shown.db.EndLinking()
	}
	st, at := r.main.newest()
	db, err := r.open(st)
	if err != nil {
		return fault.Within("read the replica "+r.dir, err)
	}
	took := clock.System().Sub(began)
	r.main.store.Reached(db.LSN())
	r.change(func(s *replicaState) {
		s.shown = &view{db: db, at: at}
		s.views++
		s.stats.LSN, s.stats.Loads, s.stats.LoadMS = db.LSN(), s.stats.Loads+1, took.Milliseconds()
		s.stats.Number, s.stats.Timeline = max(s.stats.Number, at.Number), at.Timeline.String()
		s.stats.AppliedLSN = max(s.stats.AppliedLSN, db.LSN())
		for len(s.behind) > 0 && s.behind[0].number <= at.Number {
			s.behind = s.behind[1:]
		}
	})
	if shown != nil {
		return r.retire(shown)
	}
	return nil
}

// open opens a database on a frozen store, which it closes.
func (r *Replica) open(st *store.Store) (View, error) {
	id, err := identityIn(st, r.dir)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	id.Created = true
	return r.host.Show(r.dir, st, id, r.Stats)
}

// acquire pins the newest state that reads see, and waits for the first.
func (r *Replica) acquire(ctx context.Context) (v *view, err error) {
	closed := false
	err = r.reach(ctx, func(s *replicaState) bool {
		closed = s.closed
		if closed || s.drained || s.shown == nil {
			return closed || s.over()
		}
		v = s.shown
		v.refs++
		return true
	})
	switch {
	case v != nil || err != nil:
		return v, err
	case closed:
		return nil, closedReplica()
	}
	if err := r.Err(); err != nil { // nothing came, or what came could not take the place of what was there
		return nil, err
	}
	return nil, &fault.Error{Kind: fault.ErrNotFound, What: "read a replica", Why: "nothing has come", Do: "archive the database first"}
}

// release ends a use. Whoever uses an old state last closes it.
func (r *Replica) release(v *view) {
	last := false
	r.change(func(s *replicaState) {
		v.refs--
		if last = v.old && v.refs == 0; last {
			s.kept--
		}
	})
	if last {
		if err := r.closeView(v); err != nil {
			r.Logger.Warn("an old state of the replica was not closed well", "error", err)
		}
		r.tell() // what was erased may wait for that
	}
}

// retire closes a state that is shown no more, now or when its last use ends.
func (r *Replica) retire(v *view) error {
	unused := false
	r.change(func(s *replicaState) {
		v.old, unused = true, v.refs == 0
		if !unused {
			s.kept++
		}
	})
	if unused {
		return r.closeView(v)
	}
	return nil
}

func (r *Replica) closeView(v *view) (err error) {
	if caught := panics.Catch("closes a state of a replica", func() { err = v.db.Close() }); caught != nil {
		err = caught
	}
	r.change(func(s *replicaState) { s.views-- })
	return err
}

// drain keeps reads from beginning, and returns when none runs.
func (r *Replica) drain(ctx context.Context) error {
	r.change(func(s *replicaState) { s.drained = true })
	return r.reach(ctx, func(s *replicaState) bool {
		return s.views == 0 || s.views == 1 && s.shown != nil && s.shown.refs == 0
	})
}

// closeViews closes the state that is shown. No read runs.
func (r *Replica) closeViews() error {
	var v *view
	r.change(func(s *replicaState) { v, s.shown = s.shown, nil })
	if v == nil {
		return nil
	}
	v.db.EndLinking()
	return r.closeView(v)
}
