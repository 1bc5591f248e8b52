package replication

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// An erasure is over in a database once none of its files has anything of what was erased. A replica has
// followed it then, but its own files hold what it has deleted or written over: so it rewrites them, too.

// noteErased notes that the files are to be rewritten, also if the replica is killed before.
func (f *followed) noteErased() error {
	f.erased = true
	return f.store.Set(layout.PurgeKey, []byte{1}, pebble.Sync)
}

// readErased finds out whether the files are still to be rewritten.
func (f *followed) readErased() error {
	_, closer, err := f.store.Get(layout.PurgeKey)
	if errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	if err != nil {
		return store.Error("read the replica", err)
	}
	f.erased = true
	return closer.Close()
}

// purge rewrites the files of the replica behind an erasure, once reads see a state behind it and none
// sees one of before. Where somebody still reads such a state, it does nothing: the end of that calls it
// again. again says that the files were in use, and that it is to be called again soon.
func (r *Replica) purge(ctx context.Context) (again bool, err error) {
	r.loading.Lock()
	defer r.loading.Unlock()
	r.mu.Lock()
	shown, views, drained, number := r.mu.shown, r.mu.views, r.mu.drained, r.mu.stats.Number
	r.mu.Unlock()
	f := r.main
	if f == nil || drained || shown == nil || views > 1 || shown.at.Number < number {
		return false, nil
	}
	if !f.mustPurge() {
		return false, nil
	}
	if err := shown.db.Renew(ctx); err != nil {
		return false, err
	}
	err = f.purge(ctx)
	if errors.Is(err, fault.ErrBusy) || ctx.Err() != nil {
		return true, nil
	}
	if err == nil {
		r.change(func(s *replicaState) { s.purging = f.mustPurge() })
	}
	return false, err
}

// mustPurge reports whether the files are still to be rewritten.
func (f *followed) mustPurge() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.erased
}

// purge rewrites the files of the store, and notes that it has.
func (f *followed) purge(ctx context.Context) error {
	_, err := f.store.Purge(ctx, f.store.Rewrite)
	if err == nil {
		err = f.store.Delete(layout.PurgeKey, pebble.Sync)
	}
	if err != nil {
		return fault.Within("rewrite the files of "+f.dir, err)
	}
	f.mu.Lock()
	f.erased = false
	f.mu.Unlock()
	return nil
}
