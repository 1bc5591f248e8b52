package sqlitefile

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"unicode/utf16"
)

// The kinds of pages of a table.
const (
	pageInner = 5
	pageLeaf  = 13
)

// Row is a row of a table. Each value is nil, an int64, a float64, a string or a []byte, in the
// order of the columns; the text of a string is as it was written, which may be no UTF-8.
type Row struct {
	ID     int64
	Values []any
}

// Rows are the rows of a table in the order of their IDs. It ends after the first error. A row
// of more than MaxRow bytes is an error.
func (f *File) Rows(t *Table) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if t.rowless {
			yield(Row{}, fmt.Errorf("the table %.80q is one without rowid, which is not read", t.Name))
			return
		}
		w := &walker{File: f, table: t, yield: yield, left: f.pages}
		if _, err := w.walk(t.root, 0); err != nil {
			yield(Row{}, fmt.Errorf("table %.80q: %w", t.Name, err))
		}
	}
}

// walker visits the rows of a table.
type walker struct {
	*File
	table *Table
	yield func(Row, error) bool
	left  uint32 // pages that may still be visited: a tree has each once
}

// walk visits the rows below a page, and reports whether there may be more.
func (w *walker) walk(n uint32, depth int) (more bool, err error) {
	if depth > maxDepth || w.left == 0 {
		return false, damaged("a tree of it has a loop at page %d", n)
	}
	w.left--
	p, err := w.open(n)
	if err != nil {
		return false, err
	}
	for i := range p.cells {
		cell, err := p.cell(i)
		if err != nil {
			return false, err
		}
		if p.inner {
			more, err = w.walk(binary.BigEndian.Uint32(cell), depth+1)
		} else {
			more, err = w.row(cell, n)
		}
		if err != nil || !more {
			return false, err
		}
	}
	if p.inner {
		return w.walk(p.last, depth+1)
	}
	return true, nil
}

// A node is a page of a table's tree.
type node struct {
	n        uint32
	page     []byte // what of it is of use
	pointers []byte // to the cells
	cells    int
	inner    bool
	last     uint32 // the child behind all cells
}

// open reads a page of a tree.
func (f *File) open(n uint32) (*node, error) {
	page, err := f.page(n)
	if err != nil {
		return nil, err
	}
	head := page
	if n == 1 {
		head = page[headerSize:]
	}
	p := &node{n: n, page: page[:f.usable], cells: int(binary.BigEndian.Uint16(head[3:])), pointers: head[8:]}
	switch head[0] {
	case pageInner:
		p.inner, p.last, p.pointers = true, binary.BigEndian.Uint32(head[8:]), head[12:]
	case pageLeaf:
	default:
		return nil, damaged("page %d is of the kind %d, not one of a table", n, head[0])
	}
	if 2*p.cells > len(p.pointers) {
		return nil, damaged("page %d has %d cells", n, p.cells)
	}
	return p, nil
}

// cell is a cell, and what stands behind it; of an inner page 4 bytes at least.
func (p *node) cell(i int) ([]byte, error) {
	at := int(binary.BigEndian.Uint16(p.pointers[2*i:]))
	if at >= len(p.page) || p.inner && len(p.page)-at < 4 {
		return nil, damaged("a cell of page %d begins at byte %d", p.n, at)
	}
	return p.page[at:], nil
}

// Row is the row of an ID, which must be there.
func (f *File) Row(t *Table, id int64) (Row, error) {
	n := t.root
	for range maxDepth {
		p, err := f.open(n)
		if err != nil {
			return Row{}, err
		}
		n = p.last
		for i := range p.cells {
			cell, err := p.cell(i)
			if err != nil {
				return Row{}, err
			}
			if p.inner {
				if key, _ := varint(cell[4:]); id <= int64(key) {
					n = binary.BigEndian.Uint32(cell)
					break
				}
				continue
			}
			_, a := varint(cell)
			if key, _ := varint(cell[a:]); int64(key) != id {
				continue
			}
			var found Row
			w := &walker{File: f, table: t, yield: func(r Row, _ error) bool { found = r; return false }}
			_, err = w.row(cell, p.n)
			return found, err
		}
		if !p.inner {
			break
		}
	}
	return Row{}, damaged("the table %.80q has no row %d", t.Name, id)
}

