package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

const (
	// storeSeconds is how long each contestant stores with each number of
	// writers unless -seconds says otherwise.
	storeSeconds = 10
	// storeTextBytes and storeDims are the size of a record: the text is made of
	// passages of the corpus, the vector of one of storeCentres and noise.
	storeTextBytes = 1_000
	storeDims      = 384
	storeCentres   = 1_000
	// storePassages are read of the corpus, and paired to new texts.
	storePassages = 100_000
	// storeWeighed is how many records are stored in memory to learn how many
	// bytes memdb writes for each.
	storeWeighed = 1_000
)

// storeWriters are the numbers of writers at a time.
var storeWriters = []int{1, 64}

// store puts single durable records: memdb with all that a store does (dedup,
// analysis, indexes, log), SQLite a row and an FTS5 row, the key-value stores one
// value of as many bytes as memdb writes to its log for a record.
func store() *harness.Workload {
	w := &harness.Workload{
		Name:        "store",
		Summary:     "durable stores of 1 KB of text and a vector of 384 dimensions, one by one",
		OwnProcess:  true,
		Contestants: storeContestants,
	}
	for _, n := range storeWriters {
		table := fmt.Sprintf("%d writers", n)
		if n == 1 {
			table = "1 writer"
		}
		w.Metrics = append(w.Metrics,
			harness.Metric{Name: storeMetric("stores_per_second", n), Head: "stores/s", Timed: true, Table: table},
			harness.Metric{Name: storeMetric("cpu_us", n), Head: "CPU µs", Digits: 1, Timed: true, Table: table},
			harness.Metric{Name: storeMetric("p50_us", n), Head: "p50 µs", Timed: true, Table: table},
			harness.Metric{Name: storeMetric("p99_us", n), Head: "p99 µs", Timed: true, Table: table},
		)
	}
	w.Metrics = append(w.Metrics,
		harness.Metric{Name: "value_bytes", Head: "bytes a value", Table: "size"},
		harness.Metric{Name: harness.MetricRSS, Head: "peak RSS MB", Table: "size"})
	return w
}

func storeMetric(name string, writers int) string { return fmt.Sprintf("%s_w%d", name, writers) }

func storeContestants(env *harness.Env) ([]harness.Contestant, error) {
	path, err := env.Path(corpusFile)
	if err != nil {
		return nil, err
	}
	var list []harness.Contestant
	own := []peer.StoreOpener{
		{Name: "memdb", Open: openMemdbStore}, {Name: "memdb-archived", Open: openArchived(false)}, {Name: "memdb-archive-first", Open: openArchived(true)},
	}
	for i, o := range append(own, peer.Stores()...) {
		list = append(list, harness.Contestant{
			Name: o.Name, Baseline: i == 0, Missing: o.Missing,
			Open: func(context.Context) (harness.Runner, error) { return &storeRun{env: env, path: path, opener: o}, nil },
		})
	}
	return list, nil
}

// memdbStore is the engine as it is opened by default.
type memdbStore struct{ db *engine.DB }

func openMemdbStore(dir string, _, _ int) (peer.Store, error) {
	db, err := engine.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	return memdbStore{db}, nil
}

// openArchived opens the engine with an archive in a folder beside it: behind the commits, or before
// their acknowledgement.
func openArchived(first bool) func(dir string, _, _ int) (peer.Store, error) {
	return func(dir string, _, _ int) (peer.Store, error) {
		db, err := engine.Open(dir, &engine.Options{Archive: folder.New(dir + archiveEnd), ArchiveFirst: first})
		if err != nil {
			return nil, err
		}
		return archivedStore{memdbStore{db}, dir + archiveEnd}, nil
	}
}

const archiveEnd = ".archive"

// archivedStore removes its archive when it is closed.
type archivedStore struct {
	memdbStore
	archive string
}

func (a archivedStore) Close() error {
	return errors.Join(a.memdbStore.Close(), os.RemoveAll(a.archive))
}

func (m memdbStore) Put(ctx context.Context, r *peer.Record) error {
	done, err := m.db.Memories().Store(ctx, memory.Memory{Scope: memory.Scope{Agent: r.Scope}, Text: r.Text, Embedding: r.Vector}, nil)
	if err == nil && !done.Stored {
		err = fmt.Errorf("record %d was taken for %s", r.Number, done.ID)
	}
	return err
}

func (m memdbStore) Close() error { return m.db.Close() }

// storeRun stores with one engine.
type storeRun struct {
	env    *harness.Env
	path   string
	opener peer.StoreOpener
}

// Round stores into an empty engine with each number of writers.
func (r *storeRun) Round(ctx context.Context) (harness.Sample, error) {
	source, err := newRecords(r.path)
	if err != nil {
		return nil, err
	}
	size, err := source.weigh(ctx)
	if err != nil {
		return nil, err
	}
	sample := harness.Sample{"value_bytes": float64(size)}
	for _, writers := range storeWriters {
		if err := r.fill(ctx, sample, source, writers, size); err != nil {
			return nil, err
		}
	}
	return sample, nil
}

