package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// A tombstone is the LSN of a document's death. In a sealed chunk it stays, and one
// byte more says that the version's vectors are gone.
const (
	tombstoneSize    = 8
	tombstoneCleared = 1
)

func EncodeTombstone(lsn uint64, cleared bool) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, tombstoneSize+1), lsn)
	if cleared {
		b = append(b, tombstoneCleared)
	}
	return b
}

func DecodeTombstone(b []byte) (lsn uint64, cleared bool, err error) {
	cleared = len(b) == tombstoneSize+1 && b[tombstoneSize] == tombstoneCleared
	if len(b) != tombstoneSize && !cleared {
		return 0, false, &fault.Error{Kind: fault.ErrCorrupt, What: "read a tombstone", Why: "it is malformed", Do: "run check"}
	}
	return binary.BigEndian.Uint64(b), cleared, nil
}
