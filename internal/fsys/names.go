package fsys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// rule says what may have a name in the folder of a database.
type rule struct {
	pattern string // as path.Match has it
	want    fs.FileMode
	most    int64 // bytes; 0: its reader reads a part of it, or holds its size against another file
}

const (
	aFile   fs.FileMode = 0
	aFolder             = fs.ModeDir

	// mostSettings bounds the files of settings, which are read whole: they have some kilobytes.
	mostSettings = 1 << 20
	// mostManifest bounds a MANIFEST, which is read to its end: Pebble begins another one at 128 MB,
	// or at twice the size that the list of all tables has, 100 bytes each.
	mostManifest = 1 << 30
	// mostLog bounds a log, which is read to its end: it holds a memtable of up to 64 MB, and a
	// commit of up to 4 GB that goes past the memtable.
	mostLog = 8 << 30
)

// The names in the folder of a database, and in its store, which memdb and Pebble open. What has
// another name nobody opens. memdb.sock and memdb.socket are not among them: Open does not read
// them, and memdbctl passes over what is none of its own, see internal/beside.
var (
	folderNames = []rule{
		{pattern: "memdb.json", want: aFile, most: mostSettings},
		{pattern: "memdb.json.new", want: aFile},
		{pattern: LockName, want: aFile},
		{pattern: HolderName, want: aFile},
		{pattern: "memdb.mark", want: aFile},
		{pattern: "vectors-*", want: aFile},
		{pattern: storeName, want: aFolder},
		{pattern: "store.rebuilt", want: aFolder},
		{pattern: "store.backup", want: aFolder},
	}
	storeNames = []rule{
		{pattern: "LOCK", want: aFile},
		{pattern: "*.sst", want: aFile},
		{pattern: "*.blob", want: aFile},
		{pattern: "*.log", want: aFile, most: mostLog},
		{pattern: "MANIFEST-*", want: aFile, most: mostManifest},
		{pattern: "copy-of-MANIFEST-*", want: aFile, most: mostManifest},
		{pattern: "OPTIONS-*", want: aFile, most: mostSettings},
		{pattern: "marker.*", want: aFile},
		{pattern: "CURRENT", want: aFile, most: mostSettings},
		{pattern: "*.dbtmp", want: aFile},
		{pattern: "logs.mark", want: aFile},
	}
)

const storeName = "store"

// Look looks at all names in the folder of a database, without opening what has them. It returns
// an error that names the first one which belongs to something else than it may: a link, a pipe, a
// device, a folder in the place of a file, or a file that is larger than any can be. A folder that
// is missing has no names. Links within other file systems than the operating system's there are
// none.
func Look(files vfs.FS, dir string) error {
	if vfs.Root(files) != vfs.Default {
		return nil
	}
	if err := lookAt(dir, folderNames); err != nil {
		return err
	}
	return lookAt(filepath.Join(dir, storeName), storeNames)
}

func lookAt(dir string, rules []rule) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // who opens the folder meets it, too, and says what it means
	}
	for _, e := range entries {
		for _, r := range rules {
			if ok, _ := path.Match(r.pattern, e.Name()); !ok {
				continue
			}
			if err := r.fits(e); err != nil {
				return fmt.Errorf("%s %w", filepath.Join(dir, e.Name()), err)
			}
			break
		}
	}
	return nil
}

// fits says what is wrong with what has a name.
func (r rule) fits(e fs.DirEntry) error {
	if is := e.Type(); is != r.want {
		return fmt.Errorf("is %s, not %s", kindOf(is), kindOf(r.want))
	}
	if r.most == 0 {
		return nil
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a program that has the database open has removed it
	}
	if err == nil && info.Size() > r.most {
		err = fmt.Errorf("has %d bytes, more than any such file can have", info.Size())
	}
	return err
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode == aFile:
		return "a regular file"
	case mode == aFolder:
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "something else"
}

// Wide returns the mode of a folder that others than its owner may read, enter or write.
func Wide(files vfs.FS, dir string) (mode fs.FileMode, wide bool) {
	if vfs.Root(files) != vfs.Default || !hasModes {
		return 0, false
	}
	info, err := os.Stat(dir)
	if err != nil {
		return 0, false
	}
	mode = info.Mode().Perm()
	return mode, mode&^folderMode != 0
}
