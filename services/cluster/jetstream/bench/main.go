// Bench measures a shard over three servers of JetStream, each a process of its own, beside a database with its
// own sync, on one machine in one run:
//
//	go -C services/cluster/jetstream run ./bench -seconds 5
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/jetstream"
)

const (
	roleEnv  = "MEMDB_BENCH_SERVER"
	password = "bench"
	dim      = 384
	textSize = 1000
)

func main() {
	if role := os.Getenv(roleEnv); role != "" {
		a := strings.Split(role, "|")
		must(jetstream.Serve(context.Background(), jetstream.ServerOptions{Name: a[0], Dir: a[1], Listen: a[2], ClusterListen: a[3], Routes: strings.Split(a[4], ","), Password: password}))
		return
	}
	seconds := flag.Int("seconds", 5, "length of each measurement")
	rounds := flag.Int("rounds", 2, "how often each is done, in turn")
	flag.Parse()
	dir, err := os.MkdirTemp("", "memdb-cluster-bench")
	must(err)
	defer func() { must(os.RemoveAll(dir)) }()
	b := &bench{out: os.Stdout, dir: dir, span: time.Duration(*seconds) * time.Second, id: uuid.NewString()}
	stop := b.startServers()
	defer stop()
	b.backend = b.connect()
	for round := range *rounds {
		b.compare(round)
	}
	b.handOver()
	b.catchUp()
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type bench struct {
	out       io.Writer
	dir       string
	span      time.Duration
	id        string
	addresses []string
	backend   *jetstream.Backend
	shards    int // that were used
	servers   []*exec.Cmd
}

// cpu is what processes have taken of the processors.
type cpu struct{ own, servers time.Duration }

// taken is what this process and the servers have taken so far.
func (b *bench) taken() (c cpu) {
	var own syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &own))
	c.own = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	for _, s := range b.servers {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Process.Pid))
		must(err)
		_, fields, _ := strings.Cut(string(stat), ") ") // behind the name, from the third on
		f := strings.Fields(fields)
		for _, ticks := range f[11:13] { // of the user and of the system, a hundred a second
			n, err := strconv.Atoi(ticks)
			must(err)
			c.servers += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return c
}

const shards = 64

