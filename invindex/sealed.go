package invindex

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
)

// sealedChunk is a chunk whose pages are in a store. It holds its header, and
// pages for as long as the cache leaves them.
type sealedChunk struct {
	number    uint16
	prefix    []byte
	cache     *pageCache
	sums      [windows]sum
	termCount int
	terms     sealedDict
	values    sealedDict
	grams     sealedDict
	termEnds  []uint32 // for each page of terms one past the number of the last; nil without grams
	scopes    scopeFilter
	lens      pageSlot
	last      atomic.Uint32 // one past the slot of the last document; 0 until the lengths are read
	postings  []pageSlot
	numbered  bool // the numbers of all documents are known
	columns   []sealedColumn
	numbers   []pageSlot
	memory    chunkMemory
}

// sealedDict is where the pages of a dictionary are kept. The first key of each
// says which page a key is in.
type sealedDict struct {
	firsts []string
	pages  []pageSlot
}

// openSealed reads a chunk's header.
func (x *Index) openSealed(r Reader, number uint16) (*sealedChunk, error) {
	prefix := x.prefix
	id := pageID{chunk: number, section: sectionHeader}
	b, err := readPage(r, prefix, id)
	if err != nil {
		return nil, err
	}
	f := fields{rest: b}
	if magic := f.bytes(len(sealMagic)); string(magic) != sealMagic {
		return nil, fmt.Errorf("%w: %v begins with %q", ErrCorrupt, id, magic)
	}
	version := byte(0)
	if v := f.bytes(1); len(v) == 1 {
		version = v[0]
	}
	if version > sealVersion {
		return nil, fmt.Errorf("%w: %v has the version %d, this program knows up to %d", ErrVersion, id, version, sealVersion)
	}
	c := &sealedChunk{number: number, prefix: prefix, cache: &x.cache}
	c.memory.start(&x.memory)
	for w := range c.sums {
		c.sums[w] = sum{docs: uint64(f.uvarint()), length: uint64(f.uvarint())}
	}
	c.termCount = f.uvarint()
	c.terms = f.dict(number, sectionTerms)
	c.values = f.dict(number, sectionValues)
	c.postings = f.slots(number, sectionPostings, f.uvarint())
	c.scopes = f.scopeFilter()
	if version >= numbersVersion {
		c.readColumns(&f)
	}
	if version >= gramsVersion {
		c.readGrams(&f)
	}
	c.lens.id = pageID{chunk: number, section: sectionLengths}
	if f.bad || len(f.rest) > 0 || version == 0 {
		return nil, fmt.Errorf("%w: %v is malformed", ErrCorrupt, id)
	}
	return c, nil
}

// fields reads numbers and bytes and remembers that one was missing.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) bytes(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.bad, f.rest = true, nil
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) uvarint() int {
	if len(f.rest) > 0 && f.rest[0] < 0x80 { // nearly always
		v := int(f.rest[0])
		f.rest = f.rest[1:]
		return v
	}
	return f.longUvarint()
}

func (f *fields) longUvarint() int {
	v := f.uvarint64()
	if v >= 1<<62 {
		f.bad, f.rest = true, nil
		return 0
	}
	return int(v)
}

func (f *fields) uvarint64() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.bad, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *fields) slots(chunk uint16, section byte, n int) []pageSlot {
	if n > 1<<16 {
		f.bad = true
		return nil
	}
	slots := make([]pageSlot, n)
	for i := range slots {
		slots[i].id = pageID{chunk: chunk, section: section, number: uint16(i)}
	}
	return slots
}

func (f *fields) dict(chunk uint16, section byte) sealedDict {
	d := sealedDict{pages: f.slots(chunk, section, f.uvarint())}
	for range d.pages {
		d.firsts = append(d.firsts, string(f.bytes(f.uvarint())))
	}
	return d
}

// page returns a page in memory.
func (c *sealedChunk) page(r Reader, slot *pageSlot) (*page, error) {
	return c.cache.get(slot, func(id pageID) (*page, error) {
		b, err := readPage(r, c.prefix, id)
		if err != nil {
			return nil, err
		}
		if id.section != sectionLengths {
			return &page{data: b}, nil
		}
		lengths, ok := decodeLengths(b)
		if !ok {
			return nil, fmt.Errorf("%w: %v is malformed", ErrCorrupt, id)
		}
		return &page{lengths: lengths}, nil
	})
}

func decodeLengths(b []byte) (*[windows]*lengthPage, bool) {
	out := new([windows]*lengthPage)
	for w := range out {
		if len(b) == 0 || len(b)-1 < int(b[0])*windowDocs {
			return nil, false
		}
		each := int(b[0])
		data := b[1 : 1+each*windowDocs]
		b = b[1+len(data):]
		if each == 0 {
			continue
		}
		out[w] = new(lengthPage)
		for i := range out[w] {
			switch each {
			case 1:
				out[w][i] = uint32(data[i])
			case 2:
				out[w][i] = uint32(binary.LittleEndian.Uint16(data[2*i:]))
			case 4:
				out[w][i] = binary.LittleEndian.Uint32(data[4*i:])
			default:
				return nil, false
			}
		}
	}
	return out, len(b) == 0
}

