// Package kv declares the small views of the key-value store that the parts of
// the database work on, each under its own prefix.
package kv

import (
	"bytes"
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2"
)

// Reader reads a state of the store: the newest, a snapshot, or a batch over the
// newest. *pebble.DB, *pebble.Snapshot and an indexed *pebble.Batch are Readers.
type Reader interface {
	// Get returns the value of a key, valid until the closer is closed, or
	// pebble.ErrNotFound.
	Get(key []byte) ([]byte, io.Closer, error)
	NewIter(o *pebble.IterOptions) (*pebble.Iterator, error)
}

// ErrStop ends a scan early. The scan returns it, so that its caller knows.
var ErrStop = errors.New("stop")

// Scan calls visit for each key in [lower, upper), in order, until it returns an
// error. Key and value are valid during the call.
func Scan(r Reader, lower, upper []byte, visit func(key, value []byte) error) (err error) {
	if s, ok := r.(*Sweep); ok {
		return s.scan(lower, upper, visit)
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := it.Close(); err == nil {
			err = cerr
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
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

// ScanAround is [Scan] that goes on behind what cannot be read. Where reading fails after the
// key before from, around is called and returns the key to go on at, which comes after from.
func ScanAround(r Reader, lower, upper []byte, visit func(key, value []byte) error, around func(from []byte, err error) (next []byte, rerr error)) error {
	for {
		from := lower
		err := Scan(r, lower, upper, func(key, value []byte) error {
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
