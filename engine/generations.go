package engine

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// loadGenerations reads the table, which a new database gets here. Every key
// depends on it, so a database that has data and no table is damaged.
func (db *DB) loadGenerations() error {
	b, closer, err := db.store.Get(layout.GenerationsKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return db.firstGenerations()
	}
	if err != nil {
		return err
	}
	return errors.Join(db.keys().DecodeGenerations(b), closer.Close())
}

func (db *DB) firstGenerations() error {
	it, err := db.store.NewIter(nil)
	if err != nil {
		return err
	}
	if it.First() {
		err = &fault.Error{Kind: fault.ErrCorrupt, What: "read the generations", Why: "they are missing", Do: "restore a backup"}
	}
	if err = errors.Join(err, it.Error(), it.Close()); err != nil {
		return err
	}
	db.keys().FirstGenerations()
	if db.readOnly {
		return nil
	}
	return db.store.Set(layout.GenerationsKey, db.keys().EncodeGenerations(), pebble.Sync)
}
