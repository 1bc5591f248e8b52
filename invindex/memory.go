package invindex

import (
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// memory remembers what calls have found out that will stay true, for later calls:
// words come again, and the documents that are alive, or of a large scope, stay the
// same from query to query. Each fact has the place that its hash gives it, and the
// newest stays: no more than about 8 MB, whatever the index holds.
type memory struct {
	serials atomic.Uint64
	entries [1 << 15]atomic.Pointer[knownEntry]
	counts  [1 << 14]atomic.Pointer[knownCount]
}

// maxKnownKey bounds the keys that are remembered: all that analyzers make.
const maxKnownKey = 72

// minKnownCount is the length of a list from which it takes longer to count its
// documents in a mask than to remember how many they are.
const minKnownCount = 256

// knownEntry is an entry of a sealed chunk's dictionary. A query looks each of its
// terms up twice, for the statistics and for the search. It holds no memory of a page.
type knownEntry struct {
	serial uint64
	kind   dictKind
	key    string
	entry  entry
}

// knownCount is the number of documents of a mask that have a term.
type knownCount struct {
	serial uint64
	mask   xxh3.Uint128
	term   string
	n      uint32
}

// chunkMemory is what is remembered of one chunk. The serial number tells it from all
// other chunks of the index, also from one that had, or will have, its number; and it
// does not keep a chunk in memory that is gone.
type chunkMemory struct {
	all    *memory
	serial uint64
	sums   [32]atomic.Pointer[knownSum]
}

// knownSum is the sum of the documents of a mask.
type knownSum struct {
	mask xxh3.Uint128
	sum  sum
}

// start makes m the memory of a new chunk.
func (m *chunkMemory) start(all *memory) {
	m.all, m.serial = all, all.serials.Add(1)
}

// hash names a mask. The documents of one are below some reader's mark, so that what
// is known of it is final.
func (m *mask) hash() xxh3.Uint128 {
	return xxh3.Hash128(unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m)))
}

// sum returns the sum of a mask, computing it where it is not known.
func (m *chunkMemory) sum(mask xxh3.Uint128, compute func() (sum, error)) (sum, error) {
	place := &m.sums[mask.Lo%uint64(len(m.sums))]
	if k := place.Load(); k != nil && k.mask == mask {
		return k.sum, nil
	}
	s, err := compute()
	if err == nil {
		place.Store(&knownSum{mask, s})
	}
	return s, err
}

// count returns the number of documents of a mask that have a term, computing it
// where it is not known.
func (m *chunkMemory) count(mask xxh3.Uint128, term string, compute func() uint32) uint32 {
	places := &m.all.counts
	place := &places[xxh3.HashStringSeed(term, mask.Lo^m.serial)%uint64(len(places))]
	if k := place.Load(); k != nil && k.serial == m.serial && k.mask == mask && k.term == term {
		return k.n
	}
	n := compute()
	if len(term) <= maxKnownKey {
		place.Store(&knownCount{m.serial, mask, strings.Clone(term), n})
	}
	return n
}

// entry returns the entry of a key, reading it where it is not known.
// Of values and terms alone: the grams of one query are few of another's.
func (m *chunkMemory) entry(kind dictKind, key string, read func() (entry, error)) (entry, error) {
	seed := m.serial<<1 | uint64(kind)
	places := &m.all.entries
	place := &places[xxh3.HashStringSeed(key, seed)%uint64(len(places))]
	if k := place.Load(); k != nil && k.serial == m.serial && k.kind == kind && k.key == key {
		return k.entry, nil
	}
	e, err := read()
	if err == nil && len(key) <= maxKnownKey {
		e.short = slices.Clone(e.short)
		place.Store(&knownEntry{m.serial, kind, strings.Clone(key), e})
	}
	return e, err
}
