package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// # Notes
//
// A note is a memory of the kind note or archive that has a name. Notes is how an agent works
// with them: by name. Whose they are is an owner, whatever the run.
//
// Names and aliases are values of the filter index, under a field of their own, so that past
// states and Views know which note had a name, and a rebuild makes them again. A note that was
// indexed before there was this field is found by its record. The numbers are those of
// package notes.

// Notes are the notes and archives of the database, by name: in a transaction ([Tx.Notes]),
// or with each call as a transaction of its own ([DB.Notes]). An embedder is not called: the
// text of a note is embedded by a later pass ([DB.EmbedPending]).
type Notes struct {
	db *DB
	tx *Tx // nil: one for each call
}

// Notes are the notes of the database: each call is its own transaction.
func (db *DB) Notes() Notes { return Notes{db: db} }

// Notes are the notes as this transaction sees them.
func (tx *Tx) Notes() Notes { return Notes{db: tx.db, tx: tx} }

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

// FoundNote is a note that a search has found, with its BM25 score.
type FoundNote struct {
	Note
	// Score is the BM25 score.
	Score float64
}

const doingNote = "work with notes"

// Add stores a note under a new name: ErrExists where another note or archive of the owner
// has it as its name or alias. The kind is KindNote, unless it is KindArchive.
func (n Notes) Add(ctx context.Context, o scope.Owner, name, content string, kind memory.Kind) (note Note, err error) {
	doing := fmt.Sprintf("add note %q", valid.Short(name))
	kind = cmp.Or(kind, memory.KindNote)
	if kind != memory.KindNote && kind != memory.KindArchive {
		return Note{}, fault.Invalid(doing, fmt.Sprintf("its kind is %q", valid.Short(string(kind))), "use note or archive")
	}
	if content == "" {
		return Note{}, fault.Invalid(doing, "it has no content", "give a text")
	}
	err = n.update(ctx, doing, o, name, func(tx *Tx) error {
		m := memory.Memory{Scope: o.Scope(), Kind: kind, Name: name, Text: content}
		owner, known, err := tx.noteOwner(o)
		if err == nil && known {
			err = tx.namesFree(doing, owner, 0, name)
		}
		if err != nil {
			return err
		}
		stored, err := tx.Memories().Store(ctx, m, &memory.StoreOptions{NoDedup: true})
		if err != nil {
			return err
		}
		l, _ := tx.at(stored.Seq)
		note, err = tx.note(l)
		return err
	})
	return note, err
}

// Get is the note of a name or an alias; ErrNotFound where there is none.
func (n Notes) Get(ctx context.Context, o scope.Owner, name string) (note Note, err error) {
	doing := fmt.Sprintf("get note %q", valid.Short(name))
	err = n.view(ctx, doing, o, func(tx *Tx) error {
		if err := checkNoteName(doing, name); err != nil {
			return err
		}
		note, _, _, err = tx.noteNamed(doing, o, name)
		return err
	})
	return note, err
}

// Rename gives a note another canonical name, which may be one of its aliases. With keep the
// old name becomes an alias. An alias of another note is taken from that; the name of another
// note is ErrExists.
func (n Notes) Rename(ctx context.Context, o scope.Owner, name, to string, keep bool) (Note, error) {
	doing := fmt.Sprintf("rename note %q", valid.Short(name))
	return n.change(ctx, doing, o, name, to, func(tx *Tx, l live, note *Note) (memory.Patch, error) {
		if err := tx.takeName(ctx, doing, l, to); err != nil {
			return memory.Patch{}, err
		}
		aliases := lacking(note.Aliases, to)
		if keep && note.Name != to {
			aliases = append(aliases, note.Name)
		}
		return memory.Patch{Name: &to, Aliases: &aliases}, nil
	})
}

// Alias gives a note one more name. An alias of another note is taken from that; the name of
// another note is ErrExists.
func (n Notes) Alias(ctx context.Context, o scope.Owner, name, alias string) (Note, error) {
	doing := fmt.Sprintf("give note %q an alias", valid.Short(name))
	return n.change(ctx, doing, o, name, alias, func(tx *Tx, l live, note *Note) (memory.Patch, error) {
		if alias == note.Name || slices.Contains(note.Aliases, alias) {
			return memory.Patch{}, nil
		}
		if err := tx.takeName(ctx, doing, l, alias); err != nil {
			return memory.Patch{}, err
		}
		aliases := append(slices.Clone(note.Aliases), alias)
		return memory.Patch{Aliases: &aliases}, nil
	})
}

