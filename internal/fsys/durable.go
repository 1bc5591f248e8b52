package fsys

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// durable is what of the logs and of the MANIFEST is on disk for certain. A file counts when
// its name is on disk, too: when its folder was synced after it was made.
type durable struct {
	logs    []*madeLog // the newest last
	made    []*madeLog // logs whose names are not on disk yet
	written map[string]int64
	// manifest is the MANIFEST that a marker on disk names, named the one that a marker
	// names whose own name is not on disk yet.
	manifest, named string
	settled         func()
}

// madeLog is a log that was made since New.
type madeLog struct {
	path   string
	synced atomic.Int64 // bytes
}

// mostLogs bounds the logs that FS keeps in mind, the newest: Pebble keeps fewer unflushed.
const mostLogs = 64

// SyncedLogs are the paths of the logs that were made since New, in their order, and how many
// bytes of the last one are on disk for certain.
func (f *FS) SyncedLogs() (paths []string, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.durable.logs {
		paths, bytes = append(paths, l.path), l.synced.Load()
	}
	return paths, bytes
}

// SyncedManifest is the path of the MANIFEST that counts, and how many bytes of it are on disk
// for certain. It is empty until one was made.
func (f *FS) SyncedManifest() (path string, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.durable.manifest, f.durable.written[f.durable.manifest]
}

// OnSettled has fn called each time that a log or a MANIFEST was made, or that a MANIFEST grew,
// when that is on disk: before anything is acknowledged that builds on it, and before anything
// is removed that it replaces. It runs on a goroutine of Pebble's, and must not call Pebble.
func (f *FS) OnSettled(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.durable.settled = fn
}

// noteLog counts what is on disk of a log that has just been made.
func (f *FS) noteLog(path string) *madeLog {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &madeLog{path: path}
	f.durable.made = append(f.durable.made, l)
	return l
}

// manifestMarker begins the name of the marker that says which MANIFEST counts, with which the
// name ends.
const manifestMarker = markerPrefix + "manifest."

// noteMarker notes that a marker was made.
func (f *FS) noteMarker(path string) {
	name := f.base.PathBase(path)
	if !strings.HasPrefix(name, manifestMarker) || f.failure.Load() != nil || f.isApart(path) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.durable.named = f.base.PathJoin(f.base.PathDir(path), name[strings.LastIndexByte(name, '.')+1:])
}

// noteManifest notes how much of a MANIFEST is on disk.
func (f *FS) noteManifest(path string, bytes int64) {
	f.mu.Lock()
	d := &f.durable
	if d.written == nil {
		d.written = map[string]int64{}
	}
	d.written[path] = bytes
	settled := d.settled
	if path != d.manifest {
		settled = nil // it does not count yet
	}
	f.mu.Unlock()
	if settled != nil {
		settled()
	}
}

// folder is a directory that can be synced.
type folder struct{ file }

// Sync implements vfs.File. What was made in the folder before is on disk afterwards.
func (d *folder) Sync() error {
	f := d.fs
	f.mu.Lock()
	made, named := slices.Clone(f.durable.made), f.durable.named
	f.mu.Unlock()
	err := d.file.Sync()
	if err == nil && f.Err() == nil { // a failure is reported as a success
		f.settle(d.path, made, named)
	}
	return err
}

// settle notes that the names in a folder are on disk: of these logs and of the marker that
// names a MANIFEST.
func (f *FS) settle(dir string, made []*madeLog, named string) {
	f.mu.Lock()
	d := &f.durable
	changed := false
	for _, l := range made {
		if f.base.PathDir(l.path) == dir && slices.Contains(d.made, l) {
			d.made = slices.DeleteFunc(d.made, func(one *madeLog) bool { return one == l })
			d.logs, changed = append(d.logs[max(0, len(d.logs)+1-mostLogs):], l), true
		}
	}
	if named != "" && d.named == named && f.base.PathDir(named) == dir {
		delete(d.written, d.manifest)
		d.manifest, d.named, changed = named, "", true
	}
	settled := d.settled
	f.mu.Unlock()
	if changed && settled != nil {
		settled()
	}
}

// SyncDir makes the names in a folder durable.
func SyncDir(f vfs.FS, dir string) error {
	d, err := f.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
