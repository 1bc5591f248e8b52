package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// tally is a part that does all that a part may: it counts by owner, in keys and in RAM,
// and marks memories.
type tally struct {
	loaded   part.Opening
	worked   atomic.Int64
	released atomic.Uint64
	// total is what is counted in RAM, by the LSN from which on it is so.
	total []tallied
}

type tallied struct {
	lsn uint64
	n   int64
}

const (
	kindTally = 'Z' // owner → sum
	kindMark  = 'Y' // owner | seq
	opTally   = part.Op(200)
)

func (*tally) Name() string { return "tally" }
func (*tally) Kinds() []part.Kind {
	return []part.Kind{kindTally, kindMark}
}
func (*tally) Ops() []part.Op           { return []part.Op{opTally} }
func (*tally) NewLine(string) part.Line { return nil }
func (p *tally) Release(oldest uint64)  { p.released.Store(oldest) }
func (*tally) Every() time.Duration     { return time.Millisecond }
func (*tally) Fold(_, older, newer []byte) []byte {
	return tallyValue(readTally(older) + readTally(newer))
}

func tallyValue(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
func readTally(b []byte) int64  { return int64(binary.BigEndian.Uint64(b)) }

func (p *tally) Load(v part.View, o part.Opening) error {
	p.loaded = o
	n := int64(0)
	err := v.Scan(v.Key(kindTally, 0), layout.PrefixEnd(v.Key(kindTally, 0)), func(_, value []byte) error {
		n += readTally(value)
		return nil
	})
	p.total = []tallied{{0, n}}
	return err
}

func (p *tally) Work(context.Context, part.Runner) error {
	p.worked.Add(1)
	return nil
}

func (*tally) Figures(v part.View) (map[string]int64, error) {
	n := int64(0)
	err := v.Scan(v.Key(kindTally, 0), layout.PrefixEnd(v.Key(kindTally, 0)), func(_, _ []byte) error {
		n++
		return kv.ErrStop
	})
	return map[string]int64{"tallies": n}, err
}

func (*tally) DeleteOwner(t part.Tx, owner uint32) (map[string]int64, error) {
	t.Log(opTally, nil)
	return nil, t.Delete(binary.BigEndian.AppendUint32(t.Key(kindTally, 4), owner))
}

func (p *tally) Bytes() int64 { return int64(16 * len(p.total)) }

func (*tally) Lines(part.View, scope.Scope, func(part.Line) error) error { return nil }

func (*tally) Check(c part.Checker) error {
	return c.Each(kindTally, func(key, value []byte) error {
		owner := binary.BigEndian.Uint32(key[3:])
		if n, _, err := c.Counter(kindTally, owner); err != nil || n != readTally(value) {
			c.Problem("tally: %d is counted and %d merged (%v)", n, readTally(value), err)
		}
		return nil
	})
}

func markKey(v part.View, owner uint32, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(v.Key(kindMark, 12), owner), seq)
}

func (*tally) MemoryGone(v part.View, owner uint32, seq uint64, del func([]byte) error, _ func(_, _ []byte) error) error {
	return del(markKey(v, owner, seq))
}

// add counts for an owner, and marks a memory of it.
func (p *tally) add(t part.Tx, o scope.Owner, by int64, id string) error {
	if err := t.Need("tally", 100); err != nil {
		return err
	}
	owner, err := t.GiveOwner(o)
	if err != nil {
		return err
	}
	if err := errors.Join(t.Merge(binary.BigEndian.AppendUint32(t.Key(kindTally, 4), owner), tallyValue(by)), t.Count(kindTally, owner, by)); err != nil {
		return err
	}
	if id != "" {
		m, found, err := t.Memory(o, id)
		if err != nil || !found || m.ID != id || m.Owner != owner {
			return fmt.Errorf("memory %q: %+v, %v, %w", id, m, found, err)
		}
		if err := t.Set(markKey(t, owner, m.Seq), nil); err != nil {
			return err
		}
	}
	t.Log(opTally, nil)
	t.Stage(func(lsn uint64) {
		p.total = append(p.total, tallied{lsn, p.total[len(p.total)-1].n + by})
	})
	return nil
}

func (p *tally) Reset(lsn uint64) { p.total = append(p.total, tallied{lsn, 0}) }

