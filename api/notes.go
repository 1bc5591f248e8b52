package api

import (
	"cmp"
	"context"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
)

// NewNote is a note or an archive to be stored.
type NewNote struct {
	Name    string      `json:"name" openapi:"required" arg:"NAME" help:"the name"`
	Content string      `json:"content" openapi:"required" arg:"TEXT" stdin:"8388608" help:"the content"`
	Kind    memory.Kind `json:"kind" enum:"note,archive" default:"note" help:"note or archive"`
}

// NoteAddRequest stores a note.
type NoteAddRequest struct {
	Owner
	NewNote `body:"object"`
}

// Check implements Checked.
func (q *NoteAddRequest) Check() error {
	switch q.Kind {
	case "", memory.KindNote, memory.KindArchive:
		return nil
	}
	return invalid("add a note", "its kind is neither note nor archive", "")
}

// NoteAdd stores a note or an archive under a new name.
var NoteAdd = &Op[NoteAddRequest, notes.Line]{
	Operation: Operation{Name: "note add", Route: "POST /notes", Summary: "Store a note or an archive under a new name", Doing: "add a note", Access: Creates, Status: 201},
	Run: func(ctx context.Context, db *engine.DB, q *NoteAddRequest) (notes.Line, error) {
		if err := q.Check(); err != nil {
			return notes.Line{}, err
		}
		n, err := db.Notes().Add(ctx, q.owner(), q.Name, q.Content, cmp.Or(q.Kind, memory.KindNote))
		return notes.NewLine(n), err
	},
}

// AsOf chooses an earlier state of the database.
type AsOf struct {
	LSN uint64 `query:"as_of" unit:"LSN" help:"the LSN of an earlier state; the default is the newest state"`
}

// notes calls fn with the notes of the state.
func (a AsOf) notes(ctx context.Context, db *engine.DB, fn func(notes.Notes) error) error {
	if a.LSN == 0 {
		return fn(db.Notes())
	}
	return db.ViewAt(ctx, a.LSN, func(tx *engine.Tx) error { return fn(tx.Notes()) })
}

// NoteGetRequest shows a note.
type NoteGetRequest struct {
	NoteName
	AsOf
}

// NoteGet shows a note.
var NoteGet = &Op[NoteGetRequest, notes.Line]{
	Operation: Operation{Name: "note get", Route: "GET /notes/{name}", Summary: "Show a note by its name or an alias", Doing: "get a note"},
	Run: func(ctx context.Context, db *engine.DB, q *NoteGetRequest) (found notes.Line, err error) {
		err = q.notes(ctx, db, func(all notes.Notes) error {
			n, err := all.Get(ctx, q.owner(), q.Name)
			found = notes.NewLine(n)
			return err
		})
		return found, err
	},
}

// NoteName is a request about one note.
type NoteName struct {
	Owner
	Name string `path:"name" arg:"NAME" help:"the name or an alias"`
}

// NoteContent is the content of a note.
type NoteContent struct {
	Content string `json:"content" openapi:"required" arg:"TEXT" stdin:"8388608" help:"the content"`
}

// NoteWriteRequest replaces the content of a note.
type NoteWriteRequest struct {
	NoteName
	NoteContent `body:"object"`
}

// NoteWrite replaces the content of a note.
var NoteWrite = &Op[NoteWriteRequest, notes.Line]{
	Operation: Operation{Name: "note write", Route: "PUT /notes/{name}", Summary: "Replace the content of a note", Doing: "write a note", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *NoteWriteRequest) (notes.Line, error) {
		n, err := db.Notes().Write(ctx, q.owner(), q.Name, q.Content)
		return notes.NewLine(n), err
	},
}

// NoteRenameBody is the new name of a note.
type NoteRenameBody struct {
	To   string `json:"to" openapi:"required" arg:"NEW" help:"the new name"`
	Keep bool   `json:"keep" help:"keep the old name as an alias"`
}

