package peer

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"
)

// pebbleMemtable is what memdb gives its own store on a machine of 16 GB or more.
const pebbleMemtable = 64 << 20

// pebbleStore is the store that memdb stands on (BSD-3-Clause), by itself.
type pebbleStore struct {
	db   *pebble.DB
	size int
}

func openPebble(dir string, _, valueBytes int) (Store, error) {
	db, err := pebble.Open(filepath.Join(dir, "pebble"), &pebble.Options{
		MemTableSize: pebbleMemtable, FormatMajorVersion: pebble.FormatValueSeparation, Logger: Silent{},
	})
	if err != nil {
		return nil, fmt.Errorf("pebble: %w", err)
	}
	return &pebbleStore{db, valueBytes}, nil
}

func (s *pebbleStore) Put(_ context.Context, r *Record) error {
	return s.db.Set(r.key(), r.value(s.size), pebble.Sync)
}

func (s *pebbleStore) Close() error { return s.db.Close() }

// Silent is a logger for Pebble that drops what it tells of each flush.
type Silent struct{}

func (Silent) Infof(string, ...any)  {}
func (Silent) Errorf(string, ...any) {}

// Fatalf ends the benchmark with a message, as Pebble expects of it: the disk has
// failed, and what comes after would measure nothing.
func (Silent) Fatalf(format string, args ...any) { pebble.DefaultLogger.Fatalf(format, args...) }

// bboltStore is a B+ tree (MIT). Several writers share commits by its Batch.
type bboltStore struct {
	db   *bbolt.DB
	put  func(func(*bbolt.Tx) error) error
	size int
}

var bboltBucket = []byte("records")

func openBbolt(dir string, writers, valueBytes int) (Store, error) {
	db, err := bbolt.Open(filepath.Join(dir, "bbolt.db"), 0o644, nil)
	if err != nil {
		return nil, fmt.Errorf("bbolt: %w", err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bboltBucket)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("bbolt: %w", err)
	}
	s := &bboltStore{db: db, put: db.Update, size: valueBytes}
	if writers > 1 {
		// A batch that is full is not kept waiting for more.
		db.MaxBatchSize = writers
		s.put = db.Batch
	}
	return s, nil
}

func (s *bboltStore) Put(_ context.Context, r *Record) error {
	key, value := r.key(), r.value(s.size)
	return s.put(func(tx *bbolt.Tx) error { return tx.Bucket(bboltBucket).Put(key, value) })
}

func (s *bboltStore) Close() error { return s.db.Close() }

// badgerStore is an LSM tree with a value log (Apache-2.0).
type badgerStore struct {
	db   *badger.DB
	size int
}

func openBadger(dir string, _, valueBytes int) (Store, error) {
	db, err := badger.Open(badger.DefaultOptions(filepath.Join(dir, "badger")).WithSyncWrites(true).WithLogger(nil))
	if err != nil {
		return nil, fmt.Errorf("badger: %w", err)
	}
	return &badgerStore{db, valueBytes}, nil
}

func (s *badgerStore) Put(_ context.Context, r *Record) error {
	key, value := r.key(), r.value(s.size)
	return s.db.Update(func(tx *badger.Txn) error { return tx.Set(key, value) })
}

func (s *badgerStore) Close() error { return s.db.Close() }
