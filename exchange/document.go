package exchange

import (
	"errors"
	"fmt"
	"io"
)

// DocumentReader reads a JSON document record by record: the items of a list, or objects
// one after another. It holds one record at a time. It is not safe for concurrent use.
type DocumentReader struct {
	from    io.Reader
	limit   int // of a record, in bytes
	split   *Splitter
	list    bool
	records int
	failed  error
}

// NewDocumentReader reads a document from r.
func NewDocumentReader(r io.Reader) *DocumentReader { return &DocumentReader{from: r, limit: MaxLine} }

// Line is the number of the record that Next returned last, counted from 1.
func (d *DocumentReader) Line() int { return d.records }

// Bytes is how much was read, up to the end of that record.
func (d *DocumentReader) Bytes() int64 {
	if d.split == nil {
		return 0
	}
	return d.split.Bytes()
}

// Next returns the next record, and io.EOF after the last. The record is valid until the
// next call. After ErrLongLine it continues with the following record. Any other error is final: the
// document is malformed, and every later call returns the same error.
func (d *DocumentReader) Next() ([]byte, error) {
	if d.failed != nil {
		return nil, d.failed
	}
	record, err := d.next()
	if err != nil && !errors.Is(err, ErrLongLine) {
		d.failed = err
		return nil, err
	}
	d.records++
	return record, err
}

// next reads a record, or the end.
func (d *DocumentReader) next() ([]byte, error) {
	first := d.split == nil
	if first {
		if err := d.begin(); err != nil {
			return nil, err
		}
	}
	if !d.list {
		if _, err := d.split.Peek(); err != nil {
			return nil, err
		}
		return d.split.Value()
	}
	if more, err := d.split.More(']', first); err != nil {
		return nil, err
	} else if !more {
		return nil, d.end()
	}
	return d.split.Value()
}

// begin looks at the first character, behind the byte order mark.
func (d *DocumentReader) begin() (err error) {
	if d.split, err = NewSplitter(d.from); err != nil {
		return err
	}
	d.split.limit = d.limit
	c, err := d.split.Peek()
	if err != nil {
		return err // nothing but blanks
	}
	if d.list = c == '['; d.list {
		err = d.split.Take('[')
	}
	return err
}

// end looks behind a list, where there is nothing.
func (d *DocumentReader) end() error {
	if _, err := d.split.Peek(); err != nil {
		return err
	}
	return fmt.Errorf("the document goes on behind its list, at byte %d", d.Bytes())
}
