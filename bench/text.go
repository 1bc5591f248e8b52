package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
)

const (
	// textDocs is how many passages are indexed unless -n says otherwise.
	textDocs = 300_000
	// textDepth is how many hits are asked for.
	textDepth = 10
	// scopes is how many agents the passages are spread over, evenly.
	scopes = 1000
	// phrases is how many phrases are taken from the passages.
	phrases = 200
	// slowStride is of how many queries the slow peers are asked one.
	slowStride = 10
	// textReplaced is the share of documents that die in the second index of memdb.
	textReplaced = 0.3
)

// queriesFile holds queries, a line each: source and text, apart by a tab.
const queriesFile = "text/queries.tsv"

// textKind is a kind of query: a part of each round.
type textKind struct {
	name   string
	mode   peer.Mode
	scoped bool
}

// textKinds lists the kinds that a round asks.
var textKinds = []textKind{
	{name: "or", mode: peer.Any},
	{name: "scoped", mode: peer.Any, scoped: true},
	{name: "and", mode: peer.All},
	{name: "phrase", mode: peer.Phrase},
}

// memdbModes are what memdb's index is asked.
var memdbModes = []peer.Mode{peer.Any, peer.All, peer.Phrase}

// textQueries compares the inverted index with other indexes: the rate at which
// passages come in, the size, and the time of queries, from the words on.
func textQueries() *harness.Workload {
	w := &harness.Workload{
		Name:        "text",
		Summary:     "index 300,000 passages and ask: any word, within 1 of 1,000 scopes, all words, phrases; top 10",
		WarmUp:      1,
		Contestants: textContestants,
	}
	for _, kind := range textKinds {
		table := ""
		if kind.mode != peer.Any {
			table = "all words, phrases"
		}
		w.Metrics = append(w.Metrics,
			harness.Metric{Name: kind.name + "_qps", Head: kind.name + " QPS", Timed: true, Table: table},
			harness.Metric{Name: kind.name + "_cpu_us", Head: "CPU µs", Timed: true, Table: table},
			harness.Metric{Name: kind.name + "_p50_ms", Head: "p50 ms", Digits: 3, Table: table},
			harness.Metric{Name: kind.name + "_p99_ms", Head: "p99 ms", Digits: 3, Timed: true, Table: table},
		)
	}
	for _, kind := range textKinds {
		w.Metrics = append(w.Metrics, harness.Metric{
			Name: kind.name + "_hits", Head: kind.name, Digits: 2, Table: "hits a query",
		})
	}
	const size = "indexing, once"
	w.Metrics = append(w.Metrics,
		harness.Metric{Name: "docs_per_second", Head: "docs/s", Timed: true, Table: size},
		harness.Metric{Name: "cpu_us", Head: "CPU µs/doc", Digits: 1, Timed: true, Table: size},
		harness.Metric{Name: "index_mb", Head: "index MB", Digits: 1, Timed: true, Table: size},
		harness.Metric{Name: "index_per_text", Head: "index/text", Digits: 3, Table: size},
	)
	return w
}

// textContestants are memdb's index, fresh and after many documents have died, and
// its peers.
func textContestants(env *harness.Env) ([]harness.Contestant, error) {
	path, err := env.Path(corpusFile)
	if err != nil {
		return nil, err
	}
	queries, err := readQueries(env)
	if err != nil {
		return nil, err
	}
	w := &textWork{env: env, path: path, queries: queries}
	list := []harness.Contestant{
		w.contestant(peer.IndexOpener{Name: "memdb", Modes: memdbModes, Open: openFresh}, 1),
		w.contestant(peer.IndexOpener{Name: "memdb, 30% replaced", Modes: memdbModes, Open: openReplaced}, 1),
	}
	list[0].Baseline = true
	for _, o := range peer.Indexes() {
		stride := 1
		if strings.HasPrefix(o.Name, "fts5") {
			stride = slowStride
		}
		list = append(list, w.contestant(o, stride))
	}
	return append(list, lucene()), nil
}

// lucene is what Lucene 9.12.3 did with the same passages and queries, on one core
// of a machine of this kind, but in another run: a yardstick, not a measurement.
func lucene() harness.Contestant {
	return harness.Contestant{
		Name: "Lucene (another run)",
		Open: func(context.Context) (harness.Runner, error) {
			return fixedRun{
				"or_qps": 1995, "or_p50_ms": 0.28, "or_p99_ms": 3.5,
				"scoped_qps": 1316, "scoped_p50_ms": 0.36, "scoped_p99_ms": 5.7,
				"docs_per_second": 8949, "index_mb": 47,
			}, nil
		},
	}
}

// fixedRun returns known figures.
type fixedRun harness.Sample

func (f fixedRun) Round(context.Context) (harness.Sample, error) { return harness.Sample(f), nil }
func (f fixedRun) Close() error                                  { return nil }

func openFresh(dir string) (peer.Index, error) { return openTextIndex(dir) }

// openReplaced makes an index of which many documents are replaced when it settles.
func openReplaced(dir string) (peer.Index, error) {
	t, err := openTextIndex(dir)
	return replacing{t}, err
}

type replacing struct{ *textIndex }

func (r replacing) Settle(ctx context.Context) error {
	if err := r.replace(ctx, textReplaced, 1); err != nil {
		return err
	}
	return r.textIndex.Settle(ctx)
}

