package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// forwardVersion is the first byte of a forward record.
const forwardVersion = 1

// Row is what the tables in RAM hold of a version, so that opening the database and ranking
// read no records. A forward record begins with a Row.
type Row struct {
	Version
	Run        uint32 // the number of the run, 0 for none
	Created    int64  // Unix milliseconds
	Expires    int64  // Unix milliseconds; 0: never
	Importance float64
	Confidence float64
	Vectors    []VectorRef
}

// Append appends the head of a forward record to b. The caller appends the rest, which
// package invindex defines: the document's terms and filter values.
func (r *Row) Append(b []byte) []byte {
	b = append(b, forwardVersion)
	b = binary.AppendUvarint(b, uint64(r.Owner))
	b = binary.AppendUvarint(b, r.Seq)
	b = binary.AppendUvarint(b, r.Born)
	b = binary.AppendUvarint(b, uint64(r.Change))
	b = binary.AppendUvarint(b, uint64(r.Run))
	b = binary.AppendVarint(b, r.Created)
	b = binary.AppendVarint(b, r.Expires)
	b = codec.AppendFloat64(b, r.Importance)
	b = codec.AppendFloat64(b, r.Confidence)
	b = binary.AppendUvarint(b, uint64(len(r.Vectors)))
	for _, v := range r.Vectors {
		b = appendVectorRef(b, v)
	}
	return b
}

// DecodeRow reads what Append wrote. rest is the part of the text index, within b. DecodeRow
// returns ErrCorrupt for damaged bytes and for an unknown version.
func DecodeRow(b []byte) (_ *Row, rest []byte, err error) {
	c := codec.NewReader(b)
	v := c.Byte()
	r := &Row{Version: Version{Owner: c.Uint32(), Seq: c.Uvarint(), Born: c.Uvarint(), Change: c.Uint32()}}
	r.Run = c.Uint32()
	r.Created, r.Expires = c.Varint(), c.Varint()
	r.Importance, r.Confidence = c.Float64(), c.Float64()
	for range c.Count() {
		r.Vectors = append(r.Vectors, readVectorRef(c))
	}
	if c.Err() != nil || v != forwardVersion {
		return nil, nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a forward record", Cause: c.Err()}
	}
	return r, c.Rest(), nil
}
