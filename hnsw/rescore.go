package hnsw

import (
	"fmt"
	"math"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// A key is what candidates are ordered by while codes are scored: the dot
// product with the query, less half the row's squared length under L2, where
// the order is then that of the distances.

// probe is a prepared query.
type probe struct {
	vec  []float32 // normalised under Cosine
	norm float64   // of vec
	// The key of a row's codes is off by at most perScale times the row's scale
	// plus fixed, of which rounding is not the query's codes'. The search allows for a
	// share of it.
	perScale, fixed float64
	rounding        float64
	allowed         float64
	coarse          bool // the query is, or a row
}

// The errors of a row's components are independent of each other and of the
// query, so that the key is off by far less than it could be: with a standard
// deviation of the most it could be over the square root of the dimension. So
// many of them are allowed for unless the search is to be exact, or codes are
// coarse: a walk may give up one hit in some thousands, a flat search one in
// ten millions.
const (
	deviationsWalk = 3.5
	deviationsFlat = 6
)

// allow sets how sure a search is to be that nothing is left out.
func (p *probe) allow(deviations float64) {
	p.allowed = min(1, deviations/math.Sqrt(float64(len(p.vec))))
	if p.coarse {
		p.allowed = 1
	}
}

// setQuery prepares a checked query of that length, for codes and in float32.
func (r *searcher) setQuery(query []float32, norm float64) {
	x := r.x
	p := &r.probe
	p.vec = x.prepare(query, norm, p.vec[:0])
	p.norm = norm
	if x.cfg.Metric == Cosine {
		p.norm = 1 + 1e-6 // as rounded
	}
	residual, large := r.beam.setQuery(p.vec)
	p.coarse = !large || x.bounds.coarse.Load()
	most := load(&x.bounds.norm)
	// What float32 arithmetic adds to the codes' error: the rounding of the
	// scores themselves and of the float32 sums they are compared with.
	reach := p.norm * most
	if x.cfg.Metric == L2 {
		reach = (p.norm + most) * (p.norm + most)
	}
	p.rounding = float64(x.cfg.Dim+16)/(1<<23)*reach + p.norm*math.SmallestNonzeroFloat32*float64(x.cfg.Dim)
	p.perScale = p.norm * load(&x.bounds.residual)
	p.fixed = residual*most + p.rounding
}

// setQuery quantises the query and returns the length of what that leaves out,
// and whether its codes are large enough not to be coarse.
func (b *beam) setQuery(vec []float32) (residual float64, large bool) {
	q := &b.query
	largest := float64(simd.Largest(vec))
	q.Scale, q.Sum = float32(largest/codeMax), 0
	if q.Scale == 0 {
		clear(q.Codes)
		return math.Sqrt(simd.SquaredNorm(vec)), false
	}
	if largest > float64(q.Scale)*(codeMax+0.25) {
		// The scale is so small that it has few digits.
		q.Scale = math.Nextafter32(q.Scale, 1)
	}
	rounded := simd.Round8(vec, 1/float64(q.Scale), q.Codes)
	q.Sum = rounded.Sum
	return math.Sqrt(rounded.Left) * float64(q.Scale), int(rounded.Magnitudes) >= len(vec)
}

// slack returns by how much the key of a row's codes may be off.
func (p *probe) slack(scale float32) float64 {
	return p.allowed * (p.perScale*float64(scale) + p.fixed)
}

// rowSlack returns by how much the product of the query itself with a row's codes may be
// off.
func (p *probe) rowSlack(scale float32) float64 {
	return p.allowed*p.perScale*float64(scale) + p.rounding
}

// rescore returns the k best of the candidates, which are sorted by the keys of
// their codes, by their exact scores. It leaves out only those that the slack
// of their keys keeps from being among them.
func (r *searcher) rescore(candidates []candidate, k int) ([]Hit, error) {
	best := topK{k: k, hits: make([]Hit, 0, min(k, len(candidates)))}
	codes, all := r.x.codes.table.Load(), len(candidates)
	scored, worst := 0, float32(math.Inf(1))
	passes := func(c candidate) bool {
		scale := *(*float32)(codes.At(c.slot & slotMask))
		return float64(c.score)+r.probe.slack(scale) >= r.keyOf(best.hits[0].Score)
	}
	for len(candidates) > 0 {
		candidates = r.take(candidates, &best, rescoreStep, passes)
		out := r.out[:len(r.ids)]
		if err := r.score(r.ids, out); err != nil {
			return nil, err
		}
		scored += len(out)
		for i, score := range out {
			best.push(Hit{Slot: r.ids[i], Score: score})
			worst = min(worst, score)
		}
	}
	hits := best.sorted()
	// Where all are as good as the best by their codes, those that a walk did not keep may
	// be better, unless all are the same.
	r.unsure = r.beam.sketches == nil && scored == all && all > k && worst < hits[0].Score
	return hits, nil
}

// take makes r.ids the next of the candidates to be scored again, and returns the
// others: as many as the best lack and a few more, which find what the bar, right in all
// but a few cases, would leave out; then a few at a time, since each of them may raise
// the bar. It leaves out those that don't pass it.
func (r *searcher) take(candidates []candidate, best *topK, step int, passes func(candidate) bool) []candidate {
	room := step
	if missing := best.k - len(best.hits); missing > room {
		room = min(missing+step, batch)
	}
	r.ids = r.ids[:0]
	for i, c := range candidates {
		if len(r.ids) == room {
			return candidates[i:]
		}
		if len(best.hits) < best.k || passes(c) {
			r.ids = append(r.ids, c.slot&slotMask)
		}
	}
	return nil
}

// rescoreStep is how many rows are scored again between looks at the bar: as
// many as are prefetched at once.
const rescoreStep = 4

// keyOf returns the key that belongs to an exact score.
func (r *searcher) keyOf(score float32) float64 {
	if r.x.cfg.Metric != L2 {
		return float64(score)
	}
	return (r.probe.norm*r.probe.norm - float64(score)*float64(score)) / 2
}

// score sets out to the exact scores of slots for the query.
func (r *searcher) score(ids []uint32, out []float32) error {
	x := r.x
	switch {
	case !x.cfg.Quantized && !x.keepsRows():
		return r.scoreTruth(ids, out)
	case x.cfg.Metric == L2 && x.cfg.Quantized:
		for i, id := range ids {
			r.row = x.codeRow(id).decode(r.row[:0])
			out[i] = negatedRoot(simd.SquaredL2(r.probe.vec, r.row))
		}
	case x.cfg.Metric == L2:
		simd.SquaredL2Rows(r.probe.vec, x.rows.table.Load(), ids, out)
		for i, d := range out {
			out[i] = negatedRoot(d)
		}
	case x.cfg.Quantized:
		simd.DotCodesRows(r.probe.vec, x.codes.table.Load(), ids, out)
	default:
		simd.DotRows(r.probe.vec, x.rows.table.Load(), ids, out)
	}
	return nil
}

// keptAhead is how many rows that are kept are on their way while one is scored.
const keptAhead = 3

func (r *searcher) scoreTruth(ids []uint32, out []float32) (err error) {
	ahead := 0
	for i, id := range ids {
		for ; r.x.kept != nil && ahead < min(i+keptAhead+1, len(ids)); ahead++ {
			r.x.kept.prefetch(ids[ahead])
		}
		if out[i], err = r.scoreRow(id, r.truth); err != nil {
			return fmt.Errorf("vector of slot %d: %w", id, err)
		}
	}
	return nil
}

// scoreRow scores a row that is kept from an earlier search, or that truth returns.
func (r *searcher) scoreRow(slot uint32, truth Truth) (score float32, err error) {
	if kept := r.x.kept; kept != nil {
		score, ok, err := kept.score(slot, r.x.cfg.Metric, r.probe.vec)
		if ok {
			return score, err
		}
	}
	row, err := truth(slot, r.row[:0])
	if err != nil {
		return 0, err
	}
	r.row = row
	if score, err = rowScore(r.x.cfg.Metric, r.probe.vec, row); err == nil && r.x.kept != nil {
		r.x.kept.keep(slot, row, false, !r.x.KeepsAll())
	}
	return score, err
}

// Between leastSquare and mostSquare the square of a length in float32 neither overflows
// nor loses digits.
const leastSquare, mostSquare = 1e-24, 1e24

// rowScore scores a row as it was added for a prepared query. What the row is fit
// for shows in the score: only one out of range is looked into.
func rowScore(m Metric, query, row []float32) (float32, error) {
	if len(row) == len(query) {
		score := float32(math.NaN())
		switch m {
		case Cosine:
			if square := simd.Dot(row, row); square > leastSquare && square < mostSquare {
				score = float32(float64(simd.Dot(query, row)) / math.Sqrt(float64(square)))
			}
		case Dot:
			score = simd.Dot(query, row)
		case L2:
			score = negatedRoot(simd.SquaredL2(query, row))
		}
		if !math.IsNaN(float64(score)) && !math.IsInf(float64(score), 0) {
			return score, nil
		}
	}
	norm, err := checkedNorm(row, len(query), m)
	if err != nil {
		return 0, err
	}
	// It is a cosine: the other scores of a row that is fit are finite.
	dot := 0.0
	for i, v := range row {
		dot += float64(query[i]) * float64(v)
	}
	return float32(dot / norm), nil
}

func negatedRoot(squared float32) float32 { return 0 - float32(math.Sqrt(float64(squared))) }
