package recall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/topk"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// cosines are the similarities of the query to documents, as far as the sketches and
// the codes of their vectors tell: that of the i-th lies within low[i] and high[i],
// which are NaN where the document has no vector to compare with.
type cosines struct {
	low, high []float32
	// Where bounds are apart, the space and its estimator give narrower ones and the
	// exact one for the slots, which are spaces.NoSlot or above where a document has none.
	slots []uint32
	space *spaces.Space
	est   *hnsw.Estimator
	truth hnsw.Truth
	unit  float64 // what they are to be multiplied by, see asked
}

func (c *cosines) close() {
	if c.est != nil {
		c.est.Close()
		c.est = nil
	}
}

// allCosines compares the query with all documents that may be hits, in the order of
// their list.
func (r *recalling) allCosines(ctx context.Context) error { return r.cosines(ctx, r.in.List()) }

// cosines compares the query with documents: in the space of its embedding, or,
// without one, in the lexical space with those that have no vector of their own.
// The caller closes them.
func (r *recalling) cosines(ctx context.Context, docs []uint32) error {
	bounds := resized(&r.scratch.bounds, 2*len(docs))
	r.cos = cosines{low: bounds[:len(docs)], high: bounds[len(docs):], unit: 1}
	defer r.stage("vectors")
	if r.q.Embedding == nil {
		return r.lexicalCosines(ctx, docs)
	}
	s := r.querySpace()
	if s == nil {
		noCosines(bounds)
		return nil
	}
	vec, unit := r.asked(s)
	est, err := s.Index.Estimator(vec, r.q.Exact)
	if err != nil {
		return err
	}
	r.cos.unit = unit
	r.scratch.slots = append(r.scratch.slots[:0], r.slotsOf(s, docs)...)
	r.cos.slots, r.cos.space, r.cos.est, r.cos.truth = r.scratch.slots, s, est, s.Truth(r.st)
	if err := r.compare(ctx, r.cos.slots, est.Estimate); err != nil {
		return err
	}
	r.toSimilarities(r.cos.low, r.cos.high)
	return nil
}

// asked is the vector that the index of a space is asked with, and what scores of it are to be
// multiplied by. No float32 holds the product of two tiny vectors: a tiny query is made longer
// by a power of two, which leaves the order of the products as it is.
func (r *recalling) asked(s *spaces.Space) (vec []float32, unit float64) {
	if s.Metric != hnsw.Dot || r.mixes() {
		return r.q.Embedding, 1
	}
	most := 0.0
	for _, v := range r.q.Embedding {
		most = max(most, math.Abs(float64(v)))
	}
	_, exp := math.Frexp(most)
	if most == 0 || exp > tinyExponent {
		return r.q.Embedding, 1
	}
	vec = make([]float32, len(r.q.Embedding))
	for i, v := range r.q.Embedding {
		vec[i] = float32(math.Ldexp(float64(v), -exp))
	}
	return vec, math.Ldexp(1, exp)
}

// tinyExponent: a vector is tiny whose components are below two to this.
const tinyExponent = -20

// noCosines makes bounds those of documents without a similarity.
func noCosines(bounds []float32) {
	for i := range bounds {
		bounds[i] = float32(math.NaN())
	}
}

// toSimilarities makes bounds of scores those of what the profile ranks by.
func (r *recalling) toSimilarities(low, high []float32) {
	s := r.cos.space
	if s.Metric == hnsw.Cosine || !r.mixes() {
		return
	}
	for i := range low {
		low[i], high[i] = s.Similarity(low[i]), s.Similarity(high[i])
	}
}

// querySpace is the space of the query's embedding, nil where nothing was stored
// in it.
func (r *recalling) querySpace() *spaces.Space {
	s := r.host.Spaces().At(r.q.Space, r.st.LSN)
	if s != nil {
		r.plan.Vector = s.Name
	}
	return s
}

// mixes reports whether the profile joins the vectors with other signals, and so
// needs similarities of the size of a cosine.
func (r *recalling) mixes() bool {
	return r.q.Profile != memory.ProfileVector
}

