// Package kv declares the small views of the key-value store that the parts of
// the database work on, each under its own prefix. It knows no store: what stands on
// it links none.
package kv

import (
	"errors"
	"io"
)

// ErrNotFound is returned by [Reader].Get for a key that has no value.
var ErrNotFound = errors.New("key not found")

// ErrStop ends a scan early. The scan returns it, so that its caller knows.
var ErrStop = errors.New("stop")

// Reader reads a state of the store: the newest, a snapshot, or a batch over the
// newest.
type Reader interface {
	// Get returns the value of a key, valid until the closer is closed, or
	// [ErrNotFound].
	Get(key []byte) ([]byte, io.Closer, error)
	// Iter moves over the keys in [lower, upper); nil is no bound. It is to be closed.
	Iter(lower, upper []byte) (Iterator, error)
}

// Iterator moves over keys in their order, in either direction, and serves one goroutine.
// It begins before the first key. A move reports whether it has come to a key; where it has
// not, Error says whether there is none or reading failed.
type Iterator interface {
	First() bool
	Last() bool
	Next() bool
	Prev() bool
	// SeekGE moves to the first key from the given one on, SeekLT to the last key before it.
	SeekGE(key []byte) bool
	SeekLT(key []byte) bool
	// Key and ValueAndErr are what the iterator stands at, both valid until it moves. The
	// value is read when it is asked for.
	Key() []byte
	ValueAndErr() ([]byte, error)
	Error() error
	Close() error
}

// scanner is a [Reader] with a way of its own to [Scan].
type scanner interface {
	Scan(lower, upper []byte, visit func(key, value []byte) error) error
}

// Scan calls visit for each key in [lower, upper), in order, until it returns an
// error. Key and value are valid during the call.
func Scan(r Reader, lower, upper []byte, visit func(key, value []byte) error) (err error) {
	if s, ok := r.(scanner); ok {
		return s.Scan(lower, upper, visit)
	}
	it, err := r.Iter(lower, upper)
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
