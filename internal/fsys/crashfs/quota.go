package crashfs

import (
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Quota is a file system of a size that a test sets, which tells its free space and
// is full when there is none. It implements [vfs.FS]. Links and directories take no
// space; a file takes what it is long until its name is removed.
type Quota struct {
	vfs.FS

	mu    sync.Mutex
	size  int64
	used  int64
	files map[string]*quotaNode
	full  int // how many writes found no space
}

type quotaNode struct{ length int64 }

// NewQuota makes base one of a size. What base holds already is not counted.
func NewQuota(base vfs.FS, size int64) *Quota {
	return &Quota{FS: base, size: size, files: map[string]*quotaNode{}}
}

// Resize sets the size, which may be below what is used.
func (q *Quota) Resize(size int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.size = size
}

// Used is how many bytes the files take.
func (q *Quota) Used() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}

// Refused is how many writes found no space.
func (q *Quota) Refused() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.full
}

// GetDiskUsage implements vfs.FS.
func (q *Quota) GetDiskUsage(string) (vfs.DiskUsage, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return vfs.DiskUsage{
		AvailBytes: uint64(max(q.size-q.used, 0)), TotalBytes: uint64(q.size), UsedBytes: uint64(q.used),
	}, nil
}

// Create implements vfs.FS.
func (q *Quota) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := q.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	q.drop(name)
	return q.open(name, f)
}

// OpenReadWrite implements vfs.FS.
func (q *Quota) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := q.FS.OpenReadWrite(name, category, opts...)
	if err != nil {
		return nil, err
	}
	return q.open(name, f)
}

// ReuseForWrite implements vfs.FS.
func (q *Quota) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := q.FS.ReuseForWrite(oldname, newname, category)
	if err != nil {
		return nil, err
	}
	q.rename(oldname, newname)
	return q.open(newname, f)
}

// Rename implements vfs.FS.
func (q *Quota) Rename(oldname, newname string) error {
	err := q.FS.Rename(oldname, newname)
	if err == nil {
		q.rename(oldname, newname)
	}
	return err
}

// Remove implements vfs.FS.
func (q *Quota) Remove(name string) error {
	err := q.FS.Remove(name)
	if err == nil {
		q.drop(name)
	}
	return err
}

// Unwrap implements vfs.FS.
func (q *Quota) Unwrap() vfs.FS { return q.FS }

func (q *Quota) open(name string, f vfs.File) (vfs.File, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	node := q.files[name]
	if node == nil {
		node = &quotaNode{}
		q.files[name] = node
	}
	return &quotaFile{File: f, quota: q, node: node}, nil
}

func (q *Quota) drop(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropLocked(name)
}

func (q *Quota) dropLocked(name string) {
	if node := q.files[name]; node != nil {
		q.used -= node.length
		node.length = 0
		delete(q.files, name)
	}
}

func (q *Quota) rename(oldname, newname string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if node := q.files[oldname]; node != nil && oldname != newname {
		q.dropLocked(newname)
		q.files[newname] = node
		delete(q.files, oldname)
	}
}

// quotaFile counts what one handle writes.
type quotaFile struct {
	vfs.File
	quota *Quota
	node  *quotaNode
	end   int64
}

// room is how many of n bytes at an offset there is space for.
func (f *quotaFile) room(off, n int64) int64 {
	q := f.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if grows := off + n - f.node.length; grows > 0 {
		fits := min(grows, max(q.size-q.used, 0))
		if fits < grows {
			q.full++
			n = max(n-(grows-fits), 0)
		}
		if n > 0 && off+n > f.node.length {
			q.used += off + n - f.node.length
			f.node.length = off + n
		}
	}
	return n
}

func (f *quotaFile) Write(p []byte) (int, error) {
	n := f.room(f.end, int64(len(p)))
	wrote, err := f.File.Write(p[:n])
	f.end += int64(wrote)
	if err == nil && wrote < len(p) {
		err = syscall.ENOSPC
	}
	return wrote, err
}

func (f *quotaFile) WriteAt(p []byte, off int64) (int, error) {
	n := f.room(off, int64(len(p)))
	wrote, err := f.File.WriteAt(p[:n], off)
	if err == nil && wrote < len(p) {
		err = syscall.ENOSPC
	}
	return wrote, err
}
