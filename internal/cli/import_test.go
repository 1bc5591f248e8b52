package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// file writes a file to import.
func (c *cli) file(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// imported is the report of an import.
func imported(t *testing.T, out string, read, stored, updated, unchanged, skipped float64) map[string]any {
	t.Helper()
	got := one(t, parseLines(t, out))
	want := map[string]any{
		"read": read, "stored": stored, "updated": updated, "unchanged": unchanged, "skipped": skipped,
		"imported": got["imported"], "fragments_imported": got["fragments_imported"], "entities_imported": got["entities_imported"],
		"errors": got["errors"], "seconds": got["seconds"], "events": got["events"], "format": got["format"], "left_out": got["left_out"],
		"mapped": got["mapped"], "elsewhere": got["elsewhere"],
	}
	if got["notes"] != nil {
		want["notes"] = got["notes"]
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("report %v, want %v", got, want)
	}
	if seconds, ok := got["seconds"].(float64); !ok || seconds < 0 {
		t.Errorf("seconds %v", got["seconds"])
	}
	return got
}

func TestImportLines(t *testing.T) {
	c := newCLI(t)
	file := c.file("some.txt", `{"id":"a","user":"u","text":"one"}
{"id":"b","user":"u","text":"two"
{"type":"history","memory_id":"c","user":7}
{"id":"d","user":"u","text":"four"}
`)
	r := c.run("import", file, "--json")
	report := imported(t, r.out, 4, 2, 0, 0, 2)
	if r.code != exitFailed || !strings.HasSuffix(r.err, "2 of 4 records were skipped; mend them and import again, or accept it with --skip-bad\n") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	if errors := report["errors"].([]any); len(errors) != 2 || errors[0].(map[string]any)["line"] != 2.0 || errors[1].(map[string]any)["line"] != 3.0 {
		t.Errorf("errors %v", report["errors"])
	}
	if !strings.HasPrefix(r.err, "memdbctl: "+file+": line 2: malformed JSON") || !strings.Contains(r.err, "\nmemdbctl: "+file+`: line 3: "user" is a number`) {
		t.Errorf("stderr %q", r.err)
	}

	if out := c.ok("import", file, "--skip-bad"); !strings.HasPrefix(out, "read 4, stored 0, updated 0, unchanged 2, skipped 2 in ") {
		t.Errorf("again: %q", out)
	}
	r = c.run("import", file, "--strict", "--json")
	imported(t, r.out, 2, 0, 0, 1, 1)
	checkFailure(t, r, exitFailed, file+": line 2: malformed JSON", []string{"--strict"})

	changed := c.file("changed.jsonl", `{"id":"a","user":"u","text":"changed"}`)
	r = c.run("import", changed, "--json")
	imported(t, r.out, 1, 0, 0, 0, 1)
	if r.code != exitFailed || !strings.Contains(r.err, "nothing in it could be stored") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	imported(t, c.ok("import", changed, "--json", "--upsert"), 1, 0, 1, 0, 0)
	if m := one(t, c.objects("get", "a")); m["text"] != "changed" {
		t.Errorf("got %v", m)
	}
	c.in = strings.NewReader(`{"user":"u","text":"from the input"}`)
	imported(t, c.ok("import", "-", "--json"), 1, 1, 0, 0, 0)
}

func TestImportRefuses(t *testing.T) {
	c := newCLI(t)
	c.fails(exitFailed, "absent.jsonl", "import", "absent.jsonl")
	c.fails(exitFailed, "none of its files has a known form; name a file: it is empty", "import", t.TempDir())
	c.fails(exitFailed, "the name of the file is empty", "import", "")
	c.fails(exitFailed, "UTF-16", "import", c.file("wide.jsonl", "\xff\xfe{\x00"))
	c.fails(exitFailed, "the file cannot be unpacked: unexpected EOF", "import", c.file("small.jsonl.gz", "\x1f\x8b\x08\x00\x00"))
	c.fails(exitFailed, "the file ends in row 1 of 2", "import", c.file("cut.fbin", floatRows(2, 1, 2, 3, 4)[:20]), "--agent", "u")
	if _, err := os.Stat(c.dir); err == nil {
		t.Error("what can't be read made a database")
	}
}

func TestImportEmptyFile(t *testing.T) {
	c := newCLI(t)
	r := c.run("import", c.file("empty.jsonl", ""), "--json")
	imported(t, r.out, 0, 0, 0, 0, 0)
	checkFailure(t, r, exitFailed, "nothing was stored: it holds no record", []string{"--format"})
}

// The lines of what list prints can be imported, into the same memories.
func TestImportWhatListPrints(t *testing.T) {
	c, d := newCLI(t), newCLI(t)
	c.ok("store", "one", "--user", "u", "--metadata", `{"n":1.50}`, "--importance", "0.3", "--pinned")
	c.ok("store", "two", "--user", "u", "--embedding", "[1,2]", "--event-time", "2024-01-01")
	list := []string{"list", "--all-scopes", "--vectors", "--json"}
	printed := c.ok(list...)
	d.ok("import", d.file("memories.jsonl", printed))
	if got := d.ok(list...); got != printed {
		t.Errorf("got\n%s, want\n%s", got, printed)
	}
}

func TestGuessFormat(t *testing.T) {
	for text, want := range map[string]string{
		"":                            formatJSONL,
		"{}":                          formatJSONL,
		"[":                           formatJSON,
		"[]":                          formatJSON,
		"[1, 2]":                      formatJSON,
		"\n \t[{":                     formatJSON,
		"[{\"type\":\"kv\"}]":         formatJSON,
		"[\n {\n \"id\": \"a\"":       formatJSON,
		"\ufeff\n [\t{ \"sample_id\"": formatJSON,
		"{\n\"user\":\"u\"}":          formatJSONL,
		"\ufffd[":                     formatJSONL,
		"\ufeff{\"a\":[1]}":           formatJSONL,
		"\n{\"user\":\"u\"}\n":        formatJSONL,
	} {
		if got := guessFormat("-", bufio.NewReader(strings.NewReader(text))); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"{\"user\":\"u\"}\n{": formatJSONL, "{\n\"user\":\"a \\\" }\"\n}": formatJSON, "{\"user\":\"u\"\n": formatJSONL, "[": formatJSON,
	} {
		if got := guessFormat("a.json", bufio.NewReader(strings.NewReader(text))); got != want {
			t.Errorf("a.json, %q: %s, want %s", text, got, want)
		}
	}
}

// Progress is a line that is written over on a terminal, and nothing elsewhere.
func TestImportProgress(t *testing.T) {
	c := newCLI(t)
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, `{"user":"u","text":"text %d"}`+"\n", i)
	}
	file := c.file("many.jsonl", text.String())
	start := time.Now()
	var calls atomic.Int64 // the database asks, too
	c.now = func() time.Time { return start.Add(time.Duration(calls.Add(1)) * progressEvery) }
	c.errWidth = 30
	r := c.run("import", file)
	if r.code != exitDone || !strings.Contains(r.err, "\rmany.jsonl: 2") || !strings.HasSuffix(r.err, "\r\x1b[K") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	for part := range strings.SplitSeq(r.err, "\r") {
		if w := width(strings.TrimSuffix(part, "\x1b[K")); w >= c.errWidth {
			t.Errorf("%d columns: %q", w, part)
		}
	}
	if r := c.run("export", file+".out"); r.code != exitDone || !strings.Contains(r.err, "memories exported\x1b[K") && !strings.Contains(r.err, "…\x1b[K") || !strings.HasSuffix(r.err, "\r\x1b[K") {
		t.Errorf("export: exit %d, %q", r.code, r.err)
	}
	if r := c.run("import", file, "--quiet"); r.err != "" {
		t.Errorf("--quiet: %q", r.err)
	}
	c.errWidth = 0
	if r := c.run("import", file); r.err != "" {
		t.Errorf("without a terminal: %q", r.err)
	}
}

