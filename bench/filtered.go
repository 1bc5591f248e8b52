package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/bench/vectorset"
	"github.com/seed-7aedc3ff/memdb/hnsw"
)

const (
	// filteredRecall is the recall at which the ways to search are compared.
	filteredRecall  = 0.95
	filteredQueries = 200
)

// filteredShares are the shares of rows that filters let through.
var filteredShares = []float64{0.0001, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 0.9}

// filteredEfs are the candidates kept, from which each way takes the fewest that
// reach the recall.
var filteredEfs = []int{10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512}

// filteredWays are the ways to search, the planned one first.
var filteredWays = [...]struct {
	key, head string
	strategy  hnsw.Strategy
}{
	{"planned", "planned µs", hnsw.Planned},
	{"flat", "flat µs", hnsw.Flat},
	{"sweep", "sweep µs", hnsw.Sweep},
	{"within", "ACORN µs", hnsw.Within},
}

// filtered searches within sets of rows, and compares the way that memdb plans
// with each way forced, at the same recall.
func filtered() *harness.Workload {
	w := &harness.Workload{
		Name: "filtered",
		Summary: fmt.Sprintf("nearest neighbours within a set of rows: the planned way beside each way forced, at recall@%d %.2f (processor time)",
			vectorK, filteredRecall),
		WarmUp: 1,
		Metrics: []harness.Metric{
			{Name: "rows", Head: "rows"},
			{Name: "default_recall", Head: "recall", Digits: 4},
			{Name: "default_us", Head: "µs by default", Digits: 1},
		},
		Contestants: filteredContestants,
	}
	for _, way := range filteredWays {
		w.Metrics = append(w.Metrics, harness.Metric{Name: way.key + "_us", Head: way.head, Digits: 1})
	}
	w.Metrics = append(w.Metrics, harness.Metric{Name: "of_best", Head: "planned/best", Digits: 2})
	return w
}

// filteredContestants are the filters: sets spread evenly, sets on one side of
// the space, and sets on the side away from the query.
func filteredContestants(env *harness.Env) ([]harness.Contestant, error) {
	b := &filteredBench{env: env}
	var list []harness.Contestant
	for _, kind := range []string{"random", "one side", "far side"} {
		for _, share := range filteredShares {
			list = append(list, harness.Contestant{
				Name: fmt.Sprintf("%s %g%%", kind, share*100),
				Open: func(ctx context.Context) (harness.Runner, error) { return b.open(ctx, kind, share) },
			})
		}
	}
	return list, nil
}

// filteredBench is the index that all filters share.
type filteredBench struct {
	env           *harness.Env
	base, queries *vectorset.Set
	along         []float32 // where rows lie in one direction
	queriesAlong  []float32
	index         *hnsw.Index
}

func (b *filteredBench) prepare(ctx context.Context) (err error) {
	if b.index != nil {
		return nil
	}
	if b.base, b.queries, err = loadMixture(b.env); err != nil {
		return err
	}
	axis := vectorset.NewMixture(mixtureDim, mixtureSeed+1).Set(0, 1).Row(0)
	b.along, b.queriesAlong = project(b.base, axis), project(b.queries, axis)
	x, err := hnsw.New(hnsw.Config{Dim: b.base.Dim, M: vectorM, EfConstruction: vectorEfConstruction})
	if err != nil {
		return err
	}
	if _, err := fillMemdb(x, b.base)(ctx); err != nil {
		return err
	}
	b.index = x
	return nil
}

func project(s *vectorset.Set, axis []float32) []float32 {
	out := make([]float32, s.Len())
	for i := range out {
		for j, v := range s.Row(i) {
			out[i] += v * axis[j]
		}
	}
	return out
}

// set is the filter of a kind that lets about a share of the rows through.
func (b *filteredBench) set(kind string, share float64) *hnsw.Set {
	n := len(b.along)
	keep := max(1, int(share*float64(n)))
	order := make([]uint32, n)
	for i := range order {
		order[i] = uint32(i)
	}
	switch kind {
	case "random":
		rng := rand.New(rand.NewPCG(mixtureSeed, uint64(keep)))
		rng.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	case "one side":
		slices.SortFunc(order, func(i, j uint32) int { return cmp.Compare(b.along[j], b.along[i]) })
	default:
		slices.SortFunc(order, func(i, j uint32) int { return cmp.Compare(b.along[i], b.along[j]) })
	}
	return hnsw.NewSet(order[:keep]...)
}

