package server

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Admin reports whether the request may see and do everything.
func (c *Call) Admin() bool { return c.Key == nil || c.Key.Admin }

// within narrows what is asked for to a scope of a key; false where the two exclude each other.
func within(of, asked memory.Scope) (memory.Scope, bool) {
	for _, f := range []struct{ of, asked *string }{{&of.User, &asked.User}, {&of.Agent, &asked.Agent}, {&of.Run, &asked.Run}} {
		switch {
		case *f.of == "":
		case *f.asked == "":
			*f.asked = *f.of
		case *f.asked != *f.of:
			return asked, false
		}
	}
	return asked, true
}

// Scopes returns what may be seen of what is asked for: fields that are left out are those of the
// key. Several scopes where the key has several that fit; a dialect searches them as one. Denied
// where none fits. For an administrator it is what is asked, an empty scope for everything.
func (c *Call) Scopes(asked memory.Scope) ([]memory.Scope, error) {
	fit, err := c.Fit(asked)
	if err != nil {
		return nil, err
	}
	return fit, c.Reach(fit, false)
}

// Fit is Scopes for a call that finds out by itself which shard it is about: see Reach.
func (c *Call) Fit(asked memory.Scope) ([]memory.Scope, error) {
	if c.Admin() {
		return []memory.Scope{asked}, nil
	}
	var fit []memory.Scope
	for _, of := range c.Key.Scopes {
		if s, ok := within(of, asked); ok {
			fit = append(fit, s)
		}
	}
	if len(fit) == 0 {
		return nil, Denied(fmt.Sprintf("the key %s is not one of %s", c.Key.ID, scope.Describe(asked)))
	}
	return Widest(fit), nil
}

// Widest are the scopes that none of the others contains, each once.
func Widest(all []memory.Scope) (wide []memory.Scope) {
	for i, s := range all {
		within := slices.ContainsFunc(all[:i], func(o memory.Scope) bool { return scope.Contains(o, s) }) ||
			slices.ContainsFunc(all[i+1:], func(o memory.Scope) bool { return o != s && scope.Contains(o, s) })
		if !within {
			wide = append(wide, s)
		}
	}
	return wide
}

// Scope is Scopes where it must be one: ErrInvalid where several fit.
func (c *Call) Scope(asked memory.Scope) (memory.Scope, error) {
	s, err := c.fitOne(asked)
	if err != nil {
		return s, err
	}
	return s, c.Reach([]memory.Scope{s}, false)
}

// Exact is Scope for what is stored with it, or is of exactly its owner: an empty field of it means
// none.
func (c *Call) Exact(asked memory.Scope) (memory.Scope, error) {
	s, err := c.fitOne(asked)
	if err != nil {
		return s, err
	}
	return s, c.Reach([]memory.Scope{s}, true)
}

func (c *Call) fitOne(asked memory.Scope) (memory.Scope, error) {
	fit, err := c.Fit(asked)
	if err != nil {
		return asked, err
	}
	if len(fit) > 1 {
		return asked, &memory.Error{
			Kind: memory.ErrInvalid, What: "choose a scope", Why: fmt.Sprintf("the key %s has %d that fit", c.Key.ID, len(fit)),
			Do: "name the user, the agent or the run that is meant",
		}
	}
	return fit[0], nil
}

// Owner is Exact for what belongs to a user and an agent without a run: notes, entries, graphs,
// usage. A key that is bound to a run is denied.
func (c *Call) Owner(asked scope.Owner) (scope.Owner, error) {
	s, err := c.fitOne(asked.Scope())
	if err == nil && s.Run != "" {
		err = Denied(fmt.Sprintf("the key %s is one of a run, and this belongs to a user and an agent", c.Key.ID))
	}
	if err == nil {
		err = c.Reach([]memory.Scope{s}, true)
	}
	return s.Owner(), err
}

// Get returns a memory of what may be seen. One of another scope is ErrNotFound, as one that
// nobody has; ErrAmbiguous where several owners within the scopes have one of that ID.
func (c *Call) Get(asked memory.Scope, id string) (*memory.Memory, error) {
	fit, err := c.Scopes(asked)
	if err != nil {
		return nil, err
	}
	var found *memory.Memory
	for _, s := range fit {
		m, err := c.DB.Memories().Get(c.Context(), s, id)
		switch {
		case errors.Is(err, memory.ErrNotFound):
		case err != nil:
			return nil, err
		case found != nil && found.Seq != m.Seq:
			return nil, &memory.Error{Kind: memory.ErrAmbiguous, What: "get " + id, Do: "name the user, the agent or the run that is meant"}
		default:
			found = &m
		}
	}
	if found == nil {
		return nil, Unknown("get " + id)
	}
	return found, nil
}
