package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// operationsOf lists what a batch does, in its order, and by key.
func operationsOf(t *testing.T, b *pebble.Batch) (keys []string, byKey map[string][]string) {
	t.Helper()
	byKey = map[string][]string{}
	for r := b.Reader(); ; {
		kind, key, value, more, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return keys, byKey
		}
		keys = append(keys, string(key))
		byKey[string(key)] = append(byKey[string(key)], fmt.Sprintf("%d %q", kind, value))
	}
}

// TestBatchInOrder: the operations of a batch come in the order of their keys, those of
// each key as they were written, and none is lost.
func TestBatchInOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	db := openTest(t, vfs.NewMem(), Options{})
	for round := range 200 {
		tx := db.begin()
		if round%3 == 0 {
			tx.searchable = true
			closing := tx.batch
			tx.batch = db.store.NewIndexedBatch()
			if err := closing.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 16 + rng.IntN(200) {
			key := []byte{byte(rng.IntN(256)), byte(rng.IntN(3))}
			var err error
			switch rng.IntN(4) {
			case 0:
				err = tx.del(key)
			case 1:
				err = tx.merge(key, fmt.Append(nil, i))
			default:
				err = tx.set(key, fmt.Append(nil, i))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		ranged := round%10 == 9
		if ranged {
			if err := tx.batch.DeleteRange([]byte{1}, []byte{2}, nil); err != nil {
				t.Fatal(err)
			}
		}
		before, want := operationsOf(t, tx.batch)
		var err error
		if tx.batch, err = db.writer.orderer.InOrder(db.store, tx.batch); err != nil {
			t.Fatal(err)
		}
		after, got := operationsOf(t, tx.batch)
		if ranged && !slices.Equal(after, before) {
			t.Fatal("a batch that deletes a range is in another order")
		}
		if !ranged && !slices.IsSorted(after) {
			t.Fatalf("keys are not in order: %q", after)
		}
		if len(after) != len(before) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		tx.rollback()
	}
	closeTest(t, db)
}

// TestBatchRead: a transaction reads what it has written over what there was, whenever
// it begins to read.
func TestBatchRead(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	a, b, c := []byte{200, 1}, []byte{200, 2}, []byte{200, 3}
	if err := db.store.Set(a, []byte("before"), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	tx := db.begin()
	want := func(key []byte, value string) {
		t.Helper()
		got, closer, err := tx.state.Reader.Get(key)
		if value == "" {
			if !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("%v is %q, %v", key, got, err)
			}
			return
		}
		if err != nil || string(got) != value {
			t.Errorf("%v is %q, %v; want %q", key, got, err, value)
		}
		if closer != nil {
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	want(a, "before")
	want(b, "")
	for _, err := range []error{tx.set(b, []byte("new")), tx.del(a)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want(a, "")
	want(b, "new")
	for _, err := range []error{tx.set(c, []byte("later")), tx.batch.DeleteRange(b, c, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want(b, "")
	want(c, "later")
	tx.rollback()
	closeTest(t, db)
}
