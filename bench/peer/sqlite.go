package peer

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"

	_ "modernc.org/sqlite" // the driver "sqlite": SQLite in Go (BSD-3-Clause)
)

// sqliteText is an FTS5 table (public domain) that ranks by BM25. The scope is an
// indexed column of weight 0, so that it narrows a query through the index.
type sqliteText struct {
	db     *sql.DB
	insert *sql.Stmt
	search *sql.Stmt
}

// setUp makes each commit durable, and the table. FTS5's bm25 takes a weight for
// each column, those that are not indexed too.
const setUp = `
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE VIRTUAL TABLE docs USING fts5(id UNINDEXED, scope, text, tokenize = '%s');
INSERT INTO docs(docs, rank) VALUES ('rank', 'bm25(0.0, 0.0, 1.0)');`

// The tokenizers of FTS5: words by Unicode with Porter's stemmer of English, words as they
// are, and pieces of three characters.
const (
	FTS5Porter  = "porter unicode61"
	FTS5Words   = "unicode61"
	FTS5Trigram = "trigram"
)

// OpenFTS5In makes an empty table, by SQLite in Go, with a tokenizer.
func OpenFTS5In(dir, tokenizer string) (Text, error) { return openSQLiteIn("sqlite", dir, tokenizer) }

// openSQLite makes an empty table for English through a driver.
func openSQLite(driver, dir string) (Text, error) { return openSQLiteIn(driver, dir, FTS5Porter) }

func openSQLiteIn(driver, dir, tokenizer string) (Text, error) {
	db, err := openDriver(driver, filepath.Join(dir, "fts5.db"))
	if err != nil {
		return nil, err
	}
	s := &sqliteText{db: db}
	if err := s.prepare(tokenizer); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: %w", err), s.Close())
	}
	return s, nil
}

// openDriver opens a file with one connection: the pragmas hold for it, and SQLite has
// one writer.
func openDriver(driver, path string) (*sql.DB, error) {
	db, err := sql.Open(driver, path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func (s *sqliteText) prepare(tokenizer string) (err error) {
	if _, err = s.db.Exec(fmt.Sprintf(setUp, tokenizer)); err != nil {
		return err
	}
	if s.insert, err = s.db.Prepare("INSERT INTO docs(id, scope, text) VALUES (?, ?, ?)"); err != nil {
		return err
	}
	s.search, err = s.db.Prepare("SELECT id FROM docs WHERE docs MATCH ? ORDER BY rank LIMIT ?")
	return err
}

// Add commits one transaction.
func (s *sqliteText) Add(ctx context.Context, docs []Document) error {
	return s.add(ctx, len(docs), func(insert *sql.Stmt, i int) error {
		_, err := insert.ExecContext(ctx, docs[i].ID, scopeWord(docs[i].Scope), docs[i].Text)
		return err
	})
}

// add inserts n documents in one transaction.
func (s *sqliteText) add(ctx context.Context, n int, one func(insert *sql.Stmt, i int) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	insert := tx.StmtContext(ctx, s.insert)
	for i := range n {
		if err := one(insert, i); err != nil {
			return errors.Join(fmt.Errorf("sqlite: %w", err), tx.Rollback())
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return nil
}

// Search matches any word of the query within the scope.
func (s *sqliteText) Search(ctx context.Context, scope, query string, k int) ([]string, error) {
	match := matchAny(scope, query)
	if match == "" {
		return nil, nil
	}
	return s.ids(ctx, match, k)
}

// ids returns the best rows of an FTS5 expression.
func (s *sqliteText) ids(ctx context.Context, match string, k int) (ids []string, err error) {
	rows, err := s.search.QueryContext(ctx, match, k)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("sqlite: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (s *sqliteText) Close() error {
	var errs []error
	for _, stmt := range []*sql.Stmt{s.insert, s.search} {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(append(errs, s.db.Close())...)
}

// scopeWord writes a scope as one token, which no tokenizer splits and no
// stemmer, since it ends in a digit, shortens.
func scopeWord(scope string) string { return "s" + hex.EncodeToString([]byte(scope)) + "0" }

// matchAny is the FTS5 expression for any word of a query; empty if it has none.
func matchAny(scope, query string) string {
	words := strings.FieldsFunc(query, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	if len(words) == 0 {
		return ""
	}
	return `scope : "` + scopeWord(scope) + `" AND text : ("` + strings.Join(words, `" OR "`) + `")`
}
