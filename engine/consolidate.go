package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const doingConsolidate = "consolidate"

// ConsolidateOptions say how Consolidate departs from the policy. nil is the policy.
type ConsolidateOptions struct {
	// Scope is a user, an agent, or both, whose memories are consolidated. Empty: everyone's.
	Scope Scope
	// Rate is what a memory that was not accessed for the policy's idle time loses of its
	// confidence, 0 to 1.
	Rate *float64
	// PruneBelow and Merge take the place of the policy's.
	PruneBelow *float64
	Merge      *bool
	// DryRun changes nothing and reports what would change.
	DryRun bool
	// Visit is called for each merge of the first round, before a commit. An error of it ends
	// the consolidation and is returned.
	Visit func(Merge) error
}

// Consolidated is the report of a consolidation.
type Consolidated struct {
	// Decayed is how many memories have a lower confidence than before.
	Decayed int `json:"memories_decayed"`
	// Merged is how many memories were near duplicates and are gone, Deleted how many were
	// pruned.
	Merged  int `json:"memories_merged"`
	Deleted int `json:"deleted"`
	// Processed is how many memories were looked at.
	Processed int `json:"processed"`
	// Millis is how long it took.
	Millis int64 `json:"duration_ms"`
	// Policy is the version of the policy, LSN that of the newest commit that this made or saw.
	Policy uint32 `json:"policy"`
	LSN    uint64 `json:"lsn"`
}

// Consolidate takes the policy's rate of the confidence of every memory that was not
// accessed, nor created, for the policy's idle time, down to its floor and never below:
// confidence × (1 − rate). It writes one record, whatever the number of memories. Then,
// where the policy says so, it
//
//   - prunes the memories whose decayed importance is below PruneBelow, in one commit,
//   - merges near duplicates: memories of the same user, agent, run, source and kind whose
//     vectors have a cosine above MergeCosine, or, where neither has a vector, whose texts
//     have an edit distance below MergeEdit of the longer one. Each goes, in the order of
//     Seqs, into the first one that it is alike to; that one gets the higher importance and
//     all accesses. Each is compared with its nearest 16 by the index of vectors or of words.
//     What was compared with everything before, by the same policy, is not compared again.
//
// Both take the policy's kinds only, and nothing that is pinned.
//
// ErrInvalid for options that the policy would refuse, and for a scope with a run.
func (db *DB) Consolidate(ctx context.Context, o *ConsolidateOptions) (report Consolidated, err error) {
	if o == nil {
		o = &ConsolidateOptions{}
	}
	if err := checkOwners(doingConsolidate, o.Scope); err != nil {
		return report, err
	}
	if err := db.turn.lockContext(ctx); err != nil {
		return report, err
	}
	defer db.turn.Unlock()
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
		report.Policy, report.LSN = p.Version, tx.lsn
		run = policy.Run{LSN: tx.lsn + 1, At: tx.now, Rate: p.Rate, Idle: p.Idle.Millis(), Floor: p.Floor, Policy: p.Version, Scope: o.Scope}
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
		report.LSN = min(report.LSN, tx.lsn)
		return tx.countDecay(ctx, &run, &report)
	})
	if err == nil && p.PruneBelow > 0 {
		err = db.prune(ctx, o, &p, &report)
	}
	if err == nil && p.Merge {
		err = db.mergeAll(ctx, o, &p, &report)
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
	if run.Scope != (Scope{}) {
		run.Owners = []uint32{}
		docs, _, err := tx.bornInScope(run.Scope)
		if err != nil {
			return run, err
		}
		for it := docs.Iterator(); it.HasNext(); {
			run.Owners = append(run.Owners, tx.db.docs.Row(it.Next()).Owner)
		}
		slices.Sort(run.Owners)
		run.Owners = slices.Compact(run.Owners)
	}
	return tx.db.ageing.Record((*partTx)(tx), doingConsolidate, run)
}

