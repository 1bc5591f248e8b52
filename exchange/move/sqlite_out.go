package move

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// sqliteVersion is the user_version of the tables.
const sqliteVersion = 1

// sqliteTableOf is the plan of a table.
type sqliteTableOf struct {
	typ, name string
	columns   []string
}

// sqliteTables are the tables of an exported file, as docs/moving.md tells them: the type of the
// lines that are in one, its name, and its columns behind "n". A column that begins with "json:"
// or "blob:" holds JSON or bytes, one with "real:" or "int:" numbers, and any other text.
var sqliteTables = []sqliteTableOf{
	{exchange.TypeMemory, "memories", []string{"id", "user", "agent", "run", "role", "kind", "source", "name", "json:aliases", "text", "json:metadata", "real:importance", "real:confidence", "int:pinned", "created_at", "updated_at", "event_time", "expires_at", "int:access_count", "last_accessed"}},
	{"vector", "vectors", []string{"int:memory", "space", "blob:vector"}},
	{exchange.TypeHistory, "history", []string{"memory_id", "user", "agent", "run", "event", "new_value=text", "timestamp=at", "reason"}},
	{entries.TypeLine, "entries", []string{"user", "agent", "key", "json:value", "updated_at", "expires_at"}},
	{sessions.TypeSession, "sessions", []string{"session", "user", "agent", "channel", "json:metadata", "created_at", "updated_at", "int:closed"}},
	{sessions.TypeMessage, "messages", []string{"session", "user", "agent", "int:position", "id", "role", "name", "text", "json:parts", "memory_id", "at"}},
	{graph.TypeEntity, "entities", []string{"id", "user", "agent", "entity_type", "name", "json:aliases", "json:properties", "created_at", "updated_at"}},
	{graph.TypeRelation, "relations", []string{"id", "user", "agent", "from=source", "relation", "to=target", "json:properties", "valid_from", "valid_to", "created_at", "superseded_at"}},
	{graph.TypeLink, "links", []string{"user", "agent", "entity", "from=source", "relation", "to=target", "memory", "created_at"}},
	{usage.TypeUsage, "usage", []string{"user", "agent", "model", "int:prompt_tokens", "int:completion_tokens", "int:total_tokens", "cost_usd", "timestamp=at"}},
	{usage.TypeAgent, "agents", []string{"id", "name", "json:metadata", "created_at"}},
}

// vectorTable is the place of the table of vectors.
const vectorTable = 1

// sqliteColumn is a column: the key of the line, its name, and what it holds.
type sqliteColumn struct{ key, name, kind string }

func columnsOf(of []string) []sqliteColumn {
	out := make([]sqliteColumn, len(of))
	for i, c := range of {
		kind, key, ok := strings.Cut(c, ":")
		if !ok {
			kind, key = "", c
		}
		key, name, renamed := strings.Cut(key, "=")
		if !renamed {
			name = key
		}
		out[i] = sqliteColumn{key, name, kind}
	}
	return out
}

// writePragmas make SQLite write a new file that is of no use before it is whole: without a
// journal, and not yet to the disk. Its caller makes it durable, and gives it its name.
const writePragmas = `PRAGMA page_size=8192; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;
PRAGMA temp_store=MEMORY; PRAGMA cache_size=-8192; PRAGMA user_version=1; BEGIN`

// sqliteCreate is the statement that makes a table.
func sqliteCreate(name string, columns []sqliteColumn) string {
	types := map[string]string{"": "TEXT", "json": "TEXT", "blob": "BLOB", "real": "REAL", "int": "INTEGER"}
	var sql strings.Builder
	sql.WriteString("CREATE TABLE " + name + " (n INTEGER PRIMARY KEY")
	for _, c := range columns {
		sql.WriteString(", " + c.name + " " + types[c.kind])
	}
	return sql.String() + ")"
}

// ExportSQLite writes a SQLite file of documented tables to an empty file.
func ExportSQLite(ctx context.Context, db *engine.DB, to RandomFile, o *exchange.ExportOptions) (moved Moved, err error) {
	s := &sqliteWriter{left: map[string]int{}}
	disk := &sqliteDisk{out: to}
	conn, disconnect, err := disk.connect()
	if err != nil {
		return Moved{}, err
	}
	s.conn = conn
	defer func() {
		for _, t := range s.tables {
			_ = t.insert.Close() // its error was that of the last row
		}
		err = cmp.Or(err, disconnect())
	}()
	if err := conn.Exec(writePragmas); err != nil {
		return Moved{}, err
	}
	for _, t := range sqliteTables {
		if err := s.table(t.typ, t.name, columnsOf(t.columns)); err != nil {
			return Moved{}, err
		}
	}
	moved, err = export(ctx, db, o, s)
	for what, n := range s.left {
		moved.LeftOut[what] += n
	}
	return moved, err
}

