package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// moveInput is a file or folder that an import reads.
type moveInput struct {
	move.Input
	file io.Reader // that of Reader
	open []io.Closer
}

// Close closes what was only read.
func (i *moveInput) Close() error {
	for _, c := range i.open {
		done(c)
	}
	return nil
}

// openMove opens what an import reads: a file, a folder for the formats that have one, or the
// input for "-".
func (a *app) openMove(ctx context.Context, name, format string) (*moveInput, error) {
	in := &moveInput{Input: move.Input{Name: name}}
	if a.remote == nil && name != "-" && (format == formatAuto || move.Format(format).HasFolders()) {
		path, err := a.path(name)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return in, in.openFolder(path, format)
		}
	}
	file, err := a.openInput(ctx, name)
	if err != nil {
		return nil, err
	}
	in.file, in.open = file, []io.Closer{file}
	in.Reader = bufio.NewReaderSize(file, headSize)
	if f, ok := file.(*os.File); ok && sizeOf(f) > 0 {
		in.File, in.Size = f, sizeOf(f)
		in.Beside = func(ending string) (io.ReaderAt, int64, error) { return in.openBeside(f.Name() + ending) }
	}
	if slices.Contains(ownFormats, format) && format != formatJSON {
		return in, nil
	}
	unzipped, err := in.Unzip()
	if err == nil && in.Folder != nil && format != formatAuto && format != string(move.Markdown) {
		err = fmt.Errorf("the archive holds Markdown files, and the format is %s; leave the format out", format)
	}
	if err != nil {
		done(in)
		return nil, inputError(name, err)
	}
	if unzipped != nil {
		in.file, in.open = in.Reader, append(in.open, unzipped)
	}
	return in, nil
}

// openFolder opens a folder, out of which no name leads. Without a format it must have a Markdown
// file: a folder that somebody names by mistake is imported in no form.
func (i *moveInput) openFolder(path, format string) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	i.Folder, i.open = root.FS(), []io.Closer{root}
	if format != formatAuto {
		return nil
	}
	found := errors.New("found")
	err = fs.WalkDir(i.Folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.EqualFold(filepath.Ext(name), ".md") {
			return found
		}
		return nil // what cannot be read is said later on
	})
	if !errors.Is(err, found) {
		done(root)
		return inputError(path, errors.New("it is a folder; name a file, or a folder of Markdown files"))
	}
	return nil
}

// openBeside opens a file that lies beside another, unless it is a link or no file.
func (i *moveInput) openBeside(path string) (io.ReaderAt, int64, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is no regular file")}
	}
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	i.open = append(i.open, f)
	return f, sizeOf(f), nil
}

// guess is the format by how the input begins, and by its name.
func (i *moveInput) guess(name string) (string, error) {
	if f, ok := move.Recognise(&i.Input); ok {
		return string(f), nil
	}
	if err := i.Unknown(); err != nil {
		return "", err
	}
	return guessFormat(name, i.Reader), nil
}

// isOwn reports whether memdb itself or a benchmark writes the form. A list of JSON may be one or
// the other, which its first record tells.
func (i *moveInput) isOwn(format string) bool {
	if format != formatJSON {
		return slices.Contains(ownFormats, format)
	}
	at, c := nextByte(i.Reader, 0)
	if c == '[' {
		at, c = nextByte(i.Reader, at+1)
	}
	switch c {
	case '{':
		object := objectAt(i.Reader, at)
		return object == nil || exchange.IsRecord(object)
	case '"':
		return false
	}
	return true // it is empty, or malformed
}

// moveIn imports what another program keeps.
func (a *app) moveIn(cmd *cobra.Command, name string, in *moveInput, o importing) error {
	ctx := cmd.Context()
	if err := in.lockShared(); err != nil {
		return inputError(name, err)
	}
	items := move.Read(move.Format(o.format), &in.Input, &move.Options{Scope: o.Scope, Zone: o.zone})
	nobody := o.Scope == (memory.Scope{})
	if nobody {
		o.Scope = move.Format(o.format).Owner()
	}
	if o.dryRun {
		return a.preview(ctx, name, items.All(ctx), &o, items.LeftOut())
	}
	start := a.now()
	all, stop, err := begin(items.All(ctx))
	defer stop()
	if err != nil { // what can't be read makes no database
		return fmt.Errorf("import %s: %w", name, err)
	}
	if nobody && o.IntoAgent == "" {
		a.note("%s: what names no owner is stored for the %s; --user and --agent name another", name, ownerWords(o.Scope))
	}
	bar := &progress{app: a, name: filepath.Base(name), size: in.Size}
	o.Progress = bar.show
	return a.create(ctx, nil, func(db *engine.DB) error {
		report, err := exchange.ImportItems(ctx, db, a.ownSpace(ctx, db, o.format, all), &o.Options)
		took := importTimes{storing: a.now().Sub(start)}
		if err == nil {
			took.linking, err = bar.link(ctx, db)
		}
		bar.clear()
		return a.printReport(name, importResult{report, o.format, items.LeftOut(), took}, o.skipBad, err)
	})
}

// begin reads the first item, and returns all of them. An error in its place is one of the input.
func begin(items iter.Seq2[exchange.Item, error]) (all iter.Seq2[exchange.Item, error], stop func(), err error) {
	next, stop := iter.Pull2(items)
	item, err, more := next()
	return func(yield func(exchange.Item, error) bool) {
		for ; more; item, err, more = next() {
			if !yield(item, err) {
				return
			}
		}
	}, stop, err
}

