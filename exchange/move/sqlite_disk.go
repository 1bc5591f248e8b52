package move

import (
	"io"
	"strconv"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// SQLite reaches its files through a sqliteDisk. It sees the input and the write-ahead log next to
// it, or the file of an export, and nothing else: it opens no other file, makes none, and cannot
// write to an input.

// RandomFile is a file that an export of SQLite tables writes.
type RandomFile interface {
	io.ReaderAt
	io.WriterAt
	// Truncate makes the file end at a size.
	Truncate(size int64) error
}

// section is a file that can be read at any place. The zero section is no file.
type section struct {
	io.ReaderAt
	size int64
}

// sqliteDisk is the file system of one connection.
type sqliteDisk struct {
	main, log section
	out       RandomFile // the file of an export, in place of main
}

// mainName is the name of the file on its disk.
const mainName = "main"

// disks counts the connections, each of which has a disk of its own name.
var disks atomic.Int64

// connect opens a connection that has the disk alone. It must be closed by disconnect.
func (d *sqliteDisk) connect() (conn *sqlite3.Conn, disconnect func() error, err error) {
	name := "memdb-" + strconv.FormatInt(disks.Add(1), 10)
	mode := "ro"
	if d.out != nil {
		mode = "rwc"
	}
	vfs.Register(name, d)
	conn, err = sqlite3.Open("file:" + mainName + "?vfs=" + name + "&mode=" + mode)
	if err != nil {
		vfs.Unregister(name)
		return nil, nil, err
	}
	return conn, func() error {
		defer vfs.Unregister(name)
		return conn.Close()
	}, nil
}

// Open opens one of the two files. Temporary files are in memory, and a journal is not written.
func (d *sqliteDisk) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	switch {
	case name == mainName && d.out != nil:
		return &sqliteOut{RandomFile: d.out}, flags, nil
	case name == mainName:
		return sqliteIn{section: d.main}, flags | vfs.OPEN_READONLY, nil
	case name == mainName+"-wal":
		return sqliteIn{section: d.log}, flags | vfs.OPEN_READONLY, nil
	}
	return nil, flags, sqlite3.CANTOPEN
}

// Access reports whether there is a log with that name.
func (d *sqliteDisk) Access(name string, _ vfs.AccessFlag) (bool, error) {
	return name == mainName+"-wal" && d.log.ReaderAt != nil, nil
}

// Delete refuses: a disk has no file that may be deleted.
func (*sqliteDisk) Delete(string, bool) error { return sqlite3.IOERR_DELETE }

// FullPathname returns the name itself.
func (*sqliteDisk) FullPathname(name string) (string, error) { return name, nil }

// sqliteAlone are the methods of a file that only one connection knows: nobody else locks it.
type sqliteAlone struct{}

func (sqliteAlone) Close() error                                    { return nil }
func (sqliteAlone) Sync(vfs.SyncFlag) error                         { return nil }
func (sqliteAlone) Lock(vfs.LockLevel) error                        { return nil }
func (sqliteAlone) Unlock(vfs.LockLevel) error                      { return nil }
func (sqliteAlone) CheckReservedLock() (bool, error)                { return false, nil }
func (sqliteAlone) SectorSize() int                                 { return 0 }
func (sqliteAlone) DeviceCharacteristics() vfs.DeviceCharacteristic { return vfs.IOCAP_SUBPAGE_READ }

// sqliteIn is a file that is only read.
type sqliteIn struct {
	section
	sqliteAlone
}

// ReadAt reads up to the size that the file had when it was opened.
func (f sqliteIn) ReadAt(b []byte, at int64) (int, error) {
	if f.ReaderAt == nil || at >= f.size {
		return 0, io.EOF
	}
	if at+int64(len(b)) > f.size {
		n, err := f.ReaderAt.ReadAt(b[:f.size-at], at)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return f.ReaderAt.ReadAt(b, at)
}

func (f sqliteIn) Size() (int64, error)             { return f.size, nil }
func (sqliteIn) WriteAt([]byte, int64) (int, error) { return 0, sqlite3.READONLY }
func (sqliteIn) Truncate(int64) error               { return sqlite3.READONLY }

// sqliteOut is a file that an export writes, from nothing on.
type sqliteOut struct {
	RandomFile
	sqliteAlone
	size int64
}

func (f *sqliteOut) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.RandomFile.WriteAt(b, at)
	f.size = max(f.size, at+int64(n))
	return n, err
}

func (f *sqliteOut) Truncate(size int64) error {
	f.size = size
	return f.RandomFile.Truncate(size)
}

func (f *sqliteOut) Size() (int64, error) { return f.size, nil }
