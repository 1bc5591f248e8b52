package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// NameClass is what a number stands for.
type NameClass byte

const (
	NameUser NameClass = 1 + iota
	NameAgent
	NameRun
	NameOwner // a user and an agent
	NameField // a metadata path that is indexed for filters
	NameSpace // a vector space
	NameClasses
)

func (ks *Keys) Name(c NameClass, name string) []byte {
	k := append(ks.Header(KindName, 1+HashSize), byte(c))
	h := ks.hash(name)
	return append(k, h[:]...)
}

type Name struct {
	Class NameClass
	Text  string
}

// EncodeName is the value under a name's key. extra is what a space adds.
func EncodeName(num uint32, name string, extra []byte) []byte {
	b := binary.AppendUvarint(nil, uint64(num))
	b = codec.AppendBytes(b, name)
	return append(b, extra...)
}

func DecodeName(b []byte) (num uint32, name string, extra []byte, err error) {
	r := codec.NewReader(b)
	num, name = r.Uint32(), r.String()
	if r.Err() != nil {
		return 0, "", nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a name", Cause: r.Err()}
	}
	return num, name, append([]byte(nil), r.Rest()...), nil
}
