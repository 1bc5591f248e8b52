package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// unnamedFile makes a file without a name, which is gone with the program that has it open. The error is
// errors.ErrUnsupported where the file system has none, or cannot give them a name later.
func unnamedFile(dir string, perm fs.FileMode) (*os.File, error) {
	if dir == "" {
		dir = "."
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, uint32(perm))
	if err != nil {
		return nil, errors.Join(errors.ErrUnsupported, err)
	}
	f := os.NewFile(uintptr(fd), filepath.Join(dir, "(no name)"))
	if _, err := os.Stat(procName(f)); err != nil { // /proc is not mounted
		return nil, errors.Join(errors.ErrUnsupported, err, f.Close())
	}
	return f, nil
}

func procName(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// nameFile gives a file without a name one.
func nameFile(f *os.File, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, procName(f), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &os.LinkError{Op: "link", Old: f.Name(), New: name, Err: err}
	}
	return nil
}
