package engine

import (
	"context"
	"errors"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// Policies are the rules by which the memories of the database age: each call is its own
// transaction.
func (db *DB) Policies() policy.Policies { return db.tables.Ageing.New(runner{db: db}) }

// Policies are the policies as this transaction sees them.
func (tx *Tx) Policies() policy.Policies { return tx.db.tables.Ageing.New(runner{db: tx.db, tx: tx}) }

// decayedImportance is an importance with what is left of it since the last access, or the
// creation of a memory that was never accessed, by the policy of the state that is read.
func (tx *Tx) decayedImportance(importance float64, created int64, a layout.Access) float64 {
	return policy.DecayedImportance(importance, tx.db.tables.Ageing.At(tx.state.LSN).DailyRetention, tx.state.Since(max(a.Last, created)))
}

// scheduleEvery is how often the clock is compared with the schedule: a cron expression
// names minutes.
const scheduleEvery = 10 * time.Second

// keepSchedule does what a schedule has for the time since it was done last: each job at most
// once, however often it was missed. When that was is stored, so that it holds over a
// reopening. A job that fails is tried again the next time that the schedule is looked at. A
// clock that was ahead counts as not having been: a job that came later than now comes again
// from now on.
func (db *DB) keepSchedule(ctx context.Context, s policy.Schedule) error {
	if db.steady.jumped() {
		return nil // and nothing was missed if it is set right
	}
	s = s.Of(db.tables.Ageing.At(state.MaxLSN))
	consolidate := func() error { _, err := db.Consolidate(ctx, nil); return err }
	evict := func() error { _, err := db.Evict(ctx, nil); return err }
	return errors.Join(
		db.keepJob(ctx, policy.JobConsolidate, s.Consolidate, consolidate),
		db.keepJob(ctx, policy.JobEvict, s.Evict, evict),
	)
}

func (db *DB) keepJob(ctx context.Context, j policy.Job, expr string, do func() error) error {
	cron, err := policy.ParseCron(expr)
	if err != nil {
		return err
	}
	var last int64
	var known bool
	err = db.view(ctx, nil, func(tx *Tx) error {
		last, known, err = policy.Came((*partTx)(tx), j)
		return err
	})
	if err != nil {
		return err
	}
	now := db.clock()
	ahead := known && last > now.UnixMilli()
	if known && !ahead && !cron.Due(time.UnixMilli(last), now) {
		return nil
	}
	if known && !ahead { // the first look only begins to count
		if err := do(); err != nil {
			return err
		}
	}
	return db.Update(ctx, func(tx *Tx) error { return policy.Note((*partTx)(tx), j, now.UnixMilli()) })
}
