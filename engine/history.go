package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The adds and updates of a memory are its versions, which stay; only a death
// needs an entry of its own.

// History lists what happened to the memories that have or had this ID, oldest
// first; it stays readable after a delete. An empty scope finds the ID in any
// owner; ErrNotFound where there never was one, ErrAmbiguous where there are
// several owners.
func (m Memories) History(ctx context.Context, s memory.Scope, id string) (entries []memory.HistoryEntry, err error) {
	doing := fmt.Sprintf("read the history of memory %q", valid.Short(id))
	if s != (memory.Scope{}) {
		if err := scope.Check(doing, s); err != nil {
			return nil, err
		}
	}
	err = m.view(ctx, doing, func(tx *Tx) error {
		entries, err = tx.reader().History(doing, s, m.lack, id)
		return err
	})
	return entries, err
}

// Histories iterates over what happened to each memory that was updated, has
// expired or is gone: the entries of one memory at a time, in the order of Seq. A
// memory that was only added is left out, since it tells its own add. It holds one
// state for as long as it runs, and 16 bytes of memory for each such memory.
func (m Memories) Histories(ctx context.Context, q memory.HistoryQuery) iter.Seq2[[]memory.HistoryEntry, error] {
	return func(yield func([]memory.HistoryEntry, error) bool) {
		var err error
		if err = memory.CheckScope(records.DoingHistories, q.Scope, q.AllScopes); err == nil {
			err = m.view(ctx, records.DoingHistories, func(tx *Tx) error { return tx.reader().Histories(ctx, &q, yield) })
		}
		if err != nil && !errors.Is(err, kv.ErrStop) {
			yield(nil, err)
		}
	}
}
