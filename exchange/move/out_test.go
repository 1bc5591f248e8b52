package move

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func openMemory(t testing.TB) *engine.DB {
	t.Helper()
	db, err := engine.OpenMemory(nil)
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

// nasty are memories whose texts, names and metadata are hard to write to a file.
func nasty() []memory.Memory {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	texts := []string{
		"plain", "---\nid: x\n---\n\nlike front matter", "ends with a line\n", "\n\nbegins with lines", "a\r\nb\r\n", "...\n---", "tab\there", " blanks ", "\x7f\u0085\u2028\ufeff\U0001f600",
		"[[a link]] and [another](x.md)", strings.Repeat("long ", 5000), "\ufeffa mark",
	}
	var out []memory.Memory
	for i, text := range texts {
		out = append(out, memory.Memory{
			ID:    []string{"a", "A", "con", "../up", "with space", "é", "x/y", ".hidden", strings.Repeat("i", 300), "dot.", "nul.txt", "7"}[i],
			Scope: memory.Scope{User: "Ada", Agent: []string{"", "a/b"}[i%2], Run: "r: 1"}, Role: memory.RoleAssistant, Kind: memory.KindFragment, Source: "own word",
			Text: text, Metadata: map[string]any{
				"source": "meta", "yes": "no", "n": json.Number("1234567890123456789.50"), "list": []any{"a", json.Number("1"), nil, true}, "in": map[string]any{"a: b": "c # d", "metadata": map[string]any{"x": "y"}},
				"id": "other", "text": "t", "created_at": "never", "\u0085 odd": "\u0000\u007f",
			},
			CreatedAt: at.Add(time.Duration(i) * 31 * 24 * time.Hour), EventTime: at, Importance: new(0.25), Confidence: new(0.5), Pinned: i == 3,
		})
	}
	out = append(out,
		memory.Memory{ID: "n1", Scope: memory.Scope{User: "Ada"}, Kind: memory.KindNote, Name: "shelves/Glazes & clays", Aliases: []string{"glazes", "x: y"}, Text: "note", CreatedAt: at},
		memory.Memory{ID: "n2", Scope: memory.Scope{User: "Ada"}, Kind: memory.KindNote, Name: "plain-name", Text: "note 2", CreatedAt: at},
	)
	return out
}

// An exported folder is read back to the same memories, and names files that any disk takes.
func TestMarkdownBack(t *testing.T) {
	db := openMemory(t)
	if _, err := db.Memories().StoreBatch(t.Context(), nasty(), &memory.StoreOptions{NoDedup: true}); err != nil {
		t.Fatal(err)
	}
	folder := func(db *engine.DB) fstest.MapFS {
		files := fstest.MapFS{}
		moved, err := ExportMarkdown(t.Context(), db, func(name string, text []byte, _ time.Time) error {
			if !fs.ValidPath(name) || len(name) > 500 || strings.ContainsAny(name, `\:*?"<>|`) || files[name] != nil {
				t.Errorf("a file is named %q", name)
			}
			files[name] = &fstest.MapFile{Data: bytes.Clone(text)}
			return nil
		}, nil)
		if err != nil || moved.Written["memory"] != len(nasty()) {
			t.Fatalf("%+v, error %v", moved, err)
		}
		return files
	}
	files := folder(db)
	if files["user-Ada~"+shortHash("Ada")+"/notes/plain-name.md"] == nil {
		t.Errorf("files %v", slices.Sorted(mapsKeys(files)))
	}
	back := openMemory(t)
	report, err := importSample(t.Context(), back, Markdown, &Input{Name: "f", Folder: files})
	if err != nil || report.Skipped > 0 {
		t.Fatalf("%+v, error %v", report, err)
	}
	for _, m := range nasty() {
		got, err := back.Memories().Get(t.Context(), m.Scope, m.ID)
		if err != nil {
			t.Errorf("%s: %v", m.ID, err)
			continue
		}
		want, err := db.Memories().Get(t.Context(), m.Scope, m.ID)
		if err != nil {
			t.Fatal(err)
		}
		got.Seq, want.Seq, got.NoteID, want.NoteID = 0, 0, 0, 0
		a, _ := json.Marshal(exchange.NewRecord(got))
		b, _ := json.Marshal(exchange.NewRecord(want))
		if string(a) != string(b) {
			t.Errorf("got\n%s\nwant\n%s", a, b)
		}
	}
	again := folder(back)
	for name, f := range files {
		if again[name] == nil || !bytes.Equal(again[name].Data, f.Data) {
			t.Errorf("%s differs", name)
		}
	}
}

func mapsKeys(m fstest.MapFS) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// A memory.jsonl that is read is written again as it was.
func TestMCPBack(t *testing.T) {
	text := `{"type":"entity","name":"Ilse","entityType":"person","observations":["makes pots","lives in <Delft> & Gouda"]}
{"type":"entity","name":"Delft","entityType":"city","observations":[]}
{"type":"entity","name":"Anna","entityType":"person","observations":["é"]}
{"type":"relation","from":"Ilse","to":"Delft","relationType":"lives_in"}
{"type":"relation","from":"Anna","to":"Ilse","relationType":"knows"}
{"type":"relation","from":"Delft","to":"Anna","relationType":"has"}
`
	db := openMemory(t)
	if _, err := importSample(t.Context(), db, MCP, input("memory.jsonl", []byte(text))); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	moved, err := ExportMCP(t.Context(), db, &out, nil)
	if err != nil || moved.Written["entity"] != 3 || moved.Written["relation"] != 3 {
		t.Fatalf("%+v, error %v", moved, err)
	}
	if fields := strings.Count(out.String(), "\n"); out.String() != text || fields != 6 {
		t.Errorf("got\n%s\nwant\n%s", out.String(), text)
	}
}

// TestMCPOut verifies that properties and aliases become keys, and that owners do not meet.
func TestMCPOut(t *testing.T) {
	db := openMemory(t)
	lines := `{"type":"memory","user":"u","text":"t"}
{"type":"entity","id":"e1","user":"u","entity_type":"pot","name":"Bowl","aliases":["dish"],"properties":{"observations":["round"],"size":{"cm":20},"owner":"Ilse"}}
{"type":"entity","id":"e2","user":"u","entity_type":"pot","name":"Bowl"}
{"type":"relation","user":"u","from":"e1","relation":"like","to":"e2"}
`
	if _, err := exchange.ImportJSONL(t.Context(), db, strings.NewReader(lines), nil); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	moved, err := ExportMCP(t.Context(), db, &out, nil)
	want := `{"type":"entity","name":"Bowl","entityType":"pot","observations":["round"],"aliases":["dish"],"owner":"Ilse","size":{"cm":20}}
{"type":"entity","name":"e2","entityType":"pot","observations":[]}
{"type":"relation","from":"Bowl","to":"e2","relationType":"like"}
`
	if err != nil || out.String() != want || moved.LeftOut["memory"] != 1 {
		t.Errorf("%+v, error %v, got\n%s", moved, err, out.String())
	}
	if _, err := exchange.ImportJSONL(t.Context(), db, strings.NewReader(`{"type":"entity","id":"e","agent":"a","name":"x"}`), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ExportMCP(t.Context(), db, &out, nil); err == nil || !strings.Contains(err.Error(), "several owners") {
		t.Errorf("two owners: %v", err)
	}
}

// file is a file in memory that is written at any place.
type file struct{ b []byte }

func (f *file) Truncate(size int64) error {
	f.b = f.b[:size]
	return nil
}

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(f.b).ReadAt(p, at)
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	if end := at + int64(len(p)); end > int64(len(f.b)) {
		f.b = append(f.b, make([]byte, end-int64(len(f.b)))...)
	}
	return copy(f.b[at:], p), nil
}

// The tables of a SQLite file have what the database has.
func TestSQLiteOut(t *testing.T) {
	db := openMemory(t)
	for name, format := range samples {
		if _, err := importSample(t.Context(), db, format, sample(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Memories().StoreBatch(t.Context(), nasty(), &memory.StoreOptions{NoDedup: true}); err != nil {
		t.Fatal(err)
	}
	var out file
	moved, err := ExportSQLite(t.Context(), db, &out, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := input("out.db", out.b).openSQLite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.end()
	if err := f.check(t.Context()); err != nil {
		t.Error(err)
	}
	w := &writer{ctx: t.Context(), account: newAccount(), yield: func(exchange.Item, error) bool { return true }}
	for _, table := range sqliteTables {
		n := 0
		err := w.each(f, table.name, func(_ exchange.LineError, c *cells) error {
			if n++; table.name == "memories" {
				m, err := db.Memories().Get(t.Context(), memory.Scope{User: c.text("user"), Agent: c.text("agent"), Run: c.text("run")}, c.text("id"))
				if err != nil || m.Text != c.text("text") || string(m.Kind) != c.text("kind") {
					t.Errorf("%v: %v, %q", c.row.values[:3], err, c.text("text"))
				}
			}
			return nil
		})
		if want := moved.Written[table.typ]; err != nil || n != want && table.name != "vectors" || n == 0 {
			t.Errorf("%s has %d rows, want %d, error %v", table.name, n, want, err)
		}
	}
	if f.version != sqliteVersion || moved.Written["memory"] < 20 {
		t.Errorf("version %d, %+v", f.version, moved)
	}
}

// Names that differ stay apart, whatever a disk makes of cases and of characters.
func TestSafeName(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	seen := map[string]string{}
	for range 20_000 {
		var b strings.Builder
		for range 1 + rng.IntN(4) {
			b.WriteString([]string{"a", "A", ".", "/", " ", "-", "é", "CON", "~", "\x00", "0"}[rng.IntN(11)])
		}
		name := safeName(b.String())
		if had, ok := seen[strings.ToLower(name)]; ok && had != b.String() {
			t.Fatalf("%q and %q are both %q", had, b.String(), name)
		}
		seen[strings.ToLower(name)] = b.String()
		if !fs.ValidPath(name) || strings.ContainsAny(name, `/\:*?"<>| `) || strings.HasSuffix(name, ".") {
			t.Fatalf("%q gives %q", b.String(), name)
		}
	}
	if got := fmt.Sprint(safeName("7b1c-22"), " ", safeName(strings.Repeat("x", 1000))); got != "7b1c-22 "+strings.Repeat("x", maxName)+"~"+shortHash(strings.Repeat("x", 1000)) {
		t.Error(got)
	}
}
