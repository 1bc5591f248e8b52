package graph

import (
	"context"
	"errors"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// An entity that only texts are the reason for, [Entity].Extracted, goes with its last link
// to a memory, unless it has relations or others were merged into it. Where a call removes the
// link, the entity goes in the same commit. Where a memory is deleted, evicted or expires, its
// links go behind, in a commit without the lock; that commit leaves a key for each such entity,
// and the worker looks whether the entity is to go.

// looseKey says that an entity has lost its link to a memory. The Seq makes the key one of its
// own: a worker deletes no key that it has not seen.
func looseKey(v part.View, owner, number uint32, seq uint64) []byte {
	return be64(be32(be32(v.Key(kindDoomed, ownerSize+numSize+seqSize), owner), number), seq)
}

// isLoose reports whether a key of kindDoomed is one of looseKey.
func isLoose(key []byte) bool { return len(key) == keyHeader+ownerSize+numSize+seqSize }

// MemoryGone deletes the links to a memory.
func (*Part) MemoryGone(v part.View, owner uint32, seq uint64, del func(key []byte) error, set func(key, value []byte) error) error {
	r := &reader{View: v, owner: owner}
	return each(v, be64(section(v, kindGraph, owner, secLinked, seqSize), seq), func(key, _ []byte) error {
		num := be32At(key, len(key)-numSize)
		if num == 0 {
			return layout.BadKey("link", key)
		}
		if err := errors.Join(del(linkKey(v, owner, num, seq)), del(linkedKey(v, owner, seq, num))); err != nil {
			return err
		}
		n, err := r.current(num)
		if err != nil || n.real() == nil || !n.extracted {
			return nil //nolint:nilerr // a check reports an entity that cannot be read; its links go
		}
		return set(looseKey(v, owner, num, seq), nil)
	})
}

// isToGo reports whether an entity was only ever extracted, and nothing refers to it any more.
func (r *reader) isToGo(num uint32) (id string, goes bool, err error) {
	n, err := r.current(num)
	if err != nil || n.real() == nil || !n.extracted {
		return "", false, err
	}
	for _, prefix := range [][]byte{
		be32(section(r, kindGraph, r.owner, secLink, numSize), num),
		be32(section(r, kindArc, r.owner, secOut, numSize), num),
		be32(section(r, kindArc, r.owner, secIn, numSize), num),
		be32(section(r, kindGraph, r.owner, secMerged, numSize), num),
	} {
		there := false
		err := each(r, prefix, func(_, _ []byte) error {
			there = true
			return kv.ErrStop
		})
		if errors.Is(err, kv.ErrStop) {
			err = nil
		}
		if err != nil || there {
			return "", false, err
		}
	}
	return n.id, true, nil
}

// dropLoose deletes an entity if nothing keeps it.
func (p *Part) dropLoose(t part.Tx, doing string, owner, num uint32) error {
	id, goes, err := (&reader{View: t, owner: owner}).isToGo(num)
	if err == nil && goes {
		_, err = p.remove(t, doing, owner, id)
	}
	return err
}

const doingLoose = "delete entities of the graph that no text mentions any more"

// loose is an entity that has lost a link, by its key.
type loose struct {
	owner, number uint32
	key           []byte
}

// dropAll deletes those of some entities that nothing keeps, and their keys.
func (p *Part) dropAll(ctx context.Context, run part.Runner, all []loose) error {
	if len(all) == 0 {
		return nil
	}
	return run.Update(ctx, doingLoose, func(t part.Tx) error {
		if err := t.NeedToFree(doingLoose, len(all)*freed); err != nil {
			return err
		}
		for _, l := range all {
			if err := p.dropLoose(t, doingLoose, l.owner, l.number); err != nil {
				return err
			}
			if err := t.Delete(l.key); err != nil {
				return err
			}
			t.Log(opClean, append(numberValue(l.owner), numberValue(l.number)...))
		}
		return nil
	})
}
