package graph

import (
	"cmp"
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// A link follows its memory. When the memory is merged into another, the entity is linked to that one as well, in the
// same commit, so that no entity loses its last link. What is needed to undo that lies beside the memory in the trash.

const doingFollow = "move the links of a memory"

// ref is a link to a memory in the trash.
type ref struct {
	number uint32
	copied bool   // what the memory was merged into got the link of it
	value  []byte // of the link
}

func appendRef(b []byte, r *ref) []byte {
	b = binary.AppendUvarint(b, uint64(r.number))
	copied := byte(0)
	if r.copied {
		copied = 1
	}
	return codec.AppendBytes(append(b, copied), string(r.value))
}

func decodeRefs(b []byte) (refs []ref, err error) {
	for c := codec.NewReader(b); c.Len() > 0; {
		refs = append(refs, ref{c.Uint32(), c.Byte() != 0, []byte(c.String())})
		if c.Err() != nil {
			return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read the links of a memory in the trash", Cause: c.Err(), Do: "run check"}
		}
	}
	return refs, nil
}

// MemoriesGo links the entities of memories that are merged to those that they are merged into, and returns all links.
func (*Part) MemoriesGo(t part.Tx, gone []part.Gone) ([][]byte, error) {
	refs := make([][]byte, len(gone))
	graphs := map[uint32]bool{} // the owners that have one
	for i := range gone {
		r := &reader{View: t, owner: gone[i].Owner}
		has, known := graphs[r.owner]
		if !known {
			own, err := r.owned()
			if err != nil {
				return nil, err
			}
			has = own.lastEntity > 0
			graphs[r.owner] = has
		}
		if !has {
			continue
		}
		var err error
		if refs[i], err = leave(t, r, &gone[i]); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

func leave(t part.Tx, r *reader, m *part.Gone) (refs []byte, err error) {
	var nums []uint32
	err = each(r, be64(section(r, kindGraph, r.owner, secLinked, seqSize), m.Seq), func(key, _ []byte) error {
		nums = append(nums, be32At(key, len(key)-numSize))
		return nil
	})
	for _, num := range nums {
		if err != nil {
			break
		}
		var of ref
		of, err = leaveOne(t, r, m, num)
		refs = appendRef(refs, &of)
	}
	return refs, err
}

func leaveOne(t part.Tx, r *reader, m *part.Gone, num uint32) (of ref, err error) {
	value, found, err := r.Get(linkKey(r, r.owner, num, m.Seq))
	if err != nil || !found {
		return ref{number: num}, err // a check reports a link without its other end
	}
	of = ref{number: num, value: value}
	if m.Into == 0 {
		return of, nil
	}
	there, err := exists(r, linkKey(r, r.owner, num, m.Into))
	if err == nil && !there {
		of.copied = true
		err = putLink(t, doingFollow, r.owner, num, m.Into, value)
	}
	return of, err
}

// MemoryBack links a memory that is back to the entities that are still there, and takes from what it was merged into the
// links that are of it. Where an entity is gone that its text has mentioned, none of those that the text mentions is linked:
// who extracts them again finds all.
func (*Part) MemoryBack(t part.Tx, m part.Gone, refs []byte) error {
	all, err := decodeRefs(refs)
	if err != nil {
		return err
	}
	r := &reader{View: t, owner: m.Owner}
	mentions := true // all that the text mentions is there
	there := all[:0]
	for _, of := range all {
		is, err := r.still(&of)
		if err != nil {
			return err
		}
		if is {
			there = append(there, of)
		} else if byMention(of.value) {
			mentions = false
		}
	}
	for i := range there {
		if of := &there[i]; mentions || !byMention(of.value) {
			if err := comeBack(t, r, &m, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// still reports whether the entity of a link is there, also as one that it was merged into.
func (r *reader) still(of *ref) (bool, error) {
	n, err := r.current(of.number)
	if err == nil && n.real() == nil && n != nil && n.into != 0 {
		of.number, of.copied = n.into, false
		n, err = r.current(of.number)
	}
	return n.real() != nil && len(of.value) > 0, err
}

func comeBack(t part.Tx, r *reader, m *part.Gone, of *ref) error {
	there, err := exists(r, linkKey(r, r.owner, of.number, m.Seq))
	if err == nil && !there {
		err = putLink(t, doingFollow, r.owner, of.number, m.Seq, of.value)
	}
	if err != nil || !of.copied || m.Into == 0 {
		return err
	}
	there, err = exists(r, linkKey(r, r.owner, of.number, m.Into))
	if err == nil && there {
		err = setLink(t, doingFollow, r.owner, of.number, m.Into, noLink, 0)
	}
	return err
}

// putLink makes a link of a value that another one has.
func putLink(t part.Tx, doing string, owner, num uint32, seq uint64, value []byte) error {
	if err := t.Need(doing, linkBytes); err != nil {
		return err
	}
	op := opLink
	if byMention(value) {
		op = opMention
	}
	t.Log(op, binary.AppendUvarint(binary.AppendUvarint(numberValue(owner), uint64(num)), seq))
	return cmp.Or(t.Set(linkKey(t, owner, num, seq), value), t.Set(linkedKey(t, owner, seq, num), nil))
}
