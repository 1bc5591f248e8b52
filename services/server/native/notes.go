package native

import (
	"context"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// deletedOne is the reply of a delete.
var deletedOne = exchange.Deleted{}

// asOf is the parameter of a past state.
var asOf = param{name: "as_of", kind: lsn, summary: "the LSN of an earlier state; the default is the newest state"}

func noteRoutes() []route {
	return []route{
		{at: "POST /notes", summary: "Store a note or an archive under a new name", body: newNote{}, reply: notes.Line{}, status: http.StatusCreated, handle: addNote, params: ofOwner()},
		{at: "GET /notes", summary: "List notes and archives, or with query rank them", reply: notes.Line{}, lines: true, handle: listNotes, params: ofOwner(
			param{name: "query", kind: text, summary: "rank the notes by this query and add scores"},
			param{name: "limit", kind: count, summary: "the largest number of results of a query; 0, the default, returns all"}, asOf,
		)},
		{at: "GET /notes/{name}", summary: "Show a note by its name or an alias", reply: notes.Line{}, handle: getNote, params: ofOwner(asOf)},
		{at: "PUT /notes/{name}", summary: "Replace the content of a note", body: noteContent{}, reply: notes.Line{}, handle: writeNote, params: ofOwner()},
		{at: "DELETE /notes/{name}", summary: "Delete a note and all its names", reply: deletedOne, handle: removeNote, params: ofOwner()},
		{at: "POST /notes/{name}/rename", summary: "Rename a note", body: noteRename{}, reply: notes.Line{}, handle: renameNote, params: ofOwner()},
		{at: "POST /notes/{name}/alias", summary: "Add an alias to a note", body: noteAlias{}, reply: notes.Line{}, handle: aliasNote, params: ofOwner()},
	}
}

type newNote struct {
	Name    string      `json:"name" openapi:"required"`
	Content string      `json:"content" openapi:"required"`
	Kind    memory.Kind `json:"kind"` // note or archive; note where it is left out
}

type noteContent struct {
	Content string `json:"content" openapi:"required"`
}

type noteRename struct {
	To   string `json:"to" openapi:"required"`
	Keep bool   `json:"keep"` // the old name as an alias
}

type noteAlias struct {
	Alias string `json:"alias" openapi:"required"`
}

// note answers what a call does with a note of the owner.
func (a *ask) note(doing string, status int, do func(ctx context.Context, n notes.Notes, o scope.Owner) (notes.Note, error)) error {
	owner, err := a.owner(doing)
	if err != nil {
		return err
	}
	n, err := do(a.Context(), a.DB.Notes(), owner)
	if err != nil {
		return err
	}
	return a.Reply(status, notes.NewLine(n))
}

// notesAt calls fn with the notes of now, or of an LSN.
func (a *ask) notesAt(fn func(notes.Notes) error) error {
	at := value[uint64](a, "as_of")
	if at == 0 {
		return fn(a.DB.Notes())
	}
	return a.DB.ViewAt(a.Context(), at, func(tx *engine.Tx) error { return fn(tx.Notes()) })
}

func addNote(a *ask) error {
	b, err := decoded[newNote](a)
	if err != nil {
		return err
	}
	switch b.Kind {
	case "":
		b.Kind = memory.KindNote
	case memory.KindNote, memory.KindArchive:
	default:
		return invalid("add a note", "its kind is neither note nor archive", "")
	}
	return a.note("add a note", http.StatusCreated, func(ctx context.Context, n notes.Notes, o scope.Owner) (notes.Note, error) {
		return n.Add(ctx, o, b.Name, b.Content, b.Kind)
	})
}

func listNotes(a *ask) error {
	owner, err := a.owner("list notes")
	if err != nil {
		return err
	}
	if a.given("limit") && !a.given("query") {
		return invalid("list notes", "limit is for a query", "leave it out")
	}
	return a.list(func(s *stream) error {
		return a.notesAt(func(n notes.Notes) error {
			if !a.given("query") {
				return n.List(a.Context(), owner, func(note notes.Note) error { return s.write(notes.NewLine(note)) })
			}
			found, err := n.Search(a.Context(), owner, value[string](a, "query"), value[int](a, "limit"))
			if err != nil {
				return err
			}
			for i := range found {
				line := notes.NewLine(found[i].Note)
				line.Score = &found[i].Score
				if err := s.write(line); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func getNote(a *ask) error {
	owner, err := a.owner("get a note")
	if err != nil {
		return err
	}
	var found notes.Note
	err = a.notesAt(func(n notes.Notes) (err error) {
		found, err = n.Get(a.Context(), owner, a.id("name"))
		return err
	})
	return a.ok(notes.NewLine(found), err)
}

func writeNote(a *ask) error {
	b, err := decoded[noteContent](a)
	if err != nil {
		return err
	}
	return a.note("write a note", http.StatusOK, func(ctx context.Context, n notes.Notes, o scope.Owner) (notes.Note, error) {
		return n.Write(ctx, o, a.id("name"), b.Content)
	})
}

func removeNote(a *ask) error {
	owner, err := a.owner("remove a note")
	if err != nil {
		return err
	}
	return a.deleted(1, a.DB.Notes().Remove(a.Context(), owner, a.id("name")))
}

func renameNote(a *ask) error {
	b, err := decoded[noteRename](a)
	if err != nil {
		return err
	}
	return a.note("rename a note", http.StatusOK, func(ctx context.Context, n notes.Notes, o scope.Owner) (notes.Note, error) {
		return n.Rename(ctx, o, a.id("name"), b.To, b.Keep)
	})
}

func aliasNote(a *ask) error {
	b, err := decoded[noteAlias](a)
	if err != nil {
		return err
	}
	return a.note("alias a note", http.StatusOK, func(ctx context.Context, n notes.Notes, o scope.Owner) (notes.Note, error) {
		return n.Alias(ctx, o, a.id("name"), b.Alias)
	})
}
