package replication

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Promotion is what a replica has become.
type Promotion struct {
	// LSN is that of the newest commit that it has; Timeline is the new one, a UUID, which begins behind it.
	LSN      uint64 `json:"lsn"`
	Timeline string `json:"timeline"`
}

// Promote ends the following, once what has come is applied, and makes the replica a database that can be
// written, as [Promote] does. It waits for reads that run, and closes the replica.
func (r *Replica) Promote(ctx context.Context) (*Promotion, error) {
	r.stop()
	if err := r.await(ctx, func(s *replicaState) bool { return s.shown == nil || s.shown.refs == 0 }); err != nil {
		return nil, err
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	return Promote(r.host, r.base, r.dir)
}

func doingPromote(dir string) string { return "promote the replica " + dir }

// Promote makes the replica in a folder, which is closed or whose process was killed, a database of its own.
func Promote(h Host, f vfs.FS, dir string) (p *Promotion, err error) {
	if err := place.Look(f, dir); err != nil {
		return nil, err
	}
	if err := mayPromote(f, dir); err != nil {
		return nil, err
	}
	held, err := place.Lock(f, dir, clock.System(), false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if err := settleReplica(f, dir); err != nil {
		return nil, err
	}
	if err := mayPromote(f, dir); err != nil { // while it is held
		return nil, err
	}
	id, err := mayFollow(f, dir)
	if err != nil {
		return nil, err
	}
	lsn, err := lastOf(h, f, dir, id)
	if err != nil {
		return nil, fault.Within(doingPromote(dir), err)
	}
	timeline, err := uuid.NewRandom()
	if err != nil {
		return nil, err
	}
	id.Parent = &place.Origin{Timeline: id.Timeline, LSN: lsn}
	id.Replica, id.Logged, id.Timeline = false, false, timeline.String()
	// The mark is of the timeline that ends; opening makes another one. The number in the store is of that
	// timeline, too, so that it says nothing any more.
	if err := store.DropMark(f, dir); err != nil {
		return nil, fault.Within(doingPromote(dir), err)
	}
	if err := id.Write(f, dir); err != nil {
		return nil, fault.Within(doingPromote(dir), err)
	}
	return &Promotion{LSN: lsn, Timeline: id.Timeline}, nil
}

// mayPromote refuses a folder that holds no replica.
func mayPromote(f vfs.FS, dir string) error {
	id, err := place.Read(f, dir)
	switch {
	case err != nil:
		return err
	case id != nil && id.Replica:
		return nil
	case id != nil:
		return fault.Invalid(doingPromote(dir), "it is no replica, and can be written as it is", "open it")
	}
	if _, err := f.Stat(f.PathJoin(dir, place.ReplicaWhole)); err == nil {
		return nil
	}
	return fault.Invalid(doingPromote(dir), "no replica that is whole is in this folder", "name the folder of a replica, or follow a database into it first: memdbctl replica DIR --from ARCHIVE")
}

// lastOf opens the store of a replica, which brings what its log holds into tables, and returns the LSN of
// its newest commit.
func lastOf(h Host, f vfs.FS, dir string, id *place.Identity) (lsn uint64, err error) {
	of, err := openFollowed(h, f, dir, id)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, of.close()) }()
	if of.erased { // the replica was closed or killed before it had rewritten its files
		if err := errors.Join(removeVectorFiles(f, dir), of.purge(context.Background())); err != nil {
			return 0, err
		}
	}
	keys, err := layout.NewKeys(id.HashSeed)
	if err != nil {
		return 0, err
	}
	b, closer, err := of.store.Get(layout.GenerationsKey)
	if err != nil {
		return 0, store.Error("read the generations", err)
	}
	generations := bytes.Clone(b)
	if err := closer.Close(); err != nil {
		return 0, err
	}
	if err := keys.DecodeGenerations(generations); err != nil {
		return 0, err
	}
	snap := of.store.NewSnapshot()
	newest, err := shipping.Newest(keys, snap)
	err = errors.Join(err, snap.Close())
	if marked := of.store.MarkedLSN(); err == nil && newest.LSN < marked {
		err = &fault.Error{Kind: fault.ErrCorrupt, What: doingPromote(dir), Why: "commits are gone that it had applied", Do: beginAgain}
	}
	return newest.LSN, err
}

// removeVectorFiles removes the snapshots of vector indexes, which are built again from the store.
func removeVectorFiles(f vfs.FS, dir string) error {
	names, err := f.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, spaces.SnapshotPrefix) {
			if err := removeFile(f, f.PathJoin(dir, name)); err != nil {
				return err
			}
		}
	}
	return fsys.SyncDir(f, dir)
}
