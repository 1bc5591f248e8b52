package ageing

import (
	"context"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const doingConsolidate = "consolidate"

// ConsolidateOptions say how Consolidate departs from the policy. nil is the policy.
type ConsolidateOptions struct {
	// Scope is a user, an agent, or both, whose memories are consolidated. Empty: everyone's.
	Scope memory.Scope
	// Rate is what a memory that was not accessed for the policy's idle time loses of its
	// confidence, 0 to 1.
	Rate *float64
	// PruneBelow and Merge take the place of the policy's.
	PruneBelow *float64
	Merge      *bool
	// DryRun changes nothing and reports what would change.
	DryRun bool
	// Visit is called for each merge of the first round, VisitPruned for what is pruned, before a
	// commit. An error of them ends the consolidation and is returned.
	Visit       func(Merge) error
	VisitPruned func(Pruned) error
}

// Pruned is a memory that a consolidation prunes.
type Pruned struct {
	// ID and Text are the memory's, Reason is why it goes.
	ID     string        `json:"id"`
	Text   string        `json:"text"`
	Reason policy.Reason `json:"reason"`
}

// Consolidated is the report of a consolidation.
type Consolidated struct {
	// Decayed is how many memories have a lower confidence than before.
	Decayed int `json:"memories_decayed"`
	// Merged is how many memories said the same as another and are gone, Deleted how many were
	// pruned. Merges are the LSNs of the commits that merged.
	Merged  int      `json:"memories_merged"`
	Deleted int      `json:"deleted"`
	Merges  []uint64 `json:"merges"`
	// Processed is how many memories were looked at.
	Processed int `json:"processed"`
	// Millis is how long it took.
	Millis int64 `json:"duration_ms"`
	// Policy is the version of the policy, LSN that of the newest commit that this made or saw:
	// [DB.Undo] of it brings back all that is gone.
	Policy uint32 `json:"policy"`
	LSN    uint64 `json:"lsn"`
	// Skipped says why nothing was done: the clock has jumped ahead. It is empty else.
	Skipped string `json:"skipped,omitempty"`
}

// Consolidate lowers confidences, prunes and merges as the policy says: see engine.DB.Consolidate.
func (a *Ageing) Consolidate(ctx context.Context, o *ConsolidateOptions) (report Consolidated, err error) {
	if o == nil {
		o = &ConsolidateOptions{}
	}
	if err := checkOwners(doingConsolidate, o.Scope); err != nil {
		return report, err
	}
	ctx, release, err := a.turn(ctx, doingConsolidate)
	if err != nil {
		return report, err
	}
	defer release()
	if a.Jumped() {
		report.Skipped, report.Policy, report.LSN = jumped, a.host.Tables().Ageing.At(state.MaxLSN).Version, a.host.LSN()
		return report, nil
	}
	began := a.Clock()
	var run policy.Run
	var p policy.Policy
	begin := func(st *State) error {
		if p, err = o.policy(st); err != nil {
			return err
		}
		if last, known := st.Ageing.Runs().Last(); known && last.At > st.Now {
			a.Logger.Warn("the clock was ahead when the memories were consolidated last, or is behind now: what that consolidation takes of confidences counts from its time on",
				"last", clock.FromMillis(last.At), "now", clock.FromMillis(st.Now))
		}
		report.Policy, report.LSN = p.Version, st.LSN
		run = policy.Run{LSN: st.LSN + 1, At: st.Now, Rate: p.Rate, Idle: p.Idle.Millis(), Floor: p.Floor, Policy: p.Version, Scope: o.Scope}
		return nil
	}
	if o.DryRun {
		err = a.view(ctx, begin)
	} else {
		err = a.host.Update(ctx, func(tx *Tx) error {
			if err := begin(tx.State); err != nil || p.Rate == 0 { // a run that takes nothing leaves no record
				return err
			}
			run, err = tx.decay(run)
			return err
		})
	}
	if err != nil {
		return report, err
	}
	err = a.view(ctx, func(st *State) error {
		report.LSN = min(report.LSN, st.LSN)
		return st.countDecay(ctx, &run, &report)
	})
	t := taking{of: a, o: o, policy: &p, report: &report}
	if err == nil && p.PruneBelow > 0 {
		err = t.prune(ctx)
	}
	if err == nil && p.Merge {
		err = t.merge(ctx)
	}
	report.Millis = a.Clock().Sub(began).Milliseconds()
	return report, err
}

// policy is the stored policy with the options in the place of its values.
func (o *ConsolidateOptions) policy(st *State) (policy.Policy, error) {
	p, err := policy.Stored(st.Part)
	if err != nil {
		return p, err
	}
	if o.Rate != nil {
		p.Rate = *o.Rate
	}
	if o.PruneBelow != nil {
		p.PruneBelow = *o.PruneBelow
	}
	if o.Merge != nil {
		p.Merge = *o.Merge
	}
	return p, p.Check()
}

// decay commits the touches that are gathered, and then a run.
func (tx *Tx) decay(run policy.Run) (policy.Run, error) {
	if err := tx.FlushTouches(); err != nil {
		return run, err
	}
	if run.Scope != (memory.Scope{}) {
		run.Owners = []uint32{}
		docs, _, err := selection.Born(tx.View.State, run.Scope)
		if err != nil {
			return run, err
		}
		for it := docs.Iterator(); it.HasNext(); {
			run.Owners = append(run.Owners, tx.Docs.Row(it.Next()).Owner)
		}
		slices.Sort(run.Owners)
		run.Owners = slices.Compact(run.Owners)
	}
	return tx.Ageing.Record(tx.Writer.Part(), doingConsolidate, run)
}

// countDecay counts what a run, committed or not, looks at and takes something of.
func (st *State) countDecay(ctx context.Context, run *policy.Run, report *Consolidated) error {
	runs := st.Ageing.Runs()
	return st.eachAged(ctx, run.Scope, func(_ uint32, r *doctable.Row) {
		report.Processed++
		m := st.Aged(r.Version, r.Created, r.Confidence)
		if run.Takes(&m, runs.Owed(&m, run.LSN-1, run.At)) {
			report.Decayed++
		}
	})
}

// eachAged visits the visible memories of a scope, everyone's for the empty one, in the order
// of their documents.
func (st *State) eachAged(ctx context.Context, s memory.Scope, visit func(doc uint32, r *doctable.Row)) error {
	set, err := selection.ScopeSet(st.View.State, s)
	if err != nil {
		return err
	}
	n := 0
	look := func(doc uint32, r *doctable.Row) bool {
		if n++; n%state.CancelEvery == 0 && ctx.Err() != nil {
			return false
		}
		if r.Visible(st.LSN) && !r.Over(st.Now) {
			visit(doc, r)
		}
		return true
	}
	if set == nil {
		selection.EachRow(st.View.State, look)
		return ctx.Err()
	}
	for it := set.Iterator(); it.HasNext(); {
		if doc := it.Next(); !look(doc, st.Docs.Row(doc)) {
			break
		}
	}
	return ctx.Err()
}

// taking is what a consolidation takes away, in as many commits as that needs.
type taking struct {
	of     *Ageing
	o      *ConsolidateOptions
	policy *policy.Policy
	report *Consolidated
	last   uint64 // the LSN of the last of these commits: its trash leads to those before
}

// prune removes the memories whose importance has decayed too far.
func (t *taking) prune(ctx context.Context) error {
	p := t.policy
	var victims []victim
	var j *judge
	err := t.of.view(ctx, func(st *State) error {
		free, _, err := st.takeable(p, t.o.Scope)
		if err != nil {
			return err
		}
		j = st.newJudge(ctx, p)
		return st.EachIn(ctx, free, func(_ uint32, r *doctable.Row) {
			f, a := st.Facts(r)
			if !p.Prunes(&f) {
				return
			}
			if note, spared := j.spares(r, policy.Pruned); !spared {
				v := newVictim(r, policy.Pruned, &f, a)
				v.why = note
				victims = append(victims, v)
			}
		})
	})
	j.end()
	if err != nil {
		return err
	}
	sortVictims(victims)
	if err := t.visitPruned(ctx, victims); err != nil {
		return err
	}
	if !t.o.DryRun && len(victims) > 0 {
		if victims, t.last, err = t.of.evictChosen(ctx, victims, p, t.o.Scope); err != nil {
			return err
		}
		t.report.LSN = t.last
	}
	t.report.Deleted = len(victims)
	return nil
}

// visitPruned shows what is pruned.
func (t *taking) visitPruned(ctx context.Context, victims []victim) error {
	if t.o.VisitPruned == nil || len(victims) == 0 {
		return nil
	}
	return t.of.view(ctx, func(st *State) error {
		for i := range victims {
			rec, err := st.LastRecord(victims[i].Owner, victims[i].Seq)
			if err == nil && rec != nil {
				err = t.o.VisitPruned(Pruned{rec.ID, rec.Text, policy.Pruned})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// merge merges what says the same, or is nearly the same, in rounds while there are more of one
// than it was compared with.
func (t *taking) merge(ctx context.Context) error {
	everyone := t.o.Scope == (memory.Scope{})
	after, upTo := uint64(0), uint64(0)
	for round := range mergeRounds {
		var plan []merge
		var crowded bool
		err := t.of.view(ctx, func(st *State) (err error) {
			if round == 0 && everyone {
				if after, err = st.mergedUpTo(t.policy); err != nil {
					return err
				}
			}
			if round == 0 {
				upTo = st.LSN
			}
			plan, crowded, err = st.mergePlan(ctx, t.policy, t.o.Scope, after)
			return err
		})
		for i := range plan {
			if err == nil && round == 0 && t.o.Visit != nil {
				err = t.o.Visit(plan[i].Merge)
			}
		}
		if err != nil {
			return err
		}
		if t.o.DryRun {
			t.report.Merged = len(plan)
			return nil
		}
		if err := t.commit(ctx, plan); err != nil {
			return err
		}
		if len(plan) == 0 || !crowded {
			break
		}
	}
	if !everyone || upTo <= after {
		return nil
	}
	return t.of.host.Update(ctx, func(tx *Tx) error { return policy.Note(tx.Writer.Part(), policy.JobMerge, int64(upTo)) })
}

// mergedUpTo is the LSN up to which all memories were compared, by the same policy.
func (st *State) mergedUpTo(p *policy.Policy) (lsn uint64, err error) {
	at, known, err := policy.Came(st.Part, policy.JobMerge)
	if err != nil || !known || uint64(at) < p.LSN {
		return 0, err
	}
	return uint64(at), nil
}

// commit merges by a plan, a part of it in each commit.
func (t *taking) commit(ctx context.Context, plan []merge) error {
	now := map[uint64]layout.Version{} // the survivors that a part before has changed
	for part := range slices.Chunk(plan, mergeBatch) {
		for i := range part {
			if v, changed := now[part[i].into.Seq]; changed {
				part[i].into.Version = v
			}
		}
		var gone []victim
		var heirs []policy.Heir
		var lsn uint64
		var at int64
		err := t.of.host.Update(ctx, func(tx *Tx) (err error) {
			lsn, at = tx.LSN, tx.Now
			gone, heirs, err = tx.mergeAway(ctx, part, t.policy, t.o.Scope, t.last)
			return err
		})
		if err != nil {
			return err
		}
		for i := range heirs {
			now[heirs[i].Seq] = heirs[i].Version
		}
		if len(gone) > 0 {
			t.last = lsn
			t.report.Merged, t.report.LSN, t.report.Merges = t.report.Merged+len(gone), lsn, append(t.report.Merges, lsn)
			t.of.observe(lsn, at, t.policy.Version, gone)
		}
	}
	return nil
}
