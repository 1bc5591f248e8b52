package wal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

func testTimeline() (t Timeline) {
	for i := range t {
		t[i] = byte(0xa0 + i)
	}
	return t
}

// testFrames are one of each kind, packed and not.
func testFrames() []*Frame {
	t := testTimeline()
	return []*Frame{
		{Timeline: t, Kind: Base, First: 7, Last: 0, Since: 41, LSN: 41, Time: 1767225600123, Batches: [][]byte{[]byte("part one"), {}}},
		{Timeline: t, Kind: BaseEnd, First: 7, Last: 1, Since: 41, LSN: 41, Time: 1767225600123},
		{Timeline: t, Kind: Batches, First: 8, Last: 9, Since: 41, LSN: 42, Time: 1767225600456, Batches: [][]byte{[]byte(strings.Repeat("a batch ", 100)), []byte("x")}},
		{Timeline: t, Kind: Batches, First: 10, Last: 10, Since: 42, LSN: 42, Batches: [][]byte{[]byte("of the janitor")}},
	}
}

func segment(t testing.TB, frames ...*Frame) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, f := range frames {
		if _, err := w.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func same(a, b *Frame) bool {
	if len(a.Batches) != len(b.Batches) {
		return false
	}
	for i := range a.Batches {
		if !bytes.Equal(a.Batches[i], b.Batches[i]) {
			return false
		}
	}
	x, y := *a, *b
	x.Batches, y.Batches = nil, nil
	return reflect.DeepEqual(x, y)
}

func TestRoundTrip(t *testing.T) {
	frames := testFrames()
	b := segment(t, frames...)
	r := NewReader(bytes.NewReader(b))
	at := Position{}
	for _, want := range frames {
		got, err := r.Next()
		if err != nil || !same(got, want) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
		if !got.Follows(at) {
			t.Fatalf("%+v does not follow %+v", got, at)
		}
		at = got.After()
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) || r.Offset() != int64(len(b)) {
		t.Errorf("%v at %d of %d bytes", err, r.Offset(), len(b))
	}
}

// TestFollows: what comes twice, out of order, of another timeline or within a base is refused.
func TestFollows(t *testing.T) {
	line := testTimeline()
	batches := &Frame{Timeline: line, Kind: Batches, First: 8, Last: 9}
	part, end := &Frame{Timeline: line, Kind: Base, First: 7, Last: 2}, &Frame{Timeline: line, Kind: BaseEnd, First: 7, Last: 3}
	for _, c := range []struct {
		what string
		f    *Frame
		at   Position
		want bool
	}{
		{"the next", batches, Position{line, 7, 0}, true},
		{"once more", batches, Position{line, 9, 0}, false},
		{"one in the midst", batches, Position{line, 8, 0}, false},
		{"one left out", batches, Position{line, 6, 0}, false},
		{"another timeline", batches, Position{Timeline{1}, 7, 0}, false},
		{"before the base is complete", batches, Position{line, 7, 1}, false},
		{"from nothing", batches, Position{}, false},
		{"the first of all", &Frame{Timeline: line, Kind: Batches, First: 1, Last: 1}, Position{}, true},
		{"a part", part, Position{line, 7, 2}, true},
		{"a part twice", part, Position{line, 7, 3}, false},
		{"a part of another base", part, Position{line, 8, 2}, false},
		{"a base begins", &Frame{Timeline: line, Kind: Base, First: 7}, Position{}, true},
		{"a base begins in the midst", &Frame{Timeline: line, Kind: Base, First: 7}, Position{line, 7, 0}, false},
		{"the end", end, Position{line, 7, 3}, true},
		{"the end too early", end, Position{line, 7, 2}, false},
	} {
		if got := c.f.Follows(c.at); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// TestDamage: each byte changed and each cut is found, and what came before is read.
func TestDamage(t *testing.T) {
	frames := testFrames()
	b := segment(t, frames...)
	read := func(b []byte) (n int, err error) {
		r := NewReader(bytes.NewReader(b))
		for ; ; n++ {
			f, err := r.Next()
			if err != nil {
				return n, err
			}
			if n >= len(frames) || !same(f, frames[n]) {
				t.Fatalf("frame %d is another one: %+v", n, f)
			}
		}
	}
	for at := range b {
		changed := bytes.Clone(b)
		changed[at] ^= 1 << (at % 8)
		if n, err := read(changed); !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, ErrTorn) && !errors.Is(err, fault.ErrNewerLayout) {
			t.Errorf("byte %d changed: %d frames, %v", at, n, err)
		}
		switch n, err := read(b[:at]); {
		case errors.Is(err, io.EOF) && n < len(frames) && bytes.Equal(b[:at], segment(t, frames[:n]...)):
		case !errors.Is(err, ErrTorn):
			t.Errorf("cut at byte %d: %d frames, %v", at, n, err)
		}
	}
}

func TestTimeline(t *testing.T) {
	line := testTimeline()
	if got, err := ParseTimeline(line.String()); err != nil || got != line || line.String() != "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "a0a1a2a3", "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeag", "a0a1a2a3a4a5-a6a7-a8a9-aaabacadaeaf-", "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf00"} {
		if _, err := ParseTimeline(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// TestGolden: the first version stays as it is. Behind the head the bytes are the packer's, which may
// find others; the file has frames that it does not pack.
func TestGolden(t *testing.T) {
	frames := testFrames()
	plain := []*Frame{frames[0], frames[1], frames[3]}
	text, err := os.ReadFile("testdata/segment.v1.hex")
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := segment(t, plain...); !bytes.Equal(got, want) {
		t.Errorf("written is\n%x", got)
	}
	r := NewReader(bytes.NewReader(want))
	for _, f := range plain {
		if got, err := r.Next(); err != nil || !same(got, f) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// FuzzReader: no bytes make it panic or take more memory than they have, and what is read is written
// again as it was understood.
func FuzzReader(f *testing.F) {
	f.Add(segment(f, testFrames()...))
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		for {
			got, err := r.Next()
			if err != nil {
				return
			}
			again, err := NewReader(bytes.NewReader(segment(t, got))).Next()
			if err != nil || !same(got, again) {
				t.Fatalf("%+v is read again as %+v, %v", got, again, err)
			}
		}
	})
}

// TestPlain: a frame that is not packed is read as one that is.
func TestPlain(t *testing.T) {
	for i, f := range testFrames() {
		b, err := f.AppendPlain(nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == Batches && !bytes.Contains(b, f.Batches[0]) {
			t.Errorf("frame %d is packed", i)
		}
		got, err := NewReader(bytes.NewReader(b)).Next()
		if err != nil || !same(got, f) {
			t.Errorf("frame %d: %+v, %v", i, got, err)
		}
	}
}
