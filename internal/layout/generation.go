package layout

import (
	"encoding/binary"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// generationsKey holds the generation of every kind. A rebuild rewrites it in the
// commit that switches to what it has built.
var GenerationsKey = metaKey("generations")

func (ks *Keys) EncodeGenerations() []byte {
	var b []byte
	for _, k := range Kinds {
		b = append(b, k)
		b = binary.BigEndian.AppendUint16(b, ks.Gen[k])
	}
	return b
}

// DecodeGenerations reads the table. A kind that is not in it was not known to the
// layout of the database, and has its first generation.
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

// FirstGenerations is the table of a new database.
func (ks *Keys) FirstGenerations() {
	for _, k := range Kinds {
		ks.Gen[k] = FirstGeneration(k)
	}
}

// FirstGeneration is that of a kind in a new database. A rebuild fills the next one
// beside it, and one commit switches.
func FirstGeneration(kind byte) uint16 {
	if kind == KindRecord || kind == KindVector {
		return bySeq
	}
	return 1
}

// bySeq is the generation from which on records and vectors lie in the order in which
// memories came: what is stored is appended, and its tables move down the tree as they
// are. In the first, of layouts 1 to 3, those of an owner lie together, and a store
// paid a fifth of its time for their merges.
const bySeq = 2
