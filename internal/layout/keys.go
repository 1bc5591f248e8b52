// Package layout is what lies in the store: the table of the kinds of keys, the keys of
// memories, and the codecs of the values under them. A structure of its own (see package
// part) has its keys and codecs beside its code.
package layout

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Every key is kind | generation | rest, numbers big-endian. The page
// docs/format/keys.md describes each kind; the table there and these constants
// change together.
const (
	kindMeta      byte = 'M' // M | name, without a generation
	KindExpiry    byte = 'e' // time | owner | key: of entries
	KindKV        byte = 'k' // owner | key
	KindDedup     byte = 'd' // owner | class | run | hash | seq
	KindForward   byte = 'f' // doc
	KindHistory   byte = 'h' // owner | seq | lsn | change
	KindID        byte = 'i' // hash of the ID | owner | seq
	KindLog       byte = 'l' // lsn
	KindName      byte = 'n' // class | hash of the name
	KindPending   byte = 'p' // space | owner | seq
	KindRange     byte = 'q' // lsn | change
	KindRecord    byte = 'r' // seq | owner | born | change
	KindStats     byte = 's' // owner | seq
	KindVector    byte = 'v' // space | seq | owner | born | change
	KindTombstone byte = 'x' // doc
	KindText      byte = 't' // chunk | section | page: the text index's own
	KindRows      byte = 'c' // chunk | page
)

// kinds are those that carry a generation.
var Kinds = []byte{
	KindDedup, KindExpiry, KindForward, KindHistory, KindID, KindKV, KindLog, KindName, KindPending,
	KindRange, KindRecord, KindRows, KindStats, KindText, KindVector, KindTombstone,
}

const (
	KeyHeader = 1 + 2 // kind, generation
	HashSize  = 16
)

// keyspace makes keys of one database: it knows the generation of each kind and
// the seed of its hashes, which keeps a caller from choosing IDs that collide.
type Keys struct {
	Gen    [256]uint16
	Seed   uint64
	Cipher IDCipher // of the seed
}

func (ks *Keys) Header(kind byte, size int) []byte {
	k := make([]byte, KeyHeader, KeyHeader+size)
	k[0] = kind
	binary.BigEndian.PutUint16(k[1:], ks.Gen[kind])
	return k
}

// Span is the range of all keys of a kind in its generation.
func (ks *Keys) Span(kind byte) (lower, upper []byte) {
	lower = ks.Header(kind, 0)
	return lower, PrefixEnd(lower)
}

