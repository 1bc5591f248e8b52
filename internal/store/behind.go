package store

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// An iterator of Pebble stops at a block that it cannot read. What lies behind the block can be
// reached by a seek, and the keys at which blocks end are in the index of their table.

// gaps are the ranges of keys of a table that cannot be read.
type gaps struct {
	mu    sync.Mutex
	known map[string][]Loss // by the name of the table's file
}

// Behind returns the first key behind a key at which something begins that cannot be read, nil
// where nothing comes behind it or the place is not found. It reads the tables that the key lies
// in, once.
func (s *Store) Behind(from []byte) []byte {
	levels, err := s.SSTables()
	if err != nil {
		return nil
	}
	var next []byte
	for _, tables := range levels {
		for _, t := range tables {
			if end := append(bytes.Clone(t.Largest.UserKey), 0); bytes.Compare(end, from) > 0 {
				if to := s.gapEnd(t, from); to != nil && (next == nil || bytes.Compare(to, next) < 0) {
					next = to
				}
			}
		}
	}
	return next
}

// gapEnd is where the gap of a table ends in which a key lies, or which is the next one behind
// the key; nil if there is none.
func (s *Store) gapEnd(t pebble.SSTableInfo, from []byte) []byte {
	for _, l := range s.gapsOf(t) {
		if bytes.Compare(l.To, from) > 0 {
			return l.To
		}
	}
	return nil
}

func (s *Store) gapsOf(t pebble.SSTableInfo) []Loss {
	name := fmt.Sprintf("%06d%s", t.BackingSSTNum, tableSuffix)
	s.gaps.mu.Lock()
	defer s.gaps.mu.Unlock()
	if found, ok := s.gaps.known[name]; ok {
		return found
	}
	var found []Loss
	r := &Remains{FS: s.FS, Dir: s.config.Dir, Merger: s.config.Merger, Lost: func(l Loss) { found = append(found, l) }}
	of := r.openTable(s.FS.PathJoin(s.config.Dir, Dir, name), uint64(t.BackingSSTNum), listed{first: t.Smallest.UserKey, last: append(bytes.Clone(t.Largest.UserKey), 0)})
	if len(found) == 0 {
		for e := of.next(); e != nil; e = of.next() {
			continue
		}
	} // else its index cannot be read, and so none of it: the gap is all of the table
	if s.gaps.known == nil {
		s.gaps.known = map[string][]Loss{}
	}
	s.gaps.known[name] = found
	return found
}
