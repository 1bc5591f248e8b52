package jetstream_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	nats "github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/jetstream"
)

var (
	killRounds  = flag.Int("kill.rounds", 4, "rounds of TestKill")
	killWriters = flag.Int("kill.writers", 32, "writers of TestKill")
	killKinds   = flag.String("kill.kinds", "owner,pause of the owner,follower,owner and leader,leader,two servers,all servers", "what TestKill kills, in turn")
)

// told is what the nodes have said.
type told struct {
	mu    sync.Mutex
	acked []string // in the order of their telling
	owner string
	since time.Time // when something was acknowledged last
	opens []string
}

func (o *told) hear(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "ACK":
		o.acked = append(o.acked, rest)
		o.since = time.Now()
	case "OWNS":
		o.owner, _, _ = strings.Cut(rest, " ")
		o.opens = append(o.opens, rest)
	}
}

func (o *told) now() (n int, owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.acked), o.owner
}

func (o *told) opened() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.opens)
}

// openedSince tells of the newest opening, if there was one behind so many.
func (o *told) openedSince(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.opens) == n {
		return ""
	}
	_, ms, _ := strings.Cut(o.opens[len(o.opens)-1], " ")
	return ", of which bringing up the folder took " + ms + " ms"
}

// await waits for so many more acknowledgements.
func (o *told) await(t *testing.T, more int) time.Duration {
	t.Helper()
	began := time.Now()
	from, _ := o.now()
	for limit := began.Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if n, _ := o.now(); n >= from+more {
			return time.Since(began)
		}
		if time.Now().After(limit) {
			t.Fatal("nothing is acknowledged any more")
		}
	}
}

// leader is the number of the server that leads the log of shard 0, -1 if none is known.
func (s *servers) leader(ctx context.Context) int {
	url, _ := jetstream.URLs(password, s.addresses...)
	nc, err := nats.Connect(url)
	if err != nil {
		return -1
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err != nil {
		return -1
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, "memdb-log-0")
	if err != nil || stream.CachedInfo().Cluster == nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimPrefix(stream.CachedInfo().Cluster.Leader, "n"))
	if err != nil {
		return -1
	}
	return n
}

// TestKill kills processes again and again, with what they hold, while the owner of a shard is written to: nothing
// that was acknowledged is lost, nothing is there twice, and the order of each writer is kept.
//
// The gate runs four rounds; -kill.rounds=63 goes through all kinds nine times.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	s := newServers(t, dir, false)
	b := s.connect()
	o := &told{}
	nodes := map[string]*process{}
	run := func(name string) {
		nodes[name] = start(t, name, strings.Join([]string{"node", name, filepath.Join(dir, name), strings.Join(s.addresses, ","), strconv.Itoa(*killWriters), strconv.FormatBool(s.seldom)}, "|"), o.hear)
	}
	run("a")
	run("b")
	o.await(t, 100)
	kinds := strings.Split(*killKinds, ",")
	rng := rand.New(rand.NewPCG(uint64(*killRounds), 7))
	for round := range *killRounds {
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		leader := s.leader(t.Context())
		if leader < 0 {
			leader = rng.IntN(3)
		}
		_, owner := o.now()
		kind := kinds[round%len(kinds)]
		var down []int
		switch kind {
		case "follower":
			down = []int{(leader + 1) % 3}
		case "leader", "owner and leader":
			down = []int{leader}
		case "two servers":
			down = []int{leader, (leader + 1) % 3}
		case "all servers":
			down = []int{0, 1, 2}
		}
		began := time.Now()
		for _, i := range down {
			s.all[i].kill()
		}
		paused := kind == "pause of the owner"
		switch {
		case strings.HasPrefix(kind, "owner"):
			nodes[owner].kill()
		case paused:
			nodes[owner].signal(t, syscall.SIGSTOP)
		}
		if len(down) > 1 { // without a majority nothing is written
			time.Sleep(time.Second)
			for _, i := range down {
				s.start(i)
			}
			down = nil
		}
		opened := o.opened()
		o.await(t, 50)
		t.Logf("round %d: %s killed; writes go on after %.1f s%s", round, kind, time.Since(began).Seconds(), o.openedSince(opened))
		for _, i := range down {
			s.start(i)
		}
		switch {
		case strings.HasPrefix(kind, "owner"):
			run(owner)
		case paused:
			nodes[owner].signal(t, syscall.SIGCONT)
		}
		settled(t, s)
	}
	for _, p := range nodes {
		p.kill()
	}
	time.Sleep(100 * time.Millisecond) // what they have said is heard
	judge(t, b, filepath.Join(dir, "judge"), o)
}

// settled waits until the log and the leases have all their replicas again, so that the next round kills one of three.
func settled(t *testing.T, s *servers) {
	t.Helper()
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
		url, _ := jetstream.URLs(password, s.addresses...)
		nc, err := nats.Connect(url)
		if err != nil {
			continue
		}
		whole := false
		if js, err := natsjs.New(nc); err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			whole = replicated(ctx, js, "memdb-log-0") && replicated(ctx, js, "KV_memdb-leases")
			cancel()
		}
		nc.Close()
		if whole {
			return
		}
	}
	t.Fatal("the servers do not have all replicas again")
}

// replicated reports whether a stream has a leader and two who follow it.
func replicated(ctx context.Context, js natsjs.JetStream, name string) bool {
	stream, err := js.Stream(ctx, name)
	if err != nil || stream.CachedInfo().Cluster == nil {
		return false
	}
	c := stream.CachedInfo().Cluster
	whole := c.Leader != "" && len(c.Replicas) == 2
	for _, r := range c.Replicas {
		whole = whole && r.Current && !r.Offline
	}
	return whole
}

// judge opens the shard with nothing but its log, and compares it with what was acknowledged.
func judge(t *testing.T, b cluster.Backend, dir string, o *told) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := owned(ctx, shardOptions(b, "judge", dir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	db, done, err := s.Use(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	there, next := map[string]int{}, map[string]int{}
	for m, err := range db.Memories().All(ctx, memory.ListQuery{Scope: ada}) {
		if err != nil {
			t.Fatal(err)
		}
		there[m.Text]++
		writer, number, _ := strings.Cut(m.Text, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		if n < next[writer] {
			t.Errorf("%s comes behind %d", m.Text, next[writer]-1)
		}
		next[writer] = n + 1
	}
	lost, twice := 0, 0
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, text := range o.acked {
		switch there[text] {
		case 0:
			lost++
		case 1:
		default:
			twice++
		}
	}
	report, err := db.CheckDeep(ctx)
	if err != nil || !report.OK {
		t.Errorf("check: %+v, %v", report, err)
	}
	v, err := s.Verify(ctx)
	if err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
	t.Logf("%d acknowledged, %d lost, %d twice; %d memories; openings (node, ms): %s", len(o.acked), lost, twice, len(there), fmt.Sprint(o.opens))
	if lost > 0 || twice > 0 || len(o.acked) == 0 {
		t.Errorf("%d lost, %d twice of %d", lost, twice, len(o.acked))
	}
}