// Close has nothing to do: Round closes what it fills.
func (r *storeRun) Close() error { return nil }

// fill stores for the time that was asked for and adds what it saw to sample.
func (r *storeRun) fill(ctx context.Context, sample harness.Sample, source *records, writers, size int) (err error) {
	dir, err := r.env.Fresh("store-" + r.opener.Name)
	if err != nil {
		return err
	}
	x, err := r.opener.Open(dir, writers, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close(), os.RemoveAll(dir)) }()
	times := make([]harness.Latencies, writers)
	failed := make([]error, writers)
	var next atomic.Uint64
	var all sync.WaitGroup
	meter, began := harness.StartMeter(), time.Now()
	end := began.Add(time.Duration(cmp.Or(r.env.Seconds, storeSeconds) * float64(time.Second)))
	for w := range writers {
		all.Go(func() {
			for failed[w] == nil && time.Now().Before(end) {
				record := source.record(next.Add(1))
				start := time.Now()
				failed[w] = x.Put(ctx, &record)
				times[w].Add(time.Since(start))
			}
		})
	}
	all.Wait()
	elapsed := time.Since(began)
	var merged harness.Latencies
	for i := range times {
		merged.Merge(&times[i])
	}
	meter.Record(sample, storeMetric("cpu_us", writers), merged.Len())
	sample[storeMetric("stores_per_second", writers)] = float64(merged.Len()) / elapsed.Seconds()
	sample[storeMetric("p50_us", writers)] = merged.Percentile(0.5)
	sample[storeMetric("p99_us", writers)] = merged.Percentile(0.99)
	return errors.Join(failed...)
}

// records makes any number of different records out of a corpus.
type records struct {
	passages []peer.Document
	centres  [][]float32
}

func newRecords(path string) (r *records, err error) {
	c, err := openCorpus(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	passages, err := c.next(storePassages)
	if errors.Is(err, io.EOF) {
		return nil, harness.Missing("%s holds no passages", c.name)
	}
	if err != nil {
		return nil, err
	}
	r = &records{passages: passages}
	rng := rand.New(rand.NewPCG(1, 1))
	for range storeCentres {
		centre := make([]float32, storeDims)
		for i := range centre {
			centre[i] = float32(rng.NormFloat64())
		}
		r.centres = append(r.centres, centre)
	}
	return r, nil
}

// record is that of a number. It may be called by several goroutines.
func (r *records) record(number uint64) peer.Record {
	n := uint64(len(r.passages))
	first := &r.passages[number%n]
	var text strings.Builder
	text.Grow(2 * storeTextBytes)
	fmt.Fprintf(&text, "%d: %s", number, first.Text)
	for i := uint64(1); text.Len() < storeTextBytes; i++ {
		text.WriteByte(' ')
		text.WriteString(r.passages[(number+number/n+i*7_919)%n].Text)
	}
	rng := rand.New(rand.NewPCG(number, 2))
	centre, vec := r.centres[number%storeCentres], make([]float32, storeDims)
	for i := range vec {
		vec[i] = centre[i] + rng.Float32()/2
	}
	return peer.Record{Number: number, Scope: first.Scope, Text: cut(text.String(), storeTextBytes), Vector: vec}
}

// cut shortens a text to at most so many bytes, at the end of a word.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:max(strings.LastIndexByte(text[:most], ' '), 0)]
}

// weigh stores records in memory and returns how many bytes of log memdb writes
// for each: its keys and values, framed.
func (r *records) weigh(ctx context.Context) (int, error) {
	fs := vfs.NewMem()
	db, err := engine.Open(fsys.On(fs, "memdb"), nil)
	if err != nil {
		return 0, err
	}
	before, err := logBytes(fs)
	for i := range uint64(storeWeighed) {
		if err != nil {
			break
		}
		record := r.record(math.MaxUint32 + i)
		err = memdbStore{db}.Put(ctx, &record)
	}
	if err != nil {
		return 0, errors.Join(err, db.Close())
	}
	after, err := logBytes(fs)
	return int(after-before) / storeWeighed, errors.Join(err, db.Close())
}

// logBytes is the size of the log of the database that weigh fills, without the zeros
// that it is filled with ahead.
func logBytes(fs vfs.FS) (size int64, err error) {
	dir := fs.PathJoin("memdb", "store")
	names, err := fs.List(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		log, err := readFile(fs, fs.PathJoin(dir, name))
		if err != nil {
			return 0, err
		}
		size += int64(len(bytes.TrimRight(log, "\x00")))
	}
	return size, nil
}

func readFile(fs vfs.FS, name string) (data []byte, err error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(f)
}
