package exchange

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func open(t *testing.T) *engine.DB {
	t.Helper()
	db, err := engine.Open(t.TempDir(), nil)
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

// all reads every memory with its vectors, in order of Seq.
func all(t *testing.T, db *engine.DB) []memory.Memory {
	t.Helper()
	var out []memory.Memory
	for m, err := range db.Memories().All(t.Context(), memory.ListQuery{AllScopes: true, WithVectors: true}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func importString(t *testing.T, db *engine.DB, text string, o *Options) Report {
	t.Helper()
	report, err := ImportJSONL(t.Context(), db, strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// counts checks the sums of a report.
func counts(t *testing.T, got Report, stored, updated, unchanged, skipped int) {
	t.Helper()
	want := Report{
		Read:   stored + updated + unchanged + skipped,
		Stored: stored, Updated: updated, Unchanged: unchanged, Skipped: skipped,
		Bytes: got.Bytes, Errors: got.Errors, Events: got.Events, Notes: got.Notes, Imported: got.Imported,
		Kinds: got.Kinds, LeftOut: got.LeftOut, Mapped: got.Mapped, Elsewhere: got.Elsewhere, Samples: got.Samples,
	}
	of := 0
	for _, n := range got.Imported {
		of += n
	}
	if of != stored+updated {
		t.Errorf("%v of %d stored and %d updated", got.Imported, stored, updated)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("report %+v, want %+v", got, want)
	}
}

func TestImportReadsEveryKey(t *testing.T) {
	db := open(t)
	report := importString(t, db, `{"type":"memory","id":"a","seq":77,"user":"ada","agent":"helper","run":"r1","role":"assistant",`+
		`"kind":"fact","source":"web_search","text":"Tea at <five> & 😀","name":"tea","aliases":["chai"],`+
		`"metadata":{"n":12345678901234567890,"deep":{"x":[true,null]}},"embedding":[0.5,-1],"vectors":{"other":[1,2,3]},`+
		`"importance":0.25,"auto_importance":false,"confidence":0.75,"pinned":true,"created_at":"2024-02-03T04:05:06.789+01:00",`+
		`"updated_at":1706929506790,"event_time":"2024-01-01","expires_at":"2999-01-01T00:00:00Z","hash":"ignored",`+
		`"access_count":3,"last_accessed":"2024-03-01T00:00:00Z"}`, nil)
	counts(t, report, 1, 0, 0, 0)
	got, err := db.Memories().GetWithVectors(t.Context(), memory.Scope{}, "a")
	if err != nil {
		t.Fatal(err)
	}
	want := memory.Memory{
		ID: "a", Seq: got.Seq, Scope: memory.Scope{User: "ada", Agent: "helper", Run: "r1"},
		Role: "assistant", Kind: "fact", Source: "web_search",
		Text: "Tea at <five> & 😀", Name: "tea", Aliases: []string{"chai"},
		Metadata: map[string]any{
			"n":    json.Number("12345678901234567890"),
			"deep": map[string]any{"x": []any{true, nil}},
		},
		Embedding: []float32{0.5, -1}, Vectors: map[string][]float32{"other": {1, 2, 3}},
		CreatedAt: time.UnixMilli(1706929506789).UTC(), UpdatedAt: time.UnixMilli(1706929506790).UTC(),
		EventTime: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), ExpiresAt: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC),
		Pinned: true, Importance: new(0.25), Confidence: new(0.75), Hash: got.Hash,
		StoredConfidence: new(0.75), DecayedImportance: got.DecayedImportance,
		AccessCount: 3, LastAccessed: time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestImportReadsOtherNames(t *testing.T) {
	db := open(t)
	report := importString(t, db, "\xef\xbb\xbf"+`{"user_id":"u","agent_id":"a","run_id":"r","memory":"one"}`+"\r\n\r\n \n"+
		`{"user":"u","user_id":"u","content":"two","created_at":null,"event_time":"","metadata":null}`, nil)
	counts(t, report, 2, 0, 0, 0)
	got := all(t, db)
	if len(got) != 2 || got[0].Text != "one" || got[0].Scope != (memory.Scope{User: "u", Agent: "a", Run: "r"}) ||
		got[1].Text != "two" || got[1].CreatedAt.IsZero() || !got[1].EventTime.IsZero() {
		t.Errorf("got %+v", got)
	}
}

// An import keeps two records of the same text, and leaves alone what is there
// under the same ID.
func TestImportTwice(t *testing.T) {
	db := open(t)
	const text = `{"id":"a","user":"u","text":"same"}
{"id":"b","user":"u","text":"same"}
`
	counts(t, importString(t, db, text, nil), 2, 0, 0, 0)
	counts(t, importString(t, db, text, nil), 0, 0, 2, 0)

	changed := strings.Replace(text, `"text":"same"`, `"text":"other"`, 1)
	report := importString(t, db, changed, nil)
	counts(t, report, 0, 0, 1, 1)
	if e := report.Errors[0]; e.Line != 1 || !errors.Is(e, memory.ErrExists) {
		t.Errorf("error %v, want ErrExists at line 1", e)
	}
	counts(t, importString(t, db, changed, &Options{Upsert: true}), 0, 1, 1, 0)
	if got := all(t, db); len(got) != 2 || got[0].Text != "other" {
		t.Errorf("after the upsert: %+v", got)
	}
}

func TestImportSkipsBadLines(t *testing.T) {
	tests := []struct{ line, want string }{
		{`{"id":"x"`, "malformed JSON at byte 9: it ends too early"},
		{`{"id":"x","user":"u","text":"t"} {}`, "malformed JSON at byte 34: invalid character '{' after top-level value"},
		{`nonsense`, "malformed JSON at byte 2: invalid character 'o' in literal null"},
		{`[1]`, "it is an array, not an object"},
		{`"text"`, "it is a string, not an object"},
		{"{\"user\":\"u\",\"text\":\"a\xffb\"}", "invalid UTF-8 at byte 22"},
		{`{"id":"s\ud800","user":"u","text":"t"}`, `half of a surrogate pair at byte 9: \ud800`},
		{`{"user":"u","text":"t","metadata":{"\udc00":1}}`, `half of a surrogate pair`},
		{`{"user":"u","text":"t","user":"v"}`, `the key "user" is given twice`},
		{`{"user":"u","text":"t","us\u0065r":"v"}`, `the key "user" is given twice`},
		{`{"type":1,"text":"t"}`, `"type" is a number, not a string`},
		{`{"user":"u","text":"t","metadata":{"a":[` + strings.Repeat("0,", 1<<20) + `0]}}`, `"metadata" is 2097161 bytes of JSON; the limit is 262144`},
		{`{"user":"u","text":"t","aliases":[` + strings.Repeat(`"",`, 1<<17) + `""]}`, `"aliases" is 393220 bytes of JSON; there may be 64`},
		{`{"user":"u","text":"t","embedding":[` + strings.Repeat("1,", memory.MaxDim) + `1]}`, `"embedding" has 4097 components, the limit is 4096`},
		{`{"user":"u","text":"t","vectors":{"v":[` + strings.Repeat("1,", memory.MaxDim) + `1]}}`, `"v" has 4097 components, the limit is 4096`},
		{`{"user":7,"text":"t"}`, `"user" is a number, not a string`},
		{`{"user":"u","text":"t","importance":"high"}`, `"importance" is a string, not a number`},
		{`{"user":"u","text":"t","embedding":[1e39]}`, `"embedding" has the number 1e39, which is out of range or no integer`},
		{`{"user":"u","text":"t","embedding":[1,null]}`, `"embedding" has null in it, not a number`},
		{`{"user":"u","text":"t","vectors":{"near":[1,2],"far":[null]}}`, `"vectors" has null in it, not a number`},
		{`{"user":"u","text":"t","embedding":["n"]}`, `"embedding" is a string, not a number`},
		{`{"user":"u","text":"t","embedding":{}}`, `"embedding" is an object, not a list`},
		{`{"user":"u","text":"t","aliases":[true]}`, `"aliases" is a bool, not a string`},
		{`{"user":"u","text":"t","metadata":[1]}`, "metadata is a list, not an object"},
		{`{"user":"u","text":"t","metadata":"m"}`, "metadata is a string, not an object"},
		{`{"user":"u","text":"t","created_at":"yesterday"}`, `"yesterday" is no time: give RFC 3339`},
		{`{"user":"u","text":"t","created_at":1.5}`, `1.5 is no time`},
		{`{"user":"u","text":"t","created_at":{}}`, `{} is no time`},
		{`{"user":"u","text":"t","created_at":1e30}`, "is no time"},
		{`{"user":"u","user_id":"v","text":"t"}`, `"user" and "user_id" differ`},
		{`{"user":"u","memory":"s","content":"t"}`, `"text" and "content" differ`},
		{`{"type":"star","text":["any"],"metadata":4}`, `type "star" is not known to this version`},
		{`{"type":"star","id":"e"}`, `type "star" is not known to this version`},
		{`{"text":"no scope"}`, "must be provided"},
		{`{"user":"u"}`, "text"},
	}
	var text strings.Builder
	for _, test := range tests {
		fmt.Fprintf(&text, "%s\n", test.line)
	}
	text.WriteString(`{"user":"u","text":"the last line is good"}`)

	db := open(t)
	report := importString(t, db, text.String(), nil)
	counts(t, report, 1, 0, 0, len(tests))
	if report.Bytes != int64(text.Len()) {
		t.Errorf("read %d bytes, want %d", report.Bytes, text.Len())
	}
	byLine := map[int]string{}
	for _, e := range report.Errors {
		byLine[e.Line] = e.Error()
	}
	for i, test := range tests {
		if got := byLine[i+1]; !strings.Contains(got, test.want) || !strings.HasPrefix(got, fmt.Sprintf("line %d: ", i+1)) {
			t.Errorf("%.200s\n got %s\nwant %s", test.line, got, test.want)
		}
	}
}

func TestImportListsTheFirstErrors(t *testing.T) {
	report := importString(t, open(t), strings.Repeat("{\n", 3*maxErrors), nil)
	counts(t, report, 0, 0, 0, 3*maxErrors)
	if len(report.Errors) != maxErrors || report.Errors[maxErrors-1].Line != maxErrors {
		t.Errorf("%d errors, the last %v", len(report.Errors), report.Errors[len(report.Errors)-1])
	}
}

// Strict stops at the bad line: what stood before it is stored and nothing
// after, wherever in a batch it stands and whoever refuses it.
func TestImportStrict(t *testing.T) {
	for _, bad := range []string{`{"user":`, `{"type":"kv"}`, `{"text":"no scope"}`, `{"id":"1","user":"u","text":"taken"}`} {
		for _, at := range []int{2, batchRecords, batchRecords + 1, batchRecords + 7} {
			db := open(t)
			var text strings.Builder
			for i := 1; i <= 2*batchRecords; i++ {
				if i == at {
					fmt.Fprintln(&text, bad)
				} else {
					fmt.Fprintf(&text, `{"id":"%d","user":"u","text":"text %d"}`+"\n", i, i)
				}
			}
			report, err := ImportJSONL(t.Context(), db, strings.NewReader(text.String()), &Options{Strict: true})
			line, ok := errors.AsType[LineError](err)
			if !ok || line.Line != at {
				t.Fatalf("%s at line %d: error %v", bad, at, err)
			}
			counts(t, report, at-1, 0, 0, 1)
			if got := all(t, db); len(got) != at-1 {
				t.Errorf("%s at line %d: %d memories", bad, at, len(got))
			}
		}
	}
}

func TestImportRefusesUTF16(t *testing.T) {
	for _, head := range []string{"\xff\xfe{\x00", "\xfe\xff\x00{", "{\x00\"\x00", "\x00{\x00\""} {
		_, err := ImportJSONL(t.Context(), open(t), strings.NewReader(head+"\x00i\x00d"), nil)
		if err == nil || !strings.Contains(err.Error(), "UTF-16") {
			t.Errorf("%q: error %v", head, err)
		}
	}
}

func TestImportRefusesCompressed(t *testing.T) {
	for _, head := range []string{"\x1f\x8b\x08\x00", "\x28\xb5\x2f\xfd", "BZh9", "PK\x03\x04"} {
		_, err := ImportJSONL(t.Context(), open(t), strings.NewReader(head), nil)
		if err == nil || !strings.Contains(err.Error(), "compressed; unpack it into a pipe") {
			t.Errorf("%q: error %v", head, err)
		}
	}
}

func TestImportEmpty(t *testing.T) {
	for _, text := range []string{"", "\n", "\xef\xbb\xbf", " ", "\r\n\r\n"} {
		counts(t, importString(t, open(t), text, nil), 0, 0, 0, 0)
	}
}

// A line over the limit is an error with its number, and the rest goes on.
func TestImportLongLine(t *testing.T) {
	db := open(t)
	good := `{"user":"u","text":"good"}` + "\n"
	r := io.MultiReader(
		strings.NewReader(good+`{"user":"u","text":"`),
		io.LimitReader(filler('x'), MaxLine),
		strings.NewReader("\"}\n"+good),
		io.LimitReader(filler(' '), MaxLine+1), // a line of blanks without an end
	)
	report, err := ImportJSONL(t.Context(), db, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	counts(t, report, 2, 0, 0, 2)
	for i, line := range []int{2, 4} {
		if e := report.Errors[i]; e.Error() != fmt.Sprintf("line %d: longer than 64 MiB", line) {
			t.Errorf("error %v, want one of line %d", e, line)
		}
	}
}

// longLineVar sets the size of the line that TestImportHugeLine skips, in bytes.
const longLineVar = "MEMDB_LONG_LINE"

// TestImportHugeLine: a line over the limit is passed over without being held in
// memory, and the line behind it has its number.
func TestImportHugeLine(t *testing.T) {
	size := int64(256 << 20)
	if n, err := strconv.ParseInt(os.Getenv(longLineVar), 10, 64); err == nil {
		size = n
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	lines := NewLineReader(io.MultiReader(strings.NewReader("first\n"), io.LimitReader(filler('x'), size), strings.NewReader("\nthird\n")))
	var got []string
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		got = append(got, fmt.Sprint(lines.Line(), " ", string(line), " ", err))
	}
	runtime.ReadMemStats(&after)
	want := []string{"1 first <nil>", "2  longer than 64 MiB", "3 third <nil>"}
	if !slices.Equal(got, want) || lines.Bytes() != size+13 {
		t.Errorf("read %q, %d bytes", got, lines.Bytes())
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 6*MaxLine {
		t.Errorf("a line of %d bytes took %d bytes of memory", size, used)
	}
}

type filler byte

func (f filler) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(f)
	}
	return len(p), nil
}

func TestImportStopsWithItsReader(t *testing.T) {
	broken := errors.New("the disk is gone")
	db := open(t)
	r := io.MultiReader(strings.NewReader(`{"user":"u","text":"one"}`+"\n"), iotest.ErrReader(broken))
	report, err := ImportJSONL(t.Context(), db, r, nil)
	if !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
	counts(t, report, 1, 0, 0, 0)
	if got := all(t, db); len(got) != 1 {
		t.Errorf("%d memories, but the report says 1", len(got))
	}
}

// A cancelled import ends with the context's error, and its report tells what is
// stored.
func TestImportCancelled(t *testing.T) {
	db := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	var text strings.Builder
	for i := range 5 * batchRecords {
		fmt.Fprintf(&text, `{"user":"u","text":"text %d"}`+"\n", i)
	}
	report, err := ImportJSONL(ctx, db, strings.NewReader(text.String()), &Options{Progress: func(r Report) {
		if r.Stored >= 2*batchRecords {
			cancel()
		}
	}})
	if !errors.Is(err, ctx.Err()) {
		t.Fatalf("error %v", err)
	}
	counts(t, report, 2*batchRecords, 0, 0, 0)
	if got := all(t, db); len(got) != report.Stored {
		t.Errorf("%d memories, the report says %d", len(got), report.Stored)
	}
}

// A commit holds no more than a batch, by records and by bytes.
func TestImportBatches(t *testing.T) {
	long := strings.Repeat("long ", batchBytes/3/5)
	var text strings.Builder
	for i := range batchRecords + 1 {
		fmt.Fprintf(&text, `{"user":"u","text":"%d"}`+"\n", i)
	}
	for i := range 4 {
		fmt.Fprintf(&text, `{"user":"u","text":"%d %s"}`+"\n", i, long)
	}
	var seen []int
	importString(t, open(t), text.String(), &Options{Progress: func(r Report) { seen = append(seen, r.Stored) }})
	// One short record goes with two long ones, and the next two long ones would
	// be too much.
	want := []int{batchRecords, batchRecords + 3, batchRecords + 5}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("stored after each commit: %v, want %v", seen, want)
	}
}

// TestImportMixed: entries among memories take no commits of their own, but under
// Strict, where what stands before a bad line is stored and nothing behind it.
func TestImportMixed(t *testing.T) {
	var text strings.Builder
	const pairs = 2 * batchRecords
	for i := range pairs {
		fmt.Fprintf(&text, `{"user":"u","id":"m%d","text":"%d"}`+"\n"+`{"type":"kv","user":"u","key":"k%d","value":%d}`+"\n", i, i, i, i)
	}
	db := open(t)
	before := db.LSN()
	counts(t, importString(t, db, text.String(), nil), 2*pairs, 0, 0, 0)
	if commits := db.LSN() - before; commits != 2*2*pairs/batchRecords {
		t.Errorf("%d commits", commits)
	}
	counts(t, importString(t, db, text.String(), &Options{Strict: true}), 0, 0, 2*pairs, 0)

	db = open(t)
	lines := `{"type":"kv","user":"u","key":"a","value":1}` + "\n" + `{"user":"u","text":"m"}` + "\n" +
		`{"type":"kv","user":"u","key":"","value":1}` + "\n" + `{"user":"u","text":"n"}`
	report, err := ImportJSONL(t.Context(), db, strings.NewReader(lines), &Options{Strict: true})
	if line, ok := errors.AsType[LineError](err); !ok || line.Line != 3 {
		t.Errorf("strict: %v", err)
	}
	counts(t, report, 2, 0, 0, 1)
}

// What is written of a memory stores the same memory.
func TestRecordRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	db, want := open(t), map[string]memory.Memory{}
	var text bytes.Buffer
	for i := range 200 {
		m := randomMemory(rnd, i)
		line, err := json.Marshal(NewRecord(m))
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
		want[m.ID] = m
	}
	counts(t, importString(t, db, text.String(), nil), len(want), 0, 0, 0)
	for _, got := range all(t, db) {
		m := want[got.ID]
		m.Seq, m.Hash = got.Seq, got.Hash
		if m.AutoImportance {
			m.Importance = got.Importance
		}
		m.StoredConfidence, m.DecayedImportance = cmp.Or(m.Confidence, new(1.0)), got.DecayedImportance
		if !reflect.DeepEqual(got, m) {
			t.Errorf("got  %+v\nwant %+v", got, m)
		}
	}
}

func randomMemory(rnd *rand.Rand, i int) memory.Memory {
	at := func() time.Time { return time.UnixMilli(rnd.Int64N(4e12)).UTC() }
	maybe := func() bool { return rnd.IntN(2) == 0 }
	m := memory.Memory{
		ID: fmt.Sprintf("m%d", i), Scope: memory.Scope{User: "u", Agent: fmt.Sprint(rnd.IntN(3))},
		Role: memory.RoleTool, Kind: memory.KindFragment,
		Text:      fmt.Sprintf("\"%c\" \\ \t\n\u2028 <%d>", rune(0x4e00+rnd.IntN(999)), i),
		CreatedAt: at(), Importance: new(rnd.Float64()), Confidence: new(rnd.Float64()),
		AutoImportance: maybe(), Pinned: maybe(),
	}
	m.UpdatedAt = m.CreatedAt.Add(time.Duration(rnd.IntN(1e6)) * time.Millisecond)
	if maybe() {
		m.Run, m.Source, m.Name, m.Aliases = "r", "own word", fmt.Sprint("name ", i), []string{"a", fmt.Sprint("alias ", i)}
	}
	if maybe() {
		m.Metadata = map[string]any{"k": json.Number(fmt.Sprint(rnd.Float64())), "": "x", "o": map[string]any{"l": []any{nil, false}}}
	}
	if maybe() {
		m.Embedding = []float32{rnd.Float32(), 1, float32(rnd.NormFloat64())}
	}
	if maybe() {
		m.EventTime = at()
	}
	if maybe() {
		m.ExpiresAt = time.Date(2999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	}
	if maybe() {
		m.AccessCount, m.LastAccessed = 1+rnd.Uint64N(1e9), at()
	}
	return m
}

// Lines are those of a plain split, however the reader cuts them.
func TestLineReaderAgainstSplit(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		var text []byte
		for range rnd.IntN(40) {
			size := rnd.IntN(20)
			if rnd.IntN(10) == 0 {
				size = rnd.IntN(3 * readBuffer)
			}
			text = append(text, bytes.Repeat([]byte{" ab\r"[rnd.IntN(4)]}, size)...)
			if rnd.IntN(8) > 0 {
				text = append(text, '\n')
			}
		}
		var want, got []string
		for i, line := range strings.Split(string(text), "\n") {
			if line = strings.TrimSpace(line); line != "" {
				want = append(want, fmt.Sprint(i+1, line))
			}
		}
		r := io.Reader(bytes.NewReader(text))
		if rnd.IntN(2) == 0 {
			r = iotest.HalfReader(iotest.DataErrReader(r))
		}
		lines := NewLineReader(r)
		for {
			line, err := lines.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(lines.Line(), string(line)))
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%d lines, want %d", len(got), len(want))
		}
		if lines.Bytes() != int64(len(text)) {
			t.Errorf("%d bytes, want %d", lines.Bytes(), len(text))
		}
	}
}

func TestParseTime(t *testing.T) {
	for in, want := range map[string]string{
		"2024-02-29":                "2024-02-29T00:00:00.000Z",
		"2024-02-29T23:59:59Z":      "2024-02-29T23:59:59.000Z",
		"2024-02-29T23:59:59-01:00": "2024-03-01T00:59:59.000Z",
		"2024-02-29T23:59:59.9999Z": "2024-02-29T23:59:59.999Z",
		"0":                         "",
		"-1":                        "",
		"2026":                      "",
		"1705744800":                "2024-01-20T10:00:00.000Z",
		"1705744800000":             "2024-01-20T10:00:00.000Z",
		"253402300799999":           "9999-12-31T23:59:59.999Z",
		"253402300800000":           "1978-01-11T21:31:40.800Z", // microseconds: in milliseconds the year would be 10000
		"-99999999999999":           "1966-10-31T14:13:20.000Z",
		"9223372036854775808":       "2262-04-11T23:47:16.854Z",
		"9e30":                      "",
		"0001-01-01T00:00:00+01:00": "",
		"2023-02-29":                "",
		"2024-02-29 10:00":          "2024-02-29T10:00:00.000Z",
		"now":                       "",
		"":                          "",
		"1e3":                       "",
	} {
		got, err := ParseTime(in)
		if (err == nil) != (want != "") || err == nil && (Time{Time: got}).String() != want {
			t.Errorf("%q: %v, %v, want %q", in, got, err, want)
		}
	}
}

// newReading is a batch without a database, which reads lines alone.
func newReading() *batch { return &batch{report: Report{LeftOut: Counts{}, Mapped: Mapped{}}} }

// No line makes the decoder panic, and what it takes can be written and read
// again to the same end.
func FuzzDecodeMemory(f *testing.F) {
	f.Add([]byte(`{"type":"memory","id":"a","user":"u","text":"t","metadata":{"n":1e400},"embedding":[1,2],"created_at":0}`))
	f.Add([]byte(`{"user_id":"u","memory":"t","created_at":"2024-01-01","importance":null,"vectors":{"a":[1]}}`))
	f.Add([]byte(`{"type":"kv"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		lenient, strict := newReading(), newReading()
		strict.opts.Strict = true
		m, err := lenient.decodeMemory(line)
		if err != nil {
			return
		}
		written, err := json.Marshal(NewRecord(m))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		again, err := strict.decodeMemory(written)
		if err != nil {
			t.Fatalf("%q: %v", written, err)
		}
		if len(m.Metadata) == 0 {
			m.Metadata = again.Metadata
		}
		twice, err := json.Marshal(NewRecord(again))
		if err != nil || !bytes.Equal(written, twice) {
			t.Fatalf("%q: %q, then %q: %v", line, written, twice, err)
		}
	})
}

// TestImportUnknownKeys: a key that is not known is named, with those that are; what
// lies in the metadata and in values is nobody's business but the caller's.
func TestImportUnknownKeys(t *testing.T) {
	const text = `{"user":"u","text":"a","metadata":{"any":{"thing":1}}}
{"user":"u","text":"b","importence":0.5}
{"type":"kv","user":"u","key":"k","value":{"any":"thing"}}
{"type":"kv","user":"u","key":"k2","value":1,"ttl":3}
{"type":"history","memory_id":"gone","user":"u","event":"ADD","new_value":"x","timestamp":"2026-01-01","why":"?"}
`
	for _, want := range []struct {
		line   string
		refuse string // under Strict
	}{
		{strings.Split(text, "\n")[1], `line 1: the key "importence" is not known; there are type, id, seq, user, agent, run, role,`},
		{strings.Split(text, "\n")[3], `line 1: the key "ttl" is not known; there are type, user, agent, key, value, version, updated_at, expires_at`},
		{strings.Split(text, "\n")[4], `line 1: the key "why" is not known`},
	} {
		_, err := ImportJSONL(t.Context(), open(t), strings.NewReader(want.line), &Options{Strict: true})
		if err == nil || !strings.HasPrefix(err.Error(), want.refuse) {
			t.Errorf("%v\nwant %s", err, want.refuse)
		}
		if strings.HasSuffix(want.refuse, "role,") && !strings.HasSuffix(err.Error(), "user_id, agent_id, run_id, memory, content") {
			t.Errorf("the other names are missing: %v", err)
		}
		counts(t, importString(t, open(t), want.line, &Options{Strict: true, IgnoreUnknown: true}), 1-strings.Count(want.line, "history"), 0, 0, 0)
	}
	db := open(t)
	report := importString(t, db, text, nil)
	counts(t, report, 4, 0, 0, 0)
	if want := (Counts{`"ttl" of lines of type kv`: 1, `"why" of lines of type history`: 1}); !maps.Equal(report.LeftOut, want) {
		t.Errorf("left out %v", report.LeftOut)
	}
	if ms := all(t, db); fmt.Sprint(ms[1].Metadata) != "map[importence:0.5]" || report.Mapped["importence"] != "metadata.importence" {
		t.Errorf("%v, mapped %v", ms[1].Metadata, report.Mapped)
	}
	db = open(t)
	report = importString(t, db, text+`{"User":"v","user":"u","Text":"no","more":[{}],"text":"d"}
{"user":"u","TEXT":"no"}
{"user":"u","text":"e","text":"f"}
`, &Options{IgnoreUnknown: true})
	if counts(t, report, 5, 0, 0, 2); report.Events != 1 {
		t.Errorf("%+v", report)
	}
	if ms := all(t, db); ms[2].User != "u" || ms[2].Text != "d" {
		t.Errorf("a key of another case was taken: %+v", ms[2])
	}
}

// TestImportWithoutIDs verifies that records without an ID get one of their content and of how many
// came before with it: an input that is read again changes nothing, also when it has grown.
func TestImportWithoutIDs(t *testing.T) {
	const text = `{"user":"u","text":"yes"}
{"user":"u","text":"yes"}

{"id":"mine","user":"u","text":"yes"}
{"text":"yes"}
{"user":"u","embedding":[1,2]}
{"user":"u","embedding":[2,1]}
`
	db := open(t)
	o := &Options{Scope: memory.Scope{Agent: "a"}}
	counts(t, importString(t, db, text, o), 6, 0, 0, 0)
	counts(t, importString(t, db, text, o), 0, 0, 6, 0)
	counts(t, importString(t, db, `{"user":"u","text":"first"}`+"\n"+text+`{"user":"u","text":"yes"}`, o), 2, 0, 6, 0)
	counts(t, importString(t, db, text, &Options{Scope: o.Scope, Origin: "another"}), 5, 0, 1, 0)
	got := all(t, db)
	if len(got) != 13 || got[3].Scope != (memory.Scope{Agent: "a"}) || got[0].Scope != (memory.Scope{User: "u", Agent: "a"}) {
		t.Errorf("got %+v", got)
	}
}

// TestOccurrences verifies that contents beyond the exact ones are counted the same each time.
func TestOccurrences(t *testing.T) {
	var first, second occurrences
	for range 2 {
		for i := range mostExact + 1000 {
			id := ContentID("x", strconv.Itoa(i))
			a, b := first.next(id), second.next(id)
			if a != b || a == 0 {
				t.Fatalf("%d: %d and %d", i, a, b)
			}
		}
	}
	if n := first.next(ContentID("x", "1")); n != 3 {
		t.Errorf("the third is %d", n)
	}
	if len(first.exact) != mostExact {
		t.Errorf("%d are exact", len(first.exact))
	}
}

// TestScopes verifies where a record is stored, whatever it names, and that each that is elsewhere
// than the flags say is counted.
func TestScopes(t *testing.T) {
	lines := `{"id":"1","text":"t"}
{"id":"2","agent":"helper","text":"t"}
{"id":"3","user":"bob","text":"t"}
{"id":"4","user":"bob","agent":"helper","run":"r","text":"t"}
{"type":"kv","user":"bob","key":"k","value":1}
{"type":"entity","agent":"helper","id":"e","entity_type":"t","name":"E"}
{"type":"session","user":"bob","agent":"helper","session":"s"}
{"type":"message","user":"bob","agent":"helper","session":"s","id":"m","role":"user","text":"t"}
{"type":"usage","user":"bob","agent":"helper","model":"m","prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"cost_usd":0.5,"number":1,"timestamp":"2026-01-01T00:00:00Z"}
{"type":"history","memory_id":"gone","user":"bob","event":"ADD","new_value":"x","timestamp":"2026-01-01"}
{"type":"history","memory_id":"gone","user":"bob","event":"DELETE","timestamp":"2026-01-02"}
`
	ada := memory.Scope{User: "ada"}
	for _, c := range []struct {
		o         Options
		owners    string // of the memories
		all       string // all owners
		elsewhere Counts
	}{
		{Options{Scope: ada}, "ada/ ada/helper bob/ bob/helper", "ada/ ada/helper bob/ bob/helper", Counts{"bob/": 2, "bob/helper": 4}},
		{Options{Scope: ada, ForceScope: true}, "ada/ ada/ ada/ ada/", "ada/", Counts{}},
		{Options{Scope: memory.Scope{Run: "x"}, ForceScope: true, IntoUser: "eve"}, "eve/ eve/helper eve/ eve/helper", "eve/ eve/helper", Counts{}},
		{Options{IntoUser: "eve"}, "eve/ eve/helper eve/ eve/helper", "eve/ eve/helper", Counts{}},
		{Options{IntoUser: "eve", IntoAgent: "bot"}, "eve/bot eve/bot eve/bot eve/bot", "eve/bot", Counts{}},
		{Options{Scope: memory.Scope{User: "ada", Run: "x"}}, "ada/ ada/helper bob/ bob/helper", "ada/ ada/helper bob/ bob/helper", Counts{"bob/": 2, "bob/helper": 4}},
		{Options{Scope: memory.Scope{User: "bob", Agent: "helper", Run: "x"}}, "bob/helper bob/helper bob/helper bob/helper", "bob/helper", Counts{"bob/helper/r": 1}},
	} {
		db := open(t)
		report := importString(t, db, lines, &c.o)
		counts(t, report, 9, 0, 0, 0)
		var owners []string
		for _, m := range all(t, db) {
			owners = append(owners, m.User+"/"+m.Agent)
		}
		if got := strings.Join(owners, " "); got != c.owners {
			t.Errorf("%+v: the memories are of %s, want %s", c.o, got, c.owners)
		}
		if !maps.Equal(report.Elsewhere, c.elsewhere) {
			t.Errorf("%+v: elsewhere %v, want %v", c.o, report.Elsewhere, c.elsewhere)
		}
		every := map[string]bool{}
		for line := range strings.Lines(exportAny(t, db, nil)) {
			var l struct{ User, Agent, Type string }
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			if l.User+l.Agent != "" {
				every[l.User+"/"+l.Agent] = true
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(every)), " "); got != c.all {
			t.Errorf("%+v: something is of %s, want %s", c.o, got, c.all)
		}
		counts(t, importString(t, db, lines, &c.o), 0, 0, 9, 0)
	}
}

// TestImportEntries: entries are stored many in a commit, and each is judged alone.
func TestImportEntries(t *testing.T) {
	line := func(i int, value string) string {
		return fmt.Sprintf(`{"type":"kv","agent":"a","key":"k%d","value":%s}`+"\n", i, value)
	}
	var text strings.Builder
	for i := range 2*batchRecords + 1 {
		text.WriteString(line(i, `{ "n" : 1 }`))
	}
	db := open(t)
	before := db.LSN()
	counts(t, importString(t, db, text.String(), nil), 2*batchRecords+1, 0, 0, 0)
	if n := db.LSN() - before; n != 3 {
		t.Errorf("%d commits", n)
	}
	counts(t, importString(t, db, text.String(), nil), 0, 0, 2*batchRecords+1, 0)
	mixed := line(1, "2") + line(9000, "3") + `{"type":"kv","agent":"a","key":"` + strings.Repeat("k", 1<<20) + `","value":1}` + "\n" +
		`{"type":"kv","agent":"a","key":"none"}` + "\n" + `{"user":"u","text":"a memory between"}` + "\n" + line(9001, "4")
	report := importString(t, db, mixed, nil)
	counts(t, report, 3, 0, 0, 3)
	slices.SortFunc(report.Errors, func(a, b LineError) int { return a.Line - b.Line })
	for i, want := range []string{`line 1: store the entry "k1": there is one with another value`, "line 3: store ", `line 4: the entry "none" has no value`} {
		if got := report.Errors[i].Error(); !strings.HasPrefix(got, want) || len(got) > 300 {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	counts(t, importString(t, db, line(1, "2")+line(1, "2"), &Options{Upsert: true}), 0, 1, 1, 0)
	bare := `{"type":"kv","key":"bare","value":1}`
	counts(t, importString(t, db, bare, nil), 0, 0, 0, 1)
	counts(t, importString(t, db, bare, &Options{Scope: memory.Scope{User: "u", Agent: "a", Run: "r"}}), 1, 0, 0, 0)
	if _, found, err := db.KV().Lookup(t.Context(), memory.Owner{User: "u", Agent: "a"}, "bare"); !found || err != nil {
		t.Errorf("an entry without an owner is not that of the import: %v", err)
	}
	report, err := ImportJSONL(t.Context(), db, strings.NewReader(line(9002, "1")+line(2, "5")+line(9003, "1")), &Options{Strict: true})
	if line, ok := errors.AsType[LineError](err); !ok || line.Line != 2 {
		t.Errorf("strict: %v", err)
	}
	counts(t, report, 1, 0, 0, 1)
}

// TestImportNotesSettings: an import says where the database searches texts in
// another way than the one that was exported.
func TestImportNotesSettings(t *testing.T) {
	const head = `{"type":"database","language":"german","indexed_text":[{"field":"name","weight":2}]}`
	report := importString(t, open(t), head, nil)
	if len(report.Notes) != 2 || !strings.Contains(report.Notes[0], "german") || !strings.Contains(report.Notes[1], "[{name 2}]") {
		t.Errorf("notes %q", report.Notes)
	}
	db := open(t)
	if report := importString(t, db, export(t, db, nil), nil); report.Notes != nil || report.Read != 0 {
		t.Errorf("its own: %+v", report)
	}
}

// TestImportSpaces: a space is made as it was; another one of its name is refused.
func TestImportSpaces(t *testing.T) {
	const line = `{"type":"space","name":"pictures","dim":2,"metric":"dot","model":"eye-2"}` + "\n"
	db := open(t)
	for range 2 {
		counts(t, importString(t, db, line, nil), 0, 0, 0, 0)
	}
	report := importString(t, db, strings.Replace(line, "dot", "l2", 1)+strings.Replace(line, `"dim":2`, `"dim":0`, 1)+
		strings.Replace(line, "dot", "manhattan", 1)+strings.Replace(line, `"type"`, `"shape":1,"type"`, 1), nil)
	counts(t, report, 0, 0, 0, 3)
	if report.LeftOut[`"shape" of lines of type space`] != 1 {
		t.Errorf("left out %v", report.LeftOut)
	}
	for i, want := range []string{"it exists with 2 dimensions compared by dot", "0 dimensions", `there is no metric "manhattan"`} {
		if got := report.Errors[i]; got.Line != i+1 || !strings.Contains(got.Error(), want) {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

// FuzzVector: what is read of a list is what the JSON package reads of it, but for null.
func FuzzVector(f *testing.F) {
	for _, s := range []string{"[]", " [ ]", "null", "[1,-2.5e-3 , 0]", "[1e39]", "[1,null]", `["1,2"]`, "[[1,2]]", "[1,2", "[0.1,1e-60]", "{}", "true", "[1,]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var got Vector
		var want []float32
		var parts []*float32
		err, wantErr := json.Unmarshal(b, &got), json.Unmarshal(b, &want)
		if wantErr == nil && json.Unmarshal(b, &parts) == nil && slices.Contains(parts, nil) {
			if err == nil {
				t.Errorf("%q has a null and is read as %v", b, got)
			}
			return
		}
		if (err == nil) != (wantErr == nil) || err == nil && !slices.Equal(got, want) || (got == nil) != (want == nil) && err == nil {
			t.Errorf("%q is read as %v, %v; want %v, %v", b, got, err, want, wantErr)
		}
	})
}

// TestImportOfMemoryJSON: the JSON of an memory.Memory is what an import takes.
func TestImportOfMemoryJSON(t *testing.T) {
	db, other := open(t), open(t)
	scope := memory.Scope{User: "ada", Agent: "coach", Run: "r1"}
	_, err := db.Memories().Store(t.Context(), memory.Memory{
		ID: "one", Scope: scope, Text: "Likes <tea>", Embedding: []float32{1, 2}, Pinned: true, Kind: memory.KindNote, Name: "drink",
		Metadata: map[string]any{"n": 1}, EventTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := db.Memories().GetWithVectors(t.Context(), scope, "one")
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	report, err := ImportJSONL(t.Context(), other, bytes.NewReader(line), nil)
	if err != nil || report.Stored != 1 {
		t.Fatalf("%+v, %v: %s", report, err, line)
	}
	got, err := other.Memories().GetWithVectors(t.Context(), scope, "one")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("imported\n%+v\nof\n%+v, %v", got, want, err)
	}
}

// TestTimesOfLines verifies that times without an offset are in the zone of the options, and that a
// time that means "not set" is left out and counted, and does not silently become now.
func TestTimesOfLines(t *testing.T) {
	db := open(t)
	lines := `{"id":"a","user":"ada","text":"one","created_at":"2026-01-31 12:00:00","event_time":"31 Jan 2026 12:00 GMT","expires_at":"2099-01-31"}
{"id":"b","user":"ada","text":"two","created_at":"2026-07-31T12:00","event_time":"0001-01-01T00:00:00Z","updated_at":"1970-01-01T00:00:00Z"}
`
	r, err := ImportJSONL(t.Context(), db, strings.NewReader(lines), &Options{Zone: time.FixedZone("", 3600)})
	if err != nil || r.Stored != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, key := range []string{"event_time", "updated_at"} {
		if n := r.LeftOut[fmt.Sprintf("%q of lines of type memory that stands for no time", key)]; n != 1 {
			t.Errorf("%s: left out %v", key, r.LeftOut)
		}
	}
	for id, want := range map[string]string{"a": "2026-01-31T11:00:00Z 2026-01-31T12:00:00Z 2099-01-31T22:59:59Z", "b": "2026-07-31T11:00:00Z 0001-01-01T00:00:00Z 0001-01-01T00:00:00Z"} {
		m, err := db.Memories().Get(t.Context(), memory.Scope{User: "ada"}, id)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.CreatedAt.Format(time.RFC3339) + " " + m.EventTime.Format(time.RFC3339) + " " + m.ExpiresAt.Format(time.RFC3339); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}
