package graph

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// undoing is all that the undoing of a merge needs. For a merge of this database it follows
// from the record of the merge and from the versions that died with it. For a merge that an
// import brought, whose versions never lived here, the record holds all of it.
type undoing struct {
	born          uint64 // the LSN of the merge, or of the import that brought it
	was           node   // the entity that is gone, as it was
	before, after *node  // the one that stayed; nil where the merge has not changed it
	ended         []endedTie
	links         []movedLink
	imported      bool // the record has it all
}

// endedTie is a relation of the entity that is gone, which ended with the merge.
type endedTie struct {
	arc
	tie
	// had is the relation that the entity that stayed had with the same triple, nil for none.
	had *tie
	// made is the LSN of what the merge made of had, 0 where that has changed before an import.
	made uint64
	// otherMerged: the other end was merged before, too.
	otherMerged bool
}

// recordImported is the version of the record of a merge that an import brought.
const recordImported = recordVersion + 1

const (
	endedHad         = 1 << 0
	endedOtherMerged = 1 << 1
)

// encode is the record of a merge that an import brought.
func (u *undoing) encode() []byte {
	b := encodeMoved(u.links)
	b[0] = recordImported
	b = codec.AppendBytes(b, u.was.encode())
	if u.before != nil && u.after != nil {
		b = codec.AppendBytes(append(b, 1), u.before.encode())
		b = codec.AppendBytes(b, u.after.encode())
	} else {
		b = append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(u.ended)))
	for i := range u.ended {
		t := &u.ended[i]
		flags := byte(0)
		if t.had != nil {
			flags |= endedHad
		}
		if t.otherMerged {
			flags |= endedOtherMerged
		}
		b = append(b, flags)
		for _, n := range []uint32{t.arc.from, t.typ, t.arc.to, t.number} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		b = codec.AppendBytes(b, t.tie.encode(nil))
		if t.had != nil {
			b = binary.AppendUvarint(codec.AppendBytes(b, t.had.encode(nil)), t.made)
		}
	}
	return b
}

// decodeMerge reads the record of a merge, and reports whether an import brought it. Of
// another merge it has the links that moved, and nothing else.
func decodeMerge(b []byte) (u *undoing, imported bool, err error) {
	r := codec.NewReader(b)
	version := r.Byte()
	u = &undoing{}
	for range r.Count() {
		u.links = append(u.links, movedLink{seq: r.Uvarint(), had: r.Byte() == 1})
	}
	if imported = version == recordImported; imported {
		err = u.decodeVersions(r)
	}
	if err == nil && (r.Err() != nil || !imported && version != recordVersion) {
		err = &fault.Error{Kind: fault.ErrCorrupt, What: "read a merge of the graph", Cause: r.Err(), Do: "run check"}
	}
	return u, imported, err
}

// decodeVersions reads the entities and the relations of a record.
func (u *undoing) decodeVersions(r *codec.Reader) (err error) {
	if u.was, err = decodeNode(r.Bytes()); err != nil {
		return err
	}
	if r.Byte() == 1 {
		for _, to := range []**node{&u.before, &u.after} {
			n, err := decodeNode(r.Bytes())
			if err != nil {
				return err
			}
			*to = &n
		}
	}
	for range r.Count() {
		flags := r.Byte()
		t := endedTie{otherMerged: flags&endedOtherMerged != 0}
		t.arc = arc{from: r.Uint32(), typ: r.Uint32(), to: r.Uint32(), number: r.Uint32()}
		if t.tie, err = decodeTie(r.Bytes()); err != nil {
			return err
		}
		if flags&endedHad != 0 {
			had, err := decodeTie(r.Bytes())
			if err != nil {
				return err
			}
			t.had, t.made = &had, r.Uvarint()
		}
		u.ended = append(u.ended, t)
	}
	return nil
}