// NoteRenameRequest renames a note.
type NoteRenameRequest struct {
	NoteName
	NoteRenameBody `body:"object"`
}

// NoteRename renames a note.
var NoteRename = &Op[NoteRenameRequest, notes.Line]{
	Operation: Operation{Name: "note rename", Route: "POST /notes/{name}/rename", Summary: "Rename a note", Doing: "rename a note", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *NoteRenameRequest) (notes.Line, error) {
		n, err := db.Notes().Rename(ctx, q.owner(), q.Name, q.To, q.Keep)
		return notes.NewLine(n), err
	},
}

// NoteAliasBody is one more name of a note.
type NoteAliasBody struct {
	Alias string `json:"alias" openapi:"required" arg:"ALIAS" help:"the alias"`
}

// NoteAliasRequest adds an alias to a note.
type NoteAliasRequest struct {
	NoteName
	NoteAliasBody `body:"object"`
}

// NoteAlias adds an alias to a note.
var NoteAlias = &Op[NoteAliasRequest, notes.Line]{
	Operation: Operation{Name: "note alias", Route: "POST /notes/{name}/alias", Summary: "Add an alias to a note", Doing: "alias a note", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *NoteAliasRequest) (notes.Line, error) {
		n, err := db.Notes().Alias(ctx, q.owner(), q.Name, q.Alias)
		return notes.NewLine(n), err
	},
}

// NoteRemove deletes a note.
var NoteRemove = &Op[NoteName, exchange.Deleted]{
	Operation: Operation{Name: "note remove", Route: "DELETE /notes/{name}", Summary: "Delete a note and all its names", Doing: "remove a note", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *NoteName) (exchange.Deleted, error) {
		return exchange.Deleted{Deleted: 1}, db.Notes().Remove(ctx, q.owner(), q.Name)
	},
}

// NoteListRequest lists notes, or ranks them.
type NoteListRequest struct {
	Owner
	Query *string `query:"query" flag:"-" help:"rank the notes by this query and add scores"`
	Limit *int    `query:"limit" flag:"-" help:"the largest number of results of a query; 0, the default, returns all"`
	AsOf
}

// NoteList lists notes and archives.
var NoteList = &List[NoteListRequest, notes.Line]{
	Operation: Operation{Name: "note list", Route: "GET /notes", Summary: "List notes and archives, or with query rank them", Doing: "list notes"},
	Run: func(ctx context.Context, db *engine.DB, q *NoteListRequest, yield func(notes.Line) error) (End, error) {
		if q.Query == nil && q.Limit != nil {
			return End{}, invalid("list notes", "limit is for a query", "leave it out")
		}
		return End{}, q.notes(ctx, db, func(all notes.Notes) error {
			if q.Query == nil {
				return all.List(ctx, q.owner(), func(n notes.Note) error { return yield(notes.NewLine(n)) })
			}
			limit := 0
			if q.Limit != nil {
				limit = *q.Limit
			}
			found, err := all.Search(ctx, q.owner(), *q.Query, limit)
			if err != nil {
				return err
			}
			return each(found, func(f notes.Found) error {
				line := notes.NewLine(f.Note)
				line.Score = &f.Score
				return yield(line)
			})
		})
	},
}

// NoteSearchRequest ranks notes.
type NoteSearchRequest struct {
	Owner
	Query string `query:"query" arg:"QUERY..." help:"the words that are looked for"`
	Limit int    `query:"limit" default:"0" help:"the largest number of results; 0 returns all"`
	AsOf
}

// NoteSearch ranks notes and archives, as NoteList with a query.
var NoteSearch = &List[NoteSearchRequest, notes.Line]{
	Operation: Operation{Name: "note search", Summary: "Rank notes and archives by BM25 over their content and name", Doing: "list notes"},
	As: func(q *NoteSearchRequest) Call[ListRun[notes.Line]] {
		return NoteList.Call(&NoteListRequest{q.Owner, &q.Query, &q.Limit, q.AsOf})
	},
}
