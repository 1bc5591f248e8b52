package layout

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// TrustKey is the key of what the vectors of each space have shown in questions.
var TrustKey = metaKey("trust")

const (
	trustVersion = 1
	// TrustFigures is how many figures a space has.
	TrustFigures = 5
)

// Trust is what the vectors of a space have shown, in figures of package policy.
type Trust struct {
	Space   uint16
	Figures [TrustFigures]float64
}

// EncodeTrust returns the value that is stored under TrustKey: a version, the spaces, each with its number and its
// figures, and the xxh3 of all that.
func EncodeTrust(of []Trust) []byte {
	b := binary.AppendUvarint([]byte{trustVersion}, uint64(len(of)))
	for _, t := range of {
		b = binary.AppendUvarint(b, uint64(t.Space))
		for _, f := range t.Figures {
			b = codec.AppendFloat64(b, f)
		}
	}
	return binary.LittleEndian.AppendUint64(b, xxh3.Hash(b))
}

// DecodeTrust reads what EncodeTrust wrote. It returns ErrCorrupt for damaged bytes and for an unknown version.
func DecodeTrust(b []byte) ([]Trust, error) {
	bad := &fault.Error{Kind: fault.ErrCorrupt, What: "read what the vectors have shown", Why: "its checksum does not fit", Do: "rebuild the vectors"}
	if len(b) < 9 || binary.LittleEndian.Uint64(b[len(b)-8:]) != xxh3.Hash(b[:len(b)-8]) || b[0] != trustVersion {
		return nil, bad
	}
	c := codec.NewReader(b[1 : len(b)-8])
	of := make([]Trust, c.Count())
	for n := range of {
		of[n].Space = uint16(c.Uvarint())
		for i := range of[n].Figures {
			of[n].Figures[i] = c.Float64()
		}
	}
	if c.Err() != nil || c.Len() > 0 {
		return nil, bad
	}
	return of, nil
}
