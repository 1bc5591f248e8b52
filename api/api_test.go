package api

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// TestAll verifies that each operation is described whole, and that no two are the same command or route.
func TestAll(t *testing.T) {
	inPath := regexp.MustCompile(`\{([a-z_]+)\}`)
	names, routes := map[string]bool{}, map[string]bool{}
	for _, d := range All() {
		op := d.Describe()
		if names[op.Name] || op.Route != "" && routes[op.Route] || op.Name == "" || op.Summary == "" || op.Doing == "" {
			t.Errorf("%s, %s: it is there twice, or lacks a name, a summary or what it does", op.Name, op.Route)
		}
		names[op.Name], routes[op.Route] = true, true
		if method, _, _ := strings.Cut(op.Route, " "); op.Route != "" && (method == "GET" || op.Name == "recall" || op.Name == "why") != (op.Access == Reads) {
			t.Errorf("%s: the method is %s, and the access %d", op.Name, method, op.Access)
		}
		if strings.HasSuffix(op.Summary, ".") {
			t.Errorf("%s: the summary ends with a full stop", op.Name)
		}
		var path []string
		seen := map[string]bool{}
		for _, f := range d.Fields() {
			key := f.Name + string(rune(f.Place))
			if f.Kind == nil {
				t.Errorf("%s: the field %s has a type that no kind reads", op.Name, f.Name)
			} else if _, err := f.Kind.Read(t.Context(), nil, f.Default); f.Default != "" && err != nil {
				t.Errorf("%s: the default of %s: %v", op.Name, f.Name, err)
			}
			if f.Name == "" || f.Help == "" || seen[key] || strings.HasSuffix(f.Help, ".") {
				t.Errorf("%s: the field %q is there twice, or lacks a name or a help", op.Name, f.Name)
			}
			seen[key] = true
			if f.Stdin != 0 && f.Stdin != entries.MaxValue && f.Stdin != memory.MaxText {
				t.Errorf("%s: the field %s is read up to %d bytes, which is the bound of nothing", op.Name, f.Name, f.Stdin)
			}
			if f.Place == InPath {
				path = append(path, f.Name)
			}
		}
		var want []string
		for _, m := range inPath.FindAllStringSubmatch(op.Route, -1) {
			want = append(want, m[1])
		}
		if !reflect.DeepEqual(path, want) {
			t.Errorf("%s: the path has %v, and the request %v", op.Name, want, path)
		}
	}
}

type request struct {
	Owner
	Text   string          `path:"text" arg:"TEXT" help:"h"`
	Count  int             `query:"count" min:"1" max:"9" default:"3" help:"h"`
	Whole  *uint64         `query:"whole" flag:"all-of-it" help:"h"`
	Many   []string        `query:"many" flag:"-" help:"h"`
	Span   policy.Span     `query:"span" help:"h"`
	Since  time.Time       `query:"since_then" bound:"lower" help:"h"`
	Choice string          `query:"choice" enum:"a,b,c" help:"h"`
	Flag   bool            `query:"flag" required:"true" help:"h"`
	Share  float64         `query:"share" help:"h"`
	Least  int             `query:"least" min:"2" help:"h"`
	Value  json.RawMessage `body:"json" arg:"JSON" help:"h"`
	Unset  int
}

