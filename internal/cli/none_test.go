package cli

import (
	"strings"
	"testing"
)

// TestNone: an empty --agent or --user means none, where the other one is given.
func TestNone(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea of hers", "--user", "ada", "--agent", "", "--id", "m1")
	c.ok("store", "tea of the coach", "--user", "ada", "--agent", "coach", "--id", "m1")
	c.fails(exitFailed, `give --user and --agent, "" for none`, "get", "m1", "--user", "ada")
	if m := one(t, c.objects("get", "m1", "--user", "ada", "--agent", "")); m["text"] != "tea of hers" || m["agent"] != "" {
		t.Errorf("%v", m)
	}
	for _, verb := range [][]string{{"list"}, {"recall", "tea"}} {
		hits := c.objects(append(verb, "--user", "ada", "--agent", "")...)
		if len(hits) != 1 || hits[0]["text"] != "tea of hers" {
			t.Errorf("%s: %v", verb, hits)
		}
	}
	if m := one(t, c.objects("update", "m1", "--user", "ada", "--agent", "", "--role", "tool")); m["agent"] != "" || m["role"] != "tool" {
		t.Errorf("%v", m)
	}
	if events := c.objects("history", "m1", "--user", "ada", "--agent", ""); len(events) != 2 {
		t.Errorf("%v", events)
	}
	c.ok("kv", "put", "k", "1", "--user", "ada", "--agent", "")
	if e := one(t, c.objects("kv", "get", "k", "--user", "ada")); e["agent"] != "" {
		t.Errorf("%v", e)
	}
	if n := one(t, c.objects("delete", "--all", "--user", "ada", "--agent", "")); n["deleted"] != 1.0 {
		t.Errorf("%v", n)
	}
	c.fails(exitNotFound, "get memory", "get", "m1", "--user", "", "--agent", "coach")
	c.ok("delete", "m1", "--user", "ada", "--agent", "coach")
	for _, verb := range [][]string{
		{"list", "--user", "", "--agent", ""},
		{"kv", "list", "--user", ""},
		{"usage", "total", "--agent", ""},
		{"groups", "--user", "ada", "--agent", ""},
		{"export", "-", "--user", "ada", "--agent", ""},
	} {
		c.fails(exitUsage, "is empty", verb...)
	}
}

// TestNoHelp: there is no help for a verb that does not exist.
func TestNoHelp(t *testing.T) {
	c := newCLI(t)
	for _, args := range [][]string{{"nosuchverb", "--help"}, {"--help", "nosuchverb"}, {"kv", "nosuchverb", "-h"}, {"help", "nosuchverb"}} {
		if r := c.bare(args...); r.code != exitUsage || r.out != "" || !strings.Contains(r.err, `there is no verb "nosuchverb"`) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	for _, args := range [][]string{{"--help"}, {"kv", "--help"}, {"get", "m1", "--help"}, {"help", "kv", "get"}} {
		if r := c.bare(args...); r.code != exitDone || !strings.Contains(r.out, "Usage:") || r.err != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestHeadings: on a terminal columns have headings.
func TestHeadings(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea", "--user", "ada")
	c.ok("usage", "add", "--agent", "coach", "--model", "m", "--prompt", "2", "--cost", "0.1")
	c.ok("usage", "budget", "set", "5", "--per", "day", "--agent", "coach")
	c.outWidth = 120
	for want, verb := range map[string][]string{
		"CALLS  TOKENS  DOLLARS  AGENT\n": {"usage", "by", "agent"},
		"CALLS  TOKENS  DOLLARS  DAY\n":   {"usage", "by", "day"},
		"DOLLARS  PER\n":                  {"usage", "budget", "list", "--agent", "coach"},
		"MEMORIES  FIRST":                 {"groups", "--all-scopes"},
	} {
		if out := c.ok(verb...); !strings.HasPrefix(out, want) {
			t.Errorf("%v: %q", verb, out)
		}
	}
}

// TestInWords: errors advise in the words of the command line.
func TestInWords(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea", "--user", "ada", "--id", "m1")
	c.fails(exitFailed, "store with --upsert", "store", "coffee", "--user", "ada", "--id", "m1")
	c.ok("kv", "put", "k", "1", "--user", "ada")
	line := `{"type":"kv","user":"ada","key":"k","value":2}`
	if r := c.run("import", c.file("kv.jsonl", line), "--json"); !strings.Contains(r.err, "import with --upsert") || !strings.Contains(r.out, "import with --upsert") {
		t.Errorf("%+v", r)
	}
}

// TestOneFace: what lists, recalls and notes print, an import takes.
func TestOneFace(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea in Ghent", "--user", "ada", "--id", "m1", "--metadata", `{"n":12345678901234567890}`)
	c.ok("note", "add", "deploy", "at six", "--user", "ada")
	c.ok("note", "alias", "deploy", "release", "--user", "ada")
	c.ok("kv", "put", "k", "1", "--user", "ada")
	c.ok("agent", "add", "coach")
	c.ok("usage", "add", "--agent", "coach", "--model", "m", "--prompt", "2", "--cost", "0.1")
	c.ok("usage", "budget", "set", "5", "--agent", "coach")
	c.ok("graph", "add", `{"id":"e","type":"person","properties":{"age":36}}`, "--user", "ada")
	var lines strings.Builder
	for _, verb := range [][]string{
		{"recall", "tea", "--user", "ada", "--explain", "--highlight"},
		{"note", "search", "six", "--user", "ada"},
		{"kv", "list", "--user", "ada"},
		{"agent", "list"},
		{"usage", "budget", "list", "--agent", "coach"},
		{"graph", "list", "--user", "ada"},
	} {
		for _, line := range strings.SplitAfter(c.ok(append(verb, "--json")...), "\n") {
			if !strings.HasPrefix(line, `{"plan"`) {
				lines.WriteString(line)
			}
		}
	}
	again := newCLI(t)
	r := one(t, again.objects("import", again.file("all.jsonl", lines.String()), "--user", "ada"))
	if r["skipped"] != 0.0 || r["stored"] != 6.0 {
		t.Errorf("%v", r)
	}
	if n := one(t, again.objects("note", "get", "release", "--user", "ada")); n["name"] != "deploy" || n["content"] != "at six" {
		t.Errorf("%v", n)
	}
	if out := again.ok("get", "m1", "--user", "ada", "--json"); !strings.Contains(out, `"n":12345678901234567890`) {
		t.Errorf("%s", out)
	}
}
