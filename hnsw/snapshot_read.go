package hnsw

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// snapshotReader decodes a snapshot into an empty index.
type snapshotReader struct {
	x      *Index
	in     *summed
	header header
	states []uint8
	rec    []byte
}

// ReadSnapshot returns an index with the rows and links of a snapshot that was
// written with the same configuration. It reads not beyond the snapshot, if r
// is an [io.ByteReader], and returns [ErrConfig], [ErrSnapshot], [ErrFile]
// or r's error.
func ReadSnapshot(r io.Reader, cfg Config) (_ *Index, err error) {
	x, err := New(cfg)
	if err != nil {
		return nil, err
	}
	defer x.spill.guard()(&err)
	if _, ok := r.(io.ByteReader); !ok {
		r = bufio.NewReaderSize(r, snapshotBuffer)
	}
	d := &snapshotReader{x: x, in: &summed{r: r, sum: xxh3.New()}}
	for _, section := range []struct {
		name string
		read func() error
	}{
		{"header", d.readHeader},
		{"centres", d.readCentres},
		{"states", d.readStates},
		{"codes", d.readCodes},
		{"rows", d.readRows},
		{"links", d.readLinks},
		{"entries", d.readEntries},
		{"sketches", d.readSketches},
		{"cells", d.readCells},
	} {
		if section.name == "rows" && !x.keepsRows() || section.name == "sketches" && d.header.flags&flagSketches == 0 ||
			section.name == "cells" && d.header.flags&flagCells == 0 ||
			section.name == "entries" && d.header.version == oldestSnapshot ||
			section.name == "centres" && d.header.flags&flagCentre == 0 {
			continue
		}
		err := section.read()
		if err == nil {
			err = d.checksum()
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: it ends early", ErrSnapshot)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", section.name, err)
		}
	}
	d.finish()
	return x, nil
}

// take reads n bytes, which are valid until the next call.
func (d *snapshotReader) take(n int) ([]byte, error) {
	if cap(d.rec) < n {
		d.rec = make([]byte, n)
	}
	d.rec = d.rec[:n]
	_, err := io.ReadFull(d.in, d.rec)
	return d.rec, err
}

func (d *snapshotReader) checksum() error {
	want := d.in.sum.Sum64()
	b, err := d.take(checksumSize)
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(b); got != want {
		return fmt.Errorf("%w: its checksum is %016x; what it holds has %016x", ErrSnapshot, got, want)
	}
	d.in.sum.Reset()
	return nil
}

func (d *snapshotReader) readHeader() error {
	b, err := d.take(headerSize)
	if err != nil {
		return err
	}
	if string(b[:8]) != snapshotMagic {
		return fmt.Errorf("%w: it begins with %q; a snapshot does with %q", ErrSnapshot, b[:8], snapshotMagic)
	}
	version := binary.LittleEndian.Uint32(b[8:])
	if version < oldestSnapshot || version > snapshotVersion {
		return fmt.Errorf("%w: it has version %d; this program reads %d to %d", ErrSnapshot, version, oldestSnapshot, snapshotVersion)
	}
	d.header = header{
		version: version,
		dim:     binary.LittleEndian.Uint32(b[12:]),
		metric:  Metric(b[16]),
		flags:   b[17],
		m:       binary.LittleEndian.Uint16(b[18:]),
		seed:    binary.LittleEndian.Uint64(b[20:]),
		slots:   binary.LittleEndian.Uint32(b[28:]),
		entry:   binary.LittleEndian.Uint32(b[32:]),
		top:     binary.LittleEndian.Uint32(b[36:]),
		norm:    math.Float64frombits(binary.LittleEndian.Uint64(b[40:])),
		coded:   math.Float64frombits(binary.LittleEndian.Uint64(b[48:])),
		err:     math.Float64frombits(binary.LittleEndian.Uint64(b[56:])),
		usual:   math.Float64frombits(binary.LittleEndian.Uint64(b[64:])),
	}
	if d.header.flags&flagTurned != 0 && d.x.cfg.Dim >= leastTurned {
		d.x.coding.Load().rotation = newRotation(d.x.cfg.Dim)
	}
	return d.header.check(d.x)
}

func (d *snapshotReader) readCentres() error {
	n := uint32(1)
	if d.header.version > oldestSnapshot {
		b, err := d.take(4)
		if err != nil {
			return err
		}
		if n = binary.LittleEndian.Uint32(b); n == 0 || n > maxGroups || n > 1 && !d.x.cfg.canGroup() {
			return fmt.Errorf("%w: a coding with %d centres", ErrSnapshot, n)
		}
	}
	for range n {
		centre := make([]float32, d.x.cfg.Dim)
		b, err := d.take(4 * len(centre))
		if err != nil {
			return err
		}
		readFloat32s(b, centre)
		for _, v := range centre {
			if !finite(v) {
				return fmt.Errorf("%w: a centre that is not finite", ErrSnapshot)
			}
		}
		c := d.x.coding.Load()
		c.centres = append(c.centres, centre)
	}
	return nil
}

