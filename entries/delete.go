package entries

import (
	"context"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Delete removes the entry under a key, ErrNotFound where there is none.
func (k KV) Delete(ctx context.Context, o scope.Owner, key string) error {
	doing := fmt.Sprintf("delete the entry %q", valid.Short(key))
	if err := checkEntry(doing, o, key); err != nil {
		return err
	}
	return k.run.Append(ctx, doing, freed(key), func(t part.Tx) error {
		owner, known, err := t.Owner(o)
		if err != nil {
			return err
		}
		var old Entry
		found := false
		if known {
			if old, found, err = stored(t, owner, key); err != nil {
				return err
			}
		}
		if !found || old.expired(t.Now()) { // the worker removes what has expired
			return notFound(doing)
		}
		return remove(t, doing, owner, &old)
	})
}

// freed is about what a delete writes, in bytes.
func freed(key string) int { return 2*len(key) + valid.MaxID }

func remove(t part.Tx, doing string, owner uint32, old *Entry) error {
	if err := t.NeedToFree(doing, freed(old.Key)); err != nil {
		return err
	}
	if err := dropExpiry(t, owner, old); err != nil {
		return err
	}
	if err := t.Delete(entryKey(t, owner, old.Key)); err != nil {
		return err
	}
	if err := count(t, owner, -1); err != nil {
		return err
	}
	t.Log(opDelete, logged(owner, old.Key))
	return nil
}
