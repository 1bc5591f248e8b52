package api

import "github.com/seed-7aedc3ff/memdb/scope"

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
