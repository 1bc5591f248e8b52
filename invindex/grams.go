package invindex

import (
	"encoding/binary"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/near"
)

// gramIndex is an index of a chunk's own terms by their grams: a dictionary whose documents
// are the terms, by their numbers, so that what is near a word is found without a look at
// the others. A hot chunk's terms are numbered as they come, a sealed one's in ascending
// order. A key is the bank of the terms, the upper 16 bits of their numbers, and a gram; the
// slot of a posting is the rest of the number, and its frequency is the letters of the term.
//
// Terms that are near no word have no grams: about 8 postings, of 4 bytes in a hot chunk and
// of 2 to 3 in a sealed one, are what each of the others takes.
type gramIndex struct{ *dict }

// bankTerms is how many terms are in a bank: slots are 16 bits.
const bankTerms = chunkDocs

func newGramIndex() gramIndex { return gramIndex{newDict()} }

// add adds the term of a number, which is above those before it. It returns the number of
// bytes by which the dictionary grew.
func (x gramIndex) add(number uint32, term string) (grown int) {
	letters := near.Letters([]byte(term))
	if letters == 0 {
		return 0
	}
	slot := uint16(number)
	near.EachGram([]byte(term), func(g near.Gram) {
		var room [gramKeyBytes]byte
		key := gramKey(room[:0], number/bankTerms, g)
		l := x.find(string(key))
		switch {
		case l == nil:
			var n int
			l, n = x.insert(string(key))
			grown += n
		case l.last == slot:
			return // it is in the term twice
		}
		grown += l.add(newPosting(slot, uint32(letters)))
	})
	return grown
}

// gramKeyBytes is the most that a key of the dictionary of grams takes: a bank, and three
// letters.
const gramKeyBytes = 2 + 3*4

func gramKey(dst []byte, bank uint32, g near.Gram) []byte {
	return g.Append(binary.BigEndian.AppendUint16(dst, uint16(bank)))
}

// listOf opens a list.
type listOf func() (postingList, error)

func (c *hotChunk) hasGrams() bool { return true }

func (c *hotChunk) termsAt(_ Reader, numbers []uint32, _ *[]posting, yield func([]byte, listOf) error) error {
	var room [64]byte
	for _, n := range numbers {
		l := c.terms.list(n)
		err := yield(append(room[:0], l.text...), func() (postingList, error) { return l.open(), nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// readGrams reads what the header says of the dictionary of grams.
func (c *sealedChunk) readGrams(f *fields) {
	end := 0
	c.termEnds = make([]uint32, len(c.terms.pages))
	for i := range c.termEnds {
		n := f.uvarint()
		f.bad = f.bad || n == 0 || n > c.termCount-end
		end += n
		c.termEnds[i] = uint32(end)
	}
	f.bad = f.bad || end != c.termCount
	c.grams = f.dict(c.number, sectionGrams)
}

func (c *sealedChunk) hasGrams() bool { return c.termEnds != nil }

func (c *sealedChunk) termsAt(r Reader, numbers []uint32, buf *[]posting, yield func([]byte, listOf) error) error {
	var key []byte
	at, from := 0, uint32(0)
	for _, n := range numbers {
		for at < len(c.termEnds) && n >= c.termEnds[at] {
			from = c.termEnds[at]
			at++
		}
		if at == len(c.termEnds) {
			return fmt.Errorf("%w: the dictionary of grams of chunk %d has a term %d of %d", ErrCorrupt, c.number, n, c.termCount)
		}
		p, err := c.page(r, &c.terms.pages[at])
		if err != nil {
			return err
		}
		var e entry
		var ok bool
		if key, e, ok = nthEntry(key[:0], p.data, int(n-from)); !ok {
			return fmt.Errorf("%w: %v is malformed", ErrCorrupt, c.terms.pages[at].id)
		}
		*buf = (*buf)[:0]
		if err := yield(key, func() (postingList, error) { return c.open(r, e, true, buf) }); err != nil {
			return err
		}
	}
	return nil
}

// nthEntry reads an entry of a dictionary page by its place. False means a malformed page.
func nthEntry(key, b []byte, n int) ([]byte, entry, bool) {
	block := n / blockEntries
	if block >= dictionaryBlocks(b) {
		return nil, entry{}, false
	}
	from := int(binary.LittleEndian.Uint16(b[2+2*block:]))
	f := fields{rest: b[min(from, len(b)):]}
	for i := n % blockEntries; ; i-- {
		shared := f.uvarint()
		rest := f.bytes(f.uvarint())
		e := f.entry()
		if f.bad || shared > len(key) || e.n == 0 {
			return nil, entry{}, false
		}
		key = append(key[:shared], rest...)
		if i == 0 {
			return key, e, true
		}
	}
}
