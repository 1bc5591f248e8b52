package records

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
)

// touchMost is the number of memories that are gathered before a flush.
const touchMost = 4096

// Touches gathers which memories were recalled: one commit for many recalls.
//
// The debt of a confidence, which consolidations leave behind, is folded where its memory is touched or changed. It is
// folded in RAM and noted among the gathered touches in one step, under the lock. So each fold is in exactly one place
// until it is committed: among the gathered touches, or in the transaction that has taken it from there. A fold changes
// nothing that a reader sees, and one whose commit is lost to a crash is made again from the same runs.
type Touches struct {
	tables *state.Tables
	now    func() int64
	full   chan struct{}

	mu      sync.Mutex
	pending map[uint64]layout.Access // by Seq
}

// NewTouches returns an empty gathering. now tells the time in Unix milliseconds.
func NewTouches(t *state.Tables, now func() int64) *Touches {
	return &Touches{tables: t, now: now, pending: map[uint64]layout.Access{}, full: make(chan struct{}, 1)}
}

// Full fires where so much is gathered that it should be committed.
func (t *Touches) Full() <-chan struct{} { return t.full }

// Len is how many memories it has something of.
func (t *Touches) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pending)
}

// Recalled notes that memories were recalled at a time. Readers see it at once.
func (t *Touches) Recalled(seqs []uint64, at int64) { t.note(seqs, layout.Access{Count: 1, Last: at}) }

// Renew notes that the text of a memory was said again: it is as young as if it had been
// accessed then, and was not recalled.
func (t *Touches) Renew(seq uint64, at int64) {
	if s := t.tables.Docs.Seq(seq); s != nil && s.Accessed.Load() < at {
		t.note([]uint64{seq}, layout.Access{Last: at})
	}
}

// Extend moves the expiry of memories to later times, and passes over those that are gone, have expired or never
// expire.
func (t *Touches) Extend(until map[uint64]time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for seq, at := range until {
		s := t.tables.Docs.Seq(seq)
		if s == nil {
			continue
		}
		// Of a version that a commit replaces now, the next one takes the expiry over: see Publish.
		row := t.tables.Docs.Of(s.Doc.Load()-1, seq) // 0 - 1 is None
		if end := clock.ToMillis(at); row != nil && t.tables.Docs.Extend(row, end, now) {
			t.lease(seq, layout.Lease{Of: row.Born, Until: end})
			t.gather(seq, layout.Access{Last: now})
		}
	}
	t.bound()
}

// Hold runs fn while no expiry is moved.
func (t *Touches) Hold(fn func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fn()
}

// ExtendAgain puts a lease that was stored in force.
func ExtendAgain(t *state.Tables, s *doctable.Memory, l layout.Lease) {
	if row := t.Docs.Row(s.Doc.Load() - 1); row != nil && row.Born == l.Of { // 0 - 1 is None
		t.Docs.Extend(row, l.Until, 0)
	}
}

// Publish adds the row of a version to the tables. One that keeps the expiry of the version before it keeps also
// what a read has added to that since the transaction has read it.
func (t *Touches) Publish(p *Pending) {
	expires := p.Rec.Expires
	if expires != 0 {
		t.mu.Lock() // no row is extended meanwhile
		defer t.mu.Unlock()
		if old := t.tables.Docs.Row(p.Inherits); p.Lasting && old != nil && old.Expires.Load() > expires {
			expires = old.Expires.Load()
			t.lease(p.Seq, layout.Lease{Of: p.Born, Until: expires})
		}
	}
	t.tables.Docs.Add(p.Doc, func(r *doctable.Row) {
		r.Version = p.Version
		r.Run = p.Run
		r.Created = p.Rec.Created
		r.Expires.Store(expires)
		r.Importance, r.Confidence = p.Rec.Importance, p.Rec.Confidence
	})
}

