package shipping

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// Change is one change of a batch. Key and Value are slices of the batch.
type Change struct {
	Kind       pebble.InternalKeyKind
	Key, Value []byte
}

// Changes visits the changes of a batch in their order. It returns ErrCorrupt for a damaged batch.
func Changes(repr []byte, visit func(Change) error) (err error) {
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
		if err := visit(Change{kind, key, value}); err != nil {
			return err
		}
	}
}

// Logged reports whether the change writes a record of the log, which ends the commit of an LSN.
func (c Change) Logged() (lsn uint64, ok bool) {
	if c.Kind != pebble.InternalKeyKindSet || len(c.Key) == 0 || c.Key[0] != layout.KindLog {
		return 0, false
	}
	return layout.ParseLSNKey(c.Key)
}

// Erases reports whether the change ends an erasure.
func (c Change) Erases() bool {
	return c.Kind == pebble.InternalKeyKindDelete && string(c.Key) == string(layout.ErasureKey)
}

// NewestCommit is the newest commit in a batch of a frame and when it was made, in Unix milliseconds; 0 and 0
// if the batch has none, or is damaged.
func NewestCommit(batch []byte) (lsn uint64, at int64) {
	err := Changes(batch, func(c Change) error {
		if n, ok := c.Logged(); ok && n > lsn {
			lsn, at = n, layout.LoggedTime(c.Value)
		}
		return nil
	})
	if err != nil {
		return 0, 0
	}
	return lsn, at
}
