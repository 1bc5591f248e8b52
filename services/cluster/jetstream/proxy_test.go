package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
)

// proxy stands between a node and the servers. It may swallow what the servers say, or cut both off.
type proxy struct {
	addresses []string
	muted     atomic.Bool

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

// newProxy listens once for each server.
func newProxy(t *testing.T, servers []string) *proxy {
	t.Helper()
	p := &proxy{conns: map[net.Conn]bool{}}
	var (
		work    sync.WaitGroup
		listens []net.Listener
	)
	for _, to := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p.addresses = append(p.addresses, l.Addr().String())
		listens = append(listens, l)
		work.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				work.Go(func() { p.join(c, to) })
			}
		})
	}
	t.Cleanup(func() {
		for _, l := range listens {
			_ = l.Close()
		}
		p.part(true)
		work.Wait()
	})
	return p
}

// join carries what a client and a server say, until one ends.
func (p *proxy) join(client net.Conn, to string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	p.mu.Lock()
	cut := p.cut
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	if cut {
		return
	}
	var up sync.WaitGroup
	up.Go(func() {
		carry(server, client, nil)
		_ = client.Close()
	})
	carry(client, server, &p.muted)
	_ = server.Close()
	up.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// carry copies; of what a server says it hides where the others are, to which a client would go past the proxy.
func carry(to, from net.Conn, muted *atomic.Bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		said := buf[:n]
		if muted != nil {
			if muted.Load() {
				continue
			}
			said = bytes.ReplaceAll(said, []byte(`"connect_urls"`), []byte(`"connect_nots"`))
		}
		if _, err := to.Write(said); err != nil {
			return
		}
	}
}

// part cuts a node off from all servers, or lets it reach them again. Connections end in any case.
func (p *proxy) part(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for c := range p.conns {
		_ = c.Close()
	}
}

// until waits for something.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it did not come to pass: " + what)
		}
	}
}

