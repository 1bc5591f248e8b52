package engine

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/policy"
)

// OpenAsItIs is Open of a database in which what has expired stays, as tests of older
// layouts compare all that there is.
func OpenAsItIs(dir string, o *Options) (*DB, error) {
	return open(dir, o, &tuning{keepsExpired: true})
}

// KeepSchedule does what a schedule has for the time of the database's clock.
func KeepSchedule(db *DB, s policy.Schedule) error {
	return db.ageing.KeepSchedule(context.Background(), s)
}
