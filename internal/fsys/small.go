package fsys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNoFile is that a name in a folder leads to what is no regular file: a link, a pipe, a device or
// a folder. Somebody else may have put it there.
var ErrNoFile = errors.New("it is no regular file")

// ReadSmall returns what a small file holds that somebody else may have made. It follows no link,
// waits for no pipe, and reads no more than most bytes: a longer file is an error.
func ReadSmall(name string, most int64) (b []byte, err error) {
	f, err := openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err = io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, fmt.Errorf("%s holds more than %d bytes", name, most)
	}
	return b, err
}

// openRegular opens what has a name where it is a regular file.
func openRegular(name string, flag int) (*os.File, error) {
	if _, err := regular(name); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, flag|noFollow, fileMode)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // it was exchanged since
		return nil, errors.Join(err, &fs.PathError{Op: "open", Path: name, Err: ErrNoFile}, f.Close())
	}
	return f, nil
}

// WriteSmall writes a small file that its owner alone can read, in one step: under another name
// first, so that a link at its place is replaced and not followed.
func WriteSmall(dir, name string, b []byte) (err error) {
	f, err := os.CreateTemp(dir, name+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // what failed is told
		}
	}()
	if _, err = f.Write(b); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), dir+string(os.PathSeparator)+name)
}
