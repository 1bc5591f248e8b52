package graph

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// The kinds of keys.
const (
	kindGraph  = 'g' // owner | section | …: all but relations
	kindArc    = 'a' // owner | section | …: relations
	kindDoomed = 'j' // owner | number [| seq], or owner | from | type | to | seq
)

// The sections of kindGraph.
const (
	secOwner    = 'o'
	secType     = 't' // class | number
	secTypeName = 'T' // class | name
	secID       = 'i' // hash of the ID
	secEntity   = 'e' // number
	secOld      = 'h' // number | born
	secName     = 'n' // folded name | 0 | number
	secMember   = 'm' // type | number
	secGivenID  = 'r' // hash of the ID of a relation
	secFormerID = 'R' // hash of the ID of a relation
	secLink     = 'l' // number | seq
	secLinked   = 'L' // seq | number
	secMerged   = 'u' // into | number
	secSaid     = 'w' // from | type | to | seq
	secSaidBy   = 'W' // seq | from | type | to
	secKept     = 'k' // seq
)

// The sections of kindArc.
const (
	secOut    = 'f' // from | type | to [| number]
	secIn     = 't' // to | type | from [| number]
	secOldOut = 's' // from | type | to | number | born
	secOldIn  = 'S' // to | type | from | number | born
)

// The classes of types.
const (
	classEntity   = 1
	classRelation = 2
)

// The codes of changes in the log.
const (
	opEntity    part.Op = 60 // owner, number, the entity as it is stored
	opType      part.Op = 61 // owner, class, number, name
	opRelations part.Op = 62 // owner, number of relations; for each: from, type, to, number, the relation as it is stored
	opDelete    part.Op = 63 // owner, number of the entity; up to layout 7
	opEnd       part.Op = 64 // owner, from, type, to, number: the relation is superseded by nothing
	opClean     part.Op = 65 // owner, number: a step of the clean-up after an entity
	opLink      part.Op = 66 // owner, number of the entity, seq
	opUnlink    part.Op = 67 // owner, number of the entity, seq
	opDeleteAll part.Op = 68 // owner: its graph is deleted
	opPast      part.Op = 69 // owner, from, type, to, number, a superseded version as it is stored
	opMerge     part.Op = 70 // owner, into, number, the relations that ended and the links that moved
	opUnmerge   part.Op = 71 // owner, into, number, the same
	opMention   part.Op = 72 // owner, number of the entity, seq: a link that a text is the reason for
	opMerged    part.Op = 73 // owner, into, number, the record of a merge that an import brought
	opSay       part.Op = 74 // owner, from, type, to, 0, seq: a memory tells of a relation
	opUnsay     part.Op = 75 // owner, from, type, to, 0, seq: it does no more
	opUnrelate  part.Op = 76 // owner, from, type, to, 0: no memory tells of the relation any more, and it is deleted
	opKeep      part.Op = 77 // owner, seq: a record of what a memory in the trash had is written, or removed
	opMend      part.Op = 78 // owner: keys that follow from others were written or removed
	opDeleted   part.Op = 79 // owner, number of the entity, its ID
)

const (
	keyHeader = 1 + 2 // kind, generation
	ownerSize = 4
	numSize   = 4
	lsnSize   = 8
	seqSize   = 8
	hashSize  = 16
	// body is where a key goes on after the section.
	body = keyHeader + ownerSize + 1
	// arcSize is the size of a relation's ends and type in a key.
	arcSize = 3 * numSize
)

// section begins a key of an owner.
func section(v part.View, kind byte, owner uint32, sec byte, bytes int) []byte {
	k := binary.BigEndian.AppendUint32(v.Key(kind, ownerSize+1+bytes), owner)
	return append(k, sec)
}

