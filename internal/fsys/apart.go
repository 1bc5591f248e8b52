package fsys

import "strings"

// SetApart names a folder whose files are none of the database, whatever they are called: a copy
// of the store that is made for a backup. A change there that fails is told to who makes it, and
// freezes nothing; it never takes the last free space.
func (f *FS) SetApart(dir string) { f.apart.Store(&dir) }

func (f *FS) isApart(path string) bool {
	dir := f.apart.Load()
	return dir != nil && strings.HasPrefix(path, *dir)
}
