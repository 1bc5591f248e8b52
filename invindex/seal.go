package invindex

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

const (
	sealMagic   = "mxic"
	sealVersion = 3
	// numbersVersion is the first that has columns.
	numbersVersion = 2
	// gramsVersion is the first that has the dictionary of grams.
	gramsVersion = 3

	// pageTarget is the size from which a page takes no more. A list longer than
	// it has a page of its own, of at most about 200 KB.
	pageTarget = 32 << 10
	// blockEntries is how many keys of a dictionary share their beginnings: the
	// first of a block is whole.
	blockEntries = 16
)

// Sealable returns the chunks in memory that take no more documents.
func (x *Index) Sealable() []uint16 {
	var numbers []uint16
	for _, c := range x.list() {
		if hot, ok := c.(*hotChunk); ok && x.closed(hot) {
			numbers = append(numbers, hot.number)
		}
	}
	return numbers
}

// closed reports whether a chunk takes no more documents.
func (x *Index) closed(c *hotChunk) bool {
	return c != x.last.Load() || uint32(x.mark.Load()) == (uint32(c.number)+1)*chunkDocs
}

// Seal writes a chunk to w, as pages that a Reader finds again. The chunk must
// take no more documents: there is a later one, or its last slot is taken. The
// index goes on using the chunk in memory until Sealed is called. Seal may run
// beside readers and the writer.
func (x *Index) Seal(w Writer, chunk uint16) error {
	c, err := x.sealable(chunk)
	if err != nil {
		return err
	}
	return x.seal(w, c)
}

// seal writes the pages of a chunk.
func (x *Index) seal(w Writer, c *hotChunk) error {
	s := x.newSealer(w, c)
	for _, l := range c.terms.sorted() {
		s.addTerm(l.text, l.postings())
	}
	s.endTerms()
	for _, l := range c.values.sorted() {
		s.addValue(l.text, l.postings())
	}
	return s.end()
}

// sealable returns a chunk that Seal takes, or says why it doesn't.
func (x *Index) sealable(number uint16) (*hotChunk, error) {
	for _, c := range x.list() {
		if c.id() != number {
			continue
		}
		hot, ok := c.(*hotChunk)
		if !ok {
			return nil, fmt.Errorf("%w: chunk %d is sealed already", ErrInvalid, number)
		}
		if !x.closed(hot) {
			return nil, fmt.Errorf("%w: chunk %d still takes documents", ErrInvalid, number)
		}
		return hot, nil
	}
	return nil, fmt.Errorf("%w: there is no chunk %d", ErrInvalid, number)
}

// Sealed replaces a chunk by what Seal wrote, which r must find: the store after
// the commit that holds the pages. Snapshots pinned before go on reading the
// chunk in memory. One goroutine may call it at a time, and none beside Add.
func (x *Index) Sealed(r Reader, chunk uint16) error {
	if _, err := x.sealable(chunk); err != nil {
		return err
	}
	c, err := x.openSealed(r, chunk)
	if err != nil {
		return err
	}
	chunks := slices.Clone(x.list())
	for i := range chunks {
		if chunks[i].id() == chunk {
			chunks[i] = c
		}
	}
	x.chunks.Store(&chunks)
	if last := x.last.Load(); last != nil && last.number == chunk {
		x.End()
	}
	return nil
}

// Load adds a chunk that was sealed before the index was opened. One goroutine may call
// it at a time, and none beside Add.
func (x *Index) Load(r Reader, chunk uint16) error {
	c, err := x.openSealed(r, chunk)
	if err != nil {
		return err
	}
	chunks, err := with(x.list(), c)
	if err != nil {
		return err
	}
	x.chunks.Store(&chunks)
	return nil
}

// Span returns the keys between which all pages of a chunk lie: from start up to
// but not including end.
func (x *Index) Span(chunk uint16) (start, end []byte) {
	start = binary.BigEndian.AppendUint16(bytes.Clone(x.prefix), chunk)
	return start, append(bytes.Clone(start), 0xff) // sections are letters
}

