package local

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

const weightsFile = "model.safetensors"

// maxHeader bounds the head of the file, as the format does.
const maxHeader = 100 << 20

// tensors are the weights of a file: eight bytes with the size of a head, the head, which is a
// JSON object of names, and the numbers, little-endian.
type tensors struct {
	heads map[string]tensorHead
	data  []byte
}

// tensorHead says where a tensor is.
type tensorHead struct {
	Type    string    `json:"dtype"`
	Shape   []int     `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// widths are the bytes of a number, by the types that are read.
var widths = map[string]uint64{"F32": 4, "F16": 2, "BF16": 2}

func (l *loader) weights() (*tensors, error) {
	b, err := l.read(weightsFile, maxWeights, false)
	if err != nil {
		return nil, err
	}
	cut := func(why string) error {
		return l.bad(weightsFile, why, "get the file again: it is cut short, or no file of safetensors")
	}
	if len(b) < 8 {
		return nil, cut(fmt.Sprintf("it has %d bytes", len(b)))
	}
	size := binary.LittleEndian.Uint64(b)
	if size > maxHeader || size > uint64(len(b)-8) {
		return nil, cut(fmt.Sprintf("its head would have %d bytes", size))
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+size], &raw); err != nil {
		return nil, cut("its head is no JSON object")
	}
	t := &tensors{heads: map[string]tensorHead{}, data: b[8+size:]}
	for name, text := range raw {
		if name == "__metadata__" {
			continue
		}
		var h tensorHead
		if json.Unmarshal(text, &h) != nil || h.Offsets[0] > h.Offsets[1] || h.Offsets[1] > uint64(len(t.data)) {
			return nil, cut(fmt.Sprintf("the tensor %.80q lies outside of the file", name))
		}
		t.heads[strings.TrimPrefix(name, "bert.")] = h
	}
	return t, nil
}

// take returns a tensor of a shape as float32.
func (t *tensors) take(name string, shape ...int) ([]float32, error) {
	h, ok := t.heads[name]
	if !ok {
		return nil, fmt.Errorf("there is no tensor %q", name)
	}
	width, ok := widths[h.Type]
	if !ok {
		return nil, fmt.Errorf("the tensor %q is of the type %.20q, not F32, F16 or BF16", name, h.Type)
	}
	n := uint64(1)
	for _, d := range shape {
		n *= uint64(d)
	}
	if !slices.Equal(h.Shape, shape) || n*width != h.Offsets[1]-h.Offsets[0] {
		return nil, fmt.Errorf("the tensor %q has the shape %v in %d bytes, and config.json wants %v", name, h.Shape, h.Offsets[1]-h.Offsets[0], shape)
	}
	b := t.data[h.Offsets[0]:h.Offsets[1]]
	out := make([]float32, n)
	for i := range out {
		switch h.Type {
		case "F32":
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		case "BF16":
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		default:
			out[i] = half(binary.LittleEndian.Uint16(b[2*i:]))
		}
		if out[i]-out[i] != 0 {
			return nil, fmt.Errorf("the tensor %q holds a number that is infinite or none", name)
		}
	}
	return out, nil
}

// half is a number of 16 bits: a sign, 5 bits of exponent, 10 of fraction.
func half(h uint16) float32 {
	exponent, fraction := int(h>>10&0x1f), float64(h&0x3ff)
	value := 0.0
	switch exponent {
	case 0:
		value = math.Ldexp(fraction, -24)
	case 0x1f:
		value = math.Inf(1)
		if fraction != 0 {
			value = math.NaN()
		}
	default:
		value = math.Ldexp(1024+fraction, exponent-25)
	}
	if h&0x8000 != 0 {
		value = -value
	}
	return float32(value)
}
