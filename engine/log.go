package engine

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
)

// logVersion is the first byte of a log record.
const logVersion = 1

// logOp is what a change of a log record did.
type logOp byte

const (
	logAdd    logOp = 1  // owner, seq, change
	logUpdate logOp = 2  // owner, seq, change, born and change of the version before
	logDelete logOp = 3  // owner, seq, born and change of the version that died
	logRange  logOp = 4  // change: a death range
	logTouch  logOp = 5  // number of memories, then owner, seq, count, last for each
	logPut    logOp = 6  // owner, key, the entry as it is stored
	logUnput  logOp = 7  // owner, key
	logReset  logOp = 8  // everything before it is gone
	logPast   logOp = 9  // owner, seq, change: a version that was superseded before it came here
	logSpace  logOp = 10 // a vector space was made, whose name says the rest
	logMove   logOp = 11 // number of chunks, each: their documents are in another chunk now
)

func (tx *Tx) logVersioned(op logOp, v version, before *version) {
	tx.log = append(tx.log, byte(op))
	tx.log = binary.AppendUvarint(tx.log, uint64(v.owner))
	tx.log = binary.AppendUvarint(tx.log, v.seq)
	if op != logDelete {
		tx.log = binary.AppendUvarint(tx.log, uint64(v.change))
	}
	if before != nil {
		tx.log = binary.AppendUvarint(tx.log, before.born)
		tx.log = binary.AppendUvarint(tx.log, uint64(before.change))
	}
}

// decodeLogHead reads what a log record says about the state after it.
func decodeLogHead(b []byte) (next counters, err error) {
	r := codec.NewReader(b)
	v := r.Byte()
	r.Varint() // time
	next.seq, next.doc = r.Uvarint(), r.Uint32()
	for i := range next.names {
		next.names[i] = r.Uint32()
	}
	if r.Err() != nil || v != logVersion {
		return next, &Error{Kind: ErrCorrupt, What: "read the log", Cause: r.Err()}
	}
	return next, nil
}
