package engine

import (
	"cmp"
	"context"
	"errors"
	"io"
	iofs "io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/onefile"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/recovery"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Remains are what is left of a damaged database: a copy, which is deleted when it is closed.
type Remains struct {
	*DB
	// Keys is how many keys of the store could be read.
	Keys int
	// Lost is what the files of the database do not have any more.
	Lost []Loss

	fs  vfs.FS
	dir string
	// file is what is left of a database in one file, and damages what of it is not.
	file    *store.File
	damages []*onefile.Damage
}

// Loss is something that cannot be read.
type Loss = recovery.Loss

const remainsSuffix = ".remains"

// OpenRemains opens what is left of a database whose files are damaged or gone: it reads each
// table and log by itself, makes a copy of what it finds in a new folder, beside, and
// opens the copy. What is derived is made again. The folder of the database is not changed; it
// must not be open. Where nothing can be read it returns ErrCorrupt.
//
// Of a database in one file it reads whatever blocks are whole.
//
// The copy takes as much room as the database, until it is closed. It is for exports: do not
// store in it.
func OpenRemains(ctx context.Context, dir, beside string, o *Options) (*Remains, error) {
	if o == nil {
		o = &Options{}
	}
	fs, dir := fsys.Named(dir)
	if _, err := fs.Stat(dir); errors.Is(err, iofs.ErrNotExist) {
		return nil, &fault.Error{Kind: fault.ErrNotDatabase, What: place.Opening(dir), Why: "there is no such folder", Do: "name the folder of the damaged database"}
	}
	to, beside := fsys.Named(beside)
	r := &Remains{fs: to, dir: beside + remainsSuffix}
	held, err := r.hold(fs, dir, o)
	if err != nil {
		return nil, err
	}
	if err := r.fill(ctx, fs, dir, o); err != nil {
		return nil, errors.Join(err, held.Close(), to.RemoveAll(r.dir))
	}
	if err := held.Close(); err != nil {
		return nil, errors.Join(err, to.RemoveAll(r.dir))
	}
	if r.DB, err = open(r.dir, o, &tuning{fs: to, mends: true, keepsExpired: true}); err != nil {
		return nil, errors.Join(err, to.RemoveAll(r.dir))
	}
	r.adoptKeys(fs, dir, r.file != nil, true)
	return r, nil
}

// hold locks what is left: a folder, or a file, which it reads.
func (r *Remains) hold(fs vfs.FS, dir string, o *Options) (io.Closer, error) {
	one, err := place.IsFile(fs, dir)
	if err != nil {
		return nil, err
	}
	if !one {
		if err := place.Look(fs, dir); err != nil {
			return nil, err
		}
		held, err := fsys.HoldDir(fs, dir)
		if err != nil {
			return nil, place.LockError(dir, err)
		}
		return held, nil
	}
	c := newConfig(o, &tuning{})
	held, err := place.LockFile(fs, dir, c.clock(), true)
	if err != nil {
		return nil, err
	}
	r.file, r.damages, err = store.OpenFile(store.FileConfig{Files: fs, Path: dir, Limit: cmp.Or(o.MaxFileBytes, store.MostFile), ReadOnly: true, Log: c.logger, Salvage: true})
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}

// Close closes the copy and deletes it.
func (r *Remains) Close() error {
	return errors.Join(r.DB.Close(), r.fs.RemoveAll(r.dir))
}

// fill makes the copy.
func (r *Remains) fill(ctx context.Context, fs vfs.FS, dir string, o *Options) error {
	if err := r.fs.RemoveAll(r.dir); err != nil { // of a rescue that was interrupted
		return fault.Within(recovery.DoingRemains+dir, err)
	}
	if err := place.MakeDir(r.fs, r.dir); err != nil {
		return err
	}
	id, err := recovery.Identity(fs, dir, r.file)
	if errors.Is(err, fault.ErrNewerLayout) || errors.Is(err, fault.ErrNotDatabase) {
		return err
	}
	db, _ := newDB(r.dir, o, &tuning{fs: r.fs})
	random, err := uuid.NewRandom() // the copy is another database
	if err != nil {
		return err
	}
	if err := db.store.Open(false, store.Timeline(random)); err != nil {
		return err
	}
	c := recovery.Copy{
		FS: fs, Dir: dir, File: r.file, Damages: r.damages, Store: db.store, Parts: db.parts, Kinds: db.partKinds(), Merger: db.merger(), Losses: db.opening.losses,
		Language: o.Language, Indexed: o.IndexedText, Now: db.clock(),
	}
	id, err = c.Fill(ctx, &db.tables, id)
	r.Keys, r.Lost = c.Keys, c.Lost
	if err != nil {
		return errors.Join(err, db.store.Close())
	}
	if err := db.store.Close(); err != nil {
		return fault.Within(recovery.DoingRemains+dir, err)
	}
	id.Created, id.Timeline, id.Replica, id.Logged = true, random.String(), false, false
	id.Layout, id.Settings.Layout = place.Layout, place.Layout
	return id.Write(r.fs, r.dir)
}
