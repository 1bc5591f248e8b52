package recall

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// The profile best weighs the vectors of a space by what they have shown of themselves: see
// policy.Trust. Each question says a little: the similarities of a sample of the scope, beside the
// scores of the text.

const (
	// sampleMost is how many memories of the scope, and how many matches of the text, are compared
	// to say how similarities are spread.
	sampleMost = 256
	// sampleLeast is of how many of each there must be to learn from them.
	sampleLeast = 8
	// faint is what a deviation counts for below the floor, from faintFrom below the mean on.
	faint, faintFrom = 1e-3, 4
	// steadySample is of how many similarities a deviation says what stands out; of fewer, less
	// has to.
	steadySample = 64
	// learnAll is how many questions are all learned from; of those that follow one of learnEvery is.
	learnAll, learnEvery = 64, 4
)

// vectorLook is how the similarities of a query to the memories of its scope are spread, and what
// they count for.
type vectorLook struct {
	weight          float64
	mean, deviation float64
	floor           float64 // in deviations; see policy.VectorFloor
}

// least is the similarity from which on one counts.
func (v *vectorLook) least() float64 { return v.mean + v.floor*v.deviation }

// signal is how far a similarity stands out. Those that do not are told apart by next to nothing,
// so that what the vector alone finds is in its order.
func (v *vectorLook) signal(c float64) float64 {
	z := (c - v.mean) / v.deviation
	return max(0, z-v.floor) + faint*max(0, z+faintFrom)
}

// faintMost is the most that a signal has of what is next to nothing.
func (v *vectorLook) faintMost() float64 {
	return faint * max(0, (1+math.Abs(v.mean))/v.deviation+faintFrom)
}

// vectorLookOf is how the similarities of a sample are spread, by how many they are, their mean and the
// sum of the squares of how far they are from it.
func vectorLookOf(weight float64, n int, mean, squares float64) vectorLook {
	v := vectorLook{weight: weight, mean: mean, deviation: math.Sqrt(squares / float64(max(1, n)))}
	if !(v.deviation > 1e-9) || n < 2 { // all are the same: they say nothing
		v.weight = 0
	}
	v.floor = policy.VectorFloor(v.weight) * min(1, float64(n)/steadySample)
	return v
}

// lookAtVectors compares the query with a sample of its scope, and says what its vector counts for.
func (r *recalling) lookAtVectors(ctx context.Context, text *matches, w policy.Weights) (v vectorLook, err error) {
	s := r.querySpace()
	if s == nil {
		return v, nil
	}
	if given := r.q.Statistics; given != nil {
		trust := policy.Trust(given.Vectors.Shown)
		return vectorLookOf(trust.Weight(), given.Vectors.Compared, given.Vectors.Mean, given.Vectors.Squares), nil
	}
	trust, learns := r.host.Trust(s)
	v.weight = trust.Weight()
	learns = learns && r.teaches && s.Teaches(learnAll, learnEvery)
	if v.weight == 0 && !learns {
		return v, nil
	}
	all, err := r.middles(ctx, r.spread())
	if err != nil {
		return v, err
	}
	mean, squares := meanAndSquares(all)
	v = vectorLookOf(v.weight, len(all), mean, squares)
	if learns {
		stands, follows, err := r.compareWithText(ctx, text, w, all)
		if err != nil {
			return v, err
		}
		if !math.IsNaN(stands) {
			s.Learn(stands, follows)
		}
	}
	if r.q.Explain {
		r.plan.Trust = &memory.Trust{Weight: v.weight, Mean: v.mean, Deviation: v.deviation, Floor: v.floor}
	}
	r.stage("trust")
	return v, nil
}

// vectorWeight is what the query's vector counts for, 0 without one.
func (r *recalling) vectorWeight() float64 {
	if r.q.Embedding == nil {
		return 0
	}
	if given := r.q.Statistics; given != nil {
		trust := policy.Trust(given.Vectors.Shown)
		return trust.Weight()
	}
	s := r.host.Spaces().At(r.q.Space, r.st.LSN)
	if s == nil {
		return 0
	}
	trust, _ := r.host.Trust(s)
	return trust.Weight()
}

// spread is a sample of the scope, at even distances, in ascending order. Of what several databases have, each
// takes its share.
func (r *recalling) spread() []uint32 {
	n, take := r.in.N, sampleMost
	if given := r.q.Statistics; given != nil && given.Memories > n {
		take = (sampleMost*n + given.Memories - 1) / given.Memories
	}
	if n <= take {
		return r.in.List()
	}
	docs := make([]uint32, 0, take)
	for i := range take {
		doc, err := r.set.Select(uint32(uint64(i) * uint64(n) / uint64(take)))
		if err != nil {
			break // the set is smaller than it was said to be
		}
		docs = append(docs, doc)
	}
	return docs
}

