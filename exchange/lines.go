package exchange

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxLine bounds a line, in bytes: the longest text with every character
// escaped fits, and so does the largest vector beside it.
const MaxLine = 64 << 20

// readBuffer holds a few hundred usual lines.
const readBuffer = 256 << 10

// ErrLongLine is returned for a line over MaxLine.
var ErrLongLine = fmt.Errorf("longer than %d MiB", MaxLine>>20)

// A LineError is a line, or in a form without lines a record, that could not be
// taken.
type LineError struct {
	Line int    // counted from 1; of a JSON document the number of the record; 0 where there is neither
	Of   string // what the form calls its records, where there are no lines: "row"
	ID   string // the record's, likewise
	Err  error
}

// Error names the line, or the record.
func (e LineError) Error() string {
	switch {
	case e.Line > 0 && e.Of != "":
		return fmt.Sprintf("%s %d: %v", e.Of, e.Line, e.Err)
	case e.Line == 0:
		return strings.TrimSpace(e.Of+" "+e.ID) + ": " + e.Err.Error()
	}
	return fmt.Sprintf("line %d: %v", e.Line, e.Err)
}

// Unwrap gives the reason.
func (e LineError) Unwrap() error { return e.Err }

// LineReader reads a text line by line. It is not safe for concurrent use.
type LineReader struct {
	r     *bufio.Reader
	long  []byte // a line that is longer than the buffer of r
	line  int
	bytes int64
	begun bool
}

// NewLineReader reads lines from r.
func NewLineReader(r io.Reader) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, readBuffer)}
}

// Line is the number of the line that Next returned last, counted from 1.
func (l *LineReader) Line() int { return l.line }

// Bytes is how much was read, up to the end of that line.
func (l *LineReader) Bytes() int64 { return l.bytes }

// Next returns the next line that is not blank, without its end, and io.EOF
// after the last. The line is valid until the next call. After ErrLongLine, which
// Line gives the number of, it goes on with the line behind.
func (l *LineReader) Next() ([]byte, error) {
	if !l.begun {
		l.begun = true
		if err := l.skipMark(); err != nil {
			return nil, err
		}
	}
	for blanks := 0; ; {
		line, err := l.read()
		if err != nil {
			return nil, err
		}
		if blanks += len(line); blanks > MaxLine && len(bytes.TrimSpace(line)) == 0 {
			return nil, fmt.Errorf("%w in front of line %d", errBlanks, l.line)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

// skipMark skips the byte order mark of UTF-8, and refuses what is no such text.
func (l *LineReader) skipMark() error {
	head, err := l.r.Peek(TextHead)
	if len(head) < 2 {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		l.bytes += 3
		_, err := l.r.Discard(3)
		return err
	}
	return CheckText(head)
}

// TextHead is how many bytes CheckText looks at.
const TextHead = 4

// CheckText refuses the begin of a text that is UTF-16, or of a compressed file: those
// look like nothing but malformed lines later on.
func CheckText(head []byte) error {
	if len(head) < 2 {
		return nil
	}
	mark := string(head[:2])
	if mark == "\xff\xfe" || mark == "\xfe\xff" || mark == "{\x00" || mark == "\x00{" {
		return errors.New("the text is UTF-16, not UTF-8; convert it, as with: iconv -f UTF-16 -t UTF-8")
	}
	for magic, unpack := range map[string]string{"\x1f\x8b": "gzip -dc", "\x28\xb5\x2f\xfd": "zstd -dc", "BZh": "bzip2 -dc", "PK\x03\x04": "unzip -p"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return errors.New("the file is compressed; unpack it into a pipe, with: " + unpack)
		}
	}
	return nil
}

// read returns the next line with its end.
func (l *LineReader) read() ([]byte, error) {
	part, err := l.r.ReadSlice('\n')
	l.bytes += int64(len(part))
	if errors.Is(err, bufio.ErrBufferFull) {
		return l.readLong(part)
	}
	if errors.Is(err, io.EOF) && len(part) > 0 {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	l.line++
	return part, nil
}

// readLong goes on with a line of which the first part filled the buffer.
func (l *LineReader) readLong(part []byte) ([]byte, error) {
	l.line++
	l.long = append(l.long[:0], part...)
	size := len(part)
	for {
		part, err := l.r.ReadSlice('\n')
		l.bytes += int64(len(part))
		size += len(part)
		if size <= MaxLine {
			l.long = append(l.long, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case size > MaxLine:
			return nil, ErrLongLine
		}
		return l.long, nil
	}
}
