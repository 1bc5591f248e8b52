package layout

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// sealed is the first generation of kinds whose values end in a checksum of key and value: the
// kinds of parts, names, and access statistics. The store has checksums of its blocks; this one finds
// what was wrong before it came into a block, and a value that lies under the key of another.
// Kinds of memories have other means: a record has its hash, and the rest follows from it.
const sealed = 2

// sealSize is the size of the checksum, in bytes.
const sealSize = 4

// isSealed reports whether the value of a key has a checksum. In databases of layouts 1 to 6 none
// has, and an empty value never has one: there is nothing in it.
func isSealed(key []byte) bool {
	return len(key) >= KeyHeader && key[0] != kindMeta && generation(key) >= sealed &&
		(key[0] == KindStats || key[0] == KindName || !slices.Contains(memoryKinds, key[0]))
}

func sealOf(key, value []byte) uint32 {
	return uint32(xxh3.HashSeed(value, xxh3.Hash(key)))
}

// Seal returns what is stored under a key: the value, with its checksum where values of this kind
// have one.
func Seal(key, value []byte) []byte {
	if len(value) == 0 || !isSealed(key) {
		return value
	}
	return binary.LittleEndian.AppendUint32(slices.Clip(value), sealOf(key, value))
}

// Unseal returns the value of what is stored under a key, and ErrCorrupt where it does not fit
// its checksum. The value shares the memory of stored.
func Unseal(key, stored []byte) (value []byte, err error) {
	if len(stored) == 0 || !isSealed(key) {
		return stored, nil
	}
	n := len(stored) - sealSize
	if n <= 0 || binary.LittleEndian.Uint32(stored[n:]) != sealOf(key, stored[:n]) {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("read the value of key %x", key), Why: "it does not fit its checksum", Do: "run check"}
	}
	return stored[:n:n], nil
}
