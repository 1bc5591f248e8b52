package hnsw

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// A key is what candidates are ordered by while codes are scored (see coding): half of a
// constant less the squared distance of query and row, under Dot of rows made as long as
// each other by one more component.

// probe is a prepared query.
type probe struct {
	vec  []float32 // normalised under Cosine
	norm float64   // of vec
	own  []float32 // vec times by, as rows are coded
	// Under Dot the order of scores doesn't depend on the query's length: it is made as
	// long as rows, so that its distances to them, and the errors of keys with them, are
	// no longer than they must be. Else 1.
	by float64
	// The key of a score under Cosine and Dot is by times it less off; half of off less
	// the score's square under L2.
	off float64
	// How scores of codes compare with keys: by the query's codes, and by the query itself.
	codes, sharp view
	// What float32 adds to the error of keys, and to that of exact scores, of which
	// perSquare times a squared distance under L2.
	noise, rounding, perSquare float64
	share                      float64 // of its most by which a key's error deviates: 1 over the dimension's root
}

// view is a way to score codes.
type view struct {
	square float64 // the squared distance is that less two keys
	err    float64 // the length of what the query's codes leave out
	shift  float64 // what keys lack
	// Where the query is far from the centre its error shows in keys by the lengths of
	// codes, not by their distances from it: reach is the largest. Else 0.
	reach float64
}

// farQuery is how many times as long as the longest codes a query is that is far from the
// centre.
const farQuery = 2

// from is the view of a query far from the centre, of that squared length.
func (v view) from(square, reach float64) view {
	return view{square: square, err: v.err, reach: reach}
}

// The errors of a row's components are most often independent of each other and of the
// query, so that a key is off by far less than it could be: with a standard deviation of
// the most it could be over the square root of the dimension. The second look at what a
// walk found allows for so many: it gives up one hit in some thousands. Where components
// have few values, as counts and flags do, that does not hold, and flat searches and
// estimators, which promise more, go by what a key's error can be at most.
const deviationsWalk = 3.5

// setQuery prepares a checked query of that length, for codes and in float32.
func (r *searcher) setQuery(query []float32, norm float64) {
	x, p := r.x, &r.probe
	r.beam.pin()
	c := r.beam.coding
	p.vec = x.prepare(query, norm, p.vec[:0])
	p.norm, p.by = norm, 1
	most, coded := load(&c.bounds.norm), load(&c.bounds.coded)
	longest := 0.0 // row that keys take the length of
	switch x.cfg.Metric {
	case Cosine:
		p.norm, most = 1+1e-6, 1+1e-6 // as rounded
	case Dot:
		longest = most
		if norm > 0 && most > 0 {
			p.by = most / norm
		}
	}
	scaled := p.vec
	if p.by != 1 {
		scaled = slices.Grow(r.row[:0], len(p.vec))[:len(p.vec)]
		simd.Scale(scaled, p.vec, p.by)
	}
	home := c.group(scaled)
	p.own = c.into(scaled, home, p.own[:0])
	square := simd.SquaredNorm(p.own)
	length := math.Sqrt(square)
	residual := roundQuery(&r.beam.query, p.own)
	p.off = p.offset(x.cfg.Metric, simd.SquaredNorm(scaled), square)
	inexact := c.frameErrorOf(length)
	own := residual.square + longest*longest
	p.codes = view{square: own, err: residual.left + inexact, shift: (square - residual.square) / 2}
	p.sharp = view{square: square + longest*longest, err: inexact}
	p.share = 1 / math.Sqrt(float64(len(p.vec)))
	if c.grouped() {
		r.beam.leaveHome(home, noSlot, residual.square)
		farthest := r.beam.setFrames(scaled, square, residual)
		if x.cfg.Metric != L2 {
			length = max(length, farthest)
		}
	}
	if length > farQuery*coded {
		p.codes = p.codes.from(square+longest*longest, coded)
		r.beam.fromFar(&p.codes)
	}
	p.setRounding(x.cfg.Metric, float64(len(p.vec)), length, coded, most)
	if c.grouped() && x.cfg.Metric == L2 {
		// Keys of rows of another group are as large as their distances.
		p.perSquare += groupRounding
	}
}

// groupRounding is what float32 adds to the keys of rows far from the query, in their
// squared distances.
const groupRounding = 64.0 / (1 << 24)

// offset returns off, for a query of that squared length, as it is coded of another one.
func (p *probe) offset(m Metric, square, own float64) float64 {
	switch m {
	case Cosine:
		// The squared distance of vectors of length one is two less twice their cosine.
		return 1 - own/2
	case Dot:
		return (square - own) / 2
	}
	return own
}

