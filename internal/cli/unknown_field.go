package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// asked is of whom a query is: a scope, several, or everyone.
type asked struct {
	scope  memory.Scope
	scopes []memory.Scope
	all    bool
}

// warnFields warns of fields of a filter or an order that no memory of the scopes has, and that are
// none of memdb's: they find nothing, and are likely misspelt. It names a field that is spelt almost
// the same, of memdb or of a memory in the scopes, and returns what it has said.
func (a *app) warnFields(ctx context.Context, db *engine.DB, of asked, f filter.Filter, orderBy string) (said []string, err error) {
	names := fieldsOf(f, nil)
	if orderBy != "" && orderBy != "seq" {
		names = append(names, orderBy)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		field, err := filter.Lookup(name)
		if err != nil || field.Path == "" {
			continue // what is no field is an error of the query itself
		}
		switch known, err := of.has(ctx, db, name); {
		case err != nil:
			return said, err
		case known:
			continue
		}
		if some, err := of.count(ctx, db, nil); err != nil || some == 0 {
			return said, err
		}
		near, err := of.nearest(ctx, db, field.Path)
		if err != nil {
			return said, err
		}
		warning := fmt.Sprintf("no memory has the field %q", cut(name, 60))
		if near != "" {
			warning += fmt.Sprintf("; did you mean %q?", near)
		}
		a.note("%s", warning)
		said = append(said, warning)
	}
	return said, nil
}

// fieldsOf adds the fields that a filter names.
func fieldsOf(f filter.Filter, names []string) []string {
	switch f := f.(type) {
	case filter.Condition:
		names = append(names, f.Field)
	case filter.All:
		for _, part := range f {
			names = fieldsOf(part, names)
		}
	case filter.Any:
		for _, part := range f {
			names = fieldsOf(part, names)
		}
	case filter.Negation:
		names = fieldsOf(f.Filter, names)
	}
	return names
}

// count is how many memories of the scopes match a filter.
func (of *asked) count(ctx context.Context, db *engine.DB, f filter.Filter) (n int, err error) {
	scopes := of.scopes
	if len(scopes) == 0 {
		scopes = []memory.Scope{of.scope}
	}
	for _, s := range scopes {
		if s == (memory.Scope{}) && !of.all {
			continue // the query says what is wrong
		}
		some, err := db.Memories().Count(ctx, memory.ListQuery{Scope: s, AllScopes: of.all, Filter: f})
		if err != nil {
			return n, err
		}
		n += some
	}
	return n, nil
}

func (of *asked) has(ctx context.Context, db *engine.DB, field string) (bool, error) {
	n, err := of.count(ctx, db, filter.Exists(field))
	return n > 0, err
}

// nearest is the field that is spelt most like a name, empty where none is near.
func (of *asked) nearest(ctx context.Context, db *engine.DB, name string) (string, error) {
	most := min(2, len([]rune(name))/3+1)
	for d := 0; d <= most; d++ {
		for _, field := range filter.BuiltIn() {
			if n, ok := policy.EditDistance([]rune(name), []rune(field), d); ok && n == d {
				return field, nil
			}
		}
		for _, field := range db.MetadataFields() {
			if n, ok := policy.EditDistance([]rune(name), []rune(field), d); !ok || n != d {
				continue
			}
			// What only others have is not said.
			if has, err := of.has(ctx, db, "metadata."+field); has || err != nil {
				return field, err
			}
		}
	}
	return "", nil
}
