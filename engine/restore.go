package engine

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Restore stores memories with their histories, for imports: it is
// [Memories.StoreBatch] where a life has no history. One that has is written
// whole, under one Seq, with its old texts, times and runs; of its old versions
// nothing else is known. A life whose memory is there already is left to what
// StoreBatch does with the memory, without its history; one that is gone is left
// out where the same events, with the same texts and times, were in the history of
// that ID already (see RestoreOptions).
func (m Memories) Restore(ctx context.Context, lives []memory.Life, o *memory.RestoreOptions) ([]memory.Stored, error) {
	if o == nil {
		o = &memory.RestoreOptions{}
	}
	now, err := m.beginStore()
	if err != nil {
		return nil, err
	}
	ps, results, err := m.prepareEach(ctx, len(lives), o.SkipInvalid, func(i int) (*records.Prepared, error) {
		return m.prepareLife(ctx, &lives[i], now)
	})
	if err != nil {
		return nil, err
	}
	err = m.update(ctx, records.DoingStore, func(tx *Tx) error {
		return tx.storeEach(results, o.SkipInvalid, func(i int) (memory.Stored, error) {
			if results[i].Err != nil {
				return results[i], nil
			}
			return tx.rec.StoreLife(&lives[i], ps[i], o)
		})
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// prepareLife does all that needs no lock; nil for a life that is gone.
func (m Memories) prepareLife(ctx context.Context, l *memory.Life, now int64) (*records.Prepared, error) {
	if len(l.History) > 0 {
		if err := l.Check(records.DoingRestore); err != nil {
			return nil, err
		}
	} else if l.Memory == nil {
		return nil, fault.Invalid(records.DoingRestore, "it has neither a memory nor a history", "give at least one of them")
	}
	if l.Memory == nil {
		return nil, nil
	}
	return m.prepare(ctx, l.Memory, now)
}
