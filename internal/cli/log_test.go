package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// TestLogTail: what was written is listed in its order, with its values, from an LSN on.
func TestLogTail(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "Ada drinks tea", "--user", "ada", "--id", "i")
	c.ok("store", "Ben walks", "--user", "ben")
	c.ok("update", "i", "Ada drinks coffee", "--user", "ada")
	c.ok("delete", "i", "--user", "ada")
	all := c.objects("log", "tail")
	if len(all) != 4 {
		t.Fatalf("%d changes: %v", len(all), all)
	}
	for i, want := range []string{"add", "add", "update", "delete"} {
		keys := slices.Sorted(maps.Keys(all[i]))
		equal := slices.Equal(keys, []string{"after", "agent", "before", "change", "id", "lsn", "op", "reason", "run", "seq", "time", "user"})
		if all[i]["op"] != want || all[i]["lsn"] != float64(i+1) || all[i]["change"] != 0.0 || !equal {
			t.Errorf("change %d is %v", i, all[i])
		}
	}
	update := all[2]
	if update["before"].(map[string]any)["text"] != "Ada drinks tea" || update["after"].(map[string]any)["text"] != "Ada drinks coffee" || all[3]["after"] != nil {
		t.Errorf("the update is %v, the delete %v", update, all[3])
	}
	for args, want := range map[string]string{
		"--from 2 --limit 2": "2 3", "--limit 1": "1", "--from 5": "", "--user ada": "1 3 4", "--from 3 --user ben": "", "--limit 0": "1 2 3 4",
	} {
		var lsns []string
		for _, o := range c.objects(append([]string{"log", "tail"}, strings.Fields(args)...)...) {
			b, err := json.Marshal(o["lsn"])
			if err != nil {
				t.Fatal(err)
			}
			lsns = append(lsns, string(b))
		}
		if got := strings.Join(lsns, " "); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
	lines := strings.Split(strings.TrimSuffix(c.ok("log", "tail"), "\n"), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[2], "3.0\t") || !strings.Contains(lines[2], "update\tuser ada\ti\t\tAda drinks coffee") && !strings.Contains(lines[2], "Ada drinks coffee") {
		t.Errorf("for people:\n%s", strings.Join(lines, "\n"))
	}
	c.fails(exitUsage, "negative", "log", "tail", "--limit", "-1")
	c.fails(exitUsage, "from", "log", "tail", "--from", "x")
	c.fails(exitUsage, "no argument", "log", "tail", "3")
	c.fails(exitUsage, "it takes tail", "log")
	c.fails(exitUsage, "nosuch", "log", "nosuch")
}

// TestLogTailBehind: below the floor it fails, and names the floor.
func TestLogTailBehind(t *testing.T) {
	c := newCLI(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	db, err := engine.Open(c.dir, &engine.Options{Clock: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	p := policy.Default()
	p.Log = policy.Span(time.Minute)
	if _, err := db.Policies().Set(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		if _, err := db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: text}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Reset(t.Context()); err != nil { // after which the log begins with it
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c.fails(exitFailed, "from LSN 4", "log", "tail", "--from", "2")
	if got := c.objects("log", "tail"); len(got) != 1 || got[0]["op"] != "reset" {
		t.Errorf("from the floor: %v", got)
	}
}

// TestLogTailFollow: a follower prints what is there at once, waits, and ends with exit 0; where
// its output is closed it ends, too.
func TestLogTailFollow(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "one", "--user", "u")
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	con := c.console
	var errors strings.Builder
	con.out, con.err = w, &errors
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"--db", c.dir, "log", "tail", "--follow", "--json"}, con) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || !strings.Contains(line, `"text":"one"`) {
		t.Errorf("the first line is %q: %v", line, err)
	}
	cancel()
	if got := <-code; got != exitDone || errors.Len() > 0 {
		t.Errorf("exit %d: %s", got, errors.String())
	}
	_ = r.Close()
	go func() { code <- run(t.Context(), []string{"--db", c.dir, "log", "tail", "--follow", "--json"}, con) }()
	if got := <-code; got != exitFailed {
		t.Errorf("with a closed output: exit %d", got)
	}
}
