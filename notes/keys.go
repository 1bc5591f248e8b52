package notes

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

const kindNote = 'N' // owner | side | …

// What follows the owner in a key.
const (
	sideSeq    = 0
	sideNumber = 1
	sideLast   = 2
)

func sideKey(v part.View, owner uint32, side byte) []byte {
	return append(binary.BigEndian.AppendUint32(v.Key(kindNote, 13), owner), side)
}

func seqKey(v part.View, owner uint32, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(sideKey(v, owner, sideSeq), seq)
}

func numberKey(v part.View, owner uint32, number uint64) []byte {
	return binary.BigEndian.AppendUint64(sideKey(v, owner, sideNumber), number)
}

func lastKey(v part.View, owner uint32) []byte { return sideKey(v, owner, sideLast) }

// place is what a key says.
type place struct {
	owner uint32
	side  byte
	of    uint64 // the Seq or the number
}

func parseKey(k []byte) (p place, ok bool) {
	k = k[min(len(k), layout.KeyHeader):]
	if len(k) < 5 {
		return place{}, false
	}
	p = place{owner: binary.BigEndian.Uint32(k), side: k[4]}
	switch rest := k[5:]; {
	case p.side == sideLast && len(rest) == 0:
		return p, true
	case p.side <= sideNumber && len(rest) == 8:
		p.of = binary.BigEndian.Uint64(rest)
		return p, true
	}
	return place{}, false
}

func encode(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func decode(b []byte) (uint64, error) {
	r := codec.NewReader(b)
	n := r.Uvarint()
	if r.Err() != nil || r.Len() > 0 || n == 0 {
		return 0, &fault.Error{Kind: fault.ErrCorrupt, What: "read the number of a note", Cause: r.Err(), Do: "run check"}
	}
	return n, nil
}
