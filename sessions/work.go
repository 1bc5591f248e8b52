package sessions

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

const (
	// workEvery is how often what no session shows any more is removed.
	workEvery = time.Minute
	// choreBatch bounds the chores, and the messages, that one commit works on.
	choreBatch = 1000
	// asideLease is for how long a content that is written aside is not taken for one
	// whose writer is gone. Each commit of the writer renews it.
	asideLease = 10 * time.Minute

	// noContent is the content of a chore that removes the states before its LSN.
	noContent = 0

	doingWork = "remove what no session shows"
)

// chore is something to be removed once nobody reads a state before its LSN: the positions
// of a content below one.
type chore struct {
	below uint32
	until int64 // of a content that is written aside: when its writer must be gone; else 0
}

func (c chore) encode() []byte {
	b := binary.AppendUvarint([]byte{recordVersion}, uint64(c.below))
	return binary.AppendVarint(b, c.until)
}

func decodeChore(b []byte) (c chore, err error) {
	r := codec.NewReader(b)
	v := r.Byte()
	c = chore{below: r.Uint32(), until: r.Varint()}
	if r.Err() != nil || v != recordVersion || r.Len() > 0 {
		return chore{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read a chore of a session", Cause: r.Err()}
	}
	return c, nil
}

// Every is how often Work is called.
func (*Part) Every() time.Duration { return workEvery }

// placedChore is a chore with what its key says.
type placedChore struct {
	chore
	at      place
	lsn     uint64
	content uint32
}

// Work removes what no session shows, and nobody reads, any more.
func (p *Part) Work(ctx context.Context, r part.Runner) error {
	for progress := true; progress && ctx.Err() == nil; {
		var due []placedChore
		err := r.View(ctx, doingWork, func(v part.View) (err error) {
			due, err = dueChores(v, p.oldest.Load())
			return err
		})
		if err != nil || len(due) == 0 {
			return err
		}
		err = r.Update(ctx, doingWork, func(t part.Tx) error {
			left := choreBatch
			progress = false
			for _, c := range due {
				if left <= 0 {
					return nil
				}
				did, err := c.do(t, &left)
				if err != nil {
					return err
				}
				progress = progress || did
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func dueChores(v part.View, oldest uint64) (due []placedChore, err error) {
	lower, upper := span(v.Key(kindChore, 0))
	err = v.Scan(lower, upper, func(key, value []byte) error {
		c := placedChore{}
		var known, ok bool
		c.at, known = parsePlace(key)
		if c.lsn, c.content, ok = parseChore(key); !ok || !known {
			return layout.BadKey("chore", key)
		}
		if c.chore, err = decodeChore(value); err != nil {
			return err
		}
		if c.until == 0 && c.lsn > oldest || c.until > v.Now() {
			return nil
		}
		if due = append(due, c); len(due) == choreBatch {
			return kv.ErrStop
		}
		return nil
	})
	return due, err
}

// do does a chore, or, where it is long, a part of it. left counts down what one commit
// may still do.
func (c *placedChore) do(t part.Tx, left *int) (did bool, err error) {
	if err := t.NeedToFree(doingWork, stateBytes); err != nil {
		return false, err
	}
	key := c.at.chore(t, c.lsn, c.content)
	b, found, err := t.Get(key)
	if err != nil || !found {
		return false, err // done with another one
	}
	if now, err := decodeChore(b); err != nil || now.until > t.Now() {
		return false, err // its writer goes on
	}
	*left--
	h, err := stored(t, c.at)
	if err != nil {
		return false, err
	}
	if h != nil && !h.live() && h.version == c.lsn {
		return c.bury(t)
	}
	whole := true
	switch {
	case c.content == noContent:
		err = t.DeleteRange(c.at.state(t, 0), c.at.state(t, c.lsn))
	case c.below == math.MaxUint32:
		err = c.wipe(t)
	default:
		whole, err = c.trim(t, left)
	}
	if err == nil && whole {
		err = t.Delete(key)
	}
	t.Log(opRemove, logged(c.at, numbers(c.content, c.below)))
	return true, err
}

// bury removes all of a session that was deleted and not made again since, unless somebody
// is writing it anew.
func (c *placedChore) bury(t part.Tx) (did bool, err error) {
	lower, upper := span(c.at.key(t, kindChore, 0))
	written := false
	err = t.Scan(lower, upper, func(_, b []byte) error {
		other, err := decodeChore(b)
		written = written || other.until > t.Now()
		return err
	})
	if err != nil || written {
		return false, err
	}
	for _, kind := range []byte{kindState, kindMessage, kindMarker, kindID, kindChore} {
		if err := t.DeleteRange(span(c.at.key(t, kind, 0))); err != nil {
			return false, err
		}
	}
	t.Log(opRemove, logged(c.at, nil))
	return true, t.Delete(c.at.head(t))
}

// wipe removes a content, unless a session shows it or can go back to it.
func (c *placedChore) wipe(t part.Tx) error {
	h, err := stored(t, c.at)
	if err != nil || h != nil && h.live() && (h.content == c.content || h.undo.content == c.content) {
		return err
	}
	for _, kind := range []byte{kindMessage, kindMarker, kindID} {
		if err := t.DeleteRange(span(c.at.content(t, kind, c.content))); err != nil {
			return err
		}
	}
	return nil
}

// trim removes the first positions of a content, as many as one commit may.
func (c *placedChore) trim(t part.Tx, left *int) (whole bool, err error) {
	below := c.below
	type named struct {
		id       string
		position uint32
	}
	var gone []named
	err = eachMessage(t, c.at, c.content, 0, c.below, func(position uint32, m *Message) error {
		if len(gone) >= *left {
			below = position
			return kv.ErrStop
		}
		gone = append(gone, named{m.ID, position})
		return nil
	})
	if err != nil {
		return false, err
	}
	*left -= len(gone)
	for _, m := range gone {
		if m.id == "" {
			continue
		}
		key := c.at.id(t, c.content, m.id)
		b, found, err := t.Get(key)
		if err != nil {
			return false, err
		}
		if at, ok := readNumber(b); found && ok && at == m.position {
			if err := t.Delete(key); err != nil {
				return false, err
			}
		}
	}
	for _, kind := range []byte{kindMessage, kindMarker} {
		if err := t.DeleteRange(c.at.at(t, kind, c.content, 0), c.at.at(t, kind, c.content, below)); err != nil {
			return false, err
		}
	}
	return below == c.below, nil
}
