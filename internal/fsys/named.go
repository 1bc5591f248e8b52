package fsys

import (
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// named are file systems that were given a name for one Open.
var named struct {
	mu    sync.Mutex
	next  int
	files map[string]vfs.FS
}

// namedPrefix begins what no path can be: paths have no NUL.
const namedPrefix = "\x00"

// On returns a name by which engine.Open opens a folder of another file system than the
// operating system's, once. Tests and benchmarks of whole databases use it; the options of a
// database name no file system, so that its users need to know none.
func On(files vfs.FS, dir string) string {
	named.mu.Lock()
	defer named.mu.Unlock()
	if named.files == nil {
		named.files = map[string]vfs.FS{}
	}
	named.next++
	name := namedPrefix + strconv.Itoa(named.next)
	named.files[name] = files
	return name + namedPrefix + dir
}

// Named returns the file system and the folder that a name of On stands for, and ends the
// name. Any other name is a folder of the operating system's.
func Named(dir string) (vfs.FS, string) {
	rest, ok := strings.CutPrefix(dir, namedPrefix)
	if !ok {
		return Disk, dir
	}
	number, folder, _ := strings.Cut(rest, namedPrefix)
	named.mu.Lock()
	defer named.mu.Unlock()
	files := named.files[namedPrefix+number]
	delete(named.files, namedPrefix+number)
	if files == nil {
		return Disk, dir
	}
	return files, folder
}
