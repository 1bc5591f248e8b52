package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// scaleDefault is how many memories there are unless -n says otherwise.
	scaleDefault = 1_000_000
	// scaleOwner is how many of them an owner has.
	scaleOwner = 10_000
	// scaleTextBytes is the size of a text: a turn of a talk.
	scaleTextBytes = 100
	// scaleBatch is how many share a commit while the database is built.
	scaleBatch = 1_000
	// scaleQueries are asked of each kind, after scaleWarm that do not count.
	scaleQueries = 200
	scaleWarm    = 20
	// scaleTail is how many memories are written before the process is killed.
	scaleTail = 20_000
	// scaleLimit is how many memories a list or a recall returns.
	scaleLimit = 10
)

// scaleVariable makes this process one that works on the database of a run: its
// opening is timed, and its memory counted, apart from what built it.
const scaleVariable = "MEMDB_BENCH_SCALE"

// selectivities are filters by the share of memories that they leave.
var selectivities = []struct {
	name   string
	filter filter.Filter
}{
	{".001%", filter.Eq("rare", 0)},
	{"1%", filter.Eq("hundredth", 7)},
	{"50%", filter.Eq("half", 1)},
}

// scaleKind is a kind of query.
type scaleKind struct {
	table, name string
	ask         func(ctx context.Context, s *scaleDB, rng *rand.Rand) error
}

// scale asks a large database: lists and recalls by filter, recalls within an
// owner, opening. The database stays in the folder of -dir, as scale-N or
// scale-N-vectors, and serves the next run.
func scale() *harness.Workload {
	w := &harness.Workload{
		Name:    "scale",
		Summary: "memories in owners of 10,000 (-n, 1,000,000 if it is not given; -vectors): by filter, in an owner, opening; the folder of -dir keeps them",
		Contestants: func(env *harness.Env) ([]harness.Contestant, error) {
			run := &scaleRun{env: env}
			var err error
			if run.path, err = env.Path(corpusFile); err != nil {
				return nil, err
			}
			return []harness.Contestant{{Name: "memdb", Baseline: true, Open: run.open}}, nil
		},
	}
	for _, k := range scaleKinds() {
		w.Metrics = append(w.Metrics,
			harness.Metric{Name: k.metric("p50_ms"), Head: k.name + " p50 ms", Digits: 2, Table: k.table},
			harness.Metric{Name: k.metric("p99_ms"), Head: "p99 ms", Digits: 2, Table: k.table})
	}
	for _, m := range []harness.Metric{
		{Name: "open_closed_s", Head: "open s after close", Digits: 2},
		{Name: "open_killed_s", Head: "after kill", Digits: 2},
		{Name: "opened_rss_mb", Head: "RSS MB opened"},
		{Name: "asked_rss_mb", Head: "peak RSS MB after the queries"},
	} {
		m.Table = "open"
		w.Metrics = append(w.Metrics, m)
	}
	return w
}

func (k *scaleKind) metric(what string) string { return k.table + ", " + k.name + ", " + what }

// scaleKinds lists the queries in the order in which they are asked.
func scaleKinds() []scaleKind {
	var kinds []scaleKind
	for _, s := range selectivities {
		kinds = append(kinds, scaleKind{"list, all owners", s.name, func(ctx context.Context, d *scaleDB, _ *rand.Rand) error {
			return d.list(ctx, memory.ListQuery{AllScopes: true, Filter: s.filter})
		}})
	}
	for _, s := range selectivities {
		kinds = append(kinds, scaleKind{"recall by text, all owners", s.name, func(ctx context.Context, d *scaleDB, rng *rand.Rand) error {
			return d.recall(ctx, memory.Query{AllScopes: true, Filter: s.filter, Text: d.text(rng)})
		}})
	}
	for _, s := range selectivities[1:] {
		kinds = append(kinds, scaleKind{"list, an owner", s.name, func(ctx context.Context, d *scaleDB, rng *rand.Rand) error {
			return d.list(ctx, memory.ListQuery{Scope: d.owner(rng), Filter: s.filter})
		}})
	}
	for _, p := range []memory.Profile{memory.ProfileText, memory.ProfileHybrid, memory.ProfileBest} {
		kinds = append(kinds, scaleKind{"recall, an owner", string(p), func(ctx context.Context, d *scaleDB, rng *rand.Rand) error {
			q := memory.Query{Scope: d.owner(rng), Text: d.text(rng), Profile: p}
			if d.vectors && p != memory.ProfileText {
				q.Embedding = d.source.record(rng.Uint64N(uint64(d.n))).Vector
			}
			return d.recall(ctx, q)
		}})
	}
	return kinds
}

