package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/bench/vectorset"
)

// How indexes over vectors are built and asked.
const (
	vectorM              = 16
	vectorEfConstruction = 200
	vectorK              = 10
	vectorQueries        = 1_000
)

// vectorEfs are the candidates kept by a search, in turns, until recall leaves
// nothing to be found.
var vectorEfs = []int{10, 12, 14, 17, 20, 24, 28, 34, 40, 56, 80, 112, 160, 224, 320, 448, 640}

const (
	vectorEnough = 0.996
	// A curve also ends where so many points in a row add next to nothing.
	vectorPatience = 5
	vectorGain     = 0.0005
	// vectorAskings is how often all queries are asked at each point. What a
	// query takes is the median, which the machine's interrupts don't reach.
	vectorAskings = 3
)

// vectorTargets are the recalls at which speed is told.
var vectorTargets = []struct {
	name   string
	recall float64
}{{".95", 0.95}, {".99", 0.99}}

// A vectorTask is a set of vectors and the queries for it.
type vectorTask struct {
	key, title string
	small      bool // enough for indexes that take long
	load       func(env *harness.Env) (base, queries *vectorset.Set, err error)
}

const (
	mnistBase    = "vectors/mnist.base.u8bin.zst"
	mnistQueries = "vectors/mnist.query.u8bin.zst"

	mixtureSize = 200_000
	mixtureDim  = 384
	mixtureSeed = 5
)

var (
	mnistTask   = vectorTask{"mnist", "MNIST, 784 dimensions", true, loadMNIST}
	mixtureTask = vectorTask{"mixture", "gaussian mixture, 384 dimensions", false, loadMixture}
)

func loadMNIST(env *harness.Env) (base, queries *vectorset.Set, err error) {
	var sets [2]*vectorset.Set
	for i, name := range []string{mnistBase, mnistQueries} {
		path, err := env.Path(name)
		if err != nil {
			return nil, nil, err
		}
		if sets[i], err = vectorset.ReadBytes(path); err != nil {
			return nil, nil, err
		}
	}
	if env.N > 0 {
		sets[0] = sets[0].Head(env.N)
	}
	return sets[0], sets[1].Head(vectorQueries), nil
}

func loadMixture(env *harness.Env) (base, queries *vectorset.Set, err error) {
	n := mixtureSize
	if env.N > 0 {
		n = min(n, env.N)
	}
	m := vectorset.NewMixture(mixtureDim, mixtureSeed)
	// The queries are drawn from beyond the largest set.
	return m.Set(0, n), m.Set(math.MaxInt32, vectorQueries), nil
}

// vectors compares indexes over vectors: how fast at which recall, what they
// take to build and to hold.
func vectors() *harness.Workload {
	w := &harness.Workload{
		Name: "vectors",
		Summary: fmt.Sprintf("nearest neighbours: queries/s at recall@%d, build, memory (M %d, efConstruction %d, one thread, processor time)",
			vectorK, vectorM, vectorEfConstruction),
		Contestants: vectorContestants,
	}
	for _, t := range []vectorTask{mnistTask, mixtureTask} {
		metric := func(name, head string, digits int, timed bool) {
			w.Metrics = append(w.Metrics, harness.Metric{Name: t.key + " " + name, Head: head, Digits: digits, Timed: timed, Table: t.title})
		}
		metric("rows", "rows", 0, false)
		for _, target := range vectorTargets {
			metric("qps "+target.name, "QPS "+target.name, 0, true)
			metric("mean_us "+target.name, "mean µs", 1, false)
			metric("p99_per_mean "+target.name, "p99/mean", 2, false)
		}
		metric("best_recall", "best", 4, false)
		metric("build_s", "build s", 1, true)
		metric("mb", "MB", 0, true)
	}
	return w
}

// vectorContestants are memdb in its ways to keep rows, and the peers.
func vectorContestants(env *harness.Env) ([]harness.Contestant, error) {
	b := &vectorBench{env: env}
	for _, t := range []vectorTask{mnistTask, mixtureTask} {
		b.jobs = append(b.jobs, &vectorJob{vectorTask: t})
	}
	openers := append(memdbVectors(), peer.VectorIndexes()...)
	var list []harness.Contestant
	for i, o := range openers {
		list = append(list, harness.Contestant{
			Name: o.Name, Baseline: i == 0, Missing: o.Missing,
			Open: func(ctx context.Context) (harness.Runner, error) { return b.open(ctx, o) },
		})
	}
	return list, nil
}

// vectorBench is what the contestants share.
type vectorBench struct {
	env  *harness.Env
	jobs []*vectorJob
}

// vectorJob is a task with its data, once that is loaded.
type vectorJob struct {
	vectorTask
	work  *peer.VectorWork
	truth vectorset.Truth
}

// prepare loads the data of a job and finds its true neighbours.
func (b *vectorBench) prepare(j *vectorJob) error {
	if j.work != nil {
		return nil
	}
	base, queries, err := j.load(b.env)
	if err != nil {
		return err
	}
	dir, err := b.env.Fresh("vectors-" + j.key)
	if err != nil {
		return err
	}
	w := &peer.VectorWork{
		Base: base, Queries: queries, Dir: dir,
		BaseFile: filepath.Join(dir, "base"), QueryFile: filepath.Join(dir, "queries"),
		M: vectorM, EfConstruction: vectorEfConstruction,
	}
	if err := errors.Join(base.Write(w.BaseFile), queries.Write(w.QueryFile)); err != nil {
		return err
	}
	j.truth = vectorset.Neighbours(base, queries, vectorK, nil)
	j.work = w
	return nil
}

