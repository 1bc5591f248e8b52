package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestMain lets the test binary be the program itself, for tests that need a
// process.
func TestMain(m *testing.M) {
	if os.Getenv("MEMDBCTL_TEST_MAIN") != "" {
		os.Exit(Main(os.Args[1:], nil))
	}
	ordered()
	debug.SetGCPercent(400) // it takes half of the time of many small databases
	os.Exit(m.Run())
}

// A cli runs the program on one folder.
type cli struct {
	t   *testing.T
	dir string
	console
}

func newCLI(t *testing.T) *cli {
	t.Helper()
	return &cli{t: t, dir: filepath.Join(t.TempDir(), "db"), console: console{
		in:         strings.NewReader(""),
		inTerminal: true,
		getenv:     func(string) string { return "" },
		now:        clock.System,
	}}
}

type result struct {
	code     int
	out, err string
}

// run runs the program with --db and the arguments.
func (c *cli) run(args ...string) result {
	c.t.Helper()
	return c.bare(append([]string{"--db", c.dir}, args...)...)
}

func (c *cli) bare(args ...string) result {
	c.t.Helper()
	var out, err bytes.Buffer
	con := c.console
	con.out, con.err = &out, &err
	code := run(c.t.Context(), args, con)
	return result{code, out.String(), err.String()}
}

// ok is run for what must succeed, and returns the output.
func (c *cli) ok(args ...string) string {
	c.t.Helper()
	r := c.run(args...)
	if r.code != exitDone {
		c.t.Fatalf("memdbctl %s: exit %d: %s", strings.Join(args, " "), r.code, r.err)
	}
	return r.out
}

// objects is ok with --json, and returns the objects that were printed.
func (c *cli) objects(args ...string) []map[string]any {
	c.t.Helper()
	return parseLines(c.t, c.ok(append([]string{"--json"}, args...)...))
}

func parseLines(t *testing.T, out string) []map[string]any {
	t.Helper()
	var objects []map[string]any
	for line := range strings.Lines(out) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%q is no JSON object: %v", line, err)
		}
		objects = append(objects, o)
	}
	return objects
}

// one is the only object of several.
func one(t *testing.T, objects []map[string]any) map[string]any {
	t.Helper()
	if len(objects) != 1 {
		t.Fatalf("%d objects: %v", len(objects), objects)
	}
	return objects[0]
}

// fails wants an exit code and an error in the form "memdbctl: …" that says
// something.
func (c *cli) fails(code int, want string, args ...string) {
	c.t.Helper()
	checkFailure(c.t, c.run(args...), code, want, args)
}

func checkFailure(t *testing.T, r result, code int, want string, args []string) {
	t.Helper()
	if r.code != code || !strings.HasPrefix(r.err, "memdbctl: ") || !strings.Contains(r.err, want) ||
		strings.Count(r.err, "\n") != 1 || strings.Contains(r.err, "goroutine") {
		t.Errorf("%q\n got exit %d, %q\nwant exit %d, memdbctl: … %s", args, r.code, r.err, code, want)
	}
	if code == exitUsage && r.out != "" {
		t.Errorf("%q: wrong usage printed %q", args, r.out)
	}
}

// The life of a memory.
func TestLife(t *testing.T) {
	c := newCLI(t)
	stored := one(t, c.objects("store", "Ada", "drinks tea", "--user", "ada"))
	id := stored["id"].(string)
	want := map[string]any{"id": id, "seq": 1.0, "stored": true, "deduplicated": false, "updated": false}
	if !reflect.DeepEqual(stored, want) {
		t.Errorf("stored %v, want %v", stored, want)
	}
	again := one(t, c.objects("store", "Ada drinks tea", "--user", "ada"))
	if again["id"] != id || again["deduplicated"] != true || again["stored"] != false {
		t.Errorf("stored again: %v", again)
	}
	if out := c.ok("store", "Ada drinks tea", "--user", "ada", "--no-dedup"); !strings.HasPrefix(out, "stored ") || strings.Contains(out, id) {
		t.Errorf("--no-dedup: %s", out)
	}

	m := one(t, c.objects("get", id))
	if m["type"] != "memory" || m["text"] != "Ada drinks tea" || m["user"] != "ada" || m["role"] != "user" || m["kind"] != "message" {
		t.Errorf("got %v", m)
	}
	m = one(t, c.objects("update", id, "Ada drinks", "coffee", "--user", "ada"))
	if m["id"] != id || m["text"] != "Ada drinks coffee" || m["seq"] != 1.0 {
		t.Errorf("updated: %v", m)
	}
	if out := c.ok("delete", id); out != "deleted 1\n" {
		t.Errorf("deleted: %q", out)
	}
	c.fails(exitNotFound, id, "get", id)
	c.fails(exitNotFound, id, "update", id, "more")
	c.fails(exitNotFound, id, "delete", id)
	c.fails(exitNotFound, "nothing", "history", "nothing")

	var events []any
	for _, e := range c.objects("history", id) {
		events = append(events, []any{e["type"], e["memory_id"], e["user"], e["event"], e["old_value"], e["new_value"], e["is_deleted"]})
	}
	wantEvents := []any{
		[]any{"history", id, "ada", "ADD", nil, "Ada drinks tea", false},
		[]any{"history", id, "ada", "UPDATE", "Ada drinks tea", "Ada drinks coffee", false},
		[]any{"history", id, "ada", "DELETE", "Ada drinks coffee", nil, true},
	}
	if !reflect.DeepEqual(events, wantEvents) {
		t.Errorf("history %v\nwant    %v", events, wantEvents)
	}
}

