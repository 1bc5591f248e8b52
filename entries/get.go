package entries

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Get returns the entry under a key, ErrNotFound where there is none.
func (k KV) Get(ctx context.Context, o scope.Owner, key string) (Entry, error) {
	e, found, err := k.Lookup(ctx, o, key)
	if err == nil && !found {
		err = notFound(getting(key))
	}
	return e, err
}

func getting(key string) string { return fmt.Sprintf("get the entry %q", valid.Short(key)) }

// Lookup returns the entry under a key, and whether there is one. A missing entry is no
// error.
func (k KV) Lookup(ctx context.Context, o scope.Owner, key string) (e Entry, found bool, err error) {
	doing := getting(key)
	if err := checkEntry(doing, o, key); err != nil {
		return Entry{}, false, err
	}
	err = k.run.View(ctx, doing, func(v part.View) error {
		if err := current(v, doing); err != nil {
			return err
		}
		owner, known, err := v.Owner(o)
		if err == nil && known {
			e, found, err = stored(v, owner, key)
			found = found && !e.expired(v.Now())
		}
		return err
	})
	if err != nil || !found {
		return Entry{}, false, err
	}
	return e, true, nil
}

// current refuses a state of the past: entries are written over.
func current(v part.View, doing string) error {
	if !v.Past() {
		return nil
	}
	return &fault.Error{Kind: fault.ErrNotRetained, What: doing, Why: "entries keep no past states", Do: "read the newest one"}
}

func notFound(doing string) error {
	return &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "its owner has none under this key", Do: "check the key and the owner"}
}

// Query selects entries of an owner, in the order of the bytes of their keys.
type Query struct {
	scope.Owner
	// Prefix begins the keys that are listed; empty: all.
	Prefix string
	// After is Next of the page before.
	After string
	// Limit is the size of a page: 0 is 100, at most MaxLimit of package engine.
	Limit int
}

// Page is a part of the entries of a query.
type Page struct {
	// Entries are those of the page, in the order of their keys.
	Entries []Entry
	// Next is given as After to get the page that follows; empty after the last one.
	Next string
}

const defaultPage = 100

// List returns a page of an owner's entries in the order of their keys.
func (k KV) List(ctx context.Context, q Query) (page Page, err error) {
	const doing = "list entries"
	limit, err := valid.Limit(doing, q.Limit, defaultPage)
	if err != nil {
		return Page{}, err
	}
	if err := scope.Check(doing, q.Scope()); err != nil {
		return Page{}, err
	}
	if len(q.Prefix) > MaxKey || len(q.After) > MaxKey {
		return Page{}, fault.Invalid(doing, "the prefix or After is longer than a key may be", "shorten it")
	}
	err = k.run.View(ctx, doing, func(v part.View) error {
		if err := current(v, doing); err != nil {
			return err
		}
		owner, known, err := v.Owner(q.Owner)
		if err != nil || !known {
			return err
		}
		page, err = list(v, owner, &q, limit)
		return err
	})
	return page, err
}

func list(v part.View, owner uint32, q *Query, limit int) (page Page, err error) {
	lower := entryKey(v, owner, q.Prefix)
	upper := layout.PrefixEnd(lower)
	if after := append(entryKey(v, owner, q.After), 0); q.After != "" && bytes.Compare(after, lower) > 0 {
		lower = after
	}
	if bytes.Compare(lower, upper) >= 0 {
		return Page{}, nil
	}
	err = v.Scan(lower, upper, func(key, value []byte) error {
		_, name, ok := parseEntryKey(key)
		if !ok {
			return layout.BadKey("entry", key)
		}
		e, err := decodeEntry(name, value)
		if err != nil || e.expired(v.Now()) {
			return err
		}
		if n := len(page.Entries); n == limit {
			page.Next = page.Entries[n-1].Key
			return kv.ErrStop
		}
		page.Entries = append(page.Entries, e)
		return nil
	})
	return page, err
}

// All iterates over an owner's entries, a page at a time. Outside a transaction the pages
// are of different states.
func (k KV) All(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			page, err := k.List(ctx, q)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			q.After = page.Next
		}
	}
}

// Owners lists those who keep entries, in the order of their first storing.
func (k KV) Owners(ctx context.Context) (owners []scope.Owner, err error) {
	const doing = "list the owners of entries"
	err = k.run.View(ctx, doing, func(v part.View) error {
		if err := current(v, doing); err != nil {
			return err
		}
		return eachOwner(v, func(_ uint32, first *Entry) error {
			owners = append(owners, first.Owner)
			return nil
		})
	})
	return owners, err
}
