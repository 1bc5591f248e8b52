package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func addKey(t testing.TB, k *apikeys.Keys, r apikeys.Rights) (string, apikeys.Key) {
	t.Helper()
	secret, key, err := k.Add(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return secret, key
}

func sees(all ...memory.Scope) apikeys.Rights { return apikeys.Rights{Scopes: all} }

// TestKeys verifies which requests each kind of key may make.
func TestKeys(t *testing.T) {
	k := testdb.Keys(t, time.Now)
	s := newServer(t, Options{Keys: k})
	if got := ask(s, "GET", "/things/m1", "").Code; got != 404 {
		t.Fatalf("without any key: %d", got)
	}
	ada, _ := addKey(t, k, sees(memory.Scope{User: "ada"}))
	bob, _ := addKey(t, k, sees(memory.Scope{User: "bob"}, memory.Scope{Agent: "planner"}))
	root, _ := addKey(t, k, apikeys.Rights{Admin: true})
	scrape, _ := addKey(t, k, apikeys.Rights{Metrics: true})
	reader, _ := addKey(t, k, apikeys.Rights{Scopes: []memory.Scope{{User: "ada"}}, ReadOnly: true})
	auditor, _ := addKey(t, k, apikeys.Rights{Admin: true, ReadOnly: true})
	for _, user := range []string{"ada", "bob"} {
		if _, err := s.db.Memories().Store(t.Context(), memory.Memory{ID: "of-" + user, Scope: memory.Scope{User: user}, Text: "tea"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		headers        []string
		method, target string
		want           int
	}{
		{nil, "GET", "/things/of-ada", 401},
		{[]string{"Authorization", "Bearer nonsense"}, "GET", "/things/of-ada", 401},
		{[]string{"Authorization", "Basic " + ada}, "GET", "/things/of-ada", 401},
		{[]string{"Authorization", "Bearer " + ada}, "GET", "/things/of-ada", 200},
		{[]string{"Authorization", "Token " + ada}, "GET", "/things/of-ada", 200},
		{[]string{"Authorization", "bearer " + ada}, "GET", "/things/of-ada", 200},
		{[]string{"X-Api-Key", ada}, "GET", "/things/of-ada", 200},
		{[]string{"X-Api-Key", ada}, "GET", "/things/of-bob", 404},
		{[]string{"X-Api-Key", ada}, "GET", "/things/of-nobody", 404},
		{[]string{"X-Api-Key", ada}, "GET", "/things/of-bob?user=bob", 403},
		{[]string{"X-Api-Key", ada}, "GET", "/things/of-nobody?user=bob", 403},
		{[]string{"X-Api-Key", ada}, "PUT", "/things/new/text", 200},
		{[]string{"X-Api-Key", ada}, "POST", "/things/admin", 403},
		{[]string{"X-Api-Key", bob}, "GET", "/things/of-bob", 200},
		{[]string{"X-Api-Key", root}, "GET", "/things/of-bob", 200},
		{[]string{"X-Api-Key", root}, "POST", "/things/admin", 204},
		{[]string{"X-Api-Key", root}, "GET", "/metrics", 200},
		{[]string{"X-Api-Key", ada}, "GET", "/metrics", 403},
		{[]string{"X-Api-Key", scrape}, "GET", "/metrics", 200},
		{[]string{"X-Api-Key", scrape}, "GET", "/things/of-ada", 403},
		{[]string{"X-Api-Key", scrape}, "PUT", "/things/new/text", 403},
		{[]string{"X-Api-Key", scrape}, "POST", "/things/admin", 403},
		{[]string{"X-Api-Key", reader}, "GET", "/things/of-ada", 200},
		{[]string{"X-Api-Key", reader}, "PUT", "/things/new/text", 403},
		{[]string{"X-Api-Key", auditor}, "GET", "/things/of-bob", 200},
		{[]string{"X-Api-Key", auditor}, "GET", "/metrics", 200},
		{[]string{"X-Api-Key", auditor}, "PUT", "/things/new/text", 403},
		{[]string{"X-Api-Key", auditor}, "POST", "/things/admin", 403},
		{nil, "GET", "/healthz", 200},
	} {
		if got := ask(s, c.method, c.target, "", c.headers...).Code; got != c.want {
			t.Errorf("%s %s %v: %d, want %d", c.method, c.target, c.headers, got, c.want)
		}
	}
	unknown, other := ask(s, "GET", "/things/of-nobody", "", "X-Api-Key", ada), ask(s, "GET", "/things/of-bob", "", "X-Api-Key", ada)
	if unknown.Body.String() != other.Body.String() {
		t.Errorf("an ID of another scope is answered %s, one of nobody %s", other.Body, unknown.Body)
	}
	all, err := k.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range all { // the last one included: nothing opens the server
		if _, err := k.Revoke(t.Context(), key.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range []string{ada, root, scrape, ""} {
		if got := ask(s, "GET", "/things/m1", "", "X-Api-Key", secret).Code; got != 401 {
			t.Errorf("after all keys are revoked: %d", got)
		}
	}
	if _, err := k.Revoke(t.Context(), "key_none"); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
	if err := k.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(s, "GET", "/things/m1", "").Code; got != 404 {
		t.Errorf("after the keys were cleared: %d", got)
	}
}

// lineStore is a store of keys that answers what a test says.
type lineStore struct {
	mu      sync.Mutex
	lines   map[string][]byte
	keyed   bool
	version uint64
	fails   error
	damage  error
}

func (s *lineStore) change(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	fn()
}

func (s *lineStore) Version() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.fails
}

func (s *lineStore) Lines() (b []byte, keyed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.lines)) {
		b = append(append(b, s.lines[name]...), '\n')
	}
	return b, s.keyed, s.damage
}

func (s *lineStore) Put(_ context.Context, name string, line []byte) error {
	s.change(func() { s.lines[name], s.keyed = line, true })
	return s.fails
}

func (s *lineStore) Clear(_ context.Context, keyed bool) error {
	s.change(func() { s.lines, s.keyed, s.damage = map[string][]byte{}, keyed, nil })
	return nil
}

func newLineStore() *lineStore { return &lineStore{lines: map[string][]byte{}} }

// TestKeysShared verifies that servers with one store of keys know the same keys, and that nobody is let in while the
// store does not answer.
func TestKeysShared(t *testing.T) {
	store := newLineStore()
	open := func() (*apikeys.Keys, *Server) {
		k := apikeys.Open(store, time.Now)
		return k, newServer(t, Options{Keys: k})
	}
	k, one := open()
	_, two := open()
	ada, adaKey := addKey(t, k, sees(memory.Scope{User: "ada"}))
	bob, _ := addKey(t, k, sees(memory.Scope{User: "bob"}))
	want := func(key string, status int) {
		t.Helper()
		for i, s := range []*Server{one, two} {
			if got := ask(s, "GET", "/things/x", "", "X-Api-Key", key).Code; got != status {
				t.Errorf("server %d: %d, want %d", i, got, status)
			}
		}
	}
	want(ada, 404)
	want("nonsense", 401)
	if _, err := k.Revoke(t.Context(), adaKey.ID); err != nil {
		t.Fatal(err)
	}
	want(ada, 401)
	want(bob, 404)
	store.change(func() { store.fails = &memory.Error{Kind: memory.ErrUnavailable, What: "look up a key"} })
	want(bob, 503)
	want("nonsense", 503)
	if _, _, err := k.Add(t.Context(), apikeys.Rights{Admin: true}); !errors.Is(err, memory.ErrUnavailable) {
		t.Error(err)
	}
	store.change(func() { store.fails = nil })
	want(bob, 404)
}

// TestKeysUnreadable verifies that keys which cannot be read let nobody in, that the log says why, and that a new key
// takes their place.
func TestKeysUnreadable(t *testing.T) {
	for what, damage := range map[string]func(s *lineStore){
		"a line that is none": func(s *lineStore) { s.lines["made.x"] = []byte(`{"id":`) },
		"a hash that is short": func(s *lineStore) {
			s.lines["made.x"] = []byte(`{"id":"x","hash":"00","created_at":"2026-01-01T00:00:00Z"}`)
		},
		"all lines are missing":  func(s *lineStore) { clear(s.lines) },
		"the store is damaged":   func(s *lineStore) { s.damage = &memory.Error{Kind: memory.ErrCorrupt, What: "read"} },
		"the store gives no why": func(s *lineStore) { s.damage = errors.New("input/output error") },
	} {
		var log bytes.Buffer
		store := newLineStore()
		k := apikeys.Open(store, time.Now)
		s := newServer(t, Options{Keys: k, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		root, _ := addKey(t, k, apikeys.Rights{Admin: true})
		store.change(func() { damage(store) })
		for _, secret := range []string{root, "", "nonsense"} {
			if got := ask(s, "GET", "/things/x", "", "X-Api-Key", secret).Code; got != 401 {
				t.Errorf("%s: %d", what, got)
			}
		}
		if !strings.Contains(log.String(), `"error"`) {
			t.Errorf("%s: the log does not say why: %s", what, &log)
		}
		l, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(t.Context(), l); err == nil {
			t.Errorf("%s: served on other addresses", what)
		}
		if what == "the store gives no why" {
			continue
		}
		again, _ := addKey(t, k, apikeys.Rights{Admin: true})
		if got := ask(s, "GET", "/things/x", "", "X-Api-Key", again).Code; got != 404 {
			t.Errorf("%s: with a new key: %d", what, got)
		}
		if got := ask(s, "GET", "/things/x", "", "X-Api-Key", root).Code; got != 401 {
			t.Errorf("%s: with the lost key: %d", what, got)
		}
	}
}

// TestServeNeedsKeys verifies that others than this machine never reach a server without keys.
func TestServeNeedsKeys(t *testing.T) {
	for _, c := range []struct {
		at    string
		hosts []string
	}{{"0.0.0.0:0", nil}, {"127.0.0.1:0", []string{"memdb.example"}}} {
		l, err := net.Listen("tcp", c.at)
		if err != nil {
			t.Fatal(err)
		}
		if err := newServer(t, Options{Keys: testdb.Keys(t, time.Now), Hosts: c.hosts}).Serve(t.Context(), l); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// Also when they are removed while it serves.
	k := testdb.Keys(t, time.Now)
	secret, _ := addKey(t, k, apikeys.Rights{Admin: true})
	var log bytes.Buffer
	s := newServer(t, Options{Keys: k, Hosts: []string{"memdb.example"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, end := serveTest(t, s)
	testdb.Soon(t, "the server serves", s.exposed.Load)
	if got := ask(s, "GET", "/things/x", "", "X-Api-Key", secret).Code; got != 404 {
		t.Error(got)
	}
	if err := k.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(s, "GET", "/things/x", "").Code; got != 401 {
		t.Errorf("after the keys were removed: %d", got)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestPlainWarning verifies that a server warns of keys that go over a network without encryption.
func TestPlainWarning(t *testing.T) {
	k := testdb.Keys(t, time.Now)
	addKey(t, k, apikeys.Rights{Admin: true})
	for at, want := range map[string]bool{"127.0.0.1:7070": false, "10.0.0.1:7070": true} {
		var log bytes.Buffer
		s := newServer(t, Options{Keys: k, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		address, err := net.ResolveTCPAddr("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.guard(address); err != nil || strings.Contains(log.String(), "without encryption") != want {
			t.Errorf("%s: %v, %s", at, err, &log)
		}
	}
}

// getStream begins a stream.
func getStream(t *testing.T, addr, secret string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", addr+"/things/a/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	if secret != "" {
		r.Header.Set("X-Api-Key", secret)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reply.Body.Close() })
	if reply.StatusCode != 200 {
		t.Fatal(reply.Status)
	}
	return reply
}

// TestStreamsEnd verifies that a stream ends when its key is revoked or expires, or when the first key is made and it
// has none, and that others go on.
func TestStreamsEnd(t *testing.T) {
	var late atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	k := testdb.Keys(t, now)
	s := newServer(t, Options{Keys: k})
	addr, end := serveTest(t, s)
	ended := func(reply *http.Response) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, reply.Body)
			done <- err
		}()
		return done
	}
	nobodys := ended(getStream(t, addr, ""))
	root, _ := addKey(t, k, apikeys.Rights{Admin: true})
	if err := <-nobodys; err == nil {
		t.Error("a stream that was cut off looks whole")
	}
	until := now().Add(time.Hour)
	ada, adaKey := addKey(t, k, sees(memory.Scope{User: "ada"}))
	bob, _ := addKey(t, k, apikeys.Rights{Scopes: []memory.Scope{{User: "bob"}}, ExpiresAt: &until})
	adas, bobs, roots := ended(getStream(t, addr, ada)), ended(getStream(t, addr, bob)), ended(getStream(t, addr, root))
	if _, err := k.Revoke(t.Context(), adaKey.ID); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := <-adas; err == nil {
		t.Error("a stream that was cut off looks whole")
	}
	t.Logf("the stream of a revoked key ended after %v", time.Since(began))
	select {
	case err := <-bobs:
		t.Fatalf("the stream of another key ended: %v", err)
	default:
	}
	late.Store(int64(2 * time.Hour))
	if err := <-bobs; err == nil {
		t.Error("a stream that was cut off looks whole")
	}
	select {
	case err := <-roots:
		t.Fatalf("the stream of another key ended: %v", err)
	default:
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := <-roots; err == nil {
		t.Error("a stream of a server that has ended looks whole")
	}
}
