package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/turn"
)

const (
	// fillShare: once searches have read one in so many of a space's vectors from the
	// store, all are read, in the order of their keys: that takes a quarter of what they
	// would take one by one, and nobody waits for it.
	fillShare = 16
	// fillAgain: they are read again when the space has so many times the vectors that
	// it had.
	fillAgain = 2
	// fillPart is how many are read before the state is let go that they are read of.
	fillPart = 1024
)

// missed notes that a search has read a vector from the store.
func (s *space) missed(db *DB) {
	s.reads.Add(1)
	if s.fillDue(db) {
		db.linker.wake()
	}
}

// fillDue tells whether all vectors of the space are to be read, to be kept where
// searches find them: they are met in no order, and one by one to read them takes much
// longer.
func (s *space) fillDue(db *DB) bool {
	used := s.used.Load()
	return s.reads.Load() >= max(db.limits.fillLeast, used/fillShare) && used >= fillAgain*s.filled.Load() && s.index.KeepsAll()
}

// fill reads the vectors of a space. It is the linker's work.
func (s *space) fill(ctx context.Context, db *DB) {
	s.filled.Store(max(1, s.used.Load()))
	s.reads.Store(0)
	from := db.keys().Vectors(s.num)
	upper := layout.PrefixEnd(from)
	for from != nil && ctx.Err() == nil {
		err := db.view(ctx, nil, func(tx *Tx) (err error) {
			from, err = tx.keepRows(s, from, upper)
			return err
		})
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, fault.ErrClosed) {
				db.logger.Warn("reading vectors ahead of searches failed; they are read when they are needed", "space", s.name, "error", err)
			}
			return
		}
	}
}

// keepRows reads some vectors in the order of their keys and keeps those that are in
// an index as of the transaction: nobody gives their slots away meanwhile. It returns
// the key to go on from, nil after the last.
func (tx *Tx) keepRows(s *space, from, upper []byte) (next []byte, err error) {
	it, err := tx.state.Reader.Iter(from, upper)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	vec := make([]float32, 0, s.dim)
	n := 0
	var turn turn.Turn
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > fillPart {
			return slices.Clone(it.Key()), nil
		}
		slot, ok := s.slotOf(tx, it.Key())
		if !ok {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		if vec, err = codec.FloatsInto(vec[:0], value); err != nil {
			return nil, err
		}
		s.index.Keep(slot, vec)
		turn.Spare()
	}
	return nil, it.Error()
}

// slotOf is the slot of the vector under a key, if the transaction sees a document that
// has it.
func (s *space) slotOf(tx *Tx, key []byte) (uint32, bool) {
	v, ok := layout.ParseVectorKey(key)
	if !ok {
		return 0, false
	}
	doc := tx.db.tables.Docs.At(v.Seq, tx.state.LSN)
	if doc == doctable.None {
		return 0, false
	}
	slot, ok := s.slot(doc)
	return slot, ok && s.holders.At(uint64(slot)).version() == v
}

// codesFile is where the codes of a space's vectors go that are beyond its share of
// the memory budget. It is made when they are, and removed from the folder at once:
// the system keeps it for as long as it is open. Where it can't be made, memory is
// taken.
type codesFile struct {
	db   *DB
	name string

	mu     sync.Mutex
	tried  bool
	opened vfs.File
	full   sync.Once // warned that it cannot grow
}

var _ hnsw.File = (*codesFile)(nil)

// newCodesFile names the file as a snapshot that was not finished, which the next
// Open removes if a crash has left it.
func (db *DB) newCodesFile(space uint16) *codesFile {
	return &codesFile{db: db, name: snapshotName(space, 0) + snapshotTemp}
}

func (f *codesFile) file() vfs.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tried {
		return f.opened
	}
	f.tried = true
	if f.db.readOnly {
		return nil
	}
	file, err := f.db.store.FS.Create(f.db.store.FS.PathJoin(f.db.dir, f.name), vfs.WriteCategoryUnspecified)
	if err != nil {
		f.db.logger.Warn("no file for the codes of vectors: memory is taken beyond the budget", "file", f.name, "error", err)
		return nil
	}
	f.db.removeFile(f.name)
	f.opened = file
	return file
}

// Fd is the system's descriptor of the file.
func (f *codesFile) Fd() uintptr {
	if file := f.file(); file != nil {
		return file.Fd()
	}
	return vfs.InvalidFd
}

// WriteAt writes to the file, which is how it grows.
func (f *codesFile) WriteAt(p []byte, off int64) (int, error) {
	file := f.file()
	if file == nil {
		return 0, errors.ErrUnsupported
	}
	n, err := file.WriteAt(p, off)
	if err != nil {
		f.full.Do(func() {
			f.db.logger.Warn("the file for the codes of vectors cannot grow: memory is taken beyond the budget", "file", f.name, "error", err)
		})
	}
	return n, err
}

// closeCodes closes the files of all spaces.
func (db *DB) closeCodes() error {
	var errs []error
	for _, s := range db.spaces.all() {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

// Close closes the file if there is one. What is mapped of it stays.
func (f *codesFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = true
	if f.opened == nil {
		return nil
	}
	defer func() { f.opened = nil }()
	return f.opened.Close()
}
