// Package vectorset makes the sets of vectors that indexes are measured on, and
// finds the true neighbours of their queries.
package vectorset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/klauspost/compress/zstd"
)

// A Set is a number of vectors of one dimension, all of length one, but for those of [Hard].
type Set struct {
	Dim  int
	flat []float32 // row after row
}

// Len is how many vectors there are.
func (s *Set) Len() int { return len(s.flat) / s.Dim }

// Row is vector i.
func (s *Set) Row(i int) []float32 { return s.flat[i*s.Dim : (i+1)*s.Dim : (i+1)*s.Dim] }

// Head is a set of the first n vectors, or of all if there are fewer.
func (s *Set) Head(n int) *Set { return &Set{s.Dim, s.flat[:min(n, s.Len())*s.Dim]} }

// Write stores the vectors as native float32, without a header.
func (s *Set) Write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(s.WriteRows(f), f.Close())
}

// WriteRows writes the vectors in the same way.
func (s *Set) WriteRows(out io.Writer) error {
	w := bufio.NewWriterSize(out, 1<<20)
	for i := range s.Len() {
		if err := binary.Write(w, binary.NativeEndian, s.Row(i)); err != nil {
			return err
		}
	}
	return w.Flush()
}

// ReadBytes reads a compressed file of vectors of bytes, with their number and
// their dimension as two little-endian uint32 before them, and normalises them.
func ReadBytes(path string) (_ *Set, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := zstd.NewReader(f)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	var head [2]uint32
	if err := binary.Read(z, binary.LittleEndian, &head); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	n, dim := int(head[0]), int(head[1])
	if dim < 1 || dim > 1<<16 || n > 1<<28 {
		return nil, fmt.Errorf("%s: %d vectors of %d components", path, n, dim)
	}
	s := &Set{Dim: dim}
	row := make([]byte, dim)
	for range n {
		if _, err := io.ReadFull(z, row); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, b := range row {
			s.flat = append(s.flat, float32(b))
		}
		normalise(s.flat[len(s.flat)-dim:])
	}
	return s, nil
}

// ReadFloats reads a file of little-endian float32 vectors without a header,
// and normalises them.
func ReadFloats(path string, dim int) (*Set, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 || len(b)%(4*dim) != 0 {
		return nil, fmt.Errorf("%s: %d bytes are no vectors of %d components", path, len(b), dim)
	}
	s := &Set{Dim: dim, flat: make([]float32, len(b)/4)}
	for i := range s.flat {
		s.flat[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	for i := range s.Len() {
		normalise(s.Row(i))
	}
	return s, nil
}

func normalise(v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	inv := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= inv
	}
}

// Pick is a set of the vectors with the given numbers.
func (s *Set) Pick(which []int) *Set {
	p := &Set{Dim: s.Dim}
	for _, i := range which {
		p.flat = append(p.flat, s.Row(i)...)
	}
	return p
}
