package move

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

// A splitter cuts a document of JSON into values, without looking into them: what it holds is
// one value, whatever the size of the document. A value over the limit is passed by.
type splitter struct {
	in    *bufio.Reader
	at    int64 // bytes that were read
	limit int
	buf   []byte
}

// errLong is a value over the limit, which was passed by.
var errLong = fmt.Errorf("longer than %d MiB", exchange.MaxLine>>20)

// errEnds is a document that is cut off.
var errEnds = errors.New("it ends too early")

const splitBuffer = 256 << 10

func newSplitter(r io.Reader) (*splitter, error) {
	s := &splitter{in: bufio.NewReaderSize(r, splitBuffer), limit: exchange.MaxLine}
	head, err := s.in.Peek(exchange.TextHead)
	if len(head) < 2 && err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := exchange.CheckText(head); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		return s, s.discard(3)
	}
	return s, nil
}

func (s *splitter) discard(n int) error {
	n, err := s.in.Discard(n)
	s.at += int64(n)
	return err
}

// peek is the next byte that is not blank; io.EOF is the end of the document.
func (s *splitter) peek() (byte, error) {
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			return 0, err
		}
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			s.at++
			continue
		}
		return c, s.in.UnreadByte()
	}
}

// inside is peek within a value, where the document must not end.
func (s *splitter) inside() (byte, error) {
	c, err := s.peek()
	if errors.Is(err, io.EOF) {
		err = s.malformed(errEnds)
	}
	return c, err
}

func (s *splitter) malformed(why error) error {
	return fmt.Errorf("malformed JSON behind byte %d: %w", s.at, why)
}

// take reads one byte that must be there.
func (s *splitter) take(want byte) error {
	c, err := s.inside()
	if err == nil && c != want {
		err = s.malformed(fmt.Errorf("%q instead of %q", c, want))
	}
	if err != nil {
		return err
	}
	return s.discard(1)
}

// value reads the next value. It is valid until the next call. errLong is one over the limit.
func (s *splitter) value() ([]byte, error) {
	if _, err := s.inside(); err != nil {
		return nil, err
	}
	var scan scanner
	size := 0
	s.buf = s.buf[:0]
	for {
		if _, err := s.in.Peek(1); err != nil {
			if errors.Is(err, io.EOF) && scan.mayEnd() {
				return s.whole(size)
			}
			if errors.Is(err, io.EOF) {
				err = s.malformed(errEnds)
			}
			return nil, err
		}
		chunk, _ := s.in.Peek(s.in.Buffered()) // they are there
		n, done := scan.next(chunk)
		if size += n; size <= s.limit {
			s.buf = append(s.buf, chunk[:n]...)
		}
		if err := s.discard(n); err != nil {
			return nil, err
		}
		if done {
			return s.whole(size)
		}
	}
}

func (s *splitter) whole(size int) ([]byte, error) {
	switch {
	case size > s.limit:
		s.buf = nil // which may hold much
		return nil, errLong
	case size == 0:
		return nil, s.malformed(errors.New("a value is missing"))
	}
	return s.buf, nil
}

// scanner finds the end of a value.
type scanner struct {
	depth             int
	inString, escaped bool
	begun             bool
}

// mayEnd reports whether the value may end with the document: a number, for one.
func (s *scanner) mayEnd() bool { return s.begun && s.depth == 0 && !s.inString }

// next is how many bytes of a chunk belong to the value, and whether it ends with them.
func (s *scanner) next(chunk []byte) (n int, done bool) {
	for i := 0; i < len(chunk); i++ {
		if s.inString {
			if i += s.inText(chunk[i:]); i < len(chunk) && !s.inString && s.depth == 0 {
				return i + 1, true
			}
			continue
		}
		switch c := chunk[i]; c {
		case '"':
			s.inString = true
		case '{', '[':
			s.depth++
		case '}', ']':
			if s.depth == 0 { // of what the value is in
				return i, true
			}
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		case ',', ':', ' ', '\t', '\n', '\r':
			if s.depth == 0 {
				return i, true
			}
		}
		s.begun = true
	}
	return len(chunk), false
}

// inText is the place of the quote that ends a string, or of the last byte that was looked at.
func (s *scanner) inText(chunk []byte) int {
	if s.escaped {
		s.escaped = false
		return 0
	}
	at := bytes.IndexAny(chunk, "\"\\")
	if at < 0 {
		return len(chunk)
	}
	s.escaped, s.inString = chunk[at] == '\\', chunk[at] != '"'
	return at
}

// A walk visits the values of a document.
type walk struct {
	*splitter
	// enter says of a list or an object at a path that its values are visited one by one. The
	// path of a value in the list under a key is "key[]".
	enter func(path string) bool
	// visit takes a value, which is valid until it returns, or errLong in its place. n counts
	// the values of its path, from 1.
	visit func(path string, n int, value []byte, err error) error
	seen  map[string]int
}

// run walks through the document, or several one after another.
func (w *walk) run() error {
	w.seen = map[string]int{}
	for {
		_, err := w.peek()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = w.value("")
		}
		if err != nil {
			return err
		}
	}
}

func (w *walk) value(path string) error {
	c, err := w.inside()
	if err != nil {
		return err
	}
	if (c == '{' || c == '[') && w.enter(path) {
		if err := w.discard(1); err != nil {
			return err
		}
		if c == '{' {
			return w.object(path)
		}
		return w.list(path)
	}
	value, err := w.splitter.value()
	if err != nil && !errors.Is(err, errLong) {
		return err
	}
	w.seen[path]++
	return w.visit(path, w.seen[path], value, err)
}

func (w *walk) list(path string) error {
	for first := true; ; first = false {
		more, err := w.more(']', first)
		if err != nil || !more {
			return err
		}
		if err := w.value(path + "[]"); err != nil {
			return err
		}
	}
}

func (w *walk) object(path string) error {
	for first := true; ; first = false {
		more, err := w.more('}', first)
		if err != nil || !more {
			return err
		}
		name, err := w.splitter.value()
		var key string
		if err == nil {
			if err = exchange.Decode(name, &key); err != nil {
				err = w.malformed(fmt.Errorf("%.40q is no key: %w", name, err))
			}
		}
		if err == nil {
			err = w.take(':')
		}
		if err != nil {
			return err
		}
		at := key
		if path != "" {
			at = path + "." + key
		}
		if err := w.value(at); err != nil {
			return err
		}
	}
}

// more reports whether there is another value in a list or object, and passes the comma before it.
func (w *walk) more(end byte, first bool) (bool, error) {
	c, err := w.inside()
	if err != nil {
		return false, err
	}
	if c == end {
		return false, w.discard(1)
	}
	if first {
		return true, nil
	}
	return true, w.take(',')
}

// marshal is a value as JSON, nil for an empty object.
func marshal(m map[string]any) (json.RawMessage, error) {
	if len(m) == 0 {
		return nil, nil
	}
	return json.Marshal(m)
}
