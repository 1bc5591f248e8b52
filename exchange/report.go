package exchange

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
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
	// Scope fills the user, the agent and the run that a record does not name, independently.
	Scope memory.Scope
	// ForceScope stores every record for the user and the agent of Scope, and in its run if it has
	// one, whatever the record names.
	ForceScope bool
	// IntoUser is the user that everything is stored for, whatever user a record names; agents and
	// runs stay. Empty: each record is its own user's.
	IntoUser string
	// IntoAgent is the agent that everything is stored for, whatever agent a record names;
	// users and runs stay. The agent's manifest is the first of those that are read, unless
	// it has one. Empty: each record is its own agent's.
	IntoAgent string
	// Source begins the IDs that are made for memories without one. Empty: "json".
	Source string
	// Zone is the zone of times without an offset. nil: UTC.
	Zone *time.Location
	// Origin, if it is given, is a part of those IDs: an input that is read under two origins is
	// stored twice.
	Origin string
	// Samples is how many records of each kind the report shows.
	Samples int
	// IgnoreUnknown counts keys that are not known also under Strict, which otherwise stops at them.
	IgnoreUnknown bool
	// Progress is called after every commit with the report so far.
	Progress func(Report)
}

// Report tells what became of the records of an import. Read is the sum of
// Stored, Updated, Unchanged and Skipped.
type Report struct {
	// Read is how many records were read.
	Read int
	// Stored were added, Updated changed under Upsert, Unchanged there already.
	Stored, Updated, Unchanged int
	// Skipped were malformed, of an unknown type, or refused by the database.
	Skipped int
	// Imported are Stored and Updated by the type of their records, such as "memory" and
	// "entity"; Kinds are all that could be read by their type, with the events of histories.
	Imported, Kinds map[string]int
	// LeftOut counts what has no place here, by what it is: the keys of lines that are not known.
	LeftOut Counts
	// Mapped says under which key of the metadata the keys of memories are that are not known.
	Mapped Mapped
	// Elsewhere counts the records that are in another scope than Options.Scope names, by
	// "user/agent", or by "user/agent/run" where only the run is another.
	Elsewhere Counts
	// Samples are the first records of each kind, in their order, as Options.Samples says.
	Samples []Sample
	// Events of histories that were restored, along with their memories or as those
	// of memories that are gone. They are not in Read.
	Events int
	// Bytes of the input that were read.
	Bytes int64
	// Errors say why the first maxErrors of Skipped were.
	Errors []LineError
	// Notes say in what the database differs from that of an export.
	Notes []string
}

// errLongHistory: see maxPastEvents.
var errLongHistory = fmt.Errorf("the memory's history is longer than %d events or %d MiB; its oldest events are left out", maxPastEvents, maxPastBytes>>20)

// errLostHistory is that of events that a refused line stands behind.
var errLostHistory = errors.New("the history that begins here is left out: the line behind it, which may be its memory, was refused")

const (
	// maxErrors bounds the errors of a report: they are for people to read.
	maxErrors = 100
	// A batch is one commit. So many records share the wait for one sync, and
	// what they take in memory stays small beside the limits of a transaction.
	batchRecords = 500
	batchBytes   = 4 << 20
)

// batch gathers what is stored together: lives in a commit, and other lines in another.
// Under Strict it has one kind only, so that nothing is stored before what stands
// before it.
type batch struct {
	db      *engine.DB
	opts    Options
	report  Report
	known   uint64 // LSN of the state before the import
	bytes   int
	lives   []memory.Life
	livesAt []LineError // where each of lives stood; Err is not set yet
	lines   []engine.Line
	linesAt []LineError // likewise
	agents  bool        // manifests are among the lines
	past    past
	seen    occurrences
}

func newBatch(db *engine.DB, o *Options) *batch {
	b := &batch{db: db, known: db.LSN(), report: Report{
		Imported: map[string]int{}, Kinds: map[string]int{}, LeftOut: Counts{}, Mapped: Mapped{}, Elsewhere: Counts{},
	}}
	if o != nil {
		b.opts = *o
	}
	return b
}

// add takes a memory of about size bytes, with the history that stood before it.
func (b *batch) add(ctx context.Context, at LineError, m memory.Memory, size int) error {
	m.Scope = b.opts.filled(m.Scope)
	if m.ID == "" {
		b.name(&m)
	}
	m.Scope = b.opts.into(m.Scope)
	b.kind(TypeMemory, m.Scope.Owner(), func() any { return Show(m, false) })
	l := memory.Life{Memory: &m}
	if b.past.open(m.ID, m.Scope) {
		l.History, size = b.past.entries, size+b.past.bytes
		b.past = past{}
	} else if err := b.gone(ctx); err != nil {
		return err
	}
	return b.life(ctx, at, l, size)
}

