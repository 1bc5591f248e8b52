package engine

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/changefeed"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// ChangesOptions say which changes Changes returns. nil: all up to the newest.
type ChangesOptions = changefeed.Options

// Changes iterates over what was committed, from the commit of an LSN on, in the order of LSNs and
// within a commit in the order of its changes: each once, and only what is durable. 0 is the oldest
// commit that the log has. An LSN that is not reached yet is waited for under Follow, and is the end
// otherwise. See package wal for what a change says.
//
// # Going on
//
// The LSN and the Number of a change say where a reader stands. One that keeps both, in one step
// with what it makes of the change, goes on with the next Number of that LSN, and misses nothing and
// sees nothing twice. (One exception: where it stopped in the midst of the delete of a whole scope,
// and histories of that were removed since, changes of that commit come again.)
//
// # Slow readers
//
// A reader reads when it asks, and holds nothing of the database between two changes: it may be as
// slow as it likes. The log is kept for as long as the policy's log_ms says, which is for ever unless
// it was set. Beyond that, a Changes that runs keeps what it has still to read for
// [Options.MaxChangesLag]. A reader that is further behind gets an error of the kind
// memory.ErrFellBehind, whose cause, a *wal.BehindError, names the oldest commit that is left: from
// its LSN on the log goes on. What came before is in an export. After a [DB.Reset] the log begins
// with the reset.
//
// # Errors
//
// An error is the last that is returned: that of the context, ErrClosed once the database is closed,
// ErrCorrupt with the LSN of a record that cannot be read. Within an Update it sees nothing of that.
func (db *DB) Changes(ctx context.Context, from uint64, o *ChangesOptions) iter.Seq2[wal.Change, error] {
	return changefeed.Changes(ctx, (*changesHost)(db), from, o)
}

// changesHost is a database as readers of changes need it.
type changesHost DB

func (h *changesHost) View(ctx context.Context, fn func(changefeed.Reader) error) error {
	return (*DB)(h).view(ctx, nil, func(tx *Tx) error { return fn((*changesReader)(tx)) })
}

func (h *changesHost) Usable(doing string) error                { return (*DB)(h).usable(doing) }
func (h *changesHost) Ending() <-chan struct{}                  { return h.life.Ending() }
func (h *changesHost) After(lsn uint64) (<-chan struct{}, bool) { return h.points.after(lsn) }
func (h *changesHost) Durable() uint64                          { return h.syncer.Durable() }
func (h *changesHost) Opened() uint64                           { return h.opening.lsn }
func (h *changesHost) Parts() []part.Part                       { return h.parts }
func (h *changesHost) Running() *changefeed.Running             { return &h.program.feeds }

func (h *changesHost) SyncEvery() time.Duration {
	if h.durability == Buffered {
		return bufferedSync
	}
	return 0
}

// changesReader is a transaction as readers of changes need it.
type changesReader Tx

func (r *changesReader) State() *state.State { return &r.state }
func (r *changesReader) Part() part.View     { return (*partTx)(r) }

// Memory is a version without what only the newest state knows of a memory.
func (r *changesReader) Memory(rec *layout.Record, v layout.Version, vectors bool) (m memory.Memory, lost bool, err error) {
	tx := (*Tx)(r)
	if m, err = memoryOf(rec, v.Seq); err != nil {
		return m, false, err
	}
	if state.IsNote(rec) {
		if m.NoteID, err = notes.Number(r.Part(), v.Owner, v.Seq); err != nil {
			return m, false, err
		}
	}
	if !vectors {
		return m, false, nil
	}
	of := map[string][]float32{}
	for _, ref := range rec.Vectors {
		s := tx.reader().SpaceNumbered(ref.Space)
		vec, err := tx.reader().Vector(v, ref)
		switch {
		case s == nil || errors.Is(err, fault.ErrCorrupt): // which it is, too, where it was removed
			lost = true
		case err != nil:
			return m, false, err
		default:
			of[s.Name] = vec
		}
	}
	setVectors(&m, of)
	return m, lost, nil
}
