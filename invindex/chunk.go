package invindex

import "encoding/binary"

// chunkDocs is the number of documents of a chunk: slots are 16 bits.
const chunkDocs = 1 << 16

// chunk is a chunk as readers use it.
type chunk interface {
	id() uint16
	countTerms() int
	// find opens the list of a key, which is empty where the chunk doesn't have
	// it. It may decode postings into buf, behind what is there.
	find(r Reader, kind dictKind, key string, buf *[]posting) (postingList, error)
	// docFreq returns the number of postings of a key.
	docFreq(r Reader, kind dictKind, key string) (int, error)
	// eachTerm yields the terms that begin with a prefix, in any order, and their
	// numbers of postings. The term is valid until yield returns.
	eachTerm(r Reader, prefix string, yield func(term []byte, n int)) error
	// hasGrams reports whether the dictionary of grams is there.
	hasGrams() bool
	// termsAt yields the terms of some numbers, which ascend, as its dictionary of grams
	// has them. A term and its list are valid until yield returns; the list may be decoded
	// into buf.
	termsAt(r Reader, numbers []uint32, buf *[]posting, yield func(term []byte, open listOf) error) error
	// eachValue yields the lists of the values whose keys begin with a prefix, in any
	// order. A list is valid until yield returns; it may be decoded into buf.
	eachValue(r Reader, prefix string, accept func(key string) bool, buf *[]posting, yield func(l *postingList) error) error
	lengths(r Reader) (lengthsOf, error)
	// inRange adds the slots of documents with a number in a range to a mask, and says
	// whether there may be any.
	inRange(r Reader, field uint16, in Range, m *mask) (bool, error)
	// total sums the documents of a window that lies below the reader's mark.
	total(window int) sum
	// end is one past the slot of the last document, or more where that is not known.
	end() uint32
	// remembered is what calls keep of the chunk for later ones.
	remembered() *chunkMemory
}

// dictKind says which of a chunk's dictionaries is meant.
type dictKind uint8

const (
	ofTerms dictKind = iota
	ofValues
	ofGrams // whose postings are terms: see gramIndex
)

// lengthsOf gives the lengths of a chunk's documents.
type lengthsOf struct {
	hot    *hotChunk
	sealed *[windows]*lengthPage
}

// window returns the lengths of a window, nil where it has no documents.
func (l lengthsOf) window(w int) *lengthPage {
	if l.sealed != nil {
		return l.sealed[w]
	}
	return l.hot.pages[w].Load()
}

// stored returns the length plus one of the document of a slot, 0 for a gap.
func (l lengthsOf) stored(slot uint32) uint32 {
	page := l.window(int(slot >> windowBits))
	if page == nil {
		return 0
	}
	return page[slot%windowDocs]
}

// lengthPage holds the length plus one of each document of a window; 0 is a gap.
// Like sums, a place is read only where it lies below the reader's mark.
type lengthPage [windowDocs]uint32

// sum is a number of documents and their total length.
type sum struct {
	docs   uint64
	length uint64
}

func (s *sum) add(stored uint32) {
	if stored != 0 {
		s.docs++
		s.length += uint64(stored - 1)
	}
}

func (s *sum) join(other sum) {
	s.docs += other.docs
	s.length += other.length
}

// valueKey is what a filter value is in a dictionary.
func valueKey(dst []byte, v Value) []byte {
	dst = binary.BigEndian.AppendUint16(dst, v.Field)
	return append(dst, v.Key...)
}
