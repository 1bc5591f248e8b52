package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

// recogniseSQLite tells whose a SQLite file is, by its tables and their columns.
func recogniseSQLite(in *Input) (Format, bool) {
	f, err := in.openSQLite(context.Background())
	if err != nil {
		return "", false
	}
	defer f.end()
	for _, of := range []struct {
		format Format
		is     func(*sqliteFile) bool
	}{{SQLite, isOwnTables}, {Mem0, isMem0}, {LangGraph, isLangGraph}, {Chroma, isChroma}, {OpenFang, isOpenFang}} {
		if of.is(f) {
			return of.format, true
		}
	}
	return SQLite, true
}

// Unknown is why a SQLite file is not read at all. nil for any other input.
func (in *Input) Unknown() error {
	if !in.IsSQLite() {
		return nil
	}
	f, err := in.openSQLite(context.Background())
	if err == nil {
		f.end()
	}
	return err
}

// readSQLite reads the file of ExportSQLite, or the rows of one table of another program's file.
func readSQLite(in *Input, w *writer) error {
	return w.database(in, func(f *sqliteFile) ([]string, error) {
		if w.opts.Table == "" && isOwnTables(f) {
			return readOwnTables(f, w)
		}
		t, err := w.plainTable(f)
		if err != nil {
			return nil, err
		}
		return []string{strings.ToLower(t.name)}, w.each(f, t.name, newSQLiteRows(w, t).record)
	})
}

// plainTable is the table whose rows are memories: the one that was named, or the only one that may be.
func (w *writer) plainTable(f *sqliteFile) (*table, error) {
	if w.opts.Table != "" {
		if t := f.table(w.opts.Table); t != nil {
			return t, nil
		}
	}
	var texts, filled []*table
	var all []string
	for _, t := range f.tables {
		n, err := f.count(w.ctx, t)
		if err != nil {
			return nil, err
		}
		if n == 0 || f.isIndex(t) {
			continue
		}
		const most = 30
		if filled = append(filled, t); len(filled) <= most {
			rows := "rows"
			if n == 1 {
				rows = "row"
			}
			all = append(all, fmt.Sprintf("%q (%d %s)", t.name, n, rows))
		} else if len(filled) == most+1 {
			all = append(all, "…")
		}
		if slices.ContainsFunc(textKeys, func(key string) bool { return t.index(key) >= 0 }) {
			texts = append(texts, t)
		}
	}
	listed := strings.Join(all, ", ")
	switch {
	case len(filled) == 0:
		return nil, errors.New("the SQLite file has no table with rows")
	case w.opts.Table != "":
		return nil, fmt.Errorf("the SQLite file has no table %q; its tables are %s", w.opts.Table, listed)
	case len(texts) == 1:
		return texts[0], nil
	case len(filled) == 1:
		return filled[0], nil
	}
	return nil, fmt.Errorf("the SQLite file is of no program that is known, and has several tables; name one with --table: %s", listed)
}

// sqliteRows makes a memory of each row of a table, by the names of its columns.
type sqliteRows struct {
	*writer
	table *table
	names []string // the keys that the columns have as fields
}

// newSQLiteRows looks at the columns, whose names may be in any case.
func newSQLiteRows(w *writer, t *table) *sqliteRows {
	usual, mapped := slices.Sorted(maps.Keys(usualKeys)), slices.Collect(maps.Values(w.opts.Map))
	r := &sqliteRows{writer: w, table: t}
	for i := range t.columns {
		c := &t.columns[i]
		c.used = true // by its name, or in the metadata
		name := c.name
		if at := slices.IndexFunc(usual, func(key string) bool { return strings.EqualFold(key, name) }); at >= 0 && !slices.Contains(mapped, name) {
			name = usual[at]
		}
		r.names = append(r.names, name)
	}
	return r
}

func (r *sqliteRows) record(at exchange.LineError, c *cells) error {
	f := fields{}
	for i, v := range c.row.values {
		if raw := r.cell(r.names[i], v); raw != nil {
			f[r.names[i]] = raw
		}
	}
	r.identify(f, c)
	m, err := r.memoryOf(f)
	if err != nil {
		return r.skip(at, err)
	}
	return r.memory(at, m)
}

// cell is a value as JSON, nil for none and for one that has no place.
func (r *sqliteRows) cell(name string, v any) json.RawMessage {
	inside := name == "metadata" || slices.Contains(vectorKeys, name)
	switch x := v.(type) {
	case nil:
		return nil
	case []byte:
		if vector := floatsOf(x); vector != nil && inside {
			v = vector
		} else if !inside || exchange.Decode(x, new(any)) != nil {
			r.leave("blobs of the column "+name, 1)
			return nil
		} else {
			return slices.Clone(x)
		}
	case string:
		if inside && exchange.Decode([]byte(x), new(any)) == nil {
			return json.RawMessage(strings.TrimSpace(x))
		}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		r.leave("values of the column "+name+" that are no number", 1) // infinite
		return nil
	}
	return raw
}

// identify gives a row the ID of its primary key, or of its rowid. What the table itself calls an
// ID is metadata then.
func (r *sqliteRows) identify(f fields, c *cells) {
	var key, names []string
	for i, column := range r.table.columns {
		if column.primary > 0 && c.row.values[i] != nil {
			key, names = append(key, fmt.Sprint(c.row.values[i])), append(names, r.names[i])
		}
	}
	id := ""
	switch {
	case len(key) == 1:
		id = key[0]
		if slices.Contains(idKeys, names[0]) {
			delete(f, names[0])
		}
	case len(key) > 1:
		id = idOf(r.format, append([]string{r.table.name}, key...)...)
	case !r.table.rowless:
		id = r.table.name + "/" + strconv.FormatInt(c.row.number, 10)
	default:
		return
	}
	if had, ok := f["id"]; ok {
		f["column id"] = had
	}
	f["id"], _ = json.Marshal(id) // a text always can be
}
