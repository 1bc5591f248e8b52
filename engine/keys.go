package engine

import (
	"cmp"
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// Every key is kind | generation | rest, numbers big-endian. The page
// docs/format/keys.md describes each kind; the table there and these constants
// change together.
const (
	kindMeta      byte = 'M' // M | name, without a generation
	kindExpiry    byte = 'e' // time | owner | key: of entries
	kindKV        byte = 'k' // owner | key
	kindDedup     byte = 'd' // owner | class | run | hash | seq
	kindForward   byte = 'f' // doc
	kindHistory   byte = 'h' // owner | seq | lsn | change
	kindID        byte = 'i' // hash of the ID | owner | seq
	kindLog       byte = 'l' // lsn
	kindName      byte = 'n' // class | hash of the name
	kindPending   byte = 'p' // space | owner | seq
	kindRange     byte = 'q' // lsn | change
	kindRecord    byte = 'r' // seq | owner | born | change
	kindStats     byte = 's' // owner | seq
	kindVector    byte = 'v' // space | seq | owner | born | change
	kindTombstone byte = 'x' // doc
	kindText      byte = 't' // chunk | section | page: the text index's own
	kindRows      byte = 'c' // chunk | page
)

// kinds are those that carry a generation.
var kinds = []byte{
	kindDedup, kindExpiry, kindForward, kindHistory, kindID, kindKV, kindLog, kindName, kindPending,
	kindRange, kindRecord, kindRows, kindStats, kindText, kindVector, kindTombstone,
}

// firstGeneration is that of a kind in a new database. A rebuild fills the next one
// beside it, and one commit switches.
func firstGeneration(kind byte) uint16 {
	if kind == kindRecord || kind == kindVector {
		return bySeq
	}
	return 1
}

// bySeq is the generation from which on records and vectors lie in the order in which
// memories came: what is stored is appended, and its tables move down the tree as they
// are. In the first, of layouts 1 to 3, those of an owner lie together, and a store
// paid a fifth of its time for their merges.
const bySeq = 2

const (
	keyHeader = 1 + 2 // kind, generation
	hashSize  = 16
)

// keyspace makes keys of one database: it knows the generation of each kind and
// the seed of its hashes, which keeps a caller from choosing IDs that collide.
type keyspace struct {
	gen    [256]uint16
	seed   uint64
	cipher idCipher // of the seed
}

func (ks *keyspace) header(kind byte, size int) []byte {
	k := make([]byte, keyHeader, keyHeader+size)
	k[0] = kind
	binary.BigEndian.PutUint16(k[1:], ks.gen[kind])
	return k
}

// span is the range of all keys of a kind in its generation.
func (ks *keyspace) span(kind byte) (lower, upper []byte) {
	lower = ks.header(kind, 0)
	return lower, prefixEnd(lower)
}

// prefixEnd is the first key after all those that begin with p.
func prefixEnd(p []byte) []byte {
	end := append([]byte(nil), p...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

func (ks *keyspace) hash(s string) [hashSize]byte {
	return xxh3.HashString128Seed(s, ks.seed).Bytes()
}

// version names an immutable state of a memory: which one, and the commit and
// change that brought it about.
type version struct {
	seq    uint64
	born   uint64
	owner  uint32
	change uint32
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

func appendVersion(k []byte, v version) []byte {
	k = appendHome(k, v.owner, v.seq)
	k = binary.BigEndian.AppendUint64(k, v.born)
	return binary.BigEndian.AppendUint32(k, v.change)
}

func (ks *keyspace) record(v version) []byte {
	return appendVersion(ks.header(kindRecord, versionSize), v)
}

// records is the prefix of all versions of a memory, in the order of their birth.
func (ks *keyspace) records(owner uint32, seq uint64) []byte {
	return appendHome(ks.header(kindRecord, 12), owner, seq)
}

func parseRecordKey(k []byte) (version, bool) { return parseVersion(k, keyHeader) }

// parseVersion returns the version that a key ends with, from a place on.
func parseVersion(k []byte, at int) (version, bool) {
	if len(k) != at+versionSize {
		return version{}, false
	}
	gen, k := generation(k), k[at:]
	v := version{born: binary.BigEndian.Uint64(k[12:]), change: binary.BigEndian.Uint32(k[20:])}
	if gen >= bySeq {
		v.seq, v.owner = binary.BigEndian.Uint64(k), binary.BigEndian.Uint32(k[8:])
	} else {
		v.owner, v.seq = binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(k[4:])
	}
	return v, true
}

// ids is the prefix of every memory, in any owner, that has or had this ID, but for those
// that got it of the database.
func (ks *keyspace) ids(id string) []byte {
	h := ks.hash(id)
	return append(ks.header(kindID, hashSize+12), h[:]...)
}

func (ks *keyspace) id(id string, owner uint32, seq uint64) []byte {
	k := binary.BigEndian.AppendUint32(ks.ids(id), owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

func parseIDKey(k []byte) (owner uint32, seq uint64, ok bool) {
	if len(k) != keyHeader+hashSize+12 {
		return 0, 0, false
	}
	k = k[keyHeader+hashSize:]
	return binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(k[4:]), true
}

// dedupClass separates what counts as the same.
type dedupClass byte

const (
	dedupNever   dedupClass = 0
	dedupContent dedupClass = 1 // messages, fragments: owner and text
	dedupFact    dedupClass = 2 // facts: owner, run and text
	dedupNote    dedupClass = 3 // notes: owner and name
)

// dedupKey is what a memory is the same as another by.
type dedupKey struct {
	owner uint32
	class dedupClass
	run   uint32
	hash  [hashSize]byte
}

func (ks *keyspace) dedupPrefix(d dedupKey) []byte {
	k := ks.header(kindDedup, 9+hashSize+8)
	k = binary.BigEndian.AppendUint32(k, d.owner)
	k = append(k, byte(d.class))
	k = binary.BigEndian.AppendUint32(k, d.run)
	return append(k, d.hash[:]...)
}

func (ks *keyspace) dedup(d dedupKey, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(ks.dedupPrefix(d), seq)
}

func (ks *keyspace) vector(space uint16, v version) []byte {
	k := binary.BigEndian.AppendUint16(ks.header(kindVector, 2+versionSize), space)
	return appendVersion(k, v)
}

// vectors is the prefix of all vectors of a space.
func (ks *keyspace) vectors(space uint16) []byte {
	return binary.BigEndian.AppendUint16(ks.header(kindVector, 2), space)
}

// parseVectorKey returns the version that brought the vector.
func parseVectorKey(k []byte) (version, bool) { return parseVersion(k, keyHeader+2) }

// compareVectors is the order of the keys of two vectors in a space.
func (ks *keyspace) compareVectors(v, w version) int {
	owners := cmp.Compare(v.owner, w.owner)
	if ks.gen[kindVector] >= bySeq {
		owners = 0 // a memory has one
	}
	return cmp.Or(owners, cmp.Compare(v.seq, w.seq), cmp.Compare(v.born, w.born), cmp.Compare(v.change, w.change))
}

func (ks *keyspace) stats(owner uint32, seq uint64) []byte {
	k := ks.header(kindStats, 12)
	k = binary.BigEndian.AppendUint32(k, owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

func parseStatsKey(k []byte) (owner uint32, seq uint64, ok bool) {
	if len(k) != keyHeader+12 {
		return 0, 0, false
	}
	k = k[keyHeader:]
	return binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(k[4:]), true
}

func (ks *keyspace) history(owner uint32, seq, lsn uint64, change uint32) []byte {
	k := binary.BigEndian.AppendUint64(ks.histories(owner, seq), lsn)
	return binary.BigEndian.AppendUint32(k, change)
}

func (ks *keyspace) histories(owner uint32, seq uint64) []byte {
	k := ks.header(kindHistory, 24)
	k = binary.BigEndian.AppendUint32(k, owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

func parseHistoryKey(k []byte) (lsn uint64, change uint32, ok bool) {
	if len(k) != keyHeader+24 {
		return 0, 0, false
	}
	k = k[keyHeader+12:]
	return binary.BigEndian.Uint64(k), binary.BigEndian.Uint32(k[8:]), true
}

func (ks *keyspace) pending(space uint16, owner uint32, seq uint64) []byte {
	k := ks.header(kindPending, 14)
	k = binary.BigEndian.AppendUint16(k, space)
	k = binary.BigEndian.AppendUint32(k, owner)
	return binary.BigEndian.AppendUint64(k, seq)
}

func parsePendingKey(k []byte) (space uint16, owner uint32, seq uint64, ok bool) {
	if len(k) != keyHeader+14 {
		return 0, 0, 0, false
	}
	k = k[keyHeader:]
	return binary.BigEndian.Uint16(k), binary.BigEndian.Uint32(k[2:]), binary.BigEndian.Uint64(k[6:]), true
}

func (ks *keyspace) doc(kind byte, doc uint32) []byte {
	return binary.BigEndian.AppendUint32(ks.header(kind, 4), doc)
}

// chunk is the prefix of the documents of a chunk.
func (ks *keyspace) chunk(kind byte, chunk uint16) []byte {
	return binary.BigEndian.AppendUint16(ks.header(kind, 2), chunk)
}

// rows is the page of rows that a document belongs to.
func (ks *keyspace) rows(doc uint32) []byte {
	return append(ks.chunk(kindRows, chunkOf(doc)), byte(doc&0xffff/rowsOfPage))
}

func parseRowsKey(k []byte) (first uint32, ok bool) {
	if len(k) != keyHeader+3 {
		return 0, false
	}
	k = k[keyHeader:]
	return uint32(binary.BigEndian.Uint16(k))<<16 | uint32(k[2])*rowsOfPage, true
}

func parseDocKey(k []byte) (doc uint32, ok bool) {
	if len(k) != keyHeader+4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(k[keyHeader:]), true
}

func (ks *keyspace) lsn(kind byte, lsn uint64) []byte {
	return binary.BigEndian.AppendUint64(ks.header(kind, 8), lsn)
}

func parseLSNKey(k []byte) (lsn uint64, ok bool) {
	if len(k) != keyHeader+8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(k[keyHeader:]), true
}

// nameClass is what a number stands for.
type nameClass byte

const (
	nameUser nameClass = 1 + iota
	nameAgent
	nameRun
	nameOwner // a user and an agent
	nameField // a metadata path that is indexed for filters
	nameSpace // a vector space
	nameClasses
)

func (ks *keyspace) name(c nameClass, name string) []byte {
	k := append(ks.header(kindName, 1+hashSize), byte(c))
	h := ks.hash(name)
	return append(k, h[:]...)
}

func metaKey(name string) []byte { return append([]byte{kindMeta}, name...) }
