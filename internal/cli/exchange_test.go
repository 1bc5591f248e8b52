package cli

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/seed-7aedc3ff/memdb/engine"
)

func floatRows(dim int, values ...float32) string {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(values)/dim))
	b = binary.LittleEndian.AppendUint32(b, uint32(dim))
	for _, f := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return string(b)
}

// Files of vectors are imported and asked with, under the numbers of their rows.
func TestVectorFiles(t *testing.T) {
	c := newCLI(t)
	base := c.file("base.fbin", floatRows(2, 1, 0, 0, 1, -1, 0))
	c.fails(exitUsage, "vectors have no owner; give --agent", "import", base)
	imported(t, c.ok("import", base, "--agent", "bench", "--json"), 3, 3, 0, 0, 0)
	imported(t, c.ok("import", base, "--agent", "bench", "--json"), 3, 0, 0, 3, 0)
	queries := c.file("q.fbin", floatRows(2, 0, 2, -3, 1))
	r := c.run("recall", "--queries", queries, "--agent", "bench", "--profile", "vector", "--limit", "2")
	lines := parseLines(t, r.out)
	if r.code != exitDone || len(lines) != 2 || !strings.Contains(r.err, "2 queries, ") || !strings.Contains(r.err, " queries a second, p50 ") {
		t.Fatalf("exit %d, %s%s", r.code, r.out, r.err)
	}
	for i, want := range []string{"1", "2"} {
		hits := lines[i]["hits"].([]any)
		if lines[i]["id"] != []string{"0", "1"}[i] || len(hits) != 2 || hits[0].(map[string]any)["id"] != want || lines[i]["took_us"] == nil {
			t.Errorf("answer %v, want %s first", lines[i], want)
		}
	}
	bytes := c.file("base.dat", "\x01\x00\x00\x00\x02\x00\x00\x00\x07\x09")
	imported(t, c.ok("import", bytes, "--format", "u8bin", "--agent", "bytes", "--json"), 1, 1, 0, 0, 0)
	if m := one(t, c.objects("get", "0", "--agent", "bytes")); m["text"] != "" {
		t.Errorf("got %v", m)
	}
	if m := one(t, c.objects("list", "--agent", "bytes", "--vectors")); len(m["embedding"].([]any)) != 2 {
		t.Errorf("listed %v", m)
	}
	u8 := c.file("q.u8bin", "\x01\x00\x00\x00\x02\x00\x00\x00\x07\x09")
	if a := one(t, parseLines(t, c.ok("recall", "--queries", u8, "--agent", "bytes", "--profile", "vector"))); a["id"] != "0" {
		t.Errorf("answer %v", a)
	}
	cut := c.file("cut.fbin", floatRows(2, 1, 0)+"?")
	c.fails(exitFailed, "goes on after the 1 rows", "import", cut, "--agent", "bench", "--quiet")
	c.fails(exitFailed, "the file ends after 3 bytes of its head", "recall", "--queries", c.file("s.fbin", "abc"), "--agent", "bench")
	r = c.run("recall", "--queries", cut, "--agent", "bench", "--profile", "vector")
	if r.code != exitFailed || len(parseLines(t, r.out)) != 1 || !strings.Contains(r.err, "goes on after") {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
	r = c.run("recall", "--queries", c.file("d.fbin", floatRows(1, 1)), "--agent", "bench", "--profile", "vector")
	if r.code != exitFailed || r.out != "" || !strings.Contains(r.err, "row 0: recall: its vector has 1 dimensions") {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
}

// An export brings its history and its settings into a new database.
func TestExportBringsAll(t *testing.T) {
	c := newCLI(t)
	c.ok("import", c.file("talk.jsonl", `{"type":"database","language":"english","indexed_text":[{"field":"metadata.speaker","weight":1}]}
{"id":"talk/D1:1","agent":"talk","run":"session_1","text":"The kiln arrived.","metadata":{"speaker":"Ilse"}}
{"id":"talk/D1:2","agent":"talk","run":"session_1","text":"Look!","metadata":{"speaker":"Bram"}}`))
	c.ok("update", "talk/D1:1", "The oven arrived.", "--agent", "talk")
	c.ok("delete", "talk/D1:2", "--agent", "talk")
	c.ok("store", "brief", "--user", "u", "--id", "brief")
	c.ok("kv", "put", "k", "1", "--user", "u")
	first := c.ok("export", "-")
	d := newCLI(t)
	imported(t, d.ok("import", d.file("all.jsonl", first), "--json"), 3, 3, 0, 0, 0)
	if second := d.ok("export", "-"); second != first {
		t.Errorf("exported again\n%s\nwant\n%s", second, first)
	}
	h := d.objects("history", "talk/D1:2", "--agent", "talk")
	if len(h) != 2 || h[1]["event"] != "DELETE" || h[1]["old_value"] != "Look!" {
		t.Errorf("history %v", h)
	}
	if hits := d.objects("recall", "ilse", "--agent", "talk", "--profile", "text"); len(hits) != 1 {
		t.Errorf("by speaker, which is searched: %v", hits)
	}
	// One that holds memories keeps its own settings, and that is said.
	e := newCLI(t)
	e.ok("store", "mine", "--user", "u")
	if r := e.run("import", e.file("all.jsonl", first)); r.code != exitDone || !strings.Contains(r.err, "along with the text [{metadata.speaker 1}") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	// A key that is not known is counted.
	f := newCLI(t)
	if got := one(t, f.objects("import", f.file("bad.jsonl", `{"type":"database","langage":"german","language":"english"}`+"\n"+`{"user":"u","text":"t"}`))); fmt.Sprint(got["left_out"]) != `map["langage" of lines of type database:1]` {
		t.Errorf("%v", got)
	}
	f = newCLI(t)
	f.fails(exitUsage, "klingon", "import", f.file("lang.jsonl", `{"type":"database","language":"klingon"}`+"\n"))
}

// What a line does not say comes from the flags, or is an error that names the key.
func TestImportFlags(t *testing.T) {
	c := newCLI(t)
	file := c.file("chat.jsonl", `{"role":"user","content":"hi"}`+"\n"+`{"role":"assistant","content":"hi"}`+"\n")
	c.fails(exitFailed, "line 1: store a memory: it names no user, agent or run", "import", c.file("none.jsonl", `{"type":"memory","text":"t"}`), "--quiet", "--strict")
	// Two memories, a session and its two messages.
	imported(t, c.ok("import", file, "--user", "ada", "--run", "monday", "--json"), 5, 5, 0, 0, 0)
	imported(t, c.ok("import", file, "--user", "ada", "--run", "monday", "--json"), 5, 0, 0, 5, 0)
	imported(t, c.ok("import", file, "--user", "bob", "--json"), 5, 5, 0, 0, 0)
	if got := c.objects("list", "--user", "ada", "--run", "monday"); len(got) != 2 || got[1]["role"] != "assistant" {
		t.Errorf("listed %v", got)
	}
	extra := c.file("extra.jsonl", `{"user":"u","text":"t","lang":"en"}`)
	if got := one(t, c.objects("import", extra)); fmt.Sprint(got["mapped"]) != "map[lang:metadata.lang]" {
		t.Errorf("%v", got)
	}
	typed := c.file("typed.jsonl", `{"type":"kv","user":"u","key":"k","value":1,"lang":"en"}`)
	r := c.run("import", typed, "--strict")
	if r.code != exitFailed || !strings.Contains(r.err, `line 1: the key "lang" is not known; there are type, user,`) {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	c.ok("import", typed, "--strict", "--ignore-unknown")
	c.fails(exitUsage, "exclude each other", "import", extra, "--strict", "--skip-bad")
	c.fails(exitUsage, `--format "yaml": there are auto, jsonl, json, fbin, u8bin, anthropic, chatgpt,`, "import", extra, "--format", "yaml")
	q := c.file("q.jsonl", `{"query":"t","filters":"x"}`)
	r = c.run("recall", "--queries", q, "--user", "u")
	if r.code != exitFailed || !strings.Contains(r.err, `line 1: the key "filters" is not known; there are id, query, embedding, user, agent, run, filter, limit, profile`) {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	db, err := engine.Open(c.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if r, err := db.Check(t.Context()); err != nil || !r.OK {
		t.Error(r, err)
	}
}

// Whatever a file or a flag holds, the error says what is wrong, and nothing that is
// stored changes but by the good records.
func TestBadFiles(t *testing.T) {
	race.Sequential(t)
	const good = `{"id":"good","user":"u","text":"whole"}` + "\n"
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	object := strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)
	for _, test := range []struct {
		name, file, text string
		args             []string
		stored           int
		want             string
	}{
		{"cut in a line", "a.jsonl", good + `{"id":"b","user":"u","te`, nil, 1, "line 2: malformed JSON at byte 24: it ends too early"},
		{"cut in a character", "a.jsonl", good + "{\"user\":\"u\",\"text\":\"caf\xc3", nil, 1, "line 2: invalid UTF-8 at byte 24"},
		{"cut vectors", "a.fbin", floatRows(2, 1, 2, 3, 4)[:20], []string{"--agent", "u"}, 0, "the file ends in row 1 of 2"},
		{"vectors with an end", "a.fbin", floatRows(2, 1, 2, 3, 4) + "end", []string{"--agent", "u"}, 0, "the file goes on after the 2 rows"},
		{"a vector that is none", "a.fbin", floatRows(2, 1, 2, 0, 0), []string{"--agent", "u"}, 1, "a.fbin: row 1: store a memory: its vector"},
		{"UTF-16", "a.jsonl", "\xff\xfe{\x00\"\x00", nil, 0, "the text is UTF-16, not UTF-8"},
		{"byte order mark", "a.jsonl", "\ufeff" + good, nil, 1, ""},
		{"Latin 1", "a.jsonl", good + "{\"user\":\"u\",\"text\":\"caf\xe9\"}\n", nil, 1, "line 2: invalid UTF-8 at byte 24"},
		{"compressed", "a.jsonl.gz", "\x1f\x8b\x08\x00\x00", nil, 0, "the file cannot be unpacked: unexpected EOF"},
		{"unknown format", "a.txt", good, []string{"--format", "yaml"}, 0, "there are auto, jsonl, json, fbin, u8bin, anthropic, chatgpt,"},
		{"a line of 70 MB", "a.jsonl", good + `{"user":"u","text":"` + strings.Repeat("x", 70<<20) + "\"}\n", nil, 1, "line 2: longer than 64 MiB"},
		{"a text of 9 MB", "a.jsonl", good + `{"user":"u","text":"` + strings.Repeat("x", 9<<20) + "\"}\n", nil, 1, "line 2: store a memory: its text is 9437184 bytes long, the limit is 8388608"},
		{"metadata nested 10,000 deep", "a.jsonl", good + `{"user":"u","text":"t","metadata":` + object + "}\n", nil, 1, "line 2: malformed JSON at byte "},
		{"metadata nested 33 deep", "a.jsonl", good + `{"user":"u","text":"t","metadata":` + strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33) + "}\n", nil, 1, "line 2: "},
		{"a value nested 10,000 deep", "a.jsonl", good + `{"type":"kv","user":"u","key":"k","value":` + deep + "}\n", nil, 1, "line 2: malformed JSON at byte "},
		{"a value that is no JSON", "a.jsonl", good + `{"type":"kv","user":"u","key":"k","value":yes}` + "\n", nil, 1, "line 2: malformed JSON at byte 43"},
		{"a key of 1 MB", "a.jsonl", good + `{"type":"kv","user":"u","key":"` + strings.Repeat("k", 1<<20) + `","value":1}` + "\n", nil, 1, "the key is 1048576 bytes long, the limit is 1024"},
	} {
		c := newCLI(t)
		file := c.file(test.file, test.text)
		c.ok("kv", "put", "before", "1", "--user", "u")
		r := c.run(append([]string{"import", file}, test.args...)...)
		if (r.code != exitDone) != (test.want != "") || !strings.Contains(r.err, test.want) || len(r.err) > 2000 {
			t.Errorf("%s: exit %d, %.500s, want %s", test.name, r.code, r.err, test.want)
		}
		got := c.objects("list", "--all-scopes")
		if len(got) != test.stored || len(c.objects("kv", "list", "--user", "u")) != 1 {
			t.Errorf("%s: %d memories, want %d", test.name, len(got), test.stored)
		}
		if o := one(t, c.objects("check")); o["ok"] != true {
			t.Errorf("%s: check %v", test.name, o)
		}
	}
}

// A vector that cannot be used is refused wherever it comes from, in words that say why,
// and changes nothing. A file that holds no vectors makes no database.
func TestBadVectors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	bad := []struct{ name, file, says string }{
		{"NaN", floatRows(2, nan, 1), "component 0 of 2 is NaN"},
		{"infinite", floatRows(2, 1, inf), "component 1 of 2 is -Inf"},
		{"zero", floatRows(2, 0, 0), "all 2 components are zero"},
		{"of another dimension", floatRows(3, 1, 2, 3), "its vector has 3 dimensions, those of the space default have 2"},
		{"of no dimension", "\x01\x00\x00\x00\x00\x00\x00\x00", "its rows have 0 dimensions and 1 to 4096 are possible"},
		{"of 100,000 dimensions", floatRows(100_000, make([]float32, 100_000)...), "its rows have 100000 dimensions"},
		{"with a head cut short", "\x01\x00\x00", "the file ends after 3 bytes of its head"},
	}
	c := newCLI(t)
	for _, b := range bad[4:] {
		c.fails(exitFailed, b.says, "import", c.file("none.fbin", b.file), "--agent", "a")
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files without a vector made a database: %v", err)
	}
	c.ok("store", "whole", "--agent", "a", "--embedding", "[3,4]")
	before := c.ok("export", "-")
	for _, b := range bad {
		file := c.file("bad.fbin", b.file)
		for _, args := range [][]string{
			{"import", file, "--agent", "a"},
			{"import", file, "--agent", "a", "--strict"},
			{"recall", "--queries", file, "--agent", "a", "--profile", "vector"},
		} {
			if r := c.run(args...); r.code != exitFailed || !strings.Contains(r.err, b.says) || strings.Contains(r.out, "{") {
				t.Errorf("%s: %s: exit %d, %s%s, want %s", b.name, args[0], r.code, r.out, r.err, b.says)
			}
		}
	}
	for _, b := range []struct{ vector, says string }{
		{"[1,2,3]", "its vector has 3 dimensions, those of the space default have 2"},
		{"[0,0]", "all 2 components are zero"},
		{"[1,NaN]", "malformed JSON at byte 4"},
		{"[1,1e39]", "it has the number 1e39"},
		{"[1,null]", "it has null in it, not a number"},
		{"[]", "it is no list of numbers"},
		{"[" + strings.Repeat("1,", 99_999) + "1]", "its vector has 100000 dimensions"},
	} {
		for _, args := range [][]string{{"store", "another"}, {"recall", "whole"}} {
			c.fails(exitUsage, b.says, append(args, "--agent", "a", "--embedding", b.vector)...)
		}
	}
	if after := c.ok("export", "-"); after != before {
		t.Errorf("it is now\n%s, and was\n%s", after, before)
	}
}

// What a flag holds is refused with exit 2, in words that say what there is, and
// changes nothing.
func TestBadFlags(t *testing.T) {
	c, d := newCLI(t), newCLI(t)
	for i := range 3 {
		c.ok("store", fmt.Sprint("text ", i), "--user", "u")
		d.ok("store", fmt.Sprint("text ", i), "--user", "u")
	}
	before := c.ok("export", "-")
	of := func(c *cli, args ...string) string {
		_, cursor, ok := strings.Cut(c.run(append([]string{"list", "--user", "u", "--limit", "1"}, args...)...).err, "--after ")
		if !ok {
			t.Fatal("no cursor")
		}
		return strings.TrimSpace(cursor)
	}
	nested := strings.Repeat(`{"NOT":`, 10_000) + `{"field":"a","op":"eq","value":1}` + strings.Repeat("}", 10_000)
	operators := "eq, ne, gt, gte, lt, lte, in, nin, contains, icontains"
	for _, test := range []struct {
		want string
		args []string
	}{
		{"it is empty; leave it out, or write it as role = user", []string{"delete", "--all", "--user", "u", "--filter", " "}},
		{"the cursor is of another database", []string{"list", "--user", "u", "--after", of(d)}},
		{"the cursor is of a list in another order", []string{"list", "--user", "u", "--order-by", "id", "--after", of(c)}},
		{"the cursor is none", []string{"list", "--user", "u", "--after", "page2"}},
		{operators, []string{"list", "--user", "u", "--filter", "role like user"}},
		{operators, []string{"recall", "text", "--user", "u", "--filter", `{"field":"role","operator":"like","value":"user"}`}},
		{operators, []string{"delete", "--all", "--user", "u", "--filter", "role like user"}},
		{operators, []string{"export", "-", "--filter", "role like user"}},
		{"hash is no field of a filter; use text", []string{"delete", "--all", "--user", "u", "--filter", "not hash contains x"}},
		{"user, assistant, system or tool", []string{"delete", "--all", "--user", "u", "--filter", "role != asistant"}},
		{"write 2026-01-01", []string{"delete", "--all", "--user", "u", "--filter", "not created_at > 2026"}},
		{"unknown escape", []string{"list", "--user", "u", "--filter", `text contains "\d"`}},
		{"nests deeper than 64", []string{"list", "--user", "u", "--filter", nested}},
		{"nests deeper than 64", []string{"list", "--user", "u", "--filter", strings.Repeat("(", 10_000) + "a = 1" + strings.Repeat(")", 10_000)}},
		{`the value is no JSON`, []string{"kv", "put", "k", "yes", "--user", "u"}},
		{"the key is 1048576 bytes long, the limit is 1024", []string{"kv", "put", strings.Repeat("k", 1<<20), "1", "--user", "u"}},
		{"the key is 1048576 bytes long, the limit is 1024", []string{"kv", "get", strings.Repeat("k", 1<<20), "--user", "u"}},
	} {
		if r := c.run(test.args...); r.code != exitUsage || r.out != "" || !strings.Contains(r.err, test.want) || len(r.err) > 500 {
			t.Errorf("%.60s: exit %d, %s%.500s, want %s", test.args, r.code, r.out, r.err, test.want)
		}
	}
	if after := c.ok("export", "-"); after != before {
		t.Errorf("it is now\n%s, and was\n%s", after, before)
	}
}

// A path that can't be used is named, with what to do.
func TestBadPaths(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "x", "--user", "u")
	absent := filepath.Join(t.TempDir(), "absent", "file")
	c.fails(exitFailed, "; check the path", "import", absent)
	c.fails(exitFailed, "; check the path", "export", absent)
	c.fails(exitFailed, "; check the path", "recall", "--queries", absent, "--user", "u")
	c.fails(exitUsage, "it is a folder; name a file", "export", t.TempDir(), "--force")
	c.fails(exitUsage, "the name of the file is empty", "export", "")
	c.fails(exitFailed, "it is a folder; name a file", "recall", "--queries", t.TempDir(), "--user", "u")
	link := newCLI(t)
	if err := os.Symlink("nowhere", link.dir); err == nil { // which not everyone may on Windows
		for _, args := range [][]string{{"store", "x", "--user", "u"}, {"list", "--user", "u"}} {
			link.fails(exitFailed, "it is a link to a folder that does not exist; make that folder, or name another", args...)
		}
	}
	for system, want := range map[error]string{
		syscall.EROFS:  "; it must be a place that can be written",
		syscall.ENOSPC: "; make room on the disk",
		syscall.EIO:    "",
	} {
		if got := pathHint(fmt.Errorf("open: %w", &fs.PathError{Op: "open", Path: "db", Err: system})); got != want {
			t.Errorf("%v: %q", system, got)
		}
	}
	c.fails(exitUsage, `its role is "robot"; give user, assistant, system or tool`, "store", "x", "--user", "u", "--role", "robot")
}

// One document is what the lines are, and goes from one agent to another.
func TestExportAsADocument(t *testing.T) {
	c := newCLI(t)
	c.ok("agent", "add", "researcher", "--name", "R", "--metadata", `{"team":"search"}`)
	c.ok("session", "append", "monday", "The kiln arrived.", "--agent", "researcher", "--channel", "telegram")
	c.ok("graph", "add", `{"id":"kiln","type":"thing","relations":[{"target":"shed","type":"in"}]}`, "--agent", "researcher")
	c.ok("usage", "add", "--agent", "researcher", "--model", "m", "--prompt", "3", "--completion", "1", "--cost", "0.0123")
	c.ok("usage", "budget", "set", "5", "--agent", "researcher")
	c.ok("kv", "put", "k", "1", "--agent", "researcher")
	c.ok("store", "of another", "--agent", "coder")
	dir := t.TempDir()
	doc, lines := filepath.Join(dir, "all.json"), filepath.Join(dir, "all.jsonl")
	report := one(t, parseLines(t, c.ok("export", doc, "--format", "json", "--json")))
	if got := fmt.Sprint(report["memories"], report["lines"]); got != "2 map[agent:1 budget:1 entity:1 kv:1 message:1 relation:1 session:1 usage:1]" {
		t.Errorf("exported %s", got)
	}
	if got := c.ok("export", lines); got != "exported 2 memories, 0 events of histories, 1 key, 1 agent, 1 budget, 1 entity, 1 message, 1 relation, 1 session and 1 record of usage\n" {
		t.Errorf("exported %q", got)
	}
	var items []json.RawMessage
	if err := json.Unmarshal([]byte(contents(t, doc)), &items); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, i := range items {
		fmt.Fprintf(&text, "%s\n", i)
	}
	if text.String() != contents(t, lines) {
		t.Errorf("the document has\n%s\nthe lines are\n%s", text.String(), contents(t, lines))
	}
	d := newCLI(t)
	got := one(t, parseLines(t, d.ok("import", doc, "--json")))
	if got["read"] != 10.0 || got["fragments_imported"] != 2.0 || got["entities_imported"] != 1.0 || got["skipped"] != 0.0 {
		t.Errorf("%v", got)
	}
	if again := d.ok("export", "-"); again != contents(t, lines) {
		t.Errorf("exported again\n%s\nwant\n%s", again, contents(t, lines))
	}
	e := newCLI(t)
	e.ok("import", doc, "--into-agent", "heir")
	if moved := strings.NewReplacer("researcher", "heir", "coder", "heir").Replace(contents(t, lines)); e.ok("export", "-") != moved {
		t.Errorf("moved\n%s\nwant\n%s", e.ok("export", "-"), moved)
	}
	e.fails(exitUsage, "--into-agent names one agent, instead of --agent", "import", doc, "--into-agent", "a", "--agent", "b")
	e.fails(exitUsage, "--into-agent names one agent", "import", doc, "--into-agent", "")
	e.fails(exitUsage, `--format "xml": there are jsonl, json, markdown, sqlite and mcp`, "export", doc, "--format", "xml")
	cut := c.file("cut.json", `[{"id":"a","user":"u","text":"one"},`+"\n"+`{"id":"b","user":`)
	e.fails(exitFailed, "malformed JSON behind byte", "import", cut)
	e.ok("get", "a", "--user", "u")
}