func (r *recalling) lexicalCosines(ctx context.Context, docs []uint32) error {
	in := r.host.Spaces()
	query, err := in.Lexical.Model.QueryContext(ctx, r.q.Text, r.idf())
	if err != nil {
		return err
	}
	if hnsw.CheckVector(query, 0, hnsw.Cosine) != nil { // no words in it
		noCosines(r.cos.low)
		noCosines(r.cos.high)
		return nil
	}
	r.plan.Vector = memory.LexicalSpace
	bare := make([]uint32, 0, len(docs))
	all := in.All()
	for _, doc := range docs {
		if !hasVector(all, doc) {
			bare = append(bare, doc)
		}
	}
	err = in.Lexical.Fill(ctx, bare, func(doc uint32) (string, error) {
		texts, err := r.indexedTexts(doc)
		return strings.Join(texts, "\n"), err
	})
	if err != nil {
		return err
	}
	slots := spaces.AppendSlots(make([]uint32, 0, len(docs)), &in.Lexical.Slots, docs)
	return r.compare(ctx, slots, func(slots []uint32, low, high []float32) error {
		if err := in.Lexical.Index.Scores(query, slots, low); err != nil {
			return err
		}
		copy(high, low) // the codes are the vectors
		return nil
	})
}

// hasVector reports whether a document has a vector that was given or learned.
func hasVector(spaces []*spaces.Space, doc uint32) bool {
	for _, s := range spaces {
		if _, ok := s.Slot(doc); ok {
			return true
		}
	}
	return false
}

// idf weighs the query's terms by the statistics of the scope; one that was not
// counted is as rare as can be.
func (r *recalling) idf() func(string) float64 {
	n := float64(r.stats.N)
	weights := make(map[string]float64, len(r.terms))
	for i, t := range r.terms {
		df := float64(r.stats.DF[i])
		weights[t.Text] = math.Log(1 + (n-df+0.5)/(df+0.5))
	}
	rare := math.Log(1 + (n+0.5)/0.5)
	return func(term string) float64 {
		if w, ok := weights[term]; ok {
			return w
		}
		return rare
	}
}

// lists reports whether documents are the list of all that may be hits, of which what is
// asked of each is remembered.
func (r *recalling) lists(docs []uint32) bool {
	if len(docs) != r.in.N || len(docs) == 0 || !r.in.Keeps() {
		return false
	}
	return &docs[0] == &r.in.List()[0]
}

// slotsOf are the slots of documents in a space, spaces.NoSlot or above where one has none.
func (r *recalling) slotsOf(s *spaces.Space, docs []uint32) []uint32 {
	if r.lists(docs) {
		return r.in.SlotsOf(s)
	}
	return spaces.AppendSlots(make([]uint32, 0, len(docs)), &s.Slots, docs)
}

// compare fills in the bounds of the documents.
func (r *recalling) compare(ctx context.Context, slots []uint32, bound func(slots []uint32, low, high []float32) error) error {
	for from := 0; from < len(slots); from += spaces.CompareBatch {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := min(from+spaces.CompareBatch, len(slots))
		if err := compareSome(slots[from:to], r.cos.low[from:to], r.cos.high[from:to], bound); err != nil {
			return err
		}
	}
	return nil
}

func compareSome(slots []uint32, low, high []float32, bound func(slots []uint32, low, high []float32) error) error {
	if !slices.ContainsFunc(slots, func(slot uint32) bool { return slot >= spaces.NoSlot }) {
		return bound(slots, low, high)
	}
	noCosines(low)
	noCosines(high)
	var some, places []uint32
	for i, slot := range slots {
		if slot < spaces.NoSlot {
			some, places = append(some, slot), append(places, uint32(i))
		}
	}
	if len(some) == 0 {
		return nil
	}
	bounds := make([]float32, 2*len(some))
	if err := bound(some, bounds[:len(some)], bounds[len(some):]); err != nil {
		return err
	}
	for i, place := range places {
		low[place], high[place] = bounds[i], bounds[len(some)+i]
	}
	return nil
}

// move makes the document of one place that of another.
func (c *cosines) move(to, from int) {
	c.low[to], c.high[to] = c.low[from], c.high[from]
	if c.est != nil {
		c.slots[to] = c.slots[from]
	}
}

// has reports whether the i-th document has a similarity.
func (c *cosines) has(i int) bool { return !math.IsNaN(float64(c.low[i])) }

