package fsys

import (
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ReadFile returns what a file holds that belongs to a user, not to a database, such as a
// configuration. A file of more than most bytes is an error.
func ReadFile(name string, most int64) (b []byte, err error) {
	f, err := vfs.Default.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if failed := f.Close(); err == nil {
			err = failed
		}
	}()
	b, err = io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, fmt.Errorf("%s holds more than %d bytes", name, most)
	}
	return b, err
}
