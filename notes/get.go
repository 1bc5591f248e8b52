package notes

import (
	"context"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Get is the note of a name or an alias; ErrNotFound where there is none.
func (n Notes) Get(ctx context.Context, o scope.Owner, name string) (note Note, err error) {
	doing := fmt.Sprintf("get note %q", valid.Short(name))
	err = n.view(ctx, doing, o, func(v View) error {
		if err := checkName(doing, name); err != nil {
			return err
		}
		m, err := named(v, doing, o, name)
		note = noteOf(m)
		return err
	})
	return note, err
}

// List yields the notes and archives of an owner, in the order in which they came.
func (n Notes) List(ctx context.Context, o scope.Owner, yield func(Note) error) error {
	return n.view(ctx, "list notes", o, func(v View) error {
		return v.Each(ctx, o, func(m memory.Memory) error {
			if m.Name == "" {
				return nil
			}
			return yield(noteOf(m))
		})
	})
}

// Search ranks notes and archives together by BM25 over their content and name; aliases add
// nothing. The statistics are of them alone. A limit of 0 is every match. It does not count as
// an access.
func (n Notes) Search(ctx context.Context, o scope.Owner, query string, limit int) (found []Found, err error) {
	const doing = "search notes"
	if limit < 0 {
		return nil, fault.Invalid(doing, fmt.Sprintf("the limit is %d", limit), "give 1 or more, or 0 for every match")
	}
	if err := memory.CheckText(doing, query); err != nil {
		return nil, err
	}
	err = n.view(ctx, doing, o, func(v View) error {
		hits, err := v.Search(ctx, o, query, limit)
		for _, h := range hits {
			if h.Memory.Name != "" {
				found = append(found, Found{noteOf(h.Memory), h.Score})
			}
		}
		return err
	})
	return found, err
}