// Every flag of store reaches the memory, and is printed as exchange writes it.
func TestStoreFlags(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "Line one\nline <two>", "--user", "u", "--agent", "a", "--run", "r", "--id", "i", "--role", "tool",
		"--kind", "note", "--source", "web_search", "--name", "n", "--alias", "x", "--alias", "y",
		"--metadata", `{"big":12345678901234567890,"deep":{"z":[1]}}`, "--embedding", "[1,0.5,-2]",
		"--importance", "0.25", "--confidence", "0.75", "--event-time", "2024-02-29", "--expires", "2999-01-01T02:00:00+02:00", "--pinned")
	raw := c.ok("--json", "get", "i", "--vectors")
	if !strings.Contains(raw, `"big":12345678901234567890`) || !strings.Contains(raw, `line <two>`) {
		t.Errorf("got %s", raw)
	}
	got := one(t, parseLines(t, raw))
	for _, volatile := range []string{"created_at", "updated_at"} {
		at, err := time.Parse("2006-01-02T15:04:05.000Z", got[volatile].(string))
		if err != nil || time.Since(at) > time.Hour || time.Since(at) < -time.Hour {
			t.Errorf("%s is %v", volatile, got[volatile])
		}
		delete(got, volatile)
	}
	want := map[string]any{
		"type": "memory", "id": "i", "seq": 1.0, "note_id": 1.0, "user": "u", "agent": "a", "run": "r", "role": "tool", "kind": "note",
		"source": "web_search", "text": "Line one\nline <two>", "name": "n", "aliases": []any{"x", "y"},
		"metadata":  map[string]any{"big": 12345678901234567890.0, "deep": map[string]any{"z": []any{1.0}}},
		"embedding": []any{1.0, 0.5, -2.0}, "importance": 0.25, "auto_importance": false, "confidence": 0.75, "stored_confidence": 0.75, "decayed_importance": 0.25, "pinned": true,
		"event_time": "2024-02-29T00:00:00.000Z", "expires_at": "2999-01-01T00:00:00.000Z",
		"hash":         fmt.Sprintf("%x", sha256.Sum256([]byte("Line one\nline <two>"))),
		"access_count": 0.0,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if m := one(t, c.objects("get", "i")); m["embedding"] != nil {
		t.Errorf("the vector is printed without --vectors: %v", m)
	}
}

func TestUpdateFlags(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "text", "--user", "u", "--id", "i", "--importance", "0.9", "--pinned", "--expires", "2999-01-01", "--metadata", `{"a":1}`)
	m := one(t, c.objects("update", "i", "--importance", "auto", "--pinned=false", "--expires", "never", "--metadata", `{"b":2}`,
		"--role", "system", "--source", "s", "--name", "n", "--alias", "x", "--confidence", "0.5", "--event-time", "1705744800"))
	for key, want := range map[string]any{
		"text": "text", "auto_importance": true, "pinned": false, "expires_at": nil, "metadata": map[string]any{"b": 2.0},
		"role": "system", "source": "s", "name": "n", "aliases": []any{"x"}, "confidence": 0.5, "event_time": "2024-01-20T10:00:00.000Z",
	} {
		if !reflect.DeepEqual(m[key], want) {
			t.Errorf("%s is %v, want %v", key, m[key], want)
		}
	}
	c.in = strings.NewReader("from the input\r\n")
	if m := one(t, c.objects("update", "i", "-")); m["text"] != "from the input" {
		t.Errorf("updated from the input: %v", m)
	}
}

// TestExpires: an expiry in seconds is one in seconds, and a date lasts until its end, on the
// command line, in an import and in a filter.
func TestExpires(t *testing.T) {
	c := newCLI(t)
	for id, at := range map[string]string{"seconds": "4070908800", "millis": "4070908800000", "text": "2099-01-01T00:00:00Z"} {
		c.ok("store", "as "+id, "--user", "u", "--id", id, "--expires", at)
	}
	c.ok("store", "a day", "--user", "u", "--id", "day", "--expires", "2099-01-01")
	c.in = strings.NewReader(`{"user":"u","id":"in","text":"imported","expires_at":"2099-01-01","created_at":1705744800}
{"type":"kv","user":"u","key":"k","value":1,"expires_at":"2099-01-01"}
`)
	c.ok("import", "-")
	const begin, end = "2099-01-01T00:00:00.000Z", "2099-01-01T23:59:59.999Z"
	for id, want := range map[string]string{"seconds": begin, "millis": begin, "text": begin, "day": end, "in": end} {
		if m := one(t, c.objects("get", id)); m["expires_at"] != want {
			t.Errorf("%s: %v, want %v", id, m["expires_at"], want)
		}
	}
	if m := one(t, c.objects("get", "in")); m["created_at"] != "2024-01-20T10:00:00.000Z" {
		t.Errorf("created_at is %v", m["created_at"])
	}
	if e := one(t, c.objects("kv", "get", "k", "--user", "u")); e["expires_at"] != end {
		t.Errorf("%v", e)
	}
	for _, at := range []string{"4070908800", "4070908800000", "2099-01-01", "2099-01-01T01:00:00+01:00", `"4070908800"`} {
		if got := c.objects("list", "--user", "u", "--filter", "expires_at = "+at); len(got) != 3 {
			t.Errorf("expires_at = %s finds %d memories, want 3", at, len(got))
		}
	}
}

