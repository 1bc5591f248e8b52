package layout

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The first byte of an encoded DeathRange: of one without a reason, or of one with.
const (
	rangeVersion       = 1
	rangeVersionReason = 2
)

// DeathRange deletes all memories in a scope that were born before the range, or those of
// them that a filter chose. One key holds the range, and it takes effect with its commit,
// however many memories die. Later commits of bounded size remove the keys of the dead
// memories; the last one removes the range. A crash in between is harmless: opening the
// database puts every range that is left into effect again.
type DeathRange struct {
	LSN    uint64 // LSN and Change are the commit of the delete, and its number within the commit
	Change uint32
	Scope  scope.Scope
	At     int64           // Unix milliseconds
	Docs   *roaring.Bitmap // the documents that died; stored only where Listed is true
	Listed bool            // a filter chose the documents, so that Docs alone says which died
	Reason Reason
	Policy uint32            // the version of the policy that said so
	Into   map[uint32]uint64 // by document: the Seq of the memory that it was merged into; only of a Listed range
	Trash  bool              // the vectors stay until the trash is emptied
}

// CauseOf returns why a document died of the range.
func (d *DeathRange) CauseOf(doc uint32) Cause {
	return Cause{Reason: d.Reason, Policy: d.Policy, Into: d.Into[doc]}
}

// Encode returns the value of the range, without LSN and Change, which are in the key
// that Keys.DeathRange makes. Encode fails where Docs cannot be serialized.
func (d *DeathRange) Encode() ([]byte, error) {
	b := []byte{rangeVersion}
	if d.Reason != NoReason {
		b[0] = rangeVersionReason
	}
	b = binary.AppendVarint(b, d.At)
	b = codec.AppendBytes(b, d.Scope.User)
	b = codec.AppendBytes(b, d.Scope.Agent)
	b = codec.AppendBytes(b, d.Scope.Run)
	listed := byte(0)
	if d.Listed {
		listed = 1
	}
	b = append(b, listed)
	if b[0] == rangeVersionReason {
		b = d.appendReason(b)
	}
	if !d.Listed {
		return b, nil
	}
	set, err := d.Docs.ToBytes()
	return append(b, set...), err
}

// appendReason appends what version 2 has more: of memories that were merged, the documents
// and the Seqs in the order of the documents.
func (d *DeathRange) appendReason(b []byte) []byte {
	trash := byte(0)
	if d.Trash {
		trash = 1
	}
	b = append(b, byte(d.Reason), trash)
	b = binary.AppendUvarint(b, uint64(d.Policy))
	b = binary.AppendUvarint(b, uint64(len(d.Into)))
	for _, doc := range slices.Sorted(maps.Keys(d.Into)) {
		b = binary.AppendUvarint(b, uint64(doc))
		b = binary.AppendUvarint(b, d.Into[doc])
	}
	return b
}

func (d *DeathRange) readReason(r *codec.Reader) {
	d.Reason, d.Trash = Reason(r.Byte()), r.Byte() == 1
	d.Policy = r.Uint32()
	n := r.Count()
	if n > 0 {
		d.Into = make(map[uint32]uint64, n)
	}
	for range n {
		doc := r.Uint32()
		d.Into[doc] = r.Uvarint()
	}
}

// DeathRange returns the key of a death range.
func (ks *Keys) DeathRange(d *DeathRange) []byte {
	return binary.BigEndian.AppendUint32(ks.LSN(KindRange, d.LSN), d.Change)
}

// DecodeRange reads a death range from its key and its value, and copies what it keeps.
// Docs is nil unless the range is Listed. DecodeRange returns ErrCorrupt for a malformed
// key, for damaged bytes and for an unknown version.
func DecodeRange(ks *Keys, key, value []byte) (DeathRange, error) {
	if len(key) != KeyHeader+12 {
		return DeathRange{}, BadKey("death range", key)
	}
	r := codec.NewReader(value)
	v := r.Byte()
	d := DeathRange{
		LSN:    binary.BigEndian.Uint64(key[KeyHeader:]),
		Change: binary.BigEndian.Uint32(key[KeyHeader+8:]),
		At:     r.Varint(),
		Scope:  scope.Scope{User: r.String(), Agent: r.String(), Run: r.String()},
	}
	d.Listed = r.Byte() == 1
	if v == rangeVersionReason {
		d.readReason(r)
	}
	err := r.Err()
	if err == nil && d.Listed {
		d.Docs = roaring.New()
		err = d.Docs.UnmarshalBinary(bytes.Clone(r.Rest()))
	}
	if err != nil || v != rangeVersion && v != rangeVersionReason || d.Reason >= Reasons {
		return DeathRange{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read a death range", Cause: err}
	}
	return d, nil
}

// Before reports whether a version was born before the range. The range kills no version
// that was born later.
func (d *DeathRange) Before(v Version) bool {
	return v.Born < d.LSN || v.Born == d.LSN && v.Change < d.Change
}

// Covers reports whether the range killed a document. The caller has checked that the
// document died at the LSN of the range; v and in are the document's version and scope.
func (d *DeathRange) Covers(doc uint32, v Version, in scope.Scope) bool {
	if d.Listed {
		return d.Docs.Contains(doc)
	}
	return d.Before(v) && scope.Contains(d.Scope, in)
}