// countDecay counts what a run, committed or not, looks at and takes something of.
func (tx *Tx) countDecay(ctx context.Context, run *policy.Run, report *Consolidated) error {
	runs := tx.db.ageing.Runs()
	return tx.eachAged(ctx, run.Scope, func(_ uint32, r *doctable.Row) {
		report.Processed++
		m := tx.db.aged(r.Version, r.Created, r.Confidence)
		if run.Takes(&m, runs.Owed(&m, run.LSN-1)) {
			report.Decayed++
		}
	})
}

// eachAged visits the visible memories of a scope, everyone's for the empty one, in the order
// of their documents.
func (tx *Tx) eachAged(ctx context.Context, s Scope, visit func(doc uint32, r *doctable.Row)) error {
	set, err := tx.scopeSet(s)
	if err != nil {
		return err
	}
	n := 0
	look := func(doc uint32, r *doctable.Row) bool {
		if n++; n%cancelEvery == 0 && ctx.Err() != nil {
			return false
		}
		if r.Visible(tx.lsn) && (r.Expires == 0 || r.Expires > tx.now) {
			visit(doc, r)
		}
		return true
	}
	if set == nil {
		tx.eachRow(look)
		return ctx.Err()
	}
	for it := set.Iterator(); it.HasNext(); {
		if doc := it.Next(); !look(doc, tx.db.docs.Row(doc)) {
			break
		}
	}
	return ctx.Err()
}

// prune removes the memories whose importance has decayed too far.
func (db *DB) prune(ctx context.Context, o *ConsolidateOptions, p *policy.Policy, report *Consolidated) error {
	var victims []victim
	var j *judge
	err := db.view(ctx, nil, func(tx *Tx) error {
		free, _, err := tx.takeable(p, o.Scope)
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
	if err == nil && !o.DryRun && len(victims) > 0 {
		slices.SortFunc(victims, func(a, b victim) int { return cmp.Compare(a.Seq, b.Seq) })
		victims, report.LSN, err = db.evictChosen(ctx, victims, p, o.Scope)
	}
	if err == nil {
		report.Deleted = len(victims)
	}
	return err
}

// mergeAll merges near duplicates, in rounds while there are more of one than it was compared
// with.
func (db *DB) mergeAll(ctx context.Context, o *ConsolidateOptions, p *policy.Policy, report *Consolidated) error {
	after, upTo := uint64(0), uint64(0)
	for round := range mergeRounds {
		var plan []merge
		var crowded bool
		err := db.view(ctx, nil, func(tx *Tx) error {
			if round == 0 && o.Scope == (Scope{}) {
				at, known, err := policy.Came((*partTx)(tx), policy.JobMerge)
				if err != nil {
					return err
				}
				if lsn := uint64(at); known && lsn >= p.LSN { // by the same policy
					after = lsn
				}
			}
			if round == 0 {
				upTo = tx.lsn
			}
			var err error
			plan, crowded, err = tx.mergePlan(ctx, p, o.Scope, after)
			return err
		})
		if err == nil && round == 0 && o.Visit != nil {
			for i := range plan {
				if err = o.Visit(plan[i].Merge); err != nil {
					break
				}
			}
		}
		if err != nil {
			return err
		}
		if o.DryRun {
			report.Merged = len(plan)
			return nil
		}
		for part := range slices.Chunk(plan, mergeBatch) {
			var gone []victim
			var lsn uint64
			var at int64
			err := db.Update(ctx, func(tx *Tx) (err error) {
				lsn, at = tx.lsn, tx.now
				gone, err = tx.mergeAway(ctx, part, p, o.Scope)
				return err
			})
			if err != nil {
				return err
			}
			if len(gone) > 0 {
				report.Merged, report.LSN = report.Merged+len(gone), lsn
				db.observe(lsn, at, p.Version, gone)
			}
		}
		if len(plan) == 0 || !crowded {
			break
		}
	}
	if o.Scope != (Scope{}) || upTo <= after {
		return nil
	}
	return db.Update(ctx, func(tx *Tx) error { return policy.Note((*partTx)(tx), policy.JobMerge, int64(upTo)) })
}
