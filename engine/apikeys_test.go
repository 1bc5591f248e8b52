package engine

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

func apiKeysOf(db *DB) *apikeys.Keys { return apikeys.Open(db.APIKeys(), time.Now) }

// twoKeys makes a key that works and one that was revoked.
func twoKeys(t *testing.T, db *DB) (works, revoked string) {
	t.Helper()
	k := apiKeysOf(db)
	works, _, err := k.Add(t.Context(), apikeys.Rights{Admin: true, Name: "of the operator"})
	noError(t, err)
	revoked, key, err := k.Add(t.Context(), apikeys.Rights{Scopes: []memory.Scope{{User: "ada"}}})
	noError(t, err)
	_, err = k.Revoke(t.Context(), key.ID)
	noError(t, err)
	return works, revoked
}

// wantKeys verifies that a database has the keys of twoKeys.
func wantKeys(t *testing.T, what string, db *DB, works, revoked string) {
	t.Helper()
	k := apiKeysOf(db)
	if key, needed, err := k.Find(works); err != nil || !needed || !key.Admin || key.Name != "of the operator" {
		t.Errorf("%s: the key that works: %+v, %v, %v", what, key, needed, err)
	}
	for _, secret := range []string{revoked, "", "nonsense"} {
		if _, needed, err := k.Find(secret); !needed || !errors.Is(err, apikeys.ErrNoKey) {
			t.Errorf("%s: another key: %v, %v", what, needed, err)
		}
	}
}

// wantClosed verifies that no key of a database works, and that it needs one.
func wantClosed(t *testing.T, what string, db *DB, secrets ...string) {
	t.Helper()
	for _, secret := range append(secrets, "") {
		if _, needed, err := apiKeysOf(db).Find(secret); !needed || err == nil {
			t.Errorf("%s: needed %v, %v", what, needed, err)
		}
	}
}

// storedKeys are the keys of the store that API keys have.
func storedKeys(t *testing.T, db *DB) (all [][]byte) {
	t.Helper()
	noError(t, kv.Scan(db.store, []byte{'K'}, []byte{'K' + 1}, func(key, _ []byte) error {
		all = append(all, bytes.Clone(key))
		return nil
	}))
	return all
}

// TestAPIKeysDamaged verifies that keys of which anything is missing, old or damaged let nobody in, and that a new key
// takes their place.
func TestAPIKeysDamaged(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	works, revoked := twoKeys(t, db)
	before := map[string][]byte{} // the newest state
	for _, key := range storedKeys(t, db) {
		value, closer, err := db.store.Get(key)
		noError(t, err)
		before[string(key)] = bytes.Clone(value)
		noError(t, closer.Close())
	}
	if len(before) != 4 { // the head, two keys and the end of one
		t.Fatalf("%d keys of the store: %q", len(before), before)
	}
	put := func(change func(b *pebble.Batch) error) {
		t.Helper()
		noError(t, db.applyBare(change))
		_, err := db.KV().Put(t.Context(), scope.Owner{User: "ada"}, "k", 1, nil) // a commit, from which on readers see it
		noError(t, err)
	}
	whole := func(b *pebble.Batch) (err error) {
		for key, value := range before {
			err = errors.Join(err, b.Set([]byte(key), value, nil))
		}
		return err
	}
	for key, value := range before {
		put(func(b *pebble.Batch) error { return b.Delete([]byte(key), nil) })
		wantClosed(t, "without "+key, db, works, revoked)
		for n := range value {
			bad := bytes.Clone(value)
			bad[n] ^= 1
			put(func(b *pebble.Batch) error { return b.Set([]byte(key), bad, nil) })
			wantClosed(t, "damaged "+key, db, works, revoked)
			put(func(b *pebble.Batch) error { return b.Set([]byte(key), value[:n], nil) })
			wantClosed(t, "cut "+key, db, works, revoked)
			payload := bad[:len(bad)-4] // of which the checksum is right: an older line
			if n < len(payload) && key[layout.KeyHeader] == 1 {
				put(func(b *pebble.Batch) error { return b.Set([]byte(key), layout.Seal([]byte(key), payload), nil) })
				wantClosed(t, "another "+key, db, works, revoked)
			}
		}
		put(whole)
		wantKeys(t, "whole again", db, works, revoked)
	}
	put(func(b *pebble.Batch) error { return b.DeleteRange([]byte("K"), []byte("L"), nil) })
	wantClosed(t, "without all", db, works, revoked)
	secret, _, err := apiKeysOf(db).Add(t.Context(), apikeys.Rights{Admin: true})
	noError(t, err)
	if key, _, err := apiKeysOf(db).Find(secret); err != nil || !key.Admin {
		t.Error(key, err)
	}
	k := apiKeysOf(db)
	if _, _, err := k.Find(works); !errors.Is(err, apikeys.ErrNoKey) {
		t.Error("a key that was lost works again:", err)
	}
	noError(t, k.Clear(t.Context()))
	if some, err := apiKeysOf(db).Some(); some || err != nil {
		t.Error("after the keys were cleared:", some, err)
	}
}
