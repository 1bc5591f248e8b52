package graph

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The limits of entities and relations. IDs, names, aliases and types are bounded by MaxID
// of package engine.
const (
	// MaxAliases bounds the aliases of an entity.
	MaxAliases = 256
	// MaxProperties bounds the properties of an entity or a relation, in bytes of JSON.
	MaxProperties = 1 << 20
	// MaxPropertiesDepth bounds how deep objects and lists nest in properties.
	MaxPropertiesDepth = 100
	// MaxTypes bounds the types of entities of an owner, and those of its relations.
	MaxTypes = 1 << 20
)

// Entity is a thing that an owner knows of.
type Entity struct {
	scope.Owner
	// ID is unique within the owner, up to MaxID bytes.
	ID string
	// Type is the kind of thing: person, project, place. It may be empty.
	Type string
	// Name is what people call it. Where it is empty, a text under the key "name" of the
	// properties is.
	Name    string
	Aliases []string
	// Properties is a JSON object, empty for none.
	Properties           json.RawMessage
	CreatedAt, UpdatedAt time.Time
	// Extracted: texts of memories are the only reason for the entity. It goes with its last
	// link to a memory, if it has no relations by then, and what was merged into it goes with it.
	// An entity is extracted as long as all that has put it says so; what two entities become by
	// a merge is extracted if both were.
	Extracted bool
}

// Relation goes from one entity to another of the same owner.
type Relation struct {
	scope.Owner
	// ID is the caller's, or a UUID that follows from the triple.
	ID             string
	From, Type, To string // IDs of entities; Type is the kind of relation
	Properties     json.RawMessage
	// ValidFrom and ValidTo bound the time in which it was so: from, and up to but without,
	// to. Zero: without a bound.
	ValidFrom, ValidTo time.Time
	CreatedAt          time.Time
	// Extracted: texts of memories are the only reason for the relation. It goes with the last
	// memory that tells of it. What a caller relates is never extracted.
	Extracted bool
	// SupersededAt is when another version, or none, took its place. Zero: it holds.
	SupersededAt time.Time
}

// InversePrefix begins the type of a relation as its other end has it.
const InversePrefix = "inverse:"

// node is an entity as it is stored.
type node struct {
	extracted  bool   // see Entity
	forward    bool   // a forward reference: an ID, and what it was merged into
	into       uint32 // of a forward reference: the entity that it was merged into, 0 for none
	first      uint64 // the LSN at which the entity came to be
	born       uint64 // the LSN at which this version did
	created    int64  // Unix milliseconds
	updated    int64
	typ        uint32
	id, name   string
	aliases    []string
	properties []byte
}

const (
	recordVersion = 1
	flagExtracted = 1 << 5
	flagForward   = 1 << 4 // beside the version, in the lower half of the first byte
	versionMask   = 0x0f
)

func (n *node) encode() []byte {
	head := byte(recordVersion)
	if n.forward {
		head |= flagForward
	}
	if n.extracted && !n.forward {
		head |= flagExtracted
	}
	b := codec.AppendBytes([]byte{head}, n.id)
	if n.forward {
		if n.into == 0 {
			return b
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, n.first), n.born)
		return binary.AppendUvarint(b, uint64(n.into))
	}
	b = binary.AppendUvarint(b, n.first)
	b = binary.AppendUvarint(b, n.born)
	b = binary.AppendVarint(b, n.created)
	b = binary.AppendVarint(b, n.updated)
	b = binary.AppendUvarint(b, uint64(n.typ))
	b = codec.AppendBytes(b, n.name)
	b = binary.AppendUvarint(b, uint64(len(n.aliases)))
	for _, a := range n.aliases {
		b = codec.AppendBytes(b, a)
	}
	return append(b, n.properties...)
}

