package ram_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/ram"
)

const clusterID = "6f1c0a52-3f54-4f6e-9a3b-0a4f5f0c9d11"

// bench is a store of a cluster, with a clock that the test moves.
type rig struct {
	t     *testing.T
	dir   string
	store *ram.Store
	now   atomic.Int64 // what all clocks have gone ahead
}

// leaseTime is more than a machine that is busy stands still for.
const leaseTime = 30 * time.Second

func newRig(t *testing.T, o ram.Options) *rig {
	r := &rig{t: t, dir: t.TempDir()}
	o.Clock, o.TTL = r.clock, leaseTime
	r.store = ram.New(&o)
	return r
}

func (r *rig) clock() time.Time          { return time.Now().Add(time.Duration(r.now.Load())) }
func (r *rig) pass(d time.Duration)      { r.now.Add(int64(d)) }
func (r *rig) folder(node string) string { return filepath.Join(r.dir, node) }
func (r *rig) messages() (n int)         { _, all := r.store.Messages(0); return len(all) }
func (r *rig) options(node string, c *ram.Client) cluster.ShardOptions {
	return cluster.ShardOptions{
		Backend: c, Cluster: clusterID, Number: 0, Shards: 4, Node: node, Dir: r.folder(node), Clock: r.clock,
		Engine: &engine.Options{MemoryBudget: 32 << 20}, LogWait: time.Second,
	}
}

// open opens the shard on a machine, which has a client of its own.
func (r *rig) open(node string) (*cluster.Shard, *ram.Client) {
	r.t.Helper()
	c := r.store.Client()
	s, err := cluster.OpenShard(r.t.Context(), r.options(node, c))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.Close() })
	return s, c
}

var owner = scope.Scope{User: "ada"}

func store(t *testing.T, s *cluster.Shard, text string) error {
	t.Helper()
	db, done, err := s.Use(t.Context())
	if err != nil {
		return err
	}
	defer done()
	_, err = db.Memories().Store(t.Context(), memory.Memory{Scope: owner, Text: text}, nil)
	return err
}

func mustStore(t *testing.T, s *cluster.Shard, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := store(t, s, text); err != nil {
			t.Fatal(err)
		}
	}
}

func listed(t *testing.T, db *engine.DB) (texts []string) {
	t.Helper()
	for m, err := range db.Memories().All(t.Context(), memory.ListQuery{Scope: owner}) {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, m.Text)
	}
	slices.Sort(texts)
	return texts
}

func wantTexts(t *testing.T, s *cluster.Shard, want ...string) {
	t.Helper()
	db, done, err := s.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	want = slices.Sorted(slices.Values(want))
	if got := listed(t, db); !slices.Equal(got, want) {
		t.Errorf("the shard has %q, want %q", got, want)
	}
	if report, err := db.CheckDeep(t.Context()); err != nil || !report.OK {
		t.Errorf("check: %+v, %v", report, err)
	}
}

func wantKind(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, want %v", what, err, kind)
	}
}

