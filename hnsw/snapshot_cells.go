package hnsw

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// cells writes the places of rows, which take longer to find than to read.
func (e *snapshotWriter) cells() {
	all := e.s.cells
	b := binary.LittleEndian.AppendUint32(e.rec[:0], uint32(all.chosen))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(all.usual))
	for group := range max(1, len(e.s.coding.centres)) {
		b = binary.LittleEndian.AppendUint32(b, uint32(all.groups[group].n))
	}
	e.put(b)
	for i := range all.list {
		c := &all.list[i]
		b = appendFloat32s(b[:0], c.centre)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.reach))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.err))
		e.put(binary.LittleEndian.AppendUint32(b, uint32(c.rows)))
		for _, at := range c.tiles {
			b = e.tile(b[:0], at)
			e.put(b)
		}
	}
	var fresh []uint32
	for _, slot := range e.s.fresh {
		if e.s.Holds(slot) {
			fresh = append(fresh, slot)
		}
	}
	b = binary.LittleEndian.AppendUint32(b[:0], uint32(len(fresh)))
	for _, slot := range fresh {
		b = binary.LittleEndian.AppendUint32(b, slot)
	}
	e.put(b)
	e.rec = b
}

// tile appends a tile. Rows that have come since are left out.
func (e *snapshotWriter) tile(b []byte, at unsafe.Pointer) []byte {
	t := simd.Tile(at, e.s.cells.rotation.dim)
	biases, numbers := *t.Biases, *t.Numbers
	for i, slot := range numbers {
		if slot >= e.s.Slots() {
			biases[i], numbers[i] = noRow, 0
		}
	}
	b = append(b, t.Bits...)
	for _, stats := range []*[simd.TileRows]float32{&biases, t.Factors, t.Slacks, t.Leans} {
		b = appendFloat32s(b, stats[:])
	}
	for _, slot := range numbers {
		b = binary.LittleEndian.AppendUint32(b, slot)
	}
	return b
}

// noRow is the bias of a place that has no row: its key is below every floor.
var noRow = float32(math.Inf(-1))

// readCells reads the places of rows.
func (d *snapshotReader) readCells() error {
	c := d.x.coding.Load()
	groups := max(1, len(c.centres))
	b, err := d.take(4 + 8 + 4*groups)
	if err != nil {
		return err
	}
	all := &cells{rotation: newRotation(cellBits(c.dim)), chosen: int(binary.LittleEndian.Uint32(b)), usual: math.Float64frombits(binary.LittleEndian.Uint64(b[4:]))}
	counts := make([]int, groups)
	for i := range counts {
		if counts[i] = int(binary.LittleEndian.Uint32(b[12+4*i:])); counts[i] < 1 || counts[i] > mostCells {
			return fmt.Errorf("%w: a group of %d cells", ErrSnapshot, counts[i])
		}
	}
	seen := NewSet()
	for group, n := range counts {
		var list []cell
		var centres [][]float32
		for range n {
			one, err := d.readCell(all, seen)
			if err != nil {
				return err
			}
			list, centres = append(list, one), append(centres, one.centre)
		}
		all.setGroup(group, centres)
		for i, one := range list {
			to := &all.list[all.groups[group].from+i]
			to.reach, to.err, to.tiles, to.rows = one.reach, one.err, one.tiles, one.rows
			all.rows += one.rows
		}
	}
	fresh, err := d.readFresh(seen)
	if err != nil {
		return err
	}
	c.cover.cells.Store(all)
	c.cover.fresh.Store(&fresh)
	return nil
}

// readCell reads a cell, and notes the slots whose rows it has.
func (d *snapshotReader) readCell(all *cells, seen *Set) (c cell, err error) {
	dim := d.x.cfg.Dim
	b, err := d.take(4*dim + 8 + 8 + 4)
	if err != nil {
		return c, err
	}
	c.centre = make([]float32, dim)
	readFloat32s(b, c.centre)
	for _, v := range c.centre {
		if !finite(v) {
			return c, fmt.Errorf("%w: a cell's centre that is not finite", ErrSnapshot)
		}
	}
	c.reach, c.err = math.Float64frombits(binary.LittleEndian.Uint64(b[4*dim:])), math.Float64frombits(binary.LittleEndian.Uint64(b[4*dim+8:]))
	c.rows = int(binary.LittleEndian.Uint32(b[4*dim+16:]))
	if !(c.reach >= 0 && c.err >= 0) || math.IsInf(c.reach, 0) || math.IsInf(c.err, 0) {
		return c, fmt.Errorf("%w: a cell of reach %v and errors of %v", ErrSnapshot, c.reach, c.err)
	}
	for left := c.rows; left > 0; left -= simd.TileRows {
		t, err := d.readTile(all.rotation.dim, min(left, simd.TileRows), seen)
		if err != nil {
			return c, err
		}
		c.tiles = append(c.tiles, t.at())
	}
	return c, nil
}

// readTile reads a tile of so many rows.
func (d *snapshotReader) readTile(dim, rows int, seen *Set) (tile, error) {
	t := newTile(dim)
	view := t.view(dim)
	b, err := d.take(simd.TileSize(dim))
	if err != nil {
		return nil, err
	}
	b = b[copy(view.Bits, b):]
	for _, stats := range []*[simd.TileRows]float32{view.Biases, view.Factors, view.Slacks, view.Leans} {
		readFloat32s(b, stats[:])
		b = b[4*simd.TileRows:]
	}
	for i := range view.Numbers {
		slot := binary.LittleEndian.Uint32(b[4*i:])
		view.Numbers[i] = slot
		if i >= rows || view.Biases[i] == noRow {
			view.Biases[i] = noRow
			continue
		}
		if slot >= uint32(len(d.states)) || !finite(view.Biases[i]) || !finite(view.Factors[i]) || !finite(view.Slacks[i]) || !finite(view.Leans[i]) {
			return nil, fmt.Errorf("%w: a place of slot %d with the key %v, %v, %v and %v", ErrSnapshot, slot, view.Biases[i], view.Factors[i], view.Slacks[i], view.Leans[i])
		}
		seen.Add(slot)
	}
	return t, nil
}

// readFresh reads the slots of rows without a place, and adds those that are nowhere.
func (d *snapshotReader) readFresh(seen *Set) (fresh []uint32, err error) {
	b, err := d.take(4)
	if err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > freshMost+freshShare*len(d.states) {
		return nil, fmt.Errorf("%w: %d slots without a place, of %d", ErrSnapshot, n, len(d.states))
	}
	if b, err = d.take(4 * n); err != nil {
		return nil, err
	}
	for i := range n {
		slot := binary.LittleEndian.Uint32(b[4*i:])
		if slot >= uint32(len(d.states)) {
			return nil, fmt.Errorf("%w: slot %d of %d without a place", ErrSnapshot, slot, len(d.states))
		}
		fresh = append(fresh, slot)
		seen.Add(slot)
	}
	for slot, state := range d.states {
		if state != slotFree && !seen.Has(uint32(slot)) {
			fresh = append(fresh, uint32(slot))
		}
	}
	return fresh, nil
}
