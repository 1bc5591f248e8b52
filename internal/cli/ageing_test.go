package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// confidenceOf is the confidence that get prints.
func (c *cli) confidenceOf(t *testing.T, id string) any {
	t.Helper()
	return one(t, c.objects("get", id))["confidence"]
}

// TestDecayOfImportedLines: lines of 8 days ago decay by later consolidations, and no longer
// once they are recalled.
func TestDecayOfImportedLines(t *testing.T) {
	c := newCLI(t)
	old := time.Now().Add(-8 * 24 * time.Hour).UTC().Format(time.RFC3339)
	var lines strings.Builder
	for _, id := range []string{"tea", "coffee"} {
		fmt.Fprintf(&lines, `{"id":%q,"agent":"a","text":"%s in the morning","created_at":%q,"confidence":1}`+"\n", id, id, old)
	}
	c.ok("import", c.file("old.jsonl", lines.String()))
	c.ok("store", "milk", "--agent", "a", "--id", "milk")
	for range 2 {
		if got := one(t, c.objects("consolidate", "--rate", ".05")); got["memories_decayed"] != 2.0 || got["processed"] != 3.0 {
			t.Errorf("consolidate: %v", got)
		}
	}
	for id, want := range map[string]float64{"tea": .9025, "coffee": .9025, "milk": 1} {
		if got := c.confidenceOf(t, id); got != want {
			t.Errorf("%s has the confidence %v, want %v", id, got, want)
		}
	}
	c.ok("recall", "tea", "--agent", "a", "--limit", "1")
	if got := one(t, c.objects("consolidate", "--rate", ".05", "--agent", "a")); got["memories_decayed"] != 1.0 {
		t.Errorf("consolidate: %v", got)
	}
	if got := c.confidenceOf(t, "tea"); got != .9025 {
		t.Errorf("after a recall the confidence is %v", got)
	}
	// An export has what is now, and an import replays nothing.
	other := newCLI(t)
	exported := c.ok("export", "-")
	other.ok("import", other.file("memories.jsonl", exported))
	if got := other.ok("export", "-"); got != exported {
		t.Errorf("exported\n%s\nand after an import\n%s", exported, got)
	}
	if got := other.confidenceOf(t, "coffee"); got != .857375 {
		t.Errorf("imported with the confidence %v", got)
	}
	if got := c.ok("import", c.file("memories.jsonl", exported), "--json"); !strings.Contains(got, `"unchanged":3,"skipped":0`) {
		t.Errorf("imported into itself: %s", got)
	}
}

func TestPolicyVerbs(t *testing.T) {
	c := newCLI(t)
	c.fails(exitUsage, "there is no key", "policy", "set", "rates=1")
	c.fails(exitUsage, "rate: 2 is not within 0 and 1", "policy", "set", "rate=2")
	c.fails(exitUsage, "cap: 0 is not within", "policy", "set", "cap=0")
	c.fails(exitUsage, "not within 0 and 1", "policy", "set", "floor=NaN")
	c.fails(exitUsage, "no cron expression", "policy", "set", "evict_cron=daily")
	c.fails(exitUsage, "there is no preset", "policy", "set", "--preset", "best")
	c.fails(exitUsage, "not KEY=VALUE", "policy", "set", "rate")
	c.fails(exitUsage, "it takes KEY=VALUE", "policy", "set")
	if set := one(t, c.objects("policy", "set", "rate=0.1", "max_age_ms=60d")); set["version"] != 1.0 || set["lsn"] != 1.0 || set["rate"] != .1 || set["max_age_ms"] != 5184000000.0 {
		t.Errorf("set: %v", set)
	}
	if set := one(t, c.objects("policy", "set", "--preset", "substrate", "cap=7")); set["version"] != 2.0 || set["rate"] != .05 || set["prune_below"] != .1 || set["cap"] != 7.0 {
		t.Errorf("set: %v", set)
	}
	shown := one(t, c.objects("policy", "show"))
	if shown["preset"] != "substrate" || shown["version"] != 2.0 {
		t.Errorf("show: %v", shown)
	}
	c.ok("store", "ok", "--user", "u", "--id", "m")
	if shown := c.ok("policy", "show"); !strings.Contains(shown, "preset\t\"substrate\"\n") || !strings.Contains(shown, "kinds\t[\"message\"") {
		t.Errorf("show:\n%s", shown)
	}
	if m := one(t, c.objects("get", "m")); m["importance"] != 1.0 {
		t.Errorf("under substrate the importance is %v", m["importance"])
	}
	c.fails(exitUsage, "rate: 1.5", "consolidate", "--rate", "1.5")
	c.fails(exitUsage, "rate: NaN", "consolidate", "--rate", "NaN")
	c.ok("check")
}