// PrefixEnd is the first key after all those that begin with p.
func PrefixEnd(p []byte) []byte {
	end := append([]byte(nil), p...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

func (ks *Keys) hash(s string) [HashSize]byte {
	return xxh3.HashString128Seed(s, ks.Seed).Bytes()
}

// Version names an immutable state of a memory: which one, and the commit and
// change that brought it about.
type Version struct {
	Seq    uint64
	Born   uint64
	Owner  uint32
	Change uint32
}

// versionSize is what a version takes in a key.
const versionSize = 24

// appendHome extends a key of records or vectors by which memory it is of.
func appendHome(k []byte, owner uint32, seq uint64) []byte {
	if generation(k) >= bySeq {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(k, seq), owner)
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(k, owner), seq)
}

func generation(k []byte) uint16 { return binary.BigEndian.Uint16(k[1:]) }

func appendVersion(k []byte, v Version) []byte {
	k = appendHome(k, v.Owner, v.Seq)
	k = binary.BigEndian.AppendUint64(k, v.Born)
	return binary.BigEndian.AppendUint32(k, v.Change)
}

func (ks *Keys) Record(v Version) []byte {
	return appendVersion(ks.Header(KindRecord, versionSize), v)
}

// Records is the prefix of all versions of a memory, in the order of their birth.
func (ks *Keys) Records(owner uint32, seq uint64) []byte {
	return appendHome(ks.Header(KindRecord, 12), owner, seq)
}

func ParseRecordKey(k []byte) (Version, bool) { return parseVersion(k, KeyHeader) }

// parseVersion returns the version that a key ends with, from a place on.
func parseVersion(k []byte, at int) (Version, bool) {
	if len(k) != at+versionSize {
		return Version{}, false
	}
	gen, k := generation(k), k[at:]
	v := Version{Born: binary.BigEndian.Uint64(k[12:]), Change: binary.BigEndian.Uint32(k[20:])}
	if gen >= bySeq {
		v.Seq, v.Owner = binary.BigEndian.Uint64(k), binary.BigEndian.Uint32(k[8:])
	} else {
		v.Owner, v.Seq = binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(k[4:])
	}
	return v, true
}

// IDs is the prefix of every memory, in any owner, that has or had this ID, but for those
// that got it of the database.
func (ks *Keys) IDs(id string) []byte {
	h := ks.hash(id)
	return append(ks.Header(KindID, HashSize+12), h[:]...)
}

func (ks *Keys) ID(id string, owner uint32, seq uint64) []byte {
	k := binary.BigEndian.AppendUint32(ks.IDs(id), owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

func ParseIDKey(k []byte) (owner uint32, seq uint64, ok bool) {
	if len(k) != KeyHeader+HashSize+12 {
		return 0, 0, false
	}
	k = k[KeyHeader+HashSize:]
	return binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(k[4:]), true
}

// dedupClass separates what counts as the same.
type dedupClass byte

const (
	dedupNever   dedupClass = 0
	DedupContent dedupClass = 1 // messages, fragments: owner and text
	DedupFact    dedupClass = 2 // facts: owner, run and text
	DedupNote    dedupClass = 3 // notes: owner and name
)

// DedupKey is what a memory is the same as another by.
type DedupKey struct {
	Owner uint32
	Class dedupClass
	Run   uint32
	Hash  [HashSize]byte
}

func (ks *Keys) DedupPrefix(d DedupKey) []byte {
	k := ks.Header(KindDedup, 9+HashSize+8)
	k = binary.BigEndian.AppendUint32(k, d.Owner)
	k = append(k, byte(d.Class))
	k = binary.BigEndian.AppendUint32(k, d.Run)
	return append(k, d.Hash[:]...)
}

func (ks *Keys) Dedup(d DedupKey, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(ks.DedupPrefix(d), seq)
}

func (ks *Keys) Vector(space uint16, v Version) []byte {
	k := binary.BigEndian.AppendUint16(ks.Header(KindVector, 2+versionSize), space)
	return appendVersion(k, v)
}

// Vectors is the prefix of all vectors of a space.
func (ks *Keys) Vectors(space uint16) []byte {
	return binary.BigEndian.AppendUint16(ks.Header(KindVector, 2), space)
}

// ParseVectorKey returns the version that brought the vector.
func ParseVectorKey(k []byte) (Version, bool) { return parseVersion(k, KeyHeader+2) }

// CompareVectors is the order of the keys of two vectors in a space.
func (ks *Keys) CompareVectors(v, w Version) int {
	owners := cmp.Compare(v.Owner, w.Owner)
	if ks.Gen[KindVector] >= bySeq {
		owners = 0 // a memory has one
	}
	return cmp.Or(owners, cmp.Compare(v.Seq, w.Seq), cmp.Compare(v.Born, w.Born), cmp.Compare(v.Change, w.Change))
}

func (ks *Keys) Stats(owner uint32, seq uint64) []byte {
	k := ks.Header(KindStats, 12)
	k = binary.BigEndian.AppendUint32(k, owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

func ParseStatsKey(k []byte) (owner uint32, seq uint64, ok bool) {
	if len(k) != KeyHeader+12 {
		return 0, 0, false
	}
	k = k[KeyHeader:]
	return binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(k[4:]), true
}

func (ks *Keys) History(owner uint32, seq, lsn uint64, change uint32) []byte {
	k := binary.BigEndian.AppendUint64(ks.Histories(owner, seq), lsn)
	return binary.BigEndian.AppendUint32(k, change)
}

func (ks *Keys) Histories(owner uint32, seq uint64) []byte {
	k := ks.Header(KindHistory, 24)
	k = binary.BigEndian.AppendUint32(k, owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

func ParseHistoryKey(k []byte) (lsn uint64, change uint32, ok bool) {
	if len(k) != KeyHeader+24 {
		return 0, 0, false
	}
	k = k[KeyHeader+12:]
	return binary.BigEndian.Uint64(k), binary.BigEndian.Uint32(k[8:]), true
}

func (ks *Keys) Pending(space uint16, owner uint32, seq uint64) []byte {
	k := ks.Header(KindPending, 14)
	k = binary.BigEndian.AppendUint16(k, space)
	k = binary.BigEndian.AppendUint32(k, owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

func ParsePendingKey(k []byte) (space uint16, owner uint32, seq uint64, ok bool) {
	if len(k) != KeyHeader+14 {
		return 0, 0, 0, false
	}
	k = k[KeyHeader:]
	return binary.BigEndian.Uint16(k), binary.BigEndian.Uint32(k[2:]), binary.BigEndian.Uint64(k[6:]), true
}

func (ks *Keys) Doc(kind byte, doc uint32) []byte {
	return binary.BigEndian.AppendUint32(ks.Header(kind, 4), doc)
}

// Chunk is the prefix of the documents of a chunk.
func (ks *Keys) Chunk(kind byte, chunk uint16) []byte {
	return binary.BigEndian.AppendUint16(ks.Header(kind, 2), chunk)
}

// Rows is the page of rows that a document belongs to.
func (ks *Keys) Rows(doc uint32) []byte {
	return append(ks.Chunk(KindRows, ChunkOf(doc)), byte(doc&0xffff/RowsOfPage))
}

func ParseRowsKey(k []byte) (first uint32, ok bool) {
	if len(k) != KeyHeader+3 {
		return 0, false
	}
	k = k[KeyHeader:]
	return uint32(binary.BigEndian.Uint16(k))<<16 | uint32(k[2])*RowsOfPage, true
}

func ParseDocKey(k []byte) (doc uint32, ok bool) {
	if len(k) != KeyHeader+4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(k[KeyHeader:]), true
}

func (ks *Keys) LSN(kind byte, lsn uint64) []byte {
	return binary.BigEndian.AppendUint64(ks.Header(kind, 8), lsn)
}

func ParseLSNKey(k []byte) (lsn uint64, ok bool) {
	if len(k) != KeyHeader+8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(k[KeyHeader:]), true
}

func metaKey(name string) []byte { return append([]byte{kindMeta}, name...) }

// ChunkOf is the chunk of a document.
func ChunkOf(doc uint32) uint16 { return uint16(doc >> 16) }

func BadKey(what string, key []byte) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: "read the " + what + " index", Why: fmt.Sprintf("malformed key %x", key), Do: "run check"}
}
