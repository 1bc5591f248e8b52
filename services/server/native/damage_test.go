package native

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// TestAnswersOfDamagedDatabase verifies that each answer of a database with an unreadable block has
// the header Memdb-Unreadable, and that none of a whole one has it.
func TestAnswersOfDamagedDatabase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := engine.Open(dir, nil)
	testdb.NoError(t, err)
	for i := range 300 {
		_, err := db.Memories().Store(t.Context(), memory.Memory{ID: fmt.Sprint("m", i), Scope: memory.Scope{User: "ada"}, Text: strings.Repeat(fmt.Sprint("tea ", i, " "), 30)}, nil)
		testdb.NoError(t, err)
	}
	_, err = db.Compact(t.Context())
	testdb.NoError(t, err)
	testdb.NoError(t, db.Close())
	targets := []string{"/memories?user=ada&all=true", "/count?user=ada", "/groups?all_scopes=true", "/memories/none?user=ada"}
	answers := func() (marks []string) {
		db, err := engine.Open(dir, &engine.Options{ReadOnly: true})
		testdb.NoError(t, err)
		defer func() { testdb.NoError(t, db.Close()) }()
		f := &fixture{t: t, db: db, s: server.New(db, server.Options{})}
		f.s.Mount(New())
		f.h = f.s.Handler()
		for _, target := range targets {
			marks = append(marks, f.do("", http.MethodGet, target, "").Header().Get(api.UnreadableHeader))
		}
		return marks
	}
	for i, mark := range answers() {
		if mark != "" {
			t.Errorf("%s: %q of a whole database", targets[i], mark)
		}
	}
	tables, err := filepath.Glob(filepath.Join(dir, "store", "*.sst"))
	testdb.NoError(t, err)
	if len(tables) == 0 {
		t.Fatal("there is no table")
	}
	for _, name := range tables {
		b, err := os.ReadFile(name)
		testdb.NoError(t, err)
		b[100] ^= 1
		testdb.NoError(t, os.WriteFile(name, b, 0o600))
	}
	for i, mark := range answers() {
		if mark == "" {
			t.Errorf("%s: not marked", targets[i])
		}
	}
}
