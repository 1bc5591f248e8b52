package spaces

import (
	"bytes"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// seeker reads vectors by one iterator, and makes a new one where a damaged block has
// stopped it.
type seeker struct {
	reader       kv.Reader
	lower, upper []byte
	it           kv.Iterator
}

// seek returns the value of a key, valid until the next call: an error that is
// [store.Unreadable] where it is missing or damaged.
func (s *seeker) seek(key []byte) (value []byte, err error) {
	if s.it == nil {
		if s.it, err = s.reader.Iter(s.lower, s.upper); err != nil {
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
	_ = s.close() // with the same error
	return nil, store.Error("read a vector", err)
}

// close ends the reading.
func (s *seeker) close() error {
	if s.it == nil {
		return nil
	}
	it := s.it
	s.it = nil
	return it.Close()
}