// scaleRun runs the steps, each in a process of its own.
type scaleRun struct {
	env  *harness.Env
	path string
	job  scaleJob
}

// scaleJob is what a process is to do.
type scaleJob struct {
	Step    string `json:"step"` // build, kill, open, ask
	Dir     string `json:"dir"`
	Corpus  string `json:"corpus"`
	Data    string `json:"data"`
	Made    string `json:"made"`
	N       int    `json:"n"`
	Vectors bool   `json:"vectors"`
	Pin     bool   `json:"pin"`
	Core    int    `json:"core"`
}

// open builds the database if it is not there yet.
func (r *scaleRun) open(ctx context.Context) (harness.Runner, error) {
	n := cmp.Or(r.env.N, scaleDefault)
	name := fmt.Sprintf("scale-%d", n)
	if r.env.Vectors {
		name += "-vectors"
	}
	r.job = scaleJob{
		Dir: filepath.Join(filepath.Dir(r.env.Dir), name), Corpus: r.path, Data: r.env.Data, Made: r.env.Made,
		N: n, Vectors: r.env.Vectors, Pin: r.env.Pin, Core: r.env.Core,
	}
	_, err := r.step(ctx, "build")
	return r, err
}

// Round opens the database after a close and after a kill, and asks.
func (r *scaleRun) Round(ctx context.Context) (harness.Sample, error) {
	sample := harness.Sample{}
	for _, s := range []struct{ step, open, rss string }{
		{"open", "open_closed_s", "opened_rss_mb"},
		{"ask", "", "asked_rss_mb"},
		{"kill", "", ""},
		{"open", "open_killed_s", ""},
	} {
		got, err := r.step(ctx, s.step)
		if err != nil {
			return nil, err
		}
		for metric, value := range got {
			switch {
			case metric == "open_s" && s.open != "":
				sample[s.open] = value
			case metric == "rss_mb" && s.rss != "":
				sample[s.rss] = value
			case metric != "open_s" && metric != "rss_mb":
				sample[metric] = value
			}
		}
	}
	return sample, nil
}

// Close keeps the database for the next run.
func (r *scaleRun) Close() error { return nil }

// step runs a step in a process of its own and returns what it measured. The one
// that is to be killed ends itself, and measures nothing.
func (r *scaleRun) step(ctx context.Context, step string) (harness.Sample, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	job := r.job
	job.Step = step
	spec, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), scaleVariable+"="+string(spec))
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	if step == "kill" && err != nil && strings.TrimSpace(out.String()) == scaleKilled {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", step, err, strings.TrimSpace(problems.String()))
	}
	var sample harness.Sample
	if err := json.Unmarshal(out.Bytes(), &sample); err != nil {
		return nil, fmt.Errorf("%s: reading the answer: %w", step, err)
	}
	return sample, nil
}

// scaleKilled is the last that the process to be killed prints.
const scaleKilled = `"about to be killed"`

// scaleDB is an open database with what is asked of it.
type scaleDB struct {
	*engine.DB
	source  *records
	queries []string
	n       int
	vectors bool
}

