package requests

import (
	"errors"
	"reflect"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
)

var (
	first  = KeyOf("client", "request 1")
	stored = Record{At: 1767225600123, Owner: 3, Kept: true, Sum: Sum{1, 2, 3}, Answer: []byte(`{"stored":1}`)}
)

// TestGoldenEncodings verifies that keys and values have the bytes that databases have.
func TestGoldenEncodings(t *testing.T) {
	var v golden.Keys
	golden.Compare(t, "testdata/requests.golden", "Encodings of requests, see docs/format. The first generation.", []golden.Encoding{
		{Name: "key request", Bytes: doneKey(v, first)},
		{Name: "key time", Bytes: timeKey(v, stored.At, first)},
		{Name: "key answer", Bytes: answerKey(v, stored.Owner, first)},
		{Name: "request", Bytes: stored.encodeDone()},
		{Name: "answer", Bytes: stored.encodeAnswer()},
	})
}

// TestDecode reads what was encoded, and refuses each cut of it with an error.
func TestDecode(t *testing.T) {
	var v golden.Keys
	if p, ok := parseDone(doneKey(v, first)); !ok || p != (place{key: first}) {
		t.Error(p, ok)
	}
	if p, ok := parseDone(timeKey(v, 5, first)); !ok || p != (place{sectionTime, 5, first}) {
		t.Error(p, ok)
	}
	if owner, k, ok := parseAnswer(answerKey(v, 3, first)); owner != 3 || k != first || !ok {
		t.Error(owner, k, ok)
	}
	b := stored.encodeDone()
	r, err := decodeDone(b)
	if err == nil {
		err = r.decodeAnswer(stored.encodeAnswer())
	}
	if err != nil || !reflect.DeepEqual(r, stored) {
		t.Errorf("%+v, %v", r, err)
	}
	for n := range b {
		if _, err := decodeDone(b[:n]); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	for n := range 1 + len(Sum{}) {
		if err := new(Record).decodeAnswer(stored.encodeAnswer()[:n]); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d bytes of an answer: %v", n, err)
		}
	}
	if KeyOf("a", "bc") == KeyOf("ab", "c") {
		t.Error("the same key for two clients")
	}
}
