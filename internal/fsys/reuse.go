package fsys

import (
	"errors"
	iofs "io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logFiles are the files of logs that Pebble keeps to write over them: what was in one stays
// behind the end of the log that is written there next.
type logFiles struct {
	mu    sync.Mutex // held while a file gets another name, or is removed for what it holds
	fresh bool
}

// FreshLogs says whether each log that is begun gets a file of its own from now on, in which
// nothing of an earlier log is. The file that it would have been written over is removed.
func (f *FS) FreshLogs(fresh bool) {
	f.logFiles.mu.Lock()
	defer f.logFiles.mu.Unlock()
	f.logFiles.fresh = fresh
}

// reuse makes the file of an old log that of a new one. The old one may have been dropped.
func (f *FS) reuse(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.logFiles.mu.Lock()
	defer f.logFiles.mu.Unlock()
	if !f.logFiles.fresh {
		file, err := f.base.ReuseForWrite(oldname, newname, category)
		if !errors.Is(err, iofs.ErrNotExist) {
			return file, err
		}
	}
	if err := f.base.Remove(oldname); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return nil, err
	}
	return f.base.Create(newname, category)
}

// DropLogs removes the logs of a folder whose numbers are below one: all that they hold is in
// tables.
func (f *FS) DropLogs(dir string, below uint64) error {
	f.logFiles.mu.Lock()
	defer f.logFiles.mu.Unlock()
	names, err := f.base.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		digits, is := strings.CutSuffix(name, ".log")
		num, err := strconv.ParseUint(digits, 10, 64)
		if !is || err != nil || num >= below {
			continue
		}
		path := f.base.PathJoin(dir, name)
		err = f.guard("remove", path, plain, func() error { return f.base.Remove(path) })
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
	}
	return nil
}
