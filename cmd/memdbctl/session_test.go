package main

import (
	"fmt"
	"os"
	"path/filepath"
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
