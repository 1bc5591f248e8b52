package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func lite(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// TestSQLiteIsWritten verifies that another build of SQLite opens an exported file, finds it intact and
// answers from it.
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
