package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// everything has a line of each type, of two agents.
const everything = `{"type":"agent","id":"researcher","name":"R","created_at":"2026-01-01T00:00:00Z","metadata":{"team":"search"}}
{"type":"agent","id":"coder","name":"C","created_at":"2026-01-02T00:00:00Z"}
{"type":"history","memory_id":"gone","user":"","agent":"researcher","run":"","event":"ADD","new_value":"old","timestamp":"2026-01-01T00:00:00Z"}
{"type":"history","memory_id":"gone","user":"","agent":"researcher","run":"","event":"DELETE","timestamp":"2026-01-02T00:00:00Z"}
{"type":"memory","id":"a","agent":"researcher","run":"monday","text":"The kiln arrived.","kind":"fragment","source":"web_search","embedding":[1,2]}
{"type":"memory","id":"b","user":"ada","agent":"coder","text":"It stands in the shed.","metadata":{"n":1.50}}
{"type":"kv","agent":"researcher","key":"fired","value":{"times":3}}
{"type":"session","session":"monday","agent":"researcher","channel":"telegram","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}
{"type":"message","session":"monday","agent":"researcher","position":0,"id":"m0","role":"user","text":"The kiln arrived.","memory_id":"a","at":"2026-01-01T00:00:00Z"}
{"type":"message","session":"monday","agent":"researcher","position":1,"id":"m1","role":"assistant","text":"Good.","parts":[{"type":"text","text":"Good."},{"type":"tool_call","name":"fire"}],"at":"2026-01-01T00:00:01Z"}
{"type":"marker","session":"monday","agent":"researcher","position":1,"archive_id":"x","archive_name":"x","archived_at":"2026-01-01T00:00:02Z","summarized":1}
{"type":"entity","id":"kiln","agent":"researcher","entity_type":"thing","name":"Kiln","aliases":["oven"],"properties":{"kg":80}}
{"type":"entity","id":"shed","agent":"researcher","entity_type":"place","name":"Shed"}
{"type":"relation","agent":"researcher","from":"kiln","relation":"in","to":"shed"}
{"type":"budget","agent":"researcher","per":"day","limit_usd":1.25}
{"type":"usage","agent":"researcher","number":1,"model":"m","prompt_tokens":3,"completion_tokens":1,"total_tokens":4,"cost_usd":0.0123,"timestamp":"2026-01-01T00:00:00Z"}
{"type":"policy","max_age_ms":1000}
`

// TestDocumentRoundTrip: a document is the list of the lines, and what it makes exports to
// the same bytes, as a document and as lines.
func TestDocumentRoundTrip(t *testing.T) {
	now := newTestClock()
	db, other := openAt(t, now), openAt(t, now)
	counts(t, importString(t, db, everything, nil), 15, 0, 0, 0)
	lines, doc := exportAny(t, db, nil), exportAny(t, db, &ExportOptions{Document: true})
	var items []json.RawMessage
	if err := json.Unmarshal([]byte(doc), &items); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, i := range items {
		fmt.Fprintf(&text, "%s\n", i)
	}
	if text.String() != lines {
		t.Errorf("the document has\n%s\nthe lines are\n%s", text.String(), lines)
	}
	report, err := ImportJSON(t.Context(), other, strings.NewReader(doc), nil)
	if err != nil || report.Bytes != int64(len(doc)) && report.Bytes != int64(len(doc)-1) {
		t.Errorf("%+v, %v", report, err)
	}
	if counts(t, report, 15, 0, 0, 0); report.Events != 2 {
		t.Errorf("%d events", report.Events)
	}
	want := "map[agent:2 budget:1 entity:2 kv:1 marker:1 memory:2 message:2 policy:1 relation:1 session:1 usage:1]"
	if got := fmt.Sprint(report.Imported); got != want {
		t.Errorf("imported %s, want %s", got, want)
	}
	if again := exportAny(t, other, nil); again != lines {
		t.Errorf("exported\n%s\nwant\n%s", again, lines)
	}
	if again := exportAny(t, other, &ExportOptions{Document: true}); again != doc {
		t.Errorf("exported\n%s\nwant\n%s", again, doc)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(doc), "", "  "); err != nil {
		t.Fatal(err)
	}
	report, err = ImportJSON(t.Context(), other, &pretty, nil)
	if counts(t, report, 0, 0, 15, 0); err != nil {
		t.Error(err)
	}
	if empty := exportAny(t, db, &ExportOptions{Document: true, Scope: memory.Scope{Agent: "nobody"}}); empty != "[]\n" {
		t.Errorf("of nobody: %q", empty)
	}
}