// asked are the queries for a kind of filter: for the far side those that lie
// furthest on the other one.
func (b *filteredBench) asked(kind string) *vectorset.Set {
	if kind != "far side" {
		return b.queries.Head(filteredQueries)
	}
	order := make([]int, b.queries.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(b.queriesAlong[j], b.queriesAlong[i]) })
	return b.queries.Pick(order[:min(filteredQueries, len(order))])
}

// open finds, for each way, the ef that reaches the recall.
func (b *filteredBench) open(ctx context.Context, kind string, share float64) (harness.Runner, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	r := &filteredRun{x: b.index, within: b.set(kind, share), work: &peer.VectorWork{Queries: b.asked(kind)}}
	r.truth = vectorset.Neighbours(b.base, r.work.Queries, vectorK, func(i int) bool { return r.within.Has(uint32(i)) })
	for i, way := range filteredWays {
		for _, ef := range filteredEfs {
			p, err := r.ask(ctx, way.strategy, ef)
			if err != nil {
				return nil, err
			}
			if p.recall >= filteredRecall {
				r.efs[i] = ef
				break
			}
		}
	}
	return r, nil
}

// filteredRun searches within one filter.
type filteredRun struct {
	x      *hnsw.Index
	within *hnsw.Set
	work   *peer.VectorWork // the queries
	truth  vectorset.Truth
	efs    [len(filteredWays)]int // for each way; 0: none reaches the recall
}

// ask asks all queries in one way; ef 0 is the index's own choice.
func (r *filteredRun) ask(ctx context.Context, strategy hnsw.Strategy, ef int) (curvePoint, error) {
	in := peer.InProcess{
		Work: r.work,
		Search: func(ctx context.Context, query []float32, ef, k int, dst []uint32) ([]uint32, error) {
			hits, err := r.x.Search(ctx, query, hnsw.Search{K: k, Ef: ef, Slots: r.x.Len(), Within: r.within, Strategy: strategy})
			for _, h := range hits {
				dst = append(dst, h.Slot)
			}
			return dst, err
		},
	}
	a, err := in.Ask(ctx, ef, vectorK)
	if err != nil {
		return curvePoint{}, err
	}
	return judgeAnswers(r.truth, []peer.VectorAnswers{a}), nil
}

// Round asks in each way once.
func (r *filteredRun) Round(ctx context.Context) (harness.Sample, error) {
	sample := harness.Sample{"rows": float64(r.within.Len())}
	// There and back, and the less of both: the first way finds the caches as another left
	// them, and the best of three is likely to be one that was lucky.
	means := [len(filteredWays)]float64{}
	for i := range 2 * len(filteredWays) {
		way := min(i, 2*len(filteredWays)-1-i)
		if r.efs[way] == 0 {
			continue
		}
		// Twice, the first time to have in the caches what the way comes by.
		p, err := r.ask(ctx, filteredWays[way].strategy, r.efs[way])
		if err == nil {
			p, err = r.ask(ctx, filteredWays[way].strategy, r.efs[way])
		}
		if err != nil {
			return nil, err
		}
		if means[way] == 0 || p.mean < means[way] {
			means[way] = p.mean
		}
	}
	best := math.Inf(1)
	for i, way := range filteredWays {
		if means[i] == 0 {
			continue
		}
		sample[way.key+"_us"] = means[i]
		if i > 0 {
			best = min(best, means[i])
		}
	}
	if planned, ok := sample["planned_us"]; ok {
		sample["of_best"] = planned / best
	}
	// Last, since it may look at all rows, which leaves the caches without those that a walk
	// comes by.
	byDefault, err := r.ask(ctx, hnsw.Planned, 0)
	if err != nil {
		return nil, err
	}
	sample["default_recall"], sample["default_us"] = byDefault.recall, byDefault.mean
	return sample, nil
}

// Close has nothing to do: the filters share the index.
func (r *filteredRun) Close() error { return nil }