// TestProxy: answers that are lost make nothing twice; a node that reaches no server, and a server that reaches no
// other one, acknowledge nothing; and what was acknowledged is there in the end.
func TestProxy(t *testing.T) {
	dir := t.TempDir()
	servers := newServers(t, dir, false)
	direct := servers.connect()
	p := newProxy(t, servers.addresses)
	through, err := connect(t.Context(), p.addresses, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = through.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	open := func(b cluster.Backend, node string) *cluster.Shard {
		t.Helper()
		o := shardOptions(b, node, filepath.Join(dir, node))
		o.LogWait = time.Second
		s, err := owned(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	testUnanswered(t, ctx, p, through)
	o, first := &told{}, open(through, "a")
	failed := &atomic.Int64{}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() { writeTo(ctx, first, fmt.Sprintf("a-%d", w), o, failed) })
	}
	for range 3 { // the log has what is sent, and nobody hears of it
		o.await(t, 100)
		resent := first.Status().Resends
		p.muted.Store(true)
		until(t, "a message is sent again", func() bool { return first.Status().Resends > resent })
		p.muted.Store(false)
		p.part(false)
	}
	o.await(t, 100)

	p.part(true)
	before := failed.Load()
	until(t, "the node notices", func() bool { return failed.Load() > before })
	alone, _ := o.now()
	second := open(direct, "b")
	storeThrough(t, ctx, second, "b-0", 20, o)
	if n, _ := o.now(); n != alone+20 {
		t.Errorf("a node that reaches no server has acknowledged %d", n-alone-20)
	}
	p.part(false)
	select {
	case <-first.Done():
	case <-ctx.Done():
		t.Fatal("a node that is back does not notice that it owns the shard no more")
	}
	writers.Wait()
	if err := first.Close(); err != nil {
		t.Error(err)
	}

	for _, i := range []int{0, 1} {
		servers.all[i].signal(t, syscall.SIGSTOP)
	}
	db, _, done, err := second.UseStale(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := db.Memories().Store(ctx, memory.Memory{Scope: ada, Text: fmt.Sprint("c-0 ", i)}, nil); !errors.Is(err, memory.ErrUnavailable) {
			t.Errorf("one server of three: %v", err)
		}
	}
	for _, i := range []int{0, 1} {
		servers.all[i].signal(t, syscall.SIGCONT)
	}
	until(t, "writes go on", func() bool {
		_, err := db.Memories().Store(ctx, memory.Memory{Scope: ada, Text: "c-0 3"}, nil)
		return err == nil
	})
	o.hear("ACK c-0 3")
	done()
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	testClocks(t, ctx, direct, dir)
	judge(t, direct, filepath.Join(dir, "judge"), o)
}

// testUnanswered: a lease whose renewal got no answer is renewed by its holder, and by nobody who knows an older one.
func testUnanswered(t *testing.T, ctx context.Context, p *proxy, b cluster.Backend) {
	t.Helper()
	ls := b.Leases()
	old, err := ls.Acquire(ctx, 2, "a")
	if err != nil {
		t.Fatal(err)
	}
	l, err := ls.Renew(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	p.muted.Store(true)
	if _, err := ls.Renew(ctx, l); !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("without an answer: %v", err)
	}
	p.muted.Store(false)
	p.part(false)
	var renewed cluster.Lease
	until(t, "the lease is renewed", func() bool {
		renewed, err = ls.Renew(ctx, l)
		return !errors.Is(err, cluster.ErrUnavailable)
	})
	if err != nil || renewed.Revision < l.Revision+2 { // that of the renewal without an answer, and one more
		t.Errorf("renewed: %+v behind %+v, %v", renewed, l, err)
	}
	if _, err := ls.Renew(ctx, old); !errors.Is(err, cluster.ErrLost) {
		t.Errorf("an older one: %v", err)
	}
	if err := ls.Release(ctx, renewed); err != nil {
		t.Error(err)
	}
}

// writeTo stores one memory after the other until the shard is lost, and counts what fails.
func writeTo(ctx context.Context, s *cluster.Shard, writer string, o *told, failed *atomic.Int64) {
	for i := 0; ctx.Err() == nil; i++ {
		text := fmt.Sprintf("%s %d", writer, i)
		err := storeOne(ctx, s, text)
		if err == nil {
			o.hear("ACK " + text)
		}
		if err != nil {
			failed.Add(1)
			select {
			case <-s.Done():
				return
			case <-time.After(20 * time.Millisecond): // as a caller would
			}
		}
	}
}

// storeThrough stores so many, which are all to be acknowledged.
func storeThrough(t *testing.T, ctx context.Context, s *cluster.Shard, writer string, n int, o *told) {
	t.Helper()
	for i := range n {
		text := fmt.Sprintf("%s %d", writer, i)
		if err := storeOne(ctx, s, text); err != nil {
			t.Fatal(err)
		}
		o.hear("ACK " + text)
	}
}

// testClocks has three machines whose clocks are an hour apart own a shard in turn: the lease is none of the clocks'
// business, and times do not go back.
func testClocks(t *testing.T, ctx context.Context, b cluster.Backend, dir string) {
	t.Helper()
	for i, off := range []time.Duration{0, time.Hour, -time.Hour} {
		node := fmt.Sprint("clock-", i)
		o := shardOptions(b, node, filepath.Join(dir, node))
		o.Number = 1
		o.Clock = func() time.Time { return time.Now().Add(off) }
		o.Engine = &engine.Options{MemoryBudget: 64 << 20, Clock: o.Clock}
		s, err := owned(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		storeThrough(t, ctx, s, fmt.Sprintf("clock-%d", i), 3, &told{})
		db, done, err := s.Use(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n, last := 0, time.Time{}
		for m, err := range db.Memories().All(ctx, memory.ListQuery{Scope: ada}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; m.CreatedAt.Before(last) {
				t.Errorf("%s was created at %v, behind one of %v", m.Text, m.CreatedAt, last)
			}
			last = m.CreatedAt
		}
		if n != 3*(i+1) {
			t.Errorf("%s has %d memories", node, n)
		}
		done()
		if err := s.StepDown(ctx); err != nil {
			t.Error(err)
		}
	}
}
