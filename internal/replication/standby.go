package replication

import (
	"context"
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// Standby is a folder that is made of the frames of a log, and is not read meanwhile: keys and values alone, no
// index in RAM. Once it is closed, engine.OpenLogged opens it to own it, engine.Open with ReadOnly to look into it, and
// [Promote] makes a database of its own of it. One goroutine uses it at a time.
//
// What is wrong with a folder helps nobody: whatever error a method returns but ErrDiskFull and ErrLocked, the
// folder may be removed, and made again of the log.
type Standby struct {
	host Host
	dir  string
	base vfs.FS
	held io.Closer
	of   *followed // nil while it holds nothing
}

// OpenStandby opens the folder of a standby or of an owner, which is closed or was killed, or begins one where the
// folder is missing or empty.
func OpenStandby(h Host, base vfs.FS, dir string) (*Standby, error) {
	s := &Standby{host: h, dir: dir, base: base}
	if err := place.InFolder(doingReplica(dir), dir); err != nil {
		return nil, err
	}
	if err := place.Look(base, dir); err != nil {
		return nil, err
	}
	if err := place.MakeDir(base, dir); err != nil {
		return nil, place.FullError(dir, err)
	}
	held, err := place.Lock(base, dir, clock.System(), false)
	if err != nil {
		return nil, err
	}
	s.held = held
	if err := s.begin(); err != nil {
		return nil, errors.Join(place.FullError(dir, err), held.Close())
	}
	return s, nil
}

// begin opens what is there.
func (s *Standby) begin() error {
	id, err := place.Read(s.base, s.dir)
	switch {
	case err != nil:
		return err
	case id == nil: // it is empty, or it says what else is there
		_, err := mayFollow(s.base, s.dir)
		return err
	case !id.Logged:
		return &fault.Error{Kind: fault.ErrExists, What: doingReplica(s.dir), Why: "the folder holds a database without a log", Do: "name another folder"}
	}
	if s.of, err = openFollowed(s.host, s.base, s.dir, id); err != nil {
		return err
	}
	s.of.lazy = true
	return nil
}

// Position is how far the standby is: the zero Position while it holds nothing, one with Parts within a base.
// Mark is that of its newest batch.
func (s *Standby) Position() (m layout.LogMark, at wal.Position, err error) {
	if s.of == nil {
		return m, at, nil
	}
	if s.of.at.Parts > 0 { // a base brings its mark anywhere
		return m, s.of.at, nil
	}
	m, err = shipping.Mark(s.of.store)
	return m, s.of.at, err
}

// Apply applies a frame, which follows the [Standby.Position]; of batches that are there already it passes over.
// It is durable with the next Sync, or with Close, and the memory of the frame is kept. A frame that does not follow, is damaged or of another
// database is refused whole, with ErrNotRetained, ErrCorrupt or ErrMismatch; one of a newer memdb with
// ErrNewerLayout. ErrDiskFull: nothing was applied, and it can be again once there is room.
func (s *Standby) Apply(f *wal.Frame) error {
	if s.of == nil {
		of, err := newFollowed(s.host, s.base, s.dir, f.Timeline)
		if err != nil {
			return err
		}
		of.lazy = true
		s.of = of
	}
	frame := *f // which loses what is there
	return s.of.take(&frame)
}

// Erased reports whether an erasure has ended among what was applied, and the files of the folder still have what
// was erased: see [Standby.Purge].
func (s *Standby) Erased() bool { return s.of != nil && s.of.erased }

// Purge rewrites the files of the folder where they still have what was erased.
func (s *Standby) Purge(ctx context.Context) error {
	if !s.Erased() {
		return nil
	}
	return s.of.purge(ctx)
}

// Digest reads everything that the standby has.
func (s *Standby) Digest(ctx context.Context) (d shipping.Digest, err error) {
	if s.of == nil {
		return d, nil
	}
	return shipping.DigestOf(ctx, s.of.store, s.of.at.Number)
}

// Sync returns when everything that was applied is on disk.
func (s *Standby) Sync() error {
	if s.of == nil {
		return nil
	}
	return s.of.store.SyncOwn()
}

// Close gives the folder back.
func (s *Standby) Close() error {
	var err error
	if s.of != nil {
		err = s.of.close()
	}
	return errors.Join(err, s.held.Close())
}
