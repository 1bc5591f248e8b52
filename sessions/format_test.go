package sessions

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/scope"
)

var (
	noon   = time.UnixMilli(1767225600123).UTC()
	monday = head{
		of: scope.Owner{User: "ada", Agent: "a1"}, name: "monday", channel: "telegram", flags: flagLive | flagClosed,
		created: 1767225600000, updated: 1767225600123, listed: 1767225600123, version: 9, state: 7,
		content: 2, contents: 3, first: 4, next: 300, markers: 5, undo: undo{1, 2, 200, 4, 300}, metadata: []byte(`{"a":1}`),
	}
	hello = Message{
		ID: "m1", Role: "user", At: noon, Parts: []byte(`[1]`), MemoryIDs: []string{"x", "y"},
		pieces: []piece{{seq: 7, id: "x", quiet: true}, {id: "y", text: "hi"}, {text: "own"}},
	}
	called = Message{
		ID: "m2", Role: "assistant", At: noon, Parts: []byte(`[1]`), Name: "bot", ToolCallID: "c0", ToolCalls: []byte(`[{"id":"c1"}]`),
		Extra: []byte(`{"refusal":null}`), pieces: []piece{{text: "own"}},
	}
	mark = Marker{ArchiveID: "z", ArchiveName: "monday/1", ArchivedAt: noon, Summarized: 25}
)

// TestGoldenEncodings holds keys and values to the bytes that databases have.
func TestGoldenEncodings(t *testing.T) {
	var v golden.Keys
	p := place{3, 5}
	golden.Compare(t, "testdata/sessions.golden", "Encodings of sessions, see docs/format. The first generation.", []golden.Encoding{
		{Name: "key session", Bytes: p.head(v)},
		{Name: "key state", Bytes: p.state(v, 9)},
		{Name: "key message", Bytes: p.item(v, kindMessage, 2, 299, 9)},
		{Name: "key marker", Bytes: p.marker(v, 2, 290, 9, 5)},
		{Name: "key message ID", Bytes: p.id(v, 2, "m1")},
		{Name: "key list", Bytes: order(v, p, everyday, monday.listed)},
		{Name: "key list of a channel", Bytes: order(v, p, channelList("telegram"), monday.listed)},
		{Name: "key list of archived sessions", Bytes: order(v, p, archives, -1)},
		{Name: "key chore", Bytes: p.chore(v, 9, 2)},
		{Name: "session", Bytes: monday.encode(nil)},
		{Name: "state", Bytes: monday.encode(monday.metadata)},
		{Name: "message", Bytes: encodeMessage(&hello)},
		{Name: "message with tools", Bytes: encodeMessage(&called)},
		{Name: "marker", Bytes: mark.encode()},
		{Name: "chore", Bytes: chore{below: 300, until: 1767225600123}.encode()},
	})
}

// TestDecode reads what was encoded, and refuses each cut of it with an error.
func TestDecode(t *testing.T) {
	var v golden.Keys
	p := place{3, 5}
	if at, l, ms, ok := parseOrder(order(v, p, archives, 12)); at != p || l != archives || ms != 12 || !ok {
		t.Error(at, l, ms, ok)
	}
	if c, n, lsn, ok := parseItem(p.item(v, kindMessage, 2, 299, 9)); c != 2 || n != 299 || lsn != 9 || !ok {
		t.Error(c, n, lsn, ok)
	}
	if lsn, c, ok := parseChore(p.chore(v, 9, 2)); lsn != 9 || c != 2 || !ok {
		t.Error(lsn, c, ok)
	}
	b := monday.encode(monday.metadata)
	if h, err := decodeHead(b); err != nil || !reflect.DeepEqual(h, &monday) {
		t.Errorf("%+v, %v", h, err)
	}
	mb := encodeMessage(&hello)
	if m, err := decodeMessage(mb); err != nil || !reflect.DeepEqual(m, &hello) {
		t.Errorf("%+v, %v", m, err)
	}
	cb := encodeMessage(&called)
	if m, err := decodeMessage(cb); err != nil || !reflect.DeepEqual(m, &called) {
		t.Errorf("%+v, %v", m, err)
	}
	kb := mark.encode()
	if m, err := decodeMarker(kb); err != nil || *m != mark {
		t.Errorf("%+v, %v", m, err)
	}
	for what, of := range map[string]struct {
		b      []byte
		rest   int
		decode func([]byte) error
	}{
		"session": {b, len(monday.metadata), func(b []byte) error { _, err := decodeHead(b); return err }},
		"message": {mb, len(hello.Parts), func(b []byte) error { _, err := decodeMessage(b); return err }},
		"tools":   {cb, len(called.Parts), func(b []byte) error { _, err := decodeMessage(b); return err }},
		"marker":  {kb, 0, func(b []byte) error { _, err := decodeMarker(b); return err }},
		"chore":   {chore{300, 400}.encode(), 0, func(b []byte) error { _, err := decodeChore(b); return err }},
	} {
		for n := range len(of.b) - of.rest {
			if err := of.decode(of.b[:n]); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s, %d of %d bytes: %v", what, n, len(of.b), err)
			}
		}
		if err := of.decode(append([]byte{messageVersion + 1}, of.b[1:]...)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s of another version: %v", what, err)
		}
	}
}
