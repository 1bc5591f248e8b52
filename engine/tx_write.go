package engine

import (
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// set, del and merge write into the batch. They fail only where the batch is
// unusable, which breaks the transaction.
func (tx *Tx) set(key, value []byte) error {
	return tx.wrote(tx.batch.Set(key, value, nil))
}

// maxScratch bounds what is kept for the next value to be encoded.
const maxScratch = 1 << 20

// setEncoded is set of what encode appends. What it appends to is used again.
func (tx *Tx) setEncoded(key []byte, encode func(dst []byte) []byte) error {
	value := encode(tx.db.writer.scratch[:0])
	if cap(value) <= maxScratch {
		tx.db.writer.scratch = value
	}
	return tx.set(key, value)
}

func (tx *Tx) del(key []byte) error {
	return tx.wrote(tx.batch.Delete(key, nil))
}

func (tx *Tx) merge(key, value []byte) error {
	return tx.wrote(tx.batch.Merge(key, value, nil))
}

func (tx *Tx) wrote(err error) error {
	if err == nil {
		return nil
	}
	return tx.breaks(store.Error("write to a transaction", err))
}

// breaks marks the transaction as one that cannot commit: an operation stopped
// half-way.
func (tx *Tx) breaks(err error) error {
	if tx.broken == nil {
		tx.broken = err
	}
	return err
}

// need refuses an operation that would take the transaction over its limits, or the
// disk's last free space.
func (tx *Tx) need(doing string, size int) error { return tx.needFor(doing, 1, size) }

// needFor is need for an operation of several changes.
func (tx *Tx) needFor(doing string, changes, size int) error {
	if err := tx.within(doing, changes, size); err != nil {
		return err
	}
	if tx.frees {
		return tx.db.store.AdmitFreeing(doing, tx.written()+size)
	}
	return tx.db.store.Admit(doing, tx.written()+size)
}

// needToFree is need for an operation that frees space.
func (tx *Tx) needToFree(doing string, size int) error {
	if err := tx.within(doing, 1, size); err != nil {
		return err
	}
	return tx.db.store.AdmitFreeing(doing, tx.written()+size)
}

// written is what the transaction writes so far, in bytes: its log record joins the batch
// only when it is sealed.
func (tx *Tx) written() int { return tx.batch.Len() + len(tx.log) }

// within refuses what would take the transaction over its limits.
func (tx *Tx) within(doing string, changes, size int) error {
	if uint64(tx.changes)+uint64(changes) > MaxTxChanges {
		return &fault.Error{
			Kind: fault.ErrTxTooLarge, What: doing,
			Why: fmt.Sprintf("the transaction has %d changes, which is the limit", tx.changes), Do: "split it into several",
		}
	}
	if n := tx.written() + size; n > MaxTxBytes {
		return &fault.Error{
			Kind: fault.ErrTxTooLarge, What: doing,
			Why: fmt.Sprintf("the transaction would write %d bytes, the limit is %d", n, MaxTxBytes), Do: "split it into several",
		}
	}
	return nil
}
