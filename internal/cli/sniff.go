package cli

import (
	"bufio"
	"bytes"
	"path/filepath"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

// What an input is shows in how it begins. The functions here look at an input byte by byte,
// and no further than they must, since a pipe may have no more for now. Errors come again
// when the input is read.

const (
	// headSize is room for the first object of a file, such as the line of a database.
	headSize = 64 << 10
	// maxBlank is how far the next character that is not blank is looked for.
	maxBlank = 512
)

// guessFormat looks at the name, and then at how the file begins: a list is a document,
// and so is an object in several lines in a file that says so by its name.
func guessFormat(name string, in *bufio.Reader) string {
	if f, ok := vectorFormat(name); ok && !isText(in) {
		return string(f)
	}
	switch at, c := nextByte(in, 0); {
	case c == '[':
		return formatJSON
	case c == '{' && filepath.Ext(name) == "."+formatJSON && bytes.ContainsRune(objectAt(in, at), '\n'):
		return formatJSON
	}
	return formatJSONL
}

// vectorFormat is the format that the name of a file of vectors says.
func vectorFormat(name string) (exchange.Rows, bool) {
	switch filepath.Ext(name) {
	case "." + formatFbin:
		return exchange.RowsFloat32, true
	case "." + formatU8bin:
		return exchange.RowsUint8, true
	}
	return "", false
}

// isText reports whether the input begins as JSON does. The head of a file of vectors has zeros: of the
// dimensions there are never so many.
func isText(in *bufio.Reader) bool {
	head, _ := in.Peek(exchange.VectorHead)
	_, c := nextByte(in, 0)
	return (c == '{' || c == '[') && bytes.IndexByte(head, 0) < 0
}

// headOf looks whether the input begins with the line of a database, nil where it does not.
func headOf(in *bufio.Reader) *exchange.Database {
	at, c := nextByte(in, 0)
	if c == '[' {
		at, c = nextByte(in, at+1)
	}
	if c != '{' {
		return nil
	}
	var d exchange.Database
	if _, err := exchange.DecodeKnown(objectAt(in, at), &d); err != nil || d.Type != exchange.TypeDatabase {
		return nil // where it is damaged, the import will say so
	}
	return &d
}

// nextByte is the first character from a place on that is not blank, and its place; 0 where
// there is none near. A byte order mark is blank at the begin.
func nextByte(in *bufio.Reader, from int) (at int, c byte) {
	const mark = "\xef\xbb\xbf"
	for at = from; at < from+maxBlank; at++ {
		c, ok := byteAt(in, at)
		switch {
		case !ok:
			return at, 0
		case at < len(mark) && c == mark[at]:
		case !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)):
			return at, c
		}
	}
	return at, 0
}

func byteAt(in *bufio.Reader, at int) (byte, bool) {
	head, err := in.Peek(at + 1)
	if err != nil {
		return 0, false
	}
	return head[at], true
}

// objectAt is the object that begins at a place, nil where it is longer than the buffer, or
// has no end.
func objectAt(in *bufio.Reader, from int) []byte {
	depth, inString, escaped := 0, false, false
	for at := from; at < in.Size(); at++ {
		c, ok := byteAt(in, at)
		switch {
		case !ok:
			return nil
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				head, _ := in.Peek(at + 1)
				return head[from:]
			}
		}
	}
	return nil
}