// TestImportIntoAgent: with IntoAgent everything is that agent's, users and runs stay, and
// the agent keeps its own manifest.
func TestImportIntoAgent(t *testing.T) {
	now := newTestClock()
	db, named := openAt(t, now), openAt(t, now)
	into := &Options{IntoAgent: "heir"}
	report := importString(t, db, everything, into)
	if counts(t, report, 14, 0, 1, 0); report.Imported["memory"] != 2 || report.Imported["entity"] != 2 {
		t.Errorf("imported %v", report.Imported)
	}
	other := strings.NewReplacer(`"coder"`, `"heir"`, `"researcher"`, `"heir"`, `{"type":"agent","id":"coder","name":"C","created_at":"2026-01-02T00:00:00Z"}`+"\n", "")
	importString(t, named, other.Replace(everything), nil)
	if got, want := exportAny(t, db, nil), exportAny(t, named, nil); got != want {
		t.Errorf("exported\n%s\nwant\n%s", got, want)
	}
	counts(t, importString(t, db, everything, into), 0, 0, 15, 0)
	counts(t, importString(t, db, `{"type":"memory","id":"c","text":"Nobody's."}`, into), 1, 0, 0, 0)
	if m, err := db.Memories().Get(t.Context(), memory.Scope{Agent: "heir"}, "c"); err != nil || m.User != "" || m.Agent != "heir" {
		t.Errorf("%+v, %v", m, err)
	}
	if bad := importString(t, db, everything, &Options{IntoAgent: strings.Repeat("x", 1<<20)}); bad.Stored != 1 && bad.Skipped == 0 {
		t.Errorf("a name of 1 MB: %+v", bad)
	}
}

