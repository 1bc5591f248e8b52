package cli

import (
	"bufio"
	"crypto/md5"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// The life of a fact: it is added once, found, changed and deleted, and its history stays.
func TestFacts(t *testing.T) {
	c := newCLI(t)
	added := one(t, c.objects("fact", "add", "I", "prefer tea", "--user", "ada", "--metadata", `{"topic":"drinks"}`))
	result := added["results"].([]any)[0].(map[string]any)
	id := result["id"].(string)
	want := map[string]any{"event": "ADD", "id": id, "memory": "I prefer tea", "new_memory": "I prefer tea", "metadata": map[string]any{"topic": "drinks"}}
	if !reflect.DeepEqual(result, want) {
		t.Errorf("result %v, want %v", result, want)
	}
	if d := added["degraded"].([]any); len(d) != 1 || d[0].(map[string]any)["step"] != "llm" {
		t.Errorf("degraded %v", d)
	}
	if r := added["relations"].([]any); len(r) != 0 {
		t.Errorf("relations %v", r)
	}
	if r := c.run("fact", "add", "I prefer tea", "--user", "ada"); r.out != "NONE\t"+id+"\tI prefer tea\n" || !strings.Contains(r.err, "memdbctl: llm: there is no language model") {
		t.Errorf("added again: %+v", r)
	}
	if r := c.run("fact", "add", "Hello there!", "--user", "ada", "--quiet"); r.out != "" || r.err != "" || r.code != exitDone {
		t.Errorf("a greeting: %+v", r)
	}
	item := one(t, c.objects("fact", "get", id))
	for key, want := range map[string]any{"memory": "I prefer tea", "user_id": "ada", "hash": fmt.Sprintf("%x", md5.Sum([]byte("I prefer tea"))), "metadata": map[string]any{"topic": "drinks"}} {
		if !reflect.DeepEqual(item[key], want) {
			t.Errorf("%s is %v, want %v", key, item[key], want)
		}
	}
	if found := one(t, c.objects("fact", "search", "tea?", "--user", "ada", "--filter", "topic = drinks")); found["id"] != id || found["score"].(float64) <= 0 {
		t.Errorf("found %v", found)
	}
	if r := c.run("fact", "search", "tea?", "--user", "bob"); r.out != "" || !strings.Contains(r.err, "nothing was found") {
		t.Errorf("bob finds %+v", r)
	}
	if got := one(t, c.objects("fact", "update", id, "I prefer", "coffee", "--user", "ada")); got["memory"] != "I prefer coffee" {
		t.Errorf("updated %v", got)
	}
	if out := c.ok("fact", "delete", id); out != "deleted 1\n" {
		t.Errorf("deleted %q", out)
	}
	var events []any
	for _, r := range c.objects("fact", "history", id) {
		events = append(events, []any{r["memory_id"], r["event"], r["old_value"], r["new_value"], r["is_deleted"], r["user_id"]})
	}
	wantEvents := []any{
		[]any{id, "ADD", nil, "I prefer tea", false, "ada"},
		[]any{id, "UPDATE", "I prefer tea", "I prefer coffee", false, "ada"},
		[]any{id, "DELETE", "I prefer coffee", nil, true, "ada"},
	}
	if !reflect.DeepEqual(events, wantEvents) {
		t.Errorf("history %v\nwant    %v", events, wantEvents)
	}
	for _, verb := range []string{"get", "delete", "history"} {
		if verb != "history" {
			c.fails(exitNotFound, "ID", "fact", verb, id)
		}
		c.fails(exitNotFound, "ID", "fact", verb, "nothing")
	}
	c.fails(exitNotFound, "ID", "fact", "update", id, "x")
	c.ok("check")
}

// Messages come from a file in each of its forms, and from the input.
func TestFactMessages(t *testing.T) {
	for name, file := range map[string]string{
		"list":  `[{"role":"user","content":"I live in Ghent"},{"role":"assistant","content":"Since when?"},{"role":"user","content":"thanks!"}]`,
		"lines": "{\"role\":\"user\",\"content\":\"I live in Ghent\"}\n{\"role\":\"assistant\",\"content\":\"Since when?\"}\n{\"role\":\"user\",\"content\":\"thanks!\"}\n",
		"text":  `"I live in Ghent"`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCLI(t)
			path := filepath.Join(t.TempDir(), "chat.json")
			if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			c.ok("fact", "add", "--messages", path, "--user", "ada")
			if got := factTexts(c, "--user", "ada"); !slices.Equal(got, []string{"I live in Ghent"}) {
				t.Errorf("facts %q", got)
			}
			c.in = strings.NewReader(file)
			c.ok("fact", "add", "--messages", "-", "--user", "bob", "--infer", "false")
			want := []string{"I live in Ghent", "Since when?", "thanks!"}
			if name == "text" {
				want = want[:1]
			}
			if got := factTexts(c, "--user", "bob"); !slices.Equal(got, want) {
				t.Errorf("facts %q, want %q", got, want)
			}
		})
	}
	c := newCLI(t)
	c.in = strings.NewReader("I like tea\n")
	c.ok("fact", "add", "-", "--run", "r")
	if got := factTexts(c, "--run", "r"); !slices.Equal(got, []string{"I like tea"}) {
		t.Errorf("facts %q", got)
	}
}

