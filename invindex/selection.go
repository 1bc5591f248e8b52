package invindex

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"
)

// Docs are the documents that a call works on: those of Set for which Visible
// holds, below the mark of the snapshot.
type Docs struct {
	Set     *roaring.Bitmap       // nil is every document
	Visible func(doc uint32) bool // nil is all of them; called in ascending order
}

// mask is a set of slots of a chunk.
type mask [chunkDocs / 64]uint64

func (m *mask) has(slot uint32) bool { return m[slot>>6]>>(slot&63)&1 != 0 }

// window returns the words of a window, nil of a nil mask.
func (m *mask) window(w int) []uint64 {
	const words = windowDocs / 64
	if m == nil {
		return nil
	}
	return m[w*words:][:words]
}

// clip removes the slots from limit on.
func (m *mask) clip(limit uint32) {
	if limit >= chunkDocs {
		return
	}
	word := limit >> 6
	m[word] &= 1<<(limit&63) - 1
	clear(m[word+1:])
}

func (m *mask) add(slot uint16) { m[slot>>6] |= 1 << (slot & 63) }

// count returns the number of slots.
func (m *mask) count() int {
	n := 0
	for _, word := range m {
		n += bits.OnesCount64(word)
	}
	return n
}

// slots appends the mask's slots in ascending order.
func (m *mask) slots(dst []uint16) []uint16 {
	for i, word := range m {
		for ; word != 0; word &= word - 1 {
			dst = append(dst, uint16(i<<6|bits.TrailingZeros64(word)))
		}
	}
	return dst
}

// filter removes the slots for which keep doesn't hold.
func (m *mask) filter(base uint32, keep func(doc uint32) bool) {
	for i, word := range m {
		for rest := word; rest != 0; rest &= rest - 1 {
			slot := uint32(i<<6 | bits.TrailingZeros64(rest))
			if !keep(base + slot) {
				m[i] &^= rest & -rest
			}
		}
	}
}

// selection is a roaring bitmap taken apart into containers, each the documents
// of a chunk. The library hands documents out one at a time; its portable format
// (RoaringFormatSpec) holds whole containers, which cost a copy.
type selection struct {
	buf        bytes.Buffer
	containers []container
}

type container struct {
	chunk uint16
	card  int
	runs  bool   // data holds pairs of first slot and length minus one
	data  []byte // else slots if at most maxArray, else a mask
}

const (
	cookieRuns   = 12347
	cookieNoRuns = 12346
	maxArray     = 4096 // the cardinality up to which a container lists its slots
	maskBytes    = chunkDocs / 8
	minOffsets   = 4 // containers from which a bitmap with runs has offsets
)

// errContainers is for a bitmap that was not written as its format says: a fault of
// the library, caught before it is a wrong answer.
var errContainers = errors.New("invindex: a set of documents is not in the portable roaring format")

// read takes set apart. The selection shares no memory with it.
func (s *selection) read(set *roaring.Bitmap) error {
	s.buf.Reset()
	s.containers = s.containers[:0]
	s.buf.Grow(int(set.GetSerializedSizeInBytes()))
	if _, err := set.WriteTo(&s.buf); err != nil {
		return fmt.Errorf("invindex: reading a set of documents: %w", err)
	}
	b := s.buf.Bytes()
	cookie := binary.LittleEndian.Uint32(b)
	var isRun []byte
	n := 0
	if cookie&0xffff == cookieRuns {
		n = int(cookie>>16) + 1
		isRun, b = b[4:4+(n+7)/8], b[4+(n+7)/8:]
	} else {
		n, b = int(binary.LittleEndian.Uint32(b[4:])), b[8:]
	}
	head, b := b[:4*n], b[4*n:]
	if isRun == nil || n >= minOffsets {
		b = b[4*n:] // offsets; the containers follow in order
	}
	for i := range n {
		c := container{
			chunk: binary.LittleEndian.Uint16(head[4*i:]),
			card:  int(binary.LittleEndian.Uint16(head[4*i+2:])) + 1,
			runs:  isRun != nil && isRun[i/8]>>(i%8)&1 != 0,
		}
		size := min(2*c.card, maskBytes)
		if c.runs && len(b) >= 2 {
			size = 4 * int(binary.LittleEndian.Uint16(b))
			b = b[2:]
		}
		if size > len(b) {
			return errContainers
		}
		c.data, b = b[:size], b[size:]
		s.containers = append(s.containers, c)
	}
	if len(b) > 0 {
		return errContainers
	}
	return nil
}

// covers says whether the container holds every slot below limit: a call for all of
// a chunk's documents is much cheaper than one for some.
func (c *container) covers(limit uint32) bool {
	switch {
	case c.card < int(limit):
		return false
	case c.runs:
		first, more := binary.LittleEndian.Uint16(c.data), uint32(binary.LittleEndian.Uint16(c.data[2:]))
		return first == 0 && more+1 >= limit
	case c.card <= maxArray:
		return uint32(binary.LittleEndian.Uint16(c.data[2*(limit-1):])) == limit-1
	}
	for ; limit%64 > 0; limit-- {
		if c.data[(limit-1)>>3]>>((limit-1)&7)&1 == 0 {
			return false
		}
	}
	for i := range limit / 64 {
		if binary.LittleEndian.Uint64(c.data[8*i:]) != ^uint64(0) {
			return false
		}
	}
	return true
}

// slots appends the container's slots in ascending order.
func (c *container) slots(dst []uint16) []uint16 {
	switch {
	case c.runs:
		for d := c.data; len(d) > 0; d = d[4:] {
			first, more := binary.LittleEndian.Uint16(d), int(binary.LittleEndian.Uint16(d[2:]))
			for i := range more + 1 {
				dst = append(dst, first+uint16(i))
			}
		}
	case c.card <= maxArray:
		for d := c.data; len(d) > 0; d = d[2:] {
			dst = append(dst, binary.LittleEndian.Uint16(d))
		}
	default:
		for i := range chunkDocs / 64 {
			for w := binary.LittleEndian.Uint64(c.data[8*i:]); w != 0; w &= w - 1 {
				dst = append(dst, uint16(i<<6|bits.TrailingZeros64(w)))
			}
		}
	}
	return dst
}

// mask writes the container as a mask.
func (c *container) mask(m *mask) {
	switch {
	case c.runs:
		clear(m[:])
		for d := c.data; len(d) > 0; d = d[4:] {
			first, more := uint32(binary.LittleEndian.Uint16(d)), uint32(binary.LittleEndian.Uint16(d[2:]))
			m.setRange(first, first+more+1)
		}
	case c.card <= maxArray:
		clear(m[:])
		for d := c.data; len(d) > 0; d = d[2:] {
			slot := binary.LittleEndian.Uint16(d)
			m[slot>>6] |= 1 << (slot & 63)
		}
	default:
		data := (*[maskBytes]byte)(c.data) // of a known size, so that no bound is checked
		for i := range m {
			m[i] = binary.LittleEndian.Uint64(data[8*i : 8*i+8])
		}
	}
}

// setRange adds the slots from lo up to but not including hi.
func (m *mask) setRange(lo, hi uint32) {
	for lo < hi {
		word, from := lo>>6, lo&63
		n := min(64-from, hi-lo)
		m[word] |= (^uint64(0) >> (64 - n)) << from
		lo += n
	}
}
