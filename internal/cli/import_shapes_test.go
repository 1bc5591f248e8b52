package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// anyRecord is a random record: a line of memdb's own, one of a stranger, or one that cannot be stored.
func anyRecord(r *rand.Rand, n int) map[string]any {
	pick := func(of ...any) any { return of[r.IntN(len(of))] }
	o := map[string]any{}
	switch r.IntN(8) {
	case 0:
		o = map[string]any{"type": "kv", "user": "u", "key": fmt.Sprintf("k%d", r.IntN(5)), "value": r.IntN(3)}
	case 1:
		o = map[string]any{"type": "entity", "user": "u", "id": fmt.Sprintf("e%d", r.IntN(5)), "entity_type": "t", "name": fmt.Sprintf("name %d", r.IntN(9))}
	case 2:
		o = map[string]any{"type": "relation", "user": "u", "from": fmt.Sprintf("e%d", r.IntN(5)), "relation": "knows", "to": fmt.Sprintf("e%d", r.IntN(5))}
	case 3:
		o = map[string]any{"type": "memory", "user": "u", "id": fmt.Sprintf("m%d", r.IntN(9)), "text": fmt.Sprintf("own %d", r.IntN(4)), "importance": pick(0.5, 3)}
	default:
		o[pick("text", "content", "body", "note").(string)] = fmt.Sprintf("words %d", r.IntN(20))
	}
	for range r.IntN(4) {
		switch r.IntN(8) {
		case 0:
			o["ts"] = pick("2026-01-02 03:04:05", "2026-01-02T03:04:05Z", 1767323045, 1767323045.25, "soon")
		case 1:
			o["role"] = pick("user", "human", "assistant", "chef")
		case 2:
			o[pick("id", "uuid").(string)] = fmt.Sprintf("id%d", r.IntN(6))
		case 3:
			o[pick("user_id", "agent").(string)] = pick("bob", "ada")
		case 4:
			o["mood"] = pick("good", 7, true, map[string]any{"a": []any{1, "b"}})
		case 5:
			o["nothing"] = nil
		case 6:
			o["created_at"] = pick("2026-01-02", "never")
		case 7:
			if o["type"] == nil {
				o["type"] = pick("task", "fact", "message")
			}
		}
	}
	return o
}