// readQueries reads the texts of the queries.
func readQueries(env *harness.Env) ([]string, error) {
	var queries []string
	err := readTSV(env.Path, queriesFile, 2, func(f []string) error {
		queries = append(queries, f[1])
		return nil
	})
	return queries, err
}

// textWork is what the contestants have in common.
type textWork struct {
	env     *harness.Env
	path    string
	queries []string
}

// contestant asks every stride-th query.
func (w *textWork) contestant(o peer.IndexOpener, stride int) harness.Contestant {
	name := o.Name
	if stride > 1 {
		name += fmt.Sprintf(" (1 of %d queries)", stride)
	}
	return harness.Contestant{Name: name, Missing: o.Missing, Open: func(ctx context.Context) (harness.Runner, error) {
		dir, err := w.env.Fresh("text")
		if err != nil {
			return nil, err
		}
		x, err := o.Open(dir)
		if err != nil {
			return nil, err
		}
		r := &textRun{index: x, stride: stride, modes: o.Modes, queries: w.queries}
		if err := r.fill(ctx, w); err != nil {
			return nil, errors.Join(err, x.Close())
		}
		return r, nil
	}}
}

// textRun asks one index.
type textRun struct {
	index   peer.Index
	modes   []peer.Mode
	stride  int
	queries []string
	phrases []string
	once    harness.Sample // what the indexing showed
}

// fill indexes the passages, on one core if the run is on one.
func (r *textRun) fill(ctx context.Context, w *textWork) (err error) {
	if w.env.Pin {
		undo, err := harness.Pin(w.env.Core)
		if err != nil {
			return err
		}
		defer undo()
	}
	c, err := openCorpus(w.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	limit := cmp.Or(w.env.N, textDocs)
	every := max(limit/phrases, 1)
	var batches harness.Latencies
	var cpu time.Duration
	docs := 0
	for docs < limit {
		batch, err := c.next(min(ingestBatch, limit-docs))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for i := range batch {
			if (docs+i)%every == every/2 {
				if phrase := phraseOf(batch[i].Text); phrase != "" {
					r.phrases = append(r.phrases, phrase)
				}
			}
		}
		used, _ := harness.CPUTime() // where it is not known, so is not the difference
		began := time.Now()
		if err := r.index.Add(ctx, batch); err != nil {
			return err
		}
		batches.Add(time.Since(began))
		after, _ := harness.CPUTime()
		cpu += after - used
		docs += len(batch)
	}
	if docs == 0 {
		return harness.Missing("%s holds no passages", c.name)
	}
	r.once = harness.Sample{"docs_per_second": float64(docs) / batches.Sum().Seconds()}
	if cpu > 0 {
		r.once["cpu_us"] = float64(cpu.Microseconds()) / float64(docs)
	}
	if err := r.index.Settle(ctx); err != nil {
		return err
	}
	size, err := r.index.Bytes()
	if err != nil {
		return err
	}
	r.once["index_mb"] = float64(size) / 1e6
	r.once["index_per_text"] = float64(size) / float64(c.bytes)
	return nil
}

// phraseOf takes three neighbouring words from the second half of a text, such as
// have nothing around them; none where there are no such.
func phraseOf(text string) string {
	words := strings.Fields(text)
	for from := len(words) / 2; from+3 <= len(words); from++ {
		phrase := strings.Join(words[from:from+3], " ")
		if !strings.ContainsFunc(phrase, func(r rune) bool { return r != ' ' && (r < 'a' || r > 'z') }) {
			return phrase
		}
	}
	return ""
}

// Round asks all queries of each kind.
func (r *textRun) Round(ctx context.Context) (harness.Sample, error) {
	sample := maps.Clone(r.once)
	for _, kind := range textKinds {
		if !slices.Contains(r.modes, kind.mode) {
			continue
		}
		queries := r.queries
		if kind.mode == peer.Phrase {
			queries = r.phrases
		}
		if err := r.ask(ctx, sample, kind, queries); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return sample, nil
}

// ask asks the queries of a kind.
func (r *textRun) ask(ctx context.Context, sample harness.Sample, kind textKind, queries []string) error {
	var times harness.Latencies
	asked, hits := 0, 0
	meter := harness.StartMeter()
	for i := 0; i < len(queries); i += r.stride {
		ask := peer.Ask{Mode: kind.mode, Text: queries[i], K: textDepth}
		if kind.scoped {
			// 7919 is a prime, so that neighbouring queries have distant scopes.
			ask.Scope = fmt.Sprintf("a%04d", i*7919%scopes)
		}
		began := time.Now()
		found, err := r.index.Find(ctx, ask)
		if err != nil {
			return err
		}
		times.Add(time.Since(began))
		asked++
		hits += len(found)
	}
	meter.Record(sample, kind.name+"_cpu_us", asked)
	sample[kind.name+"_qps"] = times.PerSecond()
	sample[kind.name+"_p50_ms"] = times.Percentile(0.5) / 1e3
	sample[kind.name+"_p99_ms"] = times.Percentile(0.99) / 1e3
	sample[kind.name+"_hits"] = float64(hits) / float64(max(asked, 1))
	return nil
}

// Close closes the index.
func (r *textRun) Close() error { return r.index.Close() }
