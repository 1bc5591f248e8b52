package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
)

const (
	// CopyDir is where a copy of the store lies while a backup reads it.
	CopyDir = Dir + ".backup"
	// ScratchDir has the folders of databases that are made to try something, see [Store.LinkTo]. Its
	// name begins with CopyDir, as of all that is none of the database.
	ScratchDir = CopyDir + ".scratch"
	// copyBudget is the RAM of who looks into a copy.
	copyBudget = 16 << 20
	// mostCopies bounds the tries to copy a store.
	mostCopies = 5
)

// Copy is the files of a store as of one state, which do not change.
type Copy struct {
	// Store is the copy, open to be read.
	*Store
	dir  string
	made bool // for this copy; otherwise it is the store itself, which is only read
}

// CopiedFile is a file of a Copy.
type CopiedFile struct {
	Name string // in the folder of the store
	Size int64
	// Written is when it was written, in Unix nanoseconds, of a table, which never changes; 0 for
	// another file.
	Written int64
}

// Copy makes a copy of the store beside it, of hard links to its tables, while reads and writes go
// on. It has all that was applied before the call. One copy is made at a time, and is to be closed.
// A store that is only read is its own copy.
func (s *Store) Copy() (*Copy, error) {
	if s.config.ReadOnly {
		return &Copy{Store: s, dir: s.FS.PathJoin(s.config.Dir, Dir)}, nil
	}
	s.flushAll() // what only the log holds would be copied each time
	dir := s.FS.PathJoin(s.config.Dir, CopyDir)
	for try := 1; ; try++ {
		c, err := s.copyTo(dir)
		if err == nil {
			return c, nil
		}
		err = errors.Join(err, s.dropCopy())
		// The newest log is written while it is read: what is read may be torn as no crash tears it.
		if try == mostCopies || !errors.Is(err, fault.ErrCorrupt) {
			return nil, err
		}
	}
}

func (s *Store) copyTo(dir string) (*Copy, error) {
	if err := s.dropCopy(); err != nil {
		return nil, err
	}
	if err := s.FS.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := s.linkTo(s.FS.PathJoin(dir, Dir)); err != nil {
		return nil, err
	}
	if err := s.Failed(); err != nil {
		return nil, err
	}
	config := s.config
	config.Dir, config.ReadOnly, config.Salvage, config.Budget = dir, true, false, copyBudget
	config.Log, config.Rewritten, config.File = slog.New(slog.DiscardHandler), nil, nil
	c := &Copy{Store: New(config), dir: s.FS.PathJoin(dir, Dir), made: true}
	if err := c.Open(true, s.timeline); err != nil {
		return nil, err
	}
	return c, nil
}

// LinkTo makes a folder with the store as of now, of hard links to its tables. Reads and writes
// continue meanwhile. The folder must be within ScratchDir and must not exist.
func (s *Store) LinkTo(dir string) error {
	s.flushAll() // what only the log holds would be copied
	if err := s.FS.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return cmp.Or(s.linkTo(s.FS.PathJoin(dir, Dir)), s.Failed())
}

// linkTo makes the files of a copy. Pebble panics where the folder of a marker cannot be synced, as
// it must for the store itself.
func (s *Store) linkTo(dir string) (err error) {
	caught := panics.Catch("copies the store", func() { err = s.Checkpoint(dir, pebble.WithFlushedWAL()) })
	return cmp.Or(errors.Unwrap(caught), caught, err)
}

// dropCopy removes what is there of a copy.
func (s *Store) dropCopy() error {
	return s.FS.RemoveAll(s.FS.PathJoin(s.config.Dir, CopyDir))
}

// dropLeftCopy removes what an interrupted backup or trial has left.
func (s *Store) dropLeftCopy() error {
	if s.config.ReadOnly {
		return nil
	}
	var errs []error
	for _, name := range []string{CopyDir, ScratchDir} {
		path := s.FS.PathJoin(s.config.Dir, name)
		if _, err := s.FS.Stat(path); err == nil {
			errs = append(errs, s.FS.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}

// Close ends a copy and removes its files.
func (c *Copy) Close() error {
	if !c.made {
		return nil
	}
	return errors.Join(c.Store.Close(), c.FS.RemoveAll(c.config.Dir))
}

// Files are those of the copy which a store needs.
func (c *Copy) Files() ([]CopiedFile, error) {
	names, err := c.FS.List(c.dir)
	if err != nil {
		return nil, err
	}
	manifest := currentManifest(names)
	var files []CopiedFile
	for _, name := range names {
		table := isTable(name)
		switch {
		case table, name == manifest, strings.HasSuffix(name, logSuffix), strings.HasPrefix(name, optionsPrefix), strings.HasPrefix(name, "marker."):
		default:
			continue
		}
		info, err := c.FS.Stat(c.FS.PathJoin(c.dir, name))
		if isMissing(err) && !c.made {
			continue // of another process, which also only reads
		}
		if err != nil {
			return nil, err
		}
		f := CopiedFile{Name: name, Size: info.Size()}
		if table {
			f.Written = info.ModTime().UnixNano()
		}
		files = append(files, f)
	}
	return files, nil
}

func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// OpenFile opens a file of the copy to be read whole. The blocks of a table are held against their
// checksums first: one that is damaged is ErrCorrupt, and no backup has it.
func (c *Copy) OpenFile(name string) (io.ReadCloser, error) {
	path := c.FS.PathJoin(c.dir, name)
	if strings.HasSuffix(name, ".sst") {
		if err := c.checkTable(path); err != nil {
			return nil, &fault.Error{
				Kind: fault.ErrCorrupt, What: "read " + name + " of the store", Why: "it is damaged", Cause: err,
				Do: "earlier backups have it as it was; or make a new database of all that is whole: memdbctl rescue SRC DEST",
			}
		}
	}
	return c.FS.Open(path, vfs.SequentialReadsOption)
}

func (c *Copy) checkTable(path string) (err error) {
	f, err := c.FS.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	// Pebble asserts on what it does not expect, in a block that fits its checksum.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it cannot be read: %v", p)
		}
	}()
	r, err := sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{Merger: c.config.Merger})
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}
