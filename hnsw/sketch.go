package hnsw

import (
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// A sketch is one bit for each component of a row: the signs of what the row has
// beyond a centre, after a random rotation, with a factor and a bias that turn their
// product with a query into an unbiased estimate of the key of the row's codes (Gao
// and Long, RaBitQ, SIGMOD 2024). Rows whose codes lie in the file have one in memory:
// walks and flat searches go by it, and read the codes of the few rows that it doesn't
// rule out. With [Config].Sketched rows in memory have one, too, by which an [Estimator]
// goes. Sketches follow from the codes; those of rows in memory are in snapshots all the
// same, since making them takes longer than reading.

const (
	// leastSketched is the dimension from which on rows get sketches: of fewer
	// components the signs tell little.
	leastSketched = 128
	// leastSketchedInMemory is that for rows whose codes are in memory, where a code
	// that must be read after all costs less.
	leastSketchedInMemory = 256
	// centreRows is how many rows the centre is the mean of.
	centreRows = 4096
	// sketchDeviation is the standard deviation of an estimate's error, for a row of
	// factor 1 and a query of length 1: the signs of a random direction leave out
	// 1 - 2/pi of its square, and four bits .0115 of the query's.
	sketchDeviation = 0.612
	// queryStep is the distance of a query's 16 levels in units of its root mean
	// square, at which they lose the least.
	queryStep = 0.335
)

// sketches are those of an index's rows from a slot on: of all, or of those whose codes
// lie in the file.
type sketches struct {
	arena
	from uint32
	// walked is the slot from which on walks and flat searches go by sketches, as codes
	// lie in the file; noSlot if none do.
	walked   atomic.Uint32
	rotation *rotation
	centre   []float32
	square   float64       // of its length
	largest  atomic.Uint64 // factor of a row ever stored, as float64 bits
	turned   []float32     // the writer's rotated row
}

// noSlot is beyond all slots.
const noSlot = math.MaxUint32

// sketchesAll reports whether all rows have sketches where there are so many.
func (c *Config) sketchesAll(rows uint32) bool {
	return c.Sketched > 0 && c.Dim >= leastSketchedInMemory && int64(rows) >= int64(c.Sketched)
}

// growSketches makes room for sketches of slots below n, the last of which is about to
// get its row.
func (x *Index) growSketches(n uint32) error {
	c := x.coding.Load()
	s, filed := c.sketches.Load(), c.codes.filed.Load() > 0
	switch {
	case s != nil:
		if err := s.grow(n); err != nil {
			return err
		}
	case x.cfg.sketchesAll(n):
		s = c.newSketches(0, n-1)
		if err := s.grow(n); err != nil {
			return err
		}
		c.sketchRows(s, 0, n-1, func(uint32) bool { return true })
	case filed && x.cfg.Dim >= leastSketched:
		s = c.newSketches(n-1, n-1)
		if err := s.grow(n); err != nil {
			return err
		}
	default:
		return nil
	}
	if filed {
		s.walked.CompareAndSwap(noSlot, n-1)
	}
	c.sketches.Store(s)
	return nil
}

// newSketches prepares sketches of the slots from one on. Their centre is the mean
// of rows in slots below mean.
func (c *coding) newSketches(from, mean uint32) *sketches {
	s := emptySketches(c.dim, from)
	sum, rows := make([]float64, c.dim), 0
	var decoded []float32
	for slot := uint32(0); slot < mean; slot += mean/centreRows + 1 {
		row := c.row(slot)
		if row.head[0] == 0 {
			continue // there may never have been a row
		}
		decoded = row.decode(decoded[:0])
		for i, v := range decoded {
			sum[i] += float64(v)
		}
		rows++
	}
	for i := range s.centre {
		s.centre[i] = float32(sum[i] / float64(max(rows, 1)))
	}
	s.square = simd.SquaredNorm(s.centre)
	return s
}

// emptySketches are sketches without a centre.
func emptySketches(dim int, from uint32) *sketches {
	s := &sketches{from: from, rotation: newRotation(simd.BitGrain * ((dim + simd.BitGrain - 1) / simd.BitGrain)), centre: make([]float32, dim)}
	s.walked.Store(noSlot)
	s.init(sketchStride(s.rotation.dim))
	s.turned = make([]float32, s.rotation.dim)
	return s
}

// sketchStride keeps a sketch within one cache line, if it fits.
func sketchStride(dim int) uintptr {
	const line = 64
	return max(simd.CodeHeader+uintptr(dim/8), line)
}

// bytes returns the memory that the sketches of slots below n take.
func (s *sketches) bytes(n uint32) int64 {
	if s == nil || n < s.from {
		return 0
	}
	return int64(n-s.from) * int64(s.table.Load().Stride)
}

// has reports whether a slot has a sketch.
func (s *sketches) has(slot uint32) bool { return s != nil && slot >= s.from }

// walks reports whether walks and flat searches go by a slot's sketch.
func (s *sketches) walks(slot uint32) bool { return s != nil && slot >= s.walked.Load() }

// sketchRows makes the sketches of some slots from their codes.
func (c *coding) sketchRows(s *sketches, from, end uint32, has func(slot uint32) bool) {
	row, turned := make([]float32, 0, c.dim), make([]float32, s.rotation.dim)
	for slot := from; slot < end; slot++ {
		if has(slot) {
			codes := c.row(slot)
			row = codes.decode(row[:0])
			s.store(slot, row, codes.head[1], turned)
		}
	}
}

// factor returns that of a slot's sketch.
func (s *sketches) factor(slot uint32) float64 {
	return float64(*(*float32)(s.table.Load().At(slot)))
}

// row returns a slot's sketch: its factor and bias, and its bits.
func (s *sketches) row(slot uint32) (head *[2]float32, words []uint64) {
	at := s.table.Load().At(slot)
	return (*[2]float32)(at), unsafe.Slice((*uint64)(unsafe.Add(at, simd.CodeHeader)), s.rotation.dim/64)
}

// store sketches the row of a slot that has a sketch; bias is that of its codes, and
// turned has room for the row, rotated.
func (s *sketches) store(slot uint32, row []float32, bias float32, turned []float32) {
	head, words := s.row(slot)
	// key = (row-centre)(query-centre) + (row-centre)centre + bias + query*centre:
	// the first is what is estimated, the last is the query's.
	s.turn(row, turned)
	magnitudes := 0.0
	for w := range words {
		word, sum := signs((*[64]float32)(turned[w*64:]))
		words[w] = word
		magnitudes += float64(sum)
	}
	factor := float32(0)
	if magnitudes > 0 {
		factor = float32(simd.SquaredNorm(turned) / magnitudes)
	}
	head[0], head[1] = factor, float32(s.product(row)-s.square)+bias
	raise(&s.largest, float64(factor))
}

// signs returns which of the components are not negative, and the sum of their
// magnitudes, in two chains of additions that don't wait for each other.
func signs(v *[64]float32) (positive uint64, magnitudes float32) {
	const sign = 1 << 31
	var even, odd float32
	for i := 0; i < len(v); i += 2 {
		a, b := math.Float32bits(v[i]), math.Float32bits(v[i+1])
		positive |= uint64(^a>>31)<<i | uint64(^b>>31)<<(i+1)
		even += math.Float32frombits(a &^ sign)
		odd += math.Float32frombits(b &^ sign)
	}
	return positive, even + odd
}

// product returns the dot product of a vector and the centre.
func (s *sketches) product(vec []float32) float64 { return float64(simd.Dot(vec, s.centre)) }

// turn sets dst to what a vector has beyond the centre, rotated.
func (s *sketches) turn(vec, dst []float32) {
	for i, v := range vec {
		dst[i] = v - s.centre[i]
	}
	clear(dst[len(vec):])
	s.rotation.turn(dst)
}

// sketchQuery is a query for sketches.
type sketchQuery struct {
	bits      simd.QueryBits
	turned    []float32
	levels    []uint8
	deviation float64 // of the key's error, for a row of factor 1
	allowed   float64 // as much of it as a search allows for
	noise     float64 // what float32 adds to it
}

// query makes a vector the query, among codes of at most that length.
func (s *sketches) query(q *sketchQuery, vec []float32, coded float64) {
	if q.turned == nil {
		q.turned, q.levels = make([]float32, s.rotation.dim), make([]uint8, s.rotation.dim)
	}
	s.turn(vec, q.turned)
	square := simd.SquaredNorm(q.turned)
	inv := float32(0)
	if square > 0 {
		inv = float32(1 / (queryStep * math.Sqrt(square/float64(len(q.turned)))))
	}
	var product float64
	for i, v := range q.turned {
		level := min(max(int32(v*inv+simd.BitLevels/2), 0), simd.BitLevels-1)
		q.levels[i] = uint8(level)
		product += float64(v) * float64(2*level-(simd.BitLevels-1))
	}
	q.bits.SetLevels(q.levels)
	q.bits.Scale, q.bits.Bias = 0, float32(s.product(vec))
	if product > 0 {
		// As long as the query along its own direction: else estimates would be biased.
		q.bits.Scale = float32(square / product)
	}
	q.deviation = sketchDeviation * math.Sqrt(square)
	// Both are multiplied with the centre.
	lengths := (math.Sqrt(simd.SquaredNorm(vec)) + coded) * math.Sqrt(s.square)
	q.noise = float64(len(vec)+16) / (1 << 23) * lengths
}

// split puts the slots first whose sketches walks do not go by, and returns how many
// they are.
func (s *sketches) split(slots []uint32) (n int) {
	for i, slot := range slots {
		if !s.walks(slot) {
			slots[i], slots[n] = slots[n], slot
			n++
		}
	}
	return n
}

// bySketches has the beam go by sketches, for a query that its codes are of, where
// codes lie in the file.
func (b *beam) bySketches(vec []float32) {
	b.sketches = nil
	if s := b.coding.sketches.Load(); s.walks(noSlot - 1) {
		b.sketches = s
		s.query(&b.sketch, vec, load(&b.coding.bounds.coded))
	}
}

// recode gives candidates the keys of their codes instead of estimates, and sorts
// them anew.
func (b *beam) recode(found []candidate) {
	b.ids = b.ids[:0]
	for _, c := range found {
		b.ids = append(b.ids, c.slot)
	}
	out := b.room(len(b.ids))
	b.codeKeys(b.ids, out)
	for i, score := range out {
		found[i].score = score
	}
	slices.SortFunc(found, compareCandidates)
}

// deviationsFlat is how many deviations of a sketch's error a flat search allows for: it
// gives up one hit in ten millions. A walk allows for deviationsWalk.
const deviationsFlat = 6

// slack returns by how much the key of a candidate may be off from its codes' key, less
// what all keys lack: an estimate is one of that.
func (r *searcher) slack(c candidate) float64 {
	v, slot := &r.probe.codes, c.slot&slotMask
	if s := r.beam.sketches; s.walks(slot) {
		// They estimate keys of the query itself.
		rough := r.beam.sketch.allowed*s.factor(slot) + r.beam.sketch.noise
		return rough + math.Abs(v.shift) + r.codesSlack(&r.probe.sharp, c.score-float32(rough), load(&r.beam.coding.bounds.err))
	}
	return r.codesSlack(v, c.score, r.beam.err(slot))
}

// codesSlack returns by how much a key of codes may be off, to be sure or most likely.
func (r *searcher) codesSlack(v *view, key float32, err float64) float64 {
	if r.sure {
		return r.probe.slack(v, key, err)
	}
	return r.probe.likely(v, key, err, deviationsWalk) + r.probe.noise
}

// allow has the search be sure that nothing is left out, or not, and says how many
// deviations of a sketch's error it allows for.
func (r *searcher) allow(sure bool, deviations float64) {
	r.sure = sure
	r.beam.sketch.allowed = deviations * r.beam.sketch.deviation
}

// lowest returns a key below which no candidate reaches a bar.
func (r *searcher) lowest(bar float64) float32 {
	v := r.probe.codes
	floor := r.probe.floor(&v, bar+v.shift, r.beam.mostErr())
	if s := r.beam.sketches; s != nil {
		floor -= r.beam.sketch.allowed*load(&s.largest) + r.beam.sketch.noise + math.Abs(v.shift)
	}
	return math.Nextafter32(float32(floor), float32(math.Inf(-1)))
}

// recodeStep is how many codes are read between looks at the bar.
const recodeStep = 8

// byCodes returns the candidates, which are sorted, by the keys of their codes. It
// leaves out those that the slack of their sketches keeps from being among the k
// best.
func (r *searcher) byCodes(found []candidate, k int) []candidate {
	if r.beam.sketches == nil {
		return found
	}
	best, most := topK{k: k}, load(&r.beam.coding.bounds.err)
	kept := found[:0]
	passes := func(c candidate) bool {
		bar := best.hits[0].Score
		return float64(c.score)+r.slack(c)+r.codesSlack(&r.probe.codes, bar, most) >= float64(bar)
	}
	for len(found) > 0 {
		found = r.take(found, &best, recodeStep, passes)
		out := r.out[:len(r.ids)]
		simd.Dot8Rows(&r.beam.query, r.beam.coding.codes.table.Load(), r.ids, out)
		for i, key := range out {
			kept = append(kept, candidate{key, r.ids[i]})
			best.push(Hit{Slot: r.ids[i], Score: key})
		}
	}
	slices.SortFunc(kept, compareCandidates)
	return kept
}
