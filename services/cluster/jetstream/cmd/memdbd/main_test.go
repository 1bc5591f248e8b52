//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/daemon"
)

// programVariable has the test's program be memdbd.
const programVariable = "MEMDB_TEST_MEMDBD"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// heard is what the cluster says.
type heard struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.String()
}

// patience is how long a test waits for what takes seconds.
const patience = time.Minute

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: ", what)
		}
	}
}

// twoPorts is an address of this machine with nobody there nor on the port behind it.
func twoPorts(t *testing.T) (first string, both []string) {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		next, failed := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1)))
		_ = l.Close()
		if failed != nil {
			continue
		}
		_ = next.Close()
		return l.Addr().String(), []string{"http://" + l.Addr().String(), "http://" + next.Addr().String()}
	}
	t.Fatal("no two ports are free")
	return "", nil
}

// TestDev: one command runs a cluster, which goes on when a node is killed, and ends.
func TestDev(t *testing.T) {
	t.Setenv(programVariable, "1")
	listen, nodes := twoPorts(t)
	out := &heard{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- dev(ctx, daemon.Dev{Dir: t.TempDir(), Listen: listen, Out: out}) }()
	until(t, "the cluster runs", func() bool { return strings.Contains(out.String(), "The cluster runs") })
	ask := func(node int, method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, nodes[node]+"/memdb/v1"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = reply.Body.Close() }()
		b, err := io.ReadAll(reply.Body)
		if err != nil {
			return 0, err.Error()
		}
		return reply.StatusCode, string(b)
	}
	// Each user has a writer, which asks one node and then the other, with the same ID until it is acknowledged.
	const users = 16
	var writers sync.WaitGroup
	var acked [users]atomic.Int64
	var gaps [users]time.Duration
	stop := make(chan struct{})
	for u := range users {
		writers.Go(func() {
			last := time.Now()
			for tries := 0; ; tries++ {
				select {
				case <-stop:
					return
				default:
				}
				n := acked[u].Load()
				status, _ := ask(tries%2, "POST", "/memories", fmt.Sprintf(`{"id":"m%d","user":"user%d","text":"tea number %d of user %d"}`, n, u, n, u))
				gaps[u] = max(gaps[u], time.Since(last))
				if status == http.StatusCreated || status == http.StatusOK {
					acked[u].Add(1)
					last = time.Now()
				}
			}
		})
	}
	progress := func(what string, least int64) {
		t.Helper()
		var from [users]int64
		for u := range users {
			from[u] = acked[u].Load()
		}
		until(t, what, func() bool {
			for u := range users {
				if acked[u].Load() < from[u]+least {
					return false
				}
			}
			return true
		})
	}
	progress("all users write", 3)
	pid := regexp.MustCompile(`(?m)^b +pid (\d+)`).FindStringSubmatch(out.String())
	if pid == nil {
		t.Fatal(out.String())
	}
	n, err := strconv.Atoi(pid[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	progress("all users write again", 3)
	close(stop)
	writers.Wait()
	all := int64(0)
	for u := range users {
		_, answer := ask(0, "GET", fmt.Sprintf("/memories?user=user%d&all=true", u), "")
		for m := range acked[u].Load() {
			if strings.Count(answer, fmt.Sprintf(`"text":"tea number %d of user %d"`, m, u)) != 1 {
				t.Errorf("memory %d of user %d is not there once", m, u)
			}
		}
		all += acked[u].Load()
	}
	t.Log(all, "memories were acknowledged, none of them is lost; the longest gap of a user was ", slices.Max(gaps[:]))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "b      has ended (signal: killed)") {
		t.Error(out.String())
	}
}
