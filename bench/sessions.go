package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/seed-7aedc3ff/memdb/sessions"
)

const (
	// sessionSeconds is how long each contestant appends with each number of writers
	// unless -seconds says otherwise.
	sessionSeconds = 5
	// sessionText is the size of a message in bytes, sessionWords how many words there are.
	sessionText  = 1_000
	sessionWords = 20_000
	// sessionMany is how many messages the long session has, and how many sessions there
	// are, unless -n says otherwise; sessionFill of them are written in a commit.
	sessionMany = 100_000
	sessionFill = 500
	// sessionAsked is how often windows and pages are read.
	sessionAsked = 2_000
	// sessionWeighed is how many messages are appended in memory to learn how many bytes
	// memdb writes for each.
	sessionWeighed = 1_000
)

// sessionWriters are the numbers of writers at a time, each with a session of its own.
var sessionWriters = []int{1, 64}

// talks appends messages with their memories, each a durable commit for its caller, beside
// Pebble that stores one value of as many bytes; and it reads and saves long sessions.
func talks() *harness.Workload {
	w := &harness.Workload{
		Name:        "sessions",
		Summary:     "appends of messages of 1 KB with their memories; windows, pages and saves of 100,000 (-n)",
		OwnProcess:  true,
		Contestants: talkContestants,
	}
	for _, n := range sessionWriters {
		table := fmt.Sprintf("%d writers", n)
		if n == 1 {
			table = "1 writer"
		}
		w.Metrics = append(w.Metrics,
			harness.Metric{Name: sessionMetric("appends_per_second", n), Head: "appends/s", Timed: true, Table: table},
			harness.Metric{Name: sessionMetric("cpu_us", n), Head: "CPU µs", Digits: 1, Timed: true, Table: table},
			harness.Metric{Name: sessionMetric("p50_us", n), Head: "p50 µs", Timed: true, Table: table},
			harness.Metric{Name: sessionMetric("p99_us", n), Head: "p99 µs", Timed: true, Table: table},
		)
	}
	long := "long sessions"
	w.Metrics = append(w.Metrics,
		harness.Metric{Name: "value_bytes", Head: "bytes a value", Table: "size"},
		harness.Metric{Name: "window_us", Head: "window p50 µs", Digits: 1, Table: long},
		harness.Metric{Name: "window_p99_us", Head: "p99 µs", Digits: 1, Table: long},
		harness.Metric{Name: "page_us", Head: "page p50 µs", Digits: 1, Table: long},
		harness.Metric{Name: "page_p99_us", Head: "p99 µs", Digits: 1, Table: long},
		harness.Metric{Name: "save_s", Head: "save s", Digits: 2, Table: long},
		harness.Metric{Name: "save_commits", Head: "commits", Table: long},
		harness.Metric{Name: "beside_ms", Head: "longest append beside ms", Digits: 1, Table: long},
	)
	return w
}

func sessionMetric(name string, writers int) string { return fmt.Sprintf("%s_w%d", name, writers) }

func talkContestants(env *harness.Env) ([]harness.Contestant, error) {
	openers := []peer.StoreOpener{{Name: "memdb", Open: openTalk}}
	for _, o := range peer.Stores() {
		if o.Name == "pebble" {
			openers = append(openers, o)
		}
	}
	var list []harness.Contestant
	for i, o := range openers {
		list = append(list, harness.Contestant{
			Name: o.Name, Baseline: i == 0, Missing: o.Missing,
			Open: func(context.Context) (harness.Runner, error) { return &talkRun{env: env, opener: o}, nil },
		})
	}
	return list, nil
}

// talkStore appends to a session for each scope.
type talkStore struct{ db *engine.DB }

func openTalk(dir string, _, _ int) (peer.Store, error) {
	db, err := engine.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	return talkStore{db}, nil
}

// Put appends a record to the session of its scope.
func (m talkStore) Put(ctx context.Context, r *peer.Record) error {
	done, err := m.db.Sessions().Append(ctx, memory.Owner{Agent: "support"}, r.Scope, []sessions.Message{{Text: r.Text}}, nil)
	if err == nil && !done[0].Stored {
		err = fmt.Errorf("message %d was taken for %s", r.Number, done[0].MemoryID)
	}
	return err
}

