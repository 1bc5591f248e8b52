package layout

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The first byte of an encoded Record: of one of before layout 6, which has no checksums and
// does not name the version before it, and of today's. docs/format/records.md describes the
// rest.
const (
	recordVersionPlain = 1
	recordVersion      = 2
)

// recordSum is the size of a record's checksum, the lower half of an XXH3-64.
const recordSum = 4

// The flags of a record. They are stored: their order never changes.
const (
	FlagPinned         = 1 << iota // the memory is pinned
	FlagAutoImportance             // the database computed the importance, not the caller
	FlagUpdate                     // an update made this version, not an add
	FlagPending                    // the text is still to be embedded
	FlagEmbedded                   // the update only embedded the text, and is no event of the memory's history
	FlagPast                       // an import brought the version for the history; it was never the memory's state in this database
	FlagApart                      // the memory was brought back: with this text it is not merged any more
)

// Record is a version of a memory as it is stored. All times are Unix milliseconds.
type Record struct {
	ID         string
	Scope      scope.Scope
	Role       byte // below RoleCount; docs/format/records.md lists the roles
	Kind       byte // below KindCount; docs/format/records.md lists the kinds
	Flags      uint64
	Source     string
	Text       string
	Name       string
	Aliases    []string
	Metadata   []byte // canonical JSON, empty for none
	Created    int64
	Updated    int64
	Event      int64 // 0: none
	Expires    int64 // 0: never
	Importance float64
	Confidence float64
	Vectors    []VectorRef
	// Before is the version whose text this one took the place of: its last one that is an
	// event of the history. Zero where there is none, and in records of before layout 6.
	Before Change
}

// Change is where a version of a memory comes from: the commit that wrote it, and the number
// of the change within that. Zero is none.
type Change struct {
	Born   uint64 // LSN
	Number uint32
}

// Before reports whether one change came before another.
func (c Change) Before(d Change) bool {
	return c.Born < d.Born || c.Born == d.Born && c.Number < d.Number
}

// History returns the version that stays as the history of the state that a record holds: the
// record's own, v, or, where it only embedded the text, the one before it. Zero: not known.
func (r *Record) History(v Version) Change {
	if r.Flags&FlagEmbedded != 0 {
		return r.Before
	}
	return Change{v.Born, v.Change}
}

// RoleCount and KindCount are how many roles and kinds of memories there are.
const (
	RoleCount = 4
	KindCount = 6
)

// Append appends the value that is stored under Keys.Record to dst.
func (r *Record) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, recordVersion, r.Role, r.Kind)
	dst = binary.AppendUvarint(dst, r.Flags)
	dst = codec.AppendBytes(dst, r.ID)
	dst = codec.AppendBytes(dst, r.Scope.User)
	dst = codec.AppendBytes(dst, r.Scope.Agent)
	dst = codec.AppendBytes(dst, r.Scope.Run)
	dst = codec.AppendBytes(dst, r.Source)
	dst = codec.AppendBytes(dst, r.Name)
	dst = binary.AppendUvarint(dst, uint64(len(r.Aliases)))
	for _, a := range r.Aliases {
		dst = codec.AppendBytes(dst, a)
	}
	dst = binary.AppendVarint(dst, r.Created)
	dst = binary.AppendVarint(dst, r.Updated-r.Created)
	dst = binary.AppendVarint(dst, r.Event)
	dst = binary.AppendVarint(dst, r.Expires)
	dst = codec.AppendFloat64(dst, r.Importance)
	dst = codec.AppendFloat64(dst, r.Confidence)
	dst = binary.AppendUvarint(dst, uint64(len(r.Vectors)))
	for _, v := range r.Vectors {
		dst = appendVectorRef(dst, v)
		dst = binary.LittleEndian.AppendUint32(dst, v.Sum)
	}
	dst = binary.AppendUvarint(dst, r.Before.Born)
	dst = binary.AppendUvarint(dst, uint64(r.Before.Number))
	dst = codec.AppendBytes(dst, r.Metadata)
	dst = append(dst, r.Text...)
	return binary.LittleEndian.AppendUint32(dst, uint32(xxh3.Hash(dst[start:])))
}

// DecodeRecord reads what Append wrote, or wrote before layout 6, and copies what it keeps. It
// returns ErrCorrupt for damaged bytes, an unknown version, an unknown role and an unknown kind.
func DecodeRecord(b []byte) (*Record, error) {
	version := byte(0)
	if len(b) > 0 {
		version = b[0]
	}
	switch end := len(b) - recordSum; {
	case version == recordVersionPlain:
	case version != recordVersion:
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a record", Why: "unknown version of its format"}
	case end < 1 || binary.LittleEndian.Uint32(b[end:]) != uint32(xxh3.Hash(b[:end])):
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a record", Why: "its checksum is that of other bytes"}
	default:
		b = b[:end]
	}
	c := codec.NewReader(b)
	c.Byte()
	r := &Record{Role: c.Byte(), Kind: c.Byte(), Flags: c.Uvarint()}
	r.ID = c.String()
	r.Scope = scope.Scope{User: c.String(), Agent: c.String(), Run: c.String()}
	r.Source, r.Name = c.String(), c.String()
	for range c.Count() {
		r.Aliases = append(r.Aliases, c.String())
	}
	r.Created = c.Varint()
	r.Updated = r.Created + c.Varint()
	r.Event, r.Expires = c.Varint(), c.Varint()
	r.Importance, r.Confidence = c.Float64(), c.Float64()
	for range c.Count() {
		ref := readVectorRef(c)
		if version == recordVersion {
			ref.Sum = c.Fixed32()
		}
		r.Vectors = append(r.Vectors, ref)
	}
	if version == recordVersion {
		r.Before = Change{c.Uvarint(), c.Uint32()}
	}
	r.Metadata = append([]byte(nil), c.Bytes()...)
	r.Text = string(c.Rest())
	if c.Err() != nil || r.Role >= RoleCount || r.Kind >= KindCount {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a record", Cause: c.Err()}
	}
	return r, nil
}
