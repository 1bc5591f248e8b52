package exchange

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A Splitter cuts a JSON text into values without looking into them. It holds one value at a
// time, whatever the size of the text, and looks at each byte once. It is not safe for
// concurrent use.
type Splitter struct {
	in    *bufio.Reader
	at    int64 // bytes that were read
	limit int
	buf   []byte
}

// passLimits bounds the work for one value, in limits: a value or a run of blanks that is so many
// times too long ends the reading.
const passLimits = 16

var (
	errEndsEarly = errors.New("it ends too early")
	errBlanks    = fmt.Errorf("more than %d MiB of blanks", MaxLine>>20)
	errEndless   = fmt.Errorf("a value is longer than %d MiB", passLimits*MaxLine>>20)
)

// NewSplitter returns a splitter of r, behind a byte order mark. It fails where r begins like a
// text in UTF-16 or a compressed file.
func NewSplitter(r io.Reader) (*Splitter, error) {
	s := &Splitter{in: bufio.NewReaderSize(r, readBuffer), limit: MaxLine}
	head, err := s.in.Peek(TextHead)
	if len(head) < 2 && err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := CheckText(head); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		return s, s.discard(3)
	}
	return s, nil
}

// Bytes is how much was read.
func (s *Splitter) Bytes() int64 { return s.at }

// Head is what there is of the text, as far as the buffer has room.
func (s *Splitter) Head() []byte {
	head, _ := s.in.Peek(readBuffer)
	return head
}

func (s *Splitter) discard(n int) error {
	n, err := s.in.Discard(n)
	s.at += int64(n)
	return err
}

// Peek returns the next byte that is not blank, and io.EOF at the end of the text.
func (s *Splitter) Peek() (byte, error) {
	for blanks := 0; ; {
		if _, err := s.in.Peek(1); err != nil {
			return 0, err
		}
		chunk, _ := s.in.Peek(s.in.Buffered()) // they are there
		n := 0
		for n < len(chunk) && isBlank(chunk[n]) {
			n++
		}
		if n < len(chunk) {
			return chunk[n], s.discard(n)
		}
		if err := s.discard(n); err != nil {
			return 0, err
		}
		if blanks += n; blanks > s.limit {
			return 0, s.Malformed(errBlanks)
		}
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// Inside is Peek within a value, where the text must not end.
func (s *Splitter) Inside() (byte, error) {
	c, err := s.Peek()
	if errors.Is(err, io.EOF) {
		err = s.Malformed(errEndsEarly)
	}
	return c, err
}

// Malformed is an error that names the place in the text.
func (s *Splitter) Malformed(why error) error { return malformed(s.at, why) }

func malformed(at int64, why error) error {
	return fmt.Errorf("malformed JSON behind byte %d: %w", at, why)
}

// Take reads one byte that must be next, apart from blanks.
func (s *Splitter) Take(want byte) error {
	c, err := s.Inside()
	if err == nil && c != want {
		err = s.Malformed(fmt.Errorf("%q instead of %q", c, want))
	}
	if err != nil {
		return err
	}
	return s.discard(1)
}

// More reports whether a list or an object has another value, and passes the comma before it or
// the byte that ends it.
func (s *Splitter) More(end byte, first bool) (bool, error) {
	c, err := s.Inside()
	if err != nil {
		return false, err
	}
	if c == end {
		return false, s.discard(1)
	}
	if first {
		return true, nil
	}
	return true, s.Take(',')
}

// Value reads the next value, which is valid until the next call. ErrLongLine is one over the
// limit, which was passed by.
func (s *Splitter) Value() ([]byte, error) {
	if _, err := s.Inside(); err != nil {
		return nil, err
	}
	var scan scanner
	size, begin := 0, s.at
	s.buf = s.buf[:0]
	for {
		if _, err := s.in.Peek(1); err != nil {
			if errors.Is(err, io.EOF) && scan.mayEnd() {
				return s.whole(size, begin)
			}
			if errors.Is(err, io.EOF) {
				err = malformed(begin, errEndsEarly)
			}
			return nil, err
		}
		chunk, _ := s.in.Peek(s.in.Buffered()) // they are there
		n, done := scan.next(chunk)
		if size += n; size <= s.limit {
			s.buf = append(s.buf, chunk[:n]...)
		}
		if size/passLimits > s.limit {
			return nil, malformed(begin, errEndless)
		}
		if err := s.discard(n); err != nil {
			return nil, err
		}
		if done {
			return s.whole(size, begin)
		}
	}
}

// whole is a value of a size, which began at a place.
func (s *Splitter) whole(size int, begin int64) ([]byte, error) {
	switch {
	case size > s.limit:
		s.buf = nil // which may hold much
		return nil, ErrLongLine
	case size == 0:
		return nil, s.Malformed(errors.New("a value is missing"))
	}
	if c := s.buf[0]; c != '{' && c != '[' && c != '"' && !json.Valid(s.buf) {
		return nil, malformed(begin, fmt.Errorf("%.40q is no value", s.buf))
	}
	return s.buf, nil
}

// scanner finds the end of a value.
type scanner struct {
	depth             int
	inString, escaped bool
	begun             bool
}

// mayEnd reports whether the value may end with the text, as a number may.
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
			if s.begun && s.depth == 0 {
				return i, true
			}
			s.inString = true
		case '{', '[':
			if s.begun && s.depth == 0 {
				return i, true
			}
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

// inText is the place of the quote that ends a string, or the length of the chunk.
func (s *scanner) inText(chunk []byte) int {
	at := 0
	if s.escaped {
		s.escaped, at = false, 1
	}
	for quote := -1; at < len(chunk); {
		if quote < at { // each byte is looked at once
			if quote = bytes.IndexByte(chunk[at:], '"'); quote < 0 {
				quote = len(chunk)
			} else {
				quote += at
			}
		}
		escape := bytes.IndexByte(chunk[at:quote], '\\')
		if escape < 0 {
			s.inString = quote == len(chunk)
			return quote
		}
		at += escape + 2
	}
	s.escaped = at > len(chunk)
	return len(chunk)
}
