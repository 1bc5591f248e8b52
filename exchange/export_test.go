package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// testClock is a clock that only the test moves, and the janitor reads beside it.
type testClock struct{ ms atomic.Int64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.ms.Store(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *testClock) now() time.Time          { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *testClock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func openAt(t *testing.T, now *testClock, indexed ...memory.IndexedField) *engine.DB {
	t.Helper()
	db, err := engine.OpenMemory(&engine.Options{Clock: now.now, IndexedText: indexed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func export(t *testing.T, db *engine.DB, o *ExportOptions) string {
	t.Helper()
	var b bytes.Buffer
	report, err := Export(t.Context(), db, &b, o)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); o == nil && n != head(b.String())+report.Memories+report.Events+report.Lines["kv"] {
		t.Errorf("%d lines, reported %+v", n, report)
	}
	return b.String()
}

// TestExportBeside leaves out what a change of the model has put beside the default space, in
// the midst of it and after it, but for what nothing else holds; an older export that has it is
// read without.
func TestExportBeside(t *testing.T) {
	now, ctx := newTestClock(), t.Context()
	db, ada := openAt(t, now), memory.Scope{User: "ada"}
	beside := map[string][]float32{engine.BesidePrefix + "m": {1, 2, 3}, "mine": {4, 5}}
	if err := db.CreateSpace(ctx, engine.SpaceConfig{Name: engine.BesidePrefix + "m", Dim: 3, Model: "m"}); err != nil {
		t.Fatal(err)
	}
	for _, m := range []memory.Memory{{ID: "text", Text: "likes tea", Vectors: maps.Clone(beside)}, {ID: "silent", Vectors: maps.Clone(beside)}} {
		m.Scope = ada
		if _, err := db.Memories().Store(ctx, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	out := export(t, db, nil)
	old := strings.Replace(out, `"vectors":{"mine":[4,5]}`, `"vectors":{"mine":[4,5],"`+engine.BesidePrefix+`m":[1,2,3]}`, 1)
	if strings.Count(out, engine.BesidePrefix) != 2 || old == out {
		t.Errorf("the export has the space where it was needed: %s", out)
	}
	for _, in := range []string{out, old} {
		copied := openAt(t, now)
		if r, err := ImportJSONL(ctx, copied, strings.NewReader(in), nil); err != nil || r.Stored != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		if again := export(t, copied, nil); again != out {
			t.Errorf("exported again:\n%s\nwant\n%s", again, out)
		}
		m, err := copied.Memories().GetWithVectors(ctx, ada, "silent")
		if err != nil || len(m.Vectors) != 2 {
			t.Errorf("%+v, %v", m, err)
		}
	}
}

// head counts the lines before the first memory or event.
func head(export string) int {
	return strings.Count(export, `{"type":"database"`) + strings.Count(export, `{"type":"space"`)
}

// fill stores memories of every shape, changes some, deletes some, recalls some.
func fill(t *testing.T, db *engine.DB, now *testClock) {
	rng := rand.New(rand.NewPCG(1, 2))
	ctx := context.Background()
	for i := range 60 {
		now.advance(time.Second)
		m := memory.Memory{
			ID: fmt.Sprint("m", i), Scope: memory.Scope{User: []string{"ada", "bob"}[i%2], Run: []string{"", "r"}[i/2%2]},
			Role: memory.RoleAssistant, Kind: memory.KindFragment, Source: "web_search",
			Text: fmt.Sprintf("tea <b>&amp; \u2028 %d", i), Metadata: map[string]any{"n": json.Number("12345678901234567890.5"), "deep": map[string]any{"l": []any{1, nil, "x"}}},
			Pinned: i%3 == 0, EventTime: now.now(), AccessCount: uint64(i % 4),
		}
		if i%4 == 0 {
			m.Embedding = []float32{rng.Float32(), -1e-30, 3.4e38}
			m.Vectors = map[string][]float32{"other": {1, rng.Float32()}}
		}
		if i%5 == 0 {
			m.Importance, m.Confidence = new(rng.Float64()), new(rng.Float64())
		}
		if _, err := db.Memories().Store(ctx, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 60; i += 7 {
		now.advance(time.Second)
		text := fmt.Sprint("coffee ", i)
		if _, err := db.Memories().Update(ctx, memory.Scope{}, fmt.Sprint("m", i), memory.Patch{Text: &text}); err != nil {
			t.Fatal(err)
		}
		if err := db.Memories().Delete(ctx, memory.Scope{}, fmt.Sprint("m", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	lives(t, db, now)
	if _, err := db.Memories().Recall(ctx, memory.Query{Scope: memory.Scope{User: "ada"}, Text: "tea"}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		o := memory.Owner{User: []string{"ada", ""}[i%2], Agent: []string{"", "planner"}[i%2]}
		opts := &entries.PutOptions{}
		if i%3 == 0 {
			opts.TTL = time.Hour
		}
		if _, err := db.KV().Put(ctx, o, fmt.Sprint("k", i), json.RawMessage(`{"n": 12345678901234567890}`), opts); err != nil {
			t.Fatal(err)
		}
	}
}

// lives gives IDs several lives, two of them the same to the millisecond, moves a
// memory to another run, lets one expire, and deletes a scope.
func lives(t *testing.T, db *engine.DB, now *testClock) {
	t.Helper()
	m, ctx := db.Memories(), context.Background()
	ada := memory.Scope{User: "ada", Run: "r"}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		must(m.Store(ctx, memory.Memory{ID: "again", Scope: ada, Text: "same"}, nil))
		must(nil, m.Delete(ctx, ada, "again"))
	}
	must(m.Store(ctx, memory.Memory{ID: "again", Scope: ada, Text: "here"}, nil))
	must(m.Store(ctx, memory.Memory{ID: "again", Scope: memory.Scope{User: "ada", Run: "s"}, Text: "moved"}, &memory.StoreOptions{Upsert: true}))
	must(m.Store(ctx, memory.Memory{ID: "brief", Scope: ada, Text: "gone in a second", ExpiresAt: now.now().Add(time.Second)}, nil))
	must(m.Store(ctx, memory.Memory{ID: "vector", Scope: ada, Embedding: []float32{1, 2, 3}}, nil))
	must(nil, db.CreateSpace(ctx, engine.SpaceConfig{Name: "pictures", Dim: 2, Metric: engine.MetricL2, Model: "eye-2"}))
	must(m.Update(ctx, ada, "vector", memory.Patch{Embedding: []float32{3, 2, 1}}))
	must(m.Store(ctx, memory.Memory{ID: "one", Scope: memory.Scope{Agent: "many"}, Text: "one"}, nil))
	must(m.Store(ctx, memory.Memory{ID: "two", Scope: memory.Scope{Agent: "many"}, Text: "two"}, nil))
	must(m.DeleteScope(ctx, memory.Scope{Agent: "many"}))
	now.advance(time.Minute)
	must(db.Evict(ctx, nil)) // what has expired goes now, and not by itself in the midst of a test
}

// told are all histories that are more than an add, without what each database
// gives by itself.
func told(t *testing.T, db *engine.DB) string {
	t.Helper()
	var all []memory.HistoryEntry
	for h, err := range db.Memories().Histories(t.Context(), memory.HistoryQuery{AllScopes: true}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range h {
			e.ID, e.Seq, e.LSN = "", 0, 0
			all = append(all, e)
		}
	}
	out, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestExportIsLossless: export, import into a new database, export again: the
// same bytes; and importing again changes nothing.
func TestExportIsLossless(t *testing.T) {
	now := newTestClock()
	db := openAt(t, now)
	fill(t, db, now)
	first := export(t, db, nil)
	later := newTestClock()
	later.ms.Store(now.now().Add(30 * time.Minute).UnixMilli())
	other := openAt(t, later)
	for round := range 2 {
		report, err := ImportJSONL(t.Context(), other, strings.NewReader(first), &Options{Strict: true})
		if err != nil || report.Skipped > 0 || report.Updated > 0 || (round == 1) != (report.Stored == 0) {
			t.Fatalf("round %d: %+v, %v", round, report, err)
		}
		if second := export(t, other, nil); second != first {
			t.Fatalf("round %d:\n%s\nwant\n%s", round, second, first)
		}
		if want := `{"type":"space","name":"pictures","dim":2,"metric":"l2","model":"eye-2"}`; head(first) != 4 || !strings.Contains(first, want) {
			t.Fatalf("spaces: %.500s", first)
		}
		if a, b := told(t, other), told(t, db); a != b || strings.Count(b, `"DELETE"`) < 10 {
			t.Fatalf("round %d: histories\n%s\nwant\n%s", round, a, b)
		}
	}
	r, err := other.Check(t.Context())
	if err != nil || !r.OK {
		t.Error(r, err)
	}
}

// TestExportOfAPart: scope and filter choose memories, and then no entries come
// along.
func TestExportOfAPart(t *testing.T) {
	now := newTestClock()
	db := openAt(t, now)
	fill(t, db, now)
	out := export(t, db, &ExportOptions{Scope: memory.Scope{User: "ada"}, Filter: filter.Eq("pinned", true)})
	types := map[string]int{}
	for line := range strings.Lines(out) {
		var r Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		types[r.Type]++
		if r.Type == TypeMemory && (r.User != "ada" || !r.Pinned) || r.Type == TypeHistory && r.User != "ada" {
			t.Errorf("exported %s", line)
		}
	}
	if types[TypeMemory] == 0 || types[TypeHistory] == 0 || types[TypeSpace] == 0 || len(types) != 3 {
		t.Errorf("exported %v", types)
	}
}

// TestExportOfAScope: it brings the spaces that its vectors are in, and no others, the
// histories of what is gone, and the entries of its owners; into a new database they
// come as they were.
func TestExportOfAScope(t *testing.T) {
	now := newTestClock()
	db, other := openAt(t, now), openAt(t, now)
	for _, s := range []engine.SpaceConfig{{Dim: 2, Metric: engine.MetricDot, Model: "m"}, {Name: "side", Dim: 1, Metric: engine.MetricL2}, {Name: "secret", Dim: 3}} {
		if err := db.CreateSpace(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []memory.Memory{
		{ID: "a", Scope: memory.Scope{User: "ada", Agent: "x"}, Text: "first"},
		{ID: "b", Scope: memory.Scope{User: "ada", Agent: "x", Run: "r"}, Text: "tea", Embedding: []float32{1, 2}, Vectors: map[string][]float32{"side": {0}}},
		{ID: "c", Scope: memory.Scope{User: "bob"}, Text: "milk", Vectors: map[string][]float32{"secret": {1, 2, 3}}},
	} {
		if _, err := db.Memories().Store(t.Context(), m, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []memory.Owner{{User: "ada", Agent: "x"}, {User: "ada"}, {User: "bob"}, {Agent: "x"}} {
		if _, err := db.KV().Put(t.Context(), o, "k", 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Memories().Delete(t.Context(), memory.Scope{User: "ada"}, "a"); err != nil {
		t.Fatal(err)
	}
	const space, side = `{"type":"space","name":"default","dim":2,"metric":"dot","model":"m"}`, `{"type":"space","name":"side","dim":1,"metric":"l2"}`
	o := &ExportOptions{Scope: memory.Scope{User: "ada"}}
	out := export(t, db, o)
	want := []string{space, side, `{"type":"history","memory_id":"a"`, `{"type":"history","memory_id":"a"`, `{"type":"memory","id":"b"`, `{"type":"kv","user":"ada","agent":"x"`, `{"type":"kv","user":"ada"`}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("exported\n%s", out)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d is %s, want %s", i+1, line, want[i])
		}
	}
	if _, err := ImportJSONL(t.Context(), other, strings.NewReader(out), nil); err != nil {
		t.Fatal(err)
	}
	if again := export(t, other, o); again != out {
		t.Errorf("exported again\n%s\nwant\n%s", again, out)
	}
	for name, entries := range map[string]struct {
		scope memory.Scope
		n     int
	}{"agent": {memory.Scope{Agent: "x"}, 2}, "both": {memory.Scope{User: "ada", Agent: "x"}, 1}, "run": {memory.Scope{User: "ada", Run: "r"}, 0}} {
		if out := export(t, db, &ExportOptions{Scope: entries.scope}); strings.Count(out, `{"type":"kv"`) != entries.n {
			t.Errorf("%s exported\n%s, want %d entries", name, out, entries.n)
		}
	}
}

// TestHistoryOfAFilter: with a filter the memories that pass bring their histories,
// and those that are gone do not.
func TestHistoryOfAFilter(t *testing.T) {
	now := newTestClock()
	db := openAt(t, now)
	fill(t, db, now)
	out := export(t, db, &ExportOptions{Filter: filter.Eq("id", "m7")})
	want := `{"type":"history","memory_id":"m7","user":"bob","agent":"","run":"r","kind":"fragment","event":"ADD","new_value":"tea <b>&amp; \u2028 7","timestamp":"2026-02-01T00:00:08.000Z"}
{"type":"history","memory_id":"m7","user":"bob","agent":"","run":"r","kind":"fragment","event":"UPDATE","new_value":"coffee 7","timestamp":"2026-02-01T00:01:02.000Z"}
{"type":"memory","id":"m7",`
	if !strings.HasPrefix(out, want) || strings.Count(out, "\n") != 3 {
		t.Errorf("exported\n%s\nwant\n%s", out, want)
	}
}

// TestImportHistory: lines of histories that fit no memory, and what is told of them.
func TestImportHistory(t *testing.T) {
	const (
		add    = `{"type":"history","memory_id":"m","user":"u","event":"ADD","new_value":"a","timestamp":"2026-01-01T00:00:00Z"}` + "\n"
		change = `{"type":"history","memory_id":"m","user":"u","event":"UPDATE","old_value":"a","new_value":"b","timestamp":"2026-01-02T00:00:00Z"}` + "\n"
		remove = `{"type":"history","memory_id":"m","user":"u","event":"DELETE","old_value":"b","timestamp":"2026-01-03T00:00:00Z","is_deleted":true}` + "\n"
		kept   = `{"id":"m","user":"u","text":"b","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-02T00:00:00Z"}` + "\n"
		other  = `{"id":"n","user":"u","text":"n","created_at":"2026-01-01T00:00:00Z"}` + "\n"
		kv     = `{"type":"kv","user":"u","key":"k","value":1}` + "\n"
	)
	for _, test := range []struct {
		name, text string
		stored     int
		events     int
		history    string // of m
		errs       []string
	}{
		{"whole", add + change + kept, 1, 2, "ADD UPDATE", nil},
		{"gone", add + change + remove + other, 1, 3, "ADD UPDATE DELETE", nil},
		{"twice", add + remove + add + change + kept, 1, 4, "ADD DELETE ADD UPDATE", nil},
		{"gone before entries", add + remove + kv, 1, 2, "ADD DELETE", nil},
		{"expired", add + other, 1, 1, "ADD", nil},
		{"of a bad memory", add + change + `{"id":"m","user":"u","text":7}` + "\n" + other, 1, 0, "", []string{"line 1: the history", `line 3: "text" is a number`}},
		{"gone before a bad line", add + remove + "{\n" + other, 1, 2, "ADD DELETE", []string{"line 3: "}},
		{"other end", add + kept, 0, 0, "", []string{"line 2: restore a memory \"m\": its history does not end with"}},
		{"no event", strings.Replace(add, "ADD", "add", 1) + other, 1, 0, "", []string{`line 1: restore a memory: entry 1 of the history of "m": its event is "add"`}},
		{"misspelt", strings.Replace(add, "timestamp", "time", 1) + other, 1, 0, "", []string{`line 1: restore a memory: entry 1 of the history of "m": it has no time`}},
	} {
		db := open(t)
		report := importString(t, db, test.text, nil)
		var errs []string
		for _, e := range report.Errors {
			errs = append(errs, e.Error())
		}
		if report.Stored != test.stored || report.Events != test.events || len(errs) != len(test.errs) {
			t.Errorf("%s: %+v, %q", test.name, report, errs)
			continue
		}
		for i := range errs {
			if !strings.HasPrefix(errs[i], test.errs[i]) {
				t.Errorf("%s: error %q, want %q", test.name, errs[i], test.errs[i])
			}
		}
		var events []string
		h, err := db.Memories().History(t.Context(), memory.Scope{User: "u"}, "m")
		for _, e := range h {
			events = append(events, string(e.Event))
		}
		if got := strings.Join(events, " "); got != test.history || (err == nil) != (got != "") {
			t.Errorf("%s: history %q, %v, want %q", test.name, got, err, test.history)
		}
	}
}

// TestImportLongHistory: of a history over the limit the newest events are kept.
func TestImportLongHistory(t *testing.T) {
	var text strings.Builder
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	line := func(event string) {
		at = at.Add(time.Second)
		fmt.Fprintf(&text, `{"type":"history","memory_id":"m","user":"u","event":%q,"new_value":"%s","timestamp":%q}`+"\n", event, at.Format("150405"), Time{Time: at})
	}
	line("ADD")
	for range maxPastEvents {
		line("UPDATE")
	}
	fmt.Fprintf(&text, `{"id":"m","user":"u","text":"%s","updated_at":%q}`+"\n", at.Format("150405"), Time{Time: at})
	db := open(t)
	report := importString(t, db, text.String(), nil)
	if report.Stored != 1 || report.Skipped != 1 || report.Events != maxPastEvents || report.Errors[0].Line != 1 {
		t.Errorf("%+v", report)
	}
	h, err := db.Memories().History(t.Context(), memory.Scope{}, "m")
	if err != nil || len(h) != maxPastEvents || h[0].Event != memory.EventUpdate || h[0].OldText != nil {
		t.Errorf("%d events, %v", len(h), err)
	}
}

// TestExportOfTheLongest: the longest texts there can be come back, whatever their
// characters become in JSON, with more of their past than fits into one commit.
func TestExportOfTheLongest(t *testing.T) {
	race.Sequential(t)
	db := open(t)
	scope := memory.Scope{User: "u"}
	texts := []string{
		strings.Repeat("\x01", memory.MaxText), strings.Repeat("\u2028", memory.MaxText/3), strings.Repeat("\\", memory.MaxText),
	}
	if _, err := db.Memories().Store(t.Context(), memory.Memory{ID: "m", Scope: scope, Text: texts[0]}, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if _, err := db.Memories().Update(t.Context(), scope, "m", memory.Patch{Text: &texts[(i+1)%3]}); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if _, err := Export(t.Context(), db, &file, nil); err != nil {
		t.Fatal(err)
	}
	other := open(t)
	report, err := ImportJSONL(t.Context(), other, &file, nil)
	if err != nil || report.Stored != 1 || report.Events != 4 || report.Skipped != 1 {
		t.Fatalf("%d stored, %d events, %v, %v", report.Stored, report.Events, report.Errors, err)
	}
	m, err := other.Memories().Get(t.Context(), scope, "m")
	if err != nil || m.Text != texts[1] {
		t.Errorf("%d bytes of text, %v", len(m.Text), err)
	}
}

// TestExportAndImport: the import of what an export of an agent has reports how many fragments it
// imported: its memories and its keys.
func TestExportAndImport(t *testing.T) {
	now := newTestClock()
	db, other := openAt(t, now), openAt(t, now)
	for _, m := range []memory.Memory{
		{Scope: memory.Scope{Agent: "researcher"}, Text: "The kiln arrived.", Kind: memory.KindFragment, Source: memory.SourceWebSearch},
		{Scope: memory.Scope{Agent: "researcher"}, Text: "It stands in the shed.", Embedding: []float32{1, 2}},
		{Scope: memory.Scope{Agent: "coder"}, Text: "Not this one."},
	} {
		if _, err := db.Memories().Store(t.Context(), m, nil); err != nil {
			t.Fatal(err)
		}
	}
	for agent, value := range map[string]string{"researcher": `{"fired":3}`, "coder": "1"} {
		if _, err := db.KV().Put(t.Context(), memory.Owner{Agent: agent}, "kiln", json.RawMessage(value), nil); err != nil {
			t.Fatal(err)
		}
	}
	o := &ExportOptions{Scope: memory.Scope{Agent: "researcher"}}
	out := export(t, db, o)
	report, err := ImportJSONL(t.Context(), other, strings.NewReader(out), nil)
	if err != nil || report.Stored != 3 || report.Read != 3 {
		t.Errorf("%+v, %v", report, err)
	}
	e, found, err := other.KV().Lookup(t.Context(), memory.Owner{Agent: "researcher"}, "kiln")
	if err != nil || !found || string(e.Value) != `{"fired":3}` {
		t.Errorf("its key: %+v, %v, %v", e, found, err)
	}
	if again := export(t, other, o); again != out {
		t.Errorf("exported\n%s\nwant\n%s", again, out)
	}
}

// TestImportOfADocument: an export of an agent as one document goes into any agent: the report counts
// fragments and entities.
func TestImportOfADocument(t *testing.T) {
	now := newTestClock()
	db, other := openAt(t, now), openAt(t, now)
	importString(t, db, everything, nil)
	document := exportAny(t, db, &ExportOptions{Scope: memory.Scope{Agent: "researcher"}, Document: true})
	if !json.Valid([]byte(document)) {
		t.Errorf("no JSON: %s", document)
	}
	report, err := ImportJSON(t.Context(), other, strings.NewReader(document), &Options{IntoAgent: "heir"})
	if err != nil || report.Imported[TypeMemory] != 1 || report.Imported["entity"] != 2 || report.Skipped != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	of := exportAny(t, other, &ExportOptions{Scope: memory.Scope{Agent: "heir"}, Document: true})
	if want := strings.ReplaceAll(document, `"researcher"`, `"heir"`); of != want {
		t.Errorf("exported\n%s\nwant\n%s", of, want)
	}
	if of := exportAny(t, other, &ExportOptions{Scope: memory.Scope{Agent: "researcher"}, Document: true}); of != "[]\n" {
		t.Errorf("the other agent has %s", of)
	}
}

// TestImportOfTheExpired: what has expired since is there all the same, and comes with
// its history where it comes anew.
func TestImportOfTheExpired(t *testing.T) {
	now := newTestClock()
	from, to := openAt(t, now), openAt(t, now)
	ada, end := memory.Scope{User: "ada"}, now.now().Add(time.Hour)
	store := func(db *engine.DB, id, text string) {
		t.Helper()
		if _, err := db.Memories().Store(t.Context(), memory.Memory{ID: id, Scope: ada, Text: text, ExpiresAt: end}, nil); err != nil {
			t.Fatal(err)
		}
	}
	store(from, "x", "first")
	store(from, "y", "first")
	store(to, "z", "other")
	store(from, "z", "first")
	second := "second"
	for _, id := range []string{"y", "z"} {
		if _, err := from.Memories().Update(t.Context(), ada, id, memory.Patch{Text: &second}); err != nil {
			t.Fatal(err)
		}
	}
	text := export(t, from, nil)
	now.advance(2 * time.Hour)
	report := importString(t, to, text, nil)
	if counts(t, report, 3, 0, 0, 0); report.Events != 4 {
		t.Errorf("%d events", report.Events)
	}
	whole := export(t, to, nil)
	for range 2 {
		report = importString(t, to, text, nil)
		if counts(t, report, 0, 0, 3, 0); report.Events != 0 {
			t.Errorf("%d events", report.Events)
		}
	}
	if got := export(t, to, nil); got != whole {
		t.Errorf("it grows: %s\nwas %s", got, whole)
	}
	events, err := to.Memories().History(t.Context(), ada, "z")
	if err != nil || len(events) != 4 || *events[3].NewText != "second" {
		t.Errorf("the history of z: %+v, %v", events, err)
	}
}

// TestImportScopeOfAHistory: a history without a scope gets that of the import, too.
func TestImportScopeOfAHistory(t *testing.T) {
	db := open(t)
	report := importString(t, db, `{"type":"history","memory_id":"m","event":"ADD","new_value":"a","timestamp":"2026-01-01"}
{"type":"history","memory_id":"m","event":"UPDATE","new_value":"b","timestamp":"2026-01-02"}
{"id":"m","text":"b","created_at":"2026-01-01","updated_at":"2026-01-02"}
`, &Options{Scope: memory.Scope{User: "u", Run: "r"}})
	if counts(t, report, 1, 0, 0, 0); report.Events != 2 {
		t.Errorf("%+v", report)
	}
}
