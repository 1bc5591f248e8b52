package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	nats "github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/jetstream"
)

// alone starts one server within this process.
func alone(t *testing.T, o jetstream.ServerOptions) (url, system string) {
	t.Helper()
	o.Name, o.Dir, o.Listen, o.Password = "alone", t.TempDir(), freePorts(t, 1)[0], password
	stop, err := jetstream.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return jetstream.URLs(password, o.Listen)
}

// TestRefuses: servers, streams and users that are not as they should be are refused, and it is said why.
func TestRefuses(t *testing.T) {
	url, system := alone(t, jetstream.ServerOptions{})
	seldom, seldomSystem := alone(t, jetstream.ServerOptions{SyncSeldom: true})
	wrong, _ := jetstream.URLs("wrong", "127.0.0.1:1")
	for _, c := range []struct {
		name string
		o    jetstream.Options
		kind error
	}{
		{"syncs that are seldom", jetstream.Options{URL: seldom, SystemURL: seldomSystem}, memory.ErrMismatch},
		{"no user of the system account", jetstream.Options{URL: url}, memory.ErrMismatch},
		{"fewer servers than replicas", jetstream.Options{URL: url, SystemURL: system}, cluster.ErrUnavailable},
		{"nobody who listens", jetstream.Options{URL: wrong, Insecure: true}, cluster.ErrUnavailable},
		{"a password that is wrong", jetstream.Options{URL: withPassword(t, url, "wrong"), Insecure: true}, memory.ErrInvalid},
		{"credentials that are not there", jetstream.Options{URL: url, Insecure: true, Credentials: filepath.Join(t.TempDir(), "none.creds")}, memory.ErrInvalid},
		{"an authority that is not there", jetstream.Options{URL: url, Insecure: true, CA: filepath.Join(t.TempDir(), "none.pem")}, memory.ErrInvalid},
		{"TLS where there is none", jetstream.Options{URL: "tls" + url[len("nats"):], Insecure: true}, memory.ErrInvalid},
	} {
		limit := patience
		if errors.Is(c.kind, cluster.ErrUnavailable) { // it waits for what does not come
			limit = 2 * time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		b, err := jetstream.Connect(ctx, c.o)
		cancel()
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
		}
		if err == nil {
			_ = b.Close()
		}
	}
}

func withPassword(t *testing.T, url, password string) string {
	t.Helper()
	one, _ := jetstream.URLs(password, url[len(url)-len("127.0.0.1:00000"):])
	return one
}

