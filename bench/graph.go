package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	graphFolder = "kg/fb15k237/"
	// graphHops is how far a walk goes.
	graphHops = 3
	// graphBatch is how many relations are imported in a transaction.
	graphBatch = 20_000
)

// graphs walks FB15k-237 and matches patterns in it.
func graphs() *harness.Workload {
	return &harness.Workload{
		Name:    "graph",
		Summary: "FB15k-237: import in batches, walks of 3 hops to the IDs, patterns of types",
		Metrics: []harness.Metric{
			{Name: "import_per_second", Head: "relations/s", Timed: true},
			{Name: "import_per_cpu", Head: "relations/CPU s"},
			{Name: "both_us", Head: "3 hops both ways p50 µs", Digits: 1, Timed: true},
			{Name: "forward_us", Head: "3 hops forward p50 µs", Digits: 1, Timed: true},
			{Name: "match_us", Head: "pattern p50 µs", Digits: 1, Timed: true},
			{Name: "disk_bytes", Head: "disk B/relation", Digits: 1, Table: "size"},
			{Name: "heap_bytes", Head: "heap B/relation", Digits: 1, Table: "size"},
		},
		Contestants: graphContestants,
	}
}

// graphSet is the data, and what the contestants have counted.
type graphSet struct {
	env      *harness.Env
	entities []peer.Entity
	triples  []peer.Triple
	starts   []int
	patterns []peer.Pattern
	counts   map[string][]int // by question, of the first contestant that answered
}

func graphContestants(env *harness.Env) ([]harness.Contestant, error) {
	s := &graphSet{env: env, counts: map[string][]int{}}
	if err := s.read(); err != nil {
		return nil, err
	}
	var list []harness.Contestant
	for i, o := range append([]peer.GraphOpener{{Name: "memdb", Open: openMemdbGraph}}, peer.Graphs()...) {
		list = append(list, harness.Contestant{
			Name: o.Name, Baseline: i == 0, Missing: o.Missing,
			Open: func(context.Context) (harness.Runner, error) { return &graphRun{s, o}, nil },
		})
	}
	return list, nil
}

func (s *graphSet) read() error {
	path := func(name string) (string, error) { return s.env.Path(graphFolder + name) }
	number := func(field string, to *int) error {
		n, err := strconv.Atoi(field)
		*to = n
		return err
	}
	err := readTSV(path, "entities.tsv", 5, func(f []string) error {
		e := peer.Entity{Type: f[2]}
		err := number(f[0], &e.Number)
		s.entities = append(s.entities, e)
		return err
	})
	if err != nil {
		return err
	}
	err = readTSV(path, "triples.tsv", 3, func(f []string) error {
		var t peer.Triple
		err := errors.Join(number(f[0], &t.Head), number(f[1], &t.Relation), number(f[2], &t.Tail))
		s.triples = append(s.triples, t)
		return err
	})
	if err != nil {
		return err
	}
	err = readTSV(path, "starts.txt", 1, func(f []string) error {
		s.starts = append(s.starts, 0)
		return number(f[0], &s.starts[len(s.starts)-1])
	})
	if err != nil {
		return err
	}
	return readTSV(path, "patterns.tsv", 4, func(f []string) error {
		p := peer.Pattern{From: f[0], To: f[2]}
		err := number(f[1], &p.Relation)
		s.patterns = append(s.patterns, p)
		return err
	})
}

// agree compares what contestants have counted.
func (s *graphSet) agree(question string, got []int) error {
	want, asked := s.counts[question]
	if !asked {
		s.counts[question] = got
		return nil
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("%s %d: it counts %d, and the one before %d", question, i, got[i], want[i])
		}
	}
	return nil
}

