package exchange

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
)

// DocumentReader reads a JSON document record by record: the items of a list, or objects
// one after another. It holds one record at a time. It is not safe for concurrent use.
type DocumentReader struct {
	in      *bufio.Reader
	limit   *limitedReader
	dec     *json.Decoder
	skipped int64 // before the decoder
	list    bool
	record  json.RawMessage
	records int
	failed  error
}

// NewDocumentReader reads a document from r.
func NewDocumentReader(r io.Reader) *DocumentReader {
	return &DocumentReader{in: bufio.NewReaderSize(r, readBuffer)}
}

// Line is the number of the record that Next returned last, counted from 1.
func (d *DocumentReader) Line() int { return d.records }

// Bytes is how much was read, up to the end of that record.
func (d *DocumentReader) Bytes() int64 {
	if d.dec == nil {
		return d.skipped
	}
	return d.skipped + d.dec.InputOffset()
}

// errLongRecord is returned for a record over MaxLine. A document cannot be read beyond it.
var errLongRecord = fmt.Errorf("longer than %d MiB", MaxLine>>20)

// Next returns the next record, and io.EOF after the last. The record is valid until the
// next call. Any other error is one of the document, and comes again.
func (d *DocumentReader) Next() ([]byte, error) {
	if d.failed == nil && d.dec == nil {
		d.failed = d.begin()
	}
	if d.failed == nil {
		d.failed = d.next()
	}
	if d.failed != nil {
		return nil, d.failed
	}
	d.records++
	return d.record, nil
}

// begin looks at the first character, behind the byte order mark.
func (d *DocumentReader) begin() error {
	head, err := d.in.Peek(TextHead)
	if len(head) < 2 && err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := CheckText(head); err != nil {
		return err
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		if _, err := d.in.Discard(3); err != nil {
			return err
		}
		d.skipped = 3
	}
	for {
		c, err := d.in.ReadByte()
		if err != nil {
			return err // nothing but blanks
		}
		if rawjson.SkipSpace([]byte{c}, 0) == 0 {
			d.list = c == '['
			break
		}
		d.skipped++
	}
	if err := d.in.UnreadByte(); err != nil {
		return err
	}
	d.limit = &limitedReader{in: d.in}
	d.dec = json.NewDecoder(d.limit)
	if d.list {
		d.limit.left = MaxLine
		_, err = d.dec.Token()
		return d.explain(err)
	}
	return nil
}

// next reads a record, or the end.
func (d *DocumentReader) next() error {
	d.limit.left = MaxLine
	if d.list && !d.dec.More() {
		return d.end()
	}
	err := d.dec.Decode(&d.record)
	if errors.Is(err, io.EOF) && !d.list {
		return io.EOF
	}
	return d.explain(err)
}

// end reads the end of a list, behind which there is nothing.
func (d *DocumentReader) end() error {
	if _, err := d.dec.Token(); err != nil {
		return d.explain(err)
	}
	d.list = false
	_, err := d.dec.Token()
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return d.explain(err)
	}
	return fmt.Errorf("the document goes on behind its list, at byte %d", d.Bytes())
}

// explain says of a malformed document where it is so.
func (d *DocumentReader) explain(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("malformed JSON behind byte %d: %w", d.Bytes(), syntax)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("malformed JSON behind byte %d: it ends too early", d.Bytes())
	}
	return err
}

// limitedReader bounds what may be read for one record.
type limitedReader struct {
	in   io.Reader
	left int
}

// Read reads what is left of the limit at most.
func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, errLongRecord
	}
	n, err := l.in.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
