package entries

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// The kinds of keys.
const (
	kindEntry  = 'k' // owner | key
	kindExpiry = 'e' // time | owner | key
	kindGone   = 'z' // owner: one that was deleted, and has keys by expiry still
)

// The codes of changes in the log.
const (
	opPut    part.Op = 6 // owner, key, the entry as it is stored
	opDelete part.Op = 7 // owner, key

	opDeleteAll part.Op = 15 // owner: its entries are deleted
	opClean     part.Op = 16 // owner: keys were removed that said nothing any more
)

const (
	keyHeader  = 1 + 2 // kind, generation
	ownerSize  = 4
	expirySize = 8
)

func goneKey(v part.View, owner uint32) []byte {
	return binary.BigEndian.AppendUint32(v.Key(kindGone, ownerSize), owner)
}

// parseGoneKey reads a key of an owner that was deleted.
func parseGoneKey(k []byte) (owner uint32, ok bool) {
	if len(k) != keyHeader+ownerSize {
		return 0, false
	}
	return binary.BigEndian.Uint32(k[keyHeader:]), true
}

func entryKey(v part.View, owner uint32, key string) []byte {
	k := binary.BigEndian.AppendUint32(v.Key(kindEntry, ownerSize+len(key)), owner)
	return append(k, key...)
}

// parseEntryKey reads a key of an entry.
func parseEntryKey(k []byte) (owner uint32, key string, ok bool) {
	const head = keyHeader + ownerSize
	if len(k) <= head {
		return 0, "", false
	}
	return binary.BigEndian.Uint32(k[keyHeader:]), string(k[head:]), true
}

// expiryKey orders entries by when they expire, in Unix milliseconds. Those before 1970
// come first.
func expiryKey(v part.View, expires int64, owner uint32, key string) []byte {
	k := binary.BigEndian.AppendUint64(v.Key(kindExpiry, expirySize+ownerSize+len(key)), uint64(max(expires, 0)))
	k = binary.BigEndian.AppendUint32(k, owner)
	return append(k, key...)
}

// parseExpiryKey reads a key of the index by expiry.
func parseExpiryKey(k []byte) (expires int64, owner uint32, key string, ok bool) {
	const head = keyHeader + expirySize + ownerSize
	if len(k) <= head {
		return 0, 0, "", false
	}
	return int64(binary.BigEndian.Uint64(k[keyHeader:])), binary.BigEndian.Uint32(k[keyHeader+expirySize:]), string(k[head:]), true
}