// startServers starts three processes.
func (b *bench) startServers() (stop func()) {
	ports := make([]string, 6)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(err)
		ports[i] = l.Addr().String()
		must(l.Close())
	}
	b.addresses = ports[:3]
	for i := range 3 {
		cmd := exec.Command(os.Args[0])
		name := fmt.Sprint("n", i)
		cmd.Env = append(os.Environ(), roleEnv+"="+strings.Join([]string{name, filepath.Join(b.dir, name), ports[i], ports[3+i], strings.Join(ports[3:], ",")}, "|"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd.Stderr = os.Stderr
		must(cmd.Start())
		b.servers = append(b.servers, cmd)
	}
	return func() {
		for _, cmd := range b.servers {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
}

func (b *bench) connect() *jetstream.Backend {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	o := jetstream.Options{}
	o.URL, o.SystemURL = jetstream.URLs(password, b.addresses...)
	for {
		c, err := jetstream.Connect(ctx, o)
		if err == nil {
			return c
		}
		if !errors.Is(err, cluster.ErrUnavailable) {
			must(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (b *bench) options(shard int, node string) cluster.ShardOptions {
	return cluster.ShardOptions{
		Backend: b.backend, Cluster: b.id, Number: shard, Shards: shards, Node: node, Dir: filepath.Join(b.dir, fmt.Sprint("shard-", shard, "-", node)),
		SnapshotBytes: 4 << 30,
	}
}

func (b *bench) newShard() *cluster.Shard {
	s, err := cluster.OpenShard(context.Background(), b.options(b.shards, "a"))
	must(err)
	b.shards++
	return s
}

// used is the database of a shard.
func used(s *cluster.Shard) *engine.DB {
	db, done, err := s.Use(context.Background())
	must(err)
	done()
	return db
}

var words = func() (w []string) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := make([]byte, 3+rng.IntN(7))
		for i := range b {
			b[i] = byte('a' + rng.IntN(26))
		}
		w = append(w, string(b))
	}
	return w
}()

func newMemory(rng *rand.Rand) memory.Memory {
	var text strings.Builder
	for text.Len() < textSize {
		text.WriteString(words[int(float64(len(words))*rng.Float64()*rng.Float64()*rng.Float64())])
		text.WriteByte(' ')
	}
	m := memory.Memory{Scope: scope.Scope{User: fmt.Sprint("u", rng.IntN(100)), Agent: "a"}, Text: text.String(), Embedding: make([]float32, dim)}
	for i := range m.Embedding {
		m.Embedding[i] = rng.Float32() - .5
	}
	return m
}

// fill stores for a span, or so many, from some callers, and returns how many a second, and the median of a call.
func fill(db *engine.DB, callers int, span time.Duration, most int64) (perSecond float64, p50 time.Duration) {
	var (
		n    atomic.Int64
		mu   sync.Mutex
		took []time.Duration
		work sync.WaitGroup
	)
	began := time.Now()
	for c := range callers {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 7))
			var mine []time.Duration
			for span > 0 && time.Since(began) < span || most > 0 && n.Add(1) <= most {
				m, t := newMemory(rng), time.Now()
				_, err := db.Memories().Store(context.Background(), m, nil)
				must(err)
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	work.Wait()
	slices.Sort(took)
	return float64(len(took)) / time.Since(began).Seconds(), took[len(took)/2]
}

// publish sends messages of a size as an owner does, one in flight, and returns the median of a round.
func (b *bench) publish(size int, span time.Duration) time.Duration {
	l, err := b.backend.Log(context.Background(), b.shards)
	must(err)
	b.shards++
	data := make([]byte, size)
	var took []time.Duration
	for began := time.Now(); time.Since(began) < span; {
		t := time.Now()
		_, err := l.Append(context.Background(), fmt.Sprint(len(took)), data, uint64(len(took)))
		must(err)
		took = append(took, time.Since(t))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// recall is the median of recalls by text and vector.
func recall(db *engine.DB, n int) time.Duration {
	rng := rand.New(rand.NewPCG(3, 3))
	var took []time.Duration
	for range n {
		m := newMemory(rng)
		q := memory.Query{Scope: m.Scope, Text: words[rng.IntN(200)] + " " + words[rng.IntN(200)], Embedding: m.Embedding, Limit: 10}
		t := time.Now()
		_, err := db.Memories().Recall(context.Background(), q)
		must(err)
		took = append(took, time.Since(t))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// compare measures a database with its own sync and a shard, one after the other: each is closed before the other
// is opened, so that neither links its vectors beside the other.
func (b *bench) compare(round int) {
	plain, err := engine.Open(filepath.Join(b.dir, fmt.Sprint("plain-", round)), nil)
	must(err)
	ownOne, ownP50 := fill(plain, 1, b.span, 0)
	ownMany, _ := fill(plain, 64, b.span, 0)
	must(plain.Close())
	s := b.newShard()
	before := s.Status()
	logOne, logP50 := fill(used(s), 1, b.span, 0)
	after := s.Status()
	size := int((after.Bytes - before.Bytes) / max(1, after.Publishes-before.Publishes))
	before = after
	cpuBefore := b.taken()
	logMany, _ := fill(used(s), 64, b.span, 0)
	cpuAfter := b.taken()
	after = s.Status()
	n := max(1, after.Publishes-before.Publishes)
	must(s.Close())
	bare := b.publish(size, b.span/2)
	grouped := (after.Bytes - before.Bytes) / n
	bareGrouped := b.publish(int(grouped), b.span/2)
	fmt.Fprintf(b.out, "1 writer: own sync %.0f/s p50 %v; log %.0f/s p50 %v; a bare message of %d bytes p50 %v: %.2f of it\n", ownOne, ownP50.Round(time.Microsecond), logOne, logP50.Round(time.Microsecond), size, bare.Round(time.Microsecond), float64(logP50)/float64(bare))
	fmt.Fprintf(b.out, "64 writers: own sync %.0f/s; log %.0f/s: %.2f of it; messages of %d bytes, %v each, where a bare one takes %v\n", ownMany, logMany, logMany/ownMany, grouped, time.Duration((after.PublishMicros-before.PublishMicros)/n)*time.Microsecond, bareGrouped.Round(time.Microsecond))
	own, servers := cpuAfter.own-cpuBefore.own, cpuAfter.servers-cpuBefore.servers
	fmt.Fprintf(b.out, "64 writers over the log: %v of processors for this process, %v for the servers: %.2f of all\n", own.Round(time.Millisecond), servers, float64(servers)/float64(own+servers))
	b.recalls(round)
}

// recalls compares recalls of so many memories each.
func (b *bench) recalls(round int) {
	const memories = 5000
	plain, err := engine.Open(filepath.Join(b.dir, fmt.Sprint("recalled-", round)), nil)
	must(err)
	s := b.newShard()
	fill(plain, 64, 0, memories)
	fill(used(s), 64, 0, memories)
	must(errors.Join(plain.WaitIndexed(context.Background()), used(s).WaitIndexed(context.Background())))
	recall(plain, 100)
	recall(used(s), 100)
	a, c := recall(plain, 500), recall(used(s), 500)
	fmt.Fprintf(b.out, "recall of %d memories: own %v; owner %v: %.2f of it\n", memories, a.Round(time.Microsecond), c.Round(time.Microsecond), float64(c)/float64(a))
	must(errors.Join(plain.Close(), s.Close()))
}

// handOver moves the last shard to another machine, which has caught up, while it is written to.
func (b *bench) handOver() {
	ctx, n := context.Background(), b.shards-1
	s, err := cluster.OpenShard(ctx, b.options(n, "a"))
	must(err)
	for _, node := range []string{"b", "a", "b"} {
		standby, err := cluster.Follow(ctx, b.options(n, node))
		must(err)
		must(standby.CatchUp(ctx))
		fill(used(s), 16, b.span/2, 0)
		must(standby.CatchUp(ctx))
		t := time.Now()
		must(s.StepDown(ctx))
		down := time.Since(t)
		next, err := standby.Own(ctx)
		must(err)
		_, err = used(next).Memories().Store(ctx, newMemory(rand.New(rand.NewPCG(9, 9))), nil)
		must(err)
		fmt.Fprintf(b.out, "hand-over of %d memories: %v without writes (stepping down %v, from the lease to the first call %d ms)\n", used(next).LSN(), time.Since(t).Round(time.Millisecond), down.Round(time.Millisecond), next.Status().OpenedMS)
		s = next
	}
	must(s.Close())
}

// catchUp makes the folder of the last shard of nothing but its log.
func (b *bench) catchUp() {
	ctx, n := context.Background(), b.shards-1
	t := time.Now()
	standby, err := cluster.Follow(ctx, b.options(n, "c"))
	must(err)
	must(standby.CatchUp(ctx))
	caught := time.Since(t)
	bytes := standby.Applied()
	s, err := standby.Own(ctx)
	must(err)
	fmt.Fprintf(b.out, "catch-up: %.1f MB of batches in %v: %.0f MB/s; owned and open %v after the beginning\n", float64(bytes)/1e6, caught.Round(time.Millisecond), float64(bytes)/1e6/caught.Seconds(), time.Since(t).Round(time.Millisecond))
	must(s.Close())
}
