package usage

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// The kinds of keys.
const (
	kindRecord = 'u' // owner | time | number
	kindSum    = 'Q' // owner | level | model | bucket
	kindModel  = 'R' // owner | model
	kindHome   = 'w' // owner | which | …
	kindAgent  = 'A' // owner
)

// What keys of kindHome hold.
const (
	homeOwner       = 0
	homeBudget      = 1 // period
	homeReservation = 2 // expiry | number
	homeIdentity    = 3 // hash
)

// The codes of changes in the log.
const (
	opAdd       part.Op = 80 // owner, time, number, the record as it is stored
	opDeleteAll part.Op = 81 // owner: all that it has here is deleted
	opBudget    part.Op = 82 // owner, period, the budget as it is stored, empty where it is removed (up to layout 7: nothing)
	opReserve   part.Op = 83 // owner, the key's rest, the cost, empty where it is given back (up to layout 7: nothing)
	opRollUp    part.Op = 84 // owner, first and last millisecond that were rolled up
	opAgent     part.Op = 85 // owner, the manifest as it is stored
)

const (
	keyHeader = 1 + 2 // kind, generation
	ownerSize = 4
	modelSize = 16

	identitySize = 16
)

// model is a model in a key. The zero model is all models.
type model [modelSize]byte

func modelOf(name string) model {
	h := sha256.Sum256([]byte(name))
	return model(h[:modelSize])
}

// level is a width of buckets of time.
type level byte

// The levels, from the narrowest to the widest. The bucket of forever is 0.
const (
	seconds level = iota
	minutes
	hours
	days
	days32
	days1024
	forever
)

// widths are those of the levels, in milliseconds.
var widths = [forever]uint64{
	seconds: 1000, minutes: 60_000, hours: 3_600_000, days: day, days32: 32 * day, days1024: 1024 * day,
}

const day = 24 * uint64(time.Hour/time.Millisecond)

func (l level) bucket(ms uint64) uint64 {
	if l == forever {
		return 0
	}
	return ms / widths[l]
}

func ownerKey(v part.View, kind byte, owner uint32, more int) []byte {
	return binary.BigEndian.AppendUint32(v.Key(kind, ownerSize+more), owner)
}

// span is the range of an owner's keys of a kind.
func span(v part.View, kind byte, owner uint32) (lower, upper []byte) {
	lower = ownerKey(v, kind, owner, 0)
	return lower, layout.PrefixEnd(lower)
}

func recordKey(v part.View, owner uint32, ms, number uint64) []byte {
	k := binary.BigEndian.AppendUint64(ownerKey(v, kindRecord, owner, 16), ms)
	return binary.BigEndian.AppendUint64(k, number)
}

func parseRecordKey(k []byte) (owner uint32, ms, number uint64, ok bool) {
	const head = keyHeader + ownerSize
	if len(k) != head+16 {
		return 0, 0, 0, false
	}
	return binary.BigEndian.Uint32(k[keyHeader:]), binary.BigEndian.Uint64(k[head:]), binary.BigEndian.Uint64(k[head+8:]), true
}

func sumKey(v part.View, owner uint32, l level, m model, bucket uint64) []byte {
	k := append(ownerKey(v, kindSum, owner, 1+modelSize+8), byte(l))
	return binary.BigEndian.AppendUint64(append(k, m[:]...), bucket)
}

// sumPlace is a key of a sum, read.
type sumPlace struct {
	owner  uint32
	level  level
	model  model
	bucket uint64
}

func parseSumKey(k []byte) (p sumPlace, ok bool) {
	const head = keyHeader + ownerSize
	if len(k) != head+1+modelSize+8 || k[head] > byte(forever) {
		return sumPlace{}, false
	}
	return sumPlace{
		binary.BigEndian.Uint32(k[keyHeader:]), level(k[head]), model(k[head+1 : head+1+modelSize]),
		binary.BigEndian.Uint64(k[head+1+modelSize:]),
	}, true
}

func modelKey(v part.View, owner uint32, m model) []byte {
	return append(ownerKey(v, kindModel, owner, modelSize), m[:]...)
}

func homeKey(v part.View, owner uint32) []byte {
	return append(ownerKey(v, kindHome, owner, 1), homeOwner)
}

func budgetKey(v part.View, owner uint32, p period) []byte {
	return append(ownerKey(v, kindHome, owner, 2), homeBudget, byte(p))
}

func reservationKey(v part.View, owner uint32, expires, number uint64) []byte {
	k := append(ownerKey(v, kindHome, owner, 17), homeReservation)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(k, expires), number)
}

func identitiesKey(v part.View, owner uint32, more int) []byte {
	return append(ownerKey(v, kindHome, owner, 1+more), homeIdentity)
}

// identityKey returns the key of a record that was imported without a number: the n-th in its input of those
// with its time and its value.
func identityKey(v part.View, owner uint32, ms uint64, value []byte, n uint64) []byte {
	b := binary.AppendUvarint(binary.AppendUvarint(nil, n), ms)
	h := sha256.Sum256(append(b, value...))
	return append(identitiesKey(v, owner, identitySize), h[:identitySize]...)
}

func agentKey(v part.View, owner uint32) []byte { return ownerKey(v, kindAgent, owner, 0) }

// ownerOf is the owner in a key.
func ownerOf(k []byte) (owner uint32, ok bool) {
	if len(k) < keyHeader+ownerSize {
		return 0, false
	}
	return binary.BigEndian.Uint32(k[keyHeader:]), true
}
