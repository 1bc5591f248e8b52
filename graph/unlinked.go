package graph

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// What dies in great numbers in one commit, such as all memories of an owner, is more than that
// commit can take from the graph. Then the links of the memories, and what tells of relations, go
// behind, in a commit without the lock; that commit leaves a key for each entity and relation
// that only texts are the reason for, and the worker looks whether it is to go.

// looseKey says that an entity has lost its link to a memory. The Seq makes the key one of its
// own: a worker deletes no key that it has not seen.
func looseKey(v part.View, owner, number uint32, seq uint64) []byte {
	return be64(be32(be32(v.Key(kindDoomed, ownerSize+numSize+seqSize), owner), number), seq)
}

// isLoose reports whether a key of kindDoomed is one of looseKey.
func isLoose(key []byte) bool { return len(key) == keyHeader+ownerSize+numSize+seqSize }

// looseArcKey says that a memory does not tell of a relation any more.
func looseArcKey(v part.View, owner uint32, a arc, seq uint64) []byte {
	return be64(appendArc(be32(v.Key(kindDoomed, ownerSize+arcSize+seqSize), owner), a), seq)
}

// isLooseArc reports whether a key of kindDoomed is one of looseArcKey.
func isLooseArc(key []byte) bool { return len(key) == keyHeader+ownerSize+arcSize+seqSize }

// MemoryGone deletes the links to a memory, and what tells that it is the reason for relations.
func (*Part) MemoryGone(v part.View, owner uint32, seq uint64, del func(key []byte) error, set func(key, value []byte) error) error {
	r := &reader{View: v, owner: owner}
	arcs, err := r.saidBy(seq)
	if err != nil {
		return err
	}
	for _, a := range arcs {
		if err := errors.Join(del(saidKey(v, owner, a, seq)), del(saidByKey(v, owner, seq, a)), set(looseArcKey(v, owner, a, seq), nil)); err != nil {
			return err
		}
	}
	nums, err := r.linkedTo(seq)
	if err != nil {
		return err
	}
	for _, num := range nums {
		if err := errors.Join(del(linkKey(v, owner, num, seq)), del(linkedKey(v, owner, seq, num))); err != nil {
			return err
		}
		n, err := r.current(num)
		if err != nil || n.real() == nil || !n.extracted {
			continue // a check reports an entity that cannot be read; its links go
		}
		if err := set(looseKey(v, owner, num, seq), nil); err != nil {
			return err
		}
	}
	return nil
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
	} {
		if there, err := r.any(prefix); err != nil || there {
			return "", false, err
		}
	}
	return n.id, true, nil
}

// any reports whether a key begins with a prefix.
func (r *reader) any(prefix []byte) (there bool, err error) {
	err = each(r, prefix, func(_, _ []byte) error {
		there = true
		return kv.ErrStop
	})
	return there, err
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

// loose is an entity that has lost a link, or a relation that a memory told of, by its key.
type loose struct {
	owner uint32
	arc   arc // its number is that of an entity, if it has no type
	key   []byte
}

func looseOf(key []byte) loose {
	l := loose{owner: be32At(key, keyHeader), key: slices.Clone(key)}
	if at := keyHeader + ownerSize; isLooseArc(key) {
		l.arc = saidArc(key, at)
	} else {
		l.arc.number = be32At(key, at)
	}
	return l
}

// drop deletes an entity or a relation if nothing keeps it.
func (p *Part) drop(t part.Tx, l *loose) error {
	if l.arc.typ != 0 {
		return p.dropUnsaid(t, doingLoose, l.owner, l.arc)
	}
	return p.dropLoose(t, doingLoose, l.owner, l.arc.number)
}

// dropAll deletes those of some entities and relations that nothing keeps, and their keys.
func (p *Part) dropAll(ctx context.Context, run part.Runner, all []loose) error {
	if len(all) == 0 {
		return nil
	}
	return run.Update(ctx, doingLoose, func(t part.Tx) error {
		if err := t.NeedToFree(doingLoose, len(all)*freed); err != nil {
			return err
		}
		for _, l := range all {
			if err := p.drop(t, &l); err != nil {
				return err
			}
			if err := t.Delete(l.key); err != nil {
				return err
			}
			t.Log(opClean, append(numberValue(l.owner), numberValue(max(l.arc.number, l.arc.from))...))
		}
		return nil
	})
}
