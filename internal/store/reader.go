package store

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// The states that Pebble can read, as structures read them. Each is one pointer, so that an
// interface holds it without an allocation; their iterators are Pebble's own.
var (
	_ kv.Reader   = (*Store)(nil)
	_ kv.Reader   = Snapshot{}
	_ kv.Reader   = Batch{}
	_ kv.Reader   = (*Sweep)(nil)
	_ kv.Iterator = (*pebble.Iterator)(nil)
)

// Get is that of [kv.Reader] in the newest state.
func (s *Store) Get(key []byte) ([]byte, io.Closer, error) { return get(s.reads, key) }

// Iter is that of [kv.Reader] in the newest state.
func (s *Store) Iter(lower, upper []byte) (kv.Iterator, error) { return iter(s.reads, lower, upper) }

// Snapshot is a state of the store that stays until it is closed.
type Snapshot struct{ *pinned }

// pinned is a snapshot of Pebble.
type pinned struct {
	*pebble.Snapshot
	of     *snapshots // nil where a frozen store closes it
	number uint64
}

// Close gives the state up.
func (p *pinned) Close() error {
	if p.of == nil {
		return nil
	}
	err := p.Snapshot.Close()
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	delete(p.of.open, p.number)
	return err
}

// snapshots are the numbers of those that are open: each is higher than that of all that were taken before.
type snapshots struct {
	mu    sync.Mutex
	taken uint64
	open  map[uint64]struct{}
}

// Taken is the number of the newest snapshot.
func (s *Store) Taken() uint64 {
	s.snapshots.mu.Lock()
	defer s.snapshots.mu.Unlock()
	return s.snapshots.taken
}

// Holds reports whether a snapshot is open that has a number, or a lower one.
func (s *Store) Holds(number uint64) bool {
	s.snapshots.mu.Lock()
	defer s.snapshots.mu.Unlock()
	for n := range s.snapshots.open {
		if n <= number {
			return true
		}
	}
	return false
}

// NewSnapshot is the newest state, which is to be closed.
func (s *Store) NewSnapshot() Snapshot {
	if s.frozen.pinned != nil {
		return Snapshot{&pinned{Snapshot: s.frozen.Snapshot}}
	}
	of := &s.snapshots
	of.mu.Lock()
	defer of.mu.Unlock()
	of.taken++
	of.open[of.taken] = struct{}{}
	return Snapshot{&pinned{s.db.NewSnapshot(), of, of.taken}}
}

// Get is that of [kv.Reader].
func (s Snapshot) Get(key []byte) ([]byte, io.Closer, error) { return get(s.Snapshot, key) }

// Iter is that of [kv.Reader].
func (s Snapshot) Iter(lower, upper []byte) (kv.Iterator, error) {
	return iter(s.Snapshot, lower, upper)
}

// Batch is an indexed batch over the newest state.
type Batch struct{ *pebble.Batch }

// Get is that of [kv.Reader].
func (b Batch) Get(key []byte) ([]byte, io.Closer, error) { return get(b.Batch, key) }

// Iter is that of [kv.Reader].
func (b Batch) Iter(lower, upper []byte) (kv.Iterator, error) { return iter(b.Batch, lower, upper) }

func get(r pebble.Reader, key []byte) ([]byte, io.Closer, error) {
	b, closer, err := r.Get(key)
	if err != nil && errors.Is(err, pebble.ErrNotFound) {
		err = kv.ErrNotFound
	}
	return b, closer, err
}

func iter(r pebble.Reader, lower, upper []byte) (kv.Iterator, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, err // not an interface that holds a nil iterator
	}
	return it, nil
}

// ScanAround is [kv.Scan] that goes on behind what cannot be read. Where reading fails after the
// key before from, around is called and returns the key to go on at, which comes after from.
func ScanAround(r kv.Reader, lower, upper []byte, visit func(key, value []byte) error, around func(from []byte, err error) (next []byte, rerr error)) error {
	for {
		from := lower
		err := kv.Scan(r, lower, upper, func(key, value []byte) error {
			err := visit(key, value)
			from = append(append(from[:0:0], key...), 0)
			return err
		})
		if err == nil || !pebble.IsCorruptionError(err) {
			return err
		}
		if lower, err = around(from, err); err != nil || lower == nil || upper != nil && bytes.Compare(lower, upper) >= 0 {
			return err
		}
	}
}
