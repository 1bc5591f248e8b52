package hnsw

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"runtime"
	"slices"

	"github.com/zeebo/xxh3"
)

// snapshotBuffer is how much is written and hashed at once.
const snapshotBuffer = 256 << 10

// snapshotWriter encodes a snapshot. Its first error makes the rest a no-op.
type snapshotWriter struct {
	s   *Snapshot
	out *summed
	buf *bufio.Writer
	rec []byte
	err error
}

// WriteTo writes the snapshot. Adding, removing, linking and searching may go
// on meanwhile: links that have come since are left out. It returns w's error, and
// [ErrFile].
func (s *Snapshot) WriteTo(w io.Writer) (n int64, err error) {
	defer s.x.spill.guard()(&err)
	if err := s.x.spill.err(); err != nil {
		return 0, err
	}
	out := &summed{w: w, sum: xxh3.New()}
	e := &snapshotWriter{s: s, out: out, buf: bufio.NewWriterSize(out, snapshotBuffer)}
	e.header()
	if centres := s.coding.centres; len(centres) > 0 {
		e.put(binary.LittleEndian.AppendUint32(e.rec[:0], uint32(len(centres))))
		for _, centre := range centres {
			e.put(appendFloat32s(e.rec[:0], centre))
		}
		e.checksum()
	}
	e.put(s.states)
	e.checksum()
	for slot := range s.each(slotPending, slotLinked, slotDead) {
		row := s.coding.row(slot)
		e.rec = append(appendFloat32s(appendFloat32s(e.rec[:0], row.head[:]), []float32{*row.err}), row.codes...)
		e.put(e.rec)
	}
	e.checksum()
	if s.x.keepsRows() {
		for slot := range s.each(slotPending, slotLinked, slotDead) {
			e.rec = appendFloat32s(e.rec[:0], s.x.rows.float32s(slot, s.x.cfg.Dim))
			e.put(e.rec)
		}
		e.checksum()
	}
	for slot := range s.each(slotLinked, slotDead) {
		e.links(slot)
	}
	e.checksum()
	e.entries()
	e.checksum()
	if s.sketches != nil {
		e.sketches()
		e.checksum()
	}
	if s.cells != nil {
		e.cells()
		e.checksum()
	}
	runtime.KeepAlive(s.x)
	return out.n, e.err
}

// each yields the slots in one of the given states.
func (s *Snapshot) each(states ...uint8) func(yield func(uint32) bool) {
	var wanted [slotDead + 1]bool
	for _, state := range states {
		wanted[state] = true
	}
	return func(yield func(uint32) bool) {
		for slot, state := range s.states {
			if wanted[state] && !yield(uint32(slot)) {
				return
			}
		}
	}
}

func (e *snapshotWriter) put(p []byte) {
	if e.err == nil {
		_, e.err = e.buf.Write(p)
	}
}

func (e *snapshotWriter) checksum() {
	if e.err == nil {
		e.err = e.buf.Flush()
	}
	e.rec = binary.LittleEndian.AppendUint64(e.rec[:0], e.out.sum.Sum64())
	e.put(e.rec)
	if e.err == nil {
		e.err = e.buf.Flush()
	}
	e.out.sum.Reset()
}

func (e *snapshotWriter) header() {
	x := e.s.x
	b := append(e.rec[:0], snapshotMagic...)
	b = binary.LittleEndian.AppendUint32(b, snapshotVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(x.cfg.Dim))
	flags := x.flags()
	for _, f := range []struct {
		is   bool
		flag uint8
	}{
		{e.s.sketches != nil, flagSketches},
		{len(e.s.coding.centres) > 0, flagCentre},
		{e.s.coding.rotation != nil, flagTurned},
		{e.s.cells != nil, flagCells},
	} {
		if f.is {
			flags |= f.flag
		}
	}
	b = append(b, uint8(x.cfg.Metric), flags)
	b = binary.LittleEndian.AppendUint16(b, uint16(x.cfg.M))
	b = binary.LittleEndian.AppendUint64(b, x.cfg.Seed)
	b = binary.LittleEndian.AppendUint32(b, e.s.Slots())
	b = binary.LittleEndian.AppendUint32(b, e.s.entry)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.s.top))
	bounds := &e.s.coding.bounds
	b = binary.LittleEndian.AppendUint64(b, bounds.norm.Load())
	b = binary.LittleEndian.AppendUint64(b, bounds.coded.Load())
	b = binary.LittleEndian.AppendUint64(b, bounds.err.Load())
	b = binary.LittleEndian.AppendUint64(b, e.s.coding.usual.Load())
	e.rec = b
	e.put(b)
	e.checksum()
}

// links writes a slot's links to slots that were linked when the snapshot was
// taken.
func (e *snapshotWriter) links(slot uint32) {
	g := &e.s.x.graph
	var ids []uint32
	e.rec = e.rec[:0]
	for level := range g.level(slot) + 1 {
		ids = g.neighbours(slot, level, ids[:0])
		start := len(e.rec)
		e.rec = append(e.rec, 0, 0)
		count := uint16(0)
		for i, id := range ids {
			// A list that is being rewritten may show a link twice.
			if id < e.s.Slots() && e.s.states[id] >= slotLinked && !slices.Contains(ids[:i], id) {
				e.rec = binary.LittleEndian.AppendUint32(e.rec, id)
				count++
			}
		}
		binary.LittleEndian.PutUint16(e.rec[start:], count)
	}
	e.put(e.rec)
}

// entries writes what walks start from besides, as far as it was linked.
func (e *snapshotWriter) entries() {
	b := binary.LittleEndian.AppendUint32(e.rec[:0], uint32(e.s.x.graph.effort.Load()))
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	count := uint32(0)
	for _, slot := range e.s.entries {
		if slot < e.s.Slots() && e.s.states[slot] >= slotLinked {
			b = binary.LittleEndian.AppendUint32(b, slot)
			count++
		}
	}
	binary.LittleEndian.PutUint32(b[at:], count)
	e.rec = b
	e.put(b)
}

func (e *snapshotWriter) sketches() {
	s := e.s.sketches
	e.rec = appendFloat32s(e.rec[:0], s.centre)
	e.put(binary.LittleEndian.AppendUint64(e.rec, s.largest.Load()))
	for slot := range e.s.each(slotPending, slotLinked, slotDead) {
		head, words := s.row(slot)
		e.rec = appendFloat32s(e.rec[:0], head[:])
		for _, w := range words {
			e.rec = binary.LittleEndian.AppendUint64(e.rec, w)
		}
		e.put(e.rec)
	}
}

func appendFloat32s(dst []byte, src []float32) []byte {
	for _, v := range src {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst
}
