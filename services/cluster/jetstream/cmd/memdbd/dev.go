package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/daemon"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/jetstream"
)

const (
	// devServers is how many servers of logs run, and devShards how many shards the cluster has: few,
	// for one machine.
	devServers = 3
	devShards  = 8
	// againAfter is how long a process that was killed stays away: so it can be seen how the others go on.
	againAfter = 15 * time.Second
	// readyEvery is how often a node is asked whether it is ready.
	readyEvery = 100 * time.Millisecond
	// endWait is how long a process may take to end.
	endWait = 30 * time.Second
)

// devNodes are the names of the nodes.
var devNodes = []string{"a", "b"}

// process is one of the cluster, which is started again when it was killed.
type process struct {
	name, what string
	args       []string
	env        []string
	log        string // the file of its output
}

// dev runs a cluster on this machine until ctx ends.
func dev(ctx context.Context, d daemon.Dev) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return err
	}
	servers, url, system, err := logServers(d.Dir)
	if err != nil {
		return err
	}
	env := daemon.Variables(url, system) // not in a command line, which every user of the machine can read
	if err := os.WriteFile(filepath.Join(d.Dir, daemon.DevFile), []byte(strings.Join(env, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	nodes, addresses, err := nodesAt(d, env)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	out := &told{out: d.Out}
	var all sync.WaitGroup
	for _, p := range servers {
		all.Go(func() { p.keep(running, exe, out) })
	}
	// The servers are to outlive the nodes, which hand their shards over when they end.
	ending, end := context.WithCancel(context.WithoutCancel(ctx))
	var some sync.WaitGroup
	for _, p := range nodes {
		some.Go(func() { p.keep(ending, exe, out) })
	}
	defer func() {
		end()
		some.Wait()
		stop()
		all.Wait()
	}()
	if err := ready(ctx, addresses[0]); err != nil {
		return nil // it was told to end
	}
	out.printf(`
The cluster runs: memories are in %d shards, each of which one of two nodes owns, and its log is on three
servers. Ask any node:

  memdbctl --db %s store --user ada "Ada likes green tea"
  memdbctl --db %s recall --user ada tea
  memdbctl --db %s cluster status

Kill -9 any one process of those above: nothing that was acknowledged is lost. A node is replaced by the
other one within 4 seconds, a server that leads logs within 10; what was killed comes back after %v.
Ctrl-C ends all.
`, devShards, addresses[0], addresses[1], addresses[1], againAfter)
	<-ctx.Done()
	return nil
}

// logServers are the servers of logs, with the URLs by which nodes reach them.
func logServers(dir string) (all []*process, url, system string, err error) {
	ports, err := freePorts(2 * devServers)
	if err != nil {
		return nil, "", "", err
	}
	clients, routes := ports[:devServers], ports[devServers:]
	password := rand.Text()
	for i := range devServers {
		name := fmt.Sprint("log-", i+1)
		args := append([]string{logsVerb, name, filepath.Join(dir, name), clients[i], routes[i]}, routes...)
		all = append(all, &process{name: name, what: "a server of logs", args: args, env: []string{passwordVariable + "=" + password}, log: filepath.Join(dir, name+".txt")})
	}
	url, system = jetstream.URLs(password, clients...)
	return all, url, system, nil
}

// nodesAt are the nodes, on the address that was given and the ports behind it.
func nodesAt(d daemon.Dev, env []string) (all []*process, addresses []string, err error) {
	host, text, err := net.SplitHostPort(d.Listen)
	if err != nil {
		return nil, nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range devNodes {
		at := net.JoinHostPort(host, strconv.Itoa(port+i))
		addresses = append(addresses, "http://"+at)
		args := []string{
			"--db", filepath.Join(d.Dir, name), "--listen", at,
			"--node", name, "--shards", strconv.Itoa(devShards),
		}
		all = append(all, &process{name: name, what: "a node, at http://" + at, args: args, env: env, log: filepath.Join(d.Dir, name+".txt")})
	}
	return all, addresses, nil
}

// freePorts are addresses of this machine on which nobody listens.
func freePorts(n int) (at []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // whoever is started listens there
		at = append(at, l.Addr().String())
	}
	return at, nil
}

// keep runs a process until ctx ends, and again when it has ended before.
func (p *process) keep(ctx context.Context, exe string, out *told) {
	for ctx.Err() == nil {
		err := p.run(ctx, exe, out)
		if ctx.Err() != nil {
			return
		}
		out.printf("%-6s has ended (%v); it comes back in %v; see %s\n", p.name, err, againAfter, p.log)
		again := time.NewTimer(againAfter)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
	}
}

// run runs a process once. It is told to end when ctx ends.
func (p *process) run(ctx context.Context, exe string, out *told) error {
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // for people
	cmd := exec.CommandContext(ctx, exe, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endWait
	cmd.SysProcAttr = apart()
	if err := cmd.Start(); err != nil {
		return err
	}
	out.printf("%-6s pid %-8d %s\n", p.name, cmd.Process.Pid, p.what)
	return cmd.Wait()
}

// ready waits until each node owns a part of the shards, as the node at an address says.
func ready(ctx context.Context, address string) error {
	every := time.NewTicker(readyEvery)
	defer every.Stop()
	for !spread(ctx, address) {
		select {
		case <-every.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// spread reports whether every shard has an owner, and every node a shard.
func spread(ctx context.Context, address string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/memdb/v1/cluster", nil)
	if err != nil {
		return false
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode == http.StatusUnauthorized { // somebody has made keys
		return true
	}
	var at struct {
		Shards []cluster.ShardState `json:"shards"`
	}
	if json.NewDecoder(reply.Body).Decode(&at) != nil || len(at.Shards) == 0 {
		return false
	}
	owners := map[string]bool{}
	for _, s := range at.Shards {
		if s.Epoch == 0 {
			return false
		}
		owners[s.Owner] = true
	}
	return len(owners) == len(devNodes)
}

// told writes what happens, by several at once.
type told struct {
	mu  sync.Mutex
	out io.Writer
}

func (t *told) printf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.out, format, args...) // a reader that has left is not told
}
