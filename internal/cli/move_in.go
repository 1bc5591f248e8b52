package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
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

// openMove opens what an import reads: a file, a folder, or the input for "-". What is compressed or
// archived is opened as what is in it.
func (a *app) openMove(ctx context.Context, name, format string) (*moveInput, error) {
	in := &moveInput{Input: move.Input{Name: name}}
	err := a.openFileOrFolder(ctx, in)
	if err != nil {
		return nil, err
	}
	var unpacked io.Closer
	if !move.Format(format).HasFolders() || in.Folder == nil {
		unpacked, err = in.Unpack()
	}
	if unpacked != nil {
		in.open = append(in.open, unpacked)
	}
	if err == nil && in.Reader == nil && slices.Contains(ownFormats, format) && format != formatJSON {
		err = fmt.Errorf("it has several files, and the format %s is one of one file; name that file", format)
	}
	if err != nil {
		done(in)
		return nil, inputError(name, err)
	}
	if unpacked != nil {
		in.file = in.Reader
	}
	return in, nil
}

// openFileOrFolder opens a file, or a folder out of which no name leads.
func (a *app) openFileOrFolder(ctx context.Context, in *moveInput) error {
	if a.remote == nil && in.Name != "-" {
		path, err := a.path(in.Name)
		if err != nil {
			return err
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			root, err := os.OpenRoot(path)
			if err != nil {
				return err
			}
			in.Folder, in.open = root.FS(), []io.Closer{root}
			return nil
		}
	}
	file, err := a.openInput(ctx, in.Name)
	if err != nil {
		return err
	}
	in.file, in.open = file, []io.Closer{file}
	in.Reader = bufio.NewReaderSize(file, headSize)
	if f, ok := file.(*os.File); ok && sizeOf(f) > 0 {
		in.File, in.Size = f, sizeOf(f)
		in.Beside = func(ending string) (io.ReaderAt, int64, error) { return in.openBeside(f.Name() + ending) }
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
func (i *moveInput) guess(ctx context.Context, name string) (string, error) {
	f, ok, err := move.Recognise(ctx, &i.Input)
	if ok || err != nil {
		return string(f), err
	}
	if err := i.Unknown(); err != nil {
		return "", err
	}
	return guessFormat(name, i.Reader), nil
}

// isVectors reports whether a form has vectors alone.
func isVectors(format string) bool { return format == formatFbin || format == formatU8bin }

// moveIn imports records: those of memdb's own, and of other programs.
func (a *app) moveIn(cmd *cobra.Command, name string, in *moveInput, o importing) error {
	ctx := cmd.Context()
	if err := in.lockShared(); err != nil {
		return inputError(name, err)
	}
	format := move.Format(o.format)
	owner := format.Owner()
	o.Source, o.Zone = owner.Agent, a.zone
	var options *engine.Options
	if o.format == formatJSONL || o.format == formatJSON {
		// Another database keeps its own settings, and the report says what differs.
		if d := headOf(in.Reader); d != nil {
			options = d.Options()
		}
	}
	items := move.Read(format, &in.Input, &move.Options{Into: o.Options, Zone: a.zone, Map: o.fields, Table: o.table})
	all, stop, err := begin(items.All(ctx))
	defer stop()
	if err != nil { // what can't be read makes no database
		return fmt.Errorf("import %s: %w", name, err)
	}
	job := &importJob{app: a, name: name, size: in.Size, importing: o}
	return job.run(ctx, options, func(db *engine.DB, o *exchange.Options) (exchange.Report, error) {
		report, err := exchange.ImportItems(ctx, db, a.ownSpace(ctx, db, job.importing.format, all), o)
		items.Tell(&report)
		if items.Nobodys() {
			a.note("%s: what names no owner is stored for the %s; --user and --agent name another", name, ownerWords(owner))
		}
		return report, err
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

// printSamples shows the first records of each kind, and whose they are.
func (a *app) printSamples(r *importResult) {
	for _, kind := range memoriesFirst(r.Kinds) {
		a.printf("%s\n", a.bold(countOf(kind, r.Kinds[kind])))
		for _, s := range r.Samples {
			if s.Kind != kind {
				continue
			}
			line := escape(compactJSON(s.Line))
			var m struct{ Text string }
			if raw, ok := s.Line.(json.RawMessage); ok && kind == exchange.TypeMemory && json.Unmarshal(raw, &m) == nil {
				line = escape(strings.TrimSpace(m.Text))
			}
			a.printf("    %s\n", cut(escape(s.Whose())+": "+line, max(a.outWidth, 80)-5))
		}
	}
}

// printCounts prints counts by name.
func (a *app) printCounts(what string, counts exchange.Counts) {
	if len(counts) == 0 {
		return
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, number(counts[name])+" "+escape(name))
	}
	a.printf("%s: %s\n", what, strings.Join(parts, "; "))
}

// parseZone reads the name of a time zone, or an offset from UTC.
func parseZone(s string) (*time.Location, error) {
	if offset, ok := scalar.Offset(s); ok {
		return time.FixedZone(s, int(offset/time.Second)), nil
	}
	zone, err := time.LoadLocation(s)
	if err != nil || s == "" || bytes.ContainsAny([]byte(s), "\\") {
		return nil, fmt.Errorf("%q is no time zone; give one as Europe/Amsterdam, UTC or +02:00", s)
	}
	return zone, nil
}
