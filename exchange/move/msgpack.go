package move

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// errPacked is returned for what is no MessagePack.
var errPacked = errors.New("it is no MessagePack")

// maxPacked bounds how deep values of MessagePack nest.
const maxPacked = 64

// readPacked reads a value of MessagePack as JSON has it: bytes are a text in hexadecimal, or a
// list of numbers where they are few. It returns what is behind it.
func readPacked(b []byte, depth int) (v any, rest []byte, err error) {
	if len(b) == 0 || depth > maxPacked {
		return nil, nil, errPacked
	}
	c := b[0]
	b = b[1:]
	switch {
	case c < 0x80:
		return int64(c), b, nil
	case c >= 0xe0:
		return int64(int8(c)), b, nil
	case c < 0x90:
		return packedMap(b, int(c&0x0f), depth)
	case c < 0xa0:
		return packedList(b, int(c&0x0f), depth)
	case c < 0xc0:
		return packedText(b, int(c&0x1f))
	case c == 0xc0:
		return nil, b, nil
	case c == 0xc2 || c == 0xc3:
		return c == 0xc3, b, nil
	}
	return readSized(c, b, depth)
}

// readSized reads a value whose code has a number behind it: its own, or how long it is.
func readSized(c byte, b []byte, depth int) (v any, rest []byte, err error) {
	size, ok := packedSizes[c]
	if !ok || len(b) < size {
		return nil, nil, errPacked
	}
	n := uint64(0)
	for _, d := range b[:size] {
		n = n<<8 | uint64(d)
	}
	b = b[size:]
	switch {
	case c >= 0xcc && c <= 0xcf:
		if n > math.MaxInt64 {
			return float64(n), b, nil
		}
		return int64(n), b, nil
	case c >= 0xd0 && c <= 0xd3:
		shift := 64 - 8*size
		return int64(n<<shift) >> shift, b, nil
	case c == 0xca:
		return finite(float64(math.Float32frombits(uint32(n))), b)
	case c == 0xcb:
		return finite(math.Float64frombits(n), b)
	case n > uint64(len(b)): // of what follows each is a byte at least
		return nil, nil, errPacked
	case c >= 0xd9 && c <= 0xdb:
		return packedText(b, int(n))
	case c >= 0xc4 && c <= 0xc6:
		return hex.EncodeToString(b[:n]), b[n:], nil
	case c == 0xdc || c == 0xdd:
		return packedList(b, int(n), depth)
	}
	return packedMap(b, int(n), depth)
}

// packedSizes are the sizes of the numbers behind the codes that have one.
var packedSizes = map[byte]int{
	0xc4: 1, 0xc5: 2, 0xc6: 4, 0xca: 4, 0xcb: 8, 0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8, 0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8,
	0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4,
}

func finite(f float64, b []byte) (any, []byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprint(f), b, nil
	}
	return f, b, nil
}

func packedText(b []byte, n int) (any, []byte, error) {
	if n > len(b) || !utf8.Valid(b[:n]) {
		return nil, nil, errPacked
	}
	return string(b[:n]), b[n:], nil
}

func packedList(b []byte, n, depth int) (any, []byte, error) {
	out := []any{}
	for range n {
		v, rest, err := readPacked(b, depth+1)
		if err != nil {
			return nil, nil, err
		}
		out, b = append(out, v), rest
	}
	return out, b, nil
}

func packedMap(b []byte, n, depth int) (any, []byte, error) {
	out := map[string]any{}
	for range n {
		key, rest, err := readPacked(b, depth+1)
		if err != nil {
			return nil, nil, err
		}
		if out[fmt.Sprint(key)], b, err = readPacked(rest, depth+1); err != nil {
			return nil, nil, err
		}
	}
	return out, b, nil
}
