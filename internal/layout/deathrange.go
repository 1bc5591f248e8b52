package layout

import (
	"bytes"
	"encoding/binary"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// rangeVersion is the first byte of a death range.
const rangeVersion = 1

// DeathRange is the death of every memory in a scope that was born before it: one
// small key, in force at once, however many memories it means. What they leave
// behind is cleaned up later, in commits of bounded size, and then the range goes
// too. A crash in between is harmless: opening puts the range in force again.
type DeathRange struct {
	LSN    uint64
	Change uint32
	Scope  scope.Scope
	At     int64
	Docs   *roaring.Bitmap // those it killed
	Listed bool            // the range means just these documents: a filter chose them
}

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

func (ks *Keys) DeathRange(d *DeathRange) []byte {
	return binary.BigEndian.AppendUint32(ks.LSN(KindRange, d.LSN), d.Change)
}

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

// Before reports whether a version was born before the range, and so is in it.
func (d *DeathRange) Before(v Version) bool {
	return v.Born < d.LSN || v.Born == d.LSN && v.Change < d.Change
}

// Covers reports whether the range killed a document that died at its LSN.
func (d *DeathRange) Covers(doc uint32, v Version, in scope.Scope) bool {
	if d.Listed {
		return d.Docs.Contains(doc)
	}
	return d.Before(v) && scope.Contains(d.Scope, in)
}
