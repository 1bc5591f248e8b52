package move

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/seed-7aedc3ff/memdb/internal/panics"
)

// sqliteMagic begins every SQLite file.
const sqliteMagic = "SQLite format 3\x00"

const (
	// maxCell bounds a text or a blob of a SQLite file, in bytes. A row with a larger one is skipped.
	maxCell = 64 << 20
	// maxTables bounds the tables of a file: a stranger's schema may have any number.
	maxTables = 10_000
	// headerSize and logHeader are the headers of a SQLite file and of its write-ahead log, which
	// change with every transaction and every restart of the log.
	headerSize = 100
	logHeader  = 32
)

// readPragmas make SQLite read a file of a stranger: it does not write, runs no function that
// the schema names, unless it is harmless, checks each cell, and takes no shared memory.
const readPragmas = `PRAGMA query_only=ON; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA ignore_check_constraints=ON;
PRAGMA locking_mode=EXCLUSIVE; PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0; PRAGMA cache_size=-8192`

// IsSQLite reports whether the input begins as a SQLite file does.
func (in *Input) IsSQLite() bool {
	if in.Reader == nil {
		return false
	}
	head, _ := in.Reader.Peek(len(sqliteMagic))
	return string(head) == sqliteMagic
}

// sqliteFile is a SQLite file that SQLite reads, in one read transaction.
type sqliteFile struct {
	in      *Input
	disk    sqliteDisk
	begun   sqliteHeads
	conn    *sqlite3.Conn
	close   func() error
	frames  int64 // those of the log that SQLite has taken
	version int64 // user_version, by which a program tells its schema
	tables  []*table
	virtual []string // names of tables that a module keeps in other tables
}

// sqliteHeads are what every change of a SQLite file changes.
type sqliteHeads struct {
	main [headerSize]byte
	log  [logHeader]byte
}

// A table is an ordinary table, which has rows of its own.
type table struct {
	name    string
	columns []column
	places  map[string]int // of the columns, by their names in lower case
	key     string         // the expression that finds a row again; empty where there is none
	rowless bool           // WITHOUT ROWID: key is the column of its primary key
}

// A column is one that a row has a value of.
type column struct {
	name    string
	primary int  // its place in the primary key from 1 on, 0 where it is not in it
	used    bool // a reader looks at it
	spare   bool // it goes to the metadata
	filled  int  // rows with a value
}

// sqliteRow is a row of a table. Its values are nil, int64, float64, string and []byte. They are the
// caller's until the next row.
type sqliteRow struct {
	number int64 // its rowid, or its place where the table has none
	key    any   // the value of the table's key
	values []any
}

// openSQLite opens the input as a SQLite file, with the files next to it. The caller must call close.
func (in *Input) openSQLite(ctx context.Context) (*sqliteFile, error) {
	if in.File == nil {
		return nil, errors.New("a SQLite file cannot be read from a pipe, and is not sent to a server; name the file on the machine that has it, or import it into a database there and export jsonl")
	}
	f := &sqliteFile{in: in}
	if err := in.noJournal(); err != nil {
		return nil, err
	}
	f.disk.main = section{in.File, in.Size}
	var err error
	if f.disk.log, err = in.beside("-wal"); err != nil {
		return nil, err
	}
	if f.begun, err = f.heads(); err != nil {
		return nil, err
	}
	if string(f.begun.main[:len(sqliteMagic)]) != sqliteMagic || in.Size < headerSize {
		return nil, errors.New("it is no SQLite file")
	}
	if f.conn, f.close, err = f.disk.connect(); err != nil {
		return nil, f.failed(ctx, err)
	}
	if err = f.begin(ctx); err != nil {
		f.end()
		return nil, f.failed(ctx, err)
	}
	return f, nil
}

// noJournal refuses a file with a journal that would have to be rolled back.
func (in *Input) noJournal() error {
	journal, err := in.beside("-journal")
	if err != nil {
		return err
	}
	head := make([]byte, 1)
	if n, err := journal.head(head); err != nil || n == 0 || head[0] == 0 { // a zero is a journal that was ended
		return err
	}
	return errors.New("a journal is next to the SQLite file: a program is changing the file, or ended while it did; stop the program, or open the file once with it")
}