func finite(v float32) bool { return v-v == 0 }

// readStates reads in steps, so that a wrong count of slots fails at the end of
// the input and not for lack of memory.
func (d *snapshotReader) readStates() error {
	for left := int(d.header.slots); left > 0; {
		b, err := d.take(min(left, snapshotBuffer))
		if err != nil {
			return err
		}
		for _, state := range b {
			if state > slotDead {
				return fmt.Errorf("%w: slot %d in state %d", ErrSnapshot, len(d.states), state)
			}
			d.states = append(d.states, state)
		}
		left -= len(b)
	}
	return nil
}

func (d *snapshotReader) readCodes() error {
	dim := d.x.cfg.Dim
	for slot, state := range d.states {
		if err := d.x.growRows(uint32(slot) + 1); err != nil {
			return err
		}
		if state == slotFree {
			continue
		}
		b, err := d.take(12 + dim)
		if err != nil {
			return err
		}
		row := d.x.coding.Load().row(uint32(slot))
		readFloat32s(b, row.head[:])
		readFloat32s(b[8:], unsafe.Slice(row.err, 1))
		copy(row.codes, b[12:])
		if c := d.x.coding.Load(); c.grouped() && c.label(uint32(slot)) >= len(c.centres) {
			return fmt.Errorf("%w: slot %d is of group %d of %d", ErrSnapshot, slot, c.label(uint32(slot)), len(c.centres))
		}
		if err := float64(*row.err); !(err >= 0 && err <= d.header.err) || !finite(row.head[0]) || !finite(row.head[1]) {
			return fmt.Errorf("%w: slot %d has codes of scale %v, bias %v and error %v", ErrSnapshot, slot, row.head[0], row.head[1], *row.err)
		}
	}
	return d.sketch()
}

// sketch makes the sketches that the snapshot does not hold.
func (d *snapshotReader) sketch() error {
	x, n := d.x, uint32(len(d.states))
	c := x.coding.Load()
	from, filed := c.codes.firstFiled(), c.codes.filed.Load() > 0
	switch {
	case d.header.flags&flagSketches != 0:
		return nil
	case x.cfg.sketchesAll(n):
		from = 0
	case !filed || x.cfg.Dim < leastSketched:
		return nil
	}
	s := c.newSketches(from, min(n, c.codes.firstFiled()))
	if err := s.grow(n); err != nil {
		return err
	}
	d.walk(s)
	return d.sketchAll(s)
}

// walk makes sketches those of the index.
func (d *snapshotReader) walk(s *sketches) {
	c := d.x.coding.Load()
	if c.codes.filed.Load() > 0 {
		s.walked.Store(c.codes.firstFiled())
	}
	c.sketches.Store(s)
}

// readSketches reads the sketches of all rows.
func (d *snapshotReader) readSketches() error {
	s := emptySketches(d.x.cfg.Dim, 0)
	b, err := d.take(4*len(s.centre) + 8)
	if err != nil {
		return err
	}
	readFloat32s(b, s.centre)
	largest := math.Float64frombits(binary.LittleEndian.Uint64(b[4*len(s.centre):]))
	if !(largest >= 0) || math.IsInf(largest, 0) {
		return fmt.Errorf("%w: a factor of %v", ErrSnapshot, largest)
	}
	s.square = simd.SquaredNorm(s.centre)
	s.largest.Store(math.Float64bits(largest))
	if err := s.grow(uint32(len(d.states))); err != nil {
		return err
	}
	for slot, state := range d.states {
		if state == slotFree {
			continue
		}
		head, words := s.row(uint32(slot))
		if b, err = d.take(8 + 8*len(words)); err != nil {
			return err
		}
		readFloat32s(b, head[:])
		for i := range words {
			words[i] = binary.LittleEndian.Uint64(b[8+8*i:])
		}
	}
	d.walk(s)
	return nil
}

