package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/internal/sqlitefile"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The SQLite files that memdb reads and writes by itself, beside SQLite: here, where its driver is.

// openSQLite opens a file of SQLite, and what lies beside it.
func openSQLite(t *testing.T, path string) *sqlitefile.File {
	t.Helper()
	section := func(path string) sqlitefile.Section {
		f, err := os.Open(path)
		if os.IsNotExist(err) {
			return sqlitefile.Section{}
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return sqlitefile.Section{ReaderAt: f, Size: info.Size()}
	}
	f, err := sqlitefile.Open(section(path), section(path+"-wal"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func lite(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// What SQLite wrote is read as SQLite reads it: after inserts, updates and deletes at random, with
// rows of any size, in pages of any size, checkpointed and in the write-ahead log.
func TestSQLiteIsRead(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, setting := range []struct {
		page    int
		journal string
	}{{512, "delete"}, {1024, "wal"}, {4096, "wal"}, {65536, "delete"}} {
		path := filepath.Join(t.TempDir(), "t.db")
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1) // the settings are those of a connection
		lite(t, db, fmt.Sprintf("PRAGMA page_size=%d", setting.page))
		lite(t, db, "PRAGMA auto_vacuum=incremental")
		lite(t, db, "PRAGMA journal_mode="+setting.journal)
		lite(t, db, "PRAGMA synchronous=off")
		lite(t, db, "PRAGMA wal_autocheckpoint=20")
		lite(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b, c REAL, UNIQUE (a, id))")
		for i := range 800 {
			switch rng.IntN(5) {
			case 0:
				lite(t, db, "DELETE FROM t WHERE id=?", rng.IntN(300))
			case 1:
				lite(t, db, "UPDATE t SET a=?, c=? WHERE id=?", strings.Repeat("u", rng.IntN(3000)), rng.Float64(), rng.IntN(300))
			default:
				b := []any{nil, rng.Int64() >> rng.IntN(64), []byte(strings.Repeat("\x00\xff", rng.IntN(50))), rng.Float64()}[rng.IntN(4)]
				lite(t, db, "INSERT OR REPLACE INTO t (id, a, b, c) VALUES (?,?,?,?)", rng.IntN(300), strings.Repeat("é", rng.IntN(1+setting.page*rng.IntN(3))), b, rng.NormFloat64())
			}
			if i%200 == 100 {
				lite(t, db, fmt.Sprintf("ALTER TABLE t ADD COLUMN d%d INTEGER DEFAULT %d", i, i))
			}
		}
		rows, err := db.QueryContext(t.Context(), "SELECT * FROM t ORDER BY id")
		if err != nil {
			t.Fatal(err)
		}
		var want [][]any
		for rows.Next() {
			row := make([]any, 8)
			to := make([]any, 8)
			for i := range row {
				to[i] = &row[i]
			}
			if err := rows.Scan(to...); err != nil {
				t.Fatal(err)
			}
			want = append(want, row)
		}
		if err := rows.Err(); err != nil || len(want) < 100 {
			t.Fatalf("%d rows, error %v", len(want), err)
		}
		f := openSQLite(t, path) // while the log is there: the last close removes it
		n := 0
		for row, err := range f.Rows(f.Table("t")) {
			if err != nil {
				t.Fatal(err)
			}
			if n >= len(want) || !reflect.DeepEqual(whole(row.Values), whole(want[n])) {
				t.Fatalf("%v: row %d differs", setting, n)
			}
			n++
		}
		if n != len(want) {
			t.Errorf("%v: %d rows, want %d", setting, n, len(want))
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// whole are values whose whole numbers are integers, as some are stored, and whose bytes are no
// nil slice.
func whole(values []any) []any {
	out := make([]any, len(values))
	for i, v := range values {
		if f, ok := v.(float64); ok && f == float64(int64(f)) {
			v = int64(f)
		}
		if b, ok := v.([]byte); ok {
			v = append([]byte{}, b...)
		}
		out[i] = v
	}
	return out
}

// What an export writes SQLite opens, finds whole, and answers from.
func TestSQLiteIsWritten(t *testing.T) {
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rng := rand.New(rand.NewPCG(3, 4))
	var memories []memory.Memory
	for i := range 1500 {
		memories = append(memories, memory.Memory{
			ID: fmt.Sprint(i), Scope: memory.Scope{User: "u"}, Text: fmt.Sprint(i, " ", strings.Repeat("é", rng.IntN(1+rng.IntN(20_000)/(1+i%50)))), Embedding: []float32{float32(i), 1},
		})
	}
	if _, err := db.Memories().StoreBatch(t.Context(), memories, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "out.db")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	moved, err := move.ExportSQLite(t.Context(), db, out, nil)
	if err == nil {
		err = out.Close()
	}
	if err != nil || moved.Written["memory"] != len(memories) {
		t.Fatalf("%+v, error %v", moved, err)
	}
	file, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	ask := func(query string, args ...any) (answer string) {
		t.Helper()
		if err := file.QueryRowContext(t.Context(), query, args...).Scan(&answer); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return answer
	}
	if got := ask("PRAGMA integrity_check"); got != "ok" {
		t.Error(got)
	}
	if got := ask("SELECT count(*) FROM memories JOIN vectors ON vectors.memory = memories.n WHERE length(vector) = 8"); got != fmt.Sprint(len(memories)) {
		t.Errorf("%s memories have a vector", got)
	}
	for _, m := range memories {
		if got := ask("SELECT text FROM memories WHERE n = ?", 1+indexOf(m.ID)); got != m.Text {
			t.Fatalf("memory %s differs", m.ID)
		}
	}
	// Others may go on with the file.
	lite(t, file, "CREATE INDEX by_id ON memories (id)")
	lite(t, file, "DELETE FROM memories WHERE n % 2 = 0")
	lite(t, file, "VACUUM")
	if got := ask("PRAGMA integrity_check"); got != "ok" {
		t.Error(got)
	}
}

// indexOf is the place of a memory by its ID, which is a number.
func indexOf(id string) int {
	var n int
	_, _ = fmt.Sscan(id, &n) // it always is
	return n
}
