// Package crashfs is a file system for tests that shows every change to a hook
// before it is made, so that a test can clone the folder as a crash at that
// instant would leave it, or make the change fail.
// A [Quota] is a disk of a size that the test sets.
//
// A crash is simulated by [vfs.MemFS.CrashClone]: what was synced is in the
// clone, of the rest a chosen share. An injected failure is described by a
// [Fault].
package crashfs

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Kind is what a change does.
type Kind uint8

// The kinds of change. Reuse of an old log counts as Create, a write into the
// middle as Write, every form of sync of a file as Sync.
const (
	Create Kind = iota
	Write
	Sync
	DirSync
	Rename
	Remove
	Link
	Mkdir
	Close // of a file opened for writing; it changes nothing, but may fail
)

// String is the kind's name in lower case.
func (k Kind) String() string {
	return [...]string{"create", "write", "sync", "dirsync", "rename", "remove", "link", "mkdir", "close"}[k]
}

// Class groups files by their part in the database.
type Class uint8

// The classes of files.
const (
	Other    Class = iota
	Log            // *.log
	Manifest       // MANIFEST-*
	Marker         // marker.*
	Table          // *.sst and *.blob
)

// String is the class's name in lower case.
func (c Class) String() string {
	return [...]string{"other", "log", "manifest", "marker", "table"}[c]
}

// ClassOf tells the class of a file by its name.
func ClassOf(path string) Class {
	name := path[strings.LastIndexAny(path, `/\`)+1:]
	switch {
	case strings.HasSuffix(name, ".log"):
		return Log
	case strings.HasPrefix(name, "MANIFEST-"):
		return Manifest
	case strings.HasPrefix(name, "marker."):
		return Marker
	case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".blob"):
		return Table
	}
	return Other
}

// Op is one change that is about to be made.
type Op struct {
	Kind Kind
	Path string // the new one of a rename, link or reuse
	N    int    // 1 for the first change of the file system
}

// Class is the class of the file that is changed.
func (op Op) Class() Class { return ClassOf(op.Path) }

// Hook is called before a change. An error keeps the change from being made
// and is what its caller gets. Calls are serialised; the changes themselves
// are not. A hook must not change the file system that calls it.
type Hook func(Op) error

// FS is a file system whose changes a Hook sees. It implements [vfs.FS].
type FS struct {
	base vfs.FS

	mu   sync.Mutex
	n    int
	hook Hook
}

// Wrap shows the changes of base to hook, which may be nil.
func Wrap(base vfs.FS, hook Hook) *FS {
	return &FS{base: base, hook: hook}
}

// SetHook replaces the hook. No call of the old one is under way when it
// returns.
func (f *FS) SetHook(hook Hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// Between makes a change while no hook runs: what a hook reads, a test changes there.
func (f *FS) Between(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Ops is the number of changes so far.
func (f *FS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

func (f *FS) before(kind Kind, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	if f.hook == nil {
		return nil
	}
	return f.hook(Op{Kind: kind, Path: path, N: f.n})
}

var _ vfs.FS = (*FS)(nil)

// Create implements vfs.FS.
func (f *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.before(Create, name); err != nil {
		return nil, err
	}
	return f.wrap(name)(f.base.Create(name, category))
}

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := f.before(Create, name); err != nil {
		return nil, err
	}
	return f.wrap(name)(f.base.OpenReadWrite(name, category, opts...))
}

// ReuseForWrite implements vfs.FS.
func (f *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.before(Create, newname); err != nil {
		return nil, err
	}
	return f.wrap(newname)(f.base.ReuseForWrite(oldname, newname, category))
}

func (f *FS) wrap(name string) func(vfs.File, error) (vfs.File, error) {
	return func(base vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, err
		}
		return &file{File: base, fs: f, path: name, sync: Sync}, nil
	}
}

// OpenDir implements vfs.FS.
func (f *FS) OpenDir(name string) (vfs.File, error) {
	base, err := f.base.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &file{File: base, fs: f, path: name, sync: DirSync}, nil
}

// Link implements vfs.FS.
func (f *FS) Link(oldname, newname string) error {
	if err := f.before(Link, newname); err != nil {
		return err
	}
	return f.base.Link(oldname, newname)
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	if err := f.before(Remove, name); err != nil {
		return err
	}
	return f.base.Remove(name)
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error {
	if err := f.before(Remove, name); err != nil {
		return err
	}
	return f.base.RemoveAll(name)
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	if err := f.before(Rename, newname); err != nil {
		return err
	}
	return f.base.Rename(oldname, newname)
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(dir string, perm fs.FileMode) error {
	if err := f.before(Mkdir, dir); err != nil {
		return err
	}
	return f.base.MkdirAll(dir, perm)
}

// Open implements vfs.FS.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.base.Open(name, opts...)
}

// Lock implements vfs.FS. It is no change: a crash releases every lock.
func (f *FS) Lock(name string) (io.Closer, error) { return f.base.Lock(name) }

// List implements vfs.FS.
func (f *FS) List(dir string) ([]string, error) { return f.base.List(dir) }

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.FileInfo, error) { return f.base.Stat(name) }

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

// file shows the changes made through one handle.
type file struct {
	vfs.File
	fs   *FS
	path string
	sync Kind
}

func (f *file) Write(p []byte) (int, error) {
	if err := f.fs.before(Write, f.path); err != nil {
		return f.torn(p, err)
	}
	return f.File.Write(p)
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.before(Write, f.path); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

// torn writes the first half of p if the injected failure asks for it, as a
// disk does that fills up or fails underway.
func (f *file) torn(p []byte, err error) (int, error) {
	if injected, ok := errors.AsType[*injectedError](err); !ok || !injected.torn {
		return 0, err
	}
	n, writeErr := f.File.Write(p[:len(p)/2])
	if writeErr != nil {
		return n, writeErr
	}
	return n, err
}

func (f *file) Sync() error {
	if err := f.fs.before(f.sync, f.path); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *file) SyncData() error {
	if err := f.fs.before(f.sync, f.path); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *file) SyncTo(length int64) (bool, error) {
	if err := f.fs.before(f.sync, f.path); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}

// Close releases the handle even where it is made to fail.
func (f *file) Close() error {
	var injected error
	if f.sync == Sync {
		injected = f.fs.before(Close, f.path)
	}
	if err := f.File.Close(); err != nil {
		return err
	}
	return injected
}
