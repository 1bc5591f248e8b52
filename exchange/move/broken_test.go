package move

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// outcome is what a reader makes of an input.
type outcome struct {
	items, skipped, left int
	first                error // of those that were skipped
	failed               error
}

func read(ctx context.Context, f Format, in *Input) (o outcome) {
	items := Read(f, in, nil)
	for item, err := range items.All(ctx) {
		switch {
		case err != nil:
			o.failed = err
		case item.At.Err != nil:
			if o.skipped++; o.first == nil {
				o.first = item.At
			}
		default:
			o.items++
		}
	}
	for _, n := range items.LeftOut() {
		o.left += n
	}
	return o
}

// told reports whether the outcome says that something is missing.
func (o *outcome) told() bool { return o.skipped > 0 || o.left > 0 || o.failed != nil }

func (o *outcome) String() string {
	return fmt.Sprintf("%d items, %d skipped (%v), %d left out, error %v", o.items, o.skipped, o.first, o.left, o.failed)
}

// Each text sample is broken in these ways: nothing panics, and nothing is lost unsaid.
var breaks = []struct {
	name string
	make func(b string) string
	says string // what an error, or the reason of the first skipped record, has
}{
	{"cut in the middle", func(b string) string { return b[:len(b)/2] }, ""},
	{"cut before its end", func(b string) string { return strings.TrimRight(b, " \r\n\t]}\"") }, ""},
	{"UTF-16", func(b string) string { return "\xff\xfe" + b }, "UTF-16"},
	{"compressed", func(string) string { return "\x1f\x8b\x08\x00\x00" }, "compressed"},
	{"invalid UTF-8", func(b string) string {
		at := strings.LastIndexAny(b, "eio")
		return b[:at] + "\xff" + b[at+1:]
	}, "UTF-8"},
	{"half of a surrogate pair", func(b string) string {
		at := strings.LastIndexAny(b, "eio")
		return b[:at] + `\ud83d` + b[at+1:]
	}, "surrogate"},
	{"numbers for texts", func(b string) string {
		return strings.NewReplacer(`"text":"`, `"text":7,"x":"`, `: "`, `: 7, "x": "`).Replace(b)
	}, ""},
	{"lists for objects", func(b string) string { return strings.NewReplacer("{", "[[", "}", "]]").Replace(b) }, ""},
	{"nested too deep", func(b string) string {
		return strings.Replace(b, "{", `{"deep":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+",", 1)
	}, ""},
	{"a value of 65 MB", func(b string) string {
		at := strings.LastIndexAny(b, "eio")
		return b[:at] + strings.Repeat("x", 65<<20) + b[at:]
	}, "longer than 64 MiB"},
}

func TestBroken(t *testing.T) {
	race.Sequential(t)
	for name, format := range samples {
		in := sample(t, name)
		if in.Folder != nil || strings.HasSuffix(name, ".db") {
			continue
		}
		whole, err := io.ReadAll(in.Reader)
		if err != nil {
			t.Fatal(err)
		}
		unbroken := read(t.Context(), format, input(name, whole))
		rows := format == CSV // where JSON's rules are not those
		for _, b := range breaks {
			if rows && (strings.Contains(b.name, "surrogate") || strings.Contains(b.name, " for ") || strings.Contains(b.name, "nested") || b.name == "cut before its end") {
				continue
			}
			o := read(t.Context(), format, input(name, []byte(b.make(string(whole)))))
			cutRows := rows && b.name == "cut in the middle" // which ends a row, and is none that is broken
			if !o.told() && !cutRows && o.items != unbroken.items {
				t.Errorf("%s, %s: %v", name, b.name, &o)
			}
			if b.says != "" && (o.items != unbroken.items || o.told()) && (o.failed == nil || !strings.Contains(o.failed.Error(), b.says)) && (o.first == nil || !strings.Contains(o.first.Error(), b.says)) {
				t.Errorf("%s, %s: %v, want %q", name, b.name, &o, b.says)
			}
		}
		if o := read(t.Context(), format, input(name, nil)); o.items > 0 || o.failed != nil && format != Chroma {
			t.Errorf("%s, empty: %v", name, &o)
		}
	}
}

// Bytes of any sample are changed at random: whatever comes of it, the reader ends and the rest
// of the process lives.
func TestFlipped(t *testing.T) {
	race.Sequential(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for name, format := range samples {
		in := sample(t, name)
		if in.Folder != nil {
			continue
		}
		whole, err := io.ReadAll(in.Reader)
		if err != nil {
			t.Fatal(err)
		}
		times := 300
		if strings.HasSuffix(name, ".db") { // which TestSQLiteDamaged damages, too
			times = 50
		}
		for range times {
			b := bytes.Clone(whole)
			for range 1 + rng.IntN(5) {
				b[rng.IntN(len(b))] = []byte("{}[]\",:0n\\ \x00\xff")[rng.IntN(13)]
			}
			in := input(name, b)
			_, _, _ = Recognise(t.Context(), in)
			if o := read(t.Context(), format, in); o.items > 100 {
				t.Fatalf("%s: %v", name, &o)
			}
		}
	}
}

// What each program's own form may have wrong.
func TestWrong(t *testing.T) {
	chat := func(mapping, current string) string {
		return `[{"conversation_id":"c","title":"t","mapping":{` + mapping + `},"current_node":"` + current + `"}]`
	}
	node := func(id, parent string) string {
		return fmt.Sprintf(`%q:{"id":%q,"parent":%q,"message":{"id":%q,"author":{"role":"user"},"create_time":"nonsense","content":{"content_type":"text","parts":["text of %s"]}}}`, id, id, parent, id, id)
	}
	for _, c := range []struct {
		format Format
		name   string
		text   string
		items  int
		says   string
	}{
		{ChatGPT, "a cycle", chat(node("a", "b")+","+node("b", "a"), "b"), 5, `cycle at node "b"`},
		{ChatGPT, "a parent that is missing", chat(node("b", "a"), "b"), 3, `node "a" of its tree is missing`},
		{ChatGPT, "a current node that is missing", chat(node("a", "")+","+node("b", "a"), "z"), 5, `current node "z" is not in the tree`},
		{ChatGPT, "no current node", chat(node("a", "")+","+node("b", "a"), ""), 5, ""},
		{ChatGPT, "its own parent", chat(node("a", "a"), "a"), 3, `cycle at node "a"`},
		{ChatGPT, "no mapping", `[{"conversation_id":"c"}]`, 0, `no "mapping"`},
		{ChatGPT, "no ID", `[{"title":"t","mapping":{` + node("a", "") + `}}]`, 3, ""},
		{ChatGPT, "no message", `[{"mapping":{}}]`, 0, ""},
		{ChatGPT, "a newer content", `[{"id":"c","mapping":{"a":{"message":{"id":"a","author":{"role":"user"},"content":{"content_type":"hologram","beam":[1]}}}},"current_node":"a"}]`, 0, ""},
		{Claude, "no messages", `[{"uuid":"c","name":"n"}]`, 0, "it is no conversation"},
		{Claude, "no ID", `[{"chat_messages":[{"text":"one","sender":"human"}]}]`, 3, ""},
		{Claude, "no message", `[{"chat_messages":[]}]`, 0, ""},
		{Claude, "a cycle", `[{"uuid":"c","current_leaf_message_uuid":"b","chat_messages":[{"uuid":"a","text":"one","sender":"human","parent_message_uuid":"b"},{"uuid":"b","text":"two","sender":"assistant","parent_message_uuid":"a"}]}]`, 5, `cycle at "b"`},
		{Claude, "a branch", `[{"uuid":"c","current_leaf_message_uuid":"b","chat_messages":[{"uuid":"a","text":"one","sender":"human"},{"uuid":"x","text":"no","parent_message_uuid":"a"},{"uuid":"b","text":"two","sender":"assistant","parent_message_uuid":"a"}]}]`, 5, ""},
		{Claude, "a project", `[{"uuid":"p","name":"Clay","description":"About clay","prompt_template":"Be brief","docs":[{"uuid":"d","filename":"f.txt","content":"Clay is wet.","created_at":"2025-01-01T00:00:00Z"}],"created_at":"2025-01-01T00:00:00Z"}]`, 3, ""},
		{Claude, "memories", `[{"conversations_memory":"She makes pots.","project_memories":{"p":"Clay."},"account_uuid":"u"}]`, 2, ""},
		{MCP, "another type", `{"type":"star","name":"a"}`, 0, ""},
		{MCP, "an entity without a name", `{"type":"entity","entityType":"x"}`, 0, "has no name"},
		{MCP, "half of a relation", `{"type":"relation","from":"a","relationType":"x"}`, 0, `lacks "from" or "to"`},
		{MCP, "relations before entities", `{"type":"relation","from":"a","to":"b","relationType":"x"}` + "\n" + `{"type":"entity","name":"a","entityType":"t","observations":["o"]}`, 3, ""},
		{Mem0, "no text", `[{"id":"1","user_id":"u"}]`, 0, "it has no text"},
		{Mem0, "half of a relation", `{"results":[],"relations":[{"relationship":"likes","source":"a"}]}`, 0, `lacks "source", "target"`},
		{LangGraph, "no namespace", `[{"key":"k","value":{}}]`, 0, "no namespace"},
		{LangGraph, "a namespace of numbers", `[{"namespace":[1],"key":"k","value":{}}]`, 0, "neither a list of texts"},
		{LangGraph, "no value", `[{"namespace":["a"],"key":"k"}]`, 0, "value: give an object"},
		{LangGraph, "a text for a value", `[{"namespace":["a"],"key":"k","value":"v"}]`, 0, "not an object"},
		{JSON, "an empty text", `["", " "]`, 0, "empty text"},
		{JSON, "numbers and nulls", `[1, null, true]`, 0, "is a number, not an object"},
		{JSON, "an object that is empty", `[{}]`, 0, "it has no text"},
		{CSV, "a column twice", "text,text\na,b\n", 0, `the column "text" twice`},
		{CSV, "more fields than columns", "text,id\na,1,2\nb,2\n", 1, "it has 3 fields, and the header 2 columns"},
		{CSV, "fewer fields than columns", "text,id,user\na,1\n", 1, ""},
		{CSV, "a quote in the midst", "text,id\na \"b\" c,1\nd,2\n", 1, `bare "`},
		{CSV, "a header that is no UTF-8", "te\xffxt\na\n", 0, "column 1 is not UTF-8"},
		{CSV, "1,001 columns", strings.Repeat("a,", 1001) + "\n", 0, "1002 columns; the limit is 1000"},
		{Chroma, "more documents than IDs", `{"ids":["a"],"documents":["x","y"]}`, 1, "there are 1 ids, and more documents"},
		{Chroma, "the answer of a query", `{"ids":[["a"]],"documents":[["x"]]}`, 0, "a list of lists"},
		{Chroma, "a list", `[{"id":"a"}]`, 0, "it is a list, not an object"},
		{Chroma, "a vector of texts", `{"ids":["a"],"embeddings":[["x"]],"documents":["t"]}`, 0, "no list of numbers"},
		{Qdrant, "no ID", `[{"payload":{"text":"t"}}]`, 0, "it has no id"},
		{Qdrant, "a vector that is too long", `[{"id":1,"payload":{"text":"t"},"vector":[` + strings.Repeat("1,", 5000) + `1]}]`, 0, "5001 components"},
		{Qdrant, "a list of vectors", `[{"id":1,"payload":{"text":"t"},"vector":[[1,2],[3,4]]}]`, 1, ""},
		{Qdrant, "a vector that is a text", `[{"id":1,"payload":{"text":"t"},"vector":"x"}]`, 0, "neither a list nor an object"},
		{Markdown, "front matter that is no YAML", "---\na: [1\n---\ntext\n", 1, ""},
		{Markdown, "front matter that is a list", "---\n- a\n---\ntext\n", 1, ""},
		{Markdown, "a key twice", "---\na: 1\na: 2\n---\ntext\n", 1, ""},
		{Markdown, "an anchor", "---\na: &x [1]\nb: *x\n---\ntext\n", 1, ""},
		{Markdown, "front matter without an end", "---\na: 1\ntext\n", 1, ""},
		{Markdown, "no UTF-8", "caf\xe9\n", 0, "not UTF-8"},
		{Markdown, "nothing but front matter", "---\na: 1\n---\n", 1, ""},
	} {
		o := read(t.Context(), c.format, input("file.md", []byte(c.text)))
		if o.items != c.items || c.says == "" && (o.failed != nil || o.skipped > 0) {
			t.Errorf("%s, %s: %v, want %d items", c.format, c.name, &o, c.items)
		}
		if c.says != "" && (o.failed == nil || !strings.Contains(o.failed.Error(), c.says)) && (o.first == nil || !strings.Contains(o.first.Error(), c.says)) {
			t.Errorf("%s, %s: %v, want %q", c.format, c.name, &o, c.says)
		}
		if c.items == 0 && !o.told() {
			t.Errorf("%s, %s: nothing was told: %v", c.format, c.name, &o)
		}
	}
}

// A document goes on behind a value that is too long.
func TestBehindLong(t *testing.T) {
	long := `[{"text":"first"},{"text":"` + strings.Repeat("x", 65<<20) + `"},{"text":"last"}]`
	o := read(t.Context(), JSON, input("l.json", []byte(long)))
	if o.items != 2 || o.skipped != 1 || o.failed != nil || !strings.Contains(o.first.Error(), "record 2: longer than 64 MiB") {
		t.Errorf("%v", &o)
	}
}

// A folder with what has no place in it.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.md": "A links [[b]].", "sub/b.md": "B.", "sub/c.txt": "no", ".git/x.md": "no", "d.MD": "D."} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"sub/loop": "..", "out.md": "/etc/passwd", "self.md": "self.md"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	items := Read(Markdown, &Input{Name: dir, Folder: root.FS()}, nil)
	kinds := map[string]int{}
	for item, err := range items.All(t.Context()) {
		if err != nil || item.At.Err != nil {
			t.Fatalf("%v, %v", item.At, err)
		}
		kinds[item.Kind()]++
	}
	if kinds["memory"] != 3 || kinds["relation"] != 1 || kinds["entity"] != 2 {
		t.Errorf("items %v", kinds)
	}
	want := map[string]int{"link out.md": 1, "link self.md": 1, "link sub/loop": 1, "folder .git": 1, "file sub/c.txt": 1}
	if left := items.LeftOut(); fmt.Sprint(left) != fmt.Sprint(want) {
		t.Errorf("left out %v, want %v", left, want)
	}
}

// A file that cannot be read is skipped and named.
func TestFolderUnreadable(t *testing.T) {
	files := fstest.MapFS{"a.md": {Data: []byte("A.")}, "b.md": {Data: []byte("B."), Mode: fs.ModeDir}, "long.md": {Data: bytes.Repeat([]byte("x"), maxPage+1)}}
	o := read(t.Context(), Markdown, &Input{Name: "f", Folder: files})
	if o.items != 1 || o.skipped != 1 || !strings.Contains(o.first.Error(), "longer than 8 MiB") {
		t.Errorf("%v", &o)
	}
}

// SQLite files that are damaged, of another program, or not at rest.
func TestSQLiteWrong(t *testing.T) {
	whole, err := os.ReadFile("testdata/openfang.db")
	if err != nil {
		t.Fatal(err)
	}
	wrong := func(change func(b []byte) []byte) *Input { return input("x.db", change(bytes.Clone(whole))) }
	journal := wrong(func(b []byte) []byte { return b })
	journal.Beside = func(ending string) (io.ReaderAt, int64, error) {
		if ending == "-journal" {
			return strings.NewReader("\xd9\xd5\x05"), 3, nil
		}
		return nil, 0, nil
	}
	ended := wrong(func(b []byte) []byte { return b })
	ended.Beside = func(string) (io.ReaderAt, int64, error) { return nil, 0, nil }
	piped := wrong(func(b []byte) []byte { return b })
	piped.File = nil
	written := wrong(func(b []byte) []byte { return b })
	written.File = &turning{b: whole}
	for name, c := range map[string]struct {
		format Format
		in     *Input
		says   string
	}{
		"cut":                      {OpenFang, wrong(func(b []byte) []byte { return b[:len(b)/2] }), "damaged"},
		"cut in its head":          {OpenFang, wrong(func(b []byte) []byte { return b[:50] }), "no SQLite file"},
		"a page of zeros":          {OpenFang, wrong(func(b []byte) []byte { clear(b[1024:]); return b }), "damaged"},
		"newer":                    {OpenFang, wrong(func(b []byte) []byte { b[19] = 9; return b }), "of a newer version of SQLite"},
		"pages of no size":         {OpenFang, wrong(func(b []byte) []byte { b[16], b[17] = 0, 3; return b }), "damaged"},
		"a schema of no kind":      {OpenFang, wrong(func(b []byte) []byte { b[100] = 2; return b }), "damaged"},
		"another program's":        {LangGraph, wrong(func(b []byte) []byte { return b }), `no table "store"`},
		"another program's, too":   {Mem0, wrong(func(b []byte) []byte { return b }), `no table "history"`},
		"with a journal beside":    {OpenFang, journal, "a journal is next to the SQLite file"},
		"without one":              {OpenFang, ended, ""},
		"from a pipe":              {OpenFang, piped, "cannot be read from a pipe"},
		"written while it is read": {OpenFang, written, "was written while it was read"},
		"text":                     {OpenFang, input("x.db", []byte("no file of SQLite")), "no SQLite file"},
	} {
		o := read(t.Context(), c.format, c.in)
		if (o.failed == nil) != (c.says == "") || o.failed != nil && !strings.Contains(o.failed.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, &o, c.says)
		}
	}
	if f, ok, _ := Recognise(t.Context(), piped); ok {
		t.Errorf("a pipe of SQLite is taken for %q", f)
	}
}

