package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestShares verifies that nobody takes more than a share, that whoever holds nothing finds something free, and
// that what is given back can be taken again.
func TestShares(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	const units = 16
	s, held, all := newShares(units, DefaultWait), map[string]int64{}, int64(0)
	for range 10_000 {
		whom := fmt.Sprint("key ", rng.IntN(5))
		if n := held[whom]; n > 0 && rng.IntN(2) == 0 {
			s.give(whom, n)
			held[whom], all = 0, all-n
			continue
		}
		before := held[whom]
		if s.tryTake(whom, 1) == nil {
			held[whom], all = held[whom]+1, all+1
		}
		switch {
		case before == 0 && held[whom] == 0:
			t.Fatalf("seed %d: %s holds nothing and gets nothing: %v", seed, whom, held)
		case held[whom] > units/2:
			t.Fatalf("seed %d: %s holds more than half: %v", seed, whom, held)
		case s.mu.free != units-all:
			t.Fatalf("seed %d: %d are free, want %d", seed, s.mu.free, units-all)
		}
	}
}

// waitFor waits until something is so.
func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("in vain for a minute: " + what)
		}
	}
}

// TestOneKeyKeepsNobodyWaiting verifies that a key with many slow bodies, and one with many slow requests, leaves
// room for other keys, and that probes are answered when all slots are taken.
func TestOneKeyKeepsNobodyWaiting(t *testing.T) {
	k := testdb.Keys(t, time.Now)
	s := newServer(t, Options{Keys: k, MaxConcurrent: 8})
	addr, end := serveTest(t, s)
	bob, bobKey := addKey(t, k, sees(memory.Scope{User: "bob"}))
	ada, _ := addKey(t, k, sees(memory.Scope{User: "ada"}))
	root, _ := addKey(t, k, apikeys.Rights{Admin: true})
	open := func(method, target, key, head string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(addr, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\n%s", method, target, key, head); err != nil {
			t.Fatal(err)
		}
		return c
	}
	answered := func() {
		t.Helper()
		for _, c := range []struct {
			method, target, key string
			want                int
		}{{"POST", "/things", ada, 201}, {"GET", "/things/x", ada, 404}, {"GET", "/healthz", "", 200}, {"GET", "/readyz", "", 200}, {"GET", "/metrics", root, 200}} {
			body := ""
			if c.method == "POST" {
				body = `{"name":"tea"}`
			}
			if w := ask(s, c.method, c.target, body, "X-Api-Key", c.key, "Host", "localhost"); w.Code != c.want {
				t.Errorf("%s %s: %d %s, want %d", c.method, c.target, w.Code, w.Body, c.want)
			}
		}
	}
	const slow = 40
	var conns []net.Conn
	for range slow {
		conns = append(conns, open("POST", "/things", bob, "Content-Length: 1000\r\n\r\n{"))
	}
	holds := func() int64 {
		s.bodies.mu.Lock()
		defer s.bodies.mu.Unlock()
		return s.bodies.mu.held[bobKey.ID]
	}
	waitFor(t, "all bodies are being read", func() bool { return holds() == slow*1001 })
	answered()
	if w := ask(s, "POST", "/things", `{"name":"tea"}`, "X-Api-Key", bob); w.Code != 201 {
		t.Errorf("the key itself: %d %s", w.Code, w.Body)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	waitFor(t, "no body is held", func() bool { return holds() == 0 })
	conns = nil
	for range slow {
		conns = append(conns, open("GET", "/things/x/slow", bob, "\r\n"))
	}
	waitFor(t, "the share is taken", func() bool { return s.counts.running.Load() == 4 })
	answered()
	waitFor(t, "those beyond the share are told so", func() bool {
		s.counts.mu.Lock()
		defer s.counts.mu.Unlock()
		return s.counts.answers[outcome{"things", 503}] == slow-4
	})
	if got := s.counts.running.Load(); got != 4 {
		t.Errorf("%d requests of one key run, want 4", got)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}
