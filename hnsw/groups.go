package hnsw

import (
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// Rows that lie in a few groups far from each other have a centre for each group, and a
// row is coded as its difference to the nearest one: about one centre for all, the
// distance between the groups would take the steps of all other components. The query is
// coded about each centre as well, and what its keys with a group's rows then lack is
// added to them, so that keys of rows of all groups compare.

const (
	// maxGroups is how many groups a coding has at most: the last bits of a row's error
	// say which one is the row's (see label).
	maxGroups = 1 << labelBits
	labelBits = 3
	labelMask = maxGroups - 1
	// groupsFrom is the share of the squared distances of near rows that is lost to the
	// errors of codes about one centre from which on groups are looked for.
	groupsFrom = 0.02
	// groupRounds is how often centres are moved to the mean of what is nearest to them.
	groupRounds = 8
)

// canGroup reports whether an index may have groups. Sketches know one centre, so rows that
// may get them have one, too: in their many components a rotation hides what lies between
// groups as well.
func (c *Config) canGroup() bool {
	return !c.Quantized && c.Dim < leastSketchedInMemory && (c.File == nil || c.Dim < leastSketched)
}

// grouped reports whether rows have different centres.
func (c *coding) grouped() bool { return len(c.centres) > 1 }

// group returns the group that a vector belongs to: 0 where there are none.
func (c *coding) group(vec []float32) (best int) {
	if !c.grouped() {
		return 0
	}
	near := float32(math.Inf(1))
	for g, centre := range c.centres {
		if d := simd.SquaredL2(vec, centre); d < near {
			best, near = g, d
		}
	}
	return best
}

// label returns the group of a slot's row.
func (c *coding) label(slot uint32) int {
	if !c.grouped() {
		return 0
	}
	return int(*(*uint32)(unsafe.Add(c.codes.table.Load().At(slot), errOffset(c.dim))) & labelMask)
}

// labelled returns an error that is not less, by little, and says which group it is of.
func (c *coding) labelled(err float32, group int) float32 {
	if !c.grouped() {
		return err
	}
	return math.Float32frombits((math.Float32bits(err)+labelMask)&^labelMask | uint32(group))
}

// groupCentres returns n centres for the vectors, which lie one after the other: by
// k-means from rows that are likely far from each other (Arthur and Vassilvitskii,
// k-means++, 2007). The same vectors always have the same ones.
func groupCentres(vecs []float32, dim, n int) [][]float32 {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(dim)))
	rows := len(vecs) / dim
	row := func(i int) []float32 { return vecs[i*dim : (i+1)*dim] }
	centres := [][]float32{slices.Clone(row(rng.IntN(rows)))}
	near := make([]float64, rows)
	for i := range near {
		near[i] = math.Inf(1)
	}
	for len(centres) < n {
		sum := 0.0
		for i := range near {
			near[i] = min(near[i], float64(simd.SquaredL2(row(i), centres[len(centres)-1])))
			sum += near[i]
		}
		if sum == 0 {
			break
		}
		at, left := 0, rng.Float64()*sum
		for at < rows-1 && left >= near[at] {
			left -= near[at]
			at++
		}
		centres = append(centres, slices.Clone(row(at)))
	}
	c := coding{centres: centres}
	for range groupRounds {
		parts := make([][]float32, len(centres))
		for i := range rows {
			g := c.group(row(i))
			parts[g] = append(parts[g], row(i)...)
		}
		for g, part := range parts {
			if len(part) > 0 {
				centres[g] = meanOf(part, dim)
			}
		}
	}
	return centres
}

// groupedCoding returns the coding about several centres that loses least of the sample,
// or nil if there is none.
func (x *Index) groupedCoding(s *fitSample) (best *coding, lost, usual float64) {
	lost = math.Inf(1)
	if !x.cfg.canGroup() {
		return nil, lost, 0
	}
	turns := []*rotation{nil}
	if x.cfg.Dim >= leastTurned {
		turns = append(turns, newRotation(x.cfg.Dim))
	}
	for n := 2; n <= maxGroups; n *= 2 {
		centres := groupCentres(s.vecs, x.cfg.Dim, n)
		for _, r := range turns {
			c := x.newCoding(centres, r)
			if less, err := c.lost(s); less < lost*(1-fitGain) {
				best, lost, usual = c, less, err
			}
		}
	}
	return best, lost, usual
}

// frames are a query as it is compared with the rows of each group. Keys are those that
// the rows would have, were they all of its own group, which is called home.
type frames struct {
	home   int
	row    uint32  // the row that is the query while rows are linked
	square float64 // of the length of the home query's codes
	each   [maxGroups]groupQuery
	scratch
}

// scratch is room for the scores of a group.
type scratch struct {
	labels []uint8
	ids    []uint32
	places []uint32
	out    []float32
	vec    []float32
}

// groupQuery is a query about a group's centre.
type groupQuery struct {
	ready bool
	query simd.Query8
	own   []float32 // the query itself
	// What is added to keys by its codes, and to those by itself.
	shift, sharp float32
	away         float64 // how much more its codes leave out than those of the home query
}

