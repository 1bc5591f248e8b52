package invindex

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// chunkDocs is the number of documents of a chunk: slots are 16 bits.
const chunkDocs = 1 << 16

// chunk is a chunk as readers use it.
type chunk interface {
	id() uint16
	countTerms() int
	// find opens the list of a key, which is empty where the chunk doesn't have
	// it. It may decode postings into buf, behind what is there.
	find(r Reader, kind dictKind, key string, buf *[]posting) (postingList, error)
	lengths(r Reader) (lengthsOf, error)
	// total sums the documents of a window that lies below the reader's mark.
	total(window int) sum
}

// dictKind says which of a chunk's dictionaries is meant.
type dictKind bool

const (
	ofTerms  dictKind = false
	ofValues dictKind = true
)

// lengthsOf gives the lengths of a chunk's documents.
type lengthsOf struct {
	hot    *hotChunk
	sealed *[windows]lengthPage
}

// window returns the lengths of a window, nil where it has no documents.
func (l lengthsOf) window(w int) *lengthPage {
	if l.sealed != nil {
		return &l.sealed[w]
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

const (
	dictPageBytes   = int(unsafe.Sizeof(dictPage{}))
	lengthPageBytes = 4 * windowDocs
)

// hotChunk is a chunk in memory that still grows.
type hotChunk struct {
	number uint16
	terms  *dict
	values *dict // by valueKey; their postings have the frequency 1
	pages  [windows]atomic.Pointer[lengthPage]
	bytes  atomic.Int64
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

// add adds a checked document. Slots ascend.
func (c *hotChunk) add(slot uint16, d *Doc) {
	grown := 0
	window := int(slot >> windowBits)
	page := c.pages[window].Load()
	if page == nil {
		page = new(lengthPage)
		c.pages[window].Store(page)
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
	c.bytes.Add(int64(grown))
}

func valueKey(dst []byte, v Value) []byte {
	dst = binary.BigEndian.AppendUint16(dst, v.Field)
	return append(dst, v.Key...)
}

// length returns the stored length of a document that has one.
func (c *hotChunk) length(slot uint16) uint32 {
	return c.pages[slot>>windowBits].Load()[slot%windowDocs] - 1
}

// below cuts a list to the postings below a slot limit (at most chunkDocs).
func below(p []posting, limit uint32) []posting {
	if len(p) == 0 || p[len(p)-1]>>16 < limit {
		return p
	}
	return p[:lowerBound(p, limit<<16)]
}

func (c *hotChunk) id() uint16 { return c.number }

func (c *hotChunk) countTerms() int { return int(c.terms.count.Load()) }

func (c *hotChunk) total(window int) sum { return c.sums[window] }

func (c *hotChunk) lengths(Reader) (lengthsOf, error) { return lengthsOf{hot: c}, nil }

func (c *hotChunk) find(_ Reader, kind dictKind, key string, _ *[]posting) (postingList, error) {
	d := c.terms
	if kind == ofValues {
		d = c.values
	}
	l := d.find(key)
	if l == nil {
		return postingList{}, nil
	}
	var out postingList
	// Bounds are read before postings: those they count were published before.
	if b := l.bounds.Load(); b != nil {
		out.bounds, out.closed = b, int(b.closed.Load())
	}
	out.plain = l.postings()
	out.n = len(out.plain)
	return out, nil
}
