package ageing

import (
	"context"
	"errors"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// ScheduleEvery is how often the clock is compared with the schedule: a cron expression
// names minutes.
const ScheduleEvery = 10 * time.Second

// KeepSchedule does what a schedule has for the time since it was done last: each job at most
// once, however often it was missed. When that was is stored, so that it holds over a
// reopening. A job that fails is tried again the next time that the schedule is looked at. A
// clock that was ahead counts as not having been: a job that came later than now comes again
// from now on.
func (a *Ageing) KeepSchedule(ctx context.Context, s policy.Schedule) error {
	if a.Jumped() {
		return nil // and nothing was missed if it is set right
	}
	s = s.Of(a.host.Tables().Ageing.At(state.MaxLSN))
	consolidate := func() error { _, err := a.Consolidate(ctx, nil); return err }
	evict := func() error { _, err := a.Evict(ctx, nil); return err }
	return errors.Join(
		a.keepJob(ctx, policy.JobConsolidate, s.Consolidate, consolidate),
		a.keepJob(ctx, policy.JobEvict, s.Evict, evict),
	)
}

func (a *Ageing) keepJob(ctx context.Context, j policy.Job, expr string, do func() error) error {
	cron, err := policy.ParseCron(expr)
	if err != nil {
		return err
	}
	var last int64
	var known bool
	err = a.view(ctx, func(st *State) error {
		last, known, err = policy.Came(st.Part, j)
		return err
	})
	if err != nil {
		return err
	}
	now := a.Clock()
	ahead := known && last > now.UnixMilli()
	if known && !ahead && !cron.Due(time.UnixMilli(last), now) {
		return nil
	}
	if known && !ahead { // the first look only begins to count
		if err := do(); err != nil {
			return err
		}
	}
	return a.host.Update(ctx, func(tx *Tx) error { return policy.Note(tx.Writer.Part(), j, now.UnixMilli()) })
}
