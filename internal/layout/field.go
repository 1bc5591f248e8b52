package layout

import "encoding/binary"

// The fields that filters know by number. Those of metadata follow, in the order
// in which their paths were first stored.
const (
	FieldUser uint16 = 1 + iota
	FieldAgent
	FieldRun
	FieldRole
	FieldKind
	FieldSource
	FieldPinned
	FieldCreated // from here on columns of times
	FieldUpdated
	FieldEvent
	FieldNoteName // names and aliases of notes and archives, by hash
	FieldTrait    // what a text does: TraitAsks, TraitDated
	FieldSpeaker  // who says it, folded: see analysis.Fold

	FirstMetadataField uint16 = 64
)

// The values of FieldTrait.
const (
	TraitAsks  = "?" // the text ends with a question
	TraitDated = "@" // the text says when something was, or will be
)

// NumberValue is the filter key of an interned name.
func NumberValue(num uint32) string {
	var b [binary.MaxVarintLen32]byte
	return string(b[:binary.PutUvarint(b[:], uint64(num))])
}

// MaxChunks is how many chunks of 65,536 documents there can be.
const MaxChunks = 1 << 15

// PendingSpace stands for the default space in the keys of what is still to be embedded: that
// space may not exist yet.
const PendingSpace = 0
