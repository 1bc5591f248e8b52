package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

// placeEvery is how often an open database looks whether its folder is still its own: in the
// background, and before a write is acknowledged where that was longer ago.
const placeEvery = time.Second

// placed is when a database looked for its folder last, in Unix milliseconds.
type placed struct{ last atomic.Int64 }

// due reports whether it is time to look again, and takes note that somebody does.
func (p *placed) due(now time.Time) bool {
	last := p.last.Load()
	return now.UnixMilli()-last >= placeEvery.Milliseconds() && p.last.CompareAndSwap(last, now.UnixMilli())
}

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
	db.life.placed.due(clock.System())
	db.every(db.life.background.ctx, "looks for its folder", placeEvery, nil, func(context.Context) error { return db.inPlace() })
	return nil
}

// inPlace checks that the folder of the database is still in place. It returns the error of Failed.
func (db *DB) inPlace() error {
	if db.store.FS.InPlace() == nil {
		return nil
	}
	return db.Failed()
}
