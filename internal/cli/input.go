package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// openInput opens a file, or the input for "-".
func (a *app) openInput(ctx context.Context, name string) (io.ReadCloser, error) {
	switch name {
	case "":
		return nil, errors.New("the name of the file is empty; give one, or - for the input")
	case "-":
		return a.input(ctx), nil
	}
	in, err := a.openFile(ctx, name)
	if err != nil {
		return nil, err
	}
	return a.heard(in), nil
}

// openFile opens a file that is not the input.
func (a *app) openFile(ctx context.Context, name string) (io.ReadCloser, error) {
	if a.remote != nil {
		return a.sentFile(ctx, name)
	}
	path, err := a.path(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		done(f)
		return nil, inputError(name, errors.New("it is a folder; name a file"))
	}
	return f, nil
}

// done closes what was only read: its error would tell nothing.
func done(c io.Closer) { _ = c.Close() }

// input is the standard input, whose reads end with the context: one that waits
// for a person or a pipe would not hear of an interrupt.
func (a *app) input(ctx context.Context) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, a.in)
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return a.heard(r)
}

// readText is the text that the arguments are, joined by blanks, or that the
// input is for the argument "-".
func (a *app) readText(ctx context.Context, args []string) (string, error) {
	if len(args) != 1 || args[0] != "-" {
		return strings.Join(args, " "), nil
	}
	return a.readBounded(ctx, "the text", memory.MaxText, "split it into several memories")
}

// readBounded is the input without the newline at its end. More than the limit is
// refused with what to do, and not read.
func (a *app) readBounded(ctx context.Context, what string, limit int, do string) (string, error) {
	in := a.input(ctx)
	defer done(in)
	const newline = 2 // which is not part of it
	b, err := io.ReadAll(io.LimitReader(in, int64(limit)+newline+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	if len(b) > limit+newline {
		return "", &memory.Error{
			Kind: memory.ErrInvalid, What: "read " + what, Why: "it is longer than the limit of " + number(limit) + " bytes",
			Do: do,
		}
	}
	s := strings.TrimSuffix(string(b), "\n")
	return strings.TrimSuffix(s, "\r"), nil
}