// refine narrows the bounds of those documents at some places that have them from
// sketches: their codes are read.
func (r *recalling) refine(places []int32) error {
	c, scratch := &r.cos, r.scratch
	if c.est == nil {
		return nil
	}
	scratch.rough, scratch.roughSlots = scratch.rough[:0], scratch.roughSlots[:0]
	for _, i := range places {
		if slot := c.slots[i]; slot < spaces.NoSlot && c.est.Refines(slot) {
			scratch.rough, scratch.roughSlots = append(scratch.rough, i), append(scratch.roughSlots, slot)
		}
	}
	return r.rebound(c.est.Refine)
}

// sharpen narrows the bounds of guesses once more, before their vectors are read.
func (r *recalling) sharpen(guesses []guess, of signalled) error {
	c, scratch := &r.cos, r.scratch
	if c.est == nil {
		return nil
	}
	scratch.rough, scratch.roughSlots = scratch.rough[:0], scratch.roughSlots[:0]
	for _, g := range guesses {
		if c.low[g.i] != c.high[g.i] && c.has(int(g.i)) {
			scratch.rough, scratch.roughSlots = append(scratch.rough, g.i), append(scratch.roughSlots, c.slots[g.i])
		}
	}
	if err := r.rebound(c.est.Sharpen); err != nil {
		return err
	}
	for n := range guesses {
		g := &guesses[n]
		w, s := of(int(g.i), float64(c.high[g.i]))
		g.most = w.Score(s)
	}
	return nil
}

// rebound replaces the bounds of the scratch's rough documents.
func (r *recalling) rebound(bound func(slots []uint32, low, high []float32) error) error {
	c, scratch := &r.cos, r.scratch
	n := len(scratch.rough)
	if n == 0 {
		return nil
	}
	bounds := resized(&scratch.refined, 2*n)
	low, high := bounds[:n], bounds[n:]
	if err := bound(scratch.roughSlots, low, high); err != nil {
		return err
	}
	r.toSimilarities(low, high)
	for n, i := range scratch.rough {
		c.low[i], c.high[i] = low[n], high[n]
	}
	return nil
}

// exact is the similarity of the i-th document, NaN where it has none.
func (r *recalling) exact(i int) (float64, error) {
	c := &r.cos
	if c.low[i] == c.high[i] || !c.has(i) {
		return float64(c.low[i]), nil
	}
	r.plan.Rescored++
	score, err := c.est.Exact(c.slots[i], c.truth)
	if err != nil {
		if _, ours := errors.AsType[*fault.Error](err); !ours {
			err = &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("score a vector of the space %s", c.space.Name), Cause: err}
		}
		return float64(c.low[i]), r.st.Without(err) // its codes are in RAM
	}
	if r.mixes() {
		score = c.space.Similarity(score)
	}
	return float64(score), nil
}

// signalled is how a profile sees the candidates: the weights and signals of the
// i-th, were c its similarity, which is NaN where it has none. The score must not
// fall as c rises.
type signalled func(i int, c float64) (policy.Weights, policy.Signals)

// # The rank join
//
// A profile ranks by a weighted sum of signals. The similarity of a candidate is dear: the
// exact one needs a float32 vector, which may have to be read from the store. The other
// signals are cheap to bound, and cheap to look at. So join finds the best k of n
// candidates as a threshold algorithm does (Fagin, Lotem and Naor, 2003), by bounds that
// become narrower from one step to the next:
//
//  1. ceilings: the most that each candidate can score, of what lies dense in RAM: the
//     bounds of its signals, and those of its similarity by the sketch or the code of its
//     vector. guesses takes the k+joinLead candidates of the highest ceilings first.
//  2. weigh looks at rows, and narrows the similarity by codes (refine). Each candidate has
//     then a score that it has at least and one that it has at most. The k-th highest of
//     the least scores is the bar (floors): what cannot reach it is out, unseen. After the
//     first candidates, firm raises the bar by the exact scores of the k best of them.
//  3. sharpen narrows the similarity of those that are left where that is still cheap.
//  4. join takes them in the order of their most scores, and computes the exact score of
//     each, until the next one's most is below the k-th exact score (top.admits): that is
//     the threshold, and none that follows can enter.
//
// A bound is never below the exact score, so the k best and their scores are those of a
// full scan; roundings allows for sums in another order. weigh's batches keep the bar
// rising while most candidates are still to be looked at.

