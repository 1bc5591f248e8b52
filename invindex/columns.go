package invindex

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// sealedColumn is where the numbers of a field are in a sealed chunk: in pages of up
// to 4,096, by number and then by slot.
type sealedColumn struct {
	field  uint16
	firsts []uint64 // the lowest number of each page
	last   uint64
	pages  []pageSlot // a part of the chunk's
}

func (c *sealedChunk) inRange(r Reader, field uint16, rg Range, m *mask) (bool, error) {
	if !c.numbered {
		return false, noNumbers(c.number)
	}
	at, ok := slices.BinarySearchFunc(c.columns, field, func(c sealedColumn, f uint16) int { return cmp.Compare(c.field, f) })
	if !ok {
		return false, nil
	}
	col, found := &c.columns[at], false
	for i, first := range col.firsts {
		most := col.last
		if i+1 < len(col.firsts) {
			most = col.firsts[i+1]
		}
		if first > rg.Hi {
			break
		}
		if most < rg.Lo {
			continue
		}
		found = true
		p, err := c.page(r, &col.pages[i])
		if err != nil {
			return false, err
		}
		if !columnPageIn(p.data, first, most, rg, m) {
			return false, fmt.Errorf("%w: %v is malformed", ErrCorrupt, col.pages[i].id)
		}
	}
	return found, nil
}

// A page of a column is
//
//	the lowest number, 64 bits; a byte; the number of pairs, a uvarint;
//	for each number that occurs, a uvarint of what it adds to the one before it,
//	shifted right; then, where bit 6 of the byte is set, a uvarint of the times it
//	occurs minus one;
//	the slots, 16 bits each
//
// where bits 0 to 5 of the byte are the shift: floats that are small integers end in
// zeros. Everything is little-endian.
const (
	columnShift = 63
	columnRuns  = 1 << 6
)

// appendColumnPage encodes pairs that are sorted.
func appendColumnPage(dst []byte, p []pair) []byte {
	steps, repeated := uint64(1)<<63, false
	for i := range p[1:] {
		steps |= p[i+1].value - p[i].value
		repeated = repeated || p[i+1].value == p[i].value
	}
	shift := bits.TrailingZeros64(steps)
	dst = binary.LittleEndian.AppendUint64(dst, p[0].value)
	head := byte(shift)
	if repeated {
		head |= columnRuns
	}
	dst = binary.AppendUvarint(append(dst, head), uint64(len(p)))
	before := p[0].value
	for i := 0; i < len(p); {
		value, n := p[i].value, 1
		for i+n < len(p) && p[i+n].value == value {
			n++
		}
		dst = binary.AppendUvarint(dst, (value-before)>>shift)
		if repeated {
			dst = binary.AppendUvarint(dst, uint64(n-1))
		}
		before = value
		i += n
	}
	for _, x := range p {
		dst = binary.LittleEndian.AppendUint16(dst, x.slot)
	}
	return dst
}

// columnPage reads a page, run by run: the slots of one number.
type columnPage struct {
	value uint64
	head  byte
	runs  fields
	slots []byte
	begun bool
}

// openColumnPage says whether the parts of a page are where they should be.
func openColumnPage(b []byte) (p columnPage, ok bool) {
	f := fields{rest: b}
	value, head := f.bytes(8), f.bytes(1)
	n := f.uvarint()
	if f.bad || n < 1 || n > columnBlock || len(f.rest) < 2*n {
		return p, false
	}
	at := len(f.rest) - 2*n
	p = columnPage{value: binary.LittleEndian.Uint64(value), head: head[0], slots: f.rest[at:]}
	p.runs.rest = f.rest[:at]
	return p, head[0] <= columnShift|columnRuns
}

// next moves to the next number and returns its slots; none at the end.
func (p *columnPage) next() (slots []byte, ok bool) {
	if len(p.slots) == 0 {
		return nil, len(p.runs.rest) == 0
	}
	step, n := p.runs.uvarint64(), 1
	if p.head&columnRuns != 0 {
		n += p.runs.uvarint()
	}
	shift := p.head & columnShift
	value := p.value + step<<shift
	if p.runs.bad || n < 1 || n > len(p.slots)/2 || step<<shift>>shift != step || value < p.value || p.begun != (step > 0) {
		return nil, false
	}
	p.value, p.begun = value, true
	slots, p.slots = p.slots[:2*n], p.slots[2*n:]
	return slots, true
}