func (m talkStore) Close() error { return m.db.Close() }

// talkRun appends with one engine.
type talkRun struct {
	env    *harness.Env
	opener peer.StoreOpener
	words  []string
}

// Close has nothing to do: Round closes what it opens.
func (r *talkRun) Close() error { return nil }

// Round appends with each number of writers; memdb then reads and saves long sessions.
func (r *talkRun) Round(ctx context.Context) (harness.Sample, error) {
	r.words = make([]string, sessionWords)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range r.words {
		word := make([]byte, 2+rng.IntN(8))
		for j := range word {
			word[j] = byte('a' + rng.IntN(26))
		}
		r.words[i] = string(word)
	}
	size, err := r.weigh(ctx)
	if err != nil {
		return nil, err
	}
	sample := harness.Sample{"value_bytes": float64(size)}
	for _, writers := range sessionWriters {
		if err := r.append(ctx, sample, writers, size); err != nil {
			return nil, err
		}
	}
	if r.opener.Name == "memdb" {
		err = r.long(ctx, sample)
	}
	return sample, err
}

// text is that of a message: words that are as often as those of a language.
func (r *talkRun) text(number uint64) string {
	rng := rand.New(rand.NewPCG(number, 3))
	zipf := rand.NewZipf(rng, 1.1, 10, sessionWords-1)
	var b strings.Builder
	b.Grow(sessionText + 16)
	fmt.Fprint(&b, number)
	for b.Len() < sessionText {
		b.WriteByte(' ')
		b.WriteString(r.words[zipf.Uint64()])
	}
	return b.String()
}