// row gives the row of a cell.
func (w *walker) row(cell []byte, n uint32) (bool, error) {
	size, a := varint(cell)
	id, b := varint(cell[a:])
	if a == 0 || b == 0 {
		return false, damaged("a cell of page %d is cut", n)
	}
	payload, err := w.payload(cell[a+b:], size, n)
	if err != nil {
		return false, err
	}
	row := Row{ID: int64(id)}
	if row.Values, err = w.record(payload); err != nil {
		return false, fmt.Errorf("row %d: %w", row.ID, err)
	}
	row.Values = w.table.complete(row.Values, row.ID)
	return w.yield(row, nil), nil
}

// payload is a row, of which the end may lie on other pages.
func (f *File) payload(cell []byte, size uint64, n uint32) ([]byte, error) {
	if size > MaxRow {
		return nil, fmt.Errorf("a row of page %d has %d bytes; the limit is %d", n, size, MaxRow)
	}
	total, room := int(size), f.usable
	local := total
	if most := room - 35; total > most {
		least := (room-12)*32/255 - 23
		if local = least + (total-least)%(room-4); local > most {
			local = least
		}
	}
	if local > len(cell) || local < total && local+4 > len(cell) {
		return nil, damaged("a cell of page %d is cut", n)
	}
	if local == total {
		return cell[:local], nil
	}
	if int64(total-local) > int64(f.pages)*int64(room) {
		return nil, damaged("a row of page %d is longer than the file", n)
	}
	out := append(make([]byte, 0, total), cell[:local]...)
	next := binary.BigEndian.Uint32(cell[local:])
	for len(out) < total {
		page, err := f.page(next)
		if err != nil {
			return nil, err
		}
		next = binary.BigEndian.Uint32(page)
		out = append(out, page[4:4+min(room-4, total-len(out))]...)
	}
	return out, nil
}

// record reads the values of a row.
func (f *File) record(b []byte) ([]any, error) {
	size, n := varint(b)
	if n == 0 || size < uint64(n) || size > uint64(len(b)) {
		return nil, damaged("its head has %d bytes", size)
	}
	head, body := b[n:size], b[size:]
	var values []any
	for len(head) > 0 {
		kind, n := varint(head)
		if n == 0 {
			return nil, damaged("its head is cut")
		}
		head = head[n:]
		v, size, err := f.value(kind, body)
		if err != nil {
			return nil, err
		}
		values, body = append(values, v), body[size:]
	}
	return values, nil
}

// integers are the sizes of the kinds of integers, and of the float.
var integers = [...]int{0, 1, 2, 3, 4, 6, 8, 8, 0, 0}

func (f *File) value(kind uint64, b []byte) (v any, size int, err error) {
	if kind == 10 || kind == 11 {
		return nil, 0, damaged("a value is of the kind %d", kind)
	}
	length := uint64(0)
	if kind < 10 {
		length = uint64(integers[kind])
	} else {
		length = (kind - 12) / 2
	}
	if length > uint64(len(b)) {
		return nil, 0, damaged("a value of %d bytes is cut", length)
	}
	b = b[:length]
	switch {
	case kind == 0:
	case kind == 7:
		v = math.Float64frombits(binary.BigEndian.Uint64(b))
	case kind == 8 || kind == 9:
		v = int64(kind - 8)
	case kind < 7:
		n := int64(int8(b[0]))
		for _, c := range b[1:] {
			n = n<<8 | int64(c)
		}
		v = n
	case kind%2 == 0:
		v = append([]byte{}, b...)
	default:
		v = f.text(b)
	}
	return v, int(length), nil
}

// text is a text in UTF-8.
func (f *File) text(b []byte) string {
	if f.encoding == utf8Text {
		return string(b)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if f.encoding == utf16Big {
		order = binary.BigEndian
	}
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = order.Uint16(b[2*i:])
	}
	return string(utf16.Decode(units))
}

// varint reads a number of one to nine bytes; 0 bytes are a number that is cut.
func varint(b []byte) (v uint64, n int) {
	for i := range min(len(b), 9) {
		if i == 8 {
			return v<<8 | uint64(b[8]), 9
		}
		v = v<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
