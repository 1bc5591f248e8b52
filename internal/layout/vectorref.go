package layout

import "encoding/binary"

// borrowed names a vector: its space, and the version that brought it.
type VectorKey struct {
	Space  uint16
	Born   uint64
	Change uint32
	Seq    uint64
}

func VectorKeyOf(v Version, ref VectorRef) VectorKey {
	v = ref.Of(v)
	return VectorKey{ref.Space, v.Born, v.Change, v.Seq}
}

// VectorRef says where the vector of a space is: under the version that brought
// it, which an update of other fields leaves as it is.
type VectorRef struct {
	Space  uint16
	Born   uint64
	Change uint32
}

// Of is the version that brought the vector to which a record of version v refers.
func (ref VectorRef) Of(v Version) Version {
	if ref.Born != 0 {
		v.Born, v.Change = ref.Born, ref.Change
	}
	return v
}

func appendVectorRef(b []byte, v VectorRef) []byte {
	b = binary.AppendUvarint(b, uint64(v.Space))
	b = binary.AppendUvarint(b, v.Born)
	return binary.AppendUvarint(b, uint64(v.Change))
}

// Brought are the vectors that a version refers to.
func (v Version) Brought(refs []VectorRef) []VectorKey {
	all := make([]VectorKey, len(refs))
	for i, ref := range refs {
		all[i] = VectorKeyOf(v, ref)
	}
	return all
}

// Key is where a vector of an owner lies.
func (b VectorKey) Key(ks *Keys, owner uint32) []byte {
	return ks.Vector(b.Space, Version{Owner: owner, Seq: b.Seq, Born: b.Born, Change: b.Change})
}
