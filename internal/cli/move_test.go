package cli

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// chats is an export of ChatGPT: a conversation whose first answer was asked for again.
const chats = `[{"title":"Kilns","create_time":1712345678.5,"mapping":{
 "r":{"id":"r","message":null,"parent":null},
 "q":{"id":"q","parent":"r","message":{"id":"q","author":{"role":"user"},"create_time":1712345679,"content":{"content_type":"text","parts":["Which kiln?"]}}},
 "a":{"id":"a","parent":"q","message":{"id":"a","author":{"role":"assistant"},"create_time":1712345680,"content":{"content_type":"text","parts":["A small one."]}}},
 "b":{"id":"b","parent":"q","message":{"id":"b","author":{"role":"assistant"},"create_time":1712345690,"content":{"content_type":"text","parts":["A large one."]}}}
},"current_node":"b","conversation_id":"c-1"}]`

// An import of another program's file tells its form by itself, shows in a dry run what is there,
// and changes nothing when it is repeated.
func TestMoveIn(t *testing.T) {
	c := newCLI(t)
	file := c.file("conversations.json", chats)

	lines := parseLines(t, c.ok("import", file, "--user", "ada", "--dry-run", "--json"))
	last := lines[len(lines)-1]
	kinds := map[string]any{"memory": 2.0, "message": 2.0, "session": 1.0}
	if len(lines) != 6 || last["format"] != "chatgpt" || last["dry_run"] != true || last["stored"] != 5.0 || last["read"] != 5.0 || !reflect.DeepEqual(last["kinds"], kinds) {
		t.Errorf("a dry run: %v", lines)
	}
	if s := lines[1]; s["kind"] != "memory" || s["whose"] != "ada/" || s["sample"].(map[string]any)["text"] != "Which kiln?" || s["sample"].(map[string]any)["user"] != "ada" {
		t.Errorf("a sample: %v", s)
	}
	c.fails(exitFailed, "there is no database", "list", "--user", "ada") // a dry run makes none

	for _, stored := range []float64{5, 0} {
		got := imported(t, c.ok("import", file, "--user", "ada", "--json"), 5, stored, 0, 5-stored, 0)
		if got["format"] != "chatgpt" || !reflect.DeepEqual(got["left_out"], map[string]any{"messages of other branches": 1.0}) {
			t.Errorf("report %v", got)
		}
	}
	shown := c.objects("session", "show", "c-1", "--user", "ada")
	if len(shown) != 2 || shown[1]["text"] != "A large one." || shown[1]["memory_id"] != "c-1/b" || shown[0]["at"] != "2024-04-05T19:34:39.000Z" {
		t.Errorf("session %v", shown)
	}
	// Another conversation is added, and what there was stays.
	more := strings.TrimSuffix(chats, "]") + "," + strings.TrimPrefix(strings.ReplaceAll(chats, `"c-1"`, `"c-2"`), "[")
	imported(t, c.ok("import", c.file("conversations.json", more), "--user", "ada", "--json"), 10, 5, 0, 5, 0)

	if out := c.ok("import", file, "--dry-run"); !strings.Contains(out, "2 memories\n    /chatgpt: Which kiln?\n") || !strings.Contains(out, "left out: 1 messages of other branches\n") || !strings.HasSuffix(out, "nothing was stored\n") {
		t.Errorf("for people: %q", out)
	}
	r := c.run("import", file)
	if r.code != exitDone || !strings.Contains(r.err, `is stored for the agent "chatgpt"; --user and --agent name another`) || !strings.Contains(r.out, "(2 memories, 2 messages, 1 session)") {
		t.Errorf("without an owner: %+v", r)
	}
	// A pipe is told by its content, too.
	c.in = strings.NewReader(chats)
	if got := one(t, c.objects("import", "-", "--agent", "piped")); got["format"] != "chatgpt" || got["stored"] != 5.0 {
		t.Errorf("of a pipe: %v", got)
	}
}

