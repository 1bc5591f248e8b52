package hnsw

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/zeebo/xxh3"
)

// A snapshot is a header and up to eight sections; numbers are little-endian.
//
//	header  magic, version u32, dimension u32, metric u8, flags u8, M u16,
//	        seed u64, slots u32, entry point's slot plus one or 0 u32, its layer u32,
//	        largest length of a row, of its codes and of its error f64 each,
//	        mean of the squared errors that the coding was chosen by, or NaN, f64; checksum
//	centres  if flagged, of the coding: how many u32; dimension f32 each; checksum
//	states  for each slot one of the slot* values, u8; checksum
//	codes   for each slot but free ones: scale f32, bias f32, error f32, dimension bytes; checksum
//	rows    if flagged, for the same slots: dimension f32; checksum
//	links   for each linked slot and each of its layers from 0 up:
//	        count u16, slots u32 each; checksum
//	entries  what walks start from besides: how many times the candidates asked for they
//	        keep u32, count u32, slots u32 each; checksum
//	sketches  if flagged: the centre, dimension f32; the largest factor f64; for each slot
//	        but free ones: factor f32, bias f32, bits u64 each; checksum
//	cells   if flagged: rows that there were when centres were chosen u32, their mean squared
//	        distance from them f64; for each group of the coding, one if it has no centres,
//	        how many cells u32; for each cell: centre, dimension f32; largest distance of a
//	        row from it and of a row from its codes f64 each; how many rows u32; for every 32
//	        of them a tile: for every four components 16 bytes of bits, then 32 biases,
//	        factors, slacks and leans f32 each, and slots u32; at last how many rows may be in
//	        no cell u32, and their slots u32 each; checksum
//
// A checksum is the XXH3-64 of what follows the one before. A slot's layers
// follow from the seed.
const (
	snapshotMagic   = "memdbvec"
	snapshotVersion = 3
	oldestSnapshot  = 2 // without entries, and with one centre at most, whose number is not told

	flagQuantized = 1
	flagRows      = 2
	flagSketches  = 4
	flagCentre    = 8
	flagTurned    = 16
	flagCells     = 32
	flagsCoding   = flagSketches | flagCentre | flagTurned | flagCells

	headerSize   = 8 + 4 + 4 + 1 + 1 + 2 + 8 + 4 + 4 + 4 + 4*8
	checksumSize = 8
)

// What a snapshot says of a slot.
const (
	slotFree    = iota
	slotPending // holds a row that is not linked
	slotLinked
	slotDead // is linked, its row removed
)

// ErrSnapshot is returned for a snapshot that is damaged, cut short, of another
// version or of an index with another configuration. The index is then to be
// built anew.
var ErrSnapshot = errors.New("unusable vector snapshot")

// Snapshot is an index as it was when [Index.Snapshot] was called. Slots that
// are removed while it is open are not used again, so close it soon.
type Snapshot struct {
	x      *Index
	coding *coding
	states []uint8
	entry  uint32 // plus one; 0 without
	top    int
	// See prove.
	entries []uint32
	// Those of all rows; nil if there are none.
	sketches *sketches
	// Places of rows, and the slots that may have none; nil if there are none.
	cells *cells
	fresh []uint32
	epoch uint64
	once  sync.Once
}

// Snapshot captures which slots hold rows; it takes time for a byte a slot.
// Called where nothing is being added or removed, it captures exactly the rows
// that have been added and not removed.
func (x *Index) Snapshot() *Snapshot {
	g := &x.graph
	s := &Snapshot{x: x, epoch: g.grace.enter()}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.states = make([]uint8, x.length.Load())
	s.coding = x.coding.Load()
	for slot := range s.states {
		switch state := g.node(uint32(slot)).state.Load(); {
		case state&stateLinked != 0 && state&stateLive != 0:
			s.states[slot] = slotLinked
		case state&stateLinked != 0:
			s.states[slot] = slotDead
		case state&stateLive != 0:
			s.states[slot] = slotPending
		}
	}
	if all := s.coding.sketches.Load(); all != nil && all.from == 0 {
		s.sketches = all
	}
	if entry, top, ok := g.entryPoint(); ok {
		s.entry, s.top = entry+1, top
	}
	s.entries = g.entriesNow()
	s.cells, s.fresh = s.coding.cover.look()
	return s
}

// Slots returns how many slots the snapshot covers: the index's Len when it was
// taken.
func (s *Snapshot) Slots() uint32 { return uint32(len(s.states)) }

// Holds reports whether a slot held a row when the snapshot was taken, or still
// leads searches to others.
func (s *Snapshot) Holds(slot uint32) bool {
	return int(slot) < len(s.states) && s.states[slot] != slotFree
}

// Close ends the snapshot. It may be called more than once.
func (s *Snapshot) Close() { s.once.Do(func() { s.x.graph.grace.leave(s.epoch) }) }

// header is the fixed part of a snapshot.
type header struct {
	version                uint32
	dim, slots, entry, top uint32
	metric                 Metric
	flags                  uint8
	m                      uint16
	seed                   uint64
	norm, coded, err       float64
	usual                  float64
}

// flags are those of any snapshot of the index.
func (x *Index) flags() (f uint8) {
	if x.cfg.Quantized {
		f |= flagQuantized
	}
	if x.keepsRows() {
		f |= flagRows
	}
	return f
}

// check returns why a snapshot with this header is not one of the index's.
func (h *header) check(x *Index) error {
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"dimension", h.dim, uint32(x.cfg.Dim)},
		{"metric", h.metric, x.cfg.Metric},
		{"kind of rows", h.flags &^ flagsCoding, x.flags()},
		{"M", h.m, uint16(x.cfg.M)},
		{"seed", h.seed, x.cfg.Seed},
	} {
		if f.got != f.want {
			return fmt.Errorf("%w: its %s is %v; the index has %v", ErrSnapshot, f.name, f.got, f.want)
		}
	}
	if h.slots > MaxSlots || h.top > maxLevel {
		return fmt.Errorf("%w: %d slots and layer %d are out of range", ErrSnapshot, h.slots, h.top)
	}
	for _, bound := range []float64{h.norm, h.coded, h.err} {
		if !(bound >= 0) || math.IsInf(bound, 0) {
			return fmt.Errorf("%w: a bound of %v", ErrSnapshot, bound)
		}
	}
	if h.usual < 0 || h.flags&(flagCentre|flagTurned) != 0 && (x.cfg.Quantized || x.cfg.Dim < leastTurned && h.flags&flagTurned != 0) {
		return fmt.Errorf("%w: a coding with flags %d and errors of %v", ErrSnapshot, h.flags, h.usual)
	}
	return nil
}

// summed passes what is written or read through a checksum.
type summed struct {
	w   io.Writer
	r   io.Reader
	sum *xxh3.Hasher
	n   int64
}

func (s *summed) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	_, _ = s.sum.Write(p[:n]) // hashers don't fail
	return n, err
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	_, _ = s.sum.Write(p[:n])
	return n, err
}