// head reads the begin of a section, as far as there is one.
func (s section) head(b []byte) (int, error) {
	if s.ReaderAt == nil {
		return 0, nil
	}
	n, err := s.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// grown reports whether a file has become longer since it was opened.
func (s section) grown() bool {
	if s.ReaderAt == nil {
		return false
	}
	n, _ := s.ReadAt(make([]byte, 1), s.size)
	return n > 0
}

// beside is the file of the input's name with an ending, the zero section where there is none.
func (in *Input) beside(ending string) (section, error) {
	if in.Beside == nil {
		return section{}, nil
	}
	r, size, err := in.Beside(ending)
	if r == nil || err != nil || size == 0 {
		return section{}, err
	}
	return section{r, size}, nil
}

func (f *sqliteFile) heads() (h sqliteHeads, err error) {
	if _, err = f.disk.main.head(h.main[:]); err == nil {
		_, err = f.disk.log.head(h.log[:])
	}
	return h, err
}

// unchanged returns an error if another program has written the file since it was opened.
func (f *sqliteFile) unchanged() error {
	now, err := f.heads()
	if err != nil {
		return err
	}
	changed := now != f.begun || f.disk.main.grown() || f.disk.log.grown()
	if f.disk.log.ReaderAt == nil {
		log, err := f.in.beside("-wal")
		if err != nil {
			return err
		}
		changed = changed || log.ReaderAt != nil
	}
	if changed {
		return errors.New("the SQLite file was written while it was read; stop the program that writes it, and import again")
	}
	return f.in.noJournal()
}

// begin begins the transaction and reads the schema.
func (f *sqliteFile) begin(ctx context.Context) error {
	return caught(func() error {
		f.conn.SetInterrupt(ctx)
		err := f.conn.ConfigLog(func(code sqlite3.ExtendedErrorCode, message string) {
			if code == sqlite3.NOTICE_RECOVER_WAL {
				_, _ = fmt.Sscanf(message, "recovered %d frames", &f.frames) // TestSQLiteLog would see other words
			}
		})
		if err != nil {
			return err
		}
		f.conn.Limit(sqlite3.LIMIT_LENGTH, maxCell)
		for op, on := range map[sqlite3.DBConfig]bool{
			sqlite3.DBCONFIG_DEFENSIVE: true, sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE: true,
			sqlite3.DBCONFIG_ENABLE_TRIGGER: false, sqlite3.DBCONFIG_ENABLE_VIEW: false, sqlite3.DBCONFIG_DQS_DML: false,
		} {
			if _, err := f.conn.Config(op, on); err != nil {
				return err
			}
		}
		if err := f.conn.Exec(readPragmas + "; BEGIN"); err != nil {
			return err
		}
		err = f.query("PRAGMA user_version", func(v []any) error {
			f.version, _ = v[0].(int64)
			return nil
		})
		if err != nil {
			return err
		}
		err = f.query("SELECT name, rootpage FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'", func(v []any) error {
			name, _ := v[0].(string)
			if root, _ := v[1].(int64); root == 0 {
				f.virtual = append(f.virtual, name)
				return nil
			}
			if f.tables = append(f.tables, &table{name: name}); len(f.tables) > maxTables {
				return fmt.Errorf("the SQLite file has more than %d tables; name a smaller one", maxTables)
			}
			return nil
		})
		for _, t := range f.tables {
			if err != nil {
				return err
			}
			err = f.describe(t)
		}
		return err
	})
}

// describe reads the columns of a table, generated ones among them.
func (f *sqliteFile) describe(t *table) error {
	var primary []string
	t.places = map[string]int{}
	err := f.query("PRAGMA table_xinfo("+quoted(t.name)+")", func(v []any) error {
		name, _ := v[1].(string)
		pk, _ := v[5].(int64)
		if pk > 0 {
			primary = append(primary, name)
		}
		t.places[strings.ToLower(name)] = len(t.columns)
		t.columns = append(t.columns, column{name: name, primary: int(pk)})
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"rowid", "_rowid_", "oid"} {
		if _, taken := t.places[name]; !taken {
			stmt, _, err := f.conn.Prepare("SELECT " + name + " FROM " + quoted(t.name))
			if err == nil {
				t.key = name
				return stmt.Close()
			}
			t.rowless = strings.Contains(err.Error(), "no such column")
			break
		}
	}
	if len(primary) == 1 {
		t.key = quoted(primary[0])
	}
	return nil
}

// quoted is a name in a statement.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// run gives the rows of a statement. Values are the caller's until the next row.
func (f *sqliteFile) run(sql string, args ...any) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		var stmt *sqlite3.Stmt
		err := caught(func() (err error) {
			stmt, _, err = f.conn.Prepare(sql)
			for i, v := range args {
				if err == nil {
					err = bind(stmt, i+1, v)
				}
			}
			return err
		})
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = caught(stmt.Close) }() // its error was that of the last step
		values := make([]any, stmt.ColumnCount())
		for more := true; ; {
			err := caught(func() error {
				if more = stmt.Step(); !more {
					return stmt.Err()
				}
				clear(values) // bytes of the row before would be written over
				return stmt.Columns(values...)
			})
			if err != nil {
				yield(nil, err)
				return
			}
			if !more || !yield(values, nil) {
				return
			}
		}
	}
}