// Write replaces the content of a note. Archives are meant to stay as they are; to write one
// is possible, and the log of the database warns of it.
func (n Notes) Write(ctx context.Context, o scope.Owner, name, content string) (Note, error) {
	doing := fmt.Sprintf("write note %q", valid.Short(name))
	if content == "" {
		return Note{}, fault.Invalid(doing, "there is no content", "give a text, or remove the note")
	}
	return n.change(ctx, doing, o, name, name, func(tx *Tx, _ live, note *Note) (memory.Patch, error) {
		if note.Kind == memory.KindArchive {
			tx.db.logger.Warn("an archive was written over; its history has what it was", "name", valid.Short(note.Name), "memory", valid.Short(note.MemoryID))
		}
		return memory.Patch{Text: &content}, nil
	})
}

// Remove deletes a note with all of its names.
func (n Notes) Remove(ctx context.Context, o scope.Owner, name string) error {
	doing := fmt.Sprintf("remove note %q", valid.Short(name))
	return n.update(ctx, doing, o, name, func(tx *Tx) error {
		_, l, rec, err := tx.noteNamed(doing, o, name)
		if err != nil {
			return err
		}
		return tx.remove(l, rec)
	})
}

// List yields the notes and archives of an owner, in the order in which they came.
func (n Notes) List(ctx context.Context, o scope.Owner, yield func(Note) error) error {
	const doing = "list notes"
	return n.view(ctx, doing, o, func(tx *Tx) error {
		owner, known, err := tx.noteOwner(o)
		if err != nil || !known {
			return err
		}
		docs, err := tx.noteDocs(ctx, owner, o)
		if err != nil {
			return err
		}
		var all []live
		for it := docs.Iterator(); it.HasNext(); {
			doc := it.Next()
			all = append(all, live{Version: tx.db.tables.Docs.Row(doc).Version, doc: doc})
		}
		slices.SortFunc(all, func(a, b live) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, l := range all {
			note, err := tx.note(l)
			if err != nil {
				return err
			}
			if note.Name == "" {
				continue
			}
			if err := yield(note); err != nil {
				return err
			}
		}
		return nil
	})
}

// Search ranks notes and archives together by BM25 over their content and name; aliases add
// nothing. The statistics are of them alone. A limit of 0 is every match. It does not count as
// an access.
func (n Notes) Search(ctx context.Context, o scope.Owner, query string, limit int) (found []FoundNote, err error) {
	const doing = "search notes"
	if limit < 0 {
		return nil, fault.Invalid(doing, fmt.Sprintf("the limit is %d", limit), "give 1 or more, or 0 for every match")
	}
	if err := memory.CheckText(doing, query); err != nil {
		return nil, err
	}
	err = n.view(ctx, doing, o, func(tx *Tx) error {
		q := memory.Query{Scope: o.Scope(), Text: query, Filter: notesOf(o), Profile: memory.ProfileText, Limit: limit, NoTouch: true}
		if limit == 0 || limit > invindex.MaxHits/4 {
			q.Limit = invindex.MaxHits / 4
		}
		result, err := tx.recall(ctx, &asked{Query: &q})
		if err != nil {
			return err
		}
		for _, h := range result.Hits {
			if h.Memory.Name != "" {
				found = append(found, FoundNote{noteOf(&h.Memory), h.Score})
			}
		}
		return nil
	})
	return found, err
}

// view runs a call that reads.
func (n Notes) view(ctx context.Context, doing string, o scope.Owner, fn func(*Tx) error) error {
	if err := scope.Check(doing, o.Scope()); err != nil {
		return err
	}
	return Memories{db: n.db, tx: n.tx}.view(ctx, doing, func(tx *Tx) error {
		if tx.writes != nil { // it reads by the index what it has written
			if err := tx.materialise(); err != nil {
				return tx.breaks(err)
			}
		}
		return fn(tx)
	})
}

// update runs a call that writes.
func (n Notes) update(ctx context.Context, doing string, o scope.Owner, name string, fn func(*Tx) error) error {
	if err := scope.Check(doing, o.Scope()); err != nil {
		return err
	}
	if err := checkNoteName(doing, name); err != nil {
		return err
	}
	return Memories{db: n.db, tx: n.tx}.update(ctx, doing, fn)
}

// change patches the note of a name. what is another word that the call was given.
func (n Notes) change(ctx context.Context, doing string, o scope.Owner, name, what string, patch func(*Tx, live, *Note) (memory.Patch, error)) (note Note, err error) {
	if err := checkNoteName(doing, what); err != nil {
		return Note{}, err
	}
	err = n.update(ctx, doing, o, name, func(tx *Tx) error {
		var l live
		var rec *layout.Record
		if note, l, rec, err = tx.noteNamed(doing, o, name); err != nil {
			return err
		}
		p, err := patch(tx, l, &note)
		if err != nil {
			return err
		}
		if p.Name == nil && p.Aliases == nil && (p.Text == nil || *p.Text == note.Content) {
			return nil
		}
		if l, err = tx.patch(ctx, doing, l, rec, &p, made{}); err != nil {
			return err
		}
		note, err = tx.note(l)
		return err
	})
	return note, err
}

func checkNoteName(doing, name string) error {
	if name == "" {
		return fault.Invalid(doing, "a name is empty", "give one")
	}
	return valid.Word(doing, "name", name)
}

// takeName makes a name free for a note: an alias of another note is taken from that.
func (tx *Tx) takeName(ctx context.Context, doing string, self live, name string) error {
	l, rec, err := tx.noteOf(self.Owner, name)
	switch {
	case err != nil || rec == nil || l.Seq == self.Seq:
		return err
	case rec.Name == name:
		return nameTaken(doing, name, rec)
	}
	aliases := lacking(rec.Aliases, name)
	tx.db.logger.Info("an alias was given to another note", "alias", valid.Short(name), "from", valid.Short(rec.Name))
	_, err = tx.patch(ctx, doing, l, rec, &memory.Patch{Aliases: &aliases}, made{})
	return err
}

func lacking(list []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(t string) bool { return s == t })
}