func factTexts(c *cli, args ...string) (texts []string) {
	c.t.Helper()
	for _, o := range c.objects(append([]string{"fact", "list"}, args...)...) {
		texts = append(texts, o["memory"].(string))
	}
	return texts
}

// A list has pages; delete-all and reset see facts alone; a reset holds in a copy that an
// import makes, and hides nothing that was added after it.
func TestFactsOfMany(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "no fact", "--user", "ada")
	for _, text := range []string{"tea one", "tea two", "tea three"} {
		c.ok("fact", "add", text, "--user", "ada")
	}
	c.ok("fact", "add", "tea four", "--user", "bob")
	r := c.run("fact", "list", "--user", "ada", "--limit", "2", "--json")
	next := one(t, parseLines(t, r.err))["next"].(string)
	if lines := parseLines(t, r.out); len(lines) != 2 || next == "" {
		t.Fatalf("%+v", r)
	}
	if got := factTexts(c, "--user", "ada", "--limit", "2", "--after", next); !slices.Equal(got, []string{"tea three"}) {
		t.Errorf("the second page %q", got)
	}
	if out := c.ok("fact", "delete-all", "--user", "ada"); out != "deleted 3\n" {
		t.Errorf("delete-all: %q", out)
	}
	if got := len(c.objects("list", "--all-scopes")); got != 2 {
		t.Errorf("%d memories are left", got)
	}
	gone := c.objects("fact", "list", "--user", "bob")[0]["id"].(string)
	c.fails(exitUsage, "say so with --yes", "fact", "reset")
	if out := c.ok("fact", "reset", "--yes", "--json"); out != "{\"deleted\":1}\n" {
		t.Errorf("reset: %q", out)
	}
	c.ok("fact", "add", "tea four", "--user", "bob")
	kept := c.objects("fact", "list", "--user", "bob")[0]["id"].(string)
	file := filepath.Join(t.TempDir(), "all.jsonl")
	c.ok("export", file)
	other := newCLI(t)
	other.ok("import", file)
	for _, c := range []*cli{c, other} {
		c.fails(exitNotFound, "a reset came after it", "fact", "history", gone)
		if got := c.objects("fact", "history", kept); len(got) != 1 {
			t.Errorf("history after the reset: %v", got)
		}
		c.ok("check")
	}
}

