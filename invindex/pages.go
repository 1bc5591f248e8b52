package invindex

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// Reader reads the pages of sealed chunks. A Pebble database or snapshot is one.
// The value is valid until the closer is closed.
type Reader interface {
	// Get returns the value of a key, which is valid until closer is closed.
	Get(key []byte) (value []byte, closer io.Closer, err error)
}

// Writer takes the pages of a chunk that is sealed. It keeps neither key nor value.
type Writer interface {
	// Set stores a value under a key.
	Set(key, value []byte) error
}

// A sealed chunk is a number of pages, each the value of one key:
//
//	prefix | chunk (16 bits) | section (a byte) | page number (16 bits)
//
// with numbers big-endian. A page ends with the xxh3 of what is before it, seeded
// with chunk, section and number, so that a page in another's place is found too.
type pageID struct {
	chunk   uint16
	section byte
	number  uint16
}

const (
	sectionHeader   = 'h' // one page
	sectionLengths  = 'l' // one page
	sectionTerms    = 't' // the dictionary of terms
	sectionValues   = 'v' // the dictionary of filter values
	sectionPostings = 'p' // lists that the dictionaries refer to
	sectionNumbers  = 'n' // columns
	sectionGrams    = 'g' // the dictionary of grams
)

const (
	pageIDBytes   = 5
	checksumBytes = 8
)

func (id pageID) key(prefix []byte) []byte {
	key := append(make([]byte, 0, len(prefix)+pageIDBytes), prefix...)
	key = binary.BigEndian.AppendUint16(key, id.chunk)
	key = append(key, id.section)
	return binary.BigEndian.AppendUint16(key, id.number)
}

func (id pageID) seed() uint64 {
	return uint64(id.chunk)<<24 | uint64(id.section)<<16 | uint64(id.number)
}

// String names a page in an error.
func (id pageID) String() string {
	return fmt.Sprintf("page %c%d of chunk %d", id.section, id.number, id.chunk)
}

// sealPage appends the checksum.
func sealPage(id pageID, b []byte) []byte {
	return binary.LittleEndian.AppendUint64(b, xxh3.HashSeed(b, id.seed()))
}

// readPage reads and verifies a page. What it returns belongs to the caller.
func readPage(r Reader, prefix []byte, id pageID) ([]byte, error) {
	if r == nil {
		return nil, fmt.Errorf("invindex: %v: the snapshot has no reader", id)
	}
	value, closer, err := r.Get(id.key(prefix))
	if err != nil {
		return nil, fmt.Errorf("invindex: %v: %w", id, err)
	}
	b := slices.Clone(value)
	if err := closer.Close(); err != nil {
		return nil, fmt.Errorf("invindex: %v: %w", id, err)
	}
	n := len(b) - checksumBytes
	if n < 0 {
		return nil, fmt.Errorf("%w: %v has %d bytes", ErrCorrupt, id, len(b))
	}
	if sum := xxh3.HashSeed(b[:n], id.seed()); sum != binary.LittleEndian.Uint64(b[n:]) {
		return nil, fmt.Errorf("%w: %v: its checksum does not fit its %d bytes", ErrCorrupt, id, n)
	}
	return b[:n:n], nil
}

// page is a page in memory.
type page struct {
	data    []byte
	lengths *[windows]*lengthPage // of the lengths section, instead of data
	recent  atomic.Bool           // read since the cache last considered it
}

func (p *page) bytes() int64 {
	n := len(p.data) + int(unsafe.Sizeof(*p))
	if p.lengths != nil {
		for _, page := range p.lengths {
			if page != nil {
				n += int(unsafe.Sizeof(*page))
			}
		}
	}
	return int64(n)
}

// pageSlot is where a chunk keeps a page while it is in memory.
type pageSlot struct {
	id   pageID
	page atomic.Pointer[page]
}

// pageCache bounds the memory of the pages of all chunks. Pages that are in
// memory are read without it; it is locked to bring one in. It evicts by the
// clock algorithm. Who reads a page that is evicted keeps it until it is done.
type pageCache struct {
	budget int64
	mu     sync.Mutex
	used   int64
	ring   []*pageSlot
	hand   int
}

// get returns the page of a slot, reading it where it is not in memory.
func (c *pageCache) get(slot *pageSlot, read func(pageID) (*page, error)) (*page, error) {
	if p := slot.page.Load(); p != nil {
		if !p.recent.Load() { // a store that is spared keeps the cache line shared
			p.recent.Store(true)
		}
		return p, nil
	}
	p, err := read(slot.id)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := slot.page.Load(); other != nil { // another reader was faster
		return other, nil
	}
	slot.page.Store(p)
	c.used += p.bytes()
	c.evict()
	c.ring = append(c.ring, slot)
	return p, nil
}

// evict makes room for a page that is not in the ring yet.
func (c *pageCache) evict() {
	for c.used > c.budget && len(c.ring) > 0 {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		slot := c.ring[c.hand]
		p := slot.page.Load()
		if p.recent.Swap(false) {
			c.hand++
			continue
		}
		slot.page.Store(nil)
		c.used -= p.bytes()
		last := len(c.ring) - 1
		c.ring[c.hand], c.ring[last] = c.ring[last], nil
		c.ring = c.ring[:last]
	}
}

func (c *pageCache) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
