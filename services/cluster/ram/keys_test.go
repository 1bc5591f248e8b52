package ram_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/ram"
)

// linesOf are the lines of keys, and after them an error.
func linesOf(k *cluster.Keys) string {
	lines, _, err := k.Lines()
	if err != nil {
		return string(lines) + err.Error()
	}
	return string(lines)
}

// TestKeysLost verifies that a cluster whose book of keys is gone counts as one that has keys: nobody is let in.
func TestKeysLost(t *testing.T) {
	var b cluster.Backend = ram.New(nil).Client()
	open := func() *cluster.Keys {
		t.Helper()
		k, err := cluster.OpenKeys(t.Context(), b, cluster.KeysOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	k := open()
	if _, keyed, err := k.Lines(); keyed || err != nil {
		t.Errorf("a new cluster: %v, %v", keyed, err)
	}
	if err := k.Put(t.Context(), "made.a", []byte("A")); err != nil {
		t.Fatal(err)
	}
	b = newBook{b, ram.New(nil).Client()}
	if lines, keyed, err := open().Lines(); len(lines) > 0 || !keyed || err != nil {
		t.Errorf("without its book: %q, %v, %v", lines, keyed, err)
	}
}

// newBook is a backend whose keys are those of another one.
type newBook struct {
	cluster.Backend
	other *ram.Client
}

func (b newBook) Keys() cluster.Book { return b.other.Keys() }

// TestKeysCutOff: a node that cannot ask for the keys goes by those that it knows for KeysHold, and then says that they
// may be too old; so a key that was revoked elsewhere opens nothing for longer. Once it can ask, it knows all.
func TestKeysCutOff(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := ram.New(nil)
	here, there := store.Client(), store.Client()
	open := func(b cluster.Backend) *cluster.Keys {
		t.Helper()
		k, err := cluster.OpenKeys(t.Context(), b, cluster.KeysOptions{Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	keys, others := open(here), open(there)
	put := func(name, line string) {
		t.Helper()
		if err := others.Put(t.Context(), name, []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(k *cluster.Keys, lines string) {
		t.Helper()
		if _, err := k.Version(); err != nil || linesOf(k) != lines {
			t.Errorf("%q, want %q: %v", linesOf(k), lines, err)
		}
	}
	refresh := func(k *cluster.Keys, kind error) {
		t.Helper()
		if err := k.Refresh(t.Context()); !errors.Is(err, kind) {
			t.Errorf("%v, want %v", err, kind)
		}
	}
	put("made.b", "B")
	put("made.a", "A")
	want(others, "A\nB\n")
	want(keys, "")
	refresh(keys, nil)
	want(keys, "A\nB\n")
	before, _ := keys.Version()
	here.Fail(ram.Faults{Cut: true})
	put("revoked.a", "-A")
	now = now.Add(cluster.KeysHold)
	refresh(keys, memory.ErrUnavailable)
	want(keys, "A\nB\n")
	if err := keys.Put(t.Context(), "made.c", []byte("C")); !errors.Is(err, memory.ErrUnavailable) {
		t.Errorf("a key that nobody keeps: %v", err)
	}
	now = now.Add(time.Millisecond)
	if _, err := keys.Version(); !errors.Is(err, memory.ErrUnavailable) || !strings.Contains(err.Error(), "revoked since") {
		t.Errorf("behind the time: %v", err)
	}
	here.Fail(ram.Faults{})
	refresh(keys, nil)
	want(keys, "A\nB\n-A\n")
	if after, _ := keys.Version(); after == before {
		t.Errorf("the version is still %d", after)
	}
	put("made.a", "AA") // in the place of the other one
	refresh(keys, nil)
	want(keys, "AA\nB\n-A\n")
	// A backend that begins anew knows of no key that was revoked: nobody goes by it.
	swapped := &swappedBackend{Client: there, next: ram.New(nil).Client()}
	refresh(open(swapped), memory.ErrMismatch)
}

// TestKeysFollow: who follows the keys knows of new ones by itself.
func TestKeysFollow(t *testing.T) {
	t.Parallel() // it waits
	store := ram.New(nil)
	keys, err := cluster.OpenKeys(t.Context(), store.Client(), cluster.KeysOptions{})
	if err != nil {
		t.Fatal(err)
	}
	others, err := cluster.OpenKeys(t.Context(), store.Client(), cluster.KeysOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		keys.Follow(ctx)
	}()
	if err := others.Put(t.Context(), "made.a", []byte("A")); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); linesOf(keys) != "A\n"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%q", linesOf(keys))
		}
	}
	cancel()
	<-ended
}

// TestKeysFull: keys are bounded, and those that are there go on.
func TestKeysFull(t *testing.T) {
	store := ram.New(nil)
	keys, err := cluster.OpenKeys(t.Context(), store.Client(), cluster.KeysOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Put(t.Context(), "made.a", []byte("A")); err != nil {
		t.Fatal(err)
	}
	if err := keys.Put(t.Context(), "made.b", make([]byte, 16<<20)); !errors.Is(err, memory.ErrFull) || linesOf(keys) != "A\n" {
		t.Error(err)
	}
}

// swappedBackend is a backend in the place of which another one stands after its keys were asked for once.
type swappedBackend struct {
	*ram.Client
	next *ram.Client
}

func (s *swappedBackend) Keys() cluster.Book { return &swappedBook{s, s.Client.Keys()} }

type swappedBook struct {
	of *swappedBackend
	cluster.Book
}

func (b *swappedBook) Changed(ctx context.Context, after uint64) ([]cluster.Entry, uint64, error) {
	defer func() { b.Book = b.of.next.Keys() }()
	return b.Book.Changed(ctx, after)
}
