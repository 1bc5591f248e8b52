package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// moving is an export in the form of another program.
type moving struct {
	format string
	force  bool
	opts   *exchange.ExportOptions
}

// moveOut exports in a form that is not memdb's own.
func (a *app) moveOut(ctx context.Context, db *engine.DB, name string, m *moving) error {
	switch {
	case m.format == string(move.MCP) && (name == "-" || a.isOutput(name)):
		moved, err := move.ExportMCP(ctx, db, a.stdout, m.opts)
		return cmp.Or(err, lostError(moved.ExportReport))
	case m.format == string(move.MCP):
		file, err := a.createFile(ctx, name, m.force)
		if err != nil {
			return err
		}
		moved, err := move.ExportMCP(ctx, db, file, m.opts)
		return a.printMoved(moved, file.end(err))
	case name == "-" || a.remote != nil:
		return &memory.Error{
			Kind: memory.ErrInvalid, What: "export to " + name, Why: "the form " + m.format + " is written to a disk of the machine that has the database, and to no pipe",
			Do: "name a file there, or export jsonl, import that on your machine and export it again",
		}
	}
	dest, err := a.path(name)
	if err != nil {
		return err
	}
	if m.format == formatSQLite {
		t, err := openTarget(ctx, dest, m.force)
		if err != nil {
			return err
		}
		if t.temp == nil {
			return t.end(&memory.Error{Kind: memory.ErrInvalid, What: t.doing(), Why: "it is a pipe or a device", Do: "name a file"})
		}
		moved, err := move.ExportSQLite(ctx, db, t, m.opts)
		return a.printMoved(moved, t.end(err))
	}
	f, err := openPages(ctx, dest, m)
	if err != nil {
		return err
	}
	moved, err := move.ExportMarkdown(ctx, db, f.write, m.opts)
	return a.printMoved(moved, f.end(err))
}

// printMoved tells what was exported, and what was not.
func (a *app) printMoved(m move.Moved, err error) error {
	if err != nil {
		return err
	}
	if a.json {
		out := exchange.NewExported(m.ExportReport)
		out.Memories, out.Events, out.Entries = m.Written[exchange.TypeMemory], m.Written[exchange.TypeHistory], m.Written[entries.TypeLine]
		out.Lines = maps.Clone(m.Written)
		delete(out.Lines, exchange.TypeMemory)
		delete(out.Lines, exchange.TypeHistory)
		out.LeftOut = m.LeftOut
		if err := a.printJSON(out); err != nil {
			return err
		}
		return lostError(m.ExportReport)
	}
	var parts []string
	for _, typ := range memoriesFirst(m.Written) {
		parts = append(parts, countOf(typ, m.Written[typ]))
	}
	if len(parts) == 0 {
		parts = []string{countOf(exchange.TypeMemory, 0)}
	}
	a.printf("exported %s\n", strings.Join(parts, ", "))
	var left []string
	for _, typ := range slices.Sorted(maps.Keys(m.LeftOut)) {
		left = append(left, countOf(typ, m.LeftOut[typ]))
	}
	if len(left) > 0 {
		a.printf("left out: %s\n", strings.Join(left, ", "))
	}
	return lostError(m.ExportReport)
}

// WriteAt ends with the context.
func (t *target) WriteAt(p []byte, at int64) (int, error) {
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := t.file.WriteAt(p, at)
	return n, t.named(err)
}

// ReadAt reads back what was written, which SQLite does with pages that it changes again.
func (t *target) ReadAt(p []byte, at int64) (int, error) { return t.file.ReadAt(p, at) }

// Truncate cuts the file.
func (t *target) Truncate(size int64) error { return t.named(t.file.Truncate(size)) }

// A pageFolder is a folder of Markdown files that an export writes or brings up to date. What was
// exported stands in a file of it: only where that is the same are files taken away whose
// memories are gone.
type pageFolder struct {
	ctx     context.Context
	name    string
	root    *os.Root
	written map[string]bool
	about   []byte
	same    bool
}

// openPages opens or makes the folder. One that has something in it needs --force.
func openPages(ctx context.Context, name string, m *moving) (*pageFolder, error) {
	doing := "export to " + name
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(name, 0o700) // as private as the database
	case err == nil && !info.IsDir():
		err = &memory.Error{Kind: memory.ErrInvalid, What: doing, Why: "it is a file", Do: "name a folder"}
	}
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	f := &pageFolder{ctx: ctx, name: name, root: root, written: map[string]bool{}}
	there, err := fs.ReadDir(root.FS(), ".")
	seen := slices.ContainsFunc(there, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), ".") || e.Name() == move.AboutPages })
	if err == nil && seen && !m.force {
		err = &memory.Error{Kind: memory.ErrExists, What: doing, Why: "there are files in the folder", Do: "name another folder, or bring this one up to date with --force"}
	}
	if err == nil {
		f.about, err = json.Marshal(map[string]any{"memdb": 1, "user": m.opts.Scope.User, "agent": m.opts.Scope.Agent, "run": m.opts.Scope.Run, "filter": m.opts.Filter != nil})
	}
	if err != nil {
		done(root)
		return nil, err
	}
	had, _ := f.read(move.AboutPages)
	f.about = append(f.about, '\n')
	f.same = bytes.Equal(had, f.about) && m.opts.Filter == nil
	return f, nil
}

// read is what a regular file has, nil where there is none.
func (f *pageFolder) read(name string) ([]byte, error) {
	info, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "write", Path: path.Join(f.name, name), Err: errors.New("it is no regular file")}
	}
	if err != nil {
		return nil, err
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer done(file)
	return io.ReadAll(file)
}

// write writes a file, unless it is there with the same text, and sets when it was changed. A
// reader sees the old text or the new one.
func (f *pageFolder) write(name string, text []byte, changed time.Time) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	f.written[name] = true
	had, err := f.read(name)
	if err == nil && (had == nil || !bytes.Equal(had, text)) {
		err = f.replace(name, text)
	}
	if err != nil || changed.IsZero() {
		return err
	}
	return f.root.Chtimes(name, changed, changed)
}

// replace writes a file that is not there, or with another text.
func (f *pageFolder) replace(name string, text []byte) error {
	if dir := path.Dir(name); dir != "." {
		if err := f.root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	temp := nextTemp(name)
	file, err := f.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = cmp.Or(err, file.Close())
	if err == nil {
		err = f.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, f.root.Remove(temp))
	}
	return nil
}

// end takes away files of memories that are gone, and says what the folder is an export of.
func (f *pageFolder) end(err error) error {
	defer done(f.root)
	if err == nil && f.same {
		err = fs.WalkDir(f.root.FS(), ".", f.sweep)
	}
	if err != nil {
		return err
	}
	return f.write(move.AboutPages, f.about, time.Time{})
}

// leftPage matches what a page is written to before it gets its name.
var leftPage = regexp.MustCompile(`\.md\.[A-Z2-7]{8}\.part$`)

// sweep removes a file that an export wrote, and this one did not.
func (f *pageFolder) sweep(name string, d fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
		return fs.SkipDir
	case d.Type().IsRegular() && leftPage.MatchString(name): // of an export that was killed
		return f.root.Remove(name)
	case !d.Type().IsRegular() || f.written[name] || path.Ext(name) != ".md":
		return f.ctx.Err()
	}
	file, err := f.root.Open(name)
	if err != nil {
		return err
	}
	head := make([]byte, len(move.OwnHead))
	n, _ := io.ReadFull(file, head) // a shorter file is none of an export
	done(file)
	if string(head[:n]) != move.OwnHead {
		return nil
	}
	return f.root.Remove(name)
}
