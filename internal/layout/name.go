package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// NameClass says what a name is the name of. Each class numbers its names from 1 on, and
// keys and indexes hold the numbers.
type NameClass byte

// The classes of names. They are stored: a new one goes before NameClasses.
const (
	NameUser    NameClass = 1 + iota // a user
	NameAgent                        // an agent
	NameRun                          // a run
	NameOwner                        // a pair of user and agent, see scope.Key
	NameField                        // a metadata path that is indexed for filters
	NameSpace                        // a vector space
	NameClasses                      // no class: the size of a table by class
)

// Name returns the key under which EncodeName's value of a name is stored.
func (ks *Keys) Name(c NameClass, name string) []byte {
	k := append(ks.Header(KindName, 1+HashSize), byte(c))
	h := ks.hash(name)
	return append(k, h[:]...)
}

// Name is a name within its class.
type Name struct {
	Class NameClass
	Text  string
}

// EncodeName returns what is stored under a name's key. num is the name's number; extra is what
// a vector space adds (model, metric, dimension), and empty in other classes.
func EncodeName(key []byte, num uint32, name string, extra []byte) []byte {
	b := binary.AppendUvarint(nil, uint64(num))
	b = codec.AppendBytes(b, name)
	return Seal(key, append(b, extra...))
}

// DecodeName reads what EncodeName wrote, and copies extra. It returns ErrCorrupt for
// damaged bytes. The caller compares the name: two names may share the hash in the key.
func DecodeName(key, stored []byte) (num uint32, name string, extra []byte, err error) {
	b, err := Unseal(key, stored)
	if err != nil {
		return 0, "", nil, err
	}
	r := codec.NewReader(b)
	num, name = r.Uint32(), r.String()
	if r.Err() != nil {
		return 0, "", nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a name", Cause: r.Err()}
	}
	return num, name, append([]byte(nil), r.Rest()...), nil
}
