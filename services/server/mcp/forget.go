package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/facts"
)

// ofKind is the filter for memories of a kind, nil for any.
func ofKind(kind string) (filter.Filter, error) {
	switch memory.Kind(kind) {
	case "":
		return nil, nil
	case memory.KindMessage, memory.KindFragment, memory.KindFact, memory.KindNote, memory.KindArchive, memory.KindSummary:
		return filter.Eq("kind", kind), nil
	}
	return nil, &memory.Error{
		Kind: memory.ErrInvalid, What: "recall", Why: "there is no such kind", Do: "take message, fragment, fact, note, archive or summary, or leave it out",
	}
}

// forget deletes all that are there in one commit.
func (h *host) forget(ctx context.Context, in forgetIn) (out forgetOut, err error) {
	if len(in.IDs) > maxHits {
		return out, &memory.Error{Kind: memory.ErrInvalid, What: "forget", Why: "there are more than 100 IDs", Do: "give fewer at once"}
	}
	err = h.db.Update(ctx, func(tx *engine.Tx) error {
		out = forgetOut{[]string{}, []string{}}
		for _, id := range in.IDs {
			switch err := tx.Memories().Delete(ctx, h.Scope, id); {
			case errors.Is(err, memory.ErrNotFound):
				out.Unknown = append(out.Unknown, id)
			case err != nil:
				return err
			default:
				out.Deleted = append(out.Deleted, id)
			}
		}
		return nil
	})
	return out, err
}

type factsIn struct {
	Action string `json:"action"`
	Text   string `json:"text,omitempty" jsonschema:"of add and update: what is so"`
	Query  string `json:"query,omitempty" jsonschema:"of search: what to look for"`
	ID     string `json:"id,omitempty" jsonschema:"of get, update, delete and history: the fact"`
	Limit  int    `json:"limit,omitempty" jsonschema:"of search and list: at most so many; default 20, up to 100"`
	After  string `json:"after,omitempty" jsonschema:"of list: next of the answer before"`
}

type factLine struct {
	ID        string     `json:"id"`
	Text      string     `json:"text"`
	Event     string     `json:"event,omitempty" jsonschema:"what was done with it: ADD, UPDATE, DELETE or NONE"`
	Before    string     `json:"before,omitempty" jsonschema:"what it said before"`
	Score     *float64   `json:"score,omitempty"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
}

type factsOut struct {
	Facts    []factLine `json:"facts"`
	Next     string     `json:"next,omitempty"`
	Degraded []string   `json:"degraded,omitempty" jsonschema:"what was left out or done in a lesser way"`
}

func (o *factsOut) items(items ...facts.Item) {
	for i := range items {
		line := factLine{ID: items[i].ID, Text: items[i].Memory, Score: items[i].Score}
		if !items[i].UpdatedAt.IsZero() {
			line.UpdatedAt = &items[i].UpdatedAt
		}
		o.Facts = append(o.Facts, line)
	}
}

func (o *factsOut) degraded(all []facts.Degradation) {
	for _, d := range all {
		o.Degraded = append(o.Degraded, string(d.Step)+": "+d.Why)
	}
}

// lacks is the error of an action without an argument that it needs.
func lacks(tool, action, argument string) error {
	return &memory.Error{Kind: memory.ErrInvalid, What: tool + " " + action, Why: argument + " is missing", Do: "give it"}
}

func valueOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (h *host) facts(ctx context.Context, in factsIn) (out factsOut, err error) {
	out.Facts = []factLine{}
	limit, err := limited(in.Limit, 20)
	if err != nil {
		return out, err
	}
	switch in.Action {
	case "add":
		if in.Text == "" {
			return out, lacks("facts", in.Action, "text")
		}
		var added facts.Added
		if added, err = h.Facts.Add(ctx, h.Scope, facts.Text(in.Text), nil); err != nil {
			return out, err
		}
		for _, r := range added.Results {
			out.Facts = append(out.Facts, factLine{ID: r.ID, Text: r.Memory, Event: string(r.Event), Before: valueOf(r.OldMemory)})
		}
		out.degraded(added.Degraded)
		return out, nil
	case "search", "list":
		var found facts.Found
		if o := (&facts.SearchOptions{Limit: limit, After: in.After}); in.Action == "search" {
			o.After = ""
			found, err = h.Facts.Search(ctx, h.Scope, in.Query, o)
		} else {
			found, err = h.Facts.GetAll(ctx, h.Scope, o)
		}
		out.items(found.Results...)
		out.degraded(found.Degraded)
		out.Next = found.Next
		return out, err
	}
	if in.ID == "" {
		return out, lacks("facts", in.Action, "id")
	}
	return h.fact(ctx, in)
}

// fact is what is done with one.
func (h *host) fact(ctx context.Context, in factsIn) (out factsOut, err error) {
	out.Facts = []factLine{}
	switch in.Action {
	case "get":
		item, err := h.Facts.Get(ctx, h.Scope, in.ID)
		if err == nil && item == nil {
			err = &memory.Error{Kind: memory.ErrNotFound, What: "get the fact " + in.ID, Do: "search for it"}
		}
		if err == nil {
			out.items(*item)
		}
		return out, err
	case "update":
		item, err := h.Facts.Update(ctx, h.Scope, in.ID, in.Text)
		if err == nil {
			out.items(item)
		}
		return out, err
	case "delete":
		if err = h.Facts.Delete(ctx, h.Scope, in.ID); err == nil {
			out.Facts = append(out.Facts, factLine{ID: in.ID, Event: string(facts.Delete)})
		}
		return out, err
	}
	records, err := h.Facts.History(ctx, h.Scope, in.ID)
	for i := range records {
		r := &records[i]
		out.Facts = append(out.Facts, factLine{ID: r.MemoryID, Text: valueOf(r.NewValue), Event: string(r.Event), Before: valueOf(r.OldValue), UpdatedAt: &r.Timestamp})
	}
	return out, err
}
