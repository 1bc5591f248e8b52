package fsys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Overlap reports whether one of two folders is the other or lies in it, behind all links. Folders
// that do not exist yet lie where they would be made.
func Overlap(aFiles vfs.FS, a string, bFiles vfs.FS, b string) (bool, error) {
	onDisk := vfs.Root(aFiles) == vfs.Default
	if onDisk != (vfs.Root(bFiles) == vfs.Default) {
		return false, nil
	}
	if !onDisk {
		if vfs.Root(aFiles) != vfs.Root(bFiles) {
			return false, nil
		}
		in := func(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
		return in(a, b) || in(b, a), nil
	}
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		if in, err := liesIn(pair[0], pair[1]); in || err != nil {
			return in, err
		}
	}
	return false, nil
}

// liesIn reports whether a path is that of a folder, or of something in it.
func liesIn(path, dir string) (bool, error) {
	of, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // nothing is in what is not there
	}
	if err != nil {
		return false, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return false, err
	}
	for {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = resolved // from here on, what is above is what the system takes for it
		}
		info, err := os.Stat(path)
		if err == nil && os.SameFile(info, of) {
			return true, nil
		}
		above := filepath.Dir(path)
		if above == path {
			return false, nil
		}
		path = above
	}
}
