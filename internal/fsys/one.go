package fsys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// What lies beside a database that is one file, by what is put behind its name.
const (
	// FileTemp is what a snapshot is written to before it takes the place of the file.
	FileTemp = ".new"
	// FileDamaged is what Salvage has not used.
	FileDamaged = ".damaged"

	// FileLock is the file whose lock protects the database.
	FileLock = ".lock"

	fileHolder = ".holder"
)

// LockFile is LockDir for a database that is one file, which need not exist; its folder must. The
// lock is that of a file beside it, since the file itself is replaced from time to time. Who
// closes the lock removes that file.
func LockFile(files vfs.FS, path string, h Holder) (io.Closer, error) {
	return lockBeside(files, path, h, func(string, error) (io.Closer, error) { return nil, errors.ErrUnsupported })
}

// LockFileShared is LockFile for who only reads, as LockDirShared is LockDir.
func LockFileShared(files vfs.FS, path string, h Holder) (io.Closer, error) {
	return lockBeside(files, path, h, sharing(files))
}

func lockBeside(files vfs.FS, path string, h Holder, share func(path string, err error) (io.Closer, error)) (io.Closer, error) {
	dir, err := canonicalDir(files, files.PathDir(path))
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	at := files.PathJoin(dir, files.PathBase(path))
	l := &dirLock{fsys: files, holderPath: at + fileHolder, goes: at + FileLock}
	return l.take(path, at+FileLock, h, share)
}

// ReplacesOpen reports whether the system lets a file be replaced that another program has open. Where it does not, who
// reads a file keeps the one who writes it from a commit, and so needs its lock.
const ReplacesOpen = runtime.GOOS != "windows"

// Kind is what a name leads to.
type Kind uint8

// The kinds. A link to a folder is one, as elsewhere; a link to a file is none of both.
const (
	Missing Kind = iota
	IsFile
	IsFolder
	IsOther
)

// KindOf says what a name leads to, and what it is, in words.
func KindOf(files vfs.FS, name string) (k Kind, what string, err error) {
	stat := files.Stat
	if vfs.Root(files) == vfs.Default {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return IsFolder, kindOf(fs.ModeDir), nil
		}
		stat = func(name string) (vfs.FileInfo, error) { return lstat(name) }
	}
	info, err := stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Missing, "", nil
	case err != nil:
		return IsOther, "", err
	case info.IsDir():
		return IsFolder, kindOf(fs.ModeDir), nil
	case info.Mode().IsRegular():
		return IsFile, kindOf(0), nil
	}
	return IsOther, kindOf(info.Mode().Type()), nil
}

// lstat is Stat of a name that may be a link.
func lstat(name string) (vfs.FileInfo, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	return onDisk{info}, nil
}

// onDisk is a file of the operating system's.
type onDisk struct{ os.FileInfo }

// DeviceID implements vfs.FileInfo. Nothing asks for it here.
func (onDisk) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

// A Stamp tells one content of a name from another, without reading it: by which file it is, its
// size, and when it was written. The zero Stamp is that of nothing.
type Stamp struct{ info vfs.FileInfo }

// StampOf is the stamp of what a name leads to.
func StampOf(files vfs.FS, name string) (Stamp, error) {
	stat := files.Stat
	if vfs.Root(files) == vfs.Default {
		stat = lstat
	}
	info, err := stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Stamp{}, nil
	}
	return Stamp{info}, err
}

// There reports whether the name led to something.
func (s Stamp) There() bool { return s.info != nil }

// Same reports whether two stamps are those of one content.
func (s Stamp) Same(o Stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	a, aDisk := s.info.(onDisk)
	b, bDisk := o.info.(onDisk)
	if aDisk && bDisk && !os.SameFile(a.FileInfo, b.FileInfo) {
		return false
	}
	return s.info.Mode() == o.info.Mode() && s.info.Size() == o.info.Size() && s.info.ModTime().Equal(o.info.ModTime())
}

// ReadWhole reads a file of at most most bytes, as files opens it; more is a *TooLargeError. The
// stamp is that of what was read: where it changes meanwhile, reading begins again.
func ReadWhole(files vfs.FS, name string, most int64) (b []byte, s Stamp, err error) {
	for range mostReads {
		if b, s, err = ReadOnce(files, name, most); err != nil || !s.There() {
			return nil, s, err
		}
		now, err := StampOf(files, name)
		if err != nil {
			return nil, s, err
		}
		if now.Same(s) {
			return b, s, nil
		}
	}
	return nil, s, errors.New("it changes all the time")
}

// ReadOnce reads a file that another program may append to or replace meanwhile: what it was at one moment, and maybe
// a part of what was appended since. It is for who reads it once, and gives no stamp but that of there being a file.
func ReadOnce(files vfs.FS, name string, most int64) (b []byte, s Stamp, err error) {
	if s, err = StampOf(files, name); err != nil || !s.There() {
		return nil, s, err
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, s, err
	}
	b, err = readUpTo(f, info.Size(), most)
	return b, s, err
}

// mostReads bounds how often a file is read that changes meanwhile.
const mostReads = 10

// TooLargeError says that a file is larger than its reader allows.
type TooLargeError struct{ Size, Most int64 }

// Error names both sizes.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("it has %d bytes, and may have %d", e.Size, e.Most)
}

func readUpTo(f vfs.File, size, most int64) (b []byte, err error) {
	if size > most {
		return nil, &TooLargeError{size, most}
	}
	b = make([]byte, size)
	n, err := io.ReadFull(f, b)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) { // it is shorter by now
		err = nil
	}
	return b[:n], err
}

// Absolute is a path as it is from everywhere in the process.
func Absolute(files vfs.FS, path string) (string, error) {
	if vfs.Root(files) != vfs.Default {
		return path, nil
	}
	return filepath.Abs(path)
}