// sketchAll makes sketches. All processors do it, as it takes longer than reading the
// rows.
func (d *snapshotReader) sketchAll(s *sketches) error {
	x, n := d.x, uint32(len(d.states))
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		errs = make([]error, runtime.GOMAXPROCS(0))
	)
	next.Store(int64(s.from))
	for i := range errs {
		wg.Go(func() {
			err := panics.Catch("makes sketches of vectors", func() {
				defer x.spill.guard()(&errs[i])
				for {
					first := next.Add(linkBatch) - linkBatch
					if first >= int64(n) {
						return
					}
					x.coding.Load().sketchRows(s, uint32(first), uint32(min(first+linkBatch, int64(n))), func(slot uint32) bool { return d.states[slot] != slotFree })
				}
			})
			errs[i] = errors.Join(errs[i], err)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *snapshotReader) readRows() error {
	dim := d.x.cfg.Dim
	for slot, state := range d.states {
		if state == slotFree {
			continue
		}
		b, err := d.take(4 * dim)
		if err != nil {
			return err
		}
		readFloat32s(b, d.x.rows.float32s(uint32(slot), dim))
	}
	return nil
}

func readFloat32s(b []byte, dst []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}

func (d *snapshotReader) readLinks() error {
	g := &d.x.graph
	if err := d.checkEntryPoint(); err != nil {
		return err
	}
	for slot, state := range d.states {
		if state < slotLinked {
			continue
		}
		level := g.level(uint32(slot))
		if err := g.allocUpper(uint32(slot), level); err != nil {
			return err
		}
		for l := range level + 1 {
			if err := d.readList(uint32(slot), l); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkEntryPoint makes sure that searches begin at a linked slot, in a layer
// that it is in, unless nothing live is linked.
func (d *snapshotReader) checkEntryPoint() error {
	entry := d.header.entry
	switch {
	case entry == 0 && !slices.Contains(d.states, slotLinked):
		return nil
	case entry == 0 || entry > uint32(len(d.states)) || d.states[entry-1] < slotLinked:
		return fmt.Errorf("%w: its entry point is not in the graph", ErrSnapshot)
	case d.x.graph.level(entry-1) != int(d.header.top):
		return fmt.Errorf("%w: its entry point is not in layer %d", ErrSnapshot, d.header.top)
	}
	return nil
}

func (d *snapshotReader) readList(slot uint32, level int) error {
	g := &d.x.graph
	b, err := d.take(2)
	if err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint16(b))
	if n > g.room(level) {
		return fmt.Errorf("%w: slot %d has %d links in layer %d; there is room for %d", ErrSnapshot, slot, n, level, g.room(level))
	}
	if b, err = d.take(4 * n); err != nil {
		return err
	}
	list := unshared(g.list(slot, level))
	for i := range n {
		to := binary.LittleEndian.Uint32(b[4*i:])
		if to >= uint32(len(d.states)) || d.states[to] < slotLinked || level > 0 && g.level(to) < level {
			return fmt.Errorf("%w: slot %d has a link in layer %d to %d, which is not there", ErrSnapshot, slot, level, to)
		}
		list[i] = to + 1
	}
	return nil
}

// readEntries reads what walks start from besides.
func (d *snapshotReader) readEntries() error {
	b, err := d.take(8)
	if err != nil {
		return err
	}
	effort, n := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	if effort < 1 || effort > mostEffort || n > maxEntries {
		return fmt.Errorf("%w: %d entries, and walks of %d times the candidates", ErrSnapshot, n, effort)
	}
	if b, err = d.take(4 * int(n)); err != nil {
		return err
	}
	entries := make([]uint32, n)
	for i := range entries {
		if entries[i] = binary.LittleEndian.Uint32(b[4*i:]); entries[i] >= uint32(len(d.states)) || d.states[entries[i]] < slotLinked {
			return fmt.Errorf("%w: slot %d, from which walks start, is not in the graph", ErrSnapshot, entries[i])
		}
	}
	g := &d.x.graph
	g.setEntries(entries)
	g.effort.Store(int32(effort))
	for _, state := range d.states {
		if state >= slotLinked {
			g.proved++
		}
	}
	g.measured = g.proved
	return nil
}

// finish makes the index what the sections, all of them checked, say.
func (d *snapshotReader) finish() {
	x, g := d.x, &d.x.graph
	var pending []uint32
	for i, state := range d.states {
		slot := uint32(i)
		if state == slotPending || state == slotLinked {
			g.rows.Add(1)
		}
		switch n := g.node(slot); state {
		case slotFree:
			x.free = append(x.free, slot)
		case slotPending:
			n.state.Store(stateLive)
			pending = append(pending, slot)
		case slotLinked:
			n.state.Store(stateLive | stateClaimed | stateLinked)
			g.linked.Add(1)
		case slotDead:
			n.state.Store(stateClaimed | stateLinked)
			g.linked.Add(1)
			g.dead.Add(1)
			g.removed = append(g.removed, slot)
		}
	}
	g.pending.Store(&pending)
	if d.header.entry != 0 {
		g.setEntryPoint(d.header.entry-1, int(d.header.top))
	}
	bounds := &x.coding.Load().bounds
	bounds.norm.Store(math.Float64bits(d.header.norm))
	bounds.coded.Store(math.Float64bits(d.header.coded))
	bounds.err.Store(math.Float64bits(d.header.err))
	x.coding.Load().usual.Store(math.Float64bits(d.header.usual))
	x.fitting.at = g.rows.Load()
	x.length.Store(uint32(len(d.states)))
}