func closes(t *testing.T, s *cluster.Shard) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// verified compares a shard with a copy of its log.
func verified(t *testing.T, s *cluster.Shard) {
	t.Helper()
	v, err := s.Verify(t.Context())
	if err != nil || !v.OK {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestShardHandOver: a shard goes from machine to machine, with everything, also back to a folder that has followed
// less.
func TestShardHandOver(t *testing.T) {
	r := newRig(t, ram.Options{})
	a, _ := r.open("a")
	mustStore(t, a, "one", "two")
	_, err := cluster.OpenShard(t.Context(), r.options("b", r.store.Client()))
	if held, ok := errors.AsType[*cluster.HeldError](err); !ok || held.Holder != "a" {
		t.Errorf("a second owner: %v", err)
	}
	standby, err := cluster.Follow(t.Context(), r.options("b", r.store.Client()))
	if err != nil {
		t.Fatal(err)
	}
	mustStore(t, a, "three")
	if err := standby.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, done, err := a.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stepped := make(chan error, 1)
	go func() { stepped <- a.StepDown(t.Context()) }()
	for wait := err; wait == nil; { // until no call begins
		var again func()
		if _, again, wait = a.Use(t.Context()); wait == nil {
			again()
		}
	}
	done()
	if err := <-stepped; err != nil {
		t.Fatal(err)
	}
	wantKind(t, "a call of who has stepped down", store(t, a, "late"), memory.ErrNotOwner)
	b, err := standby.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, b)
	mustStore(t, b, "four")
	wantTexts(t, b, "one", "two", "three", "four")
	verified(t, b)
	closes(t, b)
	again, _ := r.open("a")
	wantTexts(t, again, "one", "two", "three", "four")
	if st := again.Status(); st.Epoch != 3 || st.Node != "a" || st.LSN != 4 || st.LeaseMS == 0 {
		t.Errorf("%+v", st)
	}
}

// TestShardTwoOwners: an owner that is cut off acknowledges nothing, answers nothing once its lease has run out, and
// what it has written alone is in nobody's folder.
func TestShardTwoOwners(t *testing.T) {
	t.Parallel() // it waits
	r := newRig(t, ram.Options{})
	a, net := r.open("a")
	mustStore(t, a, "one")
	net.Fail(ram.Faults{Cut: true})
	wantKind(t, "a write without a log", store(t, a, "of a alone"), memory.ErrUnavailable)
	r.pass(leaseTime + time.Second)
	wantKind(t, "a call after the lease", store(t, a, "too late"), memory.ErrNotOwner)
	db, stale, done, err := a.UseStale(t.Context())
	if err != nil || stale < time.Second || !slices.Equal(listed(t, db), []string{"one"}) {
		t.Errorf("reads without a lease: %v old, %v", stale, err)
	}
	b, _ := r.open("b")
	mustStore(t, b, "two")
	net.Fail(ram.Faults{})
	<-a.Done()
	for { // the answer may be late, and then a write says so
		_, err = db.Memories().Store(t.Context(), memory.Memory{Scope: owner, Text: "refused"}, nil)
		if !errors.Is(err, memory.ErrUnavailable) {
			break
		}
	}
	wantKind(t, "a write behind another owner", err, memory.ErrNotOwner)
	done()
	closes(t, a)
	wantTexts(t, b, "one", "two")
	closes(t, b)
	again, _ := r.open("a")
	wantTexts(t, again, "one", "two")
	verified(t, again)
}

// TestShardUnsent: a folder with batches that its log never got, which were not refused either, is dropped.
func TestShardUnsent(t *testing.T) {
	t.Parallel() // it waits
	r := newRig(t, ram.Options{})
	a, net := r.open("a")
	mustStore(t, a, "one")
	net.Fail(ram.Faults{Cut: true})
	wantKind(t, "a write without a log", store(t, a, "of a alone"), memory.ErrUnavailable)
	wantKind(t, "the closing", a.Close(), memory.ErrUnavailable)
	r.pass(leaseTime + time.Second)
	again, _ := r.open("a")
	mustStore(t, again, "two")
	wantTexts(t, again, "one", "two")
	verified(t, again)
}

// TestShardDeaf: a message of which the answer is lost is kept once.
func TestShardDeaf(t *testing.T) {
	r := newRig(t, ram.Options{})
	a, net := r.open("a")
	for i := range 5 {
		net.Fail(ram.Faults{Deaf: true})
		sent := make(chan error, 1)
		go func() { sent <- store(t, a, fmt.Sprint("text ", i)) }()
		for before := a.Status().Resends; a.Status().Resends == before; {
			time.Sleep(time.Millisecond)
		}
		net.Fail(ram.Faults{})
		if err := <-sent; err != nil && !errors.Is(err, memory.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	mustStore(t, a, "last")
	wantTexts(t, a, "text 0", "text 1", "text 2", "text 3", "text 4", "last")
	verified(t, a)
}

// noise is a text that cannot be packed.
func noise(seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for b.Len() < 50_000 {
		fmt.Fprintf(&b, "%x ", rng.Uint64())
	}
	return strings.TrimSpace(b.String())
}

// TestShardParts: a transaction that is larger than a message is whole or not there.
func TestShardParts(t *testing.T) {
	r := newRig(t, ram.Options{MaxMessage: 8 << 10})
	a, net := r.open("a")
	mustStore(t, a, "one", noise(1))
	if n := r.messages(); n < 4 {
		t.Errorf("%d messages", n)
	}
	// The last part of another never comes.
	_, all := r.store.Messages(0)
	before := len(all)
	db, done, err := a.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Memories().Store(t.Context(), memory.Memory{Scope: owner, Text: noise(2)}, nil); err != nil {
		t.Fatal(err)
	}
	done()
	_, all = r.store.Messages(0)
	if len(all) < before+2 {
		t.Fatalf("%d messages after %d", len(all), before)
	}
	net.Fail(ram.Faults{Cut: true})
	_ = a.Close()
	r.store.Replace(0, 1, all[:len(all)-1])
	r.pass(leaseTime + time.Second)
	b, _ := r.open("b")
	mustStore(t, b, "two")
	wantTexts(t, b, "one", noise(1), "two")
	verified(t, b)
}

// TestShardSnapshot: behind a snapshot the log is purged, and a machine with nothing, or with less than the log has,
// takes over all the same.
func TestShardSnapshot(t *testing.T) {
	r := newRig(t, ram.Options{})
	a, _ := r.open("a")
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprint("text ", i))
	}
	mustStore(t, a, want[:5]...)
	closes(t, a)
	b, net := r.open("b")
	mustStore(t, b, want[5:15]...)
	before := r.messages()
	if err := b.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.messages(); n > before/2 {
		t.Errorf("%d messages are left of %d", n, before)
	}
	mustStore(t, b, want[15:]...)
	verified(t, b)
	net.Fail(ram.Faults{Full: true})
	wantKind(t, "without room", b.Snapshot(t.Context()), cluster.ErrNoRoom)
	if st := b.Status(); st.SnapshotError == "" || st.Snapshot == 0 {
		t.Errorf("%+v", st)
	}
	net.Fail(ram.Faults{})
	mustStore(t, b, "after")
	if err := b.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err := net.Objects(0).List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	closes(t, b)
	for _, node := range []string{"a", "c"} { // a has less than the log begins with
		s, _ := r.open(node)
		wantTexts(t, s, append(want, "after")...)
		verified(t, s)
		closes(t, s)
	}
}

// TestShardBadInput: what is of another cluster, damaged or newer is refused, and nothing is dropped for it.
func TestShardBadInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(t *testing.T, r *rig, o *cluster.ShardOptions)
		kind   error
	}{
		{"another cluster", func(_ *testing.T, _ *rig, o *cluster.ShardOptions) {
			o.Cluster = "00000000-3f54-4f6e-9a3b-0a4f5f0c9d11"
		}, memory.ErrMismatch},
		{"another number of shards", func(_ *testing.T, _ *rig, o *cluster.ShardOptions) { o.Shards = 8 }, memory.ErrMismatch},
		{"no such shard", func(_ *testing.T, _ *rig, o *cluster.ShardOptions) { o.Number = 4 }, memory.ErrInvalid},
		{"the log of another shard", func(t *testing.T, r *rig, o *cluster.ShardOptions) {
			o.Number = 1
			if _, err := r.store.Client().Log(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			first, all := r.store.Messages(0)
			r.store.Replace(1, first, all)
		}, memory.ErrMismatch},
		{"a message that is damaged", func(_ *testing.T, r *rig, _ *cluster.ShardOptions) {
			first, all := r.store.Messages(0)
			all[2][len(all[2])/2] ^= 1
			r.store.Replace(0, first, all)
		}, memory.ErrCorrupt},
		{"a message that is missing", func(_ *testing.T, r *rig, _ *cluster.ShardOptions) {
			first, all := r.store.Messages(0)
			r.store.Replace(0, first, append(all[:2], all[3:]...))
		}, memory.ErrCorrupt},
		{"a message that is none", func(_ *testing.T, r *rig, _ *cluster.ShardOptions) {
			first, all := r.store.Messages(0)
			r.store.Replace(0, first, append(all, []byte("hello")))
		}, memory.ErrCorrupt},
		{"a newer message", func(_ *testing.T, r *rig, _ *cluster.ShardOptions) {
			first, all := r.store.Messages(0)
			all[len(all)-1][8]++
			r.store.Replace(0, first, all)
		}, memory.ErrNewerLayout},
		{"a log that was purged", func(_ *testing.T, r *rig, _ *cluster.ShardOptions) {
			first, all := r.store.Messages(0)
			r.store.Replace(0, first+2, all[2:])
		}, memory.ErrCorrupt},
		{"a log that is empty, and a folder that is not", func(_ *testing.T, r *rig, o *cluster.ShardOptions) {
			r.store.Replace(0, 1, nil)
			o.Dir = r.folder("a")
		}, memory.ErrMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // some wait
			r := newRig(t, ram.Options{})
			a, _ := r.open("a")
			mustStore(t, a, "one", "two", "three")
			closes(t, a)
			o := r.options("b", r.store.Client())
			c.change(t, r, &o)
			s, err := cluster.OpenShard(t.Context(), o)
			wantKind(t, c.name, err, c.kind)
			if s != nil {
				closes(t, s)
			}
			db, err := engine.Open(r.folder("a"), &engine.Options{ReadOnly: true, MemoryBudget: 32 << 20})
			if err != nil {
				t.Fatal(err)
			}
			if got := listed(t, db); len(got) != 3 {
				t.Errorf("the folder has %q", got)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if holder, err := r.store.Client().Leases().Holder(context.Background(), o.Number); err != nil || holder != "" {
				t.Errorf("%q holds the lease, %v", holder, err)
			}
		})
	}
}

// TestShardErased: what was erased is soon in no message, no object and no folder of a standby.
func TestShardErased(t *testing.T) {
	t.Parallel() // it waits
	r := newRig(t, ram.Options{})
	a, net := r.open("a")
	const secret = "xylophonequartz"
	mustStore(t, a, "one", "the word is "+secret)
	if err := a.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustStore(t, a, "and again "+secret)
	b, err := cluster.Follow(t.Context(), r.options("b", r.store.Client()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	db, done, err := a.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Erase(t.Context(), engine.EraseQuery{User: "ada"}); err != nil {
		t.Fatal(err)
	}
	done()
	snapshot := a.Status().Snapshot
	for limit := time.Now().Add(patience); a.Status().Snapshot == snapshot; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("no snapshot was made")
		}
	}
	if err := b.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, all := r.store.Messages(0); bytes.Contains(bytes.Join(all, nil), []byte(secret)) {
		t.Error("a message has what was erased")
	}
	objects, err := net.Objects(0).List(t.Context())
	if err != nil || len(objects) != 1 {
		t.Fatalf("%v, %v", objects, err)
	}
	verified(t, a)
}
