package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// The life of usage: calls, totals, a ranking, a budget, a roll-up; an export and an import
// keep all of it, and an agent goes with all that it has.
func TestUsageOfModels(t *testing.T) {
	c := newCLI(t)
	c.ok("usage", "add", "--agent", "a1", "--model", "small", "--prompt", "1200", "--completion", "300", "--cost", "0.0123", "--at", "2026-11-19T10:00:00Z")
	c.ok("usage", "add", "--agent", "a1", "--user", "ada", "--model", "large", "--prompt", "10", "--cost", "1e-18", "--at", "2026-11-20")
	c.ok("usage", "add", "--agent", "a2", "--model", "small", "--completion", "5", "--cost", "2", "--at", "2026-11-20")
	c.ok("agent", "add", "a1", "--name", "researcher", "--metadata", `{"team": "search"}`)
	c.fails(exitFailed, "it has a manifest", "agent", "add", "a1")
	for args, want := range map[string]string{
		"total":                       `{"records":3,"prompt_tokens":1210,"completion_tokens":305,"total_tokens":1515,"cost_usd":2.012300000000000001}`,
		"total --agent a1":            `{"records":2,"prompt_tokens":1210,"completion_tokens":300,"total_tokens":1510,"cost_usd":0.012300000000000001}`,
		"total --since 2026-11-20":    `{"records":2,"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"cost_usd":2.000000000000000001}`,
		"total --model none":          `{"records":0,"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"cost_usd":0}`,
		"by model --agent a2":         `{"model":"small","records":1,"prompt_tokens":0,"completion_tokens":5,"total_tokens":5,"cost_usd":2}`,
		"by day --until 2026-11-20":   `{"day":"2026-11-19","records":1,"prompt_tokens":1200,"completion_tokens":300,"total_tokens":1500,"cost_usd":0.0123}`,
		"by agent --since 2026-11-99": "",
		"rank":                        `{"agent_id":"a2","name":"a2","cost_usd":2,"total_tokens":5}` + "\n" + `{"agent_id":"a1","name":"researcher","cost_usd":0.012300000000000001,"total_tokens":1510}`,
	} {
		if want == "" {
			c.fails(exitUsage, "is no time", append([]string{"usage"}, strings.Fields(args)...)...)
			continue
		}
		if got := c.ok(append([]string{"usage", "--json"}, strings.Fields(args)...)...); got != want+"\n" {
			t.Errorf("%s: %s want %s", args, got, want)
		}
	}
	c.ok("usage", "budget", "set", "2.5", "--agent", "a2")
	c.ok("usage", "budget", "check", "--agent", "a2", "--cost", "0.5")
	r := c.run("usage", "budget", "check", "--agent", "a2", "--cost", "0.6", "--json")
	if r.code != exitFailed || !strings.HasPrefix(r.out, `{"allowed":false,"spent_usd":2,"limit_usd":2.5`) {
		t.Errorf("%+v", r)
	}
	c.fails(exitFailed, "the budget is 2.5 dollars", "usage", "add", "--agent", "a2", "--model", "m", "--cost", "1", "--within-budget")
	before := c.ok("usage", "by", "day", "--json")
	c.ok("usage", "rollup", "--agent", "a1", "--before", "2026-11-20")
	if after := c.ok("usage", "by", "day", "--json"); after != before {
		t.Errorf("after a roll-up: %s, before %s", after, before)
	}
	c.fails(exitFailed, "whole days", "usage", "total", "--since", "2026-11-19T10:00:00Z")
	file := filepath.Join(t.TempDir(), "all.jsonl")
	c.ok("export", file)
	other := newCLI(t)
	other.ok("import", file)
	if got := one(t, other.objects("import", file)); got["unchanged"] != 5.0 || got["stored"] != 0.0 {
		t.Errorf("imported again: %v", got)
	}
	if got, want := other.ok("export", "-"), c.ok("export", "-"); got != want {
		t.Errorf("exported\n%s\nwant\n%s", got, want)
	}
	c.fails(exitUsage, "say so with --yes", "agent", "delete", "a1")
	deleted := one(t, c.objects("agent", "delete", "a1", "--yes"))["deleted"]
	if got := fmt.Sprint(deleted); got != "map[entities:0 entries:0 memories:0 relations:0 sessions:0 usage:2]" {
		t.Errorf("deleted %s", got)
	}
	c.fails(exitNotFound, "no manifest", "agent", "get", "a1")
	c.ok("check")
	other.ok("check")
}

func TestUsageOfModelsBadInput(t *testing.T) {
	c := newCLI(t)
	thirty := strings.Repeat("1", 30)
	for _, test := range []struct {
		want string
		args []string
	}{
		{"it names no user, agent or run", []string{"usage", "add", "--model", "m"}},
		{"digits before the point", []string{"usage", "add", "--model", "m", "--agent", "a", "--cost", thirty}},
		{"digits behind the point", []string{"usage", "add", "--model", "m", "--agent", "a", "--cost", "0." + thirty}},
		{"it is negative", []string{"usage", "add", "--model", "m", "--agent", "a", "--cost", "-1"}},
		{"add, total, by", []string{"usage"}},
		{"no verb", []string{"agent", "remove"}},
		{"malformed JSON", []string{"agent", "add", "a", "--metadata", "{"}},
		{"given twice", []string{"agent", "add", "a", "--metadata", `{"a":1,"a":2}`}},
		{"no amount", []string{"usage", "budget", "set", "much", "--agent", "a"}},
		{"give --before", []string{"usage", "rollup", "--agent", "a"}},
	} {
		c.fails(exitUsage, test.want, test.args...)
	}
	c.fails(exitFailed, "no database", "usage", "total") // what was refused has made none
}
