package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/onefile"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/recovery"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
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
type Loss struct {
	What   string // what was kept there
	Count  int    // of What where that is known, or else of the places that cannot be read
	Reason string
}

const (
	remainsSuffix = ".remains"
	doingRemains  = "read what is left of "
)

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
		return fault.Within(doingRemains+dir, err)
	}
	if err := place.MakeDir(r.fs, r.dir); err != nil {
		return err
	}
	id, err := r.identity(fs, dir)
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
	if id, err = r.copy(ctx, fs, dir, db, id, o); err != nil {
		return errors.Join(err, db.store.Close())
	}
	if err := db.store.Close(); err != nil {
		return fault.Within(doingRemains+dir, err)
	}
	id.Created, id.Timeline, id.Replica, id.Logged = true, random.String(), false, false
	id.Layout, id.Settings.Layout = place.Layout, place.Layout
	return id.Write(r.fs, r.dir)
}

// identity is that of the database, nil where it cannot be read.
func (r *Remains) identity(fs vfs.FS, dir string) (*place.Identity, error) {
	if r.file == nil {
		return place.Read(fs, dir)
	}
	id, err := place.Decode(r.file.Head().Identity)
	if err == nil && id.Layout > place.Layout {
		return nil, place.NewerLayout(dir, id.Layout)
	}
	return id, err
}

// read writes all keys that can be read into the store of the copy.
func (r *Remains) read(fs vfs.FS, dir string, db *DB, lost func(store.Loss)) (keys int, err error) {
	if r.file == nil {
		return db.store.Fill(&store.Remains{FS: fs, Dir: dir, Merger: db.merger(), Lost: lost})
	}
	for _, d := range r.damages {
		if d.From != nil || d.To != nil { // of the rest nothing depends: blocks are read without it
			lost(store.Loss{File: dir, Why: d.Error(), From: d.From, To: d.To})
		}
	}
	return r.file.CopyTo(db.store)
}

func (r *Remains) lose(what, why string) {
	r.Lost = append(r.Lost, Loss{What: what, Count: 1, Reason: why})
}

// copy fills the store of the copy. It returns the identity that the store fits: that of
// memdb.json, nil if it cannot be read; its copy in the store; or a new one.
func (r *Remains) copy(ctx context.Context, fs vfs.FS, dir string, db *DB, id *place.Identity, o *Options) (*place.Identity, error) {
	indexes := "" // why one of them cannot be read, where only that is lost
	var err error
	r.Keys, err = r.read(fs, dir, db, func(l store.Loss) {
		what, counts := recovery.Between(db.parts, l.From, l.To)
		if counts || l.What != "" {
			r.lose(cmp.Or(l.What, what), l.Error())
		} else {
			indexes = l.Error()
		}
	})
	if err != nil {
		return nil, fault.Within(doingRemains+dir, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.Keys == 0 {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: doingRemains + dir, Why: "no key can be read", Do: "restore a backup"}
	}
	if id == nil {
		if b, err := place.CopyIn(db.store); err == nil {
			id, _ = place.Decode(b)
		}
	}
	if id == nil {
		r.lose("the settings: the language and the indexed fields", place.Name+" and its copy cannot be read")
		if id, err = place.New(o.Language, o.IndexedText, db.clock()); err != nil {
			return nil, err
		}
		now := db.clock().UTC()
		id.KeysSince = &now // nothing tells that it had none
	}
	keys, err := layout.NewKeys(id.HashSeed, db.partKinds()...)
	if err != nil {
		return nil, err
	}
	db.tables.NewestKeys.Store(keys)
	if indexes != "" {
		if err := r.loseDeaths(db, indexes); err != nil {
			return nil, err
		}
	}
	if err := r.rename(db); err != nil {
		return nil, err
	}
	return id, r.loseCommits(fs, dir, db)
}

// loseCommits reports the commits that the mark beside the store says were acknowledged and that are
// behind the newest one in the copy.
func (r *Remains) loseCommits(fs vfs.FS, dir string, db *DB) error {
	if r.file != nil { // one file has no mark
		return nil
	}
	_, marked, err := store.Marked(fs, dir)
	if err != nil {
		return fault.Within(doingRemains+dir, err)
	}
	snap := db.store.NewSnapshot()
	newest, err := shipping.Newest(db.keys(), snap)
	if err = errors.Join(err, snap.Close()); err != nil {
		return err
	}
	if newest.LSN < marked {
		r.Lost = append(r.Lost, Loss{What: "commits", Count: int(marked - newest.LSN), Reason: missingCommits(newest.LSN, marked)})
	}
	return nil
}

// loseDeaths tells what is lost with a part of the indexes where a delete by scope is not cleaned up
// after: it finds by them which memories died, and writes that to their histories.
func (r *Remains) loseDeaths(db *DB, why string) error {
	lower, upper := db.keys().Span(layout.KindRange)
	err := kv.Scan(db.store, lower, upper, func(_, _ []byte) error {
		r.lose("deaths of memories that were deleted by scope", why)
		return kv.ErrStop
	})
	if errors.Is(err, kv.ErrStop) {
		return nil
	}
	return err
}

// rename puts the names under the keys that the hash seed gives them, where memdb.json is not
// that of the store: its seed is lost then. IDs are found by the seed, too, but also in records.
func (r *Remains) rename(db *DB) (err error) {
	keys := db.keys()
	if err := db.loadGenerations(); err != nil {
		return err
	}
	b := db.store.NewBatch()
	defer func() { _ = b.Close() }()
	fit := 0
	var others []string
	lower, upper := keys.Span(layout.KindName)
	err = db.loadKeys("a name", lower, upper, func(key, value []byte) error {
		num, name, extra, err := layout.DecodeName(key, value)
		if err != nil || len(key) <= layout.KeyHeader {
			r.lose("a name", fmt.Sprintf("what lies under its key %x is damaged", key))
			return b.Delete(key, nil)
		}
		own := keys.Name(layout.NameClass(key[layout.KeyHeader]), name)
		if bytes.Equal(own, key) {
			fit++
			return nil
		}
		others = append(others, name)
		return errors.Join(b.Delete(key, nil), b.Set(own, layout.EncodeName(own, num, name, extra), nil))
	})
	if err != nil {
		return err
	}
	if fit > 0 { // it is the right seed, and what does not fit it is damaged
		for _, name := range others {
			r.lose("a name", fmt.Sprintf("%q lies under a key that is not its own", name))
		}
		return nil
	}
	lower, upper = keys.Span(layout.KindID)
	return cmp.Or(b.DeleteRange(lower, upper, nil), db.store.Apply(b, pebble.Sync))
}
