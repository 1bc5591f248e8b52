package notes

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Rename gives a note another canonical name, which may be one of its aliases. With keep the
// old name becomes an alias. An alias of another note is taken from that; the name of another
// note is ErrExists.
func (n Notes) Rename(ctx context.Context, o scope.Owner, name, to string, keep bool) (Note, error) {
	doing := fmt.Sprintf("rename note %q", valid.Short(name))
	return n.change(ctx, doing, o, name, to, func(t Tx, m memory.Memory) (memory.Patch, error) {
		if err := n.takeName(ctx, t, doing, o, m, to); err != nil {
			return memory.Patch{}, err
		}
		aliases := lacking(m.Aliases, to)
		if keep && m.Name != to {
			aliases = append(aliases, m.Name)
		}
		return memory.Patch{Name: &to, Aliases: &aliases}, nil
	})
}

// Alias gives a note one more name. An alias of another note is taken from that; the name of
// another note is ErrExists.
func (n Notes) Alias(ctx context.Context, o scope.Owner, name, alias string) (Note, error) {
	doing := fmt.Sprintf("give note %q an alias", valid.Short(name))
	return n.change(ctx, doing, o, name, alias, func(t Tx, m memory.Memory) (memory.Patch, error) {
		if alias == m.Name || slices.Contains(m.Aliases, alias) {
			return memory.Patch{}, nil
		}
		if err := n.takeName(ctx, t, doing, o, m, alias); err != nil {
			return memory.Patch{}, err
		}
		aliases := append(slices.Clone(m.Aliases), alias)
		return memory.Patch{Aliases: &aliases}, nil
	})
}

// takeName makes a name free for a note: an alias of another note is taken from that.
func (n Notes) takeName(ctx context.Context, t Tx, doing string, o scope.Owner, self memory.Memory, name string) error {
	by, found, err := t.Named(o, name)
	switch {
	case err != nil || !found || by.Seq == self.Seq:
		return err
	case by.Name == name:
		return taken(doing, name, by)
	}
	aliases := lacking(by.Aliases, name)
	n.logger.Info("an alias was given to another note", "alias", valid.Short(name), "from", valid.Short(by.Name))
	_, err = t.Patch(ctx, doing, by, memory.Patch{Aliases: &aliases})
	return err
}

func lacking(list []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(t string) bool { return s == t })
}

func taken(doing, name string, by memory.Memory) error {
	as := "as its name"
	if by.Name != name {
		as = "as an alias"
	}
	return &fault.Error{
		Kind: fault.ErrExists, What: doing, Why: fmt.Sprintf("the %s %q, memory %s, has %q %s", by.Kind, valid.Short(by.Name), by.ID, valid.Short(name), as),
		Do: "choose another name, or rename that one",
	}
}