func (c *sealedChunk) id() uint16 { return c.number }

func (c *sealedChunk) countTerms() int { return c.termCount }

func (c *sealedChunk) total(window int) sum { return c.sums[window] }

func (c *sealedChunk) remembered() *chunkMemory { return &c.memory }

func (c *sealedChunk) lengths(r Reader) (lengthsOf, error) {
	p, err := c.page(r, &c.lens)
	if err != nil {
		return lengthsOf{}, err
	}
	l := lengthsOf{sealed: p.lengths}
	if c.last.Load() == 0 {
		last := uint32(chunkDocs)
		for last > 1 && l.stored(last-1) == 0 {
			last--
		}
		c.last.Store(last)
	}
	return l, nil
}

func (c *sealedChunk) end() uint32 {
	if last := c.last.Load(); last != 0 {
		return last
	}
	return chunkDocs
}

// find opens the list of a term or a value.
func (c *sealedChunk) find(r Reader, kind dictKind, key string, buf *[]posting) (postingList, error) {
	e, err := c.entry(r, kind, key)
	if err != nil || e.n == 0 {
		return postingList{}, err
	}
	l, err := c.open(r, e, kind == ofTerms, buf)
	if err != nil {
		return l, fmt.Errorf("invindex: the list of %q in chunk %d: %w", key, c.number, err)
	}
	return l, nil
}

func (c *sealedChunk) docFreq(r Reader, kind dictKind, key string) (int, error) {
	e, err := c.entry(r, kind, key)
	return e.n, err
}

// entry looks a key up, or remembers it.
func (c *sealedChunk) entry(r Reader, kind dictKind, key string) (entry, error) {
	if kind == ofGrams {
		return c.readEntry(r, kind, key)
	}
	return c.memory.entry(kind, key, func() (entry, error) { return c.readEntry(r, kind, key) })
}

func (c *sealedChunk) dict(kind dictKind) *sealedDict {
	switch kind {
	case ofValues:
		return &c.values
	case ofGrams:
		return &c.grams
	}
	return &c.terms
}

// readEntry looks a key up in a dictionary.
func (c *sealedChunk) readEntry(r Reader, kind dictKind, key string) (entry, error) {
	if kind == ofValues && !c.scopes.mayHave(key) {
		return entry{}, nil
	}
	d := c.dict(kind)
	at, exact := slices.BinarySearch(d.firsts, key)
	if !exact {
		at--
	}
	if at < 0 {
		return entry{}, nil
	}
	p, err := c.page(r, &d.pages[at])
	if err != nil {
		return entry{}, err
	}
	e, ok := findEntry(p.data, key)
	if !ok {
		return entry{}, fmt.Errorf("%w: %v is malformed", ErrCorrupt, d.pages[at].id)
	}
	return e, nil
}

// open opens the list of a dictionary entry. Short and flat lists are decoded
// into buf.
func (c *sealedChunk) open(r Reader, e entry, impacts bool, buf *[]posting) (postingList, error) {
	l := postingList{n: e.n, window: -1}
	if e.n == 0 {
		return l, nil
	}
	var err error
	from := len(*buf)
	decoded := *buf
	body := e.short
	if e.n > maxShort {
		if body, err = c.body(r, e); err != nil {
			return postingList{}, err
		}
	}
	switch {
	case e.n <= maxShort:
		decoded, err = decodeShort(decoded, body, e.n)
	case e.n < minWindowed:
		decoded, err = decodeFlat(decoded, body, e.n)
	default:
		l.isPacked = true
		l.packed, err = openPacked(body, e.n, impacts)
	}
	if err != nil {
		return postingList{}, err
	}
	*buf = decoded
	l.plain = decoded[from:]
	return l, nil
}

// keyCursor goes through a dictionary, in the order of its keys.
type keyCursor struct {
	chunk *sealedChunk
	kind  dictKind
	dict  *sealedDict
	page  int    // that comes after the one that is read
	rest  fields // of that one
	key   []byte // of the current entry
	entry entry
	done  bool
}

func (c *sealedChunk) keys(kind dictKind) keyCursor {
	return keyCursor{chunk: c, kind: kind, dict: c.dict(kind)}
}

