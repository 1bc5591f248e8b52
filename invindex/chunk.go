package invindex

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// chunkDocs is the number of documents of a chunk: slots are 16 bits.
const chunkDocs = 1 << 16

const (
	dictPageBytes   = int(unsafe.Sizeof(dictPage{}))
	lengthPageBytes = 4 * windowDocs
)

// hotChunk is a chunk in memory that still grows.
type hotChunk struct {
	number  uint16
	terms   *dict
	values  *dict // by valueKey; their postings have the frequency 1
	lengths [windows]atomic.Pointer[lengthPage]
	// sums count the documents of each window. The writer changes only that of
	// the window it fills; readers read only windows that lie wholly below their
	// mark, and the mark was stored after the last change.
	sums [windows]sum
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

func newHotChunk(number uint16) *hotChunk {
	return &hotChunk{number: number, terms: newDict(), values: newDict()}
}

// add adds a checked document and returns the number of bytes by which the chunk
// grew. Slots ascend.
func (c *hotChunk) add(slot uint16, d *Doc) int {
	grown := 0
	window := int(slot >> windowBits)
	page := c.lengths[window].Load()
	if page == nil {
		page = new(lengthPage)
		c.lengths[window].Store(page)
		grown += lengthPageBytes
	}
	stored := min(d.Length, MaxLength) + 1
	page[slot%windowDocs] = stored
	c.sums[window].add(stored)
	for _, t := range d.Terms {
		l := c.terms.find(t.Text)
		if l == nil {
			var n int
			l, n = c.terms.insert(t.Text)
			grown += n
		} else if int(l.last()>>windowBits) != window {
			grown += l.closeWindows(window, c.length)
		}
		grown += l.add(newPosting(slot, t.Freq))
	}
	var key [2 + MaxTermBytes]byte
	for _, v := range d.Values {
		k := valueKey(key[:0], v)
		l := c.values.find(string(k))
		if l == nil {
			var n int
			l, n = c.values.insert(string(k))
			grown += n
		} else if l.last() == slot {
			continue // a document may name a value twice
		}
		grown += l.add(newPosting(slot, 1))
	}
	return grown
}

func valueKey(dst []byte, v Value) []byte {
	dst = binary.BigEndian.AppendUint16(dst, v.Field)
	return append(dst, v.Key...)
}

// length returns the stored length of a document that has one.
func (c *hotChunk) length(slot uint16) uint32 {
	return c.lengths[slot>>windowBits].Load()[slot%windowDocs] - 1
}

// below cuts a list to the postings below a slot limit (at most chunkDocs).
func below(p []posting, limit uint32) []posting {
	if len(p) == 0 || p[len(p)-1]>>16 < limit {
		return p
	}
	return p[:lowerBound(p, limit<<16)]
}
