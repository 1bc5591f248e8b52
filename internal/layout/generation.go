package layout

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// GenerationsKey is the key of the generations of all kinds. A rebuild writes the keys of
// a kind under a new generation, and one commit, which rewrites this value, switches to
// them.
var GenerationsKey = metaKey("generations")

// IdentityKey is the key of a copy of memdb.json, for a folder that has lost that file.
var IdentityKey = metaKey("identity")

// NumberKey is the key of the number of the newest batch, while batches are handed on: see
// internal/store.
var NumberKey = metaKey("number")

// EncodeGenerations returns the value of GenerationsKey: for each kind in their order, the kind (1
// byte) and its generation (2 bytes, big-endian).
func (ks *Keys) EncodeGenerations() []byte {
	var b []byte
	for _, k := range ks.kinds {
		b = append(b, k)
		b = binary.BigEndian.AppendUint16(b, ks.Gen[k])
	}
	return b
}

// DecodeGenerations sets the generations to what EncodeGenerations wrote. A kind that is
// missing there is younger than the database, and gets its first generation.
// DecodeGenerations returns ErrCorrupt for a length that is not a multiple of 3.
func (ks *Keys) DecodeGenerations(b []byte) error {
	const entry = 3
	if len(b)%entry != 0 {
		return &fault.Error{Kind: fault.ErrCorrupt, What: "read the generations", Why: fmt.Sprintf("%d bytes are not a multiple of %d", len(b), entry)}
	}
	ks.FirstGenerations()
	for ; len(b) > 0; b = b[entry:] {
		if gen := binary.BigEndian.Uint16(b[1:]); gen != 0 {
			ks.Gen[b[0]] = gen
		}
	}
	return nil
}

// FirstGenerations sets the generations to those of a new database.
func (ks *Keys) FirstGenerations() {
	for _, k := range ks.kinds {
		ks.Gen[k] = FirstGeneration(k)
	}
}

// FirstGeneration returns the generation that a kind has in a new database.
func FirstGeneration(kind byte) uint16 {
	switch kind {
	case KindRecord, KindVector:
		return bySeq
	case KindDedup:
		return byHash
	case KindStats, KindName:
		return sealed
	}
	if slices.Contains(memoryKinds, kind) {
		return 1
	}
	return sealed // of a part
}

// bySeq is the first generation in which the keys of records and vectors have the Seq
// before the owner. New memories are then appended at the end of the keys, and the store
// moves their tables down the tree without rewriting them. In generation 1, of layouts 1
// to 3, the owner stands first, and merging tables took a fifth of the time of storing.
const bySeq = 2

// byHash is the first generation of dedup keys in which the hash stands before the run, so
// that one scan finds the same content in every run of an owner.
const byHash = 2
