package cli

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// linesVar sets how many lines TestImportResumed imports.
	linesVar    = "MEMDB_IMPORT_LINES"
	resumeLines = 12_000
	// resumeKills is how many imports are killed before one may end.
	resumeKills = 5
)

// writeLines writes a file of lines of which every fourth has an ID, and every fifth
// the text of the one before.
func writeLines(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lines.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	for i := range n {
		id := ""
		if i%4 == 0 {
			id = fmt.Sprintf(`"id":"own %d",`, i)
		}
		text := i
		if i%5 == 4 {
			text--
		}
		fmt.Fprintf(out, `{%s"user":"u%d","text":"a line that says %d, and goes on for some time about tea, kilns and the weather","metadata":{"line":%d}}`+"\n", id, i%3, text, i)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// An import that is killed again and again, and run again, stores every line once.
func TestImportResumed(t *testing.T) {
	race.Sequential(t)
	n := resumeLines
	if v, err := strconv.Atoi(os.Getenv(linesVar)); err == nil {
		n = v
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := newCLI(t)
	file := writeLines(t, n)
	// Each kill comes a little later than one that left nothing new.
	delay, kills := 20*time.Millisecond*time.Duration(max(n/resumeLines, 1)), 0
	for stored := 0; kills < resumeKills && stored < n; {
		wait := delay + time.Duration(rng.Int64N(int64(delay)))
		if _, err := importProcess(t, c.dir, file, wait); err == nil {
			break // it was done before
		}
		now := countLines(t, c.dir, n)
		if now < stored {
			t.Fatalf("%d lines after a kill, %d before", now, stored)
		}
		if now == stored {
			delay += delay / 2
			continue
		}
		kills, stored = kills+1, now
		t.Logf("killed after %v with %d lines stored", wait, stored)
	}
	if kills == 0 {
		t.Fatal("no import was killed on its way")
	}
	if out, err := importProcess(t, c.dir, file, 0); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := countLines(t, c.dir, n); got != n {
		t.Fatalf("%d lines of %d", got, n)
	}
	if r := one(t, c.objects("check")); r["ok"] != true || r["memories"] != float64(n) {
		t.Errorf("check %v", r)
	}
	t.Logf("%d lines, killed %d times on the way: every line once", n, kills)
}

// importProcess runs an import in a process of its own, which is killed so long after
// there is a database, if that is not 0. It fails where the process was killed.
func importProcess(t *testing.T, dir, file string, killAfter time.Duration) (out string, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "--db", dir, "import", file, "--json")
	cmd.Env = append(os.Environ(), "MEMDBCTL_TEST_MAIN=1")
	var both strings.Builder
	cmd.Stdout, cmd.Stderr = &both, &both
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, killer := make(chan struct{}), sync.WaitGroup{}
	if killAfter > 0 {
		killer.Go(func() { killInTime(cmd, dir, killAfter, ended) })
	}
	err = cmd.Wait()
	close(ended)
	killer.Wait()
	return both.String(), err
}

// killInTime kills an import so long after there is a database.
func killInTime(cmd *exec.Cmd, dir string, after time.Duration, ended <-chan struct{}) {
	passes := func(d time.Duration) bool {
		select {
		case <-ended:
			return false
		case <-time.After(d):
			return true
		}
	}
	for there := false; !there; there, _ = engine.Exists(dir) {
		if !passes(time.Millisecond) {
			return
		}
	}
	if passes(after) {
		_ = cmd.Process.Kill() // it may have ended
	}
}

// countLines counts the lines that are stored, each of which must be there once.
func countLines(t *testing.T, dir string, n int) int {
	t.Helper()
	if there, err := engine.Exists(dir); err != nil || !there {
		return 0
	}
	db, err := engine.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	seen := make([]bool, n)
	count := 0
	for m, err := range db.Memories().All(t.Context(), memory.ListQuery{AllScopes: true, Limit: memory.MaxLimit}) {
		if err != nil {
			t.Fatal(err)
		}
		i, err := strconv.Atoi(fmt.Sprint(m.Metadata["line"]))
		if err != nil || seen[i] {
			t.Fatalf("line %d is there twice, %v", i, err)
		}
		seen[i] = true
		count++
	}
	return count
}

// An import of an export, with its histories, that is killed and run again makes a
// database that exports to the same bytes.
func TestImportOfAnExportResumed(t *testing.T) {
	race.Sequential(t)
	const n = 4000
	c, d := newCLI(t), newCLI(t)
	var first, second strings.Builder
	for i := range n {
		line := fmt.Sprintf(`{"id":"%d","agent":"a%d","text":"the text number %d`, i, i%3, i)
		first.WriteString(line + "\"}\n")
		if i%3 == 0 {
			second.WriteString(line + " is now another\"}\n")
		}
		if i%5 == 0 {
			fmt.Fprintf(&second, `{"type":"kv","agent":"a","key":"k%d","value":{"n":%d}}`+"\n", i, i)
		}
	}
	c.ok("import", c.file("first.jsonl", first.String()))
	c.ok("import", c.file("second.jsonl", second.String()), "--upsert")
	c.ok("delete", "--all", "--agent", "a1", "--filter", "text contains 77")
	want := c.ok("export", "-")
	file := c.file("all.jsonl", want)
	kills := 0
	for wait := 10 * time.Millisecond; kills < 3; wait += wait / 2 {
		if _, err := importProcess(t, d.dir, file, wait); err == nil {
			break
		}
		if there, err := engine.Exists(d.dir); err == nil && there {
			kills++
		}
	}
	if kills == 0 {
		t.Fatal("no import was killed on its way")
	}
	if out, err := importProcess(t, d.dir, file, 0); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := d.ok("export", "-"); got != want {
		t.Errorf("after %d kills %d bytes are exported, want %d", kills, len(got), len(want))
	}
	if r := one(t, d.objects("check")); r["ok"] != true {
		t.Errorf("check %v", r)
	}
	t.Logf("%d lines, killed %d times on the way", strings.Count(want, "\n"), kills)
}
