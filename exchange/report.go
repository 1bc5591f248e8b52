package exchange

import (
	"context"
	"errors"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// Options of an import. nil is the default.
type Options struct {
	// Strict stops at the first record that is not stored and returns it as a
	// LineError; the records before it are stored, none after it. Otherwise such
	// a record is skipped, counted and listed in the report.
	Strict bool
	// Upsert makes a record whose ID is taken by other content an update of that
	// memory, instead of an error.
	Upsert bool
	// Progress is called after every commit with the report so far.
	Progress func(Report)
}

// Report tells what became of the records of an import. Read is the sum of
// Stored, Updated, Unchanged and Skipped.
type Report struct {
	Read int
	// Stored were added, Updated changed under Upsert, Unchanged there already.
	Stored, Updated, Unchanged int
	// Skipped were malformed, of an unknown type, or refused by the database.
	Skipped int
	// Bytes of the input that were read.
	Bytes int64
	// Errors say why the first maxErrors of Skipped were.
	Errors []LineError
}

const (
	// maxErrors bounds the errors of a report: they are for people to read.
	maxErrors = 100
	// A batch is one commit. So many records share the wait for one sync, and
	// what they take in memory stays small beside the limits of a transaction.
	batchRecords = 500
	batchBytes   = 4 << 20
)

// batch gathers memories and stores them together.
type batch struct {
	db     *engine.DB
	opts   Options
	report Report
	bytes  int
	mems   []engine.Memory
	at     []LineError // where each of mems stood; Err is not set yet
}

func newBatch(db *engine.DB, o *Options) *batch {
	b := &batch{db: db}
	if o != nil {
		b.opts = *o
	}
	return b
}

// add takes a memory of about size bytes.
func (b *batch) add(ctx context.Context, at LineError, m engine.Memory, size int) error {
	if len(b.mems) > 0 && b.bytes+size > batchBytes {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	b.mems, b.at, b.bytes = append(b.mems, m), append(b.at, at), b.bytes+size
	if len(b.mems) == batchRecords {
		return b.flush(ctx)
	}
	return nil
}

// refuse counts a record that can't be stored; under Strict it ends the import,
// once what stood before it is stored.
func (b *batch) refuse(ctx context.Context, e LineError) error {
	if b.opts.Strict {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	return b.skip(e)
}

func (b *batch) skip(e LineError) error {
	b.report.Read++
	b.report.Skipped++
	if len(b.report.Errors) < maxErrors {
		b.report.Errors = append(b.report.Errors, e)
	}
	if b.opts.Strict {
		return e
	}
	return nil
}

// flush stores what was gathered.
func (b *batch) flush(ctx context.Context) error {
	if len(b.mems) == 0 {
		return nil
	}
	err := b.store(ctx, b.mems, b.at)
	b.mems, b.at, b.bytes = b.mems[:0], b.at[:0], 0
	if err == nil && b.opts.Progress != nil {
		b.opts.Progress(b.report)
	}
	return err
}

// store stores memories in one commit. Where that is refused whole for the sake
// of one of them, it halves: all that stands before the bad one is stored in a
// few commits, and the one to blame is found.
func (b *batch) store(ctx context.Context, mems []engine.Memory, at []LineError) error {
	stored, err := b.db.Memories().StoreBatch(ctx, mems, &engine.StoreOptions{
		Upsert: b.opts.Upsert, NoDedup: true, SkipInvalid: !b.opts.Strict,
	})
	switch {
	case err != nil && !isOfOneMemory(err):
		return err
	case err != nil && len(mems) == 1:
		stored = []engine.Stored{{Err: err}}
	case err != nil:
		half := len(mems) / 2
		if err := b.store(ctx, mems[:half], at[:half]); err != nil {
			return err
		}
		return b.store(ctx, mems[half:], at[half:])
	}
	for i, s := range stored {
		if err := b.count(at[i], s); err != nil {
			return err
		}
	}
	return nil
}

// finish stores what is left and ends the import, for the reason err if there is
// one.
func (b *batch) finish(ctx context.Context, err error) (Report, error) {
	if failed := b.flush(ctx); failed != nil {
		err = failed
	}
	return b.report, err
}

// count books what became of a record.
func (b *batch) count(at LineError, s engine.Stored) error {
	if s.Err != nil {
		at.Err = s.Err
		return b.skip(at)
	}
	b.report.Read++
	switch {
	case s.Stored:
		b.report.Stored++
	case s.Updated:
		b.report.Updated++
	default:
		b.report.Unchanged++
	}
	return nil
}

// isOfOneMemory tells errors that are about one record from those that the next
// record would meet too.
func isOfOneMemory(err error) bool {
	for _, kind := range []error{
		engine.ErrInvalid, engine.ErrScope, engine.ErrExists, engine.ErrAmbiguous,
		engine.ErrMismatch, engine.ErrTxTooLarge,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