func be32(b []byte, n uint32) []byte { return binary.BigEndian.AppendUint32(b, n) }
func be64(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

func ownerKey(v part.View, owner uint32) []byte { return section(v, kindGraph, owner, secOwner, 0) }

func typeKey(v part.View, owner uint32, class byte, number uint32) []byte {
	return be32(append(section(v, kindGraph, owner, secType, 1+numSize), class), number)
}

func typeNameKey(v part.View, owner uint32, class byte, name string) []byte {
	return append(append(section(v, kindGraph, owner, secTypeName, 1+len(name)), class), name...)
}

// hashOf is the first half of a SHA-256: nobody can choose two IDs that share it.
func hashOf(s string) [hashSize]byte {
	sum := sha256.Sum256([]byte(s))
	return [hashSize]byte(sum[:hashSize])
}

func idKey(v part.View, owner uint32, sec byte, id string) []byte {
	h := hashOf(id)
	return append(section(v, kindGraph, owner, sec, hashSize), h[:]...)
}

func entityKey(v part.View, owner, number uint32) []byte {
	return be32(section(v, kindGraph, owner, secEntity, numSize), number)
}

func oldKey(v part.View, owner, number uint32, born uint64) []byte {
	return be64(be32(section(v, kindGraph, owner, secOld, numSize+lsnSize), number), born)
}

func nameKey(v part.View, owner uint32, folded string, number uint32) []byte {
	k := append(section(v, kindGraph, owner, secName, len(folded)+1+numSize), folded...)
	return be32(append(k, 0), number)
}

// parseNameKey reads a key of the index by names.
func parseNameKey(k []byte) (folded string, number uint32, ok bool) {
	end := len(k) - numSize
	if end <= body || k[end-1] != 0 {
		return "", 0, false
	}
	return string(k[body : end-1]), binary.BigEndian.Uint32(k[end:]), true
}

func memberKey(v part.View, owner, typ, number uint32) []byte {
	return be32(be32(section(v, kindGraph, owner, secMember, 2*numSize), typ), number)
}

func linkKey(v part.View, owner, number uint32, seq uint64) []byte {
	return be64(be32(section(v, kindGraph, owner, secLink, numSize+seqSize), number), seq)
}

func mergedKey(v part.View, owner, into, number uint32) []byte {
	return be32(be32(section(v, kindGraph, owner, secMerged, 2*numSize), into), number)
}

func linkedKey(v part.View, owner uint32, seq uint64, number uint32) []byte {
	return be32(be64(section(v, kindGraph, owner, secLinked, numSize+seqSize), seq), number)
}

// arc names a relation within its owner.
type arc struct {
	from, typ, to uint32
	number        uint32 // 0 for the one that its triple names
}

// reversed is the arc as its other end has it in its keys.
func (a arc) reversed() arc { return arc{from: a.to, typ: a.typ, to: a.from, number: a.number} }

// compare is the order of the keys of two arcs.
func (a arc) compare(b arc) int {
	if c := cmp.Compare(uint64(a.from)<<32|uint64(a.typ), uint64(b.from)<<32|uint64(b.typ)); c != 0 {
		return c // nearly always: sorting is a tenth of an import
	}
	return cmp.Compare(uint64(a.to)<<32|uint64(a.number), uint64(b.to)<<32|uint64(b.number))
}

func appendArc(k []byte, a arc) []byte { return be32(be32(be32(k, a.from), a.typ), a.to) }

func outKey(v part.View, owner uint32, a arc) []byte { return arcKey(v, owner, secOut, a) }
func inKey(v part.View, owner uint32, a arc) []byte {
	return arcKey(v, owner, secIn, a.reversed())
}

func arcKey(v part.View, owner uint32, sec byte, a arc) []byte {
	k := appendArc(section(v, kindArc, owner, sec, arcSize+numSize), a)
	if a.number == 0 {
		return k
	}
	return be32(k, a.number)
}

func oldArcKey(v part.View, owner uint32, sec byte, a arc, born uint64) []byte {
	k := appendArc(section(v, kindArc, owner, sec, arcSize+numSize+lsnSize), a)
	return be64(be32(k, a.number), born)
}

// parseArc reads the arc in a key of arcKey or oldArcKey, as the end has it whose key it is.
func parseArc(k []byte) (a arc, born uint64, ok bool) {
	if len(k) < body+arcSize {
		return arc{}, 0, false
	}
	b := k[body:]
	a = arc{from: binary.BigEndian.Uint32(b), typ: binary.BigEndian.Uint32(b[numSize:]), to: binary.BigEndian.Uint32(b[2*numSize:])}
	switch b = b[arcSize:]; len(b) {
	case 0:
	case numSize:
		a.number = binary.BigEndian.Uint32(b)
	case numSize + lsnSize:
		a.number, born = binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[numSize:])
	default:
		return arc{}, 0, false
	}
	return a, born, true
}

