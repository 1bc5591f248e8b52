package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

const doingScratch = "make a scratch copy of the database"

// mostScratches bounds the tries to link a store whose newest log is written meanwhile.
const mostScratches = 5

// Scratch calls fn with a private copy of the database as of now, and removes the copy when fn
// returns. Writes to the copy never reach the database, so fn can try a change and report what it
// would do. Reads and writes of the database continue meanwhile.
//
// The copy of a folder is a folder of hard links within it: it uses disk space only for what fn
// writes. The copy of a database in one file, or in memory, uses memory. A copy that a crash leaves
// behind is removed by the next Open. The copy has no embedder, extractor, schedule, archive or
// hooks; of o only IndexedText and Language count, as for [Open], so Scratch returns ErrMismatch
// where they contradict a database that holds memories. nil is the zero value.
//
// Scratch returns the error of fn, ErrDiskFull where there is no room for the copy, and
// ErrReadOnly for a database that is only read.
func (db *DB) Scratch(ctx context.Context, o *Options, fn func(scratch *DB) error) (err error) {
	release, err := db.enter(doingScratch)
	if err != nil {
		return err
	}
	defer release()
	if db.readOnly {
		return &fault.Error{Kind: fault.ErrReadOnly, What: doingScratch, Why: "the database is open to be read only", Do: "open it without ReadOnly"}
	}
	opts := Options{
		Clock: db.config.clock, Logger: db.logger, Dedup: db.dedup, StrictAgents: db.strictAgents, Admit: db.owns, MemoryBudget: db.budget,
		DiskReserve: db.store.Reserve(),
	}
	if o != nil {
		opts.IndexedText, opts.Language = o.IndexedText, o.Language
	}
	if file := db.store.File(); file != nil {
		return db.scratchFile(file, &opts, fn)
	}
	dir, err := db.scratchFolder(ctx)
	defer func() {
		if dir != "" {
			err = errors.Join(err, db.store.FS.RemoveAll(dir))
			_ = db.store.FS.Remove(db.store.FS.PathDir(dir)) // unless another copy is in it
		}
	}()
	if err != nil {
		return db.copier.Error(err)
	}
	return useScratch(dir, &opts, db.store.Base(), fn)
}

// useScratch opens a copy, and closes it after fn.
func useScratch(path string, o *Options, files vfs.FS, fn func(*DB) error) error {
	scratch, err := openEither(path, o, &tuning{fs: files})
	if err != nil {
		return err
	}
	return errors.Join(fn(scratch), scratch.closeOnce()) // work in the background may still run in it
}

// scratchFolder links the store into a folder of its own, which it returns also with an error, and
// makes a database of it.
func (db *DB) scratchFolder(ctx context.Context) (dir string, err error) {
	id, err := place.Read(db.store.FS, db.dir)
	if err != nil || id == nil {
		return "", errors.Join(err, ctx.Err())
	}
	timeline, err := uuid.NewRandom()
	if err != nil {
		return "", err
	}
	id.Parent, id.Timeline, id.Created, id.Replica, id.Logged = nil, timeline.String(), true, false, false
	content, err := id.Encode()
	if err != nil {
		return "", err
	}
	dir = db.store.FS.PathJoin(db.dir, store.ScratchDir, timeline.String())
	for try := 1; ; try++ {
		if err = db.linkScratch(dir, content, store.Timeline(timeline)); err == nil {
			return dir, place.WriteFile(db.store.Base(), dir, content)
		}
		// The newest log may have been copied while it was written, and end in the midst of a record.
		if try == mostScratches || !errors.Is(err, fault.ErrCorrupt) || ctx.Err() != nil {
			return dir, err
		}
	}
}

// linkScratch fills the folder of a copy with the store, and gives the store its identity.
func (db *DB) linkScratch(dir string, identity []byte, timeline store.Timeline) error {
	if err := db.store.FS.RemoveAll(dir); err != nil {
		return err
	}
	if err := db.store.LinkTo(dir); err != nil {
		return err
	}
	scratch, _ := newDB(dir, &Options{MemoryBudget: db.budget}, &tuning{fs: db.store.Base()})
	if err := scratch.store.Open(true, timeline); err != nil {
		return err
	}
	err := scratch.store.Set(layout.IdentityKey, identity, pebble.Sync)
	return errors.Join(err, scratch.store.Failed(), scratch.store.Close())
}

// scratchFile copies a database in one file into memory, and opens it there.
func (db *DB) scratchFile(f *store.File, o *Options, fn func(*DB) error) error {
	mem := vfs.NewMem()
	path := "scratch" + FileSuffix
	if err := copyInto(mem, path, f); err != nil {
		return fault.Within(doingScratch, err)
	}
	o.MaxFileBytes = f.Limit()
	return useScratch("/"+path, o, mem, fn)
}

// copyInto copies the file of a database. One that is not there yet is an empty database.
func copyInto(mem vfs.FS, path string, f *store.File) (err error) {
	files, from := f.Place()
	if kind, _, err := fsys.KindOf(files, from); err != nil || kind == fsys.Missing {
		return err
	}
	in, err := files.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := mem.Create("/"+path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err != nil {
		err = fmt.Errorf("copy %s: %w", from, err)
	}
	return errors.Join(err, out.Close())
}
