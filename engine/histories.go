package engine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// HistoryQuery selects the memories that Histories tells of.
type HistoryQuery struct {
	Scope
	// AllScopes tells of every owner's memories: for administration only.
	AllScopes bool
	// Lost is called with each error of a history that is damaged, which is left out. nil:
	// the first one ends the iteration.
	Lost func(error)
}

const doingHistories = "read histories"

// Histories iterates over what happened to each memory that was updated, has
// expired or is gone: the entries of one memory at a time, in the order of Seq. A
// memory that was only added is left out, since it tells its own add. It holds one
// state for as long as it runs, and 16 bytes of memory for each such memory.
func (m Memories) Histories(ctx context.Context, q HistoryQuery) iter.Seq2[[]HistoryEntry, error] {
	return func(yield func([]HistoryEntry, error) bool) {
		var err error
		if err = checkScope(doingHistories, q.Scope, q.AllScopes); err == nil {
			err = m.view(ctx, doingHistories, func(tx *Tx) error { return tx.histories(ctx, &q, yield) })
		}
		if err != nil && !errors.Is(err, kv.ErrStop) {
			yield(nil, err)
		}
	}
}

func (tx *Tx) histories(ctx context.Context, q *HistoryQuery, yield func([]HistoryEntry, error) bool) error {
	changed, err := tx.changed(ctx)
	if err != nil {
		return store.Error(doingHistories, err)
	}
	for _, of := range changed {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := tx.lifeOf(of.owner, of.seq, "", q.Scope)
		if err = store.Error(doingHistories, err); q.Lost != nil && unreadable(err) {
			q.Lost(err)
			continue
		}
		if err != nil {
			return err
		}
		if len(entries) == 0 || len(entries) == 1 && entries[0].Event == EventAdd && tx.listed(of.seq) {
			continue
		}
		if !yield(entries, nil) {
			return kv.ErrStop
		}
	}
	return nil
}

// listed tells whether a memory is there for all to see.
func (tx *Tx) listed(seq uint64) bool {
	l, lives := tx.at(seq)
	return lives && !l.expired(tx.now)
}

// home is where the versions of a memory lie.
type home struct {
	seq   uint64
	owner uint32
}

// changed lists the memories of which more is to be told than an add, in the order
// of Seq. In an old database versions lie by owner, so they are gathered first.
func (tx *Tx) changed(ctx context.Context) ([]home, error) {
	var out []home
	var at home
	versions, updated, n := 0, false, 0
	next := func(p home) {
		if versions > 1 || updated || versions == 1 && !tx.listed(at.seq) {
			out = append(out, at)
		}
		at, versions, updated = p, 0, false
	}
	lower, upper := tx.keys.Span(layout.KindRecord)
	err := kv.Scan(tx.reader, lower, upper, func(key, value []byte) error {
		v, ok := layout.ParseRecordKey(key)
		if !ok {
			return layout.BadKey("record", key)
		}
		if n++; n%scanCheck == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if p := (home{v.Seq, v.Owner}); p != at {
			next(p)
		}
		versions++
		updated = updated || recordFlags(value)&layout.FlagUpdate != 0
		return nil
	})
	next(home{})
	slices.SortFunc(out, func(a, b home) int { return cmp.Compare(a.seq, b.seq) })
	return out, err
}

// scanCheck is how many keys are read between two looks at the context.
const scanCheck = 1 << 12

// recordFlags reads the flags of an encoded record alone.
func recordFlags(b []byte) uint64 {
	c := codec.NewReader(b)
	c.Byte() // version, role, kind
	c.Byte()
	c.Byte()
	return c.Uvarint()
}

// lives calls fn with the Seq of each memory of an owner that has or had this ID,
// or one of the same hash, until it returns an error; kv.ErrStop is none.
func (tx *Tx) lives(owner uint32, id string, fn func(seq uint64) error) error {
	err := tx.holders(owner, id, func(c claim) error { return fn(c.seq) })
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return store.Error(doingHistories, err)
}
