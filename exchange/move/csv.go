package move

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

// maxColumns bounds the columns of a header.
const maxColumns = 1000

// readCSV reads rows below a header. What is between the columns shows in the header.
func readCSV(in *Input, w *writer) error {
	r := bufio.NewReaderSize(in.Reader, splitBuffer)
	head, err := r.Peek(splitBuffer)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return err
	}
	if err := exchange.CheckText(head); err != nil {
		return err
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		if _, err := r.Discard(3); err != nil {
			return err
		}
		head = head[3:]
	}
	// A quote that is never closed makes all behind it one field: the bound is one of a record.
	bound := &bounded{in: r}
	rows := csv.NewReader(bound)
	rows.Comma, rows.FieldsPerRecord, rows.ReuseRecord = separator(head), -1, true
	bound.left = exchange.MaxLine
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the header: %w", err)
	}
	names, err := columns(header)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		bound.left = exchange.MaxLine
		row, err := rows.Read()
		w.read = rows.InputOffset()
		at := exchange.LineError{Line: n, Of: "row"}
		_, malformed := errors.AsType[*csv.ParseError](err)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errLong):
			return fmt.Errorf("row %d: %w; is a quote of it never closed?", n, err)
		case malformed:
			err = w.skip(at, err)
		case err != nil:
			return fmt.Errorf("read row %d: %w", n, err)
		default:
			err = w.row(at, names, row)
		}
		if err != nil {
			return err
		}
	}
}

// separator is what stands most often in the first line, of tab, comma and semicolon.
func separator(head []byte) rune {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	best, most := ',', 0
	for _, c := range []rune{'\t', ';', ','} {
		if n := bytes.Count(line, []byte(string(c))); n > most {
			best, most = c, n
		}
	}
	return best
}

// columns are the names of a header, each of which must be there once.
func columns(header []string) ([]string, error) {
	if len(header) > maxColumns {
		return nil, fmt.Errorf("the header has %d columns; the limit is %d", len(header), maxColumns)
	}
	seen := map[string]bool{}
	names := make([]string, len(header))
	for i, name := range header {
		name = strings.TrimSpace(name)
		switch {
		case !utf8.ValidString(name):
			return nil, fmt.Errorf("the name of column %d is not UTF-8", i+1)
		case name == "":
			name = fmt.Sprintf("column %d", i+1)
		case seen[name]:
			return nil, fmt.Errorf("the header has the column %.80q twice", name)
		}
		seen[name] = true
		names[i] = name
	}
	return names, nil
}

// row gives the memory of a row. An empty field is none.
func (w *writer) row(at exchange.LineError, names, row []string) error {
	if len(row) > len(names) {
		return w.skip(at, fmt.Errorf("it has %d fields, and the header %d columns", len(row), len(names)))
	}
	f := fields{}
	for i, field := range row {
		if field == "" {
			continue
		}
		if !utf8.ValidString(field) {
			return w.skip(at, fmt.Errorf("the column %.80q is not UTF-8", names[i]))
		}
		raw, err := json.Marshal(field)
		if err != nil {
			return w.skip(at, err)
		}
		if isNumber(field) || isVector(names[i], field) {
			raw = []byte(field)
		}
		f[names[i]] = raw
	}
	// The one column of a file is its text, whatever it is called.
	if len(names) == 1 && len(f) == 1 {
		f = fields{textKeys[0]: f[names[0]]}
	}
	m, err := w.memoryOf(f)
	if err != nil {
		return w.skip(at, err)
	}
	return w.memory(at, m)
}

// isNumber reports whether a field is a number as JSON writes it, which a text of digits such as
// 007 is not.
func isNumber(field string) bool {
	if c := field[0]; c != '-' && (c < '0' || c > '9') {
		return false
	}
	return json.Valid([]byte(field))
}

// isVector reports whether a field is the list of numbers that its column says.
func isVector(name, field string) bool {
	return field[0] == '[' && (name == vectorKeys[0] || name == vectorKeys[1]) && json.Valid([]byte(field))
}

// bounded fails where more is read than is left.
type bounded struct {
	in   io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errLong
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