// setRounding bounds what float32 arithmetic adds to errors, for rows and codes of those
// lengths at most.
func (p *probe) setRounding(m Metric, dim, length, coded, most float64) {
	const half, tiny = 1.0 / (1 << 24), math.SmallestNonzeroFloat32
	bias := coded * coded / 2
	if m == Dot {
		bias += most * most / 2
	}
	squares := (length+coded)*(length+coded) + bias
	if m == L2 {
		// Codes are no longer than the query and their distance from it: what they add is
		// counted there, lest one row far from all others blur the keys of these.
		squares = min(squares, 9*length*length)
	}
	// Products of tiny scales have few digits, or none.
	p.noise = 8*half*squares + dim*codeMax*codeMax*tiny
	p.rounding, p.perSquare = p.noise, 0
	if m == L2 {
		p.perSquare = (dim + 16 + 24) * 2 * half
	} else {
		p.rounding += (dim+16)*2*half*p.norm*p.by*most + dim*tiny*p.by
	}
}

// leastScale is the least one of a query that has as many digits as others.
const leastScale = 1e-36

// residual is what codes of a query leave out.
type residual struct {
	left   float64 // its length
	square float64 // of the codes' own length
}

// roundQuery makes codes of a query.
func roundQuery(q *simd.Query8, vec []float32) residual {
	largest := float64(simd.Largest(vec))
	q.Scale, q.Sum = float32(largest/codeMax), 0
	if q.Scale == 0 {
		clear(q.Codes)
		return residual{left: math.Sqrt(simd.SquaredNorm(vec))}
	}
	by := codeMax / largest // as rows are rounded: one that is the query has its codes
	if largest > float64(q.Scale)*(codeMax+0.25) || q.Scale < leastScale {
		// The scale is so small that it has few digits.
		q.Scale = math.Nextafter32(q.Scale, 1)
		by = 1 / float64(q.Scale)
	}
	rounded := simd.Round8(vec, by, q.Codes)
	q.Sum = rounded.Sum
	scale := float64(q.Scale)
	return residual{math.Sqrt(rounded.Left) * scale, scale * scale * squaredCodes(q.Codes)}
}

// squaredCodes returns the sum of the squares of a query's codes.
func squaredCodes(codes []int8) float64 {
	var a, b, c, d int32
	for len(codes) >= 4 {
		p, q, r, s := int32(codes[0]), int32(codes[1]), int32(codes[2]), int32(codes[3])
		a += p * p
		b += q * q
		c += r * r
		d += s * s
		codes = codes[4:]
	}
	for _, v := range codes {
		a += int32(v) * int32(v)
	}
	return float64(a + b + c + d)
}

// slack returns by how much a key, as a view gives it, may be off from that of the exact
// score of a row whose codes are off by err: the distances of query and row and of their
// codes differ by no more than both errors.
func (p *probe) slack(v *view, key float32, err float64) float64 {
	square := max(0, v.square-2*float64(key)) + 2*p.noise
	if v.reach > 0 {
		return math.Sqrt(square)*err + err*err/2 + v.err*(v.reach+err) + p.rounding + p.perSquare*(square+err*err)
	}
	both := v.err + err
	return math.Sqrt(square)*both + both*both/2 + p.rounding + p.perSquare*(square+both*both)
}

// likely returns by how much such a key is too low if it is off by so many deviations.
// Errors that are independent make codes lie further apart than what they stand for.
func (p *probe) likely(v *view, key float32, err, deviations float64) float64 {
	square, errs := max(0, v.square-2*float64(key)), v.err*v.err+err*err
	if v.reach > 0 {
		return err*err/2 + deviations*p.share*math.Sqrt(square*err*err+v.err*v.err*v.reach*v.reach)
	}
	return errs/2 + deviations*p.share*math.Sqrt(square*errs)
}

// floor returns a key below which none, were it off by as much as it can be, belongs to a
// row that reaches bar.
func (p *probe) floor(v *view, bar, err float64) float64 {
	both := v.err + err
	square := v.square + 2*v.shift - 2*bar
	if v.reach > 0 {
		both = err
		square += 2 * v.err * (v.reach + err)
	}
	square = max(0, square)
	far := both + math.Sqrt(2*both*both+square+4*p.noise+2*p.rounding)
	far *= 1 + 2*p.perSquare
	return (v.square - far*far) / 2
}