// inShape writes records in one of the shapes in which records come.
func inShape(t *testing.T, shape string, records []map[string]any) (name, text string) {
	t.Helper()
	marshal := func(v any, indent string) string {
		b, err := json.MarshalIndent(v, "", indent)
		if indent == "" {
			b, err = json.Marshal(v)
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	switch shape {
	case "lines":
		var lines []string
		for _, o := range records {
			lines = append(lines, marshal(o, ""))
		}
		return "a.jsonl", strings.Join(lines, "\n")
	case "list":
		return "a.json", marshal(records, "")
	case "pretty":
		return "a.json", marshal(records, "  ")
	case "wrapped":
		return "a.json", marshal(map[string]any{"data": records, "total": 3}, "  ")
	case "single":
		return "a.json", marshal(records[0], "  ")
	}
	columns := slices.Sorted(maps.Keys(records[0]))
	rows := []string{strings.Join(columns, ",")}
	for _, o := range records {
		var row []string
		for _, c := range columns {
			field := ""
			if o[c] != nil {
				field = strings.ReplaceAll(fmt.Sprint(o[c]), `"`, "'")
			}
			row = append(row, `"`+field+`"`)
		}
		rows = append(rows, strings.Join(row, ","))
	}
	return "a.csv", strings.Join(rows, "\n")
}

// figures are the counts of a report, without those that differ from run to run.
func figures(report map[string]any) map[string]any {
	out := maps.Clone(report)
	for _, key := range []string{"seconds", "link_seconds", "dry_run", "kinds"} {
		delete(out, key)
	}
	return out
}

// TestDryRunIsTheRun verifies for random records in every shape that a dry run has every figure of the
// import, that it leaves nothing behind, that a second import changes nothing, and that every key of the
// input is in the database or in the report.
func TestDryRunIsTheRun(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for _, kind := range []string{"data", "data.memdb"} {
		c := newCLI(t)
		c.dir = filepath.Join(t.TempDir(), kind)
		for i, shape := range []string{"lines", "list", "pretty", "wrapped", "single", "csv", "lines", "list"} {
			var records []map[string]any
			for n := range 1 + r.IntN(30) {
				records = append(records, anyRecord(r, n))
			}
			name, text := inShape(t, shape, records)
			file := c.file(name, text)
			args := []string{"import", file, "--user", "ada", "--json", "--skip-bad"}
			if r.IntN(3) == 0 {
				args = append(args, "--upsert")
			}
			before := ""
			if i > 0 {
				before = c.ok("export", "-")
			}
			dry := c.run(append(args, "--dry-run")...)
			if i == 0 {
				if _, err := os.Stat(c.dir); err == nil {
					t.Errorf("seed %d: a dry run made a database", seed)
				}
			} else if after := c.ok("export", "-"); after != before {
				t.Errorf("seed %d: a dry run changed\n%s\nto\n%s", seed, before, after)
			}
			real := c.run(args...)
			promised, done := parseLines(t, dry.out), parseLines(t, real.out)
			if dry.code != real.code || !reflect.DeepEqual(figures(promised[len(promised)-1]), figures(done[len(done)-1])) {
				t.Errorf("seed %d, %s, %s\n%s\na dry run: exit %d %s %v\nthe import: exit %d %v", seed, kind, shape, text, dry.code, dry.err, promised[len(promised)-1], real.code, done[len(done)-1])
			}
			stored := c.ok("export", "-")
			if !slices.Contains(args, "--upsert") {
				again := c.run(args...)
				if got := one(t, parseLines(t, again.out)); got["stored"] != 0.0 || got["updated"] != 0.0 {
					t.Errorf("seed %d, %s: a second import: %v", seed, shape, got)
				}
				if now := c.ok("export", "-"); now != stored {
					t.Errorf("seed %d, %s: a second import changed\n%s\nto\n%s", seed, shape, stored, now)
				}
			}
			report := fmt.Sprint(done[len(done)-1])
			switch shape {
			case "single":
				records = records[:1]
			case "csv": // it has the columns of the first
				records = []map[string]any{records[0]}
			}
			if done[len(done)-1]["skipped"] != 0.0 { // the errors name the records, not their keys
				records = nil
			}
			for _, o := range records {
				for key, v := range o {
					if key == "content" && done[len(done)-1]["format"] == "chats" && strings.Contains(stored, v.(string)) {
						continue // what one message says is the text of its memory
					}
					if v != nil && !strings.Contains(stored, `"`+key+`"`) && !strings.Contains(report, key) {
						t.Errorf("seed %d, %s: the key %q is nowhere: %s", seed, shape, key, report)
					}
				}
			}
			if one(t, c.objects("check"))["ok"] != true {
				t.Errorf("seed %d: check fails", seed)
			}
		}
	}
}

// TestImportScopeFlags verifies what the flags of scopes do to every record, and that the preview says so.
func TestImportScopeFlags(t *testing.T) {
	c := newCLI(t)
	file := c.file("a.jsonl", `{"id":"1","text":"one"}
{"id":"2","text":"two","agent":"helper"}
{"id":"3","text":"three","user":"bob","colour":"red"}
`)
	for _, args := range [][]string{{"--dry-run"}, nil} {
		got := c.objects(append([]string{"import", file, "--user", "ada"}, args...)...)
		last := got[len(got)-1]
		if last["stored"] != 3.0 || fmt.Sprint(last["elsewhere"]) != "map[bob/:1]" {
			t.Errorf("%v", last)
		}
		if args != nil && (got[0]["whose"] != "ada/" || got[1]["whose"] != "ada/helper" || got[2]["whose"] != "bob/") {
			t.Errorf("samples %v", got)
		}
	}
	if got := c.objects("list", "--user", "ada"); len(got) != 2 {
		t.Errorf("of ada: %v", got)
	}
	if out := c.ok("import", file, "--user", "ada", "--dry-run"); !strings.Contains(out, "ada/helper: two") || !strings.Contains(out, "elsewhere: 1 bob/\n") || !strings.Contains(out, "mapped: colour → metadata.colour\n") {
		t.Errorf("for people: %s", out)
	}
	d := newCLI(t)
	if got := one(t, d.objects("import", file, "--user", "ada", "--force-scope")); got["stored"] != 3.0 || fmt.Sprint(got["elsewhere"]) != "map[]" {
		t.Errorf("%v", got)
	}
	if got := d.objects("list", "--all-scopes"); len(got) != 3 || got[1]["agent"] != "" || got[2]["user"] != "ada" {
		t.Errorf("%v", got)
	}
	e := newCLI(t)
	e.ok("import", file, "--into-user", "eve", "--into-agent", "bot")
	if got := e.objects("list", "--user", "eve", "--agent", "bot"); len(got) != 3 {
		t.Errorf("%v", got)
	}
	e.fails(exitUsage, "--into-user names one user", "import", file, "--into-user", "eve", "--user", "ada")
	e.fails(exitUsage, "--force-scope needs", "import", file, "--force-scope")
}

// TestImportMap verifies that --map names the keys of fields, in lists, rows and nested objects, and
// that names which are none are said.
func TestImportMap(t *testing.T) {
	c := newCLI(t)
	file := c.file("a.json", `[{"n":1,"payload":{"say":"hello","by":"x"},"when":"2026-01-02 03:04","text":"other"}]`)
	r := c.run("import", file, "--user", "u", "--map", "text=payload.say,created_at=when", "--map", "role=who", "--timezone", "+01:00", "--json")
	got := one(t, parseLines(t, r.out))
	if fmt.Sprint(got["mapped"]) != "map[n:metadata.n payload:metadata.payload payload.say:text text:metadata.text when:created_at]" || !strings.Contains(r.err, `no record has the key "who", which is to be the role`) {
		t.Errorf("%v %s", got, r.err)
	}
	m := one(t, c.objects("list", "--user", "u"))
	if m["text"] != "hello" || m["created_at"] != "2026-01-02T02:04:00.000Z" || fmt.Sprint(m["metadata"]) != "map[n:1 payload:map[by:x] text:other]" {
		t.Errorf("%v", m)
	}
	c.ok("import", c.file("t.csv", "a,b\n1,row\n"), "--user", "rows", "--map", "text=b,id=a")
	if m := one(t, c.objects("list", "--user", "rows")); m["text"] != "row" || m["id"] != "1" {
		t.Errorf("%v", m)
	}
	c.fails(exitUsage, `there is no field "txt"; there are agent, confidence, created_at,`, "import", file, "--map", "txt=a")
	c.fails(exitUsage, "is not FIELD=KEY", "import", file, "--map", "text")
}

// TestImportOneReader verifies that a record is read alike with and without a key that is none of
// memdb's, in a list and in lines, also its times.
func TestImportOneReader(t *testing.T) {
	for _, when := range []string{`"2026-05-31 21:00:00"`, `"2026-05-31T21:00:00"`, `1780261200.5`, `1780261200000000`, `"Sun, 31 May 2026 21:00:00 +0200"`} {
		var times []any
		for name, text := range map[string]string{
			"own.jsonl": `{"id":"a","user":"u","text":"t","created_at":%s}`, "own.json": `[{"id":"a","user":"u","text":"t","created_at":%s}]`,
			"more.jsonl": `{"id":"a","user":"u","text":"t","created_at":%s,"colour":"red"}`, "more.json": `[{"id":"a","user":"u","text":"t","created_at":%s,"colour":"red"}]`,
			"typed.jsonl": `{"type":"memory","id":"a","user":"u","text":"t","created_at":%s}`, "one.json": "{\"id\":\"a\",\n\"user\":\"u\",\"text\":\"t\",\"created_at\":%s}",
		} {
			c := newCLI(t)
			c.ok("import", c.file(name, fmt.Sprintf(text, when)), "--timezone", "+02:00")
			times = append(times, one(t, c.objects("list", "--user", "u"))["created_at"])
		}
		if len(slices.Compact(times)) != 1 {
			t.Errorf("%s: %v", when, times)
		}
	}
	c := newCLI(t)
	log := `{"id":"s-1","type":"meta","ts":"2025-01-08T00:00:00Z","content":"Log started"}
{"id":"t-1","type":"task","ts":"2025-01-08T00:00:00Z","status":"open","content":"Sand the deck"}
`
	if got := one(t, c.objects("import", c.file("log.jsonl", log), "--user", "u")); got["stored"] != 2.0 || got["skipped"] != 0.0 {
		t.Errorf("%v", got)
	}
	if got := c.objects("list", "--user", "u"); fmt.Sprint(got[1]["metadata"]) != "map[status:open type:task]" || got[1]["created_at"] != "2025-01-08T00:00:00.000Z" {
		t.Errorf("%v", got)
	}
	c.fails(exitFailed, `the key "text" is given twice`, "import", c.file("twice.jsonl", `{"user":"u","text":"a","text":"b"}`), "--strict")
	c.fails(exitFailed, `it names two for the user, "a" and "b"`, "import", c.file("two.jsonl", `{"user":"a","user_id":"b","text":"a"}`), "--strict")
	r := c.run("import", c.file("both.jsonl", `{"user":"u","text":"a","content":"b"}`), "--json")
	if !strings.Contains(r.err, `1 records have both a text and "content", which differ`) {
		t.Errorf("%+v", r)
	}
}

// TestImportGrown verifies that a file that has grown adds what is new, and that memdb's own exports are
// recognised whatever the file is called.
func TestImportGrown(t *testing.T) {
	c := newCLI(t)
	first := `{"user":"u","text":"yes"}` + "\n" + `{"user":"u","text":"yes"}` + "\n"
	c.ok("import", c.file("a.jsonl", first))
	got := one(t, c.objects("import", c.file("a.jsonl", first+`{"user":"u","text":"yes"}`+"\n"+`{"user":"u","text":"no"}`)))
	if got["unchanged"] != 2.0 || got["stored"] != 2.0 {
		t.Errorf("%v", got)
	}
	for _, format := range []string{"jsonl", "json"} {
		export := c.ok("export", "-", "--format", format)
		for _, name := range []string{"a.md", "b.csv", "c.fbin", "d", "conversations.json", "x.jsonl", "y.json"} {
			d := newCLI(t)
			d.ok("import", d.file(name, export))
			if again := d.ok("export", "-", "--format", format); again != export {
				t.Errorf("%s in %s: exported\n%s\nwant\n%s", format, name, again, export)
			}
		}
	}
}