// next goes to the next key, if there is one.
func (k *keyCursor) next(r Reader) error {
	for len(k.rest.rest) == 0 {
		if k.page == len(k.dict.pages) {
			k.done = true
			return nil
		}
		p, err := k.chunk.page(r, &k.dict.pages[k.page])
		if err != nil {
			return err
		}
		k.page++
		k.rest = fields{rest: p.data}
		blocks := dictionaryBlocks(p.data)
		if blocks == 0 {
			return k.malformed()
		}
		k.rest.bytes(2 + 2*blocks)
	}
	shared := k.rest.uvarint()
	rest := k.rest.bytes(k.rest.uvarint())
	k.entry = k.rest.entry()
	if k.rest.bad || shared > len(k.key) || k.entry.n == 0 {
		return k.malformed()
	}
	k.key = append(k.key[:shared], rest...)
	return nil
}

func (k *keyCursor) malformed() error {
	return fmt.Errorf("%w: %v is malformed", ErrCorrupt, k.dict.pages[k.page-1].id)
}

// postings appends the list of the current key.
func (k *keyCursor) postings(r Reader, dst []posting, buf *[]posting) ([]posting, error) {
	*buf = (*buf)[:0]
	l, err := k.chunk.open(r, k.entry, k.kind == ofTerms, buf)
	if err != nil {
		return dst, fmt.Errorf("invindex: the list of %q in chunk %d: %w", k.key, k.chunk.number, err)
	}
	return l.appendTo(dst)
}

// body returns the bytes of a list that is outside the dictionary.
func (c *sealedChunk) body(r Reader, e entry) ([]byte, error) {
	if e.page >= len(c.postings) {
		return nil, fmt.Errorf("%w: it is in page %d of %d", ErrCorrupt, e.page, len(c.postings))
	}
	p, err := c.page(r, &c.postings[e.page])
	if err != nil {
		return nil, err
	}
	if e.offset > len(p.data) || e.size > len(p.data)-e.offset {
		return nil, fmt.Errorf("%w: it is past the end of %v", ErrCorrupt, c.postings[e.page].id)
	}
	return p.data[e.offset : e.offset+e.size], nil
}

// entry is what a dictionary says of a key. Its n is 0 for a key that is not in it.
type entry struct {
	n      int
	size   int
	short  []byte // the list, where it is short
	page   int
	offset int
}

// dictionaryBlocks returns the number of blocks of a page, 0 of a malformed one.
func dictionaryBlocks(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	n := int(binary.LittleEndian.Uint16(b))
	if len(b) < 2+2*n {
		return 0
	}
	return n
}

// entry reads what follows the key of an entry.
func (f *fields) entry() entry {
	e := entry{n: f.uvarint(), size: f.uvarint()}
	if e.n <= maxShort {
		e.short = f.bytes(e.size)
	} else {
		e.page, e.offset = f.uvarint(), f.uvarint()
	}
	return e
}

// findEntry looks a key up in a dictionary page. False means a malformed page.
func findEntry(b []byte, key string) (entry, bool) {
	n := dictionaryBlocks(b)
	if n == 0 {
		return entry{}, false
	}
	offset := func(i int) int { return int(binary.LittleEndian.Uint16(b[2+2*i:])) }
	// The last block whose first key is not above key.
	lo, hi := 0, n
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		first, ok := firstKey(b, offset(mid))
		if !ok {
			return entry{}, false
		}
		if string(first) <= key {
			lo = mid
		} else {
			hi = mid
		}
	}
	start, end := offset(lo), len(b)
	if lo < n-1 {
		end = offset(lo + 1)
	}
	if start > end || end > len(b) {
		return entry{}, false
	}
	return scanBlock(fields{rest: b[start:end]}, key)
}

// firstKey returns the first key of the block at an offset: it shares nothing, so
// it is stored whole.
func firstKey(b []byte, at int) ([]byte, bool) {
	if at+2 <= len(b) && b[at+1] < 0x80 { // nearly always
		n := int(b[at+1])
		if n > len(b)-at-2 {
			return nil, false
		}
		return b[at+2:][:n], true
	}
	f := fields{rest: b[min(at, len(b)):]}
	f.uvarint()
	first := f.bytes(f.uvarint())
	return first, !f.bad
}

// scanBlock looks for a key among the entries of a block. It keeps how many bytes
// the entry before shares with key: an entry that shares more with that one than
// key does is below key as well, and one that shares less is above.
func scanBlock(f fields, key string) (entry, bool) {
	common := 0
	for len(f.rest) > 0 {
		shared := f.uvarint()
		rest := f.bytes(f.uvarint())
		e := f.entry()
		if f.bad || e.n == 0 {
			return entry{}, false
		}
		switch {
		case shared > common:
			continue
		case shared < common:
			return entry{}, true
		}
		tail := key[common:]
		same := 0
		for same < min(len(rest), len(tail)) && rest[same] == tail[same] {
			same++
		}
		switch {
		case same == len(rest) && same == len(tail):
			return e, true
		case same == len(tail) || same < len(rest) && cmp.Less(tail[same], rest[same]):
			return entry{}, true
		}
		common += same
	}
	return entry{}, !f.bad
}
