package engine

import (
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

// placeEvery is how often an open database that does not write looks whether its folder is still its
// own. Each sync looks, too, before a write is acknowledged.
const placeEvery = time.Second

// stayInPlace has the database fail as soon as it notices that the folder that it was opened in,
// or one of the files whose locks it holds, was removed or replaced. What it wrote since would be
// lost, or would get into the folder of another database.
func (db *DB) stayInPlace(base vfs.FS, dir string, locks ...string) error {
	place, err := fsys.PlaceOf(base, dir, locks...)
	if err != nil || place == nil {
		return err
	}
	db.held = closers{db.held, place}
	db.store.FS.Hold(place)
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