// append appends for the time that was asked for and adds what it saw to sample.
func (r *talkRun) append(ctx context.Context, sample harness.Sample, writers, size int) (err error) {
	dir, err := r.env.Fresh("sessions-" + r.opener.Name)
	if err != nil {
		return err
	}
	x, err := r.opener.Open(dir, writers, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close(), os.RemoveAll(dir)) }()
	texts := make([]string, 8192) // made before: it is not what is measured
	for i := range texts {
		texts[i] = r.text(uint64(i))
	}
	times, failed := make([]harness.Latencies, writers), make([]error, writers)
	var next atomic.Uint64
	var all sync.WaitGroup
	meter, began := harness.StartMeter(), time.Now()
	end := began.Add(time.Duration(cmp.Or(r.env.Seconds, sessionSeconds) * float64(time.Second)))
	for w := range writers {
		all.Go(func() {
			for failed[w] == nil && time.Now().Before(end) {
				n := next.Add(1)
				record := peer.Record{Number: n, Scope: fmt.Sprint("s", w), Text: fmt.Sprint(n, " ", texts[n%uint64(len(texts))])}
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
	meter.Record(sample, sessionMetric("cpu_us", writers), merged.Len())
	sample[sessionMetric("appends_per_second", writers)] = float64(merged.Len()) / elapsed.Seconds()
	sample[sessionMetric("p50_us", writers)] = merged.Percentile(0.5)
	sample[sessionMetric("p99_us", writers)] = merged.Percentile(0.99)
	return errors.Join(failed...)
}

// weigh appends in memory, and returns how many bytes of log memdb writes for each message.
func (r *talkRun) weigh(ctx context.Context) (int, error) {
	fs := vfs.NewMem()
	db, err := engine.Open(fsys.On(fs, "memdb"), nil)
	if err != nil {
		return 0, err
	}
	before, err := logBytes(fs)
	for i := uint64(0); i < sessionWeighed && err == nil; i++ {
		err = talkStore{db}.Put(ctx, &peer.Record{Number: i, Scope: "s", Text: fmt.Sprint(i, " ", r.text(i))})
	}
	if err != nil {
		return 0, errors.Join(err, db.Close())
	}
	after, err := logBytes(fs)
	return int(after-before) / sessionWeighed, errors.Join(err, db.Close())
}

// long measures what takes long only where it reads more than it must.
func (r *talkRun) long(ctx context.Context, sample harness.Sample) (err error) {
	dir, err := r.env.Fresh("sessions-long")
	if err != nil {
		return err
	}
	db, err := engine.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(), os.RemoveAll(dir)) }()
	n := cmp.Or(r.env.N, sessionMany)
	talker, many := memory.Owner{Agent: "support"}, memory.Owner{Agent: "many"}
	if err := r.fill(ctx, db, talker, many, n); err != nil {
		return err
	}
	window := func() error {
		l, err := db.Sessions().Load(ctx, talker, "long", nil)
		if err == nil && len(l.Messages) != min(n, sessions.DefaultWindow) {
			err = fmt.Errorf("a window of %d messages", len(l.Messages))
		}
		return err
	}
	page := func() error {
		p, err := db.Sessions().List(ctx, sessions.Query{Owner: many})
		if err == nil && len(p.Sessions) != min(n, 100) {
			err = fmt.Errorf("a page of %d sessions", len(p.Sessions))
		}
		return err
	}
	if err := ask(sample, "window", window); err != nil {
		return err
	}
	if err := ask(sample, "page", page); err != nil {
		return err
	}
	return r.save(ctx, db, sample, n)
}

// ask times many calls.
func ask(sample harness.Sample, name string, call func() error) error {
	var times harness.Latencies
	for range sessionAsked {
		start := time.Now()
		if err := call(); err != nil {
			return err
		}
		times.Add(time.Since(start))
	}
	sample[name+"_us"], sample[name+"_p99_us"] = times.Percentile(0.5), times.Percentile(0.99)
	return nil
}

// fill makes a session of n messages with their memories, and n sessions of one message.
func (r *talkRun) fill(ctx context.Context, db *engine.DB, talker, many memory.Owner, n int) error {
	for from := 0; from < n; from += sessionFill {
		err := db.Update(ctx, func(tx *engine.Tx) error {
			var some []sessions.Message
			for i := from; i < min(n, from+sessionFill); i++ {
				some = append(some, sessions.Message{Text: fmt.Sprintf("%d %.200s", i, r.text(uint64(i)))})
				one := []sessions.Message{{Text: "hello"}}
				if _, err := tx.Sessions().Append(ctx, many, fmt.Sprint("s", i), one, &sessions.AppendOptions{NoMemory: true}); err != nil {
					return err
				}
			}
			_, err := tx.Sessions().Append(ctx, talker, "long", some, nil)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// save saves a session of n messages over another, while somebody appends to a third.
func (r *talkRun) save(ctx context.Context, db *engine.DB, sample harness.Sample, n int) error {
	saver := memory.Owner{Agent: "saver"}
	items := make([]sessions.Item, n)
	for i := range items {
		items[i] = sessions.Item{Message: &sessions.Message{ID: fmt.Sprint(i), Role: "user", Text: fmt.Sprintf("%d %.200s", i, r.text(uint64(i)))}}
	}
	if _, err := db.Sessions().Save(ctx, saver, "saved", items[:1], nil); err != nil {
		return err
	}
	stop, beside := make(chan struct{}), make(chan error, 1)
	var longest time.Duration
	appended := uint64(0)
	before := db.LSN()
	go func() {
		for {
			select {
			case <-stop:
				beside <- nil
				return
			default:
			}
			start := time.Now()
			_, err := db.Sessions().Append(ctx, saver, "beside", []sessions.Message{{Text: "hello"}}, &sessions.AppendOptions{NoMemory: true})
			if err != nil {
				beside <- err
				return
			}
			appended++
			longest = max(longest, time.Since(start))
		}
	}()
	start := time.Now()
	saved, err := db.Sessions().Save(ctx, saver, "saved", items, nil)
	took := time.Since(start)
	close(stop)
	if err = errors.Join(err, <-beside); err == nil && saved != n {
		err = fmt.Errorf("%d messages were saved, of %d", saved, n)
	}
	sample["save_s"], sample["save_commits"] = took.Seconds(), float64(db.LSN()-before-appended)
	sample["beside_ms"] = float64(longest) / float64(time.Millisecond)
	return err
}
