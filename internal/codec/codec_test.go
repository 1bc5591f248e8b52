package codec

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	var b []byte
	b = AppendBytes(b, "name")
	b = binary.AppendUvarint(b, 1<<40)
	b = binary.AppendVarint(b, -7)
	b = AppendFloat64(b, math.Pi)
	b = append(b, 9)
	b = AppendBytes(b, []byte{})
	b = AppendFloats(b, []float32{1.5, -2})

	r := NewReader(b)
	if got := r.String(); got != "name" {
		t.Errorf("String = %q", got)
	}
	if got := r.Uvarint(); got != 1<<40 {
		t.Errorf("Uvarint = %d", got)
	}
	if got := r.Varint(); got != -7 {
		t.Errorf("Varint = %d", got)
	}
	if got := r.Float64(); got != math.Pi {
		t.Errorf("Float64 = %v", got)
	}
	if got := r.Byte(); got != 9 {
		t.Errorf("Byte = %d", got)
	}
	if got := r.Bytes(); len(got) != 0 {
		t.Errorf("Bytes = %v", got)
	}
	if got, err := Floats(r.Rest()); err != nil || !slices.Equal(got, []float32{1.5, -2}) {
		t.Errorf("Floats = %v, %v", got, err)
	}
	if r.Err() != nil {
		t.Error(r.Err())
	}
}

func TestReaderStopsAtDamage(t *testing.T) {
	reads := map[string]func(*Reader){
		"byte":    func(r *Reader) { r.Byte() },
		"uvarint": func(r *Reader) { r.Uvarint() },
		"varint":  func(r *Reader) { r.Varint() },
		"float64": func(r *Reader) { r.Float64() },
		"bytes":   func(r *Reader) { r.Bytes() },
		"count":   func(r *Reader) { r.Count() },
	}
	for name, read := range reads {
		r := NewReader(nil)
		read(r)
		if !errors.Is(r.Err(), ErrShort) {
			t.Errorf("%s of nothing: %v", name, r.Err())
		}
	}
	r := NewReader(binary.AppendUvarint(nil, 1<<50))
	if r.Bytes() != nil || !errors.Is(r.Err(), ErrShort) {
		t.Errorf("a length beyond the input: %v", r.Err())
	}
	if r.Uvarint() != 0 || !errors.Is(r.Err(), ErrShort) {
		t.Error("a read after an error is not zero")
	}
	r = NewReader(binary.AppendUvarint(nil, 1<<33))
	if r.Uint32(); !errors.Is(r.Err(), ErrShort) {
		t.Error("Uint32 took a number of 34 bits")
	}
	if _, err := Floats(make([]byte, 5)); !errors.Is(err, ErrShort) {
		t.Errorf("Floats of 5 bytes: %v", err)
	}
}
