package peer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
)

// sqliteRows keeps a row and an FTS5 row for each record, in one transaction.
type sqliteRows struct {
	db        *sql.DB
	row, text *sql.Stmt
}

// setUpRows makes each commit durable, and the tables.
const setUpRows = `
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE records(id INTEGER PRIMARY KEY, scope TEXT, text TEXT, vector BLOB);
CREATE VIRTUAL TABLE words USING fts5(scope, text, content = '', tokenize = 'porter unicode61');`

func openSQLiteRows(driver, dir string) (Store, error) {
	db, err := openDriver(driver, filepath.Join(dir, "rows.db"))
	if err != nil {
		return nil, err
	}
	s := &sqliteRows{db: db}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: %w", err), s.Close())
	}
	return s, nil
}

func (s *sqliteRows) prepare() (err error) {
	if _, err = s.db.Exec(setUpRows); err != nil {
		return err
	}
	if s.row, err = s.db.Prepare("INSERT INTO records(id, scope, text, vector) VALUES (?, ?, ?, ?)"); err != nil {
		return err
	}
	s.text, err = s.db.Prepare("INSERT INTO words(rowid, scope, text) VALUES (?, ?, ?)")
	return err
}

func (s *sqliteRows) Put(ctx context.Context, r *Record) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	id := int64(r.Number)
	_, err = tx.StmtContext(ctx, s.row).ExecContext(ctx, id, r.Scope, r.Text, appendVector(nil, r.Vector))
	if err == nil {
		_, err = tx.StmtContext(ctx, s.text).ExecContext(ctx, id, scopeWord(r.Scope), r.Text)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("sqlite: %w", err), tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return nil
}

func (s *sqliteRows) Close() error {
	var errs []error
	for _, stmt := range []*sql.Stmt{s.row, s.text} {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(append(errs, s.db.Close())...)
}
