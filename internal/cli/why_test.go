package cli

import (
	"fmt"
	"strings"
	"testing"
)

// TestWhy: the answer to "why is it not found", its exit codes, and that nothing is told of what is
// outside the scope.
func TestWhy(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "Ada drinks green tea", "--id", "tea", "--user", "ada")
	c.ok("store", "tea or coffee", "--id", "both", "--user", "ada")
	c.ok("store", "the rain in Ghent", "--id", "rain", "--user", "ada")
	c.ok("store", "no tea any more", "--id", "gone", "--user", "ada")
	c.ok("delete", "gone", "--user", "ada")
	c.ok("store", "bob's secret tea", "--id", "theirs", "--user", "bob")
	for _, tc := range []struct {
		args, reason string
		text         []string
	}{
		{"tea green tea --user ada", "found", []string{"tea is found: it has rank 1 of 2", "user ada", "green: in 1 memory, and in this one", "part\tbm25 "}},
		{"both green --user ada --profile text", "no_match", []string{"has no word of the query", "found in its place:", "green: in 1 memory, not in this one"}},
		{"both green tea --user ada --limit 1", "limit", []string{"rank 2 of 2", "give a higher --limit", "before it:"}},
		{"tea tea --user ada --filter run=r1", "filter", []string{"the filter does not hold", "fails the filter\trun = r1"}},
		{"tea green --user ada --min-score 1000", "min_score", []string{"give a lower --min-score"}},
		{"tea +coffee --user ada --syntax operators", "demanded", []string{"operators"}},
		{"gone tea --user ada", "deleted", []string{"it was deleted at "}},
		{"theirs tea --all-scopes", "found", []string{"user bob"}},
		{`tea green --scope {"user":"ada"} --scope {"user":"eve"}`, "found", nil},
		{"tea coffeee --user ada", "no_match", nil},
	} {
		args := append([]string{"why"}, strings.Fields(tc.args)...)
		got := one(t, c.objects(args...))
		if got["reason"] != tc.reason || got["found"] != (tc.reason == "found") {
			t.Errorf("%s: %v", tc.args, got)
		}
		out := c.ok(args...)
		for _, want := range tc.text {
			if !strings.Contains(out, want) {
				t.Errorf("%s lacks %q:\n%s", tc.args, want, out)
			}
		}
		if tc.args != "theirs tea --all-scopes" && (strings.Contains(out+fmt.Sprint(got), "theirs") || strings.Contains(out, "secret")) {
			t.Errorf("%s tells of another user:\n%s", tc.args, out)
		}
	}
	c.fails(exitNotFound, "there is none in this scope", "why", "theirs", "tea", "--user", "ada")
	c.fails(exitNotFound, "there is none in this scope", "why", "never", "tea", "--user", "ada")
	c.fails(exitUsage, "no ID", "why")
	c.fails(exitUsage, "no query", "why", "tea", "--user", "ada")
	c.fails(exitUsage, "stand alone", "why", "tea", "tea", "--user", "ada", "--scope", `{"user":"bob"}`)
	if got := one(t, c.objects("get", "tea", "--user", "ada")); got["access_count"] != float64(0) {
		t.Errorf("the question was counted: %v", got)
	}
}

// TestStatsSince: growth since a day or so long ago, and units for people.
func TestStatsSince(t *testing.T) {
	c := newCLI(t)
	c.ok("store", strings.Repeat("a long text ", 400), "--user", "ada")
	c.ok("store", "short", "--id", "m", "--user", "ada")
	c.ok("session", "append", "run", "hello", "--user", "ada", "--no-memory")
	c.ok("delete", "m", "--user", "ada")
	for _, since := range []string{"1h", "2020-01-01", "365d"} {
		got := one(t, c.objects("stats", "--since", since))
		if got["memories"] != 2.0 || got["living"] != 1.0 || got["deleted"] != 1.0 || got["messages"] != 1.0 || got["whole"] != true || got["bytes"].(float64) < 1000 {
			t.Errorf("since %s: %v", since, got)
		}
	}
	c.fails(exitUsage, "give it as", "stats", "--since", "12")
	c.fails(exitUsage, "still to come", "stats", "--since", "2999-01-01")
	c.fails(exitUsage, "exclude each other", "stats", "--since", "1h", "--by", "user")
	c.outWidth = 80
	if out := c.ok("stats", "--since", "1h"); !strings.Contains(out, " KiB") || !strings.Contains(out, "memories  2") {
		t.Error(out)
	}
	if out := c.ok("stats"); !strings.Contains(out, "structures.store_logs") || !strings.Contains(out, " B") {
		t.Error(out)
	}
}
