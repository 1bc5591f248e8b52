package sqlitefile

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Table is a table of a file.
type Table struct {
	Name    string
	Columns []Column
	root    uint32
	rowless bool // it has no row IDs, so that it is an index
}

// Column is a column of a table.
type Column struct {
	Name string
	// standard is what rows have that are older than the column.
	standard any
	// isID: the column is the ID of the row, which its record lacks.
	isID bool
	// integer: a key of this column alone makes it the ID of the row.
	integer bool
	// virtual: the column is computed, and no record has it.
	virtual bool
}

// Has reports whether the table has all of the columns, without regard to case.
func (t *Table) Has(names ...string) bool {
	return t != nil && !slices.ContainsFunc(names, func(n string) bool { return t.Index(n) < 0 })
}

// Index is the place of a column, -1 where there is none.
func (t *Table) Index(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) })
}

// complete are the values of all columns, from those that a record has.
func (t *Table) complete(stored []any, id int64) []any {
	values := make([]any, len(t.Columns))
	for i, c := range t.Columns {
		if c.virtual {
			continue
		}
		if len(stored) == 0 {
			values[i] = c.standard
		} else {
			values[i], stored = stored[0], stored[1:]
		}
		if c.isID && values[i] == nil {
			values[i] = id
		}
	}
	return values
}

// columnsOf are the columns that a CREATE TABLE names, and whether its table has no row IDs.
func columnsOf(sql string) (columns []Column, rowless bool) {
	words := wordsOf(sql)
	open := slices.Index(words, "(")
	if open < 0 {
		return nil, false
	}
	depth, begin := 0, open+1
	for i := open; i < len(words); i++ {
		switch words[i] {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth == 1 && words[i] == "," || depth == 0 {
			columns = addColumn(columns, words[begin:i])
			begin = i + 1
		}
		if depth == 0 {
			tail := strings.ToUpper(strings.Join(words[begin:], " "))
			return columns, strings.Contains(tail, "WITHOUT ROWID")
		}
	}
	return columns, false
}

// addColumn adds the column that words between two commas tell of, or makes one the ID that a
// constraint names.
func addColumn(columns []Column, words []string) []Column {
	if len(words) == 0 {
		return columns
	}
	upper := make([]string, len(words))
	for i, w := range words {
		upper[i] = strings.ToUpper(w)
	}
	switch upper[0] {
	case "CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN":
		markID(columns, words, slices.Index(upper, "PRIMARY"))
		return columns
	}
	return append(columns, columnOf(words, upper))
}

// markID makes the column the ID of the row that a key names, which begins at a word, if it is
// the key's only one.
func markID(columns []Column, words []string, at int) {
	if at < 0 || at+4 >= len(words) || words[at+2] != "(" || words[at+4] != ")" {
		return
	}
	for i := range columns {
		c := &columns[i]
		c.isID = c.isID || c.integer && strings.EqualFold(c.Name, unquoted(words[at+3]))
	}
}

// columnOf is the column that words tell of, which are also given in upper case.
func columnOf(words, upper []string) Column {
	c := Column{Name: unquoted(words[0]), integer: len(upper) > 1 && upper[1] == "INTEGER" && (len(upper) == 2 || upper[2] != "(")}
	for i, w := range upper {
		switch {
		case i == 0:
		case w == "PRIMARY" && c.integer && (i+2 >= len(upper) || upper[i+2] != "DESC"):
			c.isID = true
		case w == "DEFAULT" && i+1 < len(words):
			c.standard = literal(words[i+1:])
		case w == "AS" && i+1 < len(words) && words[i+1] == "(":
			c.virtual = !slices.Contains(upper, "STORED")
		}
	}
	return c
}

// literal is the value that a DEFAULT gives, nil for what must be computed.
func literal(words []string) any {
	w, sign := words[0], ""
	if (w == "-" || w == "+") && len(words) > 1 {
		sign, w = w, words[1]
	}
	if w == "(" && len(words) > 1 {
		return literal(words[1:])
	}
	if n, err := strconv.ParseInt(sign+w, 0, 64); err == nil {
		return n
	}
	if x, err := strconv.ParseFloat(sign+w, 64); err == nil {
		return x
	}
	switch {
	case w[0] == '\'':
		return unquoted(w)
	case strings.EqualFold(w, "true"):
		return int64(1)
	case strings.EqualFold(w, "false"):
		return int64(0)
	case len(w) > 2 && (w[0] == 'x' || w[0] == 'X') && w[1] == '\'':
		b, _ := hex.DecodeString(strings.Trim(w[1:], "'"))
		return b
	}
	return nil
}

// wordsOf cuts SQL into words, quoted names and signs, without comments.
func wordsOf(sql string) []string {
	var words []string
	for sql = strings.TrimLeft(sql, blanks); sql != ""; sql = strings.TrimLeft(sql, blanks) {
		if n := comment(sql); n > 0 {
			sql = sql[n:]
			continue
		}
		n := 1
		switch c := sql[0]; {
		case strings.IndexByte("'\"`[", c) >= 0:
			n = quoted(sql)
		case (c == 'x' || c == 'X') && len(sql) > 1 && sql[1] == '\'':
			n = 1 + quoted(sql[1:])
		case isWord(c):
			for n < len(sql) && isWord(sql[n]) {
				n++
			}
		}
		words, sql = append(words, sql[:n]), sql[n:]
	}
	return words
}

const blanks = " \t\n\r\f"

// comment is the length of the comment that SQL begins with, 0 where it begins with none.
func comment(sql string) int {
	var end string
	switch {
	case strings.HasPrefix(sql, "--"):
		end = "\n"
	case strings.HasPrefix(sql, "/*"):
		end = "*/"
	default:
		return 0
	}
	if n := strings.Index(sql, end); n >= 0 {
		return n + len(end)
	}
	return len(sql)
}

// quoted is the length of a quoted name or text, in which a quote is written twice.
func quoted(s string) int {
	end := s[0]
	if end == '[' {
		end = ']'
	}
	for i := 1; i < len(s); i++ {
		if s[i] != end {
			continue
		}
		if end != ']' && i+1 < len(s) && s[i+1] == end {
			i++
			continue
		}
		return i + 1
	}
	return len(s)
}

func isWord(c byte) bool {
	return c == '_' || c == '.' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// unquoted is a name or text without its quotes.
func unquoted(s string) string {
	if len(s) < 2 {
		return s
	}
	switch q := s[0]; q {
	case '[':
		return strings.TrimSuffix(s[1:], "]")
	case '\'', '"', '`':
		return strings.ReplaceAll(strings.TrimSuffix(s[1:], string(q)), string([]byte{q, q}), string(q))
	}
	return s
}
