package fsys

import "github.com/cockroachdb/pebble/v2/vfs"

// file guards the changes made through one handle. Like FS it forwards method
// by method, so that a new one can't go around the freeze.
type file struct {
	fs    *FS
	base  vfs.File
	path  string
	class class
}

var _ vfs.File = (*file)(nil)

func (f *file) Write(p []byte) (n int, err error) {
	err = f.fs.guard("write", f.path, f.class, func() (err error) {
		n, err = f.base.Write(p)
		return err
	})
	if err != nil {
		f.fs.pauseRetry()
	}
	return written(n, len(p), err), err
}

func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fs.guard("write", f.path, f.class, func() (err error) {
		n, err = f.base.WriteAt(p, off)
		return err
	})
	return written(n, len(p), err), err
}

// written keeps the promise of io.Writer where a failed or withheld write is
// reported as a success.
func written(n, all int, err error) int {
	if err == nil {
		return all
	}
	return n
}

func (f *file) Sync() error {
	return f.fs.guard("sync", f.path, f.class, f.base.Sync)
}

func (f *file) SyncData() error {
	return f.fs.guard("sync", f.path, f.class, f.base.SyncData)
}

func (f *file) SyncTo(length int64) (fullSync bool, err error) {
	err = f.fs.guard("sync", f.path, f.class, func() (err error) {
		fullSync, err = f.base.SyncTo(length)
		return err
	})
	return fullSync, err
}

// Preallocate never poisons: it is a hint, and Pebble ignores its error.
func (f *file) Preallocate(offset, length int64) error {
	if err := f.fs.Err(); err != nil {
		return err
	}
	return f.base.Preallocate(offset, length)
}

// Close releases the handle, frozen or not. A failure may mean that earlier
// writes are lost, as on a network file system, so it counts like one.
func (f *file) Close() error {
	err := f.base.Close()
	if err != nil && f.fs.hidden(f.class) {
		f.fs.poison(&Failure{Op: "close", Path: f.path, Cause: err})
		return nil
	}
	return err
}

func (f *file) Read(p []byte) (int, error)                { return f.base.Read(p) }
func (f *file) ReadAt(p []byte, off int64) (int, error)   { return f.base.ReadAt(p, off) }
func (f *file) Stat() (vfs.FileInfo, error)               { return f.base.Stat() }
func (f *file) Prefetch(offset int64, length int64) error { return f.base.Prefetch(offset, length) }
func (f *file) Fd() uintptr                               { return f.base.Fd() }