// ownerWords names a user or an agent.
func ownerWords(s memory.Scope) string {
	if s.User != "" {
		return fmt.Sprintf("user %q", s.User)
	}
	return fmt.Sprintf("agent %q", s.Agent)
}

// ownSpace puts vectors of other models into a space of their own, named after the format, where
// the default space is that of a model, or has another dimension: there they would be compared
// with vectors that mean something else.
func (a *app) ownSpace(ctx context.Context, db *engine.DB, format string, items iter.Seq2[exchange.Item, error]) iter.Seq2[exchange.Item, error] {
	return func(yield func(exchange.Item, error) bool) {
		decided, own := false, false
		for item, err := range items {
			if m := item.Memory; err == nil && m != nil && m.Embedding != nil {
				if !decided {
					decided = true
					if own, err = takenSpace(ctx, db, len(m.Embedding)); own {
						a.note("vectors go to the space %s: the default one is that of a model, or has another dimension", format)
					}
				}
				if own {
					if m.Vectors == nil {
						m.Vectors = map[string][]float32{}
					}
					m.Vectors[format], m.Embedding = m.Embedding, nil
				}
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// takenSpace reports whether vectors of a dimension have no place in the default space.
func takenSpace(ctx context.Context, db *engine.DB, dim int) (bool, error) {
	if db.VectorModel().Model != "" {
		return true, nil
	}
	stats, err := db.Stats(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(stats.Spaces, func(s engine.SpaceInfo) bool {
		return s.Name == "default" && (s.Dim != dim || s.Model != "")
	}), nil
}

// ownItems are the items of a form of memdb's own, for a dry run.
func ownItems(in io.Reader, format string) iter.Seq2[exchange.Item, error] {
	switch format {
	case formatLocomo:
		return exchange.LocomoItems(in)
	case formatJSONL, formatJSON:
		return exchange.Lines(in, format == formatJSON)
	}
	return exchange.VectorItems(in, exchange.Rows(format))
}

// preview tells what an import would read, and stores nothing.
func (a *app) preview(ctx context.Context, name string, items iter.Seq2[exchange.Item, error], o *importing, left map[string]int) error {
	start := a.now()
	bar := &progress{app: a, name: filepath.Base(name)}
	n := 0
	p, err := exchange.DryRun(ctx, func(yield func(exchange.Item, error) bool) {
		for item, err := range items {
			n++
			bar.say("%s: %s read", bar.name, number(n))
			if !yield(item, err) {
				return
			}
		}
	}, &o.Options)
	bar.clear()
	a.warnSkipped(name, exchange.Report{Errors: p.Errors, Skipped: p.Skipped}, err)
	if failed := a.printPreview(p, o.format, left, a.now().Sub(start)); failed != nil {
		return failed
	}
	switch {
	case err != nil:
		return fmt.Errorf("import %s: %w", name, err)
	case p.Skipped > 0 && !o.skipBad:
		return fmt.Errorf("import %s: %s of %s records cannot be read; mend them, or leave them out with --skip-bad", name, number(p.Skipped), number(p.Read))
	}
	return nil
}

func (a *app) printPreview(p exchange.Preview, format string, left map[string]int, took time.Duration) error {
	if left == nil {
		left = map[string]int{}
	}
	if a.json {
		for _, s := range p.Samples {
			if err := a.printJSON(map[string]any{"kind": s.Kind, "sample": s.Line}); err != nil {
				return err
			}
		}
		return a.printJSON(exchange.Imported{
			Format: format, DryRun: true, Kinds: p.Kinds, Read: p.Read, Skipped: p.Skipped, Imported: map[string]int{},
			Errors: skippedLines(p.Errors), LeftOut: left, Seconds: took.Seconds(),
		})
	}
	for _, kind := range memoriesFirst(p.Kinds) {
		a.printf("%s\n", a.bold(countOf(kind, p.Kinds[kind])))
		for _, s := range p.Samples {
			if s.Kind != kind {
				continue
			}
			line := escape(compactJSON(s.Line))
			if r, ok := s.Line.(exchange.Record); ok {
				line = escape(strings.TrimSpace(r.Text))
			}
			a.printf("    %s\n", cut(line, max(a.outWidth, 80)-5))
		}
	}
	a.printf("%s: read %s, of which %s cannot be read; nothing was stored\n", format, count(p.Read, "record", "records"), number(p.Skipped))
	a.printLeft(left)
	return nil
}

func skippedLines(errs []exchange.LineError) []exchange.Skipped {
	out := []exchange.Skipped{}
	for _, e := range errs {
		out = append(out, exchange.Skipped{Line: e.Line, ID: e.ID, Error: inWords(e.Err)})
	}
	return out
}

// printLeft says what has no place here.
func (a *app) printLeft(left map[string]int) {
	if len(left) == 0 {
		return
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(left)) {
		parts = append(parts, number(left[what])+" "+escape(what))
	}
	a.printf("left out: %s\n", strings.Join(parts, "; "))
}

// parseZone reads the name of a time zone, or an offset from UTC.
func parseZone(s string) (*time.Location, error) {
	for _, layout := range []string{"Z07:00", "Z0700", "Z07"} {
		if t, err := time.Parse(layout, s); err == nil {
			_, offset := t.Zone()
			return time.FixedZone(s, offset), nil
		}
	}
	zone, err := time.LoadLocation(s)
	if err != nil || s == "" || bytes.ContainsAny([]byte(s), "\\") {
		return nil, fmt.Errorf("%q is no time zone; give one as Europe/Amsterdam, UTC or +02:00", s)
	}
	return zone, nil
}
