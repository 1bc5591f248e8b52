package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// keysOf are the keys of an object that are not there.
func lacks(o map[string]any, keys ...string) (missing []string) {
	for _, k := range keys {
		if _, ok := o[k]; !ok {
			missing = append(missing, k)
		}
	}
	return missing
}

// The life of a session: append, store into it, show, list, close, archive, delete.
func TestSession(t *testing.T) {
	c := newCLI(t)
	r := one(t, c.objects("session", "append", "monday", "Which plan is the cheapest?", "--agent", "a", "--channel", "telegram", "--message-id", "m1"))
	if l := lacks(r, "session", "message_id", "memory_id", "stored", "deduplicated", "messages"); l != nil || r["message_id"] != "m1" || r["stored"] != true || r["messages"] != 1.0 {
		t.Errorf("append: %v, lacks %v", r, l)
	}
	s := one(t, c.objects("store", "Ada likes tea", "--session", "monday", "--agent", "a", "--role", "assistant", "--metadata", `{"n":1}`))
	if l := lacks(s, "id", "stored", "deduplicated", "message_id"); l != nil || s["stored"] != true {
		t.Errorf("store --session: %v, lacks %v", s, l)
	}
	c.fails(exitFailed, "its channel is telegram, not discord", "session", "append", "monday", "x", "--agent", "a", "--channel", "discord")
	c.fails(exitUsage, "--run and --session differ", "store", "x", "--session", "monday", "--run", "tuesday", "--agent", "a")
	c.fails(exitUsage, "", "store", "x", "--run", "tuesday", "--agent", "a", "--channel", "telegram")
	c.fails(exitUsage, "there is no text", "session", "append", "monday", "--agent", "a")
	c.fails(exitNotFound, "no memory", "session", "append", "monday", "--agent", "a", "--memory-id", "nobody")
	c.fails(exitNotFound, "no such session", "session", "show", "friday", "--agent", "a")
	c.fails(exitNotFound, "no such session", "session", "show", "monday", "--agent", "b")
	c.ok("session", "append", "monday", "--agent", "a", "--memory-id", s["id"].(string), "--role", "tool", "--at", "2026-01-02")

	all := c.objects("session", "show", "monday", "--agent", "a")
	if len(all) != 3 || all[0]["text"] != "Which plan is the cheapest?" || all[2]["text"] != "Ada likes tea" || all[2]["at"] != "2026-01-02T00:00:00.000Z" {
		t.Errorf("show: %v", all)
	}
	if l := lacks(all[0], "type", "id", "role", "text", "memory_id", "at", "orphan"); l != nil || all[0]["type"] != "message" {
		t.Errorf("a message lacks %v", l)
	}
	if n := len(c.objects("session", "show", "monday", "--agent", "a", "--last", "2")); n != 2 {
		t.Errorf("--last 2: %d", n)
	}
	if n := len(c.objects("session", "show", "monday", "--agent", "a", "--tokens", "5")); n != 1 {
		t.Errorf("--tokens 5: %d", n)
	}
	l := one(t, c.objects("session", "list", "--agent", "a"))
	if m := lacks(l, "type", "session", "user", "agent", "channel", "messages", "compactions", "created_at", "updated_at", "closed"); m != nil || l["type"] != "session" || l["messages"] != 3.0 {
		t.Errorf("list: %v, lacks %v", l, m)
	}
	if o := one(t, c.objects("session", "open", "--channel", "telegram", "--agent", "a")); o["session"] != "monday" {
		t.Errorf("open: %v", o)
	}
	if o := one(t, c.objects("session", "close", "monday", "--agent", "a")); o["closed"] != true {
		t.Errorf("close: %v", o)
	}
	c.fails(exitFailed, "is closed", "session", "append", "monday", "x", "--agent", "a")
	c.ok("session", "archive", "monday", "--agent", "a")
	if n := len(c.objects("session", "list", "--agent", "a")) + 10*len(c.objects("session", "list", "--agent", "a", "--archived")); n != 10 {
		t.Errorf("lists of an archived session: %d", n)
	}
	d := one(t, c.objects("session", "delete", "monday", "--agent", "a", "--with-memories"))
	if fmt.Sprint(d) != "map[deleted:1 memories:2 messages:3]" {
		t.Errorf("delete: %v", d)
	}
	c.fails(exitNotFound, "no such session", "session", "delete", "monday", "--agent", "a")
	c.ok("check")
}

