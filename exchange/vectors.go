package exchange

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Rows is how the rows of a file of vectors are written.
type Rows string

// The forms of a row: 32-bit floats, or bytes that stand for 0 to 255.
const (
	RowsFloat32 Rows = "fbin"
	RowsUint8   Rows = "u8bin"
)

// VectorHead is the size of a file's head in bytes.
const VectorHead = 8

// VectorReader reads a file of vectors: the number of rows and of dimensions as
// uint32, then the rows, all little-endian. It is not safe for concurrent use.
type VectorReader struct {
	r     *bufio.Reader
	rows  Rows
	n     int
	dim   int
	next  int
	bytes int64
	raw   []byte
}

// NewVectorReader reads the head of a file.
func NewVectorReader(r io.Reader, rows Rows) (*VectorReader, error) {
	v := &VectorReader{r: bufio.NewReaderSize(r, readBuffer), rows: rows}
	var head [VectorHead]byte
	if n, err := io.ReadFull(v.r, head[:]); err != nil {
		if ended(err) {
			err = fmt.Errorf("the file ends after %d bytes of its head: it is no %s file", n, rows)
		}
		return nil, err
	}
	v.bytes = int64(len(head))
	v.n, v.dim = int(binary.LittleEndian.Uint32(head[:])), int(binary.LittleEndian.Uint32(head[4:]))
	if v.dim == 0 || v.dim > memory.MaxDim {
		return nil, fmt.Errorf("its rows have %d dimensions and 1 to %d are possible: or is it no %s file?", v.dim, memory.MaxDim, rows)
	}
	size := v.dim
	if rows == RowsFloat32 {
		size *= 4
	}
	v.raw = make([]byte, size)
	return v, nil
}

// CheckSize refuses a file of another size than the head says, in bytes.
func (v *VectorReader) CheckSize(size int64) error {
	want := VectorHead + int64(v.n)*int64(len(v.raw))
	switch {
	case size < want:
		at := max(size-VectorHead, 0) / int64(len(v.raw))
		return fmt.Errorf("the file ends in row %d of %d; it is cut short: get it again", at, v.n)
	case size > want:
		return fmt.Errorf("the file goes on after the %d rows that it says it has", v.n)
	}
	return nil
}

// Len is the number of rows that the head gives.
func (v *VectorReader) Len() int { return v.n }

// Bytes is how much was read.
func (v *VectorReader) Bytes() int64 { return v.bytes }

// Next returns the next row, which is the caller's, and its number; io.EOF after the
// last.
func (v *VectorReader) Next() ([]float32, int, error) {
	if v.next == v.n {
		if _, err := v.r.Peek(1); err == nil {
			return nil, v.next, fmt.Errorf("the file goes on after the %d rows that it says it has", v.n)
		} else if !errors.Is(err, io.EOF) {
			return nil, v.next, err
		}
		return nil, v.next, io.EOF
	}
	at := v.next
	n, err := io.ReadFull(v.r, v.raw)
	v.bytes += int64(n)
	if err != nil {
		if ended(err) {
			err = fmt.Errorf("the file ends in row %d of %d; it is cut short: get it again", at, v.n)
		}
		return nil, at, err
	}
	v.next++
	row := make([]float32, v.dim)
	for i := range row {
		if v.rows == RowsFloat32 {
			row[i] = math.Float32frombits(binary.LittleEndian.Uint32(v.raw[4*i:]))
		} else {
			row[i] = float32(v.raw[i])
		}
	}
	return row, at, nil
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// ImportVectors stores each row of a file of vectors as a memory without a text, in
// the scope that the options give, under the number of the row, from "0". A file
// that is not of this form, or ends early, is an error; the rows before are stored.
// The report is valid also with an error.
func ImportVectors(ctx context.Context, db *engine.DB, r io.Reader, rows Rows, o *Options) (Report, error) {
	b := newBatch(db, o)
	v, err := NewVectorReader(r, rows)
	if err != nil {
		return b.report, err
	}
	for {
		row, at, err := v.Next()
		b.report.Bytes = v.Bytes()
		if errors.Is(err, io.EOF) {
			return b.finish(ctx, nil)
		}
		if err != nil {
			return b.finish(ctx, err)
		}
		id := strconv.Itoa(at)
		if err := b.add(ctx, LineError{Of: "row", ID: id}, rowMemory(id, row), 4*len(row)+64); err != nil {
			return b.report, err
		}
		if err := ctx.Err(); err != nil {
			return b.report, err
		}
	}
}

// rowMemory is the memory of a row.
func rowMemory(id string, row []float32) memory.Memory { return memory.Memory{ID: id, Embedding: row} }
