package memory

import (
	"time"

	"github.com/seed-7aedc3ff/memdb/filter"
)

// Group says by what memories are counted.
type Group string

// The groups.
const (
	GroupUser  Group = "user"
	GroupAgent Group = "agent"
	GroupOwner Group = "owner" // exact pairs of user and agent
	GroupRun   Group = "run"   // runs of exact pairs of user and agent
)

// GroupQuery asks which users, agents, owners or runs have memories, and how many.
type GroupQuery struct {
	Scope
	// AllScopes counts every owner's memories: for administration only.
	AllScopes bool
	// By is what they are counted by; empty is GroupOwner.
	By Group
}

// GroupSize is a group of memories.
type GroupSize struct {
	// Scope has the fields of the group; an empty one of them means none, never any.
	Scope
	Memories int `json:"memories"`
	// First and Last are when the earliest and the latest of them were created.
	First time.Time `json:"first_created_at"`
	Last  time.Time `json:"last_created_at"`
}

// ListQuery selects memories in an order.
type ListQuery struct {
	Scope
	// AllScopes lists every owner's memories: for administration only. No scope is given
	// beside it.
	AllScopes bool
	// Filter chooses among them; nil is all.
	Filter filter.Filter
	// OrderBy is a field as a filter names it; empty is seq, the order of first
	// storing. Values of one type are in their order (strings by their bytes),
	// null before booleans, before numbers, before strings; memories that have no
	// such value come last, also when Descending; equal ones are in the order of
	// seq.
	OrderBy    string
	Descending bool
	// Limit is the size of a page: 0 is 100, at most MaxLimit. A page ends sooner once its
	// records have more than 64 MiB.
	Limit int
	// Cursor is Page.Next of the page before; the rest of the query must be the
	// same.
	Cursor string
	// Behind has a list by created_at or updated_at begin behind a place, whoever stands there; nil: at its
	// beginning. It is for lists of several databases that are joined. It excludes Cursor.
	Behind *ListPlace
	// WithVectors also reads the vectors.
	WithVectors bool
	// Lost is called with each error of a memory, or a vector, that is damaged, and the
	// list goes on without it. nil: the first one ends the list.
	Lost func(error)
}

// A ListPlace is where a memory stands in a list by a time: behind those with the same time and a lower seq.
type ListPlace struct {
	// At is the time, to the millisecond; the zero time is that of memories without one, which come last.
	At time.Time
	// Seq is Memory.Seq, which is 1 or more.
	Seq uint64
}

// Page is a part of a list.
type Page struct {
	// Memories are those of the page, in the order of the list.
	Memories []Memory
	// Next is the cursor of the page that follows, empty where none does. It marks
	// a place in the order, not a number of memories, so that those that are added
	// or removed meanwhile neither repeat nor hide others.
	Next string
	// Unreadable is how many damages of the database are known, 0 where it is whole: the page may
	// lack memories, or have some that were deleted.
	Unreadable int
}

// DeleteQuery selects the memories that DeleteMatching deletes.
type DeleteQuery struct {
	Scope
	// AllScopes deletes in every owner: for administration only.
	AllScopes bool
	// Filter chooses what is deleted; nil is everything in scope.
	Filter filter.Filter
}
