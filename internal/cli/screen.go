package cli

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// A screen writes to a terminal what cannot steer it. What a database holds was perhaps written by
// somebody else, and so was what another process sends that runs a verb; neither gets a control
// character, a mark of direction or a sequence of them to the terminal, beyond the few sequences
// that memdbctl itself uses: bold, dim and plain, and the end of a line of progress.
type screen struct {
	w io.Writer
	// progress lets a line be written over, as that of an import is.
	progress bool
	rest     []byte // a character, or a sequence, whose end is not there yet
}

// onScreen returns a writer to an output that is a terminal of so many columns, or to one that is
// none, as a file or a pipe, which gets every byte as it is.
func onScreen(w io.Writer, columns int, progress bool) io.Writer {
	if columns == 0 {
		return w
	}
	return &screen{w: w, progress: progress}
}

// sequences are those that pass.
var sequences = [][]byte{[]byte("\x1b[1m"), []byte("\x1b[2m"), []byte("\x1b[0m"), []byte("\x1b[K")}

func (s *screen) Write(p []byte) (int, error) {
	in := append(s.rest, p...)
	s.rest = nil
	var out bytes.Buffer
	for len(in) > 0 {
		n := s.next(&out, in)
		if n == 0 {
			s.rest = bytes.Clone(in)
			break
		}
		in = in[n:]
	}
	if _, err := s.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// next writes the first character or sequence, and returns its length; 0 is that its end is not
// there yet.
func (s *screen) next(out *bytes.Buffer, in []byte) int {
	if in[0] == '\x1b' {
		for _, seq := range sequences {
			switch {
			case bytes.HasPrefix(in, seq):
				out.Write(seq)
				return len(seq)
			case bytes.HasPrefix(seq, in):
				return 0
			}
		}
	}
	if in[0] == '\r' && !s.progress && len(in) == 1 {
		return 0
	}
	if !utf8.FullRune(in) {
		return 0
	}
	r, n := utf8.DecodeRune(in)
	switch {
	case r == '\n' || r == '\t', r == '\r' && (s.progress || in[1] == '\n'):
		out.WriteRune(r)
	case r == utf8.RuneError && n == 1:
		const hex = "0123456789abcdef"
		out.Write([]byte{'\\', 'x', hex[in[0]>>4], hex[in[0]&15]})
	default:
		out.WriteString(escape(string(r)))
	}
	return n
}