// turning is a file whose head changes once it was read for the import and by SQLite.
type turning struct {
	b     []byte
	heads int
}

func (r *turning) ReadAt(p []byte, at int64) (int, error) {
	n, err := bytes.NewReader(r.b).ReadAt(p, at)
	if at == 0 && len(p) == 100 {
		if r.heads++; r.heads > 2 {
			p[27]++
		}
	}
	return n, err
}

// A schema that is newer than what is known brings what is known, and counts the rest.
func TestNewerOpenFang(t *testing.T) {
	b, err := os.ReadFile("testdata/openfang-v17.db")
	if err != nil {
		t.Fatal(err)
	}
	b[63] = 99 // its user_version
	items := Read(OpenFang, input("x.db", b), nil)
	n := 0
	for item, err := range items.All(t.Context()) {
		if err != nil || item.At.Err != nil {
			t.Fatal(err, item.At)
		}
		n++
	}
	if n < 8 || items.LeftOut()["what is new in the schema 99"] != 1 {
		t.Errorf("%d items, left out %v", n, items.LeftOut())
	}
}

// MessagePack of every kind, and what is none.
func TestPacked(t *testing.T) {
	for in, want := range map[string]string{
		"\x07": "7", "\xff": "-1", "\xc0": "null", "\xc2": "false", "\xcd\x01\x00": "256", "\xd1\xff\x00": "-256", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff": "18446744073709551615",
		"\xa1a": `"a"`, "\xd9\x01b": `"b"`, "\x92\x01\x02": "[1,2]", "\x81\xa1k\xa1v": `{"k":"v"}`, "\xcb\x3f\xe0\x00\x00\x00\x00\x00\x00": "0.5", "\xca\x3f\x00\x00\x00": "0.5",
		"\xc4\x02\x01\xff": `"01ff"`, "\xdc\x00\x01\x05": "[5]", "\xde\x00\x01\xa1k\x05": `{"k":5}`, "\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00": `"+Inf"`,
		"\xd6\xff\x00\x00\x00\x01": `"1970-01-01T00:00:01Z"`, "\xd4\x05\x09": `"d40509"`, "\xc7\x03\x04abc": `"c70304616263"`, "\xd3\x7f\xff\xff\xff\xff\xff\xff\xff": "9223372036854775807",
	} {
		v, rest, err := readPacked([]byte(in), 0)
		text, _ := json.Marshal(v)
		if err != nil || len(rest) > 0 || string(text) != want {
			t.Errorf("%q: %s, %q left, error %v", in, text, rest, err)
		}
	}
	for _, in := range []string{"", "\xc1", "\xa5ab", "\xdd\xff\xff\xff\xff\x01", "\x92\x01", "\xcd\x01", "\xa1\xff", strings.Repeat("\x91", 1000) + "\x01", "\x82\x01\x05\xa11\x06", "\xc7\xff\x01a"} {
		if v, _, err := readPacked([]byte(in), 0); err == nil {
			t.Errorf("%q: %v", in, v)
		}
	}
}

