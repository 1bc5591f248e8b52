package sessions

import (
	"context"
	"math"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// DeleteOptions changes what Delete does. nil is the default.
type DeleteOptions struct {
	// Memories deletes, with the session, the memories that its messages and markers refer
	// to, as far as the session is their run.
	Memories bool
}

// Deleted is what Delete has removed.
type Deleted struct {
	// Deleted counts sessions, Messages and Memories what went with them.
	Deleted  int `json:"deleted"`
	Messages int `json:"messages"`
	Memories int `json:"memories"`
}

const (
	// deleteBatch bounds the memories that one commit deletes.
	deleteBatch = 1000
	// deletedBytes is about what the delete of a memory writes.
	deletedBytes = 512
)

// Delete removes a session, ErrNotFound where there is none. The session is gone with one
// commit, however long it is. Its memories are deleted before, in commits of bounded size
// outside a transaction: where that is interrupted, the same call goes on with it.
func (s Sessions) Delete(ctx context.Context, o scope.Owner, name string, opts *DeleteOptions) (out Deleted, err error) {
	doing := named("delete", name)
	if err := checkName(doing, o, name); err != nil {
		return Deleted{}, err
	}
	if opts != nil && opts.Memories {
		if out.Memories, err = s.deleteMemories(ctx, doing, o, name); err != nil {
			return Deleted{}, err
		}
	}
	err = s.run.Append(ctx, doing, stateBytes, func(t part.Tx) error {
		if err := t.NeedToFree(doing, stateBytes); err != nil {
			return err
		}
		c, err := beginKnown(t, doing, o, name)
		if err != nil {
			return err
		}
		out.Deleted, out.Messages = 1, c.count()
		return c.remove()
	})
	if err != nil {
		return Deleted{}, err
	}
	return out, nil
}

// remove leaves a session that nobody sees, until what belongs to it is removed.
func (c *change) remove() error {
	if err := c.unlist(); err != nil {
		return err
	}
	if err := c.Count(kindSession, c.at.owner, -1); err != nil {
		return err
	}
	c.flags = 0
	c.version, c.state = c.LSN(), c.LSN()
	value := c.encode(nil)
	if err := c.Set(c.at.state(c, c.state), value); err != nil {
		return err
	}
	if err := c.later(noContent, 0); err != nil {
		return err
	}
	for _, content := range []uint32{c.content, c.undo.content} {
		if content == noContent {
			continue
		}
		if err := c.later(content, math.MaxUint32); err != nil {
			return err
		}
	}
	c.Log(opSession, logged(c.at, value))
	return c.Set(c.at.head(c), value)
}

// deleteMemories deletes the memories of a session, and returns how many there were.
func (s Sessions) deleteMemories(ctx context.Context, doing string, o scope.Owner, name string) (n int, err error) {
	var content, next uint32
	for more := true; more; {
		var seqs []uint64
		err = s.run.View(ctx, doing, func(v part.View) error {
			p, h, err := find(v, doing, o, name)
			if err != nil {
				return err
			}
			if content != h.content { // begun, or the session was saved meanwhile
				content, next = h.content, h.first
			}
			seqs, next, err = ownMemories(v, p, h, next)
			more = next < h.next
			return err
		})
		if err != nil {
			return n, err
		}
		err = s.run.Update(ctx, doing, func(t part.Tx) error {
			if err := t.NeedToFree(doing, deletedBytes*len(seqs)); err != nil {
				return err
			}
			for _, seq := range seqs {
				deleted, err := t.DeleteMemory(seq)
				if err != nil {
					return err
				}
				if deleted {
					n++
				}
			}
			return nil
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// ownMemories are memories that a session refers to and is the run of, from a position on:
// about deleteBatch of them, and those of the markers with the last ones. next is the
// position to go on from.
func ownMemories(v part.View, p place, h *head, from uint32) (seqs []uint64, next uint32, err error) {
	var pieces []piece
	next = h.next
	err = eachMessage(v, p, h.content, from, h.next, func(position uint32, m *Message) error {
		if len(pieces) >= deleteBatch {
			next = position
			return kv.ErrStop
		}
		pieces = append(pieces, m.pieces...)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if next == h.next {
		all, err := markers(v, p, h)
		if err != nil {
			return nil, 0, err
		}
		for _, m := range all {
			pieces = append(pieces, piece{id: m.ArchiveID})
		}
	}
	for _, of := range pieces {
		if of.id == "" {
			continue
		}
		mem, lives, err := memoryOf(v, h.of, of)
		if err == nil && !lives && of.seq != 0 {
			mem, lives, err = v.Survivor(p.owner, of.seq)
		}
		if err != nil {
			return nil, 0, err
		}
		if lives && mem.Owner == p.owner && mem.Scope.Run == h.name {
			seqs = append(seqs, mem.Seq)
		}
	}
	return seqs, next, nil
}
