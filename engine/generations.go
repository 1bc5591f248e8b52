package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// generationsKey holds the generation of every kind. A rebuild rewrites it in the
// commit that switches to what it has built.
var generationsKey = metaKey("generations")

func (ks *keyspace) encodeGenerations() []byte {
	var b []byte
	for _, k := range kinds {
		b = append(b, k)
		b = binary.BigEndian.AppendUint16(b, ks.gen[k])
	}
	return b
}

// loadGenerations reads the table, which a new database gets here. Every key
// depends on it, so a database that has data and no table is damaged.
func (db *DB) loadGenerations() error {
	b, closer, err := db.store.Get(generationsKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return db.firstGenerations()
	}
	if err != nil {
		return err
	}
	const entry = 3
	if len(b)%entry != 0 {
		err = &Error{Kind: ErrCorrupt, What: "read the generations", Why: fmt.Sprintf("%d bytes are not a multiple of %d", len(b), entry)}
	}
	for ; len(b) >= entry; b = b[entry:] {
		db.keys.gen[b[0]] = binary.BigEndian.Uint16(b[1:])
	}
	for _, k := range kinds {
		if db.keys.gen[k] == 0 { // a kind that the database's layout did not know
			db.keys.gen[k] = firstGeneration(k)
		}
	}
	return errors.Join(err, closer.Close())
}

func (db *DB) firstGenerations() error {
	it, err := db.store.NewIter(nil)
	if err != nil {
		return err
	}
	if it.First() {
		err = &Error{Kind: ErrCorrupt, What: "read the generations", Why: "they are missing", Do: "restore a backup"}
	}
	if err = errors.Join(err, it.Error(), it.Close()); err != nil {
		return err
	}
	for _, k := range kinds {
		db.keys.gen[k] = firstGeneration(k)
	}
	if db.readOnly {
		return nil
	}
	return db.store.Set(generationsKey, db.keys.encodeGenerations(), pebble.Sync)
}