func TestUpsert(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "one", "--user", "u", "--id", "i")
	c.fails(exitFailed, `"i"`, "store", "two", "--user", "u", "--id", "i")
	if s := one(t, c.objects("store", "two", "--user", "u", "--id", "i", "--upsert")); s["updated"] != true {
		t.Errorf("upsert: %v", s)
	}
	if s := one(t, c.objects("store", "two", "--user", "u", "--id", "i")); s["stored"] != false || s["updated"] != false || s["deduplicated"] != false {
		t.Errorf("the same again: %v", s)
	}
}

func TestStoreReadsTheInput(t *testing.T) {
	for _, test := range []struct {
		args        []string
		in          string
		terminal    bool
		want, error string
	}{
		{[]string{"-"}, "typed\n", true, "typed", ""},
		{nil, "piped\r\n", false, "piped", ""},
		{nil, "two\nlines\n\n", false, "two\nlines\n", ""},
		{nil, "no end", false, "no end", ""},
		{nil, "", true, "", "there is no text"},
		{nil, "", false, "", "text"},
		{nil, "a\xffb", false, "", "UTF-8"},
		{nil, strings.Repeat("x", memory.MaxText+1), false, "", "text"},
		{nil, strings.Repeat("x", memory.MaxText+100), false, "", "longer than the limit of 8,388,608 bytes"},
		{[]string{"--embedding", "[1,2]"}, "not read", false, "", ""},
		{[]string{"a", "-"}, "not read", false, "a -", ""},
	} {
		c := newCLI(t)
		c.in, c.inTerminal = strings.NewReader(test.in), test.terminal
		args := append([]string{"store", "--user", "u", "--id", "i"}, test.args...)
		if test.error != "" {
			c.fails(exitUsage, test.error, args...)
			continue
		}
		c.ok(args...)
		if m := one(t, c.objects("get", "i")); m["text"] != test.want {
			t.Errorf("%q: text %q, want %q", test.args, m["text"], test.want)
		}
	}
}

// Wrong usage says in one line what is wrong and where the help is.
func TestUsage(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"frobnicate", `there is no verb "frobnicate"; see memdbctl --help`},
		{"stor", `there is no verb "stor"; did you mean store`},
		{"strore x --user u", `there is no verb "strore"; did you mean store`},
		{"journal tail", `there is no verb "journal"; see memdbctl --help`},
		{"help frobnicate", `there is no verb "frobnicate"`},
		{"help store extra", `there is no verb "store extra"`},
		{"completion tcsh", `it takes one of bash, zsh, fish and powershell, and got "tcsh"`},
		{"completion bash extra", "extra"},
		{"--frobnicate list", "there is no flag --frobnicate; see memdbctl --help"},
		{"list --frobnicate", "list: there is no flag --frobnicate; see memdbctl list --help"},
		{"list -x", "there is no flag -x"},
		{"list extra", "it takes no argument, and got 1 argument; see"},
		{"list --limit", "--limit: it needs a value"},
		{"list --limit ten", `--limit "ten": it is no whole number`},
		{"list --limit 99999999999999999999", `it is no whole number`},
		{"list --limit -1", "--limit -1: it is not within 1 and 10,000"},
		{"list --limit 0", "--limit 0"},
		{"list --limit 1000000000", "--limit 1000000000"},
		{"list --after", "--after: it needs a value"},
		{"list --json=perhaps", `--json "perhaps": it is neither true nor false`},
		{"list --wait soon", `--wait "soon": it is no duration`},
		{"list --wait -1s", "--wait -1s: it is negative"},
		{"list --filter {", "--filter: "},
		{`list --filter {"op":"like","field":"a","value":1}`, "--filter: "},
		{"get", "it takes one ID, and got 0 arguments"},
		{"get a b", "it takes one ID, and got 2 arguments"},
		{"kv get", "memdbctl: kv get: "},
		{"session append", "memdbctl: session append: "},
		{"history", "it takes one ID"},
		{"update", "it takes an ID"},
		{"update i", "there is nothing to change"},
		{"update i --pinned=perhaps", `--pinned: "perhaps" is neither true nor false`},
		{"delete", "it takes one ID or --all"},
		{"delete a b", "it takes one ID or --all"},
		{"delete a --all", "--all takes no ID"},
		{"recall", "there is no query"},
		{"recall words --queries f", "--queries takes no other query"},
		{"recal words --user u", `there is no verb "recal"; did you mean recall`},
		{"kv pu k 1 --user u", `kv: there is no verb "pu"; did you mean put`},
		{"recall words --limit 10001", "--limit 10001"},
		{"store t --metadata [1]", "--metadata: metadata is a list, not an object"},
		{"store t --metadata {", "--metadata: malformed JSON"},
		{"store t --embedding []", "--embedding: it is no list of numbers"},
		{`store t --embedding [1,null]`, "--embedding: it has null in it, not a number"},
		{`store t --embedding {"a":1}`, "--embedding: it is an object, not a list"},
		{"store t --embedding [1e99]", "--embedding: it has the number 1e99"},
		{"store t --importance much", `--importance: "much" is no number`},
		{"store t --confidence NaNa", `--confidence: "NaNa" is no number`},
		{"store t --event-time yesterday", `--event-time: "yesterday" is no time`},
		{"store t --event-time 1000", "write 1000-01-01 for the beginning of that year"},
		{"store t --event-time 20260131", "nine digits"},
		{"store t --event-time 170574480000000000000000", "check its unit"},
		{"store t --expires 2020-01-31", `--expires: "2020-01-31" is 2020-01-31T23:59:59.999Z, which is past`},
		{"update i --expires 1705744800", "which is past"},
		{"store t --expires never-ever", `--expires: "never-ever" is no time`},
		{"import", "it takes one file"},
		{"import a b", "it takes one file"},
		{"import a --format xml", `--format "xml": there are auto, jsonl, json, fbin, u8bin, anthropic, chatgpt,`},
		{"check extra", "it takes no argument"},
		{"stats extra", "it takes no argument"},
		{"demo extra", "it takes no argument"},
		// What the engine refuses of an argument.
		{"store t", "it names no user, agent or run; give --user, --agent or --run"},
		{"store t --user u --importance 2", "importance"},
		{"store t --user u --confidence NaN", "confidence"},
		{"store t --user u --role boss", "role"},
		{"store t --user u --kind thing", "kind"},
		{"store t --user u --id a\x01b", "ID"},
		{"store t --user u --embedding [0,0]", "vector"},
		{"store t --user u --metadata " + strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000), "metadata"},
	} {
		c := newCLI(t)
		args := strings.Split(test.args, " ")
		c.fails(exitUsage, test.want, args...)
	}
}

