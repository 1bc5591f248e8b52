package exchange

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// RescueReport tells what a rescue has made of what was left.
type RescueReport struct {
	// Memories are those that live, History the events that were brought along.
	Memories, History int
	// Lines are the things beside the memories, by their type.
	Lines map[string]int
	Notes int // of Memories
	// Lost is what could not be read.
	Lost []RescueLoss
}

// RescueLoss is something that could not be read, and why.
type RescueLoss struct {
	// What was lost, how many of it, and why.
	What   string
	Count  int
	Reason string
}

// mostLosses bounds the reasons of a report: behind it only their number is told.
const mostLosses = 1000

// Rescue makes a new database in the folder to of all that is left of the one in the folder
// from: also where files of it are damaged or gone, so that it cannot be opened. It reads the
// tables and logs one by one and never writes to from. The new database is whole: its indexes
// are made from what was read. Files of vectors and the log of changes are not taken over. While
// it runs, it needs as much room again beside to.
//
// It returns ErrCorrupt where nothing can be read, ErrExists where there is a database in to,
// and ErrLocked where from is open. After another error to is not complete: delete it.
func Rescue(ctx context.Context, from, to string, o *engine.Options) (r RescueReport, err error) {
	there, err := engine.Exists(to)
	if err == nil && there {
		err = &memory.Error{Kind: memory.ErrExists, What: "rescue " + from, Why: "there is a database in " + to, Do: "name a folder that does not exist"}
	}
	if err != nil {
		return r, err
	}
	left, err := engine.OpenRemains(ctx, from, to, o)
	if err != nil {
		return r, err
	}
	defer func() { err = cmp.Or(err, left.Close()) }()
	of := NewDatabase(left.Settings())
	db, err := engine.Open(to, of.Options())
	if err != nil {
		return r, err
	}
	r, err = RescueInto(ctx, left, db)
	return r, cmp.Or(err, db.Close())
}

// RescueInto is [Rescue] into a database that is open and empty.
func RescueInto(ctx context.Context, left *engine.Remains, db *engine.DB) (r RescueReport, err error) {
	for _, l := range left.Lost {
		r.lose(l.What, l.Count, l.Reason)
	}
	if err := r.copy(ctx, left.DB, db); err != nil {
		return r, err
	}
	lost, err := left.CopyAPIKeys(ctx, db)
	if err != nil {
		return r, err
	}
	if lost != nil {
		r.lose("the API keys of the server, which refuses every request until a new one is made: memdbd key add --admin", 1, lost.Error())
	}
	r.Notes, err = db.Memories().Count(ctx, memory.ListQuery{AllScopes: true, Filter: filter.Eq("kind", string(memory.KindNote))})
	return r, err
}

// copy is an export and an import in one.
func (r *RescueReport) copy(ctx context.Context, from, to *engine.DB) error {
	var exported ExportReport
	var failed error
	chunks := func(yield func([]byte) bool) {
		exported, failed = Export(ctx, from, yieldWriter(yield), nil)
	}
	next, stop := iter.Pull(chunks)
	imported, err := ImportJSONL(ctx, to, &pulled{next: next}, &Options{})
	stop()
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	r.Memories, r.History, r.Lines = imported.Imported[TypeMemory], imported.Events, imported.Imported
	delete(r.Lines, TypeMemory)
	for _, p := range exported.Problems {
		r.lose("what an export has", 1, p.Error())
	}
	if more := exported.Lost - len(exported.Problems); more > 0 {
		r.Lost = append(r.Lost, RescueLoss{"what an export has", more, "likewise"})
	}
	for _, e := range imported.Errors {
		r.lose("what does not fit together any more", 1, e.Err.Error())
	}
	if more := imported.Skipped - len(imported.Errors); more > 0 {
		r.Lost = append(r.Lost, RescueLoss{"what does not fit together any more", more, "likewise"})
	}
	return nil
}

// lose counts a loss, those of one reason together.
func (r *RescueReport) lose(what string, count int, reason string) {
	at := slices.IndexFunc(r.Lost, func(l RescueLoss) bool { return l.What == what && l.Reason == reason })
	if at < 0 && len(r.Lost) >= mostLosses {
		at, reason = len(r.Lost)-1, "there are more reasons than are told"
		r.Lost[at].What, r.Lost[at].Reason = "things of many kinds", reason
	}
	if at < 0 {
		r.Lost = append(r.Lost, RescueLoss{What: what, Reason: reason})
		at = len(r.Lost) - 1
	}
	r.Lost[at].Count += count
}

// yieldWriter gives away what is written to it.
type yieldWriter func([]byte) bool

func (w yieldWriter) Write(b []byte) (int, error) {
	if !w(b) {
		return 0, fmt.Errorf("the import has ended: %w", io.ErrClosedPipe)
	}
	return len(b), nil
}

// pulled reads what is given away, piece by piece.
type pulled struct {
	next func() ([]byte, bool)
	left []byte
}

func (p *pulled) Read(b []byte) (int, error) {
	for len(p.left) == 0 {
		var more bool
		if p.left, more = p.next(); !more {
			return 0, io.EOF
		}
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}