// open builds one contestant's indexes.
func (b *vectorBench) open(ctx context.Context, o peer.VectorOpener) (harness.Runner, error) {
	r := &vectorRun{bench: b, name: o.Name}
	for _, j := range b.jobs {
		if o.Small && !j.small {
			continue
		}
		err := b.prepare(j)
		if err == nil {
			err = r.build(ctx, o, j)
		}
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// vectorRun is one contestant with an index for each task.
type vectorRun struct {
	bench   *vectorBench
	name    string
	indexes []builtVectors
}

type builtVectors struct {
	*vectorJob
	index peer.Vectors
	built peer.VectorBuild
}

func (r *vectorRun) build(ctx context.Context, o peer.VectorOpener, j *vectorJob) error {
	if r.bench.env.Pin {
		undo, err := harness.Pin(r.bench.env.Core)
		if err != nil {
			return err
		}
		// A process that the contestant starts stays pinned.
		defer undo()
	}
	x, err := o.Open(ctx, j.work)
	if err != nil {
		return err
	}
	built, err := x.Build(ctx)
	if err != nil {
		return errors.Join(err, x.Close())
	}
	r.bench.env.Say("vectors: %s: %s of %s vectors is ready", r.name, j.title, harness.Number(float64(j.work.Base.Len()), 0))
	r.indexes = append(r.indexes, builtVectors{j, x, built})
	return nil
}

// Round asks each index for more and more, until nothing more is found.
func (r *vectorRun) Round(ctx context.Context) (harness.Sample, error) {
	sample := harness.Sample{}
	for _, x := range r.indexes {
		sample[x.key+" rows"] = float64(x.work.Base.Len())
		if x.built.CPU > 0 {
			sample[x.key+" build_s"] = x.built.CPU.Seconds()
		}
		sample[x.key+" mb"] = float64(x.built.Bytes) / 1e6
		curve, err := askCurve(ctx, x.index, x.truth, func(ef int, p curvePoint) {
			sample[curveMetric(x.key, ef, "recall")], sample[curveMetric(x.key, ef, "qps")] = p.recall, 1e6/p.mean
		})
		if err != nil {
			return nil, err
		}
		best := 0.0
		for _, p := range curve {
			best = max(best, p.recall)
		}
		sample[x.key+" best_recall"] = best
		for _, target := range vectorTargets {
			if p, ok := at(curve, target.recall); ok {
				sample[x.key+" qps "+target.name] = 1e6 / p.mean
				sample[x.key+" mean_us "+target.name] = p.mean
				sample[x.key+" p99_per_mean "+target.name] = p.p99 / p.mean
			}
		}
	}
	return sample, nil
}

// askCurve asks an index with larger and larger ef, and tells of each point.
func askCurve(ctx context.Context, x peer.Vectors, truth judge, tell func(ef int, p curvePoint)) (curve []curvePoint, err error) {
	if _, err := x.Ask(ctx, vectorEfs[0], vectorK); err != nil { // to warm the caches up
		return nil, err
	}
	for i, ef := range vectorEfs {
		var answers [vectorAskings]peer.VectorAnswers
		for j := range answers {
			if answers[j], err = x.Ask(ctx, ef, vectorK); err != nil {
				return nil, err
			}
		}
		p := judgeAnswers(truth, answers[:])
		curve = append(curve, p)
		tell(ef, p)
		if p.recall >= vectorEnough || i >= vectorPatience && p.recall < curve[i-vectorPatience].recall+vectorGain {
			break
		}
	}
	return curve, nil
}

// curvePoint is what one ef gives: recall, and microseconds.
type curvePoint struct{ recall, mean, p99 float64 }

// A judge says how many of the true neighbours are among the answers to the first queries.
type judge interface {
	Judge(answers [][]uint32) float64
}

// judgeAnswers sums up several askings of the same queries.
func judgeAnswers(truth judge, askings []peer.VectorAnswers) curvePoint {
	n := len(askings[0].IDs)
	var times harness.Latencies
	each := make([]float64, len(askings))
	for q := range n {
		for i := range askings {
			each[i] = float64(askings[i].Times[q])
		}
		times.Add(time.Duration(harness.Median(each)))
	}
	return curvePoint{
		recall: truth.Judge(askings[0].IDs),
		mean:   float64(times.Sum().Nanoseconds()) / 1e3 / float64(n),
		p99:    times.Percentile(0.99),
	}
}

// at returns what a recall costs: between the first point that reaches it and
// the one before, in proportion; the first point itself where that reaches it;
// nothing where none does.
func at(curve []curvePoint, recall float64) (curvePoint, bool) {
	for i, p := range curve {
		if p.recall < recall {
			continue
		}
		if i == 0 {
			return p, true
		}
		before := curve[i-1]
		share := (recall - before.recall) / (p.recall - before.recall)
		return curvePoint{
			recall: recall,
			mean:   before.mean + share*(p.mean-before.mean),
			p99:    before.p99 + share*(p.p99-before.p99),
		}, true
	}
	return curvePoint{}, false
}

// Close ends the indexes.
func (r *vectorRun) Close() (err error) {
	for _, x := range r.indexes {
		err = errors.Join(err, x.index.Close())
	}
	return err
}

// curveMetric names what a contestant shows with some candidates kept: a point of the curve.
func curveMetric(task string, ef int, what string) string {
	return fmt.Sprintf("%s curve %s with %d", task, what, ef)
}