// middles are the similarities of those documents, in ascending order, that have one, as their
// codes say them.
func (r *recalling) middles(ctx context.Context, docs []uint32) ([]float64, error) {
	all, err := r.similarities(ctx, docs)
	return slices.DeleteFunc(all, math.IsNaN), err
}

// similarities are those of documents in ascending order, NaN where one has none.
func (r *recalling) similarities(ctx context.Context, docs []uint32) ([]float64, error) {
	if err := r.cosines(ctx, docs); err != nil {
		return nil, err
	}
	defer r.cos.close()
	places := make([]int32, len(docs))
	for i := range places {
		places[i] = int32(i)
	}
	if err := r.refine(places); err != nil {
		return nil, err
	}
	all := make([]float64, len(docs))
	for i := range all {
		all[i] = (float64(r.cos.low[i]) + float64(r.cos.high[i])) / 2
	}
	return all, nil
}

// meanAndSquares are the mean of figures, and the sum of the squares of how far they are from it.
func meanAndSquares(x []float64) (mean, squares float64) {
	if len(x) == 0 {
		return 0, 0
	}
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	return mean, squares
}

// sample is a match of the text with its BM25 and its similarity.
type sample struct{ own, cos float64 }

// compareWithText says how far the best match of the text stands out by its similarity, where what
// goes with BM25 is taken off, and how far the similarities follow BM25: NaN where there is too
// little to say. others are similarities of the scope.
func (r *recalling) compareWithText(ctx context.Context, text *matches, w policy.Weights, others []float64) (stands, follows float64, err error) {
	best, docs, places := -1, []uint32{}, []int32{}
	most := 0.0
	for i := range text.docs {
		if score := w.Score(text.signals(i)); score > most {
			best, most = i, score
		}
		if text.own[i] > 0 {
			places = append(places, int32(i))
		}
	}
	if best < 0 || len(places) < sampleLeast || len(others) < sampleLeast {
		return math.NaN(), math.NaN(), nil
	}
	slices.SortFunc(places, func(a, b int32) int { return cmp.Compare(text.docs[a], text.docs[b]) })
	if n := len(places); n > sampleMost {
		for i := range sampleMost {
			places[i] = places[i*n/sampleMost]
		}
		places = places[:sampleMost]
	}
	if at, has := slices.BinarySearchFunc(places, text.docs[best], func(p int32, doc uint32) int { return cmp.Compare(text.docs[p], doc) }); !has {
		places = slices.Insert(places, at, int32(best))
	}
	for _, p := range places {
		docs = append(docs, text.docs[p])
	}
	cos, err := r.similarities(ctx, docs)
	if err != nil {
		return 0, 0, err
	}
	var with []sample
	at := sample{cos: math.NaN()}
	for n, p := range places {
		one := sample{text.own[p], cos[n]}
		if int(p) == best {
			at = one
		}
		if !math.IsNaN(one.cos) && one.own > 0 {
			with = append(with, one)
		}
	}
	stands, follows = standsOut(at, with, others, r.in.N)
	return stands, follows, nil
}

// standsOut says by how many deviations a match stands out of a straight line of similarity by
// BM25, which is fitted to those that have words of the query, or of the mean of the others where
// it has none itself; and the correlation of the two.
func standsOut(at sample, with []sample, others []float64, all int) (stands, follows float64) {
	if math.IsNaN(at.cos) || len(with) < sampleLeast {
		return math.NaN(), math.NaN()
	}
	n := float64(len(with))
	var own, cos float64
	for _, s := range with {
		own += s.own / n
		cos += s.cos / n
	}
	var oo, oc, cc float64
	for _, s := range with {
		oo += (s.own - own) * (s.own - own)
		oc += (s.own - own) * (s.cos - cos)
		cc += (s.cos - cos) * (s.cos - cos)
	}
	slope := 0.0
	follows = math.NaN()
	if oo > 0 && cc > 0 {
		slope, follows = oc/oo, oc/math.Sqrt(oo*cc)
	}
	mean, squares := meanAndSquares(others)
	left := at.cos - mean
	if at.own > 0 {
		left = at.cos - cos - slope*(at.own-own)
	}
	// What is left of both groups, each as large as it is in the scope.
	rest := max(0, float64(all)-n)
	variance := (cc - slope*oc + rest*squares/float64(len(others))) / (n + rest)
	if !(variance > 1e-18) {
		return math.NaN(), math.NaN()
	}
	return left / math.Sqrt(variance), follows
}
