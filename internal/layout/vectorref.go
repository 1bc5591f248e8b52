package layout

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
)

// VectorKey names a vector among those of an owner: its space and the version that brought
// it. Two versions that share a vector refer to equal VectorKeys.
type VectorKey struct {
	Space  uint16
	Born   uint64
	Change uint32
	Seq    uint64
}

// VectorKeyOf returns the name of the vector to which version v refers by ref.
func VectorKeyOf(v Version, ref VectorRef) VectorKey {
	v = ref.Of(v)
	return VectorKey{ref.Space, v.Born, v.Change, v.Seq}
}

// VectorRef is a version's reference to its vector in a space. The vector lies under the
// version that brought it: an update that leaves the text as it is makes a new version, and
// refers to the old vector instead of a copy.
type VectorRef struct {
	Space  uint16 // the number of the vector space
	Born   uint64 // Born and Change name the version that brought the vector; 0, 0: the referring version did
	Change uint32
	// Sum is the VectorSum of the vector: only records have it, and those of before layout 6
	// do not. 0: not known.
	Sum uint32
}

// VectorSum is the checksum of a stored vector, the lower half of its XXH3-64; never 0.
func VectorSum(value []byte) uint32 { return max(1, uint32(xxh3.Hash(value))) }

// Of returns the version that brought the vector to which version v refers.
func (ref VectorRef) Of(v Version) Version {
	if ref.Born != 0 {
		v.Born, v.Change = ref.Born, ref.Change
	}
	return v
}

// appendVectorRef appends space, Born and Change as uvarints. readVectorRef reads them.
func appendVectorRef(b []byte, v VectorRef) []byte {
	b = binary.AppendUvarint(b, uint64(v.Space))
	b = binary.AppendUvarint(b, v.Born)
	return binary.AppendUvarint(b, uint64(v.Change))
}

func readVectorRef(c *codec.Reader) VectorRef {
	return VectorRef{Space: uint16(c.Uint32()), Born: c.Uvarint(), Change: c.Uint32()}
}

// Brought returns the names of the vectors to which version v refers by refs.
func (v Version) Brought(refs []VectorRef) []VectorKey {
	all := make([]VectorKey, len(refs))
	for i, ref := range refs {
		all[i] = VectorKeyOf(v, ref)
	}
	return all
}

// Key returns the key of the vector in the store. owner is the number of its owner.
func (b VectorKey) Key(ks *Keys, owner uint32) []byte {
	return ks.Vector(b.Space, Version{Owner: owner, Seq: b.Seq, Born: b.Born, Change: b.Change})
}
