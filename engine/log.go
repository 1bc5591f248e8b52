package engine

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

func (tx *Tx) logVersioned(op layout.LogOp, v layout.Version, before *layout.Version) {
	tx.log = append(tx.log, byte(op))
	tx.log = binary.AppendUvarint(tx.log, uint64(v.Owner))
	tx.log = binary.AppendUvarint(tx.log, v.Seq)
	if op != layout.LogDelete {
		tx.log = binary.AppendUvarint(tx.log, uint64(v.Change))
	}
	if before != nil {
		tx.log = binary.AppendUvarint(tx.log, before.Born)
		tx.log = binary.AppendUvarint(tx.log, uint64(before.Change))
	}
}
