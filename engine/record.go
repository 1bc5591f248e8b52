package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
)

// recordVersion is the first byte of a record. docs/format/records.md describes
// the rest.
const recordVersion = 1

// Flags of a record.
const (
	flagPinned = 1 << iota
	flagAutoImportance
	flagUpdate   // this version came about by an update, not by an add
	flagPending  // its text is still to be embedded
	flagEmbedded // the update was only that: no event of the memory's history
	flagPast     // an import brought it for the history: it never was the memory's state here
)

// record is a version of a memory as it is stored.
type record struct {
	id         string
	scope      Scope
	role       byte // index in roles
	kind       byte // index in kindNames
	flags      uint64
	source     string
	text       string
	name       string
	aliases    []string
	metadata   []byte // canonical JSON, empty for none
	created    int64  // milliseconds, as all times here
	updated    int64
	event      int64 // 0: none
	expires    int64 // 0: never
	importance float64
	confidence float64
	vectors    []vectorRef
}

// vectorRef says where the vector of a space is: under the version that brought
// it, which an update of other fields leaves as it is.
type vectorRef struct {
	space  uint16
	born   uint64
	change uint32
}

// of is the version that brought the vector to which a record of version v refers.
func (ref vectorRef) of(v version) version {
	if ref.born != 0 {
		v.born, v.change = ref.born, ref.change
	}
	return v
}

var (
	roles     = []Role{RoleUser, RoleAssistant, RoleSystem, RoleTool}
	kindNames = []Kind{KindMessage, KindFragment, KindFact, KindNote, KindArchive, KindSummary}
)

func (r *record) encode(dst []byte) []byte {
	dst = append(dst, recordVersion, r.role, r.kind)
	dst = binary.AppendUvarint(dst, r.flags)
	dst = codec.AppendBytes(dst, r.id)
	dst = codec.AppendBytes(dst, r.scope.User)
	dst = codec.AppendBytes(dst, r.scope.Agent)
	dst = codec.AppendBytes(dst, r.scope.Run)
	dst = codec.AppendBytes(dst, r.source)
	dst = codec.AppendBytes(dst, r.name)
	dst = binary.AppendUvarint(dst, uint64(len(r.aliases)))
	for _, a := range r.aliases {
		dst = codec.AppendBytes(dst, a)
	}
	dst = binary.AppendVarint(dst, r.created)
	dst = binary.AppendVarint(dst, r.updated-r.created)
	dst = binary.AppendVarint(dst, r.event)
	dst = binary.AppendVarint(dst, r.expires)
	dst = codec.AppendFloat64(dst, r.importance)
	dst = codec.AppendFloat64(dst, r.confidence)
	dst = binary.AppendUvarint(dst, uint64(len(r.vectors)))
	for _, v := range r.vectors {
		dst = binary.AppendUvarint(dst, uint64(v.space))
		dst = binary.AppendUvarint(dst, v.born)
		dst = binary.AppendUvarint(dst, uint64(v.change))
	}
	dst = codec.AppendBytes(dst, r.metadata)
	return append(dst, r.text...)
}

func decodeRecord(b []byte) (*record, error) {
	c := codec.NewReader(b)
	if v := c.Byte(); v != recordVersion {
		return nil, &Error{Kind: ErrCorrupt, What: "read a record", Why: "unknown version of its format"}
	}
	r := &record{role: c.Byte(), kind: c.Byte(), flags: c.Uvarint()}
	r.id = c.String()
	r.scope = Scope{User: c.String(), Agent: c.String(), Run: c.String()}
	r.source, r.name = c.String(), c.String()
	for range c.Count() {
		r.aliases = append(r.aliases, c.String())
	}
	r.created = c.Varint()
	r.updated = r.created + c.Varint()
	r.event, r.expires = c.Varint(), c.Varint()
	r.importance, r.confidence = c.Float64(), c.Float64()
	for range c.Count() {
		r.vectors = append(r.vectors, vectorRef{uint16(c.Uint32()), c.Uvarint(), c.Uint32()})
	}
	r.metadata = append([]byte(nil), c.Bytes()...)
	r.text = string(c.Rest())
	if c.Err() != nil || int(r.role) >= len(roles) || int(r.kind) >= len(kindNames) {
		return nil, &Error{Kind: ErrCorrupt, What: "read a record", Cause: c.Err()}
	}
	return r, nil
}

// memory turns the record into what a caller sees; stats and vectors are added by
// the transaction.
func (r *record) memory(seq uint64) (Memory, error) {
	meta, err := decodeMetadata(r.metadata)
	if err != nil {
		return Memory{}, err
	}
	importance, confidence := r.importance, r.confidence
	return Memory{
		ID: r.id, Seq: seq, Scope: r.scope,
		Role: roles[r.role], Kind: kindNames[r.kind], Source: Source(r.source),
		Text: r.text, Name: r.name, Aliases: r.aliases, Metadata: meta,
		CreatedAt: fromMillis(r.created), UpdatedAt: fromMillis(r.updated),
		EventTime: fromMillis(r.event), ExpiresAt: fromMillis(r.expires),
		Pinned:     r.flags&flagPinned != 0,
		Importance: &importance, AutoImportance: r.flags&flagAutoImportance != 0,
		Confidence: &confidence, Hash: textHash(r.text),
	}, nil
}

func textHash(text string) string {
	sum := textSum(text)
	return hex.EncodeToString(sum[:])
}

// textSum is the SHA-256 of a text, which it does not copy.
func textSum(text string) [sha256.Size]byte {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(text), len(text)))
}

// fromMillis and toMillis map the zero time to 0 and back.
func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
