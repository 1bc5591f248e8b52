package place

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Opening says what is done while a database is opened, for errors.
func Opening(dir string) string { return "open " + dir }

// FullError says that a database could not be opened for want of space, where that is
// why.
func FullError(dir string, err error) error {
	if !fsys.IsFull(err) {
		return err
	}
	return &fault.Error{
		Kind: fault.ErrDiskFull, What: Opening(dir), Why: "the disk is full", Cause: FirstFailure(err),
		Do: "make room on the disk; to read meanwhile, open it with ReadOnly",
	}
}

// FirstFailure is what the file system's seam met first, or else the error itself.
func FirstFailure(err error) error {
	if failure, ok := errors.AsType[*fsys.Failure](err); ok {
		return failure
	}
	return err
}

// Exists reports whether a folder holds a database, or whether there is a file that opening takes for
// one. It creates nothing.
func Exists(dir string) (bool, error) {
	one, err := IsFile(fsys.Disk, dir)
	if err != nil {
		return false, err
	}
	if one {
		kind, _, err := fsys.KindOf(fsys.Disk, dir)
		return kind == fsys.IsFile, fault.Within(Opening(dir), err)
	}
	if err := Look(fsys.Disk, dir); err != nil {
		return false, err
	}
	id, err := Read(fsys.Disk, dir)
	if id == nil && err == nil {
		if err = Refuse(fsys.Disk, dir); !errors.Is(err, fault.ErrCorrupt) {
			err = nil // no database, whatever else the folder holds
		}
	}
	return id != nil, err
}

// Look refuses a folder in which a name leads to something else than memdb has made.
func Look(f vfs.FS, dir string) error {
	if err := fsys.Look(f, dir); err != nil {
		return &fault.Error{
			Kind: fault.ErrCorrupt, What: Opening(dir), Why: err.Error(),
			Do: "somebody else has put it there, and nothing was opened: move it away, or restore the folder from a backup",
		}
	}
	return nil
}

// MustExist refuses a folder without a database.
func MustExist(base vfs.FS, dir string) error {
	id, err := Read(base, dir)
	if id == nil && err == nil {
		err = &fault.Error{Kind: fault.ErrNotDatabase, What: Opening(dir), Why: "there is no database in this folder", Do: "open it without ReadOnly, which makes one"}
	}
	return err
}

// MakeDir creates the folder of a new database, for its owner alone, as what people tell
// an agent is nobody else's, and syncs each folder in which it creates one: a crash must
// not take away the folder of acknowledged writes.
func MakeDir(f vfs.FS, dir string) error {
	var missing []string // from the folder itself upwards
	for d := dir; ; d = f.PathDir(d) {
		_, err := f.Stat(d)
		if err == nil || d == f.PathDir(d) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fault.Within(Opening(dir), err)
		}
		missing = append(missing, d)
	}
	if err := f.MkdirAll(dir, 0o700); err != nil {
		return fault.Within(Opening(dir), err)
	}
	for _, d := range missing {
		if err := fsys.SyncDir(f, f.PathDir(d)); err != nil {
			return fault.Within(Opening(dir), err)
		}
	}
	return nil
}

// Refuse returns an error for a folder that is no database and cannot become one:
// before anything is written to it.
func Refuse(f vfs.FS, dir string) error {
	id, err := Read(f, dir)
	if id != nil || err != nil {
		return err
	}
	names, err := f.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Within(Opening(dir), err)
	}
	if slices.ContainsFunc(names, IsReplicaPart) {
		return &fault.Error{
			Kind: fault.ErrNotDatabase, What: Opening(dir), Why: "a replica is being made in the folder, and is not complete",
			Do: "go on with it: memdbctl replica DIR --from ARCHIVE",
		}
	}
	if slices.Contains(names, store.Dir) {
		return &fault.Error{
			Kind: fault.ErrCorrupt, What: Opening(dir), Why: "it holds a store without its " + Name, Do: WayOn,
		}
	}
	for _, name := range names {
		if !IsLitter(name) {
			return &fault.Error{
				Kind: fault.ErrNotDatabase, What: Opening(dir), Why: "the folder holds other files and no database",
				Do: "name another folder, or an empty one",
			}
		}
	}
	return nil
}

// litter is what systems leave in folders by themselves: it does not make one another's.
var litter = []string{".DS_Store", ".localized", "Thumbs.db", "desktop.ini", "lost+found"}

// The folders in which a replica is built within its own: Replica while it is made, ReplicaWhole once it is whole.
const (
	Replica      = "replica.new"
	ReplicaWhole = "replica.whole"
)

// IsReplicaPart reports whether a name is that of a replica that is being built.
func IsReplicaPart(name string) bool { return name == Replica || name == ReplicaWhole }

// IsLitter reports whether a name does not make a folder another's: a creation that was interrupted left it, or the
// system did.
func IsLitter(name string) bool {
	return name == identityTemp || name == fsys.LockName || name == fsys.HolderName || slices.Contains(litter, name) || strings.HasPrefix(name, "._")
}

// ReplaceFile replaces the content of a file in one step.
func ReplaceFile(f vfs.FS, dir, name string, b []byte) error {
	temp := f.PathJoin(dir, name+tempSuffix)
	file, err := f.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, bytes.NewReader(b))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := f.Rename(temp, f.PathJoin(dir, name)); err != nil {
		return err
	}
	return fsys.SyncDir(f, dir)
}

// ReadBounded reads a file of up to so many bytes.
func ReadBounded(files vfs.FS, name string, most int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = errors.New("it is too large")
	}
	return b, errors.Join(err, f.Close())
}

// FileBytes are the bytes of the files in the folder of a database.
type FileBytes struct {
	// Tables and Logs are those of the store, Snapshots those of vectors and of their codes.
	Tables    int64 `json:"tables"`
	Logs      int64 `json:"logs"`
	Snapshots int64 `json:"snapshots"`
	Other     int64 `json:"other"`
	// File is the one file of a database that has no folder.
	File int64 `json:"file,omitempty"`
}

// Sum is what all of them have.
func (b FileBytes) Sum() int64 { return b.Tables + b.Logs + b.Snapshots + b.Other + b.File }

// Measure adds up the files of a folder. Names that begin with the prefix are those of snapshots. A file that goes
// meanwhile counts nothing.
func Measure(f vfs.FS, dir, snapshots string) (b FileBytes, err error) {
	err = b.add(f, dir, snapshots, true)
	return b, fault.Within("add up the files of "+dir, err)
}

func (b *FileBytes) add(f vfs.FS, dir, snapshots string, top bool) error {
	names, err := f.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := f.PathJoin(dir, name)
		info, err := f.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), top && strings.HasPrefix(name, store.CopyDir): // it has links to what is counted
			continue
		case err != nil:
			return err
		case info.IsDir():
			if err := b.add(f, path, snapshots, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case top && strings.HasPrefix(name, snapshots):
			b.Snapshots += info.Size()
		case !top && strings.HasSuffix(name, ".sst"):
			b.Tables += info.Size()
		case !top && strings.HasSuffix(name, ".log"):
			b.Logs += info.Size()
		default:
			b.Other += info.Size()
		}
	}
	return nil
}
