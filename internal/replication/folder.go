package replication

import (
	"errors"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// A replica is built in a folder within its own, which no Open takes for a database. Once the store in it
// is whole, that folder gets another name, and what is in it takes the place of what was there before: in
// steps that are done again from the beginning where a crash has come between them.
// Refuse refuses to open a replica to be written.
func Refuse(f vfs.FS, dir string) error {
	id, err := place.Read(f, dir)
	if err != nil || id == nil || !id.Replica {
		return nil // what else there is to say, opening says
	}
	return &fault.Error{
		Kind: fault.ErrReadOnly, What: place.Opening(dir), Why: "it is a replica, which only follows its database",
		Do: "to read, open it with ReadOnly; to write into it from now on, promote it: memdbctl replica promote DIR",
	}
}

// Is reports whether a folder holds a replica.
func Is(f vfs.FS, dir string) (bool, error) {
	if err := place.Look(f, dir); err != nil {
		return false, err
	}
	id, err := place.Read(f, dir)
	return id != nil && id.Replica, err
}

// mayFollow refuses a folder in which no replica is or can be made. It returns the identity of the one
// that is there, nil if none is.
func mayFollow(f vfs.FS, dir string) (*place.Identity, error) {
	id, err := place.Read(f, dir)
	if err != nil {
		return nil, err
	}
	if id != nil {
		if !id.Replica {
			return nil, &fault.Error{Kind: fault.ErrExists, What: doingReplica(dir), Why: "the folder holds a database that is no replica", Do: "name another folder"}
		}
		return id, nil
	}
	names, err := f.List(dir)
	if err != nil {
		return nil, fault.Within(doingReplica(dir), err)
	}
	for _, name := range names {
		switch {
		case place.IsLitter(name), place.IsReplicaPart(name):
		case name == store.Dir:
			return nil, &fault.Error{Kind: fault.ErrCorrupt, What: doingReplica(dir), Why: "it holds a store without its " + place.Name, Do: place.WayOn}
		default:
			return nil, &fault.Error{Kind: fault.ErrNotDatabase, What: doingReplica(dir), Why: "the folder holds other files and no replica", Do: "name another folder, or an empty one"}
		}
	}
	return nil, nil
}

// replaceReplica puts the store that was built, which is closed and has its memdb.json, in the place of
// the one in the folder, if there is one.
func replaceReplica(f vfs.FS, dir string) error {
	built := f.PathJoin(dir, place.Replica)
	if err := fsys.SyncDir(f, built); err != nil {
		return fault.Within(doingReplica(dir), err)
	}
	if err := f.Rename(built, f.PathJoin(dir, place.ReplicaWhole)); err != nil {
		return fault.Within(doingReplica(dir), err)
	}
	if err := fsys.SyncDir(f, dir); err != nil {
		return fault.Within(doingReplica(dir), err)
	}
	return settleReplica(f, dir)
}

// settleReplica ends a replacement that has begun, and removes what was built in part.
func settleReplica(f vfs.FS, dir string) error {
	err := settle(f, dir)
	if err == nil {
		err = removeAll(f, f.PathJoin(dir, place.Replica))
	}
	return fault.Within(doingReplica(dir), err)
}

func settle(f vfs.FS, dir string) error {
	whole := f.PathJoin(dir, place.ReplicaWhole)
	there := func(path string) bool { _, err := f.Stat(path); return err == nil }
	if !there(whole) {
		return nil
	}
	in := func(name string) (from, to string) { return f.PathJoin(whole, name), f.PathJoin(dir, name) }
	from, to := in(place.Name)
	if there(from) { // it goes last
		if next, old := in(store.Dir); there(next) {
			// Without memdb.json nobody opens what is between the old store and the new one.
			err := inTurn(
				func() error { return removeFile(f, to) },
				func() error { return store.DropMark(f, dir) }, // syncs the folder
				func() error { return removeAll(f, old) },
				func() error { return f.Rename(next, old) },
			)
			if err != nil {
				return err
			}
		}
		if next, old := in(store.MarkName); there(next) {
			if err := f.Rename(next, old); err != nil {
				return err
			}
		}
		err := inTurn(
			func() error { return fsys.SyncDir(f, dir) },
			func() error { return fsys.SyncDir(f, whole) },
			func() error { return f.Rename(from, to) },
			func() error { return fsys.SyncDir(f, dir) },
		)
		if err != nil {
			return err
		}
	}
	if err := removeAll(f, whole); err != nil {
		return err
	}
	return fsys.SyncDir(f, dir)
}

// inTurn does one step after the other, up to the first that fails.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func removeFile(f vfs.FS, path string) error {
	if err := f.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func removeAll(f vfs.FS, path string) error {
	if err := f.RemoveAll(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
