package move

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/sqlitefile"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// sqliteVersion is the user_version of the tables.
const sqliteVersion = 1

// sqliteTables are the tables of an exported file, as docs/moving.md tells them: the type of the
// lines that are in one, its name, and its columns behind "n". A column that begins with "json:"
// or "blob:" holds JSON or bytes, one with "real:" or "int:" numbers, and any other text.
var sqliteTables = []struct {
	typ, name string
	columns   []string
}{
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

// sqliteSchema is the text that makes each table.
func sqliteSchema() []sqlitefile.Schema {
	types := map[string]string{"": "TEXT", "json": "TEXT", "blob": "BLOB", "real": "REAL", "int": "INTEGER"}
	var out []sqlitefile.Schema
	for _, t := range sqliteTables {
		var sql strings.Builder
		sql.WriteString("CREATE TABLE " + t.name + " (n INTEGER PRIMARY KEY")
		for _, c := range columnsOf(t.columns) {
			sql.WriteString(", " + c.name + " " + types[c.kind])
		}
		out = append(out, sqlitefile.Schema{Name: t.name, SQL: sql.String() + ")"})
	}
	return out
}

// ExportSQLite writes a SQLite file of documented tables.
func ExportSQLite(ctx context.Context, db *engine.DB, w io.WriterAt, o *exchange.ExportOptions) (Moved, error) {
	s := &sqliteWriter{file: sqlitefile.NewWriter(w, sqliteSchema()), rows: make([]int64, len(sqliteTables))}
	for _, t := range sqliteTables {
		s.columns = append(s.columns, columnsOf(t.columns))
	}
	return export(ctx, db, o, s)
}

type sqliteWriter struct {
	file    *sqlitefile.Writer
	columns [][]sqliteColumn
	rows    []int64
}

func (s *sqliteWriter) end() error { return s.file.Close(sqliteVersion) }

func (s *sqliteWriter) line(typ string, raw []byte) (bool, error) {
	for i, t := range sqliteTables {
		if t.typ != typ {
			continue
		}
		var f fields
		if err := json.Unmarshal(raw, &f); err != nil {
			return false, err
		}
		values := make([]any, len(s.columns[i]))
		for j, c := range s.columns[i] {
			v, err := cellOf(f[c.key], c.kind)
			if err != nil {
				return false, fmt.Errorf("the column %q of %s: %w", c.name, t.name, err)
			}
			values[j] = v
		}
		s.rows[i]++
		if err := s.file.Row(i, s.rows[i], values...); err != nil || typ != exchange.TypeMemory {
			return err == nil, err
		}
		return true, s.vectors(s.rows[i], f)
	}
	return false, nil
}

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
	for _, space := range slices.Sorted(maps.Keys(all)) {
		var b []byte
		for _, x := range all[space] {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		s.rows[vectorTable]++
		if err := s.file.Row(vectorTable, s.rows[vectorTable], of, space, b); err != nil {
			return err
		}
	}
	return nil
}