// TestEvictVerb: a dry run prints the same victims as the run, and the last line is the sum.
func TestEvictVerb(t *testing.T) {
	c := newCLI(t)
	old := time.Now().Add(-31 * 24 * time.Hour).UTC().Format(time.RFC3339)
	c.ok("import", c.file("all.jsonl", fmt.Sprintf(`{"id":"old","agent":"a","text":"ok","role":"tool","created_at":%q,"access_count":2,"last_accessed":%[1]q}
{"id":"pinned","agent":"a","text":"ok then","role":"tool","created_at":%[1]q,"pinned":true}
{"id":"note","agent":"a","kind":"note","text":"ok","confidence":0}
{"id":"unsure","agent":"a","text":"perhaps","confidence":0.05,"importance":0.5}
{"id":"first","agent":"a","text":"one","importance":0.5}
{"id":"second","agent":"a","text":"two","importance":0.5}
`, old)))
	dry := c.objects("evict", "--dry-run", "--cap", "2", "--agent", "a")
	done := c.objects("evict", "all", "--cap", "2")
	if len(dry) != 4 || len(done) != 4 {
		t.Fatalf("planned %v, evicted %v", dry, done)
	}
	for i, want := range []struct{ id, reason string }{{"old", "age"}, {"unsure", "confidence"}, {"first", "cap"}} {
		for _, got := range []map[string]any{dry[i], done[i]} {
			if got["id"] != want.id || got["reason"] != want.reason || got["agent"] != "a" || len(got) != 9 {
				t.Errorf("victim %d: %v, want %v", i, got, want)
			}
		}
	}
	if dry[0]["last_accessed"] != old || dry[1]["last_accessed"] != nil {
		t.Errorf("last accessed: %v, %v", dry[0]["last_accessed"], dry[1]["last_accessed"])
	}
	sum, reasons := done[3], map[string]any{"age": 1.0, "confidence": 1.0, "cap": 1.0}
	if sum["evicted"] != 3.0 || sum["dry_run"] != false || fmt.Sprint(sum["reasons"]) != fmt.Sprint(reasons) || sum["policy"] != 0.0 || dry[3]["dry_run"] != true {
		t.Errorf("sum %v after %v", sum, dry[3])
	}
	h := c.objects("history", "first")
	if last := h[len(h)-1]; last["reason"] != "evicted:cap" || last["is_deleted"] != true {
		t.Errorf("history: %v", last)
	}
	c.fails(exitNotFound, "there is none", "get", "first")
	other := newCLI(t)
	exported := c.ok("export", "-")
	other.ok("import", other.file("memories.jsonl", exported))
	if got := other.ok("export", "-"); got != exported {
		t.Errorf("exported\n%s\nand after an import\n%s", exported, got)
	}
	for _, age := range []string{"-1d", "30", "0", "1.5", "d"} {
		c.fails(exitUsage, "no length of time", "evict", "--max-age", age)
	}
	c.fails(exitUsage, "no duration", "kv", "put", "a", "1", "--user", "u", "--ttl", "30")
	c.fails(exitUsage, "no duration", "evict", "--wait", "30")
	c.fails(exitUsage, "cap: 0", "evict", "--cap", "0")
	c.fails(exitUsage, "all excludes", "evict", "all", "--agent", "a")
	c.fails(exitUsage, "nothing, or all", "evict", "old")
	c.ok("check")
}

