package store

import (
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// Sweep is a [kv.Reader] for many keys that mostly rise, kind by kind: it keeps an iterator for
// the keys of each first byte, so that a key near the one before it is found without a look at
// each level of the store. It reads the state of when it first read a kind, and serves one
// goroutine.
type Sweep struct {
	of  *Store
	its map[byte]*pebble.Iterator
}

// NewSweep returns a Sweep, which is to be closed.
func (s *Store) NewSweep() *Sweep { return &Sweep{of: s, its: map[byte]*pebble.Iterator{}} }

// Close ends the iterators.
func (s *Sweep) Close() error {
	var errs []error
	for _, it := range s.its {
		errs = append(errs, it.Close())
	}
	return errors.Join(errs...)
}

func (s *Sweep) iter(key []byte) (*pebble.Iterator, error) {
	it := s.its[key[0]]
	if it != nil {
		return it, nil
	}
	it, err := s.of.NewIter(&pebble.IterOptions{LowerBound: key[:1:1], UpperBound: []byte{key[0] + 1}})
	if err == nil {
		s.its[key[0]] = it
	}
	return it, err
}

// Get returns a copy of a value.
func (s *Sweep) Get(key []byte) ([]byte, io.Closer, error) {
	it, err := s.iter(key)
	if err != nil {
		return nil, nil, err
	}
	// With a limit: what was deleted behind the key is not passed over.
	if it.SeekGEWithLimit(key, append(slices.Clip(key), 0)) != pebble.IterValid {
		return nil, nil, cmp.Or(it.Error(), kv.ErrNotFound)
	}
	if string(it.Key()) != string(key) {
		return nil, nil, kv.ErrNotFound
	}
	b, err := it.ValueAndErr()
	return slices.Clone(b), nothing{}, err
}

type nothing struct{}

func (nothing) Close() error { return nil }

// Iter is that of the store.
func (s *Sweep) Iter(lower, upper []byte) (kv.Iterator, error) { return s.of.Iter(lower, upper) }

// Scan is [kv.Scan]. What visit reads of the same kind has an iterator of its own.
func (s *Sweep) Scan(lower, upper []byte, visit func(key, value []byte) error) (err error) {
	it, err := s.iter(lower)
	if err != nil {
		return err
	}
	kind := lower[0]
	delete(s.its, kind)
	defer func() {
		if other := s.its[kind]; other != nil {
			err = errors.Join(err, other.Close())
		}
		s.its[kind] = it
	}()
	for state := it.SeekGEWithLimit(lower, upper); state == pebble.IterValid && string(it.Key()) < string(upper); state = it.NextWithLimit(upper) {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := visit(it.Key(), v); err != nil {
			return err
		}
	}
	return it.Error()
}
