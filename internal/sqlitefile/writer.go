package sqlitefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// writePage is the size of the pages of a file that is written: the schema fits on one.
const writePage = 8192

// Writer writes a file. Rows of several tables may come in any order, those of one table in that
// of their IDs. It is not safe for concurrent use.
type Writer struct {
	out    io.WriterAt
	tables []Schema
	trees  []tree
	pages  uint32
	buf    []byte
}

// Schema is a table of a file that is written: its name and the text that makes it. The first
// column of each is an INTEGER PRIMARY KEY, which is the ID of the row.
type Schema struct{ Name, SQL string }

// tree is a table that is written: the page that is filled, and those that are full.
type tree struct {
	leaf   leaf
	leaves []child
	last   int64
}

// child is a page of a tree, and the greatest ID below it.
type child struct {
	page uint32
	max  int64
}

// leaf is a page of rows that is filled from its end.
type leaf struct {
	b     []byte
	cells int
	free  int // where the rows begin
	max   int64
}

func newLeaf() leaf { return leaf{b: make([]byte, writePage), free: writePage} }

// NewWriter begins a file of tables. Their roots are the pages behind the first.
func NewWriter(out io.WriterAt, tables []Schema) *Writer {
	w := &Writer{out: out, tables: tables, pages: uint32(1 + len(tables)), trees: make([]tree, len(tables))}
	for i := range w.trees {
		w.trees[i].leaf = newLeaf()
	}
	return w
}

// errRowTooLong is of a row that SQLite could hold and a reader here would refuse.
var errRowTooLong = fmt.Errorf("a row is longer than %d bytes", MaxRow)

// Row writes a row of a table, which is counted from 0: its ID, which is greater than that of the
// row before, and the values of the columns behind that. A value is nil, a bool, an int, an
// int64, a float64, a string or a []byte.
func (w *Writer) Row(table int, id int64, values ...any) error {
	t := &w.trees[table]
	if t.leaf.cells+len(t.leaves) > 0 && id <= t.last {
		return fmt.Errorf("row %d comes after row %d", id, t.last)
	}
	t.last = id
	payload, err := recordOf(w.buf[:0], append([]any{nil}, values...))
	if err != nil {
		return err
	}
	w.buf = payload
	if len(payload) > MaxRow {
		return errRowTooLong
	}
	cell := appendVarint(appendVarint(nil, uint64(len(payload))), uint64(id))
	local := localPart(len(payload), writePage)
	cell = append(cell, payload[:local]...)
	if local < len(payload) {
		first, err := w.overflow(payload[local:])
		if err != nil {
			return err
		}
		cell = binary.BigEndian.AppendUint32(cell, first)
	}
	if t.leaf.free-len(cell) < 8+2*(t.leaf.cells+1) {
		if err := w.flush(t); err != nil {
			return err
		}
	}
	l := &t.leaf
	l.free -= len(cell)
	copy(l.b[l.free:], cell)
	binary.BigEndian.PutUint16(l.b[8+2*l.cells:], uint16(l.free))
	l.cells, l.max = l.cells+1, id
	return nil
}

// localPart is how much of a row stands on its page.
func localPart(total, room int) int {
	most, least := room-35, (room-12)*32/255-23
	if total <= most {
		return total
	}
	if local := least + (total-least)%(room-4); local <= most {
		return local
	}
	return least
}

