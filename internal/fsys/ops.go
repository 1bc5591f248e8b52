package fsys

import (
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// flushCategory is how Pebble marks a file that it creates to flush a memtable.
const flushCategory vfs.DiskWriteCategory = "pebble-memtable-flush"

// The methods forward one by one, without embedding, so that a new method of
// vfs.FS breaks the build instead of going around the freeze.
var _ vfs.FS = (*FS)(nil)

// Create implements vfs.FS.
func (f *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.syncAround(name)
	c := f.classOf(name, category)
	if c == flushed && f.failure.Load() != nil {
		return f.ram.Create(flat(name), category)
	}
	created, err := f.openForWrite("create", name, c, func() (vfs.File, error) {
		return f.base.Create(name, category)
	})
	if err != nil {
		f.pauseRetry(c, err)
	} else {
		f.noteMarker(name)
	}
	return created, err
}

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.openForWrite("open", name, f.classOf(name, category), func() (vfs.File, error) {
		return f.base.OpenReadWrite(name, category, opts...)
	})
}

// ReuseForWrite implements vfs.FS.
func (f *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.openForWrite("reuse", newname, f.classOf(newname, category), func() (vfs.File, error) {
		return f.reuse(oldname, newname, category)
	})
}

// openForWrite opens a file whose changes are guarded. A vital one that can't
// be had is replaced by an empty stand-in, which is never written: it exists
// only after poisoning.
func (f *FS) openForWrite(op, name string, c class, open func() (vfs.File, error)) (vfs.File, error) {
	var base vfs.File
	if err := f.keep(op, name, c, 0); err != nil {
		return nil, err
	}
	err := f.guard(op, name, c, func() error {
		opened, err := open()
		if err == nil {
			base = opened
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if base == nil {
		base = vfs.NewMemFile(nil)
	}
	opened := file{fs: f, base: base, path: name, class: c}
	switch {
	case f.isApart(name):
		return &opened, nil
	case strings.HasSuffix(name, ".log"):
		return newLog(opened), nil
	case strings.HasSuffix(name, ".sst"):
		t := &table{file: opened}
		f.tables.Store(name, t)
		return t, nil
	case op == "create" && isManifest(f.base.PathBase(name)):
		return newManifest(opened), nil
	}
	return &opened, nil
}

// syncAround makes what was done to the directory so far durable before a
// marker is created in it or removed from it. Pebble creates a MANIFEST, then
// the marker that names it, then removes the old marker, and syncs the
// directory once, at the end: where the file system does not keep the order, a
// crash in between may leave a marker without its MANIFEST, or no marker, which
// reads as an empty folder.
func (f *FS) syncAround(name string) {
	if !strings.HasPrefix(f.base.PathBase(name), markerPrefix) || f.failure.Load() != nil || f.isApart(name) {
		return
	}
	dir := f.base.PathDir(name)
	_ = f.guard("sync", dir, vital, func() error {
		d, err := f.base.OpenDir(dir)
		if err != nil {
			return err
		}
		return errors.Join(d.Sync(), d.Close())
	})
}

// Open implements vfs.FS.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.failure.Load() != nil {
		if table, err := f.ram.Open(flat(name)); err == nil {
			return table, nil
		}
	}
	return f.base.Open(name, opts...)
}

// OpenDir implements vfs.FS.
func (f *FS) OpenDir(name string) (vfs.File, error) {
	base, err := f.base.OpenDir(name)
	if err != nil {
		return nil, err
	}
	opened := file{fs: f, base: base, path: name, class: vital}
	if f.isApart(name) {
		opened.class = plain
		return &opened, nil
	}
	return &folder{opened}, nil
}

// Link implements vfs.FS.
func (f *FS) Link(oldname, newname string) error {
	return f.guard("link", newname, plain, func() error { return f.base.Link(oldname, newname) })
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	f.syncAround(name)
	f.giveUp(name)
	if f.failure.Load() != nil && f.ram.Remove(flat(name)) == nil {
		return nil
	}
	return f.guard("remove", name, plain, func() error {
		err := f.base.Remove(name)
		if err == nil && isManifest(f.base.PathBase(name)) && !f.isApart(name) {
			_ = f.base.Remove(f.manifestCopy(name)) // Open removes one that is left
		}
		return err
	})
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error {
	return f.guard("remove", name, plain, func() error { return f.base.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	return f.guard("rename", newname, f.classOf(newname, vfs.WriteCategoryUnspecified), func() error { return f.base.Rename(oldname, newname) })
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(dir string, perm fs.FileMode) error {
	return f.guard("mkdir", dir, plain, func() error { return f.base.MkdirAll(dir, perm) })
}

// Lock implements vfs.FS. The lock can be released by ReleaseLocks too.
func (f *FS) Lock(name string) (io.Closer, error) {
	base, err := f.base.Lock(name)
	if err != nil && Unwritable(err) && !lockConflict(err) {
		base, err = noLock{}, nil // LockDir has the folder's; who writes fails at the first file
	}
	if err != nil {
		if lockConflict(err) {
			err = &LockedError{Dir: f.base.PathDir(name)}
		}
		return nil, err
	}
	l := &heldLock{fs: f, base: base}
	f.mu.Lock()
	f.locks[l] = struct{}{}
	f.mu.Unlock()
	return l, nil
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.FileInfo, error) {
	if f.failure.Load() != nil {
		if info, err := f.ram.Stat(flat(name)); err == nil {
			return info, nil
		}
	}
	return f.base.Stat(name)
}

// List implements vfs.FS. Tables held in memory are not listed.
func (f *FS) List(dir string) ([]string, error) { return f.base.List(dir) }

// PathBase implements vfs.FS.
func (f *FS) PathBase(path string) string { return f.base.PathBase(path) }

// PathJoin implements vfs.FS.
func (f *FS) PathJoin(elem ...string) string { return f.base.PathJoin(elem...) }

// PathDir implements vfs.FS.
func (f *FS) PathDir(path string) string { return f.base.PathDir(path) }

// GetDiskUsage implements vfs.FS.
func (f *FS) GetDiskUsage(path string) (vfs.DiskUsage, error) { return f.base.GetDiskUsage(path) }

// Unwrap implements vfs.FS.
func (f *FS) Unwrap() vfs.FS { return f.base }

// flat makes a path one file name of the memory file system, whose separator
// is the slash on every platform.
func flat(path string) string { return strings.ReplaceAll(path, "/", "|") }