// undoing is what undoes the merge that made a forward reference of an entity.
func (r *reader) undoing(num uint32, gone *node) (*undoing, error) {
	b, found, err := r.Get(mergedKey(r, r.owner, gone.into, num))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, missing("merge of the entity", num, mergedKey(r, r.owner, gone.into, num))
	}
	u, imported, err := decodeMerge(b)
	if err != nil {
		return nil, err
	}
	if u.born, u.imported = gone.born, imported; imported {
		return u, nil
	}
	before, after := reader{View: r, owner: r.owner, asOf: u.born - 1}, reader{View: r, owner: r.owner, asOf: u.born}
	was, err := before.node(num)
	if err != nil {
		return nil, err
	}
	if was == nil {
		return nil, missing("superseded version of the entity", num, oldKey(r, r.owner, num, 0))
	}
	u.was = *was
	if u.before, err = before.node(gone.into); err != nil {
		return nil, err
	}
	if u.after, err = after.node(gone.into); err != nil {
		return nil, err
	}
	if u.before == nil || u.after == nil || sameNode(u.before, u.after) {
		u.before, u.after = nil, nil
	}
	u.ended, err = r.endedAt(num, gone.into, u.born)
	return u, err
}

// endedAt are the relations of an entity that ended when it was merged into another.
func (r *reader) endedAt(num, into uint32, merged uint64) (all []endedTie, err error) {
	for _, sec := range []byte{secOldOut, secOldIn} {
		prefix := be32(section(r, kindArc, r.owner, sec, numSize), num)
		err := each(r, prefix, func(key, value []byte) error {
			a, born, ok := parseArc(key)
			if !ok {
				return layout.BadKey("relation", key)
			}
			if sec == secOldIn {
				if a = a.reversed(); a.from == a.to {
					return nil // it is known from its beginning
				}
				b, found, err := r.Get(oldArcKey(r, r.owner, secOldOut, a, born))
				if err != nil {
					return err
				}
				if !found {
					return missing("superseded relation to the entity", num, key)
				}
				value = b
			}
			t, err := decodeTie(value)
			if err == nil && t.died == merged && t.born < merged {
				all = append(all, endedTie{arc: a, tie: t})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range all {
		if err := r.complete(&all[i], num, into, merged); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// complete adds to a relation what the merge found in its place, and at its other end.
func (r *reader) complete(t *endedTie, num, into uint32, merged uint64) (err error) {
	if t.between(into, num) {
		return nil
	}
	t.made = merged
	if t.had, err = r.versionAt(t.replaced(num, into), merged-1); err != nil {
		return err
	}
	if other := t.other(num); other != 0 {
		n, err := r.current(other)
		if err != nil {
			return err
		}
		t.otherMerged = n != nil && n.into != 0 && n.born <= merged
	}
	return nil
}

// other is the end of a relation that is not the one of a number, 0 for a self-loop.
func (a arc) other(num uint32) uint32 { return a.from ^ a.to ^ num ^ a.loop(num) }

// loop is the number where both ends are it.
func (a arc) loop(num uint32) uint32 {
	if a.from == a.to {
		return num
	}
	return 0
}

// blocks reports whether the other end of a relation was merged since the merge, so that
// this is to be undone first. What was merged before an import was merged by an import, too,
// whose LSN says nothing.
func (r *reader) blocks(u *undoing, t *endedTie, num uint32, other *node) (bool, error) {
	switch {
	case other.into == 0:
		return false, nil
	case !t.otherMerged:
		return true, nil
	case !u.imported:
		return other.born > u.born, nil
	}
	b, found, err := r.Get(mergedKey(r, r.owner, other.into, num))
	if err != nil || !found {
		return true, err
	}
	_, imported, err := decodeMerge(b)
	return !imported, err
}

// movedLink is a link that a merge moves.
type movedLink struct {
	seq  uint64
	time []byte // the value of the link
	had  bool   // the entity that stays had it, too
}

// encodeMoved is what the record of a merge says of the links that it moved.
func encodeMoved(links []movedLink) []byte {
	b := binary.AppendUvarint([]byte{recordVersion}, uint64(len(links)))
	for _, l := range links {
		b = binary.AppendUvarint(b, l.seq)
		if l.had {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	return b
}

// versionAt is a relation as it was at an LSN, nil where it was not.
func (r *reader) versionAt(a arc, lsn uint64) (*tie, error) {
	b, found, err := r.Get(outKey(r, r.owner, a))
	if err != nil {
		return nil, err
	}
	if found {
		if t, err := decodeTie(b); err != nil || t.born <= lsn {
			return &t, err
		}
	}
	var was *tie
	err = r.Scan(oldArcKey(r, r.owner, secOldOut, a, 0), oldArcKey(r, r.owner, secOldOut, a, lsn+1), func(_, value []byte) error {
		t, err := decodeTie(value)
		if err == nil && t.born <= lsn && lsn < t.died {
			was = &t
			return kv.ErrStop
		}
		return err
	})
	return was, err
}
