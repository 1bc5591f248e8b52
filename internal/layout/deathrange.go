package layout

import (
	"bytes"
	"encoding/binary"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// rangeVersion is the first byte of an encoded DeathRange.
const rangeVersion = 1

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
}

// Encode returns the value of the range, without LSN and Change, which are in the key
// that Keys.DeathRange makes. Encode fails where Docs cannot be serialized.
func (d *DeathRange) Encode() ([]byte, error) {
	b := []byte{rangeVersion}
	b = binary.AppendVarint(b, d.At)
	b = codec.AppendBytes(b, d.Scope.User)
	b = codec.AppendBytes(b, d.Scope.Agent)
	b = codec.AppendBytes(b, d.Scope.Run)
	if !d.Listed {
		return append(b, 0), nil
	}
	set, err := d.Docs.ToBytes()
	return append(append(b, 1), set...), err
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
	err := r.Err()
	if err == nil && d.Listed {
		d.Docs = roaring.New()
		err = d.Docs.UnmarshalBinary(bytes.Clone(r.Rest()))
	}
	if err != nil || v != rangeVersion {
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