// lease gathers the lease of the newest version of a memory, in the place of one of a version whose
// commit failed. mu is held.
func (t *Touches) lease(seq uint64, l layout.Lease) {
	a := t.pending[seq]
	if a.Lease.Of > l.Of {
		a.Lease = layout.Lease{}
	}
	t.pending[seq] = a.Fold(layout.Access{Lease: l})
}

// note gathers one access of each of some memories.
func (t *Touches) note(seqs []uint64, one layout.Access) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, seq := range seqs {
		t.gather(seq, one)
	}
	t.bound()
}

// gather gathers one access of a memory. mu is held.
func (t *Touches) gather(seq uint64, one layout.Access) {
	a := one
	if s := t.tables.Docs.Seq(seq); s != nil {
		a = a.Fold(t.settle(s)) // before the time of the access is seen
		s.Count.Add(one.Count)
		s.See(a.Last)
	}
	t.pending[seq] = t.pending[seq].Fold(a)
}

// bound asks for a flush where much is gathered. mu is held.
func (t *Touches) bound() {
	if len(t.pending) >= touchMost {
		select {
		case t.full <- struct{}{}:
		default:
		}
	}
}

// settle folds what consolidations have taken of a memory since its last fold, and returns
// it as an operand. mu is held.
func (t *Touches) settle(s *doctable.Memory) (a layout.Access) {
	last, ok := t.tables.Ageing.Runs().Last()
	if !ok {
		return a
	}
	row := t.tables.Docs.Row(s.Doc.Load() - 1) // 0 - 1 is None
	if row == nil {
		return a
	}
	m := t.tables.Aged(row.Version, row.Created, row.Confidence)
	owed := t.tables.Ageing.Runs().Owed(&m, last.LSN, t.now())
	if owed == m.Debt {
		return a
	}
	s.Fade.Store(&doctable.Fade{Debt: int64(owed), Folded: last.LSN})
	return layout.Access{Debt: int64(owed - m.Debt), Folded: last.LSN}
}

// take takes all that is gathered.
func (t *Touches) take() map[uint64]layout.Access {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.pending
	t.pending = map[uint64]layout.Access{}
	return all
}

// FlushTouches commits what is gathered. A transaction that fails gives it back; so does one whose bytes admit refuses.
func (w *Writer) FlushTouches(admit func(bytes int) error) error {
	const size = 64 // what one takes in a commit, in bytes
	batch := w.Touches.take()
	for seq, a := range batch {
		w.take(seq, a)
	}
	if err := admit(len(batch) * size); err != nil {
		w.GiveBack()
		return err // they stay in RAM, and are a part of no memory
	}
	var touched, folded []byte
	touches, folds := 0, 0
	for seq, a := range batch {
		l, ok := w.At(seq)
		if !ok {
			continue // deleted since
		}
		if a.Lease.Of != l.Born {
			a.Lease = layout.Lease{}
		}
		if err := w.MergeAccess(l.Owner, seq, a); err != nil {
			return err
		}
		if a.Debt == 0 && a.Folded == 0 {
			touched = appendTouch(touched, l.Owner, seq, a)
			touches++
		} else {
			folded = appendFold(folded, l.Owner, seq, a)
			folds++
		}
	}
	w.logAccesses(layout.LogTouch, touches, touched)
	w.logAccesses(layout.LogFold, folds, folded)
	return nil
}

