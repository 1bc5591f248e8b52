package records

import (
	"context"
	"errors"
	"math/bits"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Seen remembers which prefixes of dedup and ID keys were ever written, so that
// a store of something new, the usual case, need not look for it: a search through
// the memtables and levels costs more than the rest of the look-ups. It holds 32
// bits of a hash for each, and may be wrong in one direction only: of what it does
// not know there is no key.
//
// It is filled in the background when the database is opened, and knows nothing
// for certain until then. Keys that are deleted stay known until it is filled anew.
type Seen struct {
	mu     sync.Mutex
	ready  bool
	filled int // how many prefixes it knew when it was filled last
	shards [seenShards]hashSet
}

const (
	// seenShards keeps the growing of one of them short.
	seenShards = 256
	// seenStep is how many keys are read for one hold of the lock.
	seenStep = 1 << 10
)

// Add notes that a key with the prefix is written.
func (s *Seen) Add(prefix []byte) {
	h := xxh3.Hash(prefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards[h%seenShards].add(uint32(h >> 32))
}

// MayHold is false where no key begins with the prefix.
func (s *Seen) MayHold(prefix []byte) bool {
	h := xxh3.Hash(prefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ready || s.shards[h%seenShards].has(uint32(h>>32))
}

// Bytes is what it takes in RAM.
func (s *Seen) Bytes() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.shards {
		n += 4 * int64(len(s.shards[i].slots))
	}
	return n
}

// Len is how many prefixes it knows, and knew when it was filled last; 0 while it is filled.
func (s *Seen) Len() (known, filled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		return 0, 0
	}
	return s.count(), s.filled
}

// count is how many prefixes it knows. mu is held.
func (s *Seen) count() (n int) {
	for i := range s.shards {
		n += s.shards[i].n
	}
	return n
}

// Clear forgets all, until it is filled.
func (s *Seen) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready, s.shards = false, [seenShards]hashSet{}
}

// Fill reads the keys that were there when the database was opened, and closes the snapshot. What is written
// meanwhile is added by whoever writes it.
func (s *Seen) Fill(ctx context.Context, snap store.Snapshot, ks *layout.Keys) (err error) {
	defer func() { err = errors.Join(err, snap.Close()) }()
	for _, kind := range []byte{layout.KindDedup, layout.KindID} {
		if err := s.read(ctx, snap, ks, kind); err != nil {
			return store.Error("read the keys of memories", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready, s.filled = true, s.count()
	return nil
}

func (s *Seen) read(ctx context.Context, snap store.Snapshot, ks *layout.Keys, kind byte) (err error) {
	lower, upper := ks.Span(kind)
	it, err := snap.Iter(lower, upper)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := it.Close(); err == nil {
			err = cerr
		}
	}()
	var hashes []uint64
	for ok := it.First(); ok; {
		if err := ctx.Err(); err != nil {
			return err
		}
		hashes = hashes[:0]
		for ; ok && len(hashes) < seenStep; ok = it.Next() {
			hashes = append(hashes, xxh3.Hash(ks.Listed(it.Key())))
		}
		s.mu.Lock()
		for _, h := range hashes {
			s.shards[h%seenShards].add(uint32(h >> 32))
		}
		s.mu.Unlock()
	}
	return it.Error()
}

// hashSet is a set of 32-bit hashes by open addressing; a slot of 0 is free, and
// the hash 0 counts as 1.
type hashSet struct {
	slots []uint32 // a power of two of them
	n     int
}

const minHashSet = 16

// find is the slot of a hash, or the free one where it belongs.
func (s *hashSet) find(h uint32) *uint32 {
	mask := uint32(len(s.slots) - 1)
	for i := h >> (32 - bits.Len32(mask)); ; i = (i + 1) & mask {
		if v := s.slots[i]; v == 0 || v == h {
			return &s.slots[i]
		}
	}
}

func (s *hashSet) add(h uint32) {
	h = max(h, 1)
	if 4*s.n >= 3*len(s.slots) {
		old := s.slots
		s.slots = make([]uint32, max(minHashSet, 2*len(old)))
		for _, v := range old {
			if v != 0 {
				*s.find(v) = v
			}
		}
	}
	if slot := s.find(h); *slot == 0 {
		*slot = h
		s.n++
	}
}

func (s *hashSet) has(h uint32) bool {
	return len(s.slots) > 0 && *s.find(max(h, 1)) != 0
}