// at is the total that a reader at an LSN sees.
func (p *tally) at(lsn uint64) (n int64) {
	for _, t := range p.total {
		if t.lsn <= lsn {
			n = t.n
		}
	}
	return n
}

func openTally(t *testing.T, fs vfs.FS, o Options) (*DB, *tally) {
	t.Helper()
	p := &tally{}
	o.MemoryBudget = testBudget
	db, err := openOn(fs, "db", setup{Options: o, tuning: tuning{beside: []part.Part{p}}})
	if err != nil {
		t.Fatal(err)
	}
	return db, p
}

// TestPart: what a part writes and holds goes with its transaction, whole or not at all,
// and is told of what concerns it.
func TestPart(t *testing.T) {
	fs, ctx, ada := vfs.NewMem(), t.Context(), memory.Owner{User: "ada"}
	db, p := openTally(t, fs, Options{})
	run := runner{db: db}
	add := func(by int64, id string) error {
		return run.Append(ctx, "tally", 100, func(tx part.Tx) error { return p.add(tx, ada, by, id) })
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "m", Scope: ada.Scope(), Text: "a memory"})
	if err := errors.Join(add(2, "m"), add(3, "")); err != nil {
		t.Fatal(err)
	}
	before := db.LSN()
	failed := errors.New("no")
	err := db.Update(ctx, func(tx *Tx) error {
		return errors.Join((runner{db: db, tx: tx}).Update(ctx, "tally", func(tx part.Tx) error { return p.add(tx, ada, 100, "") }), failed)
	})
	if !errors.Is(err, failed) || p.at(state.MaxLSN) != 5 {
		t.Errorf("after a transaction that failed: %d, %v", p.at(state.MaxLSN), err)
	}
	// A call that writes and then fails leaves no half of itself in its transaction.
	err = db.Update(ctx, func(tx *Tx) error {
		_ = (runner{db: db, tx: tx}).Update(ctx, "tally", func(tx part.Tx) error {
			return errors.Join(p.add(tx, ada, 100, ""), failed)
		})
		return nil
	})
	if !errors.Is(err, failed) || db.LSN() != before {
		t.Errorf("half a change was committed: %v", err)
	}
	// Nor is what it did not log taken for nothing.
	err = run.Update(ctx, "tally", func(tx part.Tx) error { return tx.Set(markKey(tx, 1, 1), nil) })
	if !errors.Is(err, memory.ErrInvalid) || db.LSN() != before {
		t.Errorf("a change that was not logged: %v", err)
	}
	if err := add(10, ""); err != nil || p.at(before) != 5 || p.at(db.LSN()) != 15 {
		t.Errorf("%d, then %d, %v", p.at(before), p.at(db.LSN()), err)
	}
	mustCheck(t, db, 1)
	for p.worked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	s, err := db.Stats(ctx)
	if err != nil || s.Parts["tallies"] != 1 || s.Memory.Parts != p.Bytes() || s.Memory.Shares.Parts != p.loaded.Budget {
		t.Error(s.Parts, s.Memory, err)
	}
	closeTest(t, db)

	db, p = openTally(t, fs, Options{})
	if p.at(state.MaxLSN) != 15 || p.loaded.Budget <= 0 || p.loaded.ReadOnly {
		t.Errorf("after opening: %d, %+v", p.at(state.MaxLSN), p.loaded)
	}
	mustCheck(t, db, 1)
	marks := func() (n int) {
		lower, upper := db.keys().Span(kindMark)
		_ = kv.Scan(db.store, lower, upper, func(_, _ []byte) error { n++; return nil })
		return n
	}
	if marks() != 1 {
		t.Errorf("%d marks", marks())
	}
	if err := db.Memories().Delete(ctx, ada.Scope(), "m"); err != nil {
		t.Fatal(err)
	}
	for marks() > 0 || p.released.Load() == 0 { // the janitor works beside this
		time.Sleep(time.Millisecond)
	}
	if _, err := db.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	if p.at(state.MaxLSN) != 0 || p.at(db.LSN()-1) != 15 {
		t.Errorf("after a reset: %d, before it %d", p.at(state.MaxLSN), p.at(db.LSN()-1))
	}
	lower, upper := db.keys().Span(kindTally)
	if err := kv.Scan(db.store, lower, upper, func(_, _ []byte) error { return failed }); err != nil {
		t.Error("a reset has left keys of a part")
	}
	closeTest(t, db)
}

