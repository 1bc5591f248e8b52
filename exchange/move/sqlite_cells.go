package move

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

// cells are the values of a row by the names of their columns.
type cells struct {
	*writer
	table *table
	row   sqliteRow
}

// any is the value of the first of some columns that the table has, nil where it has none.
func (c *cells) any(names ...string) any {
	for _, name := range names {
		if i := c.table.index(name); i >= 0 {
			c.table.columns[i].used = true
			return c.row.values[i]
		}
	}
	return nil
}

// lost counts a value that is of another kind than its column is for.
func (c *cells) lost(name, kind string) {
	c.leave("values of the column "+name+" that are no "+kind, 1)
}

// text is a value as a text: of bytes and numbers, too.
func (c *cells) text(names ...string) string {
	switch v := c.any(names...).(type) {
	case string:
		return v
	case []byte:
		if utf8.Valid(v) {
			return string(v)
		}
		c.lost(names[0], "text")
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// number is a value as a number, false where it is none.
func (c *cells) number(names ...string) (float64, bool) {
	switch v := c.any(names...).(type) {
	case nil:
		return 0, false
	case int64:
		return float64(v), true
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, true
		}
	}
	c.lost(names[0], "number")
	return 0, false
}

// share is a number from 0 to 1. Any other value stays for the metadata.
func (c *cells) share(name string) *float64 {
	i := c.table.index(name)
	if i < 0 {
		return nil
	}
	var n float64
	switch v := c.row.values[i].(type) {
	case int64:
		n = float64(v)
	case float64:
		n = v
	default:
		return nil
	}
	if !(n >= 0 && n <= 1) {
		return nil
	}
	c.table.columns[i].used, c.table.columns[i].spare = true, true
	c.row.values[i] = nil // rest takes it in rows where it is another value
	return &n
}

// integer is a value as a count, 0 where it is none.
func (c *cells) integer(names ...string) int64 {
	n, ok := c.number(names...)
	if ok && (n < 0 || n > math.MaxInt64/2 || n != math.Trunc(n)) {
		c.lost(names[0], "count")
		return 0
	}
	return int64(n)
}

// json is a value that holds JSON, or one that does not as a value of JSON.
func (c *cells) json(names ...string) json.RawMessage {
	v := c.any(names...)
	if v == nil {
		return nil
	}
	if s, ok := bytesOf(v); ok && len(s) > 0 && exchange.Decode(s, new(any)) == nil {
		return s
	}
	raw, err := json.Marshal(jsonOf(v))
	if err != nil { // a float that is no number
		c.lost(names[0], "JSON")
		return nil
	}
	return raw
}

// bytesOf are the bytes of a text or a blob.
func bytesOf(v any) ([]byte, bool) {
	switch v := v.(type) {
	case string:
		return []byte(v), true
	case []byte:
		return slices.Clone(v), true
	}
	return nil, false
}

// jsonOf is a value as JSON has it: bytes that are no text are MessagePack, or written in hexadecimal.
func jsonOf(v any) any {
	b, ok := v.([]byte)
	switch {
	case !ok:
		return v
	case utf8.Valid(b):
		return string(b)
	}
	if packed, rest, err := readPacked(b, 0); err == nil && len(rest) == 0 {
		return packed
	}
	return hex.EncodeToString(b)
}

// rest are the values of a row that nothing has looked at, as metadata. Blobs are left out.
func (c *cells) rest() map[string]any {
	out := map[string]any{}
	for i := range c.table.columns {
		column := &c.table.columns[i]
		if column.used && !column.spare {
			continue
		}
		switch v := c.row.values[i].(type) {
		case nil:
		case []byte:
			if !utf8.Valid(v) {
				c.leave("blobs of the column "+column.name, 1)
			} else {
				out[column.name] = string(v)
			}
		default:
			out[column.name] = v
		}
		column.used, column.spare = true, true
	}
	return out
}

// each visits the rows of a table that is there. A row whose texts are no UTF-8 is skipped, and so
// is one with a value that is too long.
func (w *writer) each(f *sqliteFile, name string, visit func(at exchange.LineError, c *cells) error) error {
	t := f.table(name)
	if t == nil {
		return nil
	}
	for row, err := range f.rows(w.ctx, t) {
		at := exchange.LineError{Of: "row", ID: fmt.Sprintf("%d of %s", row.number, name)}
		switch {
		case errors.Is(err, errLongCell) && row.key != nil:
			if err := w.skip(at, err); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		bad := -1
		for i, v := range row.values {
			if s, ok := v.(string); ok && !utf8.ValidString(s) {
				bad = i
			}
			if v != nil {
				t.columns[i].filled++
			}
		}
		if bad >= 0 {
			err = w.skip(at, fmt.Errorf("the column %.80q is not UTF-8", t.columns[bad].name))
		} else {
			err = visit(at, &cells{w, t, row})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leaveColumns counts the values of columns that have no place here, of tables that were read.
func (w *writer) leaveColumns(f *sqliteFile) {
	for _, t := range f.tables {
		for _, c := range t.columns {
			if !c.used {
				w.leave("values of the column "+c.name+" of the table "+t.name, c.filled)
			}
		}
	}
}

// leaveTables counts the rows of tables that have no place here.
func (w *writer) leaveTables(f *sqliteFile, known []string) error {
	for _, t := range f.tables {
		name := strings.ToLower(t.name)
		if slices.Contains(known, name) || strings.HasSuffix(name, "migrations") || f.isIndex(t) {
			continue // what follows from others, or says nothing of the memories
		}
		n, err := f.count(w.ctx, t)
		if err != nil {
			return err
		}
		w.leave("rows of the table "+t.name, n)
	}
	return nil
}

// isIndex reports whether a table holds an index of full-text search, which a virtual table keeps.
func (f *sqliteFile) isIndex(t *table) bool {
	return slices.ContainsFunc(f.virtual, func(of string) bool {
		part, ok := strings.CutPrefix(strings.ToLower(t.name), strings.ToLower(of)+"_")
		return ok && slices.Contains([]string{"data", "idx", "docsize", "config", "segments", "segdir", "stat"}, part)
	})
}