// Metadata is laid in beside other keys, unless one would be written over.
func TestFields(t *testing.T) {
	for in, want := range map[string]string{
		`{"text":"t","metadata":{"a":1.50,"b":null},"c":"x"}`:                        `{"a":1.50,"b":null,"c":"x"}`,
		`{"text":"t","metadata":{"a":1,"c":2},"c":"x"}`:                              `{"c":"x","metadata":{"a":1,"c":2}}`,
		`{"text":"t","metadata":"words","role":"chef","kind":"pot","importance":7}`:  `{"importance":7,"kind":"pot","metadata":"words","role":"chef"}`,
		`{"text":"t","created_at":"soon","timestamp":1712345678,"content":"second"}`: `{"content":"second","created_at":"soon"}`,
		`{"text":"t","user_id":7,"id":"a\nb"}`:                                       `null`,
	} {
		f, err := readFields([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		w := &writer{format: JSON, account: newAccount()}
		m, err := w.memoryOf(f)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		got, err := json.Marshal(m.Metadata)
		if err != nil || string(got) != want {
			t.Errorf("%s: metadata %s, error %v, want %s", in, got, err, want)
		}
		if strings.Contains(m.ID, "\n") || (m.ID == "") != (f["id"] == nil && !strings.Contains(in, `"id"`)) {
			t.Errorf("%s: the ID is %q", in, m.ID)
		}
	}
}