// namesFree refuses names that another note or archive of an owner has. self is the Seq of
// the memory that is to have them, 0 of a new one.
func (tx *Tx) namesFree(doing string, owner uint32, self uint64, names ...string) error {
	for _, name := range names {
		switch l, rec, err := tx.noteOf(owner, name); {
		case err != nil:
			return err
		case rec != nil && l.Seq != self:
			return nameTaken(doing, name, rec)
		}
	}
	return nil
}

func nameTaken(doing, name string, by *layout.Record) error {
	as := "as its name"
	if by.Name != name {
		as = "as an alias"
	}
	return &fault.Error{
		Kind: fault.ErrExists, What: doing, Why: fmt.Sprintf("the %s %q, memory %s, has %q %s", state.Kinds[by.Kind], valid.Short(by.Name), by.ID, valid.Short(name), as),
		Do: "choose another name, or rename that one",
	}
}

// noteOwner is the number of an owner.
func (tx *Tx) noteOwner(o scope.Owner) (owner uint32, known bool, err error) {
	owner, known, err = tx.state.Lookup(layout.Name{Class: layout.NameOwner, Text: scope.Key(o)})
	return owner, known, store.Error(doingNote, err)
}

// noteNamed is the note of an owner by one of its names.
func (tx *Tx) noteNamed(doing string, o scope.Owner, name string) (Note, live, *layout.Record, error) {
	owner, known, err := tx.noteOwner(o)
	if err != nil {
		return Note{}, live{}, nil, err
	}
	var l live
	var rec *layout.Record
	if known {
		if l, rec, err = tx.noteOf(owner, name); err != nil {
			return Note{}, live{}, nil, err
		}
	}
	if rec == nil {
		return Note{}, live{}, nil, &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "there is no note or archive of that name or alias", Do: "check the name, the user and the agent; list them"}
	}
	note, err := tx.note(l)
	return note, l, rec, err
}

// noteOf is the note or archive of an owner that has a name, or an alias; the record is nil
// where there is none.
func (tx *Tx) noteOf(owner uint32, name string) (l live, rec *layout.Record, err error) {
	if tx.writes != nil {
		if err := tx.materialise(); err != nil {
			return live{}, nil, tx.breaks(err)
		}
	}
	with, err := selection.WithValue(&tx.state, layout.FieldNoteName, noteNameKey(name))
	if err != nil {
		return live{}, nil, err
	}
	older, err := tx.olderNotes()
	if err != nil {
		return live{}, nil, err
	}
	with.Or(older)
	for it := with.Iterator(); it.HasNext(); {
		doc := it.Next()
		row := tx.db.tables.Docs.Row(doc)
		if !row.Visible(tx.state.LSN) || row.Owner != owner || row.Expires != 0 && row.Expires <= tx.state.Now {
			continue
		}
		l = live{Version: row.Version, doc: doc, expires: row.Expires}
		if rec, err = tx.state.Record(l.Version); err != nil {
			return live{}, nil, err
		}
		if state.IsNote(rec) && (rec.Name == name || slices.Contains(rec.Aliases, name)) {
			return l, rec, nil
		}
	}
	return live{}, nil, nil
}

