package engine

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// batchReader reads what a transaction has written over the newest state of the
// store. The batch is indexed when that is asked for: most stores look nothing up,
// and the index of a batch costs more than the batch.
type batchReader struct{ tx *Tx }

func (r batchReader) Get(key []byte) ([]byte, io.Closer, error) {
	reader, err := r.tx.readable()
	if err != nil {
		return nil, nil, err
	}
	return reader.Get(key)
}

func (r batchReader) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	reader, err := r.tx.readable()
	if err != nil {
		return nil, err
	}
	return reader.NewIter(o)
}

// readable is what the transaction reads, with all that it has written so far.
func (tx *Tx) readable() (kv.Reader, error) {
	switch {
	case tx.batch == nil || !tx.searchable && tx.batch.Empty(): // applied, or nothing is written
		return tx.db.store, nil
	case tx.searchable:
		return tx.batch, nil
	}
	indexed := tx.db.store.NewIndexedBatch()
	if err := indexed.Apply(tx.batch, nil); err != nil {
		return nil, errors.Join(err, indexed.Close())
	}
	plain := tx.batch
	tx.batch, tx.searchable = indexed, true
	return tx.batch, plain.Close()
}

// A batch of leastOrdered to mostOrdered operations and of at most maxGroupBytes is put
// in order: a smaller one gains little, a larger one takes much memory.
const leastOrdered, mostOrdered = 16, 1 << 13

// operation is one of a batch. Key and value are parts of the batch.
type operation struct {
	at         int // its place in the batch
	kind       pebble.InternalKeyKind
	key, value []byte
}

// inOrder puts the operations of the batch in the order of their keys. The memtable is
// searched from where the last key was put: not at all for keys that ascend, as documents
// and LSNs do, and from nearby for the others. The operations of a key stay in their
// order. A batch with others than simple operations is left as it is.
func (tx *Tx) inOrder() error {
	db, b := tx.db, tx.batch
	if n := b.Count(); n < leastOrdered || n > mostOrdered || b.Len() > maxGroupBytes {
		return nil
	}
	defer func() { clear(db.ops) }() // they refer to a batch that is to be closed
	db.ops = db.ops[:0]
	for r := b.Reader(); ; {
		kind, key, value, more, err := r.Next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		switch kind {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete, pebble.InternalKeyKindMerge:
		default:
			return nil
		}
		db.ops = append(db.ops, operation{len(db.ops), kind, key, value})
	}
	slices.SortFunc(db.ops, func(a, b operation) int { return cmp.Or(bytes.Compare(a.key, b.key), a.at-b.at) })
	out := db.store.NewBatchWithSize(b.Len())
	for _, op := range db.ops {
		var err error
		switch op.kind {
		case pebble.InternalKeyKindSet:
			err = out.Set(op.key, op.value, nil)
		case pebble.InternalKeyKindDelete:
			err = out.Delete(op.key, nil)
		default:
			err = out.Merge(op.key, op.value, nil)
		}
		if err != nil {
			return errors.Join(err, out.Close())
		}
	}
	tx.closeBatch()
	tx.batch, tx.searchable = out, false
	return nil
}
