// Package layout defines what the store holds for memories: the kinds of keys, the keys,
// and the codecs of the values under them. docs/format describes every byte.
package layout

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// The kinds of keys. A key is kind (1 byte) | generation (2 bytes) | rest, with numbers
// big-endian; beside each kind stands its rest. The table in docs/format/keys.md and these
// constants change together.
const (
	kindMeta      byte = 'M' // name, with no generation before it
	KindCounter   byte = 'o' // kind | owner: what a part counts
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

// memoryKinds are the kinds of the memories whose keys carry a generation: all but the
// meta keys.
var memoryKinds = []byte{
	KindCounter, KindDedup, KindForward, KindHistory, KindID, KindLog, KindName, KindPending,
	KindRange, KindRecord, KindRows, KindStats, KindText, KindVector, KindTombstone,
}

// The sizes of parts of a key, in bytes.
const (
	KeyHeader = 1 + 2 // kind, generation
	HashSize  = 16    // XXH3-128, or the first half of a SHA-256 in a DedupKey
)

// Keys makes the keys of one database.
type Keys struct {
	Gen    [256]uint16 // the generation of each kind, by the kind's byte
	Seed   uint64      // the seed of the hashes: random and kept secret, so that no caller can choose IDs that collide
	Cipher IDCipher    // NewIDCipher(Seed)
	kinds  []byte      // that carry a generation, in their order
}

// NewKeys makes the keys of a database with a hash seed, and with kinds of keys beside those
// of the memories. All kinds are in their first generation.
func NewKeys(seed uint64, beside ...byte) (*Keys, error) {
	c, err := NewIDCipher(seed)
	if err != nil {
		return nil, err
	}
	ks := &Keys{Seed: seed, Cipher: c, kinds: slices.Sorted(slices.Values(slices.Concat(memoryKinds, beside)))}
	ks.FirstGenerations()
	return ks, nil
}

// Kinds are the kinds whose keys carry a generation, in their order: all but the meta keys.
func (ks *Keys) Kinds() []byte { return ks.kinds }

// Header returns the kind and the generation that a key begins with, with capacity for a
// rest of size bytes.
func (ks *Keys) Header(kind byte, size int) []byte {
	k := make([]byte, KeyHeader, KeyHeader+size)
	k[0] = kind
	binary.BigEndian.PutUint16(k[1:], ks.Gen[kind])
	return k
}

// Span returns the bounds of all keys of a kind in its current generation: lower is
// included, upper is not.
func (ks *Keys) Span(kind byte) (lower, upper []byte) {
	lower = ks.Header(kind, 0)
	return lower, PrefixEnd(lower)
}

// PrefixEnd returns the first key after all keys that begin with p. It returns nil, the
// store's sign for no bound, where no key comes after them: p is all 0xff, or empty.
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

// hash returns the seeded hash of an ID or a name: key bytes stay in the store's tables and
// manifest for long, and so hold none of the caller's strings.
func (ks *Keys) hash(s string) [HashSize]byte {
	return xxh3.HashString128Seed(s, ks.Seed).Bytes()
}

// Version names one immutable state of a memory. An update makes a new version.
type Version struct {
	Seq    uint64 // the memory: its place in the order in which memories were first stored, from 1 on
	Born   uint64 // the LSN of the commit that made the version
	Owner  uint32 // the number of the memory's owner, see NameOwner
	Change uint32 // the number of the change within that commit
}

// versionSize is the size of a Version in a key, in bytes.
const versionSize = 24

// appendHome extends a key of a record or a vector by its memory, in the order that the
// generation of the key has.
func appendHome(k []byte, owner uint32, seq uint64) []byte {
	if generation(k) >= bySeq {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(k, seq), owner)
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(k, owner), seq)
}

// generation returns the generation in a key's header.
func generation(k []byte) uint16 { return binary.BigEndian.Uint16(k[1:]) }

// appendVersion extends a key of a record or a vector by its version.
func appendVersion(k []byte, v Version) []byte {
	k = appendHome(k, v.Owner, v.Seq)
	k = binary.BigEndian.AppendUint64(k, v.Born)
	return binary.BigEndian.AppendUint32(k, v.Change)
}

// Record returns the key of the record of a version.
func (ks *Keys) Record(v Version) []byte {
	return appendVersion(ks.Header(KindRecord, versionSize), v)
}

// Records returns the prefix of the records of a memory. Key order is the order in which
// the versions were born.
func (ks *Keys) Records(owner uint32, seq uint64) []byte {
	return appendHome(ks.Header(KindRecord, 12), owner, seq)
}

// RecordsBySeq reports whether records lie in the order of their Seqs. In databases of layouts
// 1 to 3 they lie by owner.
func (ks *Keys) RecordsBySeq() bool { return ks.Gen[KindRecord] >= bySeq }

// ParseRecordKey returns the version in a key of Record, and false for a key of another
// length.
func ParseRecordKey(k []byte) (Version, bool) { return parseVersion(k, KeyHeader) }

// parseVersion returns the version that fills a key from byte at to its end, and false for
// a key of another length.
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

