package fsys

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Disk is the operating system's file system as a database uses it: what it opens is a regular
// file, since a folder may come from somebody else, with a link to another file of its reader, a
// pipe for which one waits for ever, or a device without an end. What it makes, its owner alone
// can read, whatever the umask. Only the last element of a path is looked at: the folder of a
// database may be a link, and [Look] sees to the folder of the store. Who changes the folder at the
// same moment is not kept out: they may write it, and so destroy it.
var Disk vfs.FS = realDisk{vfs.Default}

type realDisk struct{ vfs.FS }

// Modes of what is made.
const (
	fileMode   = 0o600
	folderMode = 0o700
)

// Create implements vfs.FS.
func (d realDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	for {
		switch err := makeFile(name); {
		case err == nil:
			return d.FS.OpenReadWrite(name, category)
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// makeFile makes an empty file where nothing has its name. The umask can only take from its mode.
func makeFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	return f.Close()
}

// Open implements vfs.FS.
func (d realDisk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if _, err := regular(name); err != nil {
		return nil, err
	}
	return d.FS.Open(name, opts...)
}

// OpenReadWrite implements vfs.FS.
func (d realDisk) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	_, err := regular(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeFile(name)
	}
	if err != nil {
		return nil, err
	}
	return d.FS.OpenReadWrite(name, category, opts...)
}

// ReuseForWrite implements vfs.FS.
func (d realDisk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if _, err := regular(oldname); err != nil {
		return nil, err
	}
	return d.FS.ReuseForWrite(oldname, newname, category)
}

// MkdirAll implements vfs.FS.
func (d realDisk) MkdirAll(dir string, perm os.FileMode) error {
	return d.FS.MkdirAll(dir, perm&folderMode)
}

// Lock implements vfs.FS. It truncates nothing.
func (realDisk) Lock(name string) (io.Closer, error) { return lockFile(name) }

// Unwrap implements vfs.FS.
func (d realDisk) Unwrap() vfs.FS { return d.FS }

// regular is what has a name, where it is a regular file.
func regular(name string) (fs.FileInfo, error) {
	info, err := os.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNoFile}
	}
	return info, err
}
