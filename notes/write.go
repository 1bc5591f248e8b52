package notes

import (
	"cmp"
	"context"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

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
	err = n.update(ctx, doing, o, name, func(t Tx) error {
		switch by, found, err := t.Named(o, name); {
		case err != nil:
			return err
		case found:
			return taken(doing, name, by)
		}
		m, err := t.Store(ctx, memory.Memory{Scope: o.Scope(), Kind: kind, Name: name, Text: content})
		note = noteOf(m)
		return err
	})
	return note, err
}

// Write replaces the content of a note. Archives are meant to stay as they are; to write one
// is possible, and the log of the database warns of it.
func (n Notes) Write(ctx context.Context, o scope.Owner, name, content string) (Note, error) {
	doing := fmt.Sprintf("write note %q", valid.Short(name))
	if content == "" {
		return Note{}, fault.Invalid(doing, "there is no content", "give a text, or remove the note")
	}
	return n.change(ctx, doing, o, name, name, func(_ Tx, m memory.Memory) (memory.Patch, error) {
		if m.Kind == memory.KindArchive {
			n.logger.Warn("an archive was written over; its history has what it was", "name", valid.Short(m.Name), "memory", valid.Short(m.ID))
		}
		return memory.Patch{Text: &content}, nil
	})
}

// Remove deletes a note with all of its names.
func (n Notes) Remove(ctx context.Context, o scope.Owner, name string) error {
	doing := fmt.Sprintf("remove note %q", valid.Short(name))
	return n.update(ctx, doing, o, name, func(t Tx) error {
		m, err := named(t, doing, o, name)
		if err != nil {
			return err
		}
		return t.Remove(m)
	})
}

// change patches the note of a name. what is another word that the call was given.
func (n Notes) change(ctx context.Context, doing string, o scope.Owner, name, what string, patch func(Tx, memory.Memory) (memory.Patch, error)) (note Note, err error) {
	if err := checkName(doing, what); err != nil {
		return Note{}, err
	}
	err = n.update(ctx, doing, o, name, func(t Tx) error {
		m, err := named(t, doing, o, name)
		note = noteOf(m)
		if err != nil {
			return err
		}
		p, err := patch(t, m)
		if err != nil {
			return err
		}
		if p.Name == nil && p.Aliases == nil && (p.Text == nil || *p.Text == m.Text) {
			return nil
		}
		if m, err = t.Patch(ctx, doing, m, p); err != nil {
			return err
		}
		note = noteOf(m)
		return nil
	})
	return note, err
}