// graphRun imports the graph, and asks about it.
type graphRun struct {
	*graphSet
	opener peer.GraphOpener
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// Round imports into a new graph.
func (r *graphRun) Round(ctx context.Context) (sample harness.Sample, err error) {
	dir, err := r.env.Fresh("graph-" + r.opener.Name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sample = harness.Sample{}
	g, err := r.opener.Open(dir, r.entities)
	if err != nil {
		return nil, err
	}
	open := true
	defer func() {
		if open {
			err = errors.Join(err, g.Close())
		}
	}()
	used, err := harness.CPUTime()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	for batch := range slices.Chunk(r.triples, graphBatch) {
		if err := g.Add(ctx, batch); err != nil {
			return nil, err
		}
	}
	relations := float64(len(r.triples))
	sample["import_per_second"] = relations / time.Since(began).Seconds()
	now, err := harness.CPUTime()
	if err != nil {
		return nil, err
	}
	sample["import_per_cpu"] = relations / (now - used).Seconds() // with the compactions that ran beside
	before := heap()
	for range 2 { // the second time it is warm
		if err := r.ask(ctx, g, sample); err != nil {
			return nil, err
		}
	}
	sample["heap_bytes"] = max(heap()-before, 0) / relations
	open = false
	if err := g.Close(); err != nil {
		return nil, err
	}
	size, err := harness.FolderSize(dir)
	sample["disk_bytes"] = float64(size) / relations
	return sample, err
}

// ask puts all questions.
func (r *graphRun) ask(ctx context.Context, g peer.Graph, sample harness.Sample) error {
	for _, q := range []struct {
		name string
		n    int
		ask  func(i int) (int, error)
	}{
		{"both", len(r.starts), func(i int) (int, error) { return g.Around(ctx, r.starts[i], graphHops, true) }},
		{"forward", len(r.starts), func(i int) (int, error) { return g.Around(ctx, r.starts[i], graphHops, false) }},
		{"match", len(r.patterns), func(i int) (int, error) { return g.Match(ctx, r.patterns[i]) }},
	} {
		var times harness.Latencies
		counts := make([]int, q.n)
		for i := range counts {
			start := time.Now()
			n, err := q.ask(i)
			times.Add(time.Since(start))
			if errors.Is(err, peer.ErrUnsupported) {
				counts = nil
				break
			}
			if err != nil {
				return err
			}
			counts[i] = n
		}
		if counts == nil {
			continue
		}
		sample[q.name+"_us"] = times.Percentile(0.5)
		if err := r.agree(q.name, counts); err != nil {
			return err
		}
	}
	return nil
}

// Close has nothing to do: Round closes what it fills.
func (*graphRun) Close() error { return nil }

// memdbGraph is the graph of one owner.
type memdbGraph struct {
	db    *engine.DB
	g     graph.Graph
	owner memory.Owner
}

func openMemdbGraph(dir string, entities []peer.Entity) (peer.Graph, error) {
	db, err := engine.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	m := &memdbGraph{db, db.Graph(), memory.Owner{Agent: "bench"}}
	var b graph.Batch
	for _, e := range entities {
		b.Entities = append(b.Entities, graph.Entity{ID: strconv.Itoa(e.Number), Type: e.Type})
	}
	if _, err := m.g.Write(context.Background(), m.owner, b, nil); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return m, nil
}

func (m *memdbGraph) Add(ctx context.Context, triples []peer.Triple) error {
	b := graph.Batch{Relations: make([]graph.Relation, 0, len(triples))}
	for _, t := range triples {
		b.Relations = append(b.Relations, graph.Relation{From: strconv.Itoa(t.Head), Type: strconv.Itoa(t.Relation), To: strconv.Itoa(t.Tail)})
	}
	_, err := m.g.Write(ctx, m.owner, b, nil)
	return err
}

func (m *memdbGraph) Around(ctx context.Context, start, hops int, both bool) (int, error) {
	if both {
		w, err := m.g.Query(ctx, m.owner, strconv.Itoa(start), hops, graph.State{})
		return len(w.Found), err
	}
	w, err := m.g.Find(ctx, m.owner, strconv.Itoa(start), graph.FindOptions{Hops: hops})
	return len(w.Found) + 1, err // Find leaves the start out
}

func (m *memdbGraph) Match(ctx context.Context, p peer.Pattern) (int, error) {
	w, err := m.g.Match(ctx, m.owner, graph.Pattern{
		From: graph.NodePattern{Type: p.From}, Relation: strconv.Itoa(p.Relation), To: graph.NodePattern{Type: p.To},
	})
	return len(w.Matches), err
}

func (m *memdbGraph) Close() error { return m.db.Close() }