// An interrupted import tells what it has done, and leaves a sound database.
func TestImportInterrupted(t *testing.T) {
	c := newCLI(t)
	in, feed := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for i := range 1000 {
			fmt.Fprintf(feed, `{"user":"u","text":"text %d"}`+"\n", i)
		}
		time.Sleep(50 * time.Millisecond)
		cancel() // while the import waits for more
	}()
	var out, stderr bytes.Buffer
	c.in, c.out, c.err = in, &out, &stderr
	code := run(ctx, []string{"--db", c.dir, "import", "-", "--format", "jsonl", "--json"}, c.console)
	if code != exitFailed || stderr.String() != "memdbctl: interrupted\n" {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
	report := one(t, parseLines(t, out.String()))
	if got := one(t, c.objects("check")); got["ok"] != true || got["memories"] != report["stored"] {
		t.Errorf("check %v, report %v", got, report)
	}
}

// lineRows is a file of so many vectors, which lie on a line.
func lineRows(n int) string {
	values := make([]float32, 0, 2*n)
	for i := range n {
		values = append(values, float32(i), 1)
	}
	return floatRows(2, values...)
}

// An import leaves no vector to be linked later.
func TestImportLinks(t *testing.T) {
	c := newCLI(t)
	const n = 5000
	file := c.file("base.fbin", lineRows(n))
	c.ok("import", file, "--agent", "bench")
	s := one(t, c.objects("stats"))["spaces"].([]any)[0].(map[string]any)
	if s["linked"] != float64(n) || s["unlinked"] != 0.0 {
		t.Errorf("%v", s)
	}
}