// life takes a memory and its history.
func (b *batch) life(ctx context.Context, at LineError, l memory.Life, size int) error {
	if b.agents { // which it may need
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	if err := b.make(ctx, size, len(b.lines) > 0); err != nil {
		return err
	}
	b.lives, b.livesAt = append(b.lives, l), append(b.livesAt, at)
	return b.took(ctx, size)
}

// make makes room for a record: one that the batch has no more room for begins
// another, and so does under Strict one of a kind other than the batch's.
func (b *batch) make(ctx context.Context, size int, other bool) error {
	if other && b.opts.Strict || b.bytes > 0 && b.bytes+size > batchBytes {
		return b.flush(ctx)
	}
	return nil
}

func (b *batch) took(ctx context.Context, size int) error {
	b.bytes += size
	if len(b.lives)+len(b.lines) == batchRecords {
		return b.flush(ctx)
	}
	return nil
}

// refuse counts a record that can't be stored; under Strict it ends the import,
// once what stood before it is stored. It may have been the memory that a history
// was of, which is then left out with it.
func (b *batch) refuse(ctx context.Context, e LineError) error {
	if n := len(b.past.entries); n > 0 && !errors.Is(e.Err, errLongHistory) {
		if b.past.entries[n-1].Event == memory.EventDelete {
			if err := b.gone(ctx); err != nil {
				return err
			}
		}
		lost := b.past
		b.past = past{}
		if len(lost.at) > 0 && !b.opts.Strict {
			lost.at[0].Err = errLostHistory
			_ = b.skip(lost.at[0]) // fails only under Strict
		}
	}
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
	if len(b.lives)+len(b.lines) == 0 {
		return nil
	}
	var err error
	if len(b.lives) > 0 {
		err = b.store(ctx, b.lives, b.livesAt)
	}
	if err == nil && len(b.lines) > 0 {
		err = b.put(ctx, b.lines, b.linesAt)
	}
	clear(b.lives) // they may hold megabytes
	clear(b.lines)
	b.lives, b.livesAt, b.bytes = b.lives[:0], b.livesAt[:0], 0
	b.lines, b.linesAt, b.agents = b.lines[:0], b.linesAt[:0], false
	if err == nil && b.opts.Progress != nil {
		b.opts.Progress(b.report)
	}
	return err
}

// store stores lives in one commit. Where that is refused whole for the sake of
// one of them, it halves: all that stands before the bad one is stored in a few
// commits, and the one to blame is found.
func (b *batch) store(ctx context.Context, lives []memory.Life, at []LineError) error {
	stored, err := b.db.Memories().Restore(ctx, lives, &memory.RestoreOptions{
		StoreOptions: memory.StoreOptions{Upsert: b.opts.Upsert, NoDedup: true, SkipInvalid: !b.opts.Strict},
		Known:        b.known,
	})
	switch {
	case err != nil && !isOfOneMemory(err):
		return err
	case err != nil && len(lives) == 1:
		stored = []memory.Stored{{Err: err}}
	case err != nil:
		half := len(lives) / 2
		if err := b.store(ctx, lives[:half], at[:half]); err != nil {
			return err
		}
		return b.store(ctx, lives[half:], at[half:])
	}
	for i, s := range stored {
		if s.Stored {
			b.report.Events += len(lives[i].History)
		}
		if lives[i].Memory == nil && s.Err == nil {
			continue // its events were all that there was of it
		}
		if err := b.count(at[i], TypeMemory, s); err != nil {
			return err
		}
		if s.Err == nil {
			b.opts.elsewhere(b.report.Elsewhere, lives[i].Memory.Scope)
		}
	}
	return nil
}

// finish stores what is left and ends the import, for the reason err if there is
// one.
func (b *batch) finish(ctx context.Context, err error) (Report, error) {
	if err != nil {
		b.past = past{} // the memory may have been about to come
	}
	failed := b.gone(ctx)
	if failed == nil {
		failed = b.flush(ctx)
	}
	if failed != nil {
		err = failed
	}
	return b.report, err
}

// count books what became of a record of a type.
func (b *batch) count(at LineError, typ string, s memory.Stored) error {
	if s.Err != nil {
		at.Err = s.Err
		return b.skip(at)
	}
	b.report.Read++
	switch {
	case s.Stored:
		b.report.Stored++
		b.report.Imported[typ]++
	case s.Updated:
		b.report.Updated++
		b.report.Imported[typ]++
	default:
		b.report.Unchanged++
	}
	return nil
}

// isOfOneMemory tells errors that are about one record from those that the next
// record would meet too.
func isOfOneMemory(err error) bool {
	for _, kind := range []error{
		memory.ErrInvalid, memory.ErrScope, memory.ErrExists, memory.ErrAmbiguous,
		memory.ErrMismatch, memory.ErrTxTooLarge, memory.ErrUnknownAgent, memory.ErrNotFound,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
