package store

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// A store that follows another is made of the batches of that one alone, as an [Outlet] has given them.
// Each batch holds its number, so the store knows how far it is, also when it was killed; and what reads
// it has a store of its own, which is frozen at a snapshot.

// Number is that of the newest batch in the store, 0 if that is not known.
func (s *Store) Number() (uint64, error) {
	b, closer, err := s.Get(s.config.NumberKey)
	if errors.Is(err, kv.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, Error("read how far the replica is", err)
	}
	return decodeNumber(b, s.timeline), closer.Close()
}

// NumberOf is the number of a batch, 0 if it has none of the timeline of the store.
func (s *Store) NumberOf(repr []byte) uint64 { return s.numberOf(repr) }

// Follow applies batches of another store as they are, in their order, and keeps their memory. With
// durable it returns when they, and all before them, are on disk. The batches are whole.
func (s *Store) Follow(batches [][]byte, durable bool) error {
	for _, repr := range batches {
		b := s.db.NewBatch()
		err := b.SetRepr(repr)
		if err == nil {
			err = s.db.Apply(b, pebble.NoSync)
		}
		if err = errors.Join(err, b.Close()); err != nil {
			s.Fail(err) // a part of them may be there
			return s.Failed()
		}
	}
	if durable {
		return s.SyncLog(nil)
	}
	return s.Failed()
}

// frozen reads one state of a store, and measures all of it.
type frozen struct {
	pebbleReads
	at Snapshot
}

// NewIter reads the state.
func (f frozen) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) { return f.at.NewIter(o) }

// Frozen is the store as a snapshot has it, which stays as it is while the store is written. It is for
// reading alone. Its Close closes the snapshot, and comes before that of the store.
func (s *Store) Frozen(snap Snapshot) *Store {
	f := &Store{
		pebbleReads: frozen{s.pebbleReads, snap}, reads: snap.Snapshot, frozen: snap, FS: s.FS, config: s.config,
		reserve: s.reserve, ending: make(chan struct{}), timeline: s.timeline, damages: s.damages,
	}
	f.config.ReadOnly = true
	return f
}

// DropMark removes the mark in the folder of a database that is closed: a database that begins another
// timeline, or another store, makes its own.
func DropMark(fs vfs.FS, dir string) error { return dropMark(fs, dir) }
