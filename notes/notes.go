package notes

import (
	"context"
	"encoding/binary"
	"log/slog"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Notes are the notes and archives of a database, by name: in a transaction, or with each call
// as a transaction of its own. An embedder is not called: the text of a note is embedded by a
// later pass.
type Notes struct {
	run    Runner
	logger *slog.Logger
}

// New returns the notes whose calls a runner runs. The logger hears of aliases that change
// hands and of archives that are written over. Engine makes them: see its DB.Notes and Tx.Notes.
func New(r Runner, logger *slog.Logger) Notes { return Notes{r, logger} }

// Note is a note or an archive.
type Note struct {
	// ID counts the notes and archives of an owner from 1. It is never given again.
	ID uint64
	// MemoryID is the ID of the memory that the note is.
	MemoryID string
	// Name addresses the note, and so does each of its aliases. Among the notes and archives
	// of an owner no other has any of them.
	Name    string
	Aliases []string
	Content string
	Kind    memory.Kind // KindNote or KindArchive
	// CreatedAt and UpdatedAt have millisecond resolution, in UTC.
	CreatedAt, UpdatedAt time.Time
}

// Found is a note that a search has found.
type Found struct {
	Note
	// Score is the BM25 score.
	Score float64
}

// Runner runs the calls of users: each as a transaction of its own, or all of them in the one
// that the user is in. doing is what an error says was being done.
type Runner interface {
	// View runs fn on one state, and Update runs it in a transaction that commits unless fn
	// returns an error.
	View(ctx context.Context, doing string, fn func(View) error) error
	// Update is as View says.
	Update(ctx context.Context, doing string, fn func(Tx) error) error
}

// View reads the memories of one state that are notes or archives. A Tx sees what it has
// written.
type View interface {
	// Named is the one of an owner that has a name or an alias, false where there is none.
	Named(o scope.Owner, name string) (m memory.Memory, found bool, err error)
	// Each calls visit for those of an owner, in the order in which they came.
	Each(ctx context.Context, o scope.Owner, visit func(memory.Memory) error) error
	// Search ranks those of an owner by BM25 over text and name, with the statistics of them
	// alone. A limit of 0 is every match.
	Search(ctx context.Context, o scope.Owner, query string, limit int) ([]memory.Hit, error)
}

// Tx reads and writes them.
type Tx interface {
	View
	// Store stores a new memory and returns it as it was stored.
	Store(ctx context.Context, m memory.Memory) (memory.Memory, error)
	// Patch changes a memory that this Tx has read, and returns what became of it.
	Patch(ctx context.Context, doing string, m memory.Memory, p memory.Patch) (memory.Memory, error)
	// Remove deletes a memory that this Tx has read.
	Remove(m memory.Memory) error
}

// noteOf is a memory as a note.
func noteOf(m memory.Memory) Note {
	return Note{
		ID: m.NoteID, MemoryID: m.ID, Name: m.Name, Aliases: m.Aliases, Content: m.Text, Kind: m.Kind, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
	}
}

// view runs a call that reads.
func (n Notes) view(ctx context.Context, doing string, o scope.Owner, fn func(View) error) error {
	if err := scope.Check(doing, o.Scope()); err != nil {
		return err
	}
	return n.run.View(ctx, doing, fn)
}

// update runs a call that writes.
func (n Notes) update(ctx context.Context, doing string, o scope.Owner, name string, fn func(Tx) error) error {
	if err := scope.Check(doing, o.Scope()); err != nil {
		return err
	}
	if err := checkName(doing, name); err != nil {
		return err
	}
	return n.run.Update(ctx, doing, fn)
}

func checkName(doing, name string) error {
	if name == "" {
		return fault.Invalid(doing, "a name is empty", "give one")
	}
	return valid.Word(doing, "name", name)
}

// named is the memory of an owner by one of its names.
func named(v View, doing string, o scope.Owner, name string) (memory.Memory, error) {
	m, found, err := v.Named(o, name)
	if err == nil && !found {
		err = &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "there is no note or archive of that name or alias", Do: "check the name, the user and the agent; list them"}
	}
	return m, err
}

// Part is the structure as the database sees it.
type Part struct{}

// Name is "notes".
func (Part) Name() string { return "notes" }

// Kinds are those of the numbers.
func (Part) Kinds() []part.Kind { return []part.Kind{kindNote} }

// Ops are none: a number comes with its memory, which the log tells.
func (Part) Ops() []part.Op { return nil }

// Lines are none: the lines of memories have the numbers.
func (Part) Lines(part.View, scope.Scope, func(part.Line) error) error { return nil }

// NewLine is nil.
func (Part) NewLine(string) part.Line { return nil }

// Figures are the number of notes and archives that have one, as "notes".
func (Part) Figures(v part.View) (map[string]int64, error) {
	n := int64(0)
	lower := v.Key(kindNote, 0)
	err := v.Scan(lower, layout.PrefixEnd(lower), func(key, _ []byte) error {
		if p, ok := parseKey(key); ok && p.side == sideSeq {
			n++
		}
		return nil
	})
	return map[string]int64{"notes": n}, err
}

// EraseOwners deletes the numbers, also the last one: nobody is left who has seen them.
func (Part) EraseOwners(v part.View, owners map[uint32]bool, del func(lower, upper []byte) error) error {
	for owner := range owners {
		lower := binary.BigEndian.AppendUint32(v.Key(kindNote, 4), owner)
		if err := del(lower, layout.PrefixEnd(lower)); err != nil {
			return err
		}
	}
	return nil
}

// DeleteOwner deletes nothing: the numbers go with the memories, and the last one stays, so
// that none is given again.
func (Part) DeleteOwner(part.Tx, uint32) (map[string]int64, error) {
	return map[string]int64{}, nil
}
