package store

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// A batch of leastOrdered to mostOrdered operations and of at most mostOrderedBytes is put
// in order: a smaller one gains little, a larger one takes much memory.
const (
	leastOrdered, mostOrdered = 16, 1 << 13
	mostOrderedBytes          = 4 << 20
)

// Orderer puts batches in the order of their keys. It keeps its memory from one batch to
// the next.
type Orderer struct{ ops []operation }

// operation is one operation of a batch. Key and value are slices of the batch.
type operation struct {
	at         int // its place in the batch
	kind       pebble.InternalKeyKind
	key, value []byte
}

// InOrder puts the operations of the batch in the order of their keys. The memtable begins
// its search where the last key was put: with ascending keys, such as doc IDs and LSNs, it
// searches nothing, and with other keys it begins nearby. The operations of one key stay in
// their order. A batch with range deletes, or other operations that are not simple, is left
// as it is, and so is any while batches are shipped to an outlet.
func (o *Orderer) InOrder(s *Store, b *pebble.Batch) (*pebble.Batch, error) {
	if n := b.Count(); n < leastOrdered || n > mostOrdered || b.Len() > mostOrderedBytes || s.Shipping() && s.config.Sent == nil {
		return b, nil
	}
	defer func() { clear(o.ops) }() // they refer to a batch that is to be closed
	o.ops = o.ops[:0]
	for r := b.Reader(); ; {
		kind, key, value, more, err := r.Next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		switch kind {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete, pebble.InternalKeyKindMerge:
		default:
			return b, nil
		}
		o.ops = append(o.ops, operation{len(o.ops), kind, key, value})
	}
	slices.SortFunc(o.ops, func(a, b operation) int { return cmp.Or(bytes.Compare(a.key, b.key), a.at-b.at) })
	out := s.NewBatchWithSize(b.Len())
	for _, op := range o.ops {
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
			return nil, errors.Join(err, out.Close())
		}
	}
	_ = b.Close() // nothing of it is needed
	return out, nil
}
