package jetstream_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// TestKeys: keys that one machine makes and revokes are known to the others as soon as they ask, also to one that
// was cut off; without a majority nobody says that he knows the newest.
func TestKeys(t *testing.T) {
	s := newServers(t, t.TempDir(), false)
	open := func() (*cluster.Keys, *server.Keys) {
		t.Helper()
		of, err := cluster.OpenKeys(t.Context(), s.connect(), cluster.KeysOptions{})
		if err != nil {
			t.Fatal(err)
		}
		keys, err := server.SharedKeys(of, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return of, keys
	}
	_, keys := open()
	of, others := open()
	until := func(what string, so func() error) {
		t.Helper()
		var err error
		for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
			if err = so(); err == nil {
				return
			}
		}
		t.Fatal(what, ": ", err)
	}
	// hold says which keys another machine knows to hold.
	hold := func(want int) error {
		if err := of.Refresh(t.Context()); err != nil {
			return err
		}
		all, err := others.List()
		if err != nil {
			return err
		}
		n := 0
		for _, k := range all {
			if k.RevokedAt == nil {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%d keys hold, want %d", n, want)
		}
		return nil
	}
	var made []server.Key
	for i := range 5 {
		_, k, err := keys.Add([]memory.Scope{{User: fmt.Sprint("user", i)}}, false)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, k)
	}
	// What was put is known to who asks then, whichever replica he asks.
	if err := hold(5); err != nil {
		t.Error(err)
	}
	for i, k := range made[:3] {
		if _, err := keys.Revoke(k.ID); err != nil {
			t.Fatal(err)
		}
		if err := hold(4 - i); err != nil {
			t.Error(err)
		}
	}
	s.all[0].kill()
	s.all[1].kill()
	until("without a majority the keys are said to be the newest", func() error {
		if err := of.Refresh(t.Context()); !errors.Is(err, memory.ErrUnavailable) {
			return errors.New(fmt.Sprint("refresh: ", err))
		}
		return nil
	})
	if _, err := keys.Revoke(made[3].ID); !errors.Is(err, memory.ErrUnavailable) {
		t.Errorf("revoked without a majority: %v", err)
	}
	s.start(0)
	s.start(1)
	until("the key is not revoked", func() error {
		_, err := keys.Revoke(made[3].ID)
		return err
	})
	until("the revoked key holds", func() error { return hold(1) })
	if _, fresh := open(); fresh != nil {
		if all, err := fresh.List(); err != nil || len(all) != 5 {
			t.Error(len(all), err)
		}
	}
}