// overflow writes the end of a row on pages of its own, and returns the first of them.
func (w *Writer) overflow(rest []byte) (uint32, error) {
	first := w.pages + 1
	for len(rest) > 0 {
		n := min(len(rest), writePage-4)
		page := make([]byte, writePage)
		if w.pages++; n < len(rest) {
			binary.BigEndian.PutUint32(page, w.pages+1)
		}
		copy(page[4:], rest[:n])
		if err := w.write(w.pages, page); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return first, nil
}

func (w *Writer) write(n uint32, page []byte) error {
	_, err := w.out.WriteAt(page, int64(n-1)*writePage)
	return err
}

// head writes the head of a leaf.
func (l *leaf) head(b []byte) {
	b[0] = pageLeaf
	binary.BigEndian.PutUint16(b[3:], uint16(l.cells))
	binary.BigEndian.PutUint16(b[5:], uint16(l.free))
}

// flush writes the leaf that is full.
func (w *Writer) flush(t *tree) error {
	w.pages++
	t.leaf.head(t.leaf.b)
	t.leaves = append(t.leaves, child{w.pages, t.leaf.max})
	err := w.write(w.pages, t.leaf.b)
	t.leaf = newLeaf()
	return err
}

// finish ends a table: its root stands on the page that was kept for it.
func (w *Writer) finish(t *tree, root uint32) error {
	if len(t.leaves) == 0 {
		t.leaf.head(t.leaf.b)
		return w.write(root, t.leaf.b)
	}
	if t.leaf.cells > 0 {
		if err := w.flush(t); err != nil {
			return err
		}
	}
	level := t.leaves
	const fan = (writePage - 12) / (4 + 9 + 2) // children of a page, with the longest IDs
	for len(level) > fan {
		var above []child
		for len(level) > 0 {
			n := min(len(level), fan)
			if rest := len(level) - n; rest == 1 { // which would have no ID to part it
				n--
			}
			w.pages++
			if err := w.write(w.pages, inner(level[:n])); err != nil {
				return err
			}
			above = append(above, child{w.pages, level[n-1].max})
			level = level[n:]
		}
		level = above
	}
	return w.write(root, inner(level))
}

// inner is a page above others.
func inner(children []child) []byte {
	b := make([]byte, writePage)
	last := len(children) - 1
	b[0] = pageInner
	binary.BigEndian.PutUint16(b[3:], uint16(last))
	binary.BigEndian.PutUint32(b[8:], children[last].page)
	free := writePage
	for i, c := range children[:last] {
		cell := appendVarint(binary.BigEndian.AppendUint32(nil, c.page), uint64(c.max))
		free -= len(cell)
		copy(b[free:], cell)
		binary.BigEndian.PutUint16(b[12+2*i:], uint16(free))
	}
	binary.BigEndian.PutUint16(b[5:], uint16(free))
	return b
}

// Close ends the file, and leaves the output open: its head and schema are what is written last, so that a file which was
// cut short is none. version is its user_version.
func (w *Writer) Close(version int) error {
	for i := range w.trees {
		if err := w.finish(&w.trees[i], uint32(i+2)); err != nil {
			return err
		}
	}
	l := leaf{b: make([]byte, writePage), free: writePage}
	for i, t := range w.tables {
		payload, err := recordOf(nil, []any{"table", t.Name, t.Name, int64(i + 2), t.SQL})
		if err != nil {
			return err
		}
		cell := append(appendVarint(appendVarint(nil, uint64(len(payload))), uint64(i+1)), payload...)
		if l.free -= len(cell); l.free < headerSize+8+2*(l.cells+1) || len(payload) > writePage-35 {
			return errors.New("the schema does not fit on a page")
		}
		copy(l.b[l.free:], cell)
		binary.BigEndian.PutUint16(l.b[headerSize+8+2*l.cells:], uint16(l.free))
		l.cells++
	}
	l.head(l.b[headerSize:])
	h := l.b[:headerSize]
	copy(h, Magic)
	binary.BigEndian.PutUint16(h[16:], writePage)
	copy(h[18:], []byte{1, 1, 0, 64, 32, 32})
	for at, v := range map[int]uint32{24: 1, 28: w.pages, 40: 1, 44: 4, 56: utf8Text, 60: uint32(version), 92: 1, 96: 3_045_000} {
		binary.BigEndian.PutUint32(h[at:], v)
	}
	return w.write(1, l.b)
}

// recordOf appends a row of values to b.
func recordOf(b []byte, values []any) ([]byte, error) {
	var head, body []byte
	for _, v := range values {
		kind := uint64(0)
		switch v := v.(type) {
		case nil:
		case bool:
			if kind = 8; v {
				kind = 9
			}
		case int:
			kind, body = appendInteger(body, int64(v))
		case int64:
			kind, body = appendInteger(body, v)
		case float64:
			kind, body = 7, binary.BigEndian.AppendUint64(body, math.Float64bits(v))
		case string:
			kind, body = uint64(13+2*len(v)), append(body, v...)
		case []byte:
			kind, body = uint64(12+2*len(v)), append(body, v...)
		default:
			return nil, fmt.Errorf("a %T cannot be a value of a row", v)
		}
		head = appendVarint(head, kind)
	}
	size := len(head) + 1
	if size > 127 { // the length of the head counts itself
		size++
	}
	return append(append(appendVarint(b, uint64(size)), head...), body...), nil
}

// appendInteger writes an integer in as few bytes as there are for it.
func appendInteger(b []byte, v int64) (kind uint64, out []byte) {
	if v == 0 || v == 1 {
		return uint64(8 + v), b
	}
	for kind := 1; kind < 6; kind++ {
		bits := 8 * integers[kind]
		if v >= -1<<(bits-1) && v < 1<<(bits-1) {
			for shift := bits - 8; shift >= 0; shift -= 8 {
				b = append(b, byte(v>>shift))
			}
			return uint64(kind), b
		}
	}
	return 6, binary.BigEndian.AppendUint64(b, uint64(v))
}

// appendVarint writes a number in one to nine bytes.
func appendVarint(b []byte, v uint64) []byte {
	if v >= 1<<56 {
		for shift := 57; shift >= 8; shift -= 7 {
			b = append(b, byte(v>>shift)|0x80)
		}
		return append(b, byte(v))
	}
	n := 1
	for v>>(7*n) > 0 {
		n++
	}
	for i := n - 1; i >= 0; i-- {
		c := byte(v>>(7*i)) & 0x7f
		if i > 0 {
			c |= 0x80
		}
		b = append(b, c)
	}
	return b
}
