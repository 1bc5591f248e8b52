package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// logVersion is the first byte of a log record.
const logVersion = 1

// LogOp is the operation of a change in a log record.
type LogOp byte

// The operations, each with the fields that follow it. docs/format/log.md describes them.
const (
	LogAdd    LogOp = 1 // owner, seq, change
	LogUpdate LogOp = 2 // owner, seq, change, Born and Change of the version before
	LogDelete LogOp = 3 // owner, seq, Born and Change of the version that died
	LogRange  LogOp = 4 // change, of a DeathRange
	LogTouch  LogOp = 5 // number of memories, then owner, seq, count, last for each
	// 6 and 7 are those of entries, a part.
	LogReset    LogOp = 8  // none: everything before it is gone
	LogPast     LogOp = 9  // owner, seq, change: an import brought a version that was superseded already
	LogSpace    LogOp = 10 // none: a vector space got the next number, or spaces have other names; what they are stands under their names
	LogMove     LogOp = 11 // number of chunks, then each: their documents have numbers in another chunk now
	LogInternal LogOp = 12 // none: keys that no reader of the log asks for; layouts before 8, and early databases of 8, have a LogMove of no chunk
	// 41 and 42 are those of policies, a part.
	LogFold  LogOp = 43 // number of memories, then owner, seq, count, last, debt, folded for each
	LogEvict LogOp = 44 // change, of a DeathRange; reason (1 byte), policy, number of memories, the Seq of each as the difference from the one before
	// 45 and 46 are those of policies, a part.
	LogErase  LogOp = 47 // number of Seqs, then each; number of owners, then each: an erasure of these has begun
	LogErased LogOp = 48 // none: what stood here was of something that is erased
)

// AppendLogHead appends the head of a log record to b. now is the time of the commit in
// Unix milliseconds, next the state after the commit, and changes how many changes the
// caller appends.
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

// DecodeLogHead returns the Counters in the head of a log record. Those of the newest record
// are the state of the database. DecodeLogHead returns ErrCorrupt for damaged bytes and for
// an unknown version.
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

// LogHead is the head of a log record, whose changes may be replaced.
type LogHead struct {
	before []byte // the number of changes
	length int
}

// SplitLog returns the head of a log record and how many changes follow. It returns ErrCorrupt as
// DecodeLogHead does.
func SplitLog(b []byte) (LogHead, uint64, error) {
	if _, err := DecodeLogHead(b); err != nil {
		return LogHead{}, 0, err
	}
	r := codec.NewReader(b)
	r.Byte()
	r.Varint()
	for range 2 + NameClasses {
		r.Uvarint()
	}
	h := LogHead{before: b[:len(b)-r.Len()]}
	n := r.Uvarint()
	h.length = len(b) - r.Len()
	if r.Err() != nil {
		return LogHead{}, 0, &fault.Error{Kind: fault.ErrCorrupt, What: "read the log", Cause: r.Err()}
	}
	return h, n, nil
}

// Len is the length of the head with the number of changes.
func (h LogHead) Len() int { return h.length }

// With returns a record with the same head and so many other changes.
func (h LogHead) With(n uint64, changes []byte) []byte {
	b := binary.AppendUvarint(append(make([]byte, 0, h.length+len(changes)+1), h.before...), n)
	return append(b, changes...)
}

// LoggedTime returns the time, in Unix milliseconds, of a log record that DecodeLogHead has read.
func LoggedTime(b []byte) int64 {
	r := codec.NewReader(b)
	r.Byte()
	return r.Varint()
}

// LoggedAccesses visits the memories whose accesses are the first changes of a log record that
// DecodeLogHead has read. Those that recalls have gathered are the first of a commit. What
// follows other changes is not visited: those of parts are read by their parts alone.
func LoggedAccesses(b []byte, visit func(owner uint32, seq uint64)) {
	r := codec.NewReader(b)
	r.Byte()
	r.Varint()
	for range 2 + NameClasses {
		r.Uvarint()
	}
	for changes := r.Uvarint(); changes > 0 && r.Err() == nil; changes-- {
		op := LogOp(r.Byte())
		if op != LogTouch && op != LogFold {
			return
		}
		for n := r.Uvarint(); n > 0 && r.Err() == nil; n-- {
			owner, seq := r.Uint32(), r.Uvarint()
			r.Uvarint() // count
			r.Varint()  // last
			if op == LogFold {
				r.Varint()  // debt
				r.Uvarint() // folded
			}
			if r.Err() == nil {
				visit(owner, seq)
			}
		}
	}
}

// Counters hold how far the numbers that are never reused have been given out.
type Counters struct {
	Seq   uint64              // the highest Seq given out
	Doc   uint32              // the next document number to give out
	Names [NameClasses]uint32 // by NameClass: the highest number given out; place 0 is unused
}
