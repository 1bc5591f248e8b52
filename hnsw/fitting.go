package hnsw

import (
	"math"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

const (
	// fitRows is how many rows that a coding does not fit are gathered before another one
	// is looked for: their mean is off by a sixteenth of their deviation. They are kept as
	// they were added, since their codes say too little of them to make others of.
	fitRows = 256
	// fitOthers is how many of the other rows that one is to fit as well.
	fitOthers = 256
	// fitGrowth: there must be a quarter more rows than when one was looked for last.
	fitGrowth = 4
	// misfit is how many times the usual error one has that does not fit.
	misfit = 2
	// fitGain is the least share of what codes lose that another coding must spare to be
	// worth coding all rows anew, and turnGain that of one that turns each query as well.
	fitGain, turnGain = 0.2, 0.5
)

// fitting gathers rows that the coding does not fit: all, before there are enough to
// choose one. It is the writer's.
type fitting struct {
	slots []uint32
	vecs  []float32 // one after the other
	at    int64     // rows there were when one was looked for last
}

// drop forgets a slot's row.
func (f *fitting) drop(slot uint32, dim int) {
	if i := slices.Index(f.slots, slot); i >= 0 {
		f.slots = slices.Delete(f.slots, i, i+1)
		f.vecs = slices.Delete(f.vecs, i*dim, (i+1)*dim)
	}
}

// fit notes a row that was stored, and how far its codes are off. Where too many are
// too far off it has all rows coded anew, if that helps: never beside Link, whose
// builders compare codes with each other.
func (x *Index) fit(slot uint32, vec []float32, err float64) {
	f := &x.fitting
	c := x.coding.Load()
	if x.cfg.Quantized || err*err <= misfit*misfit*load(&c.usual) && !c.coarse(slot) {
		return
	}
	if len(f.slots) < fitRows {
		f.slots, f.vecs = append(f.slots, slot), append(f.vecs, vec...)
	}
	rows := x.graph.rows.Load()
	if len(f.slots) < fitRows || rows < f.at+f.at/fitGrowth || !x.graph.linking.TryLock() {
		return
	}
	defer x.graph.linking.Unlock()
	f.at = rows
	x.refit()
	f.slots, f.vecs = nil, nil
}

// refit looks for a coding that fits the rows better.
func (x *Index) refit() {
	now := x.coding.Load()
	if now.codes.filed.Load() > 0 || now.sketches.Load().walks(noSlot-1) {
		now.usual.Store(math.Float64bits(math.Inf(1))) // what lies in the file stays as it is
		return
	}
	s := x.fitSample()
	lost, usual := now.lost(s)
	best := now
	other, less, err := x.bestCoding(s, now)
	if less < lost*(1-fitGain) && (now.rotation != nil || other.rotation == nil || less < lost*(1-turnGain)) {
		best, usual = other, err
	}
	best.usual.Store(math.Float64bits(usual))
	if best != now && x.recode(now, best) {
		x.coding.Store(best)
	}
}

// bestCoding returns the best one of the codings about the mean of some rows, or about
// those of groups of them, and what lost returns of it.
func (x *Index) bestCoding(s *fitSample, now *coding) (c *coding, lost, usual float64) {
	c, lost, usual = x.centredCoding(s, now)
	if lost > groupsFrom {
		if grouped, less, err := x.groupedCoding(s); less < lost*(1-turnGain) {
			return grouped, less, err
		}
	}
	return c, lost, usual
}

// centredCoding returns the better one of the codings about the mean of all.
func (x *Index) centredCoding(s *fitSample, now *coding) (c *coding, lost, usual float64) {
	mean := [][]float32{meanOf(s.vecs, x.cfg.Dim)}
	c = x.newCoding(mean, nil)
	lost, usual = c.lost(s)
	if x.cfg.Dim < leastTurned {
		return c, lost, usual
	}
	rotation := now.rotation
	if rotation == nil {
		rotation = newRotation(x.cfg.Dim)
	}
	turned := x.newCoding(mean, rotation)
	if less, err := turned.lost(s); less < lost*(1-turnGain) {
		return turned, less, err
	}
	return c, lost, usual
}

// fitSample is some rows by which codings are compared.
type fitSample struct {
	vecs   []float32 // one after the other
	probes []int     // where those begin that are coded
	near   []float64 // the square of the distance of each to the nearest other row
}

// fitProbes is how many rows of a sample are coded.
const fitProbes = 64

// fitSample returns the rows that were gathered and some of all.
func (x *Index) fitSample() *fitSample {
	dim, n := x.cfg.Dim, x.length.Load()
	s := &fitSample{vecs: slices.Clone(x.fitting.vecs)}
	for slot := uint32(0); slot < n; slot += n/fitOthers + 1 {
		if x.graph.live(slot) && !slices.Contains(x.fitting.slots, slot) {
			vec, _ := x.original(x.coding.Load(), slot, nil)
			s.vecs = append(s.vecs, vec...)
		}
	}
	rows := len(s.vecs) / dim
	for i := 0; i < rows; i += rows/fitProbes + 1 {
		vec, near := s.vecs[i*dim:(i+1)*dim], math.Inf(1)
		for j := range rows {
			if d := float64(simd.SquaredL2(vec, s.vecs[j*dim:(j+1)*dim])); d > 0 {
				near = min(near, d)
			}
		}
		s.probes, s.near = append(s.probes, i*dim), append(s.near, near)
	}
	return s
}

// lost returns how much of the squared distances to the nearest rows the errors of codes
// are, and the mean square of these errors. Rows that lie together far from all others
// may need a step so small that it is nothing to most.
func (c *coding) lost(s *fitSample) (share, usual float64) {
	codes := make([]uint8, c.dim)
	var vec, decoded []float32
	for i, at := range s.probes {
		row := s.vecs[at : at+c.dim]
		vec = c.into(row, c.group(row), vec[:0])
		decoded = codeRow{head: &[2]float32{float32(quantize(vec, codes))}, codes: codes}.decode(decoded[:0])
		err := distance(vec, decoded)
		share += min(1, err*err/s.near[i])
		usual += err * err
	}
	n := float64(max(1, len(s.probes)))
	return share / n, usual / n
}

// coarse reports whether a slot's codes, most of them 0 and 1, say little of its row: one
// component is so large that the others are lost in the rounding.
func (c *coding) coarse(slot uint32) bool {
	row, sum, largest := c.row(slot), 0, 0
	for _, code := range row.codes {
		size := max(int(code)-codeZero, codeZero-int(code))
		sum += size
		if largest = max(largest, size); sum-largest >= len(row.codes) {
			return false // most often a few components tell
		}
	}
	return *row.err > 0
}

// original appends to dst the row of a slot as it was added, as far as it is known, and
// returns by how much that may be off.
func (x *Index) original(c *coding, slot uint32, dst []float32) (vec []float32, off float64) {
	dim := x.cfg.Dim
	if i := slices.Index(x.fitting.slots, slot); i >= 0 {
		return append(dst, x.fitting.vecs[i*dim:(i+1)*dim]...), 0
	}
	if x.keepsRows() {
		return append(dst, x.rows.float32s(slot, dim)...), 0
	}
	row := c.row(slot)
	vec = row.decode(dst)
	off = float64(*row.err) + c.frameErrorOf(math.Sqrt(simd.SquaredNorm(vec)))
	c.back(vec, c.label(slot))
	return vec, off
}

// meanOf returns the mean of vectors that lie one after the other.
func meanOf(vecs []float32, dim int) []float32 {
	sum := make([]float64, dim)
	for i, v := range vecs {
		sum[i%dim] += float64(v)
	}
	mean := make([]float32, dim)
	for i, v := range sum {
		mean[i] = float32(v / float64(max(1, len(vecs)/dim)))
	}
	return mean
}

// recode stores all rows of a coding in another one. It reports false if there is no
// memory for that.
func (x *Index) recode(from, to *coding) bool {
	n := x.length.Load()
	if to.codes.grow(n) != nil {
		return false
	}
	var vec, own []float32
	for slot := range n {
		if x.graph.node(slot).state.Load() == 0 {
			continue
		}
		var off float64
		vec, off = x.original(from, slot, vec[:0])
		square := simd.SquaredNorm(vec)
		if off > 0 && x.cfg.Metric == Dot {
			square = max(0, from.square(slot)) // as it was
		}
		group := to.group(vec)
		own = to.into(vec, group, own[:0])
		off += to.frameErrorOf(math.Sqrt(simd.SquaredNorm(own)))
		x.decoded, _ = to.store(slot, coded{own, square, off, group}, x.decoded)
	}
	if !x.cfg.sketchesAll(n) {
		return true
	}
	s := to.newSketches(0, n)
	if s.grow(n) != nil {
		return false
	}
	to.sketchRows(s, 0, n, func(slot uint32) bool { return x.graph.node(slot).state.Load() != 0 })
	to.sketches.Store(s)
	return true
}

// square returns the square of the length of a slot's row under Dot.
func (c *coding) square(slot uint32) float64 {
	row := c.row(slot)
	sum := 0.0
	for _, code := range row.codes {
		v := float64(row.head[0]) * float64(int(code)-codeZero)
		sum += v * v
	}
	return 2*float64(row.head[1]) + sum
}