// frame returns the query about the centre of a group other than home.
func (b *beam) frame(group int) *groupQuery {
	f := &b.frames.each[group]
	if f.ready {
		return f
	}
	c := b.coding
	vec := c.row(b.frames.row).decode(b.frames.vec[:0])
	c.back(vec, b.frames.home)
	b.frames.vec = vec
	b.setFrame(group, vec)
	return f
}

// setFrame codes a query about a group's centre.
func (b *beam) setFrame(group int, vec []float32) residual {
	f := &b.frames.each[group]
	if f.query.Codes == nil {
		f.query.Codes = make([]int8, b.coding.dim)
	}
	f.own = b.coding.into(vec, group, f.own[:0])
	res := roundQuery(&f.query, f.own)
	f.shift, f.ready = float32((b.frames.square-res.square)/2), true
	return res
}

// leaveHome says which group the query is of, and forgets how it is compared with others.
func (b *beam) leaveHome(home int, row uint32, square float64) {
	b.frames.home, b.frames.row, b.frames.square = home, row, square
	for g := range b.frames.each {
		b.frames.each[g].ready = false
	}
}

// setFrames codes a search's query about all centres but home, and returns by how much
// more the codes of each are off, and the length of the longest.
func (b *beam) setFrames(vec []float32, square float64, home residual) (longest float64) {
	c := b.coding
	for g := range c.centres {
		f := &b.frames.each[g]
		f.away = 0
		if g == b.frames.home {
			continue
		}
		res := b.setFrame(g, vec)
		own := simd.SquaredNorm(f.own)
		f.sharp = float32((square - own) / 2)
		f.away = max(0, res.left+c.frameErrorOf(math.Sqrt(own))-home.left)
		longest = max(longest, math.Sqrt(own))
	}
	return longest
}

// fromFar has keys compare as a view from far does: the error of the query about each
// centre is the largest of them.
func (b *beam) fromFar(v *view) {
	if !b.coding.grouped() {
		return
	}
	most := 0.0
	for g := range b.coding.centres {
		f := &b.frames.each[g]
		most = max(most, f.away)
		f.away, f.shift = 0, f.sharp
	}
	v.err += most
}

// err returns by how much the codes of a slot's row may be off, and those of the query
// about its centre more than about the home centre.
func (b *beam) err(slot uint32) float64 {
	c := b.coding
	if !c.grouped() {
		return c.err(slot)
	}
	return c.err(slot) + b.frames.each[c.label(slot)].away
}

// mostErr returns the most that err returns.
func (b *beam) mostErr() float64 {
	most := load(&b.coding.bounds.err)
	if !b.coding.grouped() {
		return most
	}
	away := 0.0
	for g := range b.coding.centres {
		away = max(away, b.frames.each[g].away)
	}
	return most + away
}

// codeKeys sets out to the keys of slots by the query's codes.
func (b *beam) codeKeys(ids []uint32, out []float32) {
	table := b.coding.codes.table.Load()
	if !b.coding.grouped() {
		simd.Dot8Rows(&b.query, table, ids, out)
		return
	}
	b.byGroup(ids, out, func(group int, ids []uint32, out []float32) float32 {
		if group == b.frames.home {
			simd.Dot8Rows(&b.query, table, ids, out)
			return 0
		}
		f := b.frame(group)
		simd.Dot8Rows(&f.query, table, ids, out)
		return f.shift
	})
	if b.byDistance && b.coding.metric == Dot {
		for i, id := range ids {
			out[i] -= float32(b.coding.square(id) / 2)
		}
	}
}

// sharpKeys sets out to the keys of slots by a search's query itself.
func (b *beam) sharpKeys(own []float32, ids []uint32, out []float32) {
	c, table := b.coding, b.coding.codes.table.Load()
	if !c.grouped() {
		simd.DotCodesRows(own, table, ids, out)
	} else {
		b.byGroup(ids, out, func(group int, ids []uint32, out []float32) float32 {
			if group == b.frames.home {
				simd.DotCodesRows(own, table, ids, out)
				return 0
			}
			f := &b.frames.each[group]
			simd.DotCodesRows(f.own, table, ids, out)
			return f.sharp
		})
	}
	for i, id := range ids {
		out[i] += c.row(id).head[1]
	}
}

// byGroup has the slots of each group scored together, and adds to their scores what
// score returns.
func (b *beam) byGroup(ids []uint32, out []float32, score func(group int, ids []uint32, out []float32) (add float32)) {
	s := &b.frames.scratch
	s.labels = s.labels[:0]
	var counts [maxGroups]int
	for _, id := range ids {
		label := b.coding.label(id)
		s.labels = append(s.labels, uint8(label))
		counts[label]++
	}
	for group, n := range counts {
		switch n {
		case 0:
		case len(ids):
			add := score(group, ids, out)
			for i := range out {
				out[i] += add
			}
		default:
			s.ids, s.places = s.ids[:0], s.places[:0]
			for i, label := range s.labels {
				if int(label) == group {
					s.ids, s.places = append(s.ids, ids[i]), append(s.places, uint32(i))
				}
			}
			s.out = slices.Grow(s.out[:0], n)[:n]
			add := score(group, s.ids, s.out)
			for i, place := range s.places {
				out[place] = s.out[i] + add
			}
		}
	}
}