// An export is imported from the archive that it came in.
func TestMoveInZip(t *testing.T) {
	c := newCLI(t)
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, text := range map[string]string{"conversations.json": chats, "user.json": "{}"} {
		f, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(f, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := c.file("export.zip", archive.String())
	got := one(t, c.objects("import", file, "--user", "ada"))
	if got["format"] != "chatgpt" || got["stored"] != 5.0 || fmt.Sprint(got["left_out"]) != "map[file user.json:1 messages of other branches:1]" {
		t.Errorf("report %v", got)
	}
	c.fails(exitFailed, "the archive cannot be read", "import", c.file("cut.zip", archive.String()[:100]))
	c.fails(exitFailed, "it has several files, and the format jsonl is one of one file", "import", file, "--format", "jsonl")
}

// What is wrong with a file is said, and makes no database.
func TestMoveInWrong(t *testing.T) {
	c := newCLI(t)
	c.fails(exitFailed, "the header has the column", "import", c.file("t.csv", "text,text\na,b\n"))
	c.fails(exitFailed, "the text is UTF-16", "import", c.file("c.json", "\xff\xfe["), "--format", "chatgpt")
	c.fails(exitFailed, "no SQLite file", "import", c.file("x.db", "text"), "--format", "openfang")
	c.fails(exitFailed, "none of its files has a known form; name a file: it is empty", "import", t.TempDir())
	c.fails(exitUsage, `"Mars/Base" is no time zone`, "import", c.file("t.csv", "text\na\n"), "--timezone", "Mars/Base")
	c.fails(exitFailed, "there is no database", "stats")

	r := c.run("import", c.file("c.json", `[{"mapping":{}},{"conversation_id":"c"}]`), "--format", "chatgpt", "--agent", "a")
	if r.code != exitFailed || !strings.Contains(r.err, `conversation 2: it has no "mapping"`) || !strings.Contains(r.err, "nothing in it could be stored") {
		t.Errorf("%+v", r)
	}
	r = c.run("import", c.file("c.json", `[{"mapping":1}]`), "--format", "chatgpt", "--dry-run")
	if r.code != exitFailed || !strings.Contains(r.err, "nothing in it could be stored") {
		t.Errorf("a dry run: %+v", r)
	}
}

// A dry run reads memdb's own forms as well, and stores nothing.
func TestDryRunOwn(t *testing.T) {
	c := newCLI(t)
	for name, text := range map[string]string{
		"a.jsonl": `{"id":"a","user":"u","text":"one"}` + "\n" + `{"type":"kv","user":"u","key":"k","value":1}` + "\n" + `{"type":"history","memory_id":"x","user":"u","event":"ADD","new_value":"x","timestamp":"2026-01-01"}` + "\n",
		"a.json":  `[{"id":"a","user":"u","text":"one"},{"type":"kv","user":"u","key":"k","value":1},{"type":"session","session":"s","user":"u"}]`,
		"b.fbin":  floatRows(2, 1, 0, 0, 1, -1, 0),
	} {
		got := c.objects("import", c.file(name, text), "--user", "u", "--dry-run")
		last := got[len(got)-1]
		if last["dry_run"] != true || last["skipped"] != 0.0 || last["read"] == 0.0 || len(got) < 3 {
			t.Errorf("%s: %v", name, got)
		}
	}
	c.fails(exitFailed, "there is no database", "stats")
	r := c.run("import", c.file("a.jsonl", `{"id":"a","user":"u","text":"one"}`+"\n{"), "--dry-run")
	if r.code != exitFailed || !strings.Contains(r.err, "line 2: malformed JSON") || !strings.Contains(r.err, "1 of 2 records were skipped") {
		t.Errorf("%+v", r)
	}
}

// A document of memdb's own is told from a list of other objects.
func TestListOrDocument(t *testing.T) {
	c := newCLI(t)
	own := c.file("own.json", `[{"id":"a","user":"u","text":"one"}]`)
	if got := one(t, c.objects("import", own)); got["format"] != "json" || got["stored"] != 1.0 {
		t.Errorf("own: %v", got)
	}
	other := c.file("other.json", `[{"id":"b","text":"two","colour":"red"},"three"]`)
	for _, more := range [][]string{nil, {"--format", "json"}} {
		got := one(t, c.objects(append([]string{"import", other, "--user", "u", "--json"}, more...)...))
		if got["format"] != "json" || got["read"] != 2.0 || got["skipped"] != 0.0 {
			t.Errorf("other: %v", got)
		}
	}
	if m := one(t, c.objects("get", "b", "--user", "u")); m["metadata"].(map[string]any)["colour"] != "red" {
		t.Errorf("got %v", m)
	}
}

// Vectors of another model do not mix with those of the database.
func TestOwnSpace(t *testing.T) {
	c := newCLI(t)
	file := c.file("points.json", `{"result":{"points":[{"id":1,"payload":{"text":"slip"},"vector":[1,0,0]}]}}`)
	c.ok("store", "clay", "--agent", "a", "--embedding", "[1,2]")
	if r := c.run("import", file, "--agent", "a"); r.code != exitDone || !strings.Contains(r.err, "vectors go to the space qdrant: the default one") {
		t.Errorf("%+v", r)
	}
	m := one(t, c.objects("list", "--agent", "a", "--vectors", "--filter", `text = "slip"`))
	if !reflect.DeepEqual(m["vectors"], map[string]any{"qdrant": []any{1.0, 0.0, 0.0}}) {
		t.Errorf("got %v", m)
	}
	d := newCLI(t)
	d.ok("import", file, "--agent", "a")
	if m := one(t, d.objects("list", "--agent", "a", "--vectors")); len(m["embedding"].([]any)) != 3 {
		t.Errorf("got %v", m)
	}
}

// A folder that was exported is brought up to date: what is the same is not written, what is gone
// is taken away, and what others put there stays.
func TestMarkdownFolder(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "Tea at four.", "--id", "tea", "--user", "ada")
	c.ok("store", "Milk, no sugar.", "--id", "milk", "--user", "ada")
	c.ok("kv", "put", "k", "1", "--user", "ada")
	dir := filepath.Join(t.TempDir(), "memories")
	if got := one(t, c.objects("export", dir, "--format", "markdown")); got["memories"] != 2.0 || !reflect.DeepEqual(got["left_out"], map[string]any{"kv": 1.0}) {
		t.Errorf("report %v", got)
	}
	c.fails(exitFailed, "bring this one up to date with --force", "export", dir, "--format", "markdown")
	pages := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "user-ada", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range found {
			found[i] = filepath.Base(found[i])
		}
		slices.Sort(found)
		return found
	}
	if got := pages(); !reflect.DeepEqual(got, []string{"milk.md", "tea.md"}) {
		t.Fatalf("files %v", got)
	}
	month, err := filepath.Glob(filepath.Join(dir, "user-ada", "*"))
	if err != nil || len(month) != 1 {
		t.Fatal(month, err)
	}
	tea := filepath.Join(month[0], "tea.md")
	before, err := os.Stat(tea)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(month[0], "mine.md")
	if err := os.WriteFile(own, []byte("---\ntitle: mine\n---\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.ok("delete", "milk", "--user", "ada")
	c.ok("export", dir, "--format", "markdown", "--force")
	if got := pages(); !reflect.DeepEqual(got, []string{"mine.md", "tea.md"}) {
		t.Errorf("files %v", got)
	}
	if after, err := os.Stat(tea); err != nil || !os.SameFile(before, after) {
		t.Errorf("what did not change was written: %v", err)
	}
	// Of another scope nothing is taken away.
	c.ok("store", "Bob's.", "--user", "bob")
	c.ok("export", dir, "--format", "markdown", "--force", "--user", "bob")
	if got := pages(); len(got) != 2 {
		t.Errorf("files %v", got)
	}
	d := newCLI(t)
	got := one(t, d.objects("import", dir))
	if got["format"] != "markdown" || got["stored"] != 3.0 || got["skipped"] != 0.0 {
		t.Errorf("read back: %v", got)
	}
	if m := one(t, d.objects("get", "tea", "--user", "ada")); m["text"] != "Tea at four." {
		t.Errorf("got %v", m)
	}
	// A link in the folder leads nowhere.
	if err := os.Remove(tea); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(own, tea); err != nil {
		t.Skipf("no links here: %v", err)
	}
	c.fails(exitFailed, "it is no regular file", "export", dir, "--format", "markdown", "--force")
	c.fails(exitUsage, "it is a file; name a folder", "export", own, "--format", "markdown")
}

// The other forms of an export.
func TestMoveOut(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "Tea at four.", "--user", "ada")
	c.in = strings.NewReader(`{"id":"Ilse","entity_type":"person","name":"Ilse","properties":{"observations":["makes pots"]}}`)
	c.ok("graph", "add", "-", "--user", "ada")
	db := filepath.Join(t.TempDir(), "m.db")
	if got := c.ok("export", db, "--format", "sqlite"); got != "exported 2 memories, 1 entity, 1 link\n" {
		t.Errorf("sqlite: %q", got)
	}
	head, err := os.ReadFile(db)
	if err != nil || !strings.HasPrefix(string(head), "SQLite format 3\x00") || len(head)%8192 != 0 {
		t.Errorf("%d bytes, error %v", len(head), err)
	}
	c.fails(exitFailed, "the file is there", "export", db, "--format", "sqlite")
	c.fails(exitUsage, "to no pipe", "export", "-", "--format", "sqlite")
	c.fails(exitUsage, `--format "xml": there are jsonl, json, markdown, sqlite and mcp`, "export", "-", "--format", "xml")
	if got, want := c.ok("export", "-", "--format", "mcp"), `{"type":"entity","name":"Ilse","entityType":"person","observations":["makes pots"]}`+"\n"; got != want {
		t.Errorf("mcp: %q", got)
	}
	file := filepath.Join(t.TempDir(), "memory.jsonl")
	if got := c.ok("export", file, "--format", "mcp"); got != "exported 1 entity\nleft out: 1 memory\n" {
		t.Errorf("mcp: %q", got)
	}
	if got := one(t, c.objects("import", file, "--agent", "other")); got["format"] != "mcp" || got["stored"] != 1.0 {
		t.Errorf("read back: %v", got)
	}
	c.fails(exitUsage, "several owners", "export", "-", "--format", "mcp")
}

// A SQLite file that another program writes is left alone.
func TestMoveInSQLite(t *testing.T) {
	c := newCLI(t)
	whole, err := os.ReadFile(filepath.Join("..", "..", "exchange", "move", "testdata", "openfang.db"))
	if err != nil {
		t.Fatal(err)
	}
	file := c.file("openfang.db", string(whole))
	if got := one(t, c.objects("import", file)); got["format"] != "openfang" || got["skipped"] != 0.0 || fmt.Sprint(got["left_out"]) != "map[rows of the table hands:1]" {
		t.Errorf("report %v", got)
	}
	for says, damage := range map[string]string{
		"the SQLite file is damaged": string(whole[:1500]),
		`has several tables; name one with --table: "agents" (1 row), "kv_stork" (1 row), "memory_fragmentz" (2 rows)`: strings.NewReplacer("memory_fragments", "memory_fragmentz", "kv_store", "kv_stork").Replace(string(whole)),
	} {
		c.fails(exitFailed, says, "import", c.file("other.db", damage))
	}
	if err := os.WriteFile(file+"-journal", []byte("\xd9\xd5\x05\xf9"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(exitFailed, "a journal is next to the SQLite file", "import", file, "--format", "openfang")
	if err := os.Remove(file + "-journal"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nothing", file+"-wal"); err == nil {
		c.fails(exitFailed, "it is no regular file", "import", file, "--format", "openfang")
	}
}
