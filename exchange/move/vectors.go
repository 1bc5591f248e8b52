package move

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/ctxio"
)

// The columns of what Chroma gets of a collection: lists of the same length.
var chromaColumns = []string{"ids", "documents", "metadatas", "embeddings", "uris"}

// maxPiped bounds what is read of a pipe where a form must be read several times.
const maxPiped = 64 << 20

// readChroma reads a collection whose columns are lists, all at once: each by a reader of its own.
func readChroma(in *Input, w *writer) error {
	if in.IsSQLite() {
		return readChromaSQLite(in, w)
	}
	open, err := in.again()
	if err != nil {
		return err
	}
	var nexts []func() ([]byte, error, bool)
	for _, column := range chromaColumns {
		next, stop := iter.Pull2(w.columnOf(open, column))
		defer stop()
		nexts = append(nexts, next)
	}
	for n := 1; ; n++ {
		at := exchange.LineError{Line: n, Of: "record"}
		row := make([][]byte, len(nexts))
		for i, next := range nexts {
			value, err, ok := next()
			if errors.Is(err, errLong) {
				return fmt.Errorf("record %d: %q is %w", n, chromaColumns[i], err)
			}
			if err != nil {
				return err
			}
			if ok {
				row[i] = value
			}
		}
		if row[0] == nil {
			if slices.ContainsFunc(row, func(v []byte) bool { return v != nil }) {
				return fmt.Errorf("there are %d ids, and more documents, metadatas or embeddings", n-1)
			}
			return nil
		}
		w.read = in.Size * int64(n) / int64(n+1) // a guess: where the columns end shows at their end
		if err := w.chroma(at, row); err != nil {
			return err
		}
	}
}

// columnOf are the values of a column; there are none where it is null or missing. That of the IDs
// also counts what there is beside all columns.
func (w *writer) columnOf(open opener, column string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in, err := open()
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = in.Close() }() // it was only read
		s, err := exchange.NewSplitter(ctxio.Reader(w.ctx, in))
		if err != nil {
			yield(nil, err)
			return
		}
		walk := &walk{Splitter: s, enter: func(path string) bool { return path == "" || path == column }}
		walk.visit = func(path string, _ int, value []byte, err error) error {
			switch {
			case path == "[]":
				return errors.New(`it is a list, not an object with "ids"`)
			case path != column+"[]":
				if column == chromaColumns[0] && !slices.Contains(chromaColumns, path) && !slices.Contains([]string{"data", "included"}, path) {
					w.leave("beside the records: "+path, 1)
				}
				return nil
			case len(value) > 0 && value[0] == '[' && column == "ids":
				return errors.New(`"ids" is a list of lists, as a query answers; write what get answers`)
			}
			if !yield(value, err) {
				return errEnough
			}
			return nil
		}
		if err := walk.run(); err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}

// chroma gives a record of a collection.
func (w *writer) chroma(at exchange.LineError, row [][]byte) error {
	f := fields{"id": row[0]}
	for i, key := range []string{"", "document", "metadata", "embedding", "uri"} {
		if key != "" && row[i] != nil && string(row[i]) != "null" {
			f[key] = row[i]
		}
	}
	for _, key := range []string{"id", "document", "uri"} {
		if raw, ok := f[key]; ok {
			if err := exchange.Decode(raw, new(any)); err != nil {
				return w.skip(at, fmt.Errorf("%q: %w", key, err))
			}
		}
	}
	return w.point(at, f)
}

// point gives a record with a vector and a payload: its text is its own, or one of the payload.
func (w *writer) point(at exchange.LineError, f fields) error {
	if _, ok := f["document"]; !ok {
		for _, key := range []string{"metadata", "payload"} {
			if f[key] == nil {
				continue
			}
			inner, err := readFields(f[key])
			if err != nil {
				return w.skip(at, fmt.Errorf("%q: %w", key, err))
			}
			delete(f, key)
			for name, raw := range inner {
				if _, taken := f[name]; taken {
					name = key + "." + name
				}
				f[name] = raw
			}
		}
	}
	m, err := w.memoryOf(f)
	if err != nil {
		return w.skip(at, err)
	}
	return w.memory(at, m)
}

// readQdrant reads the points of one or several answers of a scroll, or a list of points.
func readQdrant(in *Input, w *writer) error {
	return eachUnder(in, w, "point", []string{"result", "result.points", "points"}, func(at exchange.LineError, raw []byte) error {
		f, err := readFields(raw)
		if err != nil {
			return w.skip(at, err)
		}
		for _, key := range []string{"version", "score", "order_value"} { // of the answer, not of the point
			if _, ok := f[key]; ok {
				w.leave("of points: "+key, 1)
			}
			delete(f, key)
		}
		for key, v := range f {
			if string(v) == "null" {
				delete(f, key)
			}
		}
		if at.ID = strings.Trim(string(f["id"]), `"`); at.ID == "" {
			return w.skip(at, errors.New("it has no id"))
		}
		return w.point(at, f)
	})
}

// again opens the input any number of times. A pipe is read whole, within a bound.
func (in *Input) again() (opener, error) {
	if open := in.restart(); open != nil {
		return open, nil
	}
	all, err := io.ReadAll(io.LimitReader(in.Reader, maxPiped+1))
	if err != nil {
		return nil, err
	}
	if len(all) > maxPiped {
		return nil, fmt.Errorf("from a pipe %d MiB of this form are read; write it to a file, and import that", maxPiped>>20)
	}
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(all)), nil }, nil
}
