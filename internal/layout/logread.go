package layout

import (
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// LogReader reads the changes of a log record, one after the other. They have no lengths: who does
// not know an operation cannot go on behind it.
type LogReader struct {
	// Time is that of the commit, in Unix milliseconds.
	Time int64
	// Changes is how many there are.
	Changes uint32

	lsn uint64
	c   *codec.Reader
}

// ReadLog returns a reader of the changes of the log record of an LSN. It returns ErrCorrupt for
// a damaged head and for an unknown version.
func ReadLog(lsn uint64, b []byte) (*LogReader, error) {
	c := codec.NewReader(b)
	v := c.Byte()
	l := &LogReader{Time: c.Varint(), lsn: lsn, c: c}
	for range 2 + NameClasses {
		c.Uvarint()
	}
	l.Changes = c.Uint32()
	if c.Err() != nil || v != logVersion {
		return nil, l.Damaged("its head is malformed", c.Err())
	}
	return l, nil
}

// Damaged is the error of a record that cannot be read on.
func (l *LogReader) Damaged(why string, cause error) error {
	return &fault.Error{
		Kind: fault.ErrCorrupt, What: fmt.Sprintf("read the log of LSN %d", l.lsn), Why: why, Cause: cause,
		Do: fmt.Sprintf("go on from LSN %d, and see what memories and histories hold", l.lsn+1),
	}
}

// Op reads the operation of the next change. The fields come next: by Own, or, where the operation
// is that of a part, by the part, from Body.
func (l *LogReader) Op() LogOp { return LogOp(l.c.Byte()) }

// Body is what was not read yet.
func (l *LogReader) Body() *codec.Reader { return l.c }

// End returns ErrCorrupt where the changes that were read are not the whole record.
func (l *LogReader) End() error {
	if l.c.Err() != nil || l.c.Len() > 0 {
		return l.Damaged("its changes are malformed", l.c.Err())
	}
	return nil
}

// LoggedChange is what the fields of a change of the memories say. Which there are depends on the
// operation: see the constants.
type LoggedChange struct {
	Op     LogOp
	Owner  uint32
	Seq    uint64
	Change uint32 // of the version that was born, or of the DeathRange
	Before Change // the version that died
	Reason Reason
	Policy uint32
	Seqs   []uint64 // of a LogEvict, rising, or of a LogErase
	Owners []uint32 // of a LogErase
	// Accesses are those of a LogTouch or a LogFold.
	Accesses []LoggedAccess
}

// LoggedAccess is what one memory of a LogTouch or a LogFold was accessed.
type LoggedAccess struct {
	Owner uint32
	Seq   uint64
	Count uint64 // counts wrap around
	Last  int64  // Unix milliseconds
}

// Own reads the fields of a change of the memories. own is false for the operation of a part, of
// which nothing was read.
func (l *LogReader) Own(op LogOp) (ch LoggedChange, own bool, err error) {
	c := l.c
	ch.Op = op
	switch op {
	case LogAdd, LogUpdate, LogPast:
		ch.Owner, ch.Seq, ch.Change = c.Uint32(), c.Uvarint(), c.Uint32()
		if op == LogUpdate {
			ch.Before = Change{c.Uvarint(), c.Uint32()}
		}
	case LogDelete:
		ch.Owner, ch.Seq = c.Uint32(), c.Uvarint()
		ch.Before = Change{c.Uvarint(), c.Uint32()}
	case LogRange:
		ch.Change = c.Uint32()
	case LogTouch, LogFold:
		ch.Accesses = readAccesses(c, op)
	case LogMove:
		for range c.Count() {
			c.Uint32()
		}
	case LogEvict:
		ch.Change, ch.Reason, ch.Policy = c.Uint32(), Reason(c.Byte()), c.Uint32()
		seq := uint64(0)
		for range c.Count() {
			seq += c.Uvarint()
			ch.Seqs = append(ch.Seqs, seq)
		}
		if ch.Reason >= Reasons {
			return ch, true, l.Damaged("it has an unknown reason", nil)
		}
	case LogErase:
		for range c.Count() {
			ch.Seqs = append(ch.Seqs, c.Uvarint())
		}
		for range c.Count() {
			ch.Owners = append(ch.Owners, c.Uint32())
		}
	case LogReset, LogSpace, LogInternal, LogErased:
	default:
		return ch, false, nil
	}
	if c.Err() != nil {
		return ch, true, l.Damaged("a change is malformed", c.Err())
	}
	return ch, true, nil
}

func readAccesses(c *codec.Reader, op LogOp) (all []LoggedAccess) {
	for range c.Count() {
		a := LoggedAccess{Owner: c.Uint32(), Seq: c.Uvarint(), Count: c.Uvarint(), Last: c.Varint()}
		if op == LogFold {
			c.Varint()  // debt
			c.Uvarint() // folded
		}
		if c.Err() != nil {
			return nil
		}
		all = append(all, a)
	}
	return all
}
