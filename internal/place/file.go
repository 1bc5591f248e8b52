package place

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/onefile"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Suffix ends the name of a database that is one file, and that is still to be made.
const Suffix = ".memdb"

// Form is what holds a database.
type Form string

// The forms.
const (
	FormFolder Form = "folder"
	FormFile   Form = "file"
	FormMemory Form = "memory"
)

// IsFile reports whether a path is that of a database in one file, by the rule that engine.Open tells.
func IsFile(f vfs.FS, path string) (bool, error) {
	named := strings.HasSuffix(path, Suffix)
	kind, what, err := fsys.KindOf(f, path)
	if err != nil {
		return false, fault.Within(Opening(path), err)
	}
	switch kind {
	case fsys.Missing:
		return named, nil
	case fsys.IsFolder:
		if named {
			return false, holdsFolder(f, path)
		}
		return false, nil
	case fsys.IsOther:
		if !named && strings.Contains(what, "link") {
			return false, nil // of which the form in a folder tells
		}
		return false, &fault.Error{Kind: fault.ErrNotDatabase, What: Opening(path), Why: "it is " + what + ", and no file", Do: "name the file itself"}
	}
	if named {
		return true, nil // where it is none of memdb's, reading says so
	}
	own, err := hasMagic(f, path)
	return own, fault.Within(Opening(path), err)
}

// holdsFolder refuses a folder whose name ends with Suffix, unless it already holds a database, which older
// versions could create there.
func holdsFolder(f vfs.FS, dir string) error {
	names, err := f.List(dir)
	if err != nil {
		return fault.Within(Opening(dir), err)
	}
	if slices.Contains(names, Name) || slices.Contains(names, store.Dir) || slices.ContainsFunc(names, IsReplicaPart) {
		return nil
	}
	return &fault.Error{
		Kind: fault.ErrNotDatabase, What: Opening(dir), Why: "it is a folder without a database, and names that end with " + Suffix + " are for databases in one file",
		Do: "remove the folder to make one file of this name, or choose a name without " + Suffix + " for a database in a folder",
	}
}

// hasMagic reports whether a file begins or ends as a database in one file does.
func hasMagic(f vfs.FS, path string) (own bool, err error) {
	file, err := f.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	part := func(at int64) []byte {
		b := make([]byte, len(onefile.Magic))
		n, err := file.ReadAt(b, max(at, 0))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil
		}
		return b[:n]
	}
	return onefile.Is(part(0), part(info.Size()-onefile.HeadSize)), nil
}

// MayBeThere refuses a file in a folder that does not exist, and one that is to be read and does not.
func MayBeThere(base vfs.FS, path string, readOnly bool) error {
	dir := base.PathDir(path)
	if kind, _, err := fsys.KindOf(base, dir); err != nil || kind != fsys.IsFolder {
		return &fault.Error{Kind: fault.ErrNotDatabase, What: Opening(path), Why: "there is no folder " + dir, Cause: err, Do: "make it, or name another"}
	}
	if !readOnly {
		return nil
	}
	kind, _, err := fsys.KindOf(base, path)
	if err == nil && kind == fsys.Missing {
		err = &fault.Error{Kind: fault.ErrNotDatabase, What: Opening(path), Why: "there is no such file", Do: "open it without ReadOnly; the first commit makes it"}
	}
	return err
}

// SetAside keeps a damaged file, over which the next commit would write.
func SetAside(base vfs.FS, path string, lost []*onefile.Damage) error {
	if len(lost) == 0 {
		return nil
	}
	if err := vfs.LinkOrCopy(base, path, path+fsys.FileDamaged); err != nil {
		return &fault.Error{Kind: fault.ErrFailed, What: "keep the damaged " + path, Cause: err, Do: "move " + path + fsys.FileDamaged + " away if it is there"}
	}
	return fsys.SyncDir(base, base.PathDir(path))
}

// InFolder refuses to make anything but a database in one file under a name that ends as one does.
func InFolder(doing, dir string) error {
	if !strings.HasSuffix(dir, Suffix) {
		return nil
	}
	return fault.Invalid(doing, fmt.Sprintf("a name that ends with %s is that of a database in one file, and this makes a folder", Suffix),
		"name another folder; one file is made of it by: memdbctl convert SRC DEST")
}
