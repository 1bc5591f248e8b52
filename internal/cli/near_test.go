package cli

import (
	"strings"
	"testing"
)

// TestNearHits: a hit by near words alone says so in a table, in JSON and in why, and its line can be imported.
func TestNearHits(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "--user", "ada", "--id", "near", "Wants more cofee.")
	c.ok("store", "--user", "ada", "--id", "own", "Prefers coffee in the morning.")
	lines := c.ok("--json", "recall", "--user", "ada", "coffee")
	hits := parseLines(t, lines)
	if len(hits) != 2 || hits[0]["id"] != "own" || hits[0]["near"] != nil || hits[1]["id"] != "near" || hits[1]["near"] != true {
		t.Fatalf("found %v", hits)
	}
	if out := c.ok("recall", "--user", "ada", "coffee"); strings.Count(out, "by words near those of the query alone") != 1 {
		t.Errorf("printed %s", out)
	}
	if why := one(t, parseLines(t, c.ok("--json", "why", "--user", "ada", "near", "coffee"))); why["near"] != true {
		t.Errorf("why says %v", why)
	}
	again := newCLI(t)
	if got := one(t, again.objects("import", again.file("hits.jsonl", lines))); got["stored"] != 2.0 {
		t.Errorf("imported %v", got)
	}
}
