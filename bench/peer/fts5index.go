package peer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// fts5Index is an FTS5 table without content: its documents are known by rowid.
type fts5Index struct{ sqliteText }

// setUpIndex makes each commit durable, and the table.
const setUpIndex = `
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -524288;
CREATE VIRTUAL TABLE docs USING fts5(scope, text, content = '', tokenize = 'porter unicode61');
INSERT INTO docs(docs, rank) VALUES ('rank', 'bm25(0.0, 1.0)');`

// openFTS5 makes an empty table through a driver.
func openFTS5(driver, dir string) (Index, error) {
	db, err := openDriver(driver, filepath.Join(dir, "fts5.db"))
	if err != nil {
		return nil, err
	}
	s := &fts5Index{sqliteText{db: db}}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: %w", err), s.Close())
	}
	return s, nil
}

func (s *fts5Index) prepare() (err error) {
	if _, err = s.db.Exec(setUpIndex); err != nil {
		return err
	}
	if s.insert, err = s.db.Prepare("INSERT INTO docs(rowid, scope, text) VALUES (?, ?, ?)"); err != nil {
		return err
	}
	s.search, err = s.db.Prepare("SELECT rowid FROM docs WHERE docs MATCH ? ORDER BY rank LIMIT ?")
	return err
}

// Settle merges the index into one b-tree, which is as fast as FTS5 gets.
func (s *fts5Index) Settle(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, "INSERT INTO docs(docs) VALUES ('optimize')"); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return nil
}

// Find matches words within the scope.
func (s *fts5Index) Find(ctx context.Context, ask Ask) ([]string, error) {
	match := fts5Match(ask)
	if match == "" {
		return nil, nil
	}
	return s.ids(ctx, match, ask.K)
}

// Bytes is the size of the index's blocks, as FTS5 keeps them in a table.
func (s *fts5Index) Bytes() (n int64, err error) {
	err = s.db.QueryRow("SELECT sum(length(block)) FROM docs_data").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("sqlite: %w", err)
	}
	return n, nil
}

// fts5Match is the FTS5 expression for an Ask; empty if it has no words.
func fts5Match(ask Ask) string {
	words := strings.FieldsFunc(ask.Text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	if len(words) == 0 {
		return ""
	}
	joiner := map[Mode]string{Any: `" OR "`, All: `" AND "`, Phrase: `" + "`}[ask.Mode]
	match := `text : ("` + strings.Join(words, joiner) + `")`
	if ask.Scope != "" {
		match = `scope : "` + scopeWord(ask.Scope) + `" AND ` + match
	}
	return match
}

// Add commits one transaction.
func (s *fts5Index) Add(ctx context.Context, docs []Document) error {
	return s.add(ctx, len(docs), func(insert *sql.Stmt, i int) error {
		row, err := strconv.ParseInt(docs[i].ID, 10, 64)
		if err == nil {
			_, err = insert.ExecContext(ctx, row, scopeWord(docs[i].Scope), docs[i].Text)
		}
		return err
	})
}