// sqliteWriter writes the lines of an export into tables.
type sqliteWriter struct {
	conn   *sqlite3.Conn
	tables []*sqliteTable
	left   map[string]int // keys of lines that have no column
}

// sqliteTable is a table that is written.
type sqliteTable struct {
	typ, name string
	columns   []sqliteColumn
	insert    *sqlite3.Stmt
	rows      int64
}

// table makes a table.
func (s *sqliteWriter) table(typ, name string, columns []sqliteColumn) error {
	if err := s.conn.Exec(sqliteCreate(name, columns)); err != nil {
		return err
	}
	insert, _, err := s.conn.Prepare("INSERT INTO " + name + " VALUES (?" + strings.Repeat(", ?", len(columns)) + ")")
	if err == nil {
		s.tables = append(s.tables, &sqliteTable{typ, name, columns, insert, 0})
	}
	return err
}

// row writes a row.
func (t *sqliteTable) row(values []any) error {
	t.rows++
	err := t.insert.BindInt64(1, t.rows)
	for i, v := range values {
		if err == nil {
			err = bind(t.insert, i+2, v)
		}
	}
	return cmp.Or(err, t.insert.Exec())
}

func (s *sqliteWriter) end() error { return s.conn.Exec("COMMIT") }

func (s *sqliteWriter) line(typ string, raw []byte) (bool, error) {
	at := slices.IndexFunc(s.tables, func(t *sqliteTable) bool { return t.typ == typ })
	if at < 0 {
		return false, nil
	}
	t := s.tables[at]
	var f fields
	if err := json.Unmarshal(raw, &f); err != nil {
		return false, err
	}
	values := make([]any, len(t.columns))
	for i, c := range t.columns {
		v, err := cellOf(f[c.key], c.kind)
		if err != nil {
			return false, fmt.Errorf("the column %q of %s: %w", c.name, t.name, err)
		}
		values[i] = v
		delete(f, c.key)
	}
	if err := t.row(values); err != nil {
		return false, err
	}
	if typ == exchange.TypeMemory {
		if err := s.vectors(t.rows, f); err != nil {
			return false, err
		}
	}
	for key, v := range f {
		if text := string(v); !slices.Contains(sqliteDerived, key) && !slices.Contains([]string{"null", "false", "0", `""`}, text) {
			s.left[key+" of "+typ]++
		}
	}
	return true, nil
}

// sqliteDerived are keys of lines that are no data: every database makes its own, or docs/moving.md says that
// the tables do without.
var sqliteDerived = []string{"type", "auto_importance", "seq", "hash", "note_id", "version", "number", "messages", "orphan"}

// cellOf is the value of a column.
func cellOf(raw json.RawMessage, kind string) (any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	switch kind {
	case "json":
		return string(raw), nil
	case "real":
		var x float64
		err := json.Unmarshal(raw, &x)
		return x, err
	case "int":
		var b bool
		if json.Unmarshal(raw, &b) == nil {
			return b, nil
		}
		var n int64
		err := json.Unmarshal(raw, &n)
		return n, err
	}
	if raw[0] != '"' {
		return string(raw), nil // an amount, with all of its digits
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil || text == "" {
		return nil, err
	}
	return text, nil
}

// vectors writes those of a memory.
func (s *sqliteWriter) vectors(of int64, f fields) error {
	all := map[string]exchange.Vector{}
	if raw := f["vectors"]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &all); err != nil {
			return err
		}
	}
	if raw := f["embedding"]; len(raw) > 0 {
		var v exchange.Vector
		if err := json.Unmarshal(raw, &v); err != nil {
			return err
		}
		all["default"] = v
	}
	delete(f, "vectors")
	delete(f, "embedding")
	for _, space := range slices.Sorted(maps.Keys(all)) {
		var b []byte
		for _, x := range all[space] {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		if err := s.tables[vectorTable].row([]any{of, space, b}); err != nil {
			return err
		}
	}
	return nil
}
