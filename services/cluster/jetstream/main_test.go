package jetstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/jetstream"
)

const (
	clusterID = "6f1c0a52-3f54-4f6e-9a3b-0a4f5f0c9d11"
	password  = "secret"
	roleEnv   = "MEMDB_JETSTREAM_ROLE"
	// patience is how long a test waits for what must come: three servers that sync each write share a disk with all
	// else.
	patience = 4 * time.Minute
)

// TestMain is also the main of the processes that tests start.
func TestMain(m *testing.M) {
	switch args := strings.Split(os.Getenv(roleEnv), "|"); args[0] {
	case "server":
		o := jetstream.ServerOptions{Name: args[1], Dir: args[2], Listen: args[3], ClusterListen: args[4], Routes: strings.Split(args[5], ","), Password: password, SyncSeldom: args[6] == "true"}
		die(jetstream.Serve(context.Background(), o))
	case "node":
		die(runNode(args[1], args[2], strings.Split(args[3], ","), args[4], args[5] == "true"))
	default:
		os.Exit(m.Run())
	}
}

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process is one that a test has started.
type process struct {
	name string
	cmd  *exec.Cmd
}

func (p *process) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// start starts a process of this binary.
func start(t testing.TB, name, role string, lines func(string)) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	var done sync.WaitGroup
	if lines != nil {
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		done.Go(func() {
			for s := bufio.NewScanner(out); s.Scan(); {
				lines(s.Text())
			}
		})
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{name: name, cmd: cmd}
	t.Cleanup(func() {
		p.kill()
		done.Wait()
	})
	return p
}

// servers are three processes.
type servers struct {
	t         testing.TB
	dir       string
	seldom    bool
	addresses []string
	routes    []string
	all       [3]*process
}

// freePorts are addresses that nobody listens at.
func freePorts(t testing.TB, n int) (addresses []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

func newServers(t testing.TB, dir string, seldom bool) *servers {
	ports := freePorts(t, 6)
	s := &servers{t: t, dir: dir, seldom: seldom, addresses: ports[:3], routes: ports[3:]}
	for i := range s.all {
		s.start(i)
	}
	return s
}

func (s *servers) start(i int) {
	name := fmt.Sprint("n", i)
	s.all[i] = start(s.t, name, strings.Join([]string{"server", name, filepath.Join(s.dir, name), s.addresses[i], s.routes[i], strings.Join(s.routes, ","), strconv.FormatBool(s.seldom)}, "|"), nil)
}

// connect waits for the servers.
func (s *servers) connect() *jetstream.Backend {
	s.t.Helper()
	b, err := connect(s.t.Context(), s.addresses, s.seldom)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = b.Close() })
	return b
}

func connect(ctx context.Context, addresses []string, insecure bool) (*jetstream.Backend, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := jetstream.Options{Insecure: insecure}
	o.URL, o.SystemURL = jetstream.URLs(password, addresses...)
	for {
		b, err := jetstream.Connect(ctx, o)
		if err == nil || ctx.Err() != nil || !errors.Is(err, cluster.ErrUnavailable) {
			return b, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func shardOptions(b cluster.Backend, node, dir string) cluster.ShardOptions {
	return cluster.ShardOptions{
		Backend: b, Cluster: clusterID, Number: 0, Shards: 4, Node: node, Dir: dir,
		Engine: &engine.Options{MemoryBudget: 64 << 20}, Logger: logger(),
	}
}

// logger tells what shards do by themselves, where it is asked for.
func logger() *slog.Logger {
	if os.Getenv("MEMDB_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("pid", os.Getpid())
}

// owned opens the shard once nobody else holds it.
func owned(ctx context.Context, o cluster.ShardOptions) (*cluster.Shard, error) {
	for {
		s, err := cluster.OpenShard(ctx, o)
		if err == nil || !errors.Is(err, cluster.ErrHeld) && !errors.Is(err, cluster.ErrUnavailable) && !errors.Is(err, memory.ErrNotOwner) && !errors.Is(err, memory.ErrUnavailable) {
			return s, err
		}
		if o.Logger != nil && !errors.Is(err, cluster.ErrHeld) {
			o.Logger.Info("a shard could not be opened, and is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ada is who the memories are of.
var ada = scope.Scope{User: "ada"}

// runNode is a process that owns the shard whenever it can, and writes to it by some writers. It tells of what it
// does line by line, and of what is acknowledged once it is.
func runNode(name, dir string, addresses []string, writers string, insecure bool) error {
	n, err := strconv.Atoi(writers)
	if err != nil {
		return err
	}
	ctx := context.Background()
	b, err := connect(ctx, addresses, insecure)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stdout, format+"\n", args...)
	}
	for life := 0; ; life++ {
		s, err := owned(ctx, shardOptions(b, name, dir))
		if err != nil {
			return err
		}
		say("OWNS %s %d", name, s.Status().OpenedMS)
		var work sync.WaitGroup
		for w := range n {
			work.Go(func() { writeOn(ctx, s, fmt.Sprintf("%s-%d-%d-%d", name, os.Getpid(), life, w), say) })
		}
		<-s.Done()
		say("LOST %s", name)
		work.Wait()
		if err := s.Close(); err != nil {
			say("CLOSE %v", err)
		}
	}
}

func storeOne(ctx context.Context, s *cluster.Shard, text string) error {
	db, done, err := s.Use(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = db.Memories().Store(ctx, memory.Memory{Scope: ada, Text: text}, nil)
	return err
}

// writeOn stores one memory after the other until the shard is lost.
func writeOn(ctx context.Context, s *cluster.Shard, writer string, say func(string, ...any)) {
	for i := 0; ; i++ {
		text := fmt.Sprintf("%s %d", writer, i)
		err := storeOne(ctx, s, text)
		if err == nil {
			say("ACK %s", text)
		}
		select {
		case <-s.Done():
			return
		default:
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond) // as a caller would
		}
	}
}