// columnPageIn adds the slots of a page whose numbers are from first to at most most
// and in a range to a mask. It is false for a malformed page.
func columnPageIn(b []byte, first, most uint64, r Range, m *mask) bool {
	p, ok := openColumnPage(b)
	if !ok || p.value != first {
		return false
	}
	if first >= r.Lo && most <= r.Hi {
		m.addSlots(p.slots)
		return true
	}
	for {
		slots, ok := p.next()
		switch {
		case !ok:
			return false
		case len(slots) == 0 || p.value > r.Hi:
			return true
		case p.value >= r.Lo:
			m.addSlots(slots)
		}
	}
}

// eachNumber yields the numbers of all columns.
func (c *sealedChunk) eachNumber(r Reader, yield func(field uint16, value uint64, slot uint16)) error {
	for i := range c.columns {
		col := &c.columns[i]
		for j := range col.pages {
			data, err := c.page(r, &col.pages[j])
			if err != nil {
				return err
			}
			p, ok := openColumnPage(data.data)
			for more := ok; more; {
				var slots []byte
				slots, ok = p.next()
				for more = ok && len(slots) > 0; len(slots) > 0; slots = slots[2:] {
					yield(col.field, p.value, binary.LittleEndian.Uint16(slots))
				}
			}
			if !ok {
				return fmt.Errorf("%w: %v is malformed", ErrCorrupt, col.pages[j].id)
			}
		}
	}
	return nil
}

// addSlots adds slots of 16 bits, little-endian.
func (m *mask) addSlots(b []byte) {
	for ; len(b) >= 2; b = b[2:] {
		m.add(binary.LittleEndian.Uint16(b))
	}
}

// columns writes the pages of the columns and appends to the header: whether the
// numbers of all documents are known; the number of columns; for each its field, 16
// bits, the number of pages, the first number of each, and the last number, 64 bits
// each.
func (s *sealer) columns(head []byte, c *hotChunk) []byte {
	known := byte(1)
	if c.columns.unknown.Load() {
		known = 0
	}
	all := c.columns.all()
	head = binary.AppendUvarint(append(head, known), uint64(len(all)))
	number := 0
	for _, col := range all {
		pairs := col.pairs()
		head = binary.LittleEndian.AppendUint16(head, col.field)
		head = binary.AppendUvarint(head, uint64((len(pairs)+columnBlock-1)/columnBlock))
		for block := range slices.Chunk(pairs, columnBlock) {
			head = binary.LittleEndian.AppendUint64(head, block[0].value)
			s.put(sectionNumbers, number, appendColumnPage(nil, block))
			number++
		}
		head = binary.LittleEndian.AppendUint64(head, pairs[len(pairs)-1].value)
	}
	return head
}

// readColumns reads what sealer.columns appended.
func (c *sealedChunk) readColumns(f *fields) {
	known := f.bytes(1)
	c.numbered = len(known) == 1 && known[0] == 1
	f.bad = f.bad || !c.numbered && (len(known) == 0 || known[0] != 0)
	var ends []int
	total := 0
	for range f.uvarint() {
		col := sealedColumn{}
		if b := f.bytes(2); len(b) == 2 {
			col.field = binary.LittleEndian.Uint16(b)
		}
		b := f.bytes(8 * f.uvarint())
		if f.bad || len(b) == 0 || len(c.columns) > 0 && c.columns[len(c.columns)-1].field >= col.field {
			f.bad = true
			return
		}
		for ; len(b) > 0; b = b[8:] {
			col.firsts = append(col.firsts, binary.LittleEndian.Uint64(b))
		}
		if b = f.bytes(8); len(b) == 8 {
			col.last = binary.LittleEndian.Uint64(b)
		}
		total += len(col.firsts)
		c.columns, ends = append(c.columns, col), append(ends, total)
	}
	c.numbers = f.slots(c.number, sectionNumbers, total)
	for i, end := range ends {
		if !f.bad {
			c.columns[i].pages = c.numbers[end-len(c.columns[i].firsts) : end]
		}
	}
}