// guess is a candidate that may be among the best.
type guess struct {
	i    int32
	most float64 // its score at most
}

const (
	// roundings is more than a score and a ceiling that are the same but for the
	// order of their sums differ by.
	roundings = 1e-9
	// joinLead is how many candidates beyond those that are asked for are looked at
	// first, to raise the bar for the others, and joinBatch how many of those at a time.
	joinLead, joinBatch = 32, 256
)

// ceilings bound the scores of documents without a look at what takes time: the i-th
// one's is at most rest[i], and weight times its similarity, which counts for no less
// than least.
type ceilings struct {
	rest          []float64
	weight, least float64
}

// at is the ceiling of the i-th document, as far as its similarity is known.
func (c *ceilings) at(i int, cos *cosines) float64 {
	if !cos.has(i) {
		return c.rest[i]
	}
	return c.rest[i] + c.weight*max(c.least, float64(cos.high[i]))
}

// join ranks documents by similarity and other signals. Most are ruled out by the
// bounds of their similarity, of sketches and then of codes; what is left is scored
// exactly.
func (r *recalling) join(docs []uint32, k int, most ceilings, of signalled) ([]scored, error) {
	guesses, err := r.guesses(docs, k, most, of)
	if err == nil {
		err = r.sharpen(guesses, of)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(guesses, func(a, b guess) int { return cmp.Compare(b.most, a.most) })
	best := newTop(k)
	for _, g := range guesses {
		if !best.admits(g.most) {
			break // nor are those that follow
		}
		i := int(g.i)
		c, err := r.exact(i)
		if err != nil {
			return nil, err
		}
		w, s := of(i, c)
		best.weigh(docs[i], r.st.Docs.Row, w, s)
	}
	return best.sorted(), nil
}

// guesses are the candidates that may be among the best k.
func (r *recalling) guesses(docs []uint32, k int, most ceilings, of signalled) ([]guess, error) {
	g := guessing{r: r, docs: docs, most: most, of: of, floors: newFloors(k)}
	ceilings := resized(&r.scratch.ceilings, len(docs))
	lead := newFloors(k + joinLead)
	first := lead.bar()
	for i := range ceilings {
		c := most.at(i, &r.cos)
		ceilings[i] = c
		if c > first {
			lead.push(c)
			first = lead.bar()
		}
	}
	places := resized(&r.scratch.places, len(docs))[:0]
	for i, c := range ceilings {
		if c >= first {
			places = append(places, int32(i))
		}
	}
	if err := g.weigh(places); err != nil {
		return nil, err
	}
	if err := g.firm(k); err != nil {
		return nil, err
	}
	bar := g.floors.bar()
	places = places[:0]
	for i, c := range ceilings {
		if c < first && c >= bar {
			places = append(places, int32(i))
		}
	}
	for len(places) > 0 {
		n := min(joinBatch, len(places))
		if err := g.weigh(places[:n]); err != nil {
			return nil, err
		}
		places = places[n:]
	}
	bar = g.floors.bar()
	return slices.DeleteFunc(g.found, func(g guess) bool { return g.most < bar }), nil
}

// guessing finds the candidates of a join.
type guessing struct {
	r      *recalling
	docs   []uint32
	most   ceilings
	of     signalled
	floors *floors
	found  []guess
}

// passing are those of some places whose ceilings reach the floors. It reuses places.
func (g *guessing) passing(places []int32) []int32 {
	bar := g.floors.bar()
	return slices.DeleteFunc(places, func(i int32) bool { return g.most.at(int(i), &g.r.cos) < bar })
}

// weigh looks at the candidates at some places that may be among the best, and raises
// the floors. It reuses places.
func (g *guessing) weigh(places []int32) error {
	r := g.r
	places = g.passing(places)
	if err := r.refine(places); err != nil {
		return err
	}
	places = g.passing(places)
	for n, i := range places {
		if n+spaces.Ahead < len(places) {
			r.st.Docs.Prefetch(g.docs[places[n+spaces.Ahead]])
		}
		if g.most.at(int(i), &r.cos) < g.floors.bar() {
			continue
		}
		low, high := float64(r.cos.low[i]), float64(r.cos.high[i])
		w, s := g.of(int(i), high)
		most := w.Score(s)
		if most < g.floors.bar() {
			continue
		}
		if low != high {
			w, s = g.of(int(i), low)
		}
		g.floors.push(w.Score(s))
		g.found = append(g.found, guess{i, most})
	}
	return nil
}

// firm computes the exact scores of the k best so far, which are mostly hits, and raises the
// floors to them: bounds of codes are some hundredths wide, and many others lie within that
// of the best.
func (g *guessing) firm(k int) error {
	r := g.r
	if err := r.sharpen(g.found, g.of); err != nil {
		return err
	}
	slices.SortFunc(g.found, func(a, b guess) int { return cmp.Compare(b.most, a.most) })
	g.floors = newFloors(k)
	for n := range g.found {
		f := &g.found[n]
		i := int(f.i)
		if n < k {
			c, err := r.exact(i)
			if err != nil {
				return err
			}
			r.cos.low[i], r.cos.high[i] = float32(c), float32(c)
			w, s := g.of(i, c)
			f.most = w.Score(s)
		}
		w, s := g.of(i, float64(r.cos.low[i]))
		g.floors.push(w.Score(s))
	}
	return nil
}

// floors are the k highest of the lowest scores that candidates may have: what
// cannot reach the last of them is not among the best k. A heap with the least
// first.
type floors struct {
	k    int
	heap []float64
}

func newFloors(k int) *floors { return &floors{k: k} }

func (f *floors) bar() float64 {
	if len(f.heap) < f.k {
		return math.Inf(-1)
	}
	return f.heap[0]
}

func (f *floors) push(v float64) {
	switch {
	case len(f.heap) < f.k:
		f.heap = append(f.heap, v)
		topk.Up(f.heap)
	case v > f.heap[0]:
		f.heap[0] = v
		topk.Down(f.heap, 0)
	}
}

const (
	// efShare is how many candidates a walk over the graph keeps for each hit, and
	// efLeast how many at least.
	efShare, efLeast = 4, 64
	// efMany: of more vectors twice as many candidates are kept, at least.
	efMany = 1 << 19
	// wideShare: a scope of at least one in so many vectors is searched as a whole,
	// hits outside it left out; for less, the search is told of the slots.
	wideShare = 4
)

// walked reports whether the documents in scope are so many that the graph is asked.
func (r *recalling) walked(s *spaces.Space) bool {
	return s != nil && !r.q.Exact && s.Walks(r.in.N)
}

// nearest are documents in scope whose vectors are close to the query's, the
// closest first: by their codes alone where they are to be scored again.
func (r *recalling) nearest(ctx context.Context, s *spaces.Space, k int, rough bool) ([]uint32, []float64, error) {
	defer r.stage("graph")
	r.plan.Approximate = true
	var told hnsw.Told
	search := hnsw.Search{
		K: k, Slots: s.Index.Len(), Ef: Ef(s, k), Rough: rough, Truth: s.Truth(r.st), Sure: true, Told: &told,
	}
	if rough {
		search.Ef = k
	}
	if !r.kept && int64(r.in.N) >= s.Used.Load()/wideShare {
		search.Visible = func(slot uint32) bool { return r.docIn(s, slot) != doctable.None }
	} else {
		search.Within = r.in.SlotSet(s)
	}
	vec, unit := r.asked(s)
	hits, err := s.Index.Search(ctx, vec, search)
	if err != nil {
		return nil, nil, err
	}
	r.plan.VectorMiss, r.plan.VectorUnsure = told.Miss, told.Unsure
	docs, scores := make([]uint32, 0, len(hits)), make([]float64, 0, len(hits))
	for _, h := range hits {
		if doc := r.docIn(s, h.Slot); doc != doctable.None {
			docs, scores = append(docs, doc), append(scores, float64(h.Score)*unit)
		}
	}
	return docs, scores, nil
}

// Ef is how many candidates a walk keeps for k hits.
func Ef(s *spaces.Space, k int) int {
	least := efLeast
	if s.Index.Linked() > efMany {
		least *= 2
	}
	return max(least, efShare*k)
}

// docIn is the document that may be a hit whose vector is in a slot, or doctable.None.
func (r *recalling) docIn(s *spaces.Space, slot uint32) uint32 {
	if doc := s.Doc(&r.st.Docs, slot, r.st.LSN); doc != doctable.None && r.set.Contains(doc) {
		return doc
	}
	return doctable.None
}
