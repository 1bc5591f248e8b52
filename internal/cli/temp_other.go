//go:build !linux

package cli

import (
	"errors"
	"io/fs"
	"os"
)

// unnamedFile does nothing: only Linux has files without a name that can be given one.
func unnamedFile(string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func nameFile(*os.File, string) error { return errors.ErrUnsupported }