// olderNotes are the documents of notes and archives that were indexed before names were.
func (tx *Tx) olderNotes() (*roaring.Bitmap, error) {
	all, err := tx.noteKinds()
	if err != nil {
		return nil, err
	}
	marked, err := selection.WithValue(&tx.state, layout.FieldNoteName, noteMark)
	if err != nil {
		return nil, err
	}
	all.AndNot(marked)
	return all, nil
}

// noteKinds are the documents of notes and archives, visible or not.
func (tx *Tx) noteKinds() (*roaring.Bitmap, error) {
	all, err := selection.WithValue(&tx.state, layout.FieldKind, scalar.TextKey(string(memory.KindNote)))
	if err != nil {
		return nil, err
	}
	archives, err := selection.WithValue(&tx.state, layout.FieldKind, scalar.TextKey(string(memory.KindArchive)))
	if err != nil {
		return nil, err
	}
	all.Or(archives)
	return all, nil
}

// noteDocs are the visible notes and archives of an owner.
func (tx *Tx) noteDocs(ctx context.Context, owner uint32, o scope.Owner) (*roaring.Bitmap, error) {
	all, err := tx.noteKinds()
	if err != nil {
		return nil, err
	}
	in, err := selection.ScopeSet(&tx.state, o.Scope())
	if err != nil {
		return nil, err
	}
	all.And(in)
	docs := roaring.New()
	err = tx.eachIn(ctx, all, func(doc uint32, r *doctable.Row) {
		if r.Owner == owner && (r.Expires == 0 || r.Expires > tx.state.Now) {
			docs.Add(doc)
		}
	})
	return docs, err
}

// notesOf is the filter of an owner's notes and archives.
func notesOf(o scope.Owner) filter.Filter {
	kinds := filter.In("kind", string(memory.KindNote), string(memory.KindArchive))
	if only := exactly(o); only != nil {
		return filter.All{kinds, only}
	}
	return kinds
}

// note is a memory as a note.
func (tx *Tx) note(l live) (Note, error) {
	m, err := tx.load(l.Version, false)
	return noteOf(&m), err
}

// noteOf is a memory as a note.
func noteOf(m *memory.Memory) Note {
	return Note{
		ID: m.NoteID, MemoryID: m.ID, Name: m.Name, Aliases: m.Aliases, Content: m.Text, Kind: m.Kind, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
	}
}

// noteMark is the value of every note and archive in the field of names.
const noteMark = "-"

func noteNameKey(name string) string {
	h := contentHash(name)
	return "n" + string(h[:])
}

// noteValues are the names of a note or an archive as the filter index has them.
func noteValues(r *layout.Record) []invindex.Value {
	if k := state.Kinds[r.Kind]; k != memory.KindNote && k != memory.KindArchive {
		return nil
	}
	values := []invindex.Value{{Field: layout.FieldNoteName, Key: noteMark}}
	for _, name := range append([]string{r.Name}, r.Aliases...) {
		if name != "" {
			values = append(values, invindex.Value{Field: layout.FieldNoteName, Key: noteNameKey(name)})
		}
	}
	return values
}

// numberNotes gives numbers to notes and archives that were stored before there were any.
func (db *DB) numberNotes(ctx context.Context) error {
	var bare []live
	err := db.view(ctx, nil, func(tx *Tx) error {
		older, err := tx.olderNotes()
		if err != nil {
			return err
		}
		for it := older.Iterator(); it.HasNext(); {
			doc := it.Next()
			row := tx.db.tables.Docs.Row(doc)
			if !row.Visible(tx.state.LSN) {
				continue
			}
			number, err := notes.Number((*partTx)(tx), row.Owner, row.Seq)
			if err != nil {
				return err
			}
			if number == 0 {
				bare = append(bare, live{Version: row.Version, doc: doc})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(bare, func(a, b live) int { return cmp.Compare(a.Seq, b.Seq) })
	for part := range slices.Chunk(bare, recoverBatch) {
		err := db.acknowledge(db.update(ctx, func(tx *Tx) error {
			tx.change()
			tx.log = append(tx.log, byte(layout.LogMove), 0) // of no chunk: nothing that a log reader sees changes
			for _, l := range part {
				rec, err := tx.state.Record(l.Version)
				if err == nil && state.IsNote(rec) {
					err = notes.Give((*partTx)(tx), l.Owner, l.Seq, 0)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}))
		if err != nil {
			return err
		}
	}
	return nil
}