func TestFactsBadInput(t *testing.T) {
	c := newCLI(t)
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`[{"role":"user","content":"x"},7]`), 0o600); err != nil {
		t.Fatal(err)
	}
	add := func(args ...string) []string { return append([]string{"fact", "add"}, args...) }
	for _, test := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "give --user, --agent or --run", add("tea")},
		{exitUsage, "--user is empty", add("tea", "--user", "")},
		{exitUsage, "there is no text", add("--user", "u")},
		{exitUsage, "the text is empty", add("", "--user", "u")},
		{exitUsage, "no other text", add("tea", "--messages", bad, "--user", "u")},
		{exitFailed, `in the place of a message`, add("--messages", bad, "--user", "u")},
		{exitFailed, "check the path", add("--messages", bad+"x", "--user", "u")},
		{exitFailed, "the name of the file is empty", add("--messages", "", "--user", "u")},
		{exitUsage, "neither true nor false", add("tea", "--user", "u", "--infer=perhaps")},
		{exitUsage, "--metadata", add("tea", "--user", "u", "--metadata", "[1]")},
		{exitUsage, "--filter", add("tea", "--user", "u", "--filter", "a ==")},
		{exitUsage, "add, search, list", []string{"fact"}},
		{exitUsage, "no verb", []string{"fact", "forget"}},
		{exitFailed, "no database", []string{"fact", "list", "--user", "u"}},
	} {
		c.fails(test.code, test.want, test.args...)
	}
	if _, err := os.Stat(c.dir); err == nil {
		t.Error("wrong usage made a database")
	}
	c.ok("fact", "add", "tea", "--user", "u")
	for _, test := range []struct {
		want string
		args []string
	}{
		{"give --user, --agent or --run", []string{"fact", "list"}},
		{"give --user, --agent or --run", []string{"fact", "search", "tea"}},
		{"give --user, --agent or --run", []string{"fact", "delete-all"}},
		{"there is no query", []string{"fact", "search", "--user", "u"}},
		{"query is empty", []string{"fact", "search", "", "--user", "u"}},
		{"not within 1 and 10,000", []string{"fact", "search", "tea", "--user", "u", "--limit", "0"}},
		{"not within 1 and 10,000", []string{"fact", "list", "--user", "u", "--limit", "10001"}},
		{"cursor", []string{"fact", "list", "--user", "u", "--after", "x"}},
		{"one ID", []string{"fact", "get"}},
		{"an ID and a text", []string{"fact", "update", "i"}},
	} {
		c.fails(exitUsage, test.want, test.args...)
	}
}

// An add is one commit: where the program is killed, each add that it acknowledged is there,
// and the one that ran is there whole or not at all.
func TestFactsKilled(t *testing.T) {
	const adds, each = 2_000, 40
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	messages := filepath.Join(t.TempDir(), "chat.jsonl")
	var chat, verbs strings.Builder
	for i := range each {
		fmt.Fprintf(&chat, `{"role":"user","content":"fact number %d of this run"}`+"\n", i)
	}
	if err := os.WriteFile(messages, []byte(chat.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range adds {
		fmt.Fprintf(&verbs, "fact add --messages '%s' --user ada --run r%d\n", filepath.ToSlash(messages), i)
	}
	for range 3 {
		c := newCLI(t)
		acked := killedShell(t, c.dir, verbs.String(), 1+rng.IntN(60), time.Duration(rng.IntN(5_000))*time.Microsecond)
		there := c.objects("groups", "--user", "ada", "--by", "run")
		if len(there) != acked && len(there) != acked+1 || acked == adds {
			t.Fatalf("%d adds were acknowledged, and %d are there", acked, len(there))
		}
		for i, g := range there {
			if g["memories"] != float64(each) {
				t.Errorf("run %d has %v facts of %d", i, g["memories"], each)
			}
		}
		if r := one(t, c.objects("check")); r["ok"] != true {
			t.Errorf("check %v", r)
		}
		t.Logf("killed after %d adds; %d are there", acked, len(there))
	}
}

// killedShell runs verbs in a shell that is a process of its own, kills it so long after it
// has answered a number of them, and returns how many it has answered.
func killedShell(t *testing.T, dir, verbs string, after int, delay time.Duration) (answered int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "--db", dir, "--json", "--quiet", "shell")
	cmd.Env = append(os.Environ(), "MEMDBCTL_TEST_MAIN=1")
	cmd.Stdin = strings.NewReader(verbs)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for {
		if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"results":[`) {
			break // a line that was cut acknowledges nothing
		}
		if answered++; answered == after {
			time.AfterFunc(delay, func() { _ = cmd.Process.Kill() }) // it may have ended
		}
	}
	_ = cmd.Wait() // it was killed
	return answered
}