// carryDebt commits, with this transaction, what consolidations have taken of a memory that
// gets a new version: the runs so far count for no version that is born now. A confidence
// that is set anew owes nothing.
func (w *Writer) carryDebt(owner uint32, seq uint64, anew bool) error {
	s := w.Docs.Seq(seq)
	if s == nil || w.Own.Anew[seq] || w.Ageing.Runs().Count() == 0 {
		return nil
	}
	t := w.Touches
	t.mu.Lock()
	a := t.pending[seq].Fold(t.settle(s))
	if a.Folded != 0 {
		delete(t.pending, seq)
		w.take(seq, a)
	}
	t.mu.Unlock()
	if a.Folded == 0 {
		a = layout.Access{} // what is gathered waits for its flush
	}
	if f := s.Fade.Load(); anew && f != nil {
		if w.Own.Anew == nil {
			w.Own.Anew = map[uint64]bool{}
		}
		w.Own.Anew[seq] = true
		a.Debt, a.Folded = a.Debt-f.Debt, max(a.Folded, f.Folded)
	}
	if a == (layout.Access{}) {
		return nil
	}
	if err := w.MergeAccess(owner, seq, a); err != nil {
		return err
	}
	w.logAccesses(layout.LogFold, 1, appendFold(nil, owner, seq, a))
	return nil
}

// ForgiveDebts makes the debts that the transaction has taken back those of the tables.
func (w *Writer) ForgiveDebts() {
	for seq := range w.Own.Anew {
		s := w.Docs.Seq(seq)
		s.Fade.Store(&doctable.Fade{Folded: s.Fade.Load().Folded})
	}
}

// AddAccess counts accesses of a memory that were others' before; the caller adds them to the tables once the commit
// is applied.
func (w *Writer) AddAccess(owner uint32, seq uint64, a layout.Access) error {
	if err := w.carryDebt(owner, seq, false); err != nil {
		return err
	}
	if err := w.MergeAccess(owner, seq, a); err != nil {
		return err
	}
	w.logAccesses(layout.LogTouch, 1, appendTouch(nil, owner, seq, a))
	return nil
}

// SetAccess says what the access statistics of a memory are from now on, whatever was gathered.
func (w *Writer) SetAccess(owner uint32, seq uint64, a layout.Access) error {
	w.takeGathered(seq)
	if a == (layout.Access{}) {
		return nil
	}
	key := w.Keys.Stats(owner, seq)
	if err := w.Set(key, layout.Seal(key, a.Encode())); err != nil {
		return err
	}
	w.logAccesses(layout.LogTouch, 1, appendTouch(nil, owner, seq, a))
	return nil
}

// MergeAccess adds to the access statistics of a memory.
func (w *Writer) MergeAccess(owner uint32, seq uint64, a layout.Access) error {
	key := w.Keys.Stats(owner, seq)
	return w.Merge(key, layout.Seal(key, a.Encode()))
}

func (w *Writer) logAccesses(op layout.LogOp, n int, body []byte) {
	if n == 0 {
		return
	}
	w.Change()
	log := w.Log()
	*log = append(binary.AppendUvarint(append(*log, byte(op)), uint64(n)), body...)
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

// take notes that the transaction commits what was gathered of a memory.
func (w *Writer) take(seq uint64, a layout.Access) {
	if w.taken == nil {
		w.taken = map[uint64]layout.Access{}
	}
	w.taken[seq] = w.taken[seq].Fold(a)
}

// takeGathered takes what was gathered of a memory, which the transaction commits otherwise.
func (w *Writer) takeGathered(seq uint64) {
	t := w.Touches
	t.mu.Lock()
	defer t.mu.Unlock()
	if a, gathered := t.pending[seq]; gathered {
		delete(t.pending, seq)
		w.take(seq, a)
	}
}

// GiveBack gathers again what the transaction has taken and does not commit.
func (w *Writer) GiveBack() {
	if len(w.taken) == 0 {
		return
	}
	t := w.Touches
	t.mu.Lock()
	defer t.mu.Unlock()
	for seq, a := range w.taken {
		t.pending[seq] = t.pending[seq].Fold(a)
	}
	clear(w.taken)
}

// DecodeAccess reads what is stored under a key of access statistics.
func DecodeAccess(key, stored []byte) (layout.Access, error) {
	value, err := layout.Unseal(key, stored)
	if err != nil {
		return layout.Access{}, err
	}
	return layout.DecodeAccess(value)
}
