package fsys

import "github.com/cockroachdb/pebble/v2/vfs"

// file guards the changes made through one handle. Like FS it forwards method
// by method, so that a new one can't go around the freeze.
type file struct {
	fs    *FS
	base  vfs.File
	path  string
	class class

	end      int64 // bytes written by Write
	reserved int64 // where the blocks end that were asked of the system
	most     int64 // where those end that Pebble asked for
}

const (
	leastReserved = 128 << 10
	mostReserved  = 8 << 20
)

var _ vfs.File = (*file)(nil)

func (f *file) Write(p []byte) (n int, err error) {
	if f.most > 0 {
		f.reserve(f.end + int64(len(p)))
	}
	err = f.fs.guard("write", f.path, f.class, func() (err error) {
		n, err = f.base.Write(p)
		return err
	})
	if err != nil {
		f.fs.pauseRetry()
	}
	f.end += int64(n)
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

// Preallocate never poisons: it is a hint, and Pebble ignores its error. Pebble asks for
// all that a log may need, 70 MB for a database of one memory. Write reserves of that
// what is about to be used.
func (f *file) Preallocate(offset, length int64) error {
	if err := f.fs.Err(); err != nil {
		return err
	}
	if f.most == 0 {
		f.reserved = offset
	}
	f.most = offset + length
	return nil
}

// reserve asks for blocks up to an offset and, so that it is seldom done, as many beyond
// it as there are before.
func (f *file) reserve(upto int64) {
	for f.reserved < min(upto, f.most) && f.fs.Err() == nil {
		step := min(max(f.reserved, leastReserved), mostReserved, f.most-f.reserved)
		if f.base.Preallocate(f.reserved, step) != nil {
			f.most = 0 // as if the hint had not been given
			return
		}
		f.reserved += step
	}
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
