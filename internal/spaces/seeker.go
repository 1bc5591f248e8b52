package spaces

import (
	"bytes"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Seeker reads vectors by one iterator, and makes a new one where a damaged block has
// stopped it.
type Seeker struct {
	Reader       kv.Reader
	Lower, Upper []byte
	it           kv.Iterator
}

// Seek returns the value of a key, valid until the next call: an error that is unreadable
// where it is missing or damaged.
func (s *Seeker) Seek(key []byte) (value []byte, err error) {
	if s.it == nil {
		if s.it, err = s.Reader.Iter(s.Lower, s.Upper); err != nil {
			return nil, err
		}
	}
	if s.it.SeekGE(key) && bytes.Equal(s.it.Key(), key) {
		if value, err = s.it.ValueAndErr(); err == nil {
			return value, nil
		}
	} else if err = s.it.Error(); err == nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a vector", Why: "it is missing"}
	}
	_ = s.Close() // with the same error
	return nil, store.Error("read a vector", err)
}

// Close ends the reading.
func (s *Seeker) Close() error {
	if s.it == nil {
		return nil
	}
	it := s.it
	s.it = nil
	return it.Close()
}