// query visits the rows of a statement.
func (f *sqliteFile) query(sql string, visit func(values []any) error) error {
	for values, err := range f.run(sql) {
		if err == nil {
			err = visit(values)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end closes the connection, which has changed nothing.
func (f *sqliteFile) end() { _ = caught(f.close) }

// caught runs a call of SQLite. It is a sandbox, which panics where its memory ends.
func caught(call func() error) (err error) {
	if caught := panics.Catch("reads a SQLite file", func() { err = call() }); caught != nil {
		return errors.New("the SQLite file is damaged, or needs more memory than SQLite may use here")
	}
	return err
}

// failed is an error of SQLite in the words of an import.
func (f *sqliteFile) failed(ctx context.Context, err error) error {
	const recover = "; restore it from a backup, or recover a copy with: sqlite3 FILE .recover | sqlite3 COPY"
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, sqlite3.CORRUPT), errors.Is(err, sqlite3.IOERR_SHORT_READ):
		return fmt.Errorf("the SQLite file is damaged: %w%s", err, recover)
	case errors.Is(err, sqlite3.NOTADB):
		return errors.New("the SQLite file is damaged, encrypted, or of a newer version of SQLite" + recover)
	case errors.Is(err, sqlite3.NOMEM):
		return fmt.Errorf("the SQLite file needs more memory than SQLite may use here: %w", err)
	}
	return err
}

// check returns an error if the structure of the file is damaged: rows would be missing without
// a word. What rows hold has no checksum.
func (f *sqliteFile) check(ctx context.Context) error {
	err := f.query("PRAGMA quick_check(1)", func(v []any) error {
		what, _ := v[0].(string)
		if what == "ok" || strings.Contains(what, " value in ") { // a constraint that a row breaks is no damage
			return nil
		}
		return fmt.Errorf("%w: %s", sqlite3.CORRUPT, strings.ReplaceAll(strings.TrimPrefix(what, "*** in database main ***\n"), "\n", "; "))
	})
	if errors.Is(err, sqlite3.ERROR) { // it needs a collation of the program that made it
		return nil
	}
	return f.failed(ctx, err)
}

// table is the table with a name, without regard to case, nil where there is none.
func (f *sqliteFile) table(name string) *table {
	for _, t := range f.tables {
		if strings.EqualFold(t.name, name) {
			return t
		}
	}
	return nil
}

// has reports whether there is a table with some columns.
func (f *sqliteFile) has(name string, columns ...string) bool {
	t := f.table(name)
	return t != nil && !slices.ContainsFunc(columns, func(c string) bool { return t.index(c) < 0 })
}

// index is the place of a column, given in lower case, -1 where there is none.
func (t *table) index(name string) int {
	if i, ok := t.places[name]; ok {
		return i
	}
	return -1
}

// selected is the statement that reads rows of a table: from the table itself, since an index may
// differ from it.
func (t *table) selected(where string) string {
	key := t.key
	if key == "" {
		key = "NULL"
	}
	names := []string{key}
	for i := range t.columns {
		names = append(names, quoted(t.columns[i].name))
	}
	return "SELECT " + strings.Join(names, ", ") + " FROM " + quoted(t.name) + " NOT INDEXED " + where
}

// errLongCell is the error of a row with a value that is larger than maxCell.
var errLongCell = fmt.Errorf("a value of it is longer than %d MiB", maxCell>>20)

// rows reads the rows of a table in its order. The error of a row that is too long is errLongCell,
// and the next row follows; any other one is the last.
func (f *sqliteFile) rows(ctx context.Context, t *table) iter.Seq2[sqliteRow, error] {
	return func(yield func(sqliteRow, error) bool) {
		var last sqliteRow
		var after []any
		for place := int64(0); ; {
			var failed error
			for values, err := range f.run(t.selected(t.behind(after)), after...) {
				if failed = err; err != nil {
					break
				}
				place++
				last = sqliteRow{place, values[0], values[1:]}
				if number, ok := values[0].(int64); ok && !t.rowless {
					last.number = number
				}
				if after = []any{values[0]}; !yield(last, nil) {
					return
				}
			}
			if failed == nil {
				return
			}
			if errors.Is(failed, sqlite3.TOOBIG) {
				last, failed = f.long(t, after)
				if after = []any{last.key}; failed == nil && yield(last, errLongCell) {
					continue
				}
			}
			if failed != nil {
				yield(sqliteRow{}, f.failed(ctx, failed))
			}
			return
		}
	}
}

// behind is the condition of the rows behind one.
func (t *table) behind(key []any) string {
	if len(key) == 0 {
		return ""
	}
	return "WHERE " + t.key + " > ?"
}

// long is the row behind one, which is too long to be read: SQLite has ended the statement, and it goes
// on behind that row.
func (f *sqliteFile) long(t *table, after []any) (row sqliteRow, err error) {
	if t.key == "" {
		return row, fmt.Errorf("a row of the table %q: %w; delete the value in a copy of the file", t.name, errLongCell)
	}
	for values, err := range f.run("SELECT "+t.key+" FROM "+quoted(t.name)+" NOT INDEXED "+t.behind(after)+" ORDER BY "+t.key+" LIMIT 1", after...) {
		if err != nil {
			return row, err
		}
		row.key = values[0]
		row.number, _ = values[0].(int64)
	}
	return row, nil
}

// row reads a row again, by its key.
func (f *sqliteFile) row(ctx context.Context, t *table, key any) (sqliteRow, error) {
	for values, err := range f.run(t.selected("WHERE "+t.key+" = ?"), key) {
		if err != nil {
			return sqliteRow{}, f.failed(ctx, err)
		}
		number, _ := values[0].(int64)
		return sqliteRow{number, values[0], values[1:]}, nil
	}
	return sqliteRow{}, f.failed(ctx, fmt.Errorf("%w: the table %q lacks a row that it had", sqlite3.CORRUPT, t.name))
}

// bind gives a statement a value.
func bind(stmt *sqlite3.Stmt, at int, value any) error {
	switch v := value.(type) {
	case int64:
		return stmt.BindInt64(at, v)
	case bool:
		return stmt.BindBool(at, v)
	case float64:
		return stmt.BindFloat(at, v)
	case string:
		return stmt.BindText(at, v)
	case []byte:
		return stmt.BindBlob(at, v)
	}
	return stmt.BindNull(at)
}

// count counts the rows of a table.
func (f *sqliteFile) count(ctx context.Context, t *table) (n int, err error) {
	err = f.query("SELECT count(*) FROM "+quoted(t.name)+" NOT INDEXED", func(v []any) error {
		rows, _ := v[0].(int64)
		n = int(rows)
		return nil
	})
	return n, f.failed(ctx, err)
}

// database reads the tables of a SQLite file, and fails if the file is damaged or was written
// meanwhile. Tables that read does not name in known are left out, and columns that it did not
// look at.
func (w *writer) database(in *Input, read func(f *sqliteFile) (known []string, err error)) error {
	f, err := in.openSQLite(w.ctx)
	if err != nil {
		return err
	}
	defer f.end()
	if err := f.check(w.ctx); err != nil {
		return err
	}
	known, err := read(f)
	if err != nil {
		return err
	}
	w.leaveColumns(f)
	if err := w.leaveTables(f, known); err != nil {
		return err
	}
	w.read = in.Size
	pages, err := f.uncommitted()
	if err != nil {
		return f.failed(w.ctx, err)
	}
	w.leave("pages of the write-ahead log that no commit follows", pages)
	return f.unchanged()
}

// uncommitted counts the pages at the end of the write-ahead log that SQLite does not take: of a
// transaction that was not ended, or behind a damaged one.
func (f *sqliteFile) uncommitted() (pages int, err error) {
	if f.disk.log.ReaderAt == nil {
		return 0, nil
	}
	var size int64
	if err := f.query("PRAGMA page_size", func(v []any) error {
		size, _ = v[0].(int64)
		return nil
	}); err != nil {
		return 0, err
	}
	const frameHeader = 24
	head := make([]byte, frameHeader)
	for at := logHeader + f.frames*(frameHeader+size); at < f.disk.log.size; at += frameHeader + size {
		if _, err := f.disk.log.ReadAt(head, at); err != nil || string(head[8:16]) != string(f.begun.log[16:24]) {
			break // the end of the log, or pages from before its last restart
		}
		pages++
	}
	return pages, nil
}
