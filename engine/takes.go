package engine

import (
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// takes asks whether an owner who has nothing here may have something: see Options.Admit.
func (db *DB) takes(k layout.Name) error {
	if db.owns == nil || k.Class != layout.NameOwner {
		return nil
	}
	o, _ := scope.ParseKey(k.Text) // each name of an owner is a key
	return db.owns(o)
}
