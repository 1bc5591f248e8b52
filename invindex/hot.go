package invindex

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

const (
	dictPageBytes   = int(unsafe.Sizeof(dictPage{}))
	lengthPageBytes = 4 * windowDocs
)

// hotChunk is a chunk in memory that still grows.
type hotChunk struct {
	number  uint16
	order   uint32 // as the how manieth it came, of those in memory
	terms   *dict
	values  *dict // by valueKey; their postings have the frequency 1
	grams   gramIndex
	columns hotColumns
	pages   [windows]atomic.Pointer[lengthPage]
	bytes   atomic.Int64
	memory  chunkMemory
	// sums count the documents of each window. The writer changes only that of
	// the window it fills; readers read only windows that lie wholly below their
	// mark, and the mark was stored after the last change.
	sums [windows]sum
}

func newHotChunk(number uint16, all *memory) *hotChunk {
	c := &hotChunk{number: number, terms: newDict(), values: newDict(), grams: newGramIndex()}
	c.memory.start(all)
	return c
}

// add adds a checked document. Slots ascend.
func (c *hotChunk) add(slot uint16, d *Doc) {
	window := int(slot >> windowBits)
	grown := c.setLength(slot, min(d.Length, MaxLength)+1)
	for terms := range slices.Chunk(d.Terms, addBatch) {
		grown += c.addTerms(slot, window, terms)
	}
	var key [2 + MaxTermBytes]byte
	for _, v := range d.Values {
		k := valueKey(key[:0], v)
		l := c.values.find(string(k))
		if l == nil {
			var n int
			l, n = c.values.insert(string(k))
			grown += n
		} else if l.last == slot {
			continue // a document may name a value twice
		}
		grown += l.add(newPosting(slot, 1))
	}
	grown += c.columns.add(slot, d)
	c.bytes.Add(int64(grown))
}

// addBatch is how many terms are looked up together: each step of a look-up waits for
// the memory, and several terms at a time wait as long as one.
const addBatch = 16

// addTerms adds a posting to the list of each term, and returns the number of bytes by
// which the chunk grew.
func (c *hotChunk) addTerms(slot uint16, window int, terms []Term) (grown int) {
	var lists [addBatch]*list
	c.terms.findEach(terms, &lists)
	put := lists[:0] // none is written before it was read
	for i, t := range terms {
		l := lists[i]
		switch {
		case l == nil:
			if c.terms.find(t.Text) != nil {
				continue // it stands twice in the batch
			}
			var n int
			l, n = c.terms.insert(t.Text)
			grown += n + c.grams.add(c.terms.count.Load()-1, l.text)
		case l.last == slot:
			continue
		case int(l.last>>windowBits) != window:
			grown += l.closeWindows(window, c.length)
		}
		grown += l.put(newPosting(slot, t.Freq))
		put = append(put, l)
	}
	// To publish waits until what was written has reached the cache: once for all.
	for _, l := range put {
		l.publish()
	}
	return grown
}

// setLength sets the stored length of a new document and returns the number of bytes
// by which the chunk grew.
func (c *hotChunk) setLength(slot uint16, stored uint32) (grown int) {
	window := slot >> windowBits
	page := c.pages[window].Load()
	if page == nil {
		page = new(lengthPage)
		c.pages[window].Store(page)
		grown = lengthPageBytes
	}
	page[slot%windowDocs] = stored
	c.sums[window].add(stored)
	return grown
}

// length returns the stored length of a document that has one.
func (c *hotChunk) length(slot uint16) uint32 {
	return c.pages[slot>>windowBits].Load()[slot%windowDocs] - 1
}

func (c *hotChunk) id() uint16 { return c.number }

func (c *hotChunk) countTerms() int { return int(c.terms.count.Load()) }

func (c *hotChunk) total(window int) sum { return c.sums[window] }

func (c *hotChunk) end() uint32 { return chunkDocs } // the reader's mark tells

func (c *hotChunk) remembered() *chunkMemory { return &c.memory }

func (c *hotChunk) lengths(Reader) (lengthsOf, error) { return lengthsOf{hot: c}, nil }

func (c *hotChunk) dict(kind dictKind) *dict {
	switch kind {
	case ofValues:
		return c.values
	case ofGrams:
		return c.grams.dict
	}
	return c.terms
}

func (c *hotChunk) docFreq(_ Reader, kind dictKind, key string) (int, error) {
	if l := c.dict(kind).find(key); l != nil {
		return int(l.n.Load()), nil
	}
	return 0, nil
}

func (c *hotChunk) find(_ Reader, kind dictKind, key string, _ *[]posting) (postingList, error) {
	l := c.dict(kind).find(key)
	if l == nil {
		return postingList{}, nil
	}
	return l.open(), nil
}

// open opens what of the list was published.
func (l *list) open() postingList {
	out := postingList{window: -1}
	// Bounds are read before postings: those they count were published before.
	if b := l.bounds.Load(); b != nil {
		out.bounds, out.closed = b, int(b.closed.Load())
	}
	out.plain = l.postings()
	out.n = len(out.plain)
	return out
}
