package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/native"
)

const (
	// serverClients ask at once.
	serverClients = 16
	// serverSeconds is how long each kind of call is made in a round.
	serverSeconds = 3
	// serverMemories are there, serverOwner of each owner.
	serverMemories = 20_000
	serverOwner    = 1_000
	serverText     = 300
)

// serve compares calls over HTTP with the same calls in the process, by as many clients.
func serve() *harness.Workload {
	w := &harness.Workload{
		Name:        "server",
		Summary:     fmt.Sprintf("recalls, reads and stores by %d clients: in the process, and over HTTP on this machine", serverClients),
		WarmUp:      1,
		Contestants: serverContestants,
	}
	for _, call := range serverCalls {
		w.Metrics = append(w.Metrics,
			harness.Metric{Name: call.name + "_per_second", Head: "calls/s", Timed: true, Table: call.name},
			harness.Metric{Name: call.name + "_p50_us", Head: "p50 µs", Timed: true, Table: call.name},
			harness.Metric{Name: call.name + "_p99_us", Head: "p99 µs", Timed: true, Table: call.name},
		)
	}
	return w
}

// serverCalls are what clients ask for, by the number of the call.
var serverCalls = []struct {
	name string
	make func(r *serverRun, ctx context.Context, n int) error
}{
	{"recall", func(r *serverRun, ctx context.Context, n int) error {
		return r.caller.recall(ctx, r.owner(n), r.queries[n%len(r.queries)])
	}},
	{"get", func(r *serverRun, ctx context.Context, n int) error {
		return r.caller.get(ctx, r.owner(n), fmt.Sprint(n%serverMemories))
	}},
	{"store", func(r *serverRun, ctx context.Context, n int) error {
		id := r.next.Add(1)
		return r.caller.store(ctx, "writer", fmt.Sprint("new ", id), cut(r.source.record(uint64(serverMemories)+id).Text, serverText))
	}},
}

// caller is one way to make a call.
type caller interface {
	recall(ctx context.Context, user, query string) error
	get(ctx context.Context, user, id string) error
	store(ctx context.Context, user, id, text string) error
}

func serverContestants(env *harness.Env) ([]harness.Contestant, error) {
	path, err := env.Path(corpusFile)
	if err != nil {
		return nil, err
	}
	source, err := newRecords(path)
	if err != nil {
		return nil, err
	}
	queries, err := readQueries(env)
	if err != nil {
		return nil, err
	}
	open := func(name string, over bool) harness.Contestant {
		return harness.Contestant{Name: name, Baseline: !over, Open: func(ctx context.Context) (harness.Runner, error) {
			return openServer(ctx, env, name, source, queries, over)
		}}
	}
	return []harness.Contestant{open("in process", false), open("memdbd", true)}, nil
}

// serverRun is a database and a way to call it.
type serverRun struct {
	db      *engine.DB
	caller  caller
	source  *records
	queries []string
	seconds float64
	next    atomic.Uint64
	end     func() error
}

func openServer(ctx context.Context, env *harness.Env, name string, source *records, queries []string, over bool) (_ harness.Runner, err error) {
	dir, err := env.Fresh("server-" + name)
	if err != nil {
		return nil, err
	}
	db, err := engine.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	r := &serverRun{db: db, source: source, queries: queries, seconds: serverSeconds, caller: inProcess{db}, end: func() error { return nil }}
	if env.Seconds > 0 {
		r.seconds = env.Seconds
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for from := 0; from < serverMemories; from += scaleBatch {
		var batch []memory.Memory
		for n := from; n < min(from+scaleBatch, serverMemories); n++ {
			batch = append(batch, memory.Memory{ID: fmt.Sprint(n), Scope: memory.Scope{User: r.owner(n)}, Text: cut(source.record(uint64(n)).Text, serverText)})
		}
		if _, err := db.Memories().StoreBatch(ctx, batch, nil); err != nil {
			return nil, err
		}
	}
	if over {
		err = r.listen(ctx)
	}
	return r, err
}

// owner is whose memory a number is.
func (r *serverRun) owner(n int) string { return fmt.Sprint("user ", n%(serverMemories/serverOwner)) }

// listen serves the database on a loopback address.
func (r *serverRun) listen(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := server.New(r.db, server.Options{})
	s.Mount(native.New())
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: serverClients}}
	r.caller = &overHTTP{client: client, base: "http://" + l.Addr().String() + "/memdb/v1"}
	r.end = func() error {
		client.CloseIdleConnections()
		cancel()
		return <-ended
	}
	return nil
}

// Round makes each kind of call for a while.
func (r *serverRun) Round(ctx context.Context) (harness.Sample, error) {
	sample := harness.Sample{}
	for _, call := range serverCalls {
		var all [serverClients][]time.Duration
		var errs [serverClients]error
		var clients sync.WaitGroup
		begun := time.Now()
		for c := range serverClients {
			clients.Go(func() {
				for n := c; time.Since(begun).Seconds() < r.seconds && errs[c] == nil; n += serverClients {
					at := time.Now()
					errs[c] = call.make(r, ctx, n)
					all[c] = append(all[c], time.Since(at))
				}
			})
		}
		clients.Wait()
		took := time.Since(begun)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		times := slices.Concat(all[:]...)
		slices.Sort(times)
		sample[call.name+"_per_second"] = float64(len(times)) / took.Seconds()
		sample[call.name+"_p50_us"] = float64(times[len(times)/2].Microseconds())
		sample[call.name+"_p99_us"] = float64(times[len(times)*99/100].Microseconds())
	}
	return sample, nil
}

func (r *serverRun) Close() error { return errors.Join(r.end(), r.db.Close()) }

// inProcess calls the database itself.
type inProcess struct{ db *engine.DB }

func (p inProcess) recall(ctx context.Context, user, query string) error {
	_, err := p.db.Memories().Recall(ctx, memory.Query{Scope: memory.Scope{User: user}, Text: query, Limit: 10})
	return err
}

func (p inProcess) get(ctx context.Context, user, id string) error {
	_, err := p.db.Memories().Get(ctx, memory.Scope{User: user}, id)
	return err
}

func (p inProcess) store(ctx context.Context, user, id, text string) error {
	_, err := p.db.Memories().Store(ctx, memory.Memory{ID: id, Scope: memory.Scope{User: user}, Text: text}, nil)
	return err
}

// overHTTP calls a server.
type overHTTP struct {
	client *http.Client
	base   string
}

func (o *overHTTP) call(ctx context.Context, method, path string, body any) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, o.base+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	reply, err := o.client.Do(r)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(reply.Body)
	if err = errors.Join(err, reply.Body.Close()); err == nil && reply.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %s: %s", method, path, reply.Status, got)
	}
	return err
}

func (o *overHTTP) recall(ctx context.Context, user, query string) error {
	return o.call(ctx, http.MethodPost, "/recall", map[string]any{"user": user, "query": query, "limit": 10})
}

func (o *overHTTP) get(ctx context.Context, user, id string) error {
	return o.call(ctx, http.MethodGet, "/memories/"+id+"?user="+url.QueryEscape(user), nil)
}

func (o *overHTTP) store(ctx context.Context, user, id, text string) error {
	return o.call(ctx, http.MethodPost, "/memories", map[string]any{"id": id, "user": user, "text": text})
}
