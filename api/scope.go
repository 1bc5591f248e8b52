package api

import (
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// An Owner is the user and the agent that something belongs to. An empty one means none.
type Owner struct {
	User  string `query:"user" unit:"user" help:"ID of the user who owns it"`
	Agent string `query:"agent" unit:"agent" help:"ID of the agent that owns it"`
	// NoUser and NoAgent have a client say that there is none, where it is left to the key of the request otherwise.
	NoUser, NoAgent bool
}

// OwnerOf implements Owned.
func (o *Owner) OwnerOf() *Owner { return o }

func (o *Owner) owner() scope.Owner { return scope.Owner{User: o.User, Agent: o.Agent} }

// Owned is a request about what belongs to one owner.
type Owned interface {
	// OwnerOf returns the owner of the request, which its caller sets.
	OwnerOf() *Owner
}

// Owners are one owner, or all owners if it is left out.
type Owners struct{ Owner }

// OwnersOf implements OwnedByMany.
func (o *Owners) OwnersOf() *Owners { return o }

// OwnedByMany is a request about what belongs to one owner, or to all of them.
type OwnedByMany interface {
	// OwnersOf returns the owners of the request, which its caller sets.
	OwnersOf() *Owners
}

// A Page is a part of a list.
type Page struct {
	Limit int    `query:"limit" default:"100" min:"1" max:"10000" help:"the size of the page, 1 to 10,000"`
	After string `query:"after" help:"the cursor: next of the previous page"`
	All   bool   `query:"all" flag:"-" help:"return all pages; not with limit"`
}

// PageOf implements Paged.
func (p *Page) PageOf() *Page { return p }

// Paged is a request for a part of a list.
type Paged interface {
	// PageOf returns the page of the request, which its caller sets.
	PageOf() *Page
}

// Brief is part of a request for a list of which a table shows only some.
type Brief struct {
	// Bare leaves out what a table does not show.
	Bare bool
}

// BriefOf implements Shortened.
func (b *Brief) BriefOf() *Brief { return b }

// Shortened is a request for a list that may leave out what a table does not show.
type Shortened interface {
	// BriefOf returns what the list leaves out, which its caller sets.
	BriefOf() *Brief
}

// A Scope is whose memories a request is about: what is given must match.
type Scope struct {
	User  string `query:"user" unit:"user" help:"ID of the user who owns it"`
	Agent string `query:"agent" unit:"agent" help:"ID of the agent that owns it"`
	Run   string `query:"run" unit:"run" help:"ID of its run, the session it belongs to"`
	// Within are the scopes that the caller may see of it; nil: it may see all of it.
	Within []memory.Scope
	// Lack is what the owner does not have.
	Lack memory.Lack
}

// ScopeOf implements Scoped.
func (s *Scope) ScopeOf() *Scope { return s }

// Scoped is a request about the memories of a scope.
type Scoped interface {
	// ScopeOf returns the scope of the request, whose Within and Lack its caller sets.
	ScopeOf() *Scope
}

// scopes are the scopes that the request is about.
func (s *Scope) scopes() []memory.Scope {
	if s.Within != nil {
		return s.Within
	}
	return []memory.Scope{{User: s.User, Agent: s.Agent, Run: s.Run}}
}

// one is the scope of a request that chooses by one that its owners have.
func (s *Scope) one(doing string) (memory.Scope, error) {
	switch all := s.scopes(); {
	case s.Lack != (memory.Lack{}):
		return memory.Scope{}, invalid(doing, "the user or the agent is empty, and it does not choose by what there is none of", "leave it out")
	case len(all) > 1:
		return memory.Scope{}, invalid(doing, "it takes one scope", "name the user, the agent or the run that is meant")
	default:
		return all[0], nil
	}
}

// Scopes are a scope, or all of them.
type Scopes struct {
	Scope
	AllScopes bool `query:"all_scopes" help:"all users and agents, for administrators"`
}

// ScopesOf implements OfAll.
func (s *Scopes) ScopesOf() *Scopes { return s }

// OfAll is a request about the memories of a scope, or of all of them.
type OfAll interface {
	Scoped
	// ScopesOf returns the scopes of the request.
	ScopesOf() *Scopes
}

// A Selection is the memories of a scope that match a filter.
type Selection struct {
	Scopes
	Filter filter.Filter `query:"filter" help:"only memories that match this filter, such as \"role = user\", or JSON"`
}

// selected is the scope of a query, whether it is about all scopes, and its filter, narrowed to what the scope does not say.
func (s *Selection) selected() (of memory.Scope, all bool, narrowed filter.Filter) {
	scopes := s.scopes()
	if narrowed = s.lacking(s.Filter); len(scopes) == 1 {
		return scopes[0], s.AllScopes, narrowed
	}
	within := make(filter.Any, len(scopes))
	for i, of := range scopes {
		var parts []filter.Filter
		for _, f := range []struct{ field, value string }{{"user", of.User}, {"agent", of.Agent}, {"run", of.Run}} {
			if f.value != "" {
				parts = append(parts, filter.Eq(f.field, f.value))
			}
		}
		within[i] = filter.And(parts...)
	}
	return memory.Scope{}, true, both(narrowed, within)
}

// lacking narrows a filter to the memories of owners without what the scope lacks.
func (s *Scope) lacking(f filter.Filter) filter.Filter {
	if s.Lack.User {
		f = both(f, filter.Eq("user", ""))
	}
	if s.Lack.Agent {
		f = both(f, filter.Eq("agent", ""))
	}
	return f
}

// both joins a filter, which may be nil, with another one.
func both(f, and filter.Filter) filter.Filter {
	if f == nil {
		return and
	}
	return filter.And(f, and)
}

// Lossy is part of a request that is answered without what is damaged.
type Lossy struct {
	// Lost is called with each error of what is damaged and would be in the answer.
	Lost func(error)
}

// LossyOf implements Tolerant.
func (l *Lossy) LossyOf() *Lossy { return l }

// Tolerant is a request that is answered without what is damaged.
type Tolerant interface {
	// LossyOf returns what the caller sets.
	LossyOf() *Lossy
}

// Confined is a request that may refer to what other runs of its owner have, such as by an ID: a key of one run may not.
type Confined interface {
	// Refers says why a key of one run may not make the request; empty: it may.
	Refers() string
}

// Made is part of a request that depends on the time.
type Made struct {
	// At is when the request is made.
	At time.Time
}

// MadeOf implements Timed.
func (m *Made) MadeOf() *Made { return m }

// notPast refuses an end, zero for none, that is not after the request: what is over would be stored and not be there.
func (m *Made) notPast(doing string, end time.Time, do string) error {
	if end.IsZero() || end.After(m.At) {
		return nil
	}
	return invalid(doing, "expires_at is "+exchange.Time{Time: end}.String()+", which is past", do)
}

// Timed is a request that depends on the time.
type Timed interface {
	// MadeOf returns when the request is made, which its caller sets.
	MadeOf() *Made
}
