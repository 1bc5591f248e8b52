package fsys

import "github.com/cockroachdb/pebble/v2/vfs"

// file guards the changes made through one handle. Like FS it forwards method
// by method, so that a new one can't go around the freeze.
type file struct {
	fs    *FS
	base  vfs.File
	path  string
	class class

	end int64 // bytes written by Write
}

var _ vfs.File = (*file)(nil)

func (f *file) Write(p []byte) (n int, err error) {
	err = f.write(len(p), func() (err error) {
		n, err = f.base.Write(p)
		return err
	})
	if err != nil {
		f.fs.pauseRetry(f.class, err)
	}
	f.end += int64(n)
	return written(n, len(p), err), err
}

func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.write(len(p), func() (err error) {
		n, err = f.base.WriteAt(p, off)
		return err
	})
	return written(n, len(p), err), err
}

// write guards a write of n bytes, for which there must be room.
func (f *file) write(n int, change func() error) error {
	if err := f.fs.keep("write", f.path, f.class, n); err != nil {
		return err
	}
	f.fs.room.spend(n)
	return f.fs.guard("write", f.path, f.class, change)
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

// Preallocate withholds a hint of Pebble, which asks for all that a log may need, 70 MB
// for a database of one memory: see [log].
func (f *file) Preallocate(_, _ int64) error { return f.fs.Err() }

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