// Wrong usage that only shows when the database is there.
func TestUsageWithDatabase(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "text", "--user", "u", "--id", "i", "--embedding", "[1,2,3]")
	for _, test := range []struct{ args, want string }{
		{"list", "it names no user, agent or run; give --user, --agent or --run"},
		{"recall words", "it names no user, agent or run"},
		{"delete --all", "it names no user, agent or run"},
		{"list --user u --after 7", "cursor"},
		{"recall words --user u --profile magic", "profile"},
		{"recall --user u --embedding [1,2]", "3"},
		{"store more --user u --embedding [1,2]", "3"},
		{"update i --embedding [1,2]", "3"},
		{"update i --importance -1", "importance"},
	} {
		c.fails(exitUsage, test.want, strings.Split(test.args, " ")...)
	}
	if got := c.objects("list", "--all-scopes", "--vectors"); len(got) != 1 || len(got[0]["embedding"].([]any)) != 3 {
		t.Errorf("after all that: %v", got)
	}
}

// No verb is wrong usage too, but shows the help.
func TestNoVerb(t *testing.T) {
	r := newCLI(t).bare()
	if r.code != exitUsage || r.out != "" || !strings.Contains(r.err, "Memories:") || strings.Contains(r.err, "memdbctl: ") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// Verbs that read refuse a folder without a database, and make none.
func TestNoDatabase(t *testing.T) {
	for _, args := range [][]string{
		{"get", "i"},
		{"update", "i", "text"},
		{"delete", "i"},
		{"delete", "--all", "--user", "u"},
		{"list", "--user", "u"},
		{"history", "i"},
		{"recall", "words", "--user", "u"},
		{"recall", "--queries", "-", "--user", "u"},
		{"check"},
		{"stats"},
	} {
		c := newCLI(t)
		c.fails(exitFailed, c.dir+": there is no database in this folder; store or import", args...)
		if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q made a folder", args)
		}
	}
	c := newCLI(t)
	c.fails(exitUsage, "; give --user, --agent or --run", "store", "text of nobody")
	c.fails(exitUsage, "; give --user or --agent", "kv", "put", "key", "1")
	c.fails(exitUsage, `its role is "boss"`, "store", "text", "--user", "u", "--role", "boss")
	c.fails(exitUsage, "metadata", "store", "text", "--user", "u", "--metadata", `{"a":`+strings.Repeat(`{"a":`, 40)+"1"+strings.Repeat("}", 41))
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("what can't be stored made a folder")
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "thesis.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(exitFailed, c.dir, "store", "text", "--user", "u")
	c.fails(exitFailed, c.dir, "list", "--user", "u")
	if _, err := os.Stat(filepath.Join(c.dir, "memdb.json")); err == nil {
		t.Error("a database was made among other files")
	}
	c.dir = filepath.Join(c.dir, "thesis.txt")
	c.fails(exitFailed, c.dir, "store", "text", "--user", "u")
	c.fails(exitFailed, c.dir, "list", "--user", "u")
}

func TestFolder(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "by flag", "--user", "u")
	other := filepath.Join(t.TempDir(), "env")
	c.getenv = func(name string) string { return map[string]string{"MEMDB_DIR": other}[name] }
	if r := c.bare("store", "by environment", "--user", "u"); r.code != exitDone {
		t.Fatal(r.err)
	}
	if got := one(t, c.objects("list", "--user", "u")); got["text"] != "by flag" {
		t.Errorf("--db has %v", got)
	}
	if r := c.bare("list", "--user", "u"); !strings.Contains(r.out, "by environment") {
		t.Errorf("$MEMDB_DIR has %q", r.out)
	}
	c.getenv = func(string) string { return "" }
	t.Chdir(t.TempDir())
	if r := c.bare("store", "by default", "--user", "u"); r.code != exitDone {
		t.Fatal(r.err)
	}
	if _, err := os.Stat("memdb.data"); err != nil {
		t.Error(err)
	}
}