// TestFields verifies that what was written reaches the field that it is for.
func TestFields(t *testing.T) {
	var q request
	fields := map[string]Field{}
	for _, f := range FieldsOf(reflect.TypeFor[request]()) {
		fields[f.Name] = f
	}
	for name, want := range map[string][3]string{ // flag, argument, schema
		"user": {"user", "", "string"}, "text": {"", "TEXT", "string"}, "count": {"count", "", "integer"}, "whole": {"all-of-it", "", "integer"},
		"many": {"", "", "string"}, "since_then": {"since-then", "", "string"}, "flag": {"flag", "", "boolean"}, "json": {"", "JSON", ""},
	} {
		if f := fields[name]; f.Flag != want[0] || f.Arg != want[1] || f.Kind.Schema != want[2] {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := fields["choice"]; f.Choice() != "a, b or c" {
		t.Errorf("the choice is %q", f.Choice())
	}
	zone := time.FixedZone("", 3600)
	for _, set := range []struct{ name, text, wrong string }{
		{"user", "ada", ""},
		{"text", "t", ""},
		{"count", "9", ""},
		{"count", "10", "10 is not within 1 and 9"},
		{"count", "x", "whole number"},
		{"whole", "18446744073709551615", ""},
		{"whole", "-1", "whole number"},
		{"many", "a", ""},
		{"many", "b", ""},
		{"span", "2d", ""},
		{"span", "2", "length of time"},
		{"since_then", "2026-11-20", ""},
		{"since_then", "soon", "soon"},
		{"choice", "b", ""},
		{"flag", "true", ""},
		{"flag", "yes", "neither true nor false"},
		{"share", "0.5", ""},
		{"share", "NaN", "no number"},
		{"json", `{"a":1}`, ""},
		{"json", "{", "no JSON"},
		{"least", "1", "1 is below 2"},
		{"least", "2", ""},
	} {
		f := fields[set.name]
		v, err := f.Kind.Read(t.Context(), zone, set.text)
		if err == nil {
			err = f.Set(&q, v)
		}
		if (err == nil) != (set.wrong == "") || err != nil && !strings.Contains(err.Error(), set.wrong) {
			t.Errorf("%s %q: %v, want %q", set.name, set.text, err, set.wrong)
		}
	}
	whole := uint64(1<<64 - 1)
	want := request{
		Owner: Owner{User: "ada"}, Text: "t", Count: 9, Whole: &whole, Many: []string{"a", "b"}, Span: policy.Span(48 * time.Hour),
		Since: time.Date(2026, 11, 19, 23, 0, 0, 0, time.UTC), Choice: "b", Flag: true, Share: 0.5, Least: 2, Value: json.RawMessage(`{"a":1}`),
	}
	if !reflect.DeepEqual(q, want) {
		t.Errorf("the request is %+v\nwant %+v", q, want)
	}
	if body := BodyOf(&q); body != any(&q.Value) {
		t.Errorf("the body is %v", body)
	}
	if body := BodyOf(&q.Owner); body != nil {
		t.Errorf("a request without a body has %v", body)
	}
}

// TestOneOf verifies that each form of what has several is read as what was written.
func TestOneOf(t *testing.T) {
	for _, one := range []any{
		&SessionItem{Marker: &sessions.MarkerLine{Type: sessions.TypeMarker, ArchiveID: "a", Summarized: 2}},
		&SessionItem{Message: &sessions.MessageLine{Type: sessions.TypeMessage, ID: "m", Role: "user", Text: "a <b> & c", Orphan: true}},
		&SessionRepairReply{Repaired: &sessions.Repaired{Repaired: true, TotalFixes: 1}},
		&SessionRepairReply{Session: &sessions.SessionLine{Type: sessions.TypeSession, Session: "s"}},
		&EvictionItem{Victim: &engine.Victim{ID: "v"}},
		&EvictionItem{Report: &engine.Evicted{Evicted: 1, LSN: 3}},
		&ConsolidationItem{Merge: &engine.Merge{ID: "m", Into: "n"}},
		&ConsolidationItem{Pruned: &engine.Pruned{ID: "p", Reason: "pruned"}},
		&ConsolidationItem{Report: &exchange.Consolidated{Merged: 2}},
	} {
		b, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		got := reflect.New(reflect.TypeOf(one).Elem()).Interface()
		if err := json.Unmarshal(b, got); err != nil || !reflect.DeepEqual(got, one) {
			t.Errorf("%s is read as %+v: %v", b, got, err)
		}
	}
}
