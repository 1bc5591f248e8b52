package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
)

type notesIn struct {
	Action  string `json:"action"`
	Name    string `json:"name,omitempty" jsonschema:"of read, write, rename and delete: the name of the note"`
	Content string `json:"content,omitempty" jsonschema:"of write: the whole content"`
	To      string `json:"to,omitempty" jsonschema:"of rename: the new name"`
	Query   string `json:"query,omitempty" jsonschema:"of search: what to look for"`
	Limit   int    `json:"limit,omitempty" jsonschema:"of search and list: at most so many; default 20, up to 100"`
	After   string `json:"after,omitempty" jsonschema:"of list: next of the answer before"`
}

type noteLine struct {
	Name      string    `json:"name"`
	Content   string    `json:"content,omitempty"`
	Bytes     int       `json:"bytes"`
	Kind      string    `json:"kind"`
	Score     *float64  `json:"score,omitempty"`
	UpdatedAt time.Time `json:"updated_at"`
}

type notesOut struct {
	Notes []noteLine `json:"notes"`
	Next  string     `json:"next,omitempty"`
}

func (o *notesOut) add(n notes.Note, whole bool, score *float64) {
	line := noteLine{Name: n.Name, Bytes: len(n.Content), Kind: string(n.Kind), Score: score, UpdatedAt: n.UpdatedAt}
	if whole {
		line.Content = n.Content
	}
	o.Notes = append(o.Notes, line)
}

var errEnough = errors.New("enough")

func (h *host) notes(ctx context.Context, in notesIn) (out notesOut, err error) {
	out.Notes = []noteLine{}
	n, owner := h.db.Notes(), h.Scope.Owner()
	limit, err := limited(in.Limit, 20)
	if err != nil {
		return out, err
	}
	switch in.Action {
	case "list":
		return h.listNotes(ctx, limit, in.After)
	case "search":
		if in.Query == "" {
			return out, lacks("notes", in.Action, "query")
		}
		found, err := n.Search(ctx, owner, in.Query, limit)
		for i := range found {
			out.add(found[i].Note, true, &found[i].Score)
		}
		return out, err
	}
	if in.Name == "" {
		return out, lacks("notes", in.Action, "name")
	}
	var note notes.Note
	switch in.Action {
	case "read":
		note, err = n.Get(ctx, owner, in.Name)
	case "write":
		note, err = h.writeNote(ctx, in.Name, in.Content)
	case "rename":
		if in.To == "" {
			return out, lacks("notes", in.Action, "to")
		}
		note, err = n.Rename(ctx, owner, in.Name, in.To, false)
	default:
		return out, n.Remove(ctx, owner, in.Name)
	}
	if err == nil {
		out.add(note, in.Action == "read", nil)
	}
	return out, err
}

// writeNote writes a note, which is made where there is none.
func (h *host) writeNote(ctx context.Context, name, content string) (notes.Note, error) {
	n, owner := h.db.Notes(), h.Scope.Owner()
	note, err := n.Write(ctx, owner, name, content)
	if errors.Is(err, memory.ErrNotFound) {
		if note, err = n.Add(ctx, owner, name, content, memory.KindNote); errors.Is(err, memory.ErrExists) { // another caller was faster
			note, err = n.Write(ctx, owner, name, content)
		}
	}
	return note, err
}

// listNotes is a page of the names, behind one of them.
func (h *host) listNotes(ctx context.Context, limit int, after string) (out notesOut, err error) {
	out.Notes = []noteLine{}
	seen := after == ""
	err = h.db.Notes().List(ctx, h.Scope.Owner(), func(n notes.Note) error {
		switch {
		case !seen:
			seen = n.Name == after
			return nil
		case len(out.Notes) == limit:
			out.Next = out.Notes[limit-1].Name
			return errEnough
		}
		out.add(n, false, nil)
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err == nil && !seen {
		err = &memory.Error{Kind: memory.ErrNotFound, What: "list notes", Why: "the note that the list goes on after is gone", Do: "list from the beginning"}
	}
	return out, err
}
