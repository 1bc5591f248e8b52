package engine

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// LayoutVersion is the newest layout that this memdb opens, and the one that it
// writes.
const LayoutVersion = place.Layout

// Settings are what a database was created with.
type Settings = place.Settings

// Origin is where a timeline began: behind the LSN of another one.
type Origin = place.Origin

// FileBytes are the bytes of the files in the folder of a database.
type FileBytes = place.FileBytes

// Exists reports whether a folder holds a database, or whether there is a file that [Open] takes for
// one. It creates nothing.
func Exists(dir string) (bool, error) { return place.Exists(dir) }

// files adds up the files of the database.
func (db *DB) files() (FileBytes, error) {
	if f := db.store.File(); f != nil {
		return FileBytes{File: f.Size()}, nil
	}
	return place.Measure(db.store.FS, db.dir, spaces.SnapshotPrefix)
}

// placeEvery is how often an open database that does not write looks whether its folder is still its
// own. Each sync looks, too, before a write is acknowledged.
const placeEvery = time.Second

// stayInPlace has the database fail as soon as it notices that the folder that it was opened in,
// or one of the files whose locks it holds, was removed or replaced. What it wrote since would be
// lost, or would get into the folder of another database.
func (db *DB) stayInPlace(base vfs.FS, dir string, locks ...string) error {
	held, err := fsys.PlaceOf(base, dir, locks...)
	if err != nil || held == nil {
		return err
	}
	db.held = closers{db.held, held}
	db.store.FS.Hold(held)
	db.life.Every("looks for its folder", placeEvery, nil, func(context.Context) error { return db.inPlace() })
	return nil
}

// inPlace checks that the folder of the database is still in place. It returns the error of Failed.
func (db *DB) inPlace() error {
	if db.store.FS.InPlace() == nil {
		return nil
	}
	return db.Failed()
}

// keepIdentity writes memdb.json and its copy in the store. The copy is durable with the next
// commit; Open writes a missing copy again.
func (db *DB) keepIdentity(id *place.Identity) error {
	if err := id.Write(db.store.FS, db.dir); err != nil {
		return err
	}
	return db.copyIdentity(id)
}

// copyIdentity writes the copy in the store, where it is another.
func (db *DB) copyIdentity(id *place.Identity) error {
	want, err := id.Encode()
	if err != nil {
		return err
	}
	has, closer, err := db.store.Get(layout.IdentityKey)
	if err == nil {
		same := bytes.Equal(has, want)
		if err := closer.Close(); err != nil || same {
			return err
		}
	} else if !errors.Is(err, kv.ErrNotFound) {
		return store.Error("read the copy of "+place.Name, err)
	}
	return db.applyBare(func(b *pebble.Batch) error { return b.Set(layout.IdentityKey, want, nil) })
}

// restoreIdentity puts the copy of memdb.json in the place of one that is damaged or missing. A
// damaged file is kept under a name that nothing reads.
func (db *DB) restoreIdentity(base vfs.FS) (*place.Identity, error) {
	st := db.store.Again()
	if err := st.Open(true, store.Timeline{}); err != nil {
		return nil, err
	}
	b, err := place.CopyIn(st)
	if err = errors.Join(err, st.Close()); err != nil {
		return nil, err
	}
	id, err := place.Decode(b)
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: place.Opening(db.dir), Why: "the copy of " + place.Name + " is damaged, too", Cause: err, Do: store.WayOn}
	}
	path, was := base.PathJoin(db.dir, place.Name), "missing"
	if _, err := base.Stat(path); err == nil {
		was = "damaged"
		if err := base.Rename(path, path+".damaged"); err != nil {
			return nil, fault.Within(place.Opening(db.dir), err)
		}
	}
	if err := place.WriteFile(base, db.dir, b); err != nil {
		return nil, fault.Within(place.Opening(db.dir), err)
	}
	db.opening.mended = append(db.opening.mended, place.Name+" was "+was+": its copy took its place, and nothing is lost with it")
	if st.Salvaged != "" {
		db.opening.mended = append(db.opening.mended, st.Salvaged)
	}
	return id, nil
}
