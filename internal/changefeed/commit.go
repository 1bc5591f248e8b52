package changefeed

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// commit has the changes of a commit, as the log names them.
type commit struct {
	lsn   uint64
	time  int64
	steps []step
	// ranges are where among the steps the deaths of a death range belong.
	ranges []placedRange
}

// placedRange is a death range, and how many steps come before it.
type placedRange struct {
	at     layout.Change
	before int
}

// step is a change whose values are still to be read.
type step struct {
	op     wal.Op
	owner  uint32 // 0: it is to be looked for
	seq    uint64
	number uint32        // of the change within the commit, as versions have it
	before layout.Change // the version that it took the place of
	reason layout.Reason
	access layout.LoggedAccess
	tell   part.Telling // of a part
	shifts bool         // it, and what follows, may have had another number before
}

// decode reads a log record.
func decode(parts []part.Part, p logged) (*commit, error) {
	r, err := layout.ReadLog(p.lsn, p.record)
	if err != nil {
		return nil, err
	}
	c := &commit{lsn: p.lsn, time: r.Time}
	for n := range r.Changes {
		op := r.Op()
		ch, own, err := r.Own(op)
		switch {
		case err != nil:
			return nil, err
		case own:
			c.own(n, &ch)
			continue
		}
		teller := tellerOf(parts, part.Op(op))
		if teller == nil {
			return nil, r.Damaged(fmt.Sprintf("its operation %d is not known to this memdb", op), nil)
		}
		tell := teller.Tell(part.Op(op), r.Body())
		if tell != nil {
			c.steps = append(c.steps, step{tell: tell})
		} else if r.Body().Len() == 0 {
			break // of a clean-up of sessions, whose bodies have no end of their own
		}
	}
	return c, r.End()
}

// tellerOf is the part that has logged an operation, nil for none.
func tellerOf(parts []part.Part, op part.Op) part.Teller {
	for _, p := range parts {
		if t, ok := p.(part.Teller); ok && slices.Contains(p.Ops(), op) {
			return t
		}
	}
	return nil
}

// evictions are what readers call the reasons of an eviction.
var evictions = map[layout.Reason]wal.Op{layout.ReasonExpired: wal.OpExpire, layout.ReasonMerged: wal.OpMerge}

// own adds the steps of the change of a number of the memories.
func (c *commit) own(number uint32, ch *layout.LoggedChange) {
	one := step{owner: ch.Owner, seq: ch.Seq, number: ch.Change, before: ch.Before, reason: ch.Reason}
	switch ch.Op {
	case layout.LogAdd:
		one.op = wal.OpAdd
	case layout.LogUpdate:
		one.op = wal.OpUpdate
	case layout.LogPast:
		one.op = wal.OpPast
	case layout.LogDelete:
		one.op, one.number = wal.OpDelete, number
	case layout.LogReset:
		one.op = wal.OpReset
	case layout.LogSpace:
		one.op = wal.OpSpace
	case layout.LogErase:
		one.op = wal.OpErase
	case layout.LogErased:
		one.op = wal.OpErased
	case layout.LogRange:
		c.ranges = append(c.ranges, placedRange{layout.Change{Born: c.lsn, Number: ch.Change}, len(c.steps)})
		return
	case layout.LogEvict:
		one.op = cmp.Or(evictions[ch.Reason], wal.OpEvict)
		for _, one.seq = range ch.Seqs {
			c.steps = append(c.steps, one)
		}
		return
	case layout.LogTouch, layout.LogFold:
		for _, a := range ch.Accesses {
			c.steps = append(c.steps, step{op: wal.OpAccess, owner: a.Owner, seq: a.Seq, access: a})
		}
		return
	default: // LogMove and LogInternal change nothing that a reader sees
		return
	}
	c.steps = append(c.steps, one)
}