// Interrupted while it links, an import says so and has stored all.
func TestImportInterruptedLinking(t *testing.T) {
	n := 8000
	c, file, ended := interruptLinking(t, n)
	for ; !ended; c, file, ended = interruptLinking(t, n) { // it was linked before the line appeared
		if n *= 2; n > 1<<20 {
			t.Fatal("linking cannot be interrupted")
		}
	}
	if got := one(t, c.objects("check")); got["ok"] != true || got["memories"] != float64(n) {
		t.Errorf("check %v", got)
	}
	c.ok("import", file, "--agent", "bench")
	s := one(t, c.objects("stats"))["spaces"].([]any)[0].(map[string]any)
	const unsaved = 1 << 10 // Close leaves out of the snapshot what is linked again as quickly
	if linked, unlinked := s["linked"].(float64), s["unlinked"].(float64); linked+unlinked != float64(n) || unlinked >= unsaved {
		t.Errorf("%v", s)
	}
}

// interruptLinking imports vectors, and ends that once a line says that they are
// linked. ended is false where all were linked by then.
func interruptLinking(t *testing.T, n int) (c *cli, file string, ended bool) {
	t.Helper()
	c = newCLI(t)
	file = c.file("base.fbin", lineRows(n))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	stderr := &reaction{to: "linking, ", do: cancel}
	c.out, c.err, c.errWidth = &out, stderr, 80
	code := run(ctx, []string{"--db", c.dir, "import", file, "--agent", "bench"}, c.console)
	c.errWidth = 0
	if code == 0 {
		return c, file, false
	}
	if code != exitFailed || !strings.HasSuffix(stderr.String(), "memdbctl: interrupted\n") || !strings.Contains(out.String(), " stored "+number(n)+",") {
		t.Errorf("exit %d, %q, report %s", code, stderr.String(), out.String())
	}
	return c, file, true
}

// A reaction is a writer that does something once a text has been written.
type reaction struct {
	bytes.Buffer
	to string
	do func()
}

func (r *reaction) Write(p []byte) (int, error) {
	if strings.Contains(string(p), r.to) {
		r.do()
	}
	return r.Buffer.Write(p)
}
