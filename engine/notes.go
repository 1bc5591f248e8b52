package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The memories of a database as package notes works with them. Names and aliases are values of
// the filter index, under a field of their own, so that past states and Views know which note
// had a name, and a rebuild makes them again. A note that was indexed before there was this
// field is found by its record.

// Notes are the notes and archives of the database: each call is its own transaction.
func (db *DB) Notes() notes.Notes { return notes.New(noteRunner{db: db}, db.logger) }

// Notes are the notes and archives as this transaction sees them.
func (tx *Tx) Notes() notes.Notes { return notes.New(noteRunner{tx.db, tx}, tx.db.logger) }

// noteRunner runs the calls on notes.
type noteRunner struct {
	db *DB
	tx *Tx // nil: one for each call
}

func (r noteRunner) View(ctx context.Context, doing string, fn func(notes.View) error) error {
	return Memories{db: r.db, tx: r.tx}.view(ctx, doing, func(tx *Tx) error {
		if tx.writes != nil { // it reads by the index what it has written
			if err := tx.materialise(); err != nil {
				return tx.breaks(err)
			}
		}
		return fn((*noteTx)(tx))
	})
}

func (r noteRunner) Update(ctx context.Context, doing string, fn func(notes.Tx) error) error {
	return Memories{db: r.db, tx: r.tx}.update(ctx, doing, func(tx *Tx) error { return fn((*noteTx)(tx)) })
}

// noteTx is a transaction as package notes sees it.
type noteTx Tx

func (n *noteTx) tx() *Tx { return (*Tx)(n) }

func (n *noteTx) Named(o scope.Owner, name string) (memory.Memory, bool, error) {
	owner, known, err := n.tx().noteOwner(o)
	if err != nil || !known {
		return memory.Memory{}, false, err
	}
	l, rec, err := n.tx().noteOf(owner, name)
	if err != nil || rec == nil {
		return memory.Memory{}, false, err
	}
	m, err := n.tx().present(rec, l.Version, false)
	return m, err == nil, err
}

func (n *noteTx) Each(ctx context.Context, o scope.Owner, visit func(memory.Memory) error) error {
	owner, known, err := n.tx().noteOwner(o)
	if err != nil || !known {
		return err
	}
	docs, err := n.tx().noteDocs(ctx, owner, o)
	if err != nil {
		return err
	}
	var all []layout.Version
	for it := docs.Iterator(); it.HasNext(); {
		all = append(all, n.db.tables.Docs.Row(it.Next()).Version)
	}
	slices.SortFunc(all, func(a, b layout.Version) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, v := range all {
		m, err := n.tx().load(v, false)
		if err == nil {
			err = visit(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *noteTx) Search(ctx context.Context, o scope.Owner, query string, limit int) ([]memory.Hit, error) {
	const most = invindex.MaxHits / 4
	if limit == 0 {
		limit = most
	}
	q := memory.Query{Scope: o.Scope(), Text: query, Filter: notesOf(o), Profile: memory.ProfileText, Limit: min(limit, most), NoTouch: true}
	result, err := n.tx().recall(ctx, &asked{Query: &q})
	if err != nil {
		return nil, err
	}
	return result.Hits, nil
}

func (n *noteTx) Store(ctx context.Context, m memory.Memory) (memory.Memory, error) {
	stored, err := n.tx().Memories().Store(ctx, m, &memory.StoreOptions{NoDedup: true})
	if err != nil {
		return memory.Memory{}, err
	}
	l, _ := n.tx().reader().At(stored.Seq)
	return n.tx().load(l.Version, false)
}

func (n *noteTx) Patch(ctx context.Context, doing string, m memory.Memory, p memory.Patch) (memory.Memory, error) {
	l, _ := n.tx().reader().At(m.Seq)
	rec, err := n.tx().state.Record(l.Version)
	if err != nil {
		return memory.Memory{}, err
	}
	if l, err = n.tx().rec.Patch(ctx, doing, l, rec, &p, records.Made{}); err != nil {
		return memory.Memory{}, err
	}
	return n.tx().load(l.Version, false)
}

func (n *noteTx) Remove(m memory.Memory) error {
	l, _ := n.tx().reader().At(m.Seq)
	return n.tx().rec.Remove(l, nil)
}

// noteOwner is the number of an owner.
func (tx *Tx) noteOwner(o scope.Owner) (owner uint32, known bool, err error) {
	owner, known, err = tx.state.Lookup(layout.Name{Class: layout.NameOwner, Text: scope.Key(o)})
	return owner, known, store.Error("work with notes", err)
}

// noteOf is the note or archive of an owner that has a name, or an alias; the record is nil
// where there is none.
func (tx *Tx) noteOf(owner uint32, name string) (l records.Live, rec *layout.Record, err error) {
	if tx.writes != nil {
		if err := tx.materialise(); err != nil {
			return records.Live{}, nil, tx.breaks(err)
		}
	}
	with, err := selection.WithValue(&tx.state, layout.FieldNoteName, records.NoteNameKey(name))
	if err != nil {
		return records.Live{}, nil, err
	}
	older, err := tx.olderNotes()
	if err != nil {
		return records.Live{}, nil, err
	}
	with.Or(older)
	for it := with.Iterator(); it.HasNext(); {
		doc := it.Next()
		row := tx.db.tables.Docs.Row(doc)
		if !row.Visible(tx.state.LSN) || row.Owner != owner || row.Over(tx.state.Now) {
			continue
		}
		l = records.Live{Version: row.Version, Doc: doc, Expires: row.Expires.Load()}
		if rec, err = tx.state.Record(l.Version); err != nil {
			return records.Live{}, nil, err
		}
		if state.IsNote(rec) && (rec.Name == name || slices.Contains(rec.Aliases, name)) {
			return l, rec, nil
		}
	}
	return records.Live{}, nil, nil
}

// olderNotes are the documents of notes and archives that were indexed before names were.
func (tx *Tx) olderNotes() (*roaring.Bitmap, error) {
	all, err := tx.noteKinds()
	if err != nil {
		return nil, err
	}
	marked, err := selection.WithValue(&tx.state, layout.FieldNoteName, records.NoteMark)
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
	err = tx.ages().EachIn(ctx, all, func(doc uint32, r *doctable.Row) {
		if r.Owner == owner && !r.Over(tx.state.Now) {
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

// numberBatch bounds the notes that get numbers in one commit.
const numberBatch = 500

// numberNotes gives numbers to notes and archives that were stored before there were any.
func (db *DB) numberNotes(ctx context.Context) error {
	var bare []records.Live
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
				bare = append(bare, records.Live{Version: row.Version, Doc: doc})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(bare, func(a, b records.Live) int { return cmp.Compare(a.Seq, b.Seq) })
	for part := range slices.Chunk(bare, numberBatch) {
		err := db.acknowledge(db.update(ctx, func(tx *Tx) error {
			tx.rec.LogInternal()
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
