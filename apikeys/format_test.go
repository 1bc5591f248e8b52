package apikeys

import (
	"errors"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// TestGoldenEncodings verifies that keys and values have the bytes that databases have.
func TestGoldenEncodings(t *testing.T) {
	var v golden.Keys
	h := head{keyed: true, since: 1767225600123}
	h.count("made.key_0123", []byte(`{"id":"key_0123"}`), 1)
	golden.Compare(t, "testdata/apikeys.golden", "Encodings of API keys, see docs/format. The first generation.", []golden.Encoding{
		{Name: "key head", Bytes: headKey(v)},
		{Name: "key line", Bytes: lineKey(v, "made.key_0123")},
		{Name: "head", Bytes: h.encode()},
		{Name: "head of none", Bytes: (&head{}).encode()},
	})
	b := h.encode()
	if got, err := decodeHead(b); err != nil || got != h {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range b {
		if _, err := decodeHead(b[:n]); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	h.count("made.key_0123", []byte(`{"id":"key_0123"}`), -1)
	if h.lines != 0 || h.digest != (head{}).digest {
		t.Errorf("a line that is gone still counts: %+v", h)
	}
}

// TestRights verifies which rights a key may have.
func TestRights(t *testing.T) {
	of := []scope.Scope{{User: "a"}}
	for _, c := range []struct {
		r    Rights
		want error
	}{
		{Rights{}, fault.ErrScope},
		{Rights{ReadOnly: true}, fault.ErrScope},
		{Rights{Scopes: []scope.Scope{{}}}, fault.ErrScope},
		{Rights{Scopes: of, Admin: true}, fault.ErrInvalid},
		{Rights{Scopes: of, Metrics: true}, fault.ErrInvalid},
		{Rights{Admin: true, Metrics: true}, fault.ErrInvalid},
		{Rights{Scopes: of, Name: "two\nlines"}, fault.ErrInvalid},
		{Rights{Scopes: []scope.Scope{{User: string(make([]byte, 513))}}}, fault.ErrInvalid},
		{Rights{Scopes: of, ReadOnly: true, Name: "Ada's laptop"}, nil},
		{Rights{Admin: true, ReadOnly: true}, nil},
		{Rights{Metrics: true}, nil},
	} {
		if err := c.r.Check(); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%+v: %v, want %v", c.r, err, c.want)
		}
	}
	if err := CheckLines([]byte(`{"id":"a b"}` + "\n")); err == nil {
		t.Error("an ID with a blank is taken")
	}
}