func doomedKey(v part.View, owner, number uint32) []byte {
	return be32(be32(v.Key(kindDoomed, ownerSize+numSize), owner), number)
}

// span is the range of the keys that begin with a prefix.
func span(prefix []byte) (lower, upper []byte) { return prefix, layout.PrefixEnd(prefix) }

// ownerSpan is the range of all keys of a kind that an owner has.
func ownerSpan(v part.View, kind byte, owner uint32) (lower, upper []byte) {
	return span(be32(v.Key(kind, ownerSize), owner))
}

// ownerOf is the owner of a key of kindGraph or kindArc.
func ownerOf(k []byte) (owner uint32, ok bool) {
	if len(k) < body {
		return 0, false
	}
	return be32At(k, keyHeader), true
}

// be32At and be64At read a number of a key; a key that is too short has none.
func be32At(k []byte, at int) uint32 {
	if at < 0 || at+numSize > len(k) {
		return 0
	}
	return binary.BigEndian.Uint32(k[at:])
}

func be64At(k []byte, at int) uint64 {
	if at < 0 || at+lsnSize > len(k) {
		return 0
	}
	return binary.BigEndian.Uint64(k[at:])
}

func numberValue(n uint32) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// number reads a value that is a number.
func number(b []byte) (uint32, error) {
	r := codec.NewReader(b)
	n := r.Uint32()
	if r.Err() != nil || n == 0 {
		return 0, &fault.Error{Kind: fault.ErrCorrupt, What: "read a number of the graph", Cause: r.Err(), Do: "run check"}
	}
	return n, nil
}

// What a link is to be, or is by the end of its value.
const (
	noLink        = -1
	linkGiven     = 0 // a caller makes it, and only a caller removes it
	linkMentioned = 1 // a text is the reason for it, and it goes when the text changes
)

// setLink makes a link of a time, in Unix milliseconds, or removes one.
func setLink(t part.Tx, doing string, owner, num uint32, seq uint64, how int, at int64) error {
	logged := binary.AppendUvarint(binary.AppendUvarint(numberValue(owner), uint64(num)), seq)
	if how == noLink {
		if err := t.NeedToFree(doing, linkBytes); err != nil {
			return err
		}
		t.Log(opUnlink, logged)
		return cmp.Or(t.Delete(linkKey(t, owner, num, seq)), t.Delete(linkedKey(t, owner, seq, num)))
	}
	if err := t.Need(doing, linkBytes); err != nil {
		return err
	}
	value := binary.AppendVarint(nil, at)
	if how == linkMentioned {
		value = append(value, linkMentioned)
		t.Log(opMention, logged)
	} else {
		t.Log(opLink, logged)
	}
	return cmp.Or(t.Set(linkKey(t, owner, num, seq), value), t.Set(linkedKey(t, owner, seq, num), nil))
}

// byMention reports whether a text is the reason for a link.
func byMention(value []byte) bool {
	_, n := binary.Varint(value)
	return n > 0 && len(value) > n && value[n] == linkMentioned
}

// linkBytes is about what a link writes.
const linkBytes = 200
