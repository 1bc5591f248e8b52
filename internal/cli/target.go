package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// A target is what an export writes to. A file gets its name at the end, so that there is
// never half an export under its name. A device or a
// pipe is written as it is: a rename would put a file in its place.
type target struct {
	ctx   context.Context
	name  string // as it was given, which errors tell
	force bool
	file  *os.File
	temp  *tempFile // what a file is until it is whole, nil for a device or a pipe
}

func openTarget(ctx context.Context, name string, force bool) (*target, error) {
	t := &target{ctx: ctx, name: name, force: force}
	info, err := os.Stat(name)
	switch {
	case name == "":
		return nil, &memory.Error{Kind: memory.ErrInvalid, What: "export", Why: "the name of the file is empty", Do: "give one, or - for the output"}
	case errors.Is(err, fs.ErrNotExist):
		return t, t.create(nil)
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &memory.Error{Kind: memory.ErrInvalid, What: t.doing(), Why: "it is a folder", Do: "name a file"}
	case !info.Mode().IsRegular():
		return t, t.open()
	case !force:
		return nil, t.exists()
	}
	return t, t.create(info)
}

func (t *target) doing() string { return "export to " + t.name }

func (t *target) exists() error {
	return &memory.Error{Kind: memory.ErrExists, What: t.doing(), Why: "the file is there", Do: "name another file, or replace it with --force"}
}

// create makes the file that takes the place of the old one, if there is one. It gets
// the mode of that, and never a wider one.
func (t *target) create(old fs.FileInfo) error {
	path, err := followLinks(t.name)
	if err != nil {
		return t.named(err)
	}
	perm := fs.FileMode(0o600) // a new one is as private as the database
	if old != nil {
		perm = old.Mode().Perm()
	}
	if t.temp, err = newTempFile(path, perm); err != nil {
		return t.named(err)
	}
	if t.file = t.temp.File; old == nil {
		return nil
	}
	if err := t.file.Chmod(perm); err != nil { // which the umask has narrowed
		return t.end(t.named(err))
	}
	return nil
}

// open opens a device or a pipe. That waits for the one who reads it, as writes do,
// and ends with the context: what still waits then ends with the program.
func (t *target) open() error {
	opened := make(chan error, 1)
	go func() {
		file, err := os.OpenFile(t.name, os.O_WRONLY, 0)
		t.file = file
		opened <- err
	}()
	select {
	case <-t.ctx.Done():
		return t.ctx.Err()
	case err := <-opened:
		if err == nil {
			context.AfterFunc(t.ctx, func() { _ = t.file.SetWriteDeadline(time.Unix(1, 0)) })
		}
		return err
	}
}

// followLinks is the name at the end of the links that begin at one, whether there
// is a file of that name or not.
func followLinks(name string) (string, error) {
	const most = 255 // as many as any system follows
	for range most {
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		to, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(name)
			to = dir + to // not Join: ".." counts from where a linked folder is
		}
		name = to
	}
	return "", &fs.PathError{Op: "readlink", Path: name, Err: errors.New("too many links")}
}

// Write ends with the context.
func (t *target) Write(p []byte) (int, error) {
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := t.file.Write(p)
	if err != nil {
		err = cmp.Or(t.ctx.Err(), t.named(err))
	}
	return n, err
}

// end keeps what was written, or takes it back where there is an error. It does not replace a
// file that came up meanwhile.
func (t *target) end(err error) error {
	switch {
	case t.temp == nil:
		return cmp.Or(err, t.named(t.file.Close()))
	case err != nil:
		return errors.Join(err, t.temp.drop())
	}
	return t.named(t.temp.keep(func() error {
		if _, err := os.Lstat(t.temp.path); err == nil && !t.force {
			return t.exists()
		}
		return nil
	}))
}

// named is an error of the file with the name that was given.
func (t *target) named(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: of.Op, Path: t.name, Err: of.Err}
	}
	if of, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: of.Op, Path: t.name, Err: of.Err}
	}
	return err
}