// IDs returns the prefix of the ID keys of an ID: one key for each memory of any owner that
// has or had this ID. A memory whose ID came from IDCipher has no such key. Another ID with
// the same hash has the same prefix, so the caller compares the ID in the record.
func (ks *Keys) IDs(id string) []byte {
	h := ks.hash(id)
	return append(ks.Header(KindID, HashSize+12), h[:]...)
}

// ID returns the key by which a memory is found by its ID. Its value is empty.
func (ks *Keys) ID(id string, owner uint32, seq uint64) []byte {
	k := binary.BigEndian.AppendUint32(ks.IDs(id), owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

// ParseIDKey returns the memory in a key of ID, and false for a key of another length.
func ParseIDKey(k []byte) (owner uint32, seq uint64, ok bool) {
	if len(k) != KeyHeader+HashSize+12 {
		return 0, 0, false
	}
	k = k[KeyHeader+HashSize:]
	return binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(k[4:]), true
}

// dedupClass is a rule by which two memories are duplicates.
type dedupClass byte

// The dedup classes, each with what duplicates have in common.
const (
	dedupNever   dedupClass = 0 // of kinds that have no duplicates
	DedupContent dedupClass = 1 // messages, fragments: owner, run and text
	DedupFact    dedupClass = 2 // facts: owner, run and text
	DedupNote    dedupClass = 3 // notes: owner and name
)

// DedupKey is equal for two memories that are duplicates. A Class of 0 stands for a memory
// that is never a duplicate.
type DedupKey struct {
	Owner uint32
	Class dedupClass
	Run   uint32         // the number of the run, or 0 for none
	Hash  [HashSize]byte // the first half of a SHA-256 of the text or the name
}

// DedupPrefix returns the prefix of the dedup keys of all duplicates. Among those that are
// alive, the lowest Seq is the original.
func (ks *Keys) DedupPrefix(d DedupKey) []byte {
	k := ks.dedupHead(d)
	if ks.DedupByHash() {
		return binary.BigEndian.AppendUint32(append(k, d.Hash[:]...), d.Run)
	}
	return append(binary.BigEndian.AppendUint32(k, d.Run), d.Hash[:]...)
}

// DedupAnyRun returns the prefix of the dedup keys of an owner's memories of the same
// content, whatever their run. Where the run stands before the hash, it is DedupPrefix.
func (ks *Keys) DedupAnyRun(d DedupKey) []byte {
	if ks.DedupByHash() {
		return append(ks.dedupHead(d), d.Hash[:]...)
	}
	return ks.DedupPrefix(d)
}

func (ks *Keys) dedupHead(d DedupKey) []byte {
	k := binary.BigEndian.AppendUint32(ks.Header(KindDedup, 9+HashSize+8), d.Owner)
	return append(k, byte(d.Class))
}

// DedupByHash reports whether dedup keys have the hash before the run, as they do since
// layout 5. Before it, the run stood first, and was 0 for a message or a fragment of a user
// or an agent.
func (ks *Keys) DedupByHash() bool { return ks.Gen[KindDedup] >= byHash }

// Listed returns the part of an ID or dedup key by which a look-up begins: all but the Seq,
// and in a dedup key all but the run.
func (ks *Keys) Listed(key []byte) []byte {
	const seqSize, runSize = 8, 4
	if key[0] == KindDedup && ks.DedupByHash() {
		return key[:max(len(key)-seqSize-runSize, 0)]
	}
	return key[:max(len(key)-seqSize, 0)]
}

// Dedup returns the key by which duplicates of a memory find it. Its value is empty.
func (ks *Keys) Dedup(d DedupKey, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(ks.DedupPrefix(d), seq)
}

// Vector returns the key of a vector. v is the version that brought the vector (see
// VectorRef), and space the number of the vector space.
func (ks *Keys) Vector(space uint16, v Version) []byte {
	k := binary.BigEndian.AppendUint16(ks.Header(KindVector, 2+versionSize), space)
	return appendVersion(k, v)
}

// Vectors returns the prefix of all vectors of a space.
func (ks *Keys) Vectors(space uint16) []byte {
	return binary.BigEndian.AppendUint16(ks.Header(KindVector, 2), space)
}

// ParseVectorKey returns the version in a key of Vector, and false for a key of another
// length.
func ParseVectorKey(k []byte) (Version, bool) { return parseVersion(k, KeyHeader+2) }

// CompareVectors returns the order of the keys of two vectors of one space: negative, 0 or
// positive. A scan that sorts by it reads vectors in key order.
func (ks *Keys) CompareVectors(v, w Version) int {
	owners := cmp.Compare(v.Owner, w.Owner)
	if ks.Gen[KindVector] >= bySeq {
		owners = 0 // the Seq stands first, and two memories never share one
	}
	return cmp.Or(owners, cmp.Compare(v.Seq, w.Seq), cmp.Compare(v.Born, w.Born), cmp.Compare(v.Change, w.Change))
}

// Stats returns the key of the Access of a memory.
func (ks *Keys) Stats(owner uint32, seq uint64) []byte {
	k := ks.Header(KindStats, 12)
	k = binary.BigEndian.AppendUint32(k, owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

// ParseStatsKey returns the memory in a key of Stats, and false for a key of another length.
func ParseStatsKey(k []byte) (owner uint32, seq uint64, ok bool) {
	if len(k) != KeyHeader+12 {
		return 0, 0, false
	}
	k = k[KeyHeader:]
	return binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(k[4:]), true
}

// History returns the key of a Death. lsn and change name the delete.
func (ks *Keys) History(owner uint32, seq, lsn uint64, change uint32) []byte {
	k := binary.BigEndian.AppendUint64(ks.Histories(owner, seq), lsn)
	return binary.BigEndian.AppendUint32(k, change)
}

// Histories returns the prefix of the Deaths of a memory.
func (ks *Keys) Histories(owner uint32, seq uint64) []byte {
	k := ks.Header(KindHistory, 24)
	k = binary.BigEndian.AppendUint32(k, owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

// ParseHistoryKey returns the delete in a key of History, and false for a key of another
// length.
func ParseHistoryKey(k []byte) (lsn uint64, change uint32, ok bool) {
	if len(k) != KeyHeader+24 {
		return 0, 0, false
	}
	k = k[KeyHeader+12:]
	return binary.BigEndian.Uint64(k), binary.BigEndian.Uint32(k[8:]), true
}

// HistoryOf returns the memory in a key that ParseHistoryKey has read.
func HistoryOf(k []byte) (owner uint32, seq uint64) {
	k = k[KeyHeader:]
	return binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(k[4:])
}

// Pending returns the key of a memory whose text is still to be embedded for a vector
// space. Space 0 is the default space. The value is empty.
func (ks *Keys) Pending(space uint16, owner uint32, seq uint64) []byte {
	k := ks.Header(KindPending, 14)
	k = binary.BigEndian.AppendUint16(k, space)
	k = binary.BigEndian.AppendUint32(k, owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

// ParsePendingKey returns the space and the memory in a key of Pending, and false for a key
// of another length.
func ParsePendingKey(k []byte) (space uint16, owner uint32, seq uint64, ok bool) {
	if len(k) != KeyHeader+14 {
		return 0, 0, 0, false
	}
	k = k[KeyHeader:]
	return binary.BigEndian.Uint16(k), binary.BigEndian.Uint32(k[2:]), binary.BigEndian.Uint64(k[6:]), true
}

// Doc returns the key of a document: of KindForward or KindTombstone.
func (ks *Keys) Doc(kind byte, doc uint32) []byte {
	return binary.BigEndian.AppendUint32(ks.Header(kind, 4), doc)
}

// Chunk returns the prefix of the keys of a chunk: its documents for KindForward and
// KindTombstone, its pages for KindRows and KindText.
func (ks *Keys) Chunk(kind byte, chunk uint16) []byte {
	return binary.BigEndian.AppendUint16(ks.Header(kind, 2), chunk)
}

// Rows returns the key of the RowPage that holds a document.
func (ks *Keys) Rows(doc uint32) []byte {
	return append(ks.Chunk(KindRows, ChunkOf(doc)), byte(doc&0xffff/RowsOfPage))
}

// ParseRowsKey returns the lowest document number that the page of a key of Rows may hold,
// and false for a key of another length.
func ParseRowsKey(k []byte) (first uint32, ok bool) {
	if len(k) != KeyHeader+3 {
		return 0, false
	}
	k = k[KeyHeader:]
	return uint32(binary.BigEndian.Uint16(k))<<16 | uint32(k[2])*RowsOfPage, true
}

// ParseDocKey returns the document in a key of Doc, and false for a key of another length.
func ParseDocKey(k []byte) (doc uint32, ok bool) {
	if len(k) != KeyHeader+4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(k[KeyHeader:]), true
}

// LSN returns the key of a log record (KindLog), or the prefix of the death ranges of a
// commit (KindRange).
func (ks *Keys) LSN(kind byte, lsn uint64) []byte {
	return binary.BigEndian.AppendUint64(ks.Header(kind, 8), lsn)
}

// ParseLSNKey returns the LSN in the key of a log record, and false for a key of another
// length.
func ParseLSNKey(k []byte) (lsn uint64, ok bool) {
	if len(k) != KeyHeader+8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(k[KeyHeader:]), true
}

// metaKey returns a key without a generation: the generations themselves are under one.
func metaKey(name string) []byte { return append([]byte{kindMeta}, name...) }

// ChunkOf returns the number of a document's chunk: its high 16 bits. A chunk has room for
// 65,536 documents, and is the unit in which the text index is sealed.
func ChunkOf(doc uint32) uint16 { return uint16(doc >> 16) }

// BadKey returns ErrCorrupt for a malformed key. what names the index that was read.
func BadKey(what string, key []byte) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: "read the " + what + " index", Why: fmt.Sprintf("malformed key %x", key), Do: "run check"}
}