// TestUndoVerb: what a trash keeps comes back once.
func TestUndoVerb(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "perhaps", "--agent", "a", "--id", "m", "--confidence", "0.05", "--embedding", "[1,0]")
	c.ok("policy", "set", "trash_ms=0")
	lost := c.objects("evict")
	c.fails(exitFailed, "the trash has nothing of it", "evict", "--undo", fmt.Sprint(lost[1]["lsn"]))
	c.ok("policy", "set", "trash_ms=1h")
	c.ok("store", "perhaps", "--agent", "a", "--id", "m", "--confidence", "0.05", "--embedding", "[1,0]")
	c.ok("store", "perhaps not", "--agent", "a", "--id", "n", "--confidence", "0.05")
	done := c.objects("evict")
	lsn := fmt.Sprint(done[2]["lsn"])
	if got := one(t, c.objects("evict", "--undo", lsn)); got["restored"] != 2.0 || got["without_vectors"] != 0.0 {
		t.Errorf("undo: %v", got)
	}
	if m := one(t, c.objects("get", "m", "--vectors")); m["confidence"] != .05 || m["embedding"] == nil {
		t.Errorf("it came back as %v", m)
	}
	c.fails(exitFailed, "undo LSN ", "evict", "--undo", lsn)
	c.fails(exitUsage, "--undo excludes --cap", "evict", "--undo", lsn, "--cap", "3")
	c.fails(exitUsage, "--undo excludes --rate", "consolidate", "--undo", lsn, "--rate", ".1")
	c.ok("check")
}

// TestConsolidateVerb: a dry run shows the texts of what would be merged and pruned, and the run is
// undone by the LSN that it prints.
func TestConsolidateVerb(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "Ada is not allergic to peanuts", "--agent", "a", "--id", "not")
	c.ok("store", "Ada is now allergic to peanuts", "--agent", "a", "--id", "now")
	c.ok("store", "Ada is now allergic to peanuts.", "--agent", "a", "--id", "again")
	old := time.Now().Add(-90 * 24 * time.Hour).UTC().Format(time.RFC3339)
	c.ok("import", c.file("old.jsonl", fmt.Sprintf(`{"id":"faded","agent":"a","text":"long ago","importance":0.3,"created_at":%q}`, old)))
	dry := c.objects("consolidate", "--dry-run", "--prune", ".01")
	if len(dry) != 3 || fmt.Sprint(dry[0]) != fmt.Sprint(map[string]any{"id": "faded", "text": "long ago", "reason": "pruned"}) ||
		fmt.Sprint(dry[1]) != fmt.Sprint(map[string]any{
			"id": "now", "text": "Ada is now allergic to peanuts", "into": "again", "into_text": "Ada is now allergic to peanuts.", "by": "edit", "score": 1.0,
		}) {
		t.Fatalf("dry run: %v", dry)
	}
	done := one(t, c.objects("consolidate", "--prune", ".01"))
	if done["memories_merged"] != 1.0 || done["merged"] != 1.0 || done["deleted"] != 1.0 || fmt.Sprint(done["merges"]) != fmt.Sprint([]any{done["lsn"]}) {
		t.Errorf("consolidate: %v", done)
	}
	if got := one(t, c.objects("consolidate", "--undo", fmt.Sprint(done["lsn"]))); got["restored"] != 2.0 {
		t.Errorf("undo: %v", got)
	}
	if again := one(t, c.objects("consolidate")); again["merged"] != 0.0 || fmt.Sprint(again["merges"]) != "[]" {
		t.Errorf("again: %v", again)
	}
	c.ok("check")
}