// rescore returns the k best of the candidates, which are sorted by their keys as a view
// gives them, by their exact scores. It leaves out only those that the slack of their keys
// keeps from being among them.
func (r *searcher) rescore(candidates []candidate, k int, v *view) ([]Hit, error) {
	best := &r.best
	worst := float32(math.Inf(1))
	passes := func(cand candidate) bool {
		slack := r.codesSlack(v, cand.score, r.beam.err(cand.slot&slotMask))
		return float64(cand.score)+v.shift+slack >= r.keyOf(best.hits[0].Score)
	}
	for len(candidates) > 0 {
		candidates = r.take(candidates, best, rescoreStep, passes)
		out := r.out[:len(r.ids)]
		if err := r.score(r.ids, out); err != nil {
			return nil, err
		}
		for i, score := range out {
			best.push(Hit{Slot: r.ids[i], Score: score})
			worst = min(worst, score)
		}
	}
	return best.sorted(), nil
}

// sharpen gives the candidates of a search that is to be sure the keys of the query
// itself, drops those that cannot be among the k best, and sorts the others.
func (r *searcher) sharpen(found []candidate, k int) []candidate {
	v, bar := &r.probe.sharp, topK{k: k}
	for rest := found; len(rest) > 0; {
		n := min(batch, len(rest))
		r.ids = r.ids[:0]
		for _, cand := range rest[:n] {
			r.ids = append(r.ids, cand.slot&slotMask)
		}
		out := r.out[:n]
		r.beam.sharpKeys(r.probe.own, r.ids, out)
		for i, key := range out {
			rest[i] = candidate{key, r.ids[i]}
			bar.push(Hit{Slot: r.ids[i], Score: key - float32(r.probe.slack(v, key, r.beam.err(r.ids[i])))})
		}
		rest = rest[n:]
	}
	found = slices.DeleteFunc(found, func(cand candidate) bool {
		slack := float32(r.probe.slack(v, cand.score, r.beam.err(cand.slot)))
		return len(bar.hits) == k && cand.score+slack < bar.hits[0].Score
	})
	slices.SortFunc(found, compareCandidates)
	return found
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
	if r.x.cfg.Metric == L2 {
		return (r.probe.off - float64(score)*float64(score)) / 2
	}
	return float64(score)*r.probe.by - r.probe.off
}

// scoreOf is the score of a key.
func (r *searcher) scoreOf(key float64) float64 {
	if r.x.cfg.Metric == L2 {
		return -math.Sqrt(max(0, r.probe.off-2*key))
	}
	return (key + r.probe.off) / r.probe.by
}

// score sets out to the exact scores of slots for the query.
func (r *searcher) score(ids []uint32, out []float32) error {
	x := r.x
	switch {
	case !x.cfg.Quantized && !x.keepsRows():
		return r.scoreTruth(ids, out)
	case x.cfg.Metric == L2 && x.cfg.Quantized:
		for i, id := range ids {
			r.row = r.beam.coding.row(id).decode(r.row[:0])
			out[i] = distanceScore(simd.SquaredL2(r.probe.vec, r.row), r.probe.vec, r.row)
		}
	case x.cfg.Metric == L2:
		simd.SquaredL2Rows(r.probe.vec, x.rows.table.Load(), ids, out)
		for i, d := range out {
			if d < leastSquared {
				out[i] = distanceScore(d, r.probe.vec, x.rows.float32s(ids[i], x.cfg.Dim))
			} else {
				out[i] = negatedRoot(d)
			}
		}
	case x.cfg.Quantized:
		simd.DotCodesRows(r.probe.vec, r.beam.coding.codes.table.Load(), ids, out)
	default:
		simd.DotRows(r.probe.vec, x.rows.table.Load(), ids, out)
		for i, score := range out {
			if score > -leastScore && score < leastScore {
				out[i] = preciseDot(r.probe.vec, x.rows.float32s(ids[i], x.cfg.Dim))
			}
		}
	}
	return nil
}

// leastScore is the least score that products of float32, which may have lost all their
// digits, are taken for.
const leastScore = 1e-36

// leastSquared is the least squared distance that the squares of float32, which may have lost
// all their digits, are taken for.
const leastSquared = 1e-30

// distanceScore returns the score of two vectors whose squared distance float32 says.
func distanceScore(squared float32, a, b []float32) float32 {
	if squared < leastSquared {
		return 0 - float32(distance(a, b))
	}
	return negatedRoot(squared)
}

// preciseDot returns a dot product whose terms may be below what float32 has digits for.
func preciseDot(a, b []float32) float32 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return float32(sum)
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
			if score = simd.Dot(query, row); score > -leastScore && score < leastScore {
				score = preciseDot(query, row)
			}
		case L2:
			score = distanceScore(simd.SquaredL2(query, row), query, row)
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
