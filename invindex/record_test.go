package invindex

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

var records = []struct {
	name string
	doc  Doc
}{
	{"empty", Doc{}},
	{"one", Doc{Terms: []Term{{"a", 1}}, Length: 1}},
	{"no text", Doc{Terms: []Term{{"", 1}, {"\x00", 2}}, Length: 3}},
	{"shared", Doc{Terms: []Term{{"inter", 3}, {"internal", 4}, {"internals", 70_000}, {"interval", 1}, {"j", 2}}, Length: math.MaxUint32}},
	{"long", Doc{Terms: []Term{{strings.Repeat("x", 15), 1}, {strings.Repeat("x", MaxTermBytes), math.MaxUint32}}}},
	{"numbers", Doc{Numbered: true, Numbers: []Number{{0, 0}, {65535, math.MaxUint64}, {0, 1}}}},
	{"no numbers", Doc{Terms: []Term{{"a", 1}}, Length: 1, Numbered: true}},
	{"values", Doc{Values: []Value{{0, ""}, {65535, strings.Repeat("v", MaxTermBytes)}, {0, ""}}, Length: 7}},
}

func TestRecord(t *testing.T) {
	for _, tc := range records {
		b := AppendDoc([]byte("before"), &tc.doc)
		b = append(b, "after"...)
		got, rest, err := DecodeDoc(b[len("before"):])
		if err != nil || string(rest) != "after" || !reflect.DeepEqual(got, tc.doc) {
			t.Errorf("%s: %+v, %q, %v", tc.name, got, rest, err)
		}
	}
}

// The bytes of a record are in databases: a change needs a new version.
func TestRecordGolden(t *testing.T) {
	d := Doc{Terms: []Term{{"bell", 1}, {"belfry", 300}}, Length: 301, Values: []Value{{2, "v"}}}
	want := "\x03\xad\x02\x02\x50bell\x18belfry\xac\x02\x01\x02\x01v"
	if got := AppendDoc(nil, &d); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	const numbers = "\x01\xac\x02\x00\x00\x00\x00\x00\x00\xf0\xbf"
	d.Numbered, d.Numbers = true, []Number{{300, FloatOrder(1)}}
	want = "\x04" + want[1:] + numbers
	if got := AppendDoc(nil, &d); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	// Those with sorted terms, which are read only.
	d.Terms[0], d.Terms[1] = d.Terms[1], d.Terms[0]
	sorted := "\x02\xad\x02\x02\x18belfry\xac\x02\x47l\x01\x02\x01v" + numbers
	if got, rest, err := DecodeDoc([]byte(sorted)); err != nil || len(rest) > 0 || !reflect.DeepEqual(got, d) {
		t.Errorf("version 2 is read as %+v, %q, %v", got, rest, err)
	}
	d.Numbered, d.Numbers = false, nil
	sorted = "\x01" + sorted[1:len(sorted)-len(numbers)]
	if got, rest, err := DecodeDoc([]byte(sorted)); err != nil || len(rest) > 0 || !reflect.DeepEqual(got, d) {
		t.Errorf("version 1 is read as %+v, %q, %v", got, rest, err)
	}
}

func TestRecordDamage(t *testing.T) {
	for _, tc := range records {
		b := AppendDoc(nil, &tc.doc)
		for n := range len(b) {
			if _, _, err := DecodeDoc(b[:n]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s cut to %d of %d bytes: error %v", tc.name, n, len(b), err)
			}
		}
	}
	for name, b := range map[string]string{
		"version 0":               "\x00\x00\x00\x00",
		"version 5":               "\x05\x00\x00\x00\x00",
		"shares, not sorted":      "\x03\x01\x02\x44b\x45c\x00",
		"too many numbers":        "\x02\x01\x00\x00\xff\x7f",
		"a number cut off":        "\x02\x01\x00\x00\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00",
		"a number's long field":   "\x02\x01\x00\x00\x01\x80\x80\x04\x00\x00\x00\x00\x00\x00\x00",
		"order":                   "\x01\x01\x02\x44b\x44a\x00",
		"twice":                   "\x01\x01\x02\x44b\x41\x00",
		"shares with nothing":     "\x01\x01\x01\x45b\x00",
		"shares more":             "\x01\x01\x02\x44b\x48bc\x00",
		"short frequency":         "\x01\x01\x01\x04b\x03\x00",
		"leading zero":            "\x01\x81\x00\x00\x00",
		"a million terms":         "\x01\x01\xc0\x84\x3d\x00",
		"too many terms":          "\x01\x01\xff\xff\xff\xff\x0f",
		"too many values":         "\x01\x01\x00\xff\xff\x7f",
		"field over 16 bits":      "\x01\x01\x00\x01\x80\x80\x04\x00",
		"length over 32 bits":     "\x01\xff\xff\xff\xff\x1f\x00\x00",
		"a number that overflows": "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	} {
		if d, _, err := DecodeDoc([]byte(b)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, error %v", name, d, err)
		}
	}
}

func FuzzDecodeDoc(f *testing.F) {
	for _, tc := range records {
		f.Add(AppendDoc(nil, &tc.doc))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, rest, err := DecodeDoc(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again := AppendDoc(nil, &d)
		if b[0] >= recordVersion && !bytes.Equal(again, b[:len(b)-len(rest)]) {
			t.Fatalf("%q was read as %+v, which is %q", b, d, again)
		}
		if back, _, err := DecodeDoc(again); err != nil || !reflect.DeepEqual(back, d) {
			t.Fatalf("%+v was read back as %+v, %v", d, back, err)
		}
		if err := New(Config{}).Add(0, &d); err != nil {
			t.Fatalf("%+v can't be added: %v", d, err)
		}
	})
}