// scaleChild does the step that spec names.
func scaleChild(ctx context.Context, spec string) (err error) {
	var job scaleJob
	if err := json.Unmarshal([]byte(spec), &job); err != nil {
		return fmt.Errorf("reading %s: %w", scaleVariable, err)
	}
	if job.Pin && job.Step != "build" {
		undo, err := harness.Pin(job.Core)
		if err != nil {
			return err
		}
		defer undo()
	}
	began := time.Now()
	db, err := engine.Open(job.Dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	sample := harness.Sample{"open_s": time.Since(began).Seconds()}
	if job.Step != "open" {
		if err := job.work(ctx, db, sample); err != nil {
			return err
		}
	}
	if rss, err := harness.PeakRSS(); err == nil {
		sample["rss_mb"] = float64(rss) / 1e6
	}
	return json.NewEncoder(os.Stdout).Encode(sample)
}

func (job *scaleJob) work(ctx context.Context, db *engine.DB, sample harness.Sample) error {
	source, err := newRecords(job.Corpus)
	if err != nil {
		return err
	}
	d := &scaleDB{DB: db, source: source, n: job.N, vectors: job.Vectors}
	switch job.Step {
	case "build":
		stats, err := db.Stats(ctx)
		if err != nil {
			return err
		}
		if err := d.fill(ctx, int(stats.Memories), job.N, ""); err != nil {
			return err
		}
		return db.WaitIndexed(ctx)
	case "kill":
		if err := d.fill(ctx, 0, min(scaleTail, job.N), "tail"); err != nil {
			return err
		}
		if _, err := io.WriteString(os.Stdout, scaleKilled+"\n"); err != nil {
			return err
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		return self.Kill()
	}
	if d.queries, err = readQueries(&harness.Env{Data: job.Data, Made: job.Made, N: job.N}); err != nil {
		return err
	}
	return d.ask(ctx, sample)
}

// fill stores the memories from one number up to another. Under a tail they have
// IDs, and a second time they replace those of the first.
func (d *scaleDB) fill(ctx context.Context, from, to int, tail string) error {
	for from < to {
		batch := make([]memory.Memory, min(scaleBatch, to-from))
		for i := range batch {
			batch[i] = d.memory(from+i, tail)
		}
		if _, err := d.Memories().StoreBatch(ctx, batch, &memory.StoreOptions{NoDedup: true, Upsert: true}); err != nil {
			return err
		}
		from += len(batch)
	}
	return nil
}

// memory is that of a number: owners take turns, so that those of one are spread
// over the whole database.
func (d *scaleDB) memory(i int, tail string) memory.Memory {
	owners := max(d.n/scaleOwner, 1)
	r := d.source.record(uint64(i))
	m := memory.Memory{
		Scope: memory.Scope{Agent: fmt.Sprint("a", i%owners)}, Text: cut(r.Text, scaleTextBytes),
		Metadata: map[string]any{"rare": i % 100_000, "hundredth": i / owners % 100, "half": i / owners % 2},
	}
	if d.vectors {
		m.Embedding = r.Vector
	}
	if tail != "" {
		m.ID, m.Scope.Agent = fmt.Sprint(tail, i), tail
		m.Text += fmt.Sprint(" ", time.Now().UnixMilli())
	}
	return m
}

func (d *scaleDB) owner(rng *rand.Rand) memory.Scope {
	return memory.Scope{Agent: fmt.Sprint("a", rng.IntN(max(d.n/scaleOwner, 1)))}
}

func (d *scaleDB) text(rng *rand.Rand) string { return d.queries[rng.IntN(len(d.queries))] }

func (d *scaleDB) list(ctx context.Context, q memory.ListQuery) error {
	q.Limit = scaleLimit
	page, err := d.Memories().List(ctx, q)
	if err == nil && len(page.Memories) == 0 {
		err = fmt.Errorf("the list %+v is empty", q)
	}
	return err
}

func (d *scaleDB) recall(ctx context.Context, q memory.Query) error {
	q.Limit, q.NoTouch = scaleLimit, true
	_, err := d.Memories().Recall(ctx, q)
	return err
}

// ask times each kind of query.
func (d *scaleDB) ask(ctx context.Context, sample harness.Sample) error {
	for _, k := range scaleKinds() {
		rng := rand.New(rand.NewPCG(1, 3))
		var times harness.Latencies
		for i := range scaleWarm + scaleQueries {
			began := time.Now()
			if err := k.ask(ctx, d, rng); err != nil {
				return fmt.Errorf("%s, %s: %w", k.table, k.name, err)
			}
			if i >= scaleWarm {
				times.Add(time.Since(began))
			}
		}
		sample[k.metric("p50_ms")] = times.Percentile(0.5) / 1e3
		sample[k.metric("p99_ms")] = times.Percentile(0.99) / 1e3
	}
	return nil
}
