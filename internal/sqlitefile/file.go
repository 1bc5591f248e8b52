package sqlitefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Magic is what a file begins with.
const Magic = "SQLite format 3\x00"

const (
	headerSize = 100
	leastPage  = 512
	mostPage   = 65536
	// leastUsable is the least room on a page that the format allows.
	leastUsable = 480
	// maxTables bounds the tables of a file, and maxSchema the text of one.
	maxTables = 10_000
	maxSchema = 1 << 20
	// maxDepth bounds a tree: one with two children a page has no more levels.
	maxDepth = 40
	// MaxRow bounds a row, in bytes.
	MaxRow = 64 << 20
)

// The encodings of texts.
const (
	utf8Text = 1 + iota
	utf16Little
	utf16Big
)

// Section is a file that can be read at any place.
type Section struct {
	io.ReaderAt
	Size int64
}

// File reads a SQLite file. It is not safe for concurrent use.
type File struct {
	main     Section
	log      *log
	pageSize int
	usable   int // of a page
	pages    uint32
	encoding int
	version  int // of the program that made it
	tables   []Table
	header   [headerSize]byte
}

// damaged is an error of a file whose content cannot be what SQLite writes.
func damaged(format string, args ...any) error {
	return fmt.Errorf("the SQLite file is damaged: "+format, args...)
}

// ErrNoFile is returned for what is no SQLite file.
var ErrNoFile = errors.New("it is no SQLite file")

// Open reads the head and the schema of a file. wal is its write-ahead log, the zero Section
// where there is none.
func Open(main, wal Section) (*File, error) {
	f := &File{main: main}
	if n, err := main.ReadAt(f.header[:], 0); n < headerSize {
		if err == nil || errors.Is(err, io.EOF) {
			err = ErrNoFile
		}
		return nil, err
	}
	if string(f.header[:len(Magic)]) != Magic {
		return nil, ErrNoFile
	}
	f.pageSize = int(binary.BigEndian.Uint16(f.header[16:]))
	if f.pageSize == 1 {
		f.pageSize = mostPage
	}
	if f.pageSize < leastPage || f.pageSize&(f.pageSize-1) != 0 {
		return nil, damaged("its pages have %d bytes", f.pageSize)
	}
	if f.usable = f.pageSize - int(f.header[20]); f.usable < leastUsable {
		return nil, damaged("of a page %d bytes are of use", f.usable)
	}
	if v := f.header[19]; v > 2 {
		return nil, fmt.Errorf("the SQLite file has the format %d, which is newer than 2; export it with the program that made it", v)
	}
	f.pages = uint32(min(main.Size/int64(f.pageSize), 1<<32-2))
	if wal.ReaderAt != nil {
		var err error
		if f.log, err = openLog(wal, f.pageSize); err != nil {
			return nil, err
		}
		if f.log.pages > 0 {
			f.pages = f.log.pages
		}
	}
	return f, f.schema()
}

// schema reads what tables there are.
func (f *File) schema() error {
	first, err := f.page(1)
	if err != nil {
		return err
	}
	switch enc := binary.BigEndian.Uint32(first[56:]); enc {
	case 0, utf8Text:
		f.encoding = utf8Text
	case utf16Little, utf16Big:
		f.encoding = int(enc)
	default:
		return damaged("its texts have the encoding %d", enc)
	}
	f.version = int(int32(binary.BigEndian.Uint32(first[60:])))
	schema := Table{Name: "sqlite_schema", root: 1, Columns: []Column{{Name: "type"}, {Name: "name"}, {Name: "tbl_name"}, {Name: "rootpage"}, {Name: "sql"}}}
	for row, err := range f.Rows(&schema) {
		if err != nil {
			return err
		}
		name, _ := row.Values[1].(string)
		sql, _ := row.Values[4].(string)
		root, _ := row.Values[3].(int64)
		if row.Values[0] != "table" || strings.HasPrefix(name, "sqlite_") || root <= 0 {
			continue // an index, a view, a trigger, or a table of another module
		}
		if len(f.tables) == maxTables {
			return damaged("it has more than %d tables", maxTables)
		}
		if root > int64(f.pages) || len(sql) > maxSchema {
			return damaged("the table %.80q cannot be", name)
		}
		t := Table{Name: name, root: uint32(root)}
		t.Columns, t.rowless = columnsOf(sql)
		f.tables = append(f.tables, t)
	}
	return nil
}

// Version is the user_version of the file, by which a program tells its schema.
func (f *File) Version() int { return f.version }

// Tables are the tables of the file, in the order of their making.
func (f *File) Tables() []Table { return f.tables }

// Table is the table of a name, without regard to case, nil where there is none.
func (f *File) Table(name string) *Table {
	for i := range f.tables {
		if strings.EqualFold(f.tables[i].Name, name) {
			return &f.tables[i]
		}
	}
	return nil
}

// Changed reports whether the file or its log was written since it was opened.
func (f *File) Changed() (bool, error) {
	var now [headerSize]byte
	if _, err := f.main.ReadAt(now[:], 0); err != nil {
		return false, err
	}
	if now != f.header {
		return true, nil
	}
	if f.log == nil {
		return false, nil
	}
	return f.log.changed()
}

// page reads a page. It is the caller's.
func (f *File) page(n uint32) ([]byte, error) {
	if n == 0 || n > f.pages {
		return nil, damaged("it has %d pages, and page %d is asked for", f.pages, n)
	}
	b := make([]byte, f.pageSize)
	if f.log != nil {
		if in, err := f.log.page(n, b); in || err != nil {
			return b, err
		}
	}
	if _, err := f.main.ReadAt(b, int64(n-1)*int64(f.pageSize)); err != nil {
		if errors.Is(err, io.EOF) {
			err = damaged("it ends before page %d", n)
		}
		return nil, err
	}
	return b, nil
}
