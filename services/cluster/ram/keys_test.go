package ram_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/ram"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// TestKeysCutOff: a node that cannot ask for the keys goes by those that it knows for KeysHold, and then refuses all;
// so a key that was revoked elsewhere opens nothing for longer. Once it can ask, it knows all.
func TestKeysCutOff(t *testing.T) {
	clk := testdb.NewClock()
	store := ram.New(nil)
	here, there := store.Client(), store.Client()
	open := func(c *ram.Client) (*cluster.Keys, *server.Keys) {
		of, err := cluster.OpenKeys(t.Context(), c, cluster.KeysOptions{Clock: clk.Now})
		testdb.NoError(t, err)
		keys, err := server.SharedKeys(of, clk.Now)
		testdb.NoError(t, err)
		return of, keys
	}
	of, keys := open(here)
	_, others := open(there)
	if some, err := keys.Some(); some || err != nil {
		t.Error(some, err)
	}
	_, ada, err := others.Add([]memory.Scope{{User: "ada"}}, false)
	testdb.NoError(t, err)
	_, _, err = others.Add(nil, true)
	testdb.NoError(t, err)
	testdb.NoError(t, of.Refresh(t.Context()))
	live := func() (n int) {
		t.Helper()
		all, err := keys.List()
		testdb.NoError(t, err)
		for _, k := range all {
			if k.RevokedAt == nil {
				n++
			}
		}
		return n
	}
	if n := live(); n != 2 {
		t.Fatalf("%d keys", n)
	}
	here.Fail(ram.Faults{Cut: true})
	_, err = others.Revoke(ada.ID)
	testdb.NoError(t, err)
	clk.Advance(cluster.KeysHold)
	testdb.WantError(t, "refresh", of.Refresh(t.Context()), memory.ErrUnavailable)
	if n := live(); n != 2 {
		t.Errorf("%d keys hold", n)
	}
	clk.Advance(time.Millisecond)
	if _, err := keys.Some(); !errors.Is(err, memory.ErrUnavailable) || !strings.Contains(err.Error(), "revoked since") {
		t.Errorf("behind the time: %v", err)
	}
	if _, _, err := keys.Add(nil, true); !errors.Is(err, memory.ErrUnavailable) {
		t.Errorf("a key that nobody keeps: %v", err)
	}
	here.Fail(ram.Faults{})
	testdb.NoError(t, of.Refresh(t.Context()))
	if n := live(); n != 1 {
		t.Errorf("%d keys hold after one was revoked", n)
	}
	// A backend that begins anew has not revoked anything: the node does not go by it.
	anew, err := cluster.OpenKeys(t.Context(), swapped{there, ram.New(nil).Client(), new(int)}, cluster.KeysOptions{Clock: clk.Now})
	testdb.NoError(t, err)
	testdb.WantError(t, "another backend", anew.Refresh(t.Context()), memory.ErrMismatch)
}

// swapped is a backend in the place of which another one stands after its keys were asked for once.
type swapped struct {
	*ram.Client
	next  *ram.Client
	asked *int
}

func (s swapped) Keys() cluster.Book { return swappedBook{s} }

type swappedBook struct{ of swapped }

func (b swappedBook) book() cluster.Book {
	*b.of.asked++
	if *b.of.asked > 1 {
		return b.of.next.Keys()
	}
	return b.of.Client.Keys()
}

func (b swappedBook) Put(ctx context.Context, key string, value []byte) error {
	return b.book().Put(ctx, key, value)
}

func (b swappedBook) Changed(ctx context.Context, after uint64) ([]cluster.Entry, uint64, error) {
	return b.book().Changed(ctx, after)
}
