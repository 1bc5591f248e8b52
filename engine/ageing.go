package engine

import (
	"context"
	"iter"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/ageing"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
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

// EvictOptions say how Evict departs from the policy. nil is the policy.
type EvictOptions = ageing.EvictOptions

// Victim is a memory that is evicted.
type Victim = ageing.Victim

// Evicted is the report of an eviction.
type Evicted = ageing.Evicted

// ConsolidateOptions say how Consolidate departs from the policy. nil is the policy.
type ConsolidateOptions = ageing.ConsolidateOptions

// Consolidated is the report of a consolidation.
type Consolidated = ageing.Consolidated

// Pruned is a memory that a consolidation prunes.
type Pruned = ageing.Pruned

// Merge is two memories that say the same, or are nearly the same.
type Merge = ageing.Merge

// Hooks let a program take part in how memories age. The zero Hooks do nothing.
type Hooks = ageing.Hooks

// Judged is what a verdict is asked of.
type Judged = ageing.Judged

// Eviction is a memory that is gone, for one who observes evictions.
type Eviction = ageing.Eviction

// MaxUnobserved bounds the evictions that wait for Hooks.Evicted.
const MaxUnobserved = ageing.MaxUnobserved

// Evict removes, in one commit, the memories that the policy does not keep:
//
//   - expired memories,
//   - memories older than MaxAge and less important than MinImportance. The preset agentos also
//     requires that they were not accessed for MaxAge; the preset default also weighs the text of what
//     an assistant or a tool said (see [policy.Matters]),
//   - memories with a confidence below MinConfidence,
//   - memories beyond the Cap of an owner, or of an agent with all its users: the least important
//     first, then the least recently accessed, then the lowest Seq.
//
// It looks at the policy's kinds only, and at nothing that is pinned. It chooses beside
// writers, and what was changed or deleted meanwhile stays. The history of a victim has the
// reason, and [DB.Undo] brings the victims back. While the clock seems to have jumped ahead nothing
// is evicted, and Skipped says so. ErrInvalid for options that the policy would refuse, and for a scope with a run.
func (db *DB) Evict(ctx context.Context, o *EvictOptions) (Evicted, error) {
	return db.ageing.Evict(ctx, o)
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
func (db *DB) Consolidate(ctx context.Context, o *ConsolidateOptions) (Consolidated, error) {
	return db.ageing.Consolidate(ctx, o)
}

// ageingHost is a database as ageing needs it.
type ageingHost DB

var _ ageing.Host = (*ageingHost)(nil)

func (h *ageingHost) View(ctx context.Context, fn func(*ageing.State) error) error {
	return (*DB)(h).view(ctx, nil, func(tx *Tx) error { return fn(tx.ages()) })
}

func (h *ageingHost) Update(ctx context.Context, fn func(*ageing.Tx) error) error {
	return (*DB)(h).Update(ctx, func(tx *Tx) error { return fn(tx.ageing()) })
}

func (h *ageingHost) Behind(ctx context.Context, fn func(*ageing.Tx) error) error {
	db := (*DB)(h)
	if err := db.moving.LockContext(ctx); err != nil {
		return err
	}
	defer db.moving.Unlock()
	return db.acknowledge(db.updateBehind(ctx, func(tx *Tx) error { return fn(tx.ageing()) }))
}

func (h *ageingHost) Locked(ctx context.Context, fn func()) (applied uint64, err error) {
	db := (*DB)(h)
	if err := db.lockBehind(ctx); err != nil {
		return 0, err
	}
	defer db.unlock()
	fn()
	return db.writer.applied, nil
}

func (h *ageingHost) Turn(ctx context.Context) (release func(), err error) {
	if err := h.turn.LockContext(ctx); err != nil {
		return nil, err
	}
	return h.turn.Unlock, nil
}

func (h *ageingHost) Apart(ctx context.Context, doing string) (context.Context, error) {
	return (*DB)(h).apart(ctx, doing)
}

func (h *ageingHost) Durable(lsn uint64) error    { return h.syncer.Wait(lsn) }
func (h *ageingHost) Writable(doing string) error { return (*DB)(h).writable(doing) }
func (h *ageingHost) LSN() uint64                 { return (*DB)(h).LSN() }
func (h *ageingHost) Tables() *state.Tables       { return &h.tables }

// ages is the transaction as ageing reads it, ageing as it writes in it.
func (tx *Tx) ages() *ageing.State {
	return tx.db.ageing.State(ageing.State{View: tx.reader(), Part: (*partTx)(tx), Memory: func(v layout.Version) (memory.Memory, error) { return tx.load(v, false) }})
}

func (tx *Tx) ageing() *ageing.Tx {
	return &ageing.Tx{State: tx.ages(), Writer: &tx.rec, TxHost: (*ageingTx)(tx)}
}

// ageingTx is a transaction in which memories die.
type ageingTx Tx

func (h *ageingTx) Materialise() error                { return (*Tx)(h).materialise() }
func (h *ageingTx) Applied(fn func(lsn uint64) error) { (*Tx)(h).onApplied(fn) }
func (h *ageingTx) FlushTouches() error               { return (*Tx)(h).flushTouches() }

func (h *ageingTx) Kill(doc uint32) {
	h.db.tables.Docs.Kill(doc, h.state.LSN)
	h.undo = append(h.undo, undo{doc: doc})
}

func (h *ageingTx) Ended(d *layout.DeathRange, n int) {
	h.ranges = append(h.ranges, *d)
	(*Tx)(h).wentFor(d.Reason, n)
}

func (h *ageingTx) ForgetInGraphs(how graph.Forgotten, all iter.Seq[ageing.Dying]) error {
	return (*Tx)(h).forgetInGraphs(how, all)
}
