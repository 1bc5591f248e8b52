package jetstream_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
)

// TestKeys: keys that one machine makes and revokes are known to the others as soon as they ask, also to one that
// was cut off; without a majority nobody says that he knows the newest.
func TestKeys(t *testing.T) {
	s := newServers(t, t.TempDir(), false)
	open := func() *cluster.Keys {
		t.Helper()
		keys, err := cluster.OpenKeys(t.Context(), s.connect(), cluster.KeysOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	keys, others := open(), open()
	put := func(format string, args ...any) error {
		name := fmt.Sprintf(format, args...)
		return keys.Put(t.Context(), name, []byte(name))
	}
	until := func(what string, so func() error) {
		t.Helper()
		var err error
		for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
			if err = so(); err == nil {
				return
			}
		}
		t.Fatal(what, ": ", err)
	}
	// known looks at what another machine knows.
	known := func(made, revoked int) error {
		if err := others.Refresh(t.Context()); err != nil {
			return err
		}
		lines := linesOf(others)
		if m, r := strings.Count(lines, "made."), strings.Count(lines, "revoked."); m != made || r != revoked {
			return fmt.Errorf("%d were made and %d revoked, want %d and %d", m, r, made, revoked)
		}
		return nil
	}
	// What was put is known to who asks then, whichever replica he asks.
	for i := range 5 {
		if err := put("made.%d", i); err != nil {
			t.Fatal(err)
		}
		if err := known(i+1, 0); err != nil {
			t.Error(err)
		}
	}
	for i := range 3 {
		if err := put("revoked.%d", i); err != nil {
			t.Fatal(err)
		}
		if err := known(5, i+1); err != nil {
			t.Error(err)
		}
	}
	s.all[0].kill()
	s.all[1].kill()
	until("without a majority the keys are said to be the newest", func() error {
		if err := others.Refresh(t.Context()); !errors.Is(err, memory.ErrUnavailable) {
			return errors.New(fmt.Sprint("refresh: ", err))
		}
		return nil
	})
	if err := put("revoked.3"); !errors.Is(err, memory.ErrUnavailable) {
		t.Errorf("revoked without a majority: %v", err)
	}
	s.start(0)
	s.start(1)
	until("the key is not revoked", func() error { return put("revoked.3") })
	until("the revoked key holds", func() error { return known(5, 4) })
	if got := linesOf(open()); got != linesOf(others) {
		t.Errorf("who begins anew knows %q", got)
	}
}

// linesOf are the lines of keys.
func linesOf(k *cluster.Keys) string {
	lines, _, _ := k.Lines() // which fails for keys of a database alone
	return string(lines)
}
