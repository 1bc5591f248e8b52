package sessions

import (
	"encoding/binary"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// The kinds of keys.
const (
	kindSession = 'S' // owner | run
	kindState   = 'G' // owner | run | LSN
	kindMessage = 'T' // owner | run | content | position | LSN
	kindMarker  = 'B' // owner | run | content | position | LSN | number
	kindID      = 'J' // owner | run | content | hash
	kindOrder   = 'U' // owner | list | time, newest first | run
	kindChore   = 'W' // owner | run | LSN | content
)

// The codes of changes in the log.
const (
	opSession part.Op = 20 // owner, run, the session as it is stored under G
	opAppend  part.Op = 21 // owner, run, content, first position, number of messages
	opWrite   part.Op = 22 // owner, run, content, first position, number of messages: written aside
	opMarker  part.Op = 23 // owner, run, content, position
	opRemove  part.Op = 24 // owner, run, content, position below which messages were removed
	opOwner   part.Op = 25 // owner: it has no sessions any more
)

const (
	keyHeader  = 1 + 2 // kind, generation
	numberSize = 4
	lsnSize    = 8
	hashSize   = 16
	placeSize  = 2 * numberSize // owner, run

	itemSize  = keyHeader + placeSize + 2*numberSize + lsnSize
	stateSize = keyHeader + placeSize + lsnSize
	choreSize = stateSize + numberSize
	orderSize = keyHeader + numberSize + hashSize + 8 + numberSize
)

// place is where a session lies: the numbers of its owner and of its run.
type place struct{ owner, run uint32 }

// key begins a key of a session.
func (p place) key(v part.View, kind byte, bytes int) []byte {
	k := binary.BigEndian.AppendUint32(v.Key(kind, placeSize+bytes), p.owner)
	return binary.BigEndian.AppendUint32(k, p.run)
}

func (p place) head(v part.View) []byte { return p.key(v, kindSession, 0) }

func (p place) state(v part.View, lsn uint64) []byte {
	return binary.BigEndian.AppendUint64(p.key(v, kindState, lsnSize), lsn)
}

// content begins the keys of a kind that belong to a content.
func (p place) content(v part.View, kind byte, content uint32) []byte {
	return binary.BigEndian.AppendUint32(p.key(v, kind, 2*numberSize+lsnSize), content)
}

// at begins the keys of a position.
func (p place) at(v part.View, kind byte, content, position uint32) []byte {
	return binary.BigEndian.AppendUint32(p.content(v, kind, content), position)
}

func (p place) item(v part.View, kind byte, content, position uint32, lsn uint64) []byte {
	return binary.BigEndian.AppendUint64(p.at(v, kind, content, position), lsn)
}

// marker is the key of a marker. Of those of a session each has another number.
func (p place) marker(v part.View, content, position uint32, lsn uint64, number uint32) []byte {
	return binary.BigEndian.AppendUint32(p.item(v, kindMarker, content, position, lsn), number)
}

func (p place) id(v part.View, content uint32, id string) []byte {
	h := xxh3.HashString128(id).Bytes()
	return append(p.content(v, kindID, content), h[:]...)
}

func (p place) chore(v part.View, lsn uint64, content uint32) []byte {
	k := binary.BigEndian.AppendUint64(p.key(v, kindChore, lsnSize+numberSize), lsn)
	return binary.BigEndian.AppendUint32(k, content)
}

// parsePlace reads the place in a key of any kind but that of orders.
func parsePlace(k []byte) (p place, ok bool) {
	if len(k) < keyHeader+placeSize {
		return place{}, false
	}
	return place{binary.BigEndian.Uint32(k[keyHeader:]), binary.BigEndian.Uint32(k[keyHeader+numberSize:])}, true
}

// parseItem reads the key of a message or a marker.
func parseItem(k []byte) (content, position uint32, lsn uint64, ok bool) {
	switch {
	case len(k) == itemSize && k[0] == kindMessage:
	case len(k) == itemSize+numberSize && k[0] == kindMarker:
	default:
		return 0, 0, 0, false
	}
	k = k[keyHeader+placeSize:]
	return binary.BigEndian.Uint32(k), binary.BigEndian.Uint32(k[numberSize:]), binary.BigEndian.Uint64(k[2*numberSize:]), true
}

// parseState reads the LSN in the key of a state.
func parseState(k []byte) (lsn uint64, ok bool) {
	if len(k) != stateSize {
		return 0, false
	}
	return binary.BigEndian.Uint64(k[keyHeader+placeSize:]), true
}

// parseChore reads the key of a chore.
func parseChore(k []byte) (lsn uint64, content uint32, ok bool) {
	if len(k) != choreSize {
		return 0, 0, false
	}
	k = k[keyHeader+placeSize:]
	return binary.BigEndian.Uint64(k), binary.BigEndian.Uint32(k[lsnSize:]), true
}

// listID names a list of sessions of an owner.
type listID [hashSize]byte

// everyday is the list of the sessions that are not archived, archives that of the archived
// ones. The list of a channel has the hash of its name.
var (
	everyday listID
	archives = listID{0: math.MaxUint8}
)

func channelList(channel string) listID {
	l := listID(xxh3.HashString128(channel).Bytes())
	if l == everyday || l == archives {
		l[hashSize-1] ^= 1
	}
	return l
}

// list begins the keys of a list.
func list(v part.View, owner uint32, l listID) []byte {
	k := binary.BigEndian.AppendUint32(v.Key(kindOrder, orderSize-keyHeader), owner)
	return append(k, l[:]...)
}

// order is the key of a session in a list. Later times come first; those before 1970 are one.
func order(v part.View, p place, l listID, updated int64) []byte {
	k := binary.BigEndian.AppendUint64(list(v, p.owner, l), math.MaxUint64-uint64(max(updated, 0)))
	return binary.BigEndian.AppendUint32(k, p.run)
}

// parseOrder reads the key of a session in a list.
func parseOrder(k []byte) (p place, l listID, updated int64, ok bool) {
	if len(k) != orderSize {
		return place{}, listID{}, 0, false
	}
	p.owner = binary.BigEndian.Uint32(k[keyHeader:])
	k = k[keyHeader+numberSize:]
	l = listID(k[:hashSize])
	updated = int64(math.MaxUint64 - binary.BigEndian.Uint64(k[hashSize:]))
	p.run = binary.BigEndian.Uint32(k[hashSize+8:])
	return p, l, updated, true
}

// span is the range of keys that begin with a prefix.
func span(prefix []byte) (lower, upper []byte) { return prefix, layout.PrefixEnd(prefix) }

func numberKey(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// contentOf reads the content in the key of a message, a marker or an ID.
func contentOf(k []byte) uint32 { return binary.BigEndian.Uint32(k[keyHeader+placeSize:]) }
