package fuzz

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/daemon"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// serverVar tells the test binary that it is memdbd, with these flags.
const serverVar = "MEMDB_FUZZ_SERVER"

const (
	serverClients = 64
	serverFor     = 4 * time.Second
)

// served is a server that is killed again and again, and what its clients know.
type served struct {
	dir, address string
	client       *http.Client
	cmd          *exec.Cmd
	stored       [serverClients]atomic.Int64 // how many of a client's memories were acknowledged
	asked        atomic.Int64
	recalls      times
	stores       times
	rss          []int64 // bytes, before each kill
}

// times are how long calls took.
type times struct {
	mu  sync.Mutex
	all []time.Duration
}

func (t *times) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, d)
}

func (t *times) String() string {
	slices.Sort(t.all)
	if len(t.all) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d, p50 %v, p99 %v", len(t.all), t.all[len(t.all)/2], t.all[len(t.all)*99/100])
}

// start begins a server, and waits until it is ready.
func (s *served) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.CommandContext(t.Context(), os.Args[0])
	s.cmd.Env = append(os.Environ(), serverVar+"="+strings.Join([]string{"--db", s.dir, "--listen", s.address, "--log", "off"}, "\n"))
	var told bytes.Buffer
	s.cmd.Stderr = &told
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		reply, err := s.client.Get("http://" + s.address + "/readyz")
		if err == nil {
			_ = reply.Body.Close()
			if reply.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
			t.Fatalf("the server is not ready: %v\n%s", err, told.String())
		}
	}
}

// kill ends the server at once.
func (s *served) kill(t *testing.T) {
	t.Helper()
	s.rss = append(s.rss, residentBytes(s.cmd.Process.Pid))
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // it was killed
}

// residentBytes is the resident memory of a process, 0 where the system does not tell.
func residentBytes(pid int) int64 {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// post sends a request, and reports whether it was acknowledged: a server that is being killed
// answers nothing.
func (s *served) post(ctx context.Context, path string, body any) (reply []byte, ok bool, err error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, false, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+path, bytes.NewReader(b))
	if err != nil {
		return nil, false, err
	}
	r.Header.Set("Content-Type", "application/json")
	s.asked.Add(1)
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, false, nil
	}
	reply, err = io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil {
		return nil, false, nil // it was cut off
	}
	if answer.StatusCode >= 300 {
		return reply, false, fmt.Errorf("%s: %s: %s", path, answer.Status, reply)
	}
	return reply, true, nil
}

// talk is a client: it stores its memories in order, each again until it is acknowledged, and
// recalls what it has stored.
func (s *served) talk(ctx context.Context, client int) error {
	user := fmt.Sprintf("client %d", client)
	for n := int64(1); ctx.Err() == nil; {
		begun := time.Now()
		_, ok, err := s.post(ctx, "/memdb/v1/memories", map[string]any{"id": strconv.FormatInt(n, 10), "user": user, "text": fmt.Sprintf("%s said thing number%d of many", user, n)})
		if err != nil {
			return err
		}
		if !ok {
			time.Sleep(time.Millisecond)
			continue
		}
		s.stores.add(time.Since(begun))
		s.stored[client].Store(n)
		n++
		if n%4 != 0 {
			continue
		}
		begun = time.Now()
		reply, ok, err := s.post(ctx, "/memdb/v1/recall", map[string]any{"user": user, "query": fmt.Sprintf("number%d", n-1), "limit": 3})
		if err != nil {
			return err
		}
		if ok {
			s.recalls.add(time.Since(begun))
		}
		if ok && !bytes.Contains(reply, fmt.Appendf(nil, "number%d of", n-1)) {
			return fmt.Errorf("%s does not find its thing number%d: %s", user, n-1, reply)
		}
	}
	return nil
}

// TestServerKill: memdbd is killed beside many clients and started again. What it acknowledged is
// there, of each client in its own scope alone.
func TestServerKill(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{dir: filepath.Join(t.TempDir(), "db"), address: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: serverClients}, Timeout: time.Minute}
	defer s.client.CloseIdleConnections()
	s.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	errs := make(chan error, serverClients)
	for client := range serverClients {
		clients.Go(func() {
			if err := s.talk(ctx, client); err != nil && ctx.Err() == nil {
				errs <- err
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	long := cmp.Or(soak(t), serverFor)
	kills := 0
	for begun := time.Now(); time.Since(begun) < long || s.total() < serverClients; kills++ {
		time.Sleep(time.Duration(200+rng.IntN(800)) * time.Millisecond)
		select {
		case err := <-errs:
			t.Fatal(err)
		default:
		}
		s.kill(t)
		s.start(t)
	}
	cancel()
	clients.Wait()
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
	s.kill(t)
	s.verify(t)
	t.Logf("%d kills, %d requests, %d stored; stores: %v; recalls: %v; RSS before the kills: first %d MB, last %d MB",
		kills+1, s.asked.Load(), s.total(), &s.stores, &s.recalls, s.rss[0]>>20, s.rss[len(s.rss)-1]>>20)
}

func (s *served) total() (n int64) {
	for i := range s.stored {
		n += s.stored[i].Load()
	}
	return n
}

// verify opens the folder and finds what was acknowledged, of each client at most one more.
func (s *served) verify(t *testing.T) {
	t.Helper()
	db, err := engine.Open(s.dir, &engine.Options{MemoryBudget: budget})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for client := range s.stored {
		user, want, n := fmt.Sprintf("client %d", client), int(s.stored[client].Load()), 0
		for m, err := range db.Memories().All(t.Context(), memory.ListQuery{Scope: memory.Scope{User: user}}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if m.ID != strconv.Itoa(n) || !strings.HasPrefix(m.Text, user+" said") {
				t.Fatalf("%s: at place %d is %s %q", user, n, m.ID, m.Text)
			}
		}
		if n < want || n > want+1 {
			t.Errorf("%s: %d memories, %d were acknowledged", user, n, want)
		}
	}
	if r, err := db.CheckDeep(t.Context()); err != nil || !r.OK {
		t.Errorf("%+v, %v", r, err)
	}
}

// serverMain is the program of a child that is a server.
func serverMain(flags string) int { return daemon.Main(strings.Split(flags, "\n"), nil) }
