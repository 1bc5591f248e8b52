package engine

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

// Consolidate takes the policy's rate of the confidence of every memory that was not
// accessed, nor created, for the policy's idle time, down to its floor and never below:
// confidence × (1 − rate). It writes one record, whatever the number of memories. Then,
// where the policy says so, it
//
//   - prunes the memories whose decayed importance is below PruneBelow, in one commit,
//   - merges memories of the same user, agent, run, role, source, kind, name, metadata, event
//     time and expiry whose texts say the same (see [policy.Saying]). Those that were written
//     before go into the newest, which gets the better importance, confidence and pin, all
//     accesses, the links to entities, and what sessions refer to. What was looked at before, by
//     the same policy, is looked at again only beside something new.
//
// The preset substrate merges what is nearly the same instead: vectors with a cosine above
// MergeCosine, or, where neither has a vector, texts with an edit distance below MergeEdit of the
// longer one, and nothing that is pinned. Each is compared with its nearest 16 by the index of
// vectors or of words.
//
// All take the policy's kinds only, and prune nothing that is pinned. [DB.Undo] brings back what
// is gone, by the LSN of the report. A consolidation is judged by true time: one by a clock that
// was ahead takes nothing of a confidence once the clock is set right. One while the clock seems
// to have jumped ahead does nothing, and says so in Skipped.
//
// ErrInvalid for options that the policy would refuse, and for a scope with a run.
func (db *DB) Consolidate(ctx context.Context, o *ConsolidateOptions) (report Consolidated, err error) {
	if o == nil {
		o = &ConsolidateOptions{}
	}
	if err := checkOwners(doingConsolidate, o.Scope); err != nil {
		return report, err
	}
	ctx, err = db.apart(ctx, doingConsolidate)
	if err != nil {
		return report, err
	}
	if err := db.turn.LockContext(ctx); err != nil {
		return report, err
	}
	defer db.turn.Unlock()
	if db.steady.jumped() {
		report.Skipped, report.Policy, report.LSN = clockJumped, db.tables.Ageing.At(state.MaxLSN).Version, db.LSN()
		return report, nil
	}
	began := db.clock()
	var run policy.Run
	var p policy.Policy
	commit := db.Update
	if o.DryRun {
		commit = db.View
	}
	err = commit(ctx, func(tx *Tx) error {
		if p, err = o.policy(tx); err != nil {
			return err
		}
		if last, known := db.tables.Ageing.Runs().Last(); known && last.At > tx.state.Now {
			db.logger.Warn("the clock was ahead when the memories were consolidated last, or is behind now: what that consolidation takes of confidences counts from its time on",
				"last", clock.FromMillis(last.At), "now", clock.FromMillis(tx.state.Now))
		}
		report.Policy, report.LSN = p.Version, tx.state.LSN
		run = policy.Run{LSN: tx.state.LSN + 1, At: tx.state.Now, Rate: p.Rate, Idle: p.Idle.Millis(), Floor: p.Floor, Policy: p.Version, Scope: o.Scope}
		if o.DryRun || p.Rate == 0 { // a run that takes nothing leaves no record
			return nil
		}
		run, err = tx.decay(run)
		return err
	})
	if err != nil {
		return report, err
	}
	err = db.view(ctx, nil, func(tx *Tx) error {
		report.LSN = min(report.LSN, tx.state.LSN)
		return tx.countDecay(ctx, &run, &report)
	})
	t := taking{db: db, o: o, policy: &p, report: &report}
	if err == nil && p.PruneBelow > 0 {
		err = t.prune(ctx)
	}
	if err == nil && p.Merge {
		err = t.merge(ctx)
	}
	report.Millis = db.clock().Sub(began).Milliseconds()
	return report, err
}

// policy is the stored policy with the options in the place of its values.
func (o *ConsolidateOptions) policy(tx *Tx) (policy.Policy, error) {
	p, err := policy.Stored((*partTx)(tx))
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
	if err := tx.flushTouches(); err != nil {
		return run, err
	}
	if run.Scope != (memory.Scope{}) {
		run.Owners = []uint32{}
		docs, _, err := tx.bornInScope(run.Scope)
		if err != nil {
			return run, err
		}
		for it := docs.Iterator(); it.HasNext(); {
			run.Owners = append(run.Owners, tx.db.tables.Docs.Row(it.Next()).Owner)
		}
		slices.Sort(run.Owners)
		run.Owners = slices.Compact(run.Owners)
	}
	return tx.db.tables.Ageing.Record((*partTx)(tx), doingConsolidate, run)
}

