package wal

import (
	"errors"
	"io"
)

// ErrGap means that what follows a position is not there: it was never kept, or removed, or what is
// there is of another timeline. Whoever follows begins again, from a base.
var ErrGap = errors.New("what follows is not there")

// ErrTorn means that a segment ends within a frame, as a crash leaves it, or as long as the frame is
// being written.
var ErrTorn = errors.New("the segment ends within a frame")

// ShortError says that an archive does not have all that it had when it was written last. A feed joins it
// with io.EOF.
type ShortError struct {
	// Had is how far the archive reached, zero where the record of that is damaged.
	Had End
	Why string
}

// Error says what is missing.
func (e *ShortError) Error() string { return "the archive has less than it had: " + e.Why }

// Writer writes the frames of a segment.
type Writer struct {
	w   io.Writer
	buf []byte
}

// NewWriter writes to w, with one call for each frame.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes a frame and returns how many bytes it took.
func (w *Writer) Write(f *Frame) (n int, err error) {
	if w.buf, err = f.Append(w.buf[:0]); err != nil {
		return 0, err
	}
	return w.w.Write(w.buf)
}

// Reader reads the frames of a segment.
type Reader struct {
	r      io.Reader
	offset int64
	sum    uint64
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Offset is how many bytes the frames have that were read.
func (r *Reader) Offset() int64 { return r.offset }

// Sum is the checksum of the frame that Next read last.
func (r *Reader) Sum() uint64 { return r.sum }

// Next reads the next frame: io.EOF where the segment ends, ErrTorn where it ends within a frame, and
// ErrCorrupt where the bytes are none. Memory is taken as bytes arrive, whatever a head says.
func (r *Reader) Next() (*Frame, error) {
	var b [headSize]byte
	if _, err := io.ReadFull(r.r, b[:]); err != nil {
		return nil, torn(err)
	}
	h, err := decodeHead(b[:])
	if err != nil {
		return nil, err
	}
	stored, err := readN(r.r, h.stored)
	if err != nil {
		return nil, err
	}
	f, err := h.body(b[:], stored)
	if err == nil {
		r.offset += headSize + int64(len(stored))
		r.sum = h.sum
	}
	return f, err
}

// Skip reads what the head of the next frame says, without its batches, which skip is to pass over: so
// many bytes. What it returns is only as sure as the file.
func (r *Reader) Skip(skip func(bytes int64) error) (*Frame, error) {
	var b [headSize]byte
	if _, err := io.ReadFull(r.r, b[:]); err != nil {
		return nil, torn(err)
	}
	h, err := decodeHead(b[:])
	if err != nil {
		return nil, err
	}
	if err := skip(int64(h.stored)); err != nil {
		return nil, err
	}
	r.offset += headSize + int64(h.stored)
	return &h.Frame, nil
}

func torn(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTorn
	}
	return err
}

// readN reads so many bytes.
func readN(r io.Reader, n uint64) ([]byte, error) {
	const step = 1 << 20
	b := make([]byte, min(n, step))
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, within(err)
	}
	for uint64(len(b)) < n {
		more := make([]byte, min(n-uint64(len(b)), uint64(len(b))))
		if _, err := io.ReadFull(r, more); err != nil {
			return nil, within(err)
		}
		b = append(b, more...)
	}
	return b, nil
}

// within is what a read within a frame has met.
func within(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTorn
	}
	return err
}
