package cli

import (
	"cmp"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A tempFile is what becomes a file of the user once it is whole. Where the system can make files without a name, it has
// none until then, and a killed program leaves nothing. Elsewhere it is beside the file, locked while it is written, and
// the next tempFile for the same name removes it.
type tempFile struct {
	*os.File
	path    string // of the file that it becomes
	unnamed bool
}

const tempSuffix = ".part"

// tempName is what is between the name of a file and tempSuffix.
var tempName = regexp.MustCompile(`^\.[A-Z2-7]{8}$`)

func newTempFile(path string, perm fs.FileMode) (*tempFile, error) {
	dir, _ := filepath.Split(path)
	removeLeft(path)
	if f, err := unnamedFile(dir, perm); err == nil {
		return &tempFile{File: f, path: path, unnamed: true}, nil
	}
	f, err := os.OpenFile(nextTemp(path), os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	claim(f)
	return &tempFile{File: f, path: path}, nil
}

func nextTemp(path string) string { return path + "." + rand.Text()[:8] + tempSuffix }

// removeLeft removes what killed programs left of a file. What cannot be removed stays.
func removeLeft(path string) {
	dir, base := filepath.Split(path)
	names, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return
	}
	for _, e := range names {
		middle, isTemp := strings.CutSuffix(e.Name(), tempSuffix)
		middle, ofPath := strings.CutPrefix(middle, base)
		if !isTemp || !ofPath || !tempName.MatchString(middle) || !e.Type().IsRegular() {
			continue
		}
		if f, err := os.OpenFile(dir+e.Name(), os.O_RDWR, 0); err == nil {
			left := claim(f)
			_ = f.Close() // it was only locked
			if left {
				_ = os.Remove(dir + e.Name())
			}
		}
	}
}

// keep syncs and closes the file, and gives it its name if ready has nothing against it. The file is gone where that fails.
func (t *tempFile) keep(ready func() error) error {
	err := t.Sync()
	temp := t.Name()
	if err == nil && t.unnamed {
		temp = nextTemp(t.path)
		err = nameFile(t.File, temp)
	}
	if err = cmp.Or(err, t.Close()); err == nil {
		err = ready()
	}
	if err == nil {
		if err = os.Rename(temp, t.path); err == nil {
			return nil
		}
	}
	_ = os.Remove(temp) // it may have no name yet
	return err
}

// drop closes and removes the file.
func (t *tempFile) drop() error {
	if err := t.Close(); err != nil || t.unnamed {
		return err
	}
	return os.Remove(t.Name())
}