func decodeNode(b []byte) (n node, err error) {
	r := codec.NewReader(b)
	head := r.Byte()
	n = node{forward: head&flagForward != 0, id: r.String()}
	switch {
	case n.forward && len(r.Rest()) > 0:
		n.first, n.born, n.into = r.Uvarint(), r.Uvarint(), r.Uint32()
	case !n.forward:
		n.extracted = head&flagExtracted != 0
		n.first, n.born = r.Uvarint(), r.Uvarint()
		n.created, n.updated = r.Varint(), r.Varint()
		n.typ, n.name = r.Uint32(), r.String()
		for range r.Count() {
			n.aliases = append(n.aliases, r.String())
		}
		n.properties = bytes.Clone(r.Rest())
	}
	if r.Err() != nil || head&versionMask != recordVersion {
		return node{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read an entity of the graph", Cause: r.Err(), Do: "run check"}
	}
	return n, nil
}

// names are the folded names by which an entity is found, each once.
func (n *node) names() []string {
	if n.forward {
		return nil
	}
	names := []string{n.calledBy()}
	names = append(names, n.aliases...)
	for i, name := range names {
		names[i] = fold(name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(s string) bool { return s == "" })
}

// calledBy is the name of the entity, or the one in its properties.
func (n *node) calledBy() string {
	if n.name != "" || len(n.properties) == 0 {
		return n.name
	}
	var p struct {
		Name any `json:"name"`
	}
	if json.Unmarshal(n.properties, &p) != nil {
		return ""
	}
	s, _ := p.Name.(string)
	if len(s) > valid.MaxID || valid.Printable("", "", s) != nil {
		return ""
	}
	return s
}

// tie is a relation as it is stored.
type tie struct {
	extracted  bool // see Relation
	born       uint64
	created    int64
	from, to   int64 // bounds of validity in Unix milliseconds, 0 for none
	id         string
	properties []byte
	died       uint64 // of a superseded version
	diedAt     int64
}

const (
	tieExtracted  = 1 << 3
	tieMask       = tieExtracted - 1 // the version, in the lowest bits of the first byte
	tieValid      = 1 << 4
	tieID         = 1 << 5
	tieProperties = 1 << 6
	tieDead       = 1 << 7
)

func (t *tie) encode(b []byte) []byte {
	at := len(b)
	b = append(b, recordVersion)
	if t.extracted {
		b[at] |= tieExtracted
	}
	if t.died != 0 {
		b[at] |= tieDead
		b = binary.AppendUvarint(b, t.died)
		b = binary.AppendVarint(b, t.diedAt)
	}
	b = binary.AppendUvarint(b, t.born)
	b = binary.AppendVarint(b, t.created)
	if t.from != 0 || t.to != 0 {
		b[at] |= tieValid
		b = binary.AppendVarint(binary.AppendVarint(b, t.from), t.to)
	}
	if t.id != "" {
		b[at] |= tieID
		b = codec.AppendBytes(b, t.id)
	}
	if len(t.properties) > 0 {
		b[at] |= tieProperties
		b = codec.AppendBytes(b, t.properties)
	}
	return b
}

func decodeTie(b []byte) (t tie, err error) {
	r := codec.NewReader(b)
	head := r.Byte()
	t.extracted = head&tieExtracted != 0
	if head&tieDead != 0 {
		t.died, t.diedAt = r.Uvarint(), r.Varint()
	}
	t.born, t.created = r.Uvarint(), r.Varint()
	if head&tieValid != 0 {
		t.from, t.to = r.Varint(), r.Varint()
	}
	if head&tieID != 0 {
		t.id = r.String()
	}
	if head&tieProperties != 0 {
		t.properties = bytes.Clone(r.Bytes())
	}
	if r.Err() != nil || head&tieMask != recordVersion || len(t.properties) > 0 && !json.Valid(t.properties) {
		return tie{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read a relation of the graph", Cause: r.Err(), Do: "run check"}
	}
	return t, nil
}

// same reports whether two versions say the same.
func (t *tie) same(u *tie) bool {
	return t.extracted == u.extracted && t.from == u.from && t.to == u.to && bytes.Equal(t.properties, u.properties)
}

// holds reports whether the relation was so at a time, in Unix milliseconds.
func (t *tie) holds(at int64) bool {
	return (t.from == 0 || t.from <= at) && (t.to == 0 || at < t.to)
}

// owned is what is stored of an owner.
type owned struct {
	scope.Owner
	entities, relations      uint64 // how many there are
	lastEntity, lastRelation uint32 // the highest numbers that were given out
	lastType                 [3]uint32
	// born is the LSN of the first change of the graph; 0: a version up to v0.3 wrote it. After the graph is
	// deleted, numbers are given out again from 1, so that changes before born name other things.
	born uint64
}

func (o *owned) encode() []byte {
	b := []byte{recordVersion}
	b = codec.AppendBytes(codec.AppendBytes(b, o.User), o.Agent)
	for _, n := range []uint64{
		o.entities, o.relations, uint64(o.lastEntity), uint64(o.lastRelation),
		uint64(o.lastType[classEntity]), uint64(o.lastType[classRelation]),
	} {
		b = binary.AppendUvarint(b, n)
	}
	if o.born != 0 {
		b = binary.AppendUvarint(b, o.born)
	}
	return b
}

// mostRelations bounds the count of an owner's relations: a greater one is a damage, and would
// overflow what is computed from it.
const mostRelations = 1 << 40

func decodeOwned(b []byte) (o owned, err error) {
	r := codec.NewReader(b)
	version := r.Byte()
	o.Owner = scope.Owner{User: r.String(), Agent: r.String()}
	o.entities, o.relations = r.Uvarint(), r.Uvarint()
	o.lastEntity, o.lastRelation = r.Uint32(), r.Uint32()
	o.lastType = [3]uint32{classEntity: r.Uint32(), classRelation: r.Uint32()}
	if r.Len() > 0 {
		o.born = r.Uvarint()
	}
	if r.Err() != nil || version != recordVersion || o.entities > uint64(o.lastEntity) || o.relations > mostRelations ||
		max(o.lastType[classEntity], o.lastType[classRelation]) > MaxTypes {
		return owned{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read the owner of a graph", Cause: r.Err(), Do: "run check"}
	}
	return o, nil
}

// relation reads the arc in the key of a relation, as the end has it whose key it is. Its
// numbers are such as were given out.
func (o *owned) relation(sec byte, key []byte) (arc, error) {
	a, born, ok := parseArc(key)
	old := sec == secOldOut || sec == secOldIn
	if !ok || (born != 0) != old || !o.knows(a) {
		return arc{}, layout.BadKey("relation", key)
	}
	return a, nil
}

// knows reports whether the numbers of an arc were given out.
func (o *owned) knows(a arc) bool {
	return o.gave(a.from, o.lastEntity) && o.gave(a.to, o.lastEntity) && o.gave(a.typ, o.lastType[classRelation]) && a.number <= o.lastRelation
}

// gave reports whether a number was given out.
func (*owned) gave(num, last uint32) bool { return num != 0 && num <= last }

// derivedID is the ID of a relation that its triple names: a UUID of version 8 that holds a
// part of the SHA-256 of the triple (RFC 9562, 5.8).
func derivedID(from, typ, to string) string {
	b := codec.AppendBytes(codec.AppendBytes(codec.AppendBytes(nil, from), typ), to)
	return uuidOf(hashOf(string(b)))
}

func uuidOf(h [hashSize]byte) string {
	h[6] = h[6]&0x0f | 0x80
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:])
}

// properties is a JSON object in compact form, nil for none.
func properties(doing string, p json.RawMessage) ([]byte, error) {
	if p = bytes.TrimSpace(p); len(p) == 0 || string(p) == "null" {
		return nil, nil
	}
	const do = "give a JSON object"
	switch {
	case len(p) > MaxProperties:
		return nil, fault.Invalid(doing, fmt.Sprintf("its properties are %d bytes of JSON, the limit is %d", len(p), MaxProperties), "shorten them")
	case valid.Depth(p) > MaxPropertiesDepth:
		return nil, fault.Invalid(doing, fmt.Sprintf("its properties nest %d deep, the limit is %d", valid.Depth(p), MaxPropertiesDepth), "flatten them")
	case p[0] != '{' || !json.Valid(p):
		return nil, fault.Invalid(doing, "its properties are no JSON object", do)
	}
	if err := valid.JSON(p); err != nil {
		return nil, fault.Invalid(doing, "its properties are no text: "+err.Error(), "convert them to UTF-8")
	}
	return mergeProperties(nil, p)
}

// mergeProperties is an object with the keys of another put in place of its own: null
// removes a key. Both are valid JSON.
func mergeProperties(old, change []byte) ([]byte, error) {
	merged := map[string]json.RawMessage{}
	for _, b := range [][]byte{old, change} {
		if len(b) == 0 {
			continue
		}
		var o map[string]json.RawMessage
		if err := json.Unmarshal(b, &o); err != nil {
			return nil, err
		}
		for k, v := range o {
			if merged[k] = v; string(v) == "null" {
				delete(merged, k)
			}
		}
	}
	if len(merged) == 0 {
		return nil, nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(merged); err != nil { // keys in their order, so that equal objects are equal bytes
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// forwardType is the type of a relation without "inverse:", and whether its ends change
// places.
func forwardType(typ string) (forward string, swap bool) {
	for strings.HasPrefix(typ, InversePrefix) {
		typ, swap = typ[len(InversePrefix):], !swap
	}
	return typ, swap
}

func millis(t time.Time) int64 { return clock.ToMillis(t) }

// relation is a relation with its names.
func (t *tie) relation(o scope.Owner, from, typ, to string) Relation {
	id := t.id
	if id == "" {
		id = derivedID(from, typ, to)
	}
	return Relation{
		Owner: o, ID: id, From: from, Type: typ, To: to, Properties: t.properties,
		ValidFrom: clock.FromMillis(t.from), ValidTo: clock.FromMillis(t.to), Extracted: t.extracted,
		CreatedAt: clock.FromMillis(t.created), SupersededAt: clock.FromMillis(t.diedAt),
	}
}

// fold is a name as it is compared: normalised and without case, as words are before they are
// stemmed.
func fold(name string) string { return analysis.Fold(name) }

func decodeArc(b []byte) (arc, error) {
	if len(b) != arcSize+numSize {
		return arc{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read the ID of a relation", Why: "its value is malformed", Do: "run check"}
	}
	return arc{
		from: binary.BigEndian.Uint32(b), typ: binary.BigEndian.Uint32(b[numSize:]), to: binary.BigEndian.Uint32(b[2*numSize:]),
		number: binary.BigEndian.Uint32(b[arcSize:]),
	}, nil
}

func encodeArc(a arc) []byte { return be32(appendArc(nil, a), a.number) }

// wanted is a relation that is to be there.
type wanted struct {
	from, typ, to string
	tie
	bounds bool // it gives a time of validity
}

func checkRelation(doing string, r *Relation, w *wanted) (err error) {
	if err := checkID(doing, "ID of the entity that the relation comes from", r.From); err != nil {
		return err
	}
	if err := checkID(doing, "ID of the entity that the relation goes to", r.To); err != nil {
		return err
	}
	if err := valid.Word(doing, "relation ID", r.ID); err != nil {
		return err
	}
	typ, swap := forwardType(r.Type)
	if err := checkID(doing, "type of the relation", typ); err != nil {
		return err
	}
	*w = wanted{from: r.From, typ: typ, to: r.To}
	if swap {
		w.from, w.to = w.to, w.from
	}
	for what, t := range map[string]time.Time{"valid_from": r.ValidFrom, "valid_to": r.ValidTo, "created_at": r.CreatedAt} {
		if t.IsZero() {
			continue
		}
		if err := valid.Time(doing, what, t); err != nil {
			return err
		}
	}
	w.tie = tie{extracted: r.Extracted, id: r.ID, created: millis(r.CreatedAt), from: millis(r.ValidFrom), to: millis(r.ValidTo)}
	w.bounds = w.tie.from != 0 || w.tie.to != 0
	if w.tie.from != 0 && w.tie.to != 0 && w.tie.to <= w.tie.from {
		return fault.Invalid(doing, "the relation's validity ends before it begins", "give a valid_to after valid_from")
	}
	if len(r.Properties) > 0 {
		w.properties, err = rawProperties(doing, r.Properties)
	}
	return err
}

// rawProperties is properties with the nulls that a merge needs: compact JSON.
func rawProperties(doing string, p json.RawMessage) ([]byte, error) {
	merged, err := properties(doing, p)
	if err != nil || len(bytes.TrimSpace(p)) == 0 {
		return nil, err
	}
	if !bytes.Contains(p, []byte("null")) {
		return merged, nil
	}
	var out bytes.Buffer
	if err := json.Compact(&out, p); err != nil {
		return nil, fault.Invalid(doing, "its properties are no JSON", "give a JSON object")
	}
	return out.Bytes(), nil
}

// checkID refuses an ID that cannot be one.
func checkID(doing, what, id string) error {
	if id == "" {
		return fault.Invalid(doing, "the "+what+" is empty", "name one")
	}
	return valid.Word(doing, what, id)
}

// between reports whether the arc goes from one to the other, in either direction.
func (a arc) between(x, y uint32) bool {
	return a.from == x && a.to == y || a.from == y && a.to == x
}

// replaced is the arc with one end in place of another.
func (a arc) replaced(old, now uint32) arc {
	if a.from == old {
		a.from = now
	}
	if a.to == old {
		a.to = now
	}
	return a
}

func sameNode(a, b *node) bool {
	return a.typ == b.typ && a.name == b.name && a.created == b.created && a.extracted == b.extracted &&
		slices.Equal(a.aliases, b.aliases) && bytes.Equal(a.properties, b.properties)
}