// TestPartKinds: no kind and no code of the log is given to two.
func TestPartKinds(t *testing.T) {
	kinds, ops := map[byte]string{'M': "the database itself"}, map[part.Op]string{}
	for _, k := range fixedKeys(t).Kinds() {
		kinds[k] = "memories"
	}
	for op := layout.LogAdd; op <= layout.LogInternal; op++ {
		ops[part.Op(op)] = "memories"
	}
	if _, own := ops[part.OpInternal]; !own || part.OpInternal != part.Op(layout.LogInternal) {
		t.Errorf("the code %d of a part is not %d of the memories", part.OpInternal, layout.LogInternal)
	}
	ops[part.Op(layout.LogFold)], ops[part.Op(layout.LogEvict)] = "memories", "memories"
	for _, p := range newParts(policy.NewPart()) {
		for _, k := range p.Kinds() {
			if other, taken := kinds[byte(k)]; taken {
				t.Errorf("the kind %c is that of %s and of %s", k, other, p.Name())
			}
			kinds[byte(k)] = p.Name()
		}
		for _, op := range p.Ops() {
			if other, taken := ops[op]; taken && !slices.Contains([]part.Op{6, 7}, op) {
				t.Errorf("the code %d is that of %s and of %s", op, other, p.Name())
			}
			ops[op] = p.Name()
		}
	}
}

// TestDeleteOwner: what belongs to exactly a user and an agent goes, and nothing else; what
// an index over all owners has of it goes when the part works next.
func TestDeleteOwner(t *testing.T) {
	ctx, clock := t.Context(), newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	owners := []memory.Owner{{User: "ada"}, {User: "ada", Agent: "a1"}, {Agent: "a1"}, {User: "bob"}}
	for i, o := range owners {
		for _, text := range []string{"tea", "milk"} {
			mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: o.User, Agent: o.Agent, Run: "r"}, Text: text})
		}
		for j := range 5 + i {
			put := entries.PutOptions{}
			if j%2 == 0 {
				put.TTL = time.Hour
			}
			if _, err := db.KV().Put(ctx, o, fmt.Sprint("key ", j), []byte("1"), &put); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, o := range owners[:3] {
		deleted, err := db.DeleteOwner(ctx, o)
		if err != nil || deleted["memories"] != 2 || deleted["entries"] != int64(5+i) {
			t.Fatalf("%+v: %v, %v", o, deleted, err)
		}
		if again, err := db.DeleteOwner(ctx, o); err != nil || again["memories"] != 0 || again["entries"] != 0 {
			t.Errorf("%+v, again: %v, %v", o, again, err)
		}
		for j, other := range owners {
			page, err := db.KV().List(ctx, entries.Query{Owner: other})
			if left := len(page.Entries); err != nil || left != 0 && j <= i || left != 5+j && j > i {
				t.Errorf("%+v was deleted, %+v has %d entries, %v", o, other, left, err)
			}
		}
		stats, err := db.Stats(ctx)
		if want := int64(2 * (len(owners) - 1 - i)); err != nil || stats.Memories != want {
			t.Errorf("%+v was deleted: %d memories, want %d, %v", o, stats.Memories, want, err)
		}
		mustCheck(t, db, 2*(len(owners)-1-i))
	}
	// One that is back meanwhile keeps what it has stored since.
	if _, err := db.KV().Put(ctx, owners[0], "key 0", []byte("2"), &entries.PutOptions{TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := (entries.Part{}).Work(ctx, runner{db: db}); err != nil {
		t.Fatal(err)
	}
	if n := countKeys(t, db, 'e'); n != 1+4 {
		t.Errorf("%d keys by expiry, want 5", n)
	}
	if n := countKeys(t, db, 'z'); n != 0 {
		t.Errorf("%d deleted owners are remembered", n)
	}
	mustCheck(t, db, 2)
	if _, err := db.DeleteOwner(ctx, memory.Owner{}); !errors.Is(err, fault.ErrScope) {
		t.Errorf("no owner: %v", err)
	}
	if deleted, err := db.DeleteOwner(ctx, memory.Owner{User: "nobody"}); err != nil || deleted["memories"] != 0 {
		t.Errorf("an unknown owner: %v, %v", deleted, err)
	}
}
