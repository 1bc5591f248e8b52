package graph

import (
	"encoding/binary"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// A relation that texts tell of knows them: for each memory that says it there is a key from
// the relation to the memory, and one back. A relation that only texts are the reason for,
// [Relation].Extracted, goes with the last of them, with its superseded versions that only texts
// were the reason for.
//
// The keys name the entities that the text spoke of, also once these were merged into others.
// So what is asked of a relation is asked of all that were merged into its ends, and the undoing
// of a merge finds each relation with the texts of its own.

func saidKey(v part.View, owner uint32, a arc, seq uint64) []byte {
	return be64(appendArc(section(v, kindGraph, owner, secSaid, arcSize+seqSize), a), seq)
}

func saidByKey(v part.View, owner uint32, seq uint64, a arc) []byte {
	return appendArc(be64(section(v, kindGraph, owner, secSaidBy, seqSize+arcSize), seq), a)
}

// saidArc reads the arc in a key of saidKey or saidByKey, behind a prefix.
func saidArc(k []byte, at int) arc {
	return arc{from: be32At(k, at), typ: be32At(k, at+numSize), to: be32At(k, at+2*numSize)}
}

// saidBy are the relations that the text of a memory tells of.
func (r *reader) saidBy(seq uint64) (all []arc, err error) {
	prefix := be64(section(r, kindGraph, r.owner, secSaidBy, seqSize+arcSize), seq)
	err = each(r, prefix, func(key, _ []byte) error {
		if len(key) != len(prefix)+arcSize {
			return layout.BadKey("said relation", key)
		}
		all = append(all, saidArc(key, len(prefix)))
		return nil
	})
	return all, err
}

// saidKeys are the keys, both of each, of the memories that tell of a relation.
func saidKeys(v part.View, owner uint32, a arc) (keys [][]byte, err error) {
	prefix := appendArc(section(v, kindGraph, owner, secSaid, arcSize+seqSize), a)
	err = each(v, prefix, func(key, _ []byte) error {
		keys = append(keys, slices.Clone(key), saidByKey(v, owner, be64At(key, len(key)-seqSize), a))
		return nil
	})
	return keys, err
}

// isSaid reports whether a memory tells of a relation, or of one that a merge has made it of.
func (r *reader) isSaid(a arc) (said bool, err error) {
	froms, err := r.family(a.from)
	if err != nil {
		return false, err
	}
	tos, err := r.family(a.to)
	if err != nil {
		return false, err
	}
	for _, from := range froms {
		for _, to := range tos {
			prefix := appendArc(section(r, kindGraph, r.owner, secSaid, arcSize), arc{from: from, typ: a.typ, to: to})
			err := each(r, prefix, func(_, _ []byte) error {
				said = true
				return kv.ErrStop
			})
			if err != nil || said {
				return said, err
			}
		}
	}
	return false, nil
}

// family is an entity with all that were merged into it.
func (r *reader) family(num uint32) ([]uint32, error) {
	all := []uint32{num}
	for i := 0; i < len(all); i++ { // it grows
		more, err := r.mergedInto(all[i])
		if err != nil {
			return nil, err
		}
		for _, num := range more {
			if slices.Contains(all, num) {
				return nil, layout.BadKey("merge", mergedKey(r, r.owner, all[i], num)) // they lead round in circles
			}
			all = append(all, num)
		}
	}
	return all, nil
}

// heirs are an entity and what it was merged into, one after the other.
func (r *reader) heirs(num uint32) (all []uint32, err error) {
	for num != 0 && !slices.Contains(all, num) {
		all = append(all, num)
		n, err := r.current(num)
		if err != nil || n == nil {
			return all, err
		}
		num = n.into
	}
	return all, nil
}

// say notes that a memory tells of a relation.
func say(t part.Tx, doing string, owner uint32, a arc, seq uint64) error {
	a.number = 0
	key := saidKey(t, owner, a, seq)
	if there, err := exists(t, key); err != nil || there {
		return err
	}
	if err := t.Need(doing, linkBytes); err != nil {
		return err
	}
	t.Log(opSay, binary.AppendUvarint(append(numberValue(owner), encodeArc(a)...), seq))
	if err := t.Set(key, nil); err != nil {
		return err
	}
	return t.Set(saidByKey(t, owner, seq, a), nil)
}

// unsay notes that a memory does not tell of a relation any more.
func unsay(t part.Tx, doing string, owner uint32, a arc, seq uint64) error {
	if err := t.NeedToFree(doing, linkBytes); err != nil {
		return err
	}
	t.Log(opUnsay, binary.AppendUvarint(append(numberValue(owner), encodeArc(a)...), seq))
	if err := t.Delete(saidKey(t, owner, a, seq)); err != nil {
		return err
	}
	return t.Delete(saidByKey(t, owner, seq, a))
}

// dropUnsaid deletes a relation that only texts were the reason for, and what merges have made
// of it, if no memory tells of it any more. Then it does the same with its ends.
func (p *Part) dropUnsaid(t part.Tx, doing string, owner uint32, a arc) error {
	r := &reader{View: t, owner: owner}
	froms, err := r.heirs(a.from)
	if err != nil {
		return err
	}
	tos, err := r.heirs(a.to)
	if err != nil {
		return err
	}
	for _, from := range froms {
		for _, to := range tos {
			if err := p.dropRelation(t, doing, r, arc{from: from, typ: a.typ, to: to}); err != nil {
				return err
			}
		}
	}
	for _, num := range append(froms, tos...) {
		if err := p.dropLoose(t, doing, owner, num); err != nil {
			return err
		}
	}
	return nil
}

// dropRelation deletes the versions of a relation that only texts were the reason for, unless a
// memory tells of it.
func (p *Part) dropRelation(t part.Tx, doing string, r *reader, a arc) error {
	if said, err := r.isSaid(a); err != nil || said {
		return err
	}
	now, err := r.holding(a)
	if err != nil {
		return err
	}
	keys, err := r.oldExtracted(a)
	if err != nil {
		return err
	}
	goes := now != nil && now.extracted
	if goes {
		keys = append(keys, outKey(t, r.owner, a), inKey(t, r.owner, a))
	}
	if len(keys) == 0 {
		return nil
	}
	if err := t.NeedToFree(doing, freed+len(keys)*100); err != nil {
		return err
	}
	t.Log(opUnrelate, append(numberValue(r.owner), encodeArc(a)...))
	for _, k := range keys {
		if err := t.Delete(k); err != nil {
			return err
		}
	}
	if !goes {
		return nil
	}
	p.stage(t, r.owner, delta{arcs: []arcDelta{{arc: a, gone: true}}})
	return r.uncount(t, a)
}

// uncount takes a relation from the count of its owner, unless it went with one of its ends.
func (r *reader) uncount(t part.Tx, a arc) error {
	for _, end := range []uint32{a.from, a.to} {
		if n, err := r.thereOrDoomed(end); err != nil || n == nil {
			return err
		}
	}
	own, err := r.owned()
	if err != nil {
		return err
	}
	own.relations--
	return t.Set(ownerKey(t, r.owner), own.encode())
}

// oldExtracted are the keys of the superseded versions of a relation that only texts were the
// reason for, both of each.
func (r *reader) oldExtracted(a arc) (keys [][]byte, err error) {
	prefix := be32(appendArc(section(r, kindArc, r.owner, secOldOut, arcSize+numSize), a), 0)
	err = each(r, prefix, func(key, value []byte) error {
		t, err := decodeTie(value)
		if err == nil && t.extracted {
			keys = append(keys, slices.Clone(key), oldArcKey(r, r.owner, secOldIn, a.reversed(), be64At(key, len(key)-lsnSize)))
		}
		return err
	})
	return keys, err
}

// keepSaid gives what a merge has made of the relations of an entity the memories that tell of
// these: the entity is put again, and its own relations are no part of the merge any more.
func (e *editor) keepSaid(s *subject) error {
	u, err := e.reader.undoing(s.number, s.old)
	if err != nil {
		return err
	}
	for i := range u.ended {
		a := u.ended[i].arc
		if a.number != 0 || a.between(s.number, s.old.into) {
			continue
		}
		moved := a.replaced(s.number, s.old.into)
		prefix := appendArc(section(e.t, kindGraph, e.reader.owner, secSaid, arcSize+seqSize), a)
		var seqs []uint64
		err := each(e.t, prefix, func(key, _ []byte) error {
			seqs = append(seqs, be64At(key, len(key)-seqSize))
			return nil
		})
		if err != nil {
			return err
		}
		for _, seq := range seqs {
			if err := say(e.t, e.doing, e.reader.owner, moved, seq); err != nil {
				return err
			}
		}
	}
	return nil
}
