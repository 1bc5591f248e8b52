package requests

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// The kinds of keys.
const (
	kindDone   = 'I' // section | hash, or section | time | hash
	kindAnswer = 'E' // owner | hash
)

// The sections of kindDone.
const (
	sectionHash = 0
	sectionTime = 1
)

// KeySize is the length of a [Key] in bytes.
const KeySize = 16

// Key names a request: a hash of its client and its ID.
type Key [KeySize]byte

// KeyOf is the key of a request. The same ID of two clients has two keys.
func KeyOf(client, id string) Key {
	b := binary.AppendUvarint(nil, uint64(len(client)))
	h := sha256.Sum256(append(append(b, client...), id...))
	return Key(h[:KeySize])
}

func doneKey(v part.View, k Key) []byte {
	return append(append(v.Key(kindDone, 1+KeySize), sectionHash), k[:]...)
}

// timesKey begins the keys that are ordered by time, from a time on in Unix milliseconds.
func timesKey(v part.View, ms int64) []byte {
	return binary.BigEndian.AppendUint64(append(v.Key(kindDone, 1+8+KeySize), sectionTime), uint64(max(ms, 0)))
}

func timeKey(v part.View, ms int64, k Key) []byte { return append(timesKey(v, ms), k[:]...) }

// place is a key of kindDone.
type place struct {
	section byte
	ms      int64
	key     Key
}

func parseDone(b []byte) (p place, ok bool) {
	b = b[min(len(b), layout.KeyHeader):]
	switch {
	case len(b) == 1+KeySize && b[0] == sectionHash:
		return place{section: sectionHash, key: Key(b[1:])}, true
	case len(b) == 1+8+KeySize && b[0] == sectionTime:
		return place{sectionTime, int64(binary.BigEndian.Uint64(b[1:])), Key(b[9:])}, true
	}
	return place{}, false
}

func answersKey(v part.View, owner uint32) []byte {
	return binary.BigEndian.AppendUint32(v.Key(kindAnswer, 4+KeySize), owner)
}

func answerKey(v part.View, owner uint32, k Key) []byte { return append(answersKey(v, owner), k[:]...) }

func parseAnswer(b []byte) (owner uint32, k Key, ok bool) {
	b = b[min(len(b), layout.KeyHeader):]
	if len(b) != 4+KeySize {
		return 0, Key{}, false
	}
	return binary.BigEndian.Uint32(b), Key(b[4:]), true
}
