package engine

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// keyChange is one change of a batch. Key and value are slices of the batch.
type keyChange struct {
	kind       pebble.InternalKeyKind
	key, value []byte
}

// changesOf visits the changes of a batch in their order. A batch that is damaged is ErrCorrupt.
func changesOf(repr []byte, visit func(keyChange) error) (err error) {
	damaged := func(cause any) error {
		return &fault.Error{Kind: fault.ErrCorrupt, What: "read a batch of changes", Why: fmt.Sprint(cause), Do: "begin again from a base"}
	}
	defer func() {
		if p := recover(); p != nil { // Pebble asserts on what it did not write
			err = damaged(p)
		}
	}()
	if len(repr) < batchrepr.HeaderLen {
		return damaged("it is cut off")
	}
	for r := batchrepr.Read(repr); ; {
		kind, key, value, more, err := r.Next()
		if err != nil {
			return damaged(err)
		}
		if !more {
			return nil
		}
		if err := visit(keyChange{kind, key, value}); err != nil {
			return err
		}
	}
}

// logged reports whether the change writes a record of the log, which ends a commit.
func (c keyChange) logged() (lsn uint64, ok bool) {
	if c.kind != pebble.InternalKeyKindSet || len(c.key) == 0 || c.key[0] != layout.KindLog {
		return 0, false
	}
	return layout.ParseLSNKey(c.key)
}

// NewestCommit is the newest commit in a batch of a frame and when it was made, in Unix milliseconds; 0 and 0 where
// there is none.
func NewestCommit(batch []byte) (lsn uint64, at int64) {
	err := changesOf(batch, func(c keyChange) error {
		if n, ok := c.logged(); ok && n > lsn {
			lsn, at = n, layout.LoggedTime(c.value)
		}
		return nil
	})
	if err != nil {
		return 0, 0
	}
	return lsn, at
}

// erases reports whether the change ends an erasure.
func (c keyChange) erases() bool {
	return c.kind == pebble.InternalKeyKindDelete && string(c.key) == string(layout.ErasureKey)
}