// An export of a session comes in again as it was.
func TestSessionExport(t *testing.T) {
	c := newCLI(t)
	for i := range 5 {
		c.ok("session", "append", "monday", fmt.Sprint("text ", i%3), "--agent", "a")
	}
	for i := range 2 {
		c.ok("session", "compact", "monday", "--agent", "a", "--threshold", "3", "--keep-recent", "1", "--drop")
		for j := range 4 {
			c.ok("session", "append", "monday", fmt.Sprint("more ", i, j), "--agent", "a")
		}
	}
	c.ok("session", "close", "monday", "--agent", "a")
	first := filepath.Join(t.TempDir(), "a.jsonl")
	c.ok("export", first)
	want, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(want), `"type":"message"`); n != 5 {
		t.Errorf("%d messages in the export", n)
	}
	other := newCLI(t)
	other.ok("import", first)
	other.ok("import", first)
	second := filepath.Join(t.TempDir(), "b.jsonl")
	other.ok("export", second)
	got, err := os.ReadFile(second)
	if err != nil || string(got) != string(want) {
		t.Errorf("%v, exported\n%s\nwant\n%s", err, got, want)
	}
}

// Save takes lines as they are; repair mends them, and can be undone; compact summarises.
func TestSessionMend(t *testing.T) {
	c := newCLI(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "damaged.jsonl")
	damaged := `{"id":"","role":"user","text":""}
{"id":"a","role":"user","text":"one","at":"2026-01-02T00:00:02Z"}
{"id":"a","role":"user","text":"one","at":"2026-01-02T00:00:02Z"}
{"id":"b","role":"user","text":"two","memory_id":"gone","at":"2026-01-02T00:00:03Z"}
{"type":"marker","archive_id":"z","archive_name":"old","archived_at":"2026-01-02T00:00:03Z","summarized":2}
{"id":"c","role":"assistant","text":"late","at":"2026-01-02T00:00:09Z"}
{"id":"d","role":"tool","text":"early","at":"2026-01-02T00:00:08Z"}
`
	if err := os.WriteFile(file, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := one(t, c.objects("session", "save", "s", file, "--agent", "a")); s["messages"] != 6.0 {
		t.Errorf("save: %v", s)
	}
	shown := c.ok("session", "show", "s", "--agent", "a", "--all", "--json")
	want := `map[repaired:true stats:map[consecutive_merged:1 doubled_results:0 duplicates_removed:1 empty_removed:1 orphan_results:0 orphaned_refs:1 oversized_detected:0 reordered:1 unanswered_calls:0] total_fixes:4]`
	if r := one(t, c.objects("session", "repair", "s", "--agent", "a", "--dry-run")); fmt.Sprint(r) != want {
		t.Errorf("dry run: %v", r)
	}
	if r := one(t, c.objects("session", "repair", "s", "--agent", "a")); fmt.Sprint(r) != want {
		t.Errorf("repair: %v", r)
	}
	if r := one(t, c.objects("session", "repair", "s", "--agent", "a")); r["repaired"] != false || r["total_fixes"] != 0.0 {
		t.Errorf("again: %v", r)
	}
	if got := c.objects("session", "show", "s", "--agent", "a", "--all"); len(got) != 4 || got[0]["text"] != "one\ntwo" || got[0]["orphan"] != true || got[2]["text"] != "early" {
		t.Errorf("repaired: %v", got)
	}
	c.ok("session", "repair", "s", "--agent", "a", "--undo")
	if got := c.ok("session", "show", "s", "--agent", "a", "--all", "--json"); got != shown {
		t.Errorf("undone:\n%s\nwant\n%s", got, shown)
	}
	c.fails(exitNotFound, "no such session", "session", "repair", "t", "--agent", "a")
	c.fails(exitNotFound, "no such session", "session", "compact", "t", "--agent", "a")
	c.fails(exitUsage, "the threshold is the greater one", "session", "compact", "s", "--agent", "a", "--threshold", "10")
	bad := filepath.Join(dir, "bad.jsonl")
	if err := os.WriteFile(bad, []byte("{\"id\":\"a\"}\n{\"type\":\"memory\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(exitUsage, "line 2", "session", "save", "s", bad, "--agent", "a")
	for line, says := range map[string]string{
		`{"role":"user","content":"hello","content":"bye"}`: `the key "content" is given twice`,
		`{"type":"marker","archive_id":"z","text":"x"}`:     `the key "text" is not known`,
		`{"type":"session","session":"s"}`:                  "neither message nor marker",
		`{"type":"message","role":"user","at":"tomorrow"}`:  `"at"`,
		`7`: "not an object",
	} {
		c.in = strings.NewReader(line)
		c.fails(exitUsage, says, "session", "save", "s", "-", "--agent", "a")
	}
	for line, says := range map[string]string{
		`{"role":"user","content":"hello","colour":"red"}`:      `key "colour"`,
		`{"role":"user","Content":"hello"}`:                     `key "Content"`,
		`{"role":"user","content":"hello","text":"bye"}`:        `key "content"`,
		`{"role":"user","content":7}`:                           "part 7",
		`{"role":"navigator","content":"hello"}`:                `role "navigator"`,
		`{"role":"user","content":[{"type":"smell","of":"x"}]}`: `part "smell"`,
	} {
		c.in = strings.NewReader(line)
		c.fails(exitUsage, says, "session", "save", "strict", "-", "--agent", "a", "--strict")
		if err := os.WriteFile(bad, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		c.fails(exitUsage, says, "session", "append", "strict", "--messages", bad, "--agent", "a", "--strict")
		c.in = strings.NewReader(line)
		if s := one(t, c.objects("session", "save", "loose", "-", "--agent", "a")); s["unknown"] != 1.0 {
			t.Errorf("%s: %v", line, s)
		}
		if s := one(t, c.objects("session", "append", "loose", "--messages", bad, "--agent", "a")); s["unknown"] != 1.0 {
			t.Errorf("%s: %v", line, s)
		}
	}
	c.fails(exitUsage, `role "robot"`, "session", "append", "strict", "x", "--role", "robot", "--agent", "a")

	var long strings.Builder
	for i := range 35 {
		fmt.Fprintf(&long, "{\"id\":\"m%d\",\"role\":\"%s\",\"text\":\"turn %d\"}\n", i, []string{"user", "assistant"}[i%2], i)
	}
	if err := os.WriteFile(file, []byte(long.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.ok("session", "save", "long", file, "--agent", "a")
	r := one(t, c.objects("session", "compact", "long", "--agent", "a"))
	if l := lacks(r, "compacted", "summarized", "kept", "summary_id", "archive_name"); l != nil || r["summarized"] != 25.0 || r["kept"] != 10.0 {
		t.Errorf("compact: %v, lacks %v", r, l)
	}
	if again := one(t, c.objects("session", "compact", "long", "--agent", "a")); again["compacted"] != false {
		t.Errorf("again: %v", again)
	}
	got := c.objects("session", "show", "long", "--agent", "a")
	if len(got) != 11 || got[0]["type"] != "marker" || got[0]["archive_id"] != r["summary_id"] || got[1]["text"] != "turn 25" {
		t.Errorf("show: %v", got)
	}
	if a := one(t, c.objects("get", r["summary_id"].(string), "--agent", "a")); a["kind"] != "archive" || a["role"] != "system" || a["importance"] != 0.9 {
		t.Errorf("archive: %v", a)
	}
	c.ok("check")
}

// officialMessages are conversations as OpenAI and Anthropic write them: requests, and the
// answers as their clients give them.
const officialMessages = `{"role":"developer","content":"Be brief.","name":"ops"}
{"role":"user","content":[{"type":"text","text":"What is <this>?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}]}
{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\"at\": 1.50}"}},{"id":"call_2","type":"custom","custom":{"name":"run","input":"ls"}}]}
{"role":"tool","tool_call_id":"call_1","content":"a cat"}
{"role":"tool","tool_call_id":"call_2","content":[{"type":"text","text":"cat.png"}]}
{"role":"assistant","content":"A cat.","audio":{"id":"a1"},"at":1705744800}
{"role":"function","name":"old","content":"42"}
{"role":"user","content":[{"type":"text","text":"And where?","cache_control":{"type":"ephemeral"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"}}]}
{"id":"msg_1","type":"message","role":"assistant","model":"claude","stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":12345678901234567890},"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"toolu_1","name":"map","input":{"q":"\u00e9"}}]}
{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","is_error":false,"content":[{"type":"text","text":"Ghent"}]}]}
`

// TestOfficialMessages: messages of OpenAI and Anthropic are shown, exported, imported and
// saved again with all that they have, and each has an ID.
func TestOfficialMessages(t *testing.T) {
	c := newCLI(t)
	c.in = strings.NewReader(officialMessages)
	c.ok("session", "save", "s", "-", "--agent", "a")
	shown := c.objects("session", "show", "s", "--agent", "a", "--all")
	lines := strings.Split(strings.TrimSpace(officialMessages), "\n")
	if len(shown) != len(lines) {
		t.Fatalf("%d messages are shown, want %d", len(shown), len(lines))
	}
	for i, line := range lines {
		var want map[string]any
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		got := shown[i]
		if got["id"] == "" || want["id"] != nil && got["id"] != want["id"] {
			t.Errorf("line %d has the ID %v", i+1, got["id"])
		}
		switch content := want["content"].(type) {
		case string:
			want["text"] = content
		case []any:
			want["parts"] = content
		}
		if want["at"] != nil {
			want["at"] = "2024-01-20T10:00:00.000Z"
		}
		delete(want, "content")
		for key, value := range want {
			if !reflect.DeepEqual(got[key], value) {
				t.Errorf("line %d: %s is %v, want %v", i+1, key, got[key], value)
			}
		}
	}
	show := func(c *cli) string { return c.ok("session", "show", "s", "--agent", "a", "--all", "--json") }
	want := show(c)
	for what, fraction := range map[string]string{"an integer": "12345678901234567890", "a fraction": `1.50`, "an escape": `"q":"\u00e9"`} {
		if !strings.Contains(want, fraction) {
			t.Errorf("%s was changed:\n%s", what, want)
		}
	}
	file := filepath.Join(t.TempDir(), "out.jsonl")
	c.ok("export", file)
	other := newCLI(t)
	other.ok("import", file)
	if got := show(other); got != want {
		t.Errorf("imported:\n%s\nwant\n%s", got, want)
	}
	other.in = strings.NewReader(want)
	other.ok("session", "save", "s", "-", "--agent", "a")
	if got := show(other); got != want {
		t.Errorf("saved again:\n%s\nwant\n%s", got, want)
	}
	if r := one(t, c.objects("session", "repair", "s", "--agent", "a")); r["repaired"] != false {
		t.Errorf("what is healthy was repaired: %v", r)
	}
	people := c.ok("session", "show", "s", "--agent", "a", "--all")
	for _, says := range []string{"What is <this>?", "[image_url]", `look {"at": 1.50}`, "run ls", "a cat", "cat.png", "hm", `map {"q":"`, "Ghent"} {
		if !strings.Contains(people, says) {
			t.Errorf("people are not shown %q:\n%s", says, people)
		}
	}
	c.ok("check")
}