func TestLocked(t *testing.T) {
	c := newCLI(t)
	db, err := engine.Open(c.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.fails(exitLocked, c.dir, "--wait", "0s", "store", "text", "--user", "u")
	c.fails(exitLocked, c.dir, "--wait", "120ms", "check")

	done := make(chan result)
	go func() { done <- c.run("--wait", "1m", "store", "text", "--user", "u") }()
	time.Sleep(3 * lockPoll)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if r := <-done; r.code != exitDone {
		t.Errorf("after the other had closed: exit %d, %s", r.code, r.err)
	}
}

// A wait for the lock ends with the context.
func TestLockedInterrupted(t *testing.T) {
	c := newCLI(t)
	db, err := engine.Open(c.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(2*lockPoll, cancel)
	var stderr bytes.Buffer
	c.out, c.err = io.Discard, &stderr
	if code := run(ctx, []string{"--db", c.dir, "--wait", "1h", "check"}, c.console); code != exitFailed || stderr.String() != "memdbctl: interrupted\n" {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
}

func TestDamaged(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "text", "--user", "u")
	damage(t, c.dir)
	c.fails(exitDamaged, c.dir, "list", "--user", "u")
	r := c.run("check", "--json")
	got := one(t, parseLines(t, r.out))
	if problems, _ := got["problems"].([]any); r.code != exitDamaged || got["ok"] != false || len(problems) != 1 {
		t.Errorf("check: exit %d, %v, %s", r.code, got, r.err)
	}
	r = c.run("check")
	if r.code != exitDamaged || strings.Contains(r.out, "ok") || !strings.Contains(r.err, "restore a backup") {
		t.Errorf("check: exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// damage cuts the file that says what the folder is.
func damage(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "memdb.json"), []byte(`{"magic":"mem`), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCheckAndStats(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "one", "--user", "u")
	c.ok("store", "two", "--user", "u", "--embedding", "[1,2]")
	if got, want := one(t, c.objects("check")), (map[string]any{"ok": true, "memories": 2.0, "problems": []any{}}); !reflect.DeepEqual(got, want) {
		t.Errorf("check: %v, want %v", got, want)
	}
	if out := c.ok("check"); out != "ok, 2 memories\n" {
		t.Errorf("check: %q", out)
	}
	if out := c.ok("check", "--deep"); out != "space default: recall@10 1.000 of 1 vector\n"+
		"  asked for stored vectors: recall@10 1.000, the closest first 1.000, of 1 query\n"+
		"  asked for the rarest vectors: recall@10 1.000, the closest first 1.000, of 1 query\nok, 2 memories\n" {
		t.Errorf("check --deep: %q", out)
	}
	deep := one(t, c.objects("check", "--deep"))
	asked := func(kind string, sampled float64) map[string]any {
		return map[string]any{"kind": kind, "sampled": sampled, "recall": 1.0, "first": 1.0}
	}
	if want := []any{map[string]any{"name": "default", "sampled": 1.0, "recall": 1.0, "asked": []any{
		asked("stored", 1), asked("away", 0), asked("between", 0), asked("rare", 1),
	}}}; !reflect.DeepEqual(deep["spaces"], want) {
		t.Errorf("check --deep: %v, want %v", deep["spaces"], want)
	}
	got := one(t, c.objects("stats"))
	for _, key := range []string{"memories", "disk_bytes", "vectors", "terms", "entities", "relations", "sessions", "lsn", "memory"} {
		if _, ok := got[key]; !ok {
			t.Errorf("stats have no %s: %v", key, got)
		}
	}
	if got["memories"] != 2.0 {
		t.Errorf("stats: %v", got)
	}
	sum := 0.0
	for _, n := range got["structures"].(map[string]any) {
		sum += n.(float64)
	}
	if sum != got["disk_bytes"] {
		t.Errorf("the structures take %v of %v bytes", sum, got["disk_bytes"])
	}
	if out := c.ok("stats"); !strings.HasPrefix(out, "memories\t2\n") || !strings.Contains(out, "\nmemory.") {
		t.Errorf("stats: %q", out)
	}
	if r := newCLI(t).run("check", "--json"); r.out != "" {
		t.Errorf("check without a database printed %q", r.out)
	}
}

func TestList(t *testing.T) {
	c := newCLI(t)
	for i := range 7 {
		c.ok("store", fmt.Sprintf("text %d\twith\x1b[31mred", i), "--user", "u", "--id", fmt.Sprint("m", i), "--role", []string{"user", "assistant"}[i%2])
	}
	c.ok("store", "of another", "--user", "v")
	ids := func(args ...string) (ids []string) {
		for _, m := range c.objects(append([]string{"list"}, args...)...) {
			ids = append(ids, m["id"].(string))
		}
		return ids
	}
	if got := ids("--user", "u"); !reflect.DeepEqual(got, []string{"m0", "m1", "m2", "m3", "m4", "m5", "m6"}) {
		t.Errorf("all: %v", got)
	}
	if got := ids("--user", "u", "--order-by", "role", "--descending", "--limit", "7"); !reflect.DeepEqual(got, []string{"m0", "m2", "m4", "m6", "m1", "m3", "m5"}) {
		t.Errorf("by role: %v", got)
	}
	var paged []any
	args := []string{"list", "--user", "u", "--limit", "3"}
	for {
		for _, o := range c.objects(args...) {
			paged = append(paged, o["id"])
		}
		r := c.run(append(args, "--json")...)
		if r.err == "" {
			break
		}
		var page struct{ Next string }
		if err := json.Unmarshal([]byte(r.err), &page); err != nil {
			t.Fatal(err)
		}
		args = []string{"list", "--user", "u", "--limit", "3", "--after", page.Next}
	}
	if want := []any{"m0", "m1", "m2", "m3", "m4", "m5", "m6"}; !reflect.DeepEqual(paged, want) {
		t.Errorf("in pages: %v", paged)
	}
	if got := ids("--user", "u", "--filter", "role = assistant"); !reflect.DeepEqual(got, []string{"m1", "m3", "m5"}) {
		t.Errorf("filtered: %v", got)
	}
	if got := ids("--all-scopes"); len(got) != 8 {
		t.Errorf("all scopes: %v", got)
	}
	if got := ids("--user", "w"); got != nil {
		t.Errorf("of nobody: %v", got)
	}

	r := c.run("list", "--user", "u", "--limit", "2")
	if want := "1\tm0\tuser\ttext 0\\twith\\x1b[31mred\n2\tm1\tassistant\ttext 1\\twith\\x1b[31mred\n"; r.out != want {
		t.Errorf("plain:\n%q, want\n%q", r.out, want)
	}
	cursor, ok := strings.CutPrefix(r.err, "memdbctl: there are more; go on with --after ")
	if !ok || c.ok("list", "--user", "u", "--limit", "1", "--after", strings.TrimSpace(cursor)) != "3\tm2\tuser\ttext 2\\twith\\x1b[31mred\n" {
		t.Errorf("hint %q", r.err)
	}
	if r := c.run("list", "--user", "u", "--limit", "2", "--quiet"); r.err != "" {
		t.Errorf("--quiet: %q", r.err)
	}
	c.outWidth = 34
	if got, want := c.ok("list", "--user", "u", "--limit", "2"), "SEQ  ID  ROLE       TEXT\n1    m0  user       text 0\\twith\\x1b[31…\n2    m1  assistant  text 1\\twith\\x1b[31…\n"; got != want {
		t.Errorf("on a terminal:\n%s, want\n%s", got, want)
	}
}

func TestDeleteAll(t *testing.T) {
	c := newCLI(t)
	for i := range 5 {
		c.ok("store", fmt.Sprint("text ", i), "--user", "u", "--run", []string{"r", "s"}[i%2])
	}
	if got := one(t, c.objects("delete", "--all", "--user", "u", "--run", "r")); got["deleted"] != 3.0 {
		t.Errorf("deleted %v", got)
	}
	if out := c.ok("delete", "--all", "--user", "u"); out != "deleted 2\n" {
		t.Errorf("deleted %q", out)
	}
	if out := c.ok("delete", "--all", "--user", "u"); out != "deleted 0\n" {
		t.Errorf("deleted %q", out)
	}
}

func TestAmbiguous(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "one", "--user", "u", "--id", "i")
	c.ok("store", "two", "--user", "v", "--id", "i")
	c.fails(exitFailed, `"i"`, "get", "i")
	if m := one(t, c.objects("get", "i", "--user", "v")); m["text"] != "two" {
		t.Errorf("got %v", m)
	}
}

func TestGetForPeople(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "first line\nsecond\x07line", "--user", "u", "--id", "i", "--metadata", `{"k":"v"}`, "--pinned")
	if out := c.ok("get", "i"); !strings.Contains(out, "\nmetadata\t{\"k\":\"v\"}\n") || !strings.HasSuffix(out, "\ntext\tfirst line\\nsecond\\aline\n") {
		t.Errorf("plain: %q", out)
	}
	c.outWidth = 20
	if out := c.ok("get", "i"); !strings.Contains(out, "\npinned        yes\n") || !strings.HasSuffix(out, "\ntext          first line\n              second\\aline\n") {
		t.Errorf("on a terminal: %q", out)
	}
}

func TestRecall(t *testing.T) {
	c := newCLI(t)
	for i, text := range []string{"the kettle is blue", "a blue door", "nothing else"} {
		c.ok("store", text, "--user", "u", "--id", fmt.Sprint("m", i))
	}
	hits := c.objects("recall", "blue", "kettle", "--user", "u", "--limit", "2", "--no-touch")
	if len(hits) != 2 || hits[0]["id"] != "m0" || hits[0]["text"] != "the kettle is blue" || hits[0]["score"].(float64) <= hits[1]["score"].(float64) || hits[0]["parts"] != nil {
		t.Errorf("hits %v", hits)
	}
	if m := one(t, c.objects("get", "m0")); m["access_count"] != 0.0 {
		t.Errorf("--no-touch counted: %v", m)
	}
	c.ok("recall", "blue kettle", "--user", "u", "--limit", "1")
	if m := one(t, c.objects("get", "m0")); m["access_count"] != 1.0 || m["last_accessed"] == nil {
		t.Errorf("a recall did not count: %v", m)
	}

	lines := c.objects("recall", "blue kettle", "--user", "u", "--profile", "hybrid", "--explain", "--no-touch")
	plan, _ := lines[len(lines)-1]["plan"].(map[string]any)
	if plan["profile"] != "hybrid" || plan["in_scope"] != 3.0 {
		t.Errorf("the last line is %v", lines[len(lines)-1])
	}
	for _, hit := range lines[:len(lines)-1] {
		sum := 0.0
		for _, part := range hit["parts"].(map[string]any) {
			sum += part.(float64)
		}
		if score := hit["score"].(float64); sum < score-1e-6 || sum > score+1e-6 {
			t.Errorf("the parts of %v add up to %v", hit, sum)
		}
	}
	if out := c.ok("recall", "blue", "--user", "u", "--filter", `{"field":"id","operator":"eq","value":"m1"}`); !strings.HasSuffix(out, "\tm1\ta blue door\n") || strings.Count(out, "\n") != 1 {
		t.Errorf("filtered: %q", out)
	}
	r := c.run("recall", "xylophone", "--user", "u", "--profile", "text")
	if r.code != exitDone || r.out != "" || r.err != "memdbctl: nothing was found\n" {
		t.Errorf("nothing: exit %d, %q, %q", r.code, r.out, r.err)
	}
	out := c.ok("recall", "kettle", "--user", "u", "--profile", "text", "--explain")
	if !strings.Contains(out, "\tm0\tthe kettle is blue\tbm25 ") || !strings.Contains(out, "\nplan: profile text, 3 in scope") {
		t.Errorf("explained: %q", out)
	}
	c.outWidth = 40
	out = c.ok("recall", "kettle", "--user", "u", "--profile", "text", "--explain")
	if !strings.HasPrefix(out, "SCORE  ID  TEXT\n") || !strings.Contains(out, "  m0  the kettle is blue\n    bm25 ") {
		t.Errorf("explained on a terminal: %q", out)
	}
}

func TestRecallByVector(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "--user", "u", "--id", "x", "--embedding", "[1,0]")
	c.ok("store", "--user", "u", "--id", "y", "--embedding", "[0,1]")
	if hits := c.objects("recall", "--user", "u", "--embedding", "[0.1,1]", "--profile", "vector", "--limit", "1", "--vectors"); len(hits) != 1 || hits[0]["id"] != "y" || hits[0]["embedding"] == nil {
		t.Errorf("hits %v", hits)
	}
}

func TestQueries(t *testing.T) {
	c := newCLI(t)
	for i, text := range []string{"the kettle is blue", "a blue door", "nothing else"} {
		c.ok("store", text, "--user", "u", "--agent", fmt.Sprint("a", i%2), "--id", fmt.Sprint("m", i))
	}
	c.in = strings.NewReader(`{"id":"q1","query":"kettle","filter":null}

{"id":7,"query":"blue","agent":"a1","limit":1}
not json
{"query":"blue","filter":{"field":"id","op":"eq","value":"m1"}}
{"id":"s","query":"blue","filter":"id = m1"}
{"id":"bad","query":"blue","limit":-1}
{"id":"bad","query":"blue","filter":7}
{"id":"bad","query":["blue"]}
{"id":"none","query":"xylophone","profile":"text"}
`)
	r := c.run("recall", "--queries", "-", "--user", "u", "--limit", "2", "--profile", "text")
	var got []string
	for _, o := range parseLines(t, r.out) {
		line := []string{fmt.Sprint(o["id"], ":")}
		for _, h := range o["hits"].([]any) {
			hit := h.(map[string]any)
			if len(hit) != 2 || hit["score"].(float64) <= 0 {
				t.Errorf("hit %v", hit)
			}
			line = append(line, hit["id"].(string))
		}
		if us, ok := o["took_us"].(float64); !ok || us < 0 || len(o) != 3 {
			t.Errorf("answer %v", o)
		}
		got = append(got, strings.Join(line, " "))
	}
	if want := []string{"q1: m0", "7: m1", "5: m1", "s: m1", "none:"}; !reflect.DeepEqual(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
	if r.code != exitFailed {
		t.Errorf("exit %d", r.code)
	}
	lines := strings.Split(strings.TrimSpace(r.err), "\n")
	for i, want := range []string{
		"memdbctl: -: line 4: malformed JSON", "memdbctl: -: line 7: ", "memdbctl: -: line 8: ", "memdbctl: -: line 9: ",
		"memdbctl: 5 queries, ", "memdbctl: -: 4 of 9 queries were not answered",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("errors %q, want %q", lines, want)
		}
	}
	if !strings.Contains(lines[4], "queries a second, p50 ") || !strings.Contains(lines[4], ", p99 ") {
		t.Errorf("speed %q", lines[4])
	}
	if m := one(t, c.objects("get", "m0")); m["access_count"] != 0.0 {
		t.Errorf("queries touched: %v", m)
	}

	file := filepath.Join(t.TempDir(), "q.jsonl")
	if err := os.WriteFile(file, []byte(`{"id":"q","query":"blue","user":"u"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := c.run("recall", "--queries", file, "--quiet", "--explain"); r.code != exitDone || r.err != "" || !strings.Contains(r.out, `"plan":{`) || !strings.Contains(r.out, `"parts":{`) {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	c.fails(exitFailed, "absent.jsonl", "recall", "--queries", "absent.jsonl")
}

// A program may write a query and wait for its answer.
func TestQueriesAnswerAtOnce(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "the kettle is blue", "--user", "u", "--id", "m")
	in, ask := io.Pipe()
	answers, out := io.Pipe()
	c.in, c.out, c.err = in, out, io.Discard
	code := make(chan int)
	go func() {
		code <- run(t.Context(), []string{"--db", c.dir, "recall", "--queries", "-", "--user", "u"}, c.console)
	}()
	d := json.NewDecoder(answers)
	for i := range 3 {
		fmt.Fprintf(ask, `{"id":%d,"query":"kettle"}`+"\n", i)
		var o map[string]any
		if err := d.Decode(&o); err != nil || o["id"] != float64(i) {
			t.Fatalf("answer %v, %v", o, err)
		}
	}
	ask.Close()
	if got := <-code; got != exitDone {
		t.Errorf("exit %d", got)
	}
}

func TestDemo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := newCLI(t)
	r := c.bare("demo")
	if r.code != exitDone || r.err != "" {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	for _, want := range []string{
		"30 turns", "my sister in Ghent looks after Pixel", "\n    cosine ", "  plan: profile hybrid, 30 in scope",
		"already there as turn-01", "  UPDATE  The opening party of the workshop is on Sunday at noon.",
		"  DELETE  Wear gloves", "    oskar\n", "were not recalled for a week", "confidence 0.95  ", "nothing: what one agent remembers",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("the demo does not show %q:\n%s", want, r.out)
		}
	}
	if strings.Contains(r.out, "\x1b") {
		t.Error("styles without a terminal")
	}
	if n := strings.Count(r.out, "\n"); n < 40 || n > 80 {
		t.Errorf("%d lines", n)
	}
	for line := range strings.Lines(r.out) {
		if w := width(strings.TrimSuffix(line, "\n")); w > demoWidth {
			t.Errorf("%d columns: %s", w, line)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v, %v", left, err)
	}
	if _, err := os.Stat(c.dir); err == nil {
		t.Error("the demo made a database where nobody asked for one")
	}
	c.styled, c.outWidth = true, 60
	if r := c.bare("demo"); !strings.Contains(r.out, "\x1b[1m") {
		t.Error("no styles on a terminal")
	}
}

// With --db the demo's memories stay, and it can be repeated.
func TestDemoKept(t *testing.T) {
	c := newCLI(t)
	for range 2 {
		steps := map[any]int{}
		for _, o := range c.objects("demo") {
			steps[o["step"]]++
		}
		if want := (map[any]int{"store": 1, "recall": 4, "store again": 1, "update": 1, "delete": 1, "history": 4, "graph": 3, "consolidate": 1}); !reflect.DeepEqual(steps, want) {
			t.Errorf("steps %v, want %v", steps, want)
		}
		if got := c.objects("list", "--agent", demoAgent); len(got) != len(talk)-1 {
			t.Errorf("%d memories", len(got))
		}
	}
	if got := one(t, c.objects("check")); got["ok"] != true {
		t.Errorf("check: %v", got)
	}
	c = newCLI(t)
	c.ok("store", "mine", "--user", "u")
	if r := c.run("demo"); r.code != exitDone || !strings.Contains(r.err, "speaker and date will not be searched") {
		t.Errorf("beside other memories: exit %d, %s", r.code, r.err)
	}
}

// The help of every verb, word for word: run with -update after a change, and
// read the difference.
func TestHelp(t *testing.T) {
	c := newCLI(t)
	for _, verb := range append([]string{""}, verbs()...) {
		args := []string{"help"}
		if verb != "" {
			args = append(args, verb)
		}
		r := c.bare(args...)
		if r.code != exitDone || r.err != "" {
			t.Errorf("help %s: exit %d, %s", verb, r.code, r.err)
		}
		if long := c.bare(append(args[1:], "--help")...); long != r {
			t.Errorf("%s --help differs from help %s", verb, verb)
		}
		file := filepath.Join("testdata", "help", "memdbctl-"+verb+".txt")
		if verb == "" {
			file = filepath.Join("testdata", "help", "memdbctl.txt")
		}
		golden.Text(t, file, r.out)
	}
}

// TestCommandsPage compares the table of docs/cli.md with the commands.
func TestCommandsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("| command | |\n|---|---|\n")
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		if c.HasParent() && !namesVerbs(c) {
			use := strings.TrimPrefix(strings.TrimSuffix(c.UseLine(), " [flags]"), "memdbctl ")
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(use, "|", `\|`), c.Short)
		}
		for _, below := range c.Commands() {
			add(below)
		}
	}
	add((&app{}).root())
	golden.Table(t, filepath.Join("..", "..", "docs", "cli.md"), "commands", b.String())
}

// commands are the program's own verbs.
func commands() []*cobra.Command {
	a := &app{console: console{}}
	return slices.DeleteFunc(a.root().Commands(), func(c *cobra.Command) bool { return c.Name() == "help" })
}

func verbs() []string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.Name())
	}
	return names
}

// TestVerbs verifies that help lists the verbs in this order.
func TestVerbs(t *testing.T) {
	want := []string{"store", "get", "update", "delete", "list", "groups", "recall", "why", "history", "kv", "session", "note", "graph", "usage", "agent", "user", "erase", "fact", "import", "export", "demo", "policy", "consolidate", "evict", "check", "backup", "restore", "rescue", "convert", "rebuild", "compact", "archive", "replica", "cluster", "embed", "reembed", "key", "stats", "plot", "log", "analyze", "reset", "shell", "mcp"}
	if got := verbs(); !reflect.DeepEqual(got, want) {
		t.Errorf("verbs %v, want %v", got, want)
	}
}

func TestCompletion(t *testing.T) {
	c := newCLI(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := c.bare("completion", shell); r.code != exitDone || !strings.Contains(r.out, "memdbctl") {
			t.Errorf("%s: exit %d, %s", shell, r.code, r.err)
		}
	}
	for args, want := range map[string][]string{
		"store --role ":     {"user", "assistant", "system", "tool"},
		"store --kind ":     {"message", "fragment", "fact", "note", "archive", "summary"},
		"recall --profile ": {"best", "text", "vector", "hybrid", "substrate"},
		"import --format ":  {"auto", "jsonl", "json", "fbin", "u8bin", "anthropic", "chatgpt", "chats", "chroma", "claude", "claude-code", "codex", "csv", "gemini-cli", "langgraph", "markdown", "mcp", "mem0", "openfang", "qdrant", "sqlite"},
		"hi":                {"history"},
	} {
		r := c.bare(append([]string{"__complete"}, strings.Split(args, " ")...)...)
		var got []string
		for line := range strings.Lines(r.out) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(name, ":") {
				got = append(got, name)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", args, got, want)
		}
	}
}

// A result that can't be written is a failure, however late it shows.
func TestOutputFails(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "text", "--user", "u")
	for _, args := range [][]string{{"list", "--user", "u"}, {"list", "--user", "u", "--json"}, {"--help"}, {"stats"}, {"check"}} {
		var stderr bytes.Buffer
		con := c.console
		con.out, con.err = brokenWriter{}, &stderr
		code := run(t.Context(), append([]string{"--db", c.dir}, args...), con)
		checkFailure(t, result{code: code, err: stderr.String()}, exitFailed, "write the output: the pipe is gone", args)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("the pipe is gone") }