// ChunkOf returns the chunk that the key of a page belongs to: for finding, at
// open, what there is to load.
func (x *Index) ChunkOf(key []byte) (chunk uint16, ok bool) {
	rest, ok := bytes.CutPrefix(key, x.prefix)
	if !ok || len(rest) != pageIDBytes {
		return 0, false
	}
	return binary.BigEndian.Uint16(rest), true
}

// sealer writes the pages of a chunk and keeps the first error. It is given the lists of
// terms in the order of their keys, then those of values; lengths and numbers come from a
// chunk in memory, whose own lists it does not look at.
type sealer struct {
	w        Writer
	prefix   []byte
	from     *hotChunk
	terms    dictionary
	values   dictionary
	grams    dictionary
	bank     gramIndex // of the newest terms
	scopes   scopeSummary
	postings []byte
	page     int // number of the postings' current page
	err      error
}

func (x *Index) newSealer(w Writer, from *hotChunk) *sealer {
	s := &sealer{w: w, prefix: x.prefix, from: from, scopes: newScopeSummary(x.scopes)}
	s.terms = dictionary{s: s, section: sectionTerms, length: from.length}
	s.values = dictionary{s: s, section: sectionValues}
	s.grams = dictionary{s: s, section: sectionGrams}
	s.bank = newGramIndex()
	s.lengths(from)
	return s
}

func (s *sealer) addTerm(key string, p []posting) {
	number := uint32(s.terms.keys)
	if number > 0 && number%bankTerms == 0 {
		s.endBank()
	}
	s.bank.add(number, key)
	s.terms.add(key, p)
}

// endBank writes the grams of the terms since the bank before.
func (s *sealer) endBank() {
	for _, l := range s.bank.sorted() {
		s.grams.add(l.text, l.postings())
	}
	s.bank = newGramIndex()
}

// endTerms follows the last term.
func (s *sealer) endTerms() {
	s.terms.flush()
	s.endBank()
	s.grams.flush()
}

func (s *sealer) addValue(key string, p []posting) {
	s.scopes.add(key)
	s.values.add(key, p)
}

// end follows the last value, and writes the header page:
//
//	magic, version (a byte), for each window the number of documents and their
//	length, number of terms; then for terms and for values the number of
//	dictionary pages and the first key of each; then the number of postings pages;
//	then the filter of scopes; then the columns; then for each page of terms how many
//	it has; then for grams as for terms and values
//
// where numbers are uvarints, and keys are preceded by their length.
func (s *sealer) end() error {
	s.values.flush()
	s.flushPostings()
	head := append([]byte(sealMagic), sealVersion)
	for _, sum := range s.from.sums {
		head = binary.AppendUvarint(head, sum.docs)
		head = binary.AppendUvarint(head, sum.length)
	}
	head = binary.AppendUvarint(head, uint64(s.terms.keys))
	head = s.terms.appendFirsts(head)
	head = s.values.appendFirsts(head)
	head = binary.AppendUvarint(head, uint64(s.page))
	scopes := s.scopes.filter()
	head = scopes.append(head)
	head = s.columns(head, s.from)
	for _, n := range s.terms.counts {
		head = binary.AppendUvarint(head, uint64(n))
	}
	head = s.grams.appendFirsts(head)
	s.put(sectionHeader, 0, head)
	return s.err
}

func (s *sealer) put(section byte, number int, b []byte) {
	if s.err != nil {
		return
	}
	if number >= 1<<16 {
		s.err = fmt.Errorf("%w: chunk %d has too many pages of section %c", ErrInvalid, s.from.number, section)
		return
	}
	id := pageID{chunk: s.from.number, section: section, number: uint16(number)}
	if err := s.w.Set(id.key(s.prefix), sealPage(id, b)); err != nil {
		s.err = fmt.Errorf("invindex: sealing %v: %w", id, err)
	}
}

// lengths writes the lengths page: for each window the number of bytes of a
// length (0, 1, 2 or 4), then the length plus one of each slot, 0 for a gap.
// A window without documents is only the 0.
func (s *sealer) lengths(c *hotChunk) {
	var b []byte
	for w := range c.pages {
		page := c.pages[w].Load()
		if page == nil {
			b = append(b, 0)
			continue
		}
		switch most := slices.Max(page[:]); {
		case most < 1<<8:
			b = append(b, 1)
			for _, n := range page {
				b = append(b, byte(n))
			}
		case most < 1<<16:
			b = append(b, 2)
			for _, n := range page {
				b = binary.LittleEndian.AppendUint16(b, uint16(n))
			}
		default:
			b = append(b, 4)
			for _, n := range page {
				b = binary.LittleEndian.AppendUint32(b, n)
			}
		}
	}
	s.put(sectionLengths, 0, b)
}