// TestBackend: what a server that is taken as it is keeps is what shards ask for: sequences, IDs, leases that are
// taken once, objects, the registry.
func TestBackend(t *testing.T) {
	url, _ := alone(t, jetstream.ServerOptions{SyncSeldom: true})
	b, err := jetstream.Connect(t.Context(), jetstream.Options{URL: url, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	ctx := t.Context()
	l, err := b.Log(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		id    string
		after uint64
		want  uint64
		kind  error
	}{{"a", 0, 1, nil}, {"a", 0, 1, nil}, {"b", 0, 0, cluster.ErrLost}, {"b", 1, 2, nil}, {"c", 2, 3, nil}, {"a", 0, 1, nil}, {"d", 2, 0, cluster.ErrLost}} {
		got, err := l.Append(ctx, c.id, []byte(c.id), c.after)
		if got != c.want || !errors.Is(err, c.kind) {
			t.Errorf("append %d: %d, %v", i, got, err)
		}
	}
	read := func(from, upto uint64) (all string, err error) {
		err = l.Read(ctx, from, upto, func(_ uint64, data []byte) error {
			all += string(data)
			return nil
		})
		return all, err
	}
	if all, err := read(1, 3); all != "abc" || err != nil {
		t.Errorf("%q, %v", all, err)
	}
	if err := l.PurgeTo(ctx, 2); err != nil {
		t.Error(err)
	}
	if first, last, err := l.Bounds(ctx); first != 3 || last != 3 || err != nil {
		t.Errorf("%d to %d, %v", first, last, err)
	}
	if _, err := read(1, 3); !errors.Is(err, cluster.ErrMissing) {
		t.Errorf("what was purged: %v", err)
	}
	testLeases(t, b.Leases())
	testRegistry(t, b.Registry())
	testObjects(t, b)
	testShard(t, b)
	if err := alter(ctx, url); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Log(ctx, 4); err != nil { // it is taken as it is
		t.Error(err)
	}
}

// alter makes the log of shard 4 in RAM.
func alter(ctx context.Context, url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err == nil {
		_, err = js.CreateStream(ctx, natsjs.StreamConfig{Name: "memdb-log-4", Subjects: []string{"memdb.log.4"}, Storage: natsjs.MemoryStorage})
	}
	return err
}

func testObjects(t *testing.T, b cluster.Backend) {
	t.Helper()
	ctx, o := t.Context(), b.Objects(3)
	if _, err := o.Get(ctx, "one"); !errors.Is(err, cluster.ErrMissing) {
		t.Errorf("nothing: %v", err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, content := range [][]byte{[]byte("small"), large} { // in the place of what was there
		if err := o.Put(ctx, "one", bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		r, err := o.Get(ctx, "one")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	broken := errors.New("broken")
	if err := o.Put(ctx, "two", io.MultiReader(bytes.NewReader(large), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("what breaks off: %v", err)
	}
	if all, err := o.List(ctx); len(all) != 1 || all[0] != (cluster.Object{Name: "one", Size: int64(len(large))}) || err != nil {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := b.Objects(30).List(ctx); len(all) != 0 || err != nil {
		t.Errorf("those of another shard: %v, %v", all, err)
	}
	for range 2 {
		if err := o.Delete(ctx, "one"); err != nil {
			t.Error(err)
		}
	}
}

// testShard moves a shard to another folder by its snapshot.
func testShard(t *testing.T, b cluster.Backend) {
	t.Helper()
	for _, node := range []string{"a", "b"} {
		s, err := owned(t.Context(), shardOptions(b, node, filepath.Join(t.TempDir(), node)))
		if err != nil {
			t.Fatal(err)
		}
		db, done, err := s.Use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if _, err := db.Memories().Store(t.Context(), memory.Memory{Scope: ada, Text: fmt.Sprint(node, i)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		done()
		if err := s.Snapshot(t.Context()); err != nil {
			t.Error(err)
		}
		v, err := s.Verify(t.Context())
		if err != nil || !v.OK || node == "b" && v.Memories != 20 {
			t.Errorf("%+v, %v", v, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func testLeases(t *testing.T, ls cluster.Leases) {
	t.Helper()
	ctx := t.Context()
	l, err := ls.Acquire(ctx, 3, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ls.Acquire(ctx, 3, "b"); !errors.Is(err, cluster.ErrHeld) {
		t.Errorf("a second holder: %v", err)
	}
	old := l
	if l, err = ls.Renew(ctx, l); err != nil {
		t.Fatal(err)
	}
	if _, err := ls.Renew(ctx, old); !errors.Is(err, cluster.ErrLost) {
		t.Errorf("an old lease: %v", err)
	}
	if held, err := ls.Holders(ctx); len(held) != 1 || held[3] != "a" || err != nil {
		t.Errorf("%v, %v", held, err)
	}
	if err := ls.Release(ctx, l); err != nil {
		t.Error(err)
	}
	if l, err = ls.Acquire(ctx, 3, "b"); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(patience); ; {
		if _, err = ls.Acquire(ctx, 3, "c"); err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
	if _, err := ls.Renew(ctx, l); !errors.Is(err, cluster.ErrLost) {
		t.Errorf("a lease that ran out: %v", err)
	}
}

func testRegistry(t *testing.T, r cluster.Registry) {
	t.Helper()
	ctx := t.Context()
	if _, err := r.Get(ctx, "cluster"); !errors.Is(err, cluster.ErrMissing) {
		t.Errorf("nothing: %v", err)
	}
	first, err := r.Swap(ctx, "cluster", []byte("one"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Swap(ctx, "cluster", []byte("two"), 0); !errors.Is(err, cluster.ErrChanged) {
		t.Errorf("it is there: %v", err)
	}
	if _, err := r.Swap(ctx, "cluster", []byte("two"), first); err != nil {
		t.Error(err)
	}
	if all, err := r.List(ctx, "clu"); len(all) != 1 || string(all[0].Value) != "two" || err != nil {
		t.Errorf("%v, %v", all, err)
	}
	if err := r.Beat(ctx, "a", []byte("alive")); err != nil {
		t.Error(err)
	}
	if all, err := r.Alive(ctx); len(all) != 1 || all[0].Key != "a" || err != nil {
		t.Errorf("%v, %v", all, err)
	}
	if err := r.Quit(ctx, "a"); err != nil {
		t.Error(err)
	}
	if all, err := r.Alive(ctx); len(all) != 0 || err != nil {
		t.Errorf("%v, %v", all, err)
	}
}
