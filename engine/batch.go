package engine

import (
	"errors"
	"io"

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
