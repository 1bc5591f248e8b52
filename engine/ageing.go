package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// Policies are the rules by which the memories of the database age: each call is its own
// transaction.
func (db *DB) Policies() policy.Policies { return db.tables.Ageing.New(runner{db: db}) }

// Policies are the policies as this transaction sees them.
func (tx *Tx) Policies() policy.Policies { return tx.db.tables.Ageing.New(runner{db: tx.db, tx: tx}) }

// The debt of a confidence is folded where its memory is touched or changed. It is folded in
// RAM and noted among the gathered touches in one step, under touched.mu. So each fold is in
// exactly one place until it is committed: among the gathered touches, or in the transaction
// that has taken it from there. A fold changes nothing that a reader sees, and one whose
// commit is lost to a crash is made again from the same runs.

// settle folds what consolidations have taken of a memory since its last fold, and returns
// it as an operand. touched.mu is held.
func (db *DB) settle(s *doctable.Memory) (a layout.Access) {
	last, ok := db.tables.Ageing.Runs().Last()
	if !ok {
		return a
	}
	row := db.tables.Docs.Row(s.Doc.Load() - 1) // 0 - 1 is None
	if row == nil {
		return a
	}
	m := db.tables.Aged(row.Version, row.Created, row.Confidence)
	owed := db.tables.Ageing.Runs().Owed(&m, last.LSN, db.now())
	if owed == m.Debt {
		return a
	}
	s.Fade.Store(&doctable.Fade{Debt: int64(owed), Folded: last.LSN})
	return layout.Access{Debt: int64(owed - m.Debt), Folded: last.LSN}
}

// carryDebt commits, with this transaction, what consolidations have taken of a memory that
// gets a new version: the runs so far count for no version that is born now. A confidence
// that is set anew owes nothing.
func (tx *Tx) carryDebt(owner uint32, seq uint64, anew bool) error {
	db := tx.db
	s := db.tables.Docs.Seq(seq)
	if s == nil || tx.own.Anew[seq] || db.tables.Ageing.Runs().Count() == 0 {
		return nil
	}
	t := db.touched
	t.mu.Lock()
	a := t.pending[seq].Fold(db.settle(s))
	if a.Folded != 0 {
		delete(t.pending, seq)
		tx.take(seq, a)
	}
	t.mu.Unlock()
	if a.Folded == 0 {
		a = layout.Access{} // what is gathered waits for its flush
	}
	if f := s.Fade.Load(); anew && f != nil {
		if tx.own.Anew == nil {
			tx.own.Anew = map[uint64]bool{}
		}
		tx.own.Anew[seq] = true
		a.Debt, a.Folded = a.Debt-f.Debt, max(a.Folded, f.Folded)
	}
	if a == (layout.Access{}) {
		return nil
	}
	if err := tx.mergeAccess(owner, seq, a); err != nil {
		return err
	}
	tx.change()
	tx.log = append(tx.log, byte(layout.LogFold), 1)
	tx.log = appendFold(tx.log, owner, seq, a)
	return nil
}

// appendFold appends one memory of a LogFold.
func appendFold(b []byte, owner uint32, seq uint64, a layout.Access) []byte {
	b = appendTouch(b, owner, seq, a)
	b = binary.AppendVarint(b, a.Debt)
	return binary.AppendUvarint(b, a.Folded)
}

// appendTouch appends one memory of a LogTouch.
func appendTouch(b []byte, owner uint32, seq uint64, a layout.Access) []byte {
	b = binary.AppendUvarint(b, uint64(owner))
	b = binary.AppendUvarint(b, seq)
	b = binary.AppendUvarint(b, a.Count)
	return binary.AppendVarint(b, a.Last)
}

// begunAnew makes the debts that the transaction has taken back those of the tables.
func (tx *Tx) begunAnew() {
	for seq := range tx.own.Anew {
		s := tx.db.tables.Docs.Seq(seq)
		s.Fade.Store(&doctable.Fade{Folded: s.Fade.Load().Folded})
	}
}

// take notes what the transaction commits of the gathered touches.
func (tx *Tx) take(seq uint64, a layout.Access) {
	if tx.taken == nil {
		tx.taken = map[uint64]layout.Access{}
	}
	tx.taken[seq] = tx.taken[seq].Fold(a)
}

// takePending takes what was gathered of a memory, which the transaction commits otherwise.
func (tx *Tx) takePending(seq uint64) {
	t := tx.db.touched
	t.mu.Lock()
	defer t.mu.Unlock()
	if a, gathered := t.pending[seq]; gathered {
		delete(t.pending, seq)
		tx.take(seq, a)
	}
}

// giveBack gathers again what the transaction has taken and does not commit.
func (tx *Tx) giveBack() {
	if len(tx.taken) == 0 {
		return
	}
	t := tx.db.touched
	t.mu.Lock()
	defer t.mu.Unlock()
	for seq, a := range tx.taken {
		t.pending[seq] = t.pending[seq].Fold(a)
	}
	clear(tx.taken)
}

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