// TestImportOfStrictAgents: an export of registered agents can be imported where agents must
// be, and a record of any other agent is refused with what to do.
func TestImportOfStrictAgents(t *testing.T) {
	from := openAt(t, newTestClock())
	importString(t, from, everything, nil)
	strict, err := engine.OpenMemory(&engine.Options{StrictAgents: true, Clock: newTestClock().now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = strict.Close() }()
	counts(t, importString(t, strict, exportAny(t, from, nil), nil), 15, 0, 0, 0)
	if got, want := exportAny(t, strict, nil), exportAny(t, from, nil); got != want {
		t.Errorf("exported\n%s\nwant\n%s", got, want)
	}
	report := importString(t, strict, strings.ReplaceAll(everything, `"type":"agent"`, `"type":"agent","created_at":[]`), &Options{IntoAgent: "nobody"})
	if report.Stored != 0 || len(report.Errors) == 0 {
		t.Errorf("%+v", report)
	}
	for _, e := range report.Errors {
		if e.Line > 2 && !errors.Is(e.Err, memory.ErrUnknownAgent) {
			t.Error(e)
		}
	}
}

// exportAny is an export, without export's count of lines.
func exportAny(t *testing.T, db *engine.DB, o *ExportOptions) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := Export(t.Context(), db, &b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestDocumentReader reads what is one JSON document, and what is none.
func TestDocumentReader(t *testing.T) {
	long := `{"x":"` + strings.Repeat("y", 1<<20) + `"}`
	for text, want := range map[string]string{
		"":                            "EOF",
		" \n\t":                       "EOF",
		"[]":                          "EOF",
		"\ufeff [ ]\n":                "EOF",
		`[{"a":1},{"b":[2]}]`:         `{"a":1} {"b":[2]} EOF`,
		"{\n\"a\": 1\n}":              "{\n\"a\": 1\n} EOF",
		"{}\n{}":                      "{} {} EOF",
		"[1, \"x\", null, [2]]":       `1 "x" null [2] EOF`,
		"[{}] ":                       "{} EOF",
		"[{}] {}":                     "{} the document goes on behind its list, at byte 5",
		"[{}]]":                       "{} the document goes on behind its list, at byte 4",
		"[":                           "malformed JSON behind byte 1: it ends too early",
		"[{}":                         "{} malformed JSON behind byte 3: it ends too early",
		"[{},":                        "{} malformed JSON behind byte 4: it ends too early",
		`[{"a":`:                      "malformed JSON behind byte 1: it ends too early",
		"[{} {}]":                     "{} malformed JSON behind byte",
		"[{}}":                        "{} malformed JSON behind byte",
		"nothing":                     "malformed JSON behind byte 0",
		"\x1f\x8b\x08\x00":            "the file is compressed",
		"{\x00":                       "the text is UTF-16",
		"[" + long + "," + long + "]": long + " " + long + " EOF",
	} {
		d := NewDocumentReader(iotestReader{strings.NewReader(text)})
		var got []string
		var err error
		for err == nil {
			var record []byte
			if record, err = d.Next(); err == nil {
				if got = append(got, string(record)); d.Line() != len(got) {
					t.Errorf("%.40q: record %d is number %d", text, len(got), d.Line())
				}
			}
		}
		if got = append(got, err.Error()); !strings.HasPrefix(strings.Join(got, " "), want) {
			t.Errorf("%.60q: %.200q, want %.200q", text, got, want)
		}
		if _, again := d.Next(); again == nil || again.Error() != err.Error() {
			t.Errorf("%.40q: %v, and then %v", text, err, again)
		}
		if errors.Is(err, io.EOF) && d.Bytes() > int64(len(text)) {
			t.Errorf("%.40q: %d bytes of %d", text, d.Bytes(), len(text))
		}
	}
}

// TestDocumentBound verifies that reading continues after a record that is too long, and that a record
// or a run of blanks without an end is an error before all of it is held.
func TestDocumentBound(t *testing.T) {
	const limit = 1 << 10
	long := strings.Repeat("x", 2*limit)
	for in, want := range map[string]string{
		`[{"a":1},{"b":"` + long + `"},{"c":2}]`:                             `{"a":1}, longer than 64 MiB, {"c":2}, EOF`,
		`[{"a":1},{"b":"` + strings.Repeat(long, passLimits):                 `{"a":1}, malformed JSON behind byte 9: a value is longer than 1024 MiB`,
		`[{"a":1},` + strings.Repeat(" \n", 2*passLimits*limit) + "]":        `{"a":1}, malformed JSON behind byte 1036: more than 64 MiB of blanks`,
		strings.Repeat("\n", 2*passLimits*limit):                             `malformed JSON behind byte 1029: more than 64 MiB of blanks`,
		`[` + strings.Repeat(" ", limit/2) + `1 ]`:                           `1, EOF`,
		`["\\", "\"", "\\\"", "\u0022", "` + strings.Repeat(`\\`, 40) + `"]`: `"\\", "\"", "\\\"", "\u0022", "` + strings.Repeat(`\\`, 40) + `", EOF`,
		`[1`: `1, malformed JSON behind byte 2: it ends too early`,
	} {
		d := NewDocumentReader(iotestReader{strings.NewReader(in)})
		d.limit = limit
		got := []string{}
		for len(got) < 10 {
			record, err := d.Next()
			if err == nil {
				got = append(got, string(record))
				continue
			}
			if got = append(got, err.Error()); !errors.Is(err, ErrLongLine) {
				break
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%.40q: %.200s, want %.200s", in, text, want)
		}
	}
}

// TestBlankLines verifies that blank lines without an end are an error.
func TestBlankLines(t *testing.T) {
	l := NewLineReader(io.MultiReader(strings.NewReader("{}\n"), strings.NewReader(strings.Repeat("\n", MaxLine+2))))
	if line, err := l.Next(); string(line) != "{}" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := l.Next(); !errors.Is(err, errBlanks) {
		t.Error(err)
	}
}

// iotestReader gives a few bytes at a time, as a pipe may.
type iotestReader struct{ io.Reader }

func (r iotestReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 7)]) }
