package engine

import (
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// A read of a damaged database returns the intact part, or fails. Either way the damage is recorded
// before the read returns: Open records what it had to leave out, the store records each block that
// it cannot read, and decoders record each value whose checksum fails. There is one such record.
// Results carry its count as Unreadable, and [DB.Damage] describes it.

// Damage is what of an open database is known to be lost or unreadable.
type Damage struct {
	// Unreadable is how many damages are known: blocks of files, values, names, ranges of keys
	// that Open found missing. It is 0 for a database that is whole as far as it was read.
	Unreadable int `json:"unreadable"`
	// Known describes the first of them.
	Known []string `json:"known,omitempty"`
}

// Damage returns what of the database is known to be lost or unreadable, by the opening or by any
// read since. Where it is not empty, an answer of any call may lack something: a list, a count, a
// group, a session. A call that meets a damage notes it before it returns, so an answer is
// complete if Damage is empty after the call. [DB.Check] looks for all damages.
func (db *DB) Damage() Damage {
	n := db.unreadable()
	if n == 0 {
		return Damage{}
	}
	return Damage{Unreadable: n, Known: db.tables.Damages.Known()}
}

// unreadable is how many damages are known.
func (db *DB) unreadable() int { return int(db.tables.Damages.Count()) }

// incomplete is the error of a read: it notes the damage that the error reports. Of something that
// was not found beside damage it says so: it may be there.
func (db *DB) incomplete(err error) error {
	if err == nil {
		return nil
	}
	db.tables.Damages.Met(err)
	if n := db.unreadable(); n > 0 && errors.Is(err, fault.ErrNotFound) && !errors.Is(err, fault.ErrCorrupt) {
		return fmt.Errorf("%w; the database is %w: %d things in it cannot be read, and this may be one of them", err, fault.ErrCorrupt, n)
	}
	return err
}