// countDecay counts what a run, committed or not, looks at and takes something of.
func (tx *Tx) countDecay(ctx context.Context, run *policy.Run, report *Consolidated) error {
	runs := tx.db.tables.Ageing.Runs()
	return tx.eachAged(ctx, run.Scope, func(_ uint32, r *doctable.Row) {
		report.Processed++
		m := tx.db.tables.Aged(r.Version, r.Created, r.Confidence)
		if run.Takes(&m, runs.Owed(&m, run.LSN-1, run.At)) {
			report.Decayed++
		}
	})
}

// eachAged visits the visible memories of a scope, everyone's for the empty one, in the order
// of their documents.
func (tx *Tx) eachAged(ctx context.Context, s memory.Scope, visit func(doc uint32, r *doctable.Row)) error {
	set, err := selection.ScopeSet(&tx.state, s)
	if err != nil {
		return err
	}
	n := 0
	look := func(doc uint32, r *doctable.Row) bool {
		if n++; n%state.CancelEvery == 0 && ctx.Err() != nil {
			return false
		}
		if r.Visible(tx.state.LSN) && !r.Over(tx.state.Now) {
			visit(doc, r)
		}
		return true
	}
	if set == nil {
		selection.EachRow(&tx.state, look)
		return ctx.Err()
	}
	for it := set.Iterator(); it.HasNext(); {
		if doc := it.Next(); !look(doc, tx.db.tables.Docs.Row(doc)) {
			break
		}
	}
	return ctx.Err()
}

// taking is what a consolidation takes away, in as many commits as that needs.
type taking struct {
	db     *DB
	o      *ConsolidateOptions
	policy *policy.Policy
	report *Consolidated
	last   uint64 // the LSN of the last of these commits: its trash leads to those before
}

// prune removes the memories whose importance has decayed too far.
func (t *taking) prune(ctx context.Context) error {
	db, p := t.db, t.policy
	var victims []victim
	var j *judge
	err := db.view(ctx, nil, func(tx *Tx) error {
		free, _, err := tx.takeable(p, t.o.Scope)
		if err != nil {
			return err
		}
		j = tx.newJudge(ctx, p)
		return tx.eachIn(ctx, free, func(_ uint32, r *doctable.Row) {
			f, a := tx.facts(r)
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
		if victims, t.last, err = db.evictChosen(ctx, victims, p, t.o.Scope); err != nil {
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
	return t.db.view(ctx, nil, func(tx *Tx) error {
		for i := range victims {
			rec, err := tx.state.LastRecord(victims[i].Owner, victims[i].Seq)
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
	db, everyone := t.db, t.o.Scope == (memory.Scope{})
	after, upTo := uint64(0), uint64(0)
	for round := range mergeRounds {
		var plan []merge
		var crowded bool
		err := db.view(ctx, nil, func(tx *Tx) (err error) {
			if round == 0 && everyone {
				if after, err = tx.mergedUpTo(t.policy); err != nil {
					return err
				}
			}
			if round == 0 {
				upTo = tx.state.LSN
			}
			plan, crowded, err = tx.mergePlan(ctx, t.policy, t.o.Scope, after)
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
	return db.Update(ctx, func(tx *Tx) error { return policy.Note((*partTx)(tx), policy.JobMerge, int64(upTo)) })
}

// mergedUpTo is the LSN up to which all memories were compared, by the same policy.
func (tx *Tx) mergedUpTo(p *policy.Policy) (lsn uint64, err error) {
	at, known, err := policy.Came((*partTx)(tx), policy.JobMerge)
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
		err := t.db.Update(ctx, func(tx *Tx) (err error) {
			lsn, at = tx.state.LSN, tx.state.Now
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
			t.db.observe(lsn, at, t.policy.Version, gone)
		}
	}
	return nil
}
