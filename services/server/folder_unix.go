//go:build unix

package server

import (
	"errors"
	"os"
)

// syncFolder has the names of a folder on the disk.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
