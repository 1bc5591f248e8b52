package engine

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// forwardVersion is the first byte of a forward record: all that the tables and
// indexes need of a document, so that opening reads no memories.
const forwardVersion = 1

func (p *pendingVersion) appendForward(b []byte) []byte {
	b = append(b, forwardVersion)
	b = binary.AppendUvarint(b, uint64(p.owner))
	b = binary.AppendUvarint(b, p.seq)
	b = binary.AppendUvarint(b, p.born)
	b = binary.AppendUvarint(b, uint64(p.change))
	b = binary.AppendUvarint(b, uint64(p.run))
	b = binary.AppendVarint(b, p.rec.created)
	b = binary.AppendVarint(b, p.rec.expires)
	b = codec.AppendFloat64(b, p.rec.importance)
	b = codec.AppendFloat64(b, p.rec.confidence)
	b = binary.AppendUvarint(b, uint64(len(p.rec.vectors)))
	for _, v := range p.rec.vectors {
		b = binary.AppendUvarint(b, uint64(v.space))
		b = binary.AppendUvarint(b, v.born)
		b = binary.AppendUvarint(b, uint64(v.change))
	}
	return invindex.AppendDoc(b, &p.idx)
}

// forwardRecord is a forward record that was read.
type forwardRecord struct {
	version
	run        uint32
	created    int64
	expires    int64
	importance float64
	confidence float64
	vectors    []vectorRef
	idx        invindex.Doc
}

func decodeForward(b []byte) (*forwardRecord, error) {
	f, idx, err := forwardHead(b)
	if err != nil {
		return nil, err
	}
	var rest []byte
	if f.idx, rest, err = invindex.DecodeDoc(idx); err != nil || len(rest) > 0 {
		return nil, &Error{Kind: ErrCorrupt, What: "read a forward record", Cause: err}
	}
	return f, nil
}

// forwardHead reads a forward record as far as the index's part of it.
func forwardHead(b []byte) (_ *forwardRecord, idx []byte, err error) {
	r := codec.NewReader(b)
	v := r.Byte()
	f := &forwardRecord{version: version{owner: r.Uint32(), seq: r.Uvarint(), born: r.Uvarint(), change: r.Uint32()}}
	f.run = r.Uint32()
	f.created, f.expires = r.Varint(), r.Varint()
	f.importance, f.confidence = r.Float64(), r.Float64()
	for range r.Count() {
		f.vectors = append(f.vectors, vectorRef{uint16(r.Uint32()), r.Uvarint(), r.Uint32()})
	}
	if r.Err() != nil || v != forwardVersion {
		return nil, nil, &Error{Kind: ErrCorrupt, What: "read a forward record", Cause: r.Err()}
	}
	return f, r.Rest(), nil
}
