package engine

import (
	"context"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// prepare does all that a store needs no lock for.
func (m Memories) prepare(ctx context.Context, mem *memory.Memory, now int64) (*records.Prepared, error) {
	return records.Prepare(ctx, &m.db.tables, mem, now, m.space)
}

// space is that of a name, nil if there is none yet.
func (m Memories) space(name string) *spaces.Space {
	if m.tx != nil {
		return m.tx.reader().Space(name)
	}
	return m.db.spaces.At(name, m.db.LSN())
}

// Now returns the time by the Clock of the Options.
func (db *DB) Now() time.Time { return db.clock() }

func (db *DB) now() int64 { return db.clock().UnixMilli() }
