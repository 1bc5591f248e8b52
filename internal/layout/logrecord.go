package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// logVersion is the first byte of a log record.
const logVersion = 1

// LogOp is what a change of a log record did.
type LogOp byte

const (
	LogAdd    LogOp = 1  // owner, seq, change
	LogUpdate LogOp = 2  // owner, seq, change, born and change of the version before
	LogDelete LogOp = 3  // owner, seq, born and change of the version that died
	LogRange  LogOp = 4  // change: a death range
	LogTouch  LogOp = 5  // number of memories, then owner, seq, count, last for each
	LogPut    LogOp = 6  // owner, key, the entry as it is stored
	LogUnput  LogOp = 7  // owner, key
	LogReset  LogOp = 8  // everything before it is gone
	LogPast   LogOp = 9  // owner, seq, change: a version that was superseded before it came here
	LogSpace  LogOp = 10 // a vector space was made, whose name says the rest
	LogMove   LogOp = 11 // number of chunks, each: their documents are in another chunk now
)

// AppendLogHead begins a log record: when the commit was, what has been given out after
// it, and how many changes follow.
func AppendLogHead(b []byte, now int64, next *Counters, changes uint32) []byte {
	b = append(b, logVersion)
	b = binary.AppendVarint(b, now)
	b = binary.AppendUvarint(b, next.Seq)
	b = binary.AppendUvarint(b, uint64(next.Doc))
	for _, n := range next.Names {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return binary.AppendUvarint(b, uint64(changes))
}

// DecodeLogHead reads what a log record says about the state after it.
func DecodeLogHead(b []byte) (next Counters, err error) {
	r := codec.NewReader(b)
	v := r.Byte()
	r.Varint() // time
	next.Seq, next.Doc = r.Uvarint(), r.Uint32()
	for i := range next.Names {
		next.Names[i] = r.Uint32()
	}
	if r.Err() != nil || v != logVersion {
		return next, &fault.Error{Kind: fault.ErrCorrupt, What: "read the log", Cause: r.Err()}
	}
	return next, nil
}

// Counters give out what is never reused.
type Counters struct {
	Seq   uint64
	Doc   uint32
	Names [NameClasses]uint32
}