// dictionary writes the pages of a dictionary, whose keys come in ascending order. A page
// holds
//
//	the number of blocks and the offset of each, 16 bits little-endian each;
//	the blocks, each of up to 16 entries
//
// and an entry holds
//
//	the number of bytes that its key shares with the one before it in the block,
//	the number of the rest, the rest; the number of postings; the size of the
//	list; and either the list, if it is short, or the page and the offset where
//	it is
type dictionary struct {
	s       *sealer
	section byte
	length  func(slot uint16) uint32 // of documents, for lists that have impacts
	keys    int
	firsts  []string // of the pages
	counts  []int    // keys of each page

	body    []byte // of the page that is written
	offsets []int
	block   int // entries of the newest block
	prev    string
}

func (d *dictionary) add(key string, p []posting) {
	if len(d.offsets) == 0 || d.block == blockEntries {
		if len(d.body) >= pageTarget {
			d.flush()
		}
		if len(d.offsets) == 0 {
			d.firsts, d.counts = append(d.firsts, key), append(d.counts, 0)
		}
		d.offsets = append(d.offsets, len(d.body))
		d.block, d.prev = 0, ""
	}
	d.body = d.s.entry(d.body, d.prev, key, p, d.length)
	d.prev = key
	d.block++
	d.keys++
	d.counts[len(d.counts)-1]++
}

// flush writes the page, if it has an entry.
func (d *dictionary) flush() {
	if len(d.offsets) == 0 {
		return
	}
	start := 2 * (1 + len(d.offsets))
	page := binary.LittleEndian.AppendUint16(nil, uint16(len(d.offsets)))
	for _, o := range d.offsets {
		page = binary.LittleEndian.AppendUint16(page, uint16(start+o))
	}
	d.s.put(d.section, len(d.firsts)-1, append(page, d.body...))
	d.body, d.offsets = d.body[:0], d.offsets[:0]
}

// appendFirsts appends the first keys of the pages to the header.
func (d *dictionary) appendFirsts(head []byte) []byte {
	head = binary.AppendUvarint(head, uint64(len(d.firsts)))
	for _, f := range d.firsts {
		head = binary.AppendUvarint(head, uint64(len(f)))
		head = append(head, f...)
	}
	return head
}

func (s *sealer) entry(b []byte, prev, key string, p []posting, length func(uint16) uint32) []byte {
	shared := 0
	for shared < min(len(prev), len(key)) && prev[shared] == key[shared] {
		shared++
	}
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(key)-shared))
	b = append(b, key[shared:]...)
	b = binary.AppendUvarint(b, uint64(len(p)))
	if len(p) <= maxShort {
		var room [maxShort * 6]byte
		short := appendShort(room[:0], p)
		b = binary.AppendUvarint(b, uint64(len(short)))
		return append(b, short...)
	}
	page, offset, size := s.long(p, length)
	b = binary.AppendUvarint(b, uint64(size))
	b = binary.AppendUvarint(b, uint64(page))
	return binary.AppendUvarint(b, uint64(offset))
}

// long puts a list into the postings' pages, whole into one, and says where.
func (s *sealer) long(p []posting, length func(uint16) uint32) (page, offset, size int) {
	if len(s.postings) >= pageTarget {
		s.flushPostings()
	}
	offset = len(s.postings)
	if len(p) < minWindowed {
		s.postings = appendFlat(s.postings, p)
	} else {
		s.postings = appendWindowed(s.postings, p, length)
	}
	return s.page, offset, len(s.postings) - offset
}

func (s *sealer) flushPostings() {
	if len(s.postings) > 0 {
		s.put(sectionPostings, s.page, s.postings)
		s.postings = s.postings[:0]
		s.page++
	}
}
